/*
 * unetmm: reliable channels: pages that a packet does not need yet
 *
 * For sources that bring a work request's memory at once (odp), what an answer
 * or a request has behind the pages that it misses.  What a peer says is to
 * follow is cut off where the region ends.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "rel.h"

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

/* UnetmmMissOwner.ahead of UNETMM_REL_FAULT_ANSWER. */
uint32_t unetmm_rel_ahead(const UnetmmCore *core, const UnetmmMiss *miss,
                          UnetmmAhead *ahead)
{
    UnetmmRel *rel = miss->of;
    uint32_t psn = rel->missed[UNETMM_REL_FAULT_ANSWER].psn;
    const UnetmmRelMsg *m;
    uint64_t addr;
    uint32_t at, i, len;

    /* The READ may have ended since. */
    if (!unetmm_rel_answer_open(rel, psn)) {
        return 0;
    }
    m = unetmm_rel_msg_of(rel, psn);
    unetmm_rel_packet_bytes(rel, psn, &at);
    i = ahead_find(m, at, miss->vpn, &addr, &len);
    if (i == m->nsegs) {
        return 0;
    }
    return unetmm_segments_ahead(m->segs, i + 1, m->nsegs, ahead);
}

uint32_t unetmm_rel_run_ahead(const UnetmmRegion *region, uint64_t offset,
                              uint32_t len, uint64_t more, uint64_t *addr)
{
    uint64_t most = MIN((uint64_t)len + more, region->length - offset);

    return unetmm_region_run(region, offset, MIN(most, UNETMM_MAX_MESSAGE),
                             addr);
}
