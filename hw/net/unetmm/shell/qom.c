/*
 * unetmm: properties, their help texts, and the monitor's views
 *
 * Fixed properties become UnetmmParams at realize.  The x- knobs may be set
 * while the card runs (qom-set).  `counters`, `tlb` and `active-endpoints` are
 * read only: qom-get shows them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "hw/qdev-properties.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "../congestion/congestion.h"
#include "../ep/ep.h"
#include "../source/source.h"
#include "shell.h"

static const char *const index_names[] = {
    [UNETMM_TLB_INDEX_ADD] = "add",
    [UNETMM_TLB_INDEX_XOR] = "xor",
};

#define NAME(number, upper, name, help) [number] = #name,
#define LIST(number, upper, name, help) " " #name
static const char *const replace_names[] = { UNETMM_TLB_REPLACEMENTS(NAME) };
static const char *const congestion_names[] = { UNETMM_CONGESTIONS(NAME) };

static bool unetmm_choice(const char *property, const char *value,
                          const char *const *names, unsigned n,
                          uint32_t *choice, Error **errp)
{
    g_autoptr(GString) list = g_string_new(names[0]);

    for (unsigned i = 0; i < n; i++) {
        if (!value || !strcmp(value, names[i])) {
            *choice = i;
            return true;
        }
    }
    for (unsigned i = 1; i < n; i++) {
        g_string_append_printf(list, "%s%s", i < n - 1 ? ", " : " or ",
                               names[i]);
    }
    error_setg(errp, "unetmm: %s must be %s", property, list->str);
    return false;
}

bool unetmm_properties_check(UnetmmState *s, UnetmmCosts *costs, Error **errp)
{
    g_autofree char *costs_wrong = NULL;
    const char *wrong;

    memcpy(s->params.mac, s->conf.macaddr.a, sizeof(s->params.mac));
    if (!unetmm_choice("tlb-index", s->tlb_index, index_names,
                       G_N_ELEMENTS(index_names), &s->params.tlb_index,
                       errp) ||
        !unetmm_choice("tlb-replace", s->tlb_replace, replace_names,
                       G_N_ELEMENTS(replace_names), &s->params.tlb_replace,
                       errp) ||
        !unetmm_choice("congestion", s->congestion, congestion_names,
                       G_N_ELEMENTS(congestion_names), &s->params.congestion,
                       errp)) {
        return false;
    }
    wrong = unetmm_params_check(&s->params);
    if (wrong) {
        error_setg(errp, "unetmm: %s", wrong);
        return false;
    }
    costs_wrong = unetmm_costs_parse(costs, s->timing_text ?: "");
    if (costs_wrong) {
        error_setg(errp, "unetmm: %s", costs_wrong);
        return false;
    }
    return true;
}

#define UNETMM_PROP(name, field, value) \
    DEFINE_PROP_UINT32(name, UnetmmState, params.field, value)

static const Property unetmm_properties[] = {
    DEFINE_NIC_PROPERTIES(UnetmmState, conf),
    UNETMM_PROP("endpoints", endpoints, 256),
    UNETMM_PROP("spaces", spaces, 128),
    UNETMM_PROP("channels", channels, 1024),
    UNETMM_PROP("tlb-sets", tlb_sets, 1024),
    UNETMM_PROP("tlb-ways", tlb_ways, 1),
    UNETMM_PROP("tlb-victims", tlb_victims, 16),
    DEFINE_PROP_STRING("tlb-index", UnetmmState, tlb_index),
    DEFINE_PROP_STRING("tlb-replace", UnetmmState, tlb_replace),
    UNETMM_PROP("cache-entries", cache_entries, 1024),
    UNETMM_PROP("cache-ways", cache_ways, 4),
    UNETMM_PROP("utlb-fetch", utlb_fetch, 8),
    UNETMM_PROP("pretranslate", pretranslate, 8),
    UNETMM_PROP("fault-batch", fault_batch, 16),
    UNETMM_PROP("max-faults", max_faults, 64),
    UNETMM_PROP("user-mtu", user_mtu, UNETMM_DEFAULT_MTU),
    UNETMM_PROP("local-queue", local_queue, 256),
    UNETMM_PROP("reliable-channels", reliable, 2048),
    UNETMM_PROP("reliable-keep", reliable_keep, 256),
    UNETMM_PROP("regions", regions, 4096),
    UNETMM_PROP("imports", imports, 1024),
    UNETMM_PROP("window-pages", window_pages, 256),
    UNETMM_PROP("window-queue", window_queue, 16384),
    UNETMM_PROP("proxy-pages", proxy_pages, 256),
    UNETMM_PROP("sysbuf-slots", sysbuf_slots, 256),
    UNETMM_PROP("flows", flows, 256),
    UNETMM_PROP("backup-bits", backup_bits, 4096),
    DEFINE_PROP_STRING("congestion", UnetmmState, congestion),
    UNETMM_PROP("congestion-window", congestion_window, 16),
    UNETMM_PROP("congestion-trip-ns", congestion_trip_ns, 100000),
    UNETMM_PROP("budget-descriptors", budget_descriptors, 64),
    UNETMM_PROP("budget-bytes", budget_bytes, 1 << 20),
    DEFINE_PROP_UINT64("x-dma-page-ns", UnetmmState, params.dma_page_ns, 0),
    DEFINE_PROP_STRING("timing", UnetmmState, timing_text),
};

static const struct {
    const char *name;
    const char *help;
} unetmm_help[] = {
    { "mac", "the card's address; give each card on a wire its own" },
    { "netdev", "id of the -netdev that is the wire" },
    { "endpoints", "endpoints, the driver's own included, 2..1024" },
    { "spaces", "address spaces, the driver's own included, 2..1024" },
    { "channels", "channels of each endpoint, 1..1024" },
    { "tlb-sets", "sets of the TLB, a power of two up to 1048576" },
    { "tlb-ways", "ways of a set, 1..64; 1 is direct-mapped" },
    { "tlb-victims", "victims behind the sets, FIFO, 0..1024" },
    { "tlb-index", "how a page finds its set: add (vpn + space * odd; default) "
      "or xor" },
    { "tlb-replace", "which way of a set goes first; one of these, or the "
      "first:" UNETMM_TLB_REPLACEMENTS(LIST) },
    { "cache-entries", "entry cache for tables in host memory, a power of two, "
      "64..1048576" },
    { "cache-ways", "ways of a set of this cache, least recently used first, a "
      "power of two, 1..16" },
    { "utlb-fetch", "entries that a miss of source utlb fetches, neighbours "
      "included, a power of two, 1..32" },
    { "pretranslate", "heads of a free queue asked for ahead, 1..16" },
    { "fault-batch", "pages that a send asks for in one miss, 1..512" },
    { "max-faults", "misses reported and not yet answered, 1..16384" },
    { "user-mtu", "payload bytes of a frame between user endpoints, "
      "256..65536" },
    { "local-queue", "frames that wait for the receive side, 1..4096" },
    { "reliable-channels", "reliable channels of all endpoints together, "
      "0..4096" },
    { "reliable-keep", "their packets kept that came before their turn, "
      "0..4096; a channel may have half of the places that others leave" },
    { "regions", "ranges of memory exported to peers, 0..65536" },
    { "imports", "of them that each endpoint may use of peers, 0..1024" },
    { "window-pages", "pages for automatic update, 0..65536; 0: no BAR 4" },
    { "window-queue", "packets of stores that wait for their channels, "
      "beside one of each channel, 1..1048576; an endpoint may have half of "
      "the places that others leave" },
    { "proxy-pages",
      "pages for user-level DMA start, 0..65536; 0: no BAR 1" },
    { "sysbuf-slots", "packets of the system buffer (redirect), 0..4096" },
    { "flows", "flows of raw Ethernet endpoints, 0..4096; 0: no Ethernet" },
    { "backup-bits", "packets that one endpoint may have in the backup ring, "
      "0..4096" },
    { "congestion", "how many packets of a reliable channel may fly; one of "
      "these, or the first:" UNETMM_CONGESTIONS(LIST) },
    { "congestion-window", "packets of a channel that fly at first, with a "
      "congestion control, 1..64" },
    { "congestion-trip-ns", "round trip at which congestion=delay aims; more "
      "than one without a queue, 0..1000000000" },
    { "budget-descriptors", "descriptors handled before the vCPU is let go, "
      "1..65536" },
    { "budget-bytes", "bytes moved before the vCPU is let go, "
      "65536..1073741824" },
    { "x-dma-page-ns", "time that one page's DMA takes on the virtual clock, "
      "0..1000000000" },
    { "timing", "costs of the card's steps, NAME=PICOSECONDS:NAME=...; without "
      "it the card takes no time (docs/specs/unetmm.rst, Time)" },
};

/* ---- Knobs that may be set while the card runs -------------------------- */

static const struct UnetmmKnob {
    const char *name;
    size_t offset;
    uint32_t least, most;
    uint32_t first;             /* its default */
    const char *help;
} unetmm_knobs[] = {
#define KNOB(name, field, help) \
    { name, offsetof(UnetmmKnobs, field), 0, 1000000, 0, help }
#define KNOB_NS(name, field, first, help) \
    { name, offsetof(UnetmmKnobs, field), 1, UNETMM_MAX_LATE_NS, first, help }
    KNOB("x-loss", loss, "frames lost, per million"),
    KNOB("x-dup", dup, "frames sent twice, per million"),
    KNOB("x-reorder", reorder, "frames that the next one overtakes, per "
         "million"),
    KNOB("x-corrupt", corrupt, "frames with one bit turned, per million; "
         "payloads get a checksum"),
    KNOB("x-force-miss", force_miss, "translations evicted when looked up, "
         "per million"),
    KNOB("x-force-evict", force_evict, "lookups that evict another "
         "translation, per million"),
    KNOB("x-delay", delay, "frames that go late, and those behind them with "
         "them, per million"),
    KNOB_NS("x-delay-ns", delay_ns, 1000000, "the most that x-delay makes a "
            "frame late, ns, evenly from 1 on (1000000)"),
    KNOB("x-fault-delay", fault_delay, "answers to misses that come late, per "
         "million"),
    KNOB_NS("x-fault-delay-ns", fault_delay_ns, 1000000, "the most that "
            "x-fault-delay makes an answer late, ns, evenly from 1 on "
            "(1000000)"),
    KNOB("x-fault-fail", fault_fail, "answers with pages that come to the "
         "error LIMIT, no page taken, per million"),
    KNOB("x-fault-refuse", fault_refuse, "answers of whose pages only the "
         "first few or none are taken, per million"),
    KNOB("x-lie", lie, "completions for the driver itself with one bit turned, "
         "per million"),
#undef KNOB
#undef KNOB_NS
};

static uint32_t *unetmm_knob_at(UnetmmKnobs *knobs, const void *opaque)
{
    const struct UnetmmKnob *knob = opaque;

    return (uint32_t *)((char *)knobs + knob->offset);
}

static void unetmm_knob_get(Object *obj, Visitor *v, const char *name,
                            void *opaque, Error **errp)
{
    visit_type_uint32(v, name, unetmm_knob_at(&UNETMM(obj)->knobs, opaque),
                      errp);
}

static void unetmm_knob_set(Object *obj, Visitor *v, const char *name,
                            void *opaque, Error **errp)
{
    const struct UnetmmKnob *knob = opaque;
    UnetmmState *s = UNETMM(obj);
    uint32_t value;

    if (!visit_type_uint32(v, name, &value, errp)) {
        return;
    }
    if (value < knob->least || value > knob->most) {
        error_setg(errp, "unetmm: %s must be %u..%u", name, knob->least,
                   knob->most);
        return;
    }
    *unetmm_knob_at(&s->knobs, opaque) = value;
    *unetmm_knob_at(&s->core.knobs, opaque) = value;
}

void unetmm_knobs_init(UnetmmKnobs *knobs)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(unetmm_knobs); i++) {
        *unetmm_knob_at(knobs, &unetmm_knobs[i]) = unetmm_knobs[i].first;
    }
}

static void unetmm_seed_get(Object *obj, Visitor *v, const char *name,
                            void *opaque, Error **errp)
{
    visit_type_uint64(v, name, &UNETMM(obj)->knobs.seed, errp);
}

static void unetmm_seed_set(Object *obj, Visitor *v, const char *name,
                            void *opaque, Error **errp)
{
    UnetmmState *s = UNETMM(obj);

    if (visit_type_uint64(v, name, &s->knobs.seed, errp)) {
        unetmm_core_set_seed(&s->core, s->knobs.seed);
    }
}

/* ---- The monitor's views ------------------------------------------------ */

static bool unetmm_visit_u64(Visitor *v, const char *name, uint64_t value)
{
    return visit_type_uint64(v, name, &value, &error_abort);
}

static void unetmm_visit_counters(Visitor *v, const uint64_t *counters)
{
#define VISIT(name, scope, help) \
    unetmm_visit_u64(v, #name, counters[UNETMM_C_##name]);
    UNETMM_COUNTERS(VISIT)
#undef VISIT
}

static void unetmm_counters_get(Object *obj, Visitor *v, const char *name,
                                void *opaque, Error **errp)
{
    if (visit_start_struct(v, name, NULL, 0, errp)) {
        unetmm_visit_counters(v, UNETMM(obj)->core.counters);
        visit_end_struct(v, NULL);
    }
}

static void unetmm_timing_get(Object *obj, Visitor *v, const char *name,
                              void *opaque, Error **errp)
{
    const UnetmmTiming *t = &UNETMM(obj)->timing;

    if (visit_start_struct(v, name, NULL, 0, errp)) {
        unetmm_visit_u64(v, "waiting", t->effects.length);
        unetmm_visit_u64(v, "overruns", t->overruns);
        unetmm_visit_u64(v, "refused", t->refused);
        visit_end_struct(v, NULL);
    }
}

static void unetmm_tlb_get(Object *obj, Visitor *v, const char *name,
                           void *opaque, Error **errp)
{
    const UnetmmSources *source = UNETMM(obj)->core.source;
    const UnetmmTlb *tlb;

    if (!source) {
        error_setg(errp, "the card is not realized");
        return;
    }
    if (!visit_start_list(v, name, NULL, 0, errp)) {
        return;
    }
    tlb = &source->tlb;
    for (uint32_t i = 0; i < unetmm_tlb_capacity(tlb); i++) {
        const UnetmmTlbEntry *e = &tlb->entries[tlb->slot[i]];

        if (!e->valid && !e->dying) {
            continue;
        }
        visit_start_struct(v, NULL, NULL, 0, &error_abort);
        unetmm_visit_u64(v, "slot", i);
        unetmm_visit_u64(v, "victim", i >= tlb->sets * tlb->ways);
        unetmm_visit_u64(v, "space", e->space);
        unetmm_visit_u64(v, "vaddr", e->vpn << UNETMM_PAGE_SHIFT);
        unetmm_visit_u64(v, "dma", e->pte & UNETMM_PTE_ADDR);
        unetmm_visit_u64(v, "writable", !!(e->pte & UNETMM_PTE_WRITE));
        unetmm_visit_u64(v, "busy", e->busy);
        unetmm_visit_u64(v, "dying", e->dying);
        unetmm_visit_u64(v, "tag", e->tag);
        visit_end_struct(v, NULL);
    }
    visit_end_list(v, NULL);
}

static void unetmm_visit_endpoint(Visitor *v, const UnetmmEp *ep)
{
    unetmm_visit_u64(v, "id", ep->id);
    unetmm_visit_u64(v, "space", ep->space);
    unetmm_visit_u64(v, "stopped", ep->error);
    unetmm_visit_u64(v, "sq-prod", ep->sq_prod);
    unetmm_visit_u64(v, "sq-cons", ep->sq_cons);
    unetmm_visit_u64(v, "fq-prod", ep->fq_prod);
    unetmm_visit_u64(v, "fq-cons", ep->fq_cons);
    unetmm_visit_u64(v, "fq-of", ep->queue->id);
    unetmm_visit_u64(v, "cq-prod", ep->cq_prod);
    unetmm_visit_u64(v, "cq-cons", ep->cq_cons);
    unetmm_visit_u64(v, "heads", ep->nheads);
    unetmm_visit_u64(v, "send-state", ep->tx.state);
    unetmm_visit_u64(v, "send-blocked-on", ep->tx.blocked_on);
    visit_start_struct(v, "counters", NULL, 0, &error_abort);
    unetmm_visit_counters(v, ep->counters);
    visit_end_struct(v, NULL);
}

static void unetmm_endpoints_get(Object *obj, Visitor *v, const char *name,
                                 void *opaque, Error **errp)
{
    UnetmmCore *core = &UNETMM(obj)->core;

    if (!core->eps) {
        error_setg(errp, "the card is not realized");
        return;
    }
    if (!visit_start_list(v, name, NULL, 0, errp)) {
        return;
    }
    for (uint32_t i = 0; i < core->params.endpoints; i++) {
        if (core->eps[i].live) {
            visit_start_struct(v, NULL, NULL, 0, &error_abort);
            unetmm_visit_endpoint(v, &core->eps[i]);
            visit_end_struct(v, NULL);
        }
    }
    visit_end_list(v, NULL);
}

static void unetmm_class_show(ObjectClass *class, const char *name,
                              const char *type, ObjectPropertyAccessor *get,
                              const char *help)
{
    object_class_property_add(class, name, type, get, NULL, NULL, NULL);
    object_class_property_set_description(class, name, help);
}

void unetmm_class_properties(ObjectClass *class)
{
    device_class_set_props(DEVICE_CLASS(class), unetmm_properties);
    for (unsigned i = 0; i < G_N_ELEMENTS(unetmm_help); i++) {
        object_class_property_set_description(class, unetmm_help[i].name,
                                              unetmm_help[i].help);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(unetmm_knobs); i++) {
        object_class_property_add(class, unetmm_knobs[i].name, "uint32",
                                  unetmm_knob_get, unetmm_knob_set, NULL,
                                  (void *)&unetmm_knobs[i]);
        object_class_property_set_description(class, unetmm_knobs[i].name,
                                              unetmm_knobs[i].help);
    }
    object_class_property_add(class, "x-seed", "uint64", unetmm_seed_get,
                              unetmm_seed_set, NULL, NULL);
    object_class_property_set_description(class, "x-seed",
        "seed of all x- rates; the same seed gives the same run");
    unetmm_class_show(class, "counters", "UnetmmCounters", unetmm_counters_get,
                      "read only: everything that the card has counted");
    unetmm_class_show(class, "timing-state", "UnetmmTiming",
                      unetmm_timing_get, "read only: effects that wait for "
                      "their time, times that the card had to catch up, "
                      "effects that bus or wire refused");
    unetmm_class_show(class, "tlb", "UnetmmTlb", unetmm_tlb_get,
                      "read only: the translations in the TLB");
    unetmm_class_show(class, "active-endpoints", "UnetmmEndpoints",
                      unetmm_endpoints_get,
                      "read only: the endpoints that exist");
}
