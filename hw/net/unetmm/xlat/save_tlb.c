/*
 * unetmm: saving and restoring translations
 *
 * Which entry is in which slot is saved whole: a transfer knows its entry by
 * name.  Who holds an entry follows from the transfers.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../card/state.h"

static void state_entry(UnetmmStream *st, UnetmmTlbEntry *e)
{
    unetmm_stream_u16(st, &e->space);
    unetmm_stream_u64(st, &e->vpn);
    unetmm_stream_u64(st, &e->pte);
    unetmm_stream_u64(st, &e->stamp);
    unetmm_stream_u32(st, &e->tag);
    unetmm_stream_u32(st, &e->epoch);
    unetmm_stream_bool(st, &e->valid, "a translation's state");
    unetmm_stream_bool(st, &e->dirty, "a translation's state");
}

/* Every entry is in one slot. */
static void state_slots(UnetmmStream *st, UnetmmTlb *tlb)
{
    uint32_t n = unetmm_tlb_capacity(tlb);
    g_autofree bool *seen = g_new0(bool, n);

    for (uint32_t i = 0; i < n; i++) {
        uint32_t id = unetmm_stream_choice(st, tlb->slot[i], n,
                                           "a slot of the TLB");

        if (seen[id]) {
            unetmm_stream_refuse(st, "an entry of the TLB is in two slots");
        }
        if (st->wrong) {
            return;
        }
        seen[id] = true;
        tlb->slot[i] = id;
    }
}

/* The space that an entry names must exist and use this TLB. */
static bool entry_ok(UnetmmCore *core, const UnetmmTlb *tlb,
                     const UnetmmTlbEntry *e)
{
    const UnetmmSpace *space;

    if (e->space >= core->params.spaces) {
        return false;
    }
    space = &core->spaces[e->space];
    return space->live && space->source->tlb &&
           space->source->tlb(core) == tlb && (e->pte & UNETMM_PTE_VALID) &&
           e->vpn <= UINT64_MAX >> UNETMM_PAGE_SHIFT &&
           e->stamp <= tlb->clock;
}

static void load_entries(UnetmmStream *st, UnetmmCore *core, UnetmmTlb *tlb,
                         uint32_t used)
{
    uint32_t n = unetmm_tlb_capacity(tlb);
    uint32_t next = 0;

    while (tlb->used < used && !st->wrong) {
        uint32_t id = unetmm_stream_choice(st, 0, n, "a translation");
        UnetmmTlbEntry *e = &tlb->entries[id];

        if (id < next) {
            unetmm_stream_refuse(st, "translations are not in order");
        }
        state_entry(st, e);
        if (!st->wrong && !entry_ok(core, tlb, e)) {
            unetmm_stream_refuse(st, "translation %u is of a space that has "
                                 "none, or malformed", id);
        }
        e->dying = !e->valid;
        /* Perhaps nothing does; then its end costs a look that is in vain. */
        e->head = true;
        next = id + 1;
        tlb->used++;
    }
}

static void save_entries(UnetmmStream *st, UnetmmTlb *tlb)
{
    for (uint32_t i = 0; i < unetmm_tlb_capacity(tlb); i++) {
        UnetmmTlbEntry *e = &tlb->entries[i];
        uint32_t id = i;

        if (e->valid || e->dying) {
            unetmm_stream_u32(st, &id);
            state_entry(st, e);
        }
    }
}

void unetmm_state_tlb(UnetmmStream *st, UnetmmCore *core, UnetmmTlb *tlb)
{
    uint32_t used;

    unetmm_stream_u64(st, &tlb->clock);
    unetmm_stream_u32(st, &tlb->epoch);
    unetmm_stream_u32(st, &tlb->random);
    state_slots(st, tlb);
    used = unetmm_stream_choice(st, tlb->used, unetmm_tlb_capacity(tlb) + 1,
                                "the number of translations");
    if (unetmm_stream_reads(st)) {
        load_entries(st, core, tlb, used);
    } else {
        save_entries(st, tlb);
    }
}

/* What is locked for each DMA is named by where it is, which is the table's. */
static void state_entry_page(UnetmmStream *st, const UnetmmEp *ep,
                             UnetmmPage *page, uint64_t right)
{
    unetmm_stream_u64(st, &page->entry);
    unetmm_stream_u64(st, &page->pte);
    if (page->entry % sizeof(page->pte) || !(page->pte & UNETMM_PTE_VALID) ||
        !(page->pte & right)) {
        unetmm_stream_refuse(st, "endpoint %u uses an entry that it could not "
                             "have found", ep->id);
    }
    page->tlb = NULL;
    page->dma = page->pte & UNETMM_PTE_ADDR;
}

/*
 * The entry must be the page's, whether it is still valid or not, and the
 * address is what it says: nothing else is believed.
 */
void unetmm_state_page(UnetmmStream *st, UnetmmCore *core, const UnetmmEp *ep,
                       UnetmmPage *page, uint64_t vpn, bool write)
{
    const UnetmmSourceOps *source = core->spaces[ep->space].source;
    uint64_t right = write ? UNETMM_PTE_WRITE : UNETMM_PTE_READ;
    const UnetmmTlbEntry *e;
    UnetmmTlb *tlb;

    if (source->lock) {
        state_entry_page(st, ep, page, right);
        return;
    }
    if (!source->tlb) {
        page->tlb = NULL;
        page->dma = vpn << UNETMM_PAGE_SHIFT;
        return;
    }
    tlb = source->tlb(core);
    page->id = unetmm_stream_choice(st, page->id, unetmm_tlb_capacity(tlb),
                                    "a translation in use");
    if (!unetmm_stream_reads(st) || st->wrong) {
        return;
    }
    e = &tlb->entries[page->id];
    if ((!e->valid && !e->dying) || e->space != ep->space || e->vpn != vpn ||
        !(e->pte & right)) {
        unetmm_stream_refuse(st, "endpoint %u uses a translation of something "
                             "else", ep->id);
        return;
    }
    page->tlb = tlb;
    page->dma = e->pte & UNETMM_PTE_ADDR;
    unetmm_page_hold(page);
}
