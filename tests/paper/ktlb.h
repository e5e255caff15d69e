/*
 * unetmm: papers' mechanisms: the kernel's TLB of the DC21140 port
 *
 * The paper has one for the card, the driver one for each process, so that no
 * process evicts the pages of another.  This counts both, with the driver's own
 * room (guest-driver/tlb).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef PAPER_KTLB_H
#define PAPER_KTLB_H

#include <stdbool.h>
#include <stdint.h>

typedef struct KtlbCounts {
    uint64_t pinned;            /* pages at a time, at most */
    uint64_t misses;
    uint64_t evictions;
} KtlbCounts;

/*
 * Random references of `processes` to `pages` pages each, through one TLB for all
 * (`shared`) or one for each.  Neither number may be 0.
 */
KtlbCounts ktlb_count(uint32_t processes, uint32_t pages, bool shared,
                      uint64_t accesses, uint32_t (*random)(uint64_t *state));

#endif /* PAPER_KTLB_H */
