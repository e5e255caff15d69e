/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Completions of the card, and of requests that a queue pair's end flushes.  qp->lock is held.
 */
#include "umv.h"

static enum ibv_wc_status status_of(uint8_t status)
{
    switch (status) {
    case UNETMM_ST_OK:
        return IBV_WC_SUCCESS;
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

static void got_sent(struct umv_qp *qp, const struct unetmm_completion *c)
{
    uint32_t number = (uint32_t)c->user_data;
    struct umv_sent *s = &qp->sent[number & qp->sent_mask];

    /* One that was flushed has been told. */
    if (number - qp->sent_done >= qp->sent_next - qp->sent_done || s->flags & UMV_DONE) {
        return;
    }
    s->flags |= UMV_DONE;
    s->status = (uint8_t)status_of(c->status);
    if ((int32_t)(number + 1 - qp->answered) > 0) {
        qp->answered = number + 1;
    }
    if (s->flags & UMV_FETCHES) {
        qp->fetching--;
        if (qp->shown != qp->sent_next) {
            umv_show(qp);
        }
    }
}

static void got_received(struct umv_qp *qp, const struct unetmm_completion *c)
{
    uint32_t number = (uint32_t)c->user_data;
    struct umv_received *r = &qp->received[number & qp->received_mask];

    if (number - qp->received_done >= qp->received_next - qp->received_done || r->done) {
        return;
    }
    r->done = true;
    r->opcode = c->type == UNETMM_CQE_WRITTEN ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
    r->status = (uint8_t)status_of(c->status);
    r->len = c->len;
    r->has_imm = c->flags & UNETMM_CQE_F_IMM;
    r->imm = c->imm;
}

/* The queue pair ends; the driver takes the channel off the card. */
static void fail(struct umv_qp *qp)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
    struct ibv_modify_qp cmd = {};

    if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_RESET) {
        return;
    }
    qp->state = IBV_QPS_ERR;
    /* If it refuses, the device has gone. */
    ibv_cmd_modify_qp(&qp->vqp.qp, &attr, IBV_QP_STATE, &cmd, sizeof(cmd));
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
            ended = true;
        }
    }
    unetmm_taken_(ep, index);
    if (__builtin_expect(unetmm_card_waits(ep), 0)) {
        ended |= unetmm_read_word(&ep->index->card.state) & UNETMM_EP_ERROR;
        unetmm_poll(ep, NULL, 0);
    }
    if (__builtin_expect(ended, 0)) {
        fail(qp);
    }
}

/*
 * The card wakes the driver with the next completion.  Those that are there are taken first: the
 * card tells once of each number in cq_arm.  Two completion queues of a queue pair share the
 * number.  If this call took completions, the other queue's reader may still sleep: then the
 * number is that of the last completion taken, and the card tells of it if it has not done so.
 */
void umv_arm(struct umv_qp *qp)
{
    struct unetmm_ep *ep = qp->ep;
    uint32_t before = ep->cq_cons;
    bool other;

    umv_collect(qp);
    other = qp->send_cq != qp->recv_cq && ep->cq_cons != before;
    unetmm_write_word(&ep->index->user.cq_arm,
                      UNETMM_ARM | ((ep->cq_cons - other) & UNETMM_ARM_COUNT));
    unetmm_arm_barrier();
    if (other) {
        unetmm_kick_(ep);
    }
}

/* The card completes a quiet request only if the request fails. */
static bool has_ended(const struct umv_qp *qp, const struct umv_sent *s)
{
    return s->flags & UMV_DONE ||
        (s->flags & UMV_QUIET && (int32_t)(qp->answered - qp->sent_done) > 0);
}

/* The oldest request's completion, if that has ended. */
bool umv_next_sent(struct umv_qp *qp, struct ibv_wc *wc)
{
    while (qp->sent_done != qp->sent_next) {
        struct umv_sent *s = &qp->sent[qp->sent_done & qp->sent_mask];
        bool ended = has_ended(qp, s);

        if (!ended && qp->state != IBV_QPS_ERR) {
            return false;
        }
        qp->sent_done++;
        if (!ended) {
            s->status = IBV_WC_WR_FLUSH_ERR;
        }
        if (!(s->flags & UMV_SIGNALED) && !s->status) {
            continue;
        }
        *wc = (struct ibv_wc) {
            .wr_id = s->wr_id, .status = s->status, .opcode = s->opcode, .byte_len = s->len,
            .qp_num = qp->vqp.qp.qp_num,
        };
        if (s->status) {
            fail(qp);
        }
        return true;
    }
    return false;
}

bool umv_next_received(struct umv_qp *qp, struct ibv_wc *wc)
{
    struct umv_received *r = &qp->received[qp->received_done & qp->received_mask];

    if (qp->received_done == qp->received_next || (!r->done && qp->state != IBV_QPS_ERR)) {
        return false;
    }
    qp->received_done++;
    *wc = (struct ibv_wc) {
        .wr_id = r->wr_id, .status = r->done ? r->status : IBV_WC_WR_FLUSH_ERR,
        .opcode = r->opcode, .byte_len = r->len, .qp_num = qp->vqp.qp.qp_num,
        .src_qp = qp->peer, .imm_data = r->imm, .wc_flags = r->has_imm ? IBV_WC_WITH_IMM : 0,
    };
    if (wc->status) {
        fail(qp);
    }
    return true;
}
