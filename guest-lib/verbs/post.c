/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ibv_post_send().  Most posts are of one request with one segment: such a request goes a short
 * way, without a call, and is described in its slot at once.
 */
#include "send.h"

#include <errno.h>

#define SEGMENTS_FLAGS  (IBV_SEND_SIGNALED | IBV_SEND_SOLICITED)
#define INLINE_FLAGS    (SEGMENTS_FLAGS | IBV_SEND_INLINE)

/* There is room for one slot, no fence waits, and the queue pair runs. */
SYS_INLINE bool usual_place(const struct umv_qp *qp, uint32_t number)
{
    return number - umv_load(&qp->sent_done) < qp->sends_usual && !qp->held;
}

/* The request was one segment of the region that was used last. */
SYS_INLINE bool put_segment(struct umv_qp *qp, struct unetmm_ep *ep,
                            const struct ibv_send_wr *wr, uint32_t number)
{
    const struct ibv_sge *sge = wr->sg_list;
    struct unetmm_seg *seg;

    if (!umv_usual(usual_place(qp, number) && wr->num_sge == 1 &&
                   wr->opcode <= IBV_WR_RDMA_READ && umv_is_last(qp->context, &qp->send_mr, sge) &&
                   (wr->opcode != IBV_WR_RDMA_READ ||
                    qp->send_mr.access & IBV_ACCESS_LOCAL_WRITE))) {
        return false;
    }
    seg = umv_sqe(ep, number)->seg;
    seg->addr = unetmm_swap64(sge->addr + qp->send_mr.delta);
    seg->len = unetmm_swap32(sge->length);
    seg->rsvd = 0;
    umv_put_head(qp, ep, wr, number, sge->length, UMV_HEAD_SEGMENTS(1));
    return true;
}

/* The request was one piece of data that the slot holds. */
SYS_INLINE bool put_inline(struct umv_qp *qp, struct unetmm_ep *ep,
                           const struct ibv_send_wr *wr, uint32_t number)
{
    const struct ibv_sge *sge = wr->sg_list;

    if (!umv_usual(usual_place(qp, number) && wr->num_sge == 1 &&
                   wr->opcode <= IBV_WR_SEND_WITH_IMM && sge->length <= UNETMM_SQE_INLINE &&
                   sge->length <= qp->cap.max_inline_data)) {
        return false;
    }
    umv_put_head(qp, ep, wr, number, sge->length, UMV_HEAD_INLINE(sge->length));
    unetmm_copy_(umv_sqe(ep, number)->data, (const uint8_t *)(uintptr_t)sge->addr, sge->length);
    return true;
}

/* Queues a request of a list, or one between ibv_wr_start() and ibv_wr_complete() */
int umv_queue(struct umv_qp *qp, const struct ibv_send_wr *wr)
{
    struct unetmm_ep *ep = qp->ep;
    unsigned flags = wr->send_flags;

    if (flags & ~SEGMENTS_FLAGS ? flags & ~INLINE_FLAGS || !put_inline(qp, ep, wr, ep->sq_prod) :
        !put_segment(qp, ep, wr, ep->sq_prod)) {
        return umv_put(qp, wr);
    }
    ep->sq_prod++;
    return 0;
}

/* ---- The call -------------------------------------------------------------- */

/*
 * Each of the functions below has qp->send_lock, drops it, and is the end of its caller, which
 * thus saves no registers.
 */
UMV_TAIL post_list(struct umv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    enum ibv_qp_state state = umv_load(&qp->state);
    int ret = state == IBV_QPS_RTS || state == IBV_QPS_ERR ? 0 : EINVAL;

    for (; wr && !ret; wr = wr->next) {
        ret = umv_queue(qp, wr);
        if (ret) {
            break;
        }
    }
    umv_commit(qp);
    if (ret) {
        *bad = wr;
    }
    return ret;
}

UMV_TAIL post_wake(struct umv_qp *qp)
{
    sys_lock_wake(&qp->send_lock);
    return 0;
}

SYS_INLINE int post_end(struct umv_qp *qp, struct unetmm_ep *ep, uint32_t next)
{
    ep->sq_prod = next;
    umv_store(&qp->sent_next, next);
    unetmm_write_index(&ep->index->user.sq_prod, next);
    unetmm_write_doorbell(ep->doorbell);
    return sys_lock_release(&qp->send_lock) ? post_wake(qp) : 0;
}

UMV_TAIL post_by_flags(struct umv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct unetmm_ep *ep = qp->ep;
    uint32_t number = ep->sq_prod;

    return !(wr->send_flags & ~INLINE_FLAGS) && put_inline(qp, ep, wr, number) ?
        post_end(qp, ep, number + 1) : post_list(qp, wr, bad);
}

/* Another thread has the lock. */
UMV_TAIL post_later(struct umv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    sys_lock_take(&qp->send_lock);
    return post_list(qp, wr, bad);
}

int umv_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct umv_qp *qp = umv_qp(ibqp);
    struct unetmm_ep *ep = qp->ep;
    uint32_t number;

    if (!umv_usual(sys_lock_try(&qp->send_lock))) {
        return post_later(qp, wr, bad);
    }
    if (!umv_usual(wr && !wr->next)) {
        return post_list(qp, wr, bad);
    }
    if (wr->send_flags & ~SEGMENTS_FLAGS) {
        return post_by_flags(qp, wr, bad);
    }
    number = ep->sq_prod;
    return umv_usual(put_segment(qp, ep, wr, number)) ? post_end(qp, ep, number + 1) :
        post_list(qp, wr, bad);
}
