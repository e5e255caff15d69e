/*
 * unetmm: effects of the card that wait for their time
 *
 * The functions named timed_* are the core's UnetmmHostOps.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../abi/unetmm_hw.h"
#include "timing.h"

#define PS_PER_NS   1000
#define EPOCH_NS    (24 * 3600 * 1000000000ll)
#define PROBE_BYTES 256

typedef enum EffectKind {
    EFFECT_WRITE,               /* addr, data */
    EFFECT_STORE32,             /* addr, value */
    EFFECT_INTERRUPT,           /* value: the vector */
    EFFECT_FRAME,               /* data */
    EFFECT_RUN_LATER,
} EffectKind;

typedef struct PageWrites {
    uint64_t page;              /* the key: a DMA address in pages */
    GQueue writes;              /* in the order of their time; one at least */
} PageWrites;

/* A write to memory is of one page. */
typedef struct Effect {
    EffectKind kind;
    int64_t when_ps;
    uint64_t addr;
    uint32_t value;
    size_t bytes;
    GList in_all;               /* links: in UnetmmTiming.effects, ... */
    GList in_writes;            /* .writes, ... */
    GList in_page;              /* and `of` */
    PageWrites *of;             /* NULL: it does not write to memory */
    uint8_t data[];
} Effect;

/* ---- Clocks ------------------------------------------------------------- */

/*
 * An int64_t has room for 106 days of picoseconds, and a host's clock may be at
 * any time: so they are counted from an epoch, which follows the clock while no
 * effect waits.
 */
static int64_t host_ps(UnetmmTiming *t)
{
    int64_t now = t->inner->now_ns(t->host);
    int64_t passed = now - t->epoch_ns;

    if (passed > EPOCH_NS && g_queue_is_empty(&t->effects)) {
        t->now_ps = MAX(t->now_ps / PS_PER_NS - passed, 0) * PS_PER_NS;
        t->epoch_ns = now;
        passed = 0;
    }
    return passed * PS_PER_NS;
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

    t->wake_at(t->host, e ? t->epoch_ns +
                            (e->when_ps + PS_PER_NS - 1) / PS_PER_NS :
                            INT64_MAX);
}

/* ---- The queue ---------------------------------------------------------- */

static void queue_push_write(UnetmmTiming *t, Effect *e)
{
    uint64_t page = e->addr / UNETMM_PAGE_BYTES;

    e->of = g_hash_table_lookup(t->pages, &page);
    if (!e->of) {
        e->of = g_new0(PageWrites, 1);
        e->of->page = page;
        g_hash_table_insert(t->pages, &e->of->page, e->of);
    }
    g_queue_push_tail_link(&e->of->writes, &e->in_page);
    g_queue_push_tail_link(&t->writes, &e->in_writes);
}

static void queue_push(UnetmmTiming *t, Effect *e)
{
    e->in_all.data = e->in_writes.data = e->in_page.data = e;
    g_queue_push_tail_link(&t->effects, &e->in_all);
    t->bytes += e->bytes;
    if (e->kind == EFFECT_WRITE || e->kind == EFFECT_STORE32) {
        queue_push_write(t, e);
    }
}

static void queue_remove(UnetmmTiming *t, Effect *e)
{
    g_queue_unlink(&t->effects, &e->in_all);
    t->bytes -= e->bytes;
    if (e->of) {
        g_queue_unlink(&t->writes, &e->in_writes);
        g_queue_unlink(&e->of->writes, &e->in_page);
        if (!e->of->writes.length) {
            g_hash_table_remove(t->pages, &e->of->page);
        }
    }
}

static bool queue_is_long(const UnetmmTiming *t)
{
    return t->effects.length > UNETMM_TIMING_MOST_EFFECTS ||
           t->bytes > UNETMM_TIMING_MOST_BYTES;
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
static void take_place(UnetmmTiming *t, Effect *e)
{
    queue_remove(t, e);
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

static bool overlaps(const Effect *e, uint64_t addr, uint64_t bytes)
{
    size_t n = e->kind == EFFECT_WRITE ? e->bytes : sizeof(e->value);

    return e->addr >= addr ? e->addr - addr < bytes : addr - e->addr < n;
}

/* Writes that touch [addr, + bytes) of the page take place now. */
static void write_page(UnetmmTiming *t, uint64_t page, uint64_t addr,
                       uint64_t bytes)
{
    PageWrites *of = g_hash_table_lookup(t->pages, &page);
    bool all = of && of->writes.length > UNETMM_TIMING_MOST_LOOKS;
    GList *next;

    /* The last write that takes place frees `of`. */
    for (GList *link = of ? of->writes.head : NULL; link; link = next) {
        Effect *e = link->data;

        next = link->next;
        t->looks++;
        if (all || overlaps(e, addr, bytes)) {
            take_place(t, e);
        }
    }
}

/* The same of all pages; the writes to a page in their order. */
static void write_overlapping(UnetmmTiming *t, uint64_t addr, size_t bytes)
{
    uint64_t page = addr / UNETMM_PAGE_BYTES;
    uint64_t n = bytes ? (addr % UNETMM_PAGE_BYTES + bytes - 1) /
                         UNETMM_PAGE_BYTES + 1 : 0;

    for (uint64_t i = 0; i < n && t->writes.length; i++) {
        write_page(t, page + i, addr, bytes);
    }
}

void unetmm_timing_write_all(UnetmmTiming *t)
{
    Effect *e;

    while ((e = g_queue_peek_head(&t->writes))) {
        take_place(t, e);
    }
    arm(t);
}

void unetmm_timing_due(UnetmmTiming *t)
{
    int64_t now = host_ps(t);
    Effect *e;

    while ((e = g_queue_peek_head(&t->effects)) && e->when_ps <= now) {
        take_place(t, e);
    }
    arm(t);
}

void unetmm_timing_catch_up(UnetmmTiming *t)
{
    Effect *e;

    t->now_ps = 0;
    while ((e = g_queue_peek_head(&t->effects))) {
        take_place(t, e);
    }
    arm(t);
}

static void queue_clear(UnetmmTiming *t)
{
    Effect *e;

    while ((e = g_queue_peek_head(&t->effects))) {
        queue_remove(t, e);
        g_free(e);
    }
}

void unetmm_timing_drop(UnetmmTiming *t)
{
    t->epoch_ns = t->now_ps = 0;
    t->head = false;
    queue_clear(t);
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
    queue_push(t, e);
    if (e->when_ps - host_ps(t) > UNETMM_TIMING_MOST_NS * (int64_t)PS_PER_NS ||
        queue_is_long(t)) {
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
    const uint8_t *data = buf;

    if (!reachable(t, addr, bytes)) {
        return false;
    }
    while (bytes) {
        size_t n = MIN(bytes,
                       UNETMM_PAGE_BYTES - addr % UNETMM_PAGE_BYTES);
        Effect *e = effect_new(EFFECT_WRITE, data, n);

        e->addr = addr;
        happens(t, e);
        addr += n;
        data += n;
        bytes -= n;
    }
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
    UnetmmTiming *t = host;
    int64_t now = card_ps(t);

    return t->epoch_ns + now / PS_PER_NS;
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
        .writes = G_QUEUE_INIT,
        .pages = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL,
                                       g_free),
    };
}

void unetmm_timing_free(UnetmmTiming *t)
{
    queue_clear(t);
    g_clear_pointer(&t->pages, g_hash_table_destroy);
}
