/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The library's semaphores and wait-queues beside the same built of bare
 * remote atomics: a semaphore whose units are one word, and a queue of tickets
 * whose last served is one, asked for until it has come.  These know no order
 * among waiting threads, no timeout, and no end of a member.
 *
 * A semaphore that is free is taken and given back by one thread.  A thread that
 * waits in a queue is woken by another.  Home and members are in one guest.
 *
 * To count instructions there is one processor, which the home's thread gets when
 * nobody else wants it: its fruitless spinning is not counted.
 */
#include "local.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define SERVICE     0x10ca4     /* and the next three */
#define EXPORT      3
#define MOST        10000u
#define WARMUP      20u
#define SECOND      1000000000ll
#define UNITS_ENOUGH    (4 * MOST)  /* nobody has to wait for the home */
#define POLL_US     1000        /* longer than anybody spins */

enum way { BARE_SEM, SEM, LIGHT_SEM, BARE_QUEUE, QUEUE, WAYS };

static const struct {
    const char *what, *how;
} ways[WAYS] = {
    { "semaphore", "bare atomics" }, { "semaphore", "library" },
    { "semaphore", "light" },
    { "wait-queue", "bare atomics" }, { "wait-queue", "library" },
};

/* Words of the page that bare atomics change. */
enum word { UNITS, TAIL, SERVED, WORDS };

/* One thread's way to them. */
struct member {
    struct unetmm_ep *ep;
    unsigned import;
    uint64_t *here;
    struct unetmm_sync *sem, *light, *queue;
};

struct scene {
    bool counted;
    struct unetmm_ctx *home_ctx;
    struct unetmm_ep *home;
    struct unetmm_sync_home *sem, *light, *queue;
    uint64_t *there;
    struct member me, waiter;
    _Atomic enum way way;
    _Atomic int64_t woken;
    _Atomic bool stop;
    sem_t ask, answer;
};

static int64_t stamp(const struct scene *s)
{
    return s->counted ? (int64_t)ticks() : now_ns();
}

/* ---- Bare atomics --------------------------------------------------------------- */

static uint64_t add(struct member *m, enum word word, uint64_t n)
{
    struct unetmm_completion c = { 0 };
    int ret;

    check(unetmm_fetch_add(m->ep, m->import, word * 8, n, 0, 0),
          UNETMM_CALL_ONE_SIDED);
    while ((ret = check(unetmm_poll(m->ep, &c, 1), UNETMM_CALL_POLL)) == 0) {
    }
    if (c.status) {
        die(unetmm_status_str(c.status));
    }
    return unetmm_old_value(&c);
}

static void bare_take(struct member *m)
{
    while ((int64_t)add(m, UNITS, -1ull) <= 0) {
        add(m, UNITS, 1);
    }
}

static void bare_wait(struct scene *s, struct member *m)
{
    uint64_t ticket = add(m, TAIL, 1);

    do {
        check(unetmm_read_sync(m->ep, m->import, SERVED * 8, m->here, 8,
                               10 * SECOND), UNETMM_CALL_ONE_SIDED);
        if (s->counted) {
            sched_yield();
        }
    } while (*m->here <= ticket);
}

/* ---- In turn -------------------------------------------------------------------- */

static void *waiter(void *argument)
{
    struct scene *s = argument;

    while (sem_wait(&s->ask) == 0 && !atomic_load(&s->stop)) {
        if (atomic_load(&s->way) == QUEUE) {
            if (check(unetmm_waitq_wait(s->waiter.queue, 10 * SECOND),
                      UNETMM_CALL_ANY) == 0) {
                die("nobody was woken within ten seconds");
            }
        } else {
            bare_wait(s, &s->waiter);
        }
        atomic_store(&s->woken, stamp(s));
        sem_post(&s->answer);
    }
    return NULL;
}

/* The waiter has its ticket; the library's sleeps, too, and the home knows. */
static void let_wait(struct scene *s, enum way way)
{
    uint64_t atomics = card(UNETMM_C_rel_atomics);
    uint64_t arms = card(UNETMM_C_counter_arms);
    int64_t end = now_ns() + 10 * SECOND;

    atomic_store(&s->way, way);
    sem_post(&s->ask);
    while (card(UNETMM_C_rel_atomics) == atomics ||
           (way == QUEUE && card(UNETMM_C_counter_arms) == arms)) {
        usleep(POLL_US);
        if (now_ns() > end) {
            die("nobody waits");
        }
    }
    usleep(POLL_US);
}

static int64_t wake(struct scene *s, enum way way)
{
    int64_t start;

    let_wait(s, way);
    start = stamp(s);
    if (way == QUEUE) {
        check(unetmm_waitq_wake(s->me.queue, 1), UNETMM_CALL_ANY);
    } else {
        add(&s->me, SERVED, 1);
    }
    sem_wait(&s->answer);
    return atomic_load(&s->woken) - start;
}

static int64_t one(struct scene *s, enum way way)
{
    int64_t start = stamp(s);

    switch (way) {
    case BARE_SEM:
        bare_take(&s->me);
        add(&s->me, UNITS, 1);
        return stamp(s) - start;
    case SEM:
        check(unetmm_sem_wait(s->me.sem, 10 * SECOND), UNETMM_CALL_ANY);
        check(unetmm_sem_post(s->me.sem), UNETMM_CALL_ANY);
        return stamp(s) - start;
    case LIGHT_SEM:
        check(unetmm_sem_wait(s->me.light, 10 * SECOND), UNETMM_CALL_ANY);
        check(unetmm_sem_post(s->me.light), UNETMM_CALL_ANY);
        return stamp(s) - start;
    default:
        return wake(s, way);
    }
}

/* ---- The scene ------------------------------------------------------------------ */

static void member_open(struct scene *s, struct member *m)
{
    int channel;

    check(unetmm_ep_create(ctx, NULL, &m->ep), UNETMM_CALL_EP_CREATE);
    check(unetmm_listen_ex(s->home, SERVICE, 2, NULL), UNETMM_CALL_LISTEN);
    channel = check(unetmm_connect_ex(m->ep, info.mac, SERVICE, 10 * SECOND,
                                      NULL, NULL), UNETMM_CALL_CONNECT);
    check(unetmm_accept(s->home, NULL, 10 * SECOND), UNETMM_CALL_ACCEPT);
    m->import = (unsigned)check(unetmm_import(m->ep, (unsigned)channel, EXPORT,
                                              UNETMM_RIGHT_ALL, 10 * SECOND,
                                              NULL), UNETMM_CALL_IMPORT);
    m->here = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (m->here == MAP_FAILED) {
        die("no memory: boot the guest with more");
    }
    check(unetmm_sync_open(ctx, info.mac, SERVICE + 1, 10 * SECOND, &m->sem),
          UNETMM_CALL_CONNECT);
    check(unetmm_sync_open(ctx, info.mac, SERVICE + 2, 10 * SECOND, &m->queue),
          UNETMM_CALL_CONNECT);
    check(unetmm_sync_open(ctx, info.mac, SERVICE + 3, 10 * SECOND, &m->light),
          UNETMM_CALL_CONNECT);
}

static void member_close(struct member *m)
{
    check(unetmm_sync_close(m->sem), UNETMM_CALL_ANY);
    check(unetmm_sync_close(m->queue), UNETMM_CALL_ANY);
    check(unetmm_sync_close(m->light), UNETMM_CALL_ANY);
    check(unetmm_ep_destroy(m->ep), UNETMM_CALL_ANY);
    munmap(m->here, PAGE);
}

/* Threads that are made from here on have the policy. */
static void schedule(int policy)
{
    const struct sched_param param = { 0 };

    if (sched_setscheduler(0, policy, &param)) {
        die("the processor cannot be had like that");
    }
}

static void homes_open(struct scene *s)
{
    if (s->counted) {
        schedule(SCHED_IDLE);
    }
    check(unetmm_sem_home(s->home_ctx, SERVICE + 1, UNITS_ENOUGH, &s->sem),
          UNETMM_CALL_LISTEN);
    check(unetmm_waitq_home(s->home_ctx, SERVICE + 2, &s->queue),
          UNETMM_CALL_LISTEN);
    check(unetmm_sem_home_light(s->home_ctx, SERVICE + 3, UNITS_ENOUGH,
                                &s->light), UNETMM_CALL_LISTEN);
    schedule(SCHED_OTHER);
}

static void scene_open(struct scene *s)
{
    check(unetmm_open(NULL, UNETMM_SOURCE_TLB, &s->home_ctx),
          UNETMM_CALL_OPEN);
    s->there = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (s->there == MAP_FAILED) {
        die("no memory: boot the guest with more");
    }
    s->there[UNITS] = UNITS_ENOUGH;
    check(unetmm_ep_create(s->home_ctx, NULL, &s->home),
          UNETMM_CALL_EP_CREATE);
    check(unetmm_export(s->home_ctx, EXPORT, s->there, PAGE, UNETMM_RIGHT_ALL,
                        0, 0), UNETMM_CALL_EXPORT);
    homes_open(s);
    member_open(s, &s->me);
    member_open(s, &s->waiter);
}

static void scene_close(struct scene *s)
{
    member_close(&s->me);
    member_close(&s->waiter);
    check(unetmm_sync_home_close(s->sem), UNETMM_CALL_ANY);
    check(unetmm_sync_home_close(s->queue), UNETMM_CALL_ANY);
    check(unetmm_sync_home_close(s->light), UNETMM_CALL_ANY);
    check(unetmm_unexport(s->home_ctx, EXPORT), UNETMM_CALL_EXPORT);
    check(unetmm_ep_destroy(s->home), UNETMM_CALL_ANY);
    check(unetmm_close(s->home_ctx), UNETMM_CALL_ANY);
    munmap(s->there, PAGE);
}

/* ---- Figures -------------------------------------------------------------------- */

struct wire {
    uint64_t requests, answers, packets, acks;
};

static struct wire wire_now(void)
{
    return (struct wire) {
        .requests = card(UNETMM_C_rel_writes) + card(UNETMM_C_rel_reads) +
                    card(UNETMM_C_rel_atomics),
        .answers = card(UNETMM_C_rel_answers),
        .packets = card(UNETMM_C_rel_packets),
        .acks = card(UNETMM_C_rel_acks_sent),
    };
}

static void report(const struct scene *s, enum way way, int64_t *took,
                   unsigned n, double mean, struct wire was, struct wire is)
{
    double unit = s->counted ? 1 : 1000;

    qsort(took, n, sizeof(*took), by_value);
    printf("{\"peer\":\"unetmm, one guest\",\"mode\":\"%s, %s\","
           "\"metric\":\"%s\",\"bytes\":8,\"frame\":%u,\"median\":%.3f,"
           "\"p99\":%.3f,\"n\":%u,\"unit\":\"%s\",\"sync\":\"%s\","
           "\"how\":\"%s\",\"all\":%.3f,\"requests\":%.2f,"
           "\"answers\":%.2f,\"packets\":%.2f,\"acks\":%.2f}\n",
           ways[way].what, ways[way].how,
           s->counted ? "instructions" : "operation", info.user_mtu,
           (double)took[n / 2] / unit, (double)took[n * 99 / 100] / unit, n,
           s->counted ? "instructions" : "us", ways[way].what, ways[way].how,
           mean / unit, (double)(is.requests - was.requests) / n,
           (double)(is.answers - was.answers) / n,
           (double)(is.packets - was.packets) / n,
           (double)(is.acks - was.acks) / n);
    fflush(stdout);
}

/* One way after the other: counters tell them apart. */
static void measure(unsigned n, bool counted)
{
    static int64_t took[MOST];
    int64_t nothing = counted ? (int64_t)calibrate() : 0;
    struct scene s = { .counted = counted };
    pthread_t thread;

    if (!n || n > MOST) {
        die("1 to 10000 times");
    }
    sem_init(&s.ask, 0, 0);
    sem_init(&s.answer, 0, 0);
    scene_open(&s);
    if (pthread_create(&thread, NULL, waiter, &s)) {
        die("the system has no thread left");
    }
    for (unsigned way = 0; way < WAYS; way++) {
        struct wire was;
        int64_t start;

        for (unsigned i = 0; i < WARMUP; i++) {
            one(&s, way);
        }
        was = wire_now();
        start = stamp(&s);
        for (unsigned i = 0; i < n; i++) {
            took[i] = one(&s, way) - nothing;
        }
        start = stamp(&s) - start;
        report(&s, way, took, n, (double)start / n, was, wire_now());
    }
    atomic_store(&s.stop, true);
    sem_post(&s.ask);
    pthread_join(thread, NULL);
    scene_close(&s);
}

void sync_ops(unsigned n)
{
    measure(n, false);
}

void count_sync_ops(unsigned n)
{
    measure(n, true);
}
