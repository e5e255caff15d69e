/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm_ib: queue pairs and memory regions of the kernel.
 */
#ifndef UNETMM_VERBS_KERNEL_H
#define UNETMM_VERBS_KERNEL_H

#include <linux/mutex.h>
#include <linux/sched/mm.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_user_rxe.h>
#include <linux/unetmm.h>

#define UNETMM_IB_MR_WRITES \
	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC)
/* Region 0 of the card is not the kernel's: no key of a region is equal. */
#define UNETMM_IB_LOCAL_LKEY	0xff0000ffu
/* Nothing is there: in a process's memory, and in the kernel's space. */
#define UNETMM_IB_HOLE		0
#define UNETMM_IB_KERNEL_HOLE	BIT_ULL(56)
#define UNETMM_IB_FAST_PAGES	512	/* a table of level 0 */
#define UNETMM_IB_MR_LOCKS	64

struct unetmm_ib;
struct unetmm_ib_fast;
struct unetmm_ib_node;
struct unetmm_ib_qp;

/* verbs/kernel.c */
struct unetmm_ib_kernel {
	struct mutex lock;		/* the next two */
	u32 space;			/* 0: none yet */
	struct unetmm_ib_node *root;
	/* struct unetmm_ib_fast, by the card's number; of each the lock of this number */
	struct xarray mrs;
	struct mutex mr_locks[UNETMM_IB_MR_LOCKS];
};

/*
 * kernel.lock.  An allocation below does not wait for memory: that may come from a block device,
 * whose requests want the lock.  The few pages of tables are of the reserve that Linux has for such
 * a device.
 */
static inline unsigned int unetmm_ib_kernel_lock(struct unetmm_ib_kernel *kernel)
{
	unsigned int flags = memalloc_noreclaim_save();

	mutex_lock(&kernel->lock);
	return flags;
}

static inline void unetmm_ib_kernel_unlock(struct unetmm_ib_kernel *kernel, unsigned int flags)
{
	mutex_unlock(&kernel->lock);
	memalloc_noreclaim_restore(flags);
}

/* UNETMM_RIGHT_* of peers */
static inline u8 unetmm_ib_rights(int access)
{
	return (access & IB_ACCESS_REMOTE_WRITE ? UNETMM_RIGHT_WRITE : 0) |
	       (access & IB_ACCESS_REMOTE_READ ? UNETMM_RIGHT_READ : 0) |
	       (access & IB_ACCESS_REMOTE_ATOMIC ? UNETMM_RIGHT_ATOMIC : 0);
}

/* verbs/kernel.c */
void unetmm_ib_kernel_init(struct unetmm_ib *dev);
void unetmm_ib_kernel_exit(struct unetmm_ib *dev);
/* Makes the kernel's space, if there is none. */
int unetmm_ib_kernel_get(struct unetmm_ib *dev);
/* The table of level 0 for the address; kernel.lock. */
__le64 *unetmm_ib_kernel_leaf(struct unetmm_ib *dev, u64 addr);
bool unetmm_ib_kernel_local(struct unetmm_ib *dev, u64 addr, u32 length);

/* verbs/fast.c */
extern const struct ib_device_ops unetmm_ib_fast_ops;
void unetmm_ib_fast_free(struct unetmm_ib *dev, struct unetmm_ib_fast *fast);
bool unetmm_ib_kernel_find(struct unetmm_ib_qp *qp, const struct rxe_sge *sge, int access,
			   u64 *addr);
/* IB_WC_*; the key of a region changes, and no peer has the old one any more. */
u8 unetmm_ib_fast_register(struct unetmm_ib_qp *qp, const struct rxe_send_wr *wr);
u8 unetmm_ib_fast_invalidate(struct unetmm_ib_qp *qp, u32 rkey, bool peer);

/* verbs/post.c */
int unetmm_ib_kernel_queues(struct unetmm_ib_qp *qp, struct ib_qp_cap *cap);
void unetmm_ib_kernel_leave(struct unetmm_ib_qp *qp);
void unetmm_ib_kernel_forget(struct unetmm_ib_qp *qp);
int unetmm_ib_kernel_send(struct unetmm_ib_qp *qp, const struct ib_send_wr *wr,
			  const struct ib_send_wr **bad);
int unetmm_ib_kernel_receive(struct unetmm_ib_qp *qp, const struct ib_recv_wr *wr,
			     const struct ib_recv_wr **bad);

#endif /* UNETMM_VERBS_KERNEL_H */
