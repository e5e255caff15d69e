/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Queue pairs: life and states.  The driver has the state that programs set; the state here is
 * the one that posts and completions need.
 */
#include "verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define QP_ATTRS    (IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | \
                     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)

struct create_qp_resp {
    struct ib_uverbs_ex_create_qp_resp base;
    struct unetmm_verbs_qp own;
};

static void unmap(struct umv_qp *qp)
{
    if (qp->doorbell) {
        munmap(qp->doorbell, qp->layout.doorbell_bytes);
    }
    if (qp->queues) {
        munmap(qp->queues, qp->layout.queue_bytes);
    }
}

static void *map(const struct umv_qp *qp, uint64_t offset, uint32_t bytes, int prot)
{
    void *memory = mmap(NULL, bytes, prot, MAP_SHARED, qp->context->vctx.context.cmd_fd,
                        (off_t)offset);

    return memory == MAP_FAILED ? NULL : memory;
}

/* The endpoint's queues are empty: a new one's, or after RESET. */
static void bind(struct umv_qp *qp)
{
    const struct unetmm_verbs_qp *l = &qp->layout;
    const struct unetmm_endpoint layout = {
        .id = qp->vqp.qp.qp_num - UNETMM_VERBS_QPN,
        .sq_log2 = l->sq_log2, .fq_log2 = l->fq_log2, .cq_log2 = l->cq_log2,
        .sq_offset = l->sq_offset, .fq_offset = l->fq_offset, .cq_offset = l->cq_offset,
        .index_offset = l->index_offset,
    };
    struct unetmm_ep *ep = qp->ep;

    unetmm_ep_bind(unetmm_ep_private(ep), &layout, qp->queues, qp->doorbell);
    ep->sq_prod = ep->sq_cons = 0;
    ep->fq_prod = ep->fq_cons = 0;
    ep->cq_cons = ep->blocked_rung = 0;
    qp->sent_next = qp->sent_done = 0;
    qp->received_next = qp->received_done = 0;
    qp->kept = qp->kept_sends = qp->held = 0;
    qp->untold = 0;
    umv_set_state(qp, IBV_QPS_RESET);
    umv_arm(qp, qp->send_cq);
}

static int map_queues(struct umv_qp *qp)
{
    const struct unetmm_verbs_qp *l = &qp->layout;

    qp->queues = map(qp, l->queue_map, l->queue_bytes, PROT_READ | PROT_WRITE);
    qp->doorbell = map(qp, l->doorbell_map, l->doorbell_bytes, PROT_WRITE);
    if (!qp->queues || !qp->doorbell) {
        return ENOMEM;
    }
    bind(qp);
    return 0;
}

/* The records of requests. */
static int make_records(struct umv_qp *qp)
{
    struct unetmm_ep_private *ep;
    int ret = unetmm_ep_alloc(1, 0, &ep);

    if (ret) {
        return -ret;
    }
    qp->ep = &ep->pub;
    qp->sent = calloc(1u << qp->layout.sq_log2, sizeof(*qp->sent));
    qp->received = calloc(1u << qp->layout.fq_log2, sizeof(*qp->received));
    return qp->sent && qp->received ? 0 : ENOMEM;
}

static void free_qp(struct umv_qp *qp)
{
    unmap(qp);
    free(qp->sent);
    free(qp->received);
    if (qp->ep) {
        unetmm_ep_free(unetmm_ep_private(qp->ep));
    }
    free(qp);
}

static void leave(struct umv_qp *qp)
{
    umv_cq_remove(qp->send_cq, qp);
    if (qp->two_cqs) {
        umv_cq_remove(qp->recv_cq, qp);
    }
}

static int join(struct umv_qp *qp)
{
    int ret = umv_cq_add(qp->send_cq, qp);

    if (!ret && qp->two_cqs) {
        ret = umv_cq_add(qp->recv_cq, qp);
    }
    return ret;
}

/* The driver's part is there. */
static int complete_qp(struct umv_qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
    int ret;

    qp->cap = attr->cap;
    qp->receive_usual = qp->context->max_message + UNETMM_PAGE_BYTES;
    ret = make_records(qp);
    if (!ret) {
        ret = map_queues(qp);
    }
    if (!ret && attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
        ret = umv_wr_ops(qp, attr->send_ops_flags);
    }
    if (!ret) {
        ret = join(qp);
    }
    if (ret) {
        leave(qp);
    }
    return ret;
}

static int check(const struct ibv_qp_init_attr_ex *attr)
{
    if (attr->comp_mask & ~(uint32_t)QP_ATTRS || attr->srq ||
        (attr->qp_type != IBV_QPT_RC && attr->qp_type != IBV_QPT_UD) ||
        (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && attr->create_flags)) {
        return EOPNOTSUPP;
    }
    return attr->send_cq && attr->recv_cq ? 0 : EINVAL;
}

struct ibv_qp *umv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
    struct create_qp_resp resp = {};
    struct ibv_create_qp_ex cmd = {};
    struct umv_qp *qp;
    int ret = check(attr);

    if (ret) {
        errno = ret;
        return NULL;
    }
    qp = calloc(1, sizeof(*qp));
    if (!qp) {
        return NULL;
    }
    qp->context = umv_context(context);
    qp->send_cq = umv_cq(attr->send_cq);
    qp->recv_cq = umv_cq(attr->recv_cq);
    qp->two_cqs = qp->send_cq != qp->recv_cq;
    qp->ud = attr->qp_type == IBV_QPT_UD;
    umv_set_kinds(qp, attr->sq_sig_all);
    ret = ibv_cmd_create_qp_ex2(context, &qp->vqp, attr, &cmd, sizeof(cmd), &resp.base,
                                sizeof(resp));
    if (!ret) {
        qp->layout = resp.own;
        ret = complete_qp(qp, attr);
        if (!ret) {
            return &qp->vqp.qp;
        }
        ibv_cmd_destroy_qp(&qp->vqp.qp);
    }
    free_qp(qp);
    errno = ret;
    return NULL;
}

struct ibv_qp *umv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct ibv_qp_init_attr_ex ex = {
        .qp_context = attr->qp_context, .send_cq = attr->send_cq, .recv_cq = attr->recv_cq,
        .srq = attr->srq, .cap = attr->cap, .qp_type = attr->qp_type,
        .sq_sig_all = attr->sq_sig_all, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd,
    };
    struct ibv_qp *qp = umv_create_qp_ex(pd->context, &ex);

    attr->cap = ex.cap;
    return qp;
}

int umv_destroy_qp(struct ibv_qp *ibqp)
{
    struct umv_qp *qp = umv_qp(ibqp);
    int ret;

    /* The number may have another owner soon, whose completions must not be read here. */
    leave(qp);
    ret = ibv_cmd_destroy_qp(ibqp);
    if (ret) {
        join(qp);
        return ret;
    }
    free_qp(qp);
    return 0;
}

/* umv_lock() */
static int modify(struct umv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    struct ibv_modify_qp cmd = {};
    int ret;

    /* The card's completions of before count. */
    umv_collect(qp);
    ret = ibv_cmd_modify_qp(&qp->vqp.qp, attr, mask, &cmd, sizeof(cmd));
    if (!ret && mask & IBV_QP_DEST_QPN) {
        qp->peer = attr->dest_qp_num;
    }
    if (!ret && mask & IBV_QP_STATE) {
        if (attr->qp_state == IBV_QPS_RESET) {
            bind(qp);
        } else {
            umv_set_state(qp, attr->qp_state);
        }
    }
    return ret;
}

int umv_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
    struct umv_qp *qp = umv_qp(ibqp);
    bool resets = mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET, locked;
    int ret;

    /* A post ends before the reset, or begins behind it. */
    if (resets) {
        sys_lock_take(&qp->send_lock);
        sys_lock_take(&qp->recv_lock);
    }
    locked = umv_lock(qp);
    ret = modify(qp, attr, mask);
    umv_unlock(qp, locked);
    if (resets) {
        sys_lock_drop(&qp->recv_lock);
        sys_lock_drop(&qp->send_lock);
    }
    return ret;
}

int umv_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask,
                 struct ibv_qp_init_attr *init)
{
    struct umv_qp *qp = umv_qp(ibqp);
    struct ibv_query_qp cmd;
    bool locked = umv_lock(qp);

    umv_collect(qp);
    umv_unlock(qp, locked);
    return ibv_cmd_query_qp(ibqp, attr, mask, init, &cmd, sizeof(cmd));
}
