/*
 * unetmm: the pages that a transfer will need besides the page that it misses
 *
 * For sources that bring a work request's memory at once (odp).  Nothing of
 * this is kept: it follows from the transfer, at the moment at which the miss
 * is reported.  Which segments those are, the owner of the miss says.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "xlat.h"

uint32_t unetmm_space_ahead(const UnetmmCore *core, const UnetmmEp *ep,
                            uint64_t vpn, uint32_t npages, uint64_t addr,
                            uint64_t len)
{
    uint64_t first = addr >> UNETMM_PAGE_SHIFT;
    uint64_t n;

    if (!unetmm_space_of(core, ep)->source->asks_ahead || !len) {
        return npages;
    }
    n = unetmm_pte_pages(addr, len);
    if (vpn < first || vpn - first >= n) {
        return npages;
    }
    return MIN(n - (vpn - first), UNETMM_MISS_MAX_PAGES);
}

uint32_t unetmm_segments_ahead(const struct unetmm_seg *segs, uint32_t first,
                               uint32_t nsegs, UnetmmAhead *ahead)
{
    uint32_t n = 0;

    for (uint32_t i = first; i < nsegs; i++) {
        uint64_t npages;

        if (!segs[i].len) {
            continue;
        }
        npages = unetmm_pte_pages(segs[i].addr, segs[i].len);
        ahead[n++] = (UnetmmAhead) {
            .vpn = segs[i].addr >> UNETMM_PAGE_SHIFT,
            .npages = MIN(npages, UNETMM_MISS_MAX_PAGES),
        };
    }
    return n;
}
