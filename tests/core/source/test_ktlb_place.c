/*
 * unetmm: the TLB that the driver has for source ktlb
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "../../one_test.h"

#include "util/ktlb_place.h"

#define SETS    4
#define WAYS    2
#define LIMIT   3
#define ENTRIES 64

typedef struct Tlb {
    struct unetmm_ktlb tlb;
    struct unetmm_ktlb_entry *slots[SETS * WAYS];
    struct unetmm_ktlb_entry e[ENTRIES];
} Tlb;

static int setup(void **state)
{
    Tlb *t = calloc(1, sizeof(*t));

    unetmm_ktlb_init(&t->tlb, t->slots, SETS, WAYS, LIMIT, 0);
    for (unsigned i = 0; i < ENTRIES; i++) {
        t->e[i].vpn = i;
    }
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

/* The places agree with the entries and the counters. */
static void check(const Tlb *t)
{
    const struct unetmm_ktlb_entry *v, *last = NULL;
    unsigned sets = 0, victims = 0, idle = 0, queued = 0;

    for (unsigned i = 0; i < ENTRIES; i++) {
        const struct unetmm_ktlb_entry *e = &t->e[i];

        if (e->place == UNETMM_KTLB_SET) {
            assert_ptr_equal(t->slots[e->slot], e);
            assert_int_equal(e->slot / WAYS, e->vpn % SETS);
            sets++;
        } else if (e->place == UNETMM_KTLB_VICTIM) {
            victims++;
            idle += !e->uses;
        }
    }
    for (unsigned i = 0; i < SETS * WAYS; i++) {
        sets -= !!t->slots[i];
    }
    for (v = t->tlb.oldest; v; last = v, v = v->newer) {
        assert_ptr_equal(v->older, last);
        assert_int_equal(v->place, UNETMM_KTLB_VICTIM);
        assert_int_equal(v->uses, 0);
        queued++;
    }
    assert_ptr_equal(t->tlb.newest, last);
    assert_int_equal(sets, 0);
    assert_int_equal(t->tlb.victims, victims);
    assert_int_equal(queued, idle);
}

static void insert(Tlb *t, unsigned vpn)
{
    unetmm_ktlb_insert(&t->tlb, &t->e[vpn]);
    check(t);
}

/* A pin that falls out of a set is a victim; the oldest one is given up. */
TEST_OF(test_fifo, Tlb *t, cmocka_unit_test_setup_teardown, setup, teardown)
{
    /* All of set 0: two stay, then three victims, then one too many. */
    for (unsigned i = 0; i < WAYS + LIMIT; i++) {
        insert(t, i * SETS);
        assert_null(unetmm_ktlb_trim(&t->tlb));
    }
    insert(t, (WAYS + LIMIT) * SETS);
    assert_int_equal(t->tlb.victims, LIMIT + 1);
    assert_ptr_equal(unetmm_ktlb_trim(&t->tlb), &t->e[0]);
    assert_null(unetmm_ktlb_trim(&t->tlb));
    check(t);
}

/* A victim that is needed changes places with one of its set. */
TEST_OF(test_touch, Tlb *t, cmocka_unit_test_setup_teardown, setup, teardown)
{
    for (unsigned i = 0; i < WAYS + 1; i++) {
        insert(t, i * SETS);
    }
    assert_int_equal(t->e[0].place, UNETMM_KTLB_VICTIM);
    unetmm_ktlb_touch(&t->tlb, &t->e[0]);
    check(t);
    assert_int_equal(t->e[0].place, UNETMM_KTLB_SET);
    assert_int_equal(t->tlb.victims, 1);
    unetmm_ktlb_touch(&t->tlb, &t->e[0]);
    assert_int_equal(t->tlb.victims, 1);
    check(t);
}

/* Victims in use make the list grow; it is trimmed when they are not. */
TEST_OF(test_grows, Tlb *t, cmocka_unit_test_setup_teardown, setup, teardown)
{
    for (unsigned i = 0; i < 12; i++) {
        insert(t, i * SETS);
        unetmm_ktlb_hold(&t->tlb, &t->e[i * SETS]);
        check(t);
        assert_null(unetmm_ktlb_trim(&t->tlb));
    }
    assert_int_equal(t->tlb.victims, 12 - WAYS);
    /* The one that becomes idle goes, whatever its age. */
    unetmm_ktlb_hold(&t->tlb, &t->e[5 * SETS]);
    unetmm_ktlb_release(&t->tlb, &t->e[5 * SETS]);
    assert_null(unetmm_ktlb_trim(&t->tlb));
    unetmm_ktlb_release(&t->tlb, &t->e[5 * SETS]);
    assert_ptr_equal(unetmm_ktlb_trim(&t->tlb), &t->e[5 * SETS]);
    assert_null(unetmm_ktlb_trim(&t->tlb));
    check(t);
    for (unsigned i = 0; i < 12; i++) {
        if (i != 5) {
            unetmm_ktlb_release(&t->tlb, &t->e[i * SETS]);
        }
    }
    while (unetmm_ktlb_trim(&t->tlb)) {
        check(t);
    }
    assert_int_equal(t->tlb.victims, LIMIT);
}

/* Removed wherever it is, in use or not. */
TEST_OF(test_random, Tlb *t, cmocka_unit_test_setup_teardown, setup, teardown)
{
    struct unetmm_ktlb_entry *gone;
    unsigned seed = 1;

    for (unsigned i = 0; i < 100000; i++) {
        unsigned n = (seed = seed * 1103515245 + 12345) >> 16;
        struct unetmm_ktlb_entry *e = &t->e[n % ENTRIES];

        if (e->place == UNETMM_KTLB_NOWHERE) {
            unetmm_ktlb_insert(&t->tlb, e);
        } else if (n >> 8 & 1) {
            unetmm_ktlb_touch(&t->tlb, e);
            unetmm_ktlb_hold(&t->tlb, e);
        } else if (e->uses) {
            unetmm_ktlb_release(&t->tlb, e);
        } else if (n >> 9 & 1) {
            unetmm_ktlb_remove(&t->tlb, e);
        }
        check(t);
        while ((gone = unetmm_ktlb_trim(&t->tlb))) {
            assert_int_equal(gone->uses, 0);
            check(t);
        }
        assert_true(t->tlb.victims <= LIMIT || !t->tlb.oldest);
    }
}
