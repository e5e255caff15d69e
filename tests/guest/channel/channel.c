/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Channels: connecting, refusals, and the ways in which a channel ends.
 */
#include "guard.h"
#include "link.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVICE         (SERVICE_FIRST - 2)
#define PATIENCE_NS     (10 * NS_PER_S * run.slow)

static const uint8_t nobody[6] = { 0x52, 0x54, 0x00, 0xff, 0xfe, 0xfd };

struct two {
    struct unetmm_ctx *ctx;
    struct station one, two;
    uint8_t mac[6];
};

static void two_open(struct two *t)
{
    card_mac(t->mac);
    t->ctx = open_card();
    station_open(&t->one, t->ctx, NULL);
    station_open(&t->two, t->ctx, NULL);
}

static void two_close(struct two *t)
{
    station_close(&t->one);
    station_close(&t->two);
    CHECK_RET(unetmm_close(t->ctx), 0);
}

static unsigned channel_of(int result)
{
    if (result < 0) {
        FAIL("no channel: %s", error_name(result));
    }
    return (unsigned)result;
}

static unsigned connect_to(struct two *t, struct station *from,
                           uint64_t service)
{
    return channel_of(unetmm_connect_ex(from->ep, t->mac, service,
                                     PATIENCE_NS, &datagram_attr, NULL));
}

/*
 * Nobody accepts: the peer's driver says so, and needs time for that before the
 * caller's time is up.
 */
static int connect_in_vain(struct two *t, uint64_t wait_ns)
{
    int ret;

    do {
        ret = unetmm_connect_ex(t->one.ep, t->mac, SERVICE, wait_ns, &datagram_attr, NULL);
        wait_ns *= 4;
    } while (ret == -EHOSTUNREACH && wait_ns < PATIENCE_NS);
    return ret;
}

static unsigned accept_from(struct station *at)
{
    return channel_of(unetmm_accept(at->ep, NULL, PATIENCE_NS));
}

/* A short message on these channels, there or back. */
static void passes(struct station *from, unsigned out, struct station *to,
                   unsigned in)
{
    static uint64_t number;
    struct unetmm_completion c;
    uint64_t value = ++number;

    from->channel = out;
    CHECK_EQ(send_status(from, &value, sizeof(value)), UNETMM_ST_OK);
    take(to, UNETMM_CQE_RECEIVED, &c);
    CHECK_EQ(c.channel, in);
    CHECK_EQ(c.len, sizeof(value));
    CHECK(!memcmp(c.data, &value, sizeof(value)));
}

/* ---- How it begins ------------------------------------------------------------------ */

struct late_listener {
    struct two *t;
    uint64_t pause_ns;
};

static void *listen_late(void *argument)
{
    struct late_listener *late = argument;

    idle_ns(late->pause_ns);
    CHECK_RET(unetmm_listen_ex(late->t->two.ep, SERVICE, 1, &datagram_attr), 0);
    return NULL;
}

TEST(connect_before_listen, TEST_TLB)
{
    struct two t;
    struct late_listener late = { &t, 150 * NS_PER_MS };
    pthread_t thread;
    unsigned out, in;

    two_open(&t);
    CHECK_EQ(pthread_create(&thread, NULL, listen_late, &late), 0);
    out = connect_to(&t, &t.one, SERVICE);
    in = accept_from(&t.two);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    passes(&t.one, out, &t.two, in);
    passes(&t.two, in, &t.one, out);
    two_close(&t);
}

TEST(connect_times_out, TEST_TLB)
{
    unsigned out;
    uint64_t start;
    struct two t;

    two_open(&t);
    start = now_ns();
    CHECK_RET(connect_in_vain(&t, 60 * NS_PER_MS), -ETIMEDOUT);
    CHECK(now_ns() >= start + 60 * NS_PER_MS);
    CHECK_RET(unetmm_connect_ex(t.one.ep, nobody, SERVICE, 60 * NS_PER_MS, &datagram_attr, NULL),
              -EHOSTUNREACH);
    CHECK_RET(unetmm_connect_ex(t.one.ep, t.mac, 0, NS_PER_S, &datagram_attr, NULL), -EINVAL);
    CHECK_RET(unetmm_connect_ex(t.one.ep, (uint8_t[6]) { 1, 2, 3, 4, 5, 6 },
                             SERVICE, NS_PER_S, &datagram_attr, NULL), -EINVAL);
    CHECK_RET(unetmm_connect_ex(t.one.ep, (uint8_t[6]) { 0 }, SERVICE, NS_PER_S, &datagram_attr,
                             NULL), -EINVAL);
    /* An attempt that failed leaves no channel behind. */
    CHECK_RET(unetmm_disconnect(t.one.ep, 0), -ENOENT);
    CHECK_RET(unetmm_disconnect(t.one.ep, 1), -ENOENT);
    CHECK_RET(unetmm_listen_ex(t.two.ep, SERVICE, 1, &datagram_attr), 0);
    out = connect_to(&t, &t.one, SERVICE);
    passes(&t.one, out, &t.two, accept_from(&t.two));
    two_close(&t);
}

TEST(probe, TEST_TLB)
{
    struct unetmm_info info;
    uint32_t mtu = 0;
    struct two t;

    two_open(&t);
    card_info(&info);
    CHECK_RET(unetmm_probe(t.ctx, t.mac, PATIENCE_NS, &mtu), 0);
    CHECK_EQ(mtu, info.user_mtu);
    CHECK_RET(unetmm_probe(t.ctx, t.mac, PATIENCE_NS, NULL), 0);
    CHECK_RET(unetmm_probe(t.ctx, nobody, 60 * NS_PER_MS, &mtu),
              -EHOSTUNREACH);
    two_close(&t);
}

/* How many listen on the service, as far as our card says. */
static int announced(struct two *t, uint64_t service,
                     struct unetmm_listener *found, uint32_t room)
{
    struct unetmm_peers ask = {
        .size = sizeof(ask), .service = service, .count = room,
        .listeners = (uintptr_t)found,
    };
    int ret;

    memcpy(ask.mac, t->mac, sizeof(ask.mac));
    EVENTUALLY((ret = unetmm_peers(t->ctx, &ask, 150 * NS_PER_MS * run.slow)) !=
               -EAGAIN);
    return ret;
}

/* Endpoints are found while they listen and want to be. */
TEST(peers, TEST_TLB)
{
    const struct unetmm_channel_attr attr = {
        .size = sizeof(attr), .flags = UNETMM_DATAGRAM | UNETMM_ANNOUNCE,
    };
    struct unetmm_peers bad = { .size = sizeof(bad) };
    struct unetmm_listener found[4];
    struct unetmm_info info;
    struct two t;

    two_open(&t);
    card_info(&info);
    CHECK_RET(unetmm_peers(t.ctx, &bad, 0), -EINVAL);
    bad.count = 1;
    bad.mac[0] = 1;
    CHECK_RET(unetmm_peers(t.ctx, &bad, 0), -EINVAL);
    CHECK_RET(unetmm_listen_ex(t.one.ep, SERVICE, 1, &datagram_attr), 0);
    CHECK_RET(unetmm_listen_ex(t.two.ep, SERVICE + 1, 1, &attr), 0);
    CHECK_EQ(announced(&t, SERVICE, found, 4), 0);
    EVENTUALLY(announced(&t, SERVICE + 1, found, 4) == 1);
    CHECK_EQ(found[0].service, SERVICE + 1);
    CHECK_EQ(found[0].endpoint, unetmm_ep_id(t.two.ep));
    CHECK_EQ(found[0].mtu, info.user_mtu);
    CHECK_EQ(found[0].types, UNETMM_DATAGRAM);
    CHECK(!memcmp(found[0].mac, t.mac, 6));
    CHECK(!strcmp((const char *)found[0].name, "channel"));
    CHECK_EQ(found[0].unused, 0);
    /* The array is full: it does not wait for more. */
    CHECK_RET(unetmm_listen_ex(t.one.ep, SERVICE, 1, &attr), 0);
    EVENTUALLY(announced(&t, 0, found, 1) == 1);
    EVENTUALLY(announced(&t, 0, NULL, 1) == -EFAULT);
    CHECK_RET(unetmm_listen_ex(t.one.ep, SERVICE, 1, &datagram_attr), 0);
    CHECK_RET(unetmm_listen(t.two.ep, 0, 0), 0);
    CHECK_EQ(announced(&t, SERVICE, found, 4), 0);
    CHECK_EQ(announced(&t, SERVICE + 1, found, 4), 0);
    two_close(&t);
}

TEST(addresses_in_use, TEST_TLB)
{
    struct two t;

    two_open(&t);
    CHECK_RET(unetmm_listen_ex(t.one.ep, SERVICE, 1, &datagram_attr), 0);
    CHECK_RET(unetmm_listen_ex(t.two.ep, SERVICE, 1, &datagram_attr), -EADDRINUSE);
    CHECK_RET(unetmm_listen_ex(t.one.ep, SERVICE, 5, &datagram_attr), 0);
    CHECK_RET(unetmm_listen_ex(t.two.ep, SERVICE + 1000, 0, &datagram_attr), -EINVAL);
    CHECK_RET(unetmm_listen_ex(t.two.ep, SERVICE + 1000, 65, &datagram_attr), -EINVAL);
    CHECK_RET(unetmm_listen(t.one.ep, 0, 0), 0);
    CHECK_RET(unetmm_listen_ex(t.two.ep, SERVICE, 1, &datagram_attr), 0);
    CHECK_RET(unetmm_connect_ex(t.one.ep, t.mac, SERVICE, PATIENCE_NS, &datagram_attr, NULL), 0);
    /* A closed endpoint stops listening. */
    station_close(&t.two);
    CHECK_RET(unetmm_listen_ex(t.one.ep, SERVICE, 1, &datagram_attr), 0);
    station_open(&t.two, t.ctx, NULL);
    two_close(&t);
}

TEST(backlog_full, TEST_TLB)
{
    struct two t;
    unsigned i;

    two_open(&t);
    CHECK_RET(unetmm_accept(t.two.ep, NULL, 0), -ETIMEDOUT);
    CHECK_RET(unetmm_listen_ex(t.two.ep, SERVICE, 3, &datagram_attr), 0);
    CHECK_RET(unetmm_accept(t.two.ep, NULL, 0), -ETIMEDOUT);
    CHECK_RET(unetmm_accept(t.two.ep, NULL, 20 * NS_PER_MS), -ETIMEDOUT);
    for (i = 0; i < 3; i++) {
        CHECK_EQ(connect_to(&t, &t.one, SERVICE), i);
    }
    CHECK_RET(connect_in_vain(&t, 50 * NS_PER_MS), -ETIMEDOUT);
    for (i = 0; i < 3; i++) {
        CHECK_RET(unetmm_accept(t.two.ep, NULL, 0), i);
        passes(&t.one, i, &t.two, i);
    }
    CHECK_RET(unetmm_accept(t.two.ep, NULL, 0), -ETIMEDOUT);
    i = connect_to(&t, &t.one, SERVICE);
    /* A message may come before accept does. */
    CHECK_EQ(unetmm_send(t.one.ep, i, "x", 1, 0, UNETMM_UNSIGNALED), 0);
    CHECK_RET(unetmm_accept(t.two.ep, NULL, 0), 3);
    two_close(&t);
}

/* The events of the context's descriptor, asked for POLLPRI alone. */
static int accept_polled(const struct two *t, int timeout_ms)
{
    struct pollfd fd = { .fd = unetmm_ctx_fd(t->ctx), .events = POLLPRI };

    CHECK_SYS(poll(&fd, 1, timeout_ms));
    return fd.revents;
}

static void *connect_later(void *argument)
{
    connect_to(argument, &((struct two *)argument)->one, SERVICE);
    return NULL;
}

TEST_NAMED("accept-poll", accepting_is_polled, TEST_TLB)
{
    pthread_t thread;
    struct two t;

    two_open(&t);
    CHECK_EQ(accept_polled(&t, 0), 0);
    CHECK_RET(unetmm_listen_ex(t.two.ep, SERVICE, 3, &datagram_attr), 0);
    CHECK_EQ(accept_polled(&t, 20), 0);
    /* It is asleep in poll() when somebody comes, most times. */
    CHECK_EQ(pthread_create(&thread, NULL, connect_later, &t), 0);
    CHECK_EQ(accept_polled(&t, (int)(PATIENCE_NS / NS_PER_MS)), POLLPRI);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    connect_to(&t, &t.one, SERVICE);
    CHECK_EQ(accept_polled(&t, 0), POLLPRI);
    CHECK_RET(unetmm_accept(t.two.ep, NULL, 0), 0);
    CHECK_EQ(accept_polled(&t, 0), POLLPRI);
    CHECK_RET(unetmm_accept(t.two.ep, NULL, 0), 1);
    CHECK_EQ(accept_polled(&t, 0), 0);
    /* A completion is not the event that was asked for. */
    CHECK_EQ(unetmm_send(t.one.ep, 0, "x", 1, 0, UNETMM_UNSIGNALED), 0);
    CHECK_EQ(accept_polled(&t, 20), 0);
    two_close(&t);
}

TEST(to_oneself, TEST_BOTH)
{
    struct two t;
    unsigned out, in;

    two_open(&t);
    CHECK_RET(unetmm_listen_ex(t.one.ep, SERVICE, 1, &datagram_attr), 0);
    out = connect_to(&t, &t.one, SERVICE);
    in = accept_from(&t.one);
    CHECK(out != in);
    passes(&t.one, out, &t.one, in);
    passes(&t.one, in, &t.one, out);
    CHECK_RET(unetmm_disconnect(t.one.ep, out), 0);
    EVENTUALLY(send_status(&t.one, "x", 1) == UNETMM_ST_BAD_CHANNEL);
    two_close(&t);
}

/* ---- How it ends ----------------------------------------------------------------------- */

TEST(closed_by_peer, TEST_BOTH)
{
    struct two t;
    unsigned out, in;
    uint64_t value = 1;

    two_open(&t);
    CHECK_RET(unetmm_listen_ex(t.two.ep, SERVICE, 1, &datagram_attr), 0);
    out = connect_to(&t, &t.one, SERVICE);
    in = accept_from(&t.two);
    passes(&t.one, out, &t.two, in);
    CHECK_RET(unetmm_disconnect(t.two.ep, in), 0);
    CHECK_RET(unetmm_disconnect(t.two.ep, in), -ENOENT);
    CHECK_RET(unetmm_send(t.two.ep, in, &value, sizeof(value), 0, 0),
              -ENOENT);
    CHECK_EQ(unetmm_channel_mtu(t.two.ep, in), -ENOENT);
    t.one.channel = out;
    EVENTUALLY(send_status(&t.one, &value, sizeof(value)) ==
               UNETMM_ST_BAD_CHANNEL);
    /* The number is ours until we give it back, and can then be had again. */
    CHECK_EQ(connect_to(&t, &t.one, SERVICE), out + 1);
    CHECK_RET(unetmm_disconnect(t.one.ep, out), 0);
    CHECK_RET(unetmm_send(t.one.ep, out, &value, sizeof(value), 0, 0),
              -ENOENT);
    two_close(&t);
}

/* Of this thread, on the first CPU. */
static void run_as(int policy)
{
    struct sched_param param = { .sched_priority = policy == SCHED_FIFO };
    cpu_set_t first;

    CPU_ZERO(&first);
    CPU_SET(0, &first);
    CHECK_SYS(sched_setaffinity(0, sizeof(first), &first));
    CHECK_SYS(sched_setscheduler(0, policy, &param));
}

/* One datagram channel, whose process is told of its end. */
static const struct unetmm_channel_attr told_attr = {
    .size = sizeof(told_attr), .flags = UNETMM_DATAGRAM | UNETMM_NOTIFY_CLOSE,
};

struct late_reader {
    struct two t;
    int result;
};

static void *connect_and_look_late(void *argument)
{
    struct late_reader *late = argument;

    run_as(SCHED_IDLE);
    late->result = unetmm_connect_ex(late->t.one.ep, late->t.mac, SERVICE,
                                     PATIENCE_NS, &told_attr, NULL);
    return NULL;
}

/*
 * The peer accepts and disconnects before the connecting thread runs again: the
 * channel was reset, and no time was up.  A process that has no number of it is not
 * told of its end.
 */
TEST(hung_up_at_once, TEST_TLB)
{
    unsigned i, resets = 0;
    cpu_set_t all;
    struct unetmm_completion c;
    struct late_reader late;
    pthread_t thread;

    CHECK_SYS(sched_getaffinity(0, sizeof(all), &all));
    two_open(&late.t);
    CHECK_RET(unetmm_listen_ex(late.t.two.ep, SERVICE, 1, &datagram_attr), 0);
    for (i = 0; i < rounds(20); i++) {
        CHECK_EQ(pthread_create(&thread, NULL, connect_and_look_late, &late), 0);
        run_as(SCHED_FIFO);
        CHECK_RET(unetmm_disconnect(late.t.two.ep, accept_from(&late.t.two)), 0);
        run_as(SCHED_OTHER);
        CHECK_SYS(sched_setaffinity(0, sizeof(all), &all));
        CHECK_EQ(pthread_join(thread, NULL), 0);
        if (late.result >= 0) {
            CHECK_RET(unetmm_disconnect(late.t.one.ep, (unsigned)late.result), 0);
            take(&late.t.one, UNETMM_CQE_CLOSED, &c);
            CHECK_EQ(c.channel, (unsigned)late.result);
        } else {
            CHECK_RET(late.result, -ECONNRESET);
            resets++;
        }
        CHECK(!take_now(&late.t.one, UNETMM_CQE_CLOSED, &c));
    }
    note("%u of %u were reset before the call looked", resets, i);
    two_close(&late.t);
}

/* Endpoints may go in any order; the peer's end is told. */
TEST(endpoint_gone, TEST_BOTH)
{
    unsigned out, in;
    struct two t;

    two_open(&t);
    CHECK_RET(unetmm_listen_ex(t.two.ep, SERVICE, 1, &datagram_attr), 0);
    out = connect_to(&t, &t.one, SERVICE);
    in = accept_from(&t.two);
    passes(&t.one, out, &t.two, in);
    CHECK_RET(unetmm_close(t.ctx), -EBUSY);
    station_close(&t.two);
    t.one.channel = out;
    EVENTUALLY(send_status(&t.one, "x", 1) == UNETMM_ST_BAD_CHANNEL);
    station_open(&t.two, t.ctx, NULL);
    CHECK_RET(unetmm_listen_ex(t.two.ep, SERVICE, 1, &datagram_attr), 0);
    out = connect_to(&t, &t.one, SERVICE);
    in = accept_from(&t.two);
    passes(&t.one, out, &t.two, in);
    two_close(&t);
}

/* Messages that are queued when the channel closes complete with an error. */
TEST(closed_with_messages, TEST_TLB)
{
    struct two t;
    struct unetmm_completion c;
    unsigned out, i, bad = 0;
    uint8_t byte = 0;

    two_open(&t);
    CHECK_RET(unetmm_listen_ex(t.two.ep, SERVICE, 1, &datagram_attr), 0);
    out = connect_to(&t, &t.one, SERVICE);
    accept_from(&t.two);
    for (i = 0; i < 10; i++) {
        CHECK_RET(unetmm_send(t.one.ep, out, &byte, 1, i, UNETMM_MORE), 0);
    }
    CHECK_RET(unetmm_disconnect(t.one.ep, out), 0);
    unetmm_ring(t.one.ep);
    for (i = 0; i < 10; i++) {
        take(&t.one, UNETMM_CQE_SENT, &c);
        CHECK_EQ(c.user_data, i);
        bad += c.status == UNETMM_ST_BAD_CHANNEL;
    }
    CHECK_EQ(bad, 10);
    two_close(&t);
}

/* ---- The numbers of ended channels ------------------------------------------------- */

/* Stations with small queues, of which the second listens, and is told of ends. */
static void numbers_open(struct two *t, unsigned type)
{
    struct unetmm_channel_attr channel = UNETMM_CHANNEL_ATTR_INIT;
    struct unetmm_ep_attr attr = default_attr();

    attr.completion_depth = 16;
    channel.flags = type | UNETMM_NOTIFY_CLOSE;
    card_mac(t->mac);
    t->ctx = open_card();
    station_open(&t->one, t->ctx, &attr);
    station_open(&t->two, t->ctx, &attr);
    CHECK_RET(unetmm_listen_ex(t->two.ep, SERVICE, 16, &channel), 0);
}

static unsigned number_next(struct two *t, unsigned type, unsigned *in)
{
    struct unetmm_channel_attr attr = UNETMM_CHANNEL_ATTR_INIT;

    attr.flags = type;
    t->one.channel = channel_of(unetmm_connect_ex(t->one.ep, t->mac, SERVICE, PATIENCE_NS,
                                                  &attr, NULL));
    *in = accept_from(&t->two);
    return t->one.channel;
}

/* Both halves of the channel that the first station had last. */
static void number_ends(struct two *t, unsigned in)
{
    CHECK_RET(unetmm_disconnect(t->one.ep, t->one.channel), 0);
    CHECK_RET(unetmm_disconnect(t->two.ep, in), 0);
}

static void take_closed(struct two *t, unsigned channel)
{
    struct unetmm_completion c;

    take(&t->two, UNETMM_CQE_CLOSED, &c);
    CHECK_EQ(c.channel, channel);
    CHECK_EQ(c.status, UNETMM_ST_BAD_CHANNEL);
    CHECK(!take_now(&t->two, UNETMM_CQE_CLOSED, &c));
}

/*
 * A number is another channel's when the process has taken the last completion of the
 * ended one: its CLOSED, which comes once, whichever side ends the channel.
 */
TEST(number_rests, TEST_TLB)
{
    unsigned out, in, next_in, turn;
    struct unetmm_completion c;
    struct two t;
    uint8_t byte = 0;

    numbers_open(&t, UNETMM_DATAGRAM);
    for (turn = 0; turn < 4; turn++) {
        out = number_next(&t, UNETMM_DATAGRAM, &in);
        CHECK_EQ(send_status(&t.one, &byte, 1), UNETMM_ST_OK);
        if (turn % 2) {
            number_ends(&t, in);
        } else {
            CHECK_RET(unetmm_disconnect(t.two.ep, in), 0);
            CHECK_RET(unetmm_disconnect(t.one.ep, out), 0);
        }
        number_next(&t, UNETMM_DATAGRAM, &next_in);
        CHECK(next_in != in);
        take(&t.two, UNETMM_CQE_RECEIVED, &c);
        CHECK_EQ(c.channel, in);
        take_closed(&t, in);
        number_ends(&t, next_in);
        take_closed(&t, next_in);
        number_next(&t, UNETMM_DATAGRAM, &next_in);
        CHECK_EQ(next_in, in);
        number_ends(&t, next_in);
        take_closed(&t, next_in);
    }
    two_close(&t);
}

/* One whose CLOSED waits for a place in the completion queue rests until that was taken. */
TEST(number_waits_for_room, TEST_TLB)
{
    unsigned i, in, next_in, out;
    struct unetmm_completion c;
    struct two t;
    uint8_t byte = 0;

    numbers_open(&t, UNETMM_DATAGRAM);
    out = number_next(&t, UNETMM_DATAGRAM, &in);
    for (i = 0; i < 16; i++) {
        CHECK_EQ(send_status(&t.one, &byte, 1), UNETMM_ST_OK);
    }
    CHECK_RET(unetmm_disconnect(t.two.ep, in), 0);
    CHECK_RET(unetmm_disconnect(t.one.ep, out), 0);
    number_next(&t, UNETMM_DATAGRAM, &next_in);
    CHECK(next_in != in);
    for (i = 0; i < 16; i++) {
        CHECK_RET(unetmm_poll(t.two.ep, &c, 1), 1);
        CHECK_EQ(c.type, UNETMM_CQE_RECEIVED);
    }
    /* All that were written when it ended have been taken, and one is still to come. */
    CHECK_RET(unetmm_disconnect(t.one.ep, t.one.channel), 0);
    number_next(&t, UNETMM_DATAGRAM, &next_in);
    CHECK(next_in != in);
    take(&t.two, UNETMM_CQE_CLOSED, &c);
    CHECK_EQ(c.channel, in);
    two_close(&t);
}

/* One that ends before it is accepted can be accepted, if it has left a completion. */
TEST(number_of_unaccepted, TEST_TLB)
{
    unsigned out, in;
    struct unetmm_completion c;
    struct two t;
    uint8_t byte = 0;

    numbers_open(&t, UNETMM_DATAGRAM);
    out = connect_to(&t, &t.one, SERVICE);
    t.one.channel = out;
    CHECK_EQ(send_status(&t.one, &byte, 1), UNETMM_ST_OK);
    CHECK_RET(unetmm_disconnect(t.one.ep, out), 0);
    take(&t.two, UNETMM_CQE_RECEIVED, &c);
    take_closed(&t, c.channel);
    in = accept_from(&t.two);
    CHECK_EQ(in, c.channel);
    CHECK_RET(unetmm_disconnect(t.two.ep, in), 0);
    CHECK_EQ(number_next(&t, UNETMM_DATAGRAM, &in), out);
    CHECK_EQ(in, c.channel);
    two_close(&t);
}

/* One whose sends fail, without room for their completions, rests until these were taken. */
TEST(number_of_failed_sends, TEST_TLB)
{
    unsigned i, in, out, n = 0;
    struct unetmm_completion c;
    struct two t;
    uint8_t byte = 0;

    numbers_open(&t, UNETMM_RELIABLE);
    out = number_next(&t, UNETMM_RELIABLE, &in);
    /* Of these 16 have room. */
    for (i = 0; i < 24; i++) {
        CHECK_RET(unetmm_send(t.one.ep, (int)out, &byte, 1, i, 0), 0);
    }
    CHECK_RET(unetmm_disconnect(t.one.ep, out), 0);
    for (i = 0; i < 16; i++) {
        CHECK_RET(unetmm_wait(t.one.ep, &c, 1, PATIENCE_NS), 1);
        CHECK_EQ(c.type, UNETMM_CQE_SENT);
        CHECK_EQ(c.user_data, n++);
    }
    number_next(&t, UNETMM_RELIABLE, &in);
    CHECK(t.one.channel != out);
    for (; n < 24; n++) {
        take(&t.one, UNETMM_CQE_SENT, &c);
        CHECK_EQ(c.user_data, n);
        CHECK_EQ(c.channel, out);
    }
    CHECK_RET(unetmm_disconnect(t.one.ep, t.one.channel), 0);
    CHECK_EQ(number_next(&t, UNETMM_RELIABLE, &in), out);
    two_close(&t);
}

struct reader {
    struct two *t;
    unsigned rounds;
    unsigned channels;
};

struct heard {
    bool there, ending;
    uint32_t serial;            /* of its messages; 0: none has come */
};

static void hear(struct station *at, struct heard *heard, const struct unetmm_completion *c,
                 unsigned *ends)
{
    struct heard *h = &heard[c->channel];
    uint32_t serial;

    while (!h->there && !h->ending) {
        unsigned number = accept_from(at);

        CHECK(!heard[number].there && !heard[number].ending);
        heard[number] = (struct heard) { .there = true };
    }
    if (c->type == UNETMM_CQE_CLOSED) {
        if (h->there) {
            CHECK_RET(unetmm_disconnect(at->ep, c->channel), 0);
        }
        *h = (struct heard) { 0 };
        ++*ends;
        return;
    }
    CHECK_EQ(c->type, UNETMM_CQE_RECEIVED);
    memcpy(&serial, c->data, sizeof(serial));
    CHECK(!h->serial || h->serial == serial);
    h->serial = serial;
    /* Of some this side is the first to end, with a message or the end on the way. */
    if (h->there && serial % 3 == 0) {
        CHECK_RET(unetmm_disconnect(at->ep, c->channel), 0);
        h->there = false;
        h->ending = true;
    }
}

/* Takes completions now and then, one at a time. */
static void *read_slowly(void *argument)
{
    struct reader *r = argument;
    struct heard *heard = calloc(r->channels, sizeof(*heard));
    struct unetmm_completion c;
    unsigned ends = 0, n;
    struct chance chance;

    chance_init(&chance, 1);
    CHECK(heard);
    while (ends < r->rounds) {
        for (n = chance_below(&chance, 24); n; n--) {
            int ret = unetmm_poll(r->t->two.ep, &c, 1);

            CHECK(ret >= 0);
            if (ret) {
                hear(&r->t->two, heard, &c, &ends);
            }
        }
        sched_yield();
    }
    free(heard);
    return NULL;
}

/*
 * A peer connects, sends, and ends its channels, which a slow reader takes: no completion
 * is taken for another channel's.
 */
TEST(numbers_of_many, TEST_TLB, 60)
{
    struct unetmm_channel_attr attr = UNETMM_CHANNEL_ATTR_INIT;
    struct unetmm_completion c;
    struct unetmm_info info;
    struct reader reader;
    pthread_t thread;
    struct two t;
    uint32_t i;
    int out;

    numbers_open(&t, UNETMM_RELIABLE);
    card_info(&info);
    reader = (struct reader) { &t, rounds(run.lengthy ? 10000 : 1000), info.channels };
    CHECK_EQ(pthread_create(&thread, NULL, read_slowly, &reader), 0);
    for (i = 1; i <= reader.rounds; i++) {
        out = unetmm_connect_ex(t.one.ep, t.mac, SERVICE, PATIENCE_NS, &attr, NULL);
        channel_of(out);
        unetmm_send(t.one.ep, out, &i, sizeof(i), 0, UNETMM_UNSIGNALED);
        unetmm_send(t.one.ep, out, &i, sizeof(i), 0, UNETMM_UNSIGNALED);
        CHECK_RET(unetmm_fence(t.one.ep, out, i, 0), 0);
        do {
            take(&t.one, UNETMM_CQE_SENT, &c);
        } while (c.user_data != i);
        CHECK_RET(unetmm_disconnect(t.one.ep, out), 0);
    }
    CHECK_EQ(pthread_join(thread, NULL), 0);
    two_close(&t);
}

/* ---- Processes --------------------------------------------------------------------------- */

/* Serves one connection after the other, each with one message and its echo. */
static void small_server(void *argument)
{
    atomic_uint *served = argument;
    struct unetmm_ctx *ctx = open_card();
    struct station s;
    struct unetmm_completion c;

    station_open(&s, ctx, NULL);
    CHECK_RET(unetmm_listen_ex(s.ep, SERVICE, 8, &datagram_attr), 0);
    for (;;) {
        s.channel = accept_from(&s);
        take(&s, UNETMM_CQE_RECEIVED, &c);
        CHECK(c.is_inline);
        CHECK_EQ(send_status(&s, c.data, c.len), UNETMM_ST_OK);
        atomic_fetch_add(served, 1);
    }
}

static void ask_server(struct two *t, unsigned channel, uint64_t value)
{
    struct unetmm_completion c;

    t->one.channel = channel;
    CHECK_EQ(send_status(&t->one, &value, sizeof(value)), UNETMM_ST_OK);
    take(&t->one, UNETMM_CQE_RECEIVED, &c);
    CHECK_EQ(c.channel, channel);
    CHECK(c.len == sizeof(value) && !memcmp(c.data, &value, sizeof(value)));
}

/* The peer is killed and another takes its place. */
TEST(peer_dies, TEST_BOTH)
{
    atomic_uint *served = shared_memory(sizeof(*served));
    unsigned i, channel;
    struct two t;
    pid_t pid;

    two_open(&t);
    for (i = 0; i < 5; i++) {
        pid = start_process(small_server, served);
        channel = connect_to(&t, &t.one, SERVICE);
        ask_server(&t, channel, i);
        EVENTUALLY(atomic_load(served) == i + 1);
        CHECK_SYS(kill(pid, SIGKILL));
        CHECK(WIFSIGNALED(await_process(pid)));
        EVENTUALLY(send_status(&t.one, "x", 1) == UNETMM_ST_BAD_CHANNEL);
        CHECK_RET(unetmm_disconnect(t.one.ep, channel), 0);
    }
    two_close(&t);
}

/* ---- Limits ------------------------------------------------------------------------------- */

TEST(all_endpoints, TEST_TLB)
{
    struct unetmm_ep_attr attr = default_attr();
    struct unetmm_ctx *ctx = open_card();
    struct unetmm_info info;
    struct unetmm_ep **eps;
    unsigned i, n = 0;
    int ret;

    attr.send_slots = 8;
    attr.free_depth = 2;
    attr.completion_depth = 2;
    card_info(&info);
    eps = (void *)pages(1 + info.endpoints * sizeof(*eps) / PAGE);
    while ((ret = unetmm_ep_create(ctx, &attr, &eps[n])) == 0) {
        CHECK(++n < info.endpoints);
    }
    CHECK_RET(ret, -ENOSPC);
    CHECK_EQ(n, info.endpoints - 1);
    CHECK_RET(unetmm_ep_destroy(eps[n / 2]), 0);
    CHECK_RET(unetmm_ep_create(ctx, &attr, &eps[n / 2]), 0);
    for (i = 0; i < n; i++) {
        CHECK_RET(unetmm_ep_destroy(eps[i]), 0);
    }
    CHECK_RET(unetmm_close(ctx), 0);
}

TEST(all_channels, TEST_TLB)
{
    struct unetmm_info info;
    struct two t;
    unsigned i;

    two_open(&t);
    card_info(&info);
    CHECK_RET(unetmm_listen_ex(t.two.ep, SERVICE, 64, &datagram_attr), 0);
    for (i = 0; i < info.channels; i++) {
        CHECK_EQ(connect_to(&t, &t.one, SERVICE), i);
        CHECK_EQ(accept_from(&t.two), i);
    }
    CHECK_RET(unetmm_connect_ex(t.one.ep, t.mac, SERVICE, NS_PER_S, &datagram_attr, NULL),
              -ENOSPC);
    for (i = 0; i < info.channels; i += 7) {
        passes(&t.one, i, &t.two, i);
    }
    CHECK_RET(unetmm_disconnect(t.one.ep, 5), 0);
    EVENTUALLY(unetmm_disconnect(t.two.ep, 5) == 0);
    CHECK_EQ(connect_to(&t, &t.one, SERVICE), 5);
    two_close(&t);
}

TEST(all_spaces, TEST_BOTH)
{
    struct unetmm_ctx *ctx[1100];
    unsigned i, n = 0;
    int ret = 0;

    while (n < 1100 &&
           !(ret = unetmm_open(NULL, run.source, &ctx[n]))) {
        n++;
    }
    CHECK_RET(ret, -ENOSPC);
    note("%u address spaces", n);
    for (i = 0; i < n; i++) {
        CHECK_RET(unetmm_close(ctx[i]), 0);
    }
}

TEST(bad_attributes, TEST_TLB)
{
    struct unetmm_ep_attr good = default_attr(), attr;
    struct unetmm_ctx *ctx = open_card();
    struct unetmm_info info;
    struct unetmm_ep *ep;

    card_info(&info);
#define REFUSED(member, value, error) \
    do { \
        attr = good; \
        attr.member = value; \
        CHECK_RET(unetmm_ep_create(ctx, &attr, &ep), error); \
    } while (0)
    REFUSED(size, 3, -EINVAL);
    REFUSED(send_slots, 4, -EINVAL);
    REFUSED(send_slots, 100, -EINVAL);
    REFUSED(send_slots, 1u << (info.max_ring_log2 + 1), -EINVAL);
    REFUSED(free_depth, 0, -EINVAL);
    REFUSED(free_depth, 3, -EINVAL);
    REFUSED(completion_depth, 0x80000000u, -EINVAL);
    REFUSED(policy, 31, -EOPNOTSUPP);
    REFUSED(policy, 77, -EINVAL);
    REFUSED(pretranslate, info.max_pretranslate + 1, -EINVAL);
    REFUSED(inline_max, UNETMM_MAX_INLINE + 1, -EINVAL);
#undef REFUSED
    CHECK_RET(unetmm_ep_create(ctx, &good, &ep), 0);
    CHECK_RET(unetmm_ep_destroy(ep), 0);
    CHECK_RET(unetmm_close(ctx), 0);
    CHECK_RET(unetmm_open("/dev/null", run.source, &ctx), -ENOTTY);
    CHECK_RET(unetmm_open("/dev/unetmm-not", run.source, &ctx), -ENOENT);
    CHECK_RET(unetmm_open(NULL, 7, &ctx), -EINVAL);
}
