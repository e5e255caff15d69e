/*
 * unetmm: address spaces, translations in use, and invalidation
 *
 * A space names its source; everything that differs between sources is in the
 * source's table of operations.  A user of a translation holds its entry; an
 * entry that is invalidated meanwhile stays in place, is found by no lookup,
 * and is not used for another page.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "xlat.h"

const UnetmmSourceOps *unetmm_source_by_id(const UnetmmCore *core,
                                           unsigned id)
{
    return id < core->tables->nsources ? core->tables->sources[id] : NULL;
}

uint8_t unetmm_space_create(UnetmmCore *core, uint16_t id,
                            const struct unetmm_cmd_space *cmd)
{
    const UnetmmSourceOps *source = unetmm_source_by_id(core, cmd->source);
    UnetmmSpace *space;

    if (id >= core->params.spaces) {
        return UNETMM_CS_BAD_ID;
    }
    space = &core->spaces[id];
    if (space->live) {
        return UNETMM_CS_EXISTS;
    }
    if (!source || source->only_space_0 != (id == 0) ||
        cmd->levels < source->levels_min ||
        cmd->levels > source->levels_max ||
        cmd->table % UNETMM_PAGE_BYTES || (!cmd->levels && cmd->table)) {
        return UNETMM_CS_BAD_ARG;
    }
    *space = (UnetmmSpace) {
        .live = true, .source = source, .levels = cmd->levels,
        .table = cmd->table, .first_ep = UNETMM_NO_EP,
    };
    trace_unetmm_space_create(id, source->name);
    return UNETMM_CS_OK;
}

/* Drops all translations of a space, without a word to the driver. */
void unetmm_space_drop(UnetmmCore *core, uint16_t id)
{
    const UnetmmSourceOps *source = core->spaces[id].source;

    if (source->tlb) {
        unetmm_tlb_invalidate(source->tlb(core), id, 0, UINT64_MAX >>
                              UNETMM_PAGE_SHIFT);
    }
}

uint8_t unetmm_space_destroy(UnetmmCore *core, uint16_t id)
{
    UnetmmSpace *space;

    if (id >= core->params.spaces || !core->spaces[id].live) {
        return UNETMM_CS_BAD_ID;
    }
    space = &core->spaces[id];
    if (space->endpoints || space->regions) {
        return UNETMM_CS_BUSY;
    }
    unetmm_space_drop(core, id);
    unetmm_modules_space_end(&core->modules, core, id);
    space->live = false;
    trace_unetmm_space_destroy(id);
    return UNETMM_CS_OK;
}

/* x-force-miss and x-force-evict: the entry goes the way of any eviction. */
static bool space_misbehave(UnetmmCore *core, UnetmmTlb *tlb, uint32_t id)
{
    if (core->knobs.force_evict &&
        unetmm_chance(core, core->knobs.force_evict)) {
        uint32_t any = unetmm_random(core) % unetmm_tlb_capacity(tlb);

        if (any != id && unetmm_tlb_evict_one(tlb, any)) {
            core->counters[UNETMM_C_inj_evict]++;
        }
    }
    if (core->knobs.force_miss &&
        unetmm_chance(core, core->knobs.force_miss) &&
        unetmm_tlb_evict_one(tlb, id)) {
        core->counters[UNETMM_C_inj_miss]++;
        return true;
    }
    return false;
}

/* The look-up of a card that misbehaves, or whose host counts the time. */
static UnetmmXlat __attribute__((cold, noinline))
space_lookup_aside(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn, bool write,
                   UnetmmPage *page)
{
    const UnetmmSourceOps *source = unetmm_space_of(core, ep)->source;
    UnetmmXlat result = source->lookup(core, ep, vpn, write, page);

    if (result == UNETMM_XLAT_OK && page->tlb &&
        space_misbehave(core, page->tlb, page->id)) {
        result = source->lookup(core, ep, vpn, write, page);
    }
    unetmm_spend(core, result == UNETMM_XLAT_OK ? UNETMM_STEP_HIT :
                 UNETMM_STEP_MISS, write);
    return result;
}

UnetmmXlat unetmm_space_lookup(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                               bool write, UnetmmPage *page)
{
    if (__builtin_expect(core->ops->spend || core->knobs.force_evict ||
                         core->knobs.force_miss, false)) {
        return space_lookup_aside(core, ep, vpn, write, page);
    }
    return unetmm_space_of(core, ep)->source->lookup(core, ep, vpn, write,
                                                     page);
}

uint32_t unetmm_space_missing(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                              bool write, uint64_t limit, uint32_t most)
{
    UnetmmPage page;
    uint32_t n = 1;

    if (unetmm_space_of(core, ep)->source->asks_ahead) {
        return MIN(limit, UNETMM_MISS_MAX_PAGES);
    }
    while (n < limit && n < most &&
           unetmm_space_lookup(core, ep, vpn + n, write, &page) ==
           UNETMM_XLAT_MISS) {
        n++;
    }
    return n;
}

void unetmm_page_hold(const UnetmmPage *page)
{
    if (page->tlb) {
        unetmm_tlb_hold(page->tlb, page->id);
    }
}

void unetmm_page_release(UnetmmCore *core, const UnetmmPage *page)
{
    if (page->tlb) {
        unetmm_tlb_release(page->tlb, page->id);
        unetmm_miss_room(core);
    }
}

/* Lets go of pages[first .. end - 1]. */
void unetmm_pages_release(UnetmmCore *core, const UnetmmPage *pages,
                          uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        unetmm_page_release(core, &pages[i]);
    }
}

/* Marks the start and the end of one page's DMA through a held entry. */
void unetmm_page_move(const UnetmmPage *page, bool start)
{
    if (!page->tlb) {
        return;
    }
    if (start) {
        unetmm_tlb_dma_begin(page->tlb, page->id);
    } else {
        unetmm_tlb_dma_end(page->tlb, page->id);
    }
}

bool unetmm_page_lock(UnetmmCore *core, UnetmmEp *ep, UnetmmPage *page,
                      bool write)
{
    const UnetmmSourceOps *source = unetmm_space_of(core, ep)->source;

    return !source->lock || source->lock(core, ep, page, write);
}

void unetmm_page_unlock(UnetmmCore *core, UnetmmEp *ep, const UnetmmPage *page)
{
    const UnetmmSourceOps *source = unetmm_space_of(core, ep)->source;

    if (source->unlock) {
        source->unlock(core, ep, page);
    }
}

/* Was the held entry invalidated?  Then it may not be used any more. */
bool unetmm_page_gone(const UnetmmPage *page)
{
    return page->tlb && page->tlb->entries[page->id].dying;
}

/* A free buffer relies on the entry: its end has to be known there. */
void unetmm_page_head(const UnetmmPage *page)
{
    if (page->tlb) {
        page->tlb->entries[page->id].head = true;
    }
}

void unetmm_page_dirty(const UnetmmPage *page)
{
    if (page->tlb) {
        page->tlb->entries[page->id].dirty = true;
    }
}

/* Pages touched by [addr, addr + len); len > 0 and the range does not wrap. */
uint64_t unetmm_pte_pages(uint64_t addr, uint64_t len)
{
    return ((addr + len - 1) >> UNETMM_PAGE_SHIFT) -
           (addr >> UNETMM_PAGE_SHIFT) + 1;
}

/*
 * INV_CTRL and INVALIDATE: drop all pages of [start, last_byte] of a space now;
 * pages in flight make unetmm_invalidate_busy() true until they have landed.  A
 * transfer that waits for a translation holds none, so it never delays this.
 * The range is kept apart from the registers, which may be written meanwhile.
 */
void unetmm_invalidate(UnetmmCore *core, uint32_t space, uint64_t start,
                       uint64_t last_byte)
{
    uint64_t first = start >> UNETMM_PAGE_SHIFT;
    uint64_t last = last_byte >> UNETMM_PAGE_SHIFT;
    const UnetmmSourceOps *source;
    uint32_t dropped = 0;

    core->inv->busy = false;
    core->counters[UNETMM_C_invalidations]++;
    if (space >= core->params.spaces || !core->spaces[space].live ||
        last < first) {
        return;
    }
    source = core->spaces[space].source;
    if (source->tlb) {
        UnetmmTlb *tlb = source->tlb(core);

        tlb->lost_head = false;
        dropped = unetmm_tlb_invalidate(tlb, space, first >> source->tlb_shift,
                                        last >> source->tlb_shift);
        core->counters[UNETMM_C_tlb_invalidated] += dropped;
        /* A table's entry leaves the cache unsaid, and its head stays ready. */
        if (tlb->lost_head || !source->only_copy_is_the_tlb) {
            unetmm_modules_pages_lost(&core->modules, core, space, first,
                                      last);
        }
        unetmm_miss_room(core);
        unetmm_miss_changed(core, space);
        core->inv->space = space;
        core->inv->first = first;
        core->inv->last = last;
        core->inv->busy = true;
    }
    core->counters[UNETMM_C_inv_waits] += unetmm_invalidate_busy(core);
    trace_unetmm_invalidate(space, start, last_byte, dropped, core->inv->busy);
}

/* A space that is gone has no page in flight: its endpoints went before it. */
bool unetmm_invalidate_busy(UnetmmCore *core)
{
    const UnetmmSpace *space = &core->spaces[core->inv->space];

    core->inv->busy = core->inv->busy && space->live && space->source->tlb &&
                     unetmm_tlb_in_dma(space->source->tlb(core),
                                       core->inv->space,
                                       core->inv->first,
                                       core->inv->last);
    return core->inv->busy;
}

/* ---- Saved state -------------------------------------------------------- */

static const UnetmmField inv_fields[] = {
    UNETMM_FIELD_AS(UnetmmInv, first, "inv_going_first"),
    UNETMM_FIELD_AS(UnetmmInv, last, "inv_going_last"),
    UNETMM_FIELD_BELOW(UnetmmInv, space, "inv_going_space", spaces, 0),
    { UNETMM_FIELD_(UnetmmInv, busy, "inv_busy", sizeof(uint32_t), BOOL, 0,
                    1) },
};

void unetmm_invalidate_save(UnetmmStream *st, UnetmmCore *core)
{
    UNETMM_STREAM_FIELDS(st, core->inv, inv_fields);
    unetmm_stream_bool(st, &core->miss->evict_waits, "evict_waits");
}

static const UnetmmField space_fields[] = {
    UNETMM_FIELDS(struct unetmm_cmd_space, source, levels, table),
};

/* The saved space is checked as by SPACE_CREATE. */
static void space_save(UnetmmStream *st, UnetmmCore *core, uint32_t id)
{
    UnetmmSpace *space = &core->spaces[id];
    struct unetmm_cmd_space cmd = { .levels = space->levels,
                                    .table = space->table };
    bool live = space->live;

    unetmm_stream_bool(st, &live, "live");
    if (!live) {
        return;
    }
    while (space->live &&
           unetmm_source_by_id(core, cmd.source) != space->source) {
        cmd.source++;
    }
    if (UNETMM_STREAM_FIELDS(st, &cmd, space_fields) &&
        unetmm_stream_reads(st) &&
        unetmm_space_create(core, id, &cmd) != UNETMM_CS_OK) {
        unetmm_stream_refuse(st, "space %u could not have been created", id);
    }
    core->tables->saved->counters(st, core, id);
}

static void spaces_save(UnetmmStream *st, UnetmmCore *core)
{
    unetmm_stream_each(st, core, "space", core->params.spaces, space_save);
}

/* The space that an entry names must exist and use this TLB. */
static bool entry_ok(void *opaque, const UnetmmTlb *tlb,
                     const UnetmmTlbEntry *e)
{
    UnetmmCore *core = opaque;
    const UnetmmSpace *space;

    if (e->space >= core->params.spaces) {
        return false;
    }
    space = &core->spaces[e->space];
    return space->live && space->source->tlb &&
           space->source->tlb(core) == tlb && (e->pte & UNETMM_PTE_VALID) &&
           e->vpn <= UINT64_MAX >> UNETMM_PAGE_SHIFT;
}

void unetmm_space_save_tlb(UnetmmStream *st, UnetmmCore *core, UnetmmTlb *tlb,
                           const char *name)
{
    unetmm_stream_enter(st, name, UNETMM_STREAM_ONE);
    unetmm_tlb_save(st, tlb, entry_ok, core);
    unetmm_stream_leave(st);
}

void unetmm_space_check_tlb(UnetmmStream *st, const UnetmmTlb *tlb)
{
    if (!unetmm_tlb_consistent(tlb)) {
        unetmm_stream_refuse(st, "a translation is where it cannot be found, "
                             "there twice, or kept for nobody");
    }
}

uint64_t unetmm_tlb_save_limit(const UnetmmTlb *tlb)
{
    return unetmm_tlb_capacity(tlb) * 64ull;
}

static uint64_t spaces_save_limit(const UnetmmCore *core)
{
    return core->params.spaces * 48ull;
}

static const UnetmmField page_entry[] = {
    UNETMM_FIELDS(UnetmmPage, entry, pte),
};

/* A page that is locked for each DMA is named by its entry's place. */
static void page_save_entry(UnetmmStream *st, const UnetmmEp *ep,
                            UnetmmPage *page, uint64_t right)
{
    UNETMM_STREAM_FIELDS(st, page, page_entry);
    if (page->entry % sizeof(page->pte) || !(page->pte & UNETMM_PTE_VALID) ||
        !(page->pte & right)) {
        unetmm_stream_refuse(st, "endpoint %u uses an entry that it could not "
                             "have found", unetmm_user(ep)->id);
    }
    page->tlb = NULL;
    page->dma = page->pte & UNETMM_PTE_ADDR;
}

/*
 * The entry must be the page's, whether it is still valid or not, and the
 * address is the entry's: nothing else is believed.
 */
void unetmm_page_save(UnetmmStream *st, UnetmmCore *core, const UnetmmEp *ep,
                      UnetmmPage *page, uint64_t vpn, bool write)
{
    const UnetmmSourceOps *source = unetmm_space_of(core, ep)->source;
    uint64_t right = write ? UNETMM_PTE_WRITE : UNETMM_PTE_READ;
    const UnetmmTlbEntry *e;
    UnetmmTlb *tlb;

    if (source->named_by_address) {
        page_save_entry(st, ep, page, right);
        return;
    }
    if (source->address_is_dma) {
        page->tlb = NULL;
        page->dma = vpn << UNETMM_PAGE_SHIFT;
        return;
    }
    tlb = source->tlb(core);
    page->id = unetmm_stream_choice(st, page->id, unetmm_tlb_capacity(tlb),
                                    "tlb_entry");
    if (!unetmm_stream_takes(st)) {
        return;
    }
    e = &tlb->entries[page->id];
    if ((!e->valid && !e->dying) ||
        e->space != unetmm_user(ep)->space || e->vpn != vpn ||
        !(e->pte & right)) {
        unetmm_stream_refuse(st, "endpoint %u uses a translation of something "
                             "else", unetmm_user(ep)->id);
        return;
    }
    page->tlb = tlb;
    page->dma = e->pte & UNETMM_PTE_ADDR;
    unetmm_page_hold(page);
}

static void space_create(UnetmmCore *core)
{
    core->spaces = g_new0(UnetmmSpace, core->params.spaces);
    core->inv = g_new0(UnetmmInv, 1);
}

static void space_reset(UnetmmCore *core)
{
    memset(core->spaces, 0, core->params.spaces * sizeof(*core->spaces));
    core->inv->busy = false;
}

static void space_free(UnetmmCore *core)
{
    g_clear_pointer(&core->spaces, g_free);
    g_clear_pointer(&core->inv, g_free);
}

const UnetmmModule unetmm_module_space = {
    .name = "space",
    .create = space_create,
    .reset = space_reset,
    .free = space_free,
    .save = spaces_save,
    .save_limit = spaces_save_limit,
};
