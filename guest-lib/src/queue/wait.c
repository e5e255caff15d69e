/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Waiting: spin for a bounded time, then block.
 *
 * Blocking costs an interrupt, a wake-up and a switch, so it pays to spin as
 * long as that takes before paying it; a longer spin only takes the processor from
 * the producer of the answer, which on a small host includes the thread that
 * emulates the card.
 */
#include "queue.h"

#include <sched.h>

/*
 * Polls between two looks at the clock.  Where the clock is not read from the
 * time-stamp counter (an emulated machine), a look costs a system call and an
 * access to a device; a poll costs nanoseconds.
 */
#define POLLS_PER_LOOK  64

/* Has what the caller waits for, besides completions, come? */
static bool is_due(const struct unetmm_ep *ep, bool counters)
{
    return counters && unetmm_watch_due(unetmm_ep_private(ep));
}

int unetmm_spin(struct unetmm_ep *ep, struct unetmm_completion *c, unsigned n,
                uint64_t end, bool counters)
{
    do {
        unsigned i;

        for (i = 0; i < POLLS_PER_LOOK; i++) {
            int ret = unetmm_poll(ep, c, n);

            if (ret || is_due(ep, counters)) {
                return ret;
            }
        }
        unetmm_relax();
    } while (sys_now_ns() < end);
    return 0;
}

static int spin_forever(struct unetmm_ep *ep, struct unetmm_completion *c,
                        unsigned n, uint64_t deadline, bool counters)
{
    for (;;) {
        uint64_t now = sys_now_ns();
        uint64_t left = deadline > now ? deadline - now : 0;
        int ret = unetmm_spin(ep, c, n, now + (left < UNETMM_YIELD_NS ? left :
                                               UNETMM_YIELD_NS), counters);

        if (ret || !left || is_due(ep, counters)) {
            return ret;
        }
        sched_yield();
    }
}

/*
 * Arms without draining the descriptor.  0: the caller may block.  1: there is something to
 * take, which may have come before or after.  -errno: a counter could not be armed.
 */
static int arm_endpoint(struct unetmm_ep *ep, bool counters)
{
    uint32_t state;
    int there;

    if (ep->stashed) {
        return 1;
    }
    /* A caller that blocks waits for answers to the queued messages. */
    if (ep->unrung) {
        unetmm_ring(ep);
    }
    unetmm_write_word(&ep->index->user.cq_arm,
                      UNETMM_ARM | (ep->cq_cons & UNETMM_ARM_COUNT));
    unetmm_arm_barrier();
    unetmm_next_flags_(ep, ep->cq_cons, &there);
    if (there) {
        return 1;
    }
    state = unetmm_read_word(&ep->index->card.state);
    if (state & UNETMM_EP_CQ_BLOCKED ||
        (state & UNETMM_EP_FQ_AWAITED && ep->unlooked)) {
        ep->unlooked = 0;
        unetmm_ring(ep);
    }
    if (state & UNETMM_EP_ERROR) {
        return 1;
    }
    return counters ? unetmm_watch_arm(unetmm_ep_private(ep)) : 0;
}

int unetmm_arm(struct unetmm_ep *ep)
{
    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    /* Before arming: a wake-up that comes from now on must stay. */
    sys_eventfd_drain(unetmm_ep_private(ep)->event_fd);
    return arm_endpoint(ep, true);
}

int unetmm_fd(const struct unetmm_ep *ep)
{
    return ep->alive ? unetmm_ep_private(ep)->event_fd : -EOWNERDEAD;
}

/* Blocks until the descriptor is readable.  0: the deadline has passed. */
static int block_on(int fd, uint64_t deadline)
{
    struct pollfd entry = { .fd = fd, .events = POLLIN };
    struct timespec left;
    uint64_t now;
    int ret;

    if (deadline == UINT64_MAX) {
        ret = sys_ppoll(&entry, 1, NULL);
    } else {
        now = sys_now_ns();
        if (now >= deadline) {
            return 0;
        }
        left.tv_sec = (time_t)((deadline - now) / 1000000000u);
        left.tv_nsec = (long)((deadline - now) % 1000000000u);
        ret = sys_ppoll(&entry, 1, &left);
    }
    if (ret > 0) {
        sys_eventfd_drain(fd);
    }
    return ret;
}

static int wait_blocked(struct unetmm_ep *ep, struct unetmm_completion *c,
                        unsigned n, uint64_t deadline, bool counters)
{
    int fd = unetmm_ep_private(ep)->event_fd;

    for (;;) {
        int ret = arm_endpoint(ep, counters);

        if (ret < 0) {
            return ret;
        }
        if (!ret) {
            int woken = block_on(fd, deadline);

            if (woken < 0) {
                return woken;
            }
            ret = unetmm_poll(ep, c, n);
            if (ret || !woken || is_due(ep, counters)) {
                return ret;
            }
            /* An old wake-up: a spin took the completion that it announced. */
        } else {
            ret = unetmm_poll(ep, c, n);
            if (ret || is_due(ep, counters)) {
                return ret;
            }
        }
    }
}

int unetmm_wait(struct unetmm_ep *ep, struct unetmm_completion *c, unsigned n,
                int64_t timeout_ns)
{
    return unetmm_wait_any(ep, c, n, timeout_ns, false);
}

int unetmm_wait_any(struct unetmm_ep *ep, struct unetmm_completion *c,
                    unsigned n, int64_t timeout_ns, bool counters)
{
    uint64_t deadline, spin_end;
    uint32_t spin_ns;
    int ret;

    if (ep->alive && !n) {
        return -EINVAL;
    }
    if (ep->alive && ep->unrung) {
        unetmm_ring(ep);
    }
    ret = unetmm_poll(ep, c, n);
    if (ret || !timeout_ns || is_due(ep, counters)) {
        return ret;
    }
    deadline = unetmm_time_of(timeout_ns);
    spin_ns = unetmm_ep_private(ep)->spin_ns;
    if (spin_ns == UNETMM_SPIN_FOREVER) {
        return spin_forever(ep, c, n, deadline, counters);
    }
    if (spin_ns) {
        spin_end = sys_now_ns() + spin_ns;
        ret = unetmm_spin(ep, c, n,
                          spin_end < deadline ? spin_end : deadline, counters);
        if (ret || is_due(ep, counters)) {
            return ret;
        }
    }
    return wait_blocked(ep, c, n, deadline, counters);
}
