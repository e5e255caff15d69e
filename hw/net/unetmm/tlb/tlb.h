/*
 * unetmm: the card's TLB, sets and ways with a FIFO of victims behind them
 * (U-Net/MM: 1024 direct-mapped entries and 16 victims).
 *
 * It knows neither PCI nor rings.  The entry cache of the table sources is
 * another instance with no victims.  Not thread-safe; one owner.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_TLB_H
#define UNETMM_TLB_H

#include "../stream/stream.h"

#define UNETMM_TLB_NONE UINT32_MAX

typedef enum UnetmmTlbIndex {
    UNETMM_TLB_INDEX_ADD,       /* (vpn + space * odd) mod sets */
    UNETMM_TLB_INDEX_XOR,       /* (vpn ^ space * odd) mod sets */
} UnetmmTlbIndex;

/*
 * Number, name, property tlb-replace=NAME of the card, the entry of a set that
 * goes next (tlb/replace.h).  The first one is the default.
 */
#define UNETMM_TLB_REPLACEMENTS(R) \
    R(0, FIFO, fifo, "the entry that has been in the set longest") \
    R(1, LRU, lru, "the entry that was used longest ago") \
    R(2, RANDOM, random, "any entry")

#define UNETMM_TLB_REPLACE_ENUM_(number, upper, name, help) \
    UNETMM_TLB_REPLACE_##upper = number,
typedef enum UnetmmTlbReplace {
    UNETMM_TLB_REPLACEMENTS(UNETMM_TLB_REPLACE_ENUM_)
    UNETMM_TLB_NUM_REPLACE
} UnetmmTlbReplace;

typedef struct UnetmmTlbEntry {
    uint64_t vpn;
    uint64_t pte;
    uint64_t stamp;             /* age, by the replacement */
    uint32_t tag;
    uint32_t epoch;             /* insert batch, see unetmm_tlb_new_batch() */
    uint16_t space;
    uint16_t busy;              /* transfers that hold it */
    uint16_t in_dma;            /* of these: a page is moving right now */
    bool valid;                 /* found by lookup */
    bool dying;                 /* invalidated while busy */
    bool dirty;                 /* data was written through it */
    bool head;                  /* the owner's: something relies on it */
} UnetmmTlbEntry;

/*
 * Called before an entry leaves the TLB.  False: it may not leave now
 * (the driver could not be told); the insert is refused.
 */
typedef bool UnetmmTlbEvict(void *opaque, const UnetmmTlbEntry *entry);

typedef struct UnetmmTlb {
    uint32_t sets;              /* power of two */
    uint32_t ways;
    uint32_t victims;
    UnetmmTlbIndex index;
    UnetmmTlbReplace replace;
    UnetmmTlbEvict *evict;
    void *opaque;
    UnetmmTlbEntry *entries;    /* an entry never moves while it is held ... */
    uint32_t *slot;             /* ... a slot names the entry that is in it */
    uint64_t clock;
    uint32_t epoch;
    uint32_t random;
    uint32_t used;
    uint32_t moving;            /* entries with in_dma set */
    bool lost_head;             /* for the owner to clear */
} UnetmmTlb;

typedef enum UnetmmTlbHit {
    UNETMM_TLB_MISS,
    UNETMM_TLB_HIT_SET,
    UNETMM_TLB_HIT_VICTIM,
} UnetmmTlbHit;

typedef enum UnetmmTlbInsert {
    UNETMM_TLB_INSERTED,
    UNETMM_TLB_REPLACED,        /* the page was there; nobody was told */
    UNETMM_TLB_REFUSED,         /* all that could make room is busy */
} UnetmmTlbInsert;

/* index, replace, evict and opaque start as 0, for the owner to set. */
void unetmm_tlb_init(UnetmmTlb *tlb, uint32_t sets, uint32_t ways,
                     uint32_t victims);
void unetmm_tlb_free(UnetmmTlb *tlb);
void unetmm_tlb_reset(UnetmmTlb *tlb);

/* Slots in all: the most pages that consecutive addresses can occupy. */
static inline uint32_t unetmm_tlb_capacity(const UnetmmTlb *tlb)
{
    return tlb->sets * tlb->ways + tlb->victims;
}

/* *id is set on a hit.  A translation without the right asked for is a miss. */
UnetmmTlbHit unetmm_tlb_lookup(UnetmmTlb *tlb, uint16_t space, uint64_t vpn,
                               bool write, uint32_t *id);

/* Is there a translation of the page, with whatever rights?  No effect. */
bool unetmm_tlb_has(const UnetmmTlb *tlb, uint16_t space, uint64_t vpn);

/* Pages inserted after this call never push each other out. */
void unetmm_tlb_new_batch(UnetmmTlb *tlb);
UnetmmTlbInsert unetmm_tlb_insert(UnetmmTlb *tlb, uint16_t space, uint64_t vpn,
                                  uint64_t pte, uint32_t tag);

/*
 * Can the TLB have these n pages, all different, at the same time?  Entries of
 * other pages do not count: they can go.
 */
bool unetmm_tlb_fits(const UnetmmTlb *tlb, uint16_t space, const uint64_t *vpns,
                     uint32_t n);

/* A held entry is neither replaced nor moved. */
void unetmm_tlb_hold(UnetmmTlb *tlb, uint32_t id);
void unetmm_tlb_release(UnetmmTlb *tlb, uint32_t id);
/* A page starts or ends to move through a held entry. */
void unetmm_tlb_dma_begin(UnetmmTlb *tlb, uint32_t id);
void unetmm_tlb_dma_end(UnetmmTlb *tlb, uint32_t id);

/*
 * Drops all of [first, last] of a space without telling anyone.  Returns how
 * many; entries that are held stay where they are but are not found any more.
 * If `head` was set in one of them, lost_head is set.
 */
uint32_t unetmm_tlb_invalidate(UnetmmTlb *tlb, uint16_t space, uint64_t first,
                               uint64_t last);
/* Is a page of the range moving, through an entry valid or dying? */
bool unetmm_tlb_in_dma(const UnetmmTlb *tlb, uint16_t space, uint64_t first,
                       uint64_t last);

/*
 * Saves or restores which entry is in which slot: a transfer knows its entry by
 * name.  The holders of an entry follow from the transfers and are not saved.
 * An entry that is restored must be one that `ok` says could be in this TLB.
 */
typedef bool UnetmmTlbEntryOk(void *opaque, const UnetmmTlb *tlb,
                              const UnetmmTlbEntry *entry);
void unetmm_tlb_save(UnetmmStream *st, UnetmmTlb *tlb, UnetmmTlbEntryOk *ok,
                     void *opaque);

/*
 * Of a TLB that was restored: is each entry where a lookup
 * finds it, once, and is what is no longer valid held by somebody?
 */
bool unetmm_tlb_consistent(const UnetmmTlb *tlb);

/* Evicts one entry that is not held, as an insert would; false if none. */
bool unetmm_tlb_evict_one(UnetmmTlb *tlb, uint32_t id);

#endif /* UNETMM_TLB_H */
