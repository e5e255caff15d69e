/*
 * unetmm: the bounds of saved values
 *
 * The range of a number in a stream follows from the specification and from
 * the card's parameters: the table has both.  Each value that is met in a
 * stream is replaced by the largest number that it may be, and by the next
 * one.  The card must refuse the latter, and not the former: that may
 * contradict other values, but is in range.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "bounds.h"
#include "reliable/reliable.h"

#define UNKNOWN     UINT64_MAX

typedef struct Bound {
    const char *path;           /* without numbers */
    uint64_t most;
} Bound;

typedef struct Field {
    char path[UNETMM_STREAM_PATH];
    size_t at, bytes;
    uint64_t most;
    bool time;
} Field;

/* Bounds by the card's parameters. */
static uint64_t most_of_params(const UnetmmCore *core, const char *path)
{
    const UnetmmParams *p = &core->params;
    uint32_t tlb = (p->tlb_sets * p->tlb_ways) + p->tlb_victims;
    uint32_t misses = unetmm_misses(core);
    const Bound bounds[] = {
        { "ready_used", p->endpoints },
        { "ready", p->endpoints - 1 },
        { "tell_used", p->endpoints },
        { "tell", p->endpoints - 1 },
        { "wire_turn", p->endpoints - 1 },
        { "due_used", p->spaces },
        { "due", p->spaces - 1 },
        { "in_flight_used", misses },
        { "in_flight", misses - 1 },
        { "wanted_used", misses },
        { "wanted", misses - 1 },
        { "miss.leader", misses - 1 },
        { "ep.rels", p->reliable },
        { "ep.rel.slot", p->reliable - 1 },
        { "ep.rel.channel", p->channels - 1 },
        { "ep.send.rel", p->reliable },
        { "landing.rel", p->reliable },
        { "landing.ep", p->endpoints - 1 },
        { "landing.deadline_ns", p->dma_page_ns },
        { "ep.send.deadline_ns", p->dma_page_ns },
        { "proxy.ep", p->endpoints - 1 },
        { "window.ep", p->endpoints - 1 },
        { "registers.inv_going_space", p->spaces - 1 },
        { "sysbuf.n", p->sysbuf_slots },
        { "sysbuf.slot.ep", p->endpoints - 1 },
        { "sysbuf.slot.space", p->spaces - 1 },
        { "port.fifo_used", p->local_queue },
        { "tlb.slot", tlb - 1 },
        { "tlb.used", tlb },
        { "tlb.entry.id", tlb - 1 },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(bounds); i++) {
        if (g_str_equal(bounds[i].path, path)) {
            return bounds[i].most;
        }
    }
    return UNKNOWN;
}

#define LAST_STATUS (UNETMM_NUM_ST - 1)

static const Bound fixed_bounds[] = {
    { "registers.ctrl", UNETMM_CTRL_ENABLE },
    { "registers.events", UNETMM_EVENT_ALL },
    { "registers.event_mask", UNETMM_EVENT_ALL },
    { "registers.status", UNETMM_STATUS_FATAL },
    { "knobs.x-loss", 1000000 },
    { "knobs.x-dup", 1000000 },
    { "knobs.x-corrupt", 1000000 },
    { "knobs.x-reorder", 1000000 },
    { "knobs.x-delay", 1000000 },
    { "knobs.x-lie", 1000000 },
    { "knobs.x-delay-ns", UNETMM_MAX_LATE_NS },
    { "knobs.x-fault-delay-ns", UNETMM_MAX_LATE_NS },
    { "vector.not_before_ns", UINT32_MAX },
    { "miss.state", UNETMM_MISS_CHANGING },
    { "miss.npages", UNETMM_MISS_MAX_PAGES },
    { "miss.late_reply", UNETMM_REPLY_ERROR },
    { "miss.late_status", LAST_STATUS },
    { "miss.due_ns", UNETMM_MAX_LATE_NS },
    { "ep.channel.ended", LAST_STATUS },
    { "ep.end_status", LAST_STATUS },
    { "ep.fail_status", LAST_STATUS },
    { "ep.first_head", UNETMM_MAX_HEADS - 1 },
    { "ep.head.state", UNETMM_HEAD_FAILED },
    { "ep.head.status", LAST_STATUS },
    { "ep.slot_status", LAST_STATUS },
    { "ep.send.state", UNETMM_TX_COMPLETE },
    { "ep.send.blocked_on", UNETMM_BLOCKED_CQ },
    { "ep.send.status", LAST_STATUS },
    { "ep.send.slots", UNETMM_MAX_SLOTS },
    { "ep.send.nsegs", UNETMM_MAX_SEGS },
    { "ep.send.seg", UNETMM_MAX_SEGS - 1 },
    { "ep.taken.len", UNETMM_MAX_PAYLOAD },
    { "ep.taken.channel", UNETMM_MAX_CHANNELS - 1 },
    { "ep.taken.flags", UNETMM_CQE_F_CSUM_OK },
    { "ep.taken.status", LAST_STATUS },
    { "ep.rel.credits", UNETMM_REL_WINDOW },
    { "ep.rel.rx.refused", UNETMM_REL_WANT_READ },
    { "ep.rel.rx.buf_status", LAST_STATUS },
    { "ep.rel.rx.len", UNETMM_MAX_STRICT_MESSAGE },
    { "ep.rel.rx.nresults", 2 * UNETMM_REL_ATOMICS - 1 },
    { "ep.rel.rx.run", UNETMM_MAX_STRICT_MESSAGE },
    { "ep.rel.tx.congestion.fresh", UNETMM_REL_WINDOW },
    { "ep.rel.tx.congestion.silences", 20 },
    { "ep.rel.tx.congestion.window", UNETMM_CONGESTION_MOST },
    { "ep.rel.tx.msgs", UNETMM_REL_MSGS },
    { "ep.rel.tx.flying", UNETMM_REL_WINDOW },
    { "ep.rel.tx.retries", 255 },
    { "ep.rel.tx.when", UNETMM_REL_MAX_TIMEOUT_US * 1000ull },
    { "ep.rel.tx.msg.nsegs", UNETMM_MAX_SEGS },
    { "ep.rel.tx.msg.len", UNETMM_MAX_STRICT_MESSAGE },
    { "ep.rel.tx.msg.status", LAST_STATUS },
    { "ep.rel.tx.msg.flags", UNETMM_SQE_F_ALL },
    { "ep.rel.tx.msg.unasked", UNETMM_REL_START },
    { "ep.rel.stores.due_ns", UNETMM_MAX_COMBINE_NS },
    { "landing.len", UNETMM_MAX_PAYLOAD },
    { "landing.npieces", UNETMM_MAX_PIECES },
    { "landing.piece", UNETMM_MAX_PIECES - 1 },
    { "landing.off", UNETMM_MAX_PAYLOAD - 1 },
    { "landing.cqe.flags", UNETMM_CQE_F_CSUM_OK | UNETMM_CQE_F_IMM },
    { "landing.cqe.opcode", UNETMM_CQE_CONTROL },
    { "port.fifo.bytes", UNETMM_MAX_FRAME },
    { "port.reordered.bytes", UNETMM_MAX_FRAME },
    { "port.reordered.until_ns", UNETMM_HOLD_NS },
    { "port.delayed_used", UNETMM_MAX_DELAYED },
    { "port.delayed.bytes", UNETMM_MAX_FRAME },
    { "port.delayed.due_ns", UNETMM_MAX_LATE_NS },
    { "proxy.kind", UNETMM_PROXY_FROM },
    { "region.landed.n", UNETMM_REDIRECT_LANDED },
    { "region.redirect.spans.n", UNETMM_REDIRECT_LANDED },
    { "region.redirects", UNETMM_REDIRECTS },
    { "sysbuf.slot.state", UNETMM_SLOT_TOLD },
    { "sysbuf.slot.npieces", UNETMM_SLOT_PIECES },
};

static uint64_t most_of(const UnetmmCore *core, const char *path)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(fixed_bounds); i++) {
        if (g_str_equal(fixed_bounds[i].path, path)) {
            return fixed_bounds[i].most;
        }
    }
    return most_of_params(core, path);
}

bool bounds_has_row(const UnetmmCore *core, const char *path)
{
    return most_of(core, path) != UNKNOWN;
}

/* ---- The fields of one stream ------------------------------------------- */

typedef struct Fields {
    const UnetmmCore *core;
    GHashTable *done;           /* paths without numbers */
    GArray *found;
} Fields;

/* The path without its numbers in brackets. */
static char *bare(const char *path)
{
    char *text = g_strdup(path), *to = text;
    bool inside = false;

    for (const char *c = path; *c; c++) {
        inside = *c == '[' || (inside && *c != ']');
        if (!inside && *c != ']') {
            *to++ = *c;
        }
    }
    *to = '\0';
    return text;
}

static void note(void *opaque, const UnetmmValue *value)
{
    Fields *fields = opaque;
    Field field = { .at = value->at, .bytes = value->bytes,
                    .time = value->kind == UNETMM_VALUE_TIME };
    char *path;

    if (value->kind == UNETMM_VALUE_BYTES) {
        return;
    }
    path = bare(value->path);
    field.most = value->kind == UNETMM_VALUE_BOOL ? 1 :
                 most_of(fields->core, path);
    g_strlcpy(field.path, value->path, sizeof(field.path));
    if (g_hash_table_add(fields->done, path) && field.most != UNKNOWN) {
        g_array_append_val(fields->found, field);
    }
}

/* ---- The check ---------------------------------------------------------- */

static bool in_range(UnetmmCore *core, GByteArray *saved, const Field *field,
                     uint64_t number)
{
    g_autofree uint8_t *was = g_memdup2(saved->data + field->at, field->bytes);
    g_autofree char *beyond = field->time ?
        g_strdup_printf("%s is too far ahead", field->path) :
        g_strdup_printf("%s is %" PRIu64 ", which is out of range",
                        field->path, number);
    g_autofree char *why = NULL;

    for (size_t i = 0; i < field->bytes; i++) {
        saved->data[field->at + i] = number >> (8 * i);
    }
    if (unetmm_core_load(core, saved->data, saved->len, &why)) {
        unetmm_core_reset(core);
    }
    memcpy(saved->data + field->at, was, field->bytes);
    return !why || !g_str_equal(why, beyond);
}

void bounds_check(UnetmmCore *core, GByteArray *saved)
{
    static GHashTable *done;
    UnetmmObserver observer = { .value = note };
    Fields fields = { .core = core };
    g_autofree char *why = NULL;

    if (!done) {
        done = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    }
    fields.done = done;
    fields.found = g_array_new(false, false, sizeof(Field));
    observer.opaque = &fields;
    unetmm_core_observe(core, &observer);
    assert_true(unetmm_core_load(core, saved->data, saved->len, &why));
    unetmm_core_observe(core, NULL);
    for (unsigned i = 0; i < fields.found->len; i++) {
        const Field *field = &g_array_index(fields.found, Field, i);

        if (!in_range(core, saved, field, field->most)) {
            fail_msg("%s cannot be %" PRIu64, field->path, field->most);
        }
        if (in_range(core, saved, field, field->most + 1)) {
            fail_msg("%s may be %" PRIu64, field->path, field->most + 1);
        }
    }
    g_array_unref(fields.found);
}
