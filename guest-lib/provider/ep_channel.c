/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The channel of an EP, from its opening to its end behind all messages.
 *
 * All functions are called under the domain's lock.
 */
#include "provider.h"

#include <errno.h>
#include <poll.h>

#define LOOK_MS     10

bool umfi_ep_begin_accepting(struct umfi_ep *ep, unsigned channel)
{
    sys_assert_held(&ep->domain->lock);
    /* The end of the channel may have come. */
    umfi_port_progress(ep->port);
    ep->channel = channel;
    ep->open = true;
    umfi_ep_set_state(ep, UMFI_ACCEPTING);
    umfi_list_add(&ep->port->accepting, &ep->node);
    if (umfi_port_has_ended(ep->port, channel)) {
        umfi_ep_fail_accepting(ep, ep->port->failed ? FI_EIO : FI_ECONNABORTED);
        return false;
    }
    return true;
}

void umfi_ep_connected(struct umfi_ep *ep, const void *data, size_t len)
{
    sys_assert_held(&ep->domain->lock);
    umfi_list_del(&ep->node);
    umfi_ep_set_state(ep, UMFI_CONNECTED);
    umfi_port_claim_channel(ep->port, ep);
    umfi_ep_push_event(ep, FI_CONNECTED, 0, data, len);
}

/* The program has FI_SHUTDOWN, or the error of a connection that there was not. */
static void end_ep(struct umfi_ep *ep, int error)
{
    umfi_list_del(&ep->node);
    umfi_ep_set_state(ep, UMFI_ENDED);
    umfi_ep_push_event(ep, error ? 0 : FI_SHUTDOWN, error, NULL, 0);
    if (!ep->srx) {
        /* The card gives the sends back, and keeps the buffers. */
        umfi_pool_cancel_ops(&ep->port->rx, ep, false);
    }
}

void umfi_ep_fail_accepting(struct umfi_ep *ep, int error)
{
    sys_assert_held(&ep->domain->lock);
    if (ep->open) {
        ep->open = false;
        umfi_port_release_channel(ep->port, ep);
    }
    end_ep(ep, error);
}

static void channel_ended(struct umfi_ep *ep, unsigned status)
{
    UMFI_INFO(FI_LOG_EP_CTRL, "the channel has ended: %s\n", unetmm_status_str(status));
    if (ep->state == UMFI_ACCEPTING) {
        umfi_ep_fail_accepting(ep, umfi_connection_error(status));
    } else if (ep->state == UMFI_CONNECTED || ep->state == UMFI_ENDING) {
        end_ep(ep, 0);
    }
}

/* Posts a fence behind all messages that were sent.  -EAGAIN: no room for it yet. */
static int post_fence(struct umfi_ep *ep)
{
    struct umfi_op *fence = umfi_op_fill(&ep->port->tx, ep, NULL, 0, NULL, FI_SEND, NULL);
    int ret;

    if (!fence) {
        return -EAGAIN;
    }
    fence->told = true;
    ret = unetmm_fence(ep->port->ep, (int)ep->channel, (uintptr_t)fence, 0);
    if (!ret) {
        umfi_send_begin(ep);
        fence->is_fence = true;
        ep->fence = fence;
        ep->injected = false;
        ep->fence_ms = umfi_now_ms() + umfi_config.close_ms;
    }
    return ret;
}

/* The completion of the EP's fence may come after the EP: it frees the operation alone. */
static void forget_fence(struct umfi_ep *ep)
{
    if (ep->fence) {
        ep->fence->is_fence = false;
        ep->fence = NULL;
    }
}

/*
 * The card takes a message out of the send queue long before the peer's card acknowledges the
 * message: unetmm_send_pending() does not tell.
 */
static bool has_unsent(const struct umfi_ep *ep)
{
    return (ep->injected || ep->sends) && ep->state == UMFI_CONNECTED && ep->open &&
        !ep->port->failed;
}

/* EPs that share a port share its slots: half of them are for messages. */
static bool has_room_for_fence(const struct umfi_port *port)
{
    return unetmm_send_pending(port->ep) < (int)(port->slots / 2);
}

/*
 * One EP waits for its peer.  The time of all other peers of the domain begins as well:
 * those that have gone then cost a program that closes its EPs one such time in all.
 */
static void fence_other_eps(struct umfi_domain *domain)
{
    struct umfi_ep *ep;

    umfi_for_each(ep, &domain->eps, in_domain) {
        if (ep->port && !ep->fence && has_room_for_fence(ep->port) && has_unsent(ep)) {
            post_fence(ep);
        }
    }
}

/* The EP sends nothing more, and waits until its peer's card has all messages, in time. */
static void begin_ending(struct umfi_ep *ep)
{
    ep->fenced = !has_unsent(ep);
    umfi_ep_set_state(ep, UMFI_ENDING);
    ep->until_ms = umfi_now_ms() + umfi_config.close_ms;
}

/* An earlier fence may stand before some of the messages, and its time may be over earlier. */
static bool is_drained(struct umfi_ep *ep)
{
    int64_t now = umfi_now_ms();
    int ret;

    if (ep->state != UMFI_ENDING || ep->port->failed || now >= ep->until_ms) {
        return true;
    }
    if (ep->fence) {
        return !ep->fenced && now >= ep->fence_ms;
    }
    if (ep->fenced) {
        return true;
    }
    ret = post_fence(ep);
    ep->fenced = !ret;
    return ret && ret != -EAGAIN;
}

/*
 * Sleeps without the lock until all sends are drained, so that others of the domain go on.
 * One of them may take the port's wake-up: hence LOOK_MS.
 */
static void drain_sends(struct umfi_ep *ep)
{
    struct pollfd wake = { .fd = unetmm_fd(ep->port->ep), .events = POLLIN };
    bool waits = false;

    for (;;) {
        int64_t left;

        umfi_port_progress(ep->port);
        if (is_drained(ep)) {
            return;
        }
        left = ep->until_ms - umfi_now_ms();
        if (!waits) {
            fence_other_eps(ep->domain);
            waits = true;
        }
        if (left > 0 && !unetmm_arm(ep->port->ep)) {
            umfi_unlock(ep->domain);
            poll(&wake, 1, (int)(left < LOOK_MS ? left : LOOK_MS));
            umfi_lock(ep->domain);
        }
    }
}

static void end_channel(struct umfi_ep *ep)
{
    /* All messages until now are the program's. */
    umfi_port_progress(ep->port);
    ep->open = false;
    umfi_port_release_channel(ep->port, ep);
}

static void end_drained_eps(struct umfi_port *port)
{
    struct umfi_list *next;

    for (struct umfi_list *i = port->ending.next; i != &port->ending; i = next) {
        struct umfi_ep *ep = umfi_of(i, struct umfi_ep, node);

        next = i->next;
        if (is_drained(ep)) {
            /* end_channel() makes progress, which may end other EPs of the list. */
            umfi_list_del(&ep->node);
            end_channel(ep);
            channel_ended(ep, UNETMM_ST_OK);
            next = port->ending.next;
        }
    }
}

int umfi_ep_begin_shutdown(struct umfi_ep *ep)
{
    sys_assert_held(&ep->domain->lock);
    if (ep->state != UMFI_CONNECTED || !ep->open) {
        return -FI_ENOTCONN;
    }
    begin_ending(ep);
    umfi_list_add(&ep->port->ending, &ep->node);
    umfi_port_progress(ep->port);
    return 0;
}

void umfi_ep_close_channel(struct umfi_ep *ep)
{
    sys_assert_held(&ep->domain->lock);
    umfi_list_del(&ep->node);
    if (has_unsent(ep)) {
        begin_ending(ep);
    }
    if (ep->state == UMFI_ENDING) {
        drain_sends(ep);
    }
    forget_fence(ep);
    if (ep->open) {
        end_channel(ep);
    }
    umfi_ep_set_state(ep, UMFI_ENDED);
}

const struct umfi_port_events umfi_channel_events = {
    .connected = umfi_ep_connected,
    .ended = channel_ended,
    .progressed = end_drained_eps,
};
