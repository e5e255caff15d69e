/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A field of pages whose every byte is known, and a thread that never rests: it
 * moves pages of it about by messages and by WRITE and READ, both ways between
 * two endpoints, while the test treats the field as an operating system treats
 * memory.  A second thread compares the card's table with the resident pages.
 *
 * Each page has the pattern of its key.  A user of pages has taken them before; the
 * mill lets those alone that somebody else has taken.
 */
#ifndef TEST_MILL_H
#define TEST_MILL_H

#include "link.h"
#include "look.h"

#include <pthread.h>
#include <stdatomic.h>

#define FIELD           512u            /* pages: one huge one, if need be */

struct mill {
    struct unetmm_ctx *ctx;
    struct look look;
    uint8_t *field, *map;               /* aligned like a huge page, in `map` */
    uint64_t keys[FIELD];
    atomic_flag taken[FIELD];
    struct link link;                   /* datagrams */
    struct station left, right;         /* a reliable channel */
    unsigned import[2];                 /* of the field, by left and by right */
    struct link own;                    /* the test's, not the mill's */
    uint8_t *from;                      /* a page that `own` may send from */
    pthread_t miller, looker;
    atomic_bool stop;
    atomic_ullong steps, moved[4];      /* by kind: pages */
    atomic_ullong next_key;
    struct tally running, rest;
};

void mill_start(struct mill *mill);
/* Nothing moves any more; checks all bytes, and notes the work done. */
void mill_rest(struct mill *mill);
/* The same, if need be, and nothing of it is left. */
void mill_end(struct mill *mill);

/* So many rounds more, at least, have been made. */
void mill_await(struct mill *mill, unsigned rounds);

/* Takes pages, waiting for those that are in use; gives them back. */
void mill_take(struct mill *mill, unsigned first, unsigned n);
void mill_give(struct mill *mill, unsigned first, unsigned n);
/* Some that lie side by side, taken. */
unsigned mill_take_some(struct mill *mill, struct chance *chance, unsigned n);

/* Of pages that are taken: writes them anew, the process itself or the card. */
void mill_fill(struct mill *mill, unsigned first, unsigned n);
void mill_fill_by_card(struct mill *mill, unsigned first, unsigned n);
void mill_check(struct mill *mill, unsigned first, unsigned n);

uint8_t *mill_page(const struct mill *mill, unsigned page);

#endif /* TEST_MILL_H */
