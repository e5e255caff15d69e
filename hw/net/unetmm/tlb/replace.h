/*
 * unetmm: replacements of the TLB: which entry of a set goes next
 *
 * A replacement is a file tlb/replace_NAME.c with a UnetmmTlbReplaceOps, its
 * path in sources.txt, and a row in UNETMM_TLB_REPLACEMENTS (tlb.h).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_TLB_REPLACE_H
#define UNETMM_TLB_REPLACE_H

#include "tlb.h"

typedef struct UnetmmTlbReplaceOps {
    /*
     * The way of the set of slots `first` .. first + ways - 1 that goes next,
     * which is one of which unetmm_tlb_movable() is true; UNETMM_TLB_NONE if
     * there is none.
     */
    uint32_t (*pick)(UnetmmTlb *tlb, uint32_t first);
    /*
     * An entry enters a set; an entry of a set was hit.  NULL: the entry gets
     * the next time of the TLB's clock; nothing.  A stamp is at most the clock:
     * the load of a saved state refuses others.  Victims leave by their stamps,
     * too.
     */
    void (*enter)(UnetmmTlb *tlb, UnetmmTlbEntry *e);
    void (*use)(UnetmmTlb *tlb, UnetmmTlbEntry *e);
} UnetmmTlbReplaceOps;

static inline UnetmmTlbEntry *unetmm_tlb_at(const UnetmmTlb *tlb, uint32_t slot)
{
    return &tlb->entries[tlb->slot[slot]];
}

/* May this entry be moved to the victims or out? */
static inline bool unetmm_tlb_movable(const UnetmmTlb *tlb,
                                      const UnetmmTlbEntry *e)
{
    return e->valid && !e->busy && e->epoch != tlb->epoch;
}

/* The entry becomes the youngest. */
static inline void unetmm_tlb_renew(UnetmmTlb *tlb, UnetmmTlbEntry *e)
{
    e->stamp = ++tlb->clock;
}

/* A pick: the way with the least stamp. */
static inline uint32_t unetmm_tlb_oldest(UnetmmTlb *tlb, uint32_t first)
{
    uint32_t best = UNETMM_TLB_NONE;

    for (uint32_t i = first; i < first + tlb->ways; i++) {
        const UnetmmTlbEntry *e = unetmm_tlb_at(tlb, i);

        if (unetmm_tlb_movable(tlb, e) &&
            (best == UNETMM_TLB_NONE ||
             e->stamp < unetmm_tlb_at(tlb, best)->stamp)) {
            best = i;
        }
    }
    return best;
}

#endif /* UNETMM_TLB_REPLACE_H */
