/*
 * unetmm: two cards on one wire, and a reliable channel between them
 *
 * The wire has a rate and a delay, and loses, doubles, damages and delays
 * frames at random (`seed`).  Both hosts have one clock; nothing happens but
 * events on it.  Each side's process sends messages of a known pattern and
 * checks all that it receives: every byte, in order, exactly once.  The memory of a send is
 * spoiled when it completes, that of a buffer before it is posted.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef PAIR_H
#define PAIR_H

#include "fake_driver.h"

#define PAIR_CHANNEL    3
#define PAIR_SLOTS      8               /* messages, and buffers, at a time */
#define PAIR_BYTES      (48u << 10)     /* of each */
#define PAIR_VA         0x7f5500000000ull
#define PAIR_TAKE_AWAY  7               /* one in so many accesses to entries */

typedef struct PairWire {
    uint64_t random;
    int64_t ns_per_kb;                  /* 0: no limit */
    int64_t delay_ns;
    uint32_t loss, dup, corrupt, late;  /* per million */
    int64_t late_ns;                    /* at most so much later */
} PairWire;

typedef struct PairSide {
    FakeHost h;
    FakeDriver d;
    FakeSpace *s;
    FakeEp ep;
    int64_t wire_free_ns;               /* its direction's */
    uint32_t len[PAIR_SLOTS];           /* of the sends in progress */
    uint32_t sent, completed;           /* messages */
    uint32_t got;                       /* of the other side's, in order */
    uint32_t posted;                    /* buffers */
    uint64_t bytes;                     /* received */
    bool lazy;                          /* posts no buffers */
    uint32_t atomics;                   /* accesses of that kind */
    uint64_t random;                    /* which of them take a page away */
} PairSide;

typedef struct Pair {
    PairSide side[2];
    PairWire wire;
    GArray *flights;
    uint64_t order;
    int64_t now;
    uint64_t random;                    /* of the processes' actions */
    uint32_t most;                      /* the longest message */
    uint32_t (*length)(struct Pair *p, uint32_t n);
} Pair;

typedef void PairTune(UnetmmParams *p);

/*
 * Channel options that are zero are the card's; source: UNETMM_SOURCE_*.  With
 * recv_credits both endpoints have policy redirect, and so many slots.
 */
void pair_init(Pair *p, PairTune *tune, uint8_t source, uint64_t seed,
               const struct unetmm_cmd_channel *how);
void pair_free(Pair *p);
/*
 * The processes post and send as much as they can: up to `n` messages each
 * way.
 */
void pair_work(Pair *p, unsigned side, uint32_t n);
/* Whatever happens next on the clock.  False: nothing ever will. */
bool pair_step(Pair *p);
/* Both sides send n messages (0: none); until all is done and checked. */
void pair_exchange(Pair *p, uint32_t n0, uint32_t n1);
uint64_t pair_count(Pair *p, enum unetmm_counter counter);

#endif /* PAIR_H */
