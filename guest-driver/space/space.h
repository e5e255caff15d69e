/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: address spaces of processes, the sources of their translations, their
 * users and limits.
 */
#ifndef UNETMM_SPACE_H
#define UNETMM_SPACE_H

#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/rbtree.h>
#include <linux/wait.h>

#include "base/base.h"
#include "util/ktlb_place.h"

struct mem_cgroup;
struct rdma_cgroup;
struct unetmm_batch;
struct unetmm_ecs;
struct unetmm_lane;
struct unetmm_lost;
struct unetmm_miss;
struct unetmm_pin;
struct unetmm_shadow;
struct unetmm_table;
struct unetmm_user;

/* The properties and operations of a source.  One file in source/ fills one. */
struct unetmm_source {
	bool table;			/* the card reads a table of translations */
	bool pins;			/* pages that the card may reach are pinned ... */
	bool keeps;			/* ... until the process says otherwise */
	bool registers;			/* the process registers regions */
	bool lists;			/* the driver posts, with lists of pages */
	bool stays;			/* when the last endpoint goes */
	bool asked_only;		/* only pages that a miss names are entered */
	bool whole;			/* all of the space may be exported */
	bool odp_batch;			/* that many; else REPLY_MAX_PAGES */
	/* Before the card knows of it; `free` undoes it, also if it has failed. */
	int (*open)(struct unetmm_aspace *space);
	/* With the space's last reference. */
	void (*free)(struct unetmm_aspace *space);
	/* Fills the fields of the answer that are the source's; they are 0. */
	void (*answer)(const struct unetmm_aspace *space,
		       struct unetmm_space *a);
	/* Translations may come from now on, and do not any more. */
	void (*start)(struct unetmm_aspace *space);
	void (*stop)(struct unetmm_aspace *space);
	/*
	 * Takes [vpn, last] from the card and waits until DMA has ended; the
	 * rules are those of the notifier.  Returns how many pages it were.
	 */
	unsigned long (*drop)(struct unetmm_aspace *space, unsigned long vpn,
			      unsigned long last);
	/*
	 * Enters the pages of a snapshot: batch->pfns[i], 0 or a page with
	 * UNETMM_LEAF_WRITE, all in one leaf, which exists.  A page is mapped
	 * for the card (unetmm_snapshot_map()) only with space->lock held, and
	 * nothing invalidated since seq.  A mapped page that is not entered
	 * is unmapped.
	 * -EAGAIN: something was invalidated; -ESTALE.  NULL: the source pins.
	 */
	int (*enter)(struct unetmm_aspace *space, struct unetmm_batch *batch,
		     unsigned long vpn, u32 npages, unsigned long seq);
	/* @npages of [start, last] were dropped.  In the notifier: must not sleep. */
	void (*lost)(struct unetmm_aspace *space, unsigned long start,
		     unsigned long last, unsigned long npages);
	/* The pin leaves the tree.  Holds space->lock. */
	void (*forget)(struct unetmm_aspace *space, struct unetmm_pin *pin);
	/* At a limit: takes a pin from the card; false: in use.  Holds space->lock. */
	bool (*give)(struct unetmm_aspace *space, struct unetmm_pin *pin);
	/*
	 * Fills miss->user, and clips the miss; false: nobody waits any more.
	 * NULL: the card knows addresses of the process.
	 */
	bool (*find)(struct unetmm_aspace *space, struct unetmm_miss *miss);
	/* The dropped pages are still mapped, with other rights.  In the notifier. */
	void (*rights_changed)(struct unetmm_aspace *space, unsigned long vpn, unsigned long last);
	/*
	 * One attempt at a miss.  1: answered, or nobody waits any more; 0: needs
	 * to be paged in; -errno: to be refused, -EAGAIN meaning that it is to be
	 * asked again.  NULL: there are none.
	 */
	int (*resolve)(struct unetmm_aspace *space, const struct unetmm_miss *miss,
		       struct unetmm_batch *batch, int most);
	/*
	 * Pages that a miss is going to have behind it, as far as nobody has to
	 * wait for them.  NULL: nothing is done with them.
	 */
	void (*ahead)(struct unetmm_aspace *space,
		      const struct unetmm_miss *miss,
		      struct unetmm_batch *batch);
};

struct unetmm_aspace {
	struct kref ref;
	struct unetmm_dev *dev;
	struct mm_struct *mm;		/* mm_count held */
	struct pid *owner;		/* the process; a reference held */
	struct mmu_notifier notifier;
	u32 id;
	u32 source;
	const struct unetmm_source *ops;
	u32 endpoints;			/* file->lock */
	u32 backup_bits;		/* that these have; dev->backup.lock */
	struct unetmm_user *user;	/* set once; see space/limits.c */
	struct rdma_cgroup *group;	/* set once; that has the space */
	bool unlimited;			/* set once */
	unsigned long pin_limit;	/* pages; ULONG_MAX with CAP_IPC_LOCK */

	spinlock_t lock;		/* of the members up to `ktlb` */
	bool live;			/* set once: the card may have some */
	bool closing;			/* takes no more translations */
	struct rb_root pins;
	struct list_head aged;		/* the same, the oldest first */
	unsigned long npins;
	unsigned long inv_count;	/* invalidations in progress */
	unsigned long inv_seq;		/* invalidations that have ended */
	unsigned long inv_start;	/* range of those in progress */
	unsigned long inv_last;
	struct list_head drop_list;	/* pins that drop_work unpins */
	struct list_head dirty_list;	/* ... that dirty_work does */
	bool dirty_waits;		/* dirty_work is queued, or runs */
	bool placed;			/* counts as one of its user's spaces */
	bool closed;			/* ... until its last pin has gone */
	struct list_head lost_pins;	/* ... that the job of `lost` looks for */
	bool lost_rests;		/* ... which waits for an invalidation to end */
	struct rb_root_cached watches;	/* util/watch.h */
	u32 snapshot_users;		/* threads that serve misses from page tables */
	struct list_head kqueues;	/* source ktlb, and its TLB */
	struct unetmm_ktlb ktlb;

	struct work_struct drop_work;
	struct delayed_work dirty_work;	/* has a reference while it waits */
	struct unetmm_lost *lost;	/* memory/lost_pins.c */
	wait_queue_head_t idle;		/* snapshot_users became 0 */
	struct mutex zero_lock;		/* giving up contents; ends of endpoints */
	struct unetmm_ecs *ecs;		/* event counters; set once */
	struct list_head redirect_queues;	/* of its endpoints; sysbuf.lock */
	struct unetmm_lane *lane;	/* pager/pager.h; set once */

	/* sources with a table */
	struct mutex region_lock;	/* regions, posts */
	struct list_head regions;
	struct unetmm_table *table;	/* entries change under `lock` */
	struct unetmm_utlb_log *utlb_log; /* changes under `lock` */
	struct unetmm_shadow *shadow;	/* source shadow; source/shadow_fill.c */
};

struct unetmm_file {
	struct unetmm_dev *dev;
	struct file *filp;		/* NULL: a verbs context, which maps nothing of ours */
	struct list_head node;		/* dev->files; dev->files_lock */
	struct mutex lock;		/* space and endpoints come and go */
	struct unetmm_aspace *space;	/* set once; READ_ONCE without lock */
	struct list_head eps;
	struct rb_root exports;		/* by id; ctl.lock */
	struct list_head movable;	/* those of them with parts that may move */
	bool dead;			/* shut down; dev->rwsem */
	struct page *scratch;		/* behind dead doorbells; map_lock */
	wait_queue_head_t wait;		/* poll() */
};

/* The card has lost @npages of [start, last]. */
static inline void unetmm_space_lost(struct unetmm_aspace *space, unsigned long start,
				     unsigned long last, unsigned long npages)
{
	if (npages && space->ops->lost)
		space->ops->lost(space, start, last, npages);
}

/* space/lookup.c */
struct unetmm_aspace *unetmm_space_lookup(struct unetmm_dev *dev, u32 id);
/* Has a thread of the process that made the space still its memory?  No lock. */
bool unetmm_space_owned(const struct unetmm_aspace *space);
void unetmm_space_put(struct unetmm_aspace *space);

/* space/limits.c */
/* A user's part of a card's pager; part of the user, under the pager's lock. */
struct unetmm_turns {
	struct list_head lanes;		/* ready, and nothing active, in turn */
	struct list_head node;		/* pager->turns, if there are such lanes */
	u32 active;			/* workers in serve or cancel */
	u32 most_active;		/* at one time */
	u32 asleep;			/* workers, with and without a job */
	u32 hints;			/* memory/fault.c; misses->lock */
};

enum unetmm_use {
	UNETMM_USE_BACKUP,		/* bits of endpoints */
	UNETMM_USE_SLOTS,		/* credits of channels */
	UNETMM_USE_SPACES,
	UNETMM_USE_ENDPOINTS,
	UNETMM_USE_CHANNELS,		/* reliable ones */
	UNETMM_USE_EXPORTS,
	UNETMM_USE_WINDOWS,		/* pages */
	UNETMM_USE_PROXIES,		/* pages */
	UNETMM_USE_FLOWS,
	UNETMM_USE_ANNOUNCED,		/* endpoints that PEERS finds */
	UNETMM_USE_CLOSES,		/* channels whose CLOSE is repeated */
	UNETMM_USE_VERBS,		/* protection domains, address handles, memory regions */
	UNETMM_NUM_USES
};

/* Flows that processes do not get, so that the netdev has its own; half at most. */
#define UNETMM_FLOWS_KEPT	128
/* Endpoints that the answers to the questions of one PEERS can name. */
#define UNETMM_ANNOUNCED_MOST	96
#define UNETMM_CLOSES_MOST	4096	/* CLOSE messages that wait for an answer */
#define UNETMM_VERBS_MOST	65536	/* small objects of verbs */

struct unetmm_group {
	struct mem_cgroup *memcg;
	struct mem_cgroup *before;
};

void unetmm_users_init(struct unetmm_dev *dev);
/* The calling user, for all limits. */
u64 unetmm_user_key(void);
int unetmm_user_get(struct unetmm_aspace *space);
void unetmm_user_put(struct unetmm_aspace *space);
u32 unetmm_user_take(struct unetmm_aspace *space, enum unetmm_use use, u32 n);
/* All n or none. */
bool unetmm_user_take_all(struct unetmm_aspace *space, enum unetmm_use use, u32 n);
void unetmm_user_give(struct unetmm_aspace *space, enum unetmm_use use, u32 n);
/* Takes one of a pool and holds the user beyond the end of the space.  NULL: at its limit. */
struct unetmm_user *unetmm_user_hold(struct unetmm_aspace *space, enum unetmm_use use);
void unetmm_user_release(struct unetmm_dev *dev, struct unetmm_user *user, enum unetmm_use use);
struct unetmm_turns *unetmm_user_turns(const struct unetmm_aspace *space);
u32 unetmm_user_most_asleep(const struct unetmm_aspace *space);
void unetmm_group_enter(struct unetmm_aspace *space, struct unetmm_group *group);
void unetmm_group_leave(struct unetmm_group *group);
bool unetmm_group_has_room(struct mm_struct *mm, unsigned long npages);
bool unetmm_charge_all(struct unetmm_aspace *space, u32 npages);
u32 unetmm_charge_some(struct unetmm_aspace *space, u32 npages);
void unetmm_uncharge(struct unetmm_aspace *space, u32 npages);

/* space/container.c */
int unetmm_container_register(struct unetmm_dev *dev);
void unetmm_container_unregister(struct unetmm_dev *dev);
void unetmm_container_give(struct unetmm_dev *dev, enum unetmm_use use, struct rdma_cgroup *group);
/* An object of the calling process, for which its user gives n.  0; -EDQUOT; -ENOMEM. */
int unetmm_object_take(struct unetmm_aspace *space, enum unetmm_use use, u32 n,
		       struct rdma_cgroup **group);
void unetmm_object_give(struct unetmm_aspace *space, enum unetmm_use use, u32 n,
			struct rdma_cgroup *group);

#endif /* UNETMM_SPACE_H */
