/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A tour of NetVM between two hosts: memory that is pinned on neither side, writes
 * into pages that are not there, credits, event counters, semaphores and
 * wait-queues.  scripts/demo --tour netvm runs it in two guests and shows its
 * output.
 *
 *   netvm-tour                       exports, and follows the visitor's orders
 *   netvm-tour 52:54:00:00:00:01     visits that host; a JSON object for each stop
 *
 * All bytes that move are checked, by the side that did not write them.
 */
#include "tour.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVICE     111         /* orders and data; +1 semaphore, +2 queue */
#define BOX         21          /* numbers of exports: the host's ... */
#define ECHO        22          /* ... and the visitor's */
#define BOX_BYTES   ((size_t)2 << 20)
#define SINGLES     40          /* writes of one page that are measured */
#define ECHOES      200
#define TURNS       50          /* of the semaphore and of the queue */

/* The visitor's orders to its host, which are answered. */
enum order { EXPORT, CHECK, OUT, FIGURE, ECHO_BARE, ECHO_SPIN, ECHO_BLOCK,
             ECHO_HANDLER, SHARE, SHARED, WAKE, LEAVE };

#define COUNTERS    3           /* of the box: spin, block, handler */

struct message {
    uint32_t order, key;
    uint64_t offset, length, answer;
};

/* The figures that FIGURE asks the host for. */
enum figure { PACKETS, COPIES, PAGE_INS, DROPPED };

struct host {
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep, *listener;
    struct unetmm_event_counter *counters[COUNTERS];
    struct unetmm_sync_home *sem, *queue;
    struct unetmm_sync *my_sem, *my_queue;
    uint8_t *box;
    int channel, echo;          /* the import of the visitor's word */
    _Atomic uint64_t handled;
    uint64_t atomics;           /* that the card had executed */
    pthread_t sharer;
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, unsigned n)
{
    qsort(values, n, sizeof(*values), by_value);
    return values[n / 2];
}

/* Data for a page that is not there is kept for it, not refused. */
static struct unetmm_ep *endpoint(struct unetmm_ctx *ctx)
{
    struct unetmm_ep_attr attr = UNETMM_EP_ATTR_INIT;
    struct unetmm_ep *ep;

    attr.policy = UNETMM_POLICY_REDIRECT;
    check(unetmm_ep_create(ctx, &attr, &ep), UNETMM_CALL_EP_CREATE);
    return ep;
}

/* ---- The host: pages, and waiting ---------------------------------------- */

static uint64_t figure(struct host *h, enum figure which)
{
    switch (which) {
    case PACKETS:
        return card(h->ctx, UNETMM_C_sysbuf_packets);
    case COPIES:
        return driver(h->ctx, UNETMM_D_sysbuf_copies);
    case PAGE_INS:
        return driver(h->ctx, UNETMM_D_sysbuf_page_ins);
    default:
        return card(h->ctx, UNETMM_C_drop_rel_credit) +
            card(h->ctx, UNETMM_C_sysbuf_failed);
    }
}

/* Tells the visitor: adds 1 to its counter. */
static void answer_echo(struct host *h)
{
    uint64_t word = 1;

    check(unetmm_write(h->ep, h->echo, 0, &word, sizeof(word), 0, 0,
                       UNETMM_COUNT | UNETMM_UNSIGNALED), UNETMM_CALL_ONE_SIDED);
}

static void on_count(struct unetmm_ep *ep, struct unetmm_event_counter *counter,
                     uint64_t now, void *arg)
{
    struct host *h = arg;

    (void)ep;
    (void)counter;
    /* One at a time: the visitor waits for each. */
    while (atomic_load(&h->handled) < now) {
        answer_echo(h);
        atomic_fetch_add(&h->handled, 1);
    }
}

/* Of the rest there is nothing to do. */
static void on_other(struct unetmm_ep *ep, const struct unetmm_completion *c,
                     void *arg)
{
    (void)ep;
    (void)c;
    (void)arg;
}

/* As often as it is told, in the way that it is told. */
static void echo(struct host *h, enum order order, uint64_t n)
{
    const uint64_t *word = (const uint64_t *)(void *)h->box;
    unsigned i = order - ECHO_SPIN;

    if (order == ECHO_HANDLER) {
        atomic_store(&h->handled, 0);
        check(unetmm_event_set_handler(h->listener, h->counters[i], 0,
                                       on_count, h), UNETMM_CALL_HANDLERS);
        check(unetmm_event_wait(h->counters[i], n, UNETMM_EVENT_BLOCK,
                                60 * SECOND), UNETMM_CALL_ANY);
        /* The endpoint is its thread's until it has answered them all. */
        while (atomic_load(&h->handled) < n) {
            sched_yield();
        }
        check(unetmm_event_set_handler(h->listener, h->counters[i], 0, NULL,
                                       NULL), UNETMM_CALL_HANDLERS);
        return;
    }
    for (uint64_t k = 1; k <= n; k++) {
        if (order == ECHO_BARE) {
            while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != k) {
            }
        } else {
            check(unetmm_event_wait(h->counters[i], k, order == ECHO_SPIN ?
                                    UNETMM_EVENT_SPIN :
                                    UNETMM_EVENT_BLOCK, 60 * SECOND),
                  UNETMM_CALL_ANY);
        }
        answer_echo(h);
    }
}

/* ---- The host: sharing --------------------------------------------------- */

/* Adds to a word in turn with the visitor, which uses READ and WRITE. */
static void *share(void *argument)
{
    struct host *h = argument;
    volatile uint64_t *word = (volatile uint64_t *)(void *)h->box;

    for (unsigned i = 0; i < TURNS; i++) {
        check(unetmm_sem_wait(h->my_sem, 60 * SECOND), UNETMM_CALL_ANY);
        *word = *word + 1;
        check(unetmm_sem_post(h->my_sem), UNETMM_CALL_ANY);
    }
    return NULL;
}

/* Wakes the visitor as often as it has said; each time it waits again. */
static void wake(struct host *h, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        /* It has taken its place in the queue. */
        while (card(h->ctx, UNETMM_C_rel_atomics) <= h->atomics + i) {
            sched_yield();
        }
        check(unetmm_waitq_wake(h->my_queue, 1), UNETMM_CALL_ANY);
    }
}

static void open_shared(struct host *h)
{
    struct unetmm_info info = { .size = sizeof(info) };

    check(unetmm_info(h->ctx, &info), UNETMM_CALL_ANY);
    check(unetmm_sem_home(h->ctx, SERVICE + 1, 1, &h->sem),
          UNETMM_CALL_LISTEN);
    check(unetmm_waitq_home(h->ctx, SERVICE + 2, &h->queue),
          UNETMM_CALL_LISTEN);
    check(unetmm_sync_open(h->ctx, info.mac, SERVICE + 1, 60 * SECOND,
                           &h->my_sem), UNETMM_CALL_CONNECT);
    check(unetmm_sync_open(h->ctx, info.mac, SERVICE + 2, 60 * SECOND,
                           &h->my_queue), UNETMM_CALL_CONNECT);
}

/* ---- The host ------------------------------------------------------------ */

static uint64_t obey(struct host *h, const struct message *m)
{
    switch (m->order) {
    case EXPORT:
        check(unetmm_export_events(h->ctx, BOX, h->box, BOX_BYTES,
                                   UNETMM_RIGHT_ALL, 0, 0, h->counters[0],
                                   COUNTERS), UNETMM_CALL_EXPORT);
        h->echo = check(unetmm_import(h->ep, h->channel, ECHO,
                                      UNETMM_RIGHT_WRITE,
                                                60 * SECOND, NULL),
                                  UNETMM_CALL_IMPORT);
        return 0;
    case CHECK:
        return wrong(h->box + m->offset, m->key, 0, m->length);
    case OUT:
        return page_out(h->box + m->offset, m->length);
    case FIGURE:
        return figure(h, m->key);
    case SHARE:
        memset(h->box, 0, PAGE);
        if (pthread_create(&h->sharer, NULL, share, h)) {
            fail("the system has no thread left");
        }
        return 0;
    case SHARED:
        pthread_join(h->sharer, NULL);
        return *(uint64_t *)(void *)h->box;
    case WAKE:
        h->atomics = card(h->ctx, UNETMM_C_rel_atomics);
        return 0;
    default:
        return 0;
    }
}

/* Orders that go on after the answer, since the visitor waits for its turn. */
static void go_on(struct host *h, const struct message *m)
{
    if (m->order >= ECHO_BARE && m->order <= ECHO_HANDLER) {
        echo(h, m->order, m->length);
    } else if (m->order == WAKE) {
        wake(h, m->length);
    }
}

static void serve(struct host *h)
{
    struct unetmm_completion c;
    struct message m;

    do {
        c = next(h->ep, UNETMM_CQE_RECEIVED);
        if (!c.is_inline || c.len != sizeof(m)) {
            continue;
        }
        memcpy(&m, c.data, sizeof(m));
        m.answer = obey(h, &m);
        check(unetmm_send(h->ep, c.channel, &m, sizeof(m), 0, UNETMM_UNSIGNALED),
              UNETMM_CALL_SEND);
        go_on(h, &m);
    } while (m.order != LEAVE);
    /* Until the visitor's card has the last answer; the visitor may end first. */
    unetmm_shutdown(h->ep, c.channel, SECOND);
}

static void host(struct unetmm_ctx *ctx)
{
    struct unetmm_ep_attr attr = UNETMM_EP_ATTR_INIT;
    struct host h = { .ctx = ctx, .box = memory(BOX_BYTES) };

    h.ep = endpoint(ctx);
    attr.spin_ns = 0;
    check(unetmm_ep_create(ctx, &attr, &h.listener), UNETMM_CALL_EP_CREATE);
    check(unetmm_event_create(ctx, COUNTERS, h.counters), UNETMM_CALL_ANY);
    check(unetmm_set_handler(h.listener, UNETMM_EVERY_CHANNEL, on_other, NULL),
          UNETMM_CALL_HANDLERS);
    open_shared(&h);
    check(unetmm_listen_ex(h.ep, SERVICE, 1, NULL), UNETMM_CALL_LISTEN);
    h.channel = check(unetmm_accept(h.ep, NULL, -1),
                      UNETMM_CALL_ACCEPT);
    check(unetmm_handlers_start(h.listener, NULL, NULL), UNETMM_CALL_HANDLERS);
    serve(&h);
    check(unetmm_sync_close(h.my_sem), UNETMM_CALL_ANY);
    check(unetmm_sync_close(h.my_queue), UNETMM_CALL_ANY);
    check(unetmm_sync_home_close(h.sem), UNETMM_CALL_ANY);
    check(unetmm_sync_home_close(h.queue), UNETMM_CALL_ANY);
    check(unetmm_unexport(ctx, BOX), UNETMM_CALL_EXPORT);
    check(unetmm_ep_destroy(h.listener), UNETMM_CALL_ANY);
    check(unetmm_ep_destroy(h.ep), UNETMM_CALL_ANY);
    for (unsigned i = 0; i < COUNTERS; i++) {
        check(unetmm_event_destroy(h.counters[i]), UNETMM_CALL_ANY);
    }
}

/* ---- The visitor --------------------------------------------------------- */

struct visit {
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;
    struct unetmm_event_counter *counter;
    int channel, box;
    uint8_t *mine;
    uint64_t told;              /* echoes so far */
};

static uint64_t ask(struct visit *v, enum order order, uint32_t key,
                    uint64_t offset, uint64_t length)
{
    struct message m = { (uint32_t)order, key, offset, length, 0 };
    struct unetmm_completion c;

    check(unetmm_send(v->ep, v->channel, &m, sizeof(m), 0, UNETMM_UNSIGNALED),
          UNETMM_CALL_SEND);
    do {
        c = next(v->ep, UNETMM_CQE_RECEIVED);
        memcpy(&m, c.data, sizeof(m));
    } while (m.order != (uint32_t)order);
    return m.answer;
}

static uint64_t ask_figure(struct visit *v, enum figure which)
{
    return ask(v, FIGURE, which, 0, 0);
}

static double write_box(struct visit *v, uint32_t key, size_t offset,
                        size_t length)
{
    double start;

    fill(v->mine, key, 0, length);
    start = now_us();
    check(unetmm_write_sync(v->ep, v->box, offset, v->mine, length, 0,
                            0, 60 * SECOND),
          UNETMM_CALL_ONE_SIDED);
    return now_us() - start;
}

/* All of the box, in one write, when its pages are there, and when they are not. */
static void whole(struct visit *v, bool out)
{
    uint64_t packets = ask_figure(v, PACKETS), copies = ask_figure(v, COPIES);
    uint64_t ins = ask_figure(v, PAGE_INS), gone = 0, bad;
    uint64_t waits = card(v->ctx, UNETMM_C_credit_waits);
    double us;

    if (out) {
        gone = ask(v, OUT, 0, 0, BOX_BYTES);
    }
    us = write_box(v, 31 + out, 0, BOX_BYTES);
    bad = ask(v, CHECK, 31 + out, 0, BOX_BYTES) + ask_figure(v, DROPPED);
    printf("{\"step\":\"%s\",\"bytes\":%zu,\"out\":%" PRIu64
           ",\"redirected\":%" PRIu64 ",\"copied\":%" PRIu64
           ",\"page_ins\":%" PRIu64 ",\"credit_waits\":%" PRIu64
           ",\"us\":%.1f,\"bad\":%" PRIu64 "}\n",
           out ? "paged-out" : "resident", BOX_BYTES, gone,
           ask_figure(v, PACKETS) - packets, ask_figure(v, COPIES) - copies,
           ask_figure(v, PAGE_INS) - ins,
           card(v->ctx, UNETMM_C_credit_waits) - waits, us, bad);
    fflush(stdout);
}

/* One page at a time, as the sender sees it. */
static void singles(struct visit *v)
{
    double there[SINGLES], away[SINGLES];
    uint64_t packets = ask_figure(v, PACKETS), bad = 0, out = 0;

    for (uint32_t i = 0; i < SINGLES; i++) {
        size_t at = i * 2 * PAGE;

        there[i] = write_box(v, 100 + i, at, PAGE);
        bad += ask(v, CHECK, 100 + i, at, PAGE);
        out += ask(v, OUT, 0, at, PAGE);
        away[i] = write_box(v, 200 + i, at, PAGE);
        bad += ask(v, CHECK, 200 + i, at, PAGE);
    }
    printf("{\"step\":\"one-page\",\"bytes\":%zu,\"n\":%u,\"out\":%" PRIu64
           ",\"redirected\":%" PRIu64 ",\"there_us\":%.1f,\"away_us\":%.1f"
           ",\"bad\":%" PRIu64 "}\n", PAGE, SINGLES, out,
           ask_figure(v, PACKETS) - packets, median(there, SINGLES),
           median(away, SINGLES), bad);
    fflush(stdout);
}

/* A write there, and a counted one back. */
static void echoes(struct visit *v, enum order order, const char *how)
{
    static double took[ECHOES];
    const uint64_t none = 0;

    check(unetmm_write_sync(v->ep, v->box, 0, &none, sizeof(none), 0, 0,
                            60 * SECOND),
          UNETMM_CALL_ONE_SIDED);
    ask(v, order, 0, 0, ECHOES);
    for (uint64_t i = 1; i <= ECHOES; i++) {
        double start = now_us();

        check(unetmm_write(v->ep, v->box, 0, &i, sizeof(i), order == ECHO_BARE ?
                           0 : order - ECHO_SPIN, 0, UNETMM_UNSIGNALED |
                           (order == ECHO_BARE ? 0 : UNETMM_COUNT)),
              UNETMM_CALL_ONE_SIDED);
        if (!check(unetmm_event_wait(v->counter, ++v->told,
                                     UNETMM_EVENT_SPIN, 60 * SECOND),
                   UNETMM_CALL_ANY)) {
            fail("no echo came for a minute");
        }
        took[i - 1] = now_us() - start;
    }
    printf("{\"wait\":\"%s\",\"n\":%u,\"median\":%.1f,", how, ECHOES,
           median(took, ECHOES));
    printf("\"p99\":%.1f}\n", took[ECHOES * 99 / 100]);
    fflush(stdout);
}

static void semaphore(struct visit *v, struct unetmm_sync *sem)
{
    double took[TURNS];
    uint64_t word, sum;

    ask(v, SHARE, 0, 0, 0);
    for (unsigned i = 0; i < TURNS; i++) {
        double start = now_us();

        check(unetmm_sem_wait(sem, 60 * SECOND), UNETMM_CALL_ANY);
        check(unetmm_read_sync(v->ep, v->box, 0, v->mine, sizeof(word),
                               60 * SECOND),
              UNETMM_CALL_ONE_SIDED);
        memcpy(&word, v->mine, sizeof(word));
        word++;
        check(unetmm_write_sync(v->ep, v->box, 0, &word, sizeof(word),
                                0, 0, 60 * SECOND),
              UNETMM_CALL_ONE_SIDED);
        check(unetmm_sem_post(sem), UNETMM_CALL_ANY);
        took[i] = now_us() - start;
    }
    sum = ask(v, SHARED, 0, 0, 0);
    printf("{\"sync\":\"semaphore\",\"n\":%u,\"median\":%.1f,\"bad\":%" PRIu64
           "}\n", TURNS, median(took, TURNS), sum ^ 2 * TURNS);
    fflush(stdout);
}

static void queue(struct visit *v, struct unetmm_sync *sync)
{
    double took[TURNS];
    uint64_t missed = 0;

    ask(v, WAKE, 0, 0, TURNS);
    for (unsigned i = 0; i < TURNS; i++) {
        double start = now_us();

        missed += check(unetmm_waitq_wait(sync, 60 * SECOND),
                        UNETMM_CALL_ANY) != 1;
        took[i] = now_us() - start;
    }
    printf("{\"sync\":\"wait-queue\",\"n\":%u,\"median\":%.1f,\"bad\":%" PRIu64
           "}\n", TURNS, median(took, TURNS), missed);
    fflush(stdout);
}

static void meet(struct visit *v, const uint8_t mac[6])
{
    v->ep = endpoint(v->ctx);
    check(unetmm_event_create(v->ctx, 1, &v->counter), UNETMM_CALL_ANY);
    check(unetmm_export_events(v->ctx, ECHO, v->mine, PAGE,
                               UNETMM_RIGHT_WRITE, 0, 0, v->counter, 1),
          UNETMM_CALL_EXPORT);
    v->channel = check(unetmm_connect_ex(v->ep, mac, SERVICE,
                                         60 * SECOND, NULL, NULL),
                       UNETMM_CALL_CONNECT);
    ask(v, EXPORT, 0, 0, 0);
    v->box = check(unetmm_import(v->ep, v->channel, BOX, 0,
                                 60 * SECOND, NULL),
                   UNETMM_CALL_IMPORT);
}

static void visit(struct unetmm_ctx *ctx, const char *where)
{
    struct visit v = { .ctx = ctx, .mine = memory(BOX_BYTES) };
    struct unetmm_sync *sem, *waits;
    uint8_t mac[6];

    check(unetmm_parse_mac(where, mac), UNETMM_CALL_CONNECT);
    meet(&v, mac);
    whole(&v, false);
    whole(&v, true);
    singles(&v);
    echoes(&v, ECHO_BARE, "bytes");
    echoes(&v, ECHO_SPIN, "spin");
    echoes(&v, ECHO_BLOCK, "block");
    echoes(&v, ECHO_HANDLER, "handler");
    check(unetmm_sync_open(ctx, mac, SERVICE + 1, 60 * SECOND, &sem),
          UNETMM_CALL_CONNECT);
    check(unetmm_sync_open(ctx, mac, SERVICE + 2, 60 * SECOND, &waits),
          UNETMM_CALL_CONNECT);
    semaphore(&v, sem);
    queue(&v, waits);
    check(unetmm_sync_close(sem), UNETMM_CALL_ANY);
    check(unetmm_sync_close(waits), UNETMM_CALL_ANY);
    ask(&v, LEAVE, 0, 0, 0);
    check(unetmm_unexport(ctx, ECHO), UNETMM_CALL_EXPORT);
    check(unetmm_ep_destroy(v.ep), UNETMM_CALL_ANY);
    check(unetmm_event_destroy(v.counter), UNETMM_CALL_ANY);
}

int main(int argc, char **argv)
{
    return tour_main(argc, argv, "netvm-tour", UNETMM_SOURCE_SHADOW, visit, host);
}
