/*
 * unetmm: the Ethernet port: frames out, the local queue, and misbehaviour on
 * request
 *
 * A frame for the card's own address never reaches the wire: it waits in a
 * bounded queue for the receive side and passes the same checks there, never by
 * recursion.  Checksums are written here, so that a frame damaged on request
 * was right before.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../abi/unetmm_le.h"
#include "port.h"

static void port_create(UnetmmCore *core)
{
    core->port = g_new0(UnetmmPort, 1);
    core->port->fifo = g_new0(UnetmmQueued, core->params.local_queue);
    core->port->pool = g_ptr_array_new_with_free_func(g_free);
}

/* Ends the frames of the local queue; the net layer's own is the host's. */
static void port_reset(UnetmmCore *core)
{
    UnetmmPort *port = core->port;

    core->counters[UNETMM_C_drop_reset] += port->fifo_used;
    while (port->fifo_used) {
        unetmm_port_release(core, port->fifo[port->fifo_first].frame);
        port->fifo_first = (port->fifo_first + 1) % core->params.local_queue;
        port->fifo_used--;
    }
    core->port->wire_turn = 0;
}

static void port_free(UnetmmCore *core)
{
    g_free(core->port->fifo);
    g_ptr_array_unref(core->port->pool);
    g_clear_pointer(&core->port, g_free);
}

/*
 * The queues can hold thousands of frames for a moment.  The pool is for those
 * that are used all the time; buffers beyond it are freed at once.
 */
uint8_t *unetmm_port_buffer(UnetmmCore *core)
{
    GPtrArray *pool = core->port->pool;

    if (pool->len) {
        return g_ptr_array_steal_index_fast(pool, pool->len - 1);
    }
    return g_malloc(UNETMM_MAX_FRAME);
}

void unetmm_port_release(UnetmmCore *core, uint8_t *frame)
{
    GPtrArray *pool = core->port->pool;

    if (!frame) {
        return;
    }
    if (pool->len < UNETMM_POOL_FRAMES) {
        g_ptr_array_add(pool, frame);
    } else {
        g_free(frame);
    }
}

/* Can a frame be given to the wire now? */
bool unetmm_port_ready(const UnetmmCore *core)
{
    return !core->port->busy && !core->engine.paused && unetmm_delay_room(core);
}

bool unetmm_port_local(const UnetmmCore *core, const uint8_t *frame)
{
    return !memcmp(frame, core->params.mac, sizeof(core->params.mac));
}

bool unetmm_port_open(const UnetmmCore *core, const uint8_t *frame)
{
    if (unetmm_port_local(core, frame)) {
        return !core->engine.paused &&
               core->port->fifo_used < core->params.local_queue;
    }
    return !core->engine.paused && !core->port->busy;
}

void unetmm_port_keep(UnetmmCore *core, uint8_t *frame, uint32_t bytes,
                      uint16_t from, uint16_t only)
{
    UnetmmPort *port = core->port;
    uint32_t n = core->params.local_queue;

    if (port->fifo_used == n) {
        core->counters[UNETMM_C_drop_local_full]++;
        unetmm_port_release(core, frame);
        return;
    }
    port->fifo[(port->fifo_first + port->fifo_used++) % n] =
        (UnetmmQueued) { frame, bytes, from, only };
}

/* Frames for this endpoint alone are for none any more. */
static void port_ep_close(UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmPort *port = core->port;

    for (uint32_t i = 0; i < port->fifo_used; i++) {
        UnetmmQueued *q = &port->fifo[(port->fifo_first + i) %
                                      core->params.local_queue];

        if (q->only == unetmm_user(ep)->id) {
            q->only = UNETMM_EP_GONE;
        }
        if (q->from == unetmm_user(ep)->id) {
            q->from = UNETMM_EP_GONE;
        }
    }
}

UnetmmSent unetmm_port_emit(UnetmmCore *core, uint8_t *frame, uint32_t bytes)
{
    UnetmmSent sent;

    /* A raw endpoint's frame has been kept already if it is to stay. */
    if (unetmm_eth_ours(frame) && unetmm_port_local(core, frame)) {
        core->counters[UNETMM_C_local_frames]++;
        unetmm_spend(core, UNETMM_STEP_LOCAL, bytes);
        unetmm_port_keep(core, frame, bytes, UNETMM_NO_EP, UNETMM_NO_EP);
        return UNETMM_SENT_DONE;
    }
    sent = core->ops->send(core->host, frame, bytes);
    if (sent == UNETMM_SENT_QUEUED) {
        core->port->busy++;
    } else if (sent == UNETMM_SENT_REFUSED) {
        core->counters[UNETMM_C_drop_refused]++;
    }
    trace_unetmm_wire_out(bytes, sent);
    unetmm_port_release(core, frame);
    return sent;
}

/* Sends one frame now, or in its turn behind those that are late; takes it. */
static UnetmmSent port_out(UnetmmCore *core, uint8_t *frame, uint32_t bytes)
{
    if (unetmm_delay_take(core, frame, bytes)) {
        return UNETMM_SENT_DONE;
    }
    return unetmm_port_emit(core, frame, bytes);
}

/* Checksums and byte order: the frame as it goes out. */
static void port_seal(UnetmmCore *core, uint8_t *frame)
{
    struct unetmm_frame *f = (struct unetmm_frame *)frame;

    if (core->knobs.corrupt) {
        f->flags |= UNETMM_WIRE_F_PAYLOAD_CRC;
        f->payload_crc = unetmm_crc32c(0, frame + sizeof(*f), f->len);
    }
    unetmm_le_frame(f);
    f->header_crc = unetmm_crc32c(0, f, offsetof(struct unetmm_frame,
                                                 header_crc));
    unetmm_le_u32(&f->header_crc);
}

/* x-reorder: a frame that was held back goes now.  due: only if its time is. */
void unetmm_port_flush_reordered(UnetmmCore *core, bool due)
{
    UnetmmPort *port = core->port;

    if (!port->reordered || !unetmm_port_ready(core) ||
        (due && core->ops->now_ns(core->host) < port->reordered_until_ns)) {
        return;
    }
    port_out(core, g_steal_pointer(&port->reordered), port->reordered_bytes);
}

static void port_hold(UnetmmCore *core, uint8_t *frame, uint32_t bytes)
{
    core->port->reordered = frame;
    core->port->reordered_bytes = bytes;
    core->port->reordered_until_ns = core->ops->now_ns(core->host) +
                                     UNETMM_HOLD_NS;
    core->counters[UNETMM_C_inj_reorder]++;
}

/* Whatever happens to a frame on request; takes it. */
static UnetmmSent port_misbehave(UnetmmCore *core, uint8_t *frame,
                                 uint32_t bytes)
{
    UnetmmSent sent;

    if (unetmm_chance(core, core->knobs.loss)) {
        core->counters[UNETMM_C_inj_loss]++;
        unetmm_port_release(core, frame);
        return UNETMM_SENT_DONE;
    }
    if (bytes > UNETMM_ETH_HEADER &&
        unetmm_chance(core, core->knobs.corrupt)) {
        uint32_t bit = unetmm_random(core) % (8 * (bytes - UNETMM_ETH_HEADER));

        frame[UNETMM_ETH_HEADER + bit / 8] ^= 1 << bit % 8;
        core->counters[UNETMM_C_inj_corrupt]++;
    }
    if (!core->port->reordered && unetmm_chance(core, core->knobs.reorder)) {
        port_hold(core, frame, bytes);
        return UNETMM_SENT_DONE;
    }
    if (unetmm_chance(core, core->knobs.dup)) {
        uint8_t *copy = unetmm_port_buffer(core);

        memcpy(unetmm_frame_at(copy, 0, bytes), frame, bytes);
        sent = port_out(core, frame, bytes);
        if (unetmm_port_ready(core)) {
            core->counters[UNETMM_C_inj_dup]++;
            return port_out(core, copy, bytes);
        }
        unetmm_port_release(core, copy);
        return sent;
    }
    return port_out(core, frame, bytes);
}

UnetmmSent unetmm_port_forward(UnetmmCore *core, uint8_t *frame,
                               uint32_t bytes)
{
    bool was_held = core->port->reordered;
    UnetmmSent sent = port_misbehave(core, frame, bytes);

    if (was_held) {
        unetmm_port_flush_reordered(core, false);
    }
    return sent;
}

UnetmmSent unetmm_port_transmit(UnetmmCore *core, uint8_t *frame,
                                uint32_t bytes)
{
    port_seal(core, frame);
    return unetmm_port_forward(core, frame, bytes);
}

void unetmm_port_room(UnetmmCore *core)
{
    if (core->port->wanted) {
        core->port->wanted = false;
        core->tables->port->room(core);
    }
}

/* As much as an endpoint may in its turn, and not all that a budget is. */
void unetmm_port_drain(UnetmmCore *core)
{
    const UnetmmBudget *b = &core->budget;
    UnetmmPort *port = core->port;
    uint32_t n = port->fifo_used;
    uint32_t share, rest;

    if (!n) {
        return;
    }
    share = MIN(UNETMM_TURN_BYTES, core->params.budget_bytes / 2);
    rest = b->bytes - MIN(b->bytes, share);
    while (n-- && !core->tables->port->busy(core) &&
           unetmm_budget_left(core) && b->bytes > rest) {
        UnetmmQueued q = port->fifo[port->fifo_first];

        port->fifo_first = (port->fifo_first + 1) % core->params.local_queue;
        port->fifo_used--;
        unetmm_charge(core, 0, MAX(q.bytes, UNETMM_LEAST_BYTES));
        core->tables->port->frame(core, &q);
        unetmm_port_release(core, q.frame);
        unetmm_port_room(core);
    }
}

/* ---- Saved state -------------------------------------------------------- */

void unetmm_port_save_frame(UnetmmStream *st, UnetmmCore *core,
                            uint8_t **frame, uint32_t from, uint32_t to)
{
    if (unetmm_stream_reads(st)) {
        *frame = unetmm_port_buffer(core);
    }
    unetmm_stream_bytes(st, unetmm_frame_at(*frame, from, to - from),
                        to - from, "frame");
}

void unetmm_port_save_sealed(UnetmmStream *st, UnetmmCore *core,
                             uint8_t **frame, uint32_t *bytes)
{
    *bytes = unetmm_stream_choice(st, *bytes, UNETMM_MAX_FRAME + 1, "bytes");
    if (*bytes < UNETMM_ETH_HEADER) {
        unetmm_stream_refuse(st, "a frame is shorter than its header");
    }
    unetmm_port_save_frame(st, core, frame, 0, *bytes);
}

static void port_save_fifo(UnetmmStream *st, UnetmmCore *core)
{
    UnetmmPort *port = core->port;
    uint32_t n = core->params.local_queue;
    uint32_t used = unetmm_stream_choice(st, port->fifo_used, n + 1,
                                         "fifo_used");

    for (uint32_t i = 0; i < used && !st->wrong; i++) {
        UnetmmQueued *q = &port->fifo[(port->fifo_first + i) % n];

        unetmm_stream_enter(st, "fifo", i);
        unetmm_port_save_sealed(st, core, &q->frame, &q->bytes);
        if (unetmm_stream_reads(st)) {
            port->fifo_used++;
        }
        unetmm_stream_u16(st, &q->from, "from");
        unetmm_stream_u16(st, &q->only, "only");
        unetmm_stream_leave(st);
    }
}

static void port_save_held(UnetmmStream *st, UnetmmCore *core)
{
    UnetmmPort *port = core->port;
    bool held = port->reordered;

    unetmm_stream_bool(st, &held, "is_held");
    if (!held) {
        return;
    }
    unetmm_stream_enter(st, "held", UNETMM_STREAM_ONE);
    unetmm_port_save_sealed(st, core, &port->reordered, &port->reordered_bytes);
    unetmm_stream_time(st, &port->reordered_until_ns, UNETMM_HOLD_NS,
                       "until_ns");
    unetmm_stream_leave(st);
}

/*
 * A frame that the net layer had taken and not yet sent stays behind: it is a
 * datagram lost, and counted where the card goes on.
 */
static void port_save(UnetmmStream *st, UnetmmCore *core)
{
    bool behind = core->port->busy;

    core->port->wire_turn = unetmm_stream_choice(st, core->port->wire_turn,
                                                 core->params.endpoints,
                                                 "wire_turn");
    unetmm_stream_enter(st, "port", UNETMM_STREAM_ONE);
    port_save_fifo(st, core);
    port_save_held(st, core);
    unetmm_delay_save(st, core);
    unetmm_stream_bool(st, &behind, "busy");
    unetmm_stream_leave(st);
    if (unetmm_stream_takes(st) && behind) {
        core->counters[UNETMM_C_drop_purged]++;
        unetmm_port_room(core);
    }
}

static uint64_t port_save_limit(const UnetmmCore *core)
{
    return (core->params.local_queue + UNETMM_MAX_DELAYED + 1ull) *
           UNETMM_SAVED_FRAME;
}

const UnetmmModule unetmm_module_port = {
    .name = "port",
    .create = port_create,
    .reset = port_reset,
    .free = port_free,
    .ep_close = port_ep_close,
    .save = port_save,
    .save_limit = port_save_limit,
};
