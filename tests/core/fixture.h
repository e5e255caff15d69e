/*
 * unetmm: the usual scene: two processes with an endpoint each on one card
 *
 * a (endpoint 1, space 1) and b (endpoint 2, space 2), source tlb.  Channel 1
 * joins them on the card itself, channel 2 leads to endpoints 11 and 12 of the
 * peer on the wire.  Both have FIX_PAGES pages at FIX_VA.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef FIXTURE_H
#define FIXTURE_H

#include "fake_driver.h"

#define FIX_VA      0x7f1200010000ull
#define FIX_PAGES   40
#define FIX_PAGE(n) (FIX_VA + (uint64_t)(n) * FAKE_PAGE)
#define FIX_MTU     65536
#define FIX_LOCAL   1                   /* channels */
#define FIX_WIRE    2

typedef struct Fix {
    FakeHost h;
    FakeDriver d;
    FakeSpace *s1, *s2;
    FakeEp a, b;
} Fix;

typedef void FixTune(UnetmmParams *p);

int fix_setup(void **state);
int fix_teardown(void **state);
/* Card and driver only. */
int fix_setup_bare(void **state);

/* Rings both bells and serves faults until nothing moves any more. */
void fix_settle(Fix *f);

/* Sends from a page to the wire, the bell rung. */
void fix_send(Fix *f, FakeEp *ep, unsigned page, uint32_t len,
              uint64_t cookie);
/* A datagram of `len` bytes, pattern n, comes from the peer on the wire. */
void fix_receive(Fix *f, FakeEp *ep, uint32_t len, uint32_t n);
/* Sends from any address to the wire, and takes the completion. */
void fix_expect_send(Fix *f, FakeEp *ep, uint64_t at, uint32_t len,
                     uint8_t status);
/* The saved card is refused with this sentence, or, if no lie was told, loaded. */
void fix_check_lie(UnetmmCore *core, unsigned number, bool told,
                   const char *expected);
/* The card has asked for nothing (more). */
void fix_no_fault(Fix *f);

#define fix_test(fn) \
    cmocka_unit_test_setup_teardown(fn, fix_setup, fix_teardown)
#define fix_test_with(fn, tune) \
    cmocka_unit_test_prestate_setup_teardown(fn, fix_setup, fix_teardown, \
                                             (void *)(tune))
#define fix_test_bare(fn, tune) \
    cmocka_unit_test_prestate_setup_teardown(fn, fix_setup_bare, \
                                             fix_teardown, (void *)(tune))

#endif /* FIXTURE_H */
