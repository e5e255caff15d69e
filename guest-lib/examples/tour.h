/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Common to the tours: they end with a sentence if something fails, and check
 * all bytes.
 */
#ifndef UNETMM_EXAMPLES_TOUR_H
#define UNETMM_EXAMPLES_TOUR_H

#include <libunetmm.h>

#include <stddef.h>
#include <stdint.h>

#define SECOND          1000000000ll
#define PAGE            ((size_t)UNETMM_PAGE_BYTES)

/* The program: opens the card, and visits the host with the MAC argv[1], or is the host. */
int tour_main(int argc, char **argv, const char *name, unsigned source,
              void (*visit)(struct unetmm_ctx *ctx, const char *mac),
              void (*host)(struct unetmm_ctx *ctx));

/* Ends the program if a call has failed, with advice. */
int check(int ret, enum unetmm_call call);
void fail(const char *what) __attribute__((noreturn));
/* Of a call that returns a status, or -errno. */
void check_status(unsigned status, const char *what);

/* Of pages that come and go one by one, all of them there. */
void *memory(size_t bytes);
/* How many pages of it are out when it has been given up to swap. */
uint64_t page_out(uint8_t *at, size_t bytes);

/* Bytes that depend on where they are and on whose turn it is. */
void fill(uint8_t *to, uint32_t key, uint64_t offset, size_t length);
uint64_t wrong(const uint8_t *at, uint32_t key, uint64_t offset, size_t length);

/* The next completion of that type; those of other kinds may come before. */
struct unetmm_completion next(struct unetmm_ep *ep, unsigned type);

uint64_t card(struct unetmm_ctx *ctx, enum unetmm_counter n);
uint64_t driver(struct unetmm_ctx *ctx, enum unetmm_driver_counter n);
double now_us(void);

#endif /* UNETMM_EXAMPLES_TOUR_H */
