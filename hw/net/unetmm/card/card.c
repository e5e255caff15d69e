/*
 * unetmm: the card as a whole: limits, creation, reset
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../congestion/congestion.h"
#include "core.h"

#define IN(v, lo, hi) ((v) >= (lo) && (v) <= (hi))

static bool is_power_of_two(uint32_t v)
{
    return v && !(v & (v - 1));
}

static const char *check_congestion(const UnetmmParams *p)
{
    if (p->congestion >= UNETMM_NUM_CONGESTION) {
        return "congestion must be one of its names";
    }
    if (!IN(p->congestion_window, 1, UNETMM_REL_WINDOW)) {
        return "congestion-window must be 1..64";
    }
    if (p->congestion_trip_ns > UNETMM_MAX_LATE_NS) {
        return "congestion-trip-ns must be 0..1000000000";
    }
    return NULL;
}

static const char *check_reliable(const UnetmmParams *p)
{
    if (p->reliable > UNETMM_MAX_RELIABLE ||
        p->reliable_keep > UNETMM_MAX_KEPT) {
        return "reliable-channels and reliable-keep must be 0..4096";
    }
    if (p->regions > UNETMM_MAX_REGIONS || p->imports > UNETMM_MAX_IMPORTS) {
        return "regions must be 0..65536 and imports 0..1024";
    }
    if (p->window_pages > UNETMM_MAX_WINDOW_PAGES ||
        !IN(p->window_queue, 1, UNETMM_MAX_UPDATES)) {
        return "window-pages must be 0..65536 and window-queue 1..1048576";
    }
    if (p->proxy_pages > UNETMM_MAX_PROXY_PAGES) {
        return "proxy-pages must be 0..65536";
    }
    if (p->flows > UNETMM_MAX_FLOWS) {
        return "flows must be 0..4096";
    }
    if (p->backup_bits > UNETMM_MAX_BACKUP_BITS) {
        return "backup-bits must be 0..4096";
    }
    if (p->sysbuf_slots > UNETMM_MAX_SYSBUF_SLOTS) {
        return "sysbuf-slots must be 0..4096";
    }
    return check_congestion(p);
}

static const char *check_tlb(const UnetmmParams *p)
{
    if (!IN(p->tlb_sets, 1, 1u << 20) || !is_power_of_two(p->tlb_sets)) {
        return "tlb-sets must be a power of two, 1..1048576";
    }
    if (!IN(p->tlb_ways, 1, 64)) {
        return "tlb-ways must be 1..64";
    }
    if ((uint64_t)p->tlb_sets * p->tlb_ways > 1u << 20) {
        return "tlb-sets times tlb-ways must be at most 1048576";
    }
    if (p->tlb_victims > 1024) {
        return "tlb-victims must be 0..1024";
    }
    if (p->tlb_index > UNETMM_TLB_INDEX_XOR ||
        p->tlb_replace >= UNETMM_TLB_NUM_REPLACE) {
        return "tlb-index and tlb-replace must be one of their names";
    }
    return NULL;
}

/* The error as a text, or NULL. */
const char *unetmm_params_check(const UnetmmParams *p)
{
    if (!IN(p->endpoints, 2, UNETMM_MAX_ENDPOINTS)) {
        return "endpoints must be 2..1024";
    }
    if (!IN(p->spaces, 2, UNETMM_MAX_SPACES)) {
        return "spaces must be 2..1024";
    }
    if (!IN(p->channels, 1, UNETMM_MAX_CHANNELS)) {
        return "channels must be 1..1024";
    }
    if (!IN(p->cache_entries, 64, 1u << 20) ||
        !is_power_of_two(p->cache_entries)) {
        return "cache-entries must be a power of two, 64..1048576";
    }
    if (!IN(p->cache_ways, 1, UNETMM_MAX_CACHE_WAYS) ||
        !is_power_of_two(p->cache_ways)) {
        return "cache-ways must be a power of two, 1..16";
    }
    if (!IN(p->utlb_fetch, 1, UNETMM_MAX_UTLB_FETCH) ||
        !is_power_of_two(p->utlb_fetch)) {
        return "utlb-fetch must be a power of two, 1..32";
    }
    if (!IN(p->pretranslate, 1, UNETMM_MAX_HEADS)) {
        return "pretranslate must be 1..16";
    }
    if (!IN(p->fault_batch, 1, UNETMM_REPLY_MAX_PAGES)) {
        return "fault-batch must be 1..512";
    }
    if (!IN(p->max_faults, 1, 16384)) {
        return "max-faults must be 1..16384";
    }
    if (!IN(p->user_mtu, UNETMM_MIN_MTU, UNETMM_MAX_PAYLOAD)) {
        return "user-mtu must be 256..65536";
    }
    if (!IN(p->local_queue, 1, UNETMM_MAX_LOCAL)) {
        return "local-queue must be 1..4096";
    }
    if (!IN(p->budget_descriptors, 1, 65536) ||
        !IN(p->budget_bytes, UNETMM_MAX_PAYLOAD, 1u << 30)) {
        return "budget-descriptors must be 1..65536 and budget-bytes "
               "65536..1073741824";
    }
    if (p->dma_page_ns > 1000000000) {
        return "x-dma-page-ns must be at most 1000000000, one second";
    }
    if (p->mac[0] & 1) {
        return "mac must not be a group address";
    }
    return check_tlb(p) ?: check_reliable(p);
}

void unetmm_core_init(UnetmmCore *core, const UnetmmParams *params,
                      const UnetmmHostOps *ops, void *host)
{
    memset(core, 0, sizeof(*core));
    core->tables = &unetmm_tables;
    core->params = *params;
    core->ops = ops;
    core->host = host;
    core->engine.timer_ns = INT64_MAX;
    unetmm_modules_create(&core->modules, core, core->tables->modules,
                          params->dma_page_ns);
    unetmm_budget_renew(core);
}

void unetmm_core_free(UnetmmCore *core)
{
    if (!core->eps) {
        return;
    }
    unetmm_engine_reset(core);
    unetmm_modules_free(&core->modules, core);
}

/*
 * DMA stops first; then everything is as after power-on, counters included, but
 * for the one of frames and transfers ended by resets.
 */
void unetmm_engine_reset(UnetmmCore *core)
{
    uint64_t ended;

    unetmm_modules_reset(&core->modules, core);
    core->engine.again = false;
    ended = core->counters[UNETMM_C_drop_reset];
    memset(core->counters, 0, sizeof(core->counters));
    core->counters[UNETMM_C_drop_reset] = ended;
    trace_unetmm_reset();
}

void unetmm_core_reset(UnetmmCore *core)
{
    unetmm_engine_enter(core);
    core->engine.reset_wanted = true;
    unetmm_engine_leave(core);
}

void unetmm_core_set_seed(UnetmmCore *core, uint64_t seed)
{
    unetmm_random_seed(core, seed);
}
