/*
 * unetmm: tables in host memory, read by DMA through a small entry cache
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../abi/unetmm_le.h"
#include "source.h"

/* Replaces *table by the next table: reads its entry once. */
static UnetmmXlat table_step(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                             int level, uint64_t *table)
{
    unsigned index = (vpn >> (UNETMM_TABLE_BITS * level)) &
                     (UNETMM_TABLE_ENTRIES - 1);
    uint64_t pte;

    if (!unetmm_dma_read(core, ep, *table + index * sizeof(pte), &pte,
                         sizeof(pte))) {
        return UNETMM_XLAT_ERROR;
    }
    unetmm_spend(core, UNETMM_STEP_ENTRY, 1);
    unetmm_le_u64(&pte);
    *table = pte & UNETMM_PTE_ADDR;
    return pte & UNETMM_PTE_VALID ? UNETMM_XLAT_OK : UNETMM_XLAT_MISS;
}

/* Walks the radix tree.  Each entry is read once; only the copy is used. */
UnetmmXlat unetmm_table_leaf(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                             uint64_t *leaf)
{
    const UnetmmSpace *space = unetmm_space_of(core, ep);
    UnetmmXlat result = UNETMM_XLAT_OK;

    if (vpn >> (UNETMM_TABLE_BITS * space->levels) &&
        space->levels < UNETMM_TABLE_LEVELS) {
        return UNETMM_XLAT_MISS;
    }
    *leaf = space->table;
    for (int level = space->levels - 1;
         level > 0 && result == UNETMM_XLAT_OK; level--) {
        result = table_step(core, ep, vpn, level, leaf);
    }
    return result;
}

bool unetmm_table_read(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                       unsigned group, uint64_t *ptes)
{
    uint64_t first = (vpn & (UNETMM_TABLE_ENTRIES - 1)) & ~(group - 1ull);
    uint64_t leaf;

    if (unetmm_table_leaf(core, ep, vpn, &leaf) != UNETMM_XLAT_OK ||
        !unetmm_dma_read(core, ep, leaf + first * sizeof(*ptes), ptes,
                         group * sizeof(*ptes))) {
        return false;
    }
    unetmm_spend(core, UNETMM_STEP_ENTRY, group);
    for (unsigned i = 0; i < group; i++) {
        unetmm_le_u64(&ptes[i]);
    }
    return true;
}

bool unetmm_table_cached(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                         bool write, UnetmmPage *page)
{
    uint16_t space = unetmm_user(ep)->space;
    uint32_t id = UNETMM_TLB_NONE;

    if (unetmm_tlb_lookup(&core->source->cache, space, vpn, write, &id) ==
        UNETMM_TLB_MISS) {
        unetmm_count(core, ep, UNETMM_C_cache_misses, 1);
        return false;
    }
    unetmm_count(core, ep, UNETMM_C_cache_hits, 1);
    *page = (UnetmmPage) {
        .dma = core->source->cache.entries[id].pte & UNETMM_PTE_ADDR,
        .tlb = &core->source->cache,
        .id = id,
    };
    return true;
}

/*
 * MISS: every entry of the cache's set is in use, come back when one is
 * released; ERROR: the entry does not give the right.
 */
UnetmmXlat unetmm_table_use(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                            bool write, uint64_t pte, UnetmmPage *page)
{
    uint16_t space = unetmm_user(ep)->space;
    uint64_t right = write ? UNETMM_PTE_WRITE : UNETMM_PTE_READ;
    uint32_t id = UNETMM_TLB_NONE;

    if (!(pte & right)) {
        return UNETMM_XLAT_ERROR;
    }
    unetmm_tlb_new_batch(&core->source->cache);
    if (unetmm_tlb_insert(&core->source->cache, space, vpn, pte, 0) ==
        UNETMM_TLB_REFUSED ||
        unetmm_tlb_lookup(&core->source->cache, space, vpn, write, &id) ==
        UNETMM_TLB_MISS) {
        return UNETMM_XLAT_MISS;
    }
    *page = (UnetmmPage) {
        .dma = pte & UNETMM_PTE_ADDR,
        .tlb = &core->source->cache,
        .id = id,
    };
    return UNETMM_XLAT_OK;
}

UnetmmXlat unetmm_table_absent(uint64_t pte)
{
    return pte == UNETMM_PTE_CHANGING ? UNETMM_XLAT_MISS : UNETMM_XLAT_ERROR;
}

bool unetmm_table_changing(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn)
{
    uint64_t pte;

    return unetmm_table_read(core, ep, vpn, 1, &pte) &&
           unetmm_table_absent(pte) == UNETMM_XLAT_MISS;
}

/* ERROR: there is no such right; *absent: not so much as a valid entry. */
UnetmmXlat unetmm_table_lookup(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                               bool write, UnetmmPage *page, bool *absent)
{
    uint64_t pte;

    *absent = false;
    if (unetmm_table_cached(core, ep, vpn, write, page)) {
        return UNETMM_XLAT_OK;
    }
    *absent = true;
    if (!unetmm_table_read(core, ep, vpn, 1, &pte)) {
        return UNETMM_XLAT_ERROR;
    }
    if (!(pte & UNETMM_PTE_VALID)) {
        return unetmm_table_absent(pte);
    }
    *absent = false;
    return unetmm_table_use(core, ep, vpn, write, pte, page);
}

UnetmmTlb *unetmm_table_cache(UnetmmCore *core)
{
    return &core->source->cache;
}

uint32_t unetmm_table_max_pages(const UnetmmCore *core)
{
    return MIN(unetmm_tlb_capacity(&core->source->cache), UNETMM_MAX_BUF_PAGES);
}

static void table_create(UnetmmCore *core)
{
    /* LRU, so that filling one page of a buffer spares the pages before it. */
    unetmm_tlb_init(&core->source->cache,
                    core->params.cache_entries / core->params.cache_ways,
                    core->params.cache_ways, 0);
    core->source->cache.replace = UNETMM_TLB_REPLACE_LRU;
    core->source->lines = g_new0(UnetmmShadowLine, UNETMM_SHADOW_LINES);
}

static void table_reset(UnetmmCore *core)
{
    unetmm_tlb_reset(&core->source->cache);
}

static void table_free(UnetmmCore *core)
{
    unetmm_tlb_free(&core->source->cache);
    g_free(core->source->lines);
}

static void table_save(UnetmmStream *st, UnetmmCore *core)
{
    unetmm_space_save_tlb(st, core, &core->source->cache, "cache");
}

static void table_check(UnetmmStream *st, UnetmmCore *core)
{
    unetmm_space_check_tlb(st, &core->source->cache);
}

static uint64_t table_save_limit(const UnetmmCore *core)
{
    return unetmm_tlb_save_limit(&core->source->cache);
}

const UnetmmModule unetmm_module_table = {
    .name = "table",
    .create = table_create,
    .reset = table_reset,
    .free = table_free,
    .save = table_save,
    .check = table_check,
    .save_limit = table_save_limit,
};
