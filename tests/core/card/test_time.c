/*
 * unetmm: pages that take time to move (x-dma-page-ns): busy entries,
 * invalidation under load, ends and resets in mid-transfer
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fixture.h"

#define PAGE(n) (FIX_VA + (uint64_t)(n) * FAKE_PAGE)
#define NS 1000

static void slow(UnetmmParams *p)
{
    p->dma_page_ns = NS;
}

static void slow_one_set(UnetmmParams *p)
{
    slow(p);
    p->tlb_sets = 1;
    p->tlb_victims = 1;
}

static void slow_short_queue(UnetmmParams *p)
{
    slow(p);
    p->local_queue = 3;
}

static bool inv_busy(Fix *f)
{
    return fake_reg(&f->h, UNETMM_REG_INV_CTRL) & UNETMM_INV_BUSY;
}

static FakeFrame *frame(Fix *f, uint32_t len, uint32_t n)
{
    return fake_datagram(&f->a, FIX_WIRE, 11, len, n);
}

TEST_OF(test_send_takes_its_time, Fix *f, fix_test_with, slow)
{
    fake_fill(f->s1, PAGE(0) + 100, 2 * 4096, 1);
    fake_insert(f->s1, PAGE(0), 3, NULL);
    fake_send_at(&f->a, FIX_WIRE, PAGE(0) + 100, 2 * 4096, 1);
    fake_ring_bell(&f->a);
    for (unsigned i = 0; i < 3; i++) {
        fake_expect_none(&f->a);
        assert_int_equal(f->h.timer, f->h.now + NS);
        assert_int_equal(fake_advance(&f->h, NS - 1), 0);
        assert_int_equal(fake_advance(&f->h, 1), 1);
    }
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_check_frame(fake_wire_at(&f->h, 0), 2 * 4096, 1);
    assert_int_equal(f->h.timer, INT64_MAX);
    assert_int_equal(f->h.core.source->tlb.moving, 0);
}

/* The data is that of the end of the page's time. */
TEST_OF(test_data_moves_at_the_end, Fix *f, fix_test_with, slow)
{
    fake_fill(f->s1, PAGE(0), 100, 1);
    fake_insert(f->s1, PAGE(0), 1, NULL);
    fake_send_at(&f->a, FIX_WIRE, PAGE(0), 100, 1);
    fake_ring_bell(&f->a);
    fake_fill(f->s1, PAGE(0), 100, 2);
    fake_advance(&f->h, NS);
    fake_check_frame(fake_wire_at(&f->h, 0), 100, 2);
}

TEST_OF(test_endpoints_move_together, Fix *f, fix_test_with, slow)
{
    fake_insert(f->s1, PAGE(0), 1, NULL);
    fake_insert(f->s2, PAGE(0), 1, NULL);
    fake_send_at(&f->a, FIX_WIRE, PAGE(0), 100, 1);
    fake_ring_bell(&f->a);
    fake_advance(&f->h, NS / 2);
    fake_send_at(&f->b, FIX_WIRE, PAGE(0), 100, 2);
    fake_ring_bell(&f->b);
    fake_advance(&f->h, NS / 2);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect_none(&f->b);
    fake_advance(&f->h, NS / 2);
    fake_expect(&f->b, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
}

/* An entry is busy from its lookup to the page's end, and only then. */
TEST_OF(test_busy_entry_is_not_evicted, Fix *f, fix_test_with, slow_one_set)
{
    struct unetmm_fault m;
    uint32_t taken;

    fake_insert(f->s1, PAGE(0), 1, NULL);
    fake_insert(f->s1, PAGE(1), 1, NULL);
    fake_fill(f->s1, PAGE(0), 2 * 4096, 1);
    fake_send_at(&f->a, FIX_WIRE, PAGE(0), 4096, 1);
    fake_ring_bell(&f->a);
    /* Page 0 moves; page 1 may go. */
    fake_insert(f->s2, PAGE(0), 1, &taken);
    assert_int_equal(taken, 1);
    assert_true(fake_fault(&f->d, &m));
    assert_int_equal(m.type, UNETMM_FAULT_EVICT);
    assert_int_equal(m.vaddr, PAGE(1));
    /* b's page moves as well: all busy, so a third is refused. */
    fake_send_at(&f->b, FIX_WIRE, PAGE(0), 4096, 2);
    fake_ring_bell(&f->b);
    expect_count(&f->h, tlb_refused, 1,
                 assert_int_equal(fake_insert(f->s2, PAGE(5), 1, &taken),
                                  UNETMM_CS_PARTIAL));
    assert_int_equal(taken, 0);
    fake_advance(&f->h, NS);
    assert_int_equal(fake_insert(f->s2, PAGE(5), 1, &taken), UNETMM_CS_OK);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect(&f->b, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
}

/* An insert refused because all was busy is asked again at the release. */
TEST_OF(test_refused_and_retried, Fix *f, fix_test_with, slow_one_set)
{
    struct unetmm_fault m;
    FakeEp c;

    fake_ep_open(&c, &f->d, 3, f->s1);
    fake_connect_peer(&c, FIX_WIRE, 13, FIX_MTU);
    fake_insert(f->s1, PAGE(0), 1, NULL);
    fake_insert(f->s2, PAGE(0), 1, NULL);
    fake_send_at(&f->a, FIX_WIRE, PAGE(0), 100, 1);
    fake_send_at(&f->b, FIX_WIRE, PAGE(0), 100, 2);
    fake_ring_bell(&f->a);
    fake_ring_bell(&f->b);
    fake_send_at(&c, FIX_WIRE, PAGE(7), 100, 3);
    fake_ring_bell(&c);
    assert_true(fake_fault(&f->d, &m));
    assert_int_equal(fake_resolve(&f->d, &m, 1, NULL), UNETMM_CS_PARTIAL);
    assert_false(fake_fault(&f->d, &m));
    fake_advance(&f->h, NS);
    assert_true(fake_fault(&f->d, &m));
    assert_int_equal(m.type, UNETMM_FAULT_MISS);
    assert_int_equal(m.vaddr, PAGE(7));
    assert_int_equal(fake_resolve(&f->d, &m, 1, NULL), UNETMM_CS_OK);
    fake_advance(&f->h, NS);
    fake_expect(&c, UNETMM_CQE_SENT, UNETMM_ST_OK, 3);
}

/* ---- Receiving ---- */

TEST_OF(test_receive_page_by_page, Fix *f, fix_test_with, slow)
{
    fake_post(&f->a, PAGE(0) + 4000, 9000, 1);
    fix_settle(f);
    fake_deliver(&f->h, frame(f, 8000, 5));
    for (unsigned i = 0; i < 3; i++) {
        fake_expect_none(&f->a);
        fake_advance(&f->h, NS - 1);
        fake_expect_none(&f->a);
        fake_advance(&f->h, 1);
    }
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
    fake_check(f->s1, PAGE(0) + 4000, 8000, 5);
    assert_int_equal(f->h.core.source->tlb.moving, 0);
}

/* Messages queue while one lands; inline ones and other endpoints' too. */
TEST_OF(test_landing_with_several_queued, Fix *f, fix_test_with, slow)
{
    for (unsigned i = 0; i < 3; i++) {
        fake_post(&f->a, PAGE(3 * i), 9000, i);
    }
    fix_settle(f);
    for (unsigned i = 0; i < 3; i++) {
        fake_deliver(&f->h, frame(f, 8192, i));
    }
    fake_deliver(&f->h, frame(f, 8, 9));
    fake_expect_none(&f->a);
    for (unsigned i = 0; i < 3; i++) {
        fake_advance(&f->h, 2 * NS);
        fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, i);
        fake_check(f->s1, PAGE(3 * i), 8192, i);
    }
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
    fake_expect_none(&f->a);
}

/* The queue is full: the wire is told to wait, and then to go on. */
TEST_OF(test_queue_full_while_landing, Fix *f, fix_test_with, slow_short_queue)
{
    FakeFrame *one = frame(f, 8, 9);

    fake_post(&f->a, PAGE(0), 9000, 1);
    fix_settle(f);
    fake_deliver(&f->h, frame(f, 4096, 1));
    for (unsigned i = 0; i < 3; i++) {
        assert_true(unetmm_core_can_receive(&f->h.core));
        assert_true(fake_receive(&f->h, one));
    }
    assert_false(unetmm_core_can_receive(&f->h.core));
    assert_false(fake_receive(&f->h, one));
    assert_int_equal(f->h.may_receive, 0);
    fake_advance(&f->h, NS);
    assert_int_equal(f->h.may_receive, 1);
    assert_true(unetmm_core_can_receive(&f->h.core));
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
    for (unsigned i = 0; i < 3; i++) {
        fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
    }
    fake_expect_none(&f->a);
    g_free(one);
}

/* A card that is turned off meanwhile drops frames; it blocks no wire. */
TEST_OF(test_queue_full_and_disabled, Fix *f, fix_test_with, slow_short_queue)
{
    FakeFrame *one = frame(f, 8, 9);

    fake_post(&f->a, PAGE(0), 9000, 1);
    fix_settle(f);
    fake_deliver(&f->h, frame(f, 4096, 1));
    for (unsigned i = 0; i < 3; i++) {
        assert_true(fake_receive(&f->h, one));
    }
    assert_false(unetmm_core_can_receive(&f->h.core));
    fake_set_reg(&f->h, UNETMM_REG_CTRL, 0);
    assert_int_equal(f->h.may_receive, 1);
    expect_count(&f->h, drop_disabled, 1,
                 assert_true(fake_receive(&f->h, one)));
    fake_set_reg(&f->h, UNETMM_REG_CTRL, 1);
    fake_advance(&f->h, NS);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
    for (unsigned i = 0; i < 3; i++) {
        fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
    }
    g_free(one);
}

/* A landing message has a right to its place in the completion queue. */
TEST_OF(test_place_for_landing_message, Fix *f, fix_test_with, slow)
{
    fake_post(&f->a, PAGE(0), 4096, 1);
    fake_insert(f->s1, PAGE(5), 1, NULL);
    fix_settle(f);
    for (unsigned i = 0; i < 14; i++) {
        fake_deliver(&f->h, frame(f, 8, i));
    }
    fake_deliver(&f->h, frame(f, 4096, 7));
    for (unsigned i = 0; i < 3; i++) {
        fake_send_inline(&f->a, FIX_WIRE, i, 8, 100 + i, 0);
    }
    /* It waits once, not over and over until the page has moved. */
    expect_count(&f->h, cq_waits, 1, fake_ring_bell(&f->a));
    assert_int_equal(f->h.later, 0);
    fake_advance(&f->h, NS);
    for (unsigned i = 0; i < 14; i++) {
        fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
    }
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 100);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
    fake_ring_bell(&f->a);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 101);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 102);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_drop_cq_full), 0);
}

/* ---- Invalidation under load ---- */

TEST_OF(test_invalidate_waits_for_the_page, Fix *f, fix_test_with, slow)
{
    fake_fill(f->s1, PAGE(0), 4 * 4096, 1);
    fake_insert(f->s1, PAGE(0), 4, NULL);
    fake_send_at(&f->a, FIX_WIRE, PAGE(0), 4 * 4096, 1);
    fake_ring_bell(&f->a);
    /* Page 0 moves: others are done at once, it when it has landed. */
    assert_false(fake_invalidate(f->s1, PAGE(2), 2 * 4096));
    assert_false(fake_invalidate(f->s2, PAGE(0), 4 * 4096));
    expect_count(&f->h, inv_waits, 1,
                 assert_true(fake_invalidate(f->s1, PAGE(0), 4096)));
    fake_advance(&f->h, NS - 1);
    assert_true(inv_busy(f));
    fake_advance(&f->h, 1);
    /* And no longer: the message itself goes on with page 1. */
    assert_false(inv_busy(f));
    assert_int_equal(f->h.wire->len, 0);
    fake_advance(&f->h, NS);
    /* Pages 2 and 3 are asked for again: dropped is dropped. */
    fake_serve(&f->d);
    fake_advance(&f->h, 2 * NS);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_check_frame(fake_wire_at(&f->h, 0), 4 * 4096, 1);
}

/* The registers may be written while an invalidation is under way. */
TEST_OF(test_invalidate_registers_change, Fix *f, fix_test_with, slow)
{
    static const uint32_t spaces[] = { 0, 2, 3, 7, 8, 0xffff, 0xffffffff };

    fake_insert(f->s1, PAGE(0), 1, NULL);
    fake_send_at(&f->a, FIX_WIRE, PAGE(0), 4096, 1);
    fake_ring_bell(&f->a);
    assert_true(fake_invalidate(f->s1, PAGE(0), 4096));
    for (unsigned i = 0; i < G_N_ELEMENTS(spaces); i++) {
        fake_set_reg(&f->h, UNETMM_REG_INV_SPACE, spaces[i]);
        fake_set_reg(&f->h, UNETMM_REG_INV_START_LO, 0);
        fake_set_reg(&f->h, UNETMM_REG_INV_LAST_LO, 0);
        assert_true(inv_busy(f));
    }
    fake_advance(&f->h, NS);
    assert_false(inv_busy(f));
}

static uint8_t inv_command(Fix *f, uint32_t space, uint64_t start,
                           uint64_t last, uint32_t *busy)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_INVALIDATE, .space = space,
        .inv = { .start = start, .last = last },
    };

    return fake_command(&f->d, cmd, busy);
}

/* INVALIDATE: at once, or INV_CTRL says when; the registers keep values. */
TEST_OF(test_invalidate_command, Fix *f, fix_test_with, slow)
{
    uint32_t busy;

    fake_set_reg(&f->h, UNETMM_REG_INV_SPACE, 77);
    fake_set_reg(&f->h, UNETMM_REG_INV_LAST_HI, 78);
    fake_insert(f->s1, PAGE(0), 4, NULL);
    assert_int_equal(inv_command(f, 1, PAGE(1), PAGE(2) + 1, &busy),
                     UNETMM_CS_OK);
    assert_int_equal(busy, 0);
    assert_int_equal(f->h.core.source->tlb.used, 2);
    fake_send_at(&f->a, FIX_WIRE, PAGE(0), 4096, 1);
    fake_ring_bell(&f->a);
    assert_int_equal(inv_command(f, 1, PAGE(0), PAGE(1) - 1, &busy),
                     UNETMM_CS_OK);
    assert_int_equal(busy, 1);
    assert_true(inv_busy(f));
    fake_advance(&f->h, NS);
    assert_false(inv_busy(f));
    assert_int_equal(f->h.core.source->tlb.used, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    assert_int_equal(fake_reg(&f->h, UNETMM_REG_INV_SPACE), 77);
    assert_int_equal(fake_reg(&f->h, UNETMM_REG_INV_LAST_HI), 78);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_invalidations), 2);
}

TEST_OF(test_invalidate_command_bad, Fix *f, fix_test_with, slow)
{
    static const uint32_t spaces[] = { 0, 2, 3, 7, 8, 0xffff };
    uint32_t busy;

    fake_insert(f->s1, PAGE(0), 4, NULL);
    for (unsigned i = 0; i < G_N_ELEMENTS(spaces); i++) {
        assert_int_equal(inv_command(f, spaces[i], 0, UINT64_MAX, &busy),
                         UNETMM_CS_OK);
        assert_int_equal(busy, 0);
    }
    assert_int_equal(inv_command(f, 1, PAGE(2), PAGE(1), &busy),
                     UNETMM_CS_OK);
    assert_int_equal(f->h.core.source->tlb.used, 4);
    assert_int_equal(inv_command(f, 1, 0, UINT64_MAX, &busy), UNETMM_CS_OK);
    assert_int_equal(f->h.core.source->tlb.used, 0);
}

TEST_OF(test_invalidate_bad_arguments, Fix *f, fix_test)
{
    fake_insert(f->s1, PAGE(0), 4, NULL);
    fake_set_reg(&f->h, UNETMM_REG_INV_START_LO, 0x2000);
    fake_set_reg(&f->h, UNETMM_REG_INV_LAST_LO, 0x1000);
    for (uint32_t space = 0; space < 12; space++) {
        fake_set_reg(&f->h, UNETMM_REG_INV_SPACE, space);
        fake_set_reg(&f->h, UNETMM_REG_INV_CTRL, 1);
        assert_false(inv_busy(f));
    }
    fake_set_reg(&f->h, UNETMM_REG_INV_START_LO, 0);
    fake_set_reg(&f->h, UNETMM_REG_INV_LAST_LO, ~0u);
    fake_set_reg(&f->h, UNETMM_REG_INV_LAST_HI, ~0u);
    for (uint32_t space = 2; space < 1u << 20; space = space * 3 + 1) {
        fake_set_reg(&f->h, UNETMM_REG_INV_SPACE, space);
        fake_set_reg(&f->h, UNETMM_REG_INV_CTRL, 1);
        assert_false(inv_busy(f));
    }
    assert_int_equal(f->h.core.source->tlb.used, 4);
    fake_set_reg(&f->h, UNETMM_REG_INV_SPACE, 1);
    fake_set_reg(&f->h, UNETMM_REG_INV_CTRL, 0);
    assert_int_equal(f->h.core.source->tlb.used, 4);
    fake_set_reg(&f->h, UNETMM_REG_INV_CTRL, 1);
    assert_int_equal(f->h.core.source->tlb.used, 0);
}

/* A transfer that waits for a translation never delays an invalidation. */
TEST_OF(test_waiting_transfer_holds_nothing, Fix *f, fix_test_with, slow)
{
    struct unetmm_fault m;

    fake_insert(f->s1, PAGE(0), 1, NULL);
    fake_send_at(&f->a, FIX_WIRE, PAGE(0), 2 * 4096, 1);
    fake_ring_bell(&f->a);
    fake_advance(&f->h, NS);
    assert_true(fake_fault(&f->d, &m));
    assert_int_equal(m.vaddr, PAGE(1));
    assert_false(fake_invalidate(f->s1, PAGE(0), FIX_PAGES * 4096));
    fake_reply(&f->d, &m, UNETMM_REPLY_DEFERRED, 0);
    assert_false(fake_invalidate(f->s1, PAGE(0), FIX_PAGES * 4096));
    fake_resolve(&f->d, &m, 1, NULL);
    fake_advance(&f->h, NS);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
}

TEST_OF(test_receive_invalidated, Fix *f, fix_test_with, slow)
{
    fake_post(&f->a, PAGE(0), 3 * 4096, 1);
    fix_settle(f);
    /* The last page goes while the first one moves. */
    fake_deliver(&f->h, frame(f, 3 * 4096, 5));
    assert_false(fake_invalidate(f->s1, PAGE(2), 4096));
    expect_count(&f->h, drop_invalidated, 1, fake_advance(&f->h, 3 * NS));
    fake_expect_none(&f->a);
    assert_int_equal(f->h.core.source->tlb.moving, 0);
    /* The buffer stays; its page is asked for again. */
    fake_serve(&f->d);
    fake_deliver(&f->h, frame(f, 3 * 4096, 6));
    fake_advance(&f->h, 3 * NS);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
    fake_check(f->s1, PAGE(0), 3 * 4096, 6);
}

/* The page that is moving goes: it lands, and the invalidation waits. */
TEST_OF(test_receive_invalidated_page_in_flight, Fix *f, fix_test_with, slow)
{
    fake_post(&f->a, PAGE(0), 4096, 1);
    fix_settle(f);
    fake_deliver(&f->h, frame(f, 4000, 5));
    assert_true(fake_invalidate(f->s1, PAGE(0), 4096));
    fake_advance(&f->h, NS);
    assert_false(inv_busy(f));
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
    fake_check(f->s1, PAGE(0), 4000, 5);
}

/*
 * The head in which a message is landing is lost, asked for again, and fails:
 * the message and the buffer are each reported once.
 */
TEST_OF(test_landing_head_fails_meanwhile, Fix *f, fix_test_with, slow)
{
    struct unetmm_cqe cqe;
    unsigned got[2] = { 0, 0 };

    fake_post(&f->a, PAGE(0), 4096, 0);
    fake_post(&f->a, PAGE(1), 4096, 1);
    fix_settle(f);
    fake_deliver(&f->h, frame(f, 4000, 5));
    assert_true(fake_invalidate(f->s1, PAGE(0), 4096));
    fake_vpage(f->s1, PAGE(0))->error = UNETMM_ST_PROTECTION;
    fake_serve(&f->d);
    fake_ring_bell(&f->a);
    fake_advance(&f->h, NS);
    fix_settle(f);
    fake_deliver(&f->h, frame(f, 4000, 6));
    fake_advance(&f->h, NS);
    fix_settle(f);
    while (fake_poll(&f->a, &cqe)) {
        assert_true(cqe.cookie < 2);
        got[cqe.cookie]++;
    }
    assert_int_equal(got[0], 1);
    assert_int_equal(got[1], 1);
    fake_check(f->s1, PAGE(1), 4000, 6);
}

/* ---- Ends in mid-transfer ---- */

TEST_OF(test_destroy_completes_late, Fix *f, fix_test_with, slow)
{
    struct unetmm_cmd destroy = { .opcode = UNETMM_CMD_EP_DESTROY, .ep = 1 };
    struct unetmm_cmd nop = { .opcode = UNETMM_CMD_NOP };
    struct unetmm_cmd space = { .opcode = UNETMM_CMD_SPACE_DESTROY,
                                .space = 1 };
    struct unetmm_cmd_done done;
    uint16_t tag;

    fake_insert(f->s1, PAGE(0), 4, NULL);
    fake_send_at(&f->a, FIX_WIRE, PAGE(0), 4 * 4096, 1);
    fake_ring_bell(&f->a);
    tag = fake_issue(&f->d, destroy);
    assert_false(fake_done(&f->d, &done));
    /* Others go on meanwhile; the id and the space are not free yet. */
    assert_int_equal(fake_command(&f->d, nop, NULL), UNETMM_CS_OK);
    assert_int_equal(fake_command(&f->d, destroy, NULL), UNETMM_CS_BAD_ID);
    assert_int_equal(fake_command(&f->d, fake_ep_cmd(&f->a), NULL),
                     UNETMM_CS_EXISTS);
    assert_int_equal(fake_command(&f->d, space, NULL), UNETMM_CS_BUSY);
    expect_count(&f->h, err_doorbell, 1, fake_ring_bell(&f->a));
    fake_advance(&f->h, NS);
    assert_true(fake_done(&f->d, &done));
    assert_int_equal(done.tag, tag);
    assert_int_equal(done.opcode, UNETMM_CMD_EP_DESTROY);
    assert_int_equal(done.status, UNETMM_CS_OK);
    assert_int_equal(f->h.core.source->tlb.used, 0);
    assert_int_equal(f->h.wire->len, 0);
    assert_int_equal(fake_command(&f->d, space, NULL), UNETMM_CS_OK);
}

TEST_OF(test_destroy_while_receiving, Fix *f, fix_test_with, slow)
{
    struct unetmm_cmd destroy = { .opcode = UNETMM_CMD_EP_DESTROY, .ep = 1 };
    struct unetmm_cmd_done done;

    fake_post(&f->a, PAGE(0), 3 * 4096, 1);
    fake_insert(f->s1, PAGE(9), 1, NULL);
    fix_settle(f);
    fake_deliver(&f->h, frame(f, 3 * 4096, 1));
    fake_send_at(&f->a, FIX_WIRE, PAGE(9), 4096, 1);
    fake_ring_bell(&f->a);
    fake_issue(&f->d, destroy);
    /* A message for it in the queue behind is dropped and counted. */
    fake_deliver(&f->h, frame(f, 100, 1));
    assert_false(fake_done(&f->d, &done));
    fake_advance(&f->h, NS);
    assert_true(fake_done(&f->d, &done));
    assert_false(fake_done(&f->d, &done));
    assert_int_equal(done.opcode, UNETMM_CMD_EP_DESTROY);
    fake_expect_none(&f->a);
    assert_int_equal(f->h.core.source->tlb.used, 0);
    assert_int_equal(f->h.core.source->tlb.moving, 0);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_drop_stopped) +
                     fake_counter(&f->h, UNETMM_C_drop_no_endpoint), 2);
}

/* The completion ring keeps a place for each late completion. */
TEST_OF(test_late_completions_have_room, Fix *f, fix_test_with, slow)
{
    struct unetmm_cmd nop = { .opcode = UNETMM_CMD_NOP };
    struct unetmm_cmd_done done;
    uint32_t reg = UNETMM_REG_RING(UNETMM_RING_CMDC);
    unsigned destroyed = 0, n = 0;

    fake_set_reg(&f->h, reg + UNETMM_RING_ENABLE, 0);
    fake_set_reg(&f->h, reg + UNETMM_RING_LOG2, 2);
    fake_set_reg(&f->h, reg + UNETMM_RING_ENABLE, 1);
    f->d.ring[UNETMM_RING_CMDC].log2 = 2;
    f->d.ring[UNETMM_RING_CMDC].index = 0;
    memset(fake_ptr(&f->h, f->d.ring[UNETMM_RING_CMDC].base, 64), 0, 64);
    fake_insert(f->s1, PAGE(0), 1, NULL);
    fake_insert(f->s2, PAGE(0), 1, NULL);
    fake_send_at(&f->a, FIX_WIRE, PAGE(0), 100, 1);
    fake_send_at(&f->b, FIX_WIRE, PAGE(0), 100, 1);
    fake_ring_bell(&f->a);
    fake_ring_bell(&f->b);
    for (unsigned i = 0; i < 2; i++) {
        struct unetmm_cmd c = { .opcode = UNETMM_CMD_EP_DESTROY,
                                .ep = 1 + i };

        fake_issue(&f->d, c);
    }
    for (unsigned i = 0; i < 10; i++) {
        fake_issue(&f->d, nop);
    }
    fake_advance(&f->h, NS);
    while (fake_done(&f->d, &done)) {
        destroyed += done.opcode == UNETMM_CMD_EP_DESTROY;
        n++;
    }
    assert_int_equal(destroyed, 2);
    assert_int_equal(n, 12);
}

TEST_OF(test_reset_in_mid_transfer, Fix *f, fix_test_with, slow)
{
    uint32_t mark = 0x5a5a5a5a;

    fake_post(&f->a, PAGE(0), 4096, 1);
    fake_insert(f->s2, PAGE(9), 1, NULL);
    fix_settle(f);
    fake_deliver(&f->h, frame(f, 4096, 1));
    fake_deliver(&f->h, frame(f, 4096, 2));
    fake_send_at(&f->b, FIX_WIRE, PAGE(9), 4096, 1);
    fake_ring_bell(&f->b);
    fake_store(f->s1, PAGE(0), &mark, 4);
    fake_set_reg(&f->h, UNETMM_REG_CTRL, UNETMM_CTRL_RESET);
    /* One that was landing, one behind it, one being sent. */
    assert_int_equal(fake_counter(&f->h, UNETMM_C_drop_reset), 3);
    /* Nothing moves any more: all memory is taken away. */
    memset(f->h.rights, 0, FAKE_RAM_BYTES);
    assert_int_equal(f->h.timer, INT64_MAX);
    fake_advance(&f->h, 10 * NS);
    fake_run_later(&f->h);
    assert_int_equal(f->h.wire->len, 0);
    assert_int_equal(f->h.core.source->tlb.moving, 0);
    fake_load(f->s1, PAGE(0), &mark, 4);
    assert_int_equal(mark, 0x5a5a5a5a);
}

/* An endpoint that is stopped while its page moves. */
TEST_OF(test_stopped_while_moving, Fix *f, fix_test_with, slow)
{
    fake_insert(f->s1, PAGE(0), 1, NULL);
    fake_send_at(&f->a, FIX_WIRE, PAGE(0), 4096, 1);
    fake_ring_bell(&f->a);
    fake_user_word(&f->a, offsetof(struct unetmm_ep_user, fq_prod), 1000);
    fake_ring_bell(&f->a);
    fake_expect(&f->a, UNETMM_CQE_FAILED, UNETMM_ST_BAD_INDEX, 0);
    fake_advance(&f->h, NS);
    assert_int_equal(f->h.wire->len, 0);
    assert_int_equal(f->h.core.source->tlb.moving, 0);
    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    assert_int_equal(f->h.core.source->tlb.used, 0);
}

TEST_OF(test_bus_refuses_in_flight, Fix *f, fix_test_with, slow)
{
    uint64_t dma;

    fake_post(&f->a, PAGE(0), 2 * 4096, 1);
    fix_settle(f);
    dma = fake_vpage(f->s1, PAGE(1))->dma;
    f->h.refuse_first = dma;
    f->h.refuse_last = dma + 1;
    fake_deliver(&f->h, frame(f, 2 * 4096, 1));
    expect_count(&f->h, drop_dma, 1, fake_advance(&f->h, 2 * NS));
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_DMA, 1);
    fake_send_at(&f->a, FIX_WIRE, PAGE(1), 10, 2);
    fake_ring_bell(&f->a);
    fake_advance(&f->h, NS);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_DMA, 2);
}

typedef struct Load {
    uint64_t random;
    unsigned sent, done, posted, returned;
} Load;

/* One thing at random, then the driver's answers. */
static void load_step(Fix *f, Load *l)
{
    unsigned page = fake_random(&l->random) % 20;

    switch (fake_random(&l->random) % 8) {
    case 0:
        if (l->sent - l->done < 4) {
            fake_send_at(&f->a, FIX_LOCAL, PAGE(page),
                         1 + fake_random(&l->random) % 20000, l->sent++);
            fake_ring_bell(&f->a);
        }
        break;
    case 1: case 2:
        if (l->posted - l->returned < 12) {
            fake_post(&f->b, PAGE(page), 20000, l->posted++);
            fake_ring_bell(&f->b);
        }
        break;
    case 3:
        if (fake_invalidate(fake_random(&l->random) % 2 ? f->s1 : f->s2,
                            PAGE(page),
                            4096 * (1 + fake_random(&l->random) % 4))) {
            while (inv_busy(f)) {
                fake_advance(&f->h, NS / 4);
            }
        }
        break;
    default:
        fake_advance(&f->h, fake_random(&l->random) % (2 * NS));
        break;
    }
    fake_serve(&f->d);
}

/* Everything at once, slowly: every message is accounted for. */
ALSO(test_random_under_load, fix_test_with, slow_one_set)
TEST_OF(test_random_under_load, Fix *f, fix_test_with, slow)
{
    Load l = { .random = fake_seed() };
    struct unetmm_cqe cqe;

    for (unsigned step = 0; step < 3000; step++) {
        load_step(f, &l);
        while (fake_poll(&f->a, &cqe)) {
            assert_int_equal(cqe.status, UNETMM_ST_OK);
            l.done++;
        }
        while (fake_poll(&f->b, &cqe)) {
            l.returned += cqe.opcode == UNETMM_CQE_BUFFER ||
                          !(cqe.flags & UNETMM_CQE_F_INLINE);
        }
    }
    for (unsigned i = 0; i < 300; i++) {
        fake_advance(&f->h, NS);
        fake_serve(&f->d);
    }
    assert_int_equal(fake_ep_counter(&f->h, 1, UNETMM_C_sends_done), l.sent);
    assert_int_equal(
        fake_ep_counter(&f->h, 2, UNETMM_C_rx_frames) +
        fake_counter(&f->h, UNETMM_C_drop_no_buffer) +
        fake_counter(&f->h, UNETMM_C_drop_asked) +
        fake_counter(&f->h, UNETMM_C_drop_absent) +
        fake_counter(&f->h, UNETMM_C_drop_cq_full) +
        fake_counter(&f->h, UNETMM_C_drop_invalidated), l.sent);
    assert_int_equal(f->h.core.source->tlb.moving, 0);
    for (uint32_t i = 0; i < unetmm_tlb_capacity(&f->h.core.source->tlb); i++) {
        assert_int_equal(f->h.core.source->tlb.entries[i].busy, 0);
    }
}
