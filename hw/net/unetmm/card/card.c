/*
 * unetmm: the card as a whole: limits, creation, reset
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "core.h"

#define IN(v, lo, hi) ((v) >= (lo) && (v) <= (hi))

static bool is_power_of_two(uint32_t v)
{
    return v && !(v & (v - 1));
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
    return NULL;
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
        p->tlb_replace > UNETMM_TLB_REPLACE_RANDOM) {
        return "tlb-index and tlb-replace must be one of their names";
    }
    return NULL;
}

/* Says what is wrong, or NULL. */
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

static const UnetmmTables card_tables = {
    .frames = &unetmm_raw_frames,
};

void unetmm_core_init(UnetmmCore *core, const UnetmmParams *params,
                      const UnetmmHostOps *ops, void *host)
{
    memset(core, 0, sizeof(*core));
    core->tables = &card_tables;
    core->params = *params;
    core->ops = ops;
    core->host = host;
    core->timer_ns = INT64_MAX;
    unetmm_tlb_init(&core->tlb, params->tlb_sets, params->tlb_ways,
                    params->tlb_victims);
    core->tlb.index = params->tlb_index;
    core->tlb.replace = params->tlb_replace;
    core->tlb.evict = unetmm_tlb_evicted;
    core->tlb.opaque = core;
    /* LRU, so that filling one page of a buffer spares the pages before it. */
    unetmm_tlb_init(&core->cache, params->cache_entries / 4, 4, 0);
    core->cache.replace = UNETMM_TLB_REPLACE_LRU;
    core->spaces = g_new0(UnetmmSpace, params->spaces);
    core->eps = g_new0(UnetmmEp, params->endpoints);
    core->misses = g_new0(UnetmmMiss, unetmm_misses(core));
    core->wanted = g_new0(uint16_t, unetmm_misses(core));
    core->in_flight = g_new0(uint16_t, unetmm_misses(core));
    core->ready = g_new0(uint16_t, params->endpoints);
    core->tell = g_new0(uint16_t, params->endpoints);
    core->due = g_new0(uint16_t, params->spaces);
    core->rx.pages = g_new0(UnetmmPage, UNETMM_MAX_BUF_PAGES);
    core->regions = g_new0(UnetmmRegion, params->regions + 1);
    unetmm_rel_init(core);
    unetmm_window_init(core);
    unetmm_proxy_init(core);
    unetmm_sysbuf_init(core);
    unetmm_flow_init(core);
    unetmm_port_init(core);
    unetmm_rings_init(core);
    unetmm_budget_renew(core);
    unetmm_core_set_seed(core, 1);
}

void unetmm_core_free(UnetmmCore *core)
{
    if (!core->eps) {
        return;
    }
    unetmm_engine_reset(core);
    unetmm_rel_free(core);
    unetmm_window_free(core);
    unetmm_proxy_free(core);
    unetmm_sysbuf_free(core);
    unetmm_flow_free(core);
    unetmm_port_free(core);
    unetmm_tlb_free(&core->tlb);
    unetmm_tlb_free(&core->cache);
    g_clear_pointer(&core->spaces, g_free);
    g_clear_pointer(&core->eps, g_free);
    g_clear_pointer(&core->misses, g_free);
    g_clear_pointer(&core->wanted, g_free);
    g_clear_pointer(&core->in_flight, g_free);
    g_clear_pointer(&core->ready, g_free);
    g_clear_pointer(&core->tell, g_free);
    g_clear_pointer(&core->due, g_free);
    g_clear_pointer(&core->rx.pages, g_free);
    g_clear_pointer(&core->regions, g_free);
}

static void reset_endpoints(UnetmmCore *core)
{
    for (uint32_t i = 0; i < core->params.endpoints; i++) {
        UnetmmEp *ep = &core->eps[i];
        uint32_t generation = ep->generation;

        /* The lists are emptied below. */
        ep->queued = ep->telling = false;
        if (!ep->live) {
            continue;
        }
        if (ep->tx.state != UNETMM_TX_IDLE) {
            core->counters[UNETMM_C_drop_reset]++;
        }
        core->counters[UNETMM_C_drop_reset] += unetmm_backup_forget(ep);
        unetmm_port_release(core, ep->tx.frame);
        unetmm_rel_forget(core, ep);
        unetmm_backup_free(ep);
        g_free(ep->channels);
        g_free(ep->imports);
        memset(ep, 0, sizeof(*ep));
        ep->generation = generation;
    }
    /* Generations go on, so that late answers of the old driver are stale. */
    for (uint32_t i = 0; i < unetmm_misses(core); i++) {
        core->misses[i].state = UNETMM_MISS_NONE;
        core->misses[i].queued = false;
        core->misses[i].late = false;
        core->misses[i].generation++;
    }
    core->wanted_first = core->wanted_used = 0;
    core->in_flight_used = core->misses_asked = 0;
    core->misses_joined = core->misses_refused = core->closing = 0;
    core->misses_changing = 0;
    core->misses_late = 0;
    core->tell_first = core->tell_used = 0;
    core->wire_turn = 0;
    core->ready_first = core->ready_used = 0;
}

/*
 * DMA stops first; then everything is as after power-on, counters included, but
 * for the one that says what resets have ended.
 */
void unetmm_engine_reset(UnetmmCore *core)
{
    uint64_t ended;

    unetmm_recv_reset(core);
    unetmm_port_reset(core);
    reset_endpoints(core);
    unetmm_window_reset(core);
    unetmm_proxy_reset(core);
    unetmm_sysbuf_reset(core);
    unetmm_flow_reset(core);
    unetmm_tlb_reset(&core->tlb);
    unetmm_tlb_reset(&core->cache);
    unetmm_counters_reset(core);
    memset(core->spaces, 0, core->params.spaces * sizeof(*core->spaces));
    unetmm_regions_reset(core);
    unetmm_rings_init(core);
    memset(core->vectors, 0, sizeof(core->vectors));
    core->ctrl = core->events = core->event_mask = core->status = 0;
    core->test = core->test_dma_len = core->test_dma_res = 0;
    core->test_dma = core->inv_start = core->inv_last = 0;
    core->ep_sel = core->inv_space = core->latch_hi = 0;
    core->inv_busy = core->again = core->evict_waits = false;
    core->rel_due_ns = INT64_MAX;
    ended = core->counters[UNETMM_C_drop_reset];
    memset(core->counters, 0, sizeof(core->counters));
    core->counters[UNETMM_C_drop_reset] = ended;
    trace_unetmm_reset();
}

void unetmm_core_reset(UnetmmCore *core)
{
    unetmm_enter(core);
    core->reset_wanted = true;
    unetmm_leave(core);
}

/* Ring memory that the bus refuses: nothing more can be said to the driver. */
void unetmm_core_fatal(UnetmmCore *core)
{
    if (!(core->status & UNETMM_STATUS_FATAL)) {
        core->status |= UNETMM_STATUS_FATAL;
        unetmm_event(core, UNETMM_EVENT_FATAL);
    }
}

void unetmm_core_set_seed(UnetmmCore *core, uint64_t seed)
{
    core->knobs.seed = seed;
    core->random = seed * 0x9e3779b97f4a7c15ull | 1;
}

/* xorshift64*: the same numbers for the same seed, on every host. */
uint32_t unetmm_random(UnetmmCore *core)
{
    core->random ^= core->random >> 12;
    core->random ^= core->random << 25;
    core->random ^= core->random >> 27;
    return core->random * 0x2545f4914f6cdd1dull >> 32;
}

/* For what comes late: anything up to the limit, which 0 makes at once. */
int64_t unetmm_some_time(UnetmmCore *core, uint32_t most_ns)
{
    return most_ns ? 1 + unetmm_random(core) % most_ns : 0;
}

/* Does something of this rate (parts per million) happen now? */
bool unetmm_chance(UnetmmCore *core, uint32_t ppm)
{
    return ppm && unetmm_random(core) % 1000000 < ppm;
}
