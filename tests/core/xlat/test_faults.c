/*
 * unetmm: misses and evictions, by way of the fault ring
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fixture.h"

#define PAGE(n) FIX_PAGE(n)
#define FAULT_REG(reg) (UNETMM_REG_RING(UNETMM_RING_FAULT) + UNETMM_RING_##reg)

static struct unetmm_fault take(Fix *f)
{
    struct unetmm_fault fault;

    assert_true(fake_fault(&f->d, &fault));
    return fault;
}

TEST_OF(test_send_miss, Fix *f, fix_test)
{
    struct unetmm_fault m;
    uint32_t taken;

    f->h.now = 123456;
    fix_send(f, &f->a, 2, 3 * 4096, 1);
    assert_int_equal(f->h.interrupts[UNETMM_VEC_FAULT], 1);
    m = take(f);
    assert_int_equal(m.type, UNETMM_FAULT_MISS);
    assert_int_equal(m.flags, 0);
    assert_int_equal(m.space, 1);
    assert_int_equal(m.ep, 1);
    assert_int_equal(m.npages, 3);
    assert_int_equal(m.vaddr, PAGE(2));
    assert_int_equal(m.time_ns, 123456);
    assert_int_equal(m.pte, 0);
    fix_no_fault(f);
    assert_int_equal(fake_resolve(&f->d, &m, 3, &taken), UNETMM_CS_OK);
    assert_int_equal(taken, 3);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    assert_int_equal(fake_ep_counter(&f->h, 1, UNETMM_C_send_waits), 1);
    assert_int_equal(fake_ep_counter(&f->h, 1, UNETMM_C_faults_send), 1);
}

/* Never more pages than fault-batch, never beyond the segment. */
TEST_OF(test_send_miss_batch, Fix *f, fix_test)
{
    struct unetmm_seg segs[2] = {
        { .addr = PAGE(1) + 4000, .len = 200 },
        { .addr = PAGE(3), .len = 60000 },
    };
    struct unetmm_fault m;

    fake_send(&f->a, FIX_WIRE, segs, 2, 1, 0);
    fake_ring_bell(&f->a);
    m = take(f);
    assert_int_equal(m.vaddr, PAGE(1));
    assert_int_equal(m.npages, 2);
    fake_resolve(&f->d, &m, 2, NULL);
    m = take(f);
    assert_int_equal(m.vaddr, PAGE(3));
    assert_int_equal(m.npages, 15);
    fake_resolve(&f->d, &m, 7, NULL);
    m = take(f);
    assert_int_equal(m.vaddr, PAGE(10));
    assert_int_equal(m.npages, 8);
    fake_resolve(&f->d, &m, 8, NULL);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    /* A page that is there already ends the batch. */
    fake_invalidate(f->s1, PAGE(4), 2 * 4096);
    fake_invalidate(f->s1, PAGE(7), 4096);
    fake_send_at(&f->a, FIX_WIRE, PAGE(3), 40000, 2);
    fake_ring_bell(&f->a);
    m = take(f);
    assert_int_equal(m.vaddr, PAGE(4));
    assert_int_equal(m.npages, 2);
}

TEST_OF(test_three_outcomes, Fix *f, fix_test)
{
    struct unetmm_fault m;

    /* Resident. */
    fix_send(f, &f->a, 0, 100, 1);
    m = take(f);
    fake_resolve(&f->d, &m, 1, NULL);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    /* Never: each status the driver may give. */
    for (uint8_t st = 1; st < UNETMM_NUM_ST; st++) {
        fix_send(f, &f->a, 1, 100, st);
        m = take(f);
        assert_int_equal(fake_reply(&f->d, &m, UNETMM_REPLY_ERROR, st),
                         UNETMM_CS_OK);
        fake_expect(&f->a, UNETMM_CQE_SENT, st, st);
    }
    /* Deferred: this endpoint waits, all others go on. */
    fix_send(f, &f->a, 1, 100, 3);
    m = take(f);
    assert_int_equal(fake_reply(&f->d, &m, UNETMM_REPLY_DEFERRED, 0),
                     UNETMM_CS_OK);
    fake_ring_bell(&f->a);
    unetmm_core_run(&f->h.core);
    fake_expect_none(&f->a);
    fix_no_fault(f);
    fake_send_inline(&f->b, FIX_WIRE, 1, 8, 9, 0);
    fake_ring_bell(&f->b);
    fake_expect(&f->b, UNETMM_CQE_SENT, UNETMM_ST_OK, 9);
    fake_deliver(&f->h, fake_datagram(&f->a, FIX_WIRE, 11, 8, 1));
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
    assert_int_equal(fake_resolve(&f->d, &m, 1, NULL), UNETMM_CS_OK);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 3);
    /* A deferral may be said twice; an error may end it. */
    fix_send(f, &f->a, 2, 100, 4);
    m = take(f);
    fake_reply(&f->d, &m, UNETMM_REPLY_DEFERRED, 0);
    assert_int_equal(fake_reply(&f->d, &m, UNETMM_REPLY_DEFERRED, 0),
                     UNETMM_CS_OK);
    fake_reply(&f->d, &m, UNETMM_REPLY_ERROR, UNETMM_ST_LIMIT);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_LIMIT, 4);
    /* Ask again. */
    fix_send(f, &f->a, 2, 100, 5);
    m = take(f);
    fake_reply(&f->d, &m, UNETMM_REPLY_RETRY, 0);
    m = take(f);
    assert_int_equal(m.vaddr, PAGE(2));
    fake_resolve(&f->d, &m, 1, NULL);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 5);
}

/* RESOLVED without a page, or with the wrong one: asked again. */
TEST_OF(test_useless_answers, Fix *f, fix_test)
{
    struct unetmm_fault m, other;

    fix_send(f, &f->a, 0, 100, 1);
    m = take(f);
    fake_resolve(&f->d, &m, 0, NULL);
    m = take(f);
    other = m;
    other.vaddr = PAGE(5);
    fake_resolve(&f->d, &other, 1, NULL);
    m = take(f);
    assert_int_equal(m.vaddr, PAGE(0));
    fake_expect_none(&f->a);
    fake_resolve(&f->d, &m, 1, NULL);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
}

TEST_OF(test_stale_ids, Fix *f, fix_test)
{
    struct unetmm_fault m, wrong;

    fix_send(f, &f->a, 0, 100, 1);
    m = take(f);
    wrong = m;
    wrong.fault_id ^= 0x10000;
    assert_int_equal(fake_resolve(&f->d, &wrong, 1, NULL), UNETMM_CS_STALE);
    wrong.fault_id = m.fault_id + 1;
    assert_int_equal(fake_resolve(&f->d, &wrong, 1, NULL), UNETMM_CS_STALE);
    /* The right id, but another process's space. */
    wrong = m;
    wrong.space = 2;
    assert_int_equal(fake_resolve(&f->d, &wrong, 1, NULL), UNETMM_CS_STALE);
    assert_int_equal(f->h.core.source->tlb.used, 0);
    fake_resolve(&f->d, &m, 1, NULL);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    assert_int_equal(fake_resolve(&f->d, &m, 1, NULL), UNETMM_CS_STALE);
    assert_int_equal(fake_reply(&f->d, &m, UNETMM_REPLY_ERROR, 1),
                     UNETMM_CS_STALE);
    /* The next miss of the same endpoint has another id. */
    fix_send(f, &f->a, 1, 100, 2);
    wrong = take(f);
    assert_int_not_equal(wrong.fault_id, m.fault_id);
    assert_int_equal(fake_resolve(&f->d, &m, 1, NULL), UNETMM_CS_STALE);
    /* So has the one after closing and opening. */
    fake_ep_destroy(&f->a);
    f->a.index = 0;
    fake_ep_open(&f->a, &f->d, 1, f->s1);
    assert_int_equal(fake_resolve(&f->d, &wrong, 1, NULL), UNETMM_CS_STALE);
}

/* ---- Joining ---- */

TEST_OF(test_joined, Fix *f, fix_test)
{
    FakeEp c;
    struct unetmm_fault m;

    fake_ep_open(&c, &f->d, 3, f->s1);
    fake_connect_peer(&c, FIX_WIRE, 13, FIX_MTU);
    fix_send(f, &f->a, 0, 4 * 4096, 1);
    m = take(f);
    expect_count(&f->h, faults_joined, 1, fix_send(f, &c, 1, 2 * 4096, 2));
    fix_no_fault(f);
    /* Another space, another right, or more pages: not the same. */
    fix_send(f, &f->b, 0, 4096, 3);
    assert_int_equal(take(f).space, 2);
    fake_post(&c, PAGE(2), 4096, 4);
    fake_ring_bell(&c);
    assert_int_equal(take(f).flags,
                     UNETMM_FAULT_F_HEAD | UNETMM_FAULT_F_WRITE);
    fake_resolve(&f->d, &m, 4, NULL);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect(&c, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
}

/* A deferral is about the first page, and goes to all that wait for it. */
TEST_OF(test_joined_deferred, Fix *f, fix_test)
{
    struct unetmm_fault m;
    FakeEp e[3];

    for (unsigned i = 0; i < 3; i++) {
        fake_ep_open(&e[i], &f->d, 3 + i, f->s1);
        fake_connect_peer(&e[i], FIX_WIRE, 13, FIX_MTU);
    }
    fake_vpage(f->s1, PAGE(0))->absent = true;
    fix_send(f, &f->a, 0, 4 * 4096, 1);
    m = take(f);
    fix_send(f, &e[0], 0, 100, 2);
    fix_send(f, &e[1], 1, 100, 3);
    fake_reply(&f->d, &m, UNETMM_REPLY_DEFERRED, 0);
    fix_send(f, &e[2], 0, 100, 4);
    assert_int_equal(fake_ep_counter(&f->h, 3, UNETMM_C_faults_deferred), 1);
    assert_int_equal(fake_ep_counter(&f->h, 4, UNETMM_C_faults_deferred), 0);
    assert_int_equal(fake_ep_counter(&f->h, 5, UNETMM_C_faults_deferred), 1);
    fake_serve(&f->d);
    fake_expect(&e[1], UNETMM_CQE_SENT, UNETMM_ST_OK, 3);
    fake_expect_none(&e[0]);
    fake_vpage(f->s1, PAGE(0))->absent = false;
    fake_resolve(&f->d, &m, 4, NULL);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect(&e[0], UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    fake_expect(&e[2], UNETMM_CQE_SENT, UNETMM_ST_OK, 4);
}

/* Two that miss in the same run of the engine join as well. */
TEST_OF(test_joined_in_one_run, Fix *f, fix_test)
{
    FakeEp c;
    struct unetmm_fault m;

    fake_ep_open(&c, &f->d, 3, f->s1);
    fake_connect_peer(&c, FIX_WIRE, 13, FIX_MTU);
    fake_send_at(&f->a, FIX_WIRE, PAGE(0), 100, 1);
    fake_send_at(&c, FIX_WIRE, PAGE(0), 100, 2);
    fake_set_reg(&f->h, UNETMM_REG_CTRL, 0);
    fake_ring_bell(&f->a);
    fake_ring_bell(&c);
    expect_count(&f->h, faults_joined, 1,
                 fake_set_reg(&f->h, UNETMM_REG_CTRL, 1));
    m = take(f);
    fix_no_fault(f);
    fake_resolve(&f->d, &m, 1, NULL);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect(&c, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
}

/* An error is about the first page; a miss of another page asks again. */
TEST_OF(test_joined_error, Fix *f, fix_test)
{
    struct unetmm_fault m;
    FakeEp c;

    fake_ep_open(&c, &f->d, 3, f->s1);
    fake_connect_peer(&c, FIX_WIRE, 13, FIX_MTU);
    fake_vpage(f->s1, PAGE(0))->rights = 0;
    fix_send(f, &f->a, 0, 4 * 4096, 1);
    m = take(f);
    fix_send(f, &c, 1, 100, 2);
    fix_no_fault(f);
    fake_reply(&f->d, &m, UNETMM_REPLY_ERROR, UNETMM_ST_PROTECTION);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_PROTECTION, 1);
    fake_serve(&f->d);
    fake_expect(&c, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
}

/* The one whose report it was is closed: the others are not forgotten. */
TEST(test_leader_closes, cmocka_unit_test_teardown, fix_teardown)
{
    for (unsigned how = 0; how < 3; how++) {
        Fix *f;
        struct unetmm_fault m;
        FakeEp c;

        *state = NULL;
        fix_setup(state);
        f = *state;
        fake_ep_open(&c, &f->d, 3, f->s1);
        fake_connect_peer(&c, FIX_WIRE, 13, FIX_MTU);
        fix_send(f, &f->a, 0, 4096, 1);
        m = take(f);
        fix_send(f, &c, 0, 4096, 2);
        fix_no_fault(f);
        if (how == 1) {
            fake_reply(&f->d, &m, UNETMM_REPLY_DEFERRED, 0);
        } else if (how == 2) {
            /* Told to ask again while the ring is full of evictions: its
             * report waits, and then it goes. */
            f->h.core.ring->all[UNETMM_RING_FAULT].cons -= 64 -
                unetmm_ring_room(&f->h.core.ring->all[UNETMM_RING_FAULT]);
            f->h.core.ring->all[UNETMM_RING_FAULT].cons =
                f->h.core.ring->all[UNETMM_RING_FAULT].prod - 64;
            fake_reply(&f->d, &m, UNETMM_REPLY_RETRY, 0);
        }
        fake_ep_destroy(&f->a);
        if (how == 2) {
            fake_taken(&f->d, UNETMM_RING_FAULT);
        }
        fake_serve(&f->d);
        fake_expect(&c, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
        if (how < 2) {
            fix_teardown(state);
        }
    }
}

/* Misses that are not over have different numbers: a driver has a place for each. */
TEST_OF(test_numbers, Fix *f, fix_test)
{
    const UnetmmParams *p = &f->h.core.params;
    uint32_t most = p->endpoints * UNETMM_EP_MISSES +
                    p->reliable * UNETMM_REL_MISSES;
    g_autofree bool *seen = g_new0(bool, most);
    FakeEp *eps[] = { &f->a, &f->b };
    struct unetmm_fault m;
    unsigned misses = 0;

    for (unsigned i = 0; i < G_N_ELEMENTS(eps); i++) {
        for (unsigned k = 0; k < UNETMM_MAX_HEADS; k++) {
            fake_post(eps[i], PAGE(k), 4096, k);
        }
        fix_send(f, eps[i], UNETMM_MAX_HEADS, 100, 0);
    }
    while (fake_fault(&f->d, &m)) {
        uint32_t number = m.fault_id & UNETMM_FAULT_NUMBER;

        assert_int_equal(m.type, UNETMM_FAULT_MISS);
        assert_true(number < most);
        assert_false(seen[number]);
        seen[number] = true;
        misses++;
        assert_int_equal(fake_reply(&f->d, &m, UNETMM_REPLY_DEFERRED, 0),
                         UNETMM_CS_OK);
    }
    /* No fewer than the heads that are asked for ahead, and the sends. */
    assert_true(misses >= G_N_ELEMENTS(eps) * (1 + p->pretranslate));
}

/* ---- Limits ---- */

static void two_faults(UnetmmParams *p)
{
    p->max_faults = 2;
}

TEST_OF(test_max_faults, Fix *f, fix_test_with, two_faults)
{
    struct unetmm_fault m[4];
    FakeEp e[4];

    for (unsigned i = 0; i < 4; i++) {
        fake_ep_open(&e[i], &f->d, 3 + i, f->s1);
        fake_connect_peer(&e[i], FIX_WIRE, 13, FIX_MTU);
        fix_send(f, &e[i], i, 100, i);
    }
    m[0] = take(f);
    m[1] = take(f);
    fix_no_fault(f);
    assert_int_equal(m[0].ep, 3);
    assert_int_equal(m[1].ep, 4);
    /* An answer of any kind makes room, a deferral too: a page-in that takes
     * long never delays others. */
    fake_reply(&f->d, &m[0], UNETMM_REPLY_DEFERRED, 0);
    m[2] = take(f);
    assert_int_equal(m[2].ep, 5);
    fix_no_fault(f);
    fake_resolve(&f->d, &m[1], 1, NULL);
    m[3] = take(f);
    assert_int_equal(m[3].ep, 6);
    fake_resolve(&f->d, &m[3], 1, NULL);
    fake_resolve(&f->d, &m[2], 1, NULL);
    fake_resolve(&f->d, &m[0], 1, NULL);
    for (unsigned i = 0; i < 4; i++) {
        fake_expect(&e[i], UNETMM_CQE_SENT, UNETMM_ST_OK, i);
    }
}

static void small_fault_ring(Fix *f, uint32_t log2)
{
    fake_set_reg(&f->h, FAULT_REG(ENABLE), 0);
    fake_set_reg(&f->h, FAULT_REG(LOG2), log2);
    fake_set_reg(&f->h, FAULT_REG(ENABLE), 1);
    f->d.ring[UNETMM_RING_FAULT].log2 = log2;
    f->d.ring[UNETMM_RING_FAULT].index = 0;
    memset(fake_ptr(&f->h, f->d.ring[UNETMM_RING_FAULT].base, 64 << log2), 0,
           64 << log2);
}

/* A quarter is kept for evictions; misses are reported when CONS moves. */
TEST_OF(test_fault_ring_full, Fix *f, fix_test)
{
    FakeEp e[5];

    small_fault_ring(f, 2);
    fake_set_reg(&f->h, UNETMM_REG_EVENTS, UNETMM_EVENT_ALL);
    fake_set_reg(&f->h, UNETMM_REG_EVENT_MASK, UNETMM_EVENT_FAULT_FULL);
    for (unsigned i = 0; i < 5; i++) {
        fake_ep_open(&e[i], &f->d, 3 + i, f->s1);
        fake_connect_peer(&e[i], FIX_WIRE, 13, FIX_MTU);
        fix_send(f, &e[i], i, 100, i);
    }
    assert_int_equal(fake_counter(&f->h, UNETMM_C_faults_waited), 1);
    assert_int_equal(fake_reg(&f->h, FAULT_REG(PROD)), 3);
    assert_true(fake_reg(&f->h, UNETMM_REG_EVENTS) & UNETMM_EVENT_FAULT_FULL);
    assert_int_equal(f->h.interrupts[UNETMM_VEC_EVENT], 1);
    /* Sticky until acknowledged, whatever happens meanwhile. */
    fake_serve(&f->d);
    assert_true(fake_reg(&f->h, UNETMM_REG_EVENTS) & UNETMM_EVENT_FAULT_FULL);
    fake_set_reg(&f->h, UNETMM_REG_EVENTS, UNETMM_EVENT_FAULT_FULL);
    assert_false(fake_reg(&f->h, UNETMM_REG_EVENTS) &
                 UNETMM_EVENT_FAULT_FULL);
    for (unsigned i = 0; i < 5; i++) {
        fake_expect(&e[i], UNETMM_CQE_SENT, UNETMM_ST_OK, i);
    }
}

TEST_OF(test_fault_ring_wraps, Fix *f, fix_test)
{
    for (uint32_t log2 = 1; log2 <= 4; log2++) {
        small_fault_ring(f, log2);
        for (unsigned i = 0; i < 100; i++) {
            fix_send(f, &f->a, i % FIX_PAGES, 100, i);
            fake_serve(&f->d);
            fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
            fake_invalidate(f->s1, PAGE(i % FIX_PAGES), 4096);
        }
    }
}

static void one_set(UnetmmParams *p)
{
    p->tlb_sets = 1;
    p->tlb_victims = 1;
}

/* No place for the eviction's record: the insert that needs it is refused,
 * and asked again as soon as there is. */
TEST_OF(test_eviction_needs_room, Fix *f, fix_test_with, one_set)
{
    struct unetmm_fault m;
    uint32_t taken;

    fake_insert(f->s1, PAGE(0), 1, NULL);
    fake_insert(f->s1, PAGE(1), 1, NULL);
    fix_send(f, &f->a, 5, 100, 1);
    m = take(f);
    /* The driver is slow: the ring is full to the last entry. */
    f->h.core.ring->all[UNETMM_RING_FAULT].cons =
        f->h.core.ring->all[UNETMM_RING_FAULT].prod - 64;
    assert_int_equal(fake_resolve(&f->d, &m, 1, &taken), UNETMM_CS_PARTIAL);
    assert_int_equal(taken, 0);
    assert_true(fake_reg(&f->h, UNETMM_REG_EVENTS) & UNETMM_EVENT_FAULT_FULL);
    fix_no_fault(f);
    fake_expect_none(&f->a);
    fake_taken(&f->d, UNETMM_RING_FAULT);
    m = take(f);
    assert_int_equal(m.type, UNETMM_FAULT_MISS);
    assert_int_equal(m.vaddr, PAGE(5));
    assert_int_equal(fake_resolve(&f->d, &m, 1, &taken), UNETMM_CS_OK);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    m = take(f);
    assert_int_equal(m.type, UNETMM_FAULT_EVICT);
    assert_int_equal(m.vaddr, PAGE(0));
}

/* An eviction gives back the entry with its tag, in FIFO order. */
TEST_OF(test_eviction_record, Fix *f, fix_test_with, one_set)
{
    fake_insert(f->s1, PAGE(0), 1, NULL);
    fake_insert(f->s1, PAGE(1), 1, NULL);
    for (unsigned i = 0; i < 20; i++) {
        struct unetmm_fault m;

        f->h.now = 5000 + i;
        assert_int_equal(fake_insert(f->s1, PAGE(2 + i), 1, NULL),
                         UNETMM_CS_OK);
        m = take(f);
        assert_int_equal(m.type, UNETMM_FAULT_EVICT);
        assert_int_equal(m.flags, 0);
        assert_int_equal(m.space, 1);
        assert_int_equal(m.vaddr, PAGE(i));
        assert_int_equal(m.pte, fake_vpage(f->s1, PAGE(i))->dma | 7);
        assert_int_equal(m.time_ns, 5000 + i);
        assert_int_equal(m.tag, (uint32_t)(PAGE(i) >> 12) ^ 0xabcd);
    }
    assert_int_equal(fake_counter(&f->h, UNETMM_C_tlb_evictions), 20);
}

/*
 * An eviction interrupts only if the driver has given back all entries before
 * it; and a driver that gives back some of the entries is told of the others.
 */
TEST_OF(test_eviction_is_quiet, Fix *f, fix_test_with, one_set)
{
    unsigned *interrupts = &f->h.interrupts[UNETMM_VEC_FAULT];
    uint32_t first = f->h.core.ring->all[UNETMM_RING_FAULT].prod;
    struct unetmm_fault m;

    fake_insert(f->s1, PAGE(0), 1, NULL);
    fake_insert(f->s1, PAGE(1), 1, NULL);
    *interrupts = 0;
    fake_insert(f->s1, PAGE(2), 1, NULL);
    assert_int_equal(*interrupts, 1);
    fake_insert(f->s1, PAGE(3), 1, NULL);
    fake_insert(f->s1, PAGE(4), 1, NULL);
    assert_int_equal(*interrupts, 1);
    /* A miss does at any time. */
    fix_send(f, &f->a, 9, 64, 1);
    assert_int_equal(*interrupts, 2);
    fake_set_reg(&f->h, FAULT_REG(CONS), first + 1);
    assert_int_equal(*interrupts, 3);
    fake_set_reg(&f->h, FAULT_REG(CONS), first + 4);
    assert_int_equal(*interrupts, 3);
    /* An index that is not taken gives nothing back. */
    fake_set_reg(&f->h, FAULT_REG(CONS), first);
    assert_int_equal(*interrupts, 3);
    fake_insert(f->s1, PAGE(5), 1, NULL);
    assert_int_equal(*interrupts, 4);
    while (fake_fault(&f->d, &m)) {
        assert_in_range(m.type, UNETMM_FAULT_MISS, UNETMM_FAULT_EVICT);
    }
}

/* More pages than the TLB holds in one reply: as many as fit, no trading. */
TEST_OF(test_reply_too_long_for_tlb, Fix *f, fix_test_with, one_set)
{
    uint32_t taken;

    assert_int_equal(fake_insert(f->s1, PAGE(0), 5, &taken),
                     UNETMM_CS_PARTIAL);
    assert_int_equal(taken, 2);
    fix_no_fault(f);
    assert_int_equal(fake_insert(f->s2, PAGE(0), 2, &taken), UNETMM_CS_OK);
    assert_int_equal(taken, 2);
    /* The second could not push out the first and went to the victims. */
    assert_int_equal(take(f).vaddr, PAGE(1));
    assert_int_equal(take(f).vaddr, PAGE(0));
}

/* A message of more pages than the TLB has still gets through. */
TEST_OF(test_send_larger_than_tlb, Fix *f, fix_test_with, one_set)
{
    fake_fill(f->s1, PAGE(0), 65536, 5);
    fake_send_at(&f->a, FIX_WIRE, PAGE(0), 65536, 1);
    fix_settle(f);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_check_frame(fake_wire_at(&f->h, 0), 65536, 5);
}

/* A page with the wrong right is a miss like any other. */
TEST_OF(test_right_upgrade, Fix *f, fix_test)
{
    struct unetmm_fault m;

    fake_vpage(f->s1, PAGE(0))->rights = FAKE_R;
    fake_insert(f->s1, PAGE(0), 1, NULL);
    fake_vpage(f->s1, PAGE(0))->rights = FAKE_RW;
    fake_post(&f->a, PAGE(0), 4096, 1);
    fake_ring_bell(&f->a);
    m = take(f);
    assert_int_equal(m.flags, UNETMM_FAULT_F_WRITE | UNETMM_FAULT_F_HEAD);
    fake_resolve(&f->d, &m, 1, NULL);
    fake_deliver(&f->h, fake_datagram(&f->a, FIX_WIRE, 11, 100, 1));
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
    fix_no_fault(f);
}

/* Entries without any right are never used. */
TEST_OF(test_entry_without_rights, Fix *f, fix_test)
{
    struct unetmm_fault m;

    fake_vpage(f->s1, PAGE(0))->rights = 0;
    assert_int_equal(fake_insert(f->s1, PAGE(0), 1, NULL), UNETMM_CS_OK);
    fix_send(f, &f->a, 0, 100, 1);
    m = take(f);
    assert_int_equal(m.vaddr, PAGE(0));
    fake_expect_none(&f->a);
}

/* The driver's answers arrive at every order; all sends end. */
TEST_OF(test_random_order_of_answers, Fix *f, fix_test_with, one_set)
{
    uint64_t random = fake_seed();
    FakeEp e[5];
    unsigned done = 0;

    for (unsigned i = 0; i < 5; i++) {
        fake_ep_open(&e[i], &f->d, 3 + i, i % 2 ? f->s1 : f->s2);
        fake_connect_peer(&e[i], FIX_WIRE, 13, FIX_MTU);
    }
    f->d.hold_back = true;
    for (unsigned step = 0; done < 400; step++) {
        unsigned i = fake_random(&random) % 5;
        struct unetmm_cqe cqe;

        assert_true(step < 100000);
        if (e[i].sq_prod - fake_card(&e[i]).sq_cons < 8) {
            fix_send(f, &e[i], fake_random(&random) % 30,
                     1 + fake_random(&random) % 30000, step);
        }
        fake_serve(&f->d);
        if (f->d.waiting->len) {
            unsigned n = fake_random(&random) % f->d.waiting->len;
            struct unetmm_fault m = g_array_index(f->d.waiting,
                                                  struct unetmm_fault, n);

            g_array_remove_index_fast(f->d.waiting, n);
            switch (fake_random(&random) % 4) {
            case 0:
                fake_reply(&f->d, &m, UNETMM_REPLY_RETRY, 0);
                break;
            case 1:
                if (fake_reply(&f->d, &m, UNETMM_REPLY_DEFERRED, 0) ==
                    UNETMM_CS_OK) {
                    g_array_append_val(f->d.waiting, m);
                }
                break;
            default:
                fake_resolve(&f->d, &m, 1 + fake_random(&random) % m.npages,
                             NULL);
                break;
            }
        }
        while (fake_poll(&e[i], &cqe)) {
            assert_int_equal(cqe.status, UNETMM_ST_OK);
            done++;
        }
    }
    assert_true(f->h.core.miss->joined <= 5);
}

/* A depth that was never enabled is a number, and any: nothing relies on it. */
TEST_OF(test_depth_of_no_ring, Fix *f, fix_test)
{
    static const uint32_t log2[] = { 31, 32, 40, 64, UINT32_MAX };
    uint32_t reg = UNETMM_REG_RING(UNETMM_RING_FAULT);

    fake_set_reg(&f->h, reg + UNETMM_RING_ENABLE, 0);
    for (unsigned i = 0; i < G_N_ELEMENTS(log2); i++) {
        fake_set_reg(&f->h, reg + UNETMM_RING_LOG2, log2[i]);
        fake_send_at(&f->a, FIX_WIRE, FIX_PAGE(i), 100, i);
        fake_ring_bell(&f->a);
        assert_true(fake_reg(&f->h, UNETMM_REG_EVENTS) &
                    UNETMM_EVENT_FAULT_FULL);
        assert_int_equal(f->h.core.miss->asked, 0);
        fake_set_reg(&f->h, reg + UNETMM_RING_ENABLE, 1);
        assert_int_equal(fake_reg(&f->h, reg + UNETMM_RING_ENABLE), 0);
    }
}
