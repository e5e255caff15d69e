// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm_ib: shared receive queues: an endpoint whose free queue the endpoints of queue pairs
 * use.  With verbs=own the process posts to the free queue as to that of a queue pair; with
 * verbs=rxe the driver does, see verbs/shared.c.
 *
 * ib_core destroys the queue pairs first: each of them counts as a user of the queue.
 */
#include <linux/slab.h>
#include <rdma/uverbs_ioctl.h>

#include "compat/compat.h"
#include "verbs/own.h"

static struct unetmm_ib_srq *unetmm_ib_srq(const struct ib_srq *ib)
{
	return container_of(ib, struct unetmm_ib_srq, ib);
}

/* The number of its endpoint; NULL: none */
u32 unetmm_srq_ep(const struct ib_srq *ib)
{
	return ib ? unetmm_ib_srq(ib)->ep->id : 0;
}

u32 unetmm_srq_requests(const struct ib_srq *ib)
{
	return ib ? unetmm_ib_srq(ib)->max_wr : 0;
}

/* verbs=rxe */
struct unetmm_ib_shared *unetmm_srq_shared(const struct ib_srq *ib)
{
	return unetmm_ib_srq(ib)->shared;
}

static void unetmm_srq_tell(struct unetmm_ib_srq *srq, enum ib_event_type type)
{
	struct ib_event event = {
		.device = srq->ib.device,
		.event = type,
		.element.srq = &srq->ib,
	};

	if (srq->ib.event_handler)
		srq->ib.event_handler(&event, srq->ib.srq_context);
}

/* As unetmm_own_woken() */
static void unetmm_srq_woken(struct unetmm_ep *ep, u8 type)
{
	struct unetmm_ib_srq *srq = ep->owner;

	if (type == UNETMM_NOTIFY_EP_ERROR)
		unetmm_srq_tell(srq, IB_EVENT_SRQ_ERR);
	else if (type == UNETMM_NOTIFY_LOW && xchg(&srq->limit, 0))
		unetmm_srq_tell(srq, IB_EVENT_SRQ_LIMIT_REACHED);
}

/* A place is free again when the card says so, which may be after its completion: twice as many. */
static void unetmm_srq_sizes(const struct unetmm_ib *dev, const struct ib_srq_attr *attr,
			     struct unetmm_endpoint *a)
{
	a->sq_log2 = unetmm_own_log2(dev, 0);
	a->cq_log2 = a->sq_log2;
	a->fq_log2 = unetmm_own_log2(dev, 2 * attr->max_wr * max(attr->max_sge, 1u));
}

/* The process learns where its requests go. */
static int unetmm_srq_show(struct unetmm_ib_srq *srq, struct unetmm_ib_context *context,
			   struct ib_udata *udata)
{
	int ret;

	if (srq->shared)
		return unetmm_shared_start(srq, udata);
	ret = unetmm_own_open(&srq->maps, context, srq->ep);
	return ret ? ret : unetmm_own_tell(&srq->maps, srq->ep, udata);
}

static int unetmm_srq_open(struct unetmm_ib_srq *srq, struct unetmm_ib_context *context,
			   const struct ib_srq_attr *attr, struct ib_udata *udata)
{
	struct unetmm_ib *dev = unetmm_ib_of(srq->ib.device);
	const struct unetmm_ep_lent lent = {
		.pd = unetmm_ib_pd(srq->ib.pd)->number,
		.shared = true,
	};
	struct unetmm_endpoint a = {
		.size = sizeof(a),
		.policy = UNETMM_POLICY_RNR,
		.event_fd = -1,
	};
	struct unetmm_ep *ep;
	int ret;

	unetmm_srq_sizes(dev, attr, &a);
	ep = dev->calls->ep_open(context->file, &a, &lent, unetmm_srq_woken, srq);
	if (IS_ERR(ep))
		return PTR_ERR(ep) == -EDQUOT ? -ENOMEM : PTR_ERR(ep);
	srq->ep = ep;
	ret = unetmm_srq_show(srq, context, udata);
	if (ret) {
		unetmm_shared_close(srq);
		dev->calls->ep_close(ep);
		unetmm_own_close(&srq->maps);
	}
	return ret;
}

static int unetmm_srq_create(struct ib_srq *ib, struct ib_srq_init_attr *init,
			     struct ib_udata *udata)
{
	struct unetmm_ib_srq *srq = unetmm_ib_srq(ib);
	bool own = unetmm_ib_of(ib->device)->own;
	struct ib_srq_attr *attr = &init->attr;
	struct unetmm_ib_context *context;
	int ret = 0;

	if (init->srq_type != IB_SRQT_BASIC || !udata)
		return -EOPNOTSUPP;
	if (!attr->max_wr || attr->max_wr > UNETMM_IB_MAX_WR ||
	    attr->max_sge > UNETMM_IB_MAX_SGE ||
	    attr->max_wr * max(attr->max_sge, 1u) >
	    BIT(unetmm_ib_of(ib->device)->dev->hw.max_log2) ||
	    udata->outlen < (own ? sizeof(struct unetmm_verbs_qp) :
				   sizeof(struct rxe_create_srq_resp)))
		return -EINVAL;
	context = rdma_udata_to_drv_context(udata, struct unetmm_ib_context, ib);
	mutex_init(&srq->lock);
	srq->max_sge = attr->max_sge;
	if (!own)
		ret = unetmm_shared_open(srq, context, attr);
	srq->max_wr = attr->max_wr;
	if (!ret)
		ret = unetmm_srq_open(srq, context, attr, udata);
	if (ret)
		unetmm_shared_close(srq);
	return ret;
}

static int unetmm_srq_destroy(struct ib_srq *ib, struct ib_udata *udata)
{
	struct unetmm_ib_srq *srq = unetmm_ib_srq(ib);

	unetmm_shared_close(srq);
	unetmm_ib_of(ib->device)->calls->ep_close(srq->ep);
	unetmm_own_close(&srq->maps);
	return 0;
}

/* The event may come before the call returns. */
static int unetmm_srq_arm(struct unetmm_ib_srq *srq, u32 limit)
{
	const struct unetmm_lent_calls *calls = unetmm_ib_of(srq->ib.device)->calls;
	u32 result = 0;
	int ret = calls->low_arm(srq->ep, 0, &result);

	/* The event of the earlier limit has come by now, or it does not come. */
	if (ret)
		return ret;
	WRITE_ONCE(srq->limit, limit);
	ret = calls->low_arm(srq->ep, limit, &result);
	if (ret)
		WRITE_ONCE(srq->limit, 0);
	else if (result && xchg(&srq->limit, 0))
		unetmm_srq_tell(srq, IB_EVENT_SRQ_LIMIT_REACHED);
	return ret;
}

static int unetmm_srq_modify(struct ib_srq *ib, struct ib_srq_attr *attr,
			     enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	struct unetmm_ib_srq *srq = unetmm_ib_srq(ib);
	int ret = 0;

	if (mask & IB_SRQ_MAX_WR)
		return -EOPNOTSUPP;
	if (!(mask & IB_SRQ_LIMIT))
		return 0;
	if (attr->srq_limit > srq->max_wr)
		return -EINVAL;
	/* Requests that librxe has posted before the call count. */
	if (srq->shared)
		unetmm_shared_look(srq->shared);
	mutex_lock(&srq->lock);
	ret = unetmm_srq_arm(srq, attr->srq_limit);
	mutex_unlock(&srq->lock);
	return ret;
}

static int unetmm_srq_query(struct ib_srq *ib, struct ib_srq_attr *attr)
{
	const struct unetmm_ib_srq *srq = unetmm_ib_srq(ib);

	attr->max_wr = srq->max_wr;
	attr->max_sge = srq->max_sge;
	attr->srq_limit = READ_ONCE(srq->limit);
	return 0;
}

const struct ib_device_ops unetmm_srq_ops = {
	.create_srq = unetmm_srq_create,
	.destroy_srq = unetmm_srq_destroy,
	.modify_srq = unetmm_srq_modify,
	.query_srq = unetmm_srq_query,
	INIT_RDMA_OBJ_SIZE(ib_srq, unetmm_ib_srq, ib),
};
