/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Handlers: which one, when, and when not.
 *
 * Completions are taken one at a time: a handler that takes some itself, blocks
 * handlers, or destroys the endpoint leaves none behind in between.  A completion
 * not taken is in the completion queue: nothing else queues, so nothing is lost
 * that the card has accepted.
 */
#include "../base/base.h"
#include "../base/sys.h"

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
    if (h->threaded && !upcall.handler) {
        return -EBUSY;
    }
    h->every = upcall;
    return 0;
}

static struct unetmm_notify_upcall *find_notify(
    const struct unetmm_handlers *h, uint64_t user_data)
{
    size_t i;

    for (i = 0; i < h->nnotify; i++) {
        if (h->notify[i].user_data == user_data) {
            return &h->notify[i];
        }
    }
    return NULL;
}

static int set_notify(struct unetmm_handlers *h, uint64_t user_data,
                      struct unetmm_upcall upcall)
{
    struct unetmm_notify_upcall *entry = find_notify(h, user_data);
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

/* ---- Calling ----------------------------------------------------------- */

static const struct unetmm_upcall *find(const struct unetmm_ep_private *ep,
                                        const struct unetmm_completion *c)
{
    const struct unetmm_handlers *h = &ep->handlers;
    const struct unetmm_notify_upcall *notify =
        c->type == UNETMM_CQE_NOTIFY ? find_notify(h, c->user_data) : NULL;

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

/* It has returned; returns the endpoint's state now. */
static int upcall_ends(struct unetmm_ep_private *ep, int state)
{
    struct unetmm_handlers *h = &ep->handlers;

    sys_cancel_restore(state);
    if (h->gone) {
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

int unetmm_upcall_event(struct unetmm_ep_private *ep,
                        unetmm_event_handler handler,
                        struct unetmm_event_counter *counter, uint64_t now,
                        void *arg)
{
    int state = upcall_begins(ep);

    handler(&ep->pub, counter, now, arg);
    return upcall_ends(ep, state);
}

static int may_dispatch(const struct unetmm_ep_private *ep)
{
    const struct unetmm_handlers *h = &ep->handlers;

    if (unetmm_in_handler(ep)) {
        return -EDEADLK;
    }
    if (h->threaded) {
        return -EBUSY;
    }
    if (atomic_load(&h->blocked)) {
        return -EDEADLK;
    }
    return h->every.handler ? 0 : -ENOENT;
}

/*
 * A completion, or some calls of counters' handlers, done already: how many; or
 * none of both by the deadline, or -errno.
 */
static int next_event(struct unetmm_ep_private *ep,
                      struct unetmm_completion *c, unsigned most,
                      uint64_t deadline, unsigned *done)
{
    int ret;

    do {
        ret = unetmm_events_call(ep, most);
        if (ret) {
            *done = ret > 0 ? (unsigned)ret : 0;
            return ret < 0 ? ret : 0;
        }
        ret = unetmm_wait_any(&ep->pub, c, 1, unetmm_time_until(deadline),
                              true);
    } while (!ret && unetmm_events_due(ep));
    return ret;
}

int unetmm_dispatch(struct unetmm_ep *pub, unsigned most, int64_t timeout_ns)
{
    struct unetmm_ep_private *ep = unetmm_ep_private(pub);
    struct unetmm_completion c;
    unsigned done = 0;
    int ret;

    if (!pub->alive) {
        return -EOWNERDEAD;
    }
    if (!most) {
        return -EINVAL;
    }
    ret = may_dispatch(ep);
    if (ret) {
        return ret;
    }
    ret = next_event(ep, &c, most, unetmm_time_of(timeout_ns), &done);
    if (ret < 0 || (!ret && !done)) {
        return ret;
    }
    while (ret > 0 || (done < most && done < INT32_MAX && !may_dispatch(ep) &&
                       unetmm_poll(pub, &c, 1) > 0)) {
        ret = unetmm_upcall(ep, &c);
        if (ret) {
            return ret;
        }
        done++;
    }
    if (pub->unrung) {
        unetmm_ring(pub);
    }
    return (int)done;
}

/* ---- Blocking ---------------------------------------------------------- */

int unetmm_handlers_block(struct unetmm_ep *pub)
{
    struct unetmm_ep_private *ep = unetmm_ep_private(pub);
    struct unetmm_handlers *h = &ep->handlers;

    if (!pub->alive) {
        return -EOWNERDEAD;
    }
    pthread_mutex_lock(&h->lock);
    atomic_fetch_add(&h->blocked, 1);
    if (unetmm_in_handler(ep)) {
        h->inner++;
    } else {
        while (h->busy) {
            sys_cond_wait(&h->change, &h->lock);
        }
    }
    pthread_mutex_unlock(&h->lock);
    return 0;
}

int unetmm_handlers_unblock(struct unetmm_ep *pub)
{
    struct unetmm_ep_private *ep = unetmm_ep_private(pub);
    struct unetmm_handlers *h = &ep->handlers;
    int ret = -EPERM;

    if (!pub->alive) {
        return -EOWNERDEAD;
    }
    pthread_mutex_lock(&h->lock);
    if (unetmm_in_handler(ep)) {
        if (h->inner) {
            h->inner--;
            atomic_fetch_sub(&h->blocked, 1);
            ret = 0;
        }
    } else if (atomic_load(&h->blocked)) {
        ret = atomic_fetch_sub(&h->blocked, 1) == 1;
        if (ret && h->threaded) {
            unetmm_thread_resume(ep);
        }
    }
    pthread_mutex_unlock(&h->lock);
    return ret;
}
