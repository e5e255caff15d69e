/*
 * unetmm: slots that are looked at when they are used: policy drop, bad
 * descriptors, all sources, the landing
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "slots.h"


/* ---- Landing ---- */

static void land_in_turn(Slots *t)
{
    slots_post(t, 0, 16);
    for (unsigned i = 0; i < 16; i++) {
        slots_give(t, i ? i * 100 : 0, i);
        slots_got(t, i, i ? i * 100 : 0, i);
    }
    assert_int_equal(fake_card(&t->e).fq_cons, 16);
    assert_int_equal(slots_drops(t), 0);
    expect_count(&t->h, drop_no_buffer, 1, slots_give(t, 60, 1));
    fake_expect_none(&t->e);
}

static void test_present_pinned(void **state)
{
    Slots *t = *state;

    slots_open(t, UNETMM_SOURCE_PINNED, 0);
    land_in_turn(t);
    assert_int_equal(fake_counter(&t->h, UNETMM_C_eth_rx_frames), 16);
    assert_int_equal(fake_counter(&t->h, UNETMM_C_eth_rx_bytes), 12000);
    assert_int_equal(fake_counter(&t->h, UNETMM_C_rx_frames), 0);
}

static void present_with(void **state, uint8_t source)
{
    Slots *t = *state;

    slots_open(t, source, 0);
    slots_present(t, 0, 16);
    land_in_turn(t);
}

static void test_present_tlb(void **state)
{
    present_with(state, UNETMM_SOURCE_TLB);
}

static void test_present_shadow(void **state)
{
    present_with(state, UNETMM_SOURCE_SHADOW);
    /* Not one lock is left. */
    for (unsigned i = 0; i < 16; i++) {
        Slots *t = *state;

        assert_int_equal(fake_table_get(t->s, SLOTS_PAGE(i)) &
                         UNETMM_PTE_LOCKS, 0);
    }
}

static void test_present_odp(void **state)
{
    present_with(state, UNETMM_SOURCE_ODP);
}

/* Nothing is looked at before a packet needs it. */
static void test_nothing_ahead(void **state)
{
    Slots *t = *state;
    struct unetmm_fault f;

    slots_open(t, UNETMM_SOURCE_TLB, 0);
    slots_post(t, 0, 4);
    fake_ring_bell(&t->e);
    assert_false(fake_fault(&t->d, &f));
    assert_int_equal(fake_counter(&t->h, UNETMM_C_tlb_misses), 0);
}

/* ---- Absent, policy drop ---- */

/* One miss, of the buffer; the packets meanwhile are lost; the slot stays. */
static void absent_with(Slots *t, uint8_t source)
{
    struct unetmm_fault f;

    slots_open(t, source, 0);
    fake_post(&t->e, SLOTS_PAGE(0) + 96, 2 * FAKE_PAGE, SLOTS_PAGE(0));
    expect_count(&t->h, drop_absent, 1, slots_give(t, 300, 1));
    assert_true(fake_fault(&t->d, &f));
    assert_int_equal(f.type, UNETMM_FAULT_MISS);
    assert_int_equal(f.vaddr, SLOTS_PAGE(0));
    assert_int_equal(f.npages, 3);
    assert_int_equal(f.flags, UNETMM_FAULT_F_WRITE | UNETMM_FAULT_F_HEAD);
    expect_count(&t->h, drop_absent, 1, slots_give(t, 300, 2));
    assert_false(fake_fault(&t->d, &f));
    assert_int_equal(fake_card(&t->e).fq_cons, 0);
    assert_int_equal(fake_resolve(&t->d, &f, 3, NULL), UNETMM_CS_OK);
    slots_give(t, 300, 3);
    fake_expect(&t->e, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, SLOTS_PAGE(0));
    fake_check(t->s, SLOTS_PAGE(0) + 96, 300, 3);
    assert_int_equal(slots_drops(t), 2);
}

static void test_absent_tlb(void **state)
{
    absent_with(*state, UNETMM_SOURCE_TLB);
}

static void test_absent_shadow(void **state)
{
    absent_with(*state, UNETMM_SOURCE_SHADOW);
}

static void test_absent_odp(void **state)
{
    absent_with(*state, UNETMM_SOURCE_ODP);
}

/* Only the pages that the packet touches have to be there. */
static void test_touched_pages_do(void **state)
{
    Slots *t = *state;
    struct unetmm_fault f;

    slots_open(t, UNETMM_SOURCE_ODP, 0);
    slots_present(t, 0, 1);
    fake_post(&t->e, SLOTS_PAGE(0), 3 * FAKE_PAGE, SLOTS_PAGE(0));
    slots_give(t, FAKE_PAGE, 1);
    slots_got(t, 0, FAKE_PAGE, 1);
    fake_post(&t->e, SLOTS_PAGE(0), 3 * FAKE_PAGE, SLOTS_PAGE(0));
    expect_count(&t->h, drop_absent, 1, slots_give(t, FAKE_PAGE + 1, 2));
    assert_true(fake_fault(&t->d, &f));
    assert_int_equal(f.vaddr, SLOTS_PAGE(1));
    assert_int_equal(f.npages, 2);
}

/* DEFERRED, then RETRY, then ERROR: the buffer goes back to the next packet. */
static void test_answers(void **state)
{
    Slots *t = *state;
    struct unetmm_fault f;

    slots_open(t, UNETMM_SOURCE_TLB, 0);
    slots_post(t, 0, 2);
    slots_present(t, 1, 1);
    slots_give(t, 60, 1);
    assert_true(fake_fault(&t->d, &f));
    expect_count(&t->h, faults_deferred, 1, (void)fake_reply(
                     &t->d, &f, UNETMM_REPLY_DEFERRED, 0));
    slots_give(t, 60, 2);
    assert_int_equal(fake_reply(&t->d, &f, UNETMM_REPLY_RETRY, 0),
                     UNETMM_CS_OK);
    assert_true(fake_fault(&t->d, &f));
    assert_int_equal(fake_reply(&t->d, &f, UNETMM_REPLY_ERROR,
                                UNETMM_ST_LIMIT), UNETMM_CS_OK);
    fake_expect_none(&t->e);
    expect_count(&t->h, bufs_failed, 1, slots_give(t, 60, 3));
    slots_returned(t, 0, UNETMM_ST_LIMIT);
    slots_got(t, 1, 60, 3);
    assert_int_equal(slots_drops(t), 2);
    /* It was said of that slot, not of its page. */
    slots_post(t, 0, 1);
    slots_present(t, 0, 1);
    slots_give(t, 60, 4);
    slots_got(t, 0, 60, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        slots_test(test_present_pinned),
        slots_test(test_present_tlb),
        slots_test(test_present_shadow),
        slots_test(test_present_odp),
        slots_test(test_nothing_ahead),
        slots_test(test_absent_tlb),
        slots_test(test_absent_shadow),
        slots_test(test_absent_odp),
        slots_test(test_touched_pages_do),
        slots_test(test_answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
