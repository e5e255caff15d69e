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

TEST_OF(test_present_pinned, Slots *t, slots_test)
{
    slots_open(t, UNETMM_SOURCE_PINNED, 0);
    land_in_turn(t);
    assert_int_equal(fake_counter(&t->h, UNETMM_C_rx_frames), 16);
    assert_int_equal(fake_counter(&t->h, UNETMM_C_rx_bytes), 12000);
    /* Given to it past all flows. */
    assert_int_equal(fake_counter(&t->h, UNETMM_C_eth_rx_frames), 0);
}

static void present_with(void **state, uint8_t source)
{
    Slots *t = *state;

    slots_open(t, source, 0);
    slots_present(t, 0, 16);
    land_in_turn(t);
}

TEST(test_present_tlb, slots_test)
{
    present_with(state, UNETMM_SOURCE_TLB);
}

TEST(test_present_shadow, slots_test)
{
    present_with(state, UNETMM_SOURCE_SHADOW);
    /* Not one lock is left. */
    for (unsigned i = 0; i < 16; i++) {
        Slots *t = *state;

        assert_int_equal(fake_table_get(t->s, SLOTS_PAGE(i)) &
                         UNETMM_PTE_LOCKS, 0);
    }
}

TEST(test_present_odp, slots_test)
{
    present_with(state, UNETMM_SOURCE_ODP);
}

/* Nothing is looked at before a packet needs it. */
TEST_OF(test_nothing_ahead, Slots *t, slots_test)
{
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

TEST(test_absent_tlb, slots_test)
{
    absent_with(*state, UNETMM_SOURCE_TLB);
}

TEST(test_absent_shadow, slots_test)
{
    absent_with(*state, UNETMM_SOURCE_SHADOW);
}

TEST(test_absent_odp, slots_test)
{
    absent_with(*state, UNETMM_SOURCE_ODP);
}

/* Only the pages that the packet touches have to be there. */
TEST_OF(test_touched_pages_do, Slots *t, slots_test)
{
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
TEST_OF(test_answers, Slots *t, slots_test)
{
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

/* ---- Buffers that are no good ---- */

static void post_raw(Slots *t, struct unetmm_fqe fqe)
{
    uint32_t slot = t->e.fq_prod & ((1u << t->e.fq_log2) - 1);

    unetmm_le_fqe(&fqe);
    fake_write(&t->h, t->e.fq + slot * sizeof(fqe), &fqe, sizeof(fqe));
    t->e.fq_prod++;
    fake_user_word(&t->e, offsetof(struct unetmm_ep_user, fq_prod),
                   t->e.fq_prod);
}

static const struct unetmm_fqe garbage[] = {
    { .addr = SLOTS_VA, .len = 0 },
    { .addr = SLOTS_VA, .len = 64, .rsvd = 1 },
    { .addr = SLOTS_VA, .len = 64, .flags = 2 },
    { .addr = SLOTS_VA, .len = 64, .flags = UNETMM_FQE_F_ZERO },
    { .addr = UINT64_MAX - 62, .len = 65 },
    { .addr = SLOTS_VA, .len = UINT32_MAX },
    { .addr = SLOTS_VA + SLOTS_PAGES * FAKE_PAGE, .len = 64 },
};
static const uint8_t garbage_status[] = {
    UNETMM_ST_BAD_DESC, UNETMM_ST_BAD_DESC, UNETMM_ST_BAD_DESC,
    UNETMM_ST_BAD_DESC, UNETMM_ST_BAD_DESC, UNETMM_ST_TOO_LARGE,
    UNETMM_ST_PROTECTION,
};

/* Each goes back in its turn, and the packet finds the good one behind. */
TEST_OF(test_garbage, Slots *t, slots_test)
{
    slots_open(t, UNETMM_SOURCE_PINNED, 0);
    for (unsigned i = 0; i < G_N_ELEMENTS(garbage); i++) {
        struct unetmm_fqe fqe = garbage[i];

        fqe.cookie = 77 + i;
        post_raw(t, fqe);
    }
    slots_post(t, 3, 1);
    fake_expect_none(&t->e);
    expect_count(&t->h, bufs_failed, G_N_ELEMENTS(garbage),
                 slots_give(t, 64, 5));
    for (unsigned i = 0; i < G_N_ELEMENTS(garbage); i++) {
        fake_expect(&t->e, UNETMM_CQE_BUFFER, garbage_status[i], 77 + i);
    }
    slots_got(t, 3, 64, 5);
    assert_int_equal(fake_counter(&t->h, UNETMM_C_err_descriptor), 5);
    assert_int_equal(slots_drops(t), 0);
}

/* One packet does not pay for all that a process posts. */
TEST_OF(test_garbage_is_bounded, Slots *t, slots_test)
{
    t->e.fq_log2 = t->e.cq_log2 = 6;
    slots_open(t, UNETMM_SOURCE_PINNED, 0);
    for (unsigned i = 0; i < 64; i++) {
        post_raw(t, garbage[0]);
    }
    expect_count(&t->h, drop_no_buffer, 1, slots_give(t, 64, 1));
    assert_int_equal(fake_card(&t->e).fq_cons, 16);
    assert_int_equal(fake_card(&t->e).cq_prod, 16);
}

TEST_OF(test_too_short, Slots *t, slots_test)
{
    slots_open(t, UNETMM_SOURCE_PINNED, 0);
    slots_post(t, 0, 1);
    fake_snapshot(&t->h);
    expect_count(&t->h, drop_too_long, 1, slots_give(t, SLOTS_LEN + 1, 1));
    assert_memory_equal(t->h.before, t->h.ram, FAKE_RAM_BYTES);
    slots_give(t, SLOTS_LEN, 2);
    slots_got(t, 0, SLOTS_LEN, 2);
}

/* The bus refuses the buffer: it goes back, the packet is lost. */
TEST_OF(test_dma_refused, Slots *t, slots_test)
{
    slots_open(t, UNETMM_SOURCE_PINNED, 0);
    slots_post(t, 0, 2);
    t->h.refuse_first = fake_vpage(t->s, SLOTS_PAGE(0))->dma;
    t->h.refuse_last = t->h.refuse_first + FAKE_PAGE - 1;
    expect_count(&t->h, drop_dma, 1, slots_give(t, 100, 1));
    slots_returned(t, 0, UNETMM_ST_DMA);
    slots_give(t, 100, 2);
    slots_got(t, 1, 100, 2);
}

TEST_OF(test_queue_refused, Slots *t, slots_test)
{
    slots_open(t, UNETMM_SOURCE_PINNED, 0);
    slots_post(t, 0, 1);
    t->h.refuse_first = t->e.fq;
    t->h.refuse_last = t->e.fq + 31;
    expect_count(&t->h, drop_stopped, 1, slots_give(t, 100, 1));
    fake_run_later(&t->h);
    fake_expect(&t->e, UNETMM_CQE_FAILED, UNETMM_ST_DMA, 0);
}

/* A place in the completion queue for each; the process makes room. */
TEST_OF(test_cq_full, Slots *t, slots_test)
{
    t->e.cq_log2 = 1;
    slots_open(t, UNETMM_SOURCE_PINNED, 0);
    slots_post(t, 0, 4);
    slots_give(t, 10, 0);
    slots_give(t, 10, 1);
    expect_count(&t->h, drop_cq_full, 1, slots_give(t, 10, 2));
    assert_int_equal(fake_card(&t->e).state,
                     UNETMM_EP_RUNNING | UNETMM_EP_CQ_BLOCKED);
    slots_got(t, 0, 10, 0);
    slots_give(t, 10, 3);
    slots_got(t, 1, 10, 1);
    slots_got(t, 2, 10, 3);
}

/* ---- Time ---- */

static void open_slow(Slots *t, uint8_t source)
{
    t->p.dma_page_ns = 1000;
    slots_open(t, source, 0);
}

/* Three pages, one after the other; the completion comes with the last. */
static void slow_with(Slots *t, uint8_t source)
{
    open_slow(t, source);
    if (source != UNETMM_SOURCE_PINNED) {
        slots_present(t, 0, 3);
    }
    fake_post(&t->e, SLOTS_PAGE(0) + 4000, 3 * FAKE_PAGE - 4000, 9);
    slots_give(t, 8000, 4);
    assert_true(t->h.core.landing->active);
    for (unsigned i = 0; i < 3; i++) {
        fake_expect_none(&t->e);
        if (source == UNETMM_SOURCE_SHADOW) {
            assert_int_equal(fake_table_get(t->s, SLOTS_PAGE(i)) &
                             UNETMM_PTE_LOCKS, UNETMM_PTE_LOCK);
        }
        fake_advance(&t->h, 1000);
    }
    fake_expect(&t->e, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 9);
    fake_check(t->s, SLOTS_PAGE(0) + 4000, 8000, 4);
    assert_false(t->h.core.landing->active);
}

TEST(test_slow_pinned, slots_test)
{
    slow_with(*state, UNETMM_SOURCE_PINNED);
}

TEST(test_slow_tlb, slots_test)
{
    slow_with(*state, UNETMM_SOURCE_TLB);
}

TEST(test_slow_shadow, slots_test)
{
    slow_with(*state, UNETMM_SOURCE_SHADOW);
}

/* The second page goes while the first one moves. */
TEST_OF(test_gone_meanwhile, Slots *t, slots_test)
{
    open_slow(t, UNETMM_SOURCE_ODP);
    slots_present(t, 0, 2);
    fake_post(&t->e, SLOTS_PAGE(0), 2 * FAKE_PAGE, 9);
    slots_give(t, 5000, 4);
    assert_false(fake_invalidate(t->s, SLOTS_PAGE(1), FAKE_PAGE));
    expect_count(&t->h, drop_invalidated, 1, fake_advance(&t->h, 1000));
    fake_expect_none(&t->e);
    /* The slot stays. */
    slots_present(t, 1, 1);
    slots_give(t, 5000, 5);
    fake_advance(&t->h, 2000);
    fake_expect(&t->e, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 9);
    fake_check(t->s, SLOTS_PAGE(0), 5000, 5);
}

/* A processor takes the entry between lookup and lock. */
static void take_entry(FakeHost *host, uint64_t addr)
{
    Slots *t = container_of(host, Slots, h);

    host->on_atomic = NULL;
    fake_table_set(t->s, SLOTS_PAGE(0), 0);
}

TEST_OF(test_gone_before_lock, Slots *t, slots_test)
{
    slots_open(t, UNETMM_SOURCE_SHADOW, 0);
    slots_present(t, 0, 1);
    slots_post(t, 0, 1);
    t->h.on_atomic = take_entry;
    expect_count(&t->h, drop_invalidated, 1, slots_give(t, 100, 1));
    fake_expect_none(&t->e);
    slots_present(t, 0, 1);
    slots_give(t, 100, 2);
    slots_got(t, 0, 100, 2);
}

/* Destroyed while a page moves: EP_DESTROY completes behind it. */
TEST_OF(test_destroyed_meanwhile, Slots *t, slots_test)
{
    struct unetmm_cmd cmd = { .opcode = UNETMM_CMD_EP_DESTROY, .ep = 1 };
    struct unetmm_cmd_done done;

    open_slow(t, UNETMM_SOURCE_TLB);
    slots_present(t, 0, 2);
    fake_post(&t->e, SLOTS_PAGE(0), 2 * FAKE_PAGE, 9);
    slots_give(t, 5000, 4);
    fake_issue(&t->d, cmd);
    assert_false(fake_done(&t->d, &done));
    expect_count(&t->h, drop_stopped, 1, fake_advance(&t->h, 1000));
    assert_true(fake_done(&t->d, &done));
    assert_int_equal(done.status, UNETMM_CS_OK);
    assert_false(fake_invalidate(t->s, SLOTS_PAGE(0), 2 * FAKE_PAGE));
}

/*
 * A card is restored whose completion queue has no place for the message that
 * lands: the message is lost, and nothing is written over the others.
 */
TEST_OF(test_lands_without_a_place, Slots *t, slots_test)
{
    UnetmmEp *ep;

    open_slow(t, UNETMM_SOURCE_TLB);
    slots_present(t, 0, 2);
    fake_post(&t->e, SLOTS_PAGE(0), 2 * FAKE_PAGE, 9);
    slots_give(t, 100, 4);
    ep = &t->h.core.eps[1];
    assert_true(ep->landing);
    ep->cq_prod += 1u << ep->cq_log2;
    fake_migrate(&t->h);
    fake_snapshot(&t->h);
    expect_count(&t->h, drop_cq_full, 1, fake_advance(&t->h, 1000));
    assert_int_equal(fake_counter(&t->h, UNETMM_C_rx_frames), 0);
    assert_memory_equal(fake_ptr(&t->h, t->e.cq, 64u << t->e.cq_log2),
                        t->h.before + (t->e.cq - FAKE_RAM_BASE),
                        64u << t->e.cq_log2);
    assert_int_equal(t->h.core.eps[1].fq_cons, 0);
}
