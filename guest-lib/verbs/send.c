/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Send requests, all but those that go the short way of post.c: descriptors go to the endpoint's
 * queue, by the parts of the library's own calls.  A segment with a wrong key becomes address 0,
 * where nobody has memory: the card then ends the request in its turn, as it ends each other one.
 */
#include "mw.h"
#include "send.h"
#include "ud.h"

#include <errno.h>

#define KEYED   UNETMM_SQE_F_KEYED
#define IMM     UNETMM_SQE_F_IMM

static const struct umv_kind kinds[UMV_KINDS] = {
    [IBV_WR_RDMA_WRITE] = {
        { IBV_WC_RDMA_WRITE, 0, UMV_KEYED, 1 }, UMV_HEAD(UNETMM_OP_WRITE, KEYED) },
    [IBV_WR_RDMA_WRITE_WITH_IMM] = {
        { IBV_WC_RDMA_WRITE, 0, UMV_KEYED | UMV_IMM, 1 },
        UMV_HEAD(UNETMM_OP_WRITE, KEYED | IMM) },
    [IBV_WR_SEND] = { { IBV_WC_SEND, 0, 0, 1 }, UMV_HEAD(UNETMM_OP_SEND, 0) },
    [IBV_WR_SEND_WITH_IMM] = {
        { IBV_WC_SEND, 0, UMV_IMM, 1 }, UMV_HEAD(UNETMM_OP_SEND, IMM) },
    [IBV_WR_RDMA_READ] = {
        { IBV_WC_RDMA_READ, 0, UMV_KEYED | UMV_FETCHES, 1 },
        UMV_HEAD(UNETMM_OP_READ, KEYED) },
    [IBV_WR_ATOMIC_CMP_AND_SWP] = {
        { IBV_WC_COMP_SWAP, 0, UMV_KEYED | UMV_FETCHES, 1 },
        UMV_HEAD(UNETMM_OP_CMP_SWAP, KEYED) },
    [IBV_WR_ATOMIC_FETCH_AND_ADD] = {
        { IBV_WC_FETCH_ADD, 0, UMV_KEYED | UMV_FETCHES, 1 },
        UMV_HEAD(UNETMM_OP_FETCH_ADD, KEYED) },
    [IBV_WR_LOCAL_INV] = { { IBV_WC_LOCAL_INV, 0, 0, 1 }, UMV_HEAD(UNETMM_OP_FENCE, 0) },
    [IBV_WR_SEND_WITH_INV] = {
        { IBV_WC_SEND, 0, UMV_IMM, 1 }, UMV_HEAD(UNETMM_OP_SEND, IMM | UNETMM_SQE_F_INV) },
    [IBV_WR_BIND_MW] = { { IBV_WC_BIND_MW, 0, 0, 1 }, UMV_HEAD(UNETMM_OP_FENCE, 0) },
};

/* READs and atomics always tell of their end: those behind them wait for it. */
void umv_set_kinds(struct umv_qp *qp, bool all_signaled)
{
    unsigned i;

    for (i = 0; i < UMV_KINDS; i++) {
        struct umv_kind *silent = &qp->kinds[i], *signaled = &qp->kinds[UMV_KINDS + i];

        *silent = *signaled = kinds[i];
        if (qp->ud && i == IBV_WR_SEND) {
            silent->head = signaled->head = UMV_HEAD(UNETMM_OP_SEND_TO, 0);
        } else if (qp->ud) {
            silent->head = signaled->head = UMV_HEAD(UNETMM_OP_SEND_TO, IMM);
        }
        signaled->what.flags |= UMV_SIGNALED;
        if (all_signaled) {
            *silent = *signaled;
        } else if (!(silent->what.flags & UMV_FETCHES)) {
            silent->what.flags |= UMV_QUIET;
            silent->head |= UMV_HEAD(0, UNETMM_SQE_F_QUIET);
        }
    }
}

/* ---- Descriptors ----------------------------------------------------------- */

static struct unetmm_sqe *put_head(struct umv_qp *qp, const struct ibv_send_wr *wr, size_t len,
                                   uint64_t data)
{
    umv_put_head(qp, qp->ep, wr, qp->ep->sq_prod, (uint32_t)len, data);
    return umv_sqe(qp->ep, qp->ep->sq_prod);
}

static int put_segments(struct umv_qp *qp, const struct ibv_send_wr *wr)
{
    struct unetmm_ep *ep = qp->ep;
    struct iovec iov[UNETMM_MAX_SEGS];
    unsigned n = umv_translate(qp->context, qp->vqp.qp.pd, &qp->send_mr, wr->sg_list, wr->num_sge,
                               umv_kind(qp, wr)->what.flags & UMV_FETCHES, iov);
    uint32_t slots = 1 + unetmm_seg_slots_(n);
    struct unetmm_sqe *sqe;

    if (!umv_has_room(qp, slots)) {
        return ENOMEM;
    }
    sqe = put_head(qp, wr, unetmm_iov_length_(iov, n, UINT32_MAX - 1), UMV_HEAD_SEGMENTS(n));
    unetmm_put_segs_(ep, ep->sq_prod, sqe->data, iov, n);
    return umv_queued(qp, wr, slots);
}

static int put_inline(struct umv_qp *qp, const struct ibv_send_wr *wr)
{
    struct unetmm_ep *ep = qp->ep;
    struct iovec iov[UNETMM_MAX_SEGS];
    unsigned i, n = (unsigned)wr->num_sge;
    uint32_t slots;
    size_t len;

    for (i = 0; i < n; i++) {
        iov[i].iov_base = (void *)(uintptr_t)wr->sg_list[i].addr;
        iov[i].iov_len = wr->sg_list[i].length;
    }
    len = unetmm_iov_length_(iov, n, UNETMM_MAX_INLINE);
    slots = 1 + unetmm_inline_slots(len);
    if (len > qp->cap.max_inline_data || umv_kind(qp, wr)->what.flags & UMV_FETCHES) {
        return EINVAL;
    }
    if (!umv_has_room(qp, slots)) {
        return ENOMEM;
    }
    unetmm_put_pieces(ep, ep->sq_prod, put_head(qp, wr, len, UMV_HEAD_INLINE(len))->data, iov, n);
    return umv_queued(qp, wr, slots);
}

/* The operands are inline, and the card writes the old value to segment SQE_RESULT. */
static int put_atomic(struct umv_qp *qp, const struct ibv_send_wr *wr)
{
    const uint64_t operands[] = {
        unetmm_swap64(wr->wr.atomic.compare_add), unetmm_swap64(wr->wr.atomic.swap),
    };
    size_t bytes = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? 16 : 8;
    const struct ibv_sge *sge = wr->sg_list;
    struct ibv_send_wr keyed = *wr;
    struct unetmm_sqe *sqe;

    if (wr->num_sge != 1 || sge->length != sizeof(operands[0])) {
        return EINVAL;
    }
    if (!umv_has_room(qp, 1)) {
        return ENOMEM;
    }
    keyed.wr.rdma.rkey = wr->wr.atomic.rkey;
    sqe = put_head(qp, &keyed, sge->length, UMV_HEAD_SEGMENTS(1) | UMV_HEAD_INLINE(bytes));
    if (wr->wr.atomic.remote_addr % sizeof(operands[0])) {
        qp->sent[qp->ep->sq_prod & qp->ep->sq_mask].what.flags |= UMV_UNALIGNED;
    }
    memcpy(sqe->data, operands, bytes);
    sqe->seg[UNETMM_SQE_RESULT] = (struct unetmm_seg) {
        .addr = unetmm_swap64((uintptr_t)umv_memory_of(qp->context, qp->vqp.qp.pd,
                                                                &qp->send_mr, sge, UMV_FETCHES)),
        .len = unetmm_swap32(sge->length),
    };
    return umv_queued(qp, wr, 1);
}

/* Any request */
int umv_put(struct umv_qp *qp, const struct ibv_send_wr *wr)
{
    bool is_inline = wr->send_flags & IBV_SEND_INLINE;

    if (wr->opcode > IBV_WR_SEND_WITH_INV) {
        return EOPNOTSUPP;
    }
    if (qp->ud && wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM) {
        return EINVAL;
    }
    if (wr->num_sge < 0 ||
        (uint32_t)wr->num_sge > (is_inline ? UNETMM_MAX_SEGS : qp->cap.max_send_sge)) {
        return EINVAL;
    }
    if (umv_load(&qp->state) == IBV_QPS_ERR) {
        /* The card reads no more descriptors: the request is flushed. */
        if (!umv_has_room(qp, 1)) {
            return ENOMEM;
        }
        put_head(qp, wr, 0, 0);
        return umv_queued(qp, wr, 1);
    }
    if (qp->ud) {
        return umv_put_to(qp, wr);
    }
    if (wr->opcode == IBV_WR_BIND_MW || wr->opcode == IBV_WR_LOCAL_INV) {
        return umv_put_key(qp, wr);
    }
    return is_inline ? put_inline(qp, wr) :
        wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ?
        put_atomic(qp, wr) : put_segments(qp, wr);
}

/* ---- The index that the card sees ------------------------------------------ */

SYS_INLINE void show(struct umv_qp *qp, uint32_t index)
{
    unetmm_write_index(&qp->ep->index->user.sq_prod, index);
    unetmm_write_doorbell(qp->ep->doorbell);
}

/* Has a READ or an atomic before the request not ended? */
static bool fetches_before(const struct umv_qp *qp, uint32_t number)
{
    uint32_t i = umv_load(&qp->sent_done);

    while ((int32_t)(number - i) > 0) {
        const struct umv_what *what = &qp->sent[i & qp->ep->sq_mask].what;

        if ((umv_load(&what->flags) & (UMV_FETCHES | UMV_DONE)) == UMV_FETCHES) {
            return true;
        }
        i += what->slots;
    }
    return false;
}

/* The requests that are posted, as far as the next fence lets them.  qp->send_lock */
static void show_held(struct umv_qp *qp)
{
    /* The records may have other requests. */
    if (umv_load(&qp->state) == IBV_QPS_ERR) {
        qp->held = 0;
        return;
    }
    /* The store of qp->held comes before the look at READs that are open: umv_fetched(). */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    while (qp->held) {
        uint32_t number = qp->sent_next - qp->held;
        const struct umv_what *what = &qp->sent[number & qp->ep->sq_mask].what;

        if (what->flags & UMV_FENCE && fetches_before(qp, number)) {
            break;
        }
        qp->held -= what->slots;
    }
    show(qp, qp->sent_next - qp->held);
}

/* READs have ended.  A thread that has the lock shows the requests when it drops the lock. */
static void show_fetched(struct umv_qp *qp)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    while (__atomic_load_n(&qp->fetched, __ATOMIC_SEQ_CST) && sys_lock_try(&qp->send_lock)) {
        __atomic_store_n(&qp->fetched, 0, __ATOMIC_SEQ_CST);
        show_held(qp);
        sys_lock_drop(&qp->send_lock);
    }
}

/* A READ or an atomic has ended. */
void umv_fetched(struct umv_qp *qp)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (umv_load(&qp->held)) {
        __atomic_store_n(&qp->fetched, 1, __ATOMIC_SEQ_CST);
        show_fetched(qp);
    }
}

void umv_drop(struct umv_qp *qp)
{
    sys_lock_drop(&qp->send_lock);
    show_fetched(qp);
}

/* Posts the requests that are queued.  Drops qp->send_lock. */
void umv_commit(struct umv_qp *qp)
{
    uint32_t next = qp->ep->sq_prod;
    enum ibv_qp_state state;

    umv_change_keys(qp);
    umv_store(&qp->sent_next, next);
    /* A thread that ends the queue pair behind this sees the requests, and wakes their readers. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    state = umv_load(&qp->state);
    if (umv_usual(!qp->held && state == IBV_QPS_RTS)) {
        show(qp, next);
    } else {
        show_held(qp);
    }
    if (!umv_usual(state != IBV_QPS_ERR)) {
        umv_end(qp);
    }
    umv_drop(qp);
}
