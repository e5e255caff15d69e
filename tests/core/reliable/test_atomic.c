/*
 * unetmm: atomics, packet by packet: the peer is the test
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "peer.h"
#include "reliable/reliable.h"

#define ASK     UNETMM_WIRE_F_ASK
#define ADD     UNETMM_ATOMIC_ADD
#define SWAP    UNETMM_ATOMIC_SWAP

/* ---- The executing card ------------------------------------------------- */

static void give(Fix *f, uint32_t psn, uint64_t at, uint32_t what, uint64_t a,
                 uint64_t b)
{
    uint64_t operands[2] = { cpu_to_le64(a), cpu_to_le64(b) };

    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_ATOMIC, .psn = psn, .handle = PEER_REGION,
        .offset = PEER_KEY, .remote = at, .imm = what,
    }, operands, what == SWAP ? 16 : 8);
}

static uint64_t word(Fix *f, uint64_t at)
{
    uint64_t v;

    fake_load(f->s1, PEER_AT + at, &v, 8);
    return le64_to_cpu(v);
}

static void expect_old(Fix *f, uint32_t psn, uint64_t old)
{
    PeerFrame p = peer_expect(f, UNETMM_WIRE_ANSWER, psn);
    uint64_t v;

    assert_int_equal(p.h.len, 8);
    memcpy(&v, p.data, 8);
    assert_int_equal(le64_to_cpu(v), old);
}

TEST_OF(test_add, Fix *f, fix_test)
{
    uint64_t start = cpu_to_le64(0xfffffffffffffff0ull);
    FakeVpage *page = fake_vpage(f->s1, PEER_AT);

    peer_open(f);
    fake_store(f->s1, PEER_AT + 16, &start, 8);
    give(f, PEER_YOURS, 16, ADD, 0x25, 0);
    expect_old(f, PEER_YOURS, 0xfffffffffffffff0ull);
    assert_int_equal(word(f, 16), 0x15);
    assert_int_equal(word(f, 8), 0);
    assert_int_equal(word(f, 24), 0);
    peer_silence(f);
    /* It was written, which an eviction says. */
    for (uint64_t i = 1; !page->evicted && i < 2000; i++) {
        fake_map(f->s1, PEER_PAGE(1000 + i), FAKE_PAGE, FAKE_R);
        fake_insert(f->s1, PEER_PAGE(1000 + i), 1, NULL);
        fake_serve(&f->d);
    }
    assert_true(page->dirty);
}

TEST_OF(test_swap, Fix *f, fix_test)
{
    peer_open(f);
    give(f, PEER_YOURS, 0, SWAP, 0, 0x1122334455667788ull);
    expect_old(f, PEER_YOURS, 0);
    assert_int_equal(word(f, 0), 0x1122334455667788ull);
    give(f, PEER_YOURS + 1, 0, SWAP, 0x1122334455667789ull, 1);
    expect_old(f, PEER_YOURS + 1, 0x1122334455667788ull);
    assert_int_equal(word(f, 0), 0x1122334455667788ull);
    give(f, PEER_YOURS + 2, 0, SWAP, 0x1122334455667788ull, 2);
    expect_old(f, PEER_YOURS + 2, 0x1122334455667788ull);
    assert_int_equal(word(f, 0), 2);
}

/* Repeated in every way, executed once. */
TEST_OF(test_once, Fix *f, fix_test)
{
    peer_open(f);
    give(f, PEER_YOURS + 1, 0, ADD, 100, 0);
    give(f, PEER_YOURS + 1, 0, ADD, 100, 0);
    assert_int_equal(word(f, 0), 0);
    fake_wire_clear(&f->h);
    give(f, PEER_YOURS, 0, ADD, 1, 0);
    expect_old(f, PEER_YOURS, 0);
    expect_old(f, PEER_YOURS + 1, 1);
    peer_expect_ack(f, PEER_YOURS + 2, 0, UNETMM_ACK_OK, 0);
    assert_int_equal(word(f, 0), 101);
    for (unsigned i = 0; i < 3; i++) {
        give(f, PEER_YOURS + 1, 0, ADD, 100, 0);
        expect_old(f, PEER_YOURS + 1, 1);
        peer_expect_ack(f, PEER_YOURS + 2, 0, UNETMM_ACK_OK, 0);
        give(f, PEER_YOURS, 0, ADD, 1, 0);
        expect_old(f, PEER_YOURS, 0);
        peer_expect_ack(f, PEER_YOURS + 2, 0, UNETMM_ACK_OK, 0);
    }
    assert_int_equal(word(f, 0), 101);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_atomics), 2);
}

/* Sixteen results are kept; one that is not is not made up. */
TEST_OF(test_results, Fix *f, fix_test)
{
    peer_open(f);
    for (unsigned i = 0; i < 40; i++) {
        give(f, PEER_YOURS + i, 0, ADD, 1, 0);
        expect_old(f, PEER_YOURS + i, i);
    }
    for (unsigned i = 24; i < 40; i++) {
        give(f, PEER_YOURS + i, 0, ADD, 1, 0);
        expect_old(f, PEER_YOURS + i, i);
        peer_take(f);
    }
    expect_count(&f->h, drop_rel_stale, 1,
                 give(f, PEER_YOURS + 23, 0, ADD, 1, 0));
    peer_expect_ack(f, PEER_YOURS + 40, 0, UNETMM_ACK_OK, 0);
    peer_silence(f);
    assert_int_equal(word(f, 0), 40);
}

static void expect_rejected(Fix *f, uint32_t psn, uint32_t why)
{
    peer_expect_ack(f, psn, 0, UNETMM_ACK_REJECTED, why);
    peer_void(f, psn, 0);
    peer_silence(f);
}

TEST_OF(test_rejects, Fix *f, fix_test)
{
    uint32_t psn = PEER_YOURS;

    peer_open(f);
    for (unsigned i = 1; i < 8; i++) {
        give(f, psn, i, ADD, 1, 0);
        expect_rejected(f, psn++, UNETMM_WHY_RANGE);
    }
    give(f, psn, PEER_LENGTH, ADD, 1, 0);
    expect_rejected(f, psn++, UNETMM_WHY_RANGE);
    give(f, psn, -8ull, ADD, 1, 0);
    expect_rejected(f, psn++, UNETMM_WHY_RANGE);
    fake_region_clear(&f->d, PEER_REGION);
    give(f, psn, 0, ADD, 1, 0);
    expect_rejected(f, psn++, UNETMM_WHY_REGION);
    fake_region(f->s1, PEER_REGION, PEER_KEY, PEER_AT, PEER_LENGTH, 3, 0);
    give(f, psn, 0, ADD, 1, 0);
    expect_rejected(f, psn++, UNETMM_WHY_RIGHT);
    /* Where the address counts, not the offset. */
    fake_region_clear(&f->d, PEER_REGION);
    fake_region(f->s1, PEER_REGION, PEER_KEY, PEER_AT + 3, 12, 4, 0);
    give(f, psn, 0, ADD, 1, 0);
    expect_rejected(f, psn++, UNETMM_WHY_RANGE);
    give(f, psn, 5, ADD, 1, 0);
    expect_rejected(f, psn++, UNETMM_WHY_RANGE);
    fake_region_clear(&f->d, PEER_REGION);
    fake_region(f->s1, PEER_REGION, PEER_KEY, PEER_AT + 3, 13, 4, 0);
    give(f, psn, 5, ADD, 7, 0);
    expect_old(f, psn++, 0);
    assert_int_equal(word(f, 8), 7);
    f->h.refuse_first = fake_vpage(f->s1, PEER_AT)->dma;
    f->h.refuse_last = f->h.refuse_first + 4095;
    give(f, psn, 5, ADD, 1, 0);
    expect_rejected(f, psn, UNETMM_WHY_MEMORY);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_atomics), 1);
}

/* A rejected atomic is not executed when it comes late, in any case. */
TEST_OF(test_rejected_for_good, Fix *f, fix_test)
{
    peer_open(f);
    fake_region_clear(&f->d, PEER_REGION);
    give(f, PEER_YOURS, 0, ADD, 1, 0);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_REGION);
    fake_region(f->s1, PEER_REGION, PEER_KEY, PEER_AT, PEER_LENGTH, 7, 0);
    give(f, PEER_YOURS, 0, ADD, 1, 0);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_REGION);
    peer_void(f, PEER_YOURS, 0);
    expect_count(&f->h, drop_rel_stale, 1, give(f, PEER_YOURS, 0, ADD, 1, 0));
    assert_int_equal(word(f, 0), 0);
}

TEST_OF(test_malformed, Fix *f, fix_test)
{
    static const struct {
        uint32_t what, len, flags;
    } bad[] = {
        { 0, 8, 0 }, { 3, 8, 0 }, { ADD, 0, 0 }, { ADD, 16, 0 },
        { SWAP, 8, 0 }, { SWAP, 24, 0 }, { ADD, 8, UNETMM_WIRE_F_LAST },
        { ADD, 8, UNETMM_WIRE_F_NOTIFY },
    };

    peer_open(f);
    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        struct unetmm_frame h = {
            .opcode = UNETMM_WIRE_ATOMIC, .psn = PEER_YOURS,
            .handle = PEER_REGION, .offset = PEER_KEY, .imm = bad[i].what,
            .flags = bad[i].flags,
        };

        expect_count(&f->h, drop_malformed, 1,
                     peer_give(f, h, (uint8_t[24]) { 1 }, bad[i].len));
    }
    assert_int_equal(word(f, 0), 0);
}

TEST_OF(test_page_missing, Fix *f, fix_test)
{
    peer_open(f);
    fake_invalidate(f->s1, PEER_PAGE(20), FAKE_PAGE);
    give(f, PEER_YOURS, 0, ADD, 5, 0);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_NOT_READY, 100);
    fake_serve(&f->d);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_OK, 0);
    assert_int_equal(word(f, 0), 0);
    give(f, PEER_YOURS, 0, ADD, 5, 0);
    expect_old(f, PEER_YOURS, 0);
    assert_int_equal(word(f, 0), 5);
}

static unsigned disturbances;
static uint64_t disturbed;

/* A processor changes the word at the same moment. */
static void disturb(FakeHost *h, uint64_t addr)
{
    if (disturbances) {
        uint64_t v = cpu_to_le64(++disturbed);

        disturbances--;
        fake_write(h, addr, &v, 8);
    }
}

TEST_OF(test_contended, Fix *f, fix_test)
{
    peer_open(f);
    f->h.on_atomic = disturb;
    disturbed = 0;
    disturbances = 20;
    give(f, PEER_YOURS, 0, ADD, 1000, 0);
    expect_old(f, PEER_YOURS, 20);
    assert_int_equal(word(f, 0), 1020);
    /* The processors win each time: the peer comes again. */
    disturbances = 64;
    disturbed = 2000;
    give(f, PEER_YOURS + 1, 0, ADD, 1000, 0);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_NOT_READY, 100);
    assert_int_equal(word(f, 0), 2064);
    fake_wire_clear(&f->h);
    give(f, PEER_YOURS + 1, 0, ADD, 1000, 0);
    while (f->h.wire->len > 1) {
        g_ptr_array_remove_index(f->h.wire, 0);
    }
    expect_old(f, PEER_YOURS + 1, 2064);
    /* A comparison is made once. */
    disturbances = 1;
    disturbed = 6;
    give(f, PEER_YOURS + 2, 0, SWAP, 3064, 1);
    expect_old(f, PEER_YOURS + 2, 7);
    assert_int_equal(word(f, 0), 7);
}

/* ---- The asking card ---------------------------------------------------- */

static void post(Fix *f, uint8_t op, uint64_t a, uint64_t b, uint64_t cookie,
                 uint8_t flags)
{
    struct unetmm_sqe s = {
        .opcode = op, .flags = UNETMM_SQE_F_INLINE | flags,
        .inline_len = op == UNETMM_OP_CMP_SWAP ? 16 : 8, .channel = PEER_CH,
        .cookie = cookie, .handle = PEER_IMPORT, .remote = 64,
    };

    a = cpu_to_le64(a);
    b = cpu_to_le64(b);
    memcpy(s.data, &a, 8);
    memcpy(s.data + 8, &b, s.inline_len - 8);
    peer_post(f, s);
}

static void answer(Fix *f, uint32_t psn, uint64_t old, uint32_t len)
{
    uint64_t v[2] = { cpu_to_le64(old), 0 };

    peer_give(f, (struct unetmm_frame) { .opcode = UNETMM_WIRE_ANSWER,
                                         .psn = psn }, v, len);
}

static void expect_done(Fix *f, uint64_t cookie, uint64_t old)
{
    struct unetmm_cqe cqe = fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK,
                                        cookie);

    assert_int_equal(cqe.len, 8);
    assert_true(cqe.flags & UNETMM_CQE_F_INLINE);
    assert_int_equal(le64_to_cpu(cqe.old), old);
}

TEST_OF(test_asked, Fix *f, fix_test)
{
    PeerFrame p;
    uint64_t v[2];

    peer_open(f);
    post(f, UNETMM_OP_CMP_SWAP, 0x0102030405060708ull, 9, 7, 0);
    p = peer_expect(f, UNETMM_WIRE_ATOMIC, PEER_MY);
    assert_int_equal(p.h.len, 16);
    assert_int_equal(p.h.imm, SWAP);
    assert_int_equal(p.h.handle, PEER_FAR);
    assert_int_equal(p.h.offset, PEER_FAR_KEY);
    assert_int_equal(p.h.remote, 64);
    memcpy(v, p.data, 16);
    assert_int_equal(le64_to_cpu(v[0]), 0x0102030405060708ull);
    assert_int_equal(le64_to_cpu(v[1]), 9);
    peer_ack(f, PEER_MY + 1, 0);
    fake_expect_none(&f->a);
    expect_count(&f->h, drop_rel_answer, 1, answer(f, PEER_MY, 1, 7));
    expect_count(&f->h, drop_rel_answer, 1, answer(f, PEER_MY, 1, 16));
    answer(f, PEER_MY, 0xfedcba9876543210ull, 8);
    expect_done(f, 7, 0xfedcba9876543210ull);
    expect_count(&f->h, drop_rel_answer, 1, answer(f, PEER_MY, 5, 8));
    post(f, UNETMM_OP_FETCH_ADD, 3, 0, 8, UNETMM_SQE_F_QUIET);
    p = peer_expect(f, UNETMM_WIRE_ATOMIC, PEER_MY + 1);
    assert_int_equal(p.h.len, 8);
    assert_int_equal(p.h.imm, ADD);
    answer(f, PEER_MY + 1, 5, 8);
    fake_expect_none(&f->a);
}

static struct unetmm_sqe with_result(uint64_t addr)
{
    struct unetmm_sqe s = {
        .opcode = UNETMM_OP_FETCH_ADD, .flags = UNETMM_SQE_F_INLINE,
        .inline_len = 8, .channel = PEER_CH, .cookie = 3, .nsegs = 1,
        .handle = PEER_IMPORT, .remote = 64,
    };

    s.seg[UNETMM_SQE_RESULT].addr = cpu_to_le64(addr);
    s.seg[UNETMM_SQE_RESULT].len = cpu_to_le32(8);
    return s;
}

static void post_result(Fix *f, struct unetmm_sqe s, uint8_t status)
{
    uint64_t operands[2] = { cpu_to_le64(1), cpu_to_le64(2) };

    memcpy(s.data, operands, s.inline_len);
    unetmm_le_sqe(&s);
    fake_put_slots(&f->a, &s, 1);
    fake_move_sq(&f->a, 1);
    fake_ring_bell(&f->a);
    if (status != UNETMM_ST_OK) {
        fake_expect(&f->a, UNETMM_CQE_SENT, status, 3);
        peer_silence(f);
    }
}

/* The old value goes to memory, too: over two pages, and when these come. */
TEST_OF(test_result, Fix *f, fix_test)
{
    struct unetmm_sqe s = with_result(PEER_PAGE(3) - 3), bad;
    uint64_t v;

    peer_open(f);
    bad = s;
    bad.nsegs = 2;
    post_result(f, bad, UNETMM_ST_BAD_DESC);
    bad = s;
    bad.seg[1].len = cpu_to_le32(9);
    post_result(f, bad, UNETMM_ST_BAD_DESC);
    bad = s;
    bad.seg[1].rsvd = 1;
    post_result(f, bad, UNETMM_ST_BAD_DESC);
    post_result(f, with_result(UINT64_MAX - 6), UNETMM_ST_PROTECTION);
    bad = s;
    bad.opcode = UNETMM_OP_WRITE;
    post_result(f, bad, UNETMM_ST_BAD_DESC);
    post_result(f, s, UNETMM_ST_OK);
    assert_int_equal(peer_expect(f, UNETMM_WIRE_ATOMIC, PEER_MY).h.len, 8);
    answer(f, PEER_MY, 0x1122334455667788ull, 8);
    fake_expect_none(&f->a);
    fake_serve(&f->d);
    /* The request goes again, and is answered with the result that is kept. */
    peer_expect(f, UNETMM_WIRE_ATOMIC, PEER_MY);
    answer(f, PEER_MY, 0x1122334455667788ull, 8);
    expect_done(f, 3, 0x1122334455667788ull);
    fake_load(f->s1, PEER_PAGE(3) - 3, &v, 8);
    assert_int_equal(le64_to_cpu(v), 0x1122334455667788ull);
}

/* Behind 16 bytes of operands, and if no completion has the value. */
TEST_OF(test_result_quiet, Fix *f, fix_test)
{
    struct unetmm_sqe s = with_result(PEER_AT);
    PeerFrame p;

    s.opcode = UNETMM_OP_CMP_SWAP;
    s.inline_len = 16;
    s.flags |= UNETMM_SQE_F_QUIET;
    peer_open(f);
    post_result(f, s, UNETMM_ST_OK);
    p = peer_expect(f, UNETMM_WIRE_ATOMIC, PEER_MY);
    assert_int_equal(p.h.len, 16);
    assert_int_equal(p.data[0], 1);
    assert_int_equal(p.data[8], 2);
    answer(f, PEER_MY, 0x1122334455667788ull, 8);
    fake_expect_none(&f->a);
    assert_int_equal(word(f, 0), 0x1122334455667788ull);
    assert_int_equal(word(f, 8), 0);
}

static void slow(UnetmmParams *p)
{
    p->dma_page_ns = 5000;
}

/* The completion waits for the last of the pages. */
TEST_OF(test_result_lands, Fix *f, fix_test_with, slow)
{
    uint64_t v;

    peer_open(f);
    post_result(f, with_result(PEER_PAGE(22) - 3), UNETMM_ST_OK);
    fake_advance(&f->h, 5000);
    peer_expect(f, UNETMM_WIRE_ATOMIC, PEER_MY);
    answer(f, PEER_MY, 0x1122334455667788ull, 8);
    fake_advance(&f->h, 5000);
    fake_expect_none(&f->a);
    fake_advance(&f->h, 5000);
    expect_done(f, 3, 0x1122334455667788ull);
    fake_load(f->s1, PEER_PAGE(22) - 3, &v, 8);
    assert_int_equal(le64_to_cpu(v), 0x1122334455667788ull);
}

/* Executed there all the same: only its end here is another one. */
TEST_OF(test_result_nowhere, Fix *f, fix_test)
{
    peer_open(f);
    fake_map(f->s1, PEER_PAGE(900), FAKE_PAGE, FAKE_R);
    post_result(f, with_result(PEER_PAGE(900)), UNETMM_ST_OK);
    peer_expect(f, UNETMM_WIRE_ATOMIC, PEER_MY);
    answer(f, PEER_MY, 5, 8);
    fake_serve(&f->d);
    assert_int_equal(fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_PROTECTION,
                                 3).flags & UNETMM_CQE_F_INLINE, 0);
    /* So the number needs no VOID. */
    peer_silence(f);
}

/* No more of them than the peer keeps results, from the oldest open one on. */
TEST_OF(test_limit, Fix *f, fix_test)
{
    peer_open(f);
    for (unsigned i = 0; i < 14; i++) {
        post(f, UNETMM_OP_FETCH_ADD, 1, 0, i, 0);
    }
    for (unsigned i = 14; i < 20; i++) {
        post(f, UNETMM_OP_FETCH_ADD, 1, 0, i, 0);
    }
    assert_int_equal(f->h.wire->len, 16);
    fake_wire_clear(&f->h);
    /* Of all but the first: its result might still be needed. */
    for (unsigned i = 1; i < 16; i++) {
        answer(f, PEER_MY + i, i, 8);
    }
    while (f->h.wire->len) {
        peer_expect(f, UNETMM_WIRE_ATOMIC, PEER_MY);
    }
    fake_expect_none(&f->a);
    answer(f, PEER_MY, 0, 8);
    for (unsigned i = 0; i < 16; i++) {
        expect_done(f, i, i);
    }
    fake_ring_bell(&f->a);
    for (unsigned i = 16; i < 20; i++) {
        peer_expect(f, UNETMM_WIRE_ATOMIC, PEER_MY + i);
        answer(f, PEER_MY + i, i, 8);
    }
    for (unsigned i = 16; i < 20; i++) {
        expect_done(f, i, i);
    }
}

/* One that was answered is none less: its end in error does not matter. */
TEST_OF(test_limit_nowhere, Fix *f, fix_test)
{
    struct unetmm_sqe s = with_result(PEER_PAGE(900));

    peer_open(f);
    fake_map(f->s1, PEER_PAGE(900), FAKE_PAGE, FAKE_R);
    post(f, UNETMM_OP_FETCH_ADD, 1, 0, 0, 0);
    post_result(f, s, UNETMM_ST_OK);
    for (unsigned i = 2; i < 20; i++) {
        post(f, UNETMM_OP_FETCH_ADD, 1, 0, i, 0);
    }
    assert_int_equal(f->h.wire->len, 16);
    answer(f, PEER_MY + 1, 5, 8);
    fake_serve(&f->d);
    fake_ring_bell(&f->a);
    while (f->h.wire->len) {
        assert_int_not_equal(peer_take(f).h.psn, PEER_MY + 16);
    }
    fake_expect_none(&f->a);
    answer(f, PEER_MY, 0, 8);
    expect_done(f, 0, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_PROTECTION, 3);
    fake_ring_bell(&f->a);
    peer_expect(f, UNETMM_WIRE_ATOMIC, PEER_MY + 16);
}

TEST_OF(test_lost, Fix *f, fix_test)
{
    peer_open(f);
    post(f, UNETMM_OP_FETCH_ADD, 1, 0, 1, 0);
    fake_wire_clear(&f->h);
    for (unsigned i = 0; i < 3; i++) {
        fake_advance(&f->h, (1000 << i) * (int64_t)PEER_US);
        peer_expect(f, UNETMM_WIRE_ATOMIC, PEER_MY);
        peer_silence(f);
    }
    answer(f, PEER_MY, 3, 8);
    expect_done(f, 1, 3);
}

TEST_OF(test_peer_rejects, Fix *f, fix_test)
{
    peer_open(f);
    post(f, UNETMM_OP_FETCH_ADD, 1, 0, 1, 0);
    post(f, UNETMM_OP_FETCH_ADD, 1, 0, 2, 0);
    fake_wire_clear(&f->h);
    peer_ack_as(f, PEER_MY, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_RANGE);
    assert_int_equal(fake_expect(&f->a, UNETMM_CQE_SENT,
                                 UNETMM_ST_REMOTE_RANGE, 1).flags &
                     UNETMM_CQE_F_INLINE, 0);
    peer_expect(f, UNETMM_WIRE_VOID, PEER_MY);
    answer(f, PEER_MY + 1, 3, 8);
    expect_done(f, 2, 3);
}
