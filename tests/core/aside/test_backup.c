/*
 * unetmm: policy backup: the ring, the bitmap, the order, the tail
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "slots.h"

#define SOURCE  UNETMM_SOURCE_ODP

static void expect_record(const struct unetmm_fault *f, uint32_t buffer,
                          uint32_t slot, uint32_t bit, uint32_t len)
{
    assert_int_equal(f->type, UNETMM_FAULT_BACKUP);
    assert_int_equal(f->flags, 0);
    assert_int_equal(f->space, 1);
    assert_int_equal(f->ep, 1);
    assert_int_equal(f->fault_id, buffer);
    assert_int_equal(f->vaddr, slot);
    assert_int_equal(f->tag, bit);
    assert_int_equal(f->npages, len);
}

/* The driver's part for one record: copies and answers. */
static void resolve(Slots *t, const struct unetmm_fault *f)
{
    struct unetmm_fqe fqe = fake_fqe(&t->e, f->vaddr);
    const FakeBuffer *b = &g_array_index(t->d.buffers, FakeBuffer,
                                         f->fault_id);

    fake_store(t->s, fqe.addr, fake_ptr(&t->h, b->addr, f->npages),
               f->npages);
    assert_int_equal(fake_backup_done(&t->d, f, UNETMM_ST_OK, fqe.cookie),
                     UNETMM_CS_OK);
}

/* ---- Absent, kept, resolved ---- */

TEST_OF(test_absent_goes_to_the_ring, Slots *t, slots_test)
{
    struct unetmm_fault f;

    slots_open(t, SOURCE, 4);
    fake_buffers(&t->d, 2, 2048);
    slots_post(t, 0, 2);
    expect_count(&t->h, backup_packets, 1, slots_give(t, 500, 1));
    assert_int_equal(slots_drops(t), 0);
    f = slots_record(t);
    expect_record(&f, 0, 0, 0, 500);
    fake_backup_check(&t->d, &f, 1);
    fake_expect_none(&t->e);
    assert_int_equal(fake_card(&t->e).fq_cons, 0);
    expect_count(&t->h, backup_landed, 1, resolve(t, &f));
    slots_got(t, 0, 500, 1);
    fake_expect_none(&t->e);
    assert_int_equal(fake_card(&t->e).fq_cons, 1);
    assert_int_equal(fake_counter(&t->h, UNETMM_C_backup_bytes), 500);
    assert_int_equal(fake_counter(&t->h, UNETMM_C_rx_frames), 1);
}

/* The end of a channel comes behind a message of it that is in the ring. */
TEST_OF(test_end_waits_for_the_ring, Slots *t, slots_test)
{
    struct unetmm_fault f;

    slots_open(t, SOURCE, 4);
    fake_buffers(&t->d, 2, 2048);
    slots_post(t, 0, 2);
    t->h.core.eps[1].channels[1].tells_end = true;
    slots_give(t, 500, 1);
    assert_int_equal(fake_channel_clear(&t->e, 1, UNETMM_CHANNEL_F_TELL), 2);
    fake_ring_bell(&t->e);
    fake_expect_none(&t->e);
    f = slots_record(t);
    resolve(t, &f);
    slots_got(t, 0, 500, 1);
    fake_expect(&t->e, UNETMM_CQE_CLOSED, UNETMM_ST_BAD_CHANNEL, 0);
    assert_int_equal(fake_channel_clear(&t->e, 1, UNETMM_CHANNEL_F_TELL), 0);
    fake_expect_none(&t->e);
}

/* A report does not wait for buffers that come back: their completions name no channel. */
TEST_OF(test_end_waits_for_no_buffer, Slots *t, slots_test)
{
    struct unetmm_fault first, second;

    slots_open(t, SOURCE, 4);
    fake_connect_peer(&t->e, 0, 12, 65536);
    fake_buffers(&t->d, 2, 2048);
    slots_post(t, 0, 1);
    fake_post(&t->e, SLOTS_PAGE(1), 0, SLOTS_PAGE(1));
    slots_post(t, 2, 1);
    slots_give(t, 100, 1);
    slots_give(t, 100, 2);
    first = slots_record(t);
    second = slots_record(t);
    assert_int_equal(fake_backup_done(&t->d, &second, UNETMM_ST_LIMIT,
                                      SLOTS_PAGE(2)), UNETMM_CS_OK);
    fake_expect_none(&t->e);
    t->h.core.eps[1].channels[0].tells_end = true;
    assert_int_equal(fake_channel_clear(&t->e, 0, UNETMM_CHANNEL_F_TELL), 1);
    assert_int_equal(fake_channel_clear(&t->e, 1, UNETMM_CHANNEL_F_TELL), 1);
    fake_ring_bell(&t->e);
    fake_expect(&t->e, UNETMM_CQE_CLOSED, UNETMM_ST_BAD_CHANNEL, 0);
    fake_expect_none(&t->e);
    assert_int_equal(fake_channel_clear(&t->e, 0, UNETMM_CHANNEL_F_TELL), 0);
    resolve(t, &first);
    slots_got(t, 0, 100, 1);
    slots_returned(t, 1, UNETMM_ST_BAD_DESC);
    slots_returned(t, 2, UNETMM_ST_LIMIT);
    fake_expect_none(&t->e);
}

/* Packets that may be shown at last are shown as the budget goes. */
TEST_OF(test_shown_in_parts, Slots *t, slots_test)
{
    enum { BEHIND = 150, AT_ONCE = 65536 / UNETMM_LEAST_BYTES };
    struct unetmm_fault f;
    struct unetmm_cqe cqe;
    unsigned got = 0;

    t->p.budget_bytes = 65536;
    t->e.fq_log2 = t->e.cq_log2 = 8;
    slots_open(t, SOURCE, 4);
    fake_buffers(&t->d, 2, 2048);
    slots_post(t, 0, 1);
    for (unsigned i = 0; i < BEHIND; i++) {
        slots_post(t, 1, 1);
    }
    slots_present(t, 1, 1);
    for (unsigned i = 0; i <= BEHIND; i++) {
        slots_give(t, 100, i);
    }
    fake_run_later(&t->h);
    unetmm_core_run(&t->h.core);
    t->h.stuck = true;
    f = slots_record(t);
    resolve(t, &f);
    while (fake_poll(&t->e, &cqe)) {
        assert_int_equal(cqe.opcode, UNETMM_CQE_RECEIVED);
        got++;
    }
    assert_int_equal(got, AT_ONCE);
    fake_run_later(&t->h);
    while (fake_poll(&t->e, &cqe)) {
        got++;
    }
    assert_int_equal(got, 1 + BEHIND);
}

/* Packets behind it land, and are shown behind it. */
TEST_OF(test_order_is_kept, Slots *t, slots_test)
{
    struct unetmm_fault f;

    slots_open(t, SOURCE, 4);
    fake_buffers(&t->d, 2, 2048);
    slots_post(t, 0, 4);
    slots_present(t, 1, 2);
    slots_give(t, 100, 1);
    expect_count(&t->h, backup_held, 2, (slots_give(t, 200, 2),
                                         slots_give(t, 300, 3)));
    slots_give(t, 400, 4);
    fake_check(t->s, SLOTS_PAGE(1), 200, 2);
    fake_check(t->s, SLOTS_PAGE(2), 300, 3);
    fake_expect_none(&t->e);
    f = slots_record(t);
    expect_record(&f, 0, 0, 0, 100);
    resolve(t, &f);
    slots_got(t, 0, 100, 1);
    slots_got(t, 1, 200, 2);
    slots_got(t, 2, 300, 3);
    fake_expect_none(&t->e);
    f = slots_record(t);
    expect_record(&f, 1, 3, 3, 400);
    resolve(t, &f);
    slots_got(t, 3, 400, 4);
    assert_int_equal(slots_drops(t), 0);
}

/* Each further bit in its turn, round the bitmap, which is no power of two. */
TEST_OF(test_bits_go_round, Slots *t, slots_test)
{
    slots_open(t, SOURCE, 3);
    fake_buffers(&t->d, 2, 2048);
    for (unsigned i = 0; i < 20; i++) {
        struct unetmm_fault f;

        slots_post(t, i % 8, 1);
        slots_give(t, 80, i);
        f = slots_record(t);
        expect_record(&f, i, i, i % 3, 80);
        resolve(t, &f);
        slots_got(t, i % 8, 80, i);
        fake_buffers(&t->d, 1, 2048);
        slots_absent(t, 0, SLOTS_PAGES);
    }
}

/* Resolved in any order: shown in one. */
TEST_OF(test_resolved_backwards, Slots *t, slots_test)
{
    struct unetmm_fault f[4];

    slots_open(t, SOURCE, 4);
    fake_buffers(&t->d, 4, 2048);
    slots_post(t, 0, 4);
    for (unsigned i = 0; i < 4; i++) {
        slots_give(t, 100 + i, i);
        f[i] = slots_record(t);
        expect_record(&f[i], i, i, i, 100 + i);
    }
    resolve(t, &f[3]);
    resolve(t, &f[1]);
    fake_expect_none(&t->e);
    resolve(t, &f[0]);
    slots_got(t, 0, 100, 0);
    slots_got(t, 1, 101, 1);
    fake_expect_none(&t->e);
    assert_int_equal(fake_card(&t->e).fq_cons, 2);
    resolve(t, &f[2]);
    slots_got(t, 2, 102, 2);
    slots_got(t, 3, 103, 3);
}

/* A short message is no exception: it needs its buffer, and its turn. */
TEST_OF(test_small_ones_too, Slots *t, slots_test)
{
    struct unetmm_fault f;

    slots_open(t, SOURCE, 4);
    fake_buffers(&t->d, 1, 64);
    slots_post(t, 0, 3);
    slots_present(t, 1, 2);
    slots_give(t, 8, 1);
    slots_give(t, 0, 2);
    slots_give(t, 40, 3);
    fake_expect_none(&t->e);
    f = slots_record(t);
    resolve(t, &f);
    slots_got(t, 0, 8, 1);
    slots_got(t, 1, 0, 2);
    slots_got(t, 2, 40, 3);
    assert_int_equal(fake_counter(&t->h, UNETMM_C_rx_inline), 0);
}

/* A buffer that is no good waits for its turn, and comes back in it. */
TEST_OF(test_bad_buffer_keeps_its_turn, Slots *t, slots_test)
{
    struct unetmm_fault f;

    slots_open(t, SOURCE, 4);
    fake_buffers(&t->d, 1, 2048);
    slots_post(t, 0, 1);
    fake_post(&t->e, SLOTS_PAGE(1), 0, SLOTS_PAGE(1));
    slots_post(t, 2, 1);
    slots_present(t, 2, 1);
    slots_give(t, 100, 1);
    slots_give(t, 100, 2);
    fake_expect_none(&t->e);
    f = slots_record(t);
    resolve(t, &f);
    slots_got(t, 0, 100, 1);
    slots_returned(t, 1, UNETMM_ST_BAD_DESC);
    slots_got(t, 2, 100, 2);
}

/* The driver cannot have the memory: the buffer comes back with its status. */
TEST_OF(test_failed, Slots *t, slots_test)
{
    struct unetmm_fault f;

    slots_open(t, SOURCE, 4);
    fake_buffers(&t->d, 1, 2048);
    slots_post(t, 0, 2);
    slots_present(t, 1, 1);
    slots_give(t, 100, 1);
    slots_give(t, 100, 2);
    f = slots_record(t);
    expect_count(&t->h, backup_failed, 1, assert_int_equal(
        fake_backup_done(&t->d, &f, UNETMM_ST_LIMIT, SLOTS_PAGE(0)),
        UNETMM_CS_OK));
    slots_returned(t, 0, UNETMM_ST_LIMIT);
    slots_got(t, 1, 100, 2);
    assert_int_equal(fake_counter(&t->h, UNETMM_C_rx_frames), 1);
}

/*
 * Source tlb is asked for the page as well: it can be given in no other way.
 * A packet that lands behind it does not take that back.
 */
TEST_OF(test_tlb_is_asked_too, Slots *t, slots_test)
{
    struct unetmm_fault f, miss;

    slots_open(t, UNETMM_SOURCE_TLB, 4);
    fake_buffers(&t->d, 2, 2048);
    slots_post(t, 0, 2);
    slots_present(t, 1, 1);
    slots_give(t, 100, 1);
    assert_true(fake_fault(&t->d, &miss));
    assert_int_equal(miss.vaddr, SLOTS_PAGE(0));
    expect_count(&t->h, backup_held, 1, slots_give(t, 100, 2));
    assert_int_equal(fake_resolve(&t->d, &miss, 1, NULL), UNETMM_CS_OK);
    f = slots_record(t);
    resolve(t, &f);
    slots_got(t, 0, 100, 1);
    slots_got(t, 1, 100, 2);
    /* And is there from now on. */
    slots_post(t, 0, 1);
    expect_count(&t->h, backup_packets, 0, slots_give(t, 100, 3));
    slots_got(t, 0, 100, 3);
    assert_int_equal(slots_drops(t), 0);
}

/* ---- No room ---- */

TEST_OF(test_bitmap_full, Slots *t, slots_test)
{
    struct unetmm_fault f;

    slots_open(t, SOURCE, 2);
    fake_buffers(&t->d, 8, 2048);
    slots_post(t, 0, 8);
    slots_present(t, 2, 1);
    slots_give(t, 100, 0);
    slots_give(t, 100, 1);
    /* Two bits are used: a present buffer is taken all the same. */
    slots_give(t, 100, 2);
    expect_count(&t->h, drop_backup_bits, 1, slots_give(t, 100, 3));
    f = slots_record(t);
    resolve(t, &f);
    slots_got(t, 0, 100, 0);
    /* head_offset is 2 yet. */
    expect_count(&t->h, drop_backup_bits, 1, slots_give(t, 100, 4));
    f = slots_record(t);
    resolve(t, &f);
    slots_got(t, 1, 100, 1);
    slots_got(t, 2, 100, 2);
    slots_give(t, 100, 5);
    f = slots_record(t);
    expect_record(&f, 2, 3, 1, 100);
    resolve(t, &f);
    slots_got(t, 3, 100, 5);
}

TEST_OF(test_ring_empty, Slots *t, slots_test)
{
    slots_open(t, SOURCE, 4);
    slots_post(t, 0, 4);
    expect_count(&t->h, drop_backup_ring, 1, slots_give(t, 100, 0));
    fake_buffers(&t->d, 1, 100);
    expect_count(&t->h, drop_backup_size, 1, slots_give(t, 101, 1));
    slots_give(t, 100, 2);
    expect_count(&t->h, drop_backup_ring, 1, slots_give(t, 100, 3));
    assert_int_equal(slots_drops(t), 3);
    slots_record(t);
    assert_int_equal(t->d.backups->len, 0);
}

/* The ring is off: there is none. */
TEST_OF(test_ring_off, Slots *t, slots_test)
{
    slots_open(t, SOURCE, 4);
    fake_buffers(&t->d, 2, 100);
    fake_set_reg(&t->h, UNETMM_REG_RING(UNETMM_RING_BACKUP) +
                 UNETMM_RING_ENABLE, 0);
    slots_post(t, 0, 4);
    expect_count(&t->h, drop_backup_ring, 1, slots_give(t, 100, 0));
}

/* An invalid buffer is passed over, once. */
TEST_OF(test_ring_garbage, Slots *t, slots_test)
{
    struct unetmm_fault f;

    slots_open(t, SOURCE, 4);
    fake_buffer_at(&t->d, 0x1000, 63, 0);
    fake_buffer_at(&t->d, 0x1000, 64, 1);
    fake_buffer_at(&t->d, UINT64_MAX - 63, 65, 0);
    fake_buffers(&t->d, 1, 2048);
    slots_post(t, 0, 4);
    for (unsigned i = 0; i < 3; i++) {
        expect_count(&t->h, drop_backup_ring, 1, slots_give(t, 50, i));
    }
    assert_int_equal(fake_counter(&t->h, UNETMM_C_err_descriptor), 3);
    slots_give(t, 50, 7);
    f = slots_record(t);
    expect_record(&f, 3, 0, 0, 50);
    fake_backup_check(&t->d, &f, 7);
}

TEST_OF(test_buffer_refused, Slots *t, slots_test)
{
    struct unetmm_fault f;

    slots_open(t, SOURCE, 4);
    fake_buffers(&t->d, 2, 2048);
    slots_post(t, 0, 4);
    t->h.refuse_first = g_array_index(t->d.buffers, FakeBuffer, 0).addr;
    t->h.refuse_last = t->h.refuse_first + 2047;
    expect_count(&t->h, drop_dma, 1, slots_give(t, 50, 1));
    slots_give(t, 50, 2);
    f = slots_record(t);
    expect_record(&f, 1, 0, 0, 50);
}

/* Nothing is written while there is no room to say so. */
TEST_OF(test_fault_ring_full, Slots *t, slots_test)
{
    unsigned n = 0;

    t->d.ring[UNETMM_RING_FAULT].log2 = 3;
    slots_open(t, SOURCE, 16);
    fake_buffers(&t->d, 12, 2048);
    slots_post(t, 0, 16);
    /* A quarter is kept for evictions. */
    while (!fake_counter(&t->h, UNETMM_C_drop_backup_report)) {
        assert_true(n < 12);
        slots_give(t, 100, n++);
    }
    assert_int_equal(n, 7);
    fake_snapshot(&t->h);
    expect_count(&t->h, drop_backup_report, 1, slots_give(t, 100, 99));
    assert_memory_equal(t->h.before, t->h.ram, FAKE_RAM_BYTES);
    assert_int_equal(fake_reg(&t->h, UNETMM_REG_RING(UNETMM_RING_BACKUP) +
                              UNETMM_RING_CONS), 6);
    fake_serve(&t->d);
    assert_int_equal(t->d.backups->len, 6);
    slots_give(t, 100, 6);
    fake_serve(&t->d);
    while (t->d.backups->len) {
        fake_backup_serve(&t->d, 0);
    }
    for (unsigned i = 0; i < 7; i++) {
        slots_got(t, i, 100, i);
    }
}

/* Packets that wait have their places in the completion queue. */
TEST_OF(test_cq_full, Slots *t, slots_test)
{
    t->e.cq_log2 = 2;
    slots_open(t, SOURCE, 8);
    fake_buffers(&t->d, 4, 2048);
    slots_post(t, 0, 8);
    slots_present(t, 1, 7);
    for (unsigned i = 0; i < 4; i++) {
        slots_give(t, 100, i);
    }
    expect_count(&t->h, drop_cq_full, 1, slots_give(t, 100, 4));
    fake_serve(&t->d);
    fake_backup_serve(&t->d, 0);
    for (unsigned i = 0; i < 4; i++) {
        slots_got(t, i, 100, i);
    }
    slots_give(t, 100, 5);
    slots_got(t, 4, 100, 5);
}

/* A send has taken a place: the walk stops, and goes on with the bell. */
TEST_OF(test_walk_waits, Slots *t, slots_test)
{
    t->e.cq_log2 = 1;
    slots_open(t, SOURCE, 8);
    fake_buffers(&t->d, 4, 2048);
    slots_post(t, 0, 2);
    slots_present(t, 1, 1);
    slots_give(t, 100, 0);
    slots_give(t, 100, 1);
    fake_send_inline(&t->e, 1, 3, 8, 0x51, 0);
    fake_ring_bell(&t->e);
    fake_serve(&t->d);
    fake_backup_serve(&t->d, 0);
    assert_int_equal(fake_card(&t->e).cq_prod, 2);
    assert_int_equal(fake_card(&t->e).state,
                     UNETMM_EP_RUNNING | UNETMM_EP_CQ_BLOCKED);
    assert_int_equal(fake_card(&t->e).fq_cons, 1);
    fake_expect(&t->e, UNETMM_CQE_SENT, UNETMM_ST_OK, 0x51);
    slots_got(t, 0, 100, 0);
    fake_expect_none(&t->e);
    fake_ring_bell(&t->e);
    slots_got(t, 1, 100, 1);
    assert_int_equal(fake_card(&t->e).fq_cons, 2);
    assert_int_equal(fake_card(&t->e).state, UNETMM_EP_RUNNING);
}

static Slots *taker;

/*
 * The process takes the completion that it has seen just before the card shows
 * that it waits for room, so it does not ring.
 */
static void take_unseen(FakeHost *host, uint64_t addr, size_t bytes)
{
    if (addr == taker->e.index + offsetof(struct unetmm_ep_index, card) &&
        fake_card(&taker->e).state & UNETMM_EP_CQ_BLOCKED) {
        host->on_write = NULL;
        fake_user_word(&taker->e, offsetof(struct unetmm_ep_user, cq_cons),
                       1);
    }
}

/* Having shown that it waits, the card looks again: no bell is needed. */
TEST_OF(test_walk_looks_again, Slots *t, slots_test)
{
    t->e.cq_log2 = 1;
    slots_open(t, SOURCE, 8);
    fake_buffers(&t->d, 4, 2048);
    slots_post(t, 0, 1);
    slots_give(t, 100, 0);
    fake_send_inline(&t->e, 1, 3, 8, 0x51, 0);
    /* The place that is left belongs to a send whose page is absent. */
    fake_send_at(&t->e, 1, SLOTS_PAGE(9), 100, 0x52);
    t->d.hold_back = true;
    fake_ring_bell(&t->e);
    fake_serve(&t->d);
    assert_int_equal(fake_card(&t->e).cq_prod, 1);
    assert_int_equal(fake_card(&t->e).state, UNETMM_EP_RUNNING);
    taker = t;
    t->h.on_write = take_unseen;
    fake_backup_serve(&t->d, 0);
    assert_null(t->h.on_write);
    assert_int_equal(fake_card(&t->e).cq_prod, 2);
    fake_expect(&t->e, UNETMM_CQE_SENT, UNETMM_ST_OK, 0x51);
    slots_got(t, 0, 100, 0);
}

/* ---- Beyond the tail ---- */

TEST_OF(test_beyond_the_tail, Slots *t, slots_test)
{
    struct unetmm_notify n;
    struct unetmm_fault f;
    uint32_t posted;

    t->e.fq_log2 = 1;
    slots_open(t, SOURCE, 6);
    fake_buffers(&t->d, 6, 2048);
    slots_post(t, 0, 2);
    for (unsigned i = 0; i < 6; i++) {
        slots_give(t, 100 + i, i);
    }
    for (unsigned i = 0; i < 2; i++) {
        f = slots_record(t);
        resolve(t, &f);
        slots_got(t, i, 100 + i, i);
    }
    f = slots_record(t);
    expect_record(&f, 2, 2, 2, 102);
    /* The packet has no place yet. */
    assert_int_equal(fake_backup_done(&t->d, &f, UNETMM_ST_OK, 0),
                     UNETMM_CS_BAD_ARG);
    assert_int_equal(fake_tail_arm(&t->e, 2, true, &posted), UNETMM_CS_OK);
    assert_int_equal(posted, 0);
    assert_int_equal(fake_card(&t->e).state,
                     UNETMM_EP_RUNNING | UNETMM_EP_FQ_AWAITED);
    fake_ring_bell(&t->e);
    assert_false(fake_notification(&t->d, &n));
    slots_post(t, 2, 2);
    fake_ring_bell(&t->e);
    assert_true(fake_notification(&t->d, &n));
    assert_int_equal(n.type, UNETMM_NOTIFY_TAIL);
    assert_int_equal(n.ep, 1);
    assert_int_equal(n.data, 2);
    assert_int_equal(fake_card(&t->e).state, UNETMM_EP_RUNNING);
    fake_ring_bell(&t->e);
    assert_false(fake_notification(&t->d, &n));
    resolve(t, &f);
    slots_got(t, 2, 102, 2);
    assert_int_equal(fake_tail_arm(&t->e, 3, true, &posted), UNETMM_CS_OK);
    assert_int_equal(posted, 1);
    assert_int_equal(fake_counter(&t->h, UNETMM_C_tail_arms), 1);
    assert_int_equal(fake_counter(&t->h, UNETMM_C_tail_wakeups), 1);
}

/* A frame is a look at the tail, too; one armed anew is armed once. */
TEST_OF(test_tail_by_frame, Slots *t, slots_test)
{
    struct unetmm_notify n;
    uint32_t posted;

    slots_open(t, SOURCE, 6);
    fake_buffers(&t->d, 6, 2048);
    assert_int_equal(fake_tail_arm(&t->e, 0, true, &posted), UNETMM_CS_OK);
    assert_int_equal(fake_tail_arm(&t->e, 1, true, &posted), UNETMM_CS_OK);
    assert_int_equal(posted, 0);
    slots_post(t, 0, 1);
    slots_give(t, 100, 0);
    assert_false(fake_notification(&t->d, &n));
    slots_post(t, 1, 1);
    slots_give(t, 100, 0);
    assert_true(fake_notification(&t->d, &n));
    assert_int_equal(n.data, 1);
    assert_false(fake_notification(&t->d, &n));
    /* Taken back. */
    assert_int_equal(fake_tail_arm(&t->e, 2, true, &posted), UNETMM_CS_OK);
    assert_int_equal(fake_tail_arm(&t->e, 2, false, &posted), UNETMM_CS_OK);
    slots_post(t, 2, 1);
    fake_ring_bell(&t->e);
    assert_false(fake_notification(&t->d, &n));
}

/* The notification ring is full: it is late, not lost; or not owed any more. */
TEST_OF(test_tail_waits_for_room, Slots *t, slots_test)
{
    struct unetmm_notify n;
    uint32_t posted;

    slots_open(t, SOURCE, 6);
    fake_set_reg(&t->h, UNETMM_REG_RING(UNETMM_RING_NOTIFY) +
                 UNETMM_RING_ENABLE, 0);
    fake_tail_arm(&t->e, 0, true, &posted);
    slots_post(t, 0, 1);
    fake_ring_bell(&t->e);
    assert_int_equal(fake_counter(&t->h, UNETMM_C_notify_waited), 1);
    fake_tail_arm(&t->e, 1, true, &posted);
    slots_post(t, 1, 1);
    fake_ring_bell(&t->e);
    fake_set_reg(&t->h, UNETMM_REG_RING(UNETMM_RING_NOTIFY) +
                 UNETMM_RING_ENABLE, 1);
    assert_true(fake_notification(&t->d, &n));
    assert_int_equal(n.data, 1);
    assert_false(fake_notification(&t->d, &n));
}

/* Bad buffers posted later are the driver's to find. */
TEST_OF(test_too_short_later, Slots *t, slots_test)
{
    struct unetmm_fault f;

    slots_open(t, SOURCE, 6);
    fake_buffers(&t->d, 6, 2048);
    slots_give(t, 1500, 0);
    fake_post(&t->e, SLOTS_PAGE(0), 1000, SLOTS_PAGE(0));
    f = slots_record(t);
    assert_int_equal(fake_backup_done(&t->d, &f, UNETMM_ST_TOO_LONG,
                                      SLOTS_PAGE(0)), UNETMM_CS_OK);
    slots_returned(t, 0, UNETMM_ST_TOO_LONG);
}

/* ---- Ends and forgeries ---- */

static uint8_t done_as(Slots *t, uint16_t ep, struct unetmm_cmd_backup b)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_BACKUP_DONE, .ep = ep, .backup = b,
    };

    return fake_command(&t->d, cmd, NULL);
}

TEST_OF(test_forged_done, Slots *t, slots_test)
{
    struct unetmm_cmd_backup good = { .slot = 1, .bit = 1, .cookie = 5 };
    struct unetmm_cmd_backup bad;

    slots_open(t, SOURCE, 4);
    fake_buffers(&t->d, 4, 2048);
    slots_post(t, 0, 4);
    slots_present(t, 2, 1);
    for (unsigned i = 0; i < 3; i++) {
        slots_give(t, 100, i);
    }
#define BAD(change) do { \
        bad = good; \
        change; \
        assert_int_equal(done_as(t, 1, bad), UNETMM_CS_BAD_ARG); \
    } while (0)
    BAD(bad.slot = 0);
    BAD(bad.slot = 2);
    BAD(bad.slot = 3);
    BAD(bad.slot = UINT32_MAX);
    BAD(bad.slot = 5);
    BAD(bad.bit = 0);
    BAD(bad.bit = 2);
    BAD(bad.bit = 4);
    BAD(bad.bit = 5);
    BAD(bad.bit = UINT32_MAX);
    BAD(bad.status = UNETMM_NUM_ST);
    BAD(bad.rsvd[6] = 1);
    BAD((bad.slot = 2, bad.bit = 2));
    BAD((bad.slot = 3, bad.bit = 3));
#undef BAD
    assert_int_equal(done_as(t, 2, good), UNETMM_CS_BAD_ID);
    assert_int_equal(done_as(t, 9999, good), UNETMM_CS_BAD_ID);
    fake_expect_none(&t->e);
    assert_int_equal(fake_counter(&t->h, UNETMM_C_backup_landed), 0);
    assert_int_equal(done_as(t, 1, good), UNETMM_CS_OK);
    assert_int_equal(done_as(t, 1, good), UNETMM_CS_BAD_ARG);
    good.slot = good.bit = 0;
    assert_int_equal(done_as(t, 1, good), UNETMM_CS_OK);
    assert_int_equal(fake_card(&t->e).fq_cons, 3);
}

TEST_OF(test_forged_tail, Slots *t, slots_test)
{
    struct unetmm_cmd cmd = { .opcode = UNETMM_CMD_TAIL_ARM, .ep = 1,
                              .tail.arm = 1 };

    slots_open(t, SOURCE, 4);
    cmd.tail.arm = 2;
    assert_int_equal(fake_command(&t->d, cmd, NULL), UNETMM_CS_BAD_ARG);
    cmd.tail.arm = 1;
    cmd.tail.rsvd[2] = 1;
    assert_int_equal(fake_command(&t->d, cmd, NULL), UNETMM_CS_BAD_ARG);
    cmd.tail.rsvd[2] = 0;
    cmd.ep = 2;
    assert_int_equal(fake_command(&t->d, cmd, NULL), UNETMM_CS_BAD_ID);
}

/* Its packets are lost and counted, and answers for them come too late. */
TEST_OF(test_destroyed_with_packets, Slots *t, slots_test)
{
    struct unetmm_fault f;
    FakeEp next;

    slots_open(t, SOURCE, 4);
    fake_buffers(&t->d, 4, 2048);
    slots_post(t, 0, 4);
    slots_present(t, 2, 1);
    for (unsigned i = 0; i < 3; i++) {
        slots_give(t, 100, i);
    }
    f = slots_record(t);
    expect_count(&t->h, drop_stopped, 2,
                 assert_int_equal(fake_ep_destroy(&t->e), UNETMM_CS_OK));
    assert_int_equal(fake_backup_done(&t->d, &f, UNETMM_ST_OK, 0),
                     UNETMM_CS_BAD_ID);
    /* Another one has nothing of it. */
    fake_ep_init(&next, &t->d, 1, t->s);
    next.policy = UNETMM_POLICY_BACKUP;
    next.backup = 4;
    fake_ep_create(&next);
    assert_int_equal(fake_backup_done(&t->d, &f, UNETMM_ST_OK, 0),
                     UNETMM_CS_BAD_ARG);
    fake_expect_none(&next);
}

/* A forged index stops it. */
TEST_OF(test_stopped_with_packets, Slots *t, slots_test)
{
    struct unetmm_fault f;

    slots_open(t, SOURCE, 4);
    fake_buffers(&t->d, 4, 2048);
    slots_post(t, 0, 2);
    slots_give(t, 100, 0);
    slots_give(t, 100, 1);
    f = slots_record(t);
    fake_user_word(&t->e, offsetof(struct unetmm_ep_user, fq_prod), 1000);
    expect_count(&t->h, drop_stopped, 2, assert_int_equal(
        fake_backup_done(&t->d, &f, UNETMM_ST_OK, 0), UNETMM_CS_BAD_ID));
    fake_run_later(&t->h);
    fake_expect(&t->e, UNETMM_CQE_FAILED, UNETMM_ST_BAD_INDEX, 0);
    assert_int_equal(fake_backup_done(&t->d, &f, UNETMM_ST_OK, 0),
                     UNETMM_CS_BAD_ID);
    expect_count(&t->h, drop_stopped, 1, slots_give(t, 100, 2));
}

/* A process takes its buffers back: a packet that had none has none. */
TEST_OF(test_index_moved_back, Slots *t, slots_test)
{
    struct unetmm_fault f;

    slots_open(t, SOURCE, 4);
    fake_buffers(&t->d, 4, 2048);
    slots_post(t, 0, 2);
    slots_give(t, 100, 0);
    f = slots_record(t);
    t->e.fq_prod = 0;
    fake_user_word(&t->e, offsetof(struct unetmm_ep_user, fq_prod), 0);
    assert_int_equal(fake_backup_done(&t->d, &f, UNETMM_ST_OK, 0),
                     UNETMM_CS_BAD_ARG);
    slots_post(t, 3, 1);
    resolve(t, &f);
    slots_got(t, 3, 100, 0);
}

TEST_OF(test_reset_with_packets, Slots *t, slots_test)
{
    slots_open(t, SOURCE, 4);
    fake_buffers(&t->d, 4, 2048);
    slots_post(t, 0, 4);
    for (unsigned i = 0; i < 3; i++) {
        slots_give(t, 100, i);
    }
    fake_set_reg(&t->h, UNETMM_REG_CTRL, UNETMM_CTRL_RESET);
    assert_int_equal(fake_counter(&t->h, UNETMM_C_drop_reset), 3);
    assert_int_equal(fake_reg(&t->h, UNETMM_REG_RING(UNETMM_RING_BACKUP) +
                              UNETMM_RING_ENABLE), 0);
}

/* Values that EP_CREATE refuses. */
TEST_OF(test_create, Slots *t, slots_test)
{
    static const struct {
        uint16_t bits;
        uint8_t policy, status;
    } cases[] = {
        { 0, UNETMM_POLICY_BACKUP, UNETMM_CS_BAD_ARG },
        { 65, UNETMM_POLICY_BACKUP, UNETMM_CS_BAD_ARG },
        { 0xffff, UNETMM_POLICY_BACKUP, UNETMM_CS_BAD_ARG },
        { 1, UNETMM_POLICY_DROP, UNETMM_CS_BAD_ARG },
        { 1, UNETMM_POLICY_SKIP, UNETMM_CS_BAD_ARG },
        { 64, UNETMM_POLICY_BACKUP, UNETMM_CS_OK },
    };
    FakeSpace *pinned;
    FakeEp e;

    slots_open(t, SOURCE, 4);
    fake_ep_init(&e, &t->d, 2, t->s);
    fake_ep_alloc(&e);
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        e.policy = cases[i].policy;
        e.backup = cases[i].bits;
        assert_int_equal(fake_command(&t->d, fake_ep_cmd(&e), NULL),
                         cases[i].status);
    }
    /* The page would never come. */
    pinned = fake_space(&t->d, 2, UNETMM_SOURCE_PINNED, 1);
    e.space = pinned;
    e.id = 3;
    assert_int_equal(fake_command(&t->d, fake_ep_cmd(&e), NULL),
                     UNETMM_CS_BAD_ARG);
}

/* ---- Time: packets that land, and packets that wait ---- */

/* The older one is resolved while the younger lands. */
TEST_OF(test_resolved_during_landing, Slots *t, slots_test)
{
    struct unetmm_fault f;

    t->p.dma_page_ns = 1000;
    slots_open(t, SOURCE, 4);
    fake_buffers(&t->d, 4, 2048);
    slots_post(t, 0, 2);
    slots_present(t, 1, 1);
    slots_give(t, 100, 0);
    slots_give(t, 100, 1);
    f = slots_record(t);
    resolve(t, &f);
    slots_got(t, 0, 100, 0);
    fake_expect_none(&t->e);
    expect_count(&t->h, backup_held, 0, fake_advance(&t->h, 1000));
    slots_got(t, 1, 100, 1);
}

TEST_OF(test_landed_before_resolved, Slots *t, slots_test)
{
    struct unetmm_fault f;

    t->p.dma_page_ns = 1000;
    slots_open(t, SOURCE, 4);
    fake_buffers(&t->d, 4, 2048);
    slots_post(t, 0, 2);
    slots_present(t, 1, 1);
    slots_give(t, 100, 0);
    slots_give(t, 100, 1);
    expect_count(&t->h, backup_held, 1, fake_advance(&t->h, 1000));
    fake_expect_none(&t->e);
    f = slots_record(t);
    resolve(t, &f);
    slots_got(t, 0, 100, 0);
    slots_got(t, 1, 100, 1);
}

/* ---- All sources, at random ---- */

#define STEPS   6000

typedef struct Random {
    uint64_t random;
    uint32_t n;                 /* packets that came, numbered from 1 */
    uint32_t seen, shown;       /* the last of those shown; how many */
    uint8_t len_of[STEPS + 1];
} Random;

/* The next one shown is a later one than the last, and whole. */
static bool random_take(Slots *t, Random *r)
{
    struct unetmm_cqe cqe;
    uint8_t first;

    if (!fake_poll(&t->e, &cqe)) {
        return false;
    }
    assert_int_equal(cqe.opcode, UNETMM_CQE_RECEIVED);
    assert_int_equal(cqe.cookie, SLOTS_PAGE(r->shown % SLOTS_PAGES));
    fake_load(t->s, cqe.cookie, &first, 1);
    do {
        r->seen++;
        assert_true(r->seen <= r->n);
    } while (r->len_of[r->seen] != cqe.len ||
             first != fake_pattern(r->seen, 0));
    fake_check(t->s, cqe.cookie, cqe.len, r->seen);
    r->shown++;
    return true;
}

static void random_step(Slots *t, Random *r)
{
    unsigned page = fake_random(&r->random) % SLOTS_PAGES;

    switch (fake_random(&r->random) % 7) {
    case 0:
    case 1:
        r->n++;
        r->len_of[r->n] = 4 + fake_random(&r->random) % 200;
        slots_give(t, r->len_of[r->n], r->n);
        break;
    case 2:
        if (t->e.fq_prod - fake_card(&t->e).fq_cons < 8) {
            slots_post(t, t->e.fq_prod % SLOTS_PAGES, 1);
        }
        break;
    case 3:
        slots_absent(t, page, 1);
        break;
    case 4:
        slots_present(t, page, 1);
        break;
    case 5:
        t->d.hold_backups = false;
        fake_serve(&t->d);
        t->d.hold_backups = true;
        break;
    default:
        random_take(t, r);
    }
}

/*
 * Packets come; pages come and go; the driver answers when it likes.  The
 * numbers shown go up, and each packet is shown, dropped, or waits.
 */
static void random_with(Slots *t, uint8_t source)
{
    g_autofree Random *r = g_new0(Random, 1);

    r->random = fake_seed();
    t->e.fq_log2 = 3;
    slots_open(t, source, 5);
    fake_buffers(&t->d, 4, 2048);
    for (unsigned i = 0; i < STEPS; i++) {
        random_step(t, r);
        if (i % 7 == 0) {
            slots_settle(t);
        }
    }
    assert_true(r->shown > 100);
    t->d.hold_backups = false;
    slots_settle(t);
    while (random_take(t, r)) {
        fake_ring_bell(&t->e);
    }
    assert_int_equal(r->shown + slots_drops(t) + t->h.core.eps[1].head_offset,
                     r->n);
    assert_true(fake_counter(&t->h, UNETMM_C_backup_held) > 0);
}

TEST(test_random_tlb, slots_test)
{
    random_with(*state, UNETMM_SOURCE_TLB);
}

TEST(test_random_shadow, slots_test)
{
    random_with(*state, UNETMM_SOURCE_SHADOW);
}

TEST(test_random_odp, slots_test)
{
    random_with(*state, UNETMM_SOURCE_ODP);
}
