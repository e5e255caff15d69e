/*
 * unetmm: READ, packet by packet: the peer is the test
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "peer.h"
#include "reliable/reliable.h"

#define ASK     UNETMM_WIRE_F_ASK
#define PAGE_NS 5000

static void slow(UnetmmParams *p)
{
    p->dma_page_ns = PAGE_NS;
}

/* ---- The asking card ---------------------------------------------------- */

/* The answer to request psn: bytes [at, + len) of message n. */
static void answer(Fix *f, uint32_t psn, uint32_t at, uint32_t len, uint32_t n)
{
    uint8_t data[PEER_MTU + 1];

    for (uint32_t i = 0; i < len; i++) {
        data[i] = fake_pattern(n, at + i);
    }
    peer_give(f, (struct unetmm_frame) { .opcode = UNETMM_WIRE_ANSWER,
                                         .psn = psn }, data, len);
}

static void expect_request(Fix *f, uint32_t psn, uint64_t at, uint32_t len)
{
    PeerFrame p = peer_expect(f, UNETMM_WIRE_READ, psn);

    assert_int_equal(p.h.len, 0);
    assert_int_equal(p.h.handle, PEER_FAR);
    assert_int_equal(p.h.offset, PEER_FAR_KEY);
    assert_int_equal(p.h.remote, at);
    assert_int_equal(UNETMM_GET(UNETMM_READ_BYTES, p.h.imm), len);
    assert_int_equal(p.h.flags & ~ASK, 0);
}

/* READ of `len` bytes at 500 of the far region into page n. */
static void ask(Fix *f, unsigned page, uint32_t len, uint64_t cookie)
{
    peer_post(f, peer_sqe(UNETMM_OP_READ, page, len, 500, cookie));
}

TEST_OF(test_requests, Fix *f, fix_test)
{
    peer_open(f);
    ask(f, 0, 2500, 7);
    expect_request(f, PEER_MY, 500, 1000);
    expect_request(f, PEER_MY + 1, 1500, 1000);
    expect_request(f, PEER_MY + 2, 2500, 500);
    /* In any order; the last one completes it. */
    fake_insert(f->s1, PEER_PAGE(0), 1, NULL);
    answer(f, PEER_MY + 2, 2000, 500, 3);
    answer(f, PEER_MY, 0, 1000, 3);
    fake_expect_none(&f->a);
    answer(f, PEER_MY + 1, 1000, 1000, 3);
    assert_int_equal(fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 7).len,
                     2500);
    fake_check(f->s1, PEER_PAGE(0), 2500, 3);
    /* Whatever comes late changes nothing. */
    expect_count(&f->h, drop_rel_answer, 1,
                 answer(f, PEER_MY + 1, 1000, 1000, 4));
    fake_check(f->s1, PEER_PAGE(0), 2500, 3);
    fake_advance(&f->h, 1000000 * (int64_t)PEER_US);
    peer_silence(f);
}

/* Of no bytes: a fence.  The peer may have no such region. */
TEST_OF(test_nothing, Fix *f, fix_test)
{
    struct unetmm_sqe s = peer_sqe(UNETMM_OP_READ, 0, 0, 0, 7);
    PeerFrame p;

    peer_open(f);
    for (uint32_t i = 0; i < 3; i++) {
        s.nsegs = i & 1;
        if (i == 2) {
            s.flags = UNETMM_SQE_F_KEYED;
            s.region = 0xffff;
            s.remote = UINT64_MAX;
        }
        peer_post(f, s);
        p = peer_expect(f, UNETMM_WIRE_VOID, PEER_MY + i);
        assert_int_equal(p.h.flags, UNETMM_WIRE_F_ASK);
        assert_int_equal(p.h.handle | p.h.offset | p.h.remote | p.h.imm, 0);
        fake_expect_none(&f->a);
        /* There is no request that could be rejected. */
        peer_ack_as(f, PEER_MY + i, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_REGION);
        fake_expect_none(&f->a);
        peer_ack(f, PEER_MY + i + 1, 0);
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 7);
    }
    s.flags = s.region = s.remote = 0;
    s.handle = PEER_IMPORT + 1;
    peer_post(f, s);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_BAD_IMPORT, 7);
    peer_silence(f);
}

/* Into segments of all lengths. */
TEST_OF(test_segments, Fix *f, fix_test)
{
    struct unetmm_sqe s = peer_sqe(UNETMM_OP_READ, 0, 0, 0, 1);
    uint8_t slots[192] = { 0 };
    struct unetmm_seg segs[5] = {
        { PEER_PAGE(2) - 10, 300 }, { PEER_PAGE(9), 0 },
        { PEER_PAGE(5) + 10, 701 }, { PEER_PAGE(6), 1 },
        { PEER_PAGE(7) + 4000, 998 },
    };
    uint8_t data[2000];

    peer_open(f);
    s.nsegs = 5;
    unetmm_le_sqe(&s);
    memcpy(slots, &s, 32);
    for (unsigned i = 0; i < G_N_ELEMENTS(segs); i++) {
        struct unetmm_seg seg = segs[i];

        unetmm_le_seg(&seg);
        memcpy(slots + 32 + i * sizeof(seg), &seg, sizeof(seg));
    }
    fake_put_slots(&f->a, slots, 2);
    fake_move_sq(&f->a, 2);
    for (unsigned i = 0; i < 8; i++) {
        fake_insert(f->s1, PEER_PAGE(1 + i), 1, NULL);
    }
    fake_ring_bell(&f->a);
    answer(f, PEER_MY, 0, 1000, 1);
    answer(f, PEER_MY + 1, 1000, 1000, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    for (unsigned i = 0, at = 0; i < 5; at += segs[i++].len) {
        fake_load(f->s1, segs[i].addr, data + at, segs[i].len);
    }
    for (unsigned i = 0; i < 2000; i++) {
        assert_int_equal(data[i], fake_pattern(1, i));
    }
}

/* A READ into the last bytes of page a and into the first ones of page b. */
static void read_into(Fix *f, unsigned a, unsigned b, uint64_t cookie)
{
    struct unetmm_sqe s = peer_sqe(UNETMM_OP_READ, 0, 0, 0, cookie);
    struct unetmm_seg segs[2] = {
        { PEER_PAGE(a) + 4000, 96 }, { PEER_PAGE(b), 100 },
    };
    uint8_t slots[128] = { 0 };

    s.nsegs = 2;
    unetmm_le_sqe(&s);
    memcpy(slots, &s, 32);
    for (unsigned i = 0; i < G_N_ELEMENTS(segs); i++) {
        unetmm_le_seg(&segs[i]);
        memcpy(slots + 32 + i * sizeof(segs[i]), &segs[i], sizeof(segs[i]));
    }
    fake_put_slots(&f->a, slots, 1);
    fake_move_sq(&f->a, 1);
    fake_ring_bell(&f->a);
}

static void direct_mapped(UnetmmParams *p)
{
    p->tlb_sets = 4;
    p->tlb_ways = 1;
    p->tlb_victims = 0;
}

/* Pages of one set, of which the TLB has room for one, could never both be there. */
TEST_OF(test_pages_that_do_not_fit, Fix *f, fix_test_with, direct_mapped)
{
    peer_open(f);
    read_into(f, 0, 1, 1);
    /* It comes once for the miss of each page, and then is placed. */
    for (unsigned i = 0; i < 3; i++) {
        answer(f, PEER_MY, 0, 196, 1);
        fake_serve(&f->d);
        fake_advance(&f->h, 1000 * PEER_US);
    }
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    read_into(f, 0, 4, 2);
    expect_count(&f->h, tlb_too_small, 1, answer(f, PEER_MY + 1, 0, 196, 1));
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_PROTECTION, 2);
}

static void direct_mapped_cache(UnetmmParams *p)
{
    p->cache_ways = 1;
}

/* The same in the entry cache: the card would wait for an entry of its own. */
TEST_OF(test_pages_that_do_not_fit_the_cache, Fix *f, fix_test_bare, direct_mapped_cache)
{
    unsigned sets = f->h.core.params.cache_entries;

    f->s1 = fake_space(&f->d, 1, UNETMM_SOURCE_PINNED, 4);
    fake_map(f->s1, FIX_VA, (sets + 1) * FAKE_PAGE, FAKE_RW);
    fake_ep_open(&f->a, &f->d, 1, f->s1);
    peer_open(f);
    read_into(f, 0, 1, 1);
    answer(f, PEER_MY, 0, 196, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    read_into(f, 0, sets, 2);
    expect_count(&f->h, tlb_too_small, 1, answer(f, PEER_MY + 1, 0, 196, 1));
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_PROTECTION, 2);
}

/* An acknowledgement does not end it; it is sent again until it is answered. */
TEST_OF(test_answer_lost, Fix *f, fix_test)
{
    peer_open(f);
    fake_insert(f->s1, PEER_PAGE(0), 1, NULL);
    ask(f, 0, 1500, 1);
    fake_send_inline(&f->a, PEER_CH, 2, 20, 2, 0);
    fake_ring_bell(&f->a);
    fake_wire_clear(&f->h);
    answer(f, PEER_MY + 1, 1000, 500, 1);
    peer_ack(f, PEER_MY + 3, 0);
    fake_expect_none(&f->a);
    peer_silence(f);
    fake_advance(&f->h, 1000 * PEER_US);
    expect_request(f, PEER_MY, 500, 1000);
    peer_silence(f);
    answer(f, PEER_MY, 0, 1000, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    fake_check(f->s1, PEER_PAGE(0), 1500, 1);
    fake_advance(&f->h, 1000000 * (int64_t)PEER_US);
    peer_silence(f);
}

/* Never answered: the channel gives up, acknowledged or not. */
TEST_OF(test_never_answered, Fix *f, fix_test)
{
    peer_open(f);
    ask(f, 0, 100, 1);
    for (unsigned i = 0; i < 5; i++) {
        peer_ack(f, PEER_MY + 1, 0);
        fake_advance(&f->h, (1000 << i) * (int64_t)PEER_US);
    }
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_TIMEOUT, 1);
}

/* An answer says that all before it has been taken. */
TEST_OF(test_answer_acknowledges, Fix *f, fix_test)
{
    peer_open(f);
    fake_insert(f->s1, PEER_PAGE(0), 1, NULL);
    fake_send_inline(&f->a, PEER_CH, 1, 20, 1, 0);
    ask(f, 0, 100, 2);
    answer(f, PEER_MY + 1, 0, 100, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    assert_int_equal(f->h.core.eps[1].rels->tx.una, PEER_MY + 2);
}

#define LIE(stmt) do { \
        expect_count(&f->h, drop_rel_answer, 1, stmt); \
        fake_expect_none(&f->a); \
    } while (0)

TEST_OF(test_lies, Fix *f, fix_test)
{
    peer_open(f);
    fake_insert(f->s1, PEER_PAGE(0), 1, NULL);
    fake_fill(f->s1, PEER_PAGE(0), FAKE_PAGE, 9);
    fake_send_inline(&f->a, PEER_CH, 1, 20, 1, 0);
    ask(f, 0, 1500, 2);
    LIE(answer(f, PEER_MY, 0, 20, 1));          /* of a SEND */
    LIE(answer(f, PEER_MY + 1, 0, 999, 1));
    LIE(answer(f, PEER_MY + 1, 0, 8, 1));
    LIE(answer(f, PEER_MY + 2, 0, 501, 1));
    LIE(answer(f, PEER_MY + 2, 0, 1000, 1));
    LIE(answer(f, PEER_MY + 3, 0, 500, 1));     /* not asked */
    LIE(answer(f, PEER_MY - 1, 0, 500, 1));
    LIE(answer(f, PEER_MY + 66, 0, 500, 1));
    expect_count(&f->h, drop_malformed, 1, answer(f, PEER_MY + 1, 0, 0, 1));
    for (unsigned i = 0; i < 6; i++) {
        struct unetmm_frame h = {
            .opcode = UNETMM_WIRE_ANSWER, .psn = PEER_MY + 1,
            .flags = i == 0 ? UNETMM_WIRE_F_LAST : i == 1 ? ASK : 0,
            .offset = i == 2, .remote = i == 3, .handle = i == 4,
            .imm = i == 5,
        };

        expect_count(&f->h, drop_malformed, 1,
                     peer_give(f, h, (uint8_t[1000]) { 0 }, 1000));
    }
    fake_check(f->s1, PEER_PAGE(0), FAKE_PAGE, 9);
    answer(f, PEER_MY + 1, 0, 1000, 1);
    answer(f, PEER_MY + 2, 1000, 500, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
}

/* The page for it is not there: dropped, asked for, and then asked again. */
TEST_OF(test_no_place, Fix *f, fix_test)
{
    struct unetmm_fault miss;

    peer_open(f);
    ask(f, 0, 1000, 1);
    fake_wire_clear(&f->h);
    expect_count(&f->h, drop_rel_unplaced, 1, answer(f, PEER_MY, 0, 1000, 1));
    assert_true(fake_fault(&f->d, &miss));
    assert_int_equal(miss.vaddr, PEER_PAGE(0));
    assert_int_equal(miss.flags, UNETMM_FAULT_F_WRITE);
    /* It may take long: the driver has answered. */
    fake_reply(&f->d, &miss, UNETMM_REPLY_DEFERRED, 0);
    for (unsigned i = 0; i < 20; i++) {
        fake_advance(&f->h, 1000 * PEER_US);
        expect_request(f, PEER_MY, 500, 1000);
        answer(f, PEER_MY, 0, 1000, 1);
    }
    peer_silence(f);
    assert_int_equal(fake_resolve(&f->d, &miss, 1, NULL), UNETMM_CS_OK);
    expect_request(f, PEER_MY, 500, 1000);
    answer(f, PEER_MY, 0, 1000, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_check(f->s1, PEER_PAGE(0), 1000, 1);
}

/* It will never be there: this one ends, the others go on. */
TEST_OF(test_never_a_place, Fix *f, fix_test)
{
    peer_open(f);
    fake_vpage(f->s1, PEER_PAGE(1))->error = UNETMM_ST_UNSUPPORTED;
    ask(f, 1, 2500, 1);
    fake_send_inline(&f->a, PEER_CH, 2, 20, 2, 0);
    fake_ring_bell(&f->a);
    fake_wire_clear(&f->h);
    answer(f, PEER_MY + 1, 1000, 1000, 1);
    fake_serve(&f->d);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_UNSUPPORTED, 1);
    /* The peer has the first two: it has answered the second. */
    peer_expect(f, UNETMM_WIRE_VOID, PEER_MY + 2);
    LIE(answer(f, PEER_MY, 0, 1000, 1));
    peer_ack(f, PEER_MY + 4, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    fake_advance(&f->h, 1000000 * (int64_t)PEER_US);
    peer_silence(f);
}

TEST_OF(test_bus_refuses_place, Fix *f, fix_test)
{
    peer_open(f);
    fake_insert(f->s1, PEER_PAGE(0), 1, NULL);
    ask(f, 0, 1000, 1);
    f->h.refuse_first = fake_vpage(f->s1, PEER_PAGE(0))->dma;
    f->h.refuse_last = f->h.refuse_first + 4095;
    answer(f, PEER_MY, 0, 1000, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_DMA, 1);
}

/* One of its requests is rejected, also after it was acknowledged. */
TEST_OF(test_peer_rejects, Fix *f, fix_test)
{
    peer_open(f);
    fake_insert(f->s1, PEER_PAGE(0), 1, NULL);
    ask(f, 0, 3000, 1);
    ask(f, 2, 100, 2);
    fake_wire_clear(&f->h);
    peer_ack(f, PEER_MY + 4, 0);
    peer_ack_as(f, PEER_MY + 1, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_REGION);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_REVOKED, 1);
    /* The peer has these numbers. */
    peer_silence(f);
    assert_int_equal(f->h.core.eps[1].rels->tx.una, PEER_MY + 3);
    peer_ack_as(f, PEER_MY + 3, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_RIGHT);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_REMOTE_RIGHT, 2);
    expect_count(&f->h, drop_rel_ack, 1,
                 peer_ack_as(f, PEER_MY + 4, 0, UNETMM_ACK_REJECTED, 3));
}

/* The segments are the card's until the last page has moved. */
TEST_OF(test_lands_slowly, Fix *f, fix_test_with, slow)
{
    peer_open(f);
    fake_insert(f->s1, PEER_PAGE(0), 2, NULL);
    ask(f, 0, 1000, 1);
    answer(f, PEER_MY, 0, 1000, 1);
    fake_expect_none(&f->a);
    fake_advance(&f->h, PAGE_NS);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_check(f->s1, PEER_PAGE(0), 1000, 1);
    /* The channel goes under the next one. */
    ask(f, 0, 1000, 2);
    answer(f, PEER_MY + 1, 0, 1000, 2);
    fake_channel(&f->a, PEER_CH, fake_peer_mac, PEER_EP, PEER_CH, 1000);
    fake_expect_none(&f->a);
    fake_advance(&f->h, PAGE_NS);
    fake_run_later(&f->h);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_BAD_CHANNEL, 2);
    assert_int_equal(f->h.core.rel->used, 0);
}

/* ---- The answering card ------------------------------------------------- */

static struct unetmm_frame request(uint32_t psn, uint64_t at, uint32_t len)
{
    return (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_READ, .psn = psn, .handle = PEER_REGION,
        .offset = PEER_KEY, .remote = at, .imm = len,
    };
}

static void give_request(Fix *f, uint32_t psn, uint64_t at, uint32_t len)
{
    peer_give(f, request(psn, at, len), NULL, 0);
}

/* The next frame answers psn with bytes [at, + len) of message n. */
static void expect_answer(Fix *f, uint32_t psn, uint64_t at, uint32_t len,
                          uint32_t n)
{
    PeerFrame p = peer_expect(f, UNETMM_WIRE_ANSWER, psn);

    assert_int_equal(p.h.len, len);
    assert_int_equal(p.h.offset | p.h.remote | p.h.handle | p.h.imm |
                     p.h.flags, 0);
    for (uint32_t i = 0; i < len; i++) {
        assert_int_equal(p.data[i], fake_pattern(n, at + i));
    }
}

static void open_filled(Fix *f, uint32_t n)
{
    peer_open(f);
    fake_fill(f->s1, PEER_AT, PEER_LENGTH, n);
}

TEST_OF(test_answers, Fix *f, fix_test)
{
    open_filled(f, 5);
    give_request(f, PEER_YOURS, 3950, 1000);
    expect_answer(f, PEER_YOURS, 3950, 1000, 5);
    peer_silence(f);
    give_request(f, PEER_YOURS + 1, PEER_LENGTH - 1, 1);
    expect_answer(f, PEER_YOURS + 1, PEER_LENGTH - 1, 1, 5);
    /* Asked again, answered again, with the bytes of now. */
    fake_fill(f->s1, PEER_AT, PEER_LENGTH, 6);
    give_request(f, PEER_YOURS, 3950, 1000);
    expect_answer(f, PEER_YOURS, 3950, 1000, 6);
    peer_expect_ack(f, PEER_YOURS + 2, 0, UNETMM_ACK_OK, 0);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_reads), 2);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_answers_sent), 3);
}

/* Before its turn it is kept, and waits for earlier packets. */
TEST_OF(test_early, Fix *f, fix_test)
{
    open_filled(f, 5);
    give_request(f, PEER_YOURS + 1, 100, 50);
    peer_expect_ack(f, PEER_YOURS, 1, UNETMM_ACK_OK, 0);
    peer_silence(f);
    assert_int_equal(f->h.core.rel->kept, 0);
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_WRITE, .psn = PEER_YOURS, .handle = PEER_REGION,
        .offset = PEER_KEY, .remote = 100, .flags = UNETMM_WIRE_F_LAST,
    }, "now", 3);
    assert_memory_equal(peer_expect(f, UNETMM_WIRE_ANSWER,
                                    PEER_YOURS + 1).data, "now", 3);
    peer_expect_ack(f, PEER_YOURS + 2, 0, UNETMM_ACK_OK, 0);
}

TEST_OF(test_rejects, Fix *f, fix_test)
{
    struct unetmm_frame h;

    open_filled(f, 5);
    fake_region(f->s1, 5, PEER_KEY, PEER_AT, PEER_LENGTH, 5, 1);
    fake_region(f->s1, 6, PEER_KEY, PEER_PAGE(FIX_PAGES + 3), 4000, 7, 1);
    for (unsigned i = 0; i < 4; i++) {
        h = request(PEER_YOURS + i, i == 1 ? PEER_LENGTH - 49 : 0, 50);
        h.offset ^= i == 0;
        h.handle = i == 2 ? 5 : i == 3 ? 6 : h.handle;
        peer_give(f, h, NULL, 0);
        if (i == 3) {
            peer_expect_ack(f, PEER_YOURS + i, 0, UNETMM_ACK_NOT_READY, 100);
            fake_serve(&f->d);
        }
        peer_expect_ack(f, PEER_YOURS + i, 0, UNETMM_ACK_REJECTED,
                        UNETMM_WHY_REGION + i);
        peer_void(f, PEER_YOURS + i, 0);
        peer_silence(f);
    }
    expect_count(&f->h, drop_rel_bad, 1,
                 give_request(f, PEER_YOURS + 4, 0, 1001));
    expect_count(&f->h, drop_malformed, 1,
                 give_request(f, PEER_YOURS + 4, 0, 0));
    expect_count(&f->h, drop_malformed, 1,
                 peer_give(f, request(PEER_YOURS + 4, 0, 1), "x", 1));
    h = request(PEER_YOURS + 4, 0, 1);
    h.flags = UNETMM_WIRE_F_LAST;
    expect_count(&f->h, drop_malformed, 1, peer_give(f, h, NULL, 0));
    peer_silence(f);
}

/* Taken and answered, then the region goes: it is not answered again. */
TEST_OF(test_revoked, Fix *f, fix_test)
{
    open_filled(f, 5);
    give_request(f, PEER_YOURS, 0, 100);
    fake_region_clear(&f->d, PEER_REGION);
    fake_wire_clear(&f->h);
    give_request(f, PEER_YOURS, 0, 100);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_REGION);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_OK, 0);
    peer_silence(f);
}

/* It goes before the answer's turn: nothing of it is read any more. */
TEST_OF(test_revoked_owed, Fix *f, fix_test)
{
    open_filled(f, 5);
    f->h.answer = UNETMM_SENT_QUEUED;
    fake_send_inline(&f->a, PEER_CH, 1, 20, 1, 0);
    fake_ring_bell(&f->a);
    peer_expect(f, UNETMM_WIRE_SEND, PEER_MY);
    give_request(f, PEER_YOURS, 0, 100);
    give_request(f, PEER_YOURS + 1, 0, 100);
    peer_silence(f);
    fake_region_clear(&f->d, PEER_REGION);
    f->h.answer = UNETMM_SENT_DONE;
    unetmm_core_sent(&f->h.core, true);
    /* The first was read before, and had to wait for the wire alone. */
    expect_answer(f, PEER_YOURS, 0, 100, 5);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_REJECTED,
                    UNETMM_WHY_REGION);
    peer_expect_ack(f, PEER_YOURS + 2, 0, UNETMM_ACK_OK, 0);
    peer_silence(f);
}

/* The region goes while its pages move out. */
TEST_OF(test_revoked_moving, Fix *f, fix_test_with, slow)
{
    struct unetmm_cmd clear = { .opcode = UNETMM_CMD_REGION_CLEAR,
                                .region.region = PEER_REGION };
    struct unetmm_cmd_done done;
    uint64_t reads;

    open_filled(f, 5);
    give_request(f, PEER_YOURS, 3950, 1000);
    assert_true(f->h.core.eps[1].tx.moving);
    fake_issue(&f->d, clear);
    assert_false(fake_done(&f->d, &done));
    fake_advance(&f->h, PAGE_NS);
    assert_true(fake_done(&f->d, &done));
    assert_int_equal(done.status, UNETMM_CS_OK);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_REGION);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_OK, 0);
    reads = f->h.reads;
    fake_advance(&f->h, 100 * PAGE_NS);
    assert_int_equal(f->h.reads, reads);
    peer_silence(f);
    assert_int_equal(f->h.core.ring->late, 0);
}

/* A page is not there: the peer comes again, and our sends do not wait. */
TEST_OF(test_page_missing, Fix *f, fix_test)
{
    struct unetmm_fault miss;

    open_filled(f, 5);
    fake_invalidate(f->s1, PEER_PAGE(21), FAKE_PAGE);
    give_request(f, PEER_YOURS, 3950, 1000);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_NOT_READY, 100);
    assert_true(fake_fault(&f->d, &miss));
    assert_int_equal(miss.flags, 0);
    fake_reply(&f->d, &miss, UNETMM_REPLY_DEFERRED, 0);
    fake_send_inline(&f->a, PEER_CH, 1, 20, 1, 0);
    fake_ring_bell(&f->a);
    peer_expect(f, UNETMM_WIRE_SEND, PEER_MY);
    assert_int_equal(fake_resolve(&f->d, &miss, 1, NULL), UNETMM_CS_OK);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_OK, 0);
    give_request(f, PEER_YOURS, 3950, 1000);
    expect_answer(f, PEER_YOURS, 3950, 1000, 5);
    /* Repeated when a page has gone. */
    fake_invalidate(f->s1, PEER_PAGE(20), FAKE_PAGE);
    give_request(f, PEER_YOURS, 3950, 1000);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_NOT_READY, 100);
    fake_serve(&f->d);
    give_request(f, PEER_YOURS, 3950, 1000);
    expect_answer(f, PEER_YOURS, 3950, 1000, 5);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_OK, 0);
}

/* It goes between the look and the gathering. */
TEST_OF(test_page_goes, Fix *f, fix_test_with, slow)
{
    open_filled(f, 5);
    give_request(f, PEER_YOURS, 3950, 1000);
    fake_invalidate(f->s1, PEER_PAGE(21), FAKE_PAGE);
    expect_count(&f->h, drop_rel_stale, 1, fake_advance(&f->h, PAGE_NS));
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_NOT_READY, 100);
    fake_serve(&f->d);
    give_request(f, PEER_YOURS, 3950, 1000);
    fake_advance(&f->h, 2 * PAGE_NS);
    fake_wire_at(&f->h, 0);
    g_ptr_array_remove_index(f->h.wire, 0);
    expect_answer(f, PEER_YOURS, 3950, 1000, 5);
}

TEST_OF(test_bus_refuses, Fix *f, fix_test)
{
    open_filled(f, 5);
    f->h.refuse_first = fake_vpage(f->s1, PEER_AT)->dma;
    f->h.refuse_last = f->h.refuse_first + 4095;
    give_request(f, PEER_YOURS, 0, 100);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_MEMORY);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_OK, 0);
}

/* Both: answers and own packets take turns. */
TEST_OF(test_turns, Fix *f, fix_test)
{
    unsigned answers = 0;

    open_filled(f, 5);
    f->h.answer = UNETMM_SENT_QUEUED;
    peer_post(f, peer_sqe(UNETMM_OP_WRITE, 0, 10000, 0, 1));
    for (unsigned i = 0; i < 10; i++) {
        give_request(f, PEER_YOURS + i, 0, 100);
    }
    for (unsigned i = 0; i < 16; i++) {
        unetmm_core_sent(&f->h.core, true);
    }
    for (unsigned i = 0; i < 12; i++) {
        answers += peer_take(f).h.opcode == UNETMM_WIRE_ANSWER;
    }
    assert_in_range(answers, 4, 7);
}

/* Numbers of a header at their limit are numbers, beyond it they are none. */
TEST(test_header_limits, fix_test)
{
    static const struct {
        uint8_t opcode;
        uint32_t imm;
        bool bad;
    } limits[] = {
        { UNETMM_WIRE_READ, 0, true },
        { UNETMM_WIRE_READ, 1, false },
        { UNETMM_WIRE_READ, UNETMM_MAX_PAYLOAD, false },
        { UNETMM_WIRE_READ, UNETMM_MAX_PAYLOAD + 1, true },
        { UNETMM_WIRE_WRITE, UNETMM_MAX_STRICT_MESSAGE, false },
        { UNETMM_WIRE_WRITE, UNETMM_MAX_STRICT_MESSAGE + 1, true },
    };
    uint8_t data[PEER_MTU] = { 0 };
    Fix *f = *state;

    peer_open(f);
    for (unsigned i = 0; i < G_N_ELEMENTS(limits); i++) {
        expect_count(&f->h, drop_malformed, limits[i].bad,
                     peer_give(f, (struct unetmm_frame) {
                         .opcode = limits[i].opcode, .psn = PEER_YOURS + 9,
                         .handle = PEER_REGION, .offset = PEER_KEY,
                         .imm = limits[i].imm }, data,
                         limits[i].opcode == UNETMM_WIRE_WRITE ? PEER_MTU :
                         0));
    }
}
