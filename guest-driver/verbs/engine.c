// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm_ib: the engine of a queue pair: requests of the process to the card, completions
 * of the card to the process.
 *
 * The engine runs in post_send, and in a work item that is queued when the card has completions,
 * when a timer has found receive requests, and when a turn was not enough.  A turn is
 * bounded by the endpoint's queues, whatever the process writes.
 *
 * Completions of sends are in the order of the requests.  The card may end a READ behind a
 * later WRITE: each request has a place in `sent`, and the oldest ones are told when they
 * have ended.  A request that is wrong has a place, too, so its error is told in turn.
 *
 * A queue pair that ends has the card give back the card's requests; those that are in the
 * process's memory come behind these.
 *
 * librxe posts receive requests without any call: a timer looks for them, ever more
 * seldom, while the card has no buffer.  Those of a shared queue are in verbs/shared.c.
 */
#include <linux/bitfield.h>
#include <linux/io.h>
#include <linux/slab.h>

#include "verbs/build.h"
#include "verbs/mr.h"
#include "verbs/ud.h"

#define UNETMM_IB_TURNS		64
#define UNETMM_IB_FLUSH_TIME	HZ

static u32 unetmm_ib_sent_most(const struct unetmm_ib_qp *qp)
{
	return BIT(qp->ep->sq_log2);
}

static u32 unetmm_ib_received_most(const struct unetmm_ib_qp *qp)
{
	return BIT(qp->ep->fq_log2);
}

static struct unetmm_ib_sent *unetmm_ib_sent_at(struct unetmm_ib_qp *qp, u32 number)
{
	return &qp->sent[number & (unetmm_ib_sent_most(qp) - 1)];
}

static struct unetmm_ib_received *unetmm_ib_received_at(struct unetmm_ib_qp *qp, u32 number)
{
	return &qp->received[number & (unetmm_ib_received_most(qp) - 1)];
}

static u8 unetmm_ib_status(u8 status)
{
	switch (status) {
	case UNETMM_ST_OK:
		return IB_WC_SUCCESS;
	case UNETMM_ST_PROTECTION:
	case UNETMM_ST_UNSUPPORTED:
	case UNETMM_ST_LIMIT:
		return IB_WC_LOC_PROT_ERR;
	case UNETMM_ST_TOO_LONG:
	case UNETMM_ST_TOO_LARGE:
		return IB_WC_LOC_LEN_ERR;
	case UNETMM_ST_BAD_DESC:
	case UNETMM_ST_PEER_LACKS:
		return IB_WC_LOC_QP_OP_ERR;
	case UNETMM_ST_TIMEOUT:
	case UNETMM_ST_PEER_FAILED:
		return IB_WC_RETRY_EXC_ERR;
	case UNETMM_ST_NOT_READY:
		return IB_WC_RNR_RETRY_EXC_ERR;
	case UNETMM_ST_PEER_BUFFER:
		return IB_WC_REM_INV_REQ_ERR;
	case UNETMM_ST_REVOKED:
	case UNETMM_ST_REMOTE_RIGHT:
	case UNETMM_ST_REMOTE_RANGE:
	case UNETMM_ST_REMOTE_MEMORY:
	case UNETMM_ST_BAD_KEYS:
		return IB_WC_REM_ACCESS_ERR;
	default:
		return IB_WC_WR_FLUSH_ERR;
	}
}

/* ---- Ends --------------------------------------------------------------------- */

/*
 * The queue pair ends: the card gives back the requests that it has.  Without a channel, or a
 * card that runs, the driver flushes all of them.
 */
void unetmm_ib_error(struct unetmm_ib_qp *qp)
{
	lockdep_assert_held(&qp->lock);
	if (qp->state == IB_QPS_RESET)
		return;
	qp->state = IB_QPS_ERR;
	qp->attr.qp_state = IB_QPS_ERR;
	if (qp->open)
		qp->card_flushes = !qp->dev->calls->channel_flush(qp->ep);
	qp->open = false;
}

static void unetmm_ib_event(struct unetmm_ib_qp *qp, enum ib_event_type type)
{
	struct ib_event event = {
		.device = qp->ib.device,
		.event = type,
		.element.qp = &qp->ib,
	};

	if (qp->ib.event_handler && !qp->quiet)
		qp->ib.event_handler(&event, qp->ib.qp_context);
}

static void unetmm_ib_tell(struct unetmm_ib_qp *qp, struct ib_cq *cq,
			   const struct ib_uverbs_wc *wc, bool solicited)
{
	if (!qp->quiet)
		unetmm_ib_cq_put(cq, wc, &qp->ib, solicited);
}

/* The consumer may post another request as soon as it has the completion. */
static void unetmm_ib_ended(struct unetmm_ib_requests *r)
{
	WRITE_ONCE(r->ended, r->ended + 1);
}

static void unetmm_ib_tell_receive(struct unetmm_ib_qp *qp, struct ib_uverbs_wc *wc)
{
	unetmm_ib_ended(&qp->receives);
	wc->qp_num = qp->ib.qp_num;
	if (!unetmm_ib_is_ud(qp))
		wc->src_qp = qp->attr.dest_qp_num;
	wc->port_num = 1;
	unetmm_ib_tell(qp, qp->ib.recv_cq, wc, true);
}

/* The status as the process sees it: one error is the reason, and all else is flushed. */
static u8 unetmm_ib_reason(struct unetmm_ib_qp *qp, u8 status)
{
	if (!status || status == IB_WC_WR_FLUSH_ERR)
		return status;
	if (qp->reason_told)
		return IB_WC_WR_FLUSH_ERR;
	qp->reason_told = true;
	return status;
}

/* Tells of the oldest sends, as far as they have ended. */
static void unetmm_ib_settle(struct unetmm_ib_qp *qp)
{
	while (qp->sent_done != qp->sent_next) {
		const struct unetmm_ib_sent *s = unetmm_ib_sent_at(qp, qp->sent_done);
		struct ib_uverbs_wc wc = {
			.wr_id = s->wr_id,
			.opcode = s->opcode,
			.byte_len = s->len,
			.qp_num = qp->ib.qp_num,
			.port_num = 1,
			.status = IB_WC_WR_FLUSH_ERR,
		};

		if (s->done)
			wc.status = unetmm_ib_reason(qp, s->status);
		else if (qp->state != IB_QPS_ERR || qp->card_flushes)
			return;
		qp->sent_done++;
		unetmm_ib_ended(&qp->sends);
		if (s->signaled || wc.status)
			unetmm_ib_tell(qp, qp->ib.send_cq, &wc, false);
		if (wc.status)
			unetmm_ib_error(qp);
	}
}

static void unetmm_ib_flush_sends(struct unetmm_ib_qp *qp)
{
	struct ib_uverbs_wc wc = {
		.status = IB_WC_WR_FLUSH_ERR,
		.qp_num = qp->ib.qp_num,
	};
	const struct rxe_send_wqe *w = (const void *)qp->request;
	u32 most = qp->sq.mask + 1;

	/* Behind those that the card has. */
	while (qp->sent_done == qp->sent_next && most-- &&
	       unetmm_ib_queue_peek(&qp->sq, qp->request, sizeof(*w))) {
		wc.wr_id = w->wr.wr_id;
		unetmm_ib_queue_next(&qp->sq);
		unetmm_ib_ended(&qp->sends);
		unetmm_ib_tell(qp, qp->ib.send_cq, &wc, false);
	}
}

static void unetmm_ib_flush_receives(struct unetmm_ib_qp *qp)
{
	struct ib_uverbs_wc wc = { .status = IB_WC_WR_FLUSH_ERR, .opcode = IB_WC_RECV };
	const struct rxe_recv_wqe *w = (const void *)qp->request;
	u32 most = qp->rq.mask + 1;

	while (!qp->card_flushes && qp->received_done != qp->received_next) {
		const struct unetmm_ib_received *r = unetmm_ib_received_at(qp, qp->received_done++);

		wc.wr_id = r->wr_id;
		if (!r->done)
			unetmm_ib_tell_receive(qp, &wc);
	}
	while (qp->received_done == qp->received_next && most-- &&
	       unetmm_ib_queue_peek(&qp->rq, qp->request, sizeof(*w))) {
		wc.wr_id = w->wr_id;
		unetmm_ib_queue_next(&qp->rq);
		unetmm_ib_tell_receive(qp, &wc);
	}
}

/* ---- The card's completions --------------------------------------------------- */

/* A UD message that is lost: nobody is told. */
static u8 unetmm_ib_sent_status(const struct unetmm_ib_qp *qp, u8 status)
{
	return unetmm_ib_is_ud(qp) &&
	       (status == UNETMM_ST_LINK_DOWN || status == UNETMM_ST_REFUSED) ?
	       IB_WC_SUCCESS : unetmm_ib_status(status);
}

static void unetmm_ib_got_sent(struct unetmm_ib_qp *qp, const struct unetmm_cqe *cqe)
{
	u32 number = le64_to_cpu(cqe->cookie);
	struct unetmm_ib_sent *s;

	/* One that was flushed has been told. */
	if (number - qp->sent_done >= qp->sent_next - qp->sent_done)
		return;
	s = unetmm_ib_sent_at(qp, number);
	if (s->done)
		return;
	s->status = unetmm_ib_sent_status(qp, cqe->status);
	s->done = true;
	qp->fetching -= s->fetches;
	unetmm_ib_settle(qp);
}

/*
 * The kernel has no SEND_WITH_IMM: the immediate of a SEND to it is always the key of a region.
 * The key ends before the consumer sees the completion.
 */
static void unetmm_ib_got_imm(struct unetmm_ib_qp *qp, const struct unetmm_cqe *cqe,
			      struct ib_uverbs_wc *wc)
{
	u32 imm = le32_to_cpu(cqe->imm);

	if (!(le32_to_cpu(cqe->flags) & UNETMM_CQE_F_INV) &&
	    (!unetmm_ib_is_kernel(qp) || wc->opcode != IB_WC_RECV)) {
		wc->ex.imm_data = (__force __be32)imm;
		wc->wc_flags = IB_WC_WITH_IMM;
		return;
	}
	if (wc->status)
		return;
	if (unetmm_ib_is_kernel(qp) ? unetmm_ib_fast_invalidate(qp, imm, true) :
	    unetmm_ib_mw_invalidate(qp, imm)) {
		wc->status = unetmm_ib_reason(qp, IB_WC_REM_INV_REQ_ERR);
		return;
	}
	wc->ex.invalidate_rkey = imm;
	wc->wc_flags = IB_WC_WITH_INVALIDATE;
}

/* The request of the completion has ended.  False: there is none, or the process knows the end. */
static bool unetmm_ib_end_receive(struct unetmm_ib_qp *qp, u64 cookie, u64 *wr_id)
{
	u32 number = cookie;
	struct unetmm_ib_received *r;

	if (qp->shared)
		return unetmm_shared_got(qp->shared, cookie, wr_id);
	if (number - qp->received_done >= qp->received_next - qp->received_done)
		return false;
	r = unetmm_ib_received_at(qp, number);
	if (r->done)
		return false;
	r->done = true;
	*wr_id = r->wr_id;
	while (qp->received_done != qp->received_next &&
	       unetmm_ib_received_at(qp, qp->received_done)->done)
		qp->received_done++;
	return true;
}

static void unetmm_ib_got_received(struct unetmm_ib_qp *qp, const struct unetmm_cqe *cqe)
{
	struct ib_uverbs_wc wc = {
		.opcode = cqe->opcode == UNETMM_CQE_WRITTEN ? IB_WC_RECV_RDMA_WITH_IMM :
			  IB_WC_RECV,
		.byte_len = le32_to_cpu(cqe->len),
		.status = unetmm_ib_status(cqe->status),
	};

	if (!unetmm_ib_end_receive(qp, le64_to_cpu(cqe->cookie), &wc.wr_id))
		return;
	wc.status = unetmm_ib_reason(qp, wc.status);
	if (le32_to_cpu(cqe->flags) & UNETMM_CQE_F_IMM)
		unetmm_ib_got_imm(qp, cqe, &wc);
	if (unetmm_ib_is_ud(qp) && !wc.status) {
		wc.src_qp = FIELD_GET(UNETMM_UD_EP, le64_to_cpu(cqe->source)) + UNETMM_IB_QPN;
		wc.wc_flags |= IB_WC_GRH;
	}
	unetmm_ib_tell_receive(qp, &wc);
	if (qp->state == IB_QPS_RTR && !wc.status && !qp->told_established &&
	    !unetmm_ib_is_ud(qp)) {
		qp->told_established = true;
		unetmm_ib_event(qp, IB_EVENT_COMM_EST);
	}
	if (wc.status)
		unetmm_ib_error(qp);
}

/* The endpoint was stopped, or the channel has failed, or has been flushed. */
static void unetmm_ib_got_end(struct unetmm_ib_qp *qp, u8 status)
{
	if (status != UNETMM_ST_FLUSHED && !qp->end_status)
		qp->end_status = status;
	unetmm_ib_error(qp);
}

/*
 * The card reports an end once.  If the flush was asked for while an error was still to be reported,
 * the report is the error's, and perhaps before the last buffer: the flush is asked for again.
 */
static void unetmm_ib_got_closed(struct unetmm_ib_qp *qp, u8 status)
{
	qp->flushed |= status == UNETMM_ST_FLUSHED;
	if (!qp->flushed && !qp->open && qp->card_flushes)
		qp->card_flushes = !qp->dev->calls->channel_flush(qp->ep);
	unetmm_ib_got_end(qp, status);
}

/*
 * A process that has had no completion with the reason gets an event: the peer has failed,
 * or has asked for something that was refused.
 */
void unetmm_ib_tell_end(struct unetmm_ib_qp *qp)
{
	u8 status = unetmm_ib_status(qp->end_status);

	if (!qp->end_status || qp->sent_done != qp->sent_next || qp->reason_told)
		return;
	qp->reason_told = true;
	unetmm_ib_event(qp, status == IB_WC_REM_ACCESS_ERR ? IB_EVENT_QP_ACCESS_ERR :
			    status == IB_WC_REM_INV_REQ_ERR ? IB_EVENT_QP_REQ_ERR :
			    IB_EVENT_QP_FATAL);
}

/* The card has no request any more, or will give none back. */
static bool unetmm_ib_is_flushed(const struct unetmm_ib_qp *qp)
{
	return qp->flushed || !qp->card_flushes;
}

/* The queue pair has ended: it takes no request of its shared queue any more. */
void unetmm_ib_tell_last(struct unetmm_ib_qp *qp)
{
	if (!qp->ib.srq || qp->told_last)
		return;
	qp->told_last = true;
	unetmm_ib_event(qp, IB_EVENT_QP_LAST_WQE_REACHED);
}

/* As many as the completion queue has at most. */
static u32 unetmm_ib_drain(struct unetmm_ib_qp *qp)
{
	const struct unetmm_lent_calls *calls = qp->dev->calls;
	const struct unetmm_cqe *cqe;
	u32 n = 0;

	while (n < BIT(qp->ep->cq_log2) && (cqe = calls->ep_peek(qp->ep, qp->cq_cons))) {
		switch (cqe->opcode) {
		case UNETMM_CQE_SENT:
			unetmm_ib_got_sent(qp, cqe);
			break;
		case UNETMM_CQE_RECEIVED:
		case UNETMM_CQE_WRITTEN:
		case UNETMM_CQE_BUFFER:
			unetmm_ib_got_received(qp, cqe);
			break;
		default:
			unetmm_ib_got_closed(qp, cqe->status);
			break;
		}
		qp->cq_cons++;
		n++;
		unetmm_ep_cq_release(qp->ep, qp->cq_cons);
	}
	return n;
}

/* ---- The process's requests --------------------------------------------------- */

/* Has the process posted receive requests that the driver has not taken? */
bool unetmm_ib_receives_wait(struct unetmm_ib_qp *qp)
{
	return unetmm_ib_queue_waits(qp->shared ? &qp->shared->rq : &qp->rq);
}

static u32 unetmm_ib_take_receives(struct unetmm_ib_qp *qp)
{
	const struct rxe_recv_wqe *w = (const void *)qp->request;
	u32 n = 0;

	if (qp->shared)
		return unetmm_shared_look(qp->shared);
	while (unetmm_ib_fq_room(&qp->fq) >= UNETMM_IB_MAX_SGE &&
	       qp->received_next - qp->received_done < unetmm_ib_received_most(qp) &&
	       unetmm_ib_queue_peek(&qp->rq, qp->request, sizeof(qp->request))) {
		unetmm_ib_put_receive(&qp->fq, w, qp->received_next);
		*unetmm_ib_received_at(qp, qp->received_next++) = (struct unetmm_ib_received) {
			.wr_id = w->wr_id,
		};
		unetmm_ib_queue_next(&qp->rq);
		n++;
	}
	if (n)
		unetmm_ib_fq_publish(&qp->fq);
	return n;
}

static void unetmm_ib_put_desc(struct unetmm_ib_qp *qp, const struct unetmm_ib_desc *d)
{
	u8 *sq = qp->ep->block->cpu + qp->ep->sq_offset;
	u32 i;

	for (i = 0; i < d->nslots; i++) {
		u32 slot = (qp->sq_prod + i) & (BIT(qp->ep->sq_log2) - 1);

		memcpy(sq + slot * UNETMM_SLOT_BYTES, d->raw + i * UNETMM_SLOT_BYTES,
		       UNETMM_SLOT_BYTES);
	}
	qp->sq_prod += d->nslots;
}

static u32 unetmm_ib_sq_room(struct unetmm_ib_qp *qp)
{
	u32 cons = le32_to_cpu(READ_ONCE(qp->ep->index->card.sq_cons));

	return BIT(qp->ep->sq_log2) - (qp->sq_prod - cons);
}

/* Earlier READs and atomics are to end first; with LOCAL_INV all that may use the region. */
static bool unetmm_ib_waits(const struct unetmm_ib_qp *qp)
{
	const struct rxe_send_wqe *w = (const void *)qp->request;

	if (w->wr.opcode == IB_WR_LOCAL_INV && unetmm_ib_is_kernel(qp))
		return qp->sent_next != qp->sent_done;
	return w->wr.send_flags & IB_SEND_FENCE && qp->fetching;
}

static bool unetmm_ib_next_send(struct unetmm_ib_qp *qp)
{
	return qp->state == IB_QPS_RTS && !qp->bad_request &&
	       (!unetmm_ib_is_ud(qp) || qp->sq.index != qp->send_end) &&
	       unetmm_ib_sq_room(qp) >= UNETMM_MAX_SLOTS &&
	       qp->sent_next - qp->sent_done < unetmm_ib_sent_most(qp) &&
	       unetmm_ib_queue_peek(&qp->sq, qp->request, sizeof(qp->request)) &&
	       !unetmm_ib_waits(qp);
}

static u32 unetmm_ib_take_sends(struct unetmm_ib_qp *qp)
{
	struct unetmm_ib_desc d;
	u32 n = 0;

	while (unetmm_ib_next_send(qp)) {
		struct unetmm_ib_sent *s = unetmm_ib_sent_at(qp, qp->sent_next);
		u8 wrong = unetmm_ib_build(qp, &d, s, (const void *)qp->request);

		if (!wrong)
			unetmm_ib_put_desc(qp, &d);
		s->status = wrong;
		s->done = wrong || !d.nslots;
		s->fetches = !wrong && (d.read || d.atomic);
		qp->fetching += s->fetches;
		qp->bad_request = wrong;
		qp->sent_next++;
		unetmm_ib_queue_next(&qp->sq);
		n++;
	}
	if (!n)
		return 0;
	/* Pairs with the card: index, then slots. */
	dma_wmb();
	WRITE_ONCE(qp->ep->index->user.sq_prod, cpu_to_le32(qp->sq_prod));
	/* One that has ended here may be the oldest. */
	unetmm_ib_settle(qp);
	return n;
}

/* ---- Turns -------------------------------------------------------------------- */

static void unetmm_ib_ring(struct unetmm_ib_qp *qp)
{
	if (unetmm_reachable(qp->dev->dev))
		writel(0, qp->doorbell);
}

static u32 unetmm_ib_card_state(const struct unetmm_ib_qp *qp)
{
	return le32_to_cpu(READ_ONCE(qp->ep->index->card.state));
}

/* True: there was something to do. */
static bool unetmm_ib_turn(struct unetmm_ib_qp *qp)
{
	u32 taken, n;

	n = unetmm_ib_drain(qp);
	if (unetmm_ib_card_state(qp) & UNETMM_EP_ERROR) {
		unetmm_ib_got_end(qp, UNETMM_ST_BAD_CHANNEL);
		qp->card_flushes = false;
	}
	if (qp->state != IB_QPS_ERR) {
		taken = unetmm_ib_take_receives(qp) + unetmm_ib_take_sends(qp);
		if (taken)
			unetmm_ib_ring(qp);
		n += taken;
	}
	if (qp->state == IB_QPS_ERR) {
		/* Completions of before the end count. */
		unetmm_ib_drain(qp);
		unetmm_ib_settle(qp);
		unetmm_ib_tell_end(qp);
		unetmm_ib_flush_sends(qp);
		unetmm_ib_flush_receives(qp);
		if (unetmm_ib_is_flushed(qp))
			unetmm_ib_tell_last(qp);
		return false;
	}
	return n;
}

/* The card has something for the engine, or has stopped. */
static bool unetmm_ib_card_speaks(const struct unetmm_ib_qp *qp)
{
	return qp->dev->calls->ep_peek(qp->ep, qp->cq_cons) ||
	       unetmm_ib_card_state(qp) & UNETMM_EP_ERROR;
}

/*
 * Before RESET and the end of a queue pair that has a shared receive queue: the card gives back
 * the request of a message that was arriving, whose record is free again.  A card that takes longer
 * than UNETMM_IB_FLUSH_TIME, or that has stopped the endpoint, keeps the record busy until the
 * shared queue's end.
 */
void unetmm_ib_end_shared(struct unetmm_ib_qp *qp)
{
	long left = UNETMM_IB_FLUSH_TIME;

	lockdep_assert_held(&qp->lock);
	WRITE_ONCE(qp->quiet, true);
	unetmm_ib_error(qp);
	while (left && qp->state == IB_QPS_ERR) {
		unetmm_ib_turn(qp);
		if (unetmm_ib_is_flushed(qp))
			break;
		if (unetmm_ib_card_state(qp) & UNETMM_EP_CQ_BLOCKED)
			unetmm_ib_ring(qp);
		if (!qp->dev->calls->ep_arm(qp->ep, qp->cq_cons))
			left = wait_event_timeout(qp->wake, unetmm_ib_card_speaks(qp), left);
	}
	WRITE_ONCE(qp->quiet, false);
}

static void unetmm_ib_look_later(struct unetmm_ib_qp *qp, bool busy)
{
	/* The kernel calls. */
	if (unetmm_ib_is_kernel(qp))
		return;
	/* A shared queue has a timer of its own. */
	if (qp->shared)
		return;
	/* The card has buffers, and its completions have us look. */
	if (qp->state == IB_QPS_RESET || (qp->state != IB_QPS_ERR &&
					  qp->received_next != qp->received_done))
		return;
	if (busy)
		WRITE_ONCE(qp->pause_ns, UNETMM_IB_PAUSE_MIN);
	/* The process can offer receives without end, and has use for none. */
	if (qp->state == IB_QPS_ERR)
		WRITE_ONCE(qp->pause_ns, UNETMM_IB_PAUSE_MAX);
	if (!READ_ONCE(qp->closing))
		hrtimer_start(&qp->timer, ns_to_ktime(max_t(u64, READ_ONCE(qp->pause_ns),
							    UNETMM_IB_PAUSE_MIN)),
			      HRTIMER_MODE_REL_SOFT);
}

/* In any context. */
void unetmm_ib_kick(struct unetmm_ib_qp *qp)
{
	queue_work(unetmm_ib_is_kernel(qp) ? unetmm_ib_kernel_wq : unetmm_ib_wq, &qp->work);
}

/* qp->lock */
void unetmm_ib_run(struct unetmm_ib_qp *qp)
{
	u32 turns = 0;
	bool more;

	lockdep_assert_held(&qp->lock);
	if (qp->state == IB_QPS_RESET)
		return;
	do {
		more = unetmm_ib_turn(qp);
		more |= qp->dev->calls->ep_arm(qp->ep, qp->cq_cons);
		/* Behind the barrier in there: the card may have waited for room until now. */
		if (unetmm_ib_card_state(qp) & UNETMM_EP_CQ_BLOCKED)
			unetmm_ib_ring(qp);
		cond_resched();
	} while (more && ++turns < UNETMM_IB_TURNS);
	if (more && !READ_ONCE(qp->closing))
		unetmm_ib_kick(qp);
	unetmm_ib_look_later(qp, turns);
}

void unetmm_ib_work(struct work_struct *work)
{
	struct unetmm_ib_qp *qp = container_of(work, struct unetmm_ib_qp, work);
	/* Memory that the kernel's queue pairs want may wait for their own blocks. */
	unsigned int flags = unetmm_ib_is_kernel(qp) ? memalloc_noio_save() : 0;

	if (qp->prepare)
		qp->prepare(qp);
	mutex_lock(&qp->lock);
	unetmm_ib_run(qp);
	mutex_unlock(&qp->lock);
	if (unetmm_ib_is_kernel(qp))
		memalloc_noio_restore(flags);
}

/* In a soft interrupt: reads one word for each idle queue pair. */
enum hrtimer_restart unetmm_ib_timer(struct hrtimer *timer)
{
	struct unetmm_ib_qp *qp = container_of(timer, struct unetmm_ib_qp, timer);
	u64 pause;

	if (READ_ONCE(qp->closing))
		return HRTIMER_NORESTART;
	if (unetmm_ib_queue_waits(&qp->rq)) {
		queue_work(unetmm_ib_wq, &qp->work);
		return HRTIMER_NORESTART;
	}
	pause = clamp_t(u64, 2 * READ_ONCE(qp->pause_ns), UNETMM_IB_PAUSE_MIN,
			UNETMM_IB_PAUSE_MAX);
	WRITE_ONCE(qp->pause_ns, pause);
	/* The engine may start it at the same time: the timer's lock decides. */
	hrtimer_start(timer, ns_to_ktime(pause), HRTIMER_MODE_REL_SOFT);
	return HRTIMER_NORESTART;
}

/* In interrupts, with ep_lock; or with map_lock, when the card has gone. */
void unetmm_ib_woken(struct unetmm_ep *ep, u8 type)
{
	struct unetmm_ib_qp *qp = ep->owner;

	/* unetmm_ib_end_shared() looks itself: a work would only wait for its lock. */
	if (!READ_ONCE(qp->quiet))
		unetmm_ib_kick(qp);
	wake_up(&qp->wake);
}
