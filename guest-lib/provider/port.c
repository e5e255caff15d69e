/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Ports: endpoints of the card for data, and the handling of their completions.
 *
 * All but opening and closing is under the domain's lock.
 *
 * A channel's number belongs to another peer after its CQE_CLOSED has been taken, which
 * comes once, whichever side ends the channel.  Neither side of a connection sends before
 * the other one expects it (cm_wire.c): messages of a channel that no EP has are a stranger's,
 * or of one that has been left, and their buffers go back to the card.
 */
#include "provider.h"

#include <stdlib.h>
#include <sys/random.h>

#define BACKLOG     64
#define BATCH       16

/* ---- Completions ----------------------------------------------------------- */

static void push_completion(struct umfi_cq *cq, const struct umfi_op *op, size_t len,
                            int err, unsigned status)
{
    struct umfi_entry entry = { .err = err, .status = (int)status };

    umfi_fill_done(&entry.e, op, len);
    if (cq && (err || op->flags & FI_COMPLETION)) {
        umfi_cq_push_entry(cq, &entry);
    }
}

static void send_completed(struct umfi_port *port, const struct unetmm_completion *c)
{
    struct umfi_op *op = (struct umfi_op *)(uintptr_t)c->user_data;

    if (!op) {
        UMFI_WARN(FI_LOG_EP_DATA, "an injected operation failed: %s\n",
                  unetmm_status_str(c->status));
        return;
    }
    if (c->status) {
        op->status = c->status;
    }
    if (--op->parts) {
        return;
    }
    if (!op->told) {
        push_completion(op->ep->tx_cq, op, op->status ? 0 : op->len,
                        umfi_operation_error(op->status), op->status);
    } else if (op->status) {
        UMFI_INFO(FI_LOG_EP_DATA, "an operation that nobody waits for failed: %s\n",
                  unetmm_status_str(op->status));
    }
    if (op->is_fence) {
        op->is_fence = false;
        op->ep->fence = NULL;
    }
    if (op->ep) {
        op->ep->sends--;
    }
    umfi_op_free(&port->tx, op);
}

static void receive_completed(struct umfi_port *port, struct umfi_ep *ep,
                              const struct unetmm_completion *c)
{
    struct umfi_op *op = (struct umfi_op *)(uintptr_t)c->user_data;
    struct umfi_entry entry = { .err = 0 };

    if (c->is_inline || !op) {
        UMFI_WARN(FI_LOG_EP_DATA, "%u bytes without a buffer are lost\n", c->len);
        return;
    }
    umfi_fill_received(&entry.e, op, c);
    if (c->type == UNETMM_CQE_RECEIVED && c->len > op->len) {
        entry.err = FI_ETRUNC;
        entry.olen = c->len - op->len;
        entry.e.len = 0;
    }
    if (!op->told && (entry.err || c->type == UNETMM_CQE_WRITTEN ||
                      op->flags & FI_COMPLETION)) {
        umfi_cq_push_entry(ep->rx_cq, &entry);
    }
    umfi_op_free(&port->rx, op);
}

/* Receives of an SRX that fail are of any of its EPs.  NULL: there is no EP, and no queue. */
static struct umfi_ep *any_ep(const struct umfi_port *port)
{
    struct umfi_ep *ep;

    umfi_for_each(ep, &port->domain->eps, in_domain) {
        if (ep->port == port) {
            return ep;
        }
    }
    return NULL;
}

/* A buffer that the card gives back unfilled. */
static void buffer_returned(struct umfi_port *port, const struct unetmm_completion *c)
{
    struct umfi_op *op = (struct umfi_op *)(uintptr_t)c->user_data;
    struct umfi_ep *ep = op && op->ep ? op->ep : any_ep(port);

    if (!op || !ep) {
        UMFI_WARN(FI_LOG_EP_DATA, "a receive buffer failed: %s\n",
                  unetmm_status_str(c->status));
    } else if (!op->told) {
        push_completion(ep->rx_cq, op, 0, umfi_operation_error(c->status), c->status);
    }
    if (op) {
        umfi_op_free(&port->rx, op);
    }
}

/* Posts the buffer again, unread, at the tail; the buffer's place in the queue is free. */
static void repost_buffer(struct umfi_port *port, const struct unetmm_completion *c)
{
    struct umfi_op *op = (struct umfi_op *)(uintptr_t)c->user_data;

    if (op && !c->is_inline && (op->told || umfi_repost_buffer(port, op))) {
        struct unetmm_completion lost = *c;

        lost.status = UNETMM_ST_FLUSHED;
        buffer_returned(port, &lost);
    }
}

/* NULL: no EP expects anything of that channel. */
static struct umfi_ep *find_ep(struct umfi_port *port, unsigned channel)
{
    struct umfi_ep *ep = umfi_port_find_ep(port, channel);

    for (struct umfi_list *i = port->accepting.next; !ep && i != &port->accepting;
         i = i->next) {
        struct umfi_ep *accepting = umfi_of(i, struct umfi_ep, node);

        ep = accepting->channel == channel ? accepting : NULL;
    }
    /* The connector has the channel, and its program uses it. */
    if (ep && ep->state == UMFI_ACCEPTING) {
        port->events->connected(ep, NULL, 0);
    }
    return ep;
}

/* The channel, which no EP has, was closed by its peer. */
static void arrival_closed(struct umfi_port *port, unsigned channel)
{
    struct umfi_arrival *arrival;

    umfi_for_each(arrival, &port->arrivals, node) {
        arrival->closed = arrival->closed || arrival->channel == channel;
    }
}

/* The channel may have been left, or be for an EP that has not got it yet. */
static void channel_closed(struct umfi_port *port, const struct unetmm_completion *c)
{
    bool left = port->channel_ends[c->channel] == UMFI_END_AWAITED;
    struct umfi_ep *ep = left ? NULL : find_ep(port, c->channel);

    port->channel_ends[c->channel] = umfi_end_when_taken(port->channel_ends[c->channel]);
    if (ep) {
        port->events->ended(ep, c->status);
    } else if (!left) {
        arrival_closed(port, c->channel);
    }
}

static void dispatch_completion(struct umfi_port *port, const struct unetmm_completion *c)
{
    struct umfi_ep *ep;

    switch (c->type) {
    case UNETMM_CQE_SENT:
        send_completed(port, c);
        break;
    case UNETMM_CQE_RECEIVED:
    case UNETMM_CQE_WRITTEN:
        ep = find_ep(port, c->channel);
        if (ep) {
            receive_completed(port, ep, c);
        } else {
            repost_buffer(port, c);
        }
        break;
    case UNETMM_CQE_CLOSED:
        if (c->channel < port->channels) {
            channel_closed(port, c);
        }
        break;
    case UNETMM_CQE_BUFFER:
        buffer_returned(port, c);
        break;
    default:
        UMFI_WARN(FI_LOG_EP_DATA, "completion of type %u\n", c->type);
    }
}

/* Receives of an SRX, which no EP has */
static void cancel_shared_receives(struct umfi_port *port)
{
    const struct umfi_ep *ep = any_ep(port);

    for (struct umfi_op *op = port->rx.ops; op < port->rx.ops + port->rx.n && op->flags; op++) {
        if (ep && op->busy && !op->told) {
            op->told = true;
            push_completion(ep->rx_cq, op, 0, FI_ECANCELED, 0);
        }
    }
}

static void fail_port(struct umfi_port *port, int error)
{
    struct umfi_ep *ep;

    UMFI_WARN(FI_LOG_EP_DATA, "the endpoint has stopped: %s\n",
              unetmm_strerror(error, UNETMM_CALL_POLL));
    port->failed = true;
    /* No operation begins any more. */
    port->tx.free = port->rx.free = NULL;
    for (unsigned i = 0; i < port->channels; i++) {
        if (port->by_channel[i]) {
            port->events->ended(port->by_channel[i], UNETMM_ST_BAD_INDEX);
        }
    }
    umfi_for_each(ep, &port->accepting, node) {
        port->events->ended(ep, UNETMM_ST_BAD_INDEX);
    }
    umfi_pool_cancel_ops(&port->tx, NULL, false);
    umfi_pool_cancel_ops(&port->rx, NULL, false);
    cancel_shared_receives(port);
}

/* All that the queue has now: a peer that sends on does not keep the lock from others. */
void umfi_port_progress(struct umfi_port *port)
{
    struct unetmm_completion c[BATCH];
    uint32_t done = 0;
    int n;

    if (port->failed) {
        return;
    }
    do {
        n = unetmm_poll(port->ep, c, BATCH);
        for (int i = 0; i < n; i++) {
            dispatch_completion(port, &c[i]);
        }
        done += BATCH;
    } while (n == BATCH && done < port->depth);
    if (n < 0) {
        fail_port(port, n);
    }
    /* An EP that ends makes progress, too: the others wait for the caller's turn. */
    if (!umfi_list_is_empty(&port->ending) && !port->ending_eps) {
        port->ending_eps = true;
        port->events->progressed(port);
        port->ending_eps = false;
    }
}

/* ---- Channels -------------------------------------------------------------- */

void umfi_port_claim_channel(struct umfi_port *port, struct umfi_ep *ep)
{
    sys_assert_held(&port->domain->lock);
    port->by_channel[ep->channel] = ep;
}

void umfi_pool_cancel_ops(const struct umfi_pool *pool, const struct umfi_ep *ep, bool forget)
{
    /* The pool gives its lowest: behind one that was never filled all are free. */
    for (struct umfi_op *op = pool->ops; op < pool->ops + pool->n && op->flags; op++) {
        if (!op->busy || !op->ep || (ep && op->ep != ep)) {
            continue;
        }
        if (!op->told) {
            op->told = true;
            op->usual_owner = NULL;
            push_completion(op->flags & FI_RECV ? op->ep->rx_cq : op->ep->tx_cq, op, 0,
                            FI_ECANCELED, 0);
        }
        op->ep = forget ? NULL : op->ep;
    }
}

void umfi_port_forget_ep(struct umfi_port *port, struct umfi_ep *ep)
{
    sys_assert_held(&port->domain->lock);
    if (ep->sends) {
        umfi_pool_cancel_ops(&port->tx, ep, true);
        ep->sends = 0;
    }
    /* Receives of an SRX are no EP's. */
    if (!ep->srx) {
        umfi_pool_cancel_ops(&port->rx, ep, true);
    }
}

void umfi_port_release_channel(struct umfi_port *port, struct umfi_ep *ep)
{
    if (port->by_channel[ep->channel] == ep) {
        port->by_channel[ep->channel] = NULL;
    }
    umfi_port_end_channel(port, ep->channel);
}

void umfi_port_end_channel(struct umfi_port *port, unsigned channel)
{
    sys_assert_held(&port->domain->lock);
    unetmm_disconnect(port->ep, (int)channel);
    port->channel_ends[channel] = umfi_end_when_left(port->channel_ends[channel]);
}

/* ---- Opening and closing --------------------------------------------------- */

/* A number that nobody else has, and that no stranger guesses. */
static int listen_at_random_service(struct umfi_port *port)
{
    const struct unetmm_channel_attr attr = umfi_channel_attr();
    int ret;

    do {
        if (getrandom(&port->service, sizeof(port->service), 0) !=
            sizeof(port->service)) {
            return -FI_EIO;
        }
        ret = port->service ?
            unetmm_listen_ex(port->ep, port->service, BACKLOG, &attr) : -EADDRINUSE;
    } while (ret == -EADDRINUSE);
    return ret;
}

static int create_endpoint(struct umfi_port *port, size_t tx_size, size_t rx_size)
{
    struct umfi_fabric *fabric = port->domain->fabric;
    const struct unetmm_info *limits = &fabric->dev.limits;
    struct unetmm_ep_attr attr = UNETMM_EP_ATTR_INIT;
    size_t slots = UMFI_COPY_SLOTS * tx_size;
    struct umfi_op *ops;
    int ret;

    attr.send_slots = umfi_ring_depth(slots < UMFI_RMA_SLOTS ? UMFI_RMA_SLOTS : slots, limits);
    attr.free_depth = umfi_ring_depth(rx_size, limits);
    attr.completion_depth = umfi_ring_depth(attr.send_slots + attr.free_depth, limits);
    attr.spin_ns = 0;
    /* Each message of FI_MSG takes a buffer, however short it is. */
    attr.flags = UNETMM_EP_NO_INLINE;
    attr.policy = umfi_config.policy;
    port->slots = attr.send_slots;
    port->depth = attr.completion_depth;
    port->channels = limits->channels;
    port->by_channel = calloc(port->channels, sizeof(struct umfi_ep *));
    port->channel_ends = calloc(port->channels, sizeof(*port->channel_ends));
    ops = calloc((size_t)attr.send_slots + attr.free_depth, sizeof(*ops));
    if (!port->by_channel || !port->channel_ends || !ops) {
        free(ops);
        return -FI_ENOMEM;
    }
    umfi_pool_fill(&port->tx, ops, attr.send_slots);
    umfi_pool_fill(&port->rx, ops + attr.send_slots, attr.free_depth);
    ret = unetmm_ep_create(fabric->ctx, &attr, &port->ep);
    if (ret) {
        UMFI_WARN(FI_LOG_EP_CTRL, "%s\n",
                  unetmm_strerror(ret, UNETMM_CALL_EP_CREATE));
        return ret;
    }
    ret = listen_at_random_service(port);
    if (ret) {
        UMFI_WARN(FI_LOG_EP_CTRL, "%s\n", unetmm_strerror(ret, UNETMM_CALL_LISTEN));
        unetmm_ep_destroy(port->ep);
    }
    return ret;
}

/* The operations of both pools are one array. */
static void free_port(struct umfi_port *port)
{
    free(port->by_channel);
    free(port->channel_ends);
    free(port->tx.ops);
    free(port);
}

int umfi_port_open(struct umfi_domain *domain, size_t tx_size, size_t rx_size,
                   const struct umfi_port_events *events, struct umfi_port **out)
{
    struct umfi_port *port = calloc(1, sizeof(*port));
    int ret;

    if (!port) {
        return -FI_ENOMEM;
    }
    port->domain = domain;
    port->events = events;
    umfi_list_init(&port->node);
    umfi_list_init(&port->arrivals);
    umfi_list_init(&port->accepting);
    umfi_list_init(&port->ending);
    ret = umfi_pin(domain->fabric, &port->scratch, 1);
    if (!ret) {
        ret = create_endpoint(port, tx_size, rx_size);
        if (ret) {
            umfi_unpin(domain->fabric, &port->scratch, 1);
        }
    }
    if (ret) {
        free_port(port);
        return ret;
    }
    sys_lock_take(&domain->fabric->lock);
    umfi_list_add(&domain->fabric->ports, &port->node);
    sys_lock_drop(&domain->fabric->lock);
    *out = port;
    return 0;
}

static void drop_arrivals(struct umfi_port *port)
{
    struct umfi_arrival *arrival;

    umfi_for_each(arrival, &port->arrivals, node) {
        umfi_arrival_free(port->domain->fabric, arrival);
    }
}

void umfi_port_close(struct umfi_port *port)
{
    int ret;

    umfi_calls_cancel(port->domain->fabric, port->ep);
    sys_lock_take(&port->domain->fabric->lock);
    umfi_list_del(&port->node);
    umfi_lock(port->domain);
    drop_arrivals(port);
    umfi_unlock(port->domain);
    sys_lock_drop(&port->domain->fabric->lock);
    ret = unetmm_ep_destroy(port->ep);
    if (ret) {
        UMFI_WARN(FI_LOG_EP_CTRL, "destroying an endpoint: error %d\n", ret);
    }
    umfi_unpin(port->domain->fabric, &port->scratch, 1);
    free_port(port);
}
