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

static void test_absent_goes_to_the_ring(void **state)
{
    Slots *t = *state;
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

/* What comes behind it lands, and is shown behind it. */
static void test_order_is_kept(void **state)
{
    Slots *t = *state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        slots_test(test_absent_goes_to_the_ring),
        slots_test(test_order_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
