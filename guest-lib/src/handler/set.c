/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Setting handlers: of an endpoint, a channel, a notification, an event counter.
 */
#include "handler.h"

/* ---- Setting ----------------------------------------------------------- */

static int set_channel(struct unetmm_ep_private *ep, int channel,
                       struct unetmm_upcall upcall)
{
    struct unetmm_handlers *h = &ep->handlers;

    if (!h->channel) {
        if (!upcall.handler) {
            return 0;
        }
        h->channel = sys_calloc(ep->pub.channels, sizeof(*h->channel));
        if (!h->channel) {
            return -ENOMEM;
        }
    }
    h->channel[channel] = upcall;
    return 0;
}

static int set_every(struct unetmm_handlers *h, struct unetmm_upcall upcall)
{
    if (h->has_thread && !upcall.handler) {
        return -EBUSY;
    }
    h->every = upcall;
    return 0;
}

static int set_notify(struct unetmm_handlers *h, uint64_t user_data,
                      struct unetmm_upcall upcall)
{
    struct unetmm_notify_upcall *entry = unetmm_notify_find(h, user_data);
    struct unetmm_notify_upcall *all;

    if (entry && upcall.handler) {
        entry->upcall = upcall;
        return 0;
    }
    if (entry) {
        *entry = h->notify[--h->nnotify];
        return 0;
    }
    if (!upcall.handler) {
        return 0;
    }
    all = sys_calloc(h->nnotify + 1, sizeof(*all));
    if (!all) {
        return -ENOMEM;
    }
    if (h->nnotify) {
        memcpy(all, h->notify, h->nnotify * sizeof(*all));
    }
    all[h->nnotify++] = (struct unetmm_notify_upcall) { user_data, upcall };
    free(h->notify);
    h->notify = all;
    return 0;
}

int unetmm_set_notify_handler(struct unetmm_ep *pub, uint64_t user_data,
                              unetmm_handler handler, void *arg)
{
    struct unetmm_upcall upcall = { handler, arg };
    int ret;

    if (!pub->alive) {
        return -EOWNERDEAD;
    }
    unetmm_handlers_block(pub);
    ret = set_notify(&unetmm_ep_private(pub)->handlers, user_data, upcall);
    unetmm_handlers_unblock(pub);
    return ret;
}

int unetmm_set_handler(struct unetmm_ep *pub, int channel,
                       unetmm_handler handler, void *arg)
{
    struct unetmm_ep_private *ep = unetmm_ep_private(pub);
    struct unetmm_upcall upcall = { handler, arg };
    int ret;

    if (!pub->alive) {
        return -EOWNERDEAD;
    }
    if (channel != UNETMM_EVERY_CHANNEL && !unetmm_mtu_(pub, channel)) {
        return -ENOENT;
    }
    unetmm_handlers_block(pub);
    if (channel == UNETMM_EVERY_CHANNEL) {
        ret = set_every(&ep->handlers, upcall);
    } else {
        ret = set_channel(ep, channel, upcall);
    }
    unetmm_handlers_unblock(pub);
    return ret;
}

/* ---- Event counters ----------------------------------------------------- */

static void set_counter_handler(struct unetmm_ep_private *ep, struct unetmm_event_private *c,
                                uint64_t seen, unetmm_event_handler handler, void *arg)
{
    if (!handler) {
        if (c->ep) {
            unetmm_watch_end(c);
        }
        return;
    }
    c->seen = seen;
    c->handler = handler;
    c->arg = arg;
    if (!c->ep) {
        c->ep = ep;
        c->next = ep->counters;
        ep->counters = c;
    }
}

int unetmm_event_set_handler(struct unetmm_ep *pub,
                             struct unetmm_event_counter *counter, uint64_t seen,
                             unetmm_event_handler handler, void *arg)
{
    struct unetmm_ep_private *ep = unetmm_ep_private(pub);
    struct unetmm_event_private *c = unetmm_event_private(counter);

    if (!pub->alive) {
        return -EOWNERDEAD;
    }
    if (c->ctx != ep->ctx) {
        return -EINVAL;
    }
    if (c->ep && c->ep != ep) {
        return -EBUSY;
    }
    unetmm_handlers_block(pub);
    set_counter_handler(ep, c, seen, handler, arg);
    /* A sleeping thread waits only for the counters that it knew. */
    if (ep->handlers.has_thread) {
        sys_eventfd_add(ep->event_fd);
    }
    /* From here on a handler may destroy the endpoint. */
    unetmm_handlers_unblock(pub);
    return 0;
}
