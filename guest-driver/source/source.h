/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: the sources of translations, and the lists of pages that source ktlb has
 * for endpoints.
 */
#ifndef UNETMM_SOURCE_H
#define UNETMM_SOURCE_H

#include "memory/memory.h"
#include "unetmm_lists.h"

/* One file in source/ fills each; card/tables.c has them all. */
#define UNETMM_SOURCE_NONE(number, upper, name, meaning)
#define UNETMM_SOURCE_DECLARE(number, upper, name, meaning) \
	extern const struct unetmm_source unetmm_##name##_source;
UNETMM_SOURCES(UNETMM_SOURCE_NONE, UNETMM_SOURCE_DECLARE)

/*
 * Source ktlb: entries of the page lists, in the table that the card reads.  An
 * entry's number is the endpoint's, the kind of slot, the slot, and the page in
 * it.  A send's slot has 4 segments and 64 KiB at most, hence 24 pages; a free
 * buffer that has more than 32 finds its entries elsewhere.
 */
#define UNETMM_KLIST_EP_SHIFT	26
#define UNETMM_KLIST_LARGE	BIT_ULL(25)
#define UNETMM_KLIST_FREE	BIT_ULL(24)
#define UNETMM_KLIST_INDEX	(UNETMM_KLIST_FREE - 1)
#define UNETMM_KLIST_SMALL_LOG2	5
#define UNETMM_KLIST_LARGE_LOG2	10

struct unetmm_kuse {
	struct list_head node;		/* pin->uses, if it has one */
	struct unetmm_pin *pin;
	u64 entry;
};

struct unetmm_krange {
	unsigned long vpn;
	u32 npages;
};

/* The entries that one slot of a queue has posted. */
struct unetmm_kslot {
	u64 entry;			/* its first */
	u32 npages;
	u32 nranges;
	struct unetmm_krange ranges[UNETMM_SLOT_SEGS];
	struct unetmm_kuse *uses;	/* npages; NULL: there was no memory */
	bool live;			/* the card may ask for it */
	bool write;
	bool zero;			/* UNETMM_FQE_F_ZERO */
};

struct unetmm_kring {
	struct unetmm_kslot *slots;
	u32 log2;
	u32 next;			/* slots taken from the process */
	u32 done;			/* of these: given back by the card */
};

/* One page behind an entry, and how many follow it in the same range. */
struct unetmm_kplace {
	struct unetmm_kuse *use;
	unsigned long vpn;
	u32 left;
	bool write;
	bool zero;
};

struct unetmm_kspan {
	u64 first;
	u64 last;
};

#define UNETMM_KSPAN_NONE	((struct unetmm_kspan){ .first = U64_MAX })

struct unetmm_kqueues {
	struct list_head node;		/* space->kqueues; space->lock */
	struct mutex lock;		/* one post at a time, and `closed` */
	bool closed;
	u32 id;				/* the endpoint's */
	struct unetmm_block *block;	/* not to be mapped by anybody */
	struct unetmm_ep_index *posts;	/* in the block, before the queues */
	u32 sq_offset;
	u32 fq_offset;
	void __iomem *doorbell;
	struct unetmm_kring sq;
	struct unetmm_kring fq;
	struct unetmm_batch *batch;
};

/* source/shadow_fill.c */
int unetmm_fill_open(struct unetmm_aspace *space);
void unetmm_fill_start(struct unetmm_aspace *space);
void unetmm_fill_stop(struct unetmm_aspace *space);
void unetmm_fill_free(struct unetmm_aspace *space);
void unetmm_fill_again(struct unetmm_aspace *space, unsigned long vpn,
		       unsigned long last);
void unetmm_fill_counters(struct unetmm_dev *dev);

/* source/utlb.c */
int unetmm_utlb_mmap(const struct unetmm_aspace *space,
		     struct vm_area_struct *vma);
int unetmm_op_utlb_pin(struct unetmm_file *file, void *arg);
int unetmm_op_utlb_unpin(struct unetmm_file *file, void *arg);

/* source/ktlb.c */
int unetmm_klist_fill(struct unetmm_aspace *space, struct unetmm_batch *batch,
		      u64 entry, u32 npages);
void unetmm_klist_install(struct unetmm_aspace *space, struct unetmm_kslot *slot,
			  const struct unetmm_kslot *new);
void unetmm_klist_done(struct unetmm_aspace *space, struct unetmm_kring *ring,
		       u32 cons);

#endif /* UNETMM_SOURCE_H */
