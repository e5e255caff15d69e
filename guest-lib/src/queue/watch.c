/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The event counters that the waiter of an endpoint watches.
 *
 * The waiter looks at them as it looks for completions, and sleeps on the endpoint's
 * descriptor, which the driver signals for both.  Another waiter's wake-up may have
 * consumed an arming, so all counters are armed before each sleep.
 */
#include "queue.h"

static int arm_counter(const struct unetmm_event_private *c, int event_fd, uint64_t *now)
{
    struct unetmm_event_arm request = {
        .size = sizeof(request),
        .id = c->id,
        .value = c->seen + 1,
        .event_fd = event_fd,
    };
    int ret = sys_ioctl(c->ctx->fd, UNETMM_IOC_EVENT_ARM, &request);

    *now = request.now;
    return ret < 0 ? ret : 0;
}

bool unetmm_watch_due(const struct unetmm_ep_private *ep)
{
    const struct unetmm_event_private *c;

    for (c = ep->counters; c; c = c->next) {
        if (unetmm_event_read(&c->pub) != c->seen) {
            return true;
        }
    }
    return false;
}

int unetmm_watch_arm(struct unetmm_ep_private *ep)
{
    const struct unetmm_event_private *c;
    uint64_t now;

    for (c = ep->counters; c; c = c->next) {
        int ret = arm_counter(c, ep->event_fd, &now);

        if (ret || now != c->seen) {
            return ret ? ret : 1;
        }
    }
    return unetmm_watch_due(ep);
}

void unetmm_watch_end(struct unetmm_event_private *c)
{
    struct unetmm_event_private **link = &c->ep->counters;
    uint64_t now;

    while (*link != c) {
        link = &(*link)->next;
    }
    *link = c->next;
    c->ep = NULL;
    arm_counter(c, -1, &now);
}

void unetmm_watch_end_all(struct unetmm_ep_private *ep)
{
    while (ep->counters) {
        unetmm_watch_end(ep->counters);
    }
}
