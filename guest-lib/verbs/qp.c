/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Queue pairs: life and states.  The driver has the state that programs set; the state here is
 * the one that posts and completions need.
 */
#include "../src/sys/sys.h"
#include "srq.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#define END_NS      1000000000u

#define QP_ATTRS    (IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | \
                     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)

struct create_qp_resp {
    struct ib_uverbs_ex_create_qp_resp base;
    struct unetmm_verbs_qp own;
};

struct modify_qp {
    struct ibv_modify_qp_ex base;
    struct unetmm_verbs_modify own;
};

/* The endpoint's queues are empty: a new one's, or after RESET. */
static void bind(struct umv_qp *qp)
{
    umv_bind(&qp->map, qp->ep, qp->vqp.qp.qp_num - UNETMM_VERBS_QPN);
    qp->sent_next = qp->sent_done = 0;
    qp->received_next = qp->received_done = 0;
    qp->kept = qp->kept_sends = qp->held = 0;
    umv_set_state(qp, IBV_QPS_RESET);
}

static int map_queues(struct umv_qp *qp)
{
    int ret = umv_map(&qp->map, qp->context);

    if (!ret) {
        bind(qp);
    }
    return ret;
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
    qp->sent = calloc(1u << qp->map.layout.sq_log2, sizeof(*qp->sent));
    qp->received = calloc(1u << qp->map.layout.fq_log2, sizeof(*qp->received));
    return qp->sent && qp->received ? 0 : ENOMEM;
}

static void free_qp(struct umv_qp *qp)
{
    umv_unmap(&qp->map);
    free(qp->sent);
    free(qp->received);
    if (qp->ep) {
        unetmm_ep_free(unetmm_ep_private(qp->ep));
    }
    free(qp);
}

/* As umv_end(), where the program has not asked for this end: no event tells it. */
static void end_quietly(struct umv_qp *qp)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
    struct modify_qp cmd = { .own.flags = UNETMM_VERBS_MODIFY_QUIET };
    struct ib_uverbs_ex_modify_qp_resp resp;

    ibv_cmd_modify_qp_ex(&qp->vqp.qp, &attr, IBV_QP_STATE, &cmd.base, sizeof(cmd), &resp,
                         sizeof(resp));
}

/*
 * The queue pair is going to be emptied, or to end.  The buffer of a message that has come in
 * part comes back when its channel ends, before the first CQE_CLOSED: a flush of a channel that
 * has failed leads to a second one.  A card that is too late, or has gone, keeps the record: the
 * shared queue has one request less.
 */
static void end_receives(struct umv_qp *qp)
{
    const uint32_t *state = &qp->ep->index->card.state;
    uint64_t end = sys_now_ns() + END_NS;

    end_quietly(qp);
    umv_collect(qp);
    while (qp->channel && unetmm_read_word(state) & UNETMM_EP_RUNNING && sys_now_ns() < end) {
        sched_yield();
        umv_collect(qp);
    }
}

/* The queue pair has none any more. */
static void free_receives(struct umv_qp *qp)
{
    while (qp->srq_first != UMV_NONE) {
        umv_srq_told(qp);
    }
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
    if (attr->comp_mask & ~(uint32_t)QP_ATTRS ||
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
    qp->srq = attr->srq ? umv_srq(attr->srq) : NULL;
    qp->srq_first = qp->srq_last = UMV_NONE;
    qp->long_receives = qp->ud || qp->srq;
    umv_set_kinds(qp, attr->sq_sig_all);
    ret = ibv_cmd_create_qp_ex2(context, &qp->vqp, attr, &cmd, sizeof(cmd), &resp.base,
                                sizeof(resp));
    if (!ret) {
        qp->map.layout = resp.own;
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
    if (qp->srq) {
        end_receives(qp);
    }
    ret = ibv_cmd_destroy_qp(ibqp);
    if (ret) {
        join(qp);
        return ret;
    }
    free_receives(qp);
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
    if (qp->srq && mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET) {
        end_receives(qp);
    }
    ret = ibv_cmd_modify_qp(&qp->vqp.qp, attr, mask, &cmd, sizeof(cmd));
    if (!ret && mask & IBV_QP_DEST_QPN) {
        qp->peer = attr->dest_qp_num;
    }
    if (!ret && mask & IBV_QP_STATE) {
        if (attr->qp_state == IBV_QPS_RESET) {
            free_receives(qp);
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
