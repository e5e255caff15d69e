/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The callers of unetmm-bw and unetmm-pingpong: one that says nothing keeps nobody out,
 * and none ends the listener.
 */
/* Before cmocka's macro fail() */
#include "session.h"

#include "fake_card.h"
/* The last: cmocka has macros with names of the tools. */
#include "../one_test.h"

#define scene_test(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

#define MAGIC       0x74656e75u         /* of a control message */
#define BUFFERS     16u
#define BUFFER      256u

static struct fake_endpoint fake;
static struct options opt;
static struct session session;
static uint8_t memory[BUFFERS * BUFFER];
static unsigned calling, accepted;      /* callers still to come, and all before */
static bool closed[64];                 /* channels, by the listener */
static int served;                      /* the channel of the last one */
static unsigned ends;                   /* how often to serve, with --forever */
static jmp_buf enough;
static int asks;                        /* the caller that asks when the listener waits */

int __wrap_unetmm_listen_ex(struct unetmm_ep *ep, uint64_t service, unsigned backlog,
                            const struct unetmm_channel_attr *attr);
int __wrap_unetmm_accept(struct unetmm_ep *ep, struct unetmm_peer *peer, int64_t ns);
int __wrap_unetmm_disconnect(struct unetmm_ep *ep, int channel);
int __wrap_unetmm_wait(struct unetmm_ep *ep, struct unetmm_completion *c, unsigned n,
                       int64_t ns);

int __wrap_unetmm_listen_ex(struct unetmm_ep *ep, uint64_t service, unsigned backlog,
                            const struct unetmm_channel_attr *attr)
{
    (void)ep;
    (void)service;
    (void)backlog;
    assert_true(attr->flags & UNETMM_ANNOUNCE);
    return 0;
}

/* Channel n is caller n's. */
int __wrap_unetmm_accept(struct unetmm_ep *ep, struct unetmm_peer *peer, int64_t ns)
{
    (void)ep;
    if (!calling) {
        /* Nobody is there, and nobody will come: that would be for ever. */
        assert_int_equal(ns, 0);
        return -ETIMEDOUT;
    }
    calling--;
    *peer = (struct unetmm_peer) { .channel = (uint16_t)accepted++ };
    return peer->channel;
}

int __wrap_unetmm_disconnect(struct unetmm_ep *ep, int channel)
{
    (void)ep;
    assert_false(closed[channel]);
    closed[channel] = true;
    return 0;
}

static void say(unsigned channel, enum control_type type)
{
    uint8_t words[40] = { (uint8_t)MAGIC, (uint8_t)(MAGIC >> 8), (uint8_t)(MAGIC >> 16),
                          (uint8_t)(MAGIC >> 24), (uint8_t)type };

    assert_true(fake_card_deliver(&fake.card, channel, words, sizeof(words), true));
}

/* The callers' turn is when the listener waits, and not when it only looks. */
int __wrap_unetmm_wait(struct unetmm_ep *ep, struct unetmm_completion *c, unsigned n,
                       int64_t ns)
{
    if (ns && asks >= 0) {
        say((unsigned)asks, CONTROL_START);
        asks = -1;
    }
    return unetmm_poll(ep, c, n);
}

/* The first event is the START that made the listener choose this one. */
static bool serve(struct session *s)
{
    struct event event;

    session_event(s, &event, 0);
    assert_int_equal(event.type, EVENT_CONTROL);
    assert_int_equal(event.control.type, CONTROL_START);
    served = s->peer.channel;
    asks = (int)accepted - 1;
    if (opt.forever && !--ends) {
        longjmp(enough, 1);
    }
    return true;
}

static int begin(void **state)
{
    unsigned i;

    (void)state;
    fake_endpoint_init(&fake, 5, 5, 6, 0);
    opt = (struct options) { .listen = true, .timeout_ns = 20 * NS_PER_S };
    session = (struct session) {
        .opt = &opt, .ep = fake.ep, .buffers = BUFFERS, .frame = BUFFER,
        .stride = BUFFER, .rx_slots = BUFFERS, .rx = memory, .posted = BUFFERS,
    };
    for (i = 0; i < BUFFERS; i++) {
        assert_int_equal(unetmm_post_recv(fake.ep, memory + i * BUFFER, BUFFER, i, 0), 0);
    }
    memset(closed, 0, sizeof(closed));
    calling = accepted = ends = 0;
    served = asks = -1;
    return 0;
}

static int end(void **state)
{
    (void)state;
    fake_endpoint_free(&fake);
    return 0;
}

TEST(silent_callers_keep_nobody_out, scene_test)
{
    calling = 4;
    asks = 2;
    /* The words of an earlier peer are not the next one's. */
    say(3, CONTROL_START);
    assert_true(session_serve(&session, serve));
    assert_int_equal(served, 2);
    assert_int_equal(accepted, 4);
    assert_false(closed[0] || closed[1] || closed[2] || closed[3]);
}

/* There are more than are kept: the oldest go. */
TEST(the_oldest_make_room, scene_test)
{
    unsigned i;

    calling = MOST_CALLERS + 4;
    asks = MOST_CALLERS + 3;
    assert_true(session_serve(&session, serve));
    assert_int_equal(served, MOST_CALLERS + 3);
    for (i = 0; i < MOST_CALLERS + 4; i++) {
        assert_int_equal(closed[i], i < 4);
    }
}

/* With --forever, callers that waited while another was served come next. */
TEST(those_who_wait_come_next, scene_test)
{
    opt.forever = true;
    calling = 3;
    asks = 1;
    ends = 2;
    if (!setjmp(enough)) {
        session_serve(&session, serve);
        fail_msg("it goes on for ever");
    }
    assert_int_equal(served, 2);
    assert_true(closed[1] && !closed[0] && !closed[2]);
}

/* None of three asks. */
TEST(silence_has_an_end, scene_test)
{
    calling = 3;
    opt.timeout_ns = NS_PER_MS;
    assert_false(session_serve(&session, serve));
    assert_int_equal(served, -1);
    assert_true(closed[0] && closed[1] && closed[2]);
}

/* Statuses and completions that a peer can cause */
TEST(no_peer_ends_a_listener, scene_test)
{
    static const uint8_t statuses[] = {
        UNETMM_ST_BAD_CHANNEL, UNETMM_ST_REFUSED, UNETMM_ST_LINK_DOWN, UNETMM_ST_TIMEOUT,
        UNETMM_ST_NOT_READY, UNETMM_ST_PEER_BUFFER, UNETMM_ST_PEER_FAILED,
        UNETMM_ST_FLUSHED,
    };
    struct event event;
    unsigned i;

    for (i = 0; i < sizeof(statuses); i++) {
        const struct unetmm_cqe cqe = { .opcode = UNETMM_CQE_SENT, .status = statuses[i] };

        assert_true(fake_card_complete(&fake.card, &cqe));
        session_event(&session, &event, 0);
        assert_int_equal(event.type, EVENT_NONE);
    }
    /* Each takes a buffer, and the listener has as many as before. */
    for (i = 0; i < 3 * BUFFERS; i++) {
        assert_true(fake_card_written(&fake.card, 1, 8, 7));
        session_event(&session, &event, 0);
        assert_int_equal(event.type, EVENT_NONE);
    }
    assert_int_equal(session.posted, 4 * BUFFERS);
}

/* Its queue does not move: the listener gives this peer up, not itself. */
TEST(a_full_queue_has_an_end, scene_test)
{
    struct event event;
    uint64_t begin_ns = now_ns(), since = 0;

    opt.timeout_ns = NS_PER_MS;
    while (session_room(&session, &event, &since)) {
    }
    assert_true(since >= begin_ns && session.gone);
    assert_true(now_ns() - since >= NS_PER_MS);
    assert_false(session_room(&session, &event, &since));
}
