/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm_ib: receive requests as buffers of the card, and shared receive queues with verbs=rxe.
 */
#ifndef UNETMM_VERBS_RECEIVE_H
#define UNETMM_VERBS_RECEIVE_H

#include <linux/hrtimer.h>
#include <linux/mutex.h>
#include <linux/workqueue.h>

#include "ep/ep.h"
#include "verbs/queue.h"

/* The time between two looks for requests that librxe has posted */
#define UNETMM_IB_PAUSE_MIN	(100 * NSEC_PER_USEC)
#define UNETMM_IB_PAUSE_MAX	(16 * NSEC_PER_MSEC)

struct unetmm_ib;
struct unetmm_ib_qp;
struct unetmm_ib_srq;

/* Bytes of a copy of a receive request: its head and 16 segments */
#define UNETMM_IB_RECEIVE_BYTES	(sizeof(struct rxe_recv_wqe) + \
				 UNETMM_MAX_SEGS * sizeof(struct rxe_sge))

/* The free queue of an endpoint, as the driver fills it. */
struct unetmm_ib_buffers {
	struct unetmm_ib *dev;
	struct ib_pd *pd;		/* of the memory */
	struct unetmm_ib_qp *qp;	/* NULL: a shared queue */
	struct unetmm_ep *ep;
	u32 max_sge;
	u32 prod;			/* runs freely */
};

struct unetmm_ib_received {
	u64 wr_id;
	bool done;
};

/*
 * The requests of a shared receive queue with verbs=rxe.  librxe posts them without a call: the
 * engines of its queue pairs look at each turn, and a timer looks as long as the queue exists, ever
 * more seldom while it finds nothing.  The card's completions name a request by its record.
 *
 * lock  all but the timer; inside of qp->lock
 */
struct unetmm_ib_shared {
	struct mutex lock;
	struct unetmm_ib_queue rq;
	struct unetmm_ib_buffers fq;
	void __iomem *doorbell;
	struct unetmm_ib_record {
		u64 wr_id;
		u32 next;		/* that is free */
		bool posted;
	} *records;
	u32 nrecords;
	u32 free;			/* the first; nrecords: none */
	struct work_struct work;
	struct hrtimer timer;
	u64 pause_ns;			/* of the timer */
	bool closing;			/* the timer and the work are to end */
	u8 request[UNETMM_IB_RECEIVE_BYTES] __aligned(8);	/* copy of a request */
};

/* verbs/receive.c */
u32 unetmm_ib_put_receive(struct unetmm_ib_buffers *fq, const struct rxe_recv_wqe *w, u64 cookie);
u32 unetmm_ib_fq_room(const struct unetmm_ib_buffers *fq);
void unetmm_ib_fq_publish(const struct unetmm_ib_buffers *fq);

/* verbs/shared.c */
int unetmm_shared_open(struct unetmm_ib_srq *srq, struct unetmm_ib_context *context,
		       struct ib_srq_attr *attr);
int unetmm_shared_start(struct unetmm_ib_srq *srq, struct ib_udata *udata);
void unetmm_shared_close(struct unetmm_ib_srq *srq);
u32 unetmm_shared_look(struct unetmm_ib_shared *s);
bool unetmm_shared_got(struct unetmm_ib_shared *s, u64 number, u64 *wr_id);

#endif /* UNETMM_VERBS_RECEIVE_H */
