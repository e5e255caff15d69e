/*
 * unetmm: chains of free descriptors: a buffer of several parts
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fixture.h"

#define MOST UNETMM_MAX_SEGS

typedef struct Part {
    uint64_t at;                /* from FIX_VA */
    uint32_t len;
} Part;

/* Not aligned, of a byte, across a page, of several pages. */
static const Part scattered[] = {
    { 100, 100 }, { 5000, 1 }, { 8192 + 4000, 300 }, { 5 * 4096 + 7, 9000 },
};

#define ROOM    (100 + 1 + 300 + 9000)

static void clear(Fix *f, unsigned npages)
{
    g_autofree uint8_t *zeros = g_malloc0(npages * FAKE_PAGE);

    fake_store(f->s1, FIX_VA, zeros, npages * FAKE_PAGE);
}

/* The first has `cookie`, those behind it other ones. */
static void post(Fix *f, const Part *parts, unsigned n, uint64_t cookie)
{
    struct unetmm_fqe fqes[MOST + 1];

    for (unsigned i = 0; i < n; i++) {
        fqes[i] = (struct unetmm_fqe) {
            .addr = FIX_VA + parts[i].at, .len = parts[i].len,
            .flags = i + 1 < n ? UNETMM_FQE_F_CHAIN : 0,
            .cookie = i ? 0x5000 + i : cookie,
        };
    }
    fake_post_fqes(&f->a, fqes, n);
}

static void deliver(Fix *f, uint32_t len, uint32_t n)
{
    fake_deliver(&f->h, fake_datagram(&f->a, FIX_WIRE, 11, len, n));
}

/* The message is in the parts, one behind the other, and not behind its end. */
static void expect_scattered(Fix *f, const Part *parts, unsigned n,
                             uint32_t len, uint32_t pattern)
{
    uint32_t done = 0;

    for (unsigned i = 0; i < n; i++) {
        g_autofree uint8_t *got = g_malloc(parts[i].len);

        fake_load(f->s1, FIX_VA + parts[i].at, got, parts[i].len);
        for (uint32_t at = 0; at < parts[i].len; at++, done++) {
            assert_int_equal(got[at], done < len ?
                             fake_pattern(pattern, done) : 0);
        }
    }
}

TEST(test_scattered, fix_test)
{
    static const uint32_t lens[] = { 41, 100, 101, 102, 401, 402, 5000, ROOM };

    for (unsigned i = 0; i < G_N_ELEMENTS(lens); i++) {
        Fix *f = *state;
        uint32_t before = fake_card(&f->a).fq_cons;

        clear(f, 8);
        post(f, scattered, G_N_ELEMENTS(scattered), 70 + i);
        fix_settle(f);
        deliver(f, lens[i], i);
        assert_int_equal(fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK,
                                     70 + i).len, lens[i]);
        fake_expect_none(&f->a);
        expect_scattered(f, scattered, G_N_ELEMENTS(scattered), lens[i], i);
        assert_int_equal(fake_card(&f->a).fq_cons - before,
                         G_N_ELEMENTS(scattered));
    }
}

/* A message that is longer leaves the buffer where it is. */
TEST_OF(test_too_long, Fix *f, fix_test)
{
    post(f, scattered, G_N_ELEMENTS(scattered), 7);
    fix_settle(f);
    expect_count(&f->h, drop_too_long, 1, deliver(f, ROOM + 1, 1));
    fake_expect_none(&f->a);
    deliver(f, ROOM, 2);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 7);
}

/* The window has fewer heads than the chain has parts. */
TEST_OF(test_longer_than_the_window, Fix *f, fix_test)
{
    Part parts[MOST];

    for (unsigned i = 0; i < MOST; i++) {
        parts[i] = (Part) { .at = (i * 2 % 32) * FAKE_PAGE + i, .len = 60 };
    }
    assert_true(f->h.core.eps[1].max_heads < MOST);
    clear(f, 32);
    post(f, parts, MOST, 3);
    fix_settle(f);
    fake_migrate(&f->h);
    deliver(f, MOST * 60, 9);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 3);
    expect_scattered(f, parts, MOST, MOST * 60, 9);
}

/* One part of it is behind buffers that are used first. */
TEST_OF(test_behind_others, Fix *f, fix_test)
{
    for (unsigned i = 0; i < 3; i++) {
        fake_post(&f->a, FIX_PAGE(20 + i), 4096, i);
    }
    post(f, scattered, G_N_ELEMENTS(scattered), 7);
    fake_post(&f->a, FIX_PAGE(30), 4096, 8);
    fix_settle(f);
    for (unsigned i = 0; i < 3; i++) {
        deliver(f, 200, i);
        fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, i);
        fix_settle(f);
    }
    deliver(f, ROOM, 3);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 7);
    fix_settle(f);
    deliver(f, 100, 4);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 8);
}

/* It comes back once, with its reason. */
static void expect_back(Fix *f, uint8_t status, uint64_t cookie, unsigned n)
{
    fake_ring_bell(&f->a);
    fake_expect(&f->a, UNETMM_CQE_BUFFER, status, cookie);
    fake_expect_none(&f->a);
    assert_int_equal(fake_card(&f->a).fq_cons, n);
    assert_int_equal(fake_ep_counter(&f->h, 1, UNETMM_C_bufs_failed), 1);
}

/* The producer stands in the middle of a chain. */
TEST_OF(test_cut, Fix *f, fix_test)
{
    const struct unetmm_fqe cut[] = {
        { .addr = FIX_VA, .len = 100, .flags = UNETMM_FQE_F_CHAIN,
          .cookie = 1 },
        { .addr = FIX_VA, .len = 100, .flags = UNETMM_FQE_F_CHAIN,
          .cookie = 2 },
    };

    fake_post_fqes(&f->a, cut, 2);
    expect_count(&f->h, err_descriptor, 1,
                 expect_back(f, UNETMM_ST_BAD_DESC, 1, 2));
    /* The next one is a buffer of its own. */
    fake_post(&f->a, FIX_VA, 4096, 3);
    fix_settle(f);
    deliver(f, 100, 1);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 3);
}

/* One buffer is refused once, also for two reasons. */
static void cut_and_bad(Fix *f, unsigned where)
{
    struct unetmm_fqe cut[] = {
        { .addr = FIX_VA, .len = 100, .flags = UNETMM_FQE_F_CHAIN,
          .cookie = 1 },
        { .addr = FIX_VA, .len = 100, .flags = UNETMM_FQE_F_CHAIN,
          .cookie = 2 },
    };

    cut[where].len = 0;
    fake_post_fqes(&f->a, cut, 2);
    expect_count(&f->h, err_descriptor, 1,
                 expect_back(f, UNETMM_ST_BAD_DESC, 1, 2));
}

TEST(test_cut_bad_first, fix_test)
{
    cut_and_bad(*state, 0);
}

TEST(test_cut_bad_last, fix_test)
{
    cut_and_bad(*state, 1);
}

/* One part more than a chain may have: that is a buffer of its own. */
TEST_OF(test_too_many_parts, Fix *f, fix_test)
{
    Part parts[MOST + 1];

    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    fake_ep_init(&f->a, &f->d, 1, f->s1);
    f->a.fq_log2 = 5;
    fake_ep_create(&f->a);
    fake_connect_peer(&f->a, FIX_WIRE, 11, FIX_MTU);
    for (unsigned i = 0; i < MOST + 1; i++) {
        parts[i] = (Part) { .at = i * 4096, .len = 4096 };
    }
    post(f, parts, MOST + 1, 2);
    expect_count(&f->h, err_descriptor, 1,
                 expect_back(f, UNETMM_ST_BAD_DESC, 2, MOST));
    fix_settle(f);
    deliver(f, 100, 1);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0x5000 + MOST);
}

/* A bad part, wherever it stands, is a bad buffer. */
TEST(test_bad_part, fix_test)
{
    static const struct unetmm_fqe bad[] = {
        { .addr = FIX_VA, .len = 0 },
        { .addr = FIX_VA, .len = 1, .rsvd = 1 },
        { .addr = FIX_VA, .len = 1, .flags = 4 },
        { .addr = UINT64_MAX, .len = 2 },
        { .addr = FIX_VA, .len = 4096, .flags = UNETMM_FQE_F_ZERO },
    };
    unsigned cons = 0;

    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        for (unsigned where = 0; where < 3; where++) {
            Fix *f = *state;
            struct unetmm_fqe fqes[3];

            for (unsigned n = 0; n < 3; n++) {
                fqes[n] = n == where ? bad[i] : (struct unetmm_fqe) {
                    .addr = FIX_VA, .len = 4096,
                };
                fqes[n].flags |= n < 2 ? UNETMM_FQE_F_CHAIN : 0;
                fqes[n].cookie = 10 + n;
            }
            fake_post_fqes(&f->a, fqes, 3);
            fake_ring_bell(&f->a);
            fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_BAD_DESC, 10);
            fake_expect_none(&f->a);
            cons += 3;
            assert_int_equal(fake_card(&f->a).fq_cons, cons);
            fake_serve(&f->d);
        }
    }
}

/* Behind another buffer, it is not given back yet: no page is asked for. */
TEST(test_no_page_for_a_bad_one, fix_test)
{
    const struct unetmm_fqe bad[] = {
        { .addr = FIX_VA, .len = 0, .flags = UNETMM_FQE_F_CHAIN, .cookie = 1 },
        { .addr = FIX_PAGE(9), .len = 100, .cookie = 2 },
    };
    struct unetmm_fault fault;
    Fix *f = *state;

    fake_post(&f->a, FIX_PAGE(20), 4096, 3);
    fake_post_fqes(&f->a, bad, 2);
    fake_ring_bell(&f->a);
    assert_true(fake_fault(&f->d, &fault));
    assert_int_equal(fault.vaddr, FIX_PAGE(20));
    assert_false(fake_fault(&f->d, &fault));
    fake_expect_none(&f->a);
}

/* 64 + 16 entries: all its pages have to fit. */
TEST_OF(test_too_large, Fix *f, fix_test)
{
    const Part large[] = { { 0, 40 * 4096 }, { 1, 40 * 4096 } };
    const Part fits[] = { { 0, 40 * 4096 }, { 0, 40 * 4096 } };

    post(f, large, 2, 4);
    expect_back(f, UNETMM_ST_TOO_LARGE, 4, 2);
    fake_serve(&f->d);
    post(f, fits, 2, 5);
    fix_settle(f);
    fake_expect_none(&f->a);
}

/* Pages of which all belong in two sets, that have 2 and 16 victims. */
TEST_OF(test_never_together, Fix *f, fix_test)
{
    Part parts[MOST];

    for (unsigned i = 0; i < MOST; i++) {
        uint64_t at = (uint64_t)(i + 1) * 64 * FAKE_PAGE;

        fake_map(f->s1, FIX_VA + at, 2 * FAKE_PAGE, FAKE_RW);
        parts[i] = (Part) { .at = at + FAKE_PAGE - 2, .len = 4 };
    }
    post(f, parts, MOST, 6);
    fix_settle(f);
    fake_expect_none(&f->a);
    expect_count(&f->h, tlb_too_small, 1, deliver(f, 4 * MOST, 1));
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_TOO_LARGE, 6);
    fake_expect_none(&f->a);
    fake_serve(&f->d);
}

/* A part is paged out: the policy gives the whole buffer back. */
TEST_OF(test_skipped, Fix *f, fix_test)
{
    static const Part two[] = { { 100, 100 }, { 5 * 4096 + 7, 9000 } };

    fake_vpage(f->s1, FIX_PAGE(6))->absent = true;
    for (unsigned i = 0; i < 2; i++) {
        post(f, two, 2, 7 + 2 * i);
        fake_post(&f->a, FIX_PAGE(20), 16384, 8 + 2 * i);
    }
    fix_settle(f);
    /* That part is not needed. */
    deliver(f, 100, 1);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 7);
    fix_settle(f);
    deliver(f, 9100, 2);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 8);
    fix_settle(f);
    deliver(f, 101, 3);
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_SKIPPED, 9);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 10);
    fake_expect_none(&f->a);
    assert_int_equal(fake_ep_counter(&f->h, 1, UNETMM_C_bufs_skipped), 1);
}

/*
 * A part is paged out, and the driver has not answered for the other one yet: the message
 * is lost, and the buffer stays.
 */
TEST_OF(test_asked_behind_absent, Fix *f, fix_test)
{
    static const Part two[] = { { 0, 100 }, { 5 * 4096, 100 } };
    struct unetmm_fault fault[2];

    post(f, two, 2, 7);
    fake_ring_bell(&f->a);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(fake_fault(&f->d, &fault[i]));
    }
    fake_reply(&f->d, &fault[0], UNETMM_REPLY_DEFERRED, 0);
    expect_count(&f->h, drop_asked, 1, deliver(f, 200, 1));
    fake_expect_none(&f->a);
    fake_reply(&f->d, &fault[1], UNETMM_REPLY_DEFERRED, 0);
    deliver(f, 200, 2);
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_SKIPPED, 7);
    fake_expect_none(&f->a);
}

static void slow(UnetmmParams *p)
{
    p->dma_page_ns = 1000;
}

/* Page by page, moved to another card in the middle. */
TEST_OF(test_lands_slowly, Fix *f, fix_test_with, slow)
{
    clear(f, 8);
    post(f, scattered, G_N_ELEMENTS(scattered), 7);
    fake_post(&f->a, FIX_PAGE(30), 4096, 8);
    fix_settle(f);
    deliver(f, ROOM, 1);
    for (unsigned i = 0; i < 7; i++) {
        fake_expect_none(&f->a);
        fake_migrate(&f->h);
        fake_advance(&f->h, 1000);
    }
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 7);
    expect_scattered(f, scattered, G_N_ELEMENTS(scattered), ROOM, 1);
    fix_settle(f);
    deliver(f, 100, 2);
    fake_advance(&f->h, 1000);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 8);
}

/* A part goes while the message lands: the buffer stays, whole. */
TEST_OF(test_gone_while_landing, Fix *f, fix_test_with, slow)
{
    clear(f, 8);
    post(f, scattered, G_N_ELEMENTS(scattered), 7);
    fix_settle(f);
    deliver(f, ROOM, 1);
    fake_invalidate(f->s1, FIX_PAGE(6), FAKE_PAGE);
    expect_count(&f->h, drop_invalidated, 1, fake_advance(&f->h, 20000));
    fake_expect_none(&f->a);
    fix_settle(f);
    deliver(f, ROOM, 2);
    fake_advance(&f->h, 20000);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 7);
    expect_scattered(f, scattered, G_N_ELEMENTS(scattered), ROOM, 2);
}
