/*
 * unetmm: source odp: a table that faults fill and invalidations empty
 *
 * The fake driver takes a page's DMA rights with the invalidation that takes its
 * entry: an access after that fails the test.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fixture.h"
#include "peer.h"

#define VA      0x40000000ull   /* page 0 of a leaf table */
#define PAGE(n) (VA + (uint64_t)(n) * FAKE_PAGE)
#define NS      1000
#define LEN     3000
#define PUSHED  100             /* pages: more than the cache has entries */

static void slow(UnetmmParams *p)
{
    p->dma_page_ns = NS;
}

static void batch_of_two(UnetmmParams *p)
{
    p->fault_batch = 2;
}

static void open_odp(Fix *f, FakeSpace **s, FakeEp *ep, uint8_t levels)
{
    *s = fake_space(&f->d, 3, UNETMM_SOURCE_ODP, levels);
    fake_ep_open(ep, &f->d, 3, *s);
    fake_connect_peer(ep, FIX_WIRE, 13, FIX_MTU);
}

/* Memory that the process has, and the card does not know. */
static void map_absent(FakeSpace *s, uint64_t at, uint32_t npages,
                       uint8_t rights)
{
    fake_map(s, at, (uint64_t)npages * FAKE_PAGE, rights);
    assert_false(fake_invalidate(s, at, (uint64_t)npages * FAKE_PAGE));
}

static void send_from(FakeEp *ep, uint64_t at, uint32_t len)
{
    fake_send_at(ep, FIX_WIRE, at, len, at);
    fake_ring_bell(ep);
}

static void expect_sent(Fix *f, FakeEp *ep, uint64_t at, uint32_t len,
                        uint32_t n)
{
    fake_expect(ep, UNETMM_CQE_SENT, UNETMM_ST_OK, at);
    fake_check_frame(fake_wire_at(&f->h, f->h.wire->len - 1), len, n);
}

static void expect_miss(Fix *f, uint64_t at, uint32_t npages, uint8_t flags,
                        struct unetmm_fault *m)
{
    assert_true(fake_fault(&f->d, m));
    assert_int_equal(m->type, UNETMM_FAULT_MISS);
    assert_int_equal(m->vaddr, at);
    assert_int_equal(m->npages, npages);
    assert_int_equal(m->flags, flags);
}

/* ---- Faults ------------------------------------------------------------- */

/* Faulted in once; then it is known, like a page that is pinned. */
TEST_OF(test_first_touch, Fix *f, fix_test)
{
    struct unetmm_fault m;
    FakeSpace *s;
    FakeEp e;

    open_odp(f, &s, &e, 5);
    map_absent(s, PAGE(0), 1, FAKE_RW);
    fake_fill(s, PAGE(0), LEN, 1);
    expect_count(&f->h, odp_misses, 1, send_from(&e, PAGE(0), LEN));
    fake_expect_none(&e);
    expect_miss(f, PAGE(0), 1, 0, &m);
    assert_int_equal(fake_resolve(&f->d, &m, 1, NULL), UNETMM_CS_OK);
    expect_sent(f, &e, PAGE(0), LEN, 1);
    expect_count(&f->h, odp_misses, 0,
    expect_count(&f->h, cache_misses, 0,
                 send_from(&e, PAGE(0), LEN)));
    expect_sent(f, &e, PAGE(0), LEN, 1);
    fix_no_fault(f);
}

/* No table reaches the address yet: the driver makes one. */
TEST_OF(test_no_table, Fix *f, fix_test)
{
    struct unetmm_fault m;
    FakeSpace *s;
    FakeEp e;

    open_odp(f, &s, &e, 4);
    send_from(&e, PAGE(0), LEN);
    expect_miss(f, PAGE(0), 1, 0, &m);
    fake_map(s, PAGE(0), FAKE_PAGE, FAKE_RW);
    fake_fill(s, PAGE(0), LEN, 1);
    assert_int_equal(fake_resolve(&f->d, &m, 1, NULL), UNETMM_CS_OK);
    expect_sent(f, &e, PAGE(0), LEN, 1);
}

/* All that is left of the segment, whatever of it is there, and fault-batch. */
TEST_OF(test_whole_segment, Fix *f, fix_test_with, batch_of_two)
{
    struct unetmm_fault m;
    FakeSpace *s;
    FakeEp e;

    open_odp(f, &s, &e, 4);
    map_absent(s, PAGE(0), 12, FAKE_RW);
    fake_fill(s, PAGE(0), 12 * FAKE_PAGE, 1);
    assert_int_equal(fake_insert(s, PAGE(0), 2, NULL), UNETMM_CS_OK);
    assert_int_equal(fake_insert(s, PAGE(4), 1, NULL), UNETMM_CS_OK);
    expect_count(&f->h, odp_misses, 1, send_from(&e, PAGE(0), 12 * FAKE_PAGE));
    expect_miss(f, PAGE(2), 10, 0, &m);
    assert_int_equal(fake_resolve(&f->d, &m, 10, NULL), UNETMM_CS_OK);
    expect_sent(f, &e, PAGE(0), 12 * FAKE_PAGE, 1);
    fix_no_fault(f);
}

/* A driver that brings less is asked for the rest. */
TEST_OF(test_part_of_it, Fix *f, fix_test)
{
    struct unetmm_fault m;
    FakeSpace *s;
    FakeEp e;

    open_odp(f, &s, &e, 4);
    map_absent(s, PAGE(0), 5, FAKE_RW);
    fake_fill(s, PAGE(0), 5 * FAKE_PAGE, 1);
    send_from(&e, PAGE(0), 5 * FAKE_PAGE);
    expect_miss(f, PAGE(0), 5, 0, &m);
    assert_int_equal(fake_resolve(&f->d, &m, 3, NULL), UNETMM_CS_OK);
    expect_miss(f, PAGE(3), 2, 0, &m);
    /* An answer that is not true: the card looks, and asks again. */
    assert_int_equal(fake_reply(&f->d, &m, UNETMM_REPLY_RESOLVED, 0),
                     UNETMM_CS_OK);
    expect_miss(f, PAGE(3), 2, 0, &m);
    assert_int_equal(fake_resolve(&f->d, &m, 2, NULL), UNETMM_CS_OK);
    expect_sent(f, &e, PAGE(0), 5 * FAKE_PAGE, 1);
}

/* Answers bring no pages. */
TEST_OF(test_list_refused, Fix *f, fix_test)
{
    struct unetmm_fault m;
    FakeSpace *s;
    FakeEp e;

    open_odp(f, &s, &e, 4);
    map_absent(s, PAGE(0), 1, FAKE_RW);
    send_from(&e, PAGE(0), LEN);
    expect_miss(f, PAGE(0), 1, 0, &m);
    assert_int_equal(fake_command(&f->d, (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_FAULT_REPLY, .space = s->id,
        .reply = { .fault_id = m.fault_id, .vaddr = m.vaddr, .npages = 1,
                   .list = f->d.list },
    }, NULL), UNETMM_CS_BAD_ARG);
    assert_int_equal(fake_reply(&f->d, &m, UNETMM_REPLY_ERROR,
                                UNETMM_ST_PROTECTION), UNETMM_CS_OK);
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_PROTECTION, PAGE(0));
}

/* A read-only page serves sends; a buffer there is asked for. */
TEST_OF(test_read_only, Fix *f, fix_test)
{
    struct unetmm_fault m;
    FakeSpace *s;
    FakeEp e;

    open_odp(f, &s, &e, 4);
    fake_map(s, PAGE(0), FAKE_PAGE, FAKE_R);
    fake_fill(s, PAGE(0), LEN, 1);
    send_from(&e, PAGE(0), LEN);
    expect_sent(f, &e, PAGE(0), LEN, 1);
    fix_no_fault(f);
    fake_post(&e, PAGE(0), FAKE_PAGE, 7);
    fake_ring_bell(&e);
    expect_miss(f, PAGE(0), 1, UNETMM_FAULT_F_WRITE | UNETMM_FAULT_F_HEAD,
                &m);
    /* Copied, in place of the old one, which the card still has cached. */
    fake_invalidate(s, PAGE(0), FAKE_PAGE);
    fake_vpage(s, PAGE(0))->rights = FAKE_RW;
    assert_int_equal(fake_resolve(&f->d, &m, 1, NULL), UNETMM_CS_OK);
    fix_receive(f, &e, LEN, 5);
    fake_expect(&e, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 7);
    fake_check(s, PAGE(0), LEN, 5);
    fix_no_fault(f);
}

TEST_OF(test_bus_refuses, Fix *f, fix_test)
{
    FakeSpace *s;
    FakeEp e;

    open_odp(f, &s, &e, 4);
    fake_map(s, PAGE(0), FAKE_PAGE, FAKE_RW);
    f->h.refuse_first = fake_table_at(s, PAGE(0));
    f->h.refuse_last = f->h.refuse_first + 7;
    expect_count(&f->h, err_dma, 1, send_from(&e, PAGE(0), LEN));
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_PROTECTION, PAGE(0));
}

/* ---- Invalidation ------------------------------------------------------- */

/* A page that has gone is not read, though the card had it; nor its new place. */
TEST_OF(test_invalidated, Fix *f, fix_test)
{
    struct unetmm_fault m;
    FakeSpace *s;
    FakeEp e;

    open_odp(f, &s, &e, 4);
    fake_map(s, PAGE(0), 2 * FAKE_PAGE, FAKE_RW);
    fake_fill(s, PAGE(0), 2 * FAKE_PAGE, 1);
    send_from(&e, PAGE(0), 2 * FAKE_PAGE);
    expect_sent(f, &e, PAGE(0), 2 * FAKE_PAGE, 1);
    expect_count(&f->h, tlb_invalidated, 1,
                 assert_false(fake_invalidate(s, PAGE(1), FAKE_PAGE)));
    /* It comes back elsewhere. */
    fake_vpage(s, PAGE(1))->dma = fake_page(&f->h);
    fake_fill(s, PAGE(0), 2 * FAKE_PAGE, 2);
    send_from(&e, PAGE(0), 2 * FAKE_PAGE);
    expect_miss(f, PAGE(1), 1, 0, &m);
    assert_int_equal(fake_resolve(&f->d, &m, 1, NULL), UNETMM_CS_OK);
    expect_sent(f, &e, PAGE(0), 2 * FAKE_PAGE, 2);
}

/* INV waits for the page that is moving, and for no other. */
TEST_OF(test_busy_while_moving, Fix *f, fix_test_with, slow)
{
    struct unetmm_fault m;
    FakeSpace *s;
    FakeEp e;

    open_odp(f, &s, &e, 4);
    fake_map(s, PAGE(0), 2 * FAKE_PAGE, FAKE_RW);
    fake_fill(s, PAGE(0), 2 * FAKE_PAGE, 1);
    send_from(&e, PAGE(0), 2 * FAKE_PAGE);
    fake_advance(&f->h, NS / 2);
    assert_false(fake_invalidate(s, PAGE(1), FAKE_PAGE));
    assert_true(fake_invalidate(s, PAGE(0), FAKE_PAGE));
    fake_advance(&f->h, NS / 2);
    assert_int_equal(fake_reg(&f->h, UNETMM_REG_INV_CTRL) & UNETMM_INV_BUSY,
                     0);
    expect_miss(f, PAGE(1), 1, 0, &m);
    assert_int_equal(fake_resolve(&f->d, &m, 1, NULL), UNETMM_CS_OK);
    fake_advance(&f->h, NS);
    expect_sent(f, &e, PAGE(0), 2 * FAKE_PAGE, 1);
}

/* A transfer that waits for a fault has no page: an INV ends at once. */
TEST_OF(test_stalled_holds_nothing, Fix *f, fix_test_with, slow)
{
    struct unetmm_fault m;
    FakeSpace *s;
    FakeEp e;

    open_odp(f, &s, &e, 4);
    map_absent(s, PAGE(0), 2, FAKE_RW);
    fake_fill(s, PAGE(0), 2 * FAKE_PAGE, 1);
    assert_int_equal(fake_insert(s, PAGE(0), 1, NULL), UNETMM_CS_OK);
    send_from(&e, PAGE(0), 2 * FAKE_PAGE);
    fake_advance(&f->h, NS);
    expect_miss(f, PAGE(1), 1, 0, &m);
    assert_false(fake_invalidate(s, PAGE(0), 2 * FAKE_PAGE));
    assert_int_equal(fake_resolve(&f->d, &m, 1, NULL), UNETMM_CS_OK);
    fake_advance(&f->h, NS);
    /* The first page had been read before it went. */
    expect_sent(f, &e, PAGE(0), 2 * FAKE_PAGE, 1);
    fix_no_fault(f);
}

/* A buffer that was ready is asked for again, before anything arrives. */
TEST_OF(test_head_invalidated, Fix *f, fix_test)
{
    uint8_t flags = UNETMM_FAULT_F_WRITE | UNETMM_FAULT_F_HEAD;
    struct unetmm_fault m;
    FakeSpace *s;
    FakeEp e;

    open_odp(f, &s, &e, 4);
    map_absent(s, PAGE(0), 3, FAKE_RW);
    fake_post(&e, PAGE(0), 3 * FAKE_PAGE, 7);
    fake_ring_bell(&e);
    expect_miss(f, PAGE(0), 3, flags, &m);
    assert_int_equal(fake_resolve(&f->d, &m, 3, NULL), UNETMM_CS_OK);
    fake_invalidate(s, PAGE(1), FAKE_PAGE);
    fake_ring_bell(&e);
    expect_miss(f, PAGE(1), 2, flags, &m);
    assert_int_equal(fake_resolve(&f->d, &m, 2, NULL), UNETMM_CS_OK);
    fix_receive(f, &e, 3 * FAKE_PAGE, 4);
    fake_expect(&e, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 7);
    fake_check(s, PAGE(0), 3 * FAKE_PAGE, 4);
}

/* ---- The cache ---------------------------------------------------------- */

/* An entry that has fallen out is in the table still: no miss. */
TEST_OF(test_pushed_out, Fix *f, fix_test)
{
    FakeSpace *s;
    FakeEp e;

    open_odp(f, &s, &e, 4);
    fake_map(s, PAGE(0), PUSHED * FAKE_PAGE, FAKE_RW);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < PUSHED; i++) {
            fake_fill(s, PAGE(i), LEN, i);
            send_from(&e, PAGE(i), LEN);
            expect_sent(f, &e, PAGE(i), LEN, i);
        }
    }
    fix_no_fault(f);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_cache_misses),
                     2 * PUSHED);
    /* No eviction is told: the driver has the table. */
    assert_int_equal(fake_counter(&f->h, UNETMM_C_tlb_evictions), 0);
    assert_false(fake_invalidate(s, PAGE(0), PUSHED * FAKE_PAGE));
}

/* Two wait for one page: one report, and both go on. */
TEST_OF(test_joined, Fix *f, fix_test)
{
    struct unetmm_fault m;
    FakeSpace *s;
    FakeEp e, g;

    open_odp(f, &s, &e, 4);
    fake_ep_open(&g, &f->d, 4, s);
    fake_connect_peer(&g, FIX_WIRE, 14, FIX_MTU);
    map_absent(s, PAGE(0), 6, FAKE_RW);
    fake_fill(s, PAGE(0), 6 * FAKE_PAGE, 1);
    send_from(&e, PAGE(0), 6 * FAKE_PAGE);
    expect_count(&f->h, faults_joined, 1, send_from(&g, PAGE(0), LEN));
    expect_miss(f, PAGE(0), 6, 0, &m);
    fix_no_fault(f);
    assert_int_equal(fake_resolve(&f->d, &m, 6, NULL), UNETMM_CS_OK);
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_OK, PAGE(0));
    fake_expect(&g, UNETMM_CQE_SENT, UNETMM_ST_OK, PAGE(0));
}
