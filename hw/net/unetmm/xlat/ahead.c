/*
 * unetmm: what a transfer that misses a page is going to need besides it
 *
 * For sources that bring a work request's memory at once (odp).  Nothing of
 * this is kept: it follows from the transfer, at the moment at which the miss
 * is reported, and what comes from a peer is cut off where the region ends.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../rel/rel.h"

uint32_t unetmm_space_ahead(const UnetmmCore *core, const UnetmmEp *ep,
                            uint64_t vpn, uint32_t npages, uint64_t addr,
                            uint64_t len)
{
    uint64_t first = addr >> UNETMM_PAGE_SHIFT;
    uint64_t n;

    if (!core->spaces[ep->space].source->asks_ahead || !len) {
        return npages;
    }
    n = unetmm_pte_pages(addr, len);
    if (vpn < first || vpn - first >= n) {
        return npages;
    }
    return MIN(n - (vpn - first), UNETMM_MISS_MAX_PAGES);
}

/* ---- Segments ----------------------------------------------------------- */

/* Those of segs[first .. nsegs - 1] that have anything. */
static uint32_t ahead_segments(const struct unetmm_seg *segs, uint32_t first,
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

uint32_t unetmm_send_ahead(const UnetmmEp *ep, UnetmmAhead *ahead)
{
    const UnetmmTransfer *tx = &ep->tx;

    if (tx->blocked_on != UNETMM_BLOCKED_FAULT) {
        return 0;
    }
    /* What was restored may wait for a page and have no segment. */
    return ahead_segments(tx->segs, tx->seg + 1, tx->nsegs, ahead);
}

/*
 * The segment of the message, from byte `at` of it on, that has the page; *addr
 * and *len are what of it is left.  nsegs: none has it.
 */
static uint32_t ahead_find(const UnetmmRelMsg *m, uint32_t at, uint64_t vpn,
                           uint64_t *addr, uint32_t *len)
{
    uint32_t i;

    for (i = 0; i < m->nsegs; i++) {
        const struct unetmm_seg *seg = &m->segs[i];

        if (at >= seg->len) {
            at -= seg->len;
            continue;
        }
        *addr = seg->addr + at;
        *len = seg->len - at;
        at = 0;
        if (vpn - (*addr >> UNETMM_PAGE_SHIFT) <
            unetmm_pte_pages(*addr, *len)) {
            break;
        }
    }
    return i;
}

/* ---- Channels ----------------------------------------------------------- */

uint32_t unetmm_rel_answer_pages(const UnetmmCore *core, UnetmmRel *rel,
                                 uint32_t psn, uint64_t vpn, uint32_t npages)
{
    const UnetmmRelMsg *m = unetmm_rel_msg_of(rel, psn);
    uint64_t addr = 0;
    uint32_t at, len = 0;

    unetmm_rel_packet_bytes(rel, psn, &at);
    if (ahead_find(m, at, vpn, &addr, &len) == m->nsegs) {
        return npages;
    }
    return unetmm_space_ahead(core, &core->eps[rel->ep], vpn, npages, addr,
                              len);
}

uint32_t unetmm_rel_ahead(UnetmmRel *rel, UnetmmRelFault kind, uint64_t vpn,
                          UnetmmAhead *ahead)
{
    uint32_t psn = rel->missed[kind].psn;
    const UnetmmRelMsg *m;
    uint64_t addr;
    uint32_t at, i, len;

    /* The READ may have ended since. */
    if (kind != UNETMM_REL_FAULT_ANSWER || !unetmm_rel_answer_open(rel, psn)) {
        return 0;
    }
    m = unetmm_rel_msg_of(rel, psn);
    unetmm_rel_packet_bytes(rel, psn, &at);
    i = ahead_find(m, at, vpn, &addr, &len);
    if (i == m->nsegs) {
        return 0;
    }
    return ahead_segments(m->segs, i + 1, m->nsegs, ahead);
}

uint32_t unetmm_rel_run_ahead(const UnetmmRegion *region, uint64_t offset,
                              uint32_t len, uint64_t more, uint64_t *addr)
{
    uint64_t most = MIN((uint64_t)len + more, region->length - offset);

    return unetmm_region_run(region, offset, MIN(most, UNETMM_MAX_MESSAGE),
                             addr);
}
