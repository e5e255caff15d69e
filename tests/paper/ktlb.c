/*
 * unetmm: papers' mechanisms: the kernel's TLB of the DC21140 port
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <glib.h>
#include "ktlb.h"
#include "util/ktlb_place.h"

#define SETS        1024
#define VICTIMS     16
#define STEP        0x9e3779b1u /* spaces begin at other sets */

static void use(KtlbCounts *counts, struct unetmm_ktlb *tlb,
                struct unetmm_ktlb_entry *e)
{
    if (e->place != UNETMM_KTLB_NOWHERE) {
        unetmm_ktlb_touch(tlb, e);
        return;
    }
    counts->misses++;
    unetmm_ktlb_insert(tlb, e);
    while (unetmm_ktlb_trim(tlb)) {
        counts->evictions++;
    }
    counts->pinned = MAX(counts->pinned, counts->misses - counts->evictions);
}

KtlbCounts ktlb_count(uint32_t processes, uint32_t pages, bool shared,
                      uint64_t accesses, uint32_t (*random)(uint64_t *state))
{
    uint32_t tlbs = shared ? 1 : processes;
    g_autofree struct unetmm_ktlb *tlb = g_new0(struct unetmm_ktlb, tlbs);
    g_autofree struct unetmm_ktlb_entry **slots =
        g_new0(struct unetmm_ktlb_entry *, (size_t)SETS * tlbs);
    g_autofree struct unetmm_ktlb_entry *entries =
        g_new0(struct unetmm_ktlb_entry, (size_t)processes * pages);
    KtlbCounts counts = { 0 };
    uint64_t state = 1;

    for (uint32_t i = 0; i < tlbs; i++) {
        unetmm_ktlb_init(&tlb[i], slots + (size_t)SETS * i, SETS, 1, VICTIMS,
                         0);
    }
    for (uint64_t i = 0; i < accesses; i++) {
        uint32_t process = random(&state) % processes;
        uint32_t page = random(&state) % pages;
        struct unetmm_ktlb_entry *e = &entries[process * pages + page];

        e->vpn = page + (uint64_t)process * STEP;
        use(&counts, &tlb[shared ? 0 : process], e);
    }
    return counts;
}
