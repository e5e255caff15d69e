/*
 * unetmm: CHANNEL_MODIFY: the states of a channel, its numbers and retries
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "peer.h"

#define MODIFY(...) ((struct unetmm_cmd_modify) { __VA_ARGS__ })

static uint8_t modify_of(Fix *f, uint16_t channel,
                         struct unetmm_cmd_modify how)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_CHANNEL_MODIFY, .ep = f->a.id, .modify = how,
    };

    cmd.modify.channel = channel;
    return fake_command(&f->d, cmd, NULL);
}

static uint8_t modify(Fix *f, struct unetmm_cmd_modify how)
{
    return modify_of(f, PEER_CH, how);
}

static void change(Fix *f, struct unetmm_cmd_modify how)
{
    assert_int_equal(modify(f, how), UNETMM_CS_OK);
}

static uint8_t open_in(Fix *f, uint8_t state)
{
    const struct unetmm_cmd_channel how = {
        .mtu = PEER_MTU, .send_psn = PEER_MY, .recv_psn = PEER_YOURS,
        .retries = 3, .timeout_us = 1000, .state = state,
    };

    peer_open(f);
    return fake_channel_rel(&f->a, PEER_CH, fake_peer_mac, PEER_EP, PEER_CH,
                            &how);
}

/* Posts a SEND, or the peer gives one of its own, of 8 bytes. */
static void post(Fix *f, uint64_t cookie)
{
    struct unetmm_sqe s = peer_sqe(UNETMM_OP_SEND, 0, 8, 0, cookie);

    s.handle = 0;
    peer_post(f, s);
}

static void give(Fix *f, uint32_t psn)
{
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_SEND, .psn = psn, .remote = 8,
        .flags = UNETMM_WIRE_F_LAST | UNETMM_WIRE_F_ASK }, "eight by", 8);
}

TEST(test_bad, fix_test)
{
    static const struct unetmm_cmd_modify bad[] = {
        { .members = UNETMM_MODIFY_ALL + 1 },
        { .members = UNETMM_MODIFY_STATE, .state = UNETMM_CHANNEL_INIT },
        { .members = UNETMM_MODIFY_RETRIES, .retries = 8 },
        { .members = UNETMM_MODIFY_NOT_READY_RETRIES, .not_ready_retries = 8 },
        { .members = UNETMM_MODIFY_DENIED, .denied = UNETMM_RIGHT_ALL + 1 },
        { .members = UNETMM_MODIFY_TIMEOUT },
        { .members = UNETMM_MODIFY_TIMEOUT,
          .timeout_us = UNETMM_REL_MAX_TIMEOUT_US + 1 },
        { .members = UNETMM_MODIFY_NOT_READY },
        { .members = UNETMM_MODIFY_NOT_READY,
          .not_ready_us = UNETMM_REL_MAX_TIMEOUT_US + 1 },
        { .members = UNETMM_MODIFY_SEND_PSN, .send_psn = 1u << 24 },
        { .members = UNETMM_MODIFY_RECV_PSN },
    };
    Fix *f = *state;

    assert_int_equal(open_in(f, UNETMM_CHANNEL_INIT + 1), UNETMM_CS_BAD_ARG);
    assert_int_equal(open_in(f, UNETMM_CHANNEL_RTR), UNETMM_CS_OK);
    for (uint32_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        assert_int_equal(modify(f, bad[i]), UNETMM_CS_BAD_ARG);
    }
    assert_int_equal(modify_of(f, PEER_CH + 1, bad[0]), UNETMM_CS_BAD_ID);
    assert_int_equal(modify_of(f, 0xffff, bad[0]), UNETMM_CS_BAD_ID);
    assert_int_equal(modify_of(f, FIX_WIRE, MODIFY(0)), UNETMM_CS_BAD_ARG);
    change(f, MODIFY(.members = UNETMM_MODIFY_STATE));
    assert_int_equal(modify(f, MODIFY(.members = UNETMM_MODIFY_SEND_PSN)),
                     UNETMM_CS_BAD_ARG);
    assert_int_equal(modify(f, MODIFY(.members = UNETMM_MODIFY_STATE,
                                      .state = UNETMM_CHANNEL_RTR)),
                     UNETMM_CS_BAD_ARG);
    /* Members that do not count are not looked at. */
    change(f, MODIFY(.retries = 99, .state = 99, .denied = 99));
    peer_ack_as(f, PEER_MY, 0, UNETMM_ACK_FAILED, UNETMM_WHY_CHANNEL);
    assert_int_equal(modify(f, MODIFY(.members = 0)), UNETMM_CS_BAD_ARG);
}

/* From the first state to the last, as verbs do; nothing of it is lost. */
TEST_OF(test_states, Fix *f, fix_test)
{
    open_in(f, UNETMM_CHANNEL_INIT);
    post(f, 1);
    expect_count(&f->h, drop_rel_init, 1, give(f, 100));
    peer_silence(f);
    change(f, MODIFY(.members = UNETMM_MODIFY_STATE | UNETMM_MODIFY_RECV_PSN,
                     .state = UNETMM_CHANNEL_RTR, .recv_psn = 0xffffff));
    give(f, 0xffffff);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
    peer_expect_ack(f, 0x1000000, 0, 0, 0);
    post(f, 2);
    /* The channel answers, too. */
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_READ, .psn = 0x1000000, .handle = PEER_REGION,
        .offset = PEER_KEY, .imm = 8 }, NULL, 0);
    fix_settle(f);
    peer_expect(f, UNETMM_WIRE_ANSWER, 0x1000000);
    peer_silence(f);
    change(f, MODIFY(.members = UNETMM_MODIFY_STATE | UNETMM_MODIFY_SEND_PSN,
                     .send_psn = 0xfffffe));
    fix_settle(f);
    peer_expect(f, UNETMM_WIRE_SEND, 0xfffffe);
    peer_expect(f, UNETMM_WIRE_SEND, 0xffffff);
    peer_ack(f, 0x1000000, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    /* A packet of before is not expected again. */
    give(f, 0x1000001);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
}

/* 0 timeouts: the first one is the end. */
TEST_OF(test_no_retries, Fix *f, fix_test)
{
    open_in(f, UNETMM_CHANNEL_RTR);
    change(f, MODIFY(.members = UNETMM_MODIFY_STATE | UNETMM_MODIFY_RETRIES |
                             UNETMM_MODIFY_TIMEOUT, .timeout_us = 3000));
    post(f, 1);
    peer_expect(f, UNETMM_WIRE_SEND, PEER_MY);
    fake_advance(&f->h, 2999 * 1000);
    fake_expect_none(&f->a);
    fake_advance(&f->h, 1000);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_TIMEOUT, 1);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_FAILED, UNETMM_WHY_CHANNEL);
}

/* Where no packet is lost, the peer is asked once all the same. */
static void no_retries_asked(Fix *f, struct unetmm_sqe s, uint8_t opcode)
{
    open_in(f, UNETMM_CHANNEL_RTS);
    fake_import(&f->a, PEER_IMPORT, PEER_CH, PEER_FAR, PEER_FAR_KEY,
                PEER_FAR_LENGTH, UNETMM_RIGHT_ALL);
    change(f, MODIFY(.members = UNETMM_MODIFY_RETRIES));
    peer_post(f, s);
    fake_wire_clear(&f->h);
    if (opcode == UNETMM_WIRE_ACK) {
        peer_ack_as(f, PEER_MY, 0, UNETMM_ACK_PENDING, 0);
    } else {
        f->d.hold_back = true;
        peer_give(f, (struct unetmm_frame) {
            .opcode = UNETMM_WIRE_ANSWER, .psn = PEER_MY }, "eight by", 8);
        assert_true(f->h.core.eps[1].rels->tx.unplaced);
    }
    fake_wire_clear(&f->h);
    fake_advance(&f->h, 1000 * 1000);
    fake_expect_none(&f->a);
    peer_expect(f, opcode, opcode == UNETMM_WIRE_ACK ? PEER_YOURS : PEER_MY);
    fake_advance(&f->h, 2000 * 1000);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_TIMEOUT, s.cookie);
}

TEST(test_no_retries_pending, fix_test)
{
    struct unetmm_sqe s = peer_sqe(UNETMM_OP_SEND, 0, 8, 0, 1);

    s.handle = 0;
    no_retries_asked(*state, s, UNETMM_WIRE_ACK);
}

TEST(test_no_retries_no_place, fix_test)
{
    no_retries_asked(*state, peer_sqe(UNETMM_OP_READ, 7, 8, 0, 1),
                     UNETMM_WIRE_READ);
}

/* In its first state, too, it is quiet. */
TEST_OF(test_flushed, Fix *f, fix_test)
{
    const struct unetmm_cmd flush = {
        .opcode = UNETMM_CMD_CHANNEL_CLEAR, .ep = f->a.id,
        .channel = { .channel = PEER_CH, .flags = UNETMM_CHANNEL_F_FLUSH },
    };

    open_in(f, UNETMM_CHANNEL_INIT);
    assert_int_equal(fake_command(&f->d, flush, NULL), UNETMM_CS_OK);
    fake_wire_clear(&f->h);
    expect_count(&f->h, drop_rel_failed, 1, give(f, PEER_YOURS));
    peer_silence(f);
}

/* Refused so often; UINT32_MAX: it goes on. */
static void refuse(Fix *f, uint8_t retries, uint32_t most)
{
    uint32_t n;

    open_in(f, UNETMM_CHANNEL_RTS);
    change(f, MODIFY(.members = UNETMM_MODIFY_NOT_READY_RETRIES,
                     .not_ready_retries = retries));
    post(f, 1);
    for (n = 0; n < 300; n++) {
        if (!f->h.wire->len) {
            break;
        }
        peer_expect(f, UNETMM_WIRE_SEND, PEER_MY);
        peer_ack_as(f, PEER_MY, 0, UNETMM_ACK_NOT_READY, 10);
        fake_advance(&f->h, 1300 * 1000);
        if (n == most) {
            fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_NOT_READY, 1);
            fake_wire_clear(&f->h);
            return;
        }
    }
    assert_int_equal(n, most);
    peer_ack(f, PEER_MY + 1, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_wire_clear(&f->h);
}

TEST(test_not_ready, fix_test)
{
    refuse(*state, 0, 0);
    refuse(*state, 1, 1);
    refuse(*state, 6, 6);
    refuse(*state, 7, 300);
}

/* Denied from now on, and a READ also when it comes again. */
TEST_OF(test_denied, Fix *f, fix_test)
{
    struct unetmm_frame h = {
        .opcode = UNETMM_WIRE_READ, .psn = PEER_YOURS, .handle = PEER_REGION,
        .offset = PEER_KEY, .imm = 8,
    };

    open_in(f, UNETMM_CHANNEL_RTS);
    peer_give(f, h, NULL, 0);
    fix_settle(f);
    peer_expect(f, UNETMM_WIRE_ANSWER, PEER_YOURS);
    change(f, MODIFY(.members = UNETMM_MODIFY_DENIED,
                     .denied = UNETMM_RIGHT_READ));
    fake_wire_clear(&f->h);
    peer_give(f, h, NULL, 0);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_RIGHT);
    peer_expect_ack(f, PEER_YOURS + 1, 0, 0, 0);
    peer_silence(f);
    h.psn++;
    peer_give(f, h, NULL, 0);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_REJECTED,
                    UNETMM_WHY_RIGHT);
}
