/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Posts: descriptors and buffers go to the endpoint's queues, by the parts of the library's own
 * calls.  A segment with a wrong key becomes address 0, where nobody has memory: the card
 * then ends the request in its turn, as it ends each other one.
 */
#include "umv.h"

#include <errno.h>

static const struct {
    uint8_t card, opcode, flags;
    unsigned imm;
} kinds[] = {
    [IBV_WR_SEND] = { UNETMM_OP_SEND, IBV_WC_SEND, 0, 0 },
    [IBV_WR_SEND_WITH_IMM] = { UNETMM_OP_SEND, IBV_WC_SEND, 0, UNETMM_IMM },
    [IBV_WR_RDMA_WRITE] = { UNETMM_OP_WRITE, IBV_WC_RDMA_WRITE, 0, 0 },
    [IBV_WR_RDMA_WRITE_WITH_IMM] = { UNETMM_OP_WRITE, IBV_WC_RDMA_WRITE, 0, UNETMM_IMM },
    [IBV_WR_RDMA_READ] = { UNETMM_OP_READ, IBV_WC_RDMA_READ, UMV_FETCHES, 0 },
    [IBV_WR_ATOMIC_CMP_AND_SWP] = { UNETMM_OP_CMP_SWAP, IBV_WC_COMP_SWAP, UMV_FETCHES, 0 },
    [IBV_WR_ATOMIC_FETCH_AND_ADD] = { UNETMM_OP_FETCH_ADD, IBV_WC_FETCH_ADD, UMV_FETCHES, 0 },
};

/* The request but for its memory and its data. */
int umv_wr_set(struct umv_qp *qp, struct umv_wr *w, enum ibv_wr_opcode opcode, uint64_t wr_id,
               unsigned flags)
{
    bool signaled = qp->all_signaled || flags & IBV_SEND_SIGNALED;
    unsigned quiet;

    if (opcode >= sizeof(kinds) / sizeof(kinds[0]) || !kinds[opcode].card) {
        return EOPNOTSUPP;
    }
    w->opcode = kinds[opcode].opcode;
    /* READs and atomics always tell of their end: those behind them wait for it. */
    quiet = !signaled && !(kinds[opcode].flags & UMV_FETCHES);
    w->flags = (uint8_t)(kinds[opcode].flags | (signaled ? UMV_SIGNALED : 0) |
                         (quiet ? UMV_QUIET : 0) | (flags & IBV_SEND_FENCE ? UMV_FENCE : 0));
    w->noperands = 0;
    w->wr_id = wr_id;
    w->card = (struct unetmm_request_) {
        .flags = kinds[opcode].imm | (quiet ? UNETMM_UNSIGNALED : 0),
        .opcode = kinds[opcode].card,
    };
    return 0;
}

void umv_wr_remote(struct umv_wr *w, uint32_t rkey, uint64_t addr)
{
    w->card.flags |= UNETMM_KEYED_ |
        UNETMM_GET(UNETMM_VERBS_RKEY_REGION, rkey) << UNETMM_REGION_SHIFT_;
    w->card.import = rkey;
    w->card.offset = addr;
}

void umv_wr_operands(struct umv_wr *w, uint64_t first, uint64_t second)
{
    w->operands[0] = unetmm_swap64(first);
    w->operands[1] = unetmm_swap64(second);
    w->noperands = w->card.opcode == UNETMM_OP_CMP_SWAP ? 2 : 1;
}

/* ---- Descriptors ----------------------------------------------------------- */

static bool has_place(const struct umv_qp *qp)
{
    return qp->sent_next - qp->sent_done < qp->cap.max_send_wr;
}

static bool has_room(struct umv_qp *qp, uint32_t slots)
{
    return has_place(qp) && unetmm_sq_has_room_(qp->ep, slots);
}

/* The descriptor is written, but not shown to the card. */
static int queued(struct umv_qp *qp, const struct umv_wr *w, uint32_t slots, size_t len)
{
    qp->ep->sq_prod += slots;
    qp->sent[qp->sent_next++ & qp->sent_mask] = (struct umv_sent) {
        .wr_id = w->wr_id, .len = (uint32_t)len, .sq_end = qp->ep->sq_prod,
        .opcode = w->opcode, .flags = w->flags,
    };
    return 0;
}

/* The card reads no more descriptors: the request has none, and is flushed. */
static int queued_in_vain(struct umv_qp *qp, const struct umv_wr *w)
{
    return has_place(qp) ? queued(qp, w, 0, 0) : ENOMEM;
}

/* The operands are inline, and the card writes the old value to segment SQE_RESULT. */
static int put_atomic(struct umv_qp *qp, struct umv_wr *w, const struct ibv_sge *sge, size_t n)
{
    struct unetmm_ep *ep = qp->ep;
    size_t bytes = w->noperands * sizeof(w->operands[0]);
    struct unetmm_sqe *sqe = (void *)unetmm_slot_(ep, ep->sq_prod);
    uint8_t *data;

    if (n != 1 || sge->length != sizeof(w->operands[0])) {
        return EINVAL;
    }
    if (!has_room(qp, 1)) {
        return ENOMEM;
    }
    data = unetmm_put_sqe_(ep, ep->sq_prod, &w->card, 1, 0, bytes);
    memcpy(data, w->operands, bytes);
    sqe->nsegs = 1;
    sqe->seg[UNETMM_SQE_RESULT] = (struct unetmm_seg) {
        .addr = unetmm_swap64((uintptr_t)umv_memory(qp, sge, IBV_ACCESS_LOCAL_WRITE)),
        .len = unetmm_swap32(sge->length),
    };
    return queued(qp, w, 1, sge->length);
}

/* Segments without bytes are left out; the others' number. */
static unsigned translate(const struct umv_qp *qp, const struct ibv_sge *sges, size_t n,
                          int access, struct iovec *iov)
{
    unsigned used = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        if (sges[i].length) {
            iov[used].iov_base = umv_memory(qp, &sges[i], access);
            iov[used++].iov_len = sges[i].length;
        }
    }
    return used;
}

int umv_put(struct umv_qp *qp, struct umv_wr *w, const struct ibv_sge *sges, size_t n)
{
    struct unetmm_ep *ep = qp->ep;
    struct iovec iov[UNETMM_MAX_SEGS];
    uint32_t slots;
    uint8_t *data;
    size_t len;

    if (n > qp->cap.max_send_sge) {
        return EINVAL;
    }
    if (qp->state == IBV_QPS_ERR) {
        return queued_in_vain(qp, w);
    }
    w->card.user_data = qp->sent_next;
    if (w->noperands) {
        return put_atomic(qp, w, sges, n);
    }
    n = translate(qp, sges, n, w->flags & UMV_FETCHES ? IBV_ACCESS_LOCAL_WRITE : 0, iov);
    slots = 1 + unetmm_seg_slots_((unsigned)n);
    if (!has_room(qp, slots)) {
        return ENOMEM;
    }
    len = unetmm_iov_length_(iov, (unsigned)n, UINT32_MAX - 1);
    data = unetmm_put_sqe_(ep, ep->sq_prod, &w->card, 0, (unsigned)n, 0);
    unetmm_put_segs_(ep, ep->sq_prod, data, iov, (unsigned)n);
    return queued(qp, w, slots, len);
}

int umv_put_inline(struct umv_qp *qp, struct umv_wr *w, const struct iovec *iov, size_t n)
{
    struct unetmm_ep *ep = qp->ep;
    size_t len = unetmm_iov_length_(iov, (unsigned)n, UNETMM_MAX_INLINE);
    uint32_t slots = 1 + unetmm_inline_slots(len);
    uint8_t *data;

    if (len > qp->cap.max_inline_data || w->flags & UMV_FETCHES) {
        return EINVAL;
    }
    if (qp->state == IBV_QPS_ERR) {
        return queued_in_vain(qp, w);
    }
    if (!has_room(qp, slots)) {
        return ENOMEM;
    }
    w->card.user_data = qp->sent_next;
    data = unetmm_put_sqe_(ep, ep->sq_prod, &w->card, 1, 0, len);
    if (n == 1 && slots == 1) {
        unetmm_copy_(data, iov[0].iov_base, len);
    } else {
        unetmm_put_pieces(ep, ep->sq_prod, data, iov, (unsigned)n);
    }
    return queued(qp, w, slots, len);
}

/* Shows the card the requests as far as the next fence lets them. */
void umv_show(struct umv_qp *qp)
{
    struct unetmm_ep *ep = qp->ep;
    uint32_t before = qp->shown;
    const struct umv_sent *s = NULL;

    if (qp->state == IBV_QPS_ERR) {
        return;
    }
    for (; qp->shown != qp->sent_next; qp->shown++) {
        const struct umv_sent *next = &qp->sent[qp->shown & qp->sent_mask];

        if (next->flags & UMV_FENCE && qp->fetching) {
            break;
        }
        qp->fetching += next->flags & UMV_FETCHES ? 1 : 0;
        s = next;
    }
    if (qp->shown != before) {
        unetmm_write_index(&ep->index->user.sq_prod, s->sq_end);
        unetmm_kick_(ep);
    }
}

/* ---- ibv_post_send() ------------------------------------------------------- */

static int post_inline(struct umv_qp *qp, struct umv_wr *w, const struct ibv_send_wr *wr)
{
    struct iovec iov[UNETMM_MAX_SEGS];
    int i;

    if (wr->num_sge > UNETMM_MAX_SEGS) {
        return EINVAL;
    }
    for (i = 0; i < wr->num_sge; i++) {
        iov[i].iov_base = (void *)(uintptr_t)wr->sg_list[i].addr;
        iov[i].iov_len = wr->sg_list[i].length;
    }
    return umv_put_inline(qp, w, iov, (size_t)wr->num_sge);
}

static int post_one(struct umv_qp *qp, const struct ibv_send_wr *wr)
{
    struct umv_wr w;
    int ret = umv_wr_set(qp, &w, wr->opcode, wr->wr_id, wr->send_flags);

    if (ret || wr->num_sge < 0) {
        return ret ? ret : EINVAL;
    }
    switch (wr->opcode) {
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        umv_wr_remote(&w, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr);
        umv_wr_operands(&w, wr->wr.atomic.compare_add, wr->wr.atomic.swap);
        break;
    case IBV_WR_SEND:
        break;
    case IBV_WR_SEND_WITH_IMM:
        w.card.imm = wr->imm_data;
        break;
    default:
        umv_wr_remote(&w, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
        w.card.imm = wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? wr->imm_data : 0;
    }
    return wr->send_flags & IBV_SEND_INLINE ? post_inline(qp, &w, wr) :
        umv_put(qp, &w, wr->sg_list, (size_t)wr->num_sge);
}

int umv_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct umv_qp *qp = umv_qp(ibqp);
    int ret = 0;

    umfi_lock_take(&qp->lock);
    if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_ERR) {
        ret = EINVAL;
    }
    for (; wr && !ret; wr = wr->next) {
        ret = post_one(qp, wr);
        if (ret) {
            break;
        }
    }
    umv_show(qp);
    umfi_lock_drop(&qp->lock);
    if (ret) {
        *bad = wr;
    }
    return ret;
}

/* ---- ibv_post_recv() ------------------------------------------------------- */

/*
 * The card takes no buffer of more pages than its TLB holds, so the segments are cut there: a
 * longer message fails, rather than leave a gap in front of the next segment.  A request
 * without memory takes messages of 0 bytes: its one byte is where a longer one finds nothing
 * either.
 */
static unsigned receive_iov(const struct umv_qp *qp, const struct ibv_recv_wr *wr,
                            struct iovec *iov)
{
    unsigned i, n = translate(qp, wr->sg_list, (size_t)wr->num_sge, IBV_ACCESS_LOCAL_WRITE, iov);
    size_t room = (size_t)qp->context->max_message + UNETMM_PAGE_BYTES;

    for (i = 0; i < n && room; i++) {
        size_t begin = (uintptr_t)iov[i].iov_base % UNETMM_PAGE_BYTES;

        if (iov[i].iov_len > room - begin) {
            iov[i].iov_len = room - begin;
        }
        room -= (begin + iov[i].iov_len + UNETMM_PAGE_BYTES - 1) / UNETMM_PAGE_BYTES *
            UNETMM_PAGE_BYTES;
    }
    if (!i) {
        iov[0].iov_base = NULL;
        iov[0].iov_len = 1;
    }
    return i ? i : 1;
}

static int receive_one(struct umv_qp *qp, const struct ibv_recv_wr *wr)
{
    struct iovec iov[UNETMM_MAX_SEGS];
    unsigned n;

    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_recv_sge) {
        return EINVAL;
    }
    if (qp->received_next - qp->received_done >= qp->cap.max_recv_wr) {
        return ENOMEM;
    }
    n = receive_iov(qp, wr, iov);
    if (qp->state != IBV_QPS_ERR) {
        if (!unetmm_parts_fit(qp->ep, n)) {
            return ENOMEM;
        }
        unetmm_put_parts(qp->ep, iov, n, qp->received_next);
    }
    qp->received[qp->received_next++ & qp->received_mask] = (struct umv_received) {
        .wr_id = wr->wr_id, .opcode = IBV_WC_RECV,
    };
    return 0;
}

int umv_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct umv_qp *qp = umv_qp(ibqp);
    int ret = 0;

    umfi_lock_take(&qp->lock);
    if (qp->state == IBV_QPS_RESET) {
        ret = EINVAL;
    }
    for (; wr && !ret; wr = wr->next) {
        ret = receive_one(qp, wr);
        if (ret) {
            break;
        }
    }
    unetmm_kick_(qp->ep);
    umfi_lock_drop(&qp->lock);
    if (ret) {
        *bad = wr;
    }
    return ret;
}
