/*
 * unetmm: strict channels: the first error is the end, and in order
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "peer.h"

#define NOWHERE PEER_PAGE(5000)
#define LAST    UNETMM_WIRE_F_LAST

static void open_strict(Fix *f, uint8_t flags)
{
    const struct unetmm_cmd_channel how = {
        .mtu = PEER_MTU, .send_psn = PEER_MY, .recv_psn = PEER_YOURS,
        .retries = 3, .timeout_us = 1000,
        .flags = UNETMM_CHANNEL_F_STRICT | UNETMM_CHANNEL_F_TELL | flags,
    };

    peer_open(f);
    assert_int_equal(fake_channel_rel(&f->a, PEER_CH, fake_peer_mac, PEER_EP,
                                      PEER_CH, &how), UNETMM_CS_OK);
    assert_int_equal(fake_import(&f->a, PEER_IMPORT, PEER_CH, PEER_FAR,
                                 PEER_FAR_KEY, PEER_FAR_LENGTH,
                                 UNETMM_RIGHT_ALL), UNETMM_CS_OK);
}

static void post(Fix *f, uint8_t op, uint64_t cookie)
{
    struct unetmm_sqe s = peer_sqe(op, cookie, 100, 0, cookie);

    if (op == UNETMM_OP_SEND) {
        s.handle = s.remote = 0;
    }
    peer_post(f, s);
}

static void sent(Fix *f, uint8_t status, uint64_t cookie)
{
    fake_expect(&f->a, UNETMM_CQE_SENT, status, cookie);
}

static void driver_hears_nothing(Fix *f)
{
    struct unetmm_notify n;

    assert_false(fake_notification(&f->d, &n));
}

/* The channel has failed with this, and told both sides so. */
static void over(Fix *f, uint8_t status)
{
    fake_expect(&f->a, UNETMM_CQE_CLOSED, status, 0);
    fake_expect_none(&f->a);
    driver_hears_nothing(f);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_FAILED, UNETMM_WHY_CHANNEL);
    peer_silence(f);
    post(f, UNETMM_OP_WRITE, 99);
    sent(f, UNETMM_ST_FLUSHED, 99);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_strict), 1);
}

/* A send of bad memory, or with a bad descriptor: the end comes in its turn. */
static void fails_here(Fix *f, struct unetmm_sqe bad, uint8_t status)
{
    open_strict(f, 0);
    post(f, UNETMM_OP_WRITE, 1);
    peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY);
    bad.cookie = 2;
    peer_post(f, bad);
    post(f, UNETMM_OP_SEND, 3);
    post(f, UNETMM_OP_READ, 4);
    fake_expect_none(&f->a);
    peer_silence(f);
    /* The one before it is lost, and sent again. */
    fake_advance(&f->h, PEER_US * 1000);
    peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY);
    peer_silence(f);
    peer_ack(f, PEER_MY + 1, 0);
    sent(f, UNETMM_ST_OK, 1);
    sent(f, status, 2);
    sent(f, UNETMM_ST_FLUSHED, 3);
    sent(f, UNETMM_ST_FLUSHED, 4);
    over(f, status);
}

TEST(test_memory, fix_test)
{
    fails_here(*state, (struct unetmm_sqe) {
        .opcode = UNETMM_OP_SEND, .nsegs = 1, .channel = PEER_CH,
        .seg[0] = { .addr = NOWHERE, .len = 1 } }, UNETMM_ST_PROTECTION);
}

TEST(test_memory_of_write, fix_test)
{
    struct unetmm_sqe s = peer_sqe(UNETMM_OP_WRITE, 5000, 1, 0, 0);

    fails_here(*state, s, UNETMM_ST_PROTECTION);
}

TEST(test_descriptor, fix_test)
{
    struct unetmm_sqe s = peer_sqe(UNETMM_OP_WRITE, 0, 1, 0, 0);

    s.imm = 1;
    fails_here(*state, s, UNETMM_ST_BAD_DESC);
}

static void post_invalidation(Fix *f)
{
    struct unetmm_sqe s = peer_sqe(UNETMM_OP_SEND, 1, 100, 0, 0);

    s.flags = UNETMM_SQE_F_IMM | UNETMM_SQE_F_INV;
    s.imm = PEER_FAR_KEY;
    s.handle = s.remote = 0;
    peer_post(f, s);
}

TEST_OF(test_invalidation_not_strict, Fix *f, fix_test)
{
    peer_open(f);
    post_invalidation(f);
    sent(f, UNETMM_ST_PEER_LACKS, 0);
    peer_silence(f);
}

/* A key that the receiver is to end goes along with the last packet. */
TEST_OF(test_invalidation, Fix *f, fix_test)
{
    const uint32_t imm = UNETMM_WIRE_F_IMM, inv = UNETMM_WIRE_F_INV;
    struct unetmm_frame h;
    struct unetmm_cqe cqe;

    open_strict(f, 0);
    post_invalidation(f);
    h = peer_expect(f, UNETMM_WIRE_SEND, PEER_MY).h;
    assert_int_equal(h.flags & (LAST | imm | inv), LAST | imm | inv);
    assert_int_equal(h.imm, PEER_FAR_KEY);
    peer_ack(f, PEER_MY + 1, 0);
    sent(f, UNETMM_ST_OK, 0);
    fake_insert(f->s1, PEER_PAGE(8), 1, NULL);
    fake_post(&f->a, PEER_PAGE(8), 64, 7);
    fake_ring_bell(&f->a);
    h = (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_SEND, .flags = LAST | imm | inv,
        .psn = PEER_YOURS, .remote = 4, .imm = PEER_KEY,
    };
    peer_give(f, h, "end", 4);
    assert_true(fake_poll(&f->a, &cqe));
    assert_int_equal(cqe.opcode, UNETMM_CQE_RECEIVED);
    assert_true(cqe.flags & UNETMM_CQE_F_IMM && cqe.flags & UNETMM_CQE_F_INV);
    assert_int_equal(cqe.imm, PEER_KEY);
    h.flags &= ~imm;
    h.imm = 0;
    h.psn++;
    peer_give(f, h, "end", 4);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_drop_malformed), 1);
}

TEST(test_invalidation_alone, fix_test)
{
    struct unetmm_sqe s = peer_sqe(UNETMM_OP_SEND, 0, 1, 0, 0);

    s.flags = UNETMM_SQE_F_INV;
    s.handle = s.remote = 0;
    fails_here(*state, s, UNETMM_ST_BAD_DESC);
}

TEST(test_import, fix_test)
{
    fails_here(*state, peer_sqe(UNETMM_OP_READ, 0, 1, PEER_FAR_LENGTH, 0),
               UNETMM_ST_BAD_IMPORT);
}

/* Sends before it that have had no packet yet go on, too. */
TEST_OF(test_waits, Fix *f, fix_test)
{
    const struct unetmm_cmd_channel how = {
        .mtu = PEER_MTU, .send_psn = PEER_MY, .recv_psn = PEER_YOURS,
        .flags = UNETMM_CHANNEL_F_STRICT | UNETMM_CHANNEL_F_TELL,
        .state = UNETMM_CHANNEL_RTR,
    };
    const struct unetmm_cmd ready = {
        .opcode = UNETMM_CMD_CHANNEL_MODIFY, .ep = f->a.id,
        .modify = { .channel = PEER_CH, .members = UNETMM_MODIFY_STATE },
    };
    struct unetmm_sqe bad = peer_sqe(UNETMM_OP_SEND, 0, 1500, 0, 2);

    peer_open(f);
    fake_channel_rel(&f->a, PEER_CH, fake_peer_mac, PEER_EP, PEER_CH, &how);
    bad.remote = bad.handle = 0;
    peer_post(f, bad);
    bad.imm = 1;
    bad.cookie = 3;
    peer_post(f, bad);
    post(f, UNETMM_OP_SEND, 4);
    peer_silence(f);
    assert_int_equal(fake_command(&f->d, ready, NULL), UNETMM_CS_OK);
    fix_settle(f);
    peer_expect(f, UNETMM_WIRE_SEND, PEER_MY);
    peer_expect(f, UNETMM_WIRE_SEND, PEER_MY + 1);
    peer_silence(f);
    peer_ack(f, PEER_MY + 2, 0);
    sent(f, UNETMM_ST_OK, 2);
    sent(f, UNETMM_ST_BAD_DESC, 3);
    sent(f, UNETMM_ST_FLUSHED, 4);
    over(f, UNETMM_ST_BAD_DESC);
}

/* A descriptor of no channel is no channel's end. */
TEST_OF(test_no_channel, Fix *f, fix_test)
{
    struct unetmm_sqe s = peer_sqe(UNETMM_OP_WRITE, 0, 1, 0, 7);

    open_strict(f, 0);
    s.channel = 9;
    peer_post(f, s);
    sent(f, UNETMM_ST_BAD_CHANNEL, 7);
    s.channel = 0xffff;
    peer_post(f, s);
    sent(f, UNETMM_ST_BAD_CHANNEL, 7);
    post(f, UNETMM_OP_WRITE, 1);
    peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY);
}

/* A WRITE with cookie 1 on its way, and behind it a refused one with cookie 2. */
static void refused_behind(Fix *f)
{
    struct unetmm_sqe s = peer_sqe(UNETMM_OP_WRITE, 0, 1, 0, 2);

    open_strict(f, 0);
    post(f, UNETMM_OP_WRITE, 1);
    s.imm = 1;
    peer_post(f, s);
}

/* The earlier one of two that fail ends the channel, also if it fails later. */
TEST_OF(test_earlier, Fix *f, fix_test)
{
    refused_behind(f);
    peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY);
    peer_ack_as(f, PEER_MY, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_RIGHT);
    sent(f, UNETMM_ST_REMOTE_RIGHT, 1);
    sent(f, UNETMM_ST_FLUSHED, 2);
    over(f, UNETMM_ST_REMOTE_RIGHT);
}

/* The channel fails by a silence before that: one send alone has a reason. */
TEST_OF(test_silence, Fix *f, fix_test)
{
    refused_behind(f);
    for (unsigned i = 0; i < 20; i++) {
        fake_advance(&f->h, 1000 * 1000);
    }
    sent(f, UNETMM_ST_TIMEOUT, 1);
    sent(f, UNETMM_ST_FLUSHED, 2);
    fake_expect(&f->a, UNETMM_CQE_CLOSED, UNETMM_ST_TIMEOUT, 0);
}

/*
 * Rejected by the peer: a READ before it gets its answer, no VOID goes.  A peer
 * that then has all has done nothing for those behind it.
 */
static void rejected(Fix *f, bool acked)
{
    uint8_t data[100] = { 7 };

    open_strict(f, 0);
    post(f, UNETMM_OP_READ, 1);
    post(f, UNETMM_OP_WRITE, 2);
    post(f, UNETMM_OP_SEND, 3);
    peer_expect(f, UNETMM_WIRE_READ, PEER_MY);
    peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY + 1);
    peer_expect(f, UNETMM_WIRE_SEND, PEER_MY + 2);
    for (unsigned i = 0; i < 2; i++) {
        peer_ack_as(f, PEER_MY + 1, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_RANGE);
        fake_expect_none(&f->a);
        peer_silence(f);
    }
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_rejects), 1);
    if (acked) {
        peer_ack(f, PEER_MY + 3, 0);
    }
    fake_insert(f->s1, PEER_PAGE(1), 1, NULL);
    peer_give(f, (struct unetmm_frame) { .opcode = UNETMM_WIRE_ANSWER,
                                         .psn = PEER_MY }, data, 100);
    sent(f, UNETMM_ST_OK, 1);
    sent(f, UNETMM_ST_REMOTE_RANGE, 2);
    sent(f, UNETMM_ST_FLUSHED, 3);
    over(f, UNETMM_ST_REMOTE_RANGE);
}

TEST(test_rejected, fix_test)
{
    rejected(*state, false);
}

TEST(test_rejected_acked, fix_test)
{
    rejected(*state, true);
}

/* The answer has no place: a READ that ends here. */
TEST_OF(test_answer, Fix *f, fix_test)
{
    uint8_t data[1] = { 7 };

    open_strict(f, 0);
    peer_post(f, peer_sqe(UNETMM_OP_READ, 5000, 1, 0, 1));
    post(f, UNETMM_OP_SEND, 2);
    peer_expect(f, UNETMM_WIRE_READ, PEER_MY);
    peer_expect(f, UNETMM_WIRE_SEND, PEER_MY + 1);
    peer_give(f, (struct unetmm_frame) { .opcode = UNETMM_WIRE_ANSWER,
                                         .psn = PEER_MY }, data, 1);
    fake_serve(&f->d);
    sent(f, UNETMM_ST_PROTECTION, 1);
    sent(f, UNETMM_ST_FLUSHED, 2);
    over(f, UNETMM_ST_PROTECTION);
}

/* The peer is not ready for one behind a READ: the READ gets its answer. */
TEST_OF(test_not_ready, Fix *f, fix_test)
{
    uint8_t data[100] = { 7 };
    const struct unetmm_cmd never = {
        .opcode = UNETMM_CMD_CHANNEL_MODIFY, .ep = f->a.id,
        .modify = { .channel = PEER_CH,
                    .members = UNETMM_MODIFY_NOT_READY_RETRIES },
    };

    open_strict(f, 0);
    assert_int_equal(fake_command(&f->d, never, NULL), UNETMM_CS_OK);
    post(f, UNETMM_OP_READ, 1);
    post(f, UNETMM_OP_SEND, 2);
    post(f, UNETMM_OP_SEND, 3);
    fake_wire_clear(&f->h);
    for (unsigned i = 0; i < 2; i++) {
        peer_ack_as(f, PEER_MY + 1, 0, UNETMM_ACK_NOT_READY, 10);
        fake_expect_none(&f->a);
    }
    fake_insert(f->s1, PEER_PAGE(1), 1, NULL);
    peer_give(f, (struct unetmm_frame) { .opcode = UNETMM_WIRE_ANSWER,
                                         .psn = PEER_MY }, data, 100);
    sent(f, UNETMM_ST_OK, 1);
    sent(f, UNETMM_ST_NOT_READY, 2);
    sent(f, UNETMM_ST_FLUSHED, 3);
    over(f, UNETMM_ST_NOT_READY);
}

/* The peer's half has ended first: by its number, for its reason. */
TEST_OF(test_told, Fix *f, fix_test)
{
    open_strict(f, 0);
    post(f, UNETMM_OP_SEND, 1);
    post(f, UNETMM_OP_WRITE, 2);
    post(f, UNETMM_OP_WRITE, 3);
    fake_wire_clear(&f->h);
    peer_ack_as(f, PEER_MY + 1, 0, UNETMM_ACK_FAILED, UNETMM_WHY_MEMORY);
    sent(f, UNETMM_ST_OK, 1);
    sent(f, UNETMM_ST_REMOTE_MEMORY, 2);
    sent(f, UNETMM_ST_FLUSHED, 3);
    fake_expect(&f->a, UNETMM_CQE_CLOSED, UNETMM_ST_REMOTE_MEMORY, 0);
    driver_hears_nothing(f);
    peer_silence(f);
}

/* ---- The other half ------------------------------------------------------ */

static void give_write(Fix *f, uint32_t psn, uint32_t key, const char *text)
{
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_WRITE, .flags = LAST, .psn = PEER_YOURS + psn,
        .handle = PEER_REGION, .offset = key }, text, 8);
}

static void rejects(Fix *f)
{
    open_strict(f, 0);
    post(f, UNETMM_OP_SEND, 1);
    fake_wire_clear(&f->h);
    give_write(f, 0, PEER_KEY + 1, "rejected");
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_REGION);
    give_write(f, 1, PEER_KEY, "behindit");
    assert_int_equal(fake_counter(&f->h, UNETMM_C_drop_rel_early), 1);
    fake_wire_clear(&f->h);
    fake_expect_none(&f->a);
}

/* No send has the reason: the driver hears it, once. */
static void driver_hears(Fix *f, uint8_t status)
{
    struct unetmm_notify n;

    assert_true(fake_notification(&f->d, &n));
    assert_int_equal(n.type, UNETMM_NOTIFY_END);
    assert_int_equal(n.ep, f->a.id);
    assert_int_equal(n.data, status);
    driver_hears_nothing(f);
}

static void rejected_both(Fix *f)
{
    char got[8];

    driver_hears(f, UNETMM_ST_REVOKED);

    sent(f, UNETMM_ST_FLUSHED, 1);
    fake_expect(&f->a, UNETMM_CQE_CLOSED, UNETMM_ST_REVOKED, 0);
    fake_load(f->s1, PEER_AT, got, 8);
    assert_memory_equal(got, "\0\0\0\0\0\0\0\0", 8);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_writes), 0);
    fake_wire_clear(&f->h);
    give_write(f, 1, PEER_KEY, "behindit");
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_writes), 0);
}

TEST_OF(test_rejects, Fix *f, fix_test)
{
    rejects(f);
    peer_ack_as(f, PEER_MY, 0, UNETMM_ACK_FAILED, UNETMM_WHY_CHANNEL);
    peer_silence(f);
    rejected_both(f);
}

/* A peer that is not strict would go on. */
TEST_OF(test_rejects_void, Fix *f, fix_test)
{
    rejects(f);
    peer_void(f, PEER_YOURS, 0);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_FAILED, UNETMM_WHY_REGION);
    rejected_both(f);
}

/* The buffer that is too short for a SEND says so; so does the peer's card. */
TEST_OF(test_short_buffer, Fix *f, fix_test)
{
    uint8_t data[500] = { 0 };

    open_strict(f, 0);
    fake_post(&f->a, PEER_PAGE(0), sizeof(data) - 1, 50);
    fake_post(&f->a, PEER_PAGE(1), sizeof(data), 51);
    fix_settle(f);
    post(f, UNETMM_OP_SEND, 1);
    fake_wire_clear(&f->h);
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_SEND, .flags = LAST, .psn = PEER_YOURS,
        .remote = sizeof(data) }, data, sizeof(data));
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_FAILED, UNETMM_WHY_BUFFER);
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_TOO_LONG, 50);
    sent(f, UNETMM_ST_FLUSHED, 1);
    fake_expect(&f->a, UNETMM_CQE_CLOSED, UNETMM_ST_FLUSHED, 0);
    fake_expect_none(&f->a);
    driver_hears_nothing(f);
}

/*
 * The buffer of a message that has come in part comes back before the report of
 * the end.  A flush behind that has a report of its own, and no buffer.
 */
TEST_OF(test_in_part, Fix *f, fix_test)
{
    uint8_t data[PEER_MTU] = { 0 };

    open_strict(f, 0);
    fake_insert(f->s1, PEER_PAGE(0), 1, NULL);
    fake_post(&f->a, PEER_PAGE(0), 2 * PEER_MTU, 50);
    fix_settle(f);
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_SEND, .psn = PEER_YOURS,
        .remote = 2 * PEER_MTU }, data, sizeof(data));
    peer_ack_as(f, PEER_MY, 0, UNETMM_ACK_FAILED, UNETMM_WHY_CHANNEL);
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_FLUSHED, 50);
    fake_expect(&f->a, UNETMM_CQE_CLOSED, UNETMM_ST_PEER_FAILED, 0);
    driver_hears(f, UNETMM_ST_PEER_FAILED);
    fake_expect_none(&f->a);
    assert_int_equal(fake_command(&f->d, (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_CHANNEL_CLEAR, .ep = f->a.id,
        .channel = { .channel = PEER_CH, .flags = UNETMM_CHANNEL_F_FLUSH |
                                                  UNETMM_CHANNEL_F_TELL } },
        NULL), UNETMM_CS_OK);
    fix_settle(f);
    fake_expect(&f->a, UNETMM_CQE_CLOSED, UNETMM_ST_FLUSHED, 0);
    fake_expect_none(&f->a);
}

/* The peer has failed, and nothing is on its way to it. */
TEST_OF(test_peer_failed, Fix *f, fix_test)
{
    open_strict(f, 0);
    peer_ack_as(f, PEER_MY, 0, UNETMM_ACK_FAILED, UNETMM_WHY_CHANNEL);
    fake_expect(&f->a, UNETMM_CQE_CLOSED, UNETMM_ST_PEER_FAILED, 0);
    driver_hears(f, UNETMM_ST_PEER_FAILED);
}

/* A channel that is not strict has no word for the driver. */
TEST_OF(test_not_strict, Fix *f, fix_test)
{
    peer_open(f);
    peer_ack_as(f, PEER_MY, 0, UNETMM_ACK_FAILED, UNETMM_WHY_CHANNEL);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_failed), 1);
    driver_hears_nothing(f);
}

/* Without an error it is a channel like others, but WRITEs come in order. */
TEST_OF(test_in_order, Fix *f, fix_test)
{
    open_strict(f, 0);
    give_write(f, 1, PEER_KEY, "second..");
    peer_expect_ack(f, PEER_YOURS, 0, 0, 0);
    give_write(f, 0, PEER_KEY, "first...");
    give_write(f, 1, PEER_KEY, "second..");
    peer_void(f, PEER_YOURS + 2, UNETMM_WIRE_F_ASK);
    peer_expect_ack(f, PEER_YOURS + 3, 0, 0, 0);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_writes), 2);
}

/* A WRITE without bytes is of no region; one byte is. */
TEST_OF(test_no_bytes, Fix *f, fix_test)
{
    open_strict(f, 0);
    for (uint32_t len = 0; len < 2; len++) {
        peer_give(f, (struct unetmm_frame) {
            .opcode = UNETMM_WIRE_WRITE, .psn = PEER_YOURS + len,
            .flags = LAST | UNETMM_WIRE_F_ASK, .handle = PEER_REGION,
            .offset = PEER_KEY + 1 }, "x", len);
        peer_expect_ack(f, PEER_YOURS + 1, 0, len ? UNETMM_ACK_REJECTED : 0,
                        len ? UNETMM_WHY_REGION : 0);
    }
    fake_expect_none(&f->a);
}

/* A WRITE of no bytes by key is taken whatever its key is, and counts no wrong key. */
TEST_OF(test_no_bytes_by_key, Fix *f, fix_test)
{
    const uint32_t imm = UNETMM_WIRE_F_IMM;
    struct unetmm_frame w = {
        .opcode = UNETMM_WIRE_WRITE, .imm = 77,
        .flags = LAST | UNETMM_WIRE_F_ASK | UNETMM_WIRE_F_KEYED | imm,
    };
    uint32_t n = UNETMM_REL_BAD_KEYS + 2;

    open_strict(f, 0);
    fake_insert(f->s1, PEER_PAGE(0), 1, NULL);
    for (uint32_t i = 0; i < n; i++) {
        w.psn = PEER_YOURS + i;
        w.handle = i % 2 ? UINT32_MAX : 0;
        w.offset = w.remote = i % 2 ? UINT64_MAX : 0;
        w.offset &= UINT32_MAX;
        /* Without a buffer it comes again. */
        peer_give(f, w, NULL, 0);
        peer_expect_ack(f, w.psn, 0, UNETMM_ACK_NOT_READY, 100);
        fake_post(&f->a, PEER_PAGE(0), 64, i);
        fix_settle(f);
        fake_wire_clear(&f->h);
        peer_give(f, w, NULL, 0);
        fake_expect(&f->a, UNETMM_CQE_WRITTEN, UNETMM_ST_OK, i);
        peer_expect_ack(f, w.psn + 1, 0, 0, 0);
    }
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_bad_keys), 0);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_imms), n);
    /* Again, it changes nothing. */
    peer_give(f, w, NULL, 0);
    peer_expect_ack(f, w.psn + 1, 0, 0, 0);
    fake_expect_none(&f->a);
    /* One byte needs the key. */
    w.psn++;
    peer_give(f, w, "x", 1);
    peer_expect_ack(f, w.psn, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_REGION);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_bad_keys), 1);
    /* The number of a rejected packet is not taken any more, without bytes either. */
    peer_give(f, w, NULL, 0);
    peer_expect_ack(f, w.psn, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_REGION);
    fake_expect_none(&f->a);
}

/* With a notification or a counter, which are of a region, it needs the key. */
TEST_OF(test_no_bytes_of_region, Fix *f, fix_test)
{
    const uint32_t says[] = { UNETMM_WIRE_F_NOTIFY, UNETMM_WIRE_F_COUNT };

    for (unsigned i = 0; i < 2; i++) {
        open_strict(f, 0);
        peer_give(f, (struct unetmm_frame) {
            .opcode = UNETMM_WIRE_WRITE, .psn = PEER_YOURS,
            .flags = LAST | UNETMM_WIRE_F_KEYED | says[i],
            .handle = PEER_REGION, .offset = PEER_KEY }, NULL, 0);
        peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_REJECTED,
                        UNETMM_WHY_REGION);
        assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_bad_keys), i + 1);
    }
}

/* The right to WRITE that the channel denies is denied without bytes, too. */
TEST_OF(test_no_bytes_denied, Fix *f, fix_test)
{
    const struct unetmm_cmd denied = {
        .opcode = UNETMM_CMD_CHANNEL_MODIFY, .ep = f->a.id,
        .modify = { .channel = PEER_CH, .members = UNETMM_MODIFY_DENIED,
                    .denied = UNETMM_RIGHT_WRITE },
    };

    open_strict(f, 0);
    assert_int_equal(fake_command(&f->d, denied, NULL), UNETMM_CS_OK);
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_WRITE, .psn = PEER_YOURS, .imm = 1,
        .flags = LAST | UNETMM_WIRE_F_KEYED | UNETMM_WIRE_F_IMM }, NULL, 0);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_RIGHT);
}

/* ---- Buffers whose memory cannot be had ---------------------------------- */

/* The peer's first message, of len bytes */
static void give_send(Fix *f, uint32_t len)
{
    static const uint8_t data[PEER_MTU];

    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_SEND, .flags = LAST, .psn = PEER_YOURS,
        .remote = len }, data, len);
}

/* Two buffers are posted; the first one has failed, and has not come back. */
static void post_nowhere(Fix *f)
{
    fake_post(&f->a, NOWHERE, 500, 50);
    fake_post(&f->a, PEER_PAGE(0), 500, 51);
    fix_settle(f);
    fake_expect_none(&f->a);
    fake_wire_clear(&f->h);
}

/* The buffer is found at the message's turn, and ends both halves. */
TEST_OF(test_no_memory, Fix *f, fix_test)
{
    open_strict(f, 0);
    post(f, UNETMM_OP_SEND, 1);
    post_nowhere(f);
    give_send(f, 500);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_FAILED, UNETMM_WHY_MEMORY);
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_PROTECTION, 50);
    sent(f, UNETMM_ST_FLUSHED, 1);
    fake_expect(&f->a, UNETMM_CQE_CLOSED, UNETMM_ST_FLUSHED, 0);
    fake_expect_none(&f->a);
    driver_hears_nothing(f);
}

/*
 * The buffer is of 17 pages, and 16 have been looked at: the SEND finds out
 * that the last one is not there.  It does not go on to the next buffer.
 */
TEST_OF(test_no_memory_late, Fix *f, fix_test)
{
    const struct unetmm_cmd_channel how = {
        .mtu = 65536, .send_psn = PEER_MY, .recv_psn = PEER_YOURS,
        .flags = UNETMM_CHANNEL_F_STRICT | UNETMM_CHANNEL_F_TELL,
    };
    FakeSpace *space = fake_space(&f->d, 3, UNETMM_SOURCE_PINNED, 4);
    const uint64_t at = PEER_PAGE(0) + 100, good = PEER_PAGE(30);
    g_autofree uint8_t *data = g_malloc0(65536);

    fake_ep_destroy(&f->a);
    fake_ep_open(&f->a, &f->d, 1, space);
    assert_int_equal(fake_channel_rel(&f->a, PEER_CH, fake_peer_mac, PEER_EP,
                                      PEER_CH, &how), UNETMM_CS_OK);
    fake_map(space, at, 65536 - 100, FAKE_RW);
    fake_map(space, good, 65536, FAKE_RW);
    fake_post(&f->a, at, 65536, 50);
    fake_post(&f->a, good, 65536, 51);
    fake_ring_bell(&f->a);
    fake_expect_none(&f->a);
    assert_int_equal(unetmm_head_at(&f->h.core.eps[1], 0)->state,
                     UNETMM_HEAD_CHECK);
    f->h.stuck = true;
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_SEND, .flags = LAST, .psn = PEER_YOURS,
        .remote = 65536 }, data, 65536);
    f->h.stuck = false;
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_PROTECTION, 50);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_FAILED, UNETMM_WHY_MEMORY);
    fake_expect(&f->a, UNETMM_CQE_CLOSED, UNETMM_ST_FLUSHED, 0);
    fake_expect_none(&f->a);
}

/* A flush gives it back in its turn. */
TEST_OF(test_no_memory_flushed, Fix *f, fix_test)
{
    open_strict(f, 0);
    post_nowhere(f);
    assert_int_equal(fake_command(&f->d, (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_CHANNEL_CLEAR, .ep = f->a.id,
        .channel = { .channel = PEER_CH, .flags = UNETMM_CHANNEL_F_FLUSH |
                                                  UNETMM_CHANNEL_F_TELL } },
        NULL), UNETMM_CS_OK);
    fix_settle(f);
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_FLUSHED, 50);
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_FLUSHED, 51);
    fake_expect(&f->a, UNETMM_CQE_CLOSED, UNETMM_ST_FLUSHED, 0);
    fake_expect_none(&f->a);
}
