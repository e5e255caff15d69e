/*
 * unetmm: acknowledgements that go along with packets, and wait for these
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "peer.h"

#define ALONG       UNETMM_WIRE_F_ACK
#define LAST        UNETMM_WIRE_F_LAST
#define ASK         UNETMM_WIRE_F_ASK
#define WAIT_NS     50000
#define AFTER_VAIN  16                  /* questions until one waits again */

static void open_as(Fix *f, uint8_t flags)
{
    const struct unetmm_cmd_channel how = {
        .mtu = PEER_MTU, .send_psn = PEER_MY, .recv_psn = PEER_YOURS,
        .flags = flags,
    };

    peer_open(f);
    fake_channel_rel(&f->a, PEER_CH, fake_peer_mac, PEER_EP, PEER_CH, &how);
}

static struct unetmm_frame message(uint32_t n, uint32_t len)
{
    return (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_SEND, .psn = PEER_YOURS + n, .remote = len,
        .flags = LAST | ASK,
    };
}

static void ask(Fix *f, uint32_t n)
{
    peer_give(f, message(n, 4), "ping", 4);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
}

static void told(Fix *f, uint32_t n)
{
    peer_expect_ack(f, PEER_YOURS + n, 0, UNETMM_ACK_OK, 0);
    peer_silence(f);
}

/* Our message n; the peer has it. */
static struct unetmm_frame reply(Fix *f, uint32_t n)
{
    PeerFrame p;

    fake_send_inline(&f->a, PEER_CH, 1, 4, n, 0);
    fake_ring_bell(&f->a);
    p = peer_expect(f, UNETMM_WIRE_SEND, PEER_MY + n);
    peer_silence(f);
    peer_ack(f, PEER_MY + n + 1, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, n);
    return p.h;
}

static void along_with(const struct unetmm_frame *h, uint32_t n)
{
    assert_int_equal(h->flags & ALONG, ALONG);
    assert_int_equal(h->handle, PEER_YOURS + n);
}

static void alone(const struct unetmm_frame *h)
{
    assert_int_equal(h->flags & ALONG, 0);
    assert_int_equal(h->handle, 0);
}

/* Message n each way. */
static void round_apart(Fix *f, uint32_t n)
{
    struct unetmm_frame h;

    ask(f, n);
    told(f, n + 1);
    h = reply(f, n);
    alone(&h);
}

static void round_along(Fix *f, uint32_t n)
{
    struct unetmm_frame h;

    ask(f, n);
    peer_silence(f);
    h = reply(f, n);
    along_with(&h, n + 1);
}

/* The first question that waits is number 2. */
static void open_likely(Fix *f)
{
    open_as(f, UNETMM_CHANNEL_F_ACK);
    round_apart(f, 0);
    round_apart(f, 1);
}

static uint64_t count(Fix *f, enum unetmm_counter counter)
{
    return fake_counter(&f->h, counter);
}

TEST_OF(test_learns, Fix *f, fix_test)
{
    open_likely(f);
    for (uint32_t n = 2; n < 100; n++) {
        round_along(f, n);
    }
    fake_advance(&f->h, 2 * WAIT_NS);
    peer_silence(f);
    assert_int_equal(count(f, UNETMM_C_rel_acks_along), 98);
    assert_int_equal(count(f, UNETMM_C_rel_acks_late), 0);
}

/* A peer that does not know them gets none. */
TEST_OF(test_peer_lacks, Fix *f, fix_test)
{
    open_as(f, 0);
    for (uint32_t n = 0; n < 2 * AFTER_VAIN; n++) {
        round_apart(f, n);
    }
}

/* Nothing that is slower than the wait is waited for. */
TEST_OF(test_slow, Fix *f, fix_test)
{
    open_as(f, UNETMM_CHANNEL_F_ACK);
    for (uint32_t n = 0; n < 2 * AFTER_VAIN; n++) {
        struct unetmm_frame h;

        ask(f, n);
        told(f, n + 1);
        fake_advance(&f->h, WAIT_NS + 1);
        h = reply(f, n);
        alone(&h);
    }
}

TEST_OF(test_in_vain, Fix *f, fix_test)
{
    uint32_t n = 0;

    open_likely(f);
    ask(f, 2);
    fake_advance(&f->h, WAIT_NS - 1);
    peer_silence(f);
    fake_advance(&f->h, 1);
    told(f, 3);
    assert_int_equal(count(f, UNETMM_C_rel_acks_late), 1);
    /* Each message has been taken, so the numbers of both sides differ. */
    ask(f, 3);
    told(f, 4);
    for (n = 2; n < 2 + AFTER_VAIN; n++) {
        struct unetmm_frame h = reply(f, n);

        alone(&h);
        ask(f, n + 2);
        if (n + 1 < 2 + AFTER_VAIN) {
            told(f, n + 3);
        }
    }
    peer_silence(f);
    assert_int_equal(count(f, UNETMM_C_rel_acks_late), 1);
}

/* One answer waits, not two: a window may be full at the other end. */
TEST_OF(test_second, Fix *f, fix_test)
{
    open_likely(f);
    ask(f, 2);
    peer_silence(f);
    ask(f, 3);
    told(f, 4);
    fake_advance(&f->h, 2 * WAIT_NS);
    peer_silence(f);
    ask(f, 4);
    told(f, 5);
}

/* The end of the channel is no reason to say nothing. */
static void clear_while_one_waits(Fix *f, uint8_t flags)
{
    open_likely(f);
    ask(f, 2);
    peer_silence(f);
    fake_command(&f->d, (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_CHANNEL_CLEAR, .ep = 1,
        .channel = { .channel = PEER_CH, .flags = flags } }, NULL);
    told(f, 3);
}

TEST_OF(test_cleared, Fix *f, fix_test)
{
    clear_while_one_waits(f, 0);
}

TEST_OF(test_flushed, Fix *f, fix_test)
{
    clear_while_one_waits(f, UNETMM_CHANNEL_F_FLUSH);
}

/* A packet that has asked for no answer yet is acknowledged, too. */
TEST_OF(test_flushed_unasked, Fix *f, fix_test)
{
    struct unetmm_frame h = message(0, 4);

    open_as(f, UNETMM_CHANNEL_F_ACK);
    h.flags = LAST;
    peer_give(f, h, "ping", 4);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
    peer_silence(f);
    fake_command(&f->d, (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_CHANNEL_CLEAR, .ep = 1,
        .channel = { .channel = PEER_CH,
                     .flags = UNETMM_CHANNEL_F_FLUSH } }, NULL);
    told(f, 1);
}

/* An acknowledgement that says more is a frame of its own, and the only one. */
TEST_OF(test_more_to_say, Fix *f, fix_test)
{
    struct unetmm_frame h;

    open_likely(f);
    ask(f, 2);
    peer_silence(f);
    peer_give(f, message(4, 4), "late", 4);
    peer_expect_ack(f, PEER_YOURS + 3, 1, UNETMM_ACK_OK, 0);
    fake_advance(&f->h, 2 * WAIT_NS);
    peer_silence(f);
    peer_give(f, message(3, 4), "ping", 4);
    peer_expect_ack(f, PEER_YOURS + 5, 0, UNETMM_ACK_OK, 0);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
    /* A refusal is not taken back by a packet. */
    peer_give(f, message(5, 100), NULL, 0);
    assert_int_equal(count(f, UNETMM_C_drop_rel_bad), 1);
    peer_give(f, message(5, 100), (uint8_t[100]) { 0 }, 100);
    peer_expect_ack(f, PEER_YOURS + 5, 0, UNETMM_ACK_NOT_READY, 100);
    h = reply(f, 2);
    alone(&h);
}

/* The answer to a READ and a fence have it, too; not a WRITE without its flag. */
TEST_OF(test_other_packets, Fix *f, fix_test)
{
    struct unetmm_sqe write = peer_sqe(UNETMM_OP_WRITE, 0, 8, 0, 3);
    PeerFrame p;

    open_likely(f);
    ask(f, 2);
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_READ, .psn = PEER_YOURS + 3,
        .handle = PEER_REGION, .offset = PEER_KEY, .imm = 8 }, NULL, 0);
    fix_settle(f);
    p = peer_expect(f, UNETMM_WIRE_ANSWER, PEER_YOURS + 3);
    along_with(&p.h, 4);
    ask(f, 4);
    peer_silence(f);
    peer_post(f, (struct unetmm_sqe) { .opcode = UNETMM_OP_FENCE,
                                       .channel = PEER_CH });
    p = peer_expect(f, UNETMM_WIRE_VOID, PEER_MY + 2);
    along_with(&p.h, 5);
    peer_ack(f, PEER_MY + 3, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 0);
    ask(f, 5);
    peer_silence(f);
    write.flags = UNETMM_SQE_F_KEYED;
    peer_post(f, write);
    p = peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY + 3);
    assert_int_equal(p.h.flags & ALONG, 0);
    peer_silence(f);
    fake_advance(&f->h, WAIT_NS);
    told(f, 6);
}

/* Our WRITE, as packet n; by key, since open_as() has ended the import. */
static PeerFrame write_out(Fix *f, uint32_t n, struct unetmm_sqe write)
{
    write.flags |= UNETMM_SQE_F_KEYED;
    peer_post(f, write);
    return peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY + n);
}

static void write_over(Fix *f, uint32_t n, uint64_t cookie)
{
    peer_silence(f);
    peer_ack(f, PEER_MY + n, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, cookie);
}

/* The end of a WRITE has it in imm. */
TEST_OF(test_write, Fix *f, fix_test)
{
    PeerFrame p;

    open_as(f, UNETMM_CHANNEL_F_ACK | UNETMM_CHANNEL_F_ACK_WRITE);
    round_apart(f, 0);
    round_apart(f, 1);
    for (uint32_t n = 2; n < 4; n++) {
        ask(f, n);
        peer_silence(f);
        p = write_out(f, n, peer_sqe(UNETMM_OP_WRITE, 0, 8, 0, n));
        assert_int_equal(p.h.flags & (ALONG | LAST), ALONG | LAST);
        assert_int_equal(p.h.imm, PEER_YOURS + n + 1);
        write_over(f, n + 1, n);
    }
    /* Nothing is owed: its imm is nothing. */
    p = write_out(f, 4, peer_sqe(UNETMM_OP_WRITE, 0, 8, 0, 4));
    assert_int_equal(p.h.flags & ALONG, 0);
    assert_int_equal(p.h.imm, 0);
    write_over(f, 5, 4);
    /* When it is sent again there is something. */
    p = write_out(f, 5, peer_sqe(UNETMM_OP_WRITE, 0, 8, 0, 5));
    assert_int_equal(p.h.flags & ALONG, 0);
    fake_advance(&f->h, UNETMM_REL_TIMEOUT_US * 1000 - WAIT_NS / 2);
    ask(f, 4);
    peer_silence(f);
    fake_advance(&f->h, WAIT_NS / 2);
    p = peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY + 5);
    assert_int_equal(p.h.flags & ALONG, ALONG);
    assert_int_equal(p.h.imm, PEER_YOURS + 5);
    write_over(f, 6, 5);
    assert_int_equal(count(f, UNETMM_C_rel_acks_along), 3);
}

/* Of a longer one the other packets say how many bytes follow. */
TEST_OF(test_long_write, Fix *f, fix_test)
{
    PeerFrame p;

    open_as(f, UNETMM_CHANNEL_F_ACK | UNETMM_CHANNEL_F_ACK_WRITE);
    round_apart(f, 0);
    round_apart(f, 1);
    ask(f, 2);
    p = write_out(f, 2, peer_sqe(UNETMM_OP_WRITE, 0, PEER_MTU + 8, 0, 2));
    assert_int_equal(p.h.flags & ALONG, 0);
    assert_int_equal(p.h.imm, 8);
    p = peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY + 3);
    assert_int_equal(p.h.flags & ALONG, ALONG);
    assert_int_equal(p.h.imm, PEER_YOURS + 3);
    write_over(f, 4, 2);
}

/* One whose imm is the program's has no room; the answer still waits. */
TEST(test_no_room, fix_test)
{
    static const uint32_t uses[] = { UNETMM_SQE_F_NOTIFY, UNETMM_SQE_F_COUNT,
                                     UNETMM_SQE_F_IMM };
    Fix *f = *state;

    open_as(f, UNETMM_CHANNEL_F_ACK | UNETMM_CHANNEL_F_ACK_WRITE);
    for (uint32_t i = 0; i < G_N_ELEMENTS(uses); i++) {
        struct unetmm_sqe write = peer_sqe(UNETMM_OP_WRITE, 0, 8, 0, 3);
        PeerFrame p;

        f->h.core.eps[1].rels->along.likely = AFTER_VAIN;
        ask(f, i);
        write.flags = uses[i];
        write.imm = 99;
        p = write_out(f, i, write);
        assert_int_equal(p.h.flags & ALONG, 0);
        assert_int_equal(p.h.imm, 99);
        write_over(f, i + 1, 3);
        fake_advance(&f->h, WAIT_NS);
        told(f, i + 1);
    }
    assert_int_equal(count(f, UNETMM_C_rel_acks_along), 0);
}

/* The flag means nothing without that of the other packets. */
TEST_OF(test_writes_only, Fix *f, fix_test)
{
    PeerFrame p;

    open_as(f, UNETMM_CHANNEL_F_ACK_WRITE);
    f->h.core.eps[1].rels->along.likely = AFTER_VAIN;
    ask(f, 0);
    told(f, 1);
    p = write_out(f, 0, peer_sqe(UNETMM_OP_WRITE, 0, 8, 0, 3));
    assert_int_equal(p.h.flags & ALONG, 0);
    write_over(f, 1, 3);
}

/* The peer's WRITE n, with an acknowledgement up to, not with, our packet m. */
static void written(Fix *f, uint32_t n, uint32_t m)
{
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_WRITE, .psn = PEER_YOURS + n,
        .handle = PEER_REGION, .offset = PEER_KEY,
        .flags = LAST | ASK | ALONG, .imm = PEER_MY + m }, "pong", 4);
}

TEST_OF(test_write_came_along, Fix *f, fix_test)
{
    open_as(f, 0);
    for (uint32_t n = 0; n < 3; n++) {
        fake_send_inline(&f->a, PEER_CH, 1, 4, n, 0);
        fake_ring_bell(&f->a);
        peer_expect(f, UNETMM_WIRE_SEND, PEER_MY + n);
    }
    written(f, 0, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 0);
    fake_expect_none(&f->a);
    told(f, 1);
    /* Before its turn: its acknowledgement is not. */
    written(f, 2, 3);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    peer_expect_ack(f, PEER_YOURS + 1, 1, UNETMM_ACK_OK, 0);
    /* Twice, late, or of no window: its number is old, and changes nothing. */
    written(f, 0, 1);
    peer_expect_ack(f, PEER_YOURS + 1, 1, UNETMM_ACK_OK, 0);
    written(f, 1, 2);
    told(f, 3);
    written(f, 1000, 1);
    peer_silence(f);
    fake_expect_none(&f->a);
    assert_int_equal(count(f, UNETMM_C_drop_rel_window), 1);
    assert_int_equal(count(f, UNETMM_C_drop_rel_ack), 0);
    /* A number that was never sent costs nothing but itself. */
    written(f, 3, 4);
    assert_int_equal(count(f, UNETMM_C_drop_rel_ack), 1);
    told(f, 4);
    fake_expect_none(&f->a);
}

/* The peer's: our send is over before its message is there. */
TEST_OF(test_came_along, Fix *f, fix_test)
{
    struct unetmm_frame h = message(0, 4);

    open_as(f, 0);
    fake_send_inline(&f->a, PEER_CH, 1, 4, 7, 0);
    fake_ring_bell(&f->a);
    peer_expect(f, UNETMM_WIRE_SEND, PEER_MY);
    h.flags |= ALONG;
    h.handle = PEER_MY + 1;
    peer_give(f, h, "pong", 4);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 7);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
    told(f, 1);
    assert_int_equal(count(f, UNETMM_C_rel_acks), 1);
    /* The same again is older news; a lie costs nothing but itself. */
    peer_give(f, h, "pong", 4);
    told(f, 1);
    assert_int_equal(count(f, UNETMM_C_drop_rel_ack), 0);
    h.psn++;
    h.handle = PEER_MY + 2;
    peer_give(f, h, "pong", 4);
    assert_int_equal(count(f, UNETMM_C_drop_rel_ack), 1);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
    told(f, 2);
    fake_expect_none(&f->a);
}

TEST_OF(test_malformed, Fix *f, fix_test)
{
    static const struct unetmm_frame bad[] = {
        { .opcode = UNETMM_WIRE_SEND, .flags = LAST, .handle = 1 },
        { .opcode = UNETMM_WIRE_VOID, .handle = 1 },
        { .opcode = UNETMM_WIRE_WRITE, .flags = ALONG },
        { .opcode = UNETMM_WIRE_WRITE, .flags = ALONG, .imm = PEER_MY },
        { .opcode = UNETMM_WIRE_WRITE, .flags = LAST, .imm = PEER_MY },
        { .opcode = UNETMM_WIRE_WRITE,
          .flags = LAST | ALONG | UNETMM_WIRE_F_NOTIFY },
        { .opcode = UNETMM_WIRE_WRITE,
          .flags = LAST | ALONG | UNETMM_WIRE_F_COUNT },
        { .opcode = UNETMM_WIRE_WRITE,
          .flags = LAST | ALONG | UNETMM_WIRE_F_IMM },
        { .opcode = UNETMM_WIRE_ATOMIC, .flags = ALONG,
          .imm = UNETMM_ATOMIC_ADD },
        { .opcode = UNETMM_WIRE_READ, .flags = ALONG, .imm = 8 },
        { .opcode = UNETMM_WIRE_ACK, .flags = ALONG },
        { .opcode = UNETMM_WIRE_DATAGRAM, .flags = ALONG },
    };

    open_as(f, UNETMM_CHANNEL_F_ACK);
    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        struct unetmm_frame h = bad[i];

        h.psn = h.opcode == UNETMM_WIRE_DATAGRAM ? 0 : PEER_YOURS;
        peer_give(f, h, NULL, 0);
        assert_int_equal(count(f, UNETMM_C_drop_malformed), i + 1);
    }
    peer_silence(f);
}
