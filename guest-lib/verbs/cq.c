/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Completion queues: the queue pairs that have one are asked in turn.
 */
#include "umv.h"

#include <errno.h>
#include <stdlib.h>

#define WC_FLAGS    (IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM | \
                     IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL | \
                     IBV_WC_EX_WITH_DLID_PATH_BITS)

/* A queue pair may have one completion queue for sends and receives. */
int umv_cq_add(struct umv_cq *cq, struct umv_qp *qp)
{
    struct umv_qp **qps;

    umfi_lock_take(&cq->lock);
    qps = realloc(cq->qps, (cq->nqps + 1) * sizeof(struct umv_qp *));
    if (qps) {
        cq->qps = qps;
        qps[cq->nqps++] = qp;
    }
    umfi_lock_drop(&cq->lock);
    return qps ? 0 : ENOMEM;
}

void umv_cq_remove(struct umv_cq *cq, struct umv_qp *qp)
{
    unsigned i;

    umfi_lock_take(&cq->lock);
    for (i = 0; i < cq->nqps; i++) {
        if (cq->qps[i] == qp) {
            cq->qps[i] = cq->qps[--cq->nqps];
            break;
        }
    }
    cq->next = 0;
    umfi_lock_drop(&cq->lock);
}

static int poll_qp(const struct umv_cq *cq, struct umv_qp *qp, int n, struct ibv_wc *wc)
{
    int got = 0;

    umfi_lock_take(&qp->lock);
    umv_collect(qp);
    if (qp->send_cq == cq) {
        while (got < n && umv_next_sent(qp, &wc[got])) {
            got++;
        }
    }
    if (qp->recv_cq == cq) {
        while (got < n && umv_next_received(qp, &wc[got])) {
            got++;
        }
    }
    umfi_lock_drop(&qp->lock);
    return got;
}

static int poll_all(struct umv_cq *cq, int n, struct ibv_wc *wc)
{
    unsigned i = cq->next, left;
    int got = 0;

    for (left = cq->nqps; left && got < n; left--) {
        got += poll_qp(cq, cq->qps[i], n - got, &wc[got]);
        i = i + 1 < cq->nqps ? i + 1 : 0;
    }
    cq->next = i;
    return got;
}

int umv_poll_cq(struct ibv_cq *ibcq, int n, struct ibv_wc *wc)
{
    struct umv_cq *cq = umv_cq(ibcq);
    int got;

    umfi_lock_take(&cq->lock);
    got = poll_all(cq, n, wc);
    umfi_lock_drop(&cq->lock);
    return got;
}

int umv_req_notify_cq(struct ibv_cq *ibcq, int solicited)
{
    struct umv_cq *cq = umv_cq(ibcq);
    unsigned i;
    int ret = ibv_cmd_req_notify_cq(ibcq, solicited);

    umfi_lock_take(&cq->lock);
    for (i = 0; i < cq->nqps; i++) {
        umfi_lock_take(&cq->qps[i]->lock);
        umv_arm(cq->qps[i]);
        umfi_lock_drop(&cq->qps[i]->lock);
    }
    umfi_lock_drop(&cq->lock);
    return ret;
}

/* ---- ibv_start_poll(): the lock is held until ibv_end_poll() --------------- */

static struct umv_cq *cq_of(struct ibv_cq_ex *current)
{
    return container_of(current, struct umv_cq, vcq.cq_ex);
}

static int next_poll(struct ibv_cq_ex *current)
{
    struct umv_cq *cq = cq_of(current);

    if (!poll_all(cq, 1, &cq->wc)) {
        return ENOENT;
    }
    current->status = cq->wc.status;
    current->wr_id = cq->wc.wr_id;
    return 0;
}

static int start_poll(struct ibv_cq_ex *current, struct ibv_poll_cq_attr *attr)
{
    int ret;

    if (attr->comp_mask) {
        return EINVAL;
    }
    umfi_lock_take(&cq_of(current)->lock);
    ret = next_poll(current);
    if (ret) {
        umfi_lock_drop(&cq_of(current)->lock);
    }
    return ret;
}

static void end_poll(struct ibv_cq_ex *current)
{
    umfi_lock_drop(&cq_of(current)->lock);
}

#define READER(_type, _member) \
    static _type read_##_member(struct ibv_cq_ex *current) \
    { \
        return cq_of(current)->wc._member; \
    }

READER(enum ibv_wc_opcode, opcode)
READER(uint32_t, vendor_err)
READER(uint32_t, byte_len)
READER(__be32, imm_data)
READER(uint32_t, qp_num)
READER(uint32_t, src_qp)
READER(unsigned, wc_flags)
READER(uint32_t, slid)
READER(uint8_t, sl)
READER(uint8_t, dlid_path_bits)

static void set_readers(struct ibv_cq_ex *cq)
{
    cq->start_poll = start_poll;
    cq->next_poll = next_poll;
    cq->end_poll = end_poll;
    cq->read_opcode = read_opcode;
    cq->read_vendor_err = read_vendor_err;
    cq->read_byte_len = read_byte_len;
    cq->read_imm_data = read_imm_data;
    cq->read_qp_num = read_qp_num;
    cq->read_src_qp = read_src_qp;
    cq->read_wc_flags = read_wc_flags;
    cq->read_slid = read_slid;
    cq->read_sl = read_sl;
    cq->read_dlid_path_bits = read_dlid_path_bits;
}

/* ---- Life ------------------------------------------------------------------ */

struct ibv_cq_ex *umv_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
    struct ib_uverbs_ex_create_cq_resp resp = {};
    struct umv_cq *cq;
    int ret;

    /* ibv_create_cq_ex() takes 0 for those of ibv_poll_cq(). */
    if (attr->wc_flags & ~(uint64_t)WC_FLAGS) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    cq = calloc(1, sizeof(*cq));
    if (!cq) {
        return NULL;
    }
    ret = ibv_cmd_create_cq_ex(context, attr, &cq->vcq, NULL, 0, &resp, sizeof(resp), 0);
    if (ret) {
        free(cq);
        errno = ret;
        return NULL;
    }
    set_readers(&cq->vcq.cq_ex);
    return &cq->vcq.cq_ex;
}

struct ibv_cq *umv_create_cq(struct ibv_context *context, int cqe,
                             struct ibv_comp_channel *channel, int vector)
{
    struct ibv_cq_init_attr_ex attr = {
        .cqe = (uint32_t)cqe, .channel = channel, .comp_vector = (uint32_t)vector,
    };
    struct ibv_cq_ex *cq = umv_create_cq_ex(context, &attr);

    return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

int umv_destroy_cq(struct ibv_cq *ibcq)
{
    struct umv_cq *cq = umv_cq(ibcq);
    int ret = ibv_cmd_destroy_cq(ibcq);

    if (!ret) {
        free(cq->qps);
        free(cq);
    }
    return ret;
}
