/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: the card: its structure, its state, its registers.
 *
 * docs/driver.rst has the objects of the driver, their lifetimes and the lock order.
 */
#ifndef UNETMM_BASE_H
#define UNETMM_BASE_H

#include <linux/if_ether.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/rwsem.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include <linux/unetmm.h>
#include "unetmm_hw.h"
#include "param/param.h"

#if !(defined(CONFIG_X86_64) || defined(CONFIG_ARM64)) || PAGE_SIZE != UNETMM_PAGE_BYTES
#error "unetmm needs x86-64 or arm64, and pages of 4 KiB: build it for a kernel that has these."
#endif

#define UNETMM_NAME		"unetmm"
#define UNETMM_SHADOW_BUCKETS	32
#define UNETMM_CMD_LOG2		6	/* of the command rings; ring/ring.h */

struct rdmacg_device;
struct unetmm_aspace;
struct unetmm_backup_ring;
struct unetmm_control;
struct unetmm_ctl;
struct unetmm_dev;
struct unetmm_ep;
struct unetmm_flows;
struct unetmm_miss_table;
struct unetmm_net;
struct unetmm_pager;
struct unetmm_policy;
struct unetmm_policy_ops;
struct unetmm_remote;
struct unetmm_rings;
struct unetmm_source;
struct unetmm_sysbuf;

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

/* The card's limits, read at start. */
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
	u32 max_buf_pages;	/* of a buffer: the TLB can have so many at once, at best */
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

/* Calls to a higher room (card/tables.c).  The comment of each function has its rules. */
struct unetmm_upcalls {
	void (*dev_unused)(struct unetmm_dev *dev);
	/* The fault ring has records.  True: there may be more. */
	bool (*sort)(struct unetmm_dev *dev);
	void (*slot_report)(struct unetmm_dev *dev, const struct unetmm_fault *rec, u64 index,
			    u64 seen_ns);
	void (*backup_report)(struct unetmm_dev *dev, const struct unetmm_fault *rec, u64 index);
	bool (*ep_reported)(struct unetmm_aspace *space, u32 id, u32 index);
	void (*ep_closing)(struct unetmm_ep *ep);
	void (*space_closed)(struct unetmm_aspace *space);
	void (*space_unused)(struct unetmm_aspace *space);
	void (*got_import)(struct unetmm_dev *dev, const u8 *mac,
			   const struct unetmm_control *msg);
	void (*got_import_ack)(struct unetmm_dev *dev, const u8 *mac,
			       const struct unetmm_control *msg);
};

struct unetmm_dev {
	enum unetmm_state state;	/* first; read without a lock */
	const struct unetmm_upcalls *up;	/* set once, as the next five */
	const struct unetmm_source *const *sources;	/* by number; NULL: none */
	const struct unetmm_policy *policies;	/* by number */
	const struct unetmm_policy_ops *const *policy_ops;	/* by number */
	u32 nsources;
	u32 npolicies;
	struct pci_dev *pdev;
	struct kref ref;
	int number;
	char name[24];
	void __iomem *regs;
	void __iomem *doorbell;		/* of endpoint 0 */
	resource_size_t doorbell_start;
	resource_size_t doorbell_bytes;
	resource_size_t proxy_start;
	resource_size_t window_start;
	struct unetmm_limits hw;
	struct unetmm_params params;
	struct rw_semaphore rwsem;
	struct work_struct fail_work;
	const char *why;		/* the card was given up; or NULL */
	spinlock_t reg_lock;		/* INV_*, EP_SEL and latched counters */
	atomic64_t counters[UNETMM_NUM_DRIVER_COUNTERS];

	/*
	 * The parts of higher rooms, from probe until the structure is freed; each room's
	 * header has the structure.
	 */
	struct unetmm_rings *rings;
	struct unetmm_pager *pager;
	struct unetmm_miss_table *misses;	/* memory/ */
	struct unetmm_flows *flows;	/* ep/ */
	struct unetmm_sysbuf *sysbuf;	/* redirect/ */
	struct unetmm_backup_ring *backup;
	struct unetmm_ctl *ctl;		/* channel/ */
	struct unetmm_remote *remote;
	struct unetmm_net *net;		/* NULL: no Ethernet; from probe to remove */

	/* Lists that several rooms walk; the owner is the room that adds to them. */
	struct mutex files_lock;	/* card/: files */
	struct list_head files;
	struct mutex map_lock;		/* map/: blocks, the memory behind a mapping */
	struct list_head blocks;
	struct xarray spaces;		/* memory/ */
	spinlock_t ep_lock;		/* ep/: eps; taken in the notify interrupt */
	struct unetmm_ep **eps;
	spinlock_t users_lock;		/* space/: users, and their shares; innermost */
	struct list_head users;
	struct rdmacg_device *rdmacg;	/* space/container.c */
	atomic64_t pinned;		/* space/: pages, against pin_limit_pages */
	/* source/shadow.c; bucket n: waits for a page's lock of 2^n ns, below 2^(n+1) */
	atomic64_t shadow_waits[UNETMM_SHADOW_BUCKETS];
};

#define unetmm_count(dev, name) \
	atomic64_inc(&(dev)->counters[UNETMM_D_##name])
#define unetmm_count_add(dev, name, n) \
	atomic64_add(n, &(dev)->counters[UNETMM_D_##name])

/*
 * The result of a wait that a signal has ended, where the call may begin again with the same
 * deadline.  A stop, or a debugger, is invisible to the caller; a signal's handler ends the call
 * with EINTR, also with SA_RESTART.
 */
#define UNETMM_INTERRUPTED	(-ERESTARTNOHAND)

static inline bool unetmm_running(const struct unetmm_dev *dev)
{
	return READ_ONCE(dev->state) == UNETMM_RUNNING;
}

/* For mmap_lock or a page of the process: see docs/driver.rst. */
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

/* The value for this card: its own, or that of the module's parameter. */
static inline u32 unetmm_param(const struct unetmm_dev *dev, enum unetmm_param which)
{
	return unetmm_params_get(&dev->params, which);
}

/* base/dev.c */
extern struct workqueue_struct *unetmm_wq;
extern struct workqueue_struct *unetmm_drop_wq;
extern bool unetmm_hole;
void unetmm_fail(struct unetmm_dev *dev, const char *why);
void unetmm_check_parted(struct unetmm_dev *dev);
void unetmm_dev_put(struct unetmm_dev *dev);
void unetmm_irq_sync(struct unetmm_dev *dev);
void unetmm_pinned_add(struct unetmm_dev *dev, u32 n);
void unetmm_pinned_sub(struct unetmm_dev *dev, u32 n);

/* base/probes.c */
bool unetmm_may_probe(void);

/* base/regs.c */
/* Gives the card its own value.  May sleep; takes dev->rwsem. */
void unetmm_param_set(struct unetmm_dev *dev, enum unetmm_param which,
		      u32 value);
/* Tells the card the parameters that concern it; while it starts, or with dev->rwsem. */
void unetmm_params_apply(struct unetmm_dev *dev);
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
bool unetmm_invalidate_wait(struct unetmm_dev *dev);
void unetmm_invalidate_registers(struct unetmm_dev *dev, u32 space, u64 start,
				 u64 last);
u64 unetmm_read_counter(struct unetmm_dev *dev, u32 n);
u64 unetmm_read_ep_counter(struct unetmm_dev *dev, u32 ep, u32 n);

#endif /* UNETMM_BASE_H */
