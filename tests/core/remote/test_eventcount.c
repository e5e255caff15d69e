/*
 * unetmm: event counters: increments, their order, rights and wake-ups
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "pair.h"
#include "peer.h"
#include "reliable/reliable.h"

#define ASK     UNETMM_WIRE_F_ASK
#define LAST    UNETMM_WIRE_F_LAST
#define NOTIFY  UNETMM_WIRE_F_NOTIFY
#define COUNT   UNETMM_WIRE_F_COUNT

#define REGION  6               /* gives counters FIRST.. */
#define FIRST   40
#define GIVEN   3

/* ---- Helpers ------------------------------------------------------------ */

static uint8_t set_page(FakeSpace *s, uint64_t page)
{
    struct unetmm_cmd cmd = { .opcode = UNETMM_CMD_COUNTERS_SET,
                              .space = s->id, .counters.page = page };

    return fake_command(s->driver, cmd, NULL);
}

static uint64_t new_page(FakeSpace *s)
{
    uint64_t page = fake_alloc(s->driver->host, FAKE_PAGE, FAKE_PAGE, FAKE_RW);

    assert_int_equal(set_page(s, page), UNETMM_CS_OK);
    return page;
}

static uint8_t set_region(FakeSpace *s, uint32_t region, uint16_t counter,
                          uint16_t n)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_REGION_SET, .space = s->id,
        .region = { .region = region, .key = PEER_KEY, .addr = PEER_AT,
                    .length = PEER_LENGTH, .rights = UNETMM_RIGHT_WRITE,
                    .counter = counter, .ncounters = n },
    };

    return fake_command(s->driver, cmd, NULL);
}

static uint8_t arm_as(FakeSpace *s, uint16_t counter, uint64_t value,
                      uint8_t arm, uint32_t *reached)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_COUNTER_ARM, .space = s->id,
        .arm = { .value = value, .counter = counter, .arm = arm },
    };

    return fake_command(s->driver, cmd, reached);
}

/* True: it has been reached already. */
static bool arm(FakeSpace *s, uint16_t counter, uint64_t value)
{
    uint32_t reached = 9;

    assert_int_equal(arm_as(s, counter, value, 1, &reached), UNETMM_CS_OK);
    assert_true(reached <= 1);
    return reached;
}

static uint64_t value_of(Fix *f, uint64_t page, uint32_t counter)
{
    uint64_t v;

    fake_read(&f->h, page + 8 * counter, &v, sizeof(v));
    return le64_to_cpu(v);
}

static void set_value(Fix *f, uint64_t page, uint32_t counter, uint64_t v)
{
    v = cpu_to_le64(v);
    fake_write(&f->h, page + 8 * counter, &v, sizeof(v));
}

static void expect_woken(Fix *f, uint16_t space, uint32_t counter,
                         uint64_t value)
{
    struct unetmm_notify n;

    assert_true(fake_notification(&f->d, &n));
    assert_int_equal(n.type, UNETMM_NOTIFY_COUNTER);
    assert_int_equal(n.ep, space);
    assert_int_equal(n.data, counter);
    assert_int_equal(n.value, value);
}

static void expect_asleep(Fix *f)
{
    struct unetmm_notify n;

    assert_false(fake_notification(&f->d, &n));
}

static struct unetmm_frame head(uint32_t psn, uint32_t flags, uint32_t imm)
{
    return (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_WRITE, .psn = psn, .handle = REGION,
        .offset = PEER_KEY, .flags = flags, .imm = imm,
    };
}

static void give(Fix *f, uint32_t psn, uint32_t flags, uint32_t imm)
{
    peer_give(f, head(psn, flags, imm), "12345678", 8);
}

/* The peer's channel, and a region with the counters. */
static uint64_t open_counters(Fix *f)
{
    uint64_t page = new_page(f->s1);

    peer_open(f);
    assert_int_equal(set_region(f->s1, REGION, FIRST, GIVEN), UNETMM_CS_OK);
    return page;
}

/* ---- Commands ----------------------------------------------------------- */

TEST_OF(test_page, Fix *f, fix_test)
{
    uint64_t page = fake_alloc(&f->h, FAKE_PAGE, FAKE_PAGE, FAKE_RW);
    FakeSpace none = { .driver = &f->d, .id = 0 };

    assert_int_equal(set_page(&none, page), UNETMM_CS_BAD_ID);
    none.id = 5;
    assert_int_equal(set_page(&none, page), UNETMM_CS_BAD_ID);
    none.id = 0xffff;
    assert_int_equal(set_page(&none, page), UNETMM_CS_BAD_ID);
    assert_int_equal(set_page(f->s1, 0), UNETMM_CS_BAD_ARG);
    assert_int_equal(set_page(f->s1, page + 8), UNETMM_CS_BAD_ARG);
    assert_int_equal(arm_as(f->s1, 0, 1, 1, NULL), UNETMM_CS_BAD_ID);
    assert_int_equal(set_region(f->s1, REGION, 0, 1), UNETMM_CS_BAD_ARG);
    assert_int_equal(set_page(f->s1, page), UNETMM_CS_OK);
    assert_int_equal(set_page(f->s1, page), UNETMM_CS_EXISTS);
    assert_int_equal(set_region(f->s1, REGION, 0, 513), UNETMM_CS_BAD_ARG);
    assert_int_equal(set_region(f->s1, REGION, 511, 2), UNETMM_CS_BAD_ARG);
    assert_int_equal(set_region(f->s1, REGION, 512, 1), UNETMM_CS_BAD_ARG);
    assert_int_equal(set_region(f->s1, REGION, 0xffff, 0xffff),
                     UNETMM_CS_BAD_ARG);
    assert_int_equal(set_region(f->s1, REGION, 511, 1), UNETMM_CS_OK);
    assert_int_equal(set_region(f->s1, 5, 0, 512), UNETMM_CS_OK);
    /* Those of a space are not those of another. */
    assert_int_equal(set_region(f->s2, 4, 0, 1), UNETMM_CS_BAD_ARG);
}

TEST_OF(test_arm_arguments, Fix *f, fix_test)
{
    struct unetmm_cmd cmd = { .opcode = UNETMM_CMD_COUNTER_ARM, .space = 1 };
    FakeSpace none = { .driver = &f->d, .id = 0xffff };
    uint64_t page = new_page(f->s1);

    assert_int_equal(arm_as(&none, 0, 1, 1, NULL), UNETMM_CS_BAD_ID);
    assert_int_equal(arm_as(f->s2, 0, 1, 1, NULL), UNETMM_CS_BAD_ID);
    assert_int_equal(arm_as(f->s1, 512, 1, 1, NULL), UNETMM_CS_BAD_ID);
    assert_int_equal(arm_as(f->s1, 0xffff, 1, 1, NULL), UNETMM_CS_BAD_ID);
    assert_int_equal(arm_as(f->s1, 511, 1, 2, NULL), UNETMM_CS_BAD_ARG);
    for (unsigned i = 0; i < sizeof(cmd.arm.rsvd); i++) {
        memset(cmd.arm.rsvd, 0, sizeof(cmd.arm.rsvd));
        cmd.arm.rsvd[i] = 1;
        assert_int_equal(fake_command(&f->d, cmd, NULL), UNETMM_CS_BAD_ARG);
    }
    expect_count(&f->h, counter_arms, 1, assert_false(arm(f->s1, 511, 1)));
    expect_count(&f->h, counter_arms, 0, assert_true(arm(f->s1, 511, 0)));
    f->h.refuse_first = page;
    f->h.refuse_last = page + 4095;
    assert_int_equal(arm_as(f->s1, 511, 1, 1, NULL), UNETMM_CS_DMA);
    assert_int_equal(arm_as(f->s1, 511, 1, 0, NULL), UNETMM_CS_OK);
}

/* ---- Sent --------------------------------------------------------------- */

TEST_OF(test_sent, Fix *f, fix_test)
{
    struct unetmm_sqe s = peer_sqe(UNETMM_OP_WRITE, 0, 2500, 333, 7);

    peer_open(f);
    s.flags = UNETMM_SQE_F_COUNT;
    s.imm = 0x12345678;
    peer_post(f, s);
    for (uint32_t i = 0; i < 3; i++) {
        PeerFrame p = peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY + i);

        assert_int_equal(p.h.imm, i < 2 ? 1500 - i * 1000 : 0x12345678);
        assert_int_equal(p.h.flags, i < 2 ? 0 : LAST | COUNT | ASK);
    }
    /* The peer gives no such counter. */
    peer_ack_as(f, PEER_MY + 2, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_COUNTER);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_REMOTE_COUNTER, 7);
    peer_expect(f, UNETMM_WIRE_VOID, PEER_MY + 2);
    peer_ack(f, PEER_MY + 3, 0);
    s.flags |= UNETMM_SQE_F_NOTIFY;
    peer_post(f, s);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_BAD_DESC, 7);
    s.flags = UNETMM_SQE_F_COUNT;
    s.opcode = UNETMM_OP_READ;
    peer_post(f, s);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_BAD_DESC, 7);
    peer_silence(f);
}

/* ---- Counted ------------------------------------------------------------ */

/* In its turn, whatever the order of arrival; and once. */
TEST_OF(test_in_order, Fix *f, fix_test)
{
    uint64_t page = open_counters(f);

    give(f, PEER_YOURS + 3, LAST | COUNT, 2);
    give(f, PEER_YOURS + 2, LAST | COUNT, 0);
    give(f, PEER_YOURS + 1, 0, 0);
    give(f, PEER_YOURS + 3, LAST | COUNT, 2);
    assert_int_equal(value_of(f, page, FIRST), 0);
    assert_int_equal(value_of(f, page, FIRST + 2), 0);
    give(f, PEER_YOURS, LAST | COUNT, 0);
    assert_int_equal(value_of(f, page, FIRST), 2);
    assert_int_equal(value_of(f, page, FIRST + 2), 1);
    for (uint32_t i = 0; i < 4; i++) {
        expect_count(&f->h, drop_rel_again, 1,
                     give(f, PEER_YOURS + i, i == 1 ? 0 : LAST | COUNT,
                          i == 3 ? 2 : 0));
    }
    assert_int_equal(value_of(f, page, FIRST), 2);
    assert_int_equal(value_of(f, page, FIRST + 1), 0);
    assert_int_equal(value_of(f, page, FIRST + 2), 1);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_counts), 3);
    fake_expect_none(&f->a);
    expect_asleep(f);
}

/* A message without data is one as well. */
TEST_OF(test_empty, Fix *f, fix_test)
{
    uint64_t page = open_counters(f);

    peer_give(f, head(PEER_YOURS, LAST | COUNT, 1), NULL, 0);
    assert_int_equal(value_of(f, page, FIRST + 1), 1);
}

/* ---- Refused increments ------------------------------------------------- */

static void expect_rejected(Fix *f, uint32_t *psn, struct unetmm_frame h,
                            uint32_t why)
{
    uint8_t before[8], after[8];

    h.psn = *psn;
    fake_load(f->s1, PEER_AT, before, 8);
    expect_count(&f->h, drop_rel_rejected, 1, peer_give(f, h, "abcdefgh", 8));
    peer_expect_ack(f, *psn, 0, UNETMM_ACK_REJECTED, why);
    fake_load(f->s1, PEER_AT, after, 8);
    assert_memory_equal(before, after, 8);
    peer_void(f, (*psn)++, ASK);
    peer_expect_ack(f, *psn, 0, UNETMM_ACK_OK, 0);
    peer_silence(f);
}

TEST_OF(test_not_given, Fix *f, fix_test)
{
    uint64_t page = open_counters(f);
    uint32_t psn = PEER_YOURS;
    struct unetmm_frame h = head(0, LAST | COUNT, 0);

    fake_region(f->s2, 4, PEER_KEY, PEER_AT, PEER_LENGTH, 1, 0);
    fake_wire_clear(&f->h);
    for (unsigned bit = 2; bit < 32; bit++) {
        h.imm = 1u << bit;
        expect_rejected(f, &psn, h, UNETMM_WHY_COUNTER);
    }
    h.imm = GIVEN;
    expect_rejected(f, &psn, h, UNETMM_WHY_COUNTER);
    h.imm = ~0u;
    expect_rejected(f, &psn, h, UNETMM_WHY_COUNTER);
    h.imm = -(uint32_t)FIRST;
    expect_rejected(f, &psn, h, UNETMM_WHY_COUNTER);
    h.imm = 0;
    h.handle = PEER_REGION;     /* gives none */
    expect_rejected(f, &psn, h, UNETMM_WHY_COUNTER);
    h.handle = 4;               /* is another's */
    expect_rejected(f, &psn, h, UNETMM_WHY_REGION);
    h.handle = REGION;
    h.offset ^= 1;
    expect_rejected(f, &psn, h, UNETMM_WHY_REGION);
    for (unsigned i = 0; i < UNETMM_EVENT_COUNTERS; i++) {
        assert_int_equal(value_of(f, page, i), 0);
    }
    /* Before its turn nothing is said: the turn will come. */
    h = head(psn + 1, LAST | COUNT, GIVEN);
    expect_count(&f->h, drop_rel_early, 1, peer_give(f, h, "abcdefgh", 8));
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_counts), 0);
}

TEST_OF(test_malformed, Fix *f, fix_test)
{
    open_counters(f);
    expect_count(&f->h, drop_malformed, 1, give(f, PEER_YOURS, COUNT, 0));
    expect_count(&f->h, drop_malformed, 1,
                 give(f, PEER_YOURS, LAST | COUNT | NOTIFY, 0));
    for (uint8_t op = UNETMM_WIRE_SEND; op <= UNETMM_WIRE_VOID; op++) {
        struct unetmm_frame h = { .opcode = op, .psn = PEER_YOURS,
                                  .flags = COUNT };

        if (op != UNETMM_WIRE_WRITE) {
            expect_count(&f->h, drop_malformed, 1, peer_give(f, h, NULL, 0));
        }
    }
    peer_silence(f);
}

/* The right goes while the packet waits for its turn. */
TEST_OF(test_withdrawn, Fix *f, fix_test)
{
    uint64_t page = open_counters(f);

    give(f, PEER_YOURS + 1, LAST | COUNT, 0);
    fake_region_clear(&f->d, REGION);
    fake_wire_clear(&f->h);
    peer_void(f, PEER_YOURS, 0);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_REJECTED,
                    UNETMM_WHY_REGION);
    peer_void(f, PEER_YOURS + 1, ASK);
    peer_expect_ack(f, PEER_YOURS + 2, 0, UNETMM_ACK_OK, 0);
    assert_int_equal(value_of(f, page, FIRST), 0);
    /* The same region again, with the same key, but not for that. */
    set_region(f->s1, REGION, FIRST, GIVEN);
    give(f, PEER_YOURS + 3, LAST | COUNT, 2);
    fake_region_clear(&f->d, REGION);
    set_region(f->s1, REGION, FIRST, GIVEN - 1);
    fake_wire_clear(&f->h);
    peer_void(f, PEER_YOURS + 2, 0);
    peer_expect_ack(f, PEER_YOURS + 3, 0, UNETMM_ACK_REJECTED,
                    UNETMM_WHY_COUNTER);
    assert_int_equal(value_of(f, page, FIRST + 2), 0);
}

TEST_OF(test_bus_refuses, Fix *f, fix_test)
{
    uint64_t page = open_counters(f);

    arm(f->s1, FIRST, 1);
    f->h.refuse_first = page;
    f->h.refuse_last = page + 4095;
    give(f, PEER_YOURS, LAST | COUNT, 0);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_MEMORY);
    f->h.refuse_first = f->h.refuse_last = 0;
    peer_void(f, PEER_YOURS, 0);
    expect_asleep(f);
    give(f, PEER_YOURS + 1, LAST | COUNT, 0);
    assert_int_equal(value_of(f, page, FIRST), 1);
    expect_woken(f, 1, FIRST, 1);
}

/* Somebody else writes to the page in the very moment; he has no business. */
static uint64_t storm_at;

static void storm(FakeHost *host, uint64_t addr)
{
    uint64_t v;

    if (addr == storm_at) {
        fake_read(host, addr, &v, 8);
        v++;
        fake_write(host, addr, &v, 8);
    }
}

TEST_OF(test_storm, Fix *f, fix_test)
{
    uint64_t page = open_counters(f);

    storm_at = page + 8 * FIRST;
    f->h.on_atomic = storm;
    give(f, PEER_YOURS, LAST | COUNT, 0);
    f->h.on_atomic = NULL;
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_MEMORY);
}

/* ---- Woken -------------------------------------------------------------- */

/* Arming before, at, and behind each of the increments. */
TEST_OF(test_arming, Fix *f, fix_test)
{
    uint64_t page = open_counters(f);
    uint32_t psn = PEER_YOURS;

    for (uint64_t at = 0; at < 5; at++) {
        for (uint64_t value = 0; value < 6; value++) {
            set_value(f, page, FIRST, at);
            assert_int_equal(arm(f->s1, FIRST, value), at >= value);
            for (uint64_t now = at + 1; now < 7; now++) {
                give(f, psn++, LAST | COUNT, 0);
                assert_int_equal(value_of(f, page, FIRST), now);
                if (at < value && now == value) {
                    expect_woken(f, 1, FIRST, value);
                }
                expect_asleep(f);
            }
        }
    }
    /* Another one is not meant. */
    arm(f->s1, FIRST, value_of(f, page, FIRST) + 1);
    give(f, psn++, LAST | COUNT, 1);
    expect_asleep(f);
    give(f, psn++, LAST | COUNT, 0);
    expect_woken(f, 1, FIRST, value_of(f, page, FIRST));
}

TEST_OF(test_armed_anew, Fix *f, fix_test)
{
    open_counters(f);
    arm(f->s1, FIRST, 1);
    arm(f->s1, FIRST, 2);
    give(f, PEER_YOURS, LAST | COUNT, 0);
    expect_asleep(f);
    give(f, PEER_YOURS + 1, LAST | COUNT, 0);
    expect_woken(f, 1, FIRST, 2);
    arm(f->s1, FIRST, 3);
    assert_int_equal(arm_as(f->s1, FIRST, 3, 0, NULL), UNETMM_CS_OK);
    give(f, PEER_YOURS + 2, LAST | COUNT, 0);
    expect_asleep(f);
    assert_true(arm(f->s1, FIRST, 3));
    assert_true(arm(f->s1, FIRST, 0));
    expect_asleep(f);
}

/* It goes on from 2^64 - 1 with 0, which wakes a waiting process. */
TEST_OF(test_wrap, Fix *f, fix_test)
{
    uint64_t page = open_counters(f);

    set_value(f, page, FIRST, UINT64_MAX - 1);
    assert_false(arm(f->s1, FIRST, 1));
    give(f, PEER_YOURS, LAST | COUNT, 0);
    give(f, PEER_YOURS + 1, LAST | COUNT, 0);
    assert_int_equal(value_of(f, page, FIRST), 0);
    expect_asleep(f);
    give(f, PEER_YOURS + 2, LAST | COUNT, 0);
    expect_woken(f, 1, FIRST, 1);
    /* Behind by 2^63 - 1 has been, by 2^63 will be. */
    assert_true(arm(f->s1, FIRST, 1 - (uint64_t)INT64_MAX));
    assert_false(arm(f->s1, FIRST, 1 + (1ull << 63)));
}

/* Full ring: each is told once there is room, the rest is not forgotten. */
TEST_OF(test_ring_full, Fix *f, fix_test)
{
    unsigned ring = 1u << f->d.ring[UNETMM_RING_NOTIFY].log2;
    uint64_t page = new_page(f->s1);
    uint32_t psn = PEER_YOURS;

    assert_true(ring + 3 <= UNETMM_EVENT_COUNTERS);
    peer_open(f);
    set_region(f->s1, REGION, 0, UNETMM_EVENT_COUNTERS);
    for (uint32_t i = 0; i < ring + 3; i++) {
        arm(f->s1, i, 1);
        give(f, psn++, LAST | COUNT, i);
        assert_int_equal(value_of(f, page, i), 1);
    }
    assert_int_equal(fake_counter(&f->h, UNETMM_C_notify_waited), 1);
    /* One of those that wait is disarmed: it is not told any more. */
    assert_int_equal(arm_as(f->s1, ring + 1, 0, 0, NULL), UNETMM_CS_OK);
    for (uint32_t i = 0; i < ring + 3; i++) {
        if (i != ring + 1) {
            expect_woken(f, 1, i, 1);
        }
    }
    expect_asleep(f);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_counter_wakeups), ring + 2);
}

/* A space goes that owes wake-ups; another one with its number owes none. */
TEST_OF(test_space_gone, Fix *f, fix_test)
{
    struct unetmm_cmd destroy = { .opcode = UNETMM_CMD_SPACE_DESTROY,
                                  .space = 1 };
    unsigned ring = 1u << f->d.ring[UNETMM_RING_NOTIFY].log2;
    struct unetmm_notify n;
    uint32_t psn = PEER_YOURS;

    new_page(f->s1);
    peer_open(f);
    set_region(f->s1, REGION, 0, UNETMM_EVENT_COUNTERS);
    for (uint32_t i = 0; i < ring + 3; i++) {
        arm(f->s1, i, 1);
        give(f, psn++, LAST | COUNT, i);
    }
    fake_region_clear(&f->d, REGION);
    fake_region_clear(&f->d, PEER_REGION);
    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    assert_int_equal(fake_command(&f->d, destroy, NULL), UNETMM_CS_OK);
    fake_space_gone(f->s1);
    f->s1 = fake_space(&f->d, 1, UNETMM_SOURCE_TLB, 0);
    new_page(f->s1);
    for (uint32_t i = 0; i < ring; i++) {
        assert_true(fake_notification(&f->d, &n));
    }
    expect_asleep(f);
}

/* ---- Together with slow pages ------------------------------------------- */

#define PAGE_NS 5000

static void slow(UnetmmParams *p)
{
    p->dma_page_ns = PAGE_NS;
}

TEST_OF(test_slow, Fix *f, fix_test_with, slow)
{
    uint64_t page = open_counters(f);

    arm(f->s1, FIRST, 1);
    give(f, PEER_YOURS, LAST | COUNT, 0);
    fake_advance(&f->h, PAGE_NS - 1);
    assert_int_equal(value_of(f, page, FIRST), 0);
    fake_advance(&f->h, 1);
    assert_int_equal(value_of(f, page, FIRST), 1);
    expect_woken(f, 1, FIRST, 1);
}

/* The region goes while the page moves: it is not counted, and that is said. */
TEST_OF(test_slow_withdrawn, Fix *f, fix_test_with, slow)
{
    uint64_t page = open_counters(f);
    struct unetmm_cmd clear = { .opcode = UNETMM_CMD_REGION_CLEAR,
                                .region.region = REGION };
    struct unetmm_cmd_done done;

    give(f, PEER_YOURS, LAST | COUNT, 0);
    fake_issue(&f->d, clear);
    assert_false(fake_done(&f->d, &done));
    fake_advance(&f->h, PAGE_NS);
    assert_true(fake_done(&f->d, &done));
    assert_int_equal(value_of(f, page, FIRST), 0);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_REGION);
    peer_void(f, PEER_YOURS, ASK);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_OK, 0);
}

/* From one endpoint of the card to another. */
TEST_OF(test_local, Fix *f, fix_test)
{
    const struct unetmm_cmd_channel how = { .mtu = 1000 };
    uint64_t page = new_page(f->s2);
    struct unetmm_sqe s = peer_sqe(UNETMM_OP_WRITE, 0, 3000, 0, 7);

    set_region(f->s2, REGION, FIRST, GIVEN);
    fake_channel_rel(&f->a, PEER_CH, f->h.core.params.mac, 2, 8, &how);
    fake_channel_rel(&f->b, 8, f->h.core.params.mac, 1, PEER_CH, &how);
    fake_import(&f->a, PEER_IMPORT, PEER_CH, REGION, PEER_KEY, PEER_LENGTH,
                UNETMM_RIGHT_WRITE);
    fake_fill(f->s1, PEER_PAGE(0), 3000, 5);
    arm(f->s2, FIRST + 1, 2);
    s.flags = UNETMM_SQE_F_COUNT;
    s.imm = 1;
    peer_post(f, s);
    fix_settle(f);
    fake_advance(&f->h, 1000000);
    fix_settle(f);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 7);
    fake_check(f->s2, PEER_AT, 3000, 5);
    assert_int_equal(value_of(f, page, FIRST + 1), 1);
    expect_asleep(f);
    peer_post(f, s);
    fix_settle(f);
    fake_advance(&f->h, 1000000);
    fix_settle(f);
    assert_int_equal(value_of(f, page, FIRST + 1), 2);
    expect_woken(f, 2, FIRST + 1, 2);
}

/* ---- Over a wire that misbehaves ---------------------------------------- */

#define WRITES  700
#define SLOTS   64
#define STRIDE  700                     /* some go in two packets */

typedef struct Race {
    Pair p;
    uint64_t page;
    uint64_t posted, completed;
    uint64_t armed;                     /* 0: not */
    unsigned woken;
} Race;

static uint64_t race_value(Race *r)
{
    uint64_t v;

    fake_read(&r->p.side[1].h, r->page + 8 * FIRST, &v, sizeof(v));
    return le64_to_cpu(v);
}

static uint64_t race_from(uint64_t n)
{
    return PAIR_VA + n % SLOTS * STRIDE;
}

/* All counted writes are visible, not only the last one. */
static void race_look(Race *r)
{
    uint64_t now = race_value(r), n = now;
    PairSide *to = &r->p.side[1];
    struct unetmm_notify note;

    assert_true(now <= r->posted && now >= r->completed);
    for (; n && n + SLOTS / 2 > r->posted; n--) {
        fake_check(to->s, PAIR_VA + n % SLOTS * STRIDE, STRIDE, n);
    }
    while (fake_notification(&to->d, &note)) {
        assert_int_equal(note.value, r->armed);
        assert_true(now >= r->armed);
        r->armed = 0;
        r->woken++;
    }
    /* A sleeper is woken, at the latest by the end of the step. */
    assert_true(!r->armed || now < r->armed);
    if (!r->armed && now < WRITES) {
        uint64_t value = MIN(WRITES, now + 1 +
                             fake_random(&r->p.random) % 7);

        r->armed = arm(to->s, FIRST, value) ? 0 : value;
    }
}

static void race_post(Race *r)
{
    PairSide *from = &r->p.side[0];
    struct unetmm_cqe cqe;

    while (fake_poll(&from->ep, &cqe)) {
        assert_int_equal(cqe.status, UNETMM_ST_OK);
        assert_int_equal(cqe.cookie, ++r->completed);
        assert_true(race_value(r) >= r->completed);
    }
    while (r->posted < WRITES && r->posted - r->completed < SLOTS / 4) {
        struct unetmm_sqe s = {
            .opcode = UNETMM_OP_WRITE, .nsegs = 1, .channel = PAIR_CHANNEL,
            .cookie = ++r->posted, .flags = UNETMM_SQE_F_COUNT,
            .remote = r->posted % SLOTS * STRIDE,
            .seg = { { .addr = race_from(r->posted), .len = STRIDE } },
        };

        fake_fill(from->s, s.seg[0].addr, STRIDE, r->posted);
        fake_send_sqe(&from->ep, s);
        fake_ring_bell(&from->ep);
    }
}

static void race_run(PairTune *tune, uint8_t source, uint32_t bad)
{
    const struct unetmm_cmd_channel how = { .mtu = 512, .retries = 200,
                                            .send_psn = 0xfffffe00u,
                                            .timeout_us = 200 };
    Race *r = g_new0(Race, 1);
    struct unetmm_cmd region = {
        .opcode = UNETMM_CMD_REGION_SET, .space = 1,
        .region = { .region = 1, .key = 5, .addr = PAIR_VA,
                    .length = SLOTS * STRIDE, .rights = UNETMM_RIGHT_WRITE,
                    .counter = FIRST, .ncounters = 1 },
    };
    unsigned steps = 0;

    pair_init(&r->p, tune, source, fake_seed(), &how);
    r->p.wire.loss = r->p.wire.dup = bad;
    r->p.wire.late = 5 * bad;
    r->p.wire.late_ns = 100000;
    r->page = new_page(r->p.side[1].s);
    assert_int_equal(fake_command(&r->p.side[1].d, region, NULL),
                     UNETMM_CS_OK);
    assert_int_equal(fake_import(&r->p.side[0].ep, 0, PAIR_CHANNEL, 1, 5,
                                 SLOTS * STRIDE, UNETMM_RIGHT_WRITE),
                     UNETMM_CS_OK);
    do {
        race_post(r);
        race_look(r);
        assert_true(++steps < 2000000);
    } while (r->completed < WRITES && pair_step(&r->p));
    race_post(r);
    race_look(r);
    assert_int_equal(race_value(r), WRITES);
    assert_int_equal(pair_count(&r->p, UNETMM_C_rel_counts), WRITES);
    assert_int_equal(pair_count(&r->p, UNETMM_C_counter_wakeups), r->woken);
    assert_true(r->woken > WRITES / 16);
    pair_free(&r->p);
    g_free(r);
}

TEST(test_race, cmocka_unit_test)
{
    race_run(NULL, UNETMM_SOURCE_TLB, 0);
    race_run(NULL, UNETMM_SOURCE_PINNED, 30000);
}

static void few_pages(UnetmmParams *p)
{
    p->tlb_sets = 4;
    p->dma_page_ns = 700;
}

TEST(test_race_slow, cmocka_unit_test)
{
    race_run(few_pages, UNETMM_SOURCE_TLB, 30000);
}
