// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm_ib: completion queues: of processes, which read their memory, and of the kernel.
 *
 * The wire does not say which message is solicited: each message that is received, and
 * each error, counts as solicited.
 *
 * A queue of the kernel has room for all requests of its queue pairs, whatever size the consumer
 * asked for: a flush ends all of them at once, also those that are not signaled.
 */
#include <linux/slab.h>
#include <rdma/uverbs_ioctl.h>

#include "compat/compat.h"
#include "verbs/verbs.h"

static bool unetmm_ib_cq_wakes(struct unetmm_ib_cq *cq, bool solicited)
{
	bool wakes = cq->notify == IB_CQ_NEXT_COMP || (cq->notify && solicited);

	lockdep_assert_held(&cq->lock);
	if (wakes)
		cq->notify = 0;
	return wakes;
}

/* A completion had no room and is lost: true, if the owner is to be told, which is once. */
static bool unetmm_ib_cq_loses(struct unetmm_ib_cq *cq)
{
	bool first = !cq->overrun;

	lockdep_assert_held(&cq->lock);
	cq->overrun = true;
	return first;
}

static void unetmm_ib_cq_overrun(struct unetmm_ib_cq *cq)
{
	struct ib_event event = {
		.device = cq->ib.device,
		.event = IB_EVENT_CQ_ERR,
		.element.cq = &cq->ib,
	};

	if (cq->ib.event_handler)
		cq->ib.event_handler(&event, cq->ib.cq_context);
	else
		ibdev_err(cq->ib.device,
			  "a completion queue of %d entries is full: completions are lost\n",
			  cq->ib.cqe);
}

static void unetmm_ib_cq_put_qp(struct ib_cq *ib, const struct ib_uverbs_wc *wc, struct ib_qp *qp)
{
	struct ib_wc own = {
		.wr_id = wc->wr_id,
		.status = wc->status,
		.opcode = wc->opcode,
		.byte_len = wc->byte_len,
		.qp = qp,
		.src_qp = wc->src_qp,
		.wc_flags = wc->wc_flags,
		.port_num = wc->port_num,
	};

	if (wc->wc_flags & IB_WC_WITH_INVALIDATE)
		own.ex.invalidate_rkey = wc->ex.invalidate_rkey;
	else
		own.ex.imm_data = wc->ex.imm_data;
	unetmm_ib_cq_put_kernel(ib, &own);
}

void unetmm_ib_cq_put(struct ib_cq *ib, const struct ib_uverbs_wc *wc, struct ib_qp *qp,
		      bool solicited)
{
	struct unetmm_ib_cq *cq = unetmm_ib_cq(ib);
	bool wake, lost = false;
	unsigned long flags;

	if (cq->ring) {
		unetmm_ib_cq_put_qp(ib, wc, qp);
		return;
	}
	spin_lock_irqsave(&cq->lock, flags);
	if (!unetmm_ib_queue_put(&cq->q, wc, sizeof(*wc)))
		lost = unetmm_ib_cq_loses(cq);
	wake = unetmm_ib_cq_wakes(cq, solicited || wc->status);
	spin_unlock_irqrestore(&cq->lock, flags);
	if (lost)
		unetmm_ib_cq_overrun(cq);
	if (wake)
		ib->comp_handler(ib, ib->cq_context);
}

void unetmm_ib_cq_put_kernel(struct ib_cq *ib, const struct ib_wc *wc)
{
	struct unetmm_ib_cq *cq = unetmm_ib_cq(ib);
	bool wake, lost = false;
	unsigned long flags;

	spin_lock_irqsave(&cq->lock, flags);
	if (cq->head - cq->tail < cq->size)
		cq->ring[cq->head++ & (cq->size - 1)] = *wc;
	else
		lost = unetmm_ib_cq_loses(cq);
	wake = unetmm_ib_cq_wakes(cq, true);
	spin_unlock_irqrestore(&cq->lock, flags);
	if (lost)
		unetmm_ib_cq_overrun(cq);
	if (wake)
		ib->comp_handler(ib, ib->cq_context);
}

/* The ring moves to memory of that size, if the size is more; returns memory to free. */
static struct ib_wc *unetmm_ib_cq_grow(struct unetmm_ib_cq *cq, struct ib_wc *ring, u32 size)
{
	struct ib_wc *old = cq->ring;
	u32 i;

	lockdep_assert_held(&cq->lock);
	if (size <= cq->size)
		return ring;
	for (i = cq->tail; i != cq->head; i++)
		ring[i & (size - 1)] = old[i & (cq->size - 1)];
	cq->ring = ring;
	cq->size = size;
	return old;
}

/* A queue pair of the kernel comes, with so many requests. */
int unetmm_ib_cq_join(struct ib_cq *ib, u32 requests)
{
	struct unetmm_ib_cq *cq = unetmm_ib_cq(ib);
	struct ib_wc *ring;
	u32 size;

	spin_lock_irq(&cq->lock);
	cq->requests += requests;
	size = roundup_pow_of_two(max(cq->requests, 1u));
	size = size > cq->size ? size : 0;
	spin_unlock_irq(&cq->lock);
	if (!size)
		return 0;
	ring = kvcalloc(size, sizeof(*ring), GFP_KERNEL);
	spin_lock_irq(&cq->lock);
	if (!ring) {
		cq->requests -= requests;
		spin_unlock_irq(&cq->lock);
		return -ENOMEM;
	}
	ring = unetmm_ib_cq_grow(cq, ring, size);
	spin_unlock_irq(&cq->lock);
	kvfree(ring);
	return 0;
}

/* The queue pair goes, and its completions with it: they name memory that the consumer frees. */
void unetmm_ib_cq_leave(struct ib_cq *ib, const struct ib_qp *qp, u32 requests)
{
	struct unetmm_ib_cq *cq = unetmm_ib_cq(ib);
	u32 mask, from, to;

	spin_lock_irq(&cq->lock);
	mask = cq->size - 1;
	to = cq->tail;
	for (from = cq->tail; from != cq->head; from++) {
		if (cq->ring[from & mask].qp != qp)
			cq->ring[to++ & mask] = cq->ring[from & mask];
	}
	cq->head = to;
	cq->requests -= requests;
	spin_unlock_irq(&cq->lock);
}

/* One of its endpoints has a completion, which the process takes from there. */
void unetmm_ib_cq_wake(struct ib_cq *ib)
{
	struct unetmm_ib_cq *cq = unetmm_ib_cq(ib);
	unsigned long flags;
	bool wake;

	spin_lock_irqsave(&cq->lock, flags);
	wake = unetmm_ib_cq_wakes(cq, true);
	spin_unlock_irqrestore(&cq->lock, flags);
	if (wake)
		ib->comp_handler(ib, ib->cq_context);
}

/* The queue's owner arms the queue before the driver looks: see unetmm_own_req_notify_cq(). */
bool unetmm_ib_cq_is_armed(const struct ib_cq *ib)
{
	return READ_ONCE(container_of(ib, struct unetmm_ib_cq, ib)->notify);
}

static int unetmm_ib_poll_cq(struct ib_cq *ib, int n, struct ib_wc *wc)
{
	struct unetmm_ib_cq *cq = unetmm_ib_cq(ib);
	unsigned long flags;
	int i = 0;

	/* A process reads its own. */
	if (!cq->ring)
		return 0;
	spin_lock_irqsave(&cq->lock, flags);
	while (i < n && cq->tail != cq->head)
		wc[i++] = cq->ring[cq->tail++ & (cq->size - 1)];
	spin_unlock_irqrestore(&cq->lock, flags);
	return i;
}

int unetmm_ib_req_notify_cq(struct ib_cq *ib, enum ib_cq_notify_flags how)
{
	struct unetmm_ib_cq *cq = unetmm_ib_cq(ib);
	unsigned long flags;
	bool missed;

	spin_lock_irqsave(&cq->lock, flags);
	/* "The next one" is not taken back by "the next solicited one". */
	if (cq->notify != IB_CQ_NEXT_COMP)
		cq->notify = how & IB_CQ_SOLICITED_MASK;
	missed = cq->ring ? cq->head != cq->tail : cq->q.buf &&
		 cq->q.index != (READ_ONCE(cq->q.buf->consumer_index) & cq->q.mask);
	spin_unlock_irqrestore(&cq->lock, flags);
	return how & IB_CQ_REPORT_MISSED_EVENTS && missed;
}

static int unetmm_ib_cq_make(struct unetmm_ib_cq *cq, u32 cqe, struct ib_udata *udata)
{
	struct unetmm_ib *dev = unetmm_ib_of(cq->ib.device);
	struct unetmm_ib_context *context;
	int ret;

	if (!udata) {
		/* head and tail run through 2^32. */
		cq->size = roundup_pow_of_two(cqe);
		cq->ring = kvcalloc(cq->size, sizeof(*cq->ring), GFP_KERNEL);
		cq->ib.cqe = cq->size;
		return cq->ring ? 0 : -ENOMEM;
	}
	/* The process reads the completions from its endpoints' queues. */
	context = rdma_udata_to_drv_context(udata, struct unetmm_ib_context, ib);
	if (dev->own) {
		if (!dev->calls->take(context->file))
			return -ENOMEM;
		cq->file = context->file;
		cq->ib.cqe = cqe;
		return 0;
	}
	if (udata->outlen < sizeof(struct rxe_create_cq_resp))
		return -EINVAL;
	ret = unetmm_ib_queue_make(&cq->q, &context->ib, cqe, sizeof(struct ib_uverbs_wc));
	if (ret)
		return ret;
	cq->ib.cqe = cq->q.mask;
	ret = ib_copy_to_udata(udata, &cq->q.info, sizeof(cq->q.info));
	if (ret)
		unetmm_ib_queue_free(&cq->q);
	return ret;
}

static UNETMM_CREATE_CQ(unetmm_ib_create_cq)
{
	struct unetmm_ib_cq *cq = unetmm_ib_cq(ib);

	if (attr->flags & ~IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN)
		return -EOPNOTSUPP;
	if (attr->cqe < 1 || attr->cqe > ib->device->attrs.max_cqe ||
	    attr->comp_vector >= ib->device->num_comp_vectors)
		return -EINVAL;
	spin_lock_init(&cq->lock);
	mutex_init(&cq->places_lock);
	INIT_LIST_HEAD(&cq->places);
	return unetmm_ib_cq_make(cq, attr->cqe, UNETMM_CREATE_CQ_UDATA);
}

static int unetmm_ib_destroy_cq(struct ib_cq *ib, struct ib_udata *udata)
{
	struct unetmm_ib_cq *cq = unetmm_ib_cq(ib);

	if (cq->file)
		unetmm_ib_of(ib->device)->calls->give(cq->file);
	unetmm_ib_queue_free(&cq->q);
	kvfree(cq->ring);
	return 0;
}

const struct ib_device_ops unetmm_ib_cq_ops = {
	.create_cq = unetmm_ib_create_cq,
	.destroy_cq = unetmm_ib_destroy_cq,
	.poll_cq = unetmm_ib_poll_cq,
	.req_notify_cq = unetmm_ib_req_notify_cq,
	INIT_RDMA_OBJ_SIZE(ib_cq, unetmm_ib_cq, ib),
};
