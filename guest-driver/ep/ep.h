/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: endpoints, their policies, posts by the kernel, raw frames.
 */
#ifndef UNETMM_EP_H
#define UNETMM_EP_H

#include <linux/eventfd.h>

#include "memory/memory.h"
#include "ring/ring.h"
#include "source/source.h"

struct unetmm_backup_queue;
struct unetmm_redirect_queue;

/* How a channel is to be; zero: a datagram channel, or the card's defaults. */
struct unetmm_chan_params {
	u8 type;			/* UNETMM_CHANNEL_* */
	bool tell;			/* the process, when the peer closes it */
	bool rewind;			/* UNETMM_CHANNEL_F_REWIND */
	u8 retries;
	u8 not_ready_retries;
	u32 timeout_us;
	u32 not_ready_us;
};

/* The properties that endpoints of a verbs module alone have. */
struct unetmm_ep_lent {
	u32 pd;				/* protection domain; 0: none */
	u16 queue;			/* number of the endpoint whose free queue it uses; 0: its own */
	bool shared;			/* its free queue is for others */
};

/* The part of a policy in the driver.  One file fills one. */
struct unetmm_policy_ops {
	bool late;			/* buffers are looked at when they are used */
	bool bits;			/* an endpoint has some in the backup ring */
	/* For an endpoint that has its number, before the card knows of it. */
	int (*open)(struct unetmm_ep *ep, const struct unetmm_endpoint *a);
	/* The card does not know of it any more; also if `open` has failed. */
	void (*close)(struct unetmm_ep *ep);
};

/* The differences between the policies of endpoints, by the list of the card. */
struct unetmm_policy {
	bool waits;			/* the peer waits, too: reliable channels only */
	bool absent;			/* absent memory is waited for */
	bool raw;			/* raw endpoints may have it */
};

struct unetmm_ep {
	struct kref ref;
	const struct unetmm_policy *policy;	/* NULL: the driver's own */
	const struct unetmm_policy_ops *policy_ops;	/* NULL: the driver adds nothing */
	struct unetmm_dev *dev;
	struct unetmm_file *file;	/* NULL: the driver's own */
	struct unetmm_aspace *space;
	u32 kernel_space;		/* without `space`: its number; 0: the driver's */
	struct list_head node;		/* file->eps: file->lock and map_lock */
	struct unetmm_block *block;
	struct unetmm_ep_index *index;	/* in the block */
	struct eventfd_ctx *eventfd;
	struct rdma_cgroup *group;	/* that has it; set once */
	u32 id;
	u8 flags;			/* UNETMM_EP_F_* */
	u32 sq_log2;
	u32 fq_log2;
	u32 cq_log2;
	u32 sq_offset;
	u32 fq_offset;
	u32 cq_offset;
	bool failed;			/* the card stopped it */
	u8 end_status;			/* UNETMM_ST_*, of NOTIFY_END */
	/* Tells a verbs module that the endpoint has completions or has failed.  Must not sleep. */
	void (*woken)(struct unetmm_ep *ep, u8 type);	/* ep_lock; of a process also map_lock */
	void *owner;			/* the same */
	bool has_channel;		/* channel 0, reliable, set without CONNECT; file->lock */
	struct unetmm_ep_lent lent;
	u32 first_fault;		/* fault records before are another's */
	struct unetmm_kqueues *kq;	/* source ktlb */
	struct unetmm_redirect_queue *redirect_queue;	/* policy redirect */
	struct unetmm_backup_queue *backup_queue;	/* policy backup; ep_lock */
	u32 backup;			/* policy backup: bits */
	struct list_head flows;		/* raw: file->lock */
	struct list_head windows;	/* file->lock and map_lock */

	/* channels: ctl.lock */
	bool closed;
	u64 service;			/* 0: does not listen */
	struct hlist_node service_node;
	u32 takes;			/* UNETMM_LISTEN_* */
	struct unetmm_chan_params params;	/* the reliable ones of these */
	bool announced;			/* UNETMM_IOC_PEERS of other cards finds it */
	char name[TASK_COMM_LEN];	/* of the process that listens */
	u32 backlog;
	u32 nbacklog;
	struct list_head accepts;	/* channels nobody accepted yet */
	struct list_head chans;
	unsigned long *chan_map;	/* numbers in use, or resting */
	struct list_head resting;	/* ended channels, in the order of their ends */
	struct list_head hunt_node;	/* ctl.hunts: it has refused somebody ... */
	bool hunt_all;			/* ... and not for its backlog alone */
	unsigned long *import_map;	/* numbers in use; NULL: the card has none */
	wait_queue_head_t wait;
};

/* ep/object.c */
/* Of the caller's own endpoints: NULL, or a reference; file->lock: none. */
struct unetmm_ep *unetmm_ep_find(struct unetmm_file *file, u32 id);
struct unetmm_ep *unetmm_ep_find_locked(struct unetmm_file *file, u32 id);
struct unetmm_ep *unetmm_ep_alloc(struct unetmm_dev *dev);
bool unetmm_ep_reported(struct unetmm_aspace *space, u32 id, u32 index);
int unetmm_ep_publish(struct unetmm_dev *dev, struct unetmm_ep *ep, u32 from);
void unetmm_ep_unpublish(struct unetmm_ep *ep);
int unetmm_ep_command(struct unetmm_ep *ep, u32 policy, u32 pretranslate);
int unetmm_ep_layout(struct unetmm_ep *ep);
int unetmm_ep_destroy(struct unetmm_ep *ep);
const struct unetmm_cqe *unetmm_ep_peek(const struct unetmm_ep *ep, u32 cons);
bool unetmm_ep_arm(const struct unetmm_ep *ep, u32 cons);
/* Gives the places of completions that were read back to the card; also of use to unetmm_ib.ko. */
static inline void unetmm_ep_cq_release(struct unetmm_ep *ep, u32 cons)
{
	unetmm_mb_before_release();
	WRITE_ONCE(ep->index->user.cq_cons, cpu_to_le32(cons));
}

void unetmm_ep_put(struct unetmm_ep *ep);

/* ep/ep.c */
void unetmm_ep_close(struct unetmm_ep *ep);
void unetmm_ep_gone(struct unetmm_ep *ep);
int unetmm_endpoint_make(struct unetmm_file *file, struct unetmm_endpoint *a,
			 const struct unetmm_ep_lent *lent);
int unetmm_op_endpoint(struct unetmm_file *file, void *arg);
int unetmm_endpoint_destroy(struct unetmm_file *file, struct unetmm_ep *ep,
			    const struct unetmm_destroy *a);

/* ep/kpost.c */
int unetmm_op_post(struct unetmm_file *file, void *arg);

/* ep/kqueue.c */
int unetmm_kqueues_create(struct unetmm_ep *ep);
void unetmm_kqueues_close(struct unetmm_ep *ep);
void unetmm_kqueues_drop(struct unetmm_ep *ep);
void unetmm_kqueues_free(struct unetmm_kqueues *kq);

/* The card's flows.  `map`: numbers in use; NULL while the card does not run. */
struct unetmm_flows {
	struct mutex lock;
	unsigned long *map;
};

/* ep/flow.c */
/* The flow's number, or -errno. */
int unetmm_flow_set(struct unetmm_ep *ep, u8 kind, u8 flags, u16 value,
		    const u8 *mac);
void unetmm_flow_clear(struct unetmm_dev *dev, u32 number);

/* ep/raw.c */
int unetmm_raw_check(const struct unetmm_dev *dev,
		     const struct unetmm_endpoint *a);
int unetmm_op_flow(struct unetmm_file *file, void *arg);
int unetmm_flow_destroy(struct unetmm_file *file, struct unetmm_ep *ep,
			const struct unetmm_destroy *a);
void unetmm_raw_close(struct unetmm_ep *ep);

#endif /* UNETMM_EP_H */
