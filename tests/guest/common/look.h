/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table of source shadow, or odp, beside the resident pages, both looked at from
 * outside.
 */
#ifndef TEST_LOOK_H
#define TEST_LOOK_H

#include "tap.h"

#define LOOK_PAGES      256u    /* at once, at most */

struct look {
    int table, pagemap;
    uint64_t space;
    bool pfns;                  /* a DMA address is a page's own */
};

/* Opens a context, and its table to be looked at. */
struct unetmm_ctx *look_open(struct look *look);
void look_close(struct look *look);

/* The table's entry for a page; how many of n it has. */
uint64_t entry_at(const struct look *look, const uint8_t *at);
unsigned count_entries(const struct look *look, const uint8_t *at, unsigned n);

/* Which page frame is mapped there; 0: none. */
uint64_t frame_of(const struct look *look, const uint8_t *at);

struct tally {
    unsigned long long looks, stable, pages, valid, resident, both;
};

/*
 * One look at n pages, which fails the test if the table has more than the resident
 * ones.  False: something was invalidated meanwhile.
 */
bool look_once(const struct look *look, const uint8_t *at, unsigned n,
               struct tally *tally);
void tell(const char *what, const struct tally *tally);

void touch(uint8_t *at, unsigned n, bool write);

#endif /* TEST_LOOK_H */
