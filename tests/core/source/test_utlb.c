/*
 * unetmm: source utlb: entries fetched with their neighbours
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fixture.h"

#define VA      0x40000000ull   /* page 0 of a leaf table */
#define PAGE(n) (VA + (uint64_t)(n) * FAKE_PAGE)

static void open_utlb(Fix *f, FakeSpace **s, FakeEp *ep, uint8_t levels)
{
    *s = fake_space(&f->d, 3, UNETMM_SOURCE_UTLB, levels);
    fake_ep_open(ep, &f->d, 3, *s);
    fake_connect_peer(ep, FIX_WIRE, 13, FIX_MTU);
}

static void expect_last_frame(Fix *f, uint32_t len, uint32_t n)
{
    fake_check_frame(fake_wire_at(&f->h, f->h.wire->len - 1), len, n);
}

static void expect_nobody_asked(Fix *f)
{
    assert_int_equal(f->d.ring[UNETMM_RING_FAULT].index, 0);
    assert_int_equal(f->h.interrupts[UNETMM_VEC_FAULT], 0);
}

/* The address of the leaf table for `at`, as the driver would find it. */
static uint64_t leaf_of(FakeSpace *s, uint64_t at)
{
    uint64_t table = s->table;

    for (int level = s->levels - 1; level > 0; level--) {
        uint64_t entry;

        fake_read(s->driver->host, table + (at >> (12 + 9 * level) & 511) * 8,
                  &entry, 8);
        table = le64_to_cpu(entry) & UNETMM_PTE_ADDR;
    }
    return table;
}

/* The card's reads of one leaf table. */
static struct {
    uint64_t leaf;
    unsigned reads;
    uint64_t first;             /* index of the first entry of the last read */
    size_t entries;
} watch;

static void watch_read(FakeHost *host, uint64_t addr, size_t bytes)
{
    if (addr >= watch.leaf && addr < watch.leaf + FAKE_PAGE) {
        watch.reads++;
        watch.first = (addr - watch.leaf) / 8;
        watch.entries = bytes / 8;
    }
}

static void watch_start(Fix *f, FakeSpace *s, uint64_t at)
{
    watch.leaf = leaf_of(s, at);
    watch.reads = 0;
    f->h.on_read = watch_read;
}

/* ---- Neighbours --------------------------------------------------------- */

TEST_OF(test_neighbours, Fix *f, fix_test)
{
    FakeSpace *s;
    FakeEp e;

    open_utlb(f, &s, &e, 4);
    fake_map(s, PAGE(0), 32 * FAKE_PAGE, FAKE_RW);
    for (unsigned i = 0; i < 32; i++) {
        fake_fill(s, PAGE(i), 100, i);
    }
    watch_start(f, s, PAGE(0));
    expect_count(&f->h, cache_misses, 1,
    expect_count(&f->h, cache_hits, 0,
    expect_count(&f->h, utlb_fetches, 1,
    expect_count(&f->h, utlb_fetched, 8,
                 fix_expect_send(f, &e, PAGE(11), 100, UNETMM_ST_OK)))));
    expect_last_frame(f, 100, 11);
    /* One read, of the aligned group and nothing else. */
    assert_int_equal(watch.reads, 1);
    assert_int_equal(watch.first, 8);
    assert_int_equal(watch.entries, 8);
    for (unsigned i = 8; i < 16; i++) {
        expect_count(&f->h, cache_misses, 0,
        expect_count(&f->h, cache_hits, 1,
        expect_count(&f->h, utlb_neighbours, i != 11,
                     fix_expect_send(f, &e, PAGE(i), 100, UNETMM_ST_OK))));
        expect_last_frame(f, 100, i);
    }
    assert_int_equal(watch.reads, 1);
    /* Each is counted as needed once. */
    expect_count(&f->h, utlb_neighbours, 0,
                 fix_expect_send(f, &e, PAGE(9), 100, UNETMM_ST_OK));
    expect_count(&f->h, cache_misses, 1,
                 fix_expect_send(f, &e, PAGE(7), 100, UNETMM_ST_OK));
    assert_int_equal(watch.first, 0);
    expect_nobody_asked(f);
}

/* Free buffers fill the cache like sends do, with the right to write. */
TEST_OF(test_receive, Fix *f, fix_test)
{
    FakeSpace *s;
    FakeEp e;

    open_utlb(f, &s, &e, 4);
    fake_map(s, PAGE(0), 16 * FAKE_PAGE, FAKE_RW);
    expect_count(&f->h, utlb_fetches, 2, {
        fake_post(&e, PAGE(0) + 50, 16 * FAKE_PAGE - 50, 1);
        fake_ring_bell(&e);
    });
    fix_receive(f, &e, 60000, 5);
    fake_expect(&e, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
    fake_check(s, PAGE(0) + 50, 60000, 5);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_utlb_neighbours), 14);
    expect_nobody_asked(f);
}

static void set_fetch(UnetmmParams *p, uint32_t n)
{
    p->utlb_fetch = n;
}

/* The first and the last entry of a leaf table, at both of its ends. */
static void check_edges(uint32_t group, uint8_t levels)
{
    uint64_t end = levels == 6 ? UINT64_MAX : (1ull << (12 + 9 * levels)) - 1;
    const uint64_t at[] = { 0, 511 * FAKE_PAGE, (end - FAKE_PAGE) + 1,
                            levels > 1 ? 512 * FAKE_PAGE : 0 };
    UnetmmParams p;
    FakeSpace *s;
    FakeEp e;
    Fix f = { 0 };

    fake_params(&p);
    set_fetch(&p, group);
    fake_host_init(&f.h, &p);
    fake_driver_init(&f.d, &f.h);
    fake_driver_start(&f.d);
    open_utlb(&f, &s, &e, levels);
    for (unsigned i = 0; i < G_N_ELEMENTS(at); i++) {
        if (!fake_vpage(s, at[i])) {
            fake_map(s, at[i], FAKE_PAGE, FAKE_RW);
        }
        fake_fill(s, at[i], FAKE_PAGE, i);
        watch_start(&f, s, at[i]);
        fix_expect_send(&f, &e, at[i], FAKE_PAGE, UNETMM_ST_OK);
        expect_last_frame(&f, FAKE_PAGE, i);
        if (watch.reads) {
            assert_int_equal(watch.entries, group);
            assert_int_equal(watch.first, at[i] / FAKE_PAGE % 512 & -group);
        } else {
            /* It came as a neighbour, or is the page of a turn before. */
            assert_true(levels == 1);
        }
    }
    /* A table of less than 64 bits ends where it ends. */
    if (levels < 6) {
        fix_expect_send(&f, &e, end + 1, 8, UNETMM_ST_PROTECTION);
    }
    fake_driver_free(&f.d);
    fake_host_free(&f.h);
}

TEST(test_edges, cmocka_unit_test)
{
    for (uint32_t group = 1; group <= UNETMM_MAX_UTLB_FETCH; group *= 2) {
        for (uint8_t levels = 1; levels <= UNETMM_TABLE_LEVELS; levels++) {
            check_edges(group, levels);
        }
    }
}

/* ---- Associativity ------------------------------------------------------- */

/* Pages of one set in turn: as many as it has ways stay, one more never. */
static void check_ways(uint32_t ways)
{
    UnetmmParams p;
    FakeSpace *s;
    FakeEp e;
    Fix f = { 0 };

    fake_params(&p);
    set_fetch(&p, 1);
    p.cache_ways = ways;
    fake_host_init(&f.h, &p);
    fake_driver_init(&f.d, &f.h);
    fake_driver_start(&f.d);
    open_utlb(&f, &s, &e, 4);
    for (uint32_t n = ways; n <= ways + 1; n++) {
        for (uint32_t i = 0; i < 3 * n; i++) {
            uint64_t at = PAGE(i % n * (p.cache_entries / ways));
            bool fetched = n > ways || i < n;

            if (!fake_vpage(s, at)) {
                fake_map(s, at, FAKE_PAGE, FAKE_RW);
            }
            /* Of the first round with one page more, the others are there. */
            if (n == ways || i >= n) {
                expect_count(&f.h, utlb_fetches, fetched,
                             fix_expect_send(&f, &e, at, 100, UNETMM_ST_OK));
            } else {
                fix_expect_send(&f, &e, at, 100, UNETMM_ST_OK);
            }
        }
    }
    fake_driver_free(&f.d);
    fake_host_free(&f.h);
}

TEST(test_ways, cmocka_unit_test)
{
    for (uint32_t ways = 1; ways <= UNETMM_MAX_CACHE_WAYS; ways *= 2) {
        check_ways(ways);
    }
}

/* ---- Values of the table ------------------------------------------------- */

/* Each neighbour's value counts for that neighbour alone. */
TEST_OF(test_forged, Fix *f, fix_test)
{
    FakeSpace *s;
    FakeEp e;

    open_utlb(f, &s, &e, 4);
    fake_map(s, PAGE(0), 2 * FAKE_PAGE, FAKE_RW);
    fake_fill(s, PAGE(0), 2 * FAKE_PAGE, 1);
    /* Not valid, whatever else is set; valid without a right; only to be
     * written; an address that is none; reserved bits. */
    fake_table_set(s, PAGE(2), fake_vpage(s, PAGE(0))->dma | 0xffe);
    fake_table_set(s, PAGE(3), fake_vpage(s, PAGE(0))->dma | UNETMM_PTE_VALID);
    fake_table_set(s, PAGE(4), fake_vpage(s, PAGE(0))->dma | 5);
    fake_table_set(s, PAGE(5), 0xffffffffffffffffull);
    fake_table_set(s, PAGE(6), 0x5000 | 7);
    fake_table_set(s, PAGE(7), fake_vpage(s, PAGE(1))->dma | 0xfff);
    expect_count(&f->h, utlb_fetched, 6,
                 fix_expect_send(f, &e, PAGE(0), 100, UNETMM_ST_OK));
    fix_expect_send(f, &e, PAGE(2), 100, UNETMM_ST_PROTECTION);
    fix_expect_send(f, &e, PAGE(3), 100, UNETMM_ST_PROTECTION);
    fix_expect_send(f, &e, PAGE(4), 100, UNETMM_ST_PROTECTION);
    fix_expect_send(f, &e, PAGE(5), 100, UNETMM_ST_DMA);
    fix_expect_send(f, &e, PAGE(6), 100, UNETMM_ST_DMA);
    expect_count(&f->h, cache_misses, 0,
                 fix_expect_send(f, &e, PAGE(7), 100, UNETMM_ST_OK));
    fake_post(&e, PAGE(3), 100, 3);
    fake_ring_bell(&e);
    fake_expect(&e, UNETMM_CQE_BUFFER, UNETMM_ST_PROTECTION, 3);
    expect_nobody_asked(f);
}

/* Directories that lead nowhere; a group of which the bus refuses a part. */
TEST_OF(test_bad_tables, Fix *f, fix_test)
{
    uint64_t pte = cpu_to_le64(0x10000 | UNETMM_PTE_VALID);
    FakeSpace *s;
    FakeEp e;

    open_utlb(f, &s, &e, 3);
    fake_map(s, PAGE(0), FAKE_PAGE, FAKE_RW);
    fake_write(&f->h, s->table + 16, &pte, 8);
    expect_count(&f->h, err_dma, 1,
    expect_count(&f->h, utlb_fetches, 0,
                 fix_expect_send(f, &e, 2ull << 30, 100, UNETMM_ST_PROTECTION)));
    f->h.refuse_first = f->h.refuse_last = leaf_of(s, PAGE(0)) + 63;
    expect_count(&f->h, utlb_fetched, 0,
                 fix_expect_send(f, &e, PAGE(0), 100, UNETMM_ST_PROTECTION));
    f->h.refuse_first = 1;
    f->h.refuse_last = 0;
    fix_expect_send(f, &e, PAGE(0), 100, UNETMM_ST_OK);
}

/* Each entry is read once: a value that changes meanwhile is not used. */
static void change_group(FakeHost *host, uint64_t addr, size_t bytes)
{
    uint8_t zero[64] = { 0 };

    if (addr == watch.leaf && bytes == sizeof(zero)) {
        fake_write(host, addr, zero, sizeof(zero));
    }
}

TEST_OF(test_read_once, Fix *f, fix_test)
{
    FakeSpace *s;
    FakeEp e;

    open_utlb(f, &s, &e, 4);
    fake_map(s, PAGE(0), 8 * FAKE_PAGE, FAKE_RW);
    watch_start(f, s, PAGE(0));
    f->h.on_read = change_group;
    expect_count(&f->h, utlb_fetched, 8,
                 fix_expect_send(f, &e, PAGE(3), 100, UNETMM_ST_OK));
    fix_expect_send(f, &e, PAGE(4), 100, UNETMM_ST_OK);
}

TEST_OF(test_absent, Fix *f, fix_test)
{
    FakeSpace *s;
    FakeEp e;

    open_utlb(f, &s, &e, 4);
    fake_map(s, PAGE(1), FAKE_PAGE, FAKE_RW);
    fake_map(s, PAGE(2), FAKE_PAGE, FAKE_R);
    /* No table at all; a table, but no entry; a second page without one. */
    fix_expect_send(f, &e, 0x1000, 100, UNETMM_ST_PROTECTION);
    fix_expect_send(f, &e, 0x123456789000, 100, UNETMM_ST_PROTECTION);
    fix_expect_send(f, &e, PAGE(0), 100, UNETMM_ST_PROTECTION);
    fix_expect_send(f, &e, PAGE(2) + 4000, 100, UNETMM_ST_PROTECTION);
    fake_post(&e, PAGE(0), 100, 1);
    fake_post(&e, PAGE(2), 100, 2);
    fake_post(&e, PAGE(1), 100, 3);
    fake_ring_bell(&e);
    fake_expect(&e, UNETMM_CQE_BUFFER, UNETMM_ST_PROTECTION, 1);
    fake_expect(&e, UNETMM_CQE_BUFFER, UNETMM_ST_PROTECTION, 2);
    fix_receive(f, &e, 100, 9);
    fake_expect(&e, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 3);
    expect_nobody_asked(f);
    /* An absent page is not remembered as absent. */
    fake_map(s, PAGE(0), FAKE_PAGE, FAKE_RW);
    fix_expect_send(f, &e, PAGE(0), 100, UNETMM_ST_OK);
}

/* ---- Invalidation ------------------------------------------------------- */

static void unpin(Fix *f, FakeSpace *s, uint64_t at)
{
    fake_table_set(s, at, 0);
    assert_false(fake_invalidate(s, at, FAKE_PAGE));
    fake_rights(&f->h, fake_vpage(s, at)->dma, FAKE_PAGE, 0);
}

TEST_OF(test_invalidate, Fix *f, fix_test)
{
    FakeSpace *s;
    FakeEp e;
    uint64_t other;

    open_utlb(f, &s, &e, 4);
    fake_map(s, PAGE(0), 8 * FAKE_PAGE, FAKE_RW);
    fix_expect_send(f, &e, PAGE(0), 100, UNETMM_ST_OK);
    /* A neighbour that nobody has used yet is as cached as any other. */
    unpin(f, s, PAGE(3));
    fix_expect_send(f, &e, PAGE(3), 100, UNETMM_ST_PROTECTION);
    other = fake_page(&f->h);
    fake_rights(&f->h, other, FAKE_PAGE, FAKE_R);
    fake_vpage(s, PAGE(3))->dma = other;
    fake_table_set(s, PAGE(3), other | 3);
    fake_fill(s, PAGE(3), 100, 7);
    /* The rest of the group is still there, unchanged. */
    expect_count(&f->h, utlb_fetched, 1,
                 fix_expect_send(f, &e, PAGE(3), 100, UNETMM_ST_OK));
    expect_last_frame(f, 100, 7);
    expect_count(&f->h, utlb_neighbours, 0,
                 fix_expect_send(f, &e, PAGE(0), 100, UNETMM_ST_OK));
    expect_count(&f->h, cache_misses, 0,
    expect_count(&f->h, utlb_neighbours, 1,
                 fix_expect_send(f, &e, PAGE(4), 100, UNETMM_ST_OK)));
    /* Another space's, another range's: nothing of this goes. */
    fake_invalidate(f->s1, 0, 1ull << 47);
    fake_invalidate(s, PAGE(8), 1 << 20);
    expect_count(&f->h, cache_misses, 0,
                 fix_expect_send(f, &e, PAGE(5), 100, UNETMM_ST_OK));
}

/* The same address in two processes: each has its own page, or none. */
TEST_OF(test_two_spaces, Fix *f, fix_test)
{
    FakeSpace *s, *t = fake_space(&f->d, 4, UNETMM_SOURCE_UTLB, 4);
    FakeEp e, g;

    open_utlb(f, &s, &e, 4);
    fake_ep_open(&g, &f->d, 4, t);
    fake_connect_peer(&g, FIX_WIRE, 14, FIX_MTU);
    fake_map(s, PAGE(0), 8 * FAKE_PAGE, FAKE_RW);
    fake_map(t, PAGE(4), FAKE_PAGE, FAKE_RW);
    fake_fill(s, PAGE(4), 100, 1);
    fake_fill(t, PAGE(4), 100, 2);
    fix_expect_send(f, &e, PAGE(4), 100, UNETMM_ST_OK);
    expect_last_frame(f, 100, 1);
    fix_expect_send(f, &g, PAGE(4), 100, UNETMM_ST_OK);
    expect_last_frame(f, 100, 2);
    for (unsigned i = 0; i < 8; i++) {
        fix_expect_send(f, &g, PAGE(i), 100, i == 4 ? UNETMM_ST_OK :
                        UNETMM_ST_PROTECTION);
    }
}

/* ---- A cache under stress ----------------------------------------------- */

static void slow(UnetmmParams *p)
{
    p->dma_page_ns = 1000;
    p->endpoints = 12;
}

/*
 * All four ways of set 1 are in use: a neighbour that belongs there is not
 * kept, a demand waits for one to be released, and no
 * holder of one notices.
 */
TEST_OF(test_all_in_use, Fix *f, fix_test_with, slow)
{
    FakeSpace *s = fake_space(&f->d, 3, UNETMM_SOURCE_UTLB, 4);
    FakeEp e[6];

    fake_map(s, PAGE(0), 96 * FAKE_PAGE, FAKE_RW);
    fake_fill(s, PAGE(0), 96 * FAKE_PAGE, 1);
    for (unsigned i = 0; i < 6; i++) {
        fake_ep_open(&e[i], &f->d, 3 + i, s);
        fake_connect_peer(&e[i], FIX_WIRE, 13, FIX_MTU);
    }
    for (unsigned i = 0; i < 4; i++) {
        fake_send_at(&e[i], FIX_WIRE, PAGE(16 * i + 1), 100, i);
        fake_ring_bell(&e[i]);
    }
    expect_count(&f->h, utlb_fetched, 7, {
        fake_send_at(&e[4], FIX_WIRE, PAGE(64), 100, 4);
        fake_ring_bell(&e[4]);
    });
    expect_count(&f->h, utlb_fetched, 0, {
        fake_send_at(&e[5], FIX_WIRE, PAGE(81), 100, 5);
        fake_ring_bell(&e[5]);
    });
    fake_advance(&f->h, 1000);
    assert_int_equal(f->h.wire->len, 5);
    fake_advance(&f->h, 1000);
    assert_int_equal(f->h.wire->len, 6);
    for (unsigned i = 0; i < 6; i++) {
        fake_expect(&e[i], UNETMM_CQE_SENT, UNETMM_ST_OK, i);
    }
    expect_nobody_asked(f);
}

static void wide(UnetmmParams *p)
{
    set_fetch(p, 32);
}

/* More pages than the cache has entries, half of it refilled by each miss. */
TEST_OF(test_thrash, Fix *f, fix_test_with, wide)
{
    uint8_t expected[60000];
    FakeSpace *s;
    FakeEp e;

    open_utlb(f, &s, &e, 4);
    fake_map(s, PAGE(0), 200 * FAKE_PAGE, FAKE_RW);
    fake_fill(s, PAGE(0), 200 * FAKE_PAGE, 1);
    for (unsigned i = 0; i < 13; i++) {
        fix_expect_send(f, &e, PAGE(0) + i * 60000, 60000, UNETMM_ST_OK);
        fake_load(s, PAGE(0) + i * 60000, expected, 60000);
        assert_memory_equal(fake_wire_at(&f->h, i)->data + 64, expected,
                            60000);
    }
    /* The largest buffer that the cache can hold, askew to the groups. */
    fake_post(&e, PAGE(5), 64 * FAKE_PAGE, 1);
    fake_post(&e, PAGE(5) + 1, 64 * FAKE_PAGE, 2);
    fake_ring_bell(&e);
    fix_receive(f, &e, 65536, 5);
    fake_expect(&e, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
    fake_expect(&e, UNETMM_CQE_BUFFER, UNETMM_ST_TOO_LARGE, 2);
    fake_check(s, PAGE(5), 65536, 5);
}

static void slow_wide(UnetmmParams *p)
{
    slow(p);
    wide(p);
}

/* An invalidation of any page that a message is landing in is noticed. */
TEST_OF(test_landing, Fix *f, fix_test_with, slow_wide)
{
    FakeSpace *s;
    FakeEp e;

    open_utlb(f, &s, &e, 4);
    fake_map(s, PAGE(0), 80 * FAKE_PAGE, FAKE_RW);
    fake_post(&e, PAGE(3), 40 * FAKE_PAGE, 1);
    fake_ring_bell(&e);
    fix_receive(f, &e, 65536, 5);
    for (unsigned i = 0; i < 16; i++) {
        assert_true(fake_invalidate(s, PAGE(3 + i), FAKE_PAGE));
        fake_advance(&f->h, 1000);
        assert_int_equal(fake_reg(&f->h, UNETMM_REG_INV_CTRL), 0);
        if (i < 15) {
            fake_expect_none(&e);
        }
    }
    fake_expect(&e, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
    fake_check(s, PAGE(3), 65536, 5);
}

/* ---- Any order of all of it --------------------------------------------- */

#define SOME    160

static void repin(Fix *f, FakeSpace *s, unsigned page, uint32_t n)
{
    FakeVpage *v = fake_vpage(s, PAGE(page));

    fake_rights(&f->h, v->dma, FAKE_PAGE, FAKE_RW);
    fake_table_set(s, PAGE(page), v->dma | 7);
    fake_fill(s, PAGE(page), FAKE_PAGE, n);
}

/* Two pages at most: sent as they are now if both are pinned, else refused. */
static void any_send(Fix *f, FakeSpace *s, FakeEp *e, const bool *pinned,
                     uint64_t *random)
{
    unsigned page = fake_random(random) % (SOME - 1);
    uint32_t offset = fake_random(random) % FAKE_PAGE;
    uint32_t len = 1 + fake_random(random) % FAKE_PAGE;
    bool two = offset + len > FAKE_PAGE;
    uint8_t expected[FAKE_PAGE];

    if (!pinned[page] || (two && !pinned[page + 1])) {
        fix_expect_send(f, e, PAGE(page) + offset, len, UNETMM_ST_PROTECTION);
        return;
    }
    fix_expect_send(f, e, PAGE(page) + offset, len, UNETMM_ST_OK);
    fake_load(s, PAGE(page) + offset, expected, len);
    assert_memory_equal(fake_wire_at(&f->h, 0)->data + 64, expected, len);
    fake_wire_clear(&f->h);
}

static void any_receive(Fix *f, FakeSpace *s, FakeEp *e, const bool *pinned,
                        uint64_t *random)
{
    unsigned page = fake_random(random) % SOME;
    uint32_t n = fake_random(random);

    fake_post(e, PAGE(page), FAKE_PAGE, page);
    fake_ring_bell(e);
    if (!pinned[page]) {
        fake_expect(e, UNETMM_CQE_BUFFER, UNETMM_ST_PROTECTION, page);
        return;
    }
    fix_receive(f, e, FAKE_PAGE, n);
    fake_expect(e, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, page);
    fake_check(s, PAGE(page), FAKE_PAGE, n);
}

ALSO(test_any_order, fix_test_with, wide)
TEST_OF(test_any_order, Fix *f, fix_test)
{
    uint64_t random = fake_seed();
    bool pinned[SOME] = { false };
    FakeSpace *s;
    FakeEp e;

    open_utlb(f, &s, &e, 4);
    f->h.core.knobs.force_evict = f->h.core.knobs.force_miss = 50000;
    fake_map(s, PAGE(0), SOME * FAKE_PAGE, FAKE_RW);
    for (unsigned i = 0; i < SOME; i++) {
        unpin(f, s, PAGE(i));
    }
    for (unsigned i = 0; i < 4000; i++) {
        unsigned page = fake_random(&random) % SOME;

        switch (fake_random(&random) % 5) {
        case 0:
            if (pinned[page]) {
                unpin(f, s, PAGE(page));
            } else {
                repin(f, s, page, i);
            }
            pinned[page] = !pinned[page];
            break;
        case 1:
            any_receive(f, s, &e, pinned, &random);
            break;
        default:
            any_send(f, s, &e, pinned, &random);
            break;
        }
    }
    assert_true(fake_counter(&f->h, UNETMM_C_utlb_neighbours) > 100);
    expect_nobody_asked(f);
}

/* ---- One-sided operations ----------------------------------------------- */

#define REL     5
#define REGION  3
#define KEY     0xc0ffeeu

static uint8_t do_op(Fix *f, FakeEp *ep, uint8_t opcode, uint64_t from,
                     uint32_t len, uint64_t offset)
{
    struct unetmm_cqe cqe;

    fake_send_sqe(ep, (struct unetmm_sqe) {
        .opcode = opcode, .nsegs = 1, .channel = REL, .cookie = from,
        .handle = 1, .remote = offset, .seg = { { from, len } },
    });
    fake_ring_bell(ep);
    for (unsigned i = 0; !fake_poll(ep, &cqe); i++) {
        assert_true(i < 100);
        fake_advance(&f->h, 100000);
    }
    assert_int_equal(cqe.opcode, UNETMM_CQE_SENT);
    assert_int_equal(cqe.cookie, from);
    return cqe.status;
}

/* Two endpoints on one reliable channel; `e` has imported a region. */
static FakeSpace *open_one_sided(Fix *f, FakeEp *e, FakeEp *peer)
{
    const struct unetmm_cmd_channel how = { .mtu = 1000, .send_psn = 1,
                                            .recv_psn = 1 };
    const uint8_t *own = f->h.core.params.mac;
    FakeSpace *s;

    open_utlb(f, &s, e, 4);
    fake_ep_open(peer, &f->d, 4, s);
    fake_map(s, PAGE(0), 32 * FAKE_PAGE, FAKE_RW);
    fake_channel_rel(e, REL, own, 4, REL, &how);
    fake_channel_rel(peer, REL, own, 3, REL, &how);
    assert_int_equal(fake_region(s, REGION, KEY, PAGE(20) + 50, 8000,
                                 UNETMM_RIGHT_ALL, 0), UNETMM_CS_OK);
    assert_int_equal(fake_import(e, 1, REL, REGION, KEY, 8000,
                                 UNETMM_RIGHT_ALL), UNETMM_CS_OK);
    return s;
}

/* Regions and operations in tables: an unpinned page is an error, at the end
 * that it is missing at, and the channel goes on. */
ALSO(test_one_sided, fix_test_with, slow)
TEST_OF(test_one_sided, Fix *f, fix_test)
{
    FakeEp e, peer;
    FakeSpace *s = open_one_sided(f, &e, &peer);

    fake_fill(s, PAGE(0) + 9, 7000, 4);
    assert_int_equal(do_op(f, &e, UNETMM_OP_WRITE, PAGE(0) + 9, 7000, 100),
                     UNETMM_ST_OK);
    fake_check(s, PAGE(20) + 150, 7000, 4);
    assert_int_equal(do_op(f, &e, UNETMM_OP_READ, PAGE(8) + 1, 7000, 100),
                     UNETMM_ST_OK);
    fake_check(s, PAGE(8) + 1, 7000, 4);
    /* The peer's */
    unpin(f, s, PAGE(21));
    assert_int_equal(do_op(f, &e, UNETMM_OP_WRITE, PAGE(0), 7000, 100),
                     UNETMM_ST_REMOTE_MEMORY);
    assert_int_equal(do_op(f, &e, UNETMM_OP_READ, PAGE(8), 7000, 100),
                     UNETMM_ST_REMOTE_MEMORY);
    repin(f, s, 21, 1);
    assert_int_equal(do_op(f, &e, UNETMM_OP_WRITE, PAGE(0) + 9, 7000, 100),
                     UNETMM_ST_OK);
    fake_check(s, PAGE(20) + 150, 7000, 4);
    /* Ours */
    unpin(f, s, PAGE(1));
    assert_int_equal(do_op(f, &e, UNETMM_OP_WRITE, PAGE(0) + 9, 7000, 100),
                     UNETMM_ST_PROTECTION);
    unpin(f, s, PAGE(9));
    assert_int_equal(do_op(f, &e, UNETMM_OP_READ, PAGE(8) + 1, 7000, 100),
                     UNETMM_ST_PROTECTION);
    repin(f, s, 1, 0);
    repin(f, s, 9, 0);
    fake_fill(s, PAGE(0) + 9, 7000, 6);
    assert_int_equal(do_op(f, &e, UNETMM_OP_WRITE, PAGE(0) + 9, 7000, 100),
                     UNETMM_ST_OK);
    assert_int_equal(do_op(f, &e, UNETMM_OP_READ, PAGE(8) + 1, 7000, 100),
                     UNETMM_ST_OK);
    fake_check(s, PAGE(8) + 1, 7000, 6);
    expect_nobody_asked(f);
}

/* ---- Entries that the driver has in hand -------------------------------- */

/* The notifier has been there; the driver will say where the page is. */
static void take_in_hand(FakeSpace *s, unsigned page)
{
    fake_table_set(s, PAGE(page), UNETMM_PTE_CHANGING);
    assert_false(fake_invalidate(s, PAGE(page), FAKE_PAGE));
}

static void give_back(FakeSpace *s, unsigned page)
{
    uint64_t dma = fake_vpage(s, PAGE(page))->dma;

    fake_rights(s->driver->host, dma, FAKE_PAGE, FAKE_RW);
    fake_table_set(s, PAGE(page), dma | UNETMM_PTE_VALID | UNETMM_PTE_READ |
                   UNETMM_PTE_WRITE);
    fake_invalidate(s, PAGE(page), FAKE_PAGE);
    fake_rights(s->driver->host, dma, FAKE_PAGE, FAKE_RW);
}

/* Or that it is nowhere. */
static void give_up(FakeSpace *s, unsigned page)
{
    fake_table_set(s, PAGE(page), 0);
    fake_invalidate(s, PAGE(page), FAKE_PAGE);
}

static void expect_nothing(FakeEp *ep)
{
    struct unetmm_cqe cqe;

    assert_false(fake_poll(ep, &cqe));
}

/* Sends wait, in their order, for as long as it takes. */
ALSO(test_changing_send, fix_test_with, slow)
TEST_OF(test_changing_send, Fix *f, fix_test)
{
    FakeSpace *s;
    FakeEp e;

    open_utlb(f, &s, &e, 4);
    fake_map(s, PAGE(0), 32 * FAKE_PAGE, FAKE_RW);
    fake_fill(s, PAGE(0), 32 * FAKE_PAGE, 3);
    take_in_hand(s, 1);
    expect_count(&f->h, changing_waits, 1, {
        fake_send_at(&e, FIX_WIRE, PAGE(0) + 4000, 200, 1);
        fake_send_at(&e, FIX_WIRE, PAGE(3), 100, 2);
        fake_ring_bell(&e);
        fake_advance(&f->h, 1000000000);
    });
    expect_nothing(&e);
    /* Neither another page's invalidation nor another space's ends that. */
    expect_count(&f->h, changing_waits, 1,
                 fake_invalidate(s, PAGE(9), FAKE_PAGE));
    expect_count(&f->h, changing_waits, 0,
                 fake_invalidate(f->s1, PAGE(1), FAKE_PAGE));
    expect_nothing(&e);
    assert_int_equal(f->h.wire->len, 0);
    give_back(s, 1);
    fake_advance(&f->h, 10000);
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    assert_int_equal(f->h.wire->len, 2);
    take_in_hand(s, 1);
    fake_send_at(&e, FIX_WIRE, PAGE(1), 100, 3);
    fake_ring_bell(&e);
    expect_nothing(&e);
    give_up(s, 1);
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_PROTECTION, 3);
    expect_nobody_asked(f);
}

/* A buffer that is touched stays where it is, and messages find none. */
TEST_OF(test_changing_buffer, Fix *f, fix_test)
{
    FakeSpace *s;
    FakeEp e;

    open_utlb(f, &s, &e, 4);
    fake_map(s, PAGE(0), 32 * FAKE_PAGE, FAKE_RW);
    fake_post(&e, PAGE(0), 3 * FAKE_PAGE, 1);
    fake_post(&e, PAGE(8), FAKE_PAGE, 2);
    fake_ring_bell(&e);
    take_in_hand(s, 2);
    expect_count(&f->h, drop_asked, 1, fix_receive(f, &e, 100, 5));
    expect_nothing(&e);
    give_back(s, 2);
    fix_receive(f, &e, 100, 6);
    fake_expect(&e, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
    fake_check(s, PAGE(0), 100, 6);
    take_in_hand(s, 8);
    expect_count(&f->h, drop_asked, 1, fix_receive(f, &e, 100, 7));
    expect_nothing(&e);
    give_up(s, 8);
    fake_expect(&e, UNETMM_CQE_BUFFER, UNETMM_ST_PROTECTION, 2);
    expect_nobody_asked(f);
}

/* Requests that wait for an entry do not wake each other for ever. */
TEST_OF(test_changing_many, Fix *f, fix_test)
{
    FakeEp e[4];
    FakeSpace *s = fake_space(&f->d, 3, UNETMM_SOURCE_UTLB, 4);
    uint64_t waits;

    fake_map(s, PAGE(0), 64 * FAKE_PAGE, FAKE_RW);
    for (unsigned i = 0; i < 4; i++) {
        fake_ep_open(&e[i], &f->d, 3 + i, s);
        fake_connect_peer(&e[i], FIX_WIRE, 13, FIX_MTU);
        take_in_hand(s, 8 * i + 2);
        fake_post(&e[i], PAGE(8 * i), 3 * FAKE_PAGE, i);
        fake_ring_bell(&e[i]);
    }
    for (unsigned i = 0; i < 4; i++) {
        fix_receive(f, &e[i], 100, i);
    }
    waits = fake_counter(&f->h, UNETMM_C_changing_waits);
    assert_true(waits <= 16);
    fake_advance(&f->h, 1000000000);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_changing_waits), waits);
    for (unsigned i = 0; i < 4; i++) {
        give_back(s, 8 * i + 2);
    }
    for (unsigned i = 0; i < 4; i++) {
        fix_receive(f, &e[i], 100, i);
        fake_expect(&e[i], UNETMM_CQE_RECEIVED, UNETMM_ST_OK, i);
    }
}

static void start_op(FakeEp *ep, uint8_t opcode, uint64_t from, uint32_t len)
{
    fake_send_sqe(ep, (struct unetmm_sqe) {
        .opcode = opcode, .nsegs = 1, .channel = REL, .cookie = from,
        .handle = 1, .remote = 100, .seg = { { from, len } },
    });
    fake_ring_bell(ep);
}

/* Whichever page of the two ends it is: the operation waits, and is done. */
ALSO(test_changing_one_sided, fix_test_with, slow)
TEST(test_changing_one_sided, fix_test)
{
    static const struct { uint8_t opcode; unsigned from, page; } cases[] = {
        { UNETMM_OP_WRITE, 0, 21 }, { UNETMM_OP_WRITE, 0, 1 },
        { UNETMM_OP_READ, 8, 21 }, { UNETMM_OP_READ, 8, 9 },
    };
    Fix *f = *state;
    FakeEp e, peer;
    FakeSpace *s = open_one_sided(f, &e, &peer);

    for (unsigned i = 0; i < 4; i++) {
        uint64_t from = PAGE(cases[i].from);
        bool write = cases[i].opcode == UNETMM_OP_WRITE;
        struct unetmm_cqe cqe;

        fake_fill(s, write ? from : PAGE(20) + 150, 7000, i);
        take_in_hand(s, cases[i].page);
        start_op(&e, cases[i].opcode, from, 7000);
        for (unsigned j = 0; j < 50; j++) {
            fake_advance(&f->h, 100000);
            expect_nothing(&e);
        }
        give_back(s, cases[i].page);
        for (unsigned j = 0; !fake_poll(&e, &cqe); j++) {
            assert_true(j < 1000);
            fake_advance(&f->h, 100000);
        }
        assert_int_equal(cqe.status, UNETMM_ST_OK);
        fake_check(s, write ? PAGE(20) + 150 : from, 7000, i);
    }
    take_in_hand(s, 21);
    start_op(&e, UNETMM_OP_WRITE, PAGE(0), 7000);
    fake_advance(&f->h, 1000000);
    expect_nothing(&e);
    give_up(s, 21);
    fake_advance(&f->h, 100000000);
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_REMOTE_MEMORY, PAGE(0));
    expect_nobody_asked(f);
}
