/*
 * unetmm: misses: pages for which the driver is asked
 *
 * The miss's owner is told the reply.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_MISS_H
#define UNETMM_MISS_H

#include "../base/base.h"

/* An endpoint's misses: its send, its heads.  Channels have their own. */
static_assert(UNETMM_EP_MISSES == 1 + UNETMM_MAX_HEADS, "a miss for each head");

typedef enum UnetmmMissState {
    UNETMM_MISS_NONE,
    UNETMM_MISS_WANTED,         /* to be reported when there is room */
    UNETMM_MISS_ASKED,
    UNETMM_MISS_DEFERRED,
    UNETMM_MISS_JOINED,         /* another's report covers it */
    UNETMM_MISS_REFUSED,        /* no room for the reply; asked at release */
    UNETMM_MISS_CHANGING,       /* the table says so; looked at after INV */
} UnetmmMissState;

/* Pages that a transfer is going to need, besides those that it misses. */
typedef struct UnetmmAhead {
    uint64_t vpn;
    uint32_t npages;
} UnetmmAhead;

/* The purpose of a miss.  Each room with misses fills one for each kind. */
typedef struct UnetmmMissOwner {
    const char *name;
    bool write;                 /* the pages are to be written, else read */
    bool head;                  /* of a buffer that has received nothing yet */
    /*
     * The driver has replied: UNETMM_REPLY_DEFERRED, RESOLVED, or ERROR with
     * this status.  After the last two the miss is over.
     */
    void (*reply)(UnetmmCore *core, UnetmmMiss *miss, uint8_t reply,
                  uint8_t status);
    /*
     * Lists the segments of the transfer behind the pages that it misses: up to
     * UNETMM_MAX_SEGS - 1.  NULL: none.
     */
    uint32_t (*ahead)(const UnetmmCore *core, const UnetmmMiss *miss,
                      UnetmmAhead *ahead);
} UnetmmMissOwner;

/*
 * Each endpoint has one for its send and one for each head, and each reliable
 * channel one for each kind of fault.  Their places in core->miss->all are
 * fixed: a fault id and the saved state name them by number.
 */
struct UnetmmMiss {
    const UnetmmMissOwner *owner;   /* NULL: a channel's, which is no more */
    UnetmmEp *ep;               /* whose space the pages are in */
    void *of;                   /* the owner's: a head, a channel */
    UnetmmMissState state;
    bool write;
    bool zero;                  /* the old contents need not be kept */
    uint16_t generation;        /* makes fault ids of old misses stale */
    uint16_t leader;            /* JOINED: number of the miss in flight */
    uint16_t followers;         /* that have joined this one */
    uint32_t npages;
    uint64_t vpn;
    int64_t found_ns;           /* WANTED: since when */
    bool late;                  /* x-fault-delay: a reply that is not told */
    uint8_t late_reply, late_status;
    int64_t due_ns;
};

struct UnetmmMisses {
    UnetmmMiss *all;            /* unetmm_misses() of them */
    uint16_t *in_flight;        /* numbers of misses ASKED or DEFERRED */
    uint32_t in_flight_used, asked; /* `asked`: ASKED, at most max_faults */
    uint64_t *joined_bits;      /* by number: JOINED */
    UnetmmList wanted;          /* to be reported, if they are WANTED still */
    uint32_t joined, refused, changing, late;   /* misses in such states */
    bool evict_waits;           /* an entry could not leave: ring full */
};

/* All misses that there can be: those of endpoints, then of channels. */
static inline uint32_t unetmm_misses(const UnetmmCore *core)
{
    return core->params.endpoints * UNETMM_EP_MISSES +
           core->params.reliable * UNETMM_REL_MISSES;
}

/* xlat/ahead.c */
/*
 * Pages from vpn on, npages of which are needed now, up to the end of
 * [addr, + len) if it is in there and the source asks ahead.
 */
uint32_t unetmm_space_ahead(const UnetmmCore *core, const UnetmmEp *ep,
                            uint64_t vpn, uint32_t npages, uint64_t addr,
                            uint64_t len);
/* Lists segs[first .. nsegs - 1] without empty segments. */
uint32_t unetmm_segments_ahead(const struct unetmm_seg *segs, uint32_t first,
                               uint32_t nsegs, UnetmmAhead *ahead);

/* xlat/miss.c */
bool unetmm_miss_report_eviction(void *opaque, const UnetmmTlbEntry *entry);
/* Gives an unused miss to its owner, or (NULL) takes it back. */
void unetmm_miss_own(UnetmmMiss *miss, const UnetmmMissOwner *owner,
                     UnetmmEp *ep, void *of);
/* Asks for pages, in place of those asked for before. */
void unetmm_miss_want(UnetmmCore *core, UnetmmMiss *miss, uint64_t vpn,
                      uint32_t npages, bool zero);
void unetmm_miss_cancel(UnetmmCore *core, UnetmmMiss *miss);
/* Counts a miss that is JOINED now, or no longer. */
void unetmm_miss_follows(UnetmmCore *core, const UnetmmMiss *miss, bool joins);
/* Has the fault ring room for a waiting miss?  If not, the driver is told. */
bool unetmm_fault_room(UnetmmCore *core);
/* Has the fault ring room for a record that is never deferred? */
bool unetmm_fault_spare(const UnetmmCore *core);
void unetmm_miss_room(UnetmmCore *core);
/* The driver has moved the fault ring, or switched it on. */
void unetmm_miss_ring_moved(UnetmmCore *core);
/* The driver has changed entries of a space's table. */
void unetmm_miss_changed(UnetmmCore *core, uint16_t space);
uint8_t unetmm_fault_reply(UnetmmCore *core, uint16_t space,
                           const struct unetmm_cmd_reply *reply,
                           uint32_t *taken);

/* xlat/save.c */
/* The save and check of module miss. */
void unetmm_misses_save(UnetmmStream *st, UnetmmCore *core);
void unetmm_misses_check(UnetmmStream *st, UnetmmCore *core);

#endif /* UNETMM_MISS_H */
