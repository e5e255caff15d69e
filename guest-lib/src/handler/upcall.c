/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls of handlers: the choice of the handler, and the endpoint after the call.
 */
#include "handler.h"

struct unetmm_notify_upcall *unetmm_notify_find(const struct unetmm_handlers *h,
                                                uint64_t user_data)
{
    size_t i;

    for (i = 0; i < h->nnotify; i++) {
        if (h->notify[i].user_data == user_data) {
            return &h->notify[i];
        }
    }
    return NULL;
}

/* ---- Calling ----------------------------------------------------------- */

static const struct unetmm_upcall *find(const struct unetmm_ep_private *ep,
                                        const struct unetmm_completion *c)
{
    const struct unetmm_handlers *h = &ep->handlers;
    const struct unetmm_notify_upcall *notify =
        c->type == UNETMM_CQE_NOTIFY ? unetmm_notify_find(h, c->user_data) : NULL;

    if (notify) {
        return &notify->upcall;
    }
    /* A buffer that comes back unfilled is of no channel. */
    if (h->channel && c->type != UNETMM_CQE_BUFFER &&
        c->channel < ep->pub.channels && h->channel[c->channel].handler) {
        return &h->channel[c->channel];
    }
    return &h->every;
}

static void set_runner(struct unetmm_handlers *h, uintptr_t runner)
{
    atomic_store_explicit(&h->runner, runner, memory_order_relaxed);
}

/*
 * A thread that is cancelled in a handler would be in it for ever.  Returns the
 * argument of upcall_ends().
 */
static int upcall_begins(struct unetmm_ep_private *ep)
{
    ep->handlers.inner = 0;
    set_runner(&ep->handlers, (uintptr_t)pthread_self());
    return sys_cancel_disable();
}

/* The handler has returned.  Returns the endpoint's state now. */
static int upcall_ends(struct unetmm_ep_private *ep, int state)
{
    struct unetmm_handlers *h = &ep->handlers;

    sys_cancel_restore(state);
    if (h->ep_destroyed) {
        unetmm_ep_free(ep);
        return -ESHUTDOWN;
    }
    if (!ep->pub.alive) {
        return -EOWNERDEAD;
    }
    set_runner(h, 0);
    return 0;
}

int unetmm_upcall(struct unetmm_ep_private *ep,
                  const struct unetmm_completion *c)
{
    struct unetmm_handlers *h = &ep->handlers;
    int state = upcall_begins(ep);

    if (c) {
        const struct unetmm_upcall upcall = *find(ep, c);

        upcall.handler(&ep->pub, c, upcall.arg);
    } else {
        h->end(&ep->pub, h->error, h->end_arg);
    }
    return upcall_ends(ep, state);
}

static int upcall_event(struct unetmm_ep_private *ep,
                        unetmm_event_handler handler,
                        struct unetmm_event_counter *counter, uint64_t now,
                        void *arg)
{
    int state = upcall_begins(ep);

    handler(&ep->pub, counter, now, arg);
    return upcall_ends(ep, state);
}

/* The first that is due, from this one on. */
static struct unetmm_event_private *next_due(struct unetmm_event_private *c)
{
    while (c && unetmm_event_read(&c->pub) == c->seen) {
        c = c->next;
    }
    return c;
}

int unetmm_upcall_events(struct unetmm_ep_private *ep, unsigned most)
{
    struct unetmm_event_private *c = next_due(ep->counters);
    unsigned done = 0;

    while (c && done < most && done < INT32_MAX &&
           !atomic_load(&ep->handlers.blocked)) {
        struct unetmm_event_private *last = c;
        int ret;

        c->seen = unetmm_event_read(&c->pub);
        ret = upcall_event(ep, c->handler, &c->pub, c->seen, c->arg);
        if (ret) {
            return ret;
        }
        done++;
        /* The handler may have changed the list: on behind it if it is there. */
        for (c = ep->counters; c && c != last; c = c->next) {
        }
        c = c ? next_due(c->next) : NULL;
    }
    return (int)done;
}
