/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Endpoints, shared receive contexts, passive endpoints.
 */
#ifndef UMFI_ENDPOINT_H
#define UMFI_ENDPOINT_H

#include "fabric.h"

/* ---- Ends of channels ------------------------------------------------------ */

/*
 * Each channel of a port, and of a CM port, has one CQE_CLOSED, and its number is not another
 * channel's before that was taken.
 */
enum {
    UMFI_END_NONE,
    UMFI_END_AWAITED,           /* we have left the channel: CLOSED is still to come */
    UMFI_END_TAKEN,             /* CLOSED has come, perhaps before an EP or a conn has the channel */
};

static inline uint8_t umfi_end_when_taken(uint8_t end)
{
    return end == UMFI_END_AWAITED ? UMFI_END_NONE : UMFI_END_TAKEN;
}

static inline uint8_t umfi_end_when_left(uint8_t end)
{
    return end == UMFI_END_TAKEN ? UMFI_END_NONE : UMFI_END_AWAITED;
}

/* ---- Endpoints (ep_state.c, ep_channel.c, ep.c, srx.c, pep.c) --------------- */

/*
 * CONNECTING: without a channel.  ACCEPTING: with a channel, which the connector has not
 * taken yet.  ENDING: the peer's card has not yet all that was sent.
 */
enum umfi_state {
    UMFI_IDLE, UMFI_CONNECTING, UMFI_ACCEPTING, UMFI_CONNECTED, UMFI_ENDING, UMFI_ENDED,
};

struct umfi_ep {
    struct fid_ep fid;
    struct umfi_domain *domain;
    struct umfi_port *port;     /* NULL: not enabled */
    struct umfi_srx *srx;       /* NULL: the port is its own */
    struct umfi_cq *tx_cq, *rx_cq;
    uint64_t tx_completion;     /* FI_COMPLETION, or 0: selective */
    uint64_t rx_completion;
    uint64_t tx_flags, rx_flags;    /* of calls without flags */
    unsigned channel;
    bool open;                  /* the channel's number is ours */
    enum umfi_state state;      /* umfi_ep_set_state() alone writes it */
    struct umfi_list node;      /* port.accepting, port.ending */
    struct umfi_list in_domain; /* domain.eps */
    uint32_t sends;             /* operations in progress, but receives */
    bool injected;              /* since the last fence: messages without an operation */
    struct umfi_op *fence;      /* that has not completed; NULL: none */
    bool fenced;                /* behind all that was sent: then none is needed any more */
    int64_t fence_ms, until_ms; /* the peer's time for the fence, and that of ENDING */
    struct umfi_eq *eq;
    struct umfi_conn *conn;     /* the request it makes or answers */
    struct umfi_call *call;     /* for the channel of its request, or of its answer */
    size_t tx_size, rx_size;
    struct sockaddr_in src, dst;
};

struct umfi_srx {
    struct fid_ep fid;
    struct umfi_domain *domain;
    struct umfi_port *port;
    unsigned users;
};

int umfi_ep_open(struct fid_domain *domain, struct fi_info *info,
                 struct fid_ep **ep, void *context);
int umfi_ep_enable(struct umfi_ep *ep);
/* Under the domain's lock: */
void umfi_ep_set_state(struct umfi_ep *ep, enum umfi_state state);
/*
 * Gives the EP its channel.  False: the channel has ended.
 */
bool umfi_ep_begin_accepting(struct umfi_ep *ep, unsigned channel);
/* Both sides have it; the program gets `data`. */
void umfi_ep_connected(struct umfi_ep *ep, const void *data, size_t len);
/* There is no channel to the connector, or the connector did not take it as far as is known. */
void umfi_ep_fail_accepting(struct umfi_ep *ep, int error);
/* The EP sends nothing more: it ends when its peer's card has everything, or in time. */
int umfi_ep_begin_shutdown(struct umfi_ep *ep);
/* The EP is to be closed: waits for its peer's card, in time. */
void umfi_ep_close_channel(struct umfi_ep *ep);
extern const struct umfi_port_events umfi_channel_events;
/* At the domain's end */
void umfi_ep_free_closed(struct umfi_domain *domain);
int umfi_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr,
                  struct fid_ep **ep, void *context);
int umfi_pep_open(struct fid_fabric *fabric, struct fi_info *info,
                  struct fid_pep **pep, void *context);
/* Copies an address under the fabric's lock. */
int umfi_copy_address(struct umfi_fabric *fabric, const struct sockaddr_in *from, void *to,
                      size_t *len);

int umfi_getopt(fid_t fid, int level, int name, void *value, size_t *len);
int umfi_setopt(fid_t fid, int level, int name, const void *value, size_t len);

extern struct fi_ops_ep umfi_ep_ops;
extern struct fi_ops_msg umfi_msg_ops, umfi_srx_msg_ops;
/* Under the domain's lock: a receive buffer that the card has filled for nobody. */
int umfi_repost_buffer(struct umfi_port *port, struct umfi_op *op);
extern struct fi_ops_rma umfi_rma_ops;

#endif /* UMFI_ENDPOINT_H */
