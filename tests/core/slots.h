/*
 * unetmm: the scene of the tests of slots: one endpoint without heads
 *
 * Endpoint 1 of space 1, with policy backup or (raw) drop, SLOTS_PAGES pages at
 * SLOTS_VA, and channel 1 to endpoint 11 of the peer.  A buffer's cookie is its
 * address.  A raw endpoint gets its frames as if a flow of the card had found
 * it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef SLOTS_H
#define SLOTS_H

#include "fake_driver.h"

#define SLOTS_VA        0x7f3300040000ull
#define SLOTS_PAGES     32
#define SLOTS_PAGE(n)   (SLOTS_VA + (uint64_t)(n) * FAKE_PAGE)
#define SLOTS_LEN       2000            /* of a buffer */

typedef struct Slots {
    FakeHost h;
    FakeDriver d;
    FakeSpace *s;
    FakeEp e;
    UnetmmParams p;
} Slots;

/* Card and driver; all that may be changed is in t->p, t->d and t->e. */
int slots_setup(void **state);
int slots_teardown(void **state);
/* Space and endpoint; nothing is present.  bits: policy backup; 0: raw, drop. */
void slots_open(Slots *t, uint8_t source, uint16_t bits);
/* A packet of `len` bytes of message n. */
void slots_give(Slots *t, uint32_t len, uint32_t n);
/* Posts pages first .. first + n - 1, SLOTS_LEN bytes of each. */
void slots_post(Slots *t, unsigned first, unsigned n);
void slots_present(Slots *t, unsigned first, unsigned n);
void slots_absent(Slots *t, unsigned first, unsigned n);
/* The next completion is of message n, in page `page`, and it is all there. */
void slots_got(Slots *t, unsigned page, uint32_t len, uint32_t n);
/* The next completion is of this page's buffer, which is empty. */
void slots_returned(Slots *t, unsigned page, uint8_t status);
/* The record of the oldest packet in the ring that has not been answered. */
struct unetmm_fault slots_record(Slots *t);
void slots_settle(Slots *t);
/* All counters that say that something was dropped. */
uint64_t slots_drops(Slots *t);

#define slots_test(fn) \
    cmocka_unit_test_setup_teardown(fn, slots_setup, slots_teardown)

#endif /* SLOTS_H */
