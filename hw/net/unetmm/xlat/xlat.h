/*
 * unetmm: address spaces, their sources of translations, and misses
 *
 * A page is looked up (unetmm_space_lookup), held while a transfer relies on
 * it, and locked while its DMA runs.  A page that is absent is a miss: the
 * driver is asked, and the miss's owner is told the reply.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_XLAT_H
#define UNETMM_XLAT_H

#include "../base/base.h"

typedef struct UnetmmEventCounter UnetmmEventCounter;

/* An endpoint's misses: its send, its heads.  Channels have their own. */
static_assert(UNETMM_EP_MISSES == 1 + UNETMM_MAX_HEADS, "a miss for each head");

typedef struct UnetmmSpace {
    bool live;
    const UnetmmSourceOps *source;
    uint8_t levels;
    uint64_t table;
    uint32_t regions;
    uint32_t endpoints;         /* that use it, by number, from ... */
    uint16_t first_ep;          /* ... here on, by next_in_space */
    uint64_t counter_page;
    UnetmmEventCounter *counters;    /* UNETMM_EVENT_COUNTERS, or NULL */
    uint32_t counters_due;
    bool telling;               /* in the list of those that owe wake-ups */
} UnetmmSpace;

static inline UnetmmSpace *unetmm_space_of(const UnetmmCore *core,
                                           const UnetmmEp *ep)
{
    return &core->spaces[unetmm_user(ep)->space];
}

typedef enum UnetmmXlat {
    UNETMM_XLAT_OK,
    UNETMM_XLAT_MISS,           /* ask the driver */
    UNETMM_XLAT_ERROR,          /* protection */
} UnetmmXlat;

/*
 * A translation in use.  Source shadow locks a table entry for each DMA:
 * `entry` is that entry's DMA address, `pte` its last known value, and `dma` is
 * right only while the lock is held.  Other sources set `tlb` and `id`, the
 * entry that is held; tlb is NULL if nothing has to be held.
 */
typedef struct UnetmmPage {
    uint64_t dma;               /* address of the page's first byte */
    UnetmmTlb *tlb;
    uint32_t id;
    uint64_t entry;             /* where it is, in the table */
    uint64_t pte;               /* its value at the last look */
} UnetmmPage;

/* A source: where translations come from.  One file fills one. */
struct UnetmmSourceOps {
    const char *name;
    uint8_t levels_min, levels_max;     /* as SPACE_CREATE must have them */
    bool only_space_0;
    /* Traits: differences between sources that are no operations. */
    bool driver_brings;         /* absent pages, when it is asked for them */
    bool asks_ahead;            /* for all that follows, there or not */
    bool driver_posts;          /* producer indices are the driver's */
    bool only_copy_is_the_tlb;  /* no table has the driver's inserts */
    bool named_by_address;      /* saved: by its table entry's address */
    bool address_is_dma;        /* there are no translations */
    /* Looks up one page; counts; no other effect the caller could see. */
    UnetmmXlat (*lookup)(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                         bool write, UnetmmPage *page);
    /* only_copy_is_the_tlb: takes one translation from the driver. */
    UnetmmTlbInsert (*insert)(UnetmmCore *core, uint16_t space, uint64_t vpn,
                              uint64_t pte, uint32_t tag);
    /* The TLB or cache that holds its entries; NULL: none. */
    UnetmmTlb *(*tlb)(UnetmmCore *core);
    uint8_t tlb_shift;          /* an entry there is of 2^n pages */
    /*
     * One page's DMA begins, ends; NULL: a lookup is all that it takes.
     * False: it is not there any more, or not with that right.
     */
    bool (*lock)(UnetmmCore *core, UnetmmEp *ep, UnetmmPage *page, bool write);
    void (*unlock)(UnetmmCore *core, UnetmmEp *ep, const UnetmmPage *page);
    /* Has the driver the page in hand?  NULL: it never has. */
    bool (*changing)(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn);
    /* The most pages that a free buffer may span. */
    uint32_t (*max_pages)(const UnetmmCore *core);
};

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
    bool queued;                /* in core->miss->wanted, whatever its state */
    uint16_t generation;        /* makes fault ids of old misses stale */
    uint16_t leader;            /* JOINED: number of the miss in flight */
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
    uint16_t *wanted;           /* circular: numbers of misses to report */
    uint32_t wanted_first, wanted_used;
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
/* Lists segs[first .. nsegs - 1], but for those that are empty. */
uint32_t unetmm_segments_ahead(const struct unetmm_seg *segs, uint32_t first,
                               uint32_t nsegs, UnetmmAhead *ahead);

/* xlat/miss.c */
bool unetmm_tlb_evicted(void *opaque, const UnetmmTlbEntry *entry);
/* Gives an unused miss to its owner, or (NULL) takes it back. */
void unetmm_miss_own(UnetmmMiss *miss, const UnetmmMissOwner *owner,
                     UnetmmEp *ep, void *of);
/* Asks for pages, in place of those asked for before. */
void unetmm_miss_want(UnetmmCore *core, UnetmmMiss *miss, uint64_t vpn,
                      uint32_t npages, bool zero);
void unetmm_miss_cancel(UnetmmCore *core, UnetmmMiss *miss);
/* Has the fault ring room for a waiting miss?  If not, the driver is told. */
bool unetmm_fault_room(UnetmmCore *core);
/* The same, for a record that is never deferred. */
bool unetmm_fault_spare(const UnetmmCore *core);
void unetmm_miss_room(UnetmmCore *core);
/* The driver has changed entries of a space's table. */
void unetmm_miss_changed(UnetmmCore *core, uint16_t space);
uint8_t unetmm_fault_reply(UnetmmCore *core, uint16_t space,
                           const struct unetmm_cmd_reply *reply,
                           uint32_t *taken);

/* xlat/save.c */
/* Of module miss. */
void unetmm_misses_save(UnetmmStream *st, UnetmmCore *core);
void unetmm_misses_check(UnetmmStream *st, UnetmmCore *core);

/* xlat/space.c */
/* NULL: there is none with this number. */
const UnetmmSourceOps *unetmm_source_by_id(const UnetmmCore *core,
                                           unsigned id);
uint8_t unetmm_space_create(UnetmmCore *core, uint16_t id,
                            const struct unetmm_cmd_space *cmd);
uint8_t unetmm_space_destroy(UnetmmCore *core, uint16_t id);
void unetmm_space_drop(UnetmmCore *core, uint16_t id);
UnetmmXlat unetmm_space_lookup(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                               bool write, UnetmmPage *page);
/*
 * How many pages to ask for, from vpn on, which is missing: of `limit`, those
 * that are missing without a gap, up to `most`; or as the source says.
 */
uint32_t unetmm_space_missing(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                              bool write, uint64_t limit, uint32_t most);
void unetmm_page_hold(const UnetmmPage *page);
void unetmm_pages_release(UnetmmCore *core, const UnetmmPage *pages,
                          uint32_t first, uint32_t end);
void unetmm_page_release(UnetmmCore *core, const UnetmmPage *page);
void unetmm_page_move(const UnetmmPage *page, bool start);
/* Round each page's DMA.  False: look it up again. */
bool unetmm_page_lock(UnetmmCore *core, UnetmmEp *ep, UnetmmPage *page,
                      bool write);
void unetmm_page_unlock(UnetmmCore *core, UnetmmEp *ep,
                        const UnetmmPage *page);
bool unetmm_page_gone(const UnetmmPage *page);
void unetmm_page_dirty(const UnetmmPage *page);
void unetmm_page_head(const UnetmmPage *page);
void unetmm_invalidate(UnetmmCore *core, uint32_t space, uint64_t start,
                       uint64_t last_byte);
bool unetmm_invalidate_busy(UnetmmCore *core);
uint64_t unetmm_pte_pages(uint64_t addr, uint64_t len);
/* A TLB or cache of the card: `name`, and bytes that it takes. */
void unetmm_space_save_tlb(UnetmmStream *st, UnetmmCore *core, UnetmmTlb *tlb,
                           const char *name);
void unetmm_space_check_tlb(UnetmmStream *st, const UnetmmTlb *tlb);
uint64_t unetmm_tlb_save_limit(const UnetmmTlb *tlb);
/*
 * One page of a transfer: when it is restored its entry is held.  `write`: the
 * right that the transfer needs.
 */
void unetmm_page_save(UnetmmStream *st, UnetmmCore *core, const UnetmmEp *ep,
                      UnetmmPage *page, uint64_t vpn, bool write);

#endif /* UNETMM_XLAT_H */
