/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: the driver's own structures.
 *
 * OBJECTS AND LIFETIMES
 *
 *   unetmm_dev    from probe until the last file is closed (kref).  Its card
 *                 part lives between unetmm_start() and unetmm_stop(): state
 *                 is RUNNING in between.
 *   unetmm_file   one open of /dev/unetmmN; has at most one space.  It is shut
 *                 down once: by its release, or by unetmm_stop() before that;
 *                 what is left then is an empty shell that answers ENODEV.
 *   unetmm_aspace one process's memory on the card (kref: its file, whoever
 *                 serves a miss of it, and the queue memory charged to it).
 *                 Holds mm_count, never mm_users but for the time of a pin.
 *                 dirty_work holds a reference, and one to the module, while it has
 *                 pins: they may outlive file, process and card.
 *   unetmm_ep     an endpoint (kref: its file until it is closed, calls under
 *                 way).
 *   unetmm_block  queue memory of an endpoint (kref: the endpoint and each
 *                 mapping).  When the card goes away its contents move to
 *                 ordinary memory, so that a mapping never dangles.
 *   unetmm_chan   half of a channel (kref: its endpoint, a waiting connect).
 *   unetmm_exported  memory that peers may use: a region on the card.  Until
 *                 UNEXPORT or the end of its file; see unetmm_export.c.
 *   unetmm_ecs    event counters of a space (kref: the space, who sleeps for one);
 *                 each of them, unetmm_ec, until EVENT_CLOSE (kref: likewise).
 *   unetmm_pin    one page that the card may reach, in the space's tree; then on
 *                 its way back to the process: on drop_list, or on dirty_list for as
 *                 long as somebody keeps the page locked.
 *   unetmm_win    pages of the card that an endpoint's process maps; part of it.
 *   unetmm_sysq   what waits to be copied for an endpoint with policy redirect
 *                 (kref: the endpoint, its thread); see unetmm_sysq.c.
 *   unetmm_sysbuf the slots that these use, while there is such an endpoint.
 *   unetmm_backq  what waits in the backup ring for an endpoint with policy backup
 *                 (kref: the endpoint, its thread); see unetmm_backq.c.
 *   unetmm_backring  that ring, while there is such an endpoint.
 *   unetmm_user   what a uid has of a card's threads and buffers, while it has a
 *                 space; see unetmm_user.c.
 *   unetmm_kqueues what an endpoint of source ktlb has beside its queues; lives
 *                 as long as the endpoint.  Its slots: unetmm_klist.c.
 *
 * LOCK ORDER (outer first; what is in brackets is never held together)
 *
 *   region_lock > [dev->rwsem, mmap_lock]
 *   dev->rwsem > files_lock > file->lock > ctl.lock > command slot
 *   files_lock > [dev->map_lock, the kernel's, of a file's mappings]
 *   ctl.lock > ecs->lock > command slot, ep_lock
 *   ctl.lock > sysbuf.lock > q->lock (of a unetmm_sysq) > command slot
 *   file->lock > backup.lock > q->lock (of a unetmm_backq) > command slot,
 *     backup.pool_lock
 *   file->lock > kq->lock > space->lock
 *   file->lock > unetmm_switch_lock > RCU (grace periods)
 *   file->lock > unetmm_push_lock > the kernel's, of probes
 *   file->lock > push work; table->lock (innermost of mutexes)
 *   mmap_lock > dev->map_lock
 *   dev->reply_lock > command slot > space->lock
 *   file->lock > space->zero_lock
 *   [rtnl, file->lock] > flow_lock > command slot; see also unetmm_net.h
 *   [mmap_lock, reclaim's locks] > space->lock > cmdq.lock, reg_lock
 *   [all of these but hard interrupts'] > users_lock
 *   dev->ep_lock > wait queues (hard interrupt)
 *   [a page's lock] > space->lock
 *
 * The lock of a page is held by callers of the notifier, for as long as the page's
 * file system likes, which may be a process's.  So the driver only tries it
 * (trylock_page()), and nothing waits for a page that is locked, but for 20 ms when a
 * process gives its own pages back; see "PAGES THAT STAY LOCKED" in unetmm_pin.c.
 *
 * dev->rwsem is held for reading by each call from user space and for writing
 * by unetmm_stop().  How long a process keeps its own mmap_lock, and how long a page
 * fault takes, is the process's business (a file system of its own, a userfaultfd), and
 * an unplugged card waits for nobody's business.  So:
 *
 *   - who holds rwsem, or what unetmm_stop() waits for, does not wait for mmap_lock: it
 *     tries (mmap_read_trylock()), and if it must have the lock it lets go of rwsem,
 *     waits for mmap_lock, lets go of that, and tries again;
 *   - no user memory is touched, no page is faulted in, and no page's lock is waited
 *     for under rwsem;
 *   - who waits for mmap_lock or for a page without rwsem can be killed, and threads
 *     of ours are, when their space is closed.
 *
 * unetmm_may_wait() asserts it where mmap_lock is waited for.  No spinlock is held
 * across get_user_pages or pin_user_pages, which can call our own notifier, nor a
 * lock that the notifier takes.
 *
 * INSERT AGAINST INVALIDATE
 *
 * The rule: when invalidate_range_start() returns, the card holds no
 * translation of the range, no DMA through one is in flight, and none comes
 * back before invalidate_range_end().
 *
 *   miss:     seq = inv_seq  >  pin pages  >  lock { overlap or seq changed?
 *             give up : post FAULT_REPLY, see it completed, add to the tree }
 *   notifier: lock { inv_count++, widen range, anything in the tree? }  >
 *             INV registers, wait until done  >  lock { take the pins out }
 *             ... end: lock { inv_seq++, inv_count-- }
 *
 * Both braces are under space->lock, so one is first.  If the notifier is, the
 * miss sees inv_count (or, if that invalidation ended meanwhile, a changed
 * inv_seq) and unpins.  If the miss is, the card executed the insert inside the
 * register write that posted it, and the INV that follows drops it.  Hence no
 * recheck after the insert is needed, nor a moment in which a stale translation
 * is on the card.  FAULT_REPLY(RESOLVED) is therefore the one command that is
 * posted and polled for under a spinlock; the card never completes it late.
 *
 * Sources `pinned` and `utlb`: not each invalidation takes pins out.  What is only
 * protected otherwise keeps its page, and at most other rights are on the card
 * when the first INV is done.  What is cleared is hidden, and its pin is lost: it
 * has its page still, but no entry, until the work has seen, between two
 * invalidations of that page, what is there.  See unetmm_again.c.
 *
 * The tree is a superset of what the card holds for the space: a pin enters it
 * under the lock with its insert, and leaves after the card said that it has
 * dropped the entry (EVICT, INV done, not taken).  So a range without pins
 * needs no INV, and an unrelated munmap costs one tree lookup.  Pins are taken
 * out only after INV is done, so that of two overlapping invalidations neither
 * returns while the other's is still in flight.
 *
 * A pin that a new one for the same page replaces (a read translation upgraded
 * to write) is invalidated first, within the same lock: the old page is not
 * unpinned while DMA through its entry may be in flight.
 */
#ifndef UNETMM_DRV_H
#define UNETMM_DRV_H

#include <linux/bitmap.h>
#include <linux/completion.h>
#include <linux/hashtable.h>
#include <linux/idr.h>
#include <linux/if_ether.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/poll.h>
#include <linux/ratelimit.h>
#include <linux/rbtree.h>
#include <linux/rwsem.h>
#include <linux/scatterlist.h>
#include <linux/semaphore.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#ifndef CONFIG_X86_64
#error "unetmm is written for x86-64 alone: build it for a kernel of that architecture."
#endif

#include <linux/unetmm.h>
#include "unetmm_hw.h"
#include "unetmm_ktlb.h"
#include "unetmm_wire.h"

#define UNETMM_NAME		"unetmm"
#define UNETMM_MOST_REGIONS	65536	/* that make sense; likewise imports */

struct dentry;
struct eventfd_ctx;
struct mem_cgroup;
struct unetmm_user;
struct unetmm_ecs;
struct unetmm_net;

/*
 * A card that is neither STARTING nor RUNNING has no bus: pages that it had are given
 * back without asking it.  So the bus is taken from it before the state says so (in
 * unetmm_fail() and unetmm_stop()), and it gets the bus in state OFF, before anybody
 * has pages on it (unetmm_start()).  unetmm_check_parted() asserts it where pages go.
 */
enum unetmm_state {
	UNETMM_OFF,		/* no card: not started, stopped or removed */
	UNETMM_STARTING,	/* commands work, user space is kept out */
	UNETMM_RUNNING,
	UNETMM_FAILED,		/* stopped answering; a reset may revive it */
};

/* What the card told about itself at start. */
struct unetmm_limits {
	u32 version;
	u32 caps;
	u32 user_mtu;
	u32 db_stride;
	u32 endpoints;
	u32 spaces;
	u32 channels;
	u32 max_log2;
	u32 tlb_sets;
	u32 tlb_ways;
	u32 tlb_victims;
	u32 pretranslate;
	u32 max_faults;
	u32 sources;
	u32 policies;
	u32 reliable;
	u32 regions;
	u32 imports;
	u32 window_pages;
	u32 proxy_pages;
	u32 sysbuf_slots;
	u32 flows;
	u32 backup_bits;
	u8 mac[ETH_ALEN];
};

/* One ring shared with the card; `index` is ours and runs freely. */
struct unetmm_ring {
	void *mem;
	dma_addr_t dma;
	u32 entry_bytes;
	u32 log2;
	u32 index;
	u32 regs;		/* offset of its register block */
};

#define UNETMM_CMD_LOG2		6
#define UNETMM_CMD_SLOTS	32	/* outstanding; the rings hold twice that */

struct unetmm_cmdq_slot {
	struct completion done;
	u8 status;
	u32 result;
};

struct unetmm_cmdq {
	struct semaphore free;	/* slots that are free */
	spinlock_t lock;	/* all below; taken in the event interrupt */
	DECLARE_BITMAP(used, UNETMM_CMD_SLOTS);
	struct unetmm_cmdq_slot slots[UNETMM_CMD_SLOTS];
	struct unetmm_ring cmd;
	struct unetmm_ring done;
	u32 waiting;		/* who wants EVENT_CMD to interrupt */
};

/* To pin, before it is said that memory changes too fast. */
#define UNETMM_PIN_TRIES		16

#define UNETMM_FETCH		16	/* fault records taken at once */

/* Pages on their way from the process to the card. */
struct unetmm_pin {
	struct rb_node node;	/* in space->pins, by vpn; space->lock */
	struct list_head drop;
	unsigned long vpn;
	struct page *page;
	dma_addr_t dma;
	u32 tag;
	bool write;
	bool dirty;
	bool charged;		/* with its last holder; space->lock before */
	bool lost;		/* see unetmm_again.c; space->lock */
	bool changed;		/* since it was looked for; likewise */
	bool going;		/* is about to be taken out; likewise */
	u8 rights;		/* VM_READ, VM_WRITE: the mapping's; likewise */
	struct list_head again;		/* space->again, if lost; likewise */
	struct list_head uses;		/* source ktlb; space->lock */
	struct unetmm_ktlb_entry entry;
};

struct unetmm_batch {
	u64 vaddr;
	u32 count;
	bool write;
	bool zero;		/* only of memory that unetmm_zero_vma() allows */
	bool huge;		/* a snapshot: in a larger page */
	unsigned long asked;	/* source odp: the last page asked for */
	u32 target;		/* a snapshot: the page that is wanted, */
	int target_err;		/* and why it is not entered */
	u64 began_ns;		/* of a miss, on our clock; and of that ... */
	u64 page_ns;		/* ... waiting for pages, */
	u64 table_ns;		/* entering them, */
	u64 resume_ns;		/* telling the card */
	union {
		struct page *pages[UNETMM_REPLY_MAX_PAGES];
		unsigned long pfns[UNETMM_REPLY_MAX_PAGES]; /* a snapshot's */
	};
	union {
		struct unetmm_pin *pins[UNETMM_REPLY_MAX_PAGES];
		dma_addr_t dma[UNETMM_REPLY_MAX_PAGES];	/* likewise */
	};
};

struct unetmm_table;
struct unetmm_aspace;
struct unetmm_miss;

/* 512 consecutive pages in the table; changes under space->lock. */
struct unetmm_leaf {
	__le64 *entries;
	unsigned long *pages;		/* shadow, odp: UNETMM_LEAF_* */
	u32 used;			/* likewise: entries that are not 0 */
};

#define UNETMM_LEAF_WRITE	1UL	/* mapped for writing; else a page */

/* What differs between the sources.  One file fills one. */
struct unetmm_source {
	bool table;			/* the card reads one */
	bool pins;			/* what the card has is pinned ... */
	bool keeps;			/* ... until the process says otherwise */
	bool stays;			/* when the last endpoint goes */
	bool asked_only;		/* nothing is entered but what is asked for */
	const unsigned int *miss_pages;	/* the most; NULL: REPLY_MAX_PAGES */
	/* Before the card knows of it; unetmm_space_free() undoes it. */
	int (*open)(struct unetmm_aspace *space);
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
	 * Enters what a snapshot has found: batch->pfns[i], 0 or a page with
	 * UNETMM_LEAF_WRITE, all in one leaf, which exists.  A page is mapped
	 * for the card (unetmm_snap_map()) only with space->lock held, and
	 * nothing invalidated since seq; what is not entered is unmapped.
	 * -EAGAIN: something was invalidated; -ESTALE.  NULL: the source pins.
	 */
	int (*enter)(struct unetmm_aspace *space, struct unetmm_batch *batch,
		     unsigned long vpn, u32 npages, unsigned long seq);
	/* What was dropped has other rights now, and stays.  As the notifier. */
	void (*again)(struct unetmm_aspace *space, unsigned long vpn,
		      unsigned long last);
	/*
	 * One attempt at a miss.  1: answered, or nobody waits any more; 0: needs
	 * to be paged in; -errno: to be refused, -EAGAIN meaning that it is to be
	 * asked again.  NULL: there are none.
	 */
	int (*resolve)(struct unetmm_aspace *space,
		       const struct unetmm_miss *miss,
		       struct unetmm_batch *batch, int most);
	/*
	 * Pages that a miss is going to have behind it, as far as nobody has to
	 * wait for them.  NULL: nothing is done with them.
	 */
	void (*ahead)(struct unetmm_aspace *space,
		      const struct unetmm_miss *miss,
		      struct unetmm_batch *batch);
};

extern const struct unetmm_source unetmm_shadow_source;
extern const struct unetmm_source unetmm_odp_source;

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

/* What one slot of a queue has posted. */
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

#define UNETMM_SHADOW_BUCKETS	32
#define UNETMM_LEVELS		5	/* 57 bits: any address of any x86 */

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
	struct unetmm_user *user;	/* set once; see unetmm_user.c */
	bool unlimited;			/* likewise */
	unsigned long pin_limit;	/* pages; ULONG_MAX with CAP_IPC_LOCK */

	spinlock_t lock;		/* to the end of this group */
	bool live;			/* set once: the card may have some */
	bool closing;			/* takes no more translations */
	bool orphan;			/* the owner is gone: nobody pages in */
	struct rb_root pins;
	unsigned long npins;
	unsigned long inv_count;	/* invalidations in progress */
	unsigned long inv_seq;		/* invalidations that have ended */
	unsigned long inv_start;	/* range of those in progress */
	unsigned long inv_last;
	struct list_head drop_list;	/* pins that drop_work unpins */
	struct list_head dirty_list;	/* ... that dirty_work does */
	bool dirty_waits;		/* dirty_work is queued, or runs */
	bool placed;			/* one of those that its user may have */
	bool closed;			/* that is to be given back */
	struct list_head again;		/* ... that again_work looks for */
	struct list_head deferred;
	struct list_head deferred_later;	/* no thread has them yet */
	u32 ndeferred;			/* of both */
	u32 snappers;			/* who serves misses from page tables */
	struct list_head kqueues;	/* source ktlb, and its TLB */
	struct unetmm_ktlb ktlb;

	struct work_struct drop_work;
	struct delayed_work dirty_work;	/* has a reference while it waits */
	struct work_struct again_work;
	wait_queue_head_t idle;		/* ndeferred, or snappers, became 0 */
	struct mutex zero_lock;		/* giving up contents; ends of endpoints */
	struct unetmm_ecs *ecs;		/* event counters; set once */
	struct list_head sysqs;		/* of its endpoints; sysbuf.lock */
	struct list_head backqs;	/* likewise; backup.lock */

	/* unetmm_turns.c; the fault work's */
	struct list_head turns;
	struct list_head turn_node;
	u32 nturns;
	u32 most_turns;			/* at one time */
	u64 most_passed;		/* others' misses served before its only one */

	/* sources with a table */
	struct mutex region_lock;	/* regions, posts */
	struct list_head regions;
	struct unetmm_table *table;	/* entries change under `lock` */
	struct unetmm_utlb_log *utlb_log; /* changes under `lock` */
	struct unetmm_shadow *shadow;	/* source shadow; unetmm_push.c */
};

/* Queue memory; what backs it changes once, under dev->map_lock. */
struct unetmm_block {
	struct kref ref;
	struct unetmm_dev *dev;
	struct unetmm_aspace *space;	/* who is charged; NULL: nobody */
	struct list_head node;		/* dev->blocks; dev->map_lock */
	size_t bytes;
	void *cpu;
	dma_addr_t dma;
	struct sg_table pages;		/* what `cpu` is, as the DMA API says */
	bool buried;
	void *grave;			/* vmalloc copy, after the card has gone */
};

/* How a channel is to be; zero: a datagram channel, or the card's defaults. */
struct unetmm_chan_how {
	u8 type;			/* UNETMM_CHANNEL_* */
	bool tell;			/* the process, when the peer closes it */
	bool rewind;			/* UNETMM_CHANNEL_F_REWIND */
	u8 retries;
	u8 not_ready_retries;
	u32 timeout_us;
	u32 not_ready_us;
};

/* For what is absent, on channels on which the peer waits as well. */
static inline bool unetmm_policy_waits(u32 policy)
{
	return policy == UNETMM_POLICY_REDIRECT || policy == UNETMM_POLICY_RNR;
}

struct unetmm_ep {
	struct kref ref;
	bool waits;			/* its policy does: reliable channels only */
	struct unetmm_dev *dev;
	struct unetmm_file *file;	/* NULL: the driver's own */
	struct unetmm_aspace *space;
	struct list_head node;		/* file->eps: file->lock and map_lock */
	struct unetmm_block *block;
	struct unetmm_ep_index *index;	/* in the block */
	struct eventfd_ctx *eventfd;
	u32 id;
	u8 flags;			/* UNETMM_EP_F_* */
	u32 sq_log2;
	u32 fq_log2;
	u32 cq_log2;
	u32 sq_offset;
	u32 fq_offset;
	u32 cq_offset;
	bool failed;			/* the card stopped it */
	u32 first_fault;		/* fault records before are another's */
	struct unetmm_kqueues *kq;	/* source ktlb */
	struct unetmm_sysq *sysq;	/* policy redirect */
	struct unetmm_backq *backq;	/* policy backup; ep_lock */
	u32 backup;			/* likewise: bits */
	struct list_head flows;		/* raw: file->lock */
	struct list_head windows;	/* file->lock and map_lock */

	/* channels: ctl.lock */
	bool closed;
	u64 service;			/* 0: does not listen */
	struct hlist_node service_node;
	u32 takes;			/* UNETMM_LISTEN_* */
	struct unetmm_chan_how how;	/* the reliable ones of these */
	u32 backlog;
	u32 nbacklog;
	struct list_head accepts;	/* channels nobody accepted yet */
	struct list_head chans;
	unsigned long *chan_map;
	struct list_head hunt_node;	/* ctl.hunts: it has refused somebody ... */
	bool hunt_all;			/* ... and not for its backlog alone */
	unsigned long *import_map;	/* numbers in use; NULL: the card has none */
	wait_queue_head_t wait;
};

enum unetmm_chan_state {
	UNETMM_CHAN_CONNECTING,
	UNETMM_CHAN_OPEN,
	UNETMM_CHAN_FAILED,	/* its answer came, and was no or of no use */
	UNETMM_CHAN_CLOSED,	/* the peer's half is gone; number still ours */
};

/* All of it: ctl.lock */
struct unetmm_chan {
	struct kref ref;
	struct unetmm_ep *ep;		/* NULL once the endpoint is closed */
	struct list_head node;		/* ep->chans */
	struct list_head accept_node;	/* ep->accepts */
	struct hlist_node hash;		/* ctl.chans, by peer */
	enum unetmm_chan_state state;
	bool passive;			/* the peer asked for it */
	bool confirmed;			/* ... and its card has a driver */
	u8 probes;			/* asked so often whether it has */
	u32 probe_key;			/* what its answers have to name */
	u64 probed_ns;
	u8 mac[ETH_ALEN];
	bool answered;
	u16 number;
	u16 peer_ep;
	u16 peer_channel;
	u32 mtu;
	u64 nonce;
	struct unetmm_chan_how how;
	u32 send_psn;
	u32 recv_psn;
	u32 send_credits;		/* what the peer has for us; 0: no limit */
	u32 recv_credits;		/* slots of the system buffer, reserved */
	int error;			/* FAILED: why */
};

struct unetmm_probe_wait {
	struct list_head node;		/* ctl.probes; ctl.lock */
	u64 nonce;
	u8 mac[ETH_ALEN];
	bool answered;
	u32 mtu;
};

#define UNETMM_SERVICE_BITS	6
#define UNETMM_CHAN_BITS	10

/*
 * Limits of a second.  Of a user, or a card, which shares them with those whose hash is
 * the same; a card asks as often as all users of a peer and its hunt for ghosts do, and
 * that is answered.
 */
#define UNETMM_LIMIT_GROUPS	16
#define UNETMM_USER_PROBES	64
#define UNETMM_PEER_PROBES	4000

struct unetmm_rates {
	struct ratelimit_state groups[UNETMM_LIMIT_GROUPS];
};

/* The control protocol over the driver's own endpoint. */
struct unetmm_ctl {
	struct mutex lock;		/* all of this structure */
	struct unetmm_ep *ep;
	struct work_struct work;
	void *bufs;
	dma_addr_t bufs_dma;
	u32 sq_prod;
	u32 fq_prod;
	u32 cq_cons;
	DECLARE_HASHTABLE(services, UNETMM_SERVICE_BITS);
	DECLARE_HASHTABLE(chans, UNETMM_CHAN_BITS);
	struct list_head probes;
	struct delayed_work ghosts;	/* looks for channels of nobody: */
	struct list_head hunts;		/* of these listeners */
	u32 hunt_left;			/* of all: buckets left to look at */
	bool hunt_link;			/* there was a link in this run */
	u32 hunt_bucket;		/* ... and which is next */
	u32 seed;			/* of what `chans` and limits are found by */
	struct list_head imports;	/* who waits for one */
	unsigned long *region_map;	/* numbers in use */
	wait_queue_head_t probe_wait;
	struct ratelimit_state refusals;
	struct unetmm_rates probes_sent;	/* by IOC_PROBE, of a user */
	struct unetmm_rates probe_acks;	/* to a card */
};

/* The system buffer: what a packet is put into whose page is absent. */
#define UNETMM_MOST_CREDITS	64	/* of one channel */

struct unetmm_sysspan {
	u64 addr;
	u32 len;
	u32 from;			/* in the slot's data */
};

/* One slot, and what is in it. */
struct unetmm_sysjob {
	void *mem;			/* the head, and the data behind it */
	dma_addr_t dma;
	bool busy;			/* reported, and not answered */
	/* While it is busy, q->lock of who has it. */
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

/* Of a miss that was served; unetmm_stages.c. */
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

#define UNETMM_STAGE_BUCKETS	32	/* n: 2^n ns and more, below 2^(n+1) */

struct unetmm_hist {
	atomic64_t count;
	atomic64_t ns;
	atomic64_t buckets[UNETMM_STAGE_BUCKETS];
};

/* The card's clock, and ours, when records of the fault ring were taken. */
struct unetmm_clock {
	u32 card;
	u64 ns;
	u64 seen_ns;			/* by the interrupt */
};

struct unetmm_sysbuf {
	struct mutex lock;
	struct unetmm_sysjob *jobs;	/* a slot each; NULL: there is none */
	u32 nslots;
	u32 slot_bytes;
	u32 users;			/* endpoints */
	struct unetmm_sysq **queues;	/* by endpoint */
	u64 *cleared;			/* by region: reports before are void */
	u32 reserved;			/* slots that channels have; ctl.lock */
	struct unetmm_hist stages[UNETMM_NUM_STAGES];
};

/* A buffer of the backup ring. */
struct unetmm_backbuf {
	struct list_head node;		/* backup.free */
	void *mem;
	dma_addr_t dma;
};

struct unetmm_backring {
	struct mutex lock;		/* the next */
	struct unetmm_ring ring;	/* its producer: pool_lock */
	u32 buf_bytes;
	u32 users;			/* endpoints */
	u32 reserved;			/* bits that these have */
	u64 first;			/* reports before are of an earlier one */
	u32 next;			/* buffer to be reported; pool_lock */
	struct unetmm_backq **queues;	/* by endpoint */

	spinlock_t pool_lock;		/* the rest */
	struct unetmm_backbuf **posted;	/* by place; NULL: there is no ring */
	struct list_head free;
	u32 nfree;
};

/* Misses that wait to be served; the fault work's. */
struct unetmm_turn;
struct unetmm_turns {
	struct unetmm_turn *pool;
	struct list_head free;
	struct list_head spaces;	/* that have one, by whose turn it is */
	u32 nfree;
	u64 served;
};

struct unetmm_dev {
	struct pci_dev *pdev;
	struct kref ref;
	struct miscdevice misc;
	int number;
	char name[24];
	void __iomem *regs;
	void __iomem *doorbell;		/* of endpoint 0 */
	resource_size_t doorbell_start;
	resource_size_t doorbell_bytes;
	resource_size_t proxy_start;
	resource_size_t window_start;
	struct unetmm_limits hw;
	struct rw_semaphore rwsem;
	enum unetmm_state state;	/* read without a lock */
	struct work_struct fail_work;

	struct mutex files_lock;	/* files */
	struct list_head files;
	struct mutex map_lock;		/* blocks, what backs a mapping */
	struct list_head blocks;
	unsigned long *window_map;	/* pages in use; map_lock */
	unsigned long *proxy_map;

	spinlock_t reg_lock;		/* INV_*, EP_SEL and latched counters */
	struct unetmm_cmdq cmdq;
	struct unetmm_ring fault;
	struct unetmm_ring notify;
	struct work_struct fault_work;
	struct unetmm_fault fault_recs[UNETMM_FETCH];	/* fault_work's */
	u32 fault_first;				/* index of the first */
	atomic64_t fault_total;				/* that were taken */
	u64 fault_seen_ns;				/* by the interrupt */
	struct unetmm_clock fault_clock;		/* fault_work's */
	struct unetmm_hist fault_stages[UNETMM_NUM_FSTAGES];
	struct unetmm_hist inv_stages[UNETMM_NUM_ISTAGES];
	struct unetmm_sysbuf sysbuf;
	struct unetmm_backring backup;
	struct unetmm_batch *fault_batch;		/* fault_work's */
	struct unetmm_turns turns;			/* likewise */
	struct mutex reply_lock;	/* the list page */
	__le64 *reply_list;
	dma_addr_t reply_list_dma;
	struct unetmm_landed *landed_list;	/* ctl.lock */
	dma_addr_t landed_list_dma;
	atomic_t next_tag;

	spinlock_t users_lock;		/* users, and what they have; innermost */
	struct list_head users;

	struct xarray spaces;
	spinlock_t ep_lock;		/* eps; taken in the notify interrupt */
	struct unetmm_ep **eps;
	struct unetmm_ecs **ecs;	/* by space; ep_lock */
	struct unetmm_ctl ctl;
	struct mutex flow_lock;		/* flow_map */
	unsigned long *flow_map;	/* numbers in use; NULL: no Ethernet */
	struct unetmm_net *net;		/* likewise; from probe to remove */

	atomic64_t pinned;		/* pages, against pin_limit_pages */
	atomic64_t counters[UNETMM_NUM_DRIVER_COUNTERS];
	/* Bucket n: waits for a page's lock of 2^n ns and more, below 2^(n+1). */
	atomic64_t shadow_waits[UNETMM_SHADOW_BUCKETS];
	struct dentry *debugfs;
};

struct unetmm_file {
	struct unetmm_dev *dev;
	struct file *filp;
	struct list_head node;		/* dev->files; dev->files_lock */
	struct mutex lock;		/* space and endpoints come and go */
	struct unetmm_aspace *space;	/* set once; READ_ONCE without lock */
	struct list_head eps;
	struct list_head exports;	/* ctl.lock */
	u32 nexports;			/* likewise */
	bool dead;			/* shut down; dev->rwsem */
	struct page *scratch;		/* behind dead doorbells; map_lock */
	wait_queue_head_t wait;		/* poll() */
};

/* One miss; lives on the stack of who serves it. */
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

#define unetmm_count(dev, name) \
	atomic64_inc(&(dev)->counters[UNETMM_D_##name])
#define unetmm_count_add(dev, name, n) \
	atomic64_add(n, &(dev)->counters[UNETMM_D_##name])

static inline bool unetmm_running(const struct unetmm_dev *dev)
{
	return READ_ONCE(dev->state) == UNETMM_RUNNING;
}

/*
 * Is the space of the file the caller's own?  A file that had none when a call began
 * may have another process's by now: whatever a call looks up in the file, and
 * whatever it uses of its space, it asks this when it does, and not before.
 */
static inline bool unetmm_owns(const struct unetmm_file *file)
{
	/* Pairs with unetmm_op_space(). */
	const struct unetmm_aspace *space = smp_load_acquire(&file->space);

	return space && space->mm == current->mm;
}

/* For mmap_lock or a page of the process: see LOCK ORDER. */
static inline void unetmm_may_wait(struct unetmm_dev *dev)
{
	might_sleep();
	lockdep_assert_not_held(&dev->rwsem);
}

/* May the card be spoken to? */
static inline bool unetmm_reachable(const struct unetmm_dev *dev)
{
	enum unetmm_state state = READ_ONCE(dev->state);

	return state == UNETMM_RUNNING || state == UNETMM_STARTING;
}

/* Pages of a buffer that the card's TLB can hold at once at best. */
static inline u32 unetmm_tlb_pages(const struct unetmm_limits *hw)
{
	return hw->tlb_sets * hw->tlb_ways + hw->tlb_victims;
}

/* unetmm_main.c */
extern struct workqueue_struct *unetmm_wq;
extern struct workqueue_struct *unetmm_drop_wq;
extern bool unetmm_hole;
extern unsigned long unetmm_pin_limit_pages;
void unetmm_fail(struct unetmm_dev *dev, const char *why);
void unetmm_check_parted(struct unetmm_dev *dev);
void unetmm_dev_put(struct unetmm_dev *dev);

/* unetmm_regs.c */
u32 unetmm_read(struct unetmm_dev *dev, u32 reg);
void unetmm_write(struct unetmm_dev *dev, u32 reg, u32 value);
/* A wait for the card, without sleep or in short ones. */
struct unetmm_patience {
	u64 seen_ns;
	u64 waited_ns;
};

void unetmm_patience_begin(struct unetmm_patience *patience);
bool unetmm_patient(struct unetmm_patience *patience);
int unetmm_reset_card(struct unetmm_dev *dev);
int unetmm_read_limits(struct unetmm_dev *dev);
bool unetmm_link_up(struct unetmm_dev *dev);
void unetmm_invalidate(struct unetmm_dev *dev, u32 space, u64 start, u64 last);
u64 unetmm_read_counter(struct unetmm_dev *dev, u32 n);
u64 unetmm_read_ep_counter(struct unetmm_dev *dev, u32 ep, u32 n);

/* unetmm_ring.c */
int unetmm_ring_init(struct unetmm_dev *dev, struct unetmm_ring *ring,
		     u32 number, u32 entry_bytes, u32 log2);
void unetmm_ring_exit(struct unetmm_dev *dev, struct unetmm_ring *ring);
void *unetmm_ring_slot(const struct unetmm_ring *ring);
const void *unetmm_ring_peek(const struct unetmm_ring *ring);
void unetmm_ring_release(struct unetmm_dev *dev, struct unetmm_ring *ring);

/* unetmm_cmd.c */
int unetmm_cmdq_init(struct unetmm_dev *dev);
void unetmm_cmdq_exit(struct unetmm_dev *dev);
void unetmm_cmdq_event(struct unetmm_dev *dev);
int unetmm_cmd_slot_get(struct unetmm_dev *dev);
void unetmm_cmd_slot_put(struct unetmm_dev *dev, int slot);
int unetmm_cmd_spin(struct unetmm_dev *dev, int slot, struct unetmm_cmd *cmd,
		    u32 *result);
int unetmm_cmd(struct unetmm_dev *dev, struct unetmm_cmd *cmd, u32 *result);

/* unetmm_irq.c */
int unetmm_irq_init(struct unetmm_dev *dev);
void unetmm_irq_exit(struct unetmm_dev *dev);
void unetmm_irq_sync(struct unetmm_dev *dev);

/* unetmm_file.c */
extern const struct file_operations unetmm_fops;
void unetmm_file_shutdown(struct unetmm_file *file);

/* unetmm_map.c */
struct unetmm_block *unetmm_block_alloc(struct unetmm_dev *dev,
					struct unetmm_aspace *space,
					size_t bytes);
void unetmm_block_put(struct unetmm_block *block);
void unetmm_blocks_bury(struct unetmm_dev *dev);
int unetmm_mmap(struct file *filp, struct vm_area_struct *vma);
u64 unetmm_map_offset(u32 ep, bool doorbell);
u64 unetmm_map_utlb_log(void);
u64 unetmm_map_event_counters(void);
u64 unetmm_map_window(u32 ep, bool proxy, u32 page);
void unetmm_doorbell_zap(struct unetmm_file *file, u32 ep);

/* unetmm_window.c */
int unetmm_windows_init(struct unetmm_dev *dev);
void unetmm_windows_exit(struct unetmm_dev *dev);
void unetmm_windows_close(struct unetmm_ep *ep);
phys_addr_t unetmm_window_phys(struct unetmm_ep *ep, bool proxy, u32 page);
bool unetmm_window_covers(struct unetmm_ep *ep, bool proxy, u32 page,
			  unsigned long npages);
int unetmm_op_window(struct unetmm_file *file, void *arg);
int unetmm_op_window_close(struct unetmm_file *file, void *arg);
void unetmm_undo_window(struct unetmm_file *file, const void *arg);

/* unetmm_switch.c */
bool unetmm_may_probe(void);
int unetmm_switch_watch(struct unetmm_aspace *space);
void unetmm_switch_forget(struct unetmm_aspace *space);

/* unetmm_ep.c */
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
void unetmm_ep_put(struct unetmm_ep *ep);
void unetmm_ep_close(struct unetmm_ep *ep);
void unetmm_ep_gone(struct unetmm_ep *ep);
int unetmm_op_endpoint(struct unetmm_file *file, void *arg);
int unetmm_op_endpoint_close(struct unetmm_file *file, void *arg);
void unetmm_undo_endpoint(struct unetmm_file *file, const void *arg);

/* unetmm_space.c */
struct unetmm_aspace *unetmm_space_lookup(struct unetmm_dev *dev, u32 id);
void unetmm_space_put(struct unetmm_aspace *space);
void unetmm_space_close(struct unetmm_aspace *space);
unsigned long unetmm_space_drop(struct unetmm_aspace *space,
				unsigned long start, unsigned long last);
unsigned long unetmm_space_seq(struct unetmm_aspace *space);
bool unetmm_space_changing(struct unetmm_aspace *space, unsigned long start,
			   unsigned long last);
bool unetmm_space_raced(struct unetmm_aspace *space, unsigned long seq,
			unsigned long start, unsigned long last);
int unetmm_space_command(struct unetmm_dev *dev, u32 id, u32 source,
			 u32 levels, dma_addr_t table);
int unetmm_op_space(struct unetmm_file *file, void *arg);

/* unetmm_pin.c */
int unetmm_pin_cache_init(void);
void unetmm_pin_cache_exit(void);
bool unetmm_charge_all(struct unetmm_aspace *space, u32 npages);
u32 unetmm_charge_some(struct unetmm_aspace *space, u32 npages);
void unetmm_uncharge(struct unetmm_aspace *space, u32 npages);
int unetmm_page_in(struct unetmm_aspace *space, u64 vaddr, u32 npages,
		   bool write);
int unetmm_pin_make(struct unetmm_aspace *space, unsigned long vpn,
		    struct page *page, bool write, struct unetmm_pin **result);
void unetmm_dirty_work(struct work_struct *work);
void unetmm_pins_flush(struct unetmm_aspace *space);
void unetmm_pins_settle(struct unetmm_aspace *space);
void unetmm_space_unplace(struct unetmm_aspace *space);
bool unetmm_pin_copies(const struct unetmm_aspace *space,
		       const struct vm_area_struct *vma);
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

struct vm_area_struct *unetmm_usable_vma(struct mm_struct *mm, u64 vaddr,
					 bool write, u32 *npages);
int unetmm_map_page(struct unetmm_dev *dev, struct page *page, bool write,
		    dma_addr_t *dma);
void unetmm_unmap_page(struct unetmm_dev *dev, dma_addr_t dma, bool write);
int unetmm_map_kernel(struct unetmm_dev *dev, void *mem, size_t bytes,
		      dma_addr_t *dma);
void unetmm_unmap_kernel(struct unetmm_dev *dev, dma_addr_t dma, size_t bytes);

/* unetmm_again.c */
void unetmm_again_lose(struct unetmm_aspace *space, unsigned long vpn,
		       unsigned long last);
unsigned long unetmm_again_protect(struct unetmm_aspace *space,
				   unsigned long vpn, unsigned long last);
void unetmm_again_work(struct work_struct *work);

/* unetmm_zero.c */
struct vm_area_struct *unetmm_zero_vma(struct mm_struct *mm, u64 vaddr);
int unetmm_zero_check(struct mm_struct *mm, u64 vaddr);
void unetmm_zero_map(struct unetmm_aspace *space, u64 vaddr);

/* unetmm_fault.c */
void unetmm_fault_work(struct work_struct *work);
int unetmm_resolve_pins(struct unetmm_aspace *space,
			const struct unetmm_miss *miss,
			struct unetmm_batch *batch, int most);
int unetmm_resolve_list(struct unetmm_aspace *space,
			const struct unetmm_miss *miss,
			struct unetmm_batch *batch, int most);
/* The driver's own table is what the card looks at again. */
void unetmm_resolved(struct unetmm_aspace *space,
		     const struct unetmm_miss *miss,
		     struct unetmm_batch *batch);
u8 unetmm_refusal(int err);
void unetmm_deferred_kill(struct unetmm_aspace *space);
void unetmm_deferred_orphan(struct unetmm_aspace *space);

/* unetmm_turns.c */
int unetmm_turns_init(struct unetmm_dev *dev);
void unetmm_turns_exit(struct unetmm_dev *dev);
bool unetmm_turn_add(struct unetmm_aspace *space, const struct unetmm_miss *miss);
struct unetmm_aspace *unetmm_turn_take(struct unetmm_dev *dev,
				       struct unetmm_miss *miss);

/* unetmm_region.c */
int unetmm_op_register(struct unetmm_file *file, void *arg);
int unetmm_op_deregister(struct unetmm_file *file, void *arg);
/* Is all of it registered at once, and for writing if that is wanted? */
bool unetmm_region_covers(struct unetmm_aspace *space, u64 addr, u64 last,
			  bool write);
int unetmm_region_try(struct unetmm_file *file, struct unetmm_batch *batch,
		      u64 vaddr, u32 npages, bool write);
int unetmm_region_grow(struct unetmm_file *file, u64 start, u64 last);
void unetmm_regions_free(struct unetmm_aspace *space);

/* unetmm_table.c */
int unetmm_table_init(struct unetmm_aspace *space);
void unetmm_table_free(struct unetmm_aspace *space);
dma_addr_t unetmm_table_root(const struct unetmm_table *table);
int unetmm_table_grow(struct unetmm_aspace *space, u64 start, u64 last);
int unetmm_table_try_grow(struct unetmm_aspace *space, u64 vaddr);
void unetmm_table_set(struct unetmm_table *table, unsigned long vpn, u64 pte);
u64 unetmm_pte(const struct unetmm_pin *pin);
u64 unetmm_leaf_word(const struct unetmm_leaf *leaf, unsigned int slot);
bool unetmm_table_has(struct unetmm_aspace *space, unsigned long vpn,
		      bool write);
u32 unetmm_table_run(struct unetmm_aspace *space, unsigned long vpn, u32 npages,
		     bool write);
void unetmm_table_words(struct unetmm_aspace *space, unsigned long vpn,
			u32 npages, u64 *words);
struct unetmm_leaf *unetmm_table_leaf(const struct unetmm_table *table,
				      unsigned long vpn);
struct unetmm_leaf *unetmm_table_leaf_from(const struct unetmm_table *table,
					   unsigned long *vpn,
					   unsigned long last);

/* unetmm_shadow.c */
unsigned long unetmm_shadow_drop(struct unetmm_aspace *space,
				 unsigned long vpn, unsigned long last);
int unetmm_shadow_set(struct unetmm_aspace *space, struct unetmm_batch *batch,
		      unsigned long vpn, u32 npages, unsigned long seq);

/* unetmm_snap.c */
bool unetmm_snap_map(struct unetmm_aspace *space, struct unetmm_batch *batch,
		     u32 i);
void unetmm_snap_unmap(struct unetmm_aspace *space, struct unetmm_batch *batch,
		       u32 npages);
int unetmm_snap(struct unetmm_aspace *space, struct unetmm_batch *batch,
		unsigned long vpn, unsigned long last, unsigned long target,
		bool wait);
bool unetmm_snap_lock(struct unetmm_aspace *space, bool wait);
int unetmm_snap_touch(struct unetmm_aspace *space,
		      const struct unetmm_miss *miss);
bool unetmm_snap_get(struct unetmm_aspace *space);
void unetmm_snap_put(struct unetmm_aspace *space);
void unetmm_snap_settle(struct unetmm_aspace *space);
int unetmm_shadow_resolve(struct unetmm_aspace *space,
			  const struct unetmm_miss *miss,
			  struct unetmm_batch *batch, int most);

/* unetmm_prefetch.c */
int unetmm_op_prefetch(struct unetmm_file *file, void *arg);

/* unetmm_push.c */
void unetmm_push_free(struct unetmm_aspace *space);
void unetmm_push_counters(struct unetmm_dev *dev);

/* unetmm_utlb.c */
extern unsigned int unetmm_utlb_quota_pages;
int unetmm_utlb_init(struct unetmm_aspace *space);
void unetmm_utlb_free(struct unetmm_aspace *space);
void unetmm_utlb_answer(const struct unetmm_aspace *space,
			struct unetmm_space *a);
void unetmm_utlb_lost(struct unetmm_aspace *space, unsigned long start,
		      unsigned long last, unsigned long npages);
int unetmm_utlb_mmap(const struct unetmm_aspace *space,
		     struct vm_area_struct *vma);
int unetmm_op_utlb_pin(struct unetmm_file *file, void *arg);
int unetmm_op_utlb_unpin(struct unetmm_file *file, void *arg);

/* unetmm_klist.c */
bool unetmm_klist_user(struct unetmm_aspace *space, struct unetmm_miss *miss);
void unetmm_klist_hide(struct unetmm_aspace *space, struct unetmm_pin *pin,
		       struct unetmm_kspan *span);
void unetmm_klist_invalidate(struct unetmm_aspace *space,
			     const struct unetmm_kspan *span);
void unetmm_klist_forget(struct unetmm_aspace *space, struct unetmm_pin *pin);
int unetmm_klist_fill(struct unetmm_aspace *space, struct unetmm_batch *batch,
		      u64 entry, u32 npages);
void unetmm_klist_install(struct unetmm_aspace *space, struct unetmm_kslot *slot,
			  const struct unetmm_kslot *new);
void unetmm_klist_done(struct unetmm_aspace *space, struct unetmm_kring *ring,
		       u32 cons);

/* unetmm_kpost.c */
int unetmm_op_post(struct unetmm_file *file, void *arg);
int unetmm_kqueues_create(struct unetmm_ep *ep);
void unetmm_kqueues_close(struct unetmm_ep *ep);
void unetmm_kqueues_drop(struct unetmm_ep *ep);
void unetmm_kqueues_free(struct unetmm_kqueues *kq);

/* unetmm_kep.c */
int unetmm_kep_init(struct unetmm_dev *dev);
void unetmm_kep_exit(struct unetmm_dev *dev);
bool unetmm_kep_send(struct unetmm_dev *dev, const u8 *mac,
		     const struct unetmm_control *msg);
void unetmm_kep_work(struct work_struct *work);

/* unetmm_flow.c */
/* The flow's number, or -errno. */
int unetmm_flow_set(struct unetmm_ep *ep, u8 kind, u8 flags, u16 value,
		    const u8 *mac);
void unetmm_flow_clear(struct unetmm_dev *dev, u32 number);

/* unetmm_net.c */
int unetmm_net_init(struct unetmm_dev *dev);
void unetmm_net_exit(struct unetmm_dev *dev);
/* The card is about to be stopped, and has been started again. */
void unetmm_net_suspend(struct unetmm_dev *dev);
void unetmm_net_resume(struct unetmm_dev *dev);
/* The link may have changed, or the card have failed.  From anywhere. */
void unetmm_net_event(struct unetmm_dev *dev);
void unetmm_net_interrupt(struct unetmm_dev *dev);

/* unetmm_chan.c */
void unetmm_chan_put(struct unetmm_chan *chan);
struct unetmm_chan *unetmm_chan_new(struct unetmm_ep *ep, const u8 *mac,
				    const struct unetmm_chan_how *how);
void unetmm_chan_end(struct unetmm_chan *chan, bool tell);
void unetmm_chan_unclaim(struct unetmm_ep *ep, u32 number);
void unetmm_chan_close_all(struct unetmm_ep *ep);
void unetmm_chan_hangup(struct unetmm_chan *chan);
void unetmm_tell_close(struct unetmm_dev *dev, const struct unetmm_chan *chan);
struct unetmm_ep *unetmm_chan_ep(struct unetmm_dev *dev, u16 id);
struct unetmm_chan *unetmm_chan_of_peer(struct unetmm_dev *dev, const u8 *mac,
					const struct unetmm_control *msg);
void unetmm_control(struct unetmm_dev *dev, const u8 *mac,
		    const struct unetmm_control *msg);

/* unetmm_export.c */
struct unetmm_exported {
	struct list_head node;		/* file->exports; ctl.lock */
	struct list_head parts;		/* that have moved; likewise */
	u64 id;
	u64 addr;
	u64 last;
	u64 length;
	u32 region;
	u32 key;
	u16 counter;			/* event counters that it gives */
	u16 ncounters;
	u8 rights;
	bool redirect;			/* its parts may move */
};

/* ctl.lock; NULL: the file has no such export. */
struct unetmm_exported *unetmm_exported_find(struct unetmm_file *file, u64 id);
int unetmm_export_memory(u64 addr, u64 last, u8 rights);
int unetmm_op_export(struct unetmm_file *file, void *arg);
int unetmm_op_unexport(struct unetmm_file *file, void *arg);
void unetmm_exports_close(struct unetmm_file *file);
void unetmm_export_answer(struct unetmm_chan *chan,
			  const struct unetmm_control *msg,
			  struct unetmm_control *ack);

/* unetmm_redirect.c */
int unetmm_redirect_start(struct unetmm_dev *dev);
void unetmm_redirect_stop(struct unetmm_dev *dev);
/* ctl.lock: is any of it the place of a part? */
bool unetmm_parts_collide(struct unetmm_file *file, u64 addr, u64 last);
void unetmm_parts_take(struct unetmm_exported *export, struct list_head *parts);
void unetmm_parts_free(struct unetmm_file *file, struct list_head *parts);
void unetmm_parts_close(struct list_head *parts);
int unetmm_op_redirect(struct unetmm_file *file, void *arg);
int unetmm_op_redirect_go(struct unetmm_file *file, void *arg);
void unetmm_undo_redirect(struct unetmm_file *file, const void *arg);

/* unetmm_sysbuf.c */
extern unsigned int unetmm_redirect_slots;
extern unsigned int unetmm_redirect_credits;
void unetmm_sysbuf_init(struct unetmm_dev *dev);
int unetmm_sysbuf_get(struct unetmm_dev *dev);
void unetmm_sysbuf_put(struct unetmm_dev *dev);
void unetmm_sysbuf_stop(struct unetmm_dev *dev);
u32 unetmm_sysbuf_reserve(struct unetmm_ep *ep);
void unetmm_sysbuf_unreserve(struct unetmm_ep *ep, u32 slots);
void unetmm_sysbuf_answer(struct unetmm_dev *dev, struct unetmm_sysjob *job,
			  u8 status);
void unetmm_sysbuf_report(struct unetmm_dev *dev,
			  const struct unetmm_fault *rec, u64 index,
			  u64 seen_ns);
int unetmm_sysbuf_set_region(struct unetmm_dev *dev, u32 region);
/* Reports before this one, and not those from it on, are there already. */
u64 unetmm_sysbuf_now(struct unetmm_dev *dev);

/* unetmm_stages.c */
void unetmm_hist_add(struct unetmm_hist *hist, u64 ns);
void unetmm_hist_show(struct seq_file *s, const char *name,
		      const struct unetmm_hist *hist);
void unetmm_stages_clock(struct unetmm_dev *dev, u64 seen_ns);
void unetmm_stages_came(struct unetmm_dev *dev, const struct unetmm_fault *rec,
			struct unetmm_miss *miss);
void unetmm_stages_begin(struct unetmm_dev *dev, const struct unetmm_miss *miss,
			 struct unetmm_batch *batch);
void unetmm_stages_end(struct unetmm_dev *dev, const struct unetmm_batch *batch);
u64 unetmm_stages_inv(struct unetmm_dev *dev, enum unetmm_inv_stage stage,
		      u64 began_ns);

/* unetmm_sysq.c */
int unetmm_sysq_open(struct unetmm_ep *ep);
void unetmm_sysq_close(struct unetmm_ep *ep);
/* sysbuf.lock; false: it was for somebody who has gone. */
bool unetmm_sysq_add(struct unetmm_sysq *q, u32 space,
		     struct unetmm_sysjob *job);
void unetmm_sysq_clear_region(struct unetmm_aspace *space, u32 region);
void unetmm_sysq_orphan(struct unetmm_aspace *space);

/* unetmm_raw.c */
int unetmm_raw_check(const struct unetmm_dev *dev,
		     const struct unetmm_endpoint *a);
int unetmm_op_flow(struct unetmm_file *file, void *arg);
int unetmm_op_flow_end(struct unetmm_file *file, void *arg);
void unetmm_undo_flow(struct unetmm_file *file, const void *arg);
void unetmm_raw_close(struct unetmm_ep *ep);

/* unetmm_backup.c */
extern unsigned int unetmm_backup_buffers;
void unetmm_backup_init(struct unetmm_dev *dev);
int unetmm_backup_get(struct unetmm_aspace *space, u32 want);
void unetmm_backup_put(struct unetmm_aspace *space, u32 bits);
void unetmm_backbuf_put(struct unetmm_dev *dev, struct unetmm_backbuf *buf);
void unetmm_backup_report(struct unetmm_dev *dev,
			  const struct unetmm_fault *rec, u64 index);
void unetmm_backup_show(struct seq_file *s, struct unetmm_dev *dev);

/* unetmm_backq.c */
int unetmm_backq_open(struct unetmm_ep *ep, u32 want);
void unetmm_backq_close(struct unetmm_ep *ep);
bool unetmm_backq_add(struct unetmm_backq *q, const struct unetmm_fault *rec,
		      u64 index, struct unetmm_backbuf *buf);
struct unetmm_aspace *unetmm_backq_space(const struct unetmm_backq *q);
void unetmm_backq_tail(struct unetmm_backq *q);
void unetmm_backq_orphan(struct unetmm_aspace *space);

/* unetmm_import.c */
int unetmm_op_import(struct unetmm_file *file, void *arg);
int unetmm_op_unimport(struct unetmm_file *file, void *arg);
void unetmm_undo_import(struct unetmm_file *file, const void *arg);
void unetmm_got_import(struct unetmm_dev *dev, const u8 *mac,
		       const struct unetmm_control *msg);
void unetmm_got_import_ack(struct unetmm_dev *dev, const u8 *mac,
			   const struct unetmm_control *msg);

/* unetmm_ghost.c */
enum unetmm_want {
	UNETMM_WANT_PLACE,		/* in a backlog */
	UNETMM_WANT_NUMBER,		/* of the endpoint's channels */
	UNETMM_WANT_CARD,		/* what all endpoints share */
};

u32 unetmm_mac_key(const struct unetmm_ctl *ctl, const u8 *mac, u32 more);
u32 unetmm_uid_key(const struct unetmm_ctl *ctl, kuid_t uid);
void unetmm_rates_init(struct unetmm_rates *rates, int burst);
bool unetmm_may_now(struct unetmm_rates *rates, u32 key);
void unetmm_chan_confirm(struct unetmm_dev *dev, const u8 *mac, u64 nonce);
void unetmm_ghost_accepted(struct unetmm_chan *chan);
void unetmm_ghost_hunt(struct unetmm_ep *ep, enum unetmm_want want);
void unetmm_ghost_forget(struct unetmm_ep *ep);
void unetmm_ghost_work(struct work_struct *work);

/* unetmm_connect.c */
u64 unetmm_time_left(u64 deadline_ns, u32 attempt);
int unetmm_pause(u64 ns);
int unetmm_op_listen(struct unetmm_file *file, void *arg);
int unetmm_op_accept(struct unetmm_file *file, void *arg);
void unetmm_undo_accept(struct unetmm_file *file, const void *arg);
int unetmm_op_connect(struct unetmm_file *file, void *arg);
void unetmm_undo_connect(struct unetmm_file *file, const void *arg);
int unetmm_op_channel_close(struct unetmm_file *file, void *arg);
int unetmm_op_probe(struct unetmm_file *file, void *arg);

/* unetmm_eventcount.c */
void unetmm_ec_notified(struct unetmm_dev *dev, u32 space, u32 id);
void unetmm_ecs_close(struct unetmm_aspace *space);
void unetmm_ecs_free(struct unetmm_aspace *space);
struct unetmm_block *unetmm_ecs_block(struct unetmm_aspace *space);
int unetmm_ecs_give(struct unetmm_aspace *space, u32 first, u32 n);
void unetmm_ecs_take_back(struct unetmm_aspace *space, u32 first, u32 n);
int unetmm_op_event(struct unetmm_file *file, void *arg);
void unetmm_undo_event(struct unetmm_file *file, const void *arg);
int unetmm_op_event_close(struct unetmm_file *file, void *arg);
int unetmm_op_event_wait(struct unetmm_file *file, void *arg);
int unetmm_op_event_arm(struct unetmm_file *file, void *arg);

/* unetmm_user.c */
enum unetmm_use {
	UNETMM_USE_BACKUP,		/* bits of endpoints */
	UNETMM_USE_SLOTS,		/* credits of channels */
	UNETMM_USE_THREADS,
	UNETMM_USE_SPACES,
	UNETMM_USE_ENDPOINTS,
	UNETMM_NUM_USES
};

struct unetmm_group {
	struct mem_cgroup *memcg;
	struct mem_cgroup *before;
};

void unetmm_users_init(struct unetmm_dev *dev);
int unetmm_user_get(struct unetmm_aspace *space);
void unetmm_user_put(struct unetmm_aspace *space);
u32 unetmm_user_take(struct unetmm_aspace *space, enum unetmm_use use, u32 n);
void unetmm_user_give(struct unetmm_aspace *space, enum unetmm_use use, u32 n);
void unetmm_user_count(struct unetmm_aspace *space, enum unetmm_use use);
void unetmm_group_enter(struct unetmm_aspace *space,
			struct unetmm_group *group);
void unetmm_group_leave(struct unetmm_group *group);

/* unetmm_counters.c */
extern const char * const unetmm_driver_counter_names[];
int unetmm_op_counters(struct unetmm_file *file, void *arg);
void unetmm_pinned_add(struct unetmm_dev *dev, u32 n);
void unetmm_pinned_sub(struct unetmm_dev *dev, u32 n);

/* unetmm_debugfs.c */
void unetmm_debugfs_init(void);
void unetmm_debugfs_exit(void);
void unetmm_debugfs_add(struct unetmm_dev *dev);
void unetmm_debugfs_remove(struct unetmm_dev *dev);

#endif /* UNETMM_DRV_H */
