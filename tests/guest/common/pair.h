/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A reliable channel from one endpoint to another of the same process, beside the
 * table of its memory: for tests that count faults.
 */
#ifndef TEST_PAIR_H
#define TEST_PAIR_H

#include "guard.h"
#include "link.h"
#include "look.h"

#define PREFETCH        16u     /* pages; the driver's own choice */

struct pair {
    struct look look;
    struct unetmm_ctx *ctx;
    struct station one, two;
};

/* Of the driver's module. */
void set_parameter(const char *name, unsigned value);

/* Nothing is entered into the table unasked (odp_prefetch) until it is closed. */
void pair_open(struct pair *p);
void pair_close(struct pair *p);

/* Misses of all endpoints of the card so far */
uint64_t faults(const struct pair *p);

/*
 * There were so many since; or one or two more, since a page that changed in the
 * middle of one is asked for again.
 */
void check_faults(const struct pair *p, uint64_t before, unsigned n);

/* Pages that come and go one by one. */
uint8_t *small_pages(unsigned n);

/* A message from one to the other; `pass_pattern` fills and looks at it, too. */
void pass(struct pair *p, uint8_t *from, uint8_t *to, size_t len);
void pass_pattern(struct pair *p, uint8_t *from, uint8_t *to, size_t len,
                  uint64_t key);

#endif /* TEST_PAIR_H */
