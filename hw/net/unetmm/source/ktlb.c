/*
 * unetmm: source `ktlb` (U-Net/MM on the DC21140): the driver owns the queues
 * and translates before it posts.  An address in its descriptors names entries
 * of the driver's page lists, which hold bus addresses; the lists are a
 * table in host memory.  An entry that the driver has withdrawn, because the
 * process changed its memory, is asked for like any miss.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "source.h"

static UnetmmXlat ktlb_lookup(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                              bool write, UnetmmPage *page)
{
    bool absent;
    UnetmmXlat result = unetmm_table_lookup(core, ep, vpn, write, page,
                                            &absent);

    return absent ? UNETMM_XLAT_MISS : result;
}

const UnetmmSourceOps unetmm_source_ktlb = {
    .name = "ktlb",
    .levels_min = 1,
    .levels_max = UNETMM_TABLE_LEVELS,
    .driver_brings = true,
    .driver_posts = true,
    .lookup = ktlb_lookup,
    .tlb = unetmm_table_cache,
    .changing = unetmm_table_changing,
    .max_pages = unetmm_table_max_pages,
};
