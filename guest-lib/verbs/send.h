/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Parts of send.c and post.c: a descriptor and its record.
 */
#ifndef UMV_SEND_H
#define UMV_SEND_H

#include "verbs.h"

/* Does the segment have bytes, all of them in the region that was used last? */
SYS_INLINE bool umv_is_last(const struct umv_context *context, const struct umv_last_mr *last,
                            const struct ibv_sge *sge)
{
    uint64_t rest = last->end - sge->addr;

    return sge->lkey == last->lkey && umv_load(&context->mr_version) == last->version &&
        rest <= last->length && sge->length && sge->length <= rest;
}

/* The memory behind a segment; NULL, where nobody has memory: wrong key or right. */
SYS_INLINE void *umv_memory_of(const struct umv_context *context, const struct ibv_pd *pd,
                               struct umv_last_mr *last, const struct ibv_sge *sge, int access)
{
    return umv_is_last(context, last, sge) && !(access & ~last->access) ?
        (void *)(uintptr_t)(sge->addr + last->delta) :
        umv_find_memory(context, pd, last, sge, access);
}

/* The first 32 bits of a descriptor */
#define UMV_HEAD(_op, _flags)       ((_op) | (_flags) << 8)
#define UMV_HEAD_SEGMENTS(_n)       ((uint64_t)(_n) << 16)
#define UMV_HEAD_INLINE(_len)       (UNETMM_SQE_F_INLINE << 8 | (uint64_t)(_len) << 24)

SYS_INLINE const struct umv_kind *umv_kind(const struct umv_qp *qp,
                                           const struct ibv_send_wr *wr)
{
    static_assert(IBV_SEND_SIGNALED == 2 && UMV_KINDS == 16, "the shift below is another one");
    return &qp->kinds[wr->opcode + 8 * (wr->send_flags & IBV_SEND_SIGNALED)];
}

SYS_INLINE struct unetmm_sqe *umv_sqe(const struct unetmm_ep *ep, uint32_t number)
{
    return (struct unetmm_sqe *)(void *)unetmm_slot_(ep, number);
}

/* The record, and the descriptor in slot `number` but for its data; `data`: how many */
SYS_INLINE void umv_put_head(struct umv_qp *qp, const struct unetmm_ep *ep,
                             const struct ibv_send_wr *wr, uint32_t number, uint32_t len,
                             uint64_t data)
{
    struct unetmm_sqe *sqe = umv_sqe(ep, number);
    const struct umv_kind *kind = umv_kind(qp, wr);
    struct umv_sent *s = &qp->sent[number & ep->sq_mask];
    uint64_t head = kind->head | data;

    sqe->cookie = unetmm_swap64(number | qp->sent_more);
    s->len = len;
    s->wr_id = wr->wr_id;
    s->what = kind->what;
    sqe->imm = 0;
    sqe->handle = 0;
    sqe->remote = 0;
    if (kind->what.flags & UMV_IMM) {
        sqe->imm = unetmm_swap32(wr->imm_data);
    }
    if (kind->what.flags & UMV_KEYED) {
        uint32_t rkey = wr->wr.rdma.rkey;

        sqe->handle = unetmm_swap32(rkey);
        sqe->remote = unetmm_swap64(wr->wr.rdma.remote_addr);
        head |= (uint64_t)UNETMM_GET(UNETMM_VERBS_RKEY_REGION, rkey) << 48;
    }
    head = unetmm_swap64(head);
    memcpy(sqe, &head, sizeof(head));
}

/*
 * A request has its slots until its completion is told: the card's index need not be read.  The
 * program gets max_send_wr requests, and no more.
 */
SYS_INLINE bool umv_has_room(const struct umv_qp *qp, uint32_t slots)
{
    const struct unetmm_ep *ep = qp->ep;
    uint32_t oldest = umv_load(&qp->sent_done), used = ep->sq_prod - oldest;
    uint32_t before = (uint32_t)(unetmm_swap64(umv_sqe(ep, oldest)->cookie) >> 32);
    uint32_t requests = used ? used - ((uint32_t)(qp->sent_more >> 32) - before) : 0;

    return ep->sq_mask + 1 - used >= slots && requests < qp->cap.max_send_wr;
}

/* The descriptor is written, but not shown to the card. */
SYS_INLINE int umv_queued(struct umv_qp *qp, const struct ibv_send_wr *wr, uint32_t slots)
{
    struct umv_what *what = &qp->sent[qp->ep->sq_prod & qp->ep->sq_mask].what;

    what->slots = (uint8_t)slots;
    if (wr->send_flags & IBV_SEND_FENCE) {
        what->flags |= UMV_FENCE;
    }
    if (qp->held || wr->send_flags & IBV_SEND_FENCE) {
        qp->held += slots;
    }
    qp->ep->sq_prod += slots;
    qp->sent_more += (uint64_t)(slots - 1) << 32;
    return 0;
}

/* mr.c */
unsigned umv_translate(const struct umv_context *context, const struct ibv_pd *pd,
                       struct umv_last_mr *last, const struct ibv_sge *sges, int n, int access,
                       struct iovec *iov);

/* recv.c */
unsigned umv_receive_iov(const struct umv_context *context, const struct ibv_pd *pd,
                         struct umv_last_mr *last, const struct ibv_recv_wr *wr,
                         struct iovec *iov);

/* send.c; qp->send_lock */
int umv_put(struct umv_qp *qp, const struct ibv_send_wr *wr);

#endif /* UMV_SEND_H */
