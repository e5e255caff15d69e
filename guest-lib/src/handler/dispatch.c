/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Handlers: which one, when, and when not.
 *
 * Completions are taken one at a time: a handler that takes some itself, blocks
 * handlers, or destroys the endpoint leaves none behind in between.  A completion
 * not taken is in the completion queue: nothing else queues, so nothing is lost
 * that the card has accepted.
 */
#include "handler.h"

static int may_dispatch(const struct unetmm_ep_private *ep)
{
    const struct unetmm_handlers *h = &ep->handlers;

    if (unetmm_in_handler(ep)) {
        return -EDEADLK;
    }
    if (h->has_thread) {
        return -EBUSY;
    }
    if (atomic_load(&h->blocked)) {
        return -EDEADLK;
    }
    return h->every.handler ? 0 : -ENOENT;
}

/*
 * Waits for a completion (1), or calls counters' handlers that are due and counts
 * them in *done (0).  By the deadline 0 and none; or -errno.
 */
static int next_event(struct unetmm_ep_private *ep,
                      struct unetmm_completion *c, unsigned most,
                      uint64_t deadline, unsigned *done)
{
    int ret;

    do {
        ret = unetmm_upcall_events(ep, most);
        if (ret) {
            *done = ret > 0 ? (unsigned)ret : 0;
            return ret < 0 ? ret : 0;
        }
        ret = unetmm_wait_any(&ep->pub, c, 1, unetmm_time_until(deadline),
                              true);
        /* Another thread may have blocked handlers meanwhile: then nothing is called. */
    } while (!ret && unetmm_watch_due(ep) && !may_dispatch(ep));
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
