/*
 * unetmm: source `pinned`: a table in host memory that the driver fills when
 * memory is registered.  An address that the table does not have is the
 * program's error, unless the driver has it in hand.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "source.h"

static UnetmmXlat pinned_lookup(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                                bool write, UnetmmPage *page)
{
    bool absent;

    return unetmm_table_lookup(core, ep, vpn, write, page, &absent);
}

const UnetmmSourceOps unetmm_source_pinned = {
    .name = "pinned",
    .levels_min = 1,
    .levels_max = UNETMM_TABLE_LEVELS,
    .lookup = pinned_lookup,
    .tlb = unetmm_table_cache,
    .changing = unetmm_table_changing,
    .max_pages = unetmm_table_max_pages,
};
