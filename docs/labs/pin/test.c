/*
 * unetmm lab `pin`: the test
 *
 * The card is the real core on the tests' host (tests/core/fake_host.h): an
 * access to a page that is not pinned at that moment fails the test.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "pin.h"

/* ---- The kernel's part --------------------------------------------------- */

static FakeVpage *page_at(Driver *d, uint16_t space, uint64_t vaddr)
{
    assert_true(space == 1 || space == 2);
    return fake_vpage(space == 1 ? d->s1 : d->s2, vaddr);
}

static void set_pins(Driver *d, FakeVpage *page, unsigned pins)
{
    page->pins = pins;
    fake_rights(&d->h, page->dma, FAKE_PAGE, pins ? page->rights : 0);
}

uint64_t pin_page(Driver *d, uint16_t space, uint64_t vaddr, bool write)
{
    FakeVpage *page = page_at(d, space, vaddr);

    if (!page || (write && !(page->rights & FAKE_W))) {
        return 0;
    }
    set_pins(d, page, page->pins + 1);
    return page->dma;
}

bool page_is_writable(Driver *d, uint16_t space, uint64_t vaddr)
{
    FakeVpage *page = page_at(d, space, vaddr);

    return page && (page->rights & FAKE_W);
}

void unpin_page(Driver *d, uint16_t space, uint64_t vaddr)
{
    FakeVpage *page = page_at(d, space, vaddr);

    if (!page || !page->pins) {
        fail_msg("a page without a pin is unpinned: 0x%" PRIx64, vaddr);
    }
    set_pins(d, page, page->pins - 1);
}

uint64_t put_list(Driver *d, const uint64_t *entries, uint32_t n)
{
    assert_true(n && n <= UNETMM_REPLY_MAX_PAGES);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t pte = cpu_to_le64(entries[i]);

        fake_write(&d->h, d->d.list + i * sizeof(pte), &pte, sizeof(pte));
    }
    return d->d.list;
}

uint8_t command(Driver *d, struct unetmm_cmd cmd, uint32_t *result)
{
    return fake_command(&d->d, cmd, result);
}

/* ---- Helpers ------------------------------------------------------------- */

/* Hands all records to the lab's function. */
static void serve(Driver *d)
{
    struct unetmm_fault f;
    unsigned records = 0;

    while (fake_fault(&d->d, &f)) {
        assert_true(++records < 1000);
        driver_fault(d, &f);
    }
}

static unsigned pins(Driver *d)
{
    unsigned n = 0;

    for (unsigned i = 0; i < FIX_PAGES; i++) {
        n += fake_vpage(d->s1, FIX_PAGE(i))->pins;
        n += fake_vpage(d->s2, FIX_PAGE(i))->pins;
    }
    return n;
}

static int lab_setup(void **state)
{
    Fix *f;

    fix_setup(state);
    f = *state;
    /* The lab unpins evicted pages, not the tests' own driver. */
    f->d.watch = false;
    return 0;
}

#define lab_test(fn, tune) \
    cmocka_unit_test_prestate_setup_teardown(fn, lab_setup, fix_teardown, \
                                             (void *)(tune))

/* A TLB of six entries. */
static void tiny(UnetmmParams *p)
{
    p->tlb_sets = 4;
    p->tlb_victims = 2;
}

static void expect_sent(Driver *d, uint32_t len, uint64_t n)
{
    fake_expect(&d->a, UNETMM_CQE_SENT, UNETMM_ST_OK, n);
    fake_check_frame(fake_wire_at(&d->h, d->h.wire->len - 1), len, n);
}

/* ---- The tests ----------------------------------------------------------- */

static void a_send_from_one_page(void **state)
{
    Driver *d = *state;

    fake_fill(d->s1, FIX_PAGE(0), 100, 1);
    fix_send(d, &d->a, 0, 100, 1);
    serve(d);
    expect_sent(d, 100, 1);
    assert_int_equal(pins(d), 1);
}

static void one_answer_for_three_pages(void **state)
{
    Driver *d = *state;
    uint64_t before = fake_counter(&d->h, UNETMM_C_faults_send);

    fake_fill(d->s1, FIX_PAGE(4), 3 * FAKE_PAGE, 2);
    fix_send(d, &d->a, 4, 3 * FAKE_PAGE, 2);
    serve(d);
    expect_sent(d, 3 * FAKE_PAGE, 2);
    assert_int_equal(fake_counter(&d->h, UNETMM_C_faults_send) - before, 1);
    assert_int_equal(pins(d), 3);
}

static void a_receive_may_write(void **state)
{
    Driver *d = *state;

    fake_post(&d->a, FIX_PAGE(7), FAKE_PAGE, 3);
    fake_ring_bell(&d->a);
    serve(d);
    fake_deliver(&d->h, fake_datagram(&d->a, FIX_WIRE, 11, 500, 3));
    fake_expect(&d->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 3);
    fake_check(d->s1, FIX_PAGE(7), 500, 3);
}

static void a_send_from_a_page_that_is_read_only(void **state)
{
    Driver *d = *state;

    fake_vpage(d->s1, FIX_PAGE(9))->rights = FAKE_R;
    fake_fill(d->s1, FIX_PAGE(9), 100, 4);
    fix_send(d, &d->a, 9, 100, 4);
    serve(d);
    expect_sent(d, 100, 4);
    /* The entry must not give the right to write. */
    fake_post(&d->a, FIX_PAGE(9), FAKE_PAGE, 5);
    fake_ring_bell(&d->a);
    serve(d);
    fake_deliver(&d->h, fake_datagram(&d->a, FIX_WIRE, 11, 500, 5));
    assert_int_equal(pins(d), 1);
}

static void an_address_that_the_process_does_not_have(void **state)
{
    Driver *d = *state;

    fix_send(d, &d->a, FIX_PAGES + 5, 100, 6);
    serve(d);
    fake_expect(&d->a, UNETMM_CQE_SENT, UNETMM_ST_PROTECTION, 6);
    assert_int_equal(pins(d), 0);
}

static void a_prefix_is_an_answer(void **state)
{
    Driver *d = *state;

    /* The last page is there, the one behind it is not. */
    fix_send(d, &d->a, FIX_PAGES - 1, 2 * FAKE_PAGE, 7);
    serve(d);
    fake_expect(&d->a, UNETMM_CQE_SENT, UNETMM_ST_PROTECTION, 7);
    assert_int_equal(pins(d), 1);
}

static void evicted_pages_are_unpinned(void **state)
{
    Driver *d = *state;

    for (unsigned i = 0; i < FIX_PAGES; i++) {
        fake_fill(d->s1, FIX_PAGE(i), 100, i);
        fix_send(d, &d->a, i, 100, i);
        serve(d);
        expect_sent(d, 100, i);
        assert_true(pins(d) <= 6);
    }
    assert_int_equal(pins(d), d->h.core.source->tlb.used);
}

static void an_answer_that_comes_too_late(void **state)
{
    Driver *d = *state;
    struct unetmm_fault f;

    fix_send(d, &d->a, 3, 100, 8);
    assert_true(fake_fault(&d->d, &f));
    assert_int_equal(fake_ep_destroy(&d->a), UNETMM_CS_OK);
    driver_fault(d, &f);
    /* The card may take the page all the same; else its pin must go. */
    assert_int_equal(pins(d), d->h.core.source->tlb.used);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        lab_test(a_send_from_one_page, NULL),
        lab_test(one_answer_for_three_pages, NULL),
        lab_test(a_receive_may_write, NULL),
        lab_test(a_send_from_a_page_that_is_read_only, NULL),
        lab_test(an_address_that_the_process_does_not_have, NULL),
        lab_test(a_prefix_is_an_answer, NULL),
        lab_test(evicted_pages_are_unpinned, tiny),
        lab_test(an_answer_that_comes_too_late, NULL),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
