/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared receive queues: an endpoint whose free queue the endpoints of queue pairs use.  A
 * request is an entry of the queue, or a chain of some, with the number of its record as
 * cookie; the card puts that into a completion of the queue pair whose message has come.  The
 * order of completions is each queue pair's own, so records are freed in any order.
 */
#include "send.h"
#include "srq.h"

#include <errno.h>
#include <stdlib.h>

struct create_srq_resp {
    struct ib_uverbs_create_srq_resp base;
    struct unetmm_verbs_qp own;
};

/* ---- Requests -------------------------------------------------------------- */

/* The card has taken the descriptors before this one. */
static bool has_room(const struct unetmm_ep *ep, uint32_t n)
{
    uint32_t taken = unetmm_read_word(&ep->index->card.fq_cons);

    return ep->fq_mask + 1 - (ep->fq_prod - taken) >= n;
}

static int post_one(struct umv_srq *srq, const struct ibv_recv_wr *wr)
{
    struct iovec iov[UNETMM_MAX_SEGS];
    uint32_t number = srq->free;
    struct umv_received *r;
    unsigned n;

    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > srq->max_sge) {
        return EINVAL;
    }
    n = umv_receive_iov(srq->context, srq->vsrq.srq.pd, &srq->mr, wr, iov);
    if (number == UMV_NONE || !has_room(srq->ep, n)) {
        return ENOMEM;
    }
    r = &srq->records[number];
    srq->free = r->next;
    r->wr_id = wr->wr_id;
    r->next = UMV_NONE;
    umv_store(&r->what.flags, UMV_POSTED);
    unetmm_put_parts(srq->ep, iov, n, number);
    return 0;
}

int umv_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct umv_srq *srq = umv_srq(ibsrq);
    int ret = 0;

    sys_lock_take(&srq->lock);
    for (; wr; wr = wr->next) {
        ret = post_one(srq, wr);
        if (ret) {
            *bad = wr;
            break;
        }
    }
    unetmm_write_doorbell(srq->ep->doorbell);
    sys_lock_drop(&srq->lock);
    return ret;
}

/* ---- Completions ----------------------------------------------------------- */

/* The record of a completion that the queue pair has; NULL: the card has no such request. */
struct umv_received *umv_srq_got(struct umv_qp *qp, uint64_t cookie)
{
    struct umv_srq *srq = qp->srq;
    uint32_t number = (uint32_t)cookie;
    struct umv_received *r;

    if (number >= srq->max_wr ||
        !(umv_load(&srq->records[number].what.flags) & UMV_POSTED)) {
        return NULL;
    }
    r = &srq->records[number];
    if (qp->srq_last == UMV_NONE) {
        qp->srq_first = number;
    } else {
        srq->records[qp->srq_last].next = number;
    }
    qp->srq_last = number;
    return r;
}

/* The queue pair's oldest message has been told: its record is free. */
void umv_srq_told(struct umv_qp *qp)
{
    struct umv_srq *srq = qp->srq;
    uint32_t number = qp->srq_first;
    struct umv_received *r = &srq->records[number];

    qp->srq_first = r->next;
    if (qp->srq_first == UMV_NONE) {
        qp->srq_last = UMV_NONE;
    }
    sys_lock_take(&srq->lock);
    r->what.flags = 0;
    r->next = srq->free;
    srq->free = number;
    sys_lock_drop(&srq->lock);
}

/* ---- Life ------------------------------------------------------------------ */

static int make(struct umv_srq *srq)
{
    struct unetmm_ep_private *ep;
    int ret = unetmm_ep_alloc(1, 0, &ep);
    uint32_t i;

    if (ret) {
        return -ret;
    }
    srq->ep = &ep->pub;
    srq->records = calloc(srq->max_wr, sizeof(*srq->records));
    if (!srq->records) {
        return ENOMEM;
    }
    for (i = 0; i < srq->max_wr; i++) {
        srq->records[i].next = i + 1 < srq->max_wr ? i + 1 : UMV_NONE;
    }
    ret = umv_map(&srq->map, srq->context);
    if (!ret) {
        umv_bind(&srq->map, srq->ep, 0);
    }
    return ret;
}

static void free_srq(struct umv_srq *srq)
{
    umv_unmap(&srq->map);
    free(srq->records);
    if (srq->ep) {
        unetmm_ep_free(unetmm_ep_private(srq->ep));
    }
    free(srq);
}

struct ibv_srq *umv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    struct create_srq_resp resp = {};
    struct ibv_create_srq cmd = {};
    struct umv_srq *srq = calloc(1, sizeof(*srq));
    int ret;

    if (!srq) {
        return NULL;
    }
    srq->context = umv_context(pd->context);
    srq->vsrq.srq.pd = pd;
    ret = ibv_cmd_create_srq(pd, &srq->vsrq.srq, attr, &cmd, sizeof(cmd), &resp.base,
                             sizeof(resp));
    if (!ret) {
        srq->map.layout = resp.own;
        srq->max_wr = attr->attr.max_wr;
        srq->max_sge = attr->attr.max_sge;
        ret = make(srq);
        if (!ret) {
            return &srq->vsrq.srq;
        }
        ibv_cmd_destroy_srq(&srq->vsrq.srq);
    }
    free_srq(srq);
    errno = ret;
    return NULL;
}

struct ibv_srq *umv_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
    struct ibv_srq_init_attr basic = {
        .srq_context = attr->srq_context, .attr = attr->attr,
    };
    struct ibv_srq *srq;

    (void)context;
    if (attr->comp_mask & ~(uint32_t)(IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD) ||
        (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type != IBV_SRQT_BASIC)) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD)) {
        errno = EINVAL;
        return NULL;
    }
    srq = umv_create_srq(attr->pd, &basic);
    attr->attr = basic.attr;
    return srq;
}

int umv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
    struct ibv_modify_srq cmd = {};

    return ibv_cmd_modify_srq(srq, attr, mask, &cmd, sizeof(cmd));
}

int umv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
    struct ibv_query_srq cmd = {};

    return ibv_cmd_query_srq(srq, attr, &cmd, sizeof(cmd));
}

int umv_destroy_srq(struct ibv_srq *ibsrq)
{
    int ret = ibv_cmd_destroy_srq(ibsrq);

    if (!ret) {
        free_srq(umv_srq(ibsrq));
    }
    return ret;
}
