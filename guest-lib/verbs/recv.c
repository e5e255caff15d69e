/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ibv_post_recv(): a request is one entry of the endpoint's free queue, or a chain of some.  A
 * segment with a wrong key is as in send.c.
 */
#include "send.h"

#include <errno.h>

/*
 * No message is longer than max_message, so the segments are cut behind it.  A request
 * without memory is a buffer without memory: it waits for a message of 0 bytes, or a WRITE with
 * an immediate, and is too short for others.
 */
unsigned umv_receive_iov(const struct umv_context *context, const struct ibv_pd *pd,
                         struct umv_last_mr *last, const struct ibv_recv_wr *wr,
                         struct iovec *iov)
{
    unsigned i, n = umv_translate(context, pd, last, wr->sg_list, wr->num_sge,
                                  IBV_ACCESS_LOCAL_WRITE, iov);
    size_t room = context->max_message;

    for (i = 0; i < n && room; i++) {
        if (iov[i].iov_len > room) {
            iov[i].iov_len = room;
        }
        room -= iov[i].iov_len;
    }
    if (!i) {
        iov[0].iov_base = NULL;
        iov[0].iov_len = 0;
    }
    return i ? i : 1;
}

SYS_INLINE void put_received(struct umv_qp *qp, const struct ibv_recv_wr *wr, uint32_t place,
                             uint8_t slots)
{
    struct umv_received *r = &qp->received[place];

    r->wr_id = wr->wr_id;
    r->more = qp->received_more;
    r->what = (struct umv_what) { IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR, 0, slots };
}

/* As umv_has_room() */
static bool has_room(const struct umv_qp *qp, uint32_t number, uint32_t slots)
{
    const struct unetmm_ep *ep = qp->ep;
    uint32_t oldest = umv_load(&qp->received_done), used = number - oldest;
    uint32_t more = qp->received_more - qp->received[oldest & ep->fq_mask].more;
    uint32_t requests = used ? used - more : 0;

    return ep->fq_mask + 1 - used >= slots && requests < qp->cap.max_recv_wr;
}

static int receive_one(struct umv_qp *qp, const struct ibv_recv_wr *wr)
{
    struct unetmm_ep *ep = qp->ep;
    struct iovec iov[UNETMM_MAX_SEGS];
    uint32_t number = ep->fq_prod;
    unsigned n;

    if (qp->srq || wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_recv_sge) {
        return EINVAL;
    }
    n = umv_receive_iov(qp->context, qp->vqp.qp.pd, &qp->recv_mr, wr, iov);
    if (!has_room(qp, number, n)) {
        return ENOMEM;
    }
    put_received(qp, wr, number & ep->fq_mask, (uint8_t)n);
    qp->received_more += n - 1;
    umv_store(&qp->received_next, number + n);
    if (umv_load(&qp->state) == IBV_QPS_ERR) {
        ep->fq_prod += n;
    } else {
        unetmm_put_parts(ep, iov, n, number);
    }
    return 0;
}

/* One segment with bytes, which no limit cuts */
SYS_INLINE bool receive_usual(struct umv_qp *qp, struct unetmm_ep *ep,
                              const struct ibv_recv_wr *wr)
{
    const struct ibv_sge *sge = wr->sg_list;
    uint32_t number = ep->fq_prod, place;
    uint64_t addr;

    if (!umv_usual(number - umv_load(&qp->received_done) < qp->receives_usual &&
                   wr->num_sge == 1 && umv_is_last(qp->context, &qp->recv_mr, sge))) {
        return false;
    }
    addr = sge->addr + qp->recv_mr.delta;
    if (!umv_usual(addr % UNETMM_PAGE_BYTES + sge->length <= qp->receive_usual)) {
        return false;
    }
    place = number & ep->fq_mask;
    put_received(qp, wr, place, 1);
    unetmm_fill_fqe_(ep, place, (void *)(uintptr_t)addr, sge->length, number, 0);
    number++;
    umv_store(&qp->received_next, number);
    ep->fq_prod = number;
    unetmm_write_index(&ep->index->user.fq_prod, number);
    return true;
}

/* The functions below have qp->recv_lock, and drop it. */
UMV_TAIL receive_list(struct umv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    int ret = umv_load(&qp->state) == IBV_QPS_RESET ? EINVAL : 0;

    for (; wr && !ret; wr = wr->next) {
        ret = receive_usual(qp, qp->ep, wr) ? 0 : receive_one(qp, wr);
        if (ret) {
            break;
        }
    }
    unetmm_write_doorbell(qp->ep->doorbell);
    /* As in umv_commit() */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (umv_load(&qp->state) == IBV_QPS_ERR) {
        umv_end(qp);
    }
    sys_lock_drop(&qp->recv_lock);
    if (ret) {
        *bad = wr;
    }
    return ret;
}

UMV_TAIL receive_wake(struct umv_qp *qp)
{
    sys_lock_wake(&qp->recv_lock);
    return 0;
}

UMV_TAIL receive_later(struct umv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    sys_lock_take(&qp->recv_lock);
    return receive_list(qp, wr, bad);
}

int umv_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct umv_qp *qp = umv_qp(ibqp);
    struct unetmm_ep *ep = qp->ep;

    if (!umv_usual(sys_lock_try(&qp->recv_lock))) {
        return receive_later(qp, wr, bad);
    }
    if (!umv_usual(wr && !wr->next && receive_usual(qp, ep, wr))) {
        return receive_list(qp, wr, bad);
    }
    unetmm_write_doorbell(ep->doorbell);
    return sys_lock_release(&qp->recv_lock) ? receive_wake(qp) : 0;
}
