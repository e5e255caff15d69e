/*
 * unetmm: saving and restoring the card: the order of all, and the card itself
 *
 * What the card was made with (UnetmmParams) comes first and must be the same
 * in both places.  A stream that is refused leaves the card as after a reset.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "state.h"

#define STATE_VERSION   9

/* ---- What must be the same ---------------------------------------------- */

static void state_constant(UnetmmStream *st, uint64_t mine, const char *name)
{
    uint64_t theirs = mine;

    unetmm_stream_u64(st, &theirs);
    if (theirs != mine) {
        unetmm_stream_refuse(st, "%s is %" PRIu64 " here and was %" PRIu64
                             " there", name, mine, theirs);
    }
}

static void state_params(UnetmmStream *st, const UnetmmCore *core)
{
    static const struct {
        const char *name;       /* of the property */
        size_t offset;
    } same[] = {
#define SAME(name, field) { name, offsetof(UnetmmParams, field) }
        SAME("endpoints", endpoints),
        SAME("spaces", spaces),
        SAME("channels", channels),
        SAME("tlb-sets", tlb_sets),
        SAME("tlb-ways", tlb_ways),
        SAME("tlb-victims", tlb_victims),
        SAME("tlb-index", tlb_index),
        SAME("tlb-replace", tlb_replace),
        SAME("cache-entries", cache_entries),
        SAME("utlb-fetch", utlb_fetch),
        SAME("pretranslate", pretranslate),
        SAME("fault-batch", fault_batch),
        SAME("max-faults", max_faults),
        SAME("user-mtu", user_mtu),
        SAME("local-queue", local_queue),
        SAME("reliable-channels", reliable),
        SAME("reliable-keep", reliable_keep),
        SAME("regions", regions),
        SAME("imports", imports),
        SAME("window-pages", window_pages),
        SAME("window-queue", window_queue),
        SAME("proxy-pages", proxy_pages),
        SAME("sysbuf-slots", sysbuf_slots),
        SAME("flows", flows),
        SAME("backup-bits", backup_bits),
#undef SAME
    };
    uint8_t mac[6];

    for (unsigned i = 0; i < G_N_ELEMENTS(same); i++) {
        uint32_t mine;

        memcpy(&mine, (const char *)&core->params + same[i].offset,
               sizeof(mine));
        state_constant(st, mine, same[i].name);
    }
    state_constant(st, core->params.dma_page_ns, "x-dma-page-ns");
    memcpy(mac, core->params.mac, sizeof(mac));
    unetmm_stream_bytes(st, mac, sizeof(mac));
    if (memcmp(mac, core->params.mac, sizeof(mac))) {
        unetmm_stream_refuse(st, "mac is another one here than there, where "
                             "it was %02x:%02x:%02x:%02x:%02x:%02x", mac[0],
                             mac[1], mac[2], mac[3], mac[4], mac[5]);
    }
}

/* ---- The card ----------------------------------------------------------- */

static void state_knobs(UnetmmStream *st, UnetmmCore *core)
{
    UnetmmKnobs *k = &core->knobs;
    uint32_t *const rates[] = {
        &k->loss, &k->dup, &k->reorder, &k->corrupt, &k->force_miss,
        &k->force_evict, &k->delay, &k->fault_delay, &k->fault_fail,
        &k->fault_refuse, &k->lie,
    };
    uint32_t *const times[] = { &k->delay_ns, &k->fault_delay_ns };

    for (unsigned i = 0; i < G_N_ELEMENTS(rates); i++) {
        *rates[i] = unetmm_stream_choice(st, *rates[i], 1000001,
                                         "a rate of misbehaviour");
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(times); i++) {
        *times[i] = unetmm_stream_choice(st, *times[i],
                                         UNETMM_MAX_LATE_NS + 1,
                                         "a time of misbehaviour");
    }
    unetmm_stream_u64(st, &k->seed);
    unetmm_stream_u64(st, &core->random);
    if (!core->random) {
        unetmm_stream_refuse(st, "the random numbers have no state");
        core->random = 1;
    }
}

static void state_registers(UnetmmStream *st, UnetmmCore *core)
{
    uint32_t *const words[] = {
        &core->test, &core->test_dma_len, &core->test_dma_res, &core->ep_sel,
        &core->latch_hi, &core->inv_space,
    };
    uint64_t *const longs[] = {
        &core->test_dma, &core->inv_start, &core->inv_last,
        &core->inv_going_first, &core->inv_going_last,
    };

    core->ctrl = unetmm_stream_choice(st, core->ctrl, UNETMM_CTRL_ENABLE + 1,
                                      "CTRL");
    core->events = unetmm_stream_choice(st, core->events,
                                        UNETMM_EVENT_ALL + 1, "EVENTS");
    core->event_mask = unetmm_stream_choice(st, core->event_mask,
                                            UNETMM_EVENT_ALL + 1,
                                            "EVENT_MASK");
    core->status = unetmm_stream_choice(st, core->status,
                                        UNETMM_STATUS_FATAL + 1, "STATUS");
    if (core->status & ~UNETMM_STATUS_FATAL) {
        unetmm_stream_refuse(st, "STATUS has bits that are not kept in it");
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(words); i++) {
        unetmm_stream_u32(st, words[i]);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(longs); i++) {
        unetmm_stream_u64(st, longs[i]);
    }
    core->inv_going_space = unetmm_stream_choice(st, core->inv_going_space,
                                                 core->params.spaces,
                                                 "the space invalidated");
    unetmm_stream_bool(st, &core->inv_busy, "INV_CTRL");
    unetmm_stream_bool(st, &core->evict_waits, "an eviction's waiting");
}

static void state_ring(UnetmmStream *st, UnetmmRing *ring)
{
    unetmm_stream_u64(st, &ring->base);
    unetmm_stream_u32(st, &ring->log2);
    unetmm_stream_u32(st, &ring->prod);
    unetmm_stream_u32(st, &ring->cons);
    unetmm_stream_u32(st, &ring->moderate_ns);
    unetmm_stream_bool(st, &ring->enabled, "a ring's ENABLE");
    if (!ring->enabled) {
        if (ring->prod || ring->cons) {
            unetmm_stream_refuse(st, "a ring that is off has indices");
        }
    } else if (ring->log2 < UNETMM_MIN_RING_LOG2 ||
               ring->log2 > UNETMM_MAX_RING_LOG2 ||
               ring->base % ring->entry_bytes ||
               ring->prod - ring->cons > 1u << ring->log2) {
        unetmm_stream_refuse(st, "a ring has a base, size or index that no "
                             "driver could have set");
        ring->enabled = false;
    }
}

static void state_vectors(UnetmmStream *st, UnetmmCore *core, int64_t now)
{
    for (unsigned i = 0; i < UNETMM_NUM_VECTORS; i++) {
        UnetmmVector *v = &core->vectors[i];

        unetmm_stream_bool(st, &v->pending, "an interrupt's state");
        unetmm_stream_time(st, &v->not_before_ns, now, UINT32_MAX,
                           "an interrupt's time");
    }
}

static void state_space(UnetmmStream *st, UnetmmCore *core, uint16_t id)
{
    UnetmmSpace *space = &core->spaces[id];
    struct unetmm_cmd_space cmd = { .levels = space->levels,
                                    .table = space->table };
    bool live = space->live;

    unetmm_stream_bool(st, &live, "a space's state");
    if (!live) {
        return;
    }
    while (space->live &&
           unetmm_source_by_id(core, cmd.source) != space->source) {
        cmd.source++;
    }
    unetmm_stream_u8(st, &cmd.source);
    unetmm_stream_u8(st, &cmd.levels);
    unetmm_stream_u64(st, &cmd.table);
    /* What SPACE_CREATE checks is what must hold. */
    if (unetmm_stream_reads(st) && !st->wrong &&
        unetmm_space_create(core, id, &cmd) != UNETMM_CS_OK) {
        unetmm_stream_refuse(st, "space %u could not have been created", id);
    }
    unetmm_state_event_counters(st, core, id);
}

static void state_counters(UnetmmStream *st, UnetmmCore *core)
{
    state_constant(st, UNETMM_NUM_COUNTERS, "the number of counters");
    for (unsigned i = 0; i < UNETMM_NUM_COUNTERS; i++) {
        unetmm_stream_u64(st, &core->counters[i]);
    }
}

/* Who is told, first come first served; some owe nothing any more. */
static void state_tell(UnetmmStream *st, UnetmmCore *core)
{
    uint32_t n = core->params.endpoints;
    uint32_t used = unetmm_stream_choice(st, core->tell_used, n + 1,
                                         "the list of endpoints to notify");

    for (uint32_t i = 0; i < used && !st->wrong; i++) {
        uint16_t *slot = &core->tell[(core->tell_first + i) % n];

        *slot = unetmm_stream_choice(st, *slot, n, "an endpoint to notify");
        if (!unetmm_stream_reads(st)) {
            continue;
        }
        if (core->eps[*slot].telling) {
            unetmm_stream_refuse(st, "endpoint %u is to be notified twice",
                                 *slot);
            return;
        }
        core->eps[*slot].telling = true;
        core->tell_used++;
    }
}

/* Whose turn it is: the order is state of its own. */
static void state_turns(UnetmmStream *st, UnetmmCore *core)
{
    uint32_t n = core->params.endpoints;
    uint32_t used = unetmm_stream_choice(st, core->ready_used, n + 1,
                                         "the list of endpoints to serve");

    for (uint32_t i = 0; i < used && !st->wrong; i++) {
        uint16_t *slot = &core->ready[(core->ready_first + i) % n];

        *slot = unetmm_stream_choice(st, *slot, n, "an endpoint to serve");
        if (!unetmm_stream_reads(st)) {
            continue;
        }
        if (core->eps[*slot].queued) {
            unetmm_stream_refuse(st, "endpoint %u is to be served twice",
                                 *slot);
            return;
        }
        core->eps[*slot].queued = true;
        core->ready_used++;
    }
}

/* The link is the new place's; if it is another one the driver is told. */
static void state_link(UnetmmStream *st, UnetmmCore *core)
{
    bool link = core->port.link;

    unetmm_stream_bool(st, &link, "the link");
    if (link != core->port.link) {
        unetmm_event(core, UNETMM_EVENT_LINK);
    }
}

static void state_all(UnetmmStream *st, UnetmmCore *core)
{
    int64_t now = core->ops->now_ns(core->host);

    state_constant(st, UNETMM_ID_VALUE, "the mark of what was saved");
    state_constant(st, STATE_VERSION, "the version of what was saved");
    state_params(st, core);
    state_counters(st, core);
    state_knobs(st, core);
    state_registers(st, core);
    for (unsigned i = 0; i < UNETMM_NUM_RINGS; i++) {
        state_ring(st, &core->rings[i]);
    }
    state_vectors(st, core, now);
    for (uint32_t i = 0; i < core->params.spaces; i++) {
        state_space(st, core, i);
    }
    unetmm_state_regions(st, core);
    unetmm_state_tlb(st, core, &core->tlb);
    unetmm_state_tlb(st, core, &core->cache);
    unetmm_state_sysbuf(st, core);
    unetmm_state_eps(st, core);
    unetmm_state_slots(st, core);
    unetmm_state_flows(st, core);
    unetmm_state_windows(st, core);
    unetmm_state_proxies(st, core);
    unetmm_state_misses(st, core);
    state_turns(st, core);
    state_tell(st, core);
    unetmm_state_counters_due(st, core);
    core->wire_turn = unetmm_stream_choice(st, core->wire_turn,
                                           core->params.endpoints,
                                           "the next for the wire");
    unetmm_state_port(st, core);
    unetmm_state_landing(st, core);
    state_link(st, core);
    state_constant(st, UNETMM_ID_VALUE, "the end of what was saved");
    if (st->left) {
        unetmm_stream_refuse(st, "what was saved goes on after its end");
    }
}

/* ---- Entry points ------------------------------------------------------- */

GByteArray *unetmm_core_save(UnetmmCore *core)
{
    UnetmmStream st = { .out = g_byte_array_new() };

    assert(core->depth == 0);
    state_all(&st, core);
    return st.out;
}

bool unetmm_core_load(UnetmmCore *core, const void *buf, size_t bytes,
                      char **why)
{
    UnetmmStream st = { .in = buf, .left = bytes };
    UnetmmKnobs knobs = core->knobs;
    uint64_t random = core->random;

    assert(core->depth == 0);
    unetmm_engine_reset(core);
    /* Nobody may be told anything before all is known to be right. */
    state_all(&st, core);
    if (!st.wrong) {
        unetmm_state_check(&st, core);
    }
    if (st.wrong) {
        unetmm_engine_reset(core);
        core->knobs = knobs;
        core->random = random;
        trace_unetmm_load_refused(st.why);
        *why = g_strdup(st.why);
        return false;
    }
    trace_unetmm_load(bytes);
    /* The wire here may have frames, and the timer has to be set. */
    core->was_closed = true;
    core->ops->run_later(core->host);
    return true;
}

/*
 * A frame costs as much as it has bytes, all others less than these; the host
 * uses it to refuse a length before it believes it.
 */
uint64_t unetmm_core_save_limit(const UnetmmCore *core)
{
    const UnetmmParams *p = &core->params;
    uint64_t frames = p->local_queue + p->endpoints + UNETMM_MAX_DELAYED + 2 +
                      p->reliable_keep;
    uint64_t entries = unetmm_tlb_capacity(&core->tlb) +
                       unetmm_tlb_capacity(&core->cache);
    uint64_t ep = 4096 + UNETMM_NUM_COUNTERS * 8 + p->channels * 32ull +
                  UNETMM_EP_MISSES * 64 + p->imports * 32ull +
                  unetmm_state_waiting_limit(core);

    return 65536 + frames * (UNETMM_MAX_FRAME + 64) + entries * 64 +
           p->endpoints * ep +
           p->spaces * (48ull + UNETMM_EVENT_COUNTERS * 9) +
           p->regions * 1024ull +
           p->window_pages * 32ull + p->proxy_pages * 16ull +
           p->flows * 16ull +
           p->window_queue * (UNETMM_MAX_INLINE + 32ull) +
           p->sysbuf_slots * (32ull + UNETMM_SLOT_PIECES * 16) +
           p->reliable * unetmm_state_rel_limit();
}
