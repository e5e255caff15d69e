/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ibv_wr_*(): qp->send_lock is held from ibv_wr_start() to ibv_wr_complete() or
 * ibv_wr_abort().  ibv_wr_complete() tells the first error, and then posts none of the requests.
 */
#include "verbs.h"
#include "ud.h"

#include <errno.h>

static struct umv_qp *qp_of(struct ibv_qp_ex *ex)
{
    return container_of(ex, struct umv_qp, vqp.qp_ex);
}

static struct ibv_send_wr *set(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
    struct ibv_send_wr *wr = &qp_of(ex)->wr;

    wr->wr_id = ex->wr_id;
    wr->opcode = opcode;
    wr->send_flags = ex->wr_flags & ~(unsigned)IBV_SEND_INLINE;
    wr->wr.ud.ah = NULL;
    qp_of(ex)->wr_queued = false;
    return wr;
}

static struct ibv_send_wr *set_rdma(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode,
                                    uint32_t rkey, uint64_t addr)
{
    struct ibv_send_wr *wr = set(ex, opcode);

    wr->wr.rdma.rkey = rkey;
    wr->wr.rdma.remote_addr = addr;
    return wr;
}

static void set_atomic(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey,
                       uint64_t addr, uint64_t first, uint64_t second)
{
    struct ibv_send_wr *wr = set(ex, opcode);

    wr->wr.atomic.rkey = rkey;
    wr->wr.atomic.remote_addr = addr;
    wr->wr.atomic.compare_add = first;
    wr->wr.atomic.swap = second;
}

static void wr_send(struct ibv_qp_ex *ex)
{
    set(ex, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
    set(ex, IBV_WR_SEND_WITH_IMM)->imm_data = imm;
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
    set(ex, IBV_WR_SEND_WITH_INV)->invalidate_rkey = rkey;
}

static void wr_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
    set_rdma(ex, IBV_WR_RDMA_WRITE, rkey, addr);
}

static void wr_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
    set_rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr)->imm_data = imm;
}

static void wr_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
    set_rdma(ex, IBV_WR_RDMA_READ, rkey, addr);
}

static void wr_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare,
                       uint64_t swap)
{
    set_atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr, compare, swap);
}

static void wr_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
    set_atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr, add, 0);
}

/* The request is complete; of a wrong one the rest is left out. */
static void queue(struct umv_qp *qp, size_t n, const struct ibv_sge *sges)
{
    if (!qp->error) {
        qp->wr.sg_list = (struct ibv_sge *)(uintptr_t)sges;
        qp->wr.num_sge = (int)n;
        qp->wr_number = qp->ep->sq_prod;
        qp->error = n > UNETMM_MAX_SEGS ? EINVAL : umv_queue(qp, &qp->wr);
        qp->wr_queued = !qp->error;
    }
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
                       const struct ibv_mw_bind_info *info)
{
    struct ibv_send_wr *wr = set(ex, IBV_WR_BIND_MW);

    wr->bind_mw.mw = mw;
    wr->bind_mw.rkey = rkey;
    wr->bind_mw.bind_info = *info;
    queue(qp_of(ex), 0, NULL);
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
    set(ex, IBV_WR_LOCAL_INV)->invalidate_rkey = rkey;
    queue(qp_of(ex), 0, NULL);
}

/* Before the data, or behind them */
static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t number,
                           uint32_t qkey)
{
    struct umv_qp *qp = qp_of(ex);

    qp->wr.wr.ud.ah = ah;
    qp->wr.wr.ud.remote_qpn = number;
    qp->wr.wr.ud.remote_qkey = qkey;
    /* One that is flushed has a slot alone, and no place for the header. */
    if (qp->wr_queued && qp->sent[qp->wr_number & qp->ep->sq_mask].what.slots > 1) {
        umv_address(qp, &qp->wr, qp->wr_number);
    }
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *sges)
{
    queue(qp_of(ex), n, sges);
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
    const struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

    queue(qp_of(ex), 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n,
                                    const struct ibv_data_buf *bufs)
{
    struct umv_qp *qp = qp_of(ex);
    struct ibv_sge sges[UNETMM_MAX_SEGS];
    size_t i;

    for (i = 0; i < n && n <= UNETMM_MAX_SEGS; i++) {
        sges[i].addr = (uintptr_t)bufs[i].addr;
        sges[i].length = bufs[i].length <= UINT32_MAX ? (uint32_t)bufs[i].length : UINT32_MAX;
    }
    qp->wr.send_flags |= IBV_SEND_INLINE;
    queue(qp, n, sges);
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
    const struct ibv_data_buf buf = { .addr = addr, .length = length };

    wr_set_inline_data_list(ex, 1, &buf);
}

static void wr_start(struct ibv_qp_ex *ex)
{
    struct umv_qp *qp = qp_of(ex);
    enum ibv_qp_state state;

    sys_lock_take(&qp->send_lock);
    state = umv_load(&qp->state);
    qp->error = state == IBV_QPS_RTS || state == IBV_QPS_ERR ? 0 : EINVAL;
    qp->began_held = qp->held;
    qp->began_more = qp->sent_more;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
    struct umv_qp *qp = qp_of(ex);

    qp->ep->sq_prod = qp->sent_next;
    qp->held = qp->began_held;
    qp->sent_more = qp->began_more;
    qp->keys = 0;
    umv_drop(qp);
}

static int wr_complete(struct ibv_qp_ex *ex)
{
    struct umv_qp *qp = qp_of(ex);
    int error = qp->error;

    if (error) {
        wr_abort(ex);
        return error;
    }
    umv_commit(qp);
    return 0;
}

#define WR_OPS  (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | \
                 IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | \
                 IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
                 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_BIND_MW | \
                 IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV)
#define UD_OPS  (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)

/*
 * ibv_qp_to_qp_ex() looks at comp_mask.  struct ibv_qp_ex has grown at its end since Debian 12,
 * without a new version of the interface for providers: there, comp_mask is in the place of
 * wr_flush(), which is not offered and so not called.  The member of Debian 12 in the place of
 * comp_mask is for XRC alone.
 */
static void set_extended(struct verbs_qp *vqp)
{
    static const uintptr_t mask = VERBS_QP_EX;

    static_assert(offsetof(struct verbs_qp, qp_ex.wr_flush) + sizeof(mask) ==
                  offsetof(struct verbs_qp, comp_mask), "comp_mask has another place");
    memcpy(&vqp->qp_ex.wr_flush, &mask, sizeof(mask));
    vqp->comp_mask |= VERBS_QP_EX;
}

int umv_wr_ops(struct umv_qp *qp, uint64_t ops)
{
    struct ibv_qp_ex *ex = &qp->vqp.qp_ex;

    if (ops & ~(uint64_t)(qp->ud ? UD_OPS : WR_OPS)) {
        return EOPNOTSUPP;
    }
    ex->wr_start = wr_start;
    ex->wr_complete = wr_complete;
    ex->wr_abort = wr_abort;
    ex->wr_send = wr_send;
    ex->wr_send_imm = wr_send_imm;
    ex->wr_rdma_write = wr_write;
    ex->wr_rdma_write_imm = wr_write_imm;
    ex->wr_rdma_read = wr_read;
    ex->wr_atomic_cmp_swp = wr_cmp_swp;
    ex->wr_atomic_fetch_add = wr_fetch_add;
    ex->wr_bind_mw = wr_bind_mw;
    ex->wr_local_inv = wr_local_inv;
    ex->wr_send_inv = wr_send_inv;
    ex->wr_set_ud_addr = wr_set_ud_addr;
    ex->wr_set_sge = wr_set_sge;
    ex->wr_set_sge_list = wr_set_sge_list;
    ex->wr_set_inline_data = wr_set_inline_data;
    ex->wr_set_inline_data_list = wr_set_inline_data_list;
    set_extended(&qp->vqp);
    return 0;
}
