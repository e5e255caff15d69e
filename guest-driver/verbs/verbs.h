/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm_ib: the card as an RDMA device.  docs/verbs.rst has the map of verbs' objects.
 *
 * With verbs=rxe a process maps queues of work requests and of completions.  The engine copies
 * requests from there to the queue pair's endpoint, and the endpoint's completions back.
 *
 * LIFETIMES
 *
 *   unetmm_ib     from probe() to remove(), which ends all objects (ib_unregister_device()).
 *   contexts, queues, queue pairs   as ib_core has them: a queue pair goes before its
 *                 completion queues, and these before their context.  When a process dies
 *                 ib_core destroys them with its file; unetmm_ib_close() ends the endpoint.
 *   memory of a queue   from its object's creation to its end; pages that a process has
 *                 mapped stay the process's until it unmaps them.
 *   a shared receive queue   goes behind its queue pairs; until then the card refuses to
 *                 end its endpoint.  With verbs=rxe it has the requests that its queue pairs took
 *                 and have not told, so the end of a queue pair waits for the card's flush.
 *   a memory window   keeps the region that it is bound to (EBUSY), and leaves a queue pair that goes.
 *   a memory region   is found under mrs.xa_lock, the kernel's under the lock of its number in
 *                 kernel.mr_locks, and used under that lock only.
 *
 * LOCKS, the outer ones first
 *
 *   uds_lock, and the lock of a process's UD queue pairs   see verbs/ud.c.
 *   qp->lock      a queue pair's state, its queues, its endpoint's queues.  The engine
 *                 holds the lock for a bounded time: see unetmm_ib_run().
 *   shared->lock  the requests of a shared receive queue, with verbs=rxe.
 *   kernel.mr_locks   a region of the kernel.
 *   mw_lock       memory windows of a context, and the ends of its regions.
 *   kernel.lock   the kernel's space, and its table; never with one of mr_locks.
 *   mrs.xa_lock   the regions.
 *   qp->post_lock   posts of the kernel; interrupts are off.
 *   cq->lock      a completion queue; interrupts may be off.  See verbs/event.c, too.
 *   gsi->lock     see verbs/gsi.c.
 *
 * A queue that is mapped is the process's: it may write anything there at any time.  The
 * driver keeps its own index, size and mask of each queue, reads the process's index once,
 * copies an entry before it looks at it, and takes a bounded number of entries in a turn.
 *
 * A queue pair of the kernel has the same queues, in memory that nobody maps: a post, in any
 * context, is an entry there.  The engine's work item alone calls the consumer's handlers.
 */
#ifndef UNETMM_VERBS_H
#define UNETMM_VERBS_H

#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_user_rxe.h>
#include <linux/unetmm_verbs.h>

#include "card/card.h"
#include "ep/ep.h"
#include "verbs/event.h"
#include "verbs/kernel.h"
#include "verbs/queue.h"
#include "verbs/receive.h"

#define UNETMM_IB_ABI		2	/* rxe's */
#define UNETMM_IB_MAX_WR	4096
#define UNETMM_IB_MAX_SGE	UNETMM_MAX_SEGS
#define UNETMM_IB_MAX_CQE	32767
/* Bytes of a send request: its head and 16 segments, or inline data; a power of two. */
#define UNETMM_IB_WQE_BYTES	512
/* Numbers 0 and 1 are special; queue pairs have those of endpoints behind this one. */
#define UNETMM_IB_QPN		UNETMM_VERBS_QPN

static_assert(sizeof(struct rxe_send_wqe) + UNETMM_MAX_INLINE <= UNETMM_IB_WQE_BYTES);
static_assert(sizeof(struct rxe_send_wqe) + UNETMM_MAX_SEGS * sizeof(struct rxe_sge) <=
	      UNETMM_IB_WQE_BYTES);

struct unetmm_ib {
	struct ib_device ib;		/* first */
	struct unetmm_dev *dev;
	const struct unetmm_lent_calls *calls;
	bool own;			/* verbs=own: processes */
	bool direct;			/* DMA addresses are physical ones: the kernel may post */
	struct unetmm_ib_kernel kernel;
	struct net_device *netdev;
	struct notifier_block notifier;	/* of netdevs: the link */
	struct xarray mrs;		/* by lkey >> 8 */
	u32 mr_next;
	struct unetmm_ib_gsi *gsi;	/* NULL: nobody has made QP1 */
	struct list_head uds;		/* processes with UD queue pairs; uds_lock */
	struct mutex uds_lock;
	atomic_t pd_next;
};

struct unetmm_ib_context {
	struct ib_ucontext ib;
	struct unetmm_file *file;
	struct xarray mws;		/* windows, by number of the card's region; mw_lock */
	struct mutex mw_lock;
};

struct unetmm_ib_pd {
	struct ib_pd ib;
	u32 number;			/* the card's */
	atomic_t uds;			/* UD queue pairs: see verbs/mr.c */
};

struct unetmm_ib_cq {
	struct ib_cq ib;
	spinlock_t lock;		/* all below */
	struct unetmm_ib_queue q;	/* a process's */
	u32 notify;			/* IB_CQ_SOLICITED_MASK, or 0 */
	bool overrun;
	struct ib_wc *ring;		/* the kernel's */
	u32 size;			/* of it: a power of two */
	u32 requests;			/* its queue pairs may have so many */
	struct unetmm_file *file;	/* of our provider: the object is counted there */
	u32 head, tail;
	struct list_head places;	/* of queue pairs, with our provider; places_lock */
	struct mutex places_lock;
};

struct unetmm_ib_qp {
	struct ib_qp ib;
	struct unetmm_ib *dev;
	struct unetmm_ib_context *context;	/* NULL: the kernel's */
	spinlock_t post_lock;		/* the kernel's posts to sq and rq; `posted` below */
	/* The kernel's requests since creation; the engine writes `ended`. */
	struct unetmm_ib_requests {
		u32 posted, ended;
	} sends, receives;
	struct mutex lock;		/* all below, if no comment says otherwise */
	struct work_struct work;
	void (*prepare)(struct unetmm_ib_qp *qp);	/* before a turn by the work; NULL: nothing */
	struct hrtimer timer;		/* looks for receive requests */
	u64 pause_ns;			/* of the timer */
	bool closing;			/* the timer and the work are to end */
	enum ib_qp_state state;
	struct ib_qp_attr attr;
	struct ib_qp_cap cap;
	enum ib_sig_type sig_type;
	struct unetmm_ib_queue sq, rq;
	struct unetmm_ep *ep;		/* from creation to the end */
	void __iomem *doorbell;
	struct unetmm_own_maps maps;
	struct unetmm_own_events events;
	u32 sq_prod, cq_cons;		/* the endpoint's, running freely */
	struct unetmm_ib_buffers fq;
	struct unetmm_ib_shared *shared;	/* of verbs=rxe; or NULL */
	bool flushed;			/* the card has given back all that it had */
	bool quiet;			/* it ends: nobody is told of its requests */
	struct wait_queue_head wake;	/* the card has completions */
	struct unetmm_ib_sent *sent;	/* by number; as many as the send queue has slots */
	u32 sent_next, sent_done, received_next, received_done;
	u32 fetching;			/* of these: READs and atomics that have not ended */
	struct unetmm_ib_received *received;
	bool open;			/* the card has the channel, which has not failed */
	bool card_flushes;		/* the card gives back all requests that it has */
	bool reason_told;		/* the process knows the reason of the end */
	u8 end_status;			/* UNETMM_ST_*: the reason that the card has said */
	struct unetmm_ud_process *process;	/* UD: that has it; counted in its domain, too */
	struct list_head ud;		/* process->lock */
	u32 send_end;			/* UD with librxe: sends before this place may go */
	bool counted;			/* the kernel's: in its completion queues */
	/* Since RESET: COMM_EST; LAST_WQE_REACHED, or the process wants none. */
	bool told_established, told_last;
	bool bad_request;		/* a request is wrong: nothing behind it is taken */
	struct list_head windows;	/* of type 2, bound to it; mw_lock */
	u8 request[UNETMM_IB_WQE_BYTES] __aligned(8);	/* copy of a request */
};

static inline struct unetmm_ib *unetmm_ib_of(struct ib_device *ib)
{
	return container_of(ib, struct unetmm_ib, ib);
}

static inline struct unetmm_ib_context *unetmm_ib_context(struct ib_ucontext *ib)
{
	return container_of(ib, struct unetmm_ib_context, ib);
}

static inline struct unetmm_ib_pd *unetmm_ib_pd(struct ib_pd *ib)
{
	return container_of(ib, struct unetmm_ib_pd, ib);
}

static inline struct unetmm_ib_cq *unetmm_ib_cq(struct ib_cq *ib)
{
	return container_of(ib, struct unetmm_ib_cq, ib);
}

static inline struct unetmm_ib_qp *unetmm_ib_qp(struct ib_qp *ib)
{
	return container_of(ib, struct unetmm_ib_qp, ib);
}

static inline bool unetmm_ib_is_kernel(const struct unetmm_ib_qp *qp)
{
	return !qp->context;
}

/* Bytes of the longest message.  A gigabyte of the kernel would take 512 tables of pages. */
static inline u32 unetmm_ib_longest(const struct unetmm_ib *dev, bool kernel)
{
	if (dev->dev->hw.caps & UNETMM_CAP_LONG)
		return kernel ? UNETMM_MAX_MESSAGE : UNETMM_MAX_STRICT_MESSAGE;
	return min_t(u32, (dev->dev->hw.max_buf_pages - 1) << PAGE_SHIFT, UNETMM_MAX_MESSAGE);
}

/* The process has the endpoint's queues. */
static inline bool unetmm_ib_is_own(const struct unetmm_ib_qp *qp)
{
	return qp->dev->own && !unetmm_ib_is_kernel(qp);
}

static inline bool unetmm_ib_is_ud(const struct unetmm_ib_qp *qp)
{
	return qp->ib.qp_type == IB_QPT_UD;
}

/* verbs/cq.c */
extern const struct ib_device_ops unetmm_ib_cq_ops;
void unetmm_ib_cq_put(struct ib_cq *ib, const struct ib_uverbs_wc *wc, struct ib_qp *qp,
		      bool solicited);
void unetmm_ib_cq_wake(struct ib_cq *ib);
void unetmm_ib_cq_put_kernel(struct ib_cq *ib, const struct ib_wc *wc);
int unetmm_ib_cq_join(struct ib_cq *ib, u32 requests);
void unetmm_ib_cq_leave(struct ib_cq *ib, const struct ib_qp *qp, u32 requests);

/* verbs/engine.c */
void unetmm_ib_kick(struct unetmm_ib_qp *qp);
void unetmm_ib_run(struct unetmm_ib_qp *qp);
void unetmm_ib_error(struct unetmm_ib_qp *qp);
void unetmm_ib_tell_end(struct unetmm_ib_qp *qp);
void unetmm_ib_tell_last(struct unetmm_ib_qp *qp);
bool unetmm_ib_receives_wait(struct unetmm_ib_qp *qp);
void unetmm_ib_end_shared(struct unetmm_ib_qp *qp);
void unetmm_ib_work(struct work_struct *work);
enum hrtimer_restart unetmm_ib_timer(struct hrtimer *timer);
void unetmm_ib_woken(struct unetmm_ep *ep, u8 type);

/* verbs/qp.c */
extern const struct ib_device_ops unetmm_ib_qp_ops;

/* verbs/context.c */
extern const struct ib_device_ops unetmm_ib_context_ops;
int unetmm_ib_take(const struct ib_pd *pd);
void unetmm_ib_give(const struct ib_pd *pd);

#endif /* UNETMM_VERBS_H */
