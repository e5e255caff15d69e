/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The card's side of fast.c, which knows nothing of the library but its public
 * header: an endpoint on a card that is a piece of memory.
 */
#ifndef BENCH_FAST_H
#define BENCH_FAST_H

struct unetmm_ep;

enum fast_turn {
    FAST_TAKE,                  /* takes all descriptors */
    FAST_RETURN,                /* takes all buffers; their completions are polled */
    FAST_DELIVER,               /* delivers one message of 8 bytes, inline */
    FAST_SENT,                  /* takes all descriptors, and completes them */
    FAST_FILL,                  /* delivers one message of 8 bytes into a buffer */
};

/*
 * An endpoint with channel 1 and, with all rights, import 0 of 1 MiB.  It is never
 * closed: its process ends.
 */
struct unetmm_ep *fast_open(void);
void fast_turn(enum fast_turn turn);

#endif /* BENCH_FAST_H */
