// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm_ib: the requests of shared receive queues with verbs=rxe, see verbs/receive.h.
 *
 * The process can write all of the queue at any time.  A look takes at most as many requests as
 * there are records that are free.
 */
#include <linux/io.h>
#include <linux/slab.h>
#include <rdma/uverbs_ioctl.h>

#include "compat/compat.h"
#include "verbs/own.h"

/* ---- Records: s->lock ---------------------------------------------------------- */

static void unetmm_shared_give(struct unetmm_ib_shared *s, u32 number)
{
	s->records[number].posted = false;
	s->records[number].next = s->free;
	s->free = number;
}

static u32 unetmm_shared_take(struct unetmm_ib_shared *s, u64 wr_id)
{
	u32 number = s->free;
	struct unetmm_ib_record *record = &s->records[number];

	s->free = record->next;
	record->wr_id = wr_id;
	record->posted = true;
	return number;
}

/* A request has ended: its identifier.  False: the card has no such request. */
bool unetmm_shared_got(struct unetmm_ib_shared *s, u64 number, u64 *wr_id)
{
	bool found;

	mutex_lock(&s->lock);
	found = number < s->nrecords && s->records[number].posted;
	if (found) {
		*wr_id = s->records[number].wr_id;
		unetmm_shared_give(s, number);
	}
	mutex_unlock(&s->lock);
	return found;
}

/* ---- Looks --------------------------------------------------------------------- */

static u32 unetmm_shared_fill(struct unetmm_ib_shared *s)
{
	const struct rxe_recv_wqe *w = (const void *)s->request;
	u32 n = 0;

	while (s->free != s->nrecords && unetmm_ib_fq_room(&s->fq) >= max(s->fq.max_sge, 1u) &&
	       unetmm_ib_queue_peek(&s->rq, s->request, sizeof(s->request))) {
		unetmm_ib_put_receive(&s->fq, w, unetmm_shared_take(s, w->wr_id));
		unetmm_ib_queue_next(&s->rq);
		n++;
	}
	return n;
}

/* Takes the requests that librxe has posted; how many. */
u32 unetmm_shared_look(struct unetmm_ib_shared *s)
{
	u32 n = 0;

	if (!unetmm_ib_queue_waits(&s->rq))
		return 0;
	mutex_lock(&s->lock);
	n = unetmm_shared_fill(s);
	if (n) {
		unetmm_ib_fq_publish(&s->fq);
		if (unetmm_reachable(s->fq.dev->dev))
			writel(0, s->doorbell);
		WRITE_ONCE(s->pause_ns, UNETMM_IB_PAUSE_MIN);
	}
	mutex_unlock(&s->lock);
	return n;
}

static void unetmm_shared_later(struct unetmm_ib_shared *s)
{
	if (!READ_ONCE(s->closing))
		hrtimer_start(&s->timer, ns_to_ktime(READ_ONCE(s->pause_ns)),
			      HRTIMER_MODE_REL_SOFT);
}

static void unetmm_shared_work(struct work_struct *work)
{
	struct unetmm_ib_shared *s = container_of(work, struct unetmm_ib_shared, work);

	/* A full queue has none taken, until completions come: no reason to look at once. */
	if (!unetmm_shared_look(s))
		WRITE_ONCE(s->pause_ns, UNETMM_IB_PAUSE_MAX);
	unetmm_shared_later(s);
}

/* In a soft interrupt: reads one word. */
static enum hrtimer_restart unetmm_shared_timer(struct hrtimer *timer)
{
	struct unetmm_ib_shared *s = container_of(timer, struct unetmm_ib_shared, timer);
	u64 pause;

	if (READ_ONCE(s->closing))
		return HRTIMER_NORESTART;
	if (unetmm_ib_queue_waits(&s->rq)) {
		queue_work(unetmm_ib_wq, &s->work);
		return HRTIMER_NORESTART;
	}
	pause = min_t(u64, 2 * READ_ONCE(s->pause_ns), UNETMM_IB_PAUSE_MAX);
	WRITE_ONCE(s->pause_ns, pause);
	hrtimer_forward_now(timer, ns_to_ktime(pause));
	return HRTIMER_RESTART;
}

/* ---- Life ---------------------------------------------------------------------- */

static int unetmm_shared_make(struct unetmm_ib_shared *s, struct unetmm_ib_context *context,
			      struct ib_srq_attr *attr)
{
	u32 sge = max(attr->max_sge, 1u), i;
	int ret = unetmm_ib_queue_make(&s->rq, &context->ib, attr->max_wr,
				       sizeof(struct rxe_recv_wqe) + sge * sizeof(struct rxe_sge));

	if (ret)
		return ret;
	attr->max_wr = min3(s->rq.mask, (u32)UNETMM_IB_MAX_WR,
			    (u32)BIT(s->fq.dev->dev->hw.max_log2) / sge);
	s->nrecords = attr->max_wr;
	s->records = kvcalloc(s->nrecords, sizeof(*s->records), GFP_KERNEL_ACCOUNT);
	if (!s->records)
		return -ENOMEM;
	for (i = 0; i < s->nrecords; i++)
		s->records[i].next = i + 1;
	return 0;
}

/* Before the endpoint is there: the queue, whose size is that of `attr` then. */
int unetmm_shared_open(struct unetmm_ib_srq *srq, struct unetmm_ib_context *context,
		       struct ib_srq_attr *attr)
{
	struct unetmm_ib_shared *s = kvzalloc(sizeof(*s), GFP_KERNEL_ACCOUNT);

	if (!s)
		return -ENOMEM;
	s->fq.dev = unetmm_ib_of(srq->ib.device);
	s->fq.pd = srq->ib.pd;
	s->fq.max_sge = attr->max_sge;
	mutex_init(&s->lock);
	INIT_WORK(&s->work, unetmm_shared_work);
	unetmm_hrtimer_setup(&s->timer, unetmm_shared_timer, CLOCK_MONOTONIC,
			     HRTIMER_MODE_REL_SOFT);
	s->pause_ns = UNETMM_IB_PAUSE_MIN;
	srq->shared = s;
	return unetmm_shared_make(s, context, attr);
}

/* The endpoint is there: librxe learns of the queue. */
int unetmm_shared_start(struct unetmm_ib_srq *srq, struct ib_udata *udata)
{
	struct unetmm_ib_shared *s = srq->shared;
	struct unetmm_dev *dev = s->fq.dev->dev;
	struct rxe_create_srq_resp resp = {
		.mi = s->rq.info,
		.srq_num = srq->ep->id,
	};

	s->fq.ep = srq->ep;
	s->doorbell = ioremap(dev->doorbell_start +
			      (resource_size_t)srq->ep->id * dev->hw.db_stride, PAGE_SIZE);
	if (!s->doorbell)
		return -ENOMEM;
	unetmm_shared_later(s);
	return ib_copy_to_udata(udata, &resp, sizeof(resp));
}

/* Also of one that is made in part.  The queue pairs are gone. */
void unetmm_shared_close(struct unetmm_ib_srq *srq)
{
	struct unetmm_ib_shared *s = srq->shared;

	if (!s)
		return;
	WRITE_ONCE(s->closing, true);
	/* The work may start the timer once more, which then ends. */
	hrtimer_cancel(&s->timer);
	cancel_work_sync(&s->work);
	hrtimer_cancel(&s->timer);
	if (s->doorbell)
		iounmap(s->doorbell);
	unetmm_ib_queue_free(&s->rq);
	kvfree(s->records);
	kvfree(s);
	srq->shared = NULL;
}
