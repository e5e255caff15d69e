/*
 * unetmm: source `shadow` (NetVM): a table in host memory of resident pages,
 * kept by the driver.  Nothing is pinned: the card locks an entry for the DMA
 * of one page, in the entry's own word, and the driver, which takes pages away
 * at any time, waits for that lock alone.
 *
 * No translation is kept from one use to the next, so that taking a page away
 * needs no word to the card.  The card keeps the addresses of the tables of
 * level 0, and, while the engine runs, the entries that it has read: pages
 * that follow each other cost one read, and an outdated entry cannot be
 * locked.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../abi/unetmm_le.h"
#include "source.h"

/* Changes of one entry by the processors, while the card tries to. */
#define SHADOW_TRIES    64

static bool shadow_usable(uint64_t pte, bool write)
{
    return (pte & UNETMM_PTE_VALID) &&
           (pte & (write ? UNETMM_PTE_WRITE : UNETMM_PTE_READ));
}

/* Where the page's entry is.  Its table changes with the space only. */
static UnetmmXlat shadow_find(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                              uint64_t *entry)
{
    uint16_t space = unetmm_user(ep)->space;
    uint64_t key = vpn >> UNETMM_TABLE_BITS;
    UnetmmXlat result = UNETMM_XLAT_OK;
    uint64_t leaf;
    uint32_t id;

    if (unetmm_tlb_lookup(&core->source->cache, space, key, false, &id) ==
        UNETMM_TLB_MISS) {
        unetmm_count(core, ep, UNETMM_C_cache_misses, 1);
        result = unetmm_table_leaf(core, ep, vpn, &leaf);
        if (result == UNETMM_XLAT_OK) {
            /* If there is no room for it, it is looked for again. */
            unetmm_tlb_new_batch(&core->source->cache);
            unetmm_tlb_insert(&core->source->cache, space, key, leaf |
                              UNETMM_PTE_VALID | UNETMM_PTE_READ, 0);
        }
    } else {
        unetmm_count(core, ep, UNETMM_C_cache_hits, 1);
        leaf = core->source->cache.entries[id].pte & UNETMM_PTE_ADDR;
    }
    if (result == UNETMM_XLAT_OK) {
        *entry = leaf + (vpn & (UNETMM_TABLE_ENTRIES - 1)) * sizeof(uint64_t);
    }
    return result;
}

/* The line that has the entry, or would. */
static UnetmmShadowLine *shadow_line(UnetmmCore *core, uint64_t entry,
                                     uint64_t *at)
{
    *at = entry & -(uint64_t)sizeof(core->source->lines[0].ptes);
    /* Tables alike, of two spaces, shall not be in each other's way. */
    return &core->source->lines[(entry / sizeof(core->source->lines[0].ptes) ^
                                entry >> UNETMM_PAGE_SHIFT) %
                               UNETMM_SHADOW_LINES];
}

static uint64_t *shadow_known(UnetmmCore *core, uint64_t entry)
{
    uint64_t at;
    UnetmmShadowLine *line = shadow_line(core, entry, &at);

    return line->at == at && line->run == core->engine.run ?
           &line->ptes[(entry - at) / sizeof(line->ptes[0])] : NULL;
}

/*
 * The entry is another one than it was at its lookup.  The cached value never
 * has our own lock: most locks and unlocks leave it as it is.
 */
static void shadow_changed(UnetmmCore *core, uint64_t entry, uint64_t pte)
{
    uint64_t *known = shadow_known(core, entry);

    if (known) {
        *known = pte;
    }
}

/* An entry is read anew if its cached value would not do. */
static bool shadow_read(UnetmmCore *core, UnetmmEp *ep, uint64_t entry,
                        bool write, uint64_t *pte)
{
    uint64_t at, *known = shadow_known(core, entry);
    UnetmmShadowLine *line;

    if (!known || !shadow_usable(*known, write)) {
        line = shadow_line(core, entry, &at);
        line->run = 0;
        if (!unetmm_dma_read(core, ep, at, line->ptes, sizeof(line->ptes))) {
            return false;
        }
        unetmm_spend(core, UNETMM_STEP_ENTRY, UNETMM_SHADOW_LINE);
        for (unsigned i = 0; i < UNETMM_SHADOW_LINE; i++) {
            unetmm_le_u64(&line->ptes[i]);
        }
        line->run = core->engine.run;
        line->at = at;
        known = &line->ptes[(entry - at) / sizeof(line->ptes[0])];
    }
    *pte = *known;
    return true;
}

static UnetmmXlat shadow_lookup(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                                bool write, UnetmmPage *page)
{
    const UnetmmUser *user = unetmm_user(ep);
    UnetmmXlat result;
    uint64_t entry, pte;

    result = shadow_find(core, ep, vpn, &entry);
    if (result == UNETMM_XLAT_OK &&
        !shadow_read(core, ep, entry, write, &pte)) {
        result = UNETMM_XLAT_ERROR;
    }
    if (result == UNETMM_XLAT_OK) {
        result = shadow_usable(pte, write) ? UNETMM_XLAT_OK : UNETMM_XLAT_MISS;
    }
    if (result == UNETMM_XLAT_OK) {
        unetmm_count(core, ep, UNETMM_C_shadow_hits, 1);
        /* Where it is, the lock says. */
        *page = (UnetmmPage) { .entry = entry, .pte = pte };
    } else {
        unetmm_count(core, ep, UNETMM_C_shadow_misses, 1);
        trace_unetmm_shadow_miss(user->id, user->space, vpn, write, result);
    }
    return result;
}

static inline bool shadow_lockable(uint64_t pte, bool write)
{
    return shadow_usable(pte, write) &&
           (pte & UNETMM_PTE_LOCKS) != UNETMM_PTE_LOCKS;
}

static void shadow_locked(UnetmmCore *core, UnetmmEp *ep, UnetmmPage *page,
                          uint64_t pte)
{
    page->pte = pte;
    page->dma = pte & UNETMM_PTE_ADDR;
    unetmm_count(core, ep, UNETMM_C_shadow_locks, 1);
}

/* The entry is `pte` now, not as its lookup found it, or gets its dirty bit. */
static __attribute__((__noinline__))
bool shadow_lock_changed(UnetmmCore *core, UnetmmEp *ep, UnetmmPage *page,
                         bool write, uint64_t pte)
{
    uint64_t dirty = write ? UNETMM_PTE_DIRTY : 0;

    for (unsigned i = 0; i < SHADOW_TRIES && shadow_lockable(pte, write); i++) {
        uint64_t expected = pte;
        uint64_t unlocked = pte | dirty;

        if (!unetmm_dma_cmpxchg(core, ep, page->entry, &pte,
                                unlocked + UNETMM_PTE_LOCK)) {
            return false;
        }
        if (pte == expected) {
            shadow_changed(core, page->entry, unlocked);
            shadow_locked(core, ep, page, unlocked + UNETMM_PTE_LOCK);
            return true;
        }
    }
    /* A second lookup in this run must not find the old value. */
    shadow_changed(core, page->entry, pte);
    unetmm_count(core, ep, UNETMM_C_shadow_raced, 1);
    return false;
}

/*
 * The first try expects the entry's value at its lookup.  If the page is
 * another one by now, that is the one to use.
 */
static bool shadow_lock(UnetmmCore *core, UnetmmEp *ep, UnetmmPage *page,
                        bool write)
{
    uint64_t pte = page->pte;

    unetmm_spend(core, UNETMM_STEP_LOCK, 1);
    if (shadow_lockable(pte, write) && (!write || pte & UNETMM_PTE_DIRTY)) {
        if (!unetmm_dma_cmpxchg(core, ep, page->entry, &pte,
                                pte + UNETMM_PTE_LOCK)) {
            return false;
        }
        if (pte == page->pte) {
            shadow_locked(core, ep, page, pte + UNETMM_PTE_LOCK);
            return true;
        }
    }
    return shadow_lock_changed(core, ep, page, write, pte);
}

/* The entry was `pte`, not as it was locked. */
static __attribute__((__noinline__))
void shadow_unlock_changed(UnetmmCore *core, UnetmmEp *ep,
                           const UnetmmPage *page, uint64_t pte)
{
    for (unsigned i = 1; i < SHADOW_TRIES && (pte & UNETMM_PTE_LOCKS); i++) {
        uint64_t expected = pte;

        if (!unetmm_dma_cmpxchg(core, ep, page->entry, &pte,
                                pte - UNETMM_PTE_LOCK)) {
            return;
        }
        if (pte == expected) {
            shadow_changed(core, page->entry, pte - UNETMM_PTE_LOCK);
            return;
        }
    }
    unetmm_count(core, ep, UNETMM_C_err_lock, 1);
    UNETMM_GUEST_ERR(lock, "endpoint %u: the entry at 0x%" PRIx64 " is not as "
                     "it was locked, 0x%" PRIx64, unetmm_user(ep)->id,
                     page->entry, pte);
}

static void shadow_unlock(UnetmmCore *core, UnetmmEp *ep,
                          const UnetmmPage *page)
{
    uint64_t pte = page->pte;

    unetmm_spend(core, UNETMM_STEP_LOCK, 0);
    /* A page of a saved state may have no lock. */
    if (!(pte & UNETMM_PTE_LOCKS) ||
        (unetmm_dma_cmpxchg(core, ep, page->entry, &pte,
                            pte - UNETMM_PTE_LOCK) && pte != page->pte)) {
        shadow_unlock_changed(core, ep, page, pte);
    }
}

static uint32_t shadow_max_pages(const UnetmmCore *core)
{
    return UNETMM_MAX_BUF_PAGES;
}

const UnetmmSourceOps unetmm_source_shadow = {
    .name = "shadow",
    .levels_min = 1,
    .levels_max = UNETMM_TABLE_LEVELS,
    .driver_brings = true,
    .named_by_address = true,
    .lookup = shadow_lookup,
    .lock = shadow_lock,
    .unlock = shadow_unlock,
    .tlb = unetmm_table_cache,
    .tlb_shift = UNETMM_TABLE_BITS,
    .changing = unetmm_table_changing,
    .max_pages = shadow_max_pages,
};
