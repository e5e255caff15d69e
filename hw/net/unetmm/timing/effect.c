/*
 * unetmm: effects of the card that wait for their time
 *
 * The functions named timed_* are the core's UnetmmHostOps.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "timing.h"

#define PS_PER_NS   1000
#define PROBE_BYTES 256

typedef enum EffectKind {
    EFFECT_WRITE,               /* addr, data */
    EFFECT_STORE32,             /* addr, value */
    EFFECT_INTERRUPT,           /* value: the vector */
    EFFECT_FRAME,               /* data */
    EFFECT_RUN_LATER,
} EffectKind;

typedef struct Effect {
    EffectKind kind;
    int64_t when_ps;
    uint64_t addr;
    uint32_t value;
    size_t bytes;
    uint8_t data[];
} Effect;

/* ---- Clocks ------------------------------------------------------------- */

static int64_t host_ps(UnetmmTiming *t)
{
    return t->inner->now_ns(t->host) * PS_PER_NS;
}

static int64_t card_ps(UnetmmTiming *t)
{
    int64_t now = host_ps(t);

    t->now_ps = t->now_ps > now ? t->now_ps : now;
    return t->now_ps;
}

static void arm(UnetmmTiming *t)
{
    const Effect *e = g_queue_peek_head(&t->effects);

    t->wake_at(t->host, e ? (e->when_ps + PS_PER_NS - 1) / PS_PER_NS :
                            INT64_MAX);
}

/* ---- Effects take place ------------------------------------------------- */

static void send_frame(UnetmmTiming *t, const Effect *e)
{
    switch (t->inner->send(t->host, e->data, e->bytes)) {
    case UNETMM_SENT_QUEUED:
        t->queued++;
        break;
    case UNETMM_SENT_REFUSED:
        t->refused++;
        break;
    default:
        break;
    }
}

/* Takes it out of the queue first: the host may call the card again. */
static void take_place(UnetmmTiming *t, GList *link)
{
    Effect *e = link->data;

    g_queue_delete_link(&t->effects, link);
    t->bytes -= e->bytes;
    switch (e->kind) {
    case EFFECT_WRITE:
        t->refused += !t->inner->mem_write(t->host, e->addr, e->data,
                                           e->bytes);
        break;
    case EFFECT_STORE32:
        t->refused += !t->inner->mem_store32(t->host, e->addr, e->value);
        break;
    case EFFECT_INTERRUPT:
        t->inner->interrupt(t->host, e->value);
        break;
    case EFFECT_FRAME:
        send_frame(t, e);
        break;
    case EFFECT_RUN_LATER:
        t->inner->run_later(t->host);
        break;
    }
    g_free(e);
}

static size_t touched_bytes(const Effect *e)
{
    switch (e->kind) {
    case EFFECT_WRITE:
        return e->bytes;
    case EFFECT_STORE32:
        return sizeof(e->value);
    default:
        return 0;
    }
}

/* Writes that touch [addr, + bytes) take place now, in their order. */
static void write_overlapping(UnetmmTiming *t, uint64_t addr, uint64_t bytes)
{
    GList *link = t->effects.head;

    while (link) {
        const Effect *e = link->data;
        uint64_t n = touched_bytes(e);
        GList *next = link->next;

        if (n && (e->addr >= addr ? e->addr - addr < bytes :
                                    addr - e->addr < n)) {
            take_place(t, link);
        }
        link = next;
    }
}

void unetmm_timing_write_all(UnetmmTiming *t)
{
    write_overlapping(t, 0, UINT64_MAX);
    arm(t);
}

void unetmm_timing_due(UnetmmTiming *t)
{
    int64_t now = host_ps(t);
    GList *link;

    while ((link = t->effects.head) && ((Effect *)link->data)->when_ps <= now) {
        take_place(t, link);
    }
    arm(t);
}

void unetmm_timing_catch_up(UnetmmTiming *t)
{
    GList *link;

    t->now_ps = 0;
    while ((link = t->effects.head)) {
        take_place(t, link);
    }
    arm(t);
}

void unetmm_timing_drop(UnetmmTiming *t)
{
    t->now_ps = 0;
    t->head = false;
    t->bytes = 0;
    g_queue_clear_full(&t->effects, g_free);
    arm(t);
}

bool unetmm_timing_sent(UnetmmTiming *t)
{
    if (!t->queued) {
        return false;
    }
    t->queued--;
    return true;
}

/* ---- Effects wait ------------------------------------------------------- */

static Effect *effect_new(EffectKind kind, const void *data, size_t bytes)
{
    Effect *e = g_malloc0(sizeof(*e) + bytes);

    e->kind = kind;
    e->bytes = bytes;
    if (bytes) {
        memcpy(e->data, data, bytes);
    }
    return e;
}

static void happens(UnetmmTiming *t, Effect *e)
{
    e->when_ps = card_ps(t);
    t->bytes += e->bytes;
    g_queue_push_tail(&t->effects, e);
    if (e->when_ps - host_ps(t) > UNETMM_TIMING_MOST_NS * (int64_t)PS_PER_NS ||
        t->bytes > UNETMM_TIMING_MOST_BYTES) {
        t->overruns++;
        unetmm_timing_catch_up(t);
    } else if (t->effects.length == 1) {
        unetmm_timing_due(t);
    }
}

/* Would the bus refuse that? */
static bool reachable(UnetmmTiming *t, uint64_t addr, size_t bytes)
{
    uint8_t probe[PROBE_BYTES];

    while (bytes) {
        size_t n = MIN(bytes, sizeof(probe));

        if (!t->inner->mem_read(t->host, addr, probe, n)) {
            return false;
        }
        addr += n;
        bytes -= n;
    }
    return true;
}

static bool timed_mem_write(void *host, uint64_t addr, const void *buf,
                            size_t bytes)
{
    UnetmmTiming *t = host;
    Effect *e;

    if (!reachable(t, addr, bytes)) {
        return false;
    }
    e = effect_new(EFFECT_WRITE, buf, bytes);
    e->addr = addr;
    happens(t, e);
    return true;
}

static bool timed_mem_store32(void *host, uint64_t addr, uint32_t value)
{
    UnetmmTiming *t = host;
    Effect *e;

    if (!reachable(t, addr, sizeof(value))) {
        return false;
    }
    e = effect_new(EFFECT_STORE32, NULL, 0);
    e->addr = addr;
    e->value = value;
    happens(t, e);
    return true;
}

static void timed_interrupt(void *host, unsigned vector)
{
    Effect *e = effect_new(EFFECT_INTERRUPT, NULL, 0);

    e->value = vector;
    happens(host, e);
}

static UnetmmSent timed_send(void *host, const uint8_t *frame, size_t bytes)
{
    UnetmmTiming *t = host;

    /* While the wire keeps frames, later ones would be kept without end. */
    if (t->queued) {
        return UNETMM_SENT_REFUSED;
    }
    happens(t, effect_new(EFFECT_FRAME, frame, bytes));
    return UNETMM_SENT_DONE;
}

static void timed_run_later(void *host)
{
    happens(host, effect_new(EFFECT_RUN_LATER, NULL, 0));
}

/* ---- The rest of the host ----------------------------------------------- */

static bool timed_mem_read(void *host, uint64_t addr, void *buf, size_t bytes)
{
    UnetmmTiming *t = host;

    write_overlapping(t, addr, bytes);
    return t->inner->mem_read(t->host, addr, buf, bytes);
}

static bool timed_mem_cmpxchg64(void *host, uint64_t addr, uint64_t *old,
                                uint64_t value)
{
    UnetmmTiming *t = host;

    write_overlapping(t, addr, sizeof(value));
    return t->inner->mem_cmpxchg64(t->host, addr, old, value);
}

static int64_t timed_now_ns(void *host)
{
    return card_ps(host) / PS_PER_NS;
}

static void timed_timer_at(void *host, int64_t when_ns)
{
    UnetmmTiming *t = host;

    t->inner->timer_at(t->host, when_ns);
}

static bool timed_offload(void *host, uint8_t *frame, size_t bytes,
                          uint32_t mss,
                          void (*out)(void *opaque, const uint8_t *frame,
                                      size_t bytes), void *opaque)
{
    UnetmmTiming *t = host;

    return t->inner->offload(t->host, frame, bytes, mss, out, opaque);
}

static bool timed_checksum_ok(void *host, const uint8_t *frame, size_t bytes)
{
    UnetmmTiming *t = host;

    return t->inner->checksum_ok(t->host, frame, bytes);
}

static void timed_may_receive(void *host)
{
    UnetmmTiming *t = host;

    t->inner->may_receive(t->host);
}

static void timed_clear_windows(void *host, uint32_t page, uint32_t npages)
{
    UnetmmTiming *t = host;

    t->inner->clear_windows(t->host, page, npages);
}

static void timed_warn_self(void *host)
{
    UnetmmTiming *t = host;

    t->inner->warn_self(t->host);
}

static void timed_spend(void *host, UnetmmStep step, uint32_t n)
{
    UnetmmTiming *t = host;

    t->now_ps = card_ps(t) + unetmm_step_cost(&t->costs, &t->head, step, n);
    trace_unetmm_timing_step(step, n, t->now_ps);
}

void unetmm_timing_arrives(UnetmmTiming *t)
{
    t->now_ps = card_ps(t) + t->costs.arrive;
}

void unetmm_timing_init(UnetmmTiming *t, const UnetmmCosts *costs,
                        const UnetmmHostOps *inner, void *host,
                        void (*wake_at)(void *host, int64_t when_ns))
{
    *t = (UnetmmTiming) {
        .ops = {
            .mem_read = timed_mem_read,
            .mem_write = timed_mem_write,
            .mem_store32 = timed_mem_store32,
            .mem_cmpxchg64 = timed_mem_cmpxchg64,
            .interrupt = timed_interrupt,
            .now_ns = timed_now_ns,
            .timer_at = timed_timer_at,
            .run_later = timed_run_later,
            .send = timed_send,
            .offload = timed_offload,
            .checksum_ok = timed_checksum_ok,
            .may_receive = timed_may_receive,
            .clear_windows = timed_clear_windows,
            .warn_self = timed_warn_self,
            .spend = timed_spend,
        },
        .costs = *costs,
        .inner = inner,
        .host = host,
        .wake_at = wake_at,
        .effects = G_QUEUE_INIT,
    };
}

void unetmm_timing_free(UnetmmTiming *t)
{
    g_queue_clear_full(&t->effects, g_free);
}
