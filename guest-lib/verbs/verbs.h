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
 *   qp->send_lock   posts of sends; ibv_wr_start() to ibv_wr_complete()
 *   qp->recv_lock   posts of receives
 *   cq->lock        the queue pairs of a completion queue, and the completions of those that
 *                   have no other one.  The library holds one of these at a time.
 *   qp->lock        completions, records that have ended, and the state of a queue pair with two
 *                   completion queues.  umv_lock() takes the one that a queue pair has.
 *   context->lock   regions that are added and removed; requests look them up without it.
 *
 * A post reads the state and the numbers of records that have ended without their lock, and a
 * poll the numbers of records that are posted: each of these has one writer at a time.
 * A poll that has to show requests behind a fence takes qp->send_lock only if that is free, so that
 * a thread may poll between ibv_wr_start() and ibv_wr_complete().
 */
#ifndef UMV_VERBS_H
#define UMV_VERBS_H

#include <infiniband/driver.h>
#include <linux/unetmm_verbs.h>

#include "../src/queue/queue.h"
#include "../src/sys/lock.h"
#include "map.h"

#define UMV_MR_LOG2     12      /* regions of a leaf of the table, and leaves */
#define UMV_KINDS       16      /* opcodes of send requests; a power of 2 */

/* The end of its caller, which saves no registers for it */
#define UMV_TAIL        static __attribute__((__noinline__)) int
#define umv_usual(_x)   __builtin_expect(!!(_x), 1)
/* A word that another thread may write at the same time */
#define umv_load(_p)    __atomic_load_n(_p, __ATOMIC_ACQUIRE)
#define umv_store(_p, _v) __atomic_store_n(_p, _v, __ATOMIC_RELEASE)

struct umv_mr {
    struct verbs_mr vmr;
    uint64_t start;             /* address in the process */
    uint64_t iova;              /* by which requests name it */
    uint64_t length;
    int access;
};

/* A copy of the region that was used last; valid while no region has been removed. */
struct umv_last_mr {
    uint32_t lkey;
    uint32_t version;           /* of context->mr_version */
    uint64_t end, length;       /* by the addresses that requests have */
    uint64_t delta;             /* from there to the address in the process */
    int access;
};

struct umv_context {
    struct verbs_context vctx;
    struct sys_lock lock;
    uint32_t max_message;
    uint32_t mr_version;        /* regions removed */
    struct umv_mr **mrs[1 << UMV_MR_LOG2];      /* by bits of the lkey */
};

struct umv_qp;
struct umv_srq;

struct umv_cq {
    struct verbs_cq vcq;
    struct sys_lock lock;
    struct umv_qp *only;        /* its one queue pair, if that has no other one */
    struct umv_qp **qps;
    unsigned nqps, next;        /* the one that is asked first */
    /* ibv_start_poll() to ibv_end_poll() */
    uintptr_t poller;           /* the thread that has the lock */
    struct ibv_wc wc;
};

enum {
    UMV_FETCHES = IBV_ACCESS_LOCAL_WRITE,       /* the right that it needs */
    UMV_DONE = 2, UMV_SIGNALED = 4, UMV_QUIET = 8, UMV_FENCE = 16, UMV_IMM = 32, UMV_KEYED = 64,
    UMV_UNALIGNED = 32, UMV_POSTED = 128,       /* of an atomic; of a shared queue: posted */
};

#define UMV_NONE        UINT32_MAX

struct umv_what {
    uint8_t opcode;             /* IBV_WC_* */
    uint8_t status;             /* IBV_WC_* */
    uint8_t flags;              /* UMV_* */
    uint8_t slots;              /* of the queue */
};

/* Records are where the first slots of their requests are: by the queues' indices. */
struct umv_sent {
    uint64_t wr_id;
    uint32_t len;
    struct umv_what what;
};

struct umv_received {
    uint64_t wr_id;
    uint32_t len;
    struct umv_what what;
    uint32_t imm;
    uint32_t from;              /* UD: the sender's number */
    uint32_t next;              /* of a shared queue: the next record of a list; UMV_NONE */
    uint32_t more;              /* qp->received_more before it */
};

/* An opcode of verbs in a record, and in a descriptor */
struct umv_kind {
    struct umv_what what;
    uint32_t head;
};

struct umv_qp {
    struct verbs_qp vqp;
    struct sys_lock send_lock, recv_lock, lock;
    bool two_cqs, ud, wr_queued;
    bool long_receives;         /* UD, or with a shared queue */
    bool channel;               /* the card has it: CQE_CLOSED is to come */
    struct umv_context *context;
    struct umv_cq *send_cq, *recv_cq;
    struct unetmm_ep *ep;
    struct umv_map map;
    enum ibv_qp_state state;
    struct ibv_qp_cap cap;
    uint32_t peer;              /* number of its queue pair */
    struct umv_kind kinds[2 * UMV_KINDS];       /* by opcode; without a completion, and with one */
    /* A request's number is the index of its first slot; from sent_next on they are not posted. */
    struct umv_sent *sent;
    uint32_t sent_next, sent_done;
    struct umv_received *received;
    uint32_t received_next, received_done, received_more;
    /* Slots behind the first ones of all requests so far; of sends times 2^32, as in a cookie */
    uint64_t sent_more, began_more;
    struct umv_srq *srq;        /* NULL: the receive queue is its own */
    uint32_t srq_first, srq_last;       /* its messages in that queue's records, or UMV_NONE */
    /* Records that have ended and are not told; sends alone; and one more of all in ERR */
    uint32_t kept, kept_sends;
    /* How many slots of requests may be posted the short way; 0: none */
    uint32_t sends_usual, receives_usual;
    uint32_t receive_usual;     /* most bytes of a receive's pages */
    struct umv_last_mr send_mr, recv_mr;
    uint32_t held;              /* slots behind a fence, which the card does not see yet */
    uint32_t fetched;           /* a READ has ended: those may go */
    uint32_t keys;              /* requests for keys of windows that are queued, not posted */
    /* ibv_wr_start() to ibv_wr_complete() */
    struct ibv_send_wr wr;
    uint32_t wr_number;         /* UD: of that request, if it is in the queue */
    int error;
    uint32_t began_held;
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

/* The card has no more to say than that it runs.  An endpoint of a card that has gone is zeroed. */
static inline bool umv_runs(const struct unetmm_ep *ep)
{
    return umv_usual((unetmm_read_word(&ep->index->card.state) &
                      (UNETMM_EP_RUNNING | UNETMM_NOTED_)) == UNETMM_EP_RUNNING);
}

/* mr.c */
struct ibv_mr *umv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                          int access);
int umv_dereg_mr(struct verbs_mr *vmr);
void *umv_find_memory(const struct umv_context *context, const struct ibv_pd *pd,
                      struct umv_last_mr *last, const struct ibv_sge *sge, int access);

/*
 * The driver takes the channel off the card, and wakes threads that wait for an event.  No lock is
 * needed.  If the driver refuses, the device has gone.
 */
static inline void umv_end(struct umv_qp *qp)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
    struct ibv_modify_qp cmd = {};

    ibv_cmd_modify_qp(&qp->vqp.qp, &attr, IBV_QP_STATE, &cmd, sizeof(cmd));
}

/* cq.c */
struct ibv_cq *umv_create_cq(struct ibv_context *context, int cqe,
                             struct ibv_comp_channel *channel, int vector);
struct ibv_cq_ex *umv_create_cq_ex(struct ibv_context *context,
                                   struct ibv_cq_init_attr_ex *attr);
int umv_destroy_cq(struct ibv_cq *cq);
int umv_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int umv_resize_cq(struct ibv_cq *cq, int cqe);
bool umv_cq_lock(struct umv_cq *cq);
void umv_cq_unlock(struct umv_cq *cq, bool locked);
int umv_cq_add(struct umv_cq *cq, struct umv_qp *qp);
void umv_cq_remove(struct umv_cq *cq, struct umv_qp *qp);
bool umv_lock(struct umv_qp *qp);
void umv_unlock(struct umv_qp *qp, bool locked);

/* complete.c; umv_lock(), and cq->lock where there is one */
void umv_collect(struct umv_qp *qp);
void umv_set_state(struct umv_qp *qp, enum ibv_qp_state state);
int umv_take(struct umv_cq *cq, struct umv_qp *qp, int n, struct ibv_wc *wc);
unsigned umv_waiting(const struct umv_cq *cq, struct umv_qp *qp);

/* send.c */
void umv_set_kinds(struct umv_qp *qp, bool all_signaled);
void umv_fetched(struct umv_qp *qp);
void umv_commit(struct umv_qp *qp);
void umv_drop(struct umv_qp *qp);

/* post.c, recv.c */
int umv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int umv_queue(struct umv_qp *qp, const struct ibv_send_wr *wr);
int umv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* wr.c */
int umv_wr_ops(struct umv_qp *qp, uint64_t ops);

/* qp.c */
struct ibv_qp *umv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct ibv_qp *umv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
int umv_destroy_qp(struct ibv_qp *qp);
int umv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int umv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
                 struct ibv_qp_init_attr *init);

#endif /* UMV_VERBS_H */
