/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared receive queues.
 */
#ifndef UMV_SRQ_H
#define UMV_SRQ_H

#include "verbs.h"

/*
 * A record is free, or its request is the card's (UMV_POSTED), or the message has come and the
 * record is in the list of the queue pair that has it, until a poll tells of it.
 */
struct umv_srq {
    struct verbs_srq vsrq;
    struct sys_lock lock;       /* posts, and free records; inside of all other locks */
    struct umv_context *context;
    struct unetmm_ep *ep;
    struct umv_map map;
    struct umv_last_mr mr;
    uint32_t max_wr, max_sge;
    struct umv_received *records;       /* max_wr of them */
    uint32_t free;              /* the first free one, or UMV_NONE */
};

static inline struct umv_srq *umv_srq(struct ibv_srq *srq)
{
    return container_of(srq, struct umv_srq, vsrq.srq);
}

struct ibv_srq *umv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
struct ibv_srq *umv_create_srq_ex(struct ibv_context *context,
                                  struct ibv_srq_init_attr_ex *attr);
int umv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int umv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int umv_destroy_srq(struct ibv_srq *srq);
int umv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* umv_lock(), and cq->lock where there is one */
struct umv_received *umv_srq_got(struct umv_qp *qp, uint64_t cookie);
void umv_srq_told(struct umv_qp *qp);

#endif /* UMV_SRQ_H */
