/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory of two processes for one-sided operations.
 */
#include "onesided.h"

#include "pattern.h"

#include <stdlib.h>

#define STAMP_BYTES     8u
#define SAY_NS          (250 * NS_PER_MS)
/* In a latency one message is under way, and the next is being made. */
#define LATENCY_PLACES  2u

void one_sided_init(struct one_sided *o, struct session *s)
{
    memset(o, 0, sizeof(*o));
    o->s = s;
    o->op = s->opt->op;
    o->server = s->opt->listen;
    o->import = -1;
}

/* ---- Places and their contents ----------------------------------------- */

uint32_t one_sided_place(const struct one_sided *o, uint32_t seq)
{
    return seq % o->places;
}

size_t one_sided_at(const struct one_sided *o, uint32_t seq)
{
    return (one_sided_place(o, seq) + 1) * o->stride - o->plan.size;
}

static uint32_t stamp_bytes(const struct one_sided *o)
{
    return o->plan.size < STAMP_BYTES ? o->plan.size : STAMP_BYTES;
}

/* Little-endian, and never zero in the bytes that there are. */
static uint64_t stamp(const struct one_sided *o, uint32_t seq)
{
    uint32_t bytes = stamp_bytes(o);

    return 1 + (bytes < 4 ? seq % ((1u << 8 * bytes) - 1) : (uint64_t)seq);
}

static uint64_t message_key(const struct one_sided *o, uint32_t seq,
                            bool reply)
{
    return pattern_key(reply ? ~o->plan.seed : o->plan.seed, seq);
}

void one_sided_fill(struct one_sided *o, uint8_t *memory, uint32_t seq,
                    bool reply)
{
    uint8_t *at = memory + one_sided_at(o, seq);
    uint32_t end = o->plan.size - stamp_bytes(o);
    uint64_t value = unetmm_swap64(stamp(o, seq));

    if (o->plan.verify) {
        pattern_fill(at, end, message_key(o, seq, reply), 0);
    }
    memcpy(at + end, &value, stamp_bytes(o));
}

bool one_sided_arrived(const struct one_sided *o, uint32_t seq)
{
    const uint8_t *end = o->own + one_sided_at(o, seq) + o->plan.size;
    uint32_t bytes = stamp_bytes(o), i;
    uint64_t value = stamp(o, seq);

    /* Bytes written before it must not be read before it. */
    if (bytes == STAMP_BYTES) {
        return __atomic_load_n((const uint64_t *)(const void *)(end - bytes),
                               __ATOMIC_ACQUIRE) == unetmm_swap64(value);
    }
    for (i = 0; i < bytes; i++) {
        if (__atomic_load_n(end - bytes + i, __ATOMIC_ACQUIRE) !=
            (uint8_t)(value >> 8 * i)) {
            return false;
        }
    }
    return true;
}

bool one_sided_right(const struct one_sided *o, const uint8_t *memory,
                     uint32_t seq, bool reply)
{
    const uint8_t *at = memory + one_sided_at(o, seq);
    uint32_t end = o->plan.size - stamp_bytes(o);
    uint64_t value = unetmm_swap64(stamp(o, seq));

    if (!o->plan.verify) {
        return true;
    }
    return !memcmp(at + end, &value, stamp_bytes(o)) &&
        pattern_check(at, end, message_key(o, seq, reply), 0) == end;
}

/* ---- Memory ------------------------------------------------------------ */

/* As many as keep a wire busy, if the TLB holds both sides' pages of them. */
static uint32_t suitable_places(const struct one_sided *o, bool is_bw)
{
    const struct unetmm_info *info = &o->s->info;
    uint32_t pages = (uint32_t)(o->stride / UNETMM_PAGE_BYTES);
    uint32_t fit = info->tlb_sets * info->tlb_ways / 2 / pages;

    if (!is_bw || fit < LATENCY_PLACES) {
        return LATENCY_PLACES;
    }
    return fit < MOST_PLACES ? fit : MOST_PLACES;
}

/* As the next three: false, and said why not. */
static bool allocate(struct one_sided *o)
{
    size_t bytes;
    int ret;

    o->stride = (o->plan.size + UNETMM_PAGE_BYTES - 1) &
                ~(size_t)(UNETMM_PAGE_BYTES - 1);
    /* Both sides must have the same; the client's card decides. */
    if (!o->plan.places) {
        o->plan.places = suitable_places(o, o->s->opt->is_bw);
    }
    o->places = o->plan.places;
    bytes = o->places * o->stride;
    if (posix_memalign(&o->block, UNETMM_PAGE_BYTES, 2 * bytes)) {
        o->block = NULL;
        complain("no memory for %zu bytes: use a smaller --size", 2 * bytes);
        return false;
    }
    memset(o->block, 0, 2 * bytes);
    memset(o->outstanding, 0, sizeof(o->outstanding));
    o->own = o->block;
    o->local = o->own + bytes;
    if (o->s->opt->source == UNETMM_SOURCE_PINNED) {
        ret = unetmm_register(o->s->ctx, o->local, bytes, UNETMM_REGION_WRITE);
        if (ret) {
            complain_call(ret, UNETMM_CALL_REGISTER, "cannot register the buffers");
            return false;
        }
        o->registered = true;
    }
    return true;
}

/* A side that the peer only reads or changes imports nothing from it. */
static bool exports(const struct one_sided *o)
{
    return o->server || o->op->one_way;
}

static bool imports(const struct one_sided *o)
{
    return !o->server || (o->op->one_way && !o->s->opt->is_bw);
}

static bool export_own(struct one_sided *o)
{
    uint32_t i;
    int ret;

    for (i = 0; o->op->rights & UNETMM_RIGHT_READ && i < o->places; i++) {
        one_sided_fill(o, o->own, i, true);
    }
    ret = unetmm_export(o->s->ctx, o->plan.run, o->own, o->places * o->stride,
                        o->op->rights, o->op->notifies ?
                        UNETMM_EXPORT_NOTIFY : 0, 0);
    if (ret) {
        complain_call(ret, UNETMM_CALL_EXPORT, "cannot export memory");
    }
    o->exported = !ret;
    return o->exported;
}

static bool import_peers(struct one_sided *o)
{
    int ret = unetmm_import(o->s->ep, o->s->peer.channel, o->plan.run,
                            o->op->rights, (int64_t)o->s->opt->timeout_ns,
                            NULL);

    if (ret < 0) {
        complain_call(ret, UNETMM_CALL_IMPORT, "cannot import the peer's memory");
        return false;
    }
    o->import = ret;
    ret = o->op->open ? o->op->open(o) : 0;
    if (ret) {
        complain_call(ret, UNETMM_CALL_ONE_SIDED, "cannot map the peer's memory");
    }
    return !ret;
}

/* ---- A run ------------------------------------------------------------- */

void one_sided_begin(struct one_sided *o, const struct plan *plan)
{
    struct control start, started;

    o->plan = *plan;
    if (!allocate(o) || (exports(o) && !export_own(o))) {
        exit(EXIT_FAILURE);
    }
    plan_to_control(&o->plan, &start);
    if (!session_request(o->s, &start, CONTROL_STARTED, &started,
                         o->s->opt->timeout_ns)) {
        fail("the peer accepted but does not answer");
    }
    session_check_op(o->s, &started);
    if (!import_peers(o)) {
        exit(EXIT_FAILURE);
    }
    o->running = true;
}

bool one_sided_answer(struct one_sided *o, const struct control *start)
{
    struct plan plan = { 0 };

    if (!plan_from_control(&plan, start)) {
        return false;
    }
    if (plan.op == o->op->number &&
        !(o->running && plan.run == o->plan.run)) {
        one_sided_settle(o);
        one_sided_end(o);
        if (plan.size > o->op->most || !plan.places || plan.places > MOST_PLACES) {
            complain("the peer asks for %u messages of %u bytes at a time: is it "
                     "of the same version?", plan.places, plan.size);
            return false;
        }
        o->plan = plan;
        if (!allocate(o) || !export_own(o) || (imports(o) && !import_peers(o))) {
            return false;
        }
        o->running = true;
    }
    session_started(o->s, &plan);
    return true;
}

static void unmap(struct one_sided *o, void **window)
{
    if (*window) {
        unetmm_window_close(o->s->ep, *window);
        *window = NULL;
    }
}

void one_sided_end(struct one_sided *o)
{
    unmap(o, &o->window);
    unmap(o, &o->proxy);
    if (o->import >= 0) {
        unetmm_unimport(o->s->ep, (unsigned)o->import);
        o->import = -1;
    }
    if (o->exported) {
        unetmm_unexport(o->s->ctx, o->plan.run);
        o->exported = false;
    }
    if (o->registered) {
        unetmm_deregister(o->s->ctx, o->local, o->places * o->stride);
        o->registered = false;
    }
    free(o->block);
    o->block = NULL;
    o->running = false;
}

/* ---- Operations -------------------------------------------------------- */

void one_sided_done(struct one_sided *o, const struct event *event)
{
    uint32_t *outstanding = &o->outstanding[event->number % MOST_PLACES];

    /* One that was to be quiet is heard of if it fails, and is not counted. */
    *outstanding -= *outstanding > 0;
    o->old = event->old;
}

/* Takes one event when something has to wait.  False: session_room() */
static bool make_room(struct one_sided *o, uint64_t *since)
{
    struct event event;
    bool room = session_room(o->s, &event, since);

    if (event.type == EVENT_DONE) {
        one_sided_done(o, &event);
    }
    return room;
}

void one_sided_await_place(struct one_sided *o, uint32_t seq)
{
    uint64_t since = 0;

    while (o->outstanding[one_sided_place(o, seq)] && make_room(o, &since)) {
    }
}

void one_sided_settle(struct one_sided *o)
{
    uint32_t i;

    for (i = 0; o->running && i < o->places; i++) {
        one_sided_await_place(o, i);
    }
}

void one_sided_start(struct one_sided *o, uint32_t seq)
{
    uint64_t since = 0;

    while (!o->op->start(o, seq, false) && make_room(o, &since)) {
    }
}

void one_sided_say(struct one_sided *o)
{
    const struct control alive = {
        .type = CONTROL_ALIVE, .run = (uint16_t)o->plan.run,
    };
    uint64_t now = now_ns();

    if (now - o->said_ns >= SAY_NS) {
        o->said_ns = now;
        session_control(o->s, &alive);
    }
}
