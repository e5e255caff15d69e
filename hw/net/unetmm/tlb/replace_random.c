/*
 * unetmm: replacement `random`: any entry of the set
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "replace.h"

static uint32_t random_pick(UnetmmTlb *tlb, uint32_t first)
{
    uint32_t start;

    tlb->random = tlb->random * 1664525u + 1013904223u;
    start = (tlb->random >> 8) % tlb->ways;
    for (uint32_t n = 0; n < tlb->ways; n++) {
        uint32_t i = first + (start + n) % tlb->ways;

        if (unetmm_tlb_movable(tlb, unetmm_tlb_at(tlb, i))) {
            return i;
        }
    }
    return UNETMM_TLB_NONE;
}

const UnetmmTlbReplaceOps unetmm_tlb_replace_random = {
    .pick = random_pick,
};
