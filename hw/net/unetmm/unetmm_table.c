/*
 * unetmm: tables in host memory, read by DMA through a small entry cache
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "unetmm_host.h"
#include "unetmm_core.h"
#include "unetmm_le.h"

/* Walks the radix tree.  Each entry is read once; the copy is what counts. */
static bool table_walk(UnetmmCore *core, UnetmmEp *ep,
                       const UnetmmSpace *space, uint64_t vpn, uint64_t *pte)
{
    uint64_t table = space->table;

    if (vpn >> (UNETMM_TABLE_BITS * space->levels) &&
        space->levels < UNETMM_TABLE_LEVELS) {
        return false;
    }
    for (int level = space->levels - 1; ; level--) {
        unsigned index = (vpn >> (UNETMM_TABLE_BITS * level)) &
                         (UNETMM_TABLE_ENTRIES - 1);

        if (!unetmm_dma_read(core, ep, table + index * sizeof(*pte), pte,
                             sizeof(*pte))) {
            return false;
        }
        unetmm_le_u64(pte);
        if (!(*pte & UNETMM_PTE_VALID)) {
            return false;
        }
        if (level == 0) {
            return true;
        }
        table = *pte & UNETMM_PTE_ADDR;
    }
}

/*
 * The entry cache first, then the table.  MISS: every entry of the cache's set
 * is in use, come back when one is released; ERROR: the table has no such
 * right, and *absent says whether it has no entry at all.
 */
UnetmmXlat unetmm_table_lookup(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                               bool write, UnetmmPage *page, bool *absent)
{
    uint64_t right = write ? UNETMM_PTE_WRITE : UNETMM_PTE_READ;
    uint32_t id = UNETMM_TLB_NONE;
    uint64_t pte;

    *absent = false;
    if (unetmm_tlb_lookup(&core->cache, ep->space, vpn, write, &id) !=
        UNETMM_TLB_MISS) {
        unetmm_count(core, ep, UNETMM_C_cache_hits, 1);
        *page = (UnetmmPage) {
            .dma = core->cache.entries[id].pte & UNETMM_PTE_ADDR,
            .tlb = &core->cache,
            .id = id,
        };
        return UNETMM_XLAT_OK;
    }
    unetmm_count(core, ep, UNETMM_C_cache_misses, 1);
    if (!table_walk(core, ep, &core->spaces[ep->space], vpn, &pte)) {
        *absent = true;
        return UNETMM_XLAT_ERROR;
    }
    if (!(pte & right)) {
        return UNETMM_XLAT_ERROR;
    }
    unetmm_tlb_new_batch(&core->cache);
    if (unetmm_tlb_insert(&core->cache, ep->space, vpn, pte, 0) ==
        UNETMM_TLB_REFUSED ||
        unetmm_tlb_lookup(&core->cache, ep->space, vpn, write, &id) ==
        UNETMM_TLB_MISS) {
        return UNETMM_XLAT_MISS;
    }
    *page = (UnetmmPage) {
        .dma = pte & UNETMM_PTE_ADDR,
        .tlb = &core->cache,
        .id = id,
    };
    return UNETMM_XLAT_OK;
}

UnetmmTlb *unetmm_table_cache(UnetmmCore *core)
{
    return &core->cache;
}

uint32_t unetmm_table_max_pages(const UnetmmCore *core)
{
    return MIN(unetmm_tlb_capacity(&core->cache), UNETMM_MAX_BUF_PAGES);
}
