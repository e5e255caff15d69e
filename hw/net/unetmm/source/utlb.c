/*
 * unetmm: source `utlb` (VMMC-2): a table in host memory of the pages that the
 * process has had pinned, ahead of their use.  On a miss of the entry cache the
 * card fetches the entry and its neighbours with one DMA read; nobody is
 * interrupted.  An address that the table does not have is the program's error,
 * unless the driver has it in hand.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "source.h"

/* The tag of a cached entry that came as a neighbour, until it is needed. */
#define UTLB_NEIGHBOUR  1

static bool utlb_usable(uint64_t pte)
{
    return (pte & UNETMM_PTE_VALID) &&
           (pte & (UNETMM_PTE_READ | UNETMM_PTE_WRITE));
}

/*
 * Keeps the other fetched entries, where the cache has room or unused ones.
 * It comes after the entry that was asked for and in its batch, and so pushes
 * out neither that one nor another of the group.
 */
static void utlb_keep_neighbours(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                                 const uint64_t *ptes)
{
    uint16_t space = unetmm_user(ep)->space;
    unsigned group = core->params.utlb_fetch;
    uint64_t first = vpn & ~(group - 1ull);

    for (unsigned i = 0; i < group; i++) {
        if (first + i == vpn || !utlb_usable(ptes[i]) ||
            unetmm_tlb_has(&core->source->cache, space, first + i)) {
            continue;
        }
        if (unetmm_tlb_insert(&core->source->cache, space, first + i, ptes[i],
                              UTLB_NEIGHBOUR) == UNETMM_TLB_INSERTED) {
            unetmm_count(core, ep, UNETMM_C_utlb_fetched, 1);
        }
    }
}

static UnetmmXlat utlb_fetch(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                             bool write, UnetmmPage *page)
{
    const UnetmmUser *user = unetmm_user(ep);
    uint64_t ptes[UNETMM_MAX_UTLB_FETCH];
    uint64_t *mine = &ptes[vpn & (core->params.utlb_fetch - 1)];
    UnetmmXlat result;

    if (!unetmm_table_read(core, ep, vpn, core->params.utlb_fetch, ptes)) {
        return UNETMM_XLAT_ERROR;
    }
    unetmm_count(core, ep, UNETMM_C_utlb_fetches, 1);
    if (!(*mine & UNETMM_PTE_VALID)) {
        return unetmm_table_absent(*mine);
    }
    result = unetmm_table_use(core, ep, vpn, write, *mine, page);
    if (result == UNETMM_XLAT_OK) {
        unetmm_count(core, ep, UNETMM_C_utlb_fetched, 1);
        utlb_keep_neighbours(core, ep, vpn, ptes);
    }
    trace_unetmm_utlb_fetch(user->id, user->space, vpn, write, result);
    return result;
}

static UnetmmXlat utlb_lookup(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                              bool write, UnetmmPage *page)
{
    if (unetmm_table_cached(core, ep, vpn, write, page)) {
        UnetmmTlbEntry *e = &core->source->cache.entries[page->id];

        if (e->tag == UTLB_NEIGHBOUR) {
            e->tag = 0;
            unetmm_count(core, ep, UNETMM_C_utlb_neighbours, 1);
        }
        return UNETMM_XLAT_OK;
    }
    return utlb_fetch(core, ep, vpn, write, page);
}

const UnetmmSourceOps unetmm_source_utlb = {
    .name = "utlb",
    .levels_min = 1,
    .levels_max = UNETMM_TABLE_LEVELS,
    .lookup = utlb_lookup,
    .tlb = unetmm_table_cache,
    .changing = unetmm_table_changing,
    .max_pages = unetmm_table_max_pages,
};
