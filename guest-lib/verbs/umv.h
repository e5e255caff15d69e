/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The provider of libibverbs: verbs in the memory that the card has of a process.
 *
 * A queue pair is an endpoint with channel 0 (uapi/linux/unetmm_verbs.h).  Requests go to the
 * endpoint's queues, and each has a record here, which keeps the order of verbs: the card may
 * end a READ behind a later WRITE.  A completion queue is the records of its queue pairs that
 * have ended: it has no memory, and cannot overrun.
 *
 * A fence waits in the send queue: descriptors behind it are written, and the producer
 * index that the card sees stays before it until the READs and atomics have ended.
 *
 * LOCKS, the outer ones first
 *   cq->lock       the queue pairs of a completion queue.  A queue pair with two takes the
 *                  one for sends first, and never both at once.
 *   qp->lock       state, records and queues of a queue pair
 *   context->lock  regions that are added and removed; requests look them up without it.
 */
#ifndef UMV_H
#define UMV_H

#include <infiniband/driver.h>
#include <linux/unetmm_verbs.h>

#include "../src/queue/queue.h"
#include "../src/sys/lock.h"

#define UMV_MR_LOG2     12      /* regions of a leaf of the table, and leaves */

struct umv_mr {
    struct verbs_mr vmr;
    uint64_t start;             /* address in the process */
    uint64_t iova;              /* by which requests name it */
    uint64_t length;
    int access;
};

struct umv_context {
    struct verbs_context vctx;
    struct umfi_lock lock;
    uint32_t max_message;
    struct umv_mr **mrs[1 << UMV_MR_LOG2];      /* by bits of the lkey */
};

struct umv_qp;

struct umv_cq {
    struct verbs_cq vcq;
    struct umfi_lock lock;
    struct umv_qp **qps;
    unsigned nqps, next;        /* the one that is asked first */
    struct ibv_wc wc;           /* of ibv_start_poll() */
};

enum {
    UMV_DONE = 1, UMV_SIGNALED = 2, UMV_FETCHES = 4, UMV_QUIET = 8, UMV_FENCE = 16,
};

struct umv_sent {
    uint64_t wr_id;
    uint32_t len;
    uint32_t sq_end;            /* the send queue behind its descriptor */
    uint8_t opcode;             /* IBV_WC_* */
    uint8_t status;
    uint8_t flags;              /* UMV_* */
};

struct umv_received {
    uint64_t wr_id;
    uint32_t len;
    uint32_t imm;
    uint8_t opcode;
    uint8_t status;
    bool done;
    bool has_imm;
};

/* A send request but for its data. */
struct umv_wr {
    struct unetmm_request_ card;
    uint64_t wr_id;
    uint64_t operands[2];       /* of atomics, as the card has them */
    unsigned noperands;
    uint8_t opcode;             /* IBV_WC_* */
    uint8_t flags;              /* UMV_* */
};

struct umv_qp {
    struct verbs_qp vqp;
    struct umfi_lock lock;
    struct umv_context *context;
    struct umv_cq *send_cq, *recv_cq;
    struct unetmm_ep *ep;
    void *queues, *doorbell;
    struct unetmm_verbs_qp layout;
    enum ibv_qp_state state;
    struct ibv_qp_cap cap;
    bool all_signaled;
    uint32_t peer;              /* number of its queue pair */
    /* Numbers of requests run freely. */
    struct umv_sent *sent;
    uint32_t sent_mask, sent_next, sent_done;
    uint32_t shown;             /* requests before it are the card's */
    uint32_t answered;          /* quiet requests before it have ended */
    uint32_t fetching;          /* READs and atomics that are the card's */
    struct umv_received *received;
    uint32_t received_mask, received_next, received_done;
    /* ibv_wr_start() to ibv_wr_complete() */
    struct umv_wr wr;
    int error;
    uint32_t began, began_prod;
};

static inline struct umv_context *umv_context(struct ibv_context *context)
{
    return container_of(context, struct umv_context, vctx.context);
}

static inline struct umv_cq *umv_cq(struct ibv_cq *cq)
{
    return container_of(cq, struct umv_cq, vcq.cq);
}

static inline struct umv_qp *umv_qp(struct ibv_qp *qp)
{
    return container_of(qp, struct umv_qp, vqp.qp);
}

/* mr.c */
struct ibv_mr *umv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                          int access);
int umv_dereg_mr(struct verbs_mr *vmr);
/* The memory behind a segment; NULL, where nobody has memory: wrong key or right. */
void *umv_memory(const struct umv_qp *qp, const struct ibv_sge *sge, int access);

/* cq.c */
struct ibv_cq *umv_create_cq(struct ibv_context *context, int cqe,
                             struct ibv_comp_channel *channel, int vector);
struct ibv_cq_ex *umv_create_cq_ex(struct ibv_context *context,
                                   struct ibv_cq_init_attr_ex *attr);
int umv_destroy_cq(struct ibv_cq *cq);
int umv_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int umv_req_notify_cq(struct ibv_cq *cq, int solicited);
int umv_cq_add(struct umv_cq *cq, struct umv_qp *qp);
void umv_cq_remove(struct umv_cq *cq, struct umv_qp *qp);

/* complete.c; qp->lock */
void umv_collect(struct umv_qp *qp);
void umv_arm(struct umv_qp *qp);
bool umv_next_sent(struct umv_qp *qp, struct ibv_wc *wc);
bool umv_next_received(struct umv_qp *qp, struct ibv_wc *wc);

/* post.c */
int umv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int umv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
void umv_show(struct umv_qp *qp);
int umv_wr_set(struct umv_qp *qp, struct umv_wr *w, enum ibv_wr_opcode opcode, uint64_t wr_id,
               unsigned flags);
void umv_wr_remote(struct umv_wr *w, uint32_t rkey, uint64_t addr);
void umv_wr_operands(struct umv_wr *w, uint64_t first, uint64_t second);
int umv_put(struct umv_qp *qp, struct umv_wr *w, const struct ibv_sge *sges, size_t n);
int umv_put_inline(struct umv_qp *qp, struct umv_wr *w, const struct iovec *iov, size_t n);

/* wr.c */
int umv_wr_ops(struct umv_qp *qp, uint64_t ops);

/* qp.c */
struct ibv_qp *umv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct ibv_qp *umv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
int umv_destroy_qp(struct ibv_qp *qp);
int umv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int umv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
                 struct ibv_qp_init_attr *init);

#endif /* UMV_H */
