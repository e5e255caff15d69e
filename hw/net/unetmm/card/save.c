/*
 * unetmm: saving and restoring the card: the head of the stream, the modules in
 * the order of their table (card/tables.c), and the entry points
 *
 * The card's parameters (UnetmmParams) come first and must be the same in both
 * places.  A stream that is refused leaves the card as after a reset.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../port/port.h"
#include "../ring/ring.h"
#include "core.h"

#define STATE_VERSION   20

/* ---- Constants that must be equal --------------------------------------- */

static void constant_save(UnetmmStream *st, uint64_t mine, const char *name)
{
    uint64_t theirs = mine;

    unetmm_stream_u64(st, &theirs, name);
    if (theirs != mine) {
        unetmm_stream_refuse(st, "%s is %" PRIu64 " here and was %" PRIu64
                             " there", name, mine, theirs);
    }
}

static const struct {
    const char *name;           /* of the property */
    size_t offset;
} words[] = {
#define WORD(name, field) { name, offsetof(UnetmmParams, field) }
    WORD("endpoints", endpoints),
    WORD("spaces", spaces),
    WORD("channels", channels),
    WORD("tlb-sets", tlb_sets),
    WORD("tlb-ways", tlb_ways),
    WORD("tlb-victims", tlb_victims),
    WORD("tlb-index", tlb_index),
    WORD("tlb-replace", tlb_replace),
    WORD("cache-entries", cache_entries),
    WORD("cache-ways", cache_ways),
    WORD("utlb-fetch", utlb_fetch),
    WORD("pretranslate", pretranslate),
    WORD("fault-batch", fault_batch),
    WORD("max-faults", max_faults),
    WORD("user-mtu", user_mtu),
    WORD("local-queue", local_queue),
    WORD("reliable-channels", reliable),
    WORD("reliable-keep", reliable_keep),
    WORD("regions", regions),
    WORD("imports", imports),
    WORD("window-pages", window_pages),
    WORD("window-queue", window_queue),
    WORD("proxy-pages", proxy_pages),
    WORD("sysbuf-slots", sysbuf_slots),
    WORD("flows", flows),
    WORD("backup-bits", backup_bits),
    WORD("congestion", congestion),
    WORD("congestion-window", congestion_window),
    WORD("congestion-trip-ns", congestion_trip_ns),
#undef WORD
};

static void mac_save(UnetmmStream *st, const UnetmmCore *core)
{
    const uint8_t *mine = core->params.mac;
    uint8_t mac[6];

    memcpy(mac, mine, sizeof(mac));
    unetmm_stream_bytes(st, mac, sizeof(mac), "mac");
    if (memcmp(mac, mine, sizeof(mac))) {
        unetmm_stream_refuse(st, "mac is another one here than there, where "
                             "it was %02x:%02x:%02x:%02x:%02x:%02x", mac[0],
                             mac[1], mac[2], mac[3], mac[4], mac[5]);
    }
}

/*
 * The params must be the same in both places: all but the budgets, which are
 * the place's.  The same values make a card of the stream that is read.
 */
static void params_save(UnetmmStream *st, const UnetmmCore *core)
{
    unetmm_stream_enter(st, "params", UNETMM_STREAM_ONE);
    for (unsigned i = 0; i < G_N_ELEMENTS(words); i++) {
        uint32_t mine;

        memcpy(&mine, (const char *)&core->params + words[i].offset,
               sizeof(mine));
        constant_save(st, mine, words[i].name);
    }
    constant_save(st, core->params.dma_page_ns, "x-dma-page-ns");
    mac_save(st, core);
    unetmm_stream_leave(st);
}

static void params_read(UnetmmStream *st, UnetmmParams *params)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(words); i++) {
        uint64_t value = 0;
        uint32_t word;

        unetmm_stream_u64(st, &value, words[i].name);
        word = MIN(value, UINT32_MAX);
        memcpy((char *)params + words[i].offset, &word, sizeof(word));
    }
    unetmm_stream_u64(st, &params->dma_page_ns, "x-dma-page-ns");
    unetmm_stream_bytes(st, params->mac, sizeof(params->mac), "mac");
}

/* ---- All ---------------------------------------------------------------- */

/* The link is the new place's; if it is another one the driver is told. */
static void link_save(UnetmmStream *st, UnetmmCore *core)
{
    bool link = core->port->link;

    unetmm_stream_bool(st, &link, "link");
    if (link != core->port->link) {
        unetmm_event(core, UNETMM_EVENT_LINK);
    }
}

static void all_save(UnetmmStream *st, UnetmmCore *core)
{
    constant_save(st, UNETMM_ID_VALUE, "mark");
    constant_save(st, STATE_VERSION, "version");
    params_save(st, core);
    constant_save(st, UNETMM_NUM_COUNTERS, "ncounters");
    unetmm_stream_counters(st, core->counters);
    for (unsigned i = 0; core->tables->modules[i]; i++) {
        const UnetmmModule *module = core->tables->modules[i];

        if (module->save) {
            module->save(st, core);
        }
    }
    link_save(st, core);
    constant_save(st, UNETMM_ID_VALUE, "end");
    if (st->left) {
        unetmm_stream_refuse(st, "the saved state goes on after its end");
    }
}

/* Each module has read its own; these are the rules that join them. */
static void all_check(UnetmmStream *st, UnetmmCore *core)
{
    for (unsigned i = 0; core->tables->modules[i]; i++) {
        const UnetmmModule *module = core->tables->modules[i];

        if (module->check) {
            module->check(st, core);
        }
    }
}

/* ---- Entry points ------------------------------------------------------- */

void unetmm_core_observe(UnetmmCore *core, const UnetmmObserver *observer)
{
    core->observer = observer;
}

GByteArray *unetmm_core_save(UnetmmCore *core)
{
    UnetmmStream st = { .out = g_byte_array_new(),
                        .observer = core->observer, .params = &core->params,
                        .now = core->ops->now_ns(core->host) };

    assert(core->engine.depth == 0);
    all_save(&st, core);
    return st.out;
}

const char *unetmm_core_saved_params(const void *buf, size_t bytes,
                                     UnetmmParams *params)
{
    UnetmmStream st = { .in = buf, .left = bytes };
    uint64_t mark = 0, version = 0;

    unetmm_stream_u64(&st, &mark, "mark");
    unetmm_stream_u64(&st, &version, "version");
    params_read(&st, params);
    if (mark != UNETMM_ID_VALUE) {
        return "these are not the bytes that a card has saved";
    }
    if (version != STATE_VERSION) {
        return "a card of another version has saved this";
    }
    return st.wrong ? "the saved state ends too early" :
           unetmm_params_check(params);
}

bool unetmm_core_load(UnetmmCore *core, const void *buf, size_t bytes,
                      char **why)
{
    UnetmmStream st = { .in = buf, .left = bytes,
                        .observer = core->observer, .params = &core->params,
                        .now = core->ops->now_ns(core->host) };
    UnetmmKnobs knobs = core->knobs;
    uint64_t random = core->random;

    assert(core->engine.depth == 0);
    unetmm_engine_reset(core);
    /* Notify nobody until every check has passed. */
    all_save(&st, core);
    if (!st.wrong) {
        all_check(&st, core);
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
    core->engine.was_closed = true;
    core->ops->run_later(core->host);
    return true;
}

/* The host uses it to refuse a length before it believes it. */
uint64_t unetmm_core_save_limit(const UnetmmCore *core)
{
    uint64_t limit = 65536;

    for (unsigned i = 0; core->tables->modules[i]; i++) {
        const UnetmmModule *module = core->tables->modules[i];

        if (module->save_limit) {
            limit += module->save_limit(core);
        }
    }
    return limit;
}
