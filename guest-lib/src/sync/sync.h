/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Common to a home and its members: words in each other's memory.
 *
 * The words are little-endian and have 8 bytes.  One side alone writes a word; only `tail`
 * and `units` are changed by all members, by atomics.  Writes of a channel may be seen in any
 * order: so the value of a word but `units` only grows, and values that belong together share a
 * word.
 */
#ifndef UNETMM_SYNC_INTERNAL_H
#define UNETMM_SYNC_INTERNAL_H

#include "../handler/handler.h"

#define SYNC_MAGIC      0x636e79736d6d6e75ull
#define SYNC_ALIVE_NS   200000000       /* is the other side there? */

/* A member's, at home. */
struct sync_record {
    uint64_t taking;            /* waits begun, before its ticket is taken */
    uint64_t status;            /* of the last one that has a ticket */
    union {
        uint64_t given;         /* semaphores: units given back */
        uint64_t wakes;         /* wait-queues: sync_wakes() */
    };
    uint64_t alive;             /* written as a probe of the channel, never read */
    uint64_t rsvd[4];
};

struct sync_words {
    uint64_t tail;              /* tickets taken */
    uint64_t limit;             /* tickets served: all before it */
    uint64_t units;             /* light: free units, less waiting members */
    uint64_t rsvd[5];
    struct sync_record records[];
};

/* Of a member: the home's answers. */
struct sync_answer {
    uint64_t limit;
    uint64_t acked;             /* the last wait that it has given up */
    uint64_t alive;
    uint64_t tail, read;        /* not the home's: its words as they were read */
};

/* status: the wait's number (20 bits), its state, its ticket */
#define SYNC_GOT        0u
#define SYNC_WAITING    1u
#define SYNC_GAVE_UP    2u
#define SYNC_OPS        0xfffffull

static inline uint64_t sync_status(uint64_t op, unsigned state,
                                   uint64_t ticket)
{
    return ticket << 22 | (op & SYNC_OPS) << 2 | state;
}

/* Wake-ups, modulo 2^24, and the ticket from which on nobody is meant */
#define SYNC_WAKES      0xffffffull

static inline uint64_t sync_wakes(uint64_t wakes, uint64_t end)
{
    return end << 24 | (wakes & SYNC_WAKES);
}

/*
 * Runs of tickets without an owner that a home remembers.  Members that keep the rules leave
 * one run between two that wait; a member that gives up beyond waits for its answer.
 */
#define SYNC_RUNS       256u

/* Kinds of homes */
#define SYNC_QUEUE      0u
#define SYNC_SEMAPHORE  1u
#define SYNC_LIGHT      2u      /* a semaphore whose free units are one word */

/*
 * The first messages, each way.  A member's may be the last sign of one that was
 * killed, on a channel whose number is another member's when the home reads it: so
 * the answer names its member.
 */
struct sync_hello {
    uint64_t magic;
    uint64_t export;            /* the sender's */
    uint64_t to;                /* an answer: the asker's export; or 0 */
    uint32_t slot;              /* of the member's record */
    int32_t error;              /* -errno: it is none */
    uint64_t kind;              /* SYNC_QUEUE, ... */
};

/* A home or a member: words of its own, which the other side's card writes and counts. */
struct sync_side {
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;
    struct unetmm_event_counter *told;      /* by the other side */
    void *words;                            /* pages, exported */
    size_t bytes;
    uint64_t export;
    bool exported;
};

/* Of ctx.  -errno: nothing is left. */
int unetmm_sync_side_open(struct sync_side *side, size_t bytes, unsigned rights);
void unetmm_sync_side_close(struct sync_side *side);

#endif /* UNETMM_SYNC_INTERNAL_H */
