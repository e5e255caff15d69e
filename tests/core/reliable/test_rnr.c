/*
 * unetmm: network page faults on reliable channels: policy rnr, the kinds of
 * faults, and known faults of real cards
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "peer.h"
#include "reliable/reliable.h"

#define ASK     UNETMM_WIRE_F_ASK
#define LAST    UNETMM_WIRE_F_LAST
#define US      1000

/* ---- Helpers ------------------------------------------------------------ */

static const struct unetmm_cmd_channel usual = {
    .mtu = PEER_MTU, .send_psn = PEER_MY, .recv_psn = PEER_YOURS,
    .retries = 3, .timeout_us = 1000, .not_ready_retries = 4,
};

static uint8_t set_channel(Fix *f, struct unetmm_cmd_channel how)
{
    return fake_channel_rel(&f->a, PEER_CH, fake_peer_mac, PEER_EP, PEER_CH,
                            &how);
}

/* With all else as the peer has it. */
static void open_as(Fix *f, struct unetmm_cmd_channel how)
{
    assert_int_equal(set_channel(f, how), UNETMM_CS_OK);
    assert_int_equal(fake_region(f->s1, PEER_REGION, PEER_KEY, PEER_AT,
                                 PEER_LENGTH, UNETMM_RIGHT_ALL, 0),
                     UNETMM_CS_OK);
    assert_int_equal(fake_import(&f->a, PEER_IMPORT, PEER_CH, PEER_FAR,
                                 PEER_FAR_KEY, PEER_FAR_LENGTH,
                                 UNETMM_RIGHT_ALL), UNETMM_CS_OK);
    fake_insert(f->s1, PEER_PAGE(20), 4, NULL);
    fake_wire_clear(&f->h);
}

/* Endpoint a again, with policy rnr. */
static void with_rnr(Fix *f)
{
    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    fake_ep_init(&f->a, &f->d, 1, f->s1);
    f->a.policy = UNETMM_POLICY_RNR;
    fake_ep_create(&f->a);
}

static uint8_t create_as(Fix *f, FakeSpace *s, uint8_t policy)
{
    FakeEp ep;

    fake_ep_init(&ep, &f->d, 5, s);
    ep.policy = policy;
    fake_ep_alloc(&ep);
    return fake_command(&f->d, fake_ep_cmd(&ep), NULL);
}

static void fill(uint8_t *data, uint32_t at, uint32_t len, uint32_t n)
{
    for (uint32_t i = 0; i < len; i++) {
        data[i] = fake_pattern(n, at + i);
    }
}

/* Bytes [at, + len) of message n, which has `total`. */
static void give_send(Fix *f, uint32_t psn, uint32_t at, uint32_t len,
                      uint32_t total, uint32_t n)
{
    uint8_t data[PEER_MTU];

    fill(data, at, len, n);
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_SEND, .psn = psn, .offset = at, .remote = total,
        .flags = at + len == total ? LAST | ASK : ASK }, data, len);
}

/* A WRITE of message n's first bytes to this offset of the region. */
static void give_write(Fix *f, uint32_t psn, uint64_t at, uint32_t len,
                       uint32_t n)
{
    uint8_t data[PEER_MTU];

    fill(data, 0, len, n);
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_WRITE, .psn = psn, .handle = PEER_REGION,
        .offset = PEER_KEY, .remote = at, .flags = LAST | ASK }, data, len);
}

static void give_read(Fix *f, uint32_t psn, uint64_t at, uint32_t len)
{
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_READ, .psn = psn, .handle = PEER_REGION,
        .offset = PEER_KEY, .remote = at, .imm = len }, NULL, 0);
}

static void give_answer(Fix *f, uint32_t psn, uint32_t len, uint32_t n)
{
    uint8_t data[PEER_MTU];

    fill(data, 0, len, n);
    peer_give(f, (struct unetmm_frame) { .opcode = UNETMM_WIRE_ANSWER,
                                         .psn = psn }, data, len);
}

/* READ of 1000 bytes into page n. */
static void ask_for(Fix *f, unsigned page, uint64_t cookie)
{
    fake_send_sqe(&f->a, peer_sqe(UNETMM_OP_READ, page, 1000, 500, cookie));
    fake_ring_bell(&f->a);
}

/* The next report: of this page, to be read or written; no head's. */
static struct unetmm_fault expect_fault(Fix *f, uint64_t page, bool write)
{
    struct unetmm_fault miss;

    assert_true(fake_fault(&f->d, &miss));
    assert_int_equal(miss.type, UNETMM_FAULT_MISS);
    assert_int_equal(miss.vaddr, page);
    assert_int_equal(miss.flags, write ? UNETMM_FAULT_F_WRITE : 0);
    return miss;
}

/* Where offset `at` of the region is: its page. */
static uint64_t region_page(uint64_t at)
{
    return (PEER_AT + at) & ~(uint64_t)(FAKE_PAGE - 1);
}

/* ---- The policy --------------------------------------------------------- */

TEST_OF(test_who, Fix *f, fix_test)
{
    FakeSpace *pinned = fake_space(&f->d, 5, UNETMM_SOURCE_PINNED, 4);
    struct unetmm_cmd_channel how = usual;

    assert_int_equal(create_as(f, pinned, UNETMM_POLICY_RNR),
                     UNETMM_CS_BAD_ARG);
    assert_int_equal(create_as(f, f->s1, UNETMM_POLICY_RNR), UNETMM_CS_OK);
    with_rnr(f);
    assert_int_equal(fake_channel(&f->a, 1, fake_peer_mac, PEER_EP, 1, 1000),
                     UNETMM_CS_BAD_ARG);
    how.recv_credits = 1;
    assert_int_equal(set_channel(f, how), UNETMM_CS_BAD_ARG);
    assert_int_equal(set_channel(f, usual), UNETMM_CS_OK);
}

TEST_OF(test_time, Fix *f, fix_test)
{
    struct unetmm_cmd_channel how = usual;

    how.not_ready_us = UNETMM_REL_MAX_TIMEOUT_US + 1;
    assert_int_equal(set_channel(f, how), UNETMM_CS_BAD_ARG);
    how.not_ready_us = UNETMM_REL_MAX_TIMEOUT_US;
    assert_int_equal(set_channel(f, how), UNETMM_CS_OK);
    give_send(f, PEER_YOURS, 0, 500, 500, 1);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_NOT_READY,
                    UNETMM_REL_MAX_TIMEOUT_US);
    assert_int_equal(set_channel(f, usual), UNETMM_CS_OK);
    give_send(f, PEER_YOURS, 0, 500, 500, 1);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_NOT_READY, 100);
}

/* A channel that fails while it waits for the peer waits no more. */
TEST_OF(test_fails_paused, Fix *f, fix_test)
{
    const UnetmmSendWindow *tx;

    open_as(f, usual);
    fake_insert(f->s1, PEER_PAGE(0), 1, NULL);
    peer_post(f, peer_sqe(UNETMM_OP_WRITE, 0, 2 * PEER_MTU, 0, 1));
    peer_ack_as(f, PEER_MY, 0, UNETMM_ACK_NOT_READY, 100);
    tx = &f->h.core.eps[1].rels->tx;
    assert_true(tx->paused);
    peer_ack_as(f, PEER_MY, 0, UNETMM_ACK_FAILED, UNETMM_WHY_CHANNEL);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_PEER_FAILED, 1);
    fake_wire_clear(&f->h);
    fake_check_counts(&f->h.core);
    fake_migrate(&f->h);
    fake_advance(&f->h, 10000000);
    peer_silence(f);
}

/* The buffer stays; the peer is told the time, and when it is over early. */
TEST_OF(test_absent, Fix *f, fix_test)
{
    struct unetmm_cmd_channel how = usual;

    how.not_ready_us = 250;
    with_rnr(f);
    open_as(f, how);
    fake_vpage(f->s1, PEER_PAGE(0))->absent = true;
    fake_post(&f->a, PEER_PAGE(0), 4096, 50);
    fake_post(&f->a, PEER_PAGE(1), 4096, 51);
    fake_ring_bell(&f->a);
    fake_serve(&f->d);
    for (unsigned i = 0; i < 3; i++) {
        give_send(f, PEER_YOURS, 0, 500, 500, 1);
        peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_NOT_READY, 250);
    }
    fake_expect_none(&f->a);
    fake_vpage(f->s1, PEER_PAGE(0))->absent = false;
    fake_paged_in(&f->d);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_OK, 0);
    give_send(f, PEER_YOURS, 0, 500, 500, 1);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_OK, 0);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 50);
    fake_check(f->s1, PEER_PAGE(0), 500, 1);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_bufs_skipped), 0);
    /* A region's page. */
    fake_invalidate(f->s1, region_page(0), FAKE_PAGE);
    give_write(f, PEER_YOURS + 1, 0, 100, 2);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_NOT_READY, 250);
    fake_serve(&f->d);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_OK, 0);
    give_write(f, PEER_YOURS + 1, 0, 100, 2);
    peer_expect_ack(f, PEER_YOURS + 2, 0, UNETMM_ACK_OK, 0);
    fake_check(f->s1, PEER_AT, 100, 2);
}

/* Nobody is told that the page is there; and the wait is the same each time. */
TEST_OF(test_plain, Fix *f, fix_test)
{
    struct unetmm_cmd_channel how = usual;

    how.flags = UNETMM_CHANNEL_F_PLAIN_RNR;
    open_as(f, how);
    fake_migrate(&f->h);
    fake_invalidate(f->s1, region_page(0), FAKE_PAGE);
    give_write(f, PEER_YOURS, 0, 100, 2);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_NOT_READY, 100);
    fake_serve(&f->d);
    peer_silence(f);
    give_write(f, PEER_YOURS, 0, 100, 2);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_OK, 0);
    fake_check(f->s1, PEER_AT, 100, 2);
    fake_insert(f->s1, PEER_PAGE(0), 1, NULL);
    peer_post(f, peer_sqe(UNETMM_OP_WRITE, 0, 100, 0, 1));
    for (unsigned i = 0; i < 3; i++) {
        peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY);
        peer_ack_as(f, PEER_MY, 0, UNETMM_ACK_NOT_READY, 100);
        assert_int_equal(f->h.core.eps[1].rels->tx.deadline_ns - f->h.now,
                         100 * US);
        fake_advance(&f->h, 100 * US - 1);
        peer_silence(f);
        fake_advance(&f->h, 1);
    }
    peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY);
    peer_ack(f, PEER_MY + 1, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
}

/* ---- Four kinds --------------------------------------------------------- */

enum { ANSWER, SERVE, ARRIVE, SEND, KINDS };

/* Each kind of fault is under way on the one channel. */
static void all_kinds(Fix *f, struct unetmm_fault *miss)
{
    open_as(f, usual);
    give_read(f, PEER_YOURS, 0, 100);
    ask_for(f, 0, 1);
    fake_wire_clear(&f->h);
    give_answer(f, PEER_MY, 1000, 1);
    miss[ANSWER] = expect_fault(f, PEER_PAGE(0), true);
    /* Asked for again when its page has gone. */
    fake_invalidate(f->s1, region_page(0), FAKE_PAGE);
    give_read(f, PEER_YOURS, 0, 100);
    miss[SERVE] = expect_fault(f, region_page(0), false);
    fake_invalidate(f->s1, region_page(5000), FAKE_PAGE);
    give_write(f, PEER_YOURS + 1, 5000, 100, 2);
    miss[ARRIVE] = expect_fault(f, region_page(5000), true);
    fake_send_sqe(&f->a, peer_sqe(UNETMM_OP_WRITE, 5, 100, 0, 2));
    fake_ring_bell(&f->a);
    miss[SEND] = expect_fault(f, PEER_PAGE(5), false);
    fix_no_fault(f);
    fake_wire_clear(&f->h);
}

/* Each goes on without the others; further ones are not reported. */
TEST_OF(test_four_kinds, Fix *f, fix_test)
{
    struct unetmm_fault miss[KINDS];

    all_kinds(f, miss);
    expect_count(&f->h, faults_behind, 3, {
        give_answer(f, PEER_MY, 1000, 1);
        give_read(f, PEER_YOURS, 0, 100);
        give_write(f, PEER_YOURS + 1, 5000, 100, 2);
    });
    fix_no_fault(f);
    fake_wire_clear(&f->h);
    /* In another order than they were asked. */
    fake_resolve(&f->d, &miss[ARRIVE], 1, NULL);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_OK, 0);
    give_write(f, PEER_YOURS + 1, 5000, 100, 2);
    peer_expect_ack(f, PEER_YOURS + 2, 0, UNETMM_ACK_OK, 0);
    fake_check(f->s1, PEER_AT + 5000, 100, 2);
    fake_resolve(&f->d, &miss[SEND], 1, NULL);
    peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY + 1);
    fake_resolve(&f->d, &miss[ANSWER], 1, NULL);
    peer_expect(f, UNETMM_WIRE_READ, PEER_MY);
    give_answer(f, PEER_MY, 1000, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_resolve(&f->d, &miss[SERVE], 1, NULL);
    fake_wire_clear(&f->h);
    give_read(f, PEER_YOURS, 0, 100);
    peer_expect(f, UNETMM_WIRE_ANSWER, PEER_YOURS);
    peer_ack(f, PEER_MY + 2, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    assert_int_equal(f->h.core.miss->in_flight_used, 0);
}

/* The channel ends under them, in error or by a clear: no more waits. */
TEST_OF(test_cancelled, Fix *f, fix_test)
{
    struct unetmm_cmd clear = { .opcode = UNETMM_CMD_CHANNEL_CLEAR, .ep = 1,
                                .channel.channel = PEER_CH };
    struct unetmm_fault miss[KINDS];

    for (unsigned how = 0; how < 3; how++) {
        all_kinds(f, miss);
        if (how == 0) {
            fake_command(&f->d, clear, NULL);
        } else if (how == 1) {
            peer_ack_as(f, PEER_MY + 1, 0, UNETMM_ACK_FAILED, 0);
        } else {
            assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
        }
        assert_int_equal(f->h.core.miss->in_flight_used, 0);
        assert_int_equal(f->h.core.miss->asked, 0);
        for (unsigned i = 0; i < KINDS; i++) {
            assert_int_equal(fake_reply(&f->d, &miss[i], UNETMM_REPLY_ERROR,
                                        UNETMM_ST_LIMIT), UNETMM_CS_STALE);
        }
        if (how < 2) {
            fake_command(&f->d, clear, NULL);
            fake_expect(&f->a, UNETMM_CQE_SENT, how ? UNETMM_ST_PEER_FAILED :
                        UNETMM_ST_BAD_CHANNEL, 1);
            fake_expect(&f->a, UNETMM_CQE_SENT, how ? UNETMM_ST_FLUSHED :
                        UNETMM_ST_BAD_CHANNEL, 2);
            assert_int_equal(f->h.core.rel->used, 0);
            fake_region_clear(&f->d, PEER_REGION);
            fake_invalidate(f->s1, PEER_PAGE(0), 40 * FAKE_PAGE);
        }
    }
}

/* A wait of one channel does not delay another of the endpoint. */
TEST_OF(test_channels_apart, Fix *f, fix_test)
{
    FakeFrame *frame;

    open_as(f, usual);
    assert_int_equal(fake_channel_rel(&f->a, 6, fake_peer_mac, PEER_EP, 6,
                                      &usual), UNETMM_CS_OK);
    fake_invalidate(f->s1, PEER_PAGE(20), 4 * FAKE_PAGE);
    give_write(f, PEER_YOURS, 0, 100, 1);
    frame = fake_datagram(&f->a, 6, PEER_EP, 100, 2);
    fake_header(frame)->opcode = UNETMM_WIRE_WRITE;
    fake_header(frame)->psn = cpu_to_le32(PEER_YOURS);
    fake_header(frame)->handle = cpu_to_le32(PEER_REGION);
    fake_header(frame)->offset = cpu_to_le32(PEER_KEY);
    fake_header(frame)->remote = cpu_to_le64(5000);
    fake_header(frame)->flags = cpu_to_le32(LAST);
    fake_seal(frame);
    fake_deliver(&f->h, frame);
    expect_fault(f, region_page(0), true);
    expect_fault(f, region_page(5000), true);
    fix_no_fault(f);
}

/*
 * Two kinds want the same page, so that one has joined the other; the answer
 * ends the channel by way of the one, and with it the other.
 */
TEST_OF(test_error_for_both, Fix *f, fix_test)
{
    struct unetmm_fault miss;

    open_as(f, usual);
    fake_post(&f->a, PEER_PAGE(0), 4096, 50);
    fix_settle(f);
    give_send(f, PEER_YOURS, 0, 1000, 1500, 1);
    fake_invalidate(f->s1, PEER_PAGE(0), FAKE_PAGE);
    ask_for(f, 0, 1);
    give_answer(f, PEER_MY, 1000, 1);
    miss = expect_fault(f, PEER_PAGE(0), true);
    expect_count(&f->h, faults_joined, 1,
                 give_send(f, PEER_YOURS + 1, 1000, 500, 1500, 1));
    fix_no_fault(f);
    assert_int_equal(fake_reply(&f->d, &miss, UNETMM_REPLY_ERROR,
                                UNETMM_ST_LIMIT), UNETMM_CS_OK);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_FLUSHED, 1);
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_LIMIT, 50);
    fake_expect_none(&f->a);
    assert_int_equal(f->h.core.miss->in_flight_used, 0);
    assert_int_equal(f->h.core.miss->joined, 0);
    fix_no_fault(f);
}

/* ---- Faults of answers: two ways ---------------------------------------- */

/* READs 1..3 into pages 0..2, the first of which is absent; all are answered. */
static struct unetmm_fault three_answers(Fix *f, uint8_t flags)
{
    struct unetmm_cmd_channel how = usual;

    how.flags = flags;
    open_as(f, how);
    fake_insert(f->s1, PEER_PAGE(1), 2, NULL);
    for (unsigned i = 0; i < 3; i++) {
        ask_for(f, i, 1 + i);
    }
    fake_wire_clear(&f->h);
    for (unsigned i = 0; i < 3; i++) {
        give_answer(f, PEER_MY + i, 1000, 1 + i);
    }
    peer_silence(f);
    return expect_fault(f, PEER_PAGE(0), true);
}

static void expect_three(Fix *f)
{
    for (unsigned i = 0; i < 3; i++) {
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1 + i);
        fake_check(f->s1, PEER_PAGE(i), 1000, 1 + i);
    }
    fake_advance(&f->h, 1000000 * (int64_t)US);
    peer_silence(f);
}

/* Only data without a place is asked for again. */
TEST_OF(test_asked_again, Fix *f, fix_test)
{
    struct unetmm_fault miss = three_answers(f, 0);

    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_answers), 2);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_drop_rel_unplaced), 1);
    fake_resolve(&f->d, &miss, 1, NULL);
    peer_expect(f, UNETMM_WIRE_READ, PEER_MY);
    peer_silence(f);
    give_answer(f, PEER_MY, 1000, 1);
    expect_three(f);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_resent), 1);
}

/* All behind it are dropped, until it comes, and asked for again with it. */
TEST_OF(test_rewound, Fix *f, fix_test)
{
    struct unetmm_fault miss = three_answers(f, UNETMM_CHANNEL_F_REWIND);

    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_answers), 0);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_drop_rel_unplaced), 1);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_drop_rel_rewind), 2);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_rewinds), 1);
    fake_resolve(&f->d, &miss, 1, NULL);
    for (unsigned i = 0; i < 3; i++) {
        peer_expect(f, UNETMM_WIRE_READ, PEER_MY + i);
    }
    peer_silence(f);
    /* One of before: still not its turn. */
    expect_count(&f->h, drop_rel_rewind, 1,
                 give_answer(f, PEER_MY + 1, 1000, 2));
    give_answer(f, PEER_MY, 1000, 1);
    peer_expect(f, UNETMM_WIRE_READ, PEER_MY + 1);
    give_answer(f, PEER_MY + 2, 1000, 3);
    give_answer(f, PEER_MY + 1, 1000, 2);
    expect_three(f);
}

/* It will never have a place: those behind it need not wait any more. */
TEST_OF(test_rewound_for_nothing, Fix *f, fix_test)
{
    struct unetmm_fault miss = three_answers(f, UNETMM_CHANNEL_F_REWIND);

    assert_int_equal(fake_reply(&f->d, &miss, UNETMM_REPLY_ERROR,
                                UNETMM_ST_LIMIT), UNETMM_CS_OK);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_LIMIT, 1);
    /* That the peer has the first is known by its answer: no VOID. */
    peer_expect(f, UNETMM_WIRE_READ, PEER_MY + 1);
    peer_expect(f, UNETMM_WIRE_READ, PEER_MY + 2);
    give_answer(f, PEER_MY + 2, 1000, 3);
    give_answer(f, PEER_MY + 1, 1000, 2);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 3);
}

/* ---- Packet damming ----------------------------------------------------- */

/*
 * "Packet damming": a request that is lost while another is pending for a fault
 * waits for the long timeout.  Ours: it goes with the other, at the latest.
 */
TEST_OF(test_damming_answer, Fix *f, fix_test)
{
    struct unetmm_cmd_channel how = usual;
    struct unetmm_fault miss;

    how.timeout_us = UNETMM_REL_MAX_TIMEOUT_US;
    open_as(f, how);
    ask_for(f, 0, 1);
    give_answer(f, PEER_MY, 1000, 1);
    miss = expect_fault(f, PEER_PAGE(0), true);
    fake_wire_clear(&f->h);
    /* Lost. */
    fake_send_inline(&f->a, PEER_CH, 2, 20, 2, 0);
    fake_ring_bell(&f->a);
    peer_expect(f, UNETMM_WIRE_SEND, PEER_MY + 1);
    fake_resolve(&f->d, &miss, 1, NULL);
    peer_expect(f, UNETMM_WIRE_READ, PEER_MY);
    give_answer(f, PEER_MY, 1000, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    peer_expect(f, UNETMM_WIRE_SEND, PEER_MY + 1);
    peer_ack(f, PEER_MY + 2, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_timeouts), 0);
}

/* The fault takes long: lost packets have the usual timeout as well. */
TEST_OF(test_damming_long_fault, Fix *f, fix_test)
{
    struct unetmm_fault miss;

    open_as(f, usual);
    ask_for(f, 0, 1);
    give_answer(f, PEER_MY, 1000, 1);
    miss = expect_fault(f, PEER_PAGE(0), true);
    fake_reply(&f->d, &miss, UNETMM_REPLY_DEFERRED, 0);
    fake_wire_clear(&f->h);
    fake_send_inline(&f->a, PEER_CH, 2, 20, 2, 0);
    fake_ring_bell(&f->a);
    peer_expect(f, UNETMM_WIRE_SEND, PEER_MY + 1);
    fake_advance(&f->h, 1000 * US);
    peer_expect(f, UNETMM_WIRE_READ, PEER_MY);
    peer_expect(f, UNETMM_WIRE_SEND, PEER_MY + 1);
    peer_silence(f);
}

/* The peer faults, and drops later packets: no timeout for that. */
TEST_OF(test_damming_refused, Fix *f, fix_test)
{
    struct unetmm_cmd_channel how = usual;

    how.timeout_us = UNETMM_REL_MAX_TIMEOUT_US;
    open_as(f, how);
    fake_insert(f->s1, PEER_PAGE(0), 1, NULL);
    ask_for(f, 0, 1);
    fake_send_inline(&f->a, PEER_CH, 2, 20, 2, 0);
    fake_ring_bell(&f->a);
    fake_wire_clear(&f->h);
    peer_ack_as(f, PEER_MY, 0, UNETMM_ACK_NOT_READY, 100);
    /* Posted while it waits: not on its way, so it cannot be lost. */
    fake_send_inline(&f->a, PEER_CH, 3, 20, 3, 0);
    fake_ring_bell(&f->a);
    peer_silence(f);
    fake_advance(&f->h, 100 * US);
    peer_expect(f, UNETMM_WIRE_READ, PEER_MY);
    peer_silence(f);
    give_answer(f, PEER_MY, 1000, 1);
    peer_expect(f, UNETMM_WIRE_SEND, PEER_MY + 1);
    peer_expect(f, UNETMM_WIRE_SEND, PEER_MY + 2);
    peer_ack(f, PEER_MY + 3, 0);
    for (unsigned i = 0; i < 3; i++) {
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1 + i);
    }
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_timeouts), 0);
}

/* ---- Packet flood ------------------------------------------------------- */

#define FLOOD_CHANNELS  8
#define FLOOD_FIRST     4               /* number of the first channel */
#define FLOOD_US        10000           /* the page takes so long */
#define FLOOD_REGION    7

/* Reliable channels from a to b, and a region of b for each. */
static void flood_open(Fix *f)
{
    const struct unetmm_cmd_channel how = { .mtu = 1000 };
    const uint8_t *mac = f->h.core.params.mac;

    fake_region(f->s2, FLOOD_REGION, PEER_KEY, FIX_PAGE(30), FAKE_PAGE,
                UNETMM_RIGHT_ALL, 0);
    for (unsigned i = 0; i < FLOOD_CHANNELS; i++) {
        uint16_t ch = FLOOD_FIRST + i;

        assert_int_equal(fake_channel_rel(&f->a, ch, mac, 2, ch, &how),
                         UNETMM_CS_OK);
        assert_int_equal(fake_channel_rel(&f->b, ch, mac, 1, ch, &how),
                         UNETMM_CS_OK);
        assert_int_equal(fake_import(&f->a, i, ch, FLOOD_REGION, PEER_KEY,
                                     FAKE_PAGE, UNETMM_RIGHT_ALL),
                         UNETMM_CS_OK);
    }
    f->d.hold_back = true;
}

/* One operation on each, on bytes of its own of the same pages. */
static void flood_post(Fix *f, uint8_t opcode)
{
    for (unsigned i = 0; i < FLOOD_CHANNELS; i++) {
        fake_send_sqe(&f->a, (struct unetmm_sqe) {
            .opcode = opcode, .nsegs = 1, .channel = FLOOD_FIRST + i,
            .cookie = i, .handle = i, .remote = 100 * i,
            .seg = { { .addr = FIX_PAGE(0) + 100 * i, .len = 100 } },
        });
    }
    fake_ring_bell(&f->a);
    fake_run_later(&f->h);
    fake_serve(&f->d);
    /* One has asked for all. */
    assert_int_equal(f->d.waiting->len, 1);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_faults_joined),
                     FLOOD_CHANNELS - 1);
    fake_advance(&f->h, FLOOD_US * (int64_t)US);
    fake_run_later(&f->h);
    assert_int_equal(f->d.waiting->len, 1);
}

static void flood_resolve(Fix *f)
{
    struct unetmm_cqe cqe;

    fake_expect_none(&f->a);
    f->d.hold_back = false;
    fake_paged_in(&f->d);
    fake_run_later(&f->h);
    for (unsigned i = 0; i < FLOOD_CHANNELS; i++) {
        assert_true(fake_poll(&f->a, &cqe));
        assert_int_equal(cqe.opcode, UNETMM_CQE_SENT);
        assert_int_equal(cqe.status, UNETMM_ST_OK);
    }
    fake_check(f->s1, FIX_PAGE(0), 100 * FLOOD_CHANNELS, 1);
    fake_check(f->s2, FIX_PAGE(30), 100 * FLOOD_CHANNELS, 1);
}

/*
 * "Packet flood": many channels fault together, and send again and again while
 * one fault after the other is served.  Ours: one fault for all, a time that
 * doubles, and one packet each when the page is there.
 */
TEST_OF(test_flood_writes, Fix *f, fix_test)
{
    /* After 100, 300, 700, 1500, 3100, 6300 us, of 10000. */
    unsigned tries = 6;

    flood_open(f);
    fake_insert(f->s1, FIX_PAGE(0), 1, NULL);
    fake_fill(f->s1, FIX_PAGE(0), FAKE_PAGE, 1);
    flood_post(f, UNETMM_OP_WRITE);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_nacks_sent),
                     FLOOD_CHANNELS * (1 + tries));
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_resent),
                     FLOOD_CHANNELS * tries);
    expect_count(&f->h, rel_resent, FLOOD_CHANNELS, flood_resolve(f));
    assert_int_equal(fake_counter(&f->h, UNETMM_C_faults_head), 1);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_timeouts), 0);
}

/* The same for answers: nothing but the usual timeout while the page comes. */
TEST_OF(test_flood_reads, Fix *f, fix_test)
{
    unsigned tries = FLOOD_US / UNETMM_REL_TIMEOUT_US;

    flood_open(f);
    fake_insert(f->s2, FIX_PAGE(30), 1, NULL);
    fake_fill(f->s2, FIX_PAGE(30), FAKE_PAGE, 1);
    flood_post(f, UNETMM_OP_READ);
    assert_in_range(fake_counter(&f->h, UNETMM_C_rel_resent), 0,
                    FLOOD_CHANNELS * tries);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_nacks_sent), 0);
    expect_count(&f->h, rel_resent, FLOOD_CHANNELS, flood_resolve(f));
    assert_int_equal(fake_counter(&f->h, UNETMM_C_faults_head), 1);
}
