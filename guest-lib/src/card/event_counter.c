/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Event counters: the page that they are in, and waiting.
 */
#include "card.h"

#include <sched.h>

#define SPIN_NS         20000u  /* before blocking, if both were asked for */
#define READS_PER_LOOK  64      /* at the clock */

/* ---- Making and ending ------------------------------------------------- */

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
        struct unetmm_event_private *c = sys_calloc(1, sizeof(*c));

        if (!c) {
            while (i--) {
                free(unetmm_event_private(counters[i]));
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
    ret = n > UNETMM_EVENT_COUNTERS || request.id > UNETMM_EVENT_COUNTERS - n ? -EPROTO :
        map_page(ctx, request.map);
    if (!ret) {
        ret = make_handles(ctx, request.id, n, counters);
    }
    if (ret) {
        unetmm_object_end(ctx, UNETMM_OBJECT_EVENT, 0, request.id, n);
        return ret;
    }
    atomic_fetch_add(&ctx->counters, n);
    return 0;
}

int unetmm_event_destroy(struct unetmm_event_counter *counter)
{
    struct unetmm_event_private *c = unetmm_event_private(counter);
    int ret = unetmm_ctx_check(c->ctx);

    if (ret) {
        free(c);
        return ret;
    }
    if (c->ep) {
        return -EBUSY;
    }
    ret = unetmm_object_end(c->ctx, UNETMM_OBJECT_EVENT, 0, c->id, 1);
    /* One that the card has taken with it is gone as well. */
    if (ret && ret != -ENODEV) {
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

/* ---- Waiting ----------------------------------------------------------- */

/* 1: reached.  0: not by `end`. */
static int spin_until(const struct unetmm_event_counter *counter, uint64_t value,
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

static int block_until(const struct unetmm_event_private *c, uint64_t value, uint64_t deadline)
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
    struct unetmm_event_private *c = unetmm_event_private(counter);
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
        if (spin_until(counter, value, end < deadline ? end : deadline)) {
            return 1;
        }
        if (!(how & UNETMM_EVENT_BLOCK)) {
            return 0;
        }
    }
    return block_until(c, value, deadline);
}
