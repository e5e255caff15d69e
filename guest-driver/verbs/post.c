// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm_ib: posts of the kernel, in any context: entries of the queues that the engine takes.
 */
#include <linux/log2.h>

#include "verbs/verbs.h"

/* As HCAs do: consumers post more than they ask for, so a request of ib_drain_qp(). */
static void unetmm_ib_kernel_caps(struct unetmm_ib_qp *qp, struct ib_qp_cap *cap)
{
	cap->max_send_wr = roundup_pow_of_two(max(cap->max_send_wr, 1u));
	cap->max_recv_wr = roundup_pow_of_two(max(cap->max_recv_wr, 1u));
	qp->cap = *cap;
}

int unetmm_ib_kernel_queues(struct unetmm_ib_qp *qp, struct ib_qp_cap *cap)
{
	u32 data = max(cap->max_send_sge * (u32)sizeof(struct rxe_sge), cap->max_inline_data);
	int ret = unetmm_ib_kernel_get(qp->dev);

	unetmm_ib_kernel_caps(qp, cap);
	if (!ret)
		ret = unetmm_ib_queue_make_kernel(&qp->sq, cap->max_send_wr,
						  sizeof(struct rxe_send_wqe) + data);
	if (!ret)
		ret = unetmm_ib_queue_make_kernel(&qp->rq, cap->max_recv_wr,
						  sizeof(struct rxe_recv_wqe) +
						  cap->max_recv_sge * sizeof(struct rxe_sge));
	if (!ret)
		ret = unetmm_ib_cq_join(qp->ib.send_cq, cap->max_send_wr);
	if (ret)
		return ret;
	ret = unetmm_ib_cq_join(qp->ib.recv_cq, cap->max_recv_wr);
	if (ret)
		unetmm_ib_cq_leave(qp->ib.send_cq, &qp->ib, cap->max_send_wr);
	qp->counted = !ret;
	return ret;
}

/* The engine has ended. */
void unetmm_ib_kernel_leave(struct unetmm_ib_qp *qp)
{
	if (!qp->counted)
		return;
	qp->counted = false;
	unetmm_ib_cq_leave(qp->ib.send_cq, &qp->ib, qp->cap.max_send_wr);
	unetmm_ib_cq_leave(qp->ib.recv_cq, &qp->ib, qp->cap.max_recv_wr);
}

/*
 * The queue pair is in RESET: it has no requests, and the consumer may free all that its completions
 * name.
 */
void unetmm_ib_kernel_forget(struct unetmm_ib_qp *qp)
{
	spin_lock_irq(&qp->post_lock);
	unetmm_ib_queue_discard(&qp->sq);
	unetmm_ib_queue_discard(&qp->rq);
	WRITE_ONCE(qp->sends.ended, qp->sends.posted);
	WRITE_ONCE(qp->receives.ended, qp->receives.posted);
	spin_unlock_irq(&qp->post_lock);
	unetmm_ib_cq_leave(qp->ib.send_cq, &qp->ib, 0);
	unetmm_ib_cq_leave(qp->ib.recv_cq, &qp->ib, 0);
}

static void unetmm_ib_put_sges(struct rxe_dma_info *dma, const struct ib_sge *sge, int n)
{
	int i;

	dma->num_sge = n;
	for (i = 0; i < n; i++)
		dma->sge[i] = (struct rxe_sge) {
			.addr = sge[i].addr, .length = sge[i].length, .lkey = sge[i].lkey,
		};
}

/* The data are the consumer's again after the post; their addresses are the kernel's. */
static int unetmm_ib_put_inline(const struct unetmm_ib_qp *qp, struct rxe_dma_info *dma,
				const struct ib_sge *sge, int n)
{
	u32 done = 0;
	int i;

	for (i = 0; i < n; i++) {
		if (sge[i].length > qp->cap.max_inline_data - done)
			return -EINVAL;
		memcpy(dma->inline_data + done, (const void *)(uintptr_t)sge[i].addr,
		       sge[i].length);
		done += sge[i].length;
	}
	dma->length = done;
	return 0;
}

/* The engine reads the pages later: the consumer maps the region anew when the key has ended. */
static void unetmm_ib_put_region(struct rxe_send_wr *to, const struct ib_reg_wr *wr)
{
	to->wr.mw.addr = wr->mr->iova;
	to->wr.mw.length = wr->mr->length;
	to->wr.mw.mr_lkey = wr->mr->lkey;
	to->wr.mw.rkey = wr->key;
	to->wr.mw.access = wr->access;
}

static int unetmm_ib_put_send(struct unetmm_ib_qp *qp, struct rxe_send_wqe *w,
			      const struct ib_send_wr *wr)
{
	w->wr = (struct rxe_send_wr) {
		.wr_id = wr->wr_id, .opcode = wr->opcode, .send_flags = wr->send_flags,
	};
	switch (wr->opcode) {
	case IB_WR_RDMA_WRITE_WITH_IMM:
		w->wr.ex.imm_data = wr->ex.imm_data;
		fallthrough;
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_READ:
		w->wr.wr.rdma.remote_addr = rdma_wr(wr)->remote_addr;
		w->wr.wr.rdma.rkey = rdma_wr(wr)->rkey;
		break;
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		w->wr.wr.atomic.remote_addr = atomic_wr(wr)->remote_addr;
		w->wr.wr.atomic.compare_add = atomic_wr(wr)->compare_add;
		w->wr.wr.atomic.swap = atomic_wr(wr)->swap;
		w->wr.wr.atomic.rkey = atomic_wr(wr)->rkey;
		break;
	case IB_WR_REG_MR:
		unetmm_ib_put_region(&w->wr, reg_wr(wr));
		return 0;
	case IB_WR_LOCAL_INV:
	case IB_WR_SEND_WITH_INV:
		w->wr.ex.invalidate_rkey = wr->ex.invalidate_rkey;
		break;
	case IB_WR_SEND:
		break;
	default:
		return -EOPNOTSUPP;
	}
	if (wr->num_sge > qp->cap.max_send_sge)
		return -EINVAL;
	/* Inline bytes are data to send: a READ or an atomic has none. */
	if (wr->send_flags & IB_SEND_INLINE &&
	    (wr->opcode == IB_WR_RDMA_READ || wr->opcode == IB_WR_ATOMIC_CMP_AND_SWP ||
	     wr->opcode == IB_WR_ATOMIC_FETCH_AND_ADD))
		return -EINVAL;
	if (wr->send_flags & IB_SEND_INLINE)
		return unetmm_ib_put_inline(qp, &w->dma, wr->sg_list, wr->num_sge);
	unetmm_ib_put_sges(&w->dma, wr->sg_list, wr->num_sge);
	return 0;
}

/*
 * The place of the next request; NULL: there are `most`.  The completion queues have room for so
 * many, whatever the ring has.
 */
static void *unetmm_ib_room(struct unetmm_ib_queue *q, const struct unetmm_ib_requests *r, u32 most)
{
	return r->posted - READ_ONCE(r->ended) < most ? unetmm_ib_queue_room(q) : NULL;
}

int unetmm_ib_kernel_send(struct unetmm_ib_qp *qp, const struct ib_send_wr *wr,
			  const struct ib_send_wr **bad)
{
	struct rxe_send_wqe *w;
	unsigned long flags;
	int ret = 0;

	spin_lock_irqsave(&qp->post_lock, flags);
	for (; wr; wr = wr->next) {
		w = unetmm_ib_room(&qp->sq, &qp->sends, qp->cap.max_send_wr);
		ret = w ? unetmm_ib_put_send(qp, w, wr) : -ENOMEM;
		if (ret) {
			*bad = wr;
			break;
		}
		qp->sends.posted++;
		unetmm_ib_queue_post(&qp->sq);
	}
	spin_unlock_irqrestore(&qp->post_lock, flags);
	unetmm_ib_kick(qp);
	return ret;
}

int unetmm_ib_kernel_receive(struct unetmm_ib_qp *qp, const struct ib_recv_wr *wr,
			     const struct ib_recv_wr **bad)
{
	struct rxe_recv_wqe *w;
	unsigned long flags;
	int ret = 0;

	spin_lock_irqsave(&qp->post_lock, flags);
	for (; wr; wr = wr->next) {
		w = unetmm_ib_room(&qp->rq, &qp->receives, qp->cap.max_recv_wr);
		ret = !w ? -ENOMEM : wr->num_sge > qp->cap.max_recv_sge ? -EINVAL : 0;
		if (ret) {
			*bad = wr;
			break;
		}
		w->wr_id = wr->wr_id;
		unetmm_ib_put_sges(&w->dma, wr->sg_list, wr->num_sge);
		qp->receives.posted++;
		unetmm_ib_queue_post(&qp->rq);
	}
	spin_unlock_irqrestore(&qp->post_lock, flags);
	unetmm_ib_kick(qp);
	return ret;
}
