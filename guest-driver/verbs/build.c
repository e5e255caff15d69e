// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm_ib: a send request becomes a descriptor of the card.  Requests that change keys are done
 * here, in their turn.  qp->lock is held.
 */
#include "verbs/build.h"
#include "verbs/mr.h"
#include "verbs/ud.h"

static u8 *unetmm_ib_data(struct unetmm_ib_desc *d)
{
	return d->raw + offsetof(struct unetmm_sqe, data);
}

/* The descriptor has so many bytes behind its head. */
static void unetmm_ib_extend(struct unetmm_ib_desc *d, u32 bytes)
{
	if (bytes > UNETMM_SQE_INLINE)
		d->nslots += DIV_ROUND_UP(bytes - UNETMM_SQE_INLINE, UNETMM_SLOT_BYTES);
}

static void unetmm_ib_remote(struct unetmm_ib_desc *d, u32 rkey, u64 addr)
{
	d->sqe.flags |= UNETMM_SQE_F_KEYED;
	d->sqe.region = cpu_to_le16((rkey & UNETMM_RKEY_REGION) >> UNETMM_RKEY_SHIFT);
	d->sqe.handle = cpu_to_le32(rkey);
	d->sqe.remote = cpu_to_le64(addr);
}

/* The operands are inline. */
static void unetmm_ib_atomic(struct unetmm_ib_desc *d, const struct rxe_send_wr *wr, u32 n)
{
	const __le64 operands[] = {
		cpu_to_le64(wr->wr.atomic.compare_add), cpu_to_le64(wr->wr.atomic.swap),
	};

	d->atomic = true;
	d->sqe.flags |= UNETMM_SQE_F_INLINE;
	d->sqe.inline_len = n * sizeof(operands[0]);
	memcpy(d->sqe.data, operands, d->sqe.inline_len);
	unetmm_ib_remote(d, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr);
}

/* Keys of windows change here, in their turn: the requests behind them are not the card's yet. */
static int unetmm_ib_key(struct unetmm_ib_qp *qp, struct unetmm_ib_desc *d,
			 struct unetmm_ib_sent *s, const struct rxe_send_wr *wr)
{
	const struct unetmm_verbs_key how = {
		.addr = wr->wr.mw.addr, .length = wr->wr.mw.length, .lkey = wr->wr.mw.mr_lkey,
		.rkey = wr->wr.mw.mw_rkey, .new_rkey = wr->wr.mw.rkey, .access = wr->wr.mw.access,
	};

	d->nslots = 0;
	if (wr->opcode == IB_WR_BIND_MW) {
		s->opcode = IB_WC_BIND_MW;
		return unetmm_ib_mw_bind(qp, &how);
	}
	s->opcode = IB_WC_LOCAL_INV;
	return unetmm_ib_mw_invalidate(qp, wr->ex.invalidate_rkey);
}

static int unetmm_ib_opcode(struct unetmm_ib_qp *qp, struct unetmm_ib_desc *d,
			    struct unetmm_ib_sent *s, const struct rxe_send_wr *wr)
{
	switch (wr->opcode) {
	case IB_WR_SEND:
	case IB_WR_SEND_WITH_IMM:
		d->sqe.opcode = UNETMM_OP_SEND;
		s->opcode = IB_WC_SEND;
		break;
	case IB_WR_SEND_WITH_INV:
		d->sqe.opcode = UNETMM_OP_SEND;
		d->sqe.flags |= UNETMM_SQE_F_IMM |
				(qp->dev->dev->hw.caps & UNETMM_CAP_BIND ? UNETMM_SQE_F_INV : 0);
		d->sqe.imm = cpu_to_le32(wr->ex.invalidate_rkey);
		s->opcode = IB_WC_SEND;
		break;
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
		d->sqe.opcode = UNETMM_OP_WRITE;
		s->opcode = IB_WC_RDMA_WRITE;
		unetmm_ib_remote(d, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IB_WR_RDMA_READ:
		d->sqe.opcode = UNETMM_OP_READ;
		s->opcode = IB_WC_RDMA_READ;
		d->read = true;
		unetmm_ib_remote(d, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IB_WR_ATOMIC_CMP_AND_SWP:
		d->sqe.opcode = UNETMM_OP_CMP_SWAP;
		s->opcode = IB_WC_COMP_SWAP;
		unetmm_ib_atomic(d, wr, 2);
		break;
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		d->sqe.opcode = UNETMM_OP_FETCH_ADD;
		s->opcode = IB_WC_FETCH_ADD;
		unetmm_ib_atomic(d, wr, 1);
		break;
	case IB_WR_BIND_MW:
	case IB_WR_LOCAL_INV:
		return unetmm_ib_key(qp, d, s, wr);
	default:
		return IB_WC_LOC_QP_OP_ERR;
	}
	if (wr->opcode == IB_WR_SEND_WITH_IMM || wr->opcode == IB_WR_RDMA_WRITE_WITH_IMM) {
		d->sqe.flags |= UNETMM_SQE_F_IMM;
		d->sqe.imm = cpu_to_le32((__force u32)wr->ex.imm_data);
	}
	return IB_WC_SUCCESS;
}

/*
 * Requests that processes do not have.  Those for regions are done here, in their turn: the
 * requests behind them are not the card's yet.
 */
static int unetmm_ib_kernel_opcode(struct unetmm_ib_qp *qp, struct unetmm_ib_desc *d,
				   struct unetmm_ib_sent *s, const struct rxe_send_wr *wr)
{
	switch (wr->opcode) {
	case IB_WR_REG_MR:
		s->opcode = IB_WC_REG_MR;
		d->nslots = 0;
		return unetmm_ib_fast_register(qp, wr);
	case IB_WR_LOCAL_INV:
		s->opcode = IB_WC_LOCAL_INV;
		d->nslots = 0;
		return unetmm_ib_fast_invalidate(qp, wr->ex.invalidate_rkey, false);
	case IB_WR_SEND_WITH_IMM:
		return IB_WC_LOC_QP_OP_ERR;
	default:
		return unetmm_ib_opcode(qp, d, s, wr);
	}
}

static int unetmm_ib_inline(struct unetmm_ib_qp *qp, struct unetmm_ib_desc *d,
			    const struct rxe_send_wqe *w, u32 *len)
{
	*len = w->dma.length;
	if (*len > qp->cap.max_inline_data || d->read)
		return IB_WC_LOC_QP_OP_ERR;
	d->sqe.flags |= UNETMM_SQE_F_INLINE;
	d->sqe.inline_len = d->head + *len;
	memcpy(unetmm_ib_data(d) + d->head, w->dma.inline_data, *len);
	unetmm_ib_extend(d, d->head + *len);
	return IB_WC_SUCCESS;
}

static int unetmm_ib_segments(struct unetmm_ib_qp *qp, struct unetmm_ib_desc *d,
			      const struct rxe_send_wqe *w, u32 *len)
{
	struct unetmm_seg *seg = (void *)unetmm_ib_data(d) + ALIGN(d->head, sizeof(*seg));
	u32 i, n = 0;
	u64 addr;

	if (w->dma.num_sge > qp->cap.max_send_sge)
		return IB_WC_LOC_QP_OP_ERR;
	for (i = 0; i < w->dma.num_sge; i++) {
		const struct rxe_sge *sge = &w->dma.sge[i];

		if (!sge->length)
			continue;
		if (!unetmm_ib_mr_find(qp, sge, d->read ? IB_ACCESS_LOCAL_WRITE : 0, &addr))
			return IB_WC_LOC_PROT_ERR;
		if (check_add_overflow(*len, sge->length, len) ||
		    *len > unetmm_ib_longest(qp->dev, unetmm_ib_is_kernel(qp)))
			return IB_WC_LOC_LEN_ERR;
		seg[n].addr = cpu_to_le64(addr);
		seg[n++].len = cpu_to_le32(sge->length);
	}
	if (d->head)
		d->sqe.flags |= UNETMM_SQE_F_INLINE;
	d->sqe.inline_len = d->head;
	d->sqe.nsegs = n;
	unetmm_ib_extend(d, ALIGN(d->head, sizeof(*seg)) + n * sizeof(*seg));
	return IB_WC_SUCCESS;
}

/* The card writes the old value there. */
static int unetmm_ib_result(struct unetmm_ib_qp *qp, struct unetmm_ib_desc *d,
			    const struct rxe_send_wqe *w, u32 *len)
{
	struct unetmm_seg *seg = &d->sqe.seg[UNETMM_SQE_RESULT];
	const struct rxe_sge *sge = &w->dma.sge[0];
	u64 addr;

	/* The compared value and the new one have the place of segment 0. */
	BUILD_BUG_ON(2 * sizeof(__le64) > sizeof(*seg));
	*len = sizeof(__le64);
	if (w->dma.num_sge != 1 || sge->length != sizeof(__le64))
		return IB_WC_LOC_LEN_ERR;
	if (!unetmm_ib_mr_find(qp, sge, IB_ACCESS_LOCAL_WRITE, &addr))
		return IB_WC_LOC_PROT_ERR;
	seg->addr = cpu_to_le64(addr);
	seg->len = cpu_to_le32(sge->length);
	d->sqe.nsegs = 1;
	return IB_WC_SUCCESS;
}

/* A message of a UD queue pair: SEND with or without an immediate, behind a network header. */
static int unetmm_ud_opcode(struct unetmm_ib_qp *qp, struct unetmm_ib_desc *d,
			    struct unetmm_ib_sent *s, const struct rxe_send_wr *wr)
{
	int ret = IB_WC_LOC_QP_OP_ERR;

	if (wr->opcode == IB_WR_SEND || wr->opcode == IB_WR_SEND_WITH_IMM)
		ret = unetmm_ib_opcode(qp, d, s, wr);
	d->sqe.opcode = UNETMM_OP_SEND_TO;
	d->head = UNETMM_IB_GRH;
	return ret;
}

/* See verbs/build.h. */
u8 unetmm_ib_build(struct unetmm_ib_qp *qp, struct unetmm_ib_desc *d,
			  struct unetmm_ib_sent *s, const struct rxe_send_wqe *w)
{
	int ret;

	memset(d, 0, sizeof(*d));
	d->nslots = 1;
	d->sqe.cookie = cpu_to_le64(qp->sent_next);
	*s = (struct unetmm_ib_sent) {
		.wr_id = w->wr.wr_id,
		.signaled = qp->sig_type == IB_SIGNAL_ALL_WR ||
			    w->wr.send_flags & IB_SEND_SIGNALED,
	};
	ret = unetmm_ib_is_kernel(qp) ? unetmm_ib_kernel_opcode(qp, d, s, &w->wr) :
	      unetmm_ib_is_ud(qp) ? unetmm_ud_opcode(qp, d, s, &w->wr) :
	      unetmm_ib_opcode(qp, d, s, &w->wr);
	if (ret || !d->nslots)
		return ret;
	if (d->atomic)
		return unetmm_ib_result(qp, d, w, &s->len);
	ret = w->wr.send_flags & IB_SEND_INLINE ? unetmm_ib_inline(qp, d, w, &s->len) :
	      unetmm_ib_segments(qp, d, w, &s->len);
	if (!ret && d->head)
		unetmm_ib_ah_address(&d->sqe, unetmm_ib_data(d), &w->wr, s->len);
	return ret;
}
