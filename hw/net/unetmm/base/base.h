/*
 * unetmm: the card's state, and the base of every room
 *
 * UnetmmCore has the state of the whole card.  A higher room's state is behind
 * a pointer, in a structure of that room's header: the room's module allocates
 * and frees the structure, and no other room writes its members.
 *
 * Guest memory is reached through base/dma.c alone.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_BASE_H
#define UNETMM_BASE_H

#include "../abi/unetmm_hw.h"
#include "../abi/unetmm_params.h"
#include "../abi/unetmm_wire.h"
#include "../module/module.h"
#include "../tlb/tlb.h"
#include "list.h"

typedef struct UnetmmRings UnetmmRings;
typedef struct UnetmmPort UnetmmPort;
typedef struct UnetmmSpace UnetmmSpace;
typedef struct UnetmmInv UnetmmInv;
typedef struct UnetmmMiss UnetmmMiss;
typedef struct UnetmmMisses UnetmmMisses;
typedef struct UnetmmSources UnetmmSources;
typedef struct UnetmmEpLists UnetmmEpLists;
typedef struct UnetmmHead UnetmmHead;
typedef struct UnetmmHeads UnetmmHeads;
typedef struct UnetmmLanding UnetmmLanding;
typedef struct UnetmmRemote UnetmmRemote;
typedef struct UnetmmStore UnetmmStore;
typedef struct UnetmmStores UnetmmStores;
typedef struct UnetmmStart UnetmmStart;
typedef struct UnetmmSysbuf UnetmmSysbuf;
typedef struct UnetmmFlows UnetmmFlows;
typedef struct UnetmmRels UnetmmRels;
typedef struct UnetmmRegs UnetmmRegs;

#define UNETMM_NO_EP            UINT16_MAX
#define UNETMM_EP_GONE          (UINT16_MAX - 1)
#define UNETMM_NUM_CHANNEL_TYPES 3

/*
 * An endpoint as all rooms know it: a user of memory, with its counters.
 * UnetmmEp, whose rest belongs to the rooms from ep/ on, begins with it.
 */
#define UNETMM_USER_MEMBERS \
    bool live; \
    uint16_t id; \
    uint16_t space; \
    uint64_t counters[UNETMM_NUM_COUNTERS];

typedef struct UnetmmUser {
    UNETMM_USER_MEMBERS
} UnetmmUser;

static inline UnetmmUser *unetmm_user(const UnetmmEp *ep)
{
    return (UnetmmUser *)ep;
}

/*
 * The card as a whole.  card/ alone writes these members, but for STATUS_FATAL
 * (unetmm_core_fatal()); the other rooms ask unetmm_may_run().
 */
typedef struct UnetmmEngine {
    uint32_t ctrl, status;      /* UNETMM_CTRL_ENABLE, UNETMM_STATUS_FATAL */
    uint32_t depth;             /* entry points on the stack */
    uint64_t run;               /* how often the engine was entered */
    bool again;                 /* work was left for run_later */
    bool reset_wanted;          /* asked for while the engine was running */
    bool paused;                /* unetmm_core_pause() */
    bool was_closed;            /* may_receive owed to the host */
    int64_t timer_ns;
} UnetmmEngine;

/*
 * The work allowed before the host's main loop has been round: all entry points
 * spend of it together, and unetmm_core_run() alone renews it.  See
 * card/engine.c.
 */
typedef struct UnetmmBudget {
    uint32_t descriptors;
    uint32_t bytes;
    uint32_t turns;             /* of endpoints */
    uint32_t arrivals;          /* bytes, for frames from the wire */
    bool arriving;              /* work is charged to `arrivals` */
    bool asked;                 /* run_later was called since it was renewed */
    bool stopped;               /* counted: work was left for want of it */
} UnetmmBudget;

struct UnetmmCore {
    const UnetmmHostOps *ops;
    const UnetmmTables *tables;
    void *host;
    UnetmmParams params;
    UnetmmKnobs knobs;
    uint64_t random;
    const UnetmmObserver *observer;     /* of saving and restoring, or NULL */
    UnetmmEngine engine;
    UnetmmBudget budget;
    uint64_t counters[UNETMM_NUM_COUNTERS];
    UnetmmModules modules;

    /* The state of each room, from the lower rooms to the upper ones */
    UnetmmRings *ring;
    UnetmmPort *port;
    UnetmmSpace *spaces;        /* params.spaces of them */
    UnetmmInv *inv;
    UnetmmMisses *miss;
    UnetmmSources *source;
    UnetmmEp *eps;              /* params.endpoints of them */
    UnetmmEpLists *lists;
    UnetmmHeads *heads;
    UnetmmLanding *landing;
    UnetmmRemote *remote;
    UnetmmStore *store;
    UnetmmSysbuf *sysbuf;
    UnetmmFlows *flow;
    UnetmmRels *rel;
    UnetmmRegs *regs;
};

static inline void unetmm_count(UnetmmCore *core, UnetmmEp *ep,
                                enum unetmm_counter counter, uint64_t n)
{
    core->counters[counter] += n;
    if (ep) {
        unetmm_user(ep)->counters[counter] += n;
    }
}

/* The card takes a step that costs time, if the host counts it. */
void unetmm_spend_now(UnetmmCore *core, UnetmmStep step, uint32_t n)
    __attribute__((cold));      /* base/step.c */

static inline void unetmm_spend(UnetmmCore *core, UnetmmStep step, uint32_t n)
{
    if (__builtin_expect(core->ops->spend != NULL, false)) {
        unetmm_spend_now(core, step, n);
    }
}

/* Enabled, not fatal, and no reset to come first. */
static inline bool unetmm_may_run(const UnetmmCore *core)
{
    const UnetmmEngine *e = &core->engine;

    return (e->ctrl & UNETMM_CTRL_ENABLE) && !e->reset_wanted && !e->paused &&
           !(e->status & UNETMM_STATUS_FATAL);
}

/* Are all bytes of a reserved member zero? */
static inline bool unetmm_all_zero(const void *data, size_t bytes)
{
    const uint8_t *byte = data;

    while (bytes && !*byte) {
        byte++;
        bytes--;
    }
    return !bytes;
}

/*
 * The budget.  A little DMA and an index (a completion, a short frame, a buffer
 * that goes back) take as much as so many bytes.
 */
#define UNETMM_LEAST_BYTES      1024

/* An endpoint's share in one turn. */
#define UNETMM_TURN_DESCRIPTORS 16
#define UNETMM_TURN_BYTES       131072

static inline void unetmm_charge(UnetmmCore *core, uint32_t descriptors,
                                 uint32_t bytes)
{
    UnetmmBudget *b = &core->budget;

    if (b->arriving) {
        bytes += descriptors * UNETMM_LEAST_BYTES;
        b->arrivals -= MIN(b->arrivals, bytes);
        return;
    }
    b->descriptors -= MIN(b->descriptors, descriptors);
    b->bytes -= MIN(b->bytes, bytes);
}

static inline bool unetmm_budget_left(const UnetmmCore *core)
{
    const UnetmmBudget *b = &core->budget;

    return b->arriving ? b->arrivals : b->descriptors && b->bytes && b->turns;
}

/*
 * Of places that users share a user may have half of those that the others
 * leave, rounded up.  Is there one more for a user who has `mine` of `used`?
 */
static inline bool unetmm_half_left(uint32_t places, uint32_t used,
                                    uint32_t mine)
{
    uint32_t others = used - mine;

    return others < places && mine < (places - others + 1) / 2;
}

/* base/budget.c */
void unetmm_budget_renew(UnetmmCore *core);

/* base/crc.c: CRC32C (Castagnoli), start with 0 */
uint32_t unetmm_crc32c(uint32_t crc, const void *data, size_t bytes);

/* base/dma.c: the only caller of the host's memory operations */
bool unetmm_dma_read(UnetmmCore *core, UnetmmEp *ep, uint64_t addr, void *buf,
                     size_t bytes);
bool unetmm_dma_write(UnetmmCore *core, UnetmmEp *ep, uint64_t addr,
                      const void *buf, size_t bytes);
/* Of UnetmmHostOps; false: the bus refused it. */
bool unetmm_dma_cmpxchg(UnetmmCore *core, UnetmmEp *ep, uint64_t addr,
                        uint64_t *old, uint64_t value);
/* Writes an entry whose last word has the phase: that word goes last. */
bool unetmm_dma_post(UnetmmCore *core, UnetmmEp *ep, uint64_t addr,
                     const void *entry, size_t bytes);
uint32_t unetmm_dma_test(UnetmmCore *core, uint32_t op, uint64_t addr,
                         uint32_t n);

/* base/random.c */
uint32_t unetmm_random(UnetmmCore *core);
void unetmm_random_seed(UnetmmCore *core, uint64_t seed);
bool unetmm_chance(UnetmmCore *core, uint32_t ppm);
int64_t unetmm_some_time(UnetmmCore *core, uint32_t most_ns);

#endif /* UNETMM_BASE_H */
