/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: policy redirect (NetVM): the system buffer takes packets whose page is absent.
 */
#ifndef UNETMM_REDIRECT_H
#define UNETMM_REDIRECT_H

#include "ep/ep.h"

extern const struct unetmm_policy_ops unetmm_redirect_policy;

#define UNETMM_MOST_CREDITS	64	/* of one channel */

struct unetmm_sysspan {
	u64 addr;
	u32 len;
	u32 from;			/* in the slot's data */
};

/* One slot, and the packet in it. */
struct unetmm_sysjob {
	void *mem;			/* the head, and the data behind it */
	dma_addr_t dma;
	bool busy;			/* reported, and not answered */
	/* While it is busy, q->lock of its queue. */
	struct list_head node;		/* q->jobs */
	u32 slot;
	u32 region;
	bool write;			/* to the region; else a message */
	u64 index;			/* of its report */
	u32 nspans;
	u32 span;			/* the one that is being copied ... */
	u32 done;			/* ... and how much of it has been */
	u32 tries;			/* to have a page, since something was */
	u32 copied;			/* of all spans */
	struct unetmm_sysspan spans[UNETMM_SLOT_PIECES];
	u64 seen_ns;			/* by the interrupt */
	u64 began_ns;
	u64 paging_ns;			/* in all */
	bool paged;			/* had to wait for a page */
};

enum unetmm_stage {
	UNETMM_STAGE_WAIT,		/* from the interrupt to its turn */
	UNETMM_STAGE_PAGE,		/* for its pages, if any was absent */
	UNETMM_STAGE_COPY,
	UNETMM_STAGE_TELL,		/* the card */
	UNETMM_NUM_STAGES
};

struct unetmm_sysbuf {
	struct mutex lock;
	struct unetmm_sysjob *jobs;	/* a slot each; NULL: there is none */
	u32 nslots;
	u32 slot_bytes;
	u32 users;			/* endpoints */
	struct unetmm_redirect_queue **queues;	/* by endpoint */
	u64 *cleared;			/* by region: reports before are void */
	u32 reserved;			/* slots that channels have; ctl.lock */
	struct unetmm_hist stages[UNETMM_NUM_STAGES];
};

/* redirect/system_buffer.c */
void unetmm_sysbuf_init(struct unetmm_dev *dev);
int unetmm_sysbuf_get_lock(struct unetmm_dev *dev);
void unetmm_sysbuf_put(struct unetmm_dev *dev);
void unetmm_sysbuf_reap(struct unetmm_dev *dev);
void unetmm_sysbuf_stop(struct unetmm_dev *dev);
int unetmm_sysbuf_reserve(struct unetmm_ep *ep);
void unetmm_sysbuf_unreserve(struct unetmm_ep *ep, u32 slots);
void unetmm_sysbuf_answer(struct unetmm_dev *dev, struct unetmm_sysjob *job,
			  u8 status);
int unetmm_sysbuf_set_region(struct unetmm_dev *dev, u32 region);

/* redirect/redirect_queue.c */
/* sysbuf.lock; false: its endpoint has gone. */
bool unetmm_redirect_queue_add(struct unetmm_redirect_queue *q, u32 space,
			       struct unetmm_sysjob *job);
void unetmm_redirect_queue_clear_region(struct unetmm_aspace *space, u32 region);

/* redirect/redirect_report.c */
void unetmm_sysbuf_report(struct unetmm_dev *dev,
			  const struct unetmm_fault *rec, u64 index,
			  u64 seen_ns);

#endif /* UNETMM_REDIRECT_H */
