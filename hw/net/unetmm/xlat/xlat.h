/*
 * unetmm: address spaces and their sources of translations
 *
 * A page is looked up (unetmm_space_lookup), held while a transfer relies on
 * it, and locked while its DMA runs.  A page that is absent is a
 * miss (miss.h).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_XLAT_H
#define UNETMM_XLAT_H

#include "miss.h"

typedef struct UnetmmEventCounter UnetmmEventCounter;

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

/* The pages that the last invalidation was for, until all have landed. */
struct UnetmmInv {
    uint16_t space;
    uint64_t first, last;
    bool busy;
};

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
/* Their part of the saved registers. */
void unetmm_invalidate_save(UnetmmStream *st, UnetmmCore *core);
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
