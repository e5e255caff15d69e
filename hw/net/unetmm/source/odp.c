/*
 * unetmm: source `odp` (NPF): a table in host memory that faults fill and
 * invalidations empty.  Nothing is pinned.
 *
 * The card keeps entries in its cache like those of source `pinned`, so that
 * warm pages cost the same.  A driver that takes an entry away sends INV, and
 * owns the page when that is done.  An absent page is asked for with all that
 * the work request has behind it, in one report.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../abi/unetmm_le.h"
#include "source.h"

/* ERROR: the bus refused the walk.  MISS: no table reaches so far. */
static UnetmmXlat odp_read(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                           uint64_t *pte)
{
    uint64_t leaf, at;
    UnetmmXlat result = unetmm_table_leaf(core, ep, vpn, &leaf);

    if (result != UNETMM_XLAT_OK) {
        return result;
    }
    at = leaf + (vpn & (UNETMM_TABLE_ENTRIES - 1)) * sizeof(*pte);
    if (!unetmm_dma_read(core, ep, at, pte, sizeof(*pte))) {
        return UNETMM_XLAT_ERROR;
    }
    unetmm_spend(core, UNETMM_STEP_ENTRY, 1);
    unetmm_le_u64(pte);
    return UNETMM_XLAT_OK;
}

/* An entry without the right is one that the driver can make better. */
static UnetmmXlat odp_lookup(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                             bool write, UnetmmPage *page)
{
    uint64_t need = UNETMM_PTE_VALID |
                    (write ? UNETMM_PTE_WRITE : UNETMM_PTE_READ);
    const UnetmmUser *user = unetmm_user(ep);
    UnetmmXlat result;
    uint64_t pte;

    if (unetmm_table_cached(core, ep, vpn, write, page)) {
        return UNETMM_XLAT_OK;
    }
    result = odp_read(core, ep, vpn, &pte);
    if (result == UNETMM_XLAT_OK && (pte & need) == need) {
        return unetmm_table_use(core, ep, vpn, write, pte, page);
    }
    if (result == UNETMM_XLAT_OK) {
        result = UNETMM_XLAT_MISS;
    }
    unetmm_count(core, ep, UNETMM_C_odp_misses, 1);
    trace_unetmm_odp_miss(user->id, user->space, vpn, write, result);
    return result;
}

const UnetmmSourceOps unetmm_source_odp = {
    .name = "odp",
    .levels_min = 1,
    .levels_max = UNETMM_TABLE_LEVELS,
    .driver_brings = true,
    .asks_ahead = true,
    .lookup = odp_lookup,
    .tlb = unetmm_table_cache,
    .changing = unetmm_table_changing,
    .max_pages = unetmm_table_max_pages,
};
