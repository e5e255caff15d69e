/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared by fast.c and fast_provider.c: main(), and the card's side, which knows
 * nothing of the library but its public header: an endpoint on a card that is a
 * piece of memory.
 */
#ifndef BENCH_FAST_H
#define BENCH_FAST_H

#include <stddef.h>

struct unetmm_ep;

/* Calls of each case; the printed count is their mean. */
#define FAST_CALLS      64

enum fast_turn {
    FAST_TAKE,                  /* takes all descriptors */
    FAST_RETURN,                /* takes all buffers; their completions are polled */
    FAST_DELIVER,               /* delivers one message of 8 bytes, inline */
    FAST_SENT,                  /* takes all descriptors, and completes them */
    FAST_FILL,                  /* delivers one message of 8 bytes into a buffer */
};

/*
 * Prints for each of n cases its name and the mean of a call's instructions, those
 * of run(case) between its marks; the program's status.  A case has `size` bytes and
 * begins with its name, a pointer.  (Their types differ by that of a call's result:
 * to convert it would cost instructions.)
 */
int fast_main(void (*run)(void *which), void *cases, size_t size, size_t n);

/*
 * An endpoint with channel 1 and, with all rights, import 0 of 1 MiB.  It is never
 * closed: its process ends.
 */
struct unetmm_ep *fast_open(void);
void fast_turn(enum fast_turn turn);

#endif /* BENCH_FAST_H */
