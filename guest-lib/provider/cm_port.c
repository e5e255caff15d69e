/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * CM ports: endpoints of the card for messages of connection management.
 *
 * Lifetime: the connector's port is the fabric's; it begins with the first fi_connect().  When
 * the card has stopped it, the next fi_connect() replaces it, and it ends with the last call that
 * uses it.  A listener's port begins with fi_listen().  It ends when its PEP has been closed and
 * its last conn has ended, or when fi_listen() replaces it.  The end of the fabric ends all.
 *
 * The buffers are the card's, but between a completion and umfi_cm_port_copy_message().  All
 * functions are called under the fabric's lock.
 */
#include "cm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BUFFERS         64u
#define BUFFER_BYTES    256u

bool umfi_cm_port_poll(struct umfi_cm_port *port, struct unetmm_completion *c)
{
    int n;

    sys_assert_held(&port->fabric->lock);
    n = port->failed ? 0 : unetmm_poll(port->ep, c, 1);
    if (n < 0) {
        UMFI_WARN(FI_LOG_EP_CTRL, "the endpoint for connections has stopped: %s\n",
                  unetmm_strerror(n, UNETMM_CALL_POLL));
        port->failed = true;
    }
    return n > 0;
}

/* A peer that has a key may write, too: that takes a buffer, and fills none. */
static bool has_buffer(const struct unetmm_completion *c)
{
    return c->type == UNETMM_CQE_BUFFER || c->type == UNETMM_CQE_WRITTEN ||
        (c->type == UNETMM_CQE_RECEIVED && !c->is_inline);
}

/* A refusal, for want of memory, is not the end: see umfi_cm_port_post_refused(). */
static int post_buffer(struct umfi_cm_port *port, uint64_t buffer)
{
    int ret = unetmm_post_recv(port->ep, port->buffers + buffer * BUFFER_BYTES, BUFFER_BYTES,
                               buffer, 0);

    port->refused &= ~(1ull << buffer);
    port->refused |= (uint64_t)!!ret << buffer;
    return ret;
}

void umfi_cm_port_post_refused(struct umfi_cm_port *port)
{
    for (unsigned i = 0; i < BUFFERS && port->refused; i++) {
        if (port->refused >> i & 1) {
            post_buffer(port, i);
        }
    }
}

void umfi_cm_port_copy_message(struct umfi_cm_port *port, const struct unetmm_completion *c,
                               struct umfi_message *m)
{
    if (has_buffer(c)) {
        memcpy(m, port->buffers + c->user_data * BUFFER_BYTES, sizeof(*m));
        post_buffer(port, c->user_data);
    }
}

struct umfi_conn *umfi_cm_port_find_conn(const struct umfi_cm_port *port, unsigned channel)
{
    return channel < port->fabric->dev.limits.channels ? port->by_channel[channel] : NULL;
}

bool umfi_cm_port_knows_end(const struct umfi_cm_port *port, unsigned channel)
{
    return channel < port->fabric->dev.limits.channels &&
        port->channel_ends[channel] != UMFI_END_NONE;
}

void umfi_cm_port_take_end(struct umfi_cm_port *port, unsigned channel)
{
    if (channel < port->fabric->dev.limits.channels) {
        port->channel_ends[channel] = umfi_end_when_taken(port->channel_ends[channel]);
    }
}

void umfi_cm_port_end_channel(struct umfi_cm_port *port, unsigned channel)
{
    port->by_channel[channel] = NULL;
    port->channel_ends[channel] = umfi_end_when_left(port->channel_ends[channel]);
    unetmm_disconnect(port->ep, (int)channel);
}

void umfi_cm_port_free(struct umfi_cm_port *port)
{
    sys_assert_held(&port->fabric->lock);
    umfi_list_del(&port->node);
    if (port->ep) {
        epoll_ctl(port->fabric->epoll, EPOLL_CTL_DEL, unetmm_fd(port->ep), NULL);
        unetmm_ep_destroy(port->ep);
    }
    if (port->buffers && umfi_config.source == UNETMM_SOURCE_PINNED) {
        unetmm_deregister(port->fabric->ctx, port->buffers,
                          (size_t)BUFFERS * BUFFER_BYTES);
    }
    free(port->buffers);
    free(port->by_channel);
    free(port->channel_ends);
    free(port);
}

static int post_buffers(struct umfi_cm_port *port)
{
    size_t bytes = (size_t)BUFFERS * BUFFER_BYTES;
    int ret = 0;

    port->buffers = aligned_alloc(4096, bytes);
    if (!port->buffers) {
        return -FI_ENOMEM;
    }
    memset(port->buffers, 0, bytes);
    if (umfi_config.source == UNETMM_SOURCE_PINNED) {
        ret = unetmm_register(port->fabric->ctx, port->buffers, bytes,
                              UNETMM_REGION_WRITE);
        if (ret) {
            /* umfi_cm_port_free() ends a registration. */
            free(port->buffers);
            port->buffers = NULL;
        }
    }
    for (unsigned i = 0; !ret && i < BUFFERS; i++) {
        ret = post_buffer(port, i);
    }
    return ret;
}

static int create_endpoint(struct umfi_cm_port *port)
{
    struct unetmm_ep_attr attr = UNETMM_EP_ATTR_INIT;
    struct epoll_event event = { .events = EPOLLIN };
    const struct unetmm_info *limits = &port->fabric->dev.limits;
    int ret;

    /* Sends do not wait: a copied message for each channel */
    attr.send_slots = umfi_ring_depth((size_t)UMFI_COPY_SLOTS * limits->channels, limits);
    attr.free_depth = BUFFERS;
    attr.completion_depth = UMFI_CM_COMPLETIONS;
    attr.spin_ns = 0;
    attr.policy = umfi_config.policy;
    ret = unetmm_ep_create(port->fabric->ctx, &attr, &port->ep);
    if (ret) {
        UMFI_WARN(FI_LOG_EP_CTRL, "%s\n",
                  unetmm_strerror(ret, UNETMM_CALL_EP_CREATE));
        return ret;
    }
    ret = post_buffers(port);
    if (!ret && epoll_ctl(port->fabric->epoll, EPOLL_CTL_ADD, unetmm_fd(port->ep),
                          &event)) {
        ret = -errno;
    }
    return ret;
}

int umfi_cm_port_open(struct umfi_fabric *fabric, struct umfi_pep *pep,
                      struct umfi_cm_port **out)
{
    struct umfi_cm_port *port = calloc(1, sizeof(*port));
    int ret = -FI_ENOMEM;

    if (!port) {
        return ret;
    }
    port->fabric = fabric;
    port->pep = pep;
    port->listens = pep;
    umfi_list_init(&port->node);
    umfi_list_init(&port->conns);
    port->idle_most = (fabric->dev.limits.channels + 1) / 2;
    port->by_channel = calloc(fabric->dev.limits.channels, sizeof(struct umfi_conn *));
    port->channel_ends = calloc(fabric->dev.limits.channels, sizeof(*port->channel_ends));
    if (port->by_channel && port->channel_ends) {
        ret = create_endpoint(port);
    }
    if (ret) {
        sys_lock_take(&fabric->lock);
        umfi_cm_port_free(port);
        sys_lock_drop(&fabric->lock);
        return ret;
    }
    *out = port;
    return 0;
}
