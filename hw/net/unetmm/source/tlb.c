/*
 * unetmm: source `tlb` (U-Net/MM on the PCA-200): the card's TLB is the only
 * copy; misses and evicted entries go to the driver.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "source.h"

static UnetmmXlat tlb_lookup(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                             bool write, UnetmmPage *page)
{
    const UnetmmUser *user = unetmm_user(ep);
    UnetmmTlb *tlb = &core->source->tlb;
    uint32_t id = UNETMM_TLB_NONE;

    switch (unetmm_tlb_lookup(tlb, user->space, vpn, write, &id)) {
    case UNETMM_TLB_HIT_SET:
        unetmm_count(core, ep, UNETMM_C_tlb_hits, 1);
        break;
    case UNETMM_TLB_HIT_VICTIM:
        unetmm_count(core, ep, UNETMM_C_tlb_victim_hits, 1);
        break;
    case UNETMM_TLB_MISS:
        unetmm_count(core, ep, UNETMM_C_tlb_misses, 1);
        trace_unetmm_tlb_miss(user->id, user->space, vpn, write);
        return UNETMM_XLAT_MISS;
    }
    *page = (UnetmmPage) {
        .dma = tlb->entries[id].pte & UNETMM_PTE_ADDR,
        .tlb = tlb,
        .id = id,
    };
    return UNETMM_XLAT_OK;
}

static UnetmmTlbInsert tlb_insert(UnetmmCore *core, uint16_t space,
                                  uint64_t vpn, uint64_t pte, uint32_t tag)
{
    UnetmmTlbInsert result = unetmm_tlb_insert(&core->source->tlb, space, vpn,
                                               pte, tag);

    trace_unetmm_tlb_insert(space, vpn, pte, tag, result);
    if (result == UNETMM_TLB_REFUSED) {
        core->counters[UNETMM_C_tlb_refused]++;
    } else {
        core->counters[UNETMM_C_tlb_inserts]++;
    }
    return result;
}

static UnetmmTlb *tlb_tlb(UnetmmCore *core)
{
    return &core->source->tlb;
}

static uint32_t tlb_max_pages(const UnetmmCore *core)
{
    return MIN(unetmm_tlb_capacity(&core->source->tlb), UNETMM_MAX_BUF_PAGES);
}

const UnetmmSourceOps unetmm_source_tlb = {
    .name = "tlb",
    .driver_brings = true,
    .only_copy_is_the_tlb = true,
    .lookup = tlb_lookup,
    .insert = tlb_insert,
    .tlb = tlb_tlb,
    .max_pages = tlb_max_pages,
};

static void tlb_create(UnetmmCore *core)
{
    const UnetmmParams *params = &core->params;

    core->source = g_new0(UnetmmSources, 1);
    unetmm_tlb_init(&core->source->tlb, params->tlb_sets, params->tlb_ways,
                    params->tlb_victims);
    core->source->tlb.index = params->tlb_index;
    core->source->tlb.replace = params->tlb_replace;
    core->source->tlb.evict = unetmm_miss_report_eviction;
    core->source->tlb.opaque = core;
}

static void tlb_reset(UnetmmCore *core)
{
    unetmm_tlb_reset(&core->source->tlb);
}

static void tlb_free(UnetmmCore *core)
{
    unetmm_tlb_free(&core->source->tlb);
    g_clear_pointer(&core->source, g_free);
}

static void tlb_save(UnetmmStream *st, UnetmmCore *core)
{
    unetmm_space_save_tlb(st, core, &core->source->tlb, "tlb");
}

static void tlb_check(UnetmmStream *st, UnetmmCore *core)
{
    unetmm_space_check_tlb(st, &core->source->tlb);
}

static uint64_t tlb_save_limit(const UnetmmCore *core)
{
    return unetmm_tlb_save_limit(&core->source->tlb);
}

const UnetmmModule unetmm_module_tlb = {
    .name = "tlb",
    .create = tlb_create,
    .reset = tlb_reset,
    .free = tlb_free,
    .save = tlb_save,
    .check = tlb_check,
    .save_limit = tlb_save_limit,
};
