/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handlers on the card: called by dispatch and by the library's thread, blocked
 * and unblocked under traffic, and at the end of the endpoint and the process.
 */
#include "link.h"

#include <libunetmm/inline.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_NS     ((int64_t)(10 * NS_PER_S * run.slow))

/* Numbers that a handler has to see one after another. */
struct count {
    atomic_ullong next;
    atomic_ullong by_main;
    struct station *answer;     /* sends each back from here */
    uint64_t last;              /* ... but no more than these */
};

static void on_number(struct unetmm_ep *ep, const struct unetmm_completion *c,
                      void *arg)
{
    struct count *count = arg;
    uint64_t number, next = atomic_load(&count->next);

    if (c->type != UNETMM_CQE_RECEIVED) {
        return;
    }
    CHECK(c->is_inline && c->len == sizeof(number));
    memcpy(&number, c->data, sizeof(number));
    CHECK_EQ(number, next);
    if (count->answer && next < count->last) {
        CHECK(count->answer->ep == ep);
        number++;
        CHECK_RET(unetmm_send(ep, c->channel, &number, sizeof(number), 0,
                              UNETMM_UNSIGNALED | UNETMM_MORE), 0);
        next++;
    }
    atomic_store(&count->next, next + 1);
}

static void handle(struct station *s, struct count *count)
{
    CHECK_RET(unetmm_set_handler(s->ep, UNETMM_EVERY_CHANNEL, on_number,
                                 count), 0);
}

static void send_number(struct station *s, uint64_t number)
{
    send_pieces(s, &(struct iovec) { &number, sizeof(number) }, 1, number,
                UNETMM_UNSIGNALED);
}

static struct unetmm_ep_attr spinning(uint32_t spin_ns)
{
    struct unetmm_ep_attr attr = default_attr();

    attr.spin_ns = spin_ns;
    return attr;
}

/* ---- The program dispatches -------------------------------------------------- */

TEST(dispatch, TEST_ALL | TEST_UTLB)
{
    struct unetmm_ep_attr attr = spinning(0);
    uint64_t i, n = rounds(400);
    struct count count = { 0 };
    struct link link;

    link_open(&link, NULL, &attr);
    CHECK_RET(unetmm_dispatch(link.rx->ep, 1, 0), -ENOENT);
    handle(link.rx, &count);
    for (i = 0; i < n; i++) {
        send_number(link.tx, i);
        while (atomic_load(&count.next) <= i) {
            CHECK(unetmm_dispatch(link.rx->ep, 16, PATIENCE_NS) > 0);
        }
    }
    CHECK_RET(unetmm_dispatch(link.rx->ep, 16, 0), 0);
    link_close(&link);
}

/* Blocked for a while: messages wait, in order. */
TEST(blocked, TEST_MISS)
{
    struct count count = { 0 };
    struct link link;
    uint64_t i;

    link_open(&link, NULL, NULL);
    handle(link.rx, &count);
    CHECK_RET(unetmm_handlers_block(link.rx->ep), 0);
    CHECK_RET(unetmm_handlers_block(link.rx->ep), 0);
    for (i = 0; i < 100; i++) {
        send_number(link.tx, i);
    }
    EVENTUALLY(ep_handled(link.rx) == 100);
    CHECK_RET(unetmm_dispatch(link.rx->ep, 1000, PATIENCE_NS), -EDEADLK);
    CHECK_RET(unetmm_handlers_unblock(link.rx->ep), 0);
    CHECK_RET(unetmm_handlers_unblock(link.rx->ep), 1);
    CHECK_RET(unetmm_dispatch(link.rx->ep, 1000, PATIENCE_NS), 100);
    CHECK_EQ(atomic_load(&count.next), 100);
    link_close(&link);
}

/* ---- The library's thread does ----------------------------------------------- */

/* Two endpoints, a thread each: every number is answered with the next. */
static void volley_with(uint32_t spin_ns, uint64_t n)
{
    struct unetmm_ep_attr attr = spinning(spin_ns);
    struct count one = { .last = n }, two = { .next = 1, .last = n };
    struct link link;
    uint64_t end;

    link_open(&link, NULL, &attr);
    one.answer = link.rx;
    two.answer = link.tx;
    handle(link.rx, &one);
    handle(link.tx, &two);
    CHECK_RET(unetmm_handlers_start(link.rx->ep, NULL, NULL), 0);
    CHECK_RET(unetmm_handlers_start(link.tx->ep, NULL, NULL), 0);
    CHECK_RET(unetmm_handlers_block(link.tx->ep), 0);
    send_number(link.tx, 0);
    CHECK_RET(unetmm_handlers_unblock(link.tx->ep), 1);
    end = deadline_in(20);
    while (atomic_load(&one.next) < n && atomic_load(&two.next) < n) {
        if (now_ns() > end) {
            FAIL("slept through, at %llu and %llu",
                 (unsigned long long)atomic_load(&one.next),
                 (unsigned long long)atomic_load(&two.next));
        }
        breathe();
    }
    CHECK_RET(unetmm_handlers_stop(link.rx->ep), 0);
    CHECK_RET(unetmm_handlers_stop(link.tx->ep), 0);
    link_close(&link);
}

TEST(volley, TEST_MISS, 60)
{
    volley_with(0, rounds(400));
    volley_with(200000, rounds(200));
}

/*
 * A thread takes numbers while we block handlers again and again, and then take
 * some ourselves, wait, or arm.  A wake-up that is lost stops the flow.
 */
static void use_blocked(struct station *s, struct count *count, unsigned round)
{
    struct unetmm_completion c[2];
    int i, n = 0;

    if (round % 3 == 0) {
        n = unetmm_poll(s->ep, c, 2);
    } else if (round % 3 == 1) {
        n = unetmm_wait(s->ep, c, 2, 20 * NS_PER_US);
    } else {
        CHECK(unetmm_arm(s->ep) >= 0);
    }
    CHECK(n >= 0);
    for (i = 0; i < n; i++) {
        on_number(s->ep, &c[i], count);
        atomic_fetch_add(&count->by_main, 1);
    }
}

struct flow {
    struct station *tx;
    struct count *count;
    uint64_t n;
};

static void *flow_thread(void *argument)
{
    struct flow *flow = argument;
    struct chance chance;
    uint64_t i;

    chance_init(&chance, 1);
    for (i = 0; i < flow->n; i++) {
        uint64_t end = deadline_in(20);

        while (i >= atomic_load(&flow->count->next) + 4) {
            if (now_ns() > end) {
                FAIL("number %llu was slept through", (unsigned long long)
                     atomic_load(&flow->count->next));
            }
            sched_yield();
        }
        idle_ns(chance_below(&chance, 100) * NS_PER_US);
        send_number(flow->tx, i);
    }
    return NULL;
}

TEST(blocked_under_traffic, TEST_MISS, 60)
{
    struct unetmm_ep_attr attr = spinning(0);
    struct count count = { 0 };
    struct flow flow = { .count = &count, .n = rounds(600) };
    unsigned long long before;
    unsigned round = 0;
    pthread_t thread;
    struct link link;

    link_open(&link, NULL, &attr);
    flow.tx = link.tx;
    handle(link.rx, &count);
    CHECK_RET(unetmm_handlers_start(link.rx->ep, NULL, NULL), 0);
    CHECK_EQ(pthread_create(&thread, NULL, flow_thread, &flow), 0);
    while (atomic_load(&count.next) < flow.n) {
        CHECK_RET(unetmm_handlers_block(link.rx->ep), 0);
        before = atomic_load(&count.next);
        sched_yield();
        CHECK_EQ(atomic_load(&count.next), before);
        use_blocked(link.rx, &count, round++);
        CHECK_RET(unetmm_handlers_unblock(link.rx->ep), 1);
        breathe();
    }
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_RET(unetmm_handlers_stop(link.rx->ep), 0);
    note("%llu numbers, %llu of them taken while blocked, in %u rounds",
         (unsigned long long)flow.n,
         (unsigned long long)atomic_load(&count.by_main), round);
    link_close(&link);
}

/* ---- The end ------------------------------------------------------------------- */

static atomic_int ended;

static void on_end(struct unetmm_ep *ep, int error, void *arg)
{
    (void)ep;
    (void)arg;
    atomic_store(&ended, error);
}

/* An index that no library writes: the card stops the endpoint. */
TEST(stopped_by_the_card, TEST_TLB)
{
    struct unetmm_ep_attr attr = spinning(0);
    struct count count = { 0 };
    struct link link;

    atomic_store(&ended, 0);
    link_open(&link, NULL, &attr);
    handle(link.rx, &count);
    CHECK_RET(unetmm_handlers_start(link.rx->ep, on_end, NULL), 0);
    send_number(link.tx, 0);
    EVENTUALLY(atomic_load(&count.next) == 1);
    CHECK_RET(unetmm_handlers_block(link.rx->ep), 0);
    unetmm_write_index(&link.rx->ep->index->user.sq_prod, 0x12345678);
    unetmm_ring(link.rx->ep);
    CHECK_RET(unetmm_handlers_unblock(link.rx->ep), 1);
    EVENTUALLY(atomic_load(&ended) == -EIO);
    CHECK_RET(unetmm_handlers_stop(link.rx->ep), -EIO);
    link_close(&link);
}

static void destroy(struct unetmm_ep *ep, const struct unetmm_completion *c,
                    void *arg)
{
    (void)c;
    CHECK_RET(unetmm_ep_destroy(ep), 0);
    atomic_store((atomic_int *)arg, 1);
}

/* While messages come, and free buffers are posted. */
TEST(destroyed_from_inside, TEST_ALL | TEST_UTLB)
{
    struct station other;
    uint8_t *buffer = shared_memory(8 * UNETMM_PAGE_BYTES);
    atomic_int done = 0;
    struct link link;
    unsigned i, threaded;

    for (threaded = 0; threaded < 2; threaded++) {
        atomic_store(&done, 0);
        link_open(&link, NULL, NULL);
        station_open(&other, link.ctx, NULL);
        join(link.tx, &other);
        reach(link.ctx, buffer, 8 * UNETMM_PAGE_BYTES, true);
        for (i = 0; i < 8; i++) {
            post(&other, buffer + i * UNETMM_PAGE_BYTES, UNETMM_PAGE_BYTES, i);
        }
        CHECK_RET(unetmm_set_handler(other.ep, UNETMM_EVERY_CHANNEL, destroy,
                                     &done), 0);
        if (threaded) {
            CHECK_RET(unetmm_handlers_start(other.ep, NULL, NULL), 0);
        }
        for (i = 0; i < 20; i++) {
            send_number(link.tx, i);
        }
        if (!threaded) {
            CHECK_RET(unetmm_dispatch(other.ep, 99, PATIENCE_NS), -ESHUTDOWN);
        }
        EVENTUALLY(atomic_load(&done));
        unreach(link.ctx, buffer, 8 * UNETMM_PAGE_BYTES);
        link_close(&link);
    }
}

/* Killed with a handler in the middle: the driver must clean up. */
static void victim(void *argument)
{
    atomic_uint *ready = argument;
    struct count count = { .last = UINT64_MAX }, other = { .next = 1,
                                                           .last = UINT64_MAX };
    struct link link;

    link_open(&link, NULL, NULL);
    count.answer = link.rx;
    other.answer = link.tx;
    handle(link.rx, &count);
    handle(link.tx, &other);
    CHECK_RET(unetmm_handlers_start(link.rx->ep, NULL, NULL), 0);
    CHECK_RET(unetmm_handlers_block(link.tx->ep), 0);
    send_number(link.tx, 0);
    CHECK_RET(unetmm_handlers_unblock(link.tx->ep), 1);
    CHECK_RET(unetmm_handlers_start(link.tx->ep, NULL, NULL), 0);
    for (;;) {
        atomic_store(ready, (unsigned)atomic_load(&count.next));
        breathe();
    }
}

TEST(killed, TEST_MISS)
{
    atomic_uint *ready = shared_memory(sizeof(*ready));
    unsigned i;

    for (i = 0; i < rounds(5); i++) {
        pid_t pid;
        int status;

        atomic_store(ready, 0);
        pid = start_process(victim, ready);
        EVENTUALLY(atomic_load(ready) > 20);
        CHECK_SYS(kill(pid, SIGKILL));
        status = await_process(pid);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
}
