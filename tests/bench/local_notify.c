/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ways to learn of a write: looking at the bytes themselves, and an event
 * counter that is spun on, slept for, or has a handler called.
 *
 * Times: from before the write until the reader, a thread of its own, has seen it.
 * Instructions: all that the guest executes in between, the kernel included; one
 * processor has to do them, so where the reader spins it is the writer itself.
 */
#include "local.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define EXPORT      2
#define MOST        10000u
#define WARMUP      20u
#define SECOND      1000000000ll

enum way { BARE, SPIN, BLOCK, HANDLER, WAYS };

static const char *const way_names[WAYS] = {
    "bare write", "spin", "block", "handler",
};

struct scene {
    struct unetmm_ep *tx, *rx, *listener;
    struct unetmm_event_counter *counters[WAYS];
    uint64_t *there;            /* a page that is exported */
    unsigned import;
    bool counted;               /* instructions instead of times */
    /* The reader's next wait: its kind and number; ~0: the end. */
    _Atomic uint64_t turn;
    _Atomic int64_t seen;       /* when; 0: not yet */
};

static int64_t stamp(const struct scene *s)
{
    return s->counted ? (int64_t)ticks() : now_ns();
}

static void look(struct scene *s, enum way way, uint64_t value)
{
    if (way == BARE) {
        while (__atomic_load_n(s->there, __ATOMIC_ACQUIRE) != value) {
        }
    } else if (check(unetmm_event_wait(s->counters[way], value, way == SPIN ?
                                       UNETMM_EVENT_SPIN :
                                       UNETMM_EVENT_BLOCK, 10 * SECOND),
                     UNETMM_CALL_ANY) == 0) {
        die("a counter did not come within ten seconds");
    }
    atomic_store(&s->seen, stamp(s));
}

static void on_count(struct unetmm_ep *ep, struct unetmm_event_counter *counter,
                     uint64_t now, void *arg)
{
    struct scene *s = arg;

    (void)ep;
    (void)counter;
    if (now) {
        atomic_store(&s->seen, stamp(s));
    }
}

static void on_other(struct unetmm_ep *ep, const struct unetmm_completion *c,
                     void *arg)
{
    (void)ep;
    (void)c;
    (void)arg;
}

static void *reader(void *argument)
{
    struct scene *s = argument;
    uint64_t turn, done = 0;

    while ((turn = atomic_load(&s->turn)) != UINT64_MAX) {
        if (turn != done) {
            done = turn;
            look(s, turn >> 32, turn & UINT32_MAX);
        } else {
            sched_yield();
        }
    }
    return NULL;
}

/* The thread to be woken sleeps: the card has been told so. */
static void await_arm(uint64_t arms)
{
    int64_t end = now_ns() + 10 * SECOND;

    while (card(UNETMM_C_counter_arms) == arms) {
        sched_yield();
        if (now_ns() > end) {
            die("nobody sleeps for the counter");
        }
    }
    /* On its way into the scheduler. */
    for (unsigned i = 0; i < 50; i++) {
        sched_yield();
    }
}

static int64_t one(struct scene *s, enum way way, uint64_t value)
{
    bool myself = s->counted && way < BLOCK;
    uint64_t arms = card(UNETMM_C_counter_arms);
    int64_t start;

    atomic_store(&s->seen, 0);
    if (way != HANDLER && !myself) {
        atomic_store(&s->turn, (uint64_t)way << 32 | value);
    }
    if (way == BLOCK) {
        await_arm(arms);
    }
    start = stamp(s);
    check(unetmm_write(s->tx, s->import, 0, &value, sizeof(value),
                       way == BARE ? 0 : way, 0,
                       way == BARE ? 0 : UNETMM_COUNT),
          UNETMM_CALL_ONE_SIDED);
    if (myself) {
        look(s, way, value);
    }
    while (!atomic_load(&s->seen)) {
        if (s->counted) {
            sched_yield();
        }
    }
    await(s->tx, 1u << UNETMM_CQE_SENT);
    if (way == HANDLER) {
        /* The next write finds it asleep. */
        await_arm(arms);
    }
    return atomic_load(&s->seen) - start;
}

/* ---- The scene ------------------------------------------------------------------ */

static void join_and_import(struct scene *s)
{
    int channel = join_reliably(s->tx, s->rx);

    check(unetmm_export_events(ctx, EXPORT, s->there, PAGE,
                               UNETMM_RIGHT_WRITE, 0, 0, s->counters[0],
                               WAYS), UNETMM_CALL_EXPORT);
    s->import = (unsigned)check(unetmm_import(s->tx, (unsigned)channel, EXPORT,
                                              UNETMM_RIGHT_WRITE, 10 * SECOND,
                                              NULL), UNETMM_CALL_IMPORT);
}

static void scene_open(struct scene *s, bool counted)
{
    struct unetmm_ep_attr attr = UNETMM_EP_ATTR_INIT;
    uint64_t arms = card(UNETMM_C_counter_arms);

    s->counted = counted;
    s->there = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (s->there == MAP_FAILED) {
        die("no memory: boot the guest with more");
    }
    attr.spin_ns = 0;
    check(unetmm_ep_create(ctx, NULL, &s->tx), UNETMM_CALL_EP_CREATE);
    check(unetmm_ep_create(ctx, NULL, &s->rx), UNETMM_CALL_EP_CREATE);
    check(unetmm_ep_create(ctx, &attr, &s->listener), UNETMM_CALL_EP_CREATE);
    check(unetmm_event_create(ctx, WAYS, s->counters), UNETMM_CALL_ANY);
    join_and_import(s);
    check(unetmm_set_handler(s->listener, UNETMM_EVERY_CHANNEL, on_other,
                             NULL), UNETMM_CALL_HANDLERS);
    check(unetmm_event_set_handler(s->listener, s->counters[HANDLER], 0,
                                   on_count, s), UNETMM_CALL_HANDLERS);
    check(unetmm_handlers_start(s->listener, NULL, NULL),
          UNETMM_CALL_HANDLERS);
    await_arm(arms);
}

static void scene_close(struct scene *s)
{
    check(unetmm_handlers_stop(s->listener), UNETMM_CALL_HANDLERS);
    check(unetmm_event_set_handler(s->listener, s->counters[HANDLER], 0,
                                   NULL, NULL), UNETMM_CALL_HANDLERS);
    check(unetmm_unexport(ctx, EXPORT), UNETMM_CALL_EXPORT);
    for (unsigned i = 0; i < WAYS; i++) {
        check(unetmm_event_destroy(s->counters[i]), UNETMM_CALL_ANY);
    }
    check(unetmm_ep_destroy(s->listener), UNETMM_CALL_ANY);
    check(unetmm_ep_destroy(s->tx), UNETMM_CALL_ANY);
    check(unetmm_ep_destroy(s->rx), UNETMM_CALL_ANY);
    munmap(s->there, PAGE);
}

static void report(const struct scene *s, enum way way, int64_t *took,
                   unsigned n)
{
    double unit = s->counted ? 1 : 1000;

    qsort(took, n, sizeof(*took), by_value);
    printf("{\"peer\":\"unetmm, one guest\",\"mode\":\"notify, %s\","
           "\"metric\":\"%s\",\"bytes\":8,\"frame\":%u,\"median\":%.3f,"
           "\"p99\":%.3f,\"n\":%u,\"unit\":\"%s\",\"notify\":\"%s\"}\n",
           way_names[way], s->counted ? "instructions" : "notification",
           info.user_mtu, (double)took[n / 2] / unit,
           (double)took[n * 99 / 100] / unit, n,
           s->counted ? "instructions" : "us", way_names[way]);
    fflush(stdout);
}

static void measure(unsigned n, bool counted)
{
    static int64_t took[WAYS][MOST];
    int64_t nothing = counted ? (int64_t)calibrate() : 0;
    struct scene s = { 0 };
    pthread_t thread;

    if (!n || n > MOST) {
        die("1 to 10000 times");
    }
    scene_open(&s, counted);
    if (pthread_create(&thread, NULL, reader, &s)) {
        die("the system has no thread left");
    }
    for (unsigned i = 0; i < WARMUP + n; i++) {
        for (unsigned way = 0; way < WAYS; way++) {
            int64_t one_took = one(&s, way, i + 1);

            if (i >= WARMUP) {
                took[way][i - WARMUP] = one_took - nothing;
            }
        }
    }
    atomic_store(&s.turn, UINT64_MAX);
    pthread_join(thread, NULL);
    for (unsigned way = 0; way < WAYS; way++) {
        report(&s, way, took[way], n);
    }
    scene_close(&s);
}

void notify(unsigned n)
{
    measure(n, false);
}

void count_notify(unsigned n)
{
    measure(n, true);
}
