/*
 * unetmm: the card's TLB on references of another program
 *
 * Prints how many references there were, first misses of a page and others, and pages found
 * among the victims; with the word `answers` it prints a letter for each reference: S (found
 * in its set), V (among the victims) or M (missed, and then inserted).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdio.h>
#include "references.h"
#include "sim.h"

int unetmm_trace;

static UnetmmTlbHit refer(UnetmmTlb *tlb, uint16_t space, uint64_t page)
{
    uint32_t id;
    UnetmmTlbHit hit = unetmm_tlb_lookup(tlb, space, page, true, &id);

    if (hit == UNETMM_TLB_MISS) {
        unetmm_tlb_new_batch(tlb);
        SIM_CHECK(unetmm_tlb_insert(tlb, space, page,
                                    page << UNETMM_PAGE_SHIFT |
                                    UNETMM_PTE_VALID | UNETMM_PTE_READ |
                                    UNETMM_PTE_WRITE, 0) ==
                  UNETMM_TLB_INSERTED);
    }
    return hit;
}

static void count(UnetmmTlb *tlb)
{
    GHashTable *seen = g_hash_table_new_full(g_int64_hash, g_int64_equal,
                                             g_free, NULL);
    uint64_t page, refs = 0, first = 0, other = 0, victims = 0;
    uint16_t space;

    for (; references_next(&space, &page); refs++) {
        uint64_t key = page | (uint64_t)space << REFERENCE_PAGE_BITS;
        UnetmmTlbHit hit = refer(tlb, space, page);

        victims += hit == UNETMM_TLB_HIT_VICTIM;
        if (hit != UNETMM_TLB_MISS) {
            continue;
        }
        if (g_hash_table_add(seen, g_memdup2(&key, sizeof(key)))) {
            first++;
        } else {
            other++;
        }
    }
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", refs, first,
           other, victims);
    g_hash_table_unref(seen);
}

static void answer(UnetmmTlb *tlb)
{
    uint64_t page;
    uint16_t space;

    while (references_next(&space, &page)) {
        putchar("MSV"[refer(tlb, space, page)]);
    }
    putchar('\n');
}

#define NAME(number, upper, name, help) [number] = #name,
static const char *const replacements[] = { UNETMM_TLB_REPLACEMENTS(NAME) };
static const char *const indexes[] = {
    [UNETMM_TLB_INDEX_ADD] = "add", [UNETMM_TLB_INDEX_XOR] = "xor",
};

static unsigned choice(const char *name, const char *const *names, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (!strcmp(name, names[i])) {
            return i;
        }
    }
    fprintf(stderr, "error: there is no %s\n", name);
    exit(2);
}

/* scripts/tlb-sim has checked the numbers. */
int main(int argc, char **argv)
{
    uint32_t ways;
    UnetmmTlb tlb;

    if (argc < 7) {
        fprintf(stderr, "usage: %s FILE ENTRIES WAYS VICTIMS INDEX REPLACE "
                "[answers]\n", argv[0]);
        return 2;
    }
    references_open(argv[1]);
    ways = strtoul(argv[3], NULL, 0);
    SIM_CHECK(ways);
    unetmm_tlb_init(&tlb, strtoul(argv[2], NULL, 0) / ways, ways,
                    strtoul(argv[4], NULL, 0));
    tlb.index = choice(argv[5], indexes, G_N_ELEMENTS(indexes));
    tlb.replace = choice(argv[6], replacements, G_N_ELEMENTS(replacements));
    if (argc > 7) {
        answer(&tlb);
    } else {
        count(&tlb);
    }
    unetmm_tlb_free(&tlb);
    return 0;
}
