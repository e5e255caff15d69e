/*
 * unetmm: time that the card takes: costs of its steps, effects at their time
 *
 * Without this room the card takes no time: all that a doorbell causes has
 * happened when the store is over.  With it, each step of the core
 * (UnetmmHostOps.spend) has a cost, and the card is one serial unit: its own
 * clock `now_ps` is ahead of the host's by the work that it has accepted.  The
 * core still does all work at once; the effects that the host could see
 * (writes to memory, interrupts, frames) wait in a queue until the host's clock
 * is there.
 *
 *   core --ops--> UnetmmTiming --inner--> the host (QEMU, or a test)
 *
 * Exact, and approximate:
 *   - effects keep their order and have the time of the step that caused them;
 *   - the core reads memory when it is entered, not when the card would come to
 *     it; a descriptor that is changed in between is not seen;
 *   - an atomic operation on memory takes place at once;
 *   - a write to memory that the core reads or changes again, or that a load of
 *     a register overtakes, is made early; and with it all writes to its page
 *     if more than UNETMM_TIMING_MOST_LOOKS wait;
 *   - a card that is UNETMM_TIMING_MOST_NS ahead catches up: all effects take
 *     place at once, and `overruns` counts that.  The same happens when more
 *     than UNETMM_TIMING_MOST_EFFECTS wait, or when they hold more than
 *     UNETMM_TIMING_MOST_BYTES.
 *
 * The queue's cost, whatever a guest does: an effect is put in, and taken out,
 * in constant time.  A read of memory looks at the writes that wait for its own
 * pages, at no more than UNETMM_TIMING_MOST_LOOKS of a page that stay.
 *
 * Locks: as for the core, the host's one lock is held in every call.
 * Lifetimes: unetmm_timing_init() to unetmm_timing_free(); the core is freed
 * before.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_TIMING_H
#define UNETMM_TIMING_H

#include "../abi/unetmm_host.h"

#define UNETMM_TIMING_MOST_NS       100000000
#define UNETMM_TIMING_MOST_BYTES    (16u << 20)
#define UNETMM_TIMING_MOST_EFFECTS  65536
#define UNETMM_TIMING_MOST_LOOKS    1024

/* Costs in ps; those of a byte in fs.  docs/specs/unetmm.rst, "Time". */
#define UNETMM_COSTS(X) \
    X(fetch)            /* a descriptor */ \
    X(gather_byte)      /* a byte of a message, read */ \
    X(place_byte)       /* a byte of a message, written */ \
    X(packet)           /* a packet of a reliable channel, sent */ \
    X(ack)              /* an acknowledgement, sent */ \
    X(complete)         /* a completion */ \
    X(hit_read)         /* a translation that is found, to read */ \
    X(hit_write)        /* to write */ \
    X(hit_head)         /* to write, of a free buffer's head */ \
    X(miss)             /* one that is not found */ \
    X(entry)            /* an entry of a table in memory */ \
    X(lock)             /* an entry that is locked or unlocked */ \
    X(insert)           /* a page that enters the TLB */ \
    X(evict)            /* one that leaves it */ \
    X(report)           /* a record of a miss, for the driver */ \
    X(resume)           /* its answer */ \
    X(arrive)           /* a frame that arrives */

typedef struct UnetmmCosts {
#define UNETMM_COST(name) int64_t name;
    UNETMM_COSTS(UNETMM_COST)
#undef UNETMM_COST
} UnetmmCosts;

/* The greatest value of a cost: one second, or 1 us a byte. */
#define UNETMM_COST_MOST    1000000000000ll

/*
 * Reads "NAME=VALUE:NAME=VALUE..."; costs that are not named are 0.  NULL, or
 * one sentence for the user, to be freed.
 */
char *unetmm_costs_parse(UnetmmCosts *costs, const char *text);

/*
 * The cost of a step, in ps.  *head is true from the step HEAD to the next look
 * for a translation; the caller keeps it, false at first.
 */
int64_t unetmm_step_cost(const UnetmmCosts *costs, bool *head, UnetmmStep step,
                         uint32_t n);

typedef struct UnetmmTiming {
    UnetmmHostOps ops;          /* for the core, with this as its host */
    UnetmmCosts costs;
    const UnetmmHostOps *inner;
    void *host;                 /* inner's */
    /* Calls unetmm_timing_due() at that time; INT64_MAX: not any more. */
    void (*wake_at)(void *host, int64_t when_ns);
    bool head;
    int64_t epoch_ns;           /* the host's time at which now_ps is 0 */
    int64_t now_ps;             /* the card's; may be behind the host's */
    GQueue effects;             /* in the order of their time */
    GQueue writes;              /* those of them that write to memory */
    GHashTable *pages;          /* the same, by the page that they write to */
    size_t bytes;               /* of data that the effects hold */
    uint64_t looks;             /* at writes, by reads of the memory */
    unsigned queued;            /* frames that the wire keeps for later */
    uint64_t overruns;          /* times that the card had to catch up */
    uint64_t refused;           /* effects that the bus or the wire refused */
} UnetmmTiming;

void unetmm_timing_init(UnetmmTiming *t, const UnetmmCosts *costs,
                        const UnetmmHostOps *inner, void *host,
                        void (*wake_at)(void *host, int64_t when_ns));
void unetmm_timing_free(UnetmmTiming *t);
/* A frame arrives; the core is to be told of it after. */
void unetmm_timing_arrives(UnetmmTiming *t);
/* Lets the effects take place whose time has come. */
void unetmm_timing_due(UnetmmTiming *t);
/* All writes to memory take place now: the driver loads a register. */
void unetmm_timing_write_all(UnetmmTiming *t);
/* All effects take place now, and the card is not ahead any more. */
void unetmm_timing_catch_up(UnetmmTiming *t);
/* None takes place: the card is reset. */
void unetmm_timing_drop(UnetmmTiming *t);
/*
 * A frame that the wire has kept is gone.  True: it was one of an effect, of
 * which the core has been told already.
 */
bool unetmm_timing_sent(UnetmmTiming *t);

#endif /* UNETMM_TIMING_H */
