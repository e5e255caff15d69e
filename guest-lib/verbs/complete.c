/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Completions of the card, and of requests that a queue pair's end flushes.  The lock of the
 * queue pair's completions is held.
 */
#include "mw.h"
#include "srq.h"

static enum ibv_wc_status status_of(const struct umv_qp *qp, uint8_t status)
{
    switch (status) {
    case UNETMM_ST_OK:
        return IBV_WC_SUCCESS;
    case UNETMM_ST_LINK_DOWN:
    case UNETMM_ST_REFUSED:
        /* UD: the message is lost, of which nobody is told. */
        return qp->ud ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR;
    case UNETMM_ST_PROTECTION:
    case UNETMM_ST_UNSUPPORTED:
    case UNETMM_ST_LIMIT:
        return IBV_WC_LOC_PROT_ERR;
    case UNETMM_ST_TOO_LONG:
    case UNETMM_ST_TOO_LARGE:
        return IBV_WC_LOC_LEN_ERR;
    case UNETMM_ST_BAD_DESC:
    case UNETMM_ST_PEER_LACKS:
        return IBV_WC_LOC_QP_OP_ERR;
    case UNETMM_ST_TIMEOUT:
    case UNETMM_ST_PEER_FAILED:
        return IBV_WC_RETRY_EXC_ERR;
    case UNETMM_ST_NOT_READY:
        return IBV_WC_RNR_RETRY_EXC_ERR;
    case UNETMM_ST_PEER_BUFFER:
        return IBV_WC_REM_INV_REQ_ERR;
    case UNETMM_ST_REVOKED:
    case UNETMM_ST_REMOTE_RIGHT:
    case UNETMM_ST_REMOTE_RANGE:
    case UNETMM_ST_REMOTE_MEMORY:
    case UNETMM_ST_BAD_KEYS:
        return IBV_WC_REM_ACCESS_ERR;
    default:
        return IBV_WC_WR_FLUSH_ERR;
    }
}

/*
 * The card has one status for memory that it may not use: InfiniBand tells a word that is not
 * aligned, and a bad receive request, from a remote key's error.
 */
static enum ibv_wc_status sent_status(const struct umv_qp *qp, const struct umv_what *what,
                                      uint8_t card)
{
    enum ibv_wc_status status = status_of(qp, card);

    if (card == UNETMM_ST_BAD_DESC && umv_changes_key(what->opcode)) {
        return IBV_WC_MW_BIND_ERR;
    }
    if (status != IBV_WC_REM_ACCESS_ERR) {
        return status;
    }
    return what->flags & UMV_UNALIGNED && what->flags & UMV_FETCHES ? IBV_WC_REM_INV_REQ_ERR :
        what->opcode == IBV_WC_SEND ? IBV_WC_REM_OP_ERR : status;
}

static void got_sent(struct umv_qp *qp, const struct unetmm_completion *c)
{
    uint32_t number = (uint32_t)c->user_data;
    struct umv_sent *s = &qp->sent[number & qp->ep->sq_mask];

    /* One that was flushed has been told. */
    if (number - qp->sent_done >= umv_load(&qp->sent_next) - qp->sent_done ||
        s->what.flags & UMV_DONE) {
        return;
    }
    s->what.status = (uint8_t)sent_status(qp, &s->what, c->status);
    umv_store(&s->what.flags, s->what.flags | UMV_DONE);
    qp->kept++;
    qp->kept_sends++;
    if (s->what.flags & UMV_FETCHES) {
        umv_fetched(qp);
    }
}

static struct umv_received *got_own(const struct umv_qp *qp, const struct unetmm_completion *c)
{
    uint32_t number = (uint32_t)c->user_data;
    struct umv_received *r = &qp->received[number & qp->ep->fq_mask];

    return number - qp->received_done < umv_load(&qp->received_next) - qp->received_done &&
        !(r->what.flags & UMV_DONE) ? r : NULL;
}

static void got_received(struct umv_qp *qp, const struct unetmm_completion *c)
{
    struct umv_received *r = qp->srq ? umv_srq_got(qp, c->user_data) : got_own(qp, c);

    if (!r) {
        return;
    }
    r->what = (struct umv_what) {
        .opcode = c->type == UNETMM_CQE_WRITTEN ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
        .status = (uint8_t)status_of(qp, c->status),
        .flags = UMV_DONE | (c->flags & UNETMM_CQE_F_IMM ? UMV_IMM : 0),
        .slots = r->what.slots,
    };
    r->len = c->len;
    r->imm = c->imm;
    if (c->flags & UNETMM_CQE_F_INV && !r->what.status) {
        r->what.flags |= UMV_INV;
        r->what.status = umv_end_key(qp, c->imm) ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_SUCCESS;
    }
    if (qp->ud) {
        uint64_t source;

        memcpy(&source, c->data, sizeof(source));
        r->from = (uint32_t)UNETMM_GET(UNETMM_UD_EP, unetmm_swap64(source)) + UNETMM_VERBS_QPN;
    }
    qp->kept++;
}

/* The short ways are for a queue pair that runs.  For one that ends, a poll calls umv_take(). */
void umv_set_state(struct umv_qp *qp, enum ibv_qp_state state)
{
    bool sends = state == IBV_QPS_RTS && qp->cap.max_send_sge && !qp->ud;
    bool receives = state != IBV_QPS_RESET && state != IBV_QPS_ERR && qp->cap.max_recv_sge;
    uint32_t most_sends = qp->ep->sq_mask + 1, most_receives = qp->ep->fq_mask + 1;

    if (state == IBV_QPS_ERR && qp->state != IBV_QPS_ERR) {
        qp->kept++;
    }
    qp->channel = state == IBV_QPS_RTR || (state != IBV_QPS_RESET && qp->channel);
    /* Slots are requests, or more than these. */
    if (qp->cap.max_send_wr < most_sends) {
        most_sends = qp->cap.max_send_wr;
    }
    if (qp->cap.max_recv_wr < most_receives) {
        most_receives = qp->cap.max_recv_wr;
    }
    umv_store(&qp->sends_usual, sends ? most_sends : 0);
    umv_store(&qp->receives_usual, receives ? most_receives : 0);
    umv_store(&qp->state, state);
}

static void fail(struct umv_qp *qp)
{
    if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_RESET) {
        return;
    }
    umv_set_state(qp, IBV_QPS_ERR);
    umv_end(qp);
    /* Completions of before count. */
    umv_collect(qp);
}

/* Takes the completions that the card has written. */
void umv_collect(struct umv_qp *qp)
{
    struct unetmm_ep *ep = qp->ep;
    struct unetmm_completion c;
    uint32_t index = ep->cq_cons;
    bool ended = false;

    while (unetmm_take_next_(ep, index, &c)) {
        index++;
        if (c.type == UNETMM_CQE_SENT) {
            got_sent(qp, &c);
        } else if (c.type == UNETMM_CQE_RECEIVED || c.type == UNETMM_CQE_WRITTEN ||
                   c.type == UNETMM_CQE_BUFFER) {
            got_received(qp, &c);
        } else {
            qp->channel &= c.type != UNETMM_CQE_CLOSED;
            ended = true;
        }
    }
    unetmm_taken_(ep, index);
    if (!umv_runs(ep)) {
        ended |= !(unetmm_read_word(&ep->index->card.state) & UNETMM_EP_RUNNING);
        unetmm_poll(ep, NULL, 0);
    }
    if (ended) {
        fail(qp);
    }
}

/*
 * The card completes a quiet request only if the request fails: a quiet one has ended well if
 * a later one has ended.
 */
static bool has_ended(const struct umv_qp *qp, const struct umv_sent *s)
{
    return s->what.flags & UMV_DONE || (s->what.flags & UMV_QUIET && qp->kept_sends);
}

/* The oldest request's completion, if that has ended. */
static bool next_sent(struct umv_qp *qp, struct ibv_wc *wc)
{
    while (qp->sent_done != umv_load(&qp->sent_next)) {
        const struct umv_sent *s = &qp->sent[qp->sent_done & qp->ep->sq_mask];
        struct umv_what what = s->what;

        if (!has_ended(qp, s)) {
            if (qp->state != IBV_QPS_ERR) {
                return false;
            }
            what.status = IBV_WC_WR_FLUSH_ERR;
        }
        if (what.flags & UMV_DONE) {
            qp->kept--;
            qp->kept_sends--;
        }
        *wc = (struct ibv_wc) {
            .wr_id = s->wr_id, .status = what.status, .opcode = what.opcode,
            .byte_len = s->len, .qp_num = qp->vqp.qp.qp_num,
        };
        /* A post may write to the record now. */
        umv_store(&qp->sent_done, qp->sent_done + what.slots);
        if (what.status) {
            fail(qp);
        }
        if (what.flags & UMV_SIGNALED || what.status) {
            return true;
        }
    }
    return false;
}

/* The oldest request, or with a shared queue the oldest message; NULL: there is none. */
static const struct umv_received *oldest_received(const struct umv_qp *qp)
{
    if (qp->srq) {
        return qp->srq_first == UMV_NONE ? NULL : &qp->srq->records[qp->srq_first];
    }
    return qp->received_done == umv_load(&qp->received_next) ? NULL :
        &qp->received[qp->received_done & qp->ep->fq_mask];
}

static bool next_received(struct umv_qp *qp, struct ibv_wc *wc)
{
    const struct umv_received *r = oldest_received(qp);
    struct umv_what what;

    if (!r) {
        return false;
    }
    what = r->what;
    if (!(what.flags & UMV_DONE) && qp->state != IBV_QPS_ERR) {
        return false;
    }
    *wc = (struct ibv_wc) {
        .wr_id = r->wr_id, .status = what.status, .opcode = what.opcode,
        .qp_num = qp->vqp.qp.qp_num, .src_qp = qp->peer,
    };
    if (what.flags & UMV_DONE) {
        qp->kept--;
        wc->byte_len = r->len;
        wc->imm_data = r->imm;
        wc->wc_flags = what.flags & UMV_INV ? IBV_WC_WITH_INV :
            what.flags & UMV_IMM ? IBV_WC_WITH_IMM : 0;
        if (qp->ud && !what.status) {
            wc->src_qp = r->from;
            wc->wc_flags |= IBV_WC_GRH;
        }
    }
    if (qp->srq) {
        umv_srq_told(qp);
    } else {
        umv_store(&qp->received_done, qp->received_done + what.slots);
    }
    if (wc->status) {
        fail(qp);
    }
    return true;
}

int umv_take(struct umv_cq *cq, struct umv_qp *qp, int n, struct ibv_wc *wc)
{
    int got = 0;

    umv_collect(qp);
    while (got < n && qp->send_cq == cq && next_sent(qp, &wc[got])) {
        got++;
    }
    while (got < n && qp->recv_cq == cq && next_received(qp, &wc[got])) {
        got++;
    }
    return got;
}

/*
 * Completions of the queue pair that the completion queue has, and those that posted sends will
 * have: the program has to leave room for these.
 */
unsigned umv_waiting(const struct umv_cq *cq, struct umv_qp *qp)
{
    uint32_t i, last;
    unsigned n = 0;

    umv_collect(qp);
    if (qp->send_cq == cq) {
        last = umv_load(&qp->sent_next);
        for (i = qp->sent_done; i != last; i += qp->sent[i & qp->ep->sq_mask].what.slots) {
            const struct umv_what *what = &qp->sent[i & qp->ep->sq_mask].what;

            n += what->flags & UMV_SIGNALED || what->status || qp->state == IBV_QPS_ERR;
        }
    }
    if (qp->recv_cq == cq && qp->srq) {
        for (i = qp->srq_first; i != UMV_NONE; i = qp->srq->records[i].next) {
            n++;
        }
    } else if (qp->recv_cq == cq) {
        last = umv_load(&qp->received_next);
        for (i = qp->received_done; i != last;
             i += qp->received[i & qp->ep->fq_mask].what.slots) {
            n += qp->received[i & qp->ep->fq_mask].what.flags & UMV_DONE ||
                qp->state == IBV_QPS_ERR;
        }
    }
    return n;
}
