/*
 * unetmm: source `direct`: the address is the DMA address.  For space 0 alone,
 * the driver's own, in which no process has an endpoint.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "source.h"

static UnetmmXlat direct_lookup(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                                bool write, UnetmmPage *page)
{
    *page = (UnetmmPage) { .dma = vpn << UNETMM_PAGE_SHIFT };
    return UNETMM_XLAT_OK;
}

static uint32_t direct_max_pages(const UnetmmCore *core)
{
    return UNETMM_MAX_BUF_PAGES;
}

const UnetmmSourceOps unetmm_source_direct = {
    .name = "direct",
    .only_space_0 = true,
    .address_is_dma = true,
    .lookup = direct_lookup,
    .max_pages = direct_max_pages,
};
