/*
 * unetmm: lab evict: a TLB that is saved, and restored as another card would
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "abi/unetmm_host.h"
#include "abi/unetmm_hw.h"
#include "tlb/tlb.h"

#define SETS    2
#define WAYS    4
#define VICTIMS 3
#define PAGES   16                      /* more than there are entries */
#define ROUNDS  200
#define CLOCK   (UNETMM_TLB_REPLACE_RANDOM + 1)

int unetmm_trace;

static bool any_entry(void *opaque, const UnetmmTlb *tlb,
                      const UnetmmTlbEntry *entry)
{
    return true;
}

static void make(UnetmmTlb *tlb)
{
    unetmm_tlb_init(tlb, SETS, WAYS, VICTIMS);
    tlb->replace = (UnetmmTlbReplace)CLOCK;
}

/* Uses a page: a hit, or a miss that is answered. */
static void use(UnetmmTlb *tlb, uint64_t vpn)
{
    uint32_t id;

    if (unetmm_tlb_lookup(tlb, 1, vpn, false, &id) == UNETMM_TLB_MISS) {
        unetmm_tlb_new_batch(tlb);
        unetmm_tlb_insert(tlb, 1, vpn, UNETMM_PTE_VALID | UNETMM_PTE_READ, 0);
    }
}

/* Saves one TLB and restores it as another one; NULL, or the refusal. */
static const char *moved(UnetmmTlb *from, UnetmmTlb *to)
{
    static char why[sizeof(((UnetmmStream *)0)->why)];
    UnetmmStream out = { .out = g_byte_array_new() };
    UnetmmStream in = { 0 };

    unetmm_tlb_save(&out, from, any_entry, NULL);
    in.in = out.out->data;
    in.left = out.out->len;
    unetmm_tlb_save(&in, to, any_entry, NULL);
    g_byte_array_unref(out.out);
    memcpy(why, in.why, sizeof(why));
    return in.wrong ? why : NULL;
}

static bool same(const UnetmmTlb *a, const UnetmmTlb *b)
{
    for (uint64_t vpn = 0; vpn < PAGES; vpn++) {
        if (unetmm_tlb_has(a, 1, vpn) != unetmm_tlb_has(b, 1, vpn)) {
            return false;
        }
    }
    return true;
}

int main(void)
{
    UnetmmTlb tlb, copy;
    uint32_t random = 1;

    make(&tlb);
    printf("1..1\n");
    for (unsigned i = 0; i < ROUNDS; i++) {
        const char *why;

        random = random * 1664525u + 1013904223u;
        use(&tlb, random >> 16 & (PAGES - 1));
        make(&copy);
        why = moved(&tlb, &copy);
        if (why || !same(&tlb, &copy)) {
            printf("not ok 1 - a saved TLB is restored\n# after %u uses: %s\n",
                   i + 1, why ?: "other pages are in it");
            return 1;
        }
        unetmm_tlb_free(&tlb);
        tlb = copy;
    }
    unetmm_tlb_free(&tlb);
    printf("ok 1 - a saved TLB is restored\n");
    return 0;
}
