/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: memory of a process on the card: pins, the table, misses, invalidations.
 */
#ifndef UNETMM_MEMORY_H
#define UNETMM_MEMORY_H

#include "map/map.h"
#include "pager/pager.h"
#include "ring/ring.h"
#include "util/histogram.h"
#include "table/table.h"

/* To pin, before it is said that memory changes too fast. */
#define UNETMM_PIN_TRIES		16

#define UNETMM_FETCH		16	/* fault records taken at once */

/* Pages on their way from the process to the card. */
struct unetmm_pin {
	struct rb_node node;	/* in space->pins, by vpn; space->lock */
	struct list_head drop;
	struct list_head age;	/* in space->aged; space->lock */
	unsigned long vpn;
	struct page *page;
	dma_addr_t dma;
	u32 tag;
	bool write;
	bool dirty;
	bool charged;		/* with its last holder; space->lock before */
	bool lost;		/* see memory/lost_pins.c; space->lock */
	bool changed;		/* since it was looked for; space->lock */
	bool going;		/* is about to be taken out; space->lock */
	u8 rights;		/* VM_READ, VM_WRITE: the mapping's; space->lock */
	struct list_head lost_node;	/* space->lost_pins, if lost; space->lock */
	struct list_head uses;		/* source ktlb; space->lock */
	struct unetmm_ktlb_entry entry;
};

/* One miss; part of a struct unetmm_miss_job (memory/fault.c). */
struct unetmm_miss {
	u32 fault_id;
	u32 npages;
	u64 vaddr;		/* as the card knows it */
	u64 user;		/* as the process does */
	u32 ep;
	u32 index;		/* of its record */
	u64 seen_ns;		/* on our clock: by the interrupt */
	bool ahead;		/* UNETMM_FAULT_AHEAD: nobody waits for an answer */
	bool write;
	bool zero;
};

/* Of a miss that was served; util/histogram.c. */
enum unetmm_fault_stage {
	UNETMM_FSTAGE_CARD,		/* from where it was found to its record */
	UNETMM_FSTAGE_IRQ,		/* to the interrupt's handler */
	UNETMM_FSTAGE_WAIT,		/* to its turn */
	UNETMM_FSTAGE_PAGE,		/* paging in, where that meant to wait */
	UNETMM_FSTAGE_FIND,		/* finding pages, all else of the driver's */
	UNETMM_FSTAGE_TABLE,		/* entering them, but for source tlb */
	UNETMM_FSTAGE_RESUME,		/* the answer: the transfer has gone on */
	UNETMM_NUM_FSTAGES
};

/* Of an invalidation of source odp that has found something. */
enum unetmm_inv_stage {
	UNETMM_ISTAGE_TABLE,		/* entries that are not valid any more */
	UNETMM_ISTAGE_CARD,		/* which drops them, and ends its DMA */
	UNETMM_ISTAGE_FREE,		/* pages are the system's again */
	UNETMM_NUM_ISTAGES
};

/* The card's clock, and ours, when records of the fault ring were taken. */
struct unetmm_clock {
	u32 card;
	u64 ns;
	u64 seen_ns;			/* by the interrupt */
};

/* dev->misses: the fault ring's records, and places for misses that are being served. */
struct unetmm_miss_job;
struct unetmm_miss_table {
	spinlock_t lock;		/* the places; memory/fault.c */
	struct unetmm_miss_job *places;	/* by number, then those of hints */
	u32 nplaces;			/* numbers */
	struct list_head hints;		/* free places for reports ahead */
	u32 nhints;

	/* the sort's: one worker at a time */
	struct unetmm_fault recs[UNETMM_FETCH];
	u32 first;			/* index of the first of them */
	struct unetmm_clock clock;
	atomic64_t total;		/* records that were taken */
	atomic_t next_tag;		/* of a reply; memory/fault.c */
	u64 seen_ns;			/* by the interrupt */

	struct unetmm_hist stages[UNETMM_NUM_FSTAGES];
	struct unetmm_hist invs[UNETMM_NUM_ISTAGES];
};

/* memory/space.c */
void unetmm_space_free(struct unetmm_aspace *space);
void unetmm_space_close(struct unetmm_aspace *space);
int unetmm_space_command(struct unetmm_dev *dev, u32 id, u32 source,
			 u32 levels, dma_addr_t table);
int unetmm_op_space(struct unetmm_file *file, void *arg);

/* memory/sequence.c */
unsigned long unetmm_space_seq(struct unetmm_aspace *space);
bool unetmm_space_changing(struct unetmm_aspace *space, unsigned long start,
			   unsigned long last);
bool unetmm_space_raced(struct unetmm_aspace *space, unsigned long seq,
			unsigned long start, unsigned long last);

/* memory/invalidate.c */
extern const struct mmu_notifier_ops unetmm_notifier_ops;
unsigned long unetmm_space_drop(struct unetmm_aspace *space,
				unsigned long start, unsigned long last);

/* memory/drop.c */
/* Both return the number of pins; see there.  No lock. */
unsigned long unetmm_pins_visit(struct unetmm_aspace *space, unsigned long vpn,
				unsigned long last_vpn,
				void (*step)(struct unetmm_aspace *space,
					     struct unetmm_pin *pin, void *arg),
				void *arg);
unsigned long unetmm_pins_take(struct unetmm_aspace *space, unsigned long vpn,
			       unsigned long last_vpn);
/* struct unetmm_source.drop of sources that pin. */
unsigned long unetmm_drop_pins(struct unetmm_aspace *space, unsigned long vpn,
			       unsigned long last_vpn);
void unetmm_drop_work(struct work_struct *work);

/* memory/mapping.c */
bool unetmm_mmap_lock(struct unetmm_aspace *space, bool wait);
bool unetmm_secret(const struct vm_area_struct *vma);
bool unetmm_in_memory(struct vm_area_struct *vma);
u32 unetmm_faults_at_once(struct mm_struct *mm, struct vm_area_struct *vma,
			  u64 vaddr, u32 npages);

/* memory/pin.c */
int unetmm_pin_cache_init(void);
void unetmm_pin_cache_exit(void);
int unetmm_pin_make(struct unetmm_aspace *space, unsigned long vpn,
		    struct page *page, bool write, struct unetmm_pin **result);
void unetmm_dirty_work(struct work_struct *work);
void unetmm_pins_settle(struct unetmm_aspace *space);
void unetmm_space_unplace(struct unetmm_aspace *space);
bool unetmm_pins_make_room(struct unetmm_aspace *space);
int unetmm_pin_batch(struct unetmm_aspace *space, struct unetmm_batch *batch,
		     u64 vaddr, u32 npages, bool write);
void unetmm_unpin_batch(struct unetmm_aspace *space, struct unetmm_batch *batch,
			u32 from);
void unetmm_pin_free(struct unetmm_aspace *space, struct unetmm_pin *pin);
struct unetmm_pin *unetmm_pin_first(struct unetmm_aspace *space,
				    unsigned long vpn);
void unetmm_pin_add(struct unetmm_aspace *space, struct unetmm_pin *pin);
void unetmm_pin_take(struct unetmm_aspace *space, struct unetmm_pin *pin);
void unetmm_pin_drop(struct unetmm_aspace *space, struct unetmm_pin *pin);

u64 unetmm_pte(const struct unetmm_pin *pin);

/* memory/lost_pins.c */
void unetmm_lost_mark(struct unetmm_aspace *space, unsigned long vpn,
		      unsigned long last);
unsigned long unetmm_lost_protect(struct unetmm_aspace *space,
				  unsigned long vpn, unsigned long last);
/* An invalidation has ended.  space->lock. */
void unetmm_lost_kick(struct unetmm_aspace *space);
/* With the space: -ENOMEM; and before it is freed, also after that. */
int unetmm_lost_init(struct unetmm_aspace *space);
void unetmm_lost_free(struct unetmm_aspace *space);
/* The pager has closed the space. */
void unetmm_lost_close(struct unetmm_aspace *space);

/* memory/zero.c */
struct vm_area_struct *unetmm_zero_vma(struct mm_struct *mm, u64 vaddr);
int unetmm_zero_check(struct mm_struct *mm, u64 vaddr);
void unetmm_zero_map(struct unetmm_aspace *space, u64 vaddr);

/* memory/fault.c */
int unetmm_miss_table_init(struct unetmm_dev *dev);
void unetmm_miss_table_exit(struct unetmm_dev *dev);
bool unetmm_fault_sort(struct unetmm_dev *dev);
/* The fault ring has the reports before this number already, and not those from it on. */
u64 unetmm_reports_now(struct unetmm_dev *dev);
int unetmm_resolve_pins(struct unetmm_aspace *space,
			const struct unetmm_miss *miss,
			struct unetmm_batch *batch, int most);
/* The card looks at the driver's own table again. */
void unetmm_resolved(struct unetmm_aspace *space,
		     const struct unetmm_miss *miss,
		     struct unetmm_batch *batch);
u8 unetmm_refusal(int err);

/* memory/registration.c */
int unetmm_op_register(struct unetmm_file *file, void *arg);
int unetmm_op_deregister(struct unetmm_file *file, void *arg);
/* Is all of it registered at once, and for writing if that is wanted? */
bool unetmm_region_covers(struct unetmm_aspace *space, u64 addr, u64 last,
			  bool write);
int unetmm_region_try(struct unetmm_file *file, struct unetmm_batch *batch,
		      u64 vaddr, u32 npages, bool write);
int unetmm_region_grow(struct unetmm_file *file, u64 start, u64 last);
void unetmm_regions_free(struct unetmm_aspace *space);

/* memory/snapshot.c */
bool unetmm_snapshot_map(struct unetmm_aspace *space, struct unetmm_batch *batch,
			 u32 i);
void unetmm_snapshot_unmap(struct unetmm_aspace *space, struct unetmm_batch *batch,
			   u32 npages);
int unetmm_snapshot_enter(struct unetmm_aspace *space, struct unetmm_batch *batch,
			  unsigned long vpn, unsigned long last, unsigned long target,
			  bool wait);
int unetmm_snapshot_touch(struct unetmm_aspace *space,
			  const struct unetmm_miss *miss);
bool unetmm_snapshot_get(struct unetmm_aspace *space);
void unetmm_snapshot_put(struct unetmm_aspace *space);
void unetmm_snapshot_settle(struct unetmm_aspace *space);
int unetmm_resolve_snapshot(struct unetmm_aspace *space,
			    const struct unetmm_miss *miss,
			    struct unetmm_batch *batch, int most);

/* memory/prefetch.c */
int unetmm_op_prefetch(struct unetmm_file *file, void *arg);

/* memory/miss_times.c */
void unetmm_stages_clock(struct unetmm_dev *dev, u64 seen_ns);
void unetmm_stages_came(struct unetmm_dev *dev, const struct unetmm_fault *rec,
			struct unetmm_miss *miss);
void unetmm_stages_begin(struct unetmm_dev *dev, const struct unetmm_miss *miss,
			 struct unetmm_batch *batch);
void unetmm_stages_end(struct unetmm_dev *dev, const struct unetmm_batch *batch);
u64 unetmm_stages_inv(struct unetmm_dev *dev, enum unetmm_inv_stage stage,
		      u64 began_ns);

#endif /* UNETMM_MEMORY_H */
