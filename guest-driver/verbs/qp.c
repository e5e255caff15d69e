// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm_ib: queue pairs: an endpoint with policy rnr, and its channel 0.  verbs/ud.c has the
 * part of those of type UD.
 *
 * The number of a queue pair is its endpoint's, so that a peer that knows it and the
 * card's MAC address knows all; there is no CONNECT.  It stays for the queue pair's life:
 * RESET empties the endpoint in its place.
 */
#include <linux/etherdevice.h>
#include <linux/io.h>
#include <linux/slab.h>
#include <net/arp.h>
#include <net/ipv6.h>
#include <rdma/uverbs_ioctl.h>

#include "compat/compat.h"
#include "verbs/build.h"
#include "verbs/gsi.h"
#include "verbs/mr.h"
#include "verbs/own.h"
#include "verbs/ud.h"

/* Room for twice as many requests as the process asked for, and for a long one. */
static u32 unetmm_ib_log2(const struct unetmm_ib *dev, u32 requests)
{
	u32 most = dev->dev->hw.max_log2;
	u32 log2 = fls(max(requests, 16u) - 1) + 1;

	return min(log2, most);
}

static u32 unetmm_ib_policy(const struct unetmm_ib_qp *qp)
{
	/* The kernel's memory is there: absence is an error, which the peer has no use to wait for. */
	return unetmm_ib_is_ud(qp) || unetmm_ib_is_kernel(qp) ? UNETMM_POLICY_DROP :
	       UNETMM_POLICY_RNR;
}

static int unetmm_ib_open_ep(struct unetmm_ib_qp *qp, const struct ib_srq *srq)
{
	struct unetmm_ib *dev = qp->dev;
	bool own = unetmm_ib_is_own(qp);
	struct unetmm_endpoint a = {
		.size = sizeof(a),
		.flags = UNETMM_ENDPOINT_NO_INLINE,
		.policy = unetmm_ib_policy(qp),
		.event_fd = -1,
		.sq_log2 = unetmm_ib_log2(dev, qp->cap.max_send_wr),
		.fq_log2 = unetmm_ib_log2(dev, qp->cap.max_recv_wr),
	};
	const struct unetmm_ep_lent lent = {
		.pd = unetmm_ib_pd(qp->ib.pd)->number,
		.queue = unetmm_srq_ep(srq),
	};

	if (own)
		unetmm_own_sizes(qp, &a);
	/* All that can be under way, and the end; else the card waits for room. */
	a.cq_log2 = max3(a.sq_log2, a.fq_log2, unetmm_own_log2(dev, unetmm_srq_requests(srq)));
	a.cq_log2 = min(a.cq_log2 + 1, dev->dev->hw.max_log2);
	if (!own) {
		qp->sent = kvcalloc(BIT(a.sq_log2), sizeof(*qp->sent), GFP_KERNEL_ACCOUNT);
		qp->received = kvcalloc(BIT(a.fq_log2), sizeof(*qp->received),
					GFP_KERNEL_ACCOUNT);
		if (!qp->sent || !qp->received)
			return -ENOMEM;
	}
	qp->ep = unetmm_ib_is_kernel(qp) ?
		 dev->calls->kernel->ep_open(dev->dev, dev->kernel.space, &a, lent.pd,
					     unetmm_ib_woken, qp) :
		 dev->calls->ep_open(qp->context->file, &a, &lent,
				     own ? unetmm_own_woken : unetmm_ib_woken, qp);
	if (IS_ERR(qp->ep)) {
		int ret = PTR_ERR(qp->ep);

		qp->ep = NULL;
		return ret == -EDQUOT ? -ENOMEM : ret;
	}
	qp->fq = (struct unetmm_ib_buffers) {
		.dev = dev,
		.pd = qp->ib.pd,
		.qp = qp,
		.ep = qp->ep,
		.max_sge = qp->cap.max_recv_sge,
	};
	if (own)
		return unetmm_own_open(&qp->maps, qp->context, qp->ep);
	qp->doorbell = ioremap(dev->dev->doorbell_start +
			       (resource_size_t)qp->ep->id * dev->dev->hw.db_stride, PAGE_SIZE);
	return qp->doorbell ? 0 : -ENOMEM;
}

/* Also of one that is made in part.  Nobody posts any more. */
static void unetmm_ib_close(struct unetmm_ib_qp *qp)
{
	mutex_lock(&qp->lock);
	if (qp->ep && qp->shared)
		unetmm_ib_end_shared(qp);
	qp->state = IB_QPS_RESET;
	WRITE_ONCE(qp->closing, true);
	mutex_unlock(&qp->lock);
	if (unetmm_ib_is_own(qp))
		unetmm_own_events_leave(qp);
	unetmm_ib_mw_leave(qp);
	if (qp->ep)
		qp->dev->calls->ep_close(qp->ep);
	hrtimer_cancel(&qp->timer);
	cancel_work_sync(&qp->work);
	unetmm_ud_leave(qp);
	if (unetmm_ib_is_kernel(qp))
		unetmm_ib_kernel_leave(qp);
	if (qp->doorbell)
		iounmap(qp->doorbell);
	unetmm_own_close(&qp->maps);
	unetmm_ib_queue_free(&qp->sq);
	unetmm_ib_queue_free(&qp->rq);
	kvfree(qp->sent);
	kvfree(qp->received);
}

static int unetmm_ib_make_queues(struct unetmm_ib_qp *qp, struct ib_qp_init_attr *attr,
				 struct ib_udata *udata)
{
	struct ib_qp_cap *cap = &attr->cap;
	u32 head = sizeof(struct rxe_send_wqe);
	u32 data = max3(cap->max_send_sge * (u32)sizeof(struct rxe_sge), cap->max_inline_data,
			(u32)sizeof(struct rxe_sge));
	struct rxe_create_qp_resp resp = {};
	int ret;

	ret = unetmm_ib_queue_make(&qp->sq, &qp->context->ib, cap->max_send_wr, head + data);
	if (ret)
		return ret;
	if (!attr->srq)
		ret = unetmm_ib_queue_make(&qp->rq, &qp->context->ib, cap->max_recv_wr,
					   sizeof(struct rxe_recv_wqe) +
					   max(cap->max_recv_sge, 1u) * sizeof(struct rxe_sge));
	if (ret)
		return ret;
	cap->max_inline_data = min_t(u32, BIT(qp->sq.log2) - head, UNETMM_MAX_INLINE -
				     (unetmm_ib_is_ud(qp) ? UNETMM_IB_GRH : 0));
	cap->max_send_wr = min_t(u32, qp->sq.mask, UNETMM_IB_MAX_WR);
	cap->max_recv_wr = min_t(u32, qp->rq.mask, UNETMM_IB_MAX_WR);
	qp->cap = *cap;
	resp.sq_mi = qp->sq.info;
	resp.rq_mi = qp->rq.info;
	return ib_copy_to_udata(udata, &resp, sizeof(resp));
}

static int unetmm_ib_check_cap(const struct ib_qp_cap *cap)
{
	if (cap->max_send_wr > UNETMM_IB_MAX_WR || cap->max_recv_wr > UNETMM_IB_MAX_WR ||
	    cap->max_send_sge > UNETMM_IB_MAX_SGE || cap->max_recv_sge > UNETMM_IB_MAX_SGE ||
	    cap->max_inline_data > UNETMM_MAX_INLINE)
		return -EINVAL;
	return 0;
}

/* A failure leaves it made in part. */
static int unetmm_ib_make(struct unetmm_ib_qp *qp, struct ib_qp_init_attr *attr,
			  struct ib_udata *udata)
{
	int ret = 0;

	if (unetmm_ib_is_kernel(qp))
		ret = unetmm_ib_kernel_queues(qp, &attr->cap);
	else if (!qp->dev->own)
		ret = unetmm_ib_make_queues(qp, attr, udata);
	if (!ret)
		ret = unetmm_ib_open_ep(qp, attr->srq);
	if (!ret && unetmm_ib_is_own(qp))
		unetmm_own_events_join(qp);
	if (!ret && unetmm_ib_is_own(qp))
		ret = unetmm_own_tell(&qp->maps, qp->ep, udata);
	if (!ret && unetmm_ib_is_ud(qp))
		ret = unetmm_ud_join(qp);
	return ret;
}

static int unetmm_ib_create_qp(struct ib_qp *ib, struct ib_qp_init_attr *attr,
			       struct ib_udata *udata)
{
	struct unetmm_ib_qp *qp = unetmm_ib_qp(ib);
	int ret;

	if (attr->create_flags)
		return -EOPNOTSUPP;
	if (attr->qp_type == IB_QPT_GSI)
		return unetmm_ib_gsi_create(ib, attr);
	if (attr->qp_type != IB_QPT_RC && (attr->qp_type != IB_QPT_UD || !udata))
		return -EOPNOTSUPP;
	/* Only buffers of the queue pair's own domain are brought in for messages that do not wait. */
	if (attr->srq && attr->qp_type == IB_QPT_UD && attr->srq->pd != ib->pd)
		return -EINVAL;
	if (attr->srq && !udata)
		return -EOPNOTSUPP;
	if (!udata && (!attr->send_cq || !attr->recv_cq))
		return -EINVAL;
	if (attr->srq) {
		attr->cap.max_recv_wr = 0;
		attr->cap.max_recv_sge = 0;
	}
	qp->dev = unetmm_ib_of(ib->device);
	ret = unetmm_ib_is_ud(qp) ? unetmm_ud_check(qp->dev, &attr->cap) : 0;
	if (!ret)
		ret = unetmm_ib_check_cap(&attr->cap);
	if (ret)
		return ret;
	if (udata && udata->outlen < (qp->dev->own ? sizeof(struct unetmm_verbs_qp) :
						     sizeof(struct rxe_create_qp_resp)))
		return -EINVAL;
	if (udata)
		qp->context = rdma_udata_to_drv_context(udata, struct unetmm_ib_context, ib);
	spin_lock_init(&qp->post_lock);
	mutex_init(&qp->lock);
	init_waitqueue_head(&qp->wake);
	INIT_LIST_HEAD(&qp->windows);
	unetmm_own_events_init(qp);
	INIT_WORK(&qp->work, unetmm_ib_is_own(qp) ? unetmm_own_work : unetmm_ib_work);
	if (unetmm_ib_is_ud(qp))
		qp->prepare = unetmm_ud_look;
	unetmm_hrtimer_setup(&qp->timer, unetmm_ib_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	qp->state = IB_QPS_RESET;
	qp->sig_type = attr->sq_sig_type;
	qp->cap = attr->cap;
	qp->shared = attr->srq ? unetmm_srq_shared(attr->srq) : NULL;
	ret = unetmm_ib_make(qp, attr, udata);
	if (ret) {
		unetmm_ib_close(qp);
		return ret;
	}
	ib->qp_num = qp->ep->id + UNETMM_IB_QPN;
	return 0;
}

static int unetmm_ib_destroy_qp(struct ib_qp *ib, struct ib_udata *udata)
{
	if (ib->qp_type == IB_QPT_GSI)
		unetmm_ib_gsi_destroy(ib);
	else
		unetmm_ib_close(unetmm_ib_qp(ib));
	return 0;
}

/* ---- States: qp->lock --------------------------------------------------------- */

static u8 unetmm_ib_denied(int access)
{
	return (access & IB_ACCESS_REMOTE_WRITE ? 0 : UNETMM_RIGHT_WRITE) |
	       (access & IB_ACCESS_REMOTE_READ ? 0 : UNETMM_RIGHT_READ) |
	       (access & IB_ACCESS_REMOTE_ATOMIC ? 0 : UNETMM_RIGHT_ATOMIC);
}

/* 4.096 us times 2^timeout.  The card waits a second at most, also where IB has no end. */
static u32 unetmm_ib_timeout_us(u8 timeout)
{
	return timeout && timeout < 18 ? (4096 << timeout) / 1000 : UNETMM_REL_MAX_TIMEOUT_US;
}

/* IB's table: 655.36 ms, then 10 us times 1, 2, 3, 4, 6, 8, 12, 16, ... */
static u32 unetmm_ib_rnr_us(u8 timer)
{
	if (timer == 1)
		return 10;
	timer = timer ?: 32;
	return 10 * (timer & 1 ? 3 << (timer - 3) / 2 : 1 << timer / 2);
}

/*
 * SMC of Linux 6.1 knows no MAC address of a peer that has GIDs of RoCE v2 alone: the netdev's
 * neighbour has it, since the two have a TCP connection.
 */
static void unetmm_ib_peer_mac(struct unetmm_ib_qp *qp, u8 *mac)
{
	const u8 *gid = qp->attr.ah_attr.grh.dgid.raw;
	struct neighbour *n;

	ether_addr_copy(mac, qp->attr.ah_attr.roce.dmac);
	if (!is_zero_ether_addr(mac) || !ipv6_addr_v4mapped((const struct in6_addr *)gid))
		return;
	n = neigh_lookup(&arp_tbl, gid + 12, qp->dev->netdev);
	if (!n)
		return;
	neigh_ha_snapshot(mac, n, qp->dev->netdev);
	neigh_release(n);
}

/* RTR: the channel receives.  Before that the card drops the peer's packets. */
static int unetmm_ib_open_channel(struct unetmm_ib_qp *qp)
{
	const struct unetmm_limits *hw = &qp->dev->dev->hw;
	int mtu = ib_mtu_enum_to_int(qp->attr.path_mtu);
	struct unetmm_cmd_channel how = {
		.type = UNETMM_CHANNEL_RELIABLE,
		.mtu = cpu_to_le32(min_t(u32, mtu, hw->user_mtu)),
		.denied = unetmm_ib_denied(qp->attr.qp_access_flags),
		.state = UNETMM_CHANNEL_RTR,
		.recv_psn = cpu_to_le32(qp->attr.rq_psn),
		.not_ready_us = cpu_to_le32(unetmm_ib_rnr_us(qp->attr.min_rnr_timer)),
		.flags = UNETMM_CHANNEL_F_TELL | UNETMM_CHANNEL_F_STRICT |
			 UNETMM_CHANNEL_F_KEYED | UNETMM_CHANNEL_F_IMM |
			 (hw->caps & UNETMM_CAP_ACK_ALONG ? UNETMM_CHANNEL_F_ACK : 0) |
			 (hw->caps & UNETMM_CAP_ACK_WRITE ? UNETMM_CHANNEL_F_ACK_WRITE : 0),
	};
	u32 peer = qp->attr.dest_qp_num - UNETMM_IB_QPN;
	int ret;

	if (mtu < 0 || peer > U16_MAX ||
	    qp->attr.ah_attr.type != RDMA_AH_ATTR_TYPE_ROCE)
		return -EINVAL;
	how.peer_ep = cpu_to_le16(peer);
	unetmm_ib_peer_mac(qp, how.peer_mac);
	if (is_zero_ether_addr(how.peer_mac))
		return -EHOSTUNREACH;
	ret = qp->dev->calls->channel_set(qp->ep, &how);
	qp->open = !ret;
	return ret;
}

/* The members of the card's channel that the mask has; `sends`: RTS. */
static int unetmm_ib_modify_channel(struct unetmm_ib_qp *qp, int mask, bool sends)
{
	const struct ib_qp_attr *a = &qp->attr;
	u16 members = (mask & IB_QP_ACCESS_FLAGS ? UNETMM_MODIFY_DENIED : 0) |
		      (mask & IB_QP_MIN_RNR_TIMER ? UNETMM_MODIFY_NOT_READY : 0) |
		      (sends ? UNETMM_MODIFY_STATE | UNETMM_MODIFY_SEND_PSN |
			       UNETMM_MODIFY_RETRIES | UNETMM_MODIFY_NOT_READY_RETRIES |
			       UNETMM_MODIFY_TIMEOUT : 0);
	const struct unetmm_cmd_modify how = {
		.members = cpu_to_le16(members),
		.state = UNETMM_CHANNEL_RTS,
		.retries = a->retry_cnt,
		.not_ready_retries = a->rnr_retry,
		.denied = unetmm_ib_denied(a->qp_access_flags),
		.timeout_us = cpu_to_le32(unetmm_ib_timeout_us(a->timeout)),
		.not_ready_us = cpu_to_le32(unetmm_ib_rnr_us(a->min_rnr_timer)),
		.send_psn = cpu_to_le32(a->sq_psn),
	};

	return members && qp->open ? qp->dev->calls->channel_modify(qp->ep, &how) : 0;
}

static int unetmm_ib_reset(struct unetmm_ib_qp *qp)
{
	int ret;

	if (qp->shared)
		unetmm_ib_end_shared(qp);
	unetmm_ib_mw_leave(qp);
	unetmm_own_events_stop(qp);
	ret = qp->dev->calls->ep_restart(qp->ep, unetmm_ib_policy(qp));
	if (ret) {
		/* The channel may be there still.  A shared queue's requests have ended quietly. */
		qp->told_last = false;
		qp->state = IB_QPS_ERR;
		qp->card_flushes = false;
		unetmm_ib_error(qp);
		return ret;
	}
	qp->state = IB_QPS_RESET;
	qp->open = false;
	qp->card_flushes = false;
	qp->flushed = false;
	qp->reason_told = false;
	qp->end_status = UNETMM_ST_OK;
	qp->bad_request = false;
	qp->told_established = false;
	qp->told_last = false;
	qp->fetching = 0;
	qp->sq_prod = 0;
	qp->fq.prod = 0;
	qp->cq_cons = 0;
	qp->sent_done = qp->sent_next;
	qp->received_done = qp->received_next;
	if (unetmm_ib_is_kernel(qp)) {
		unetmm_ib_kernel_forget(qp);
		return 0;
	}
	if (unetmm_ib_is_own(qp))
		unetmm_own_events_start(qp);
	unetmm_ib_queue_discard(&qp->sq);
	unetmm_ib_queue_discard(&qp->rq);
	qp->send_end = qp->sq.index;
	return 0;
}

/* Attributes that are told again, and those that the next state needs. */
static void unetmm_ib_keep(struct ib_qp_attr *to, const struct ib_qp_attr *a, int mask)
{
	if (mask & IB_QP_DEST_QPN)
		to->dest_qp_num = a->dest_qp_num;
	if (mask & IB_QP_QKEY)
		to->qkey = a->qkey;
	if (mask & IB_QP_AV) {
		to->ah_attr = a->ah_attr;
		/* The caller's reference ends with the call. */
		to->ah_attr.grh.sgid_attr = NULL;
	}
	if (mask & IB_QP_ACCESS_FLAGS)
		to->qp_access_flags = a->qp_access_flags;
	if (mask & IB_QP_PATH_MTU)
		to->path_mtu = a->path_mtu;
	if (mask & IB_QP_SQ_PSN)
		to->sq_psn = a->sq_psn & UNETMM_MODIFY_MAX_PSN;
	if (mask & IB_QP_RQ_PSN)
		to->rq_psn = a->rq_psn & UNETMM_MODIFY_MAX_PSN;
	if (mask & IB_QP_TIMEOUT)
		to->timeout = a->timeout;
	if (mask & IB_QP_RETRY_CNT)
		to->retry_cnt = a->retry_cnt;
	if (mask & IB_QP_RNR_RETRY)
		to->rnr_retry = a->rnr_retry;
	if (mask & IB_QP_MIN_RNR_TIMER)
		to->min_rnr_timer = a->min_rnr_timer;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC)
		to->max_rd_atomic = a->max_rd_atomic;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC)
		to->max_dest_rd_atomic = a->max_dest_rd_atomic;
	if (mask & IB_QP_PORT)
		to->port_num = a->port_num;
	if (mask & IB_QP_PKEY_INDEX)
		to->pkey_index = a->pkey_index;
}

static int unetmm_ib_change(struct unetmm_ib_qp *qp, enum ib_qp_state next, int mask)
{
	int ret = 0;

	switch (next) {
	case IB_QPS_RESET:
		return unetmm_ib_reset(qp);
	case IB_QPS_ERR:
		/* A queue pair in RESET has nothing, and is told nothing. */
		if (qp->state == IB_QPS_RESET)
			qp->state = IB_QPS_ERR;
		/* Our provider comes so when it has seen an end, of which the event may be to come. */
		qp->reason_told |= !unetmm_ib_is_own(qp);
		unetmm_ib_error(qp);
		return 0;
	case IB_QPS_RTR:
		ret = unetmm_ib_is_ud(qp) ? unetmm_ud_open_channel(qp) :
		      unetmm_ib_open_channel(qp);
		break;
	case IB_QPS_INIT:
		break;
	case IB_QPS_RTS:
		if (!unetmm_ib_is_ud(qp))
			ret = unetmm_ib_modify_channel(qp, mask, qp->state == IB_QPS_RTR);
		else if (mask & IB_QP_QKEY)
			ret = unetmm_ud_open_channel(qp);
		break;
	default:
		return -EOPNOTSUPP;
	}
	if (!ret)
		qp->state = next;
	return ret;
}

static int unetmm_ib_modify(struct unetmm_ib_qp *qp, struct ib_qp_attr *a, int mask)
{
	enum ib_qp_state now = qp->state, next = mask & IB_QP_STATE ? a->qp_state : now;
	const struct ib_qp_attr before = qp->attr;
	int ret = 0;

	if (mask & IB_QP_CUR_STATE && a->cur_qp_state != now)
		return -EINVAL;
	if (!ib_modify_qp_is_ok(now, next, qp->ib.qp_type, mask))
		return -EINVAL;
	if (mask & (IB_QP_ALT_PATH | IB_QP_PATH_MIG_STATE) || next == IB_QPS_SQD)
		return -EOPNOTSUPP;
	/* There is one partition; IB's numbers, of 3 and of 5 bits. */
	if ((mask & IB_QP_PKEY_INDEX && a->pkey_index) ||
	    (mask & IB_QP_RETRY_CNT && a->retry_cnt > 7) ||
	    (mask & IB_QP_RNR_RETRY && a->rnr_retry > 7) ||
	    (mask & IB_QP_MIN_RNR_TIMER && a->min_rnr_timer > 31) ||
	    (mask & IB_QP_TIMEOUT && a->timeout > 31))
		return -EINVAL;
	unetmm_ib_keep(&qp->attr, a, mask);
	if (next != now || next == IB_QPS_RTS)
		ret = unetmm_ib_change(qp, next, mask);
	if (ret)
		qp->attr = before;
	qp->attr.qp_state = qp->state;
	if (unetmm_ib_is_kernel(qp)) {
		unetmm_ib_kick(qp);
	} else if (!qp->dev->own) {
		unetmm_ib_run(qp);
	} else if (qp->state == IB_QPS_ERR) {
		unetmm_own_wake(qp);
		unetmm_ib_tell_last(qp);
	}
	return ret;
}

/* Our library's wishes beside the attributes; an older one has none. */
static int unetmm_ib_modify_flags(const struct unetmm_ib *dev, struct ib_udata *udata, u32 *flags)
{
	struct unetmm_verbs_modify how = {};
	int ret;

	if (!dev->own || !udata || !udata->inlen)
		return 0;
	ret = ib_copy_from_udata(&how, udata, min(sizeof(how), udata->inlen));
	if (!ret && (how.rsvd || how.flags & ~UNETMM_VERBS_MODIFY_QUIET))
		ret = -EOPNOTSUPP;
	*flags = how.flags;
	return ret;
}

static int unetmm_ib_modify_qp(struct ib_qp *ib, struct ib_qp_attr *a, int mask,
			       struct ib_udata *udata)
{
	struct unetmm_ib_qp *qp = unetmm_ib_qp(ib);
	u32 flags = 0;
	int ret;

	if (ib->qp_type == IB_QPT_GSI)
		return 0;
	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	ret = unetmm_ib_modify_flags(qp->dev, udata, &flags);
	if (!ret && flags && !(mask & IB_QP_STATE && a->qp_state == IB_QPS_ERR))
		ret = -EINVAL;
	if (ret)
		return ret;
	mutex_lock(&qp->lock);
	if (flags & UNETMM_VERBS_MODIFY_QUIET)
		qp->told_last = true;
	ret = unetmm_ib_modify(qp, a, mask);
	mutex_unlock(&qp->lock);
	return ret;
}

static int unetmm_ib_query_qp(struct ib_qp *ib, struct ib_qp_attr *a, int mask,
			      struct ib_qp_init_attr *init)
{
	struct unetmm_ib_qp *qp = unetmm_ib_qp(ib);

	if (ib->qp_type == IB_QPT_GSI) {
		memset(a, 0, sizeof(*a));
		memset(init, 0, sizeof(*init));
		a->qp_state = IB_QPS_RTS;
		a->cur_qp_state = IB_QPS_RTS;
		return 0;
	}
	mutex_lock(&qp->lock);
	*a = qp->attr;
	a->qp_state = qp->state;
	a->cur_qp_state = qp->state;
	a->cap = qp->cap;
	init->cap = qp->cap;
	init->sq_sig_type = qp->sig_type;
	mutex_unlock(&qp->lock);
	return 0;
}

/* ---- Posts -------------------------------------------------------------------- */

/* librxe has put the requests into the queue, and calls with none. */
static int unetmm_ib_post_send(struct ib_qp *ib, const struct ib_send_wr *wr,
			       const struct ib_send_wr **bad)
{
	struct unetmm_ib_qp *qp = unetmm_ib_qp(ib);
	int ret = 0;

	if (ib->qp_type == IB_QPT_GSI)
		return unetmm_ib_gsi_send(ib, wr, bad);
	if (unetmm_ib_is_kernel(qp))
		return unetmm_ib_kernel_send(qp, wr, bad);
	if (wr || qp->dev->own) {
		*bad = wr;
		return -EOPNOTSUPP;
	}
	if (unetmm_ib_is_ud(qp))
		unetmm_ud_look(qp);
	mutex_lock(&qp->lock);
	if (qp->state == IB_QPS_RTS || qp->state == IB_QPS_ERR) {
		unetmm_ib_run(qp);
	} else {
		/* The process is told so, and posts them again. */
		unetmm_ib_queue_discard(&qp->sq);
		qp->send_end = qp->sq.index;
		ret = -EINVAL;
	}
	mutex_unlock(&qp->lock);
	return ret;
}

static int unetmm_ib_post_recv(struct ib_qp *ib, const struct ib_recv_wr *wr,
			       const struct ib_recv_wr **bad)
{
	if (ib->qp_type == IB_QPT_GSI)
		return unetmm_ib_gsi_receive(ib, wr, bad);
	if (unetmm_ib_is_kernel(unetmm_ib_qp(ib)))
		return unetmm_ib_kernel_receive(unetmm_ib_qp(ib), wr, bad);
	*bad = wr;
	return -EOPNOTSUPP;
}

const struct ib_device_ops unetmm_ib_qp_ops = {
	.create_qp = unetmm_ib_create_qp,
	.destroy_qp = unetmm_ib_destroy_qp,
	.modify_qp = unetmm_ib_modify_qp,
	.query_qp = unetmm_ib_query_qp,
	.post_send = unetmm_ib_post_send,
	.post_recv = unetmm_ib_post_recv,
	INIT_RDMA_OBJ_SIZE(ib_qp, unetmm_ib_qp, ib),
};
