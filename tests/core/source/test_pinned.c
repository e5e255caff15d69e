/*
 * unetmm: source pinned: tables in host memory and the cache of their entries
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fixture.h"

static void open_pinned(Fix *f, FakeSpace **s, FakeEp *ep, uint8_t levels)
{
    *s = fake_space(&f->d, 3, UNETMM_SOURCE_PINNED, levels);
    fake_ep_open(ep, &f->d, 3, *s);
    fake_connect_peer(ep, FIX_WIRE, 13, FIX_MTU);
}

TEST(test_levels, cmocka_unit_test_teardown, fix_teardown)
{
    for (uint8_t levels = 1; levels <= UNETMM_TABLE_LEVELS; levels++) {
        uint64_t top = levels == 6 ? UINT64_MAX :
                       (1ull << (12 + 9 * levels)) - 1;
        uint64_t at = top - 3 * 4096 + 100;
        FakeSpace *s;
        Fix *f;
        FakeEp e;

        *state = NULL;
        fix_setup(state);
        f = *state;
        open_pinned(f, &s, &e, levels);
        fake_map(s, at, 8000, FAKE_RW);
        fake_map(s, 0x3000, 4096, FAKE_RW);
        fake_fill(s, at, 8000, levels);
        fake_fill(s, 0x3000, 100, 9);
        fix_expect_send(f, &e, at, 8000, UNETMM_ST_OK);
        fake_check_frame(fake_wire_at(&f->h, 0), 8000, levels);
        fix_expect_send(f, &e, 0x3000, 100, UNETMM_ST_OK);
        fake_check_frame(fake_wire_at(&f->h, 1), 100, 9);
        /* Not mapped; and, below six levels, beyond the pages that the table can
         * name: it must not be taken for the page with the same low bits. */
        fix_expect_send(f, &e, 0x5000, 100, UNETMM_ST_PROTECTION);
        if (levels < 6) {
            fix_expect_send(f, &e, top + 1 + 0x3000, 100, UNETMM_ST_PROTECTION);
            fix_expect_send(f, &e, 0x3000 | 1ull << 63, 100,
                            UNETMM_ST_PROTECTION);
        }
        fake_post(&e, at, 8000, 4);
        fake_ring_bell(&e);
        fix_receive(f, &e, 7777, 5);
        fake_expect(&e, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 4);
        fake_check(s, at, 7777, 5);
        /* No fault was ever reported. */
        assert_int_equal(f->d.ring[UNETMM_RING_FAULT].index, 0);
        if (levels < UNETMM_TABLE_LEVELS) {
            fix_teardown(state);
        }
    }
}

/* Registered memory is never absent, so nothing of it can be lost. */
TEST_OF(test_no_zero, Fix *f, fix_test)
{
    struct unetmm_fqe fqe = { .addr = 0x3000, .len = 4096, .cookie = 5,
                              .flags = UNETMM_FQE_F_ZERO };
    FakeSpace *s;
    FakeEp e;

    open_pinned(f, &s, &e, 3);
    fake_map(s, 0x3000, 4096, FAKE_RW);
    unetmm_le_fqe(&fqe);
    fake_write(&f->h, e.fq, &fqe, sizeof(fqe));
    fake_user_word(&e, offsetof(struct unetmm_ep_user, fq_prod), 1);
    fake_ring_bell(&e);
    fake_expect(&e, UNETMM_CQE_BUFFER, UNETMM_ST_BAD_DESC, 5);
}

TEST_OF(test_rights, Fix *f, fix_test)
{
    FakeSpace *s;
    FakeEp e;

    open_pinned(f, &s, &e, 3);
    fake_map(s, 0x1000, 4096, FAKE_R);
    fake_map(s, 0x2000, 4096, FAKE_W);
    fix_expect_send(f, &e, 0x1000, 100, UNETMM_ST_OK);
    fix_expect_send(f, &e, 0x2000, 100, UNETMM_ST_PROTECTION);
    fake_post(&e, 0x1000, 100, 1);
    fake_post(&e, 0x2000, 100, 2);
    fake_ring_bell(&e);
    fake_expect(&e, UNETMM_CQE_BUFFER, UNETMM_ST_PROTECTION, 1);
    fix_receive(f, &e, 100, 3);
    fake_expect(&e, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 2);
    fake_check(s, 0x2000, 100, 3);
    /* A cached entry without the right is no way round it. */
    fix_expect_send(f, &e, 0x2000, 100, UNETMM_ST_PROTECTION);
    /* Entries must be valid, whatever other bits they have. */
    fake_table_set(s, 0x4000, fake_vpage(s, 0x1000)->dma | 6);
    fix_expect_send(f, &e, 0x4000, 100, UNETMM_ST_PROTECTION);
}

/* A right given later is seen without an invalidation; one that is taken away
 * is not used after the invalidation. */
TEST_OF(test_cache_invalidate, Fix *f, fix_test)
{
    FakeSpace *s;
    FakeEp e;
    uint64_t other;

    open_pinned(f, &s, &e, 2);
    fix_expect_send(f, &e, 0x1000, 100, UNETMM_ST_PROTECTION);
    fake_map(s, 0x1000, 4096, FAKE_RW);
    fake_fill(s, 0x1000, 100, 1);
    expect_count(&f->h, cache_misses, 1,
                 fix_expect_send(f, &e, 0x1000, 100, UNETMM_ST_OK));
    expect_count(&f->h, cache_hits, 1,
                 fix_expect_send(f, &e, 0x1000, 100, UNETMM_ST_OK));
    expect_count(&f->h, cache_misses, 0,
                 fix_expect_send(f, &e, 0x1000, 100, UNETMM_ST_OK));
    other = fake_page(&f->h);
    fake_table_set(s, 0x1000, 0);
    assert_false(fake_invalidate(s, 0x1000, 4096));
    fix_expect_send(f, &e, 0x1000, 100, UNETMM_ST_PROTECTION);
    fake_vpage(s, 0x1000)->dma = other;
    fake_rights(&f->h, other, 4096, FAKE_R);
    fake_table_set(s, 0x1000, other | 3);
    fake_fill(s, 0x1000, 100, 7);
    fix_expect_send(f, &e, 0x1000, 100, UNETMM_ST_OK);
    fake_check_frame(fake_wire_at(&f->h, f->h.wire->len - 1), 100, 7);
}

/* An entry that the driver has in hand: a transfer for it waits. */
TEST_OF(test_changing, Fix *f, fix_test)
{
    struct unetmm_cqe cqe;
    FakeSpace *s;
    FakeEp e;

    open_pinned(f, &s, &e, 3);
    fake_map(s, 0x3000, 4096, FAKE_RW);
    fake_table_set(s, 0x3000, UNETMM_PTE_CHANGING);
    fake_send_at(&e, FIX_WIRE, 0x3000, 100, 1);
    fake_ring_bell(&e);
    fake_advance(&f->h, 1000000000);
    assert_false(fake_poll(&e, &cqe));
    fake_table_set(s, 0x3000, fake_vpage(s, 0x3000)->dma | 7);
    fake_invalidate(s, 0x3000, 4096);
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    /* Such an entry has no other bits; a valid one counts as present. */
    fake_table_set(s, 0x3000, UNETMM_PTE_CHANGING | UNETMM_PTE_WRITE);
    fake_invalidate(s, 0x3000, 4096);
    fix_expect_send(f, &e, 0x3000, 100, UNETMM_ST_PROTECTION);
    fake_table_set(s, 0x3000, UNETMM_PTE_CHANGING | 0x5000);
    fix_expect_send(f, &e, 0x3000, 100, UNETMM_ST_PROTECTION);
    fake_table_set(s, 0x3000, fake_vpage(s, 0x3000)->dma |
                   UNETMM_PTE_CHANGING | 7);
    fake_rights(&f->h, fake_vpage(s, 0x3000)->dma, 4096, FAKE_R);
    fix_expect_send(f, &e, 0x3000, 100, UNETMM_ST_OK);
    /* The endpoint may end while it waits. */
    fake_table_set(s, 0x3000, UNETMM_PTE_CHANGING);
    fake_invalidate(s, 0x3000, 4096);
    fake_send_at(&e, FIX_WIRE, 0x3000, 100, 2);
    fake_ring_bell(&e);
    assert_int_equal(f->h.core.miss->changing, 1);
    assert_int_equal(fake_ep_destroy(&e), UNETMM_CS_OK);
    assert_int_equal(f->h.core.miss->changing, 0);
}

/* Another space's invalidation, or another range, leaves the cache alone. */
TEST_OF(test_cache_invalidate_elsewhere, Fix *f, fix_test)
{
    FakeSpace *s;
    FakeEp e;

    open_pinned(f, &s, &e, 2);
    fake_map(s, 0x1000, 4096, FAKE_RW);
    fix_expect_send(f, &e, 0x1000, 100, UNETMM_ST_OK);
    fake_invalidate(f->s1, 0, 1ull << 47);
    fake_invalidate(s, 0x2000, 0x100000);
    expect_count(&f->h, cache_misses, 0,
                 fix_expect_send(f, &e, 0x1000, 100, UNETMM_ST_OK));
}

TEST_OF(test_bad_tables, Fix *f, fix_test)
{
    FakeSpace *s;
    FakeEp e;
    uint64_t pte;

    open_pinned(f, &s, &e, 3);
    fake_map(s, 0x1000, 4096, FAKE_RW);
    /* A directory entry that leads out of memory. */
    pte = cpu_to_le64(0x10000 | UNETMM_PTE_VALID);
    fake_write(&f->h, s->table + 8, &pte, 8);
    expect_count(&f->h, err_dma, 1,
                 fix_expect_send(f, &e, 1ull << 30, 100, UNETMM_ST_PROTECTION));
    pte = cpu_to_le64(UNETMM_PTE_ADDR | UNETMM_PTE_VALID);
    fake_write(&f->h, s->table + 16, &pte, 8);
    fix_expect_send(f, &e, 2ull << 30, 100, UNETMM_ST_PROTECTION);
    /* Reserved bits of a directory entry are not part of the address. */
    pte = cpu_to_le64(le64_to_cpu(*(uint64_t *)fake_ptr(&f->h, s->table, 8)) |
                      0xffe);
    fake_write(&f->h, s->table, &pte, 8);
    fix_expect_send(f, &e, 0x1000, 100, UNETMM_ST_OK);
    /* A page outside of memory is the table's word: the bus refuses it. */
    fake_table_set(s, 0x7000, 0x5000 | 7);
    fix_expect_send(f, &e, 0x7000, 100, UNETMM_ST_DMA);
    /* A table that points to itself is walked level by level, no further. */
    pte = cpu_to_le64(s->table | 7);
    fake_write(&f->h, s->table + 24, &pte, 8);
    fix_expect_send(f, &e, (3ull << 30) + (3ull << 21) + (3ull << 12), 8,
                    UNETMM_ST_OK);
}

/* The entry is read once: a change meanwhile is not used. */
static void change_entry(FakeHost *host, uint64_t addr, size_t bytes)
{
    FakeSpace *s = ((FakeDriver *)host->opaque)->spaces[3];
    uint64_t zero = 0;

    if (addr == s->table + 8 && bytes == 8) {
        fake_write(host, addr, &zero, 8);
    }
}

TEST_OF(test_entry_read_once, Fix *f, fix_test)
{
    FakeSpace *s;
    FakeEp e;

    open_pinned(f, &s, &e, 1);
    fake_map(s, 0x1000, 4096, FAKE_RW);
    f->h.on_read = change_entry;
    fix_expect_send(f, &e, 0x1000, 100, UNETMM_ST_OK);
}

/* Many more pages than the cache has entries. */
TEST_OF(test_thrash, Fix *f, fix_test)
{
    FakeSpace *s;
    FakeEp e;

    open_pinned(f, &s, &e, 3);
    fake_map(s, 0, 200 * 4096, FAKE_RW);
    fake_fill(s, 0, 200 * 4096, 1);
    for (unsigned i = 0; i < 13; i++) {
        uint8_t expected[60000];
        FakeFrame *sent;

        fix_expect_send(f, &e, i * 60000, 60000, UNETMM_ST_OK);
        sent = fake_wire_at(&f->h, i);
        fake_load(s, i * 60000, expected, 60000);
        assert_memory_equal(sent->data + 64, expected, 60000);
    }
    /* The largest buffer that the cache can hold, and one page more. */
    fake_post(&e, 0, 64 * 4096, 1);
    fake_post(&e, 1, 64 * 4096, 2);
    fake_ring_bell(&e);
    fix_receive(f, &e, 65536, 5);
    fake_expect(&e, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
    fake_expect(&e, UNETMM_CQE_BUFFER, UNETMM_ST_TOO_LARGE, 2);
    fake_check(s, 0, 65536, 5);
}

static void slow(UnetmmParams *p)
{
    p->dma_page_ns = 1000;
    p->endpoints = 12;
}

/* Every way of a set is in use: the next waits for one to be released. */
TEST_OF(test_cache_all_busy, Fix *f, fix_test_with, slow)
{
    FakeSpace *s = fake_space(&f->d, 3, UNETMM_SOURCE_PINNED, 3);
    FakeEp e[5];

    fake_map(s, 0, 80 * 4096, FAKE_RW);
    for (unsigned i = 0; i < 5; i++) {
        fake_ep_open(&e[i], &f->d, 3 + i, s);
        fake_connect_peer(&e[i], FIX_WIRE, 13, FIX_MTU);
        /* 16 sets of 4 ways: all in one set. */
        fake_send_at(&e[i], FIX_WIRE, i * 16 * 4096, 100, i);
        fake_ring_bell(&e[i]);
    }
    fake_advance(&f->h, 1000);
    assert_int_equal(f->h.wire->len, 4);
    fake_advance(&f->h, 1000);
    assert_int_equal(f->h.wire->len, 5);
    for (unsigned i = 0; i < 5; i++) {
        fake_expect(&e[i], UNETMM_CQE_SENT, UNETMM_ST_OK, i);
    }
    assert_int_equal(f->d.ring[UNETMM_RING_FAULT].index, 0);
}

/* Each page of a buffer that lands is really held, in a cache under stress:
 * an invalidation of any of them is noticed. */
TEST_OF(test_landing_pages_are_held, Fix *f, fix_test_with, slow)
{
    FakeSpace *s;
    FakeEp e;

    open_pinned(f, &s, &e, 3);
    fake_map(s, 0, 80 * 4096, FAKE_RW);
    fake_post(&e, 0, 40 * 4096, 1);
    fake_ring_bell(&e);
    fix_receive(f, &e, 65536, 5);
    for (unsigned i = 0; i < 16; i++) {
        assert_int_equal(fake_reg(&f->h, UNETMM_REG_INV_CTRL), 0);
        assert_true(fake_invalidate(s, i * 4096, 4096));
        fake_advance(&f->h, 1000);
        assert_int_equal(fake_reg(&f->h, UNETMM_REG_INV_CTRL), 0);
        if (i < 15) {
            /* It goes on only because the table still has the page. */
            fake_expect_none(&e);
        }
    }
    fake_expect(&e, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
    fake_check(s, 0, 65536, 5);
}
