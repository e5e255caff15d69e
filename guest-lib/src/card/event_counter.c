/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Event counters: the page that they are in, waiting, and their handlers.
 *
 * A handler's counter belongs to one endpoint, whose dispatcher or thread looks at
 * it as it looks for completions, and sleeps on the endpoint's own descriptor,
 * which the driver signals for both.  A wake-up that was for somebody else may have
 * used an arming up, so all of them are armed before each sleep.
 */
#include "../base/base.h"
#include "../base/sys.h"

#include <sched.h>

#define SPIN_NS         20000u  /* before blocking, if both were asked for */
#define READS_PER_LOOK  64      /* at the clock */

struct counter {
    struct unetmm_event_counter pub;  /* first: the handle points here */
    struct unetmm_ctx *ctx;
    uint32_t id;
    /* Of its endpoint, while handlers are blocked there */
    struct unetmm_ep_private *ep;
    struct counter *next;
    uint64_t seen;
    unetmm_event_handler handler;
    void *arg;
};

static struct counter *priv(const struct unetmm_event_counter *counter)
{
    return (struct counter *)(uintptr_t)counter;
}

/* ---- Making and ending ------------------------------------------------- */

static void close_numbers(struct unetmm_ctx *ctx, uint32_t id, unsigned n)
{
    struct unetmm_event_id request = { .size = sizeof(request), .id = id,
                                       .count = n };

    sys_ioctl(ctx->fd, UNETMM_IOC_EVENT_CLOSE, &request);
}

/* The page of all counters of the context, mapped at first use. */
static int map_page(struct unetmm_ctx *ctx, uint64_t offset)
{
    int ret = 0;

    pthread_mutex_lock(&ctx->counter_lock);
    if (!ctx->counter_page) {
        ret = sys_mmap(&ctx->counter_page, UNETMM_PAGE_BYTES, PROT_READ,
                       MAP_SHARED, ctx->fd, offset);
    }
    pthread_mutex_unlock(&ctx->counter_lock);
    return ret;
}

static int make_handles(struct unetmm_ctx *ctx, uint32_t id, unsigned n,
                        struct unetmm_event_counter **counters)
{
    unsigned i;

    for (i = 0; i < n; i++) {
        struct counter *c = sys_calloc(1, sizeof(*c));

        if (!c) {
            while (i--) {
                free(priv(counters[i]));
            }
            return -ENOMEM;
        }
        c->pub.alive = ctx->alive;
        c->pub.word = (const uint64_t *)ctx->counter_page + id + i;
        c->ctx = ctx;
        c->id = id + i;
        counters[i] = &c->pub;
    }
    return 0;
}

int unetmm_event_create(struct unetmm_ctx *ctx, unsigned n,
                        struct unetmm_event_counter **counters)
{
    struct unetmm_event request = { .size = sizeof(request), .count = n };
    int ret = unetmm_ctx_check(ctx);

    if (ret) {
        return ret;
    }
    if (ctx->source == UNETMM_OBSERVE) {
        return -EINVAL;
    }
    ret = sys_ioctl(ctx->fd, UNETMM_IOC_EVENT, &request);
    if (ret < 0) {
        return ret;
    }
    if (n > UNETMM_EVENT_COUNTERS || request.id > UNETMM_EVENT_COUNTERS - n) {
        return -EPROTO;
    }
    ret = map_page(ctx, request.map);
    if (!ret) {
        ret = make_handles(ctx, request.id, n, counters);
    }
    if (ret) {
        close_numbers(ctx, request.id, n);
        return ret;
    }
    atomic_fetch_add(&ctx->counters, n);
    return 0;
}

int unetmm_event_destroy(struct unetmm_event_counter *counter)
{
    struct counter *c = priv(counter);
    struct unetmm_event_id request = { .size = sizeof(request), .id = c->id,
                                       .count = 1 };
    int ret = unetmm_ctx_check(c->ctx);

    if (ret) {
        free(c);
        return ret;
    }
    if (c->ep) {
        return -EBUSY;
    }
    ret = sys_ioctl(c->ctx->fd, UNETMM_IOC_EVENT_CLOSE, &request);
    /* One that the card has taken with it is gone as well. */
    if (ret < 0 && ret != -ENODEV) {
        return ret;
    }
    atomic_fetch_sub(&c->ctx->counters, 1);
    free(c);
    return 0;
}

void unetmm_events_unmap(struct unetmm_ctx *ctx, bool child)
{
    /* A child has no such mapping. */
    if (ctx->counter_page && !child) {
        sys_munmap(ctx->counter_page, UNETMM_PAGE_BYTES);
    }
    pthread_mutex_destroy(&ctx->counter_lock);
}

int unetmm_export_events(struct unetmm_ctx *ctx, uint64_t id, void *addr,
                         size_t length, unsigned rights, unsigned flags,
                         uint64_t user_data, const struct unetmm_event_counter *first,
                         unsigned n)
{
    struct unetmm_export export = {
        .size = sizeof(export),
        .flags = flags,
        .id = id,
        .addr = (uintptr_t)addr,
        .length = length,
        .cookie = user_data,
        .rights = rights,
        .counter = (uint16_t)priv(first)->id,
        .ncounters = (uint16_t)n,
    };

    if (!n || n > UNETMM_EVENT_COUNTERS || priv(first)->ctx != ctx) {
        return -EINVAL;
    }
    return unetmm_export_ex(ctx, &export);
}

/* ---- Waiting ----------------------------------------------------------- */

/* 1: reached.  0: not by `end`. */
static int spin(const struct unetmm_event_counter *counter, uint64_t value,
                uint64_t end)
{
    uint64_t yield_at = sys_now_ns() + UNETMM_YIELD_NS, now;

    for (;;) {
        unsigned i;

        for (i = 0; i < READS_PER_LOOK; i++) {
            if (unetmm_event_reached(unetmm_event_read(counter), value)) {
                return 1;
            }
            unetmm_relax();
        }
        now = sys_now_ns();
        if (now >= end) {
            return 0;
        }
        if (now >= yield_at) {
            sched_yield();
            yield_at = sys_now_ns() + UNETMM_YIELD_NS;
        }
    }
}

static int block(const struct counter *c, uint64_t value, uint64_t deadline)
{
    struct unetmm_event_wait request = {
        .size = sizeof(request),
        .id = c->id,
        .value = value,
        .deadline_ns = deadline > INT64_MAX ? INT64_MAX : deadline,
    };
    int ret = sys_ioctl(c->ctx->fd, UNETMM_IOC_EVENT_WAIT, &request);

    if (ret == -ETIMEDOUT || ret == -EAGAIN) {
        return 0;
    }
    /* The counted data is read behind the value: as in unetmm_event_read(). */
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return ret < 0 ? ret : 1;
}

int unetmm_event_wait(struct unetmm_event_counter *counter, uint64_t value,
                      unsigned how, int64_t timeout_ns)
{
    struct counter *c = priv(counter);
    uint64_t deadline, end;
    int ret = unetmm_ctx_check(c->ctx);

    if (ret) {
        return ret;
    }
    if (!how || how & ~(UNETMM_EVENT_SPIN | UNETMM_EVENT_BLOCK)) {
        return -EINVAL;
    }
    if (unetmm_event_reached(unetmm_event_read(counter), value)) {
        return 1;
    }
    if (!timeout_ns) {
        return 0;
    }
    deadline = unetmm_time_of(timeout_ns);
    if (how & UNETMM_EVENT_SPIN) {
        end = how & UNETMM_EVENT_BLOCK ? sys_now_ns() + SPIN_NS : deadline;
        if (spin(counter, value, end < deadline ? end : deadline)) {
            return 1;
        }
        if (!(how & UNETMM_EVENT_BLOCK)) {
            return 0;
        }
    }
    return block(c, value, deadline);
}

/* ---- Handlers ---------------------------------------------------------- */

static int arm(const struct counter *c, int event_fd, uint64_t *now)
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

bool unetmm_events_due(const struct unetmm_ep_private *ep)
{
    const struct counter *c;

    for (c = ep->counters; c; c = c->next) {
        if (unetmm_event_read(&c->pub) != c->seen) {
            return true;
        }
    }
    return false;
}

int unetmm_events_arm(struct unetmm_ep_private *ep)
{
    const struct counter *c;
    uint64_t now;

    for (c = ep->counters; c; c = c->next) {
        int ret = arm(c, ep->event_fd, &now);

        if (ret || now != c->seen) {
            return ret ? ret : 1;
        }
    }
    return unetmm_events_due(ep);
}

/* The first that is due, from this one on. */
static struct counter *next_due(struct counter *c)
{
    while (c && unetmm_event_read(&c->pub) == c->seen) {
        c = c->next;
    }
    return c;
}

int unetmm_events_call(struct unetmm_ep_private *ep, unsigned most)
{
    struct counter *c = next_due(ep->counters);
    unsigned done = 0;

    while (c && done < most && done < INT32_MAX &&
           !atomic_load(&ep->handlers.blocked)) {
        struct counter *last = c;
        int ret;

        c->seen = unetmm_event_read(&c->pub);
        ret = unetmm_upcall_event(ep, c->handler, &c->pub, c->seen, c->arg);
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

static void detach(struct counter *c)
{
    struct counter **link = &c->ep->counters;
    uint64_t now;

    while (*link != c) {
        link = &(*link)->next;
    }
    *link = c->next;
    c->ep = NULL;
    arm(c, -1, &now);
}

static int attach(struct unetmm_ep_private *ep, struct counter *c,
                  uint64_t seen, unetmm_event_handler handler, void *arg)
{
    if (!handler) {
        if (c->ep) {
            detach(c);
        }
        return 0;
    }
    c->seen = seen;
    c->handler = handler;
    c->arg = arg;
    if (!c->ep) {
        c->ep = ep;
        c->next = ep->counters;
        ep->counters = c;
    }
    return 0;
}

int unetmm_event_set_handler(struct unetmm_ep *pub,
                             struct unetmm_event_counter *counter, uint64_t seen,
                             unetmm_event_handler handler, void *arg)
{
    struct unetmm_ep_private *ep = unetmm_ep_private(pub);
    struct counter *c = priv(counter);
    int ret;

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
    ret = attach(ep, c, seen, handler, arg);
    unetmm_handlers_unblock(pub);
    /* A sleeping thread waits only for the counters that it knew. */
    if (ep->handlers.threaded) {
        sys_eventfd_add(ep->event_fd);
    }
    return ret;
}

void unetmm_events_detach(struct unetmm_ep_private *ep)
{
    while (ep->counters) {
        detach(ep->counters);
    }
}
