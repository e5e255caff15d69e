/*
 * unetmm: congestion controls: the packets of a channel that fly
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "peer.h"
#include "congestion/congestion.h"

#define WINDOW      4
#define AIM_NS      50000               /* congestion-trip-ns */
#define TRIP_NS     30000
#define SILENCE_NS  (TRIP_NS + 100000)
#define LONG        (60 * PEER_MTU)     /* bytes of a message */

static void tuned(UnetmmParams *p, uint32_t control)
{
    p->congestion = control;
    p->congestion_window = WINDOW;
    p->congestion_trip_ns = AIM_NS;
}

static void window(UnetmmParams *p)
{
    tuned(p, UNETMM_CONGESTION_WINDOW);
}

static void delay(UnetmmParams *p)
{
    tuned(p, UNETMM_CONGESTION_DELAY);
}

static void wide(UnetmmParams *p)
{
    delay(p);
    p->congestion_window = 8;
}

static void open_with(Fix *f, uint8_t retries)
{
    const struct unetmm_cmd_channel how = {
        .mtu = PEER_MTU, .send_psn = PEER_MY, .recv_psn = PEER_YOURS,
        .timeout_us = PEER_US, .retries = retries,
    };

    peer_open(f);
    fake_channel_rel(&f->a, PEER_CH, fake_peer_mac, PEER_EP, PEER_CH, &how);
}

static void post(Fix *f, uint32_t len, uint64_t cookie)
{
    fake_send_at(&f->a, PEER_CH, PEER_PAGE(1), len, cookie);
    fake_ring_bell(&f->a);
    fake_serve(&f->d);
    fake_ring_bell(&f->a);
}

/* Packets n .. n + count - 1 go, of which the last one asks, and no more. */
static void fly(Fix *f, uint32_t n, uint32_t count)
{
    PeerFrame p;

    for (uint32_t i = 0; i < count; i++) {
        p = peer_expect(f, UNETMM_WIRE_SEND, PEER_MY + n + i);
    }
    peer_silence(f);
    assert_true(p.h.flags & UNETMM_WIRE_F_ASK);
}

/* All packets before n have come, so long after the last thing that went. */
static void acked_after(Fix *f, uint32_t n, uint32_t ns)
{
    fake_advance(&f->h, ns);
    peer_ack(f, PEER_MY + n, 0);
}

TEST_OF(test_window, Fix *f, fix_test_with, window)
{
    open_with(f, 0);
    post(f, LONG, 1);
    fly(f, 0, WINDOW);
    acked_after(f, 1, TRIP_NS);
    fly(f, WINDOW, 1);
    acked_after(f, WINDOW + 1, TRIP_NS);
    fly(f, WINDOW + 1, WINDOW);
    /* No silence and no loss changes it. */
    fake_advance(&f->h, PEER_US * 1000 / 4);
    peer_expect(f, UNETMM_WIRE_SEND, PEER_MY + WINDOW + 1);
    peer_silence(f);
    peer_ack(f, PEER_MY + 2 * WINDOW + 1, 0);
    fly(f, 2 * WINDOW + 1, WINDOW);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_cuts), 0);
}

/* A packet more in each round trip without a queue. */
TEST_OF(test_grows, Fix *f, fix_test_with, delay)
{
    uint32_t n = 0;

    open_with(f, 0);
    post(f, LONG, 1);
    for (uint32_t w = WINDOW; n + w <= 60; w++) {
        fly(f, n, w);
        n += w;
        acked_after(f, n, TRIP_NS);
    }
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_cuts), 0);
}

/* A trip of 100 us is 50 us too long: 0.4 of the window go. */
TEST_OF(test_long_trip, Fix *f, fix_test_with, delay)
{
    open_with(f, 0);
    post(f, LONG, 1);
    fly(f, 0, WINDOW);
    acked_after(f, WINDOW, TRIP_NS);
    fly(f, WINDOW, WINDOW + 1);
    acked_after(f, 2 * WINDOW + 1, 2 * AIM_NS);
    fly(f, 2 * WINDOW + 1, 3);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_cuts), 1);
    /* A trip of just the aim makes no window smaller. */
    acked_after(f, 2 * WINDOW + 4, AIM_NS);
    fly(f, 2 * WINDOW + 4, 4);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_cuts), 1);
}

/* Packet 0 is lost: half of the window, once, until all that flew are over. */
TEST_OF(test_overtaken, Fix *f, fix_test_with, delay)
{
    open_with(f, 0);
    post(f, LONG, 1);
    fly(f, 0, WINDOW);
    fake_advance(&f->h, TRIP_NS);
    peer_ack(f, PEER_MY, 7);
    peer_expect(f, UNETMM_WIRE_SEND, PEER_MY);
    peer_silence(f);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_cuts), 1);
    peer_ack(f, PEER_MY + WINDOW, 0);
    fly(f, WINDOW, 2);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_cuts), 1);
}

/* Earlier than the channel's time, which alone counts among its retries. */
TEST_OF(test_silence, Fix *f, fix_test_with, delay)
{
    uint64_t ns = SILENCE_NS;

    open_with(f, 1);
    post(f, LONG, 1);
    fly(f, 0, WINDOW);
    acked_after(f, WINDOW, TRIP_NS);
    fly(f, WINDOW, WINDOW + 1);
    for (unsigned i = 0; i < 2; i++, ns *= 2) {
        fake_advance(&f->h, ns - 1);
        peer_silence(f);
        fake_advance(&f->h, 1);
        peer_expect(f, UNETMM_WIRE_SEND, PEER_MY + WINDOW);
        peer_silence(f);
    }
    fake_advance(&f->h, PEER_US * 1000 - 1);
    peer_silence(f);
    fake_advance(&f->h, 1);
    peer_expect(f, UNETMM_WIRE_SEND, PEER_MY + WINDOW);
    fake_advance(&f->h, 2 * PEER_US * 1000 - 1);
    peer_silence(f);
    fake_expect_none(&f->a);
    fake_advance(&f->h, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_TIMEOUT, 1);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_timeouts), 3);
}

static void two(UnetmmParams *p)
{
    delay(p);
    p->congestion_window = 2;
}

/* Too few packets are behind a lost one to tell: the silence tells. */
TEST_OF(test_small_window, Fix *f, fix_test_with, two)
{
    open_with(f, 0);
    post(f, PEER_MTU, 1);
    fly(f, 0, 1);
    acked_after(f, 1, TRIP_NS);
    post(f, LONG, 2);
    fly(f, 1, 2);
    peer_ack(f, PEER_MY + 1, 1);
    peer_silence(f);
    fake_advance(&f->h, SILENCE_NS);
    peer_expect(f, UNETMM_WIRE_SEND, PEER_MY + 1);
    peer_silence(f);
}

/* Behind a silence one packet flies. */
TEST_OF(test_one_packet, Fix *f, fix_test_with, delay)
{
    open_with(f, 0);
    post(f, LONG, 1);
    fly(f, 0, WINDOW);
    acked_after(f, WINDOW, TRIP_NS);
    fly(f, WINDOW, WINDOW + 1);
    fake_advance(&f->h, SILENCE_NS);
    peer_expect(f, UNETMM_WIRE_SEND, PEER_MY + WINDOW);
    peer_silence(f);
    peer_ack(f, PEER_MY + WINDOW + 1, 0);
    /* A packet that went twice tells no time: the window does not grow. */
    for (uint32_t n = WINDOW + 1; n < 2 * WINDOW + 1; n++) {
        peer_expect(f, UNETMM_WIRE_SEND, PEER_MY + n);
        peer_silence(f);
        peer_ack(f, PEER_MY + n + 1, 0);
    }
}

/*
 * A page is absent, so none of the packets that fly asks: when the window becomes
 * smaller than these, the card asks.
 */
TEST_OF(test_asks_if_stuck, Fix *f, fix_test_with, wide)
{
    const struct unetmm_sqe sqe = {
        .opcode = UNETMM_OP_SEND, .nsegs = 2, .channel = PEER_CH, .cookie = 3,
        .seg = { { .addr = PEER_PAGE(1), .len = 4 * PEER_MTU },
                 { .addr = PEER_PAGE(30), .len = 10 } },
    };
    PeerFrame p;

    open_with(f, 0);
    post(f, 5 * PEER_MTU, 1);
    fly(f, 0, 5);
    acked_after(f, 5, TRIP_NS);
    post(f, 3 * PEER_MTU, 2);
    fly(f, 5, 3);
    fake_send_sqe(&f->a, sqe);
    fake_ring_bell(&f->a);
    for (uint32_t n = 8; n < 12; n++) {
        p = peer_expect(f, UNETMM_WIRE_SEND, PEER_MY + n);
        assert_false(p.h.flags & UNETMM_WIRE_F_ASK);
    }
    peer_silence(f);
    acked_after(f, 8, 120000);
    p = peer_expect(f, UNETMM_WIRE_ACK, PEER_YOURS);
    assert_true(p.h.flags & UNETMM_WIRE_F_ASK);
    peer_silence(f);
    peer_ack(f, PEER_MY + 9, 0);
    peer_silence(f);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_cuts), 1);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_timeouts), 0);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_credit_probes), 1);
}

static void answer(Fix *f, uint32_t n)
{
    const uint8_t data[PEER_MTU] = { 0 };

    peer_give(f, (struct unetmm_frame) { .opcode = UNETMM_WIRE_ANSWER,
                                         .psn = PEER_MY + n }, data, PEER_MTU);
}

/*
 * The peer may read pages for a READ: a long trip makes no window smaller, a short
 * one makes it larger.
 */
TEST_OF(test_reads, Fix *f, fix_test_with, delay)
{
    peer_open(f);
    fake_insert(f->s1, PEER_PAGE(1), 5, NULL);
    peer_post(f, peer_sqe(UNETMM_OP_READ, 1, 20 * PEER_MTU, 0, 1));
    for (uint32_t n = 0; n < WINDOW; n++) {
        peer_expect(f, UNETMM_WIRE_READ, PEER_MY + n);
    }
    peer_silence(f);
    fake_advance(&f->h, 10 * AIM_NS);
    for (uint32_t n = 0; n < WINDOW; n++) {
        answer(f, n);
        peer_expect(f, UNETMM_WIRE_READ, PEER_MY + WINDOW + n);
        peer_silence(f);
    }
    fake_advance(&f->h, TRIP_NS);
    answer(f, WINDOW);
    peer_expect(f, UNETMM_WIRE_READ, PEER_MY + 2 * WINDOW);
    peer_expect(f, UNETMM_WIRE_READ, PEER_MY + 2 * WINDOW + 1);
    peer_silence(f);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_cuts), 0);
}

/* A packet that waits for its page makes no window smaller, either. */
TEST_OF(test_aside, Fix *f, fix_test_with, delay)
{
    open_with(f, 0);
    post(f, LONG, 1);
    fly(f, 0, WINDOW);
    fake_advance(&f->h, TRIP_NS);
    peer_ack_as(f, PEER_MY + WINDOW - 1, 0, UNETMM_ACK_PENDING, 0);
    fly(f, WINDOW, WINDOW - 1);
    acked_after(f, WINDOW, 10 * AIM_NS);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_cuts), 0);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_timeouts), 0);
}
