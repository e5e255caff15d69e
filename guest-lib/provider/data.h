/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Ports and completion queues: the data path.
 */
#ifndef UMFI_DATA_H
#define UMFI_DATA_H

#include "endpoint.h"

/* ---- Completion queue (cq.c, cq_entry.c) ------------------------------------ */

struct umfi_entry {
    struct fi_cq_tagged_entry e;    /* the other formats are its first members */
    size_t olen;
    int err;
    int status;                 /* UNETMM_ST_*, if the card said so */
};

struct umfi_cq {
    struct fid_cq fid;
    struct fi_ops_cq ops;       /* with the functions for its format */
    struct umfi_domain *domain;
    struct umfi_entry *ring;
    uint32_t mask, prod, cons;
    size_t entry_bytes;
    struct umfi_port **ports;
    unsigned *port_users;
    unsigned nports;
    struct umfi_port *only;     /* the port, if there is one and the ring is empty */
    int epoll;                  /* -1: no wait object */
    int event_fd;
    bool armed;                 /* a waiter is to be told of new entries */
    bool signaled;
    bool overrun;               /* an entry was lost, for want of memory */
    unsigned users;
};

int umfi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr,
                 struct fid_cq **cq, void *context);
/* All under the domain's lock. */
/* Tells a waiter, if there is one, that the queue has new entries. */
void umfi_cq_wake_reader(struct umfi_cq *cq);
void umfi_cq_push_entry(struct umfi_cq *cq, const struct umfi_entry *entry);
int umfi_cq_attach(struct umfi_cq *cq, struct umfi_port *port);
void umfi_cq_detach(struct umfi_cq *cq, struct umfi_port *port);
int umfi_cq_trywait(struct umfi_cq *cq);

/* The depth of a queue of the card: a power of two, no more than the card has */
static inline uint32_t umfi_ring_depth(size_t wanted, const struct unetmm_info *limits)
{
    uint32_t depth = 16;

    while (depth < wanted && depth < 1u << limits->max_ring_log2) {
        depth *= 2;
    }
    return depth;
}

/* ---- Ports (port.c) ------------------------------------------------------ */

/* An operation in progress; the card has its address as user_data. */
struct umfi_op {
    void *context;
    uint64_t flags;             /* of the completion; 0: the operation was never filled */
    size_t len;
    void *buf;
    struct umfi_ep *ep;         /* NULL: of an SRX, or closed: then `told` is set */
    /*
     * Not NULL: read_usual_entry() may take the completion.  The operation has one part, and its
     * success is to be an entry.  Of a send this is the queue; of a receive the port, since the
     * queue is that of the EP that the message comes to.
     */
    const void *usual_owner;
    struct umfi_op *next;       /* free */
    /* From here on umfi_op_fill() writes one word. */
    uint32_t parts;             /* descriptors that the card still has */
    uint8_t status;
    bool busy;
    bool told;                  /* its completion is written, or none is to be */
    bool is_fence;              /* ep.fence points at the operation */
};

/* The port tells the owner of a channel, under the domain's lock. */
struct umfi_port_events {
    /* The first message of a channel that was being accepted has come. */
    void (*connected)(struct umfi_ep *ep, const void *data, size_t len);
    /* The channel has ended, by the peer or by failure. */
    void (*ended)(struct umfi_ep *ep, unsigned status);
    /* Completions were taken while EPs are in port.ending. */
    void (*progressed)(struct umfi_port *port);
};

/* Operations of one direction: when all are in progress, the other direction goes on. */
struct umfi_pool {
    struct umfi_op *ops, *free;
    uint32_t n;
};

struct umfi_port {
    struct umfi_list node;      /* fabric.ports */
    struct umfi_list arrivals;  /* see cm_arrival.c; changed under fabric.lock, too */
    struct umfi_list accepting; /* EPs whose connector has not taken the channel yet */
    struct umfi_list ending;    /* EPs that fi_shutdown() was called for */
    struct umfi_domain *domain;
    const struct umfi_port_events *events;
    struct unetmm_ep *ep;
    struct umfi_ep **by_channel;
    struct umfi_pool tx, rx;    /* rx: receives; tx: all other operations */
    uint64_t service;           /* acceptors connect to it; hard to guess */
    uint8_t *channel_ends;      /* by channel: UMFI_END_* */
    uint32_t channels, slots, depth;
    bool failed;                /* the card stopped the endpoint */
    bool ending_eps;            /* umfi_port_progress() ends EPs of `ending` at the moment */
    char scratch;               /* the buffer of an empty receive */
};

/* NULL: the channel is nobody's, or not yet. */
static inline struct umfi_ep *umfi_port_find_ep(const struct umfi_port *port,
                                                unsigned channel)
{
    return channel < port->channels ? port->by_channel[channel] : NULL;
}

int umfi_port_open(struct umfi_domain *domain, size_t tx_size, size_t rx_size,
                   const struct umfi_port_events *events, struct umfi_port **port);
void umfi_port_close(struct umfi_port *port);

/* Under the domain's lock: */
void umfi_port_progress(struct umfi_port *port);
static inline bool umfi_port_has_ended(const struct umfi_port *port, unsigned channel)
{
    return port->failed || port->channel_ends[channel] == UMFI_END_TAKEN;
}
/* Ends a channel that no EP has; its messages go before another channel gets the number. */
void umfi_port_end_channel(struct umfi_port *port, unsigned channel);
/* Ends such a channel for a caller without the lock. */
static inline void umfi_port_drop_channel(struct umfi_port *port, unsigned channel)
{
    umfi_lock(port->domain);
    umfi_port_end_channel(port, channel);
    umfi_unlock(port->domain);
}
void umfi_port_claim_channel(struct umfi_port *port, struct umfi_ep *ep);
void umfi_port_release_channel(struct umfi_port *port, struct umfi_ep *ep);
/*
 * Completes with FI_ECANCELED the operations of an EP, or of all EPs (NULL); `forget`: they have no
 * EP any more.  Receives of an SRX have none: they end with the port's failure, in a queue of any
 * of its EPs, or without a completion.
 */
void umfi_pool_cancel_ops(const struct umfi_pool *pool, const struct umfi_ep *ep, bool forget);
/* Forgets a closed EP: its operations have no EP any more. */
void umfi_port_forget_ep(struct umfi_port *port, struct umfi_ep *ep);

/*
 * Fills the next free operation, of one descriptor; it stays free until umfi_op_begin(), for
 * which the caller then has to remember nothing.  NULL: all are in progress.
 */
static inline struct umfi_op *umfi_op_fill(const struct umfi_pool *pool,
                                           struct umfi_ep *ep, void *buf, size_t len,
                                           void *context, uint64_t flags,
                                           const void *usual_owner)
{
    struct umfi_op *op = pool->free;

    if (op) {
        op->context = context;
        op->flags = flags;
        op->len = len;
        op->buf = buf;
        op->ep = ep;
        op->usual_owner = usual_owner;
        op->parts = 1;
        op->status = 0;
        op->busy = op->told = op->is_fence = false;
    }
    return op;
}

/* The operation that was filled is in progress. */
static inline void umfi_op_begin(struct umfi_pool *pool)
{
    struct umfi_op *op = pool->free;

    op->busy = true;
    pool->free = op->next;
}

/* Counts an operation that is not a receive. */
static inline void umfi_send_begin(struct umfi_ep *ep)
{
    umfi_op_begin(&ep->port->tx);
    ep->sends++;
}

static inline void umfi_op_free(struct umfi_pool *pool, struct umfi_op *op)
{
    op->busy = false;
    op->next = pool->free;
    pool->free = op;
}

/* The lowest operation is the first that is taken: see umfi_pool_cancel_ops(). */
static inline void umfi_pool_fill(struct umfi_pool *pool, struct umfi_op *ops, uint32_t n)
{
    *pool = (struct umfi_pool) { .ops = ops, .n = n };
    while (n) {
        umfi_op_free(pool, &ops[--n]);
    }
}

/* The entry of an operation of this side. */
SYS_INLINE void umfi_fill_done(struct fi_cq_tagged_entry *entry,
                               const struct umfi_op *op, size_t len)
{
    entry->op_context = op->context;
    /* The flag of a write says how it was posted. */
    entry->flags = op->flags & ~(FI_COMPLETION | FI_REMOTE_CQ_DATA);
    entry->len = len;
    entry->buf = op->buf;
    entry->data = 0;
    entry->tag = 0;
}

/* Of a message, or of data that have used up a buffer without filling it. */
SYS_INLINE void umfi_fill_received(struct fi_cq_tagged_entry *entry,
                                   const struct umfi_op *op,
                                   const struct unetmm_completion *c)
{
    bool written = c->type == UNETMM_CQE_WRITTEN, imm = c->flags & UNETMM_CQE_F_IMM;

    entry->op_context = op->context;
    entry->flags = (written ? FI_RMA | FI_REMOTE_WRITE : FI_MSG | FI_RECV) |
        (imm ? FI_REMOTE_CQ_DATA : 0);
    entry->len = c->len;
    entry->buf = written ? NULL : op->buf;
    entry->data = imm ? c->imm : 0;
    entry->tag = 0;
}

static inline unsigned umfi_card_flags(uint64_t flags)
{
    return (flags & FI_INJECT ? UNETMM_INLINE : 0) |
           (flags & FI_MORE ? UNETMM_MORE : 0);
}

#endif /* UMFI_DATA_H */
