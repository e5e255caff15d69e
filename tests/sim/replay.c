/*
 * unetmm: the card's TLB on references that somebody else makes
 *
 * Reads lines "SPACE PAGE" and answers each with S (found in its set), V (among the
 * victims) or M (missed, and then inserted), as the simulation uses the TLB.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdio.h>
#include "sim.h"

int unetmm_trace;

int main(int argc, char **argv)
{
    uint64_t space, vpn;
    UnetmmTlb tlb;
    int got;

    if (argc != 3) {
        fprintf(stderr, "usage: %s SETS VICTIMS\n", argv[0]);
        return 2;
    }
    unetmm_tlb_init(&tlb, strtoul(argv[1], NULL, 0), 1,
                    strtoul(argv[2], NULL, 0));
    while ((got = scanf("%" SCNu64 " %" SCNu64, &space, &vpn)) == 2) {
        uint32_t id;
        UnetmmTlbHit hit = unetmm_tlb_lookup(&tlb, space, vpn, true, &id);

        if (hit == UNETMM_TLB_MISS) {
            unetmm_tlb_new_batch(&tlb);
            SIM_CHECK(unetmm_tlb_insert(&tlb, space, vpn,
                                        vpn << UNETMM_PAGE_SHIFT |
                                        UNETMM_PTE_VALID | UNETMM_PTE_READ |
                                        UNETMM_PTE_WRITE, 0) ==
                      UNETMM_TLB_INSERTED);
        }
        putchar("MSV"[hit]);
    }
    SIM_CHECK(got == EOF);
    putchar('\n');
    unetmm_tlb_free(&tlb);
    return 0;
}
