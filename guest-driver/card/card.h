/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: the module's entry points, and the file that processes open.
 */
#ifndef UNETMM_CARD_H
#define UNETMM_CARD_H

#include <linux/auxiliary_bus.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>

#include "remote/remote.h"
#include "channel/channel.h"
#include "backup/backup.h"
#include "redirect/redirect.h"
#include "ep/ep.h"
#include "memory/memory.h"
#include "ring/ring.h"
#include "util/watch.h"

/* A card in one piece: base/'s part, the parts of the rooms above it, and of this room. */
struct unetmm_card {
	struct unetmm_dev dev;		/* first: base/dev.c frees it */
	struct unetmm_rings rings;
	struct unetmm_miss_table misses;
	struct unetmm_flows flows;
	struct unetmm_sysbuf sysbuf;
	struct unetmm_backup_ring backup;
	struct unetmm_ctl ctl;
	struct unetmm_remote remote;
	struct miscdevice misc;
	struct dentry *debugfs;
	struct unetmm_health *health;	/* card/devlink.c; or NULL */
	struct unetmm_auxiliary *auxiliary;	/* or NULL */
};

static inline struct unetmm_card *unetmm_card(struct unetmm_dev *dev)
{
	return container_of(dev, struct unetmm_card, dev);
}

/* card/tables.c */
void unetmm_tables_set(struct unetmm_dev *dev);

/* card/irq.c */
int unetmm_irq_init(struct unetmm_dev *dev);
void unetmm_irq_exit(struct unetmm_dev *dev);
/* All notifications of before; an interrupt may come later. */
void unetmm_notify_read(struct unetmm_dev *dev);

/* card/mmap.c */
int unetmm_mmap(struct file *filp, struct vm_area_struct *vma);

/* card/file.c */
extern const struct file_operations unetmm_fops;
struct unetmm_file *unetmm_file_new(struct unetmm_dev *dev);
void unetmm_file_free(struct unetmm_file *file);
void unetmm_file_shutdown(struct unetmm_file *file);

/* card/object.c */
int unetmm_file_enter(struct unetmm_file *file);
int unetmm_file_leave(struct unetmm_file *file, int ret);
int unetmm_op_destroy(struct unetmm_file *file, void *arg);
int unetmm_object_end(struct unetmm_file *file, const struct unetmm_destroy *a);

/* card/counters.c */
extern const char * const unetmm_driver_counter_names[];
int unetmm_op_counters(struct unetmm_file *file, void *arg);

/* card/devlink.c; without devlink in the kernel there is nothing of it */
#ifdef CONFIG_NET_DEVLINK
int unetmm_devlink_add(struct unetmm_dev *dev);
void unetmm_devlink_remove(struct unetmm_dev *dev);
/* The card was given up, or has been started again. */
void unetmm_devlink_health(struct unetmm_dev *dev);
#else
static inline int unetmm_devlink_add(struct unetmm_dev *dev)
{
	return 0;
}

static inline void unetmm_devlink_remove(struct unetmm_dev *dev)
{
}

static inline void unetmm_devlink_health(struct unetmm_dev *dev)
{
}
#endif

struct unetmm_ep_lent;

/*
 * card/auxiliary.c: the card as unetmm_ib.ko sees it.  The module has these calls, and no
 * symbol of ours: each of the two may be loaded and removed while the other is there.  A
 * file is a verbs context; its endpoints have channel 0 and no other.
 */
struct unetmm_lent_calls {
	/* A context of the calling process, with an address space of source odp. */
	struct unetmm_file *(*open)(struct unetmm_dev *dev);
	void (*close)(struct unetmm_file *file);
	/* Is it the calling process's?  A child has the descriptor, and other memory. */
	bool (*ours)(const struct unetmm_file *file);
	/* A reference.  `woken` comes in interrupts, and does not after ep_close(). */
	struct unetmm_ep *(*ep_open)(struct unetmm_file *file, struct unetmm_endpoint *a,
				     const struct unetmm_ep_lent *lent,
				     void (*woken)(struct unetmm_ep *ep, u8 type), void *owner);
	/* Makes the endpoint anew, with its number and empty queues, without a channel. */
	int (*ep_restart)(struct unetmm_ep *ep, u32 policy);
	void (*ep_close)(struct unetmm_ep *ep);
	/* Gives a further reference of the module back. */
	void (*ep_put)(struct unetmm_ep *ep);
	const struct unetmm_cqe *(*ep_peek)(const struct unetmm_ep *ep, u32 cons);
	bool (*ep_arm)(const struct unetmm_ep *ep, u32 cons);
	/* A shared free queue: `woken` comes once fewer buffers are left; result 1: they are now. */
	int (*low_arm)(struct unetmm_ep *ep, u32 buffers, u32 *result);
	int (*channel_set)(struct unetmm_ep *ep, const struct unetmm_cmd_channel *how);
	int (*channel_modify)(struct unetmm_ep *ep, const struct unetmm_cmd_modify *how);
	/* Ends channel 0: all requests that the endpoint has, or gets, come back; then CQE_CLOSED. */
	int (*channel_flush)(struct unetmm_ep *ep);
	/* Exports memory of the calling process; a->flags KEYED or WHOLE. */
	int (*region_set)(struct unetmm_file *file, const struct unetmm_export *a, u64 iova,
			  u32 pd, u32 *rkey);
	void (*region_clear)(struct unetmm_file *file, u64 id);
	/* Regions of the context's memory without pages of their own; a number, above 0, or -errno. */
	int (*window_take)(struct unetmm_file *file, struct rdma_cgroup **group);
	void (*window_give)(struct unetmm_file *file, u32 region, struct rdma_cgroup *group);
	int (*window_set)(struct unetmm_file *file, const struct unetmm_cmd_region *how);
	/* When this has ended no peer reaches anything by the region. */
	void (*window_clear)(struct unetmm_file *file, u32 region);
	/* UNETMM_IOC_PREFETCH of the calling process. */
	int (*page_in)(struct unetmm_file *file, void *arg);
	/* May the calling process use all of [addr, last] so?  UNETMM_RIGHT_* */
	int (*memory)(u64 addr, u64 last, u8 rights);
	/* Begins or ends to count the paging of the context's memory. */
	void (*watch)(struct unetmm_file *file, struct unetmm_watch *watch, bool on);
	/* Memory of the context's own, against its user's limit. */
	bool (*charge)(struct unetmm_file *file, u32 npages);
	void (*uncharge)(struct unetmm_file *file, u32 npages);
	/* One of the small objects that a user may have. */
	bool (*take)(struct unetmm_file *file);
	void (*give)(struct unetmm_file *file);
	struct net_device *(*netdev)(struct unetmm_dev *dev);
	const struct unetmm_kernel_calls *kernel;
};

/*
 * card/kernel_space.c: queue pairs of the kernel are endpoints of a space that no process has,
 * with source pinned and a table of the module's own.  The calls for endpoints and channels
 * above take these endpoints, too, but for ep_open().  All of them may sleep.
 */
struct unetmm_kernel_calls {
	/* The card has the source, and sees each page at its physical address, not a copy. */
	bool (*direct)(struct unetmm_dev *dev);
	/* The number of a new space with the table at `root`, or -errno. */
	int (*open)(struct unetmm_dev *dev, dma_addr_t root, u32 levels);
	void (*close)(struct unetmm_dev *dev, u32 space);
	struct unetmm_ep *(*ep_open)(struct unetmm_dev *dev, u32 space,
				     const struct unetmm_endpoint *a, u32 pd,
				     void (*woken)(struct unetmm_ep *ep, u8 type), void *owner);
	/* A number of the card's regions, above 0, or -errno. */
	int (*region_take)(struct unetmm_dev *dev);
	void (*region_give)(struct unetmm_dev *dev, u32 region);
	int (*region_set)(struct unetmm_dev *dev, u32 space, const struct unetmm_cmd_region *how);
	/* When this has ended no peer reaches anything by the region. */
	void (*region_clear)(struct unetmm_dev *dev, u32 region);
	/* When this has ended the card has no entry of [start, last], and no page is moving. */
	void (*invalidate)(struct unetmm_dev *dev, u32 space, u64 start, u64 last);
};

extern const struct unetmm_kernel_calls unetmm_kernel_calls;
int unetmm_kernel_ep_restart(struct unetmm_ep *ep, u32 policy);
void unetmm_kernel_ep_close(struct unetmm_ep *ep);

struct unetmm_auxiliary {
	struct auxiliary_device base;
	struct unetmm_dev *dev;		/* a reference */
	const struct unetmm_lent_calls *calls;
};

#define UNETMM_AUXILIARY	"verbs"

#ifdef CONFIG_AUXILIARY_BUS
/* card/auxiliary.c */
/* While the card runs.  Removing it ends all that a verbs module has on the card. */
void unetmm_auxiliary_add(struct unetmm_dev *dev);
void unetmm_auxiliary_remove(struct unetmm_dev *dev);
#else
static inline void unetmm_auxiliary_add(struct unetmm_dev *dev)
{
}

static inline void unetmm_auxiliary_remove(struct unetmm_dev *dev)
{
}
#endif

/* card/debugfs.c */
void unetmm_debugfs_init(void);
void unetmm_debugfs_exit(void);
void unetmm_debugfs_add(struct unetmm_dev *dev);
void unetmm_debugfs_remove(struct unetmm_dev *dev);

#endif /* UNETMM_CARD_H */
