/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Blocking: no completion is slept through, whenever it comes.
 *
 * A lost wake-up shows as a wait that ends by its time: every wait here has a
 * time that only a lost wake-up can use up.
 */
#include "link.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_NS     ((int64_t)(10 * NS_PER_S * run.slow))

static struct unetmm_ep_attr blocking(void)
{
    struct unetmm_ep_attr attr = default_attr();

    attr.spin_ns = 0;
    return attr;
}

/* Sends numbers, with pauses of random length, as `flow` says. */
struct flow {
    struct station *tx;
    uint64_t count;
    uint32_t longest_pause_us;
    uint64_t stream;
    atomic_ullong allowed;      /* numbers up to this may be sent */
};

static void *flow_thread(void *argument)
{
    struct flow *flow = argument;
    struct chance chance;
    uint64_t i;

    chance_init(&chance, flow->stream);
    for (i = 0; i < flow->count; i++) {
        uint64_t end = deadline_in(30);

        while (i >= atomic_load(&flow->allowed)) {
            CHECK(now_ns() < end);
            sched_yield();
        }
        if (flow->longest_pause_us) {
            idle_ns(chance_below(&chance, flow->longest_pause_us) *
                    NS_PER_US);
        }
        send_pieces(flow->tx, &(struct iovec) { &i, sizeof(i) }, 1, i,
                    UNETMM_UNSIGNALED);
    }
    return NULL;
}

static pthread_t flow_start(struct flow *flow)
{
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, flow_thread, flow), 0);
    return thread;
}

static void check_number(const struct unetmm_completion *c, uint64_t wanted)
{
    uint64_t number;

    CHECK_EQ(c->type, UNETMM_CQE_RECEIVED);
    CHECK(c->is_inline && c->len == sizeof(number));
    memcpy(&number, c->data, sizeof(number));
    CHECK_EQ(number, wanted);
}

/* ---- unetmm_wait ------------------------------------------------------------------ */

static void receive_by_wait(struct station *rx, struct flow *flow,
                            uint64_t ahead)
{
    struct unetmm_completion c[4];
    uint64_t got = 0;

    while (got < flow->count) {
        int i, n = unetmm_wait(rx->ep, c, 4, PATIENCE_NS);

        if (!n) {
            FAIL("message %llu was slept through", (unsigned long long)got);
        }
        CHECK(n > 0);
        for (i = 0; i < n; i++) {
            check_number(&c[i], got++);
        }
        atomic_store(&flow->allowed, got + ahead);
    }
}

/* `ahead`: how many messages may be under way. */
static void stream_by_wait(uint64_t count, uint64_t ahead, uint32_t pause_us,
                           uint32_t spin_ns)
{
    struct flow flow = { .count = count, .longest_pause_us = pause_us };
    struct unetmm_ep_attr attr = blocking();
    pthread_t thread;
    struct link link;

    attr.spin_ns = spin_ns;
    link_open(&link, NULL, &attr);
    flow.tx = link.tx;
    atomic_init(&flow.allowed, ahead);
    thread = flow_start(&flow);
    receive_by_wait(link.rx, &flow, ahead);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    note("%llu messages, %llu notifications", (unsigned long long)count,
         (unsigned long long)ep_counter(link.rx, UNETMM_C_notifications));
    link_close(&link);
}

TEST(one_by_one, TEST_TLB)
{
    stream_by_wait(rounds(1500), 1, 0, 0);
}

TEST(with_pauses, TEST_TLB)
{
    stream_by_wait(rounds(600), 1, 150, 0);
    stream_by_wait(rounds(600), 16, 40, 0);
}

TEST(spin_then_block, TEST_TLB)
{
    stream_by_wait(rounds(600), 2, 150, 40000);
    stream_by_wait(rounds(300), 2, 50, UNETMM_SPIN_FOREVER);
}

TEST(times_out, TEST_TLB)
{
    struct unetmm_ep_attr attr = blocking();
    struct unetmm_completion c;
    struct link link;
    uint64_t start;

    link_open(&link, NULL, &attr);
    start = now_ns();
    CHECK_RET(unetmm_wait(link.rx->ep, &c, 1, 30 * NS_PER_MS), 0);
    CHECK(now_ns() >= start + 30 * NS_PER_MS);
    CHECK_RET(unetmm_wait(link.rx->ep, &c, 1, 0), 0);
    CHECK_RET(unetmm_wait(link.rx->ep, &c, 0, 0), -EINVAL);
    /* A wake-up that was armed before and came late does no harm. */
    CHECK_EQ(send_status(link.tx, "x", 1), UNETMM_ST_OK);
    CHECK_RET(unetmm_wait(link.rx->ep, &c, 1, PATIENCE_NS), 1);
    CHECK_RET(unetmm_wait(link.rx->ep, &c, 1, 10 * NS_PER_MS), 0);
    link_close(&link);
}

static void on_alarm(int number)
{
    (void)number;
}

TEST(interrupted, TEST_TLB)
{
    struct unetmm_ep_attr attr = blocking();
    struct sigaction action = { .sa_handler = on_alarm };
    /* Again and again: the first may come before we wait. */
    struct itimerspec when = { .it_value.tv_nsec = 20 * 1000 * 1000,
                               .it_interval.tv_nsec = 20 * 1000 * 1000 };
    struct unetmm_completion c;
    struct link link;
    timer_t timer;

    link_open(&link, NULL, &attr);
    CHECK_SYS(sigaction(SIGALRM, &action, NULL));
    CHECK_SYS(timer_create(CLOCK_MONOTONIC, NULL, &timer));
    CHECK_SYS(timer_settime(timer, 0, &when, NULL));
    CHECK_RET(unetmm_wait(link.rx->ep, &c, 1, PATIENCE_NS), -EINTR);
    CHECK_RET(unetmm_accept(link.rx->ep, NULL, PATIENCE_NS), -EINTR);
    CHECK_SYS(timer_delete(timer));
    link_close(&link);
}

static volatile sig_atomic_t handled;

static void on_user(int number)
{
    (void)number;
    handled = 1;
}

/* The third field of its /proc/PID/stat; the second is the name in brackets. */
static char state_of(pid_t pid)
{
    char path[40], line[200] = "";
    const char *end;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    CHECK(file && fgets(line, sizeof(line), file));
    fclose(file);
    end = strrchr(line, ')');
    CHECK(end && end[1] == ' ');
    return end[2];
}

/* The parent sleeps in its call alone: before it is stopped, and again when it goes on. */
static void stop_and_signal(void *argument)
{
    pid_t parent = getppid();

    (void)argument;
    EVENTUALLY(state_of(parent) == 'S');
    CHECK_SYS(kill(parent, SIGSTOP));
    EVENTUALLY(state_of(parent) == 'T');
    CHECK_SYS(kill(parent, SIGCONT));
    EVENTUALLY(state_of(parent) == 'S');
    CHECK_SYS(kill(parent, SIGUSR1));
}

/* A wait until a deadline goes on after a stop; a handler ends it, also with SA_RESTART. */
TEST(stopped, TEST_TLB)
{
    struct sigaction action = { .sa_handler = on_user, .sa_flags = SA_RESTART };
    struct unetmm_ep_attr attr = blocking();
    struct unetmm_listener found[2];
    struct unetmm_peers peers = {
        .size = sizeof(peers), .count = 2, .listeners = (uintptr_t)found,
    };
    const struct unetmm_channel_attr reliable = UNETMM_CHANNEL_ATTR_INIT;
    struct unetmm_event_counter *counter;
    struct station asker, owner;
    struct link link;
    int call, ret;

    link_open(&link, NULL, &attr);
    station_open(&asker, link.ctx, NULL);
    station_open(&owner, link.ctx, NULL);
    CHECK_RET(try_join(&asker, &owner, &reliable, PATIENCE_NS), 0);
    CHECK_RET(unetmm_event_create(link.ctx, 1, &counter), 0);
    CHECK_SYS(sigaction(SIGUSR1, &action, NULL));
    for (call = 0; call < 4; call++) {
        pid_t pid;

        handled = 0;
        pid = start_process(stop_and_signal, NULL);
        ret = call == 0 ? unetmm_accept(link.rx->ep, NULL, PATIENCE_NS) :
              call == 1 ? unetmm_event_wait(counter, 1, UNETMM_EVENT_BLOCK, PATIENCE_NS) :
              call == 2 ? unetmm_import(asker.ep, (int)asker.channel, UINT64_MAX, 0,
                                        PATIENCE_NS, NULL) :
              unetmm_peers(link.ctx, &peers, PATIENCE_NS);
        note("call %d: %s", call, error_name(ret));
        CHECK_RET(ret, -EINTR);
        CHECK(handled);
        end_process(pid);
    }
    CHECK_RET(unetmm_event_destroy(counter), 0);
    station_close(&owner);
    station_close(&asker);
    link_close(&link);
}

/* ---- unetmm_arm, unetmm_fd ---------------------------------------------------------- */

static void sleep_on(struct station *rx)
{
    struct pollfd entry = { .fd = unetmm_fd(rx->ep), .events = POLLIN };

    if (unetmm_arm(rx->ep) == 0 &&
        CHECK_SYS(poll(&entry, 1, (int)(PATIENCE_NS / (int64_t)NS_PER_MS))) ==
        0) {
        FAIL("a wake-up was lost");
    }
}

TEST(by_descriptor, TEST_TLB)
{
    struct flow flow = { .count = rounds(2000), .longest_pause_us = 60 };
    struct unetmm_completion c;
    pthread_t thread;
    uint64_t got = 0;
    struct link link;

    link_open(&link, NULL, NULL);
    flow.tx = link.tx;
    atomic_init(&flow.allowed, 3);
    thread = flow_start(&flow);
    while (got < flow.count) {
        sleep_on(link.rx);
        while (unetmm_poll(link.rx->ep, &c, 1) == 1) {
            check_number(&c, got++);
            atomic_store(&flow.allowed, got + 3);
        }
    }
    CHECK_EQ(pthread_join(thread, NULL), 0);
    link_close(&link);
}

/* Arming when something is there says so; a later completion wakes. */
TEST(armed_late, TEST_TLB)
{
    struct pollfd entry = { .events = POLLIN };
    struct unetmm_completion c;
    struct link link;

    link_open(&link, NULL, NULL);
    entry.fd = unetmm_fd(link.rx->ep);
    CHECK_RET(unetmm_arm(link.rx->ep), 0);
    CHECK_EQ(poll(&entry, 1, 10), 0);
    CHECK_EQ(send_status(link.tx, "x", 1), UNETMM_ST_OK);
    CHECK_EQ(poll(&entry, 1, (int)(PATIENCE_NS / (int64_t)NS_PER_MS)), 1);
    CHECK_RET(unetmm_arm(link.rx->ep), 1);
    CHECK_RET(unetmm_poll(link.rx->ep, &c, 1), 1);
    CHECK_RET(unetmm_arm(link.rx->ep), 0);
    CHECK_EQ(poll(&entry, 1, 10), 0);
    /* Not armed again: nothing wakes. */
    CHECK_EQ(send_status(link.tx, "y", 1), UNETMM_ST_OK);
    CHECK_EQ(poll(&entry, 1, (int)(PATIENCE_NS / (int64_t)NS_PER_MS)), 1);
    CHECK_EQ(send_status(link.tx, "z", 1), UNETMM_ST_OK);
    CHECK_EQ(ep_counter(link.rx, UNETMM_C_notifications), 2);
    link_close(&link);
}

/* ---- Many endpoints, one epoll --------------------------------------------------------- */

#define MANY            6

TEST(many_endpoints, TEST_TLB)
{
    struct flow flow[MANY];
    pthread_t threads[MANY];
    struct link link[MANY];
    uint64_t got[MANY] = { 0 }, total = 0, each = rounds(250);
    struct unetmm_ctx *ctx = open_card();
    int epoll = CHECK_SYS(epoll_create1(EPOLL_CLOEXEC));
    struct unetmm_completion c;
    unsigned i;

    for (i = 0; i < MANY; i++) {
        struct epoll_event event = { .events = EPOLLIN, .data.u32 = i };

        link_open(&link[i], ctx, NULL);
        CHECK_SYS(epoll_ctl(epoll, EPOLL_CTL_ADD, unetmm_fd(link[i].rx->ep),
                            &event));
        flow[i] = (struct flow) { .tx = link[i].tx, .count = each,
                                  .longest_pause_us = 100, .stream = i };
        atomic_init(&flow[i].allowed, 2);
        CHECK(unetmm_arm(link[i].rx->ep) >= 0);
    }
    for (i = 0; i < MANY; i++) {
        threads[i] = flow_start(&flow[i]);
    }
    while (total < MANY * each) {
        struct epoll_event event;

        CHECK_EQ(epoll_wait(epoll, &event, 1,
                            (int)(PATIENCE_NS / (int64_t)NS_PER_MS)), 1);
        i = event.data.u32;
        do {
            while (unetmm_poll(link[i].rx->ep, &c, 1) == 1) {
                check_number(&c, got[i]++);
                total++;
                atomic_store(&flow[i].allowed, got[i] + 2);
            }
        } while (unetmm_arm(link[i].rx->ep) == 1);
    }
    for (i = 0; i < MANY; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
        link_close(&link[i]);
    }
    CHECK_RET(unetmm_close(ctx), 0);
}

/* ---- Two processes -------------------------------------------------------------------------- */

#define PING_SERVICE    (SERVICE_FIRST - 1)

/* One message there, one back, both sides asleep in between. */
static void volley(struct station *s, uint64_t count, bool first)
{
    struct unetmm_completion c;
    uint64_t i;

    for (i = 0; i < count; i++) {
        if (first) {
            send_pieces(s, &(struct iovec) { &i, sizeof(i) }, 1, i,
                        UNETMM_UNSIGNALED);
        }
        if (unetmm_wait(s->ep, &c, 1, PATIENCE_NS) != 1) {
            FAIL("volley %llu was slept through", (unsigned long long)i);
        }
        check_number(&c, i);
        if (!first) {
            send_pieces(s, &(struct iovec) { &i, sizeof(i) }, 1, i,
                        UNETMM_UNSIGNALED);
        }
    }
}

static void volley_server(void *argument)
{
    struct unetmm_ep_attr attr = blocking();
    struct unetmm_ctx *ctx = open_card();
    struct station s;
    int channel;

    station_open(&s, ctx, &attr);
    CHECK_RET(unetmm_listen_ex(s.ep, PING_SERVICE, 1, &datagram_attr), 0);
    channel = unetmm_accept(s.ep, NULL, PATIENCE_NS);
    CHECK(channel >= 0);
    s.channel = (unsigned)channel;
    volley(&s, *(uint64_t *)argument, false);
    EVENTUALLY(unetmm_send_pending(s.ep) == 0);
    station_close(&s);
    CHECK_RET(unetmm_close(ctx), 0);
}

TEST(two_processes, TEST_BOTH)
{
    struct unetmm_ep_attr attr = blocking();
    uint64_t count = rounds(500);
    pid_t pid = start_process(volley_server, &count);
    struct unetmm_ctx *ctx = open_card();
    struct station s;
    uint8_t mac[6];
    int channel;

    card_mac(mac);
    station_open(&s, ctx, &attr);
    channel = unetmm_connect_ex(s.ep, mac, PING_SERVICE, PATIENCE_NS, &datagram_attr, NULL);
    CHECK(channel >= 0);
    s.channel = (unsigned)channel;
    volley(&s, count, true);
    end_process(pid);
    station_close(&s);
    CHECK_RET(unetmm_close(ctx), 0);
}
