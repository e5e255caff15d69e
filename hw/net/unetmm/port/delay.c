/*
 * unetmm: frames that are late on their way out: x-delay, x-reorder
 *
 * A queue behind the port that keeps the order: a frame that is late makes
 * those behind it late, too, as in a switch's queue (x-reorder is for order).
 * It has UNETMM_MAX_DELAYED places; without a place the wire pushes back, as it
 * does for any other reason, so that nothing is lost by being late.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "port.h"

static UnetmmDelayed *delay_at(UnetmmPort *port, uint32_t n)
{
    return &port->delayed[(port->delayed_first + n) % UNETMM_MAX_DELAYED];
}

bool unetmm_delay_room(const UnetmmCore *core)
{
    return core->port->delayed_used < UNETMM_MAX_DELAYED;
}

/*
 * Is the frame to be late?  Then it is in the queue, which had room; else it is
 * still the caller's.
 */
bool unetmm_delay_take(UnetmmCore *core, uint8_t *frame, uint32_t bytes)
{
    UnetmmPort *port = core->port;
    bool late = unetmm_chance(core, core->knobs.delay);
    int64_t due;

    if (!late && !port->delayed_used) {
        return false;
    }
    /* Segmentation makes many frames of one; there was room for one. */
    if (!unetmm_delay_room(core)) {
        core->counters[UNETMM_C_drop_refused]++;
        unetmm_port_release(core, frame);
        return true;
    }
    due = core->ops->now_ns(core->host);
    if (late) {
        due += unetmm_some_time(core, core->knobs.delay_ns);
        core->counters[UNETMM_C_inj_delay]++;
    }
    if (port->delayed_used) {
        due = MAX(due, delay_at(port, port->delayed_used - 1)->due_ns);
    }
    *delay_at(port, port->delayed_used++) =
        (UnetmmDelayed) { frame, bytes, due };
    return true;
}

/* When the first of the queue goes; INT64_MAX: none goes by time. */
static int64_t delay_next(const UnetmmCore *core)
{
    const UnetmmPort *port = core->port;
    const UnetmmDelayed *first = &port->delayed[port->delayed_first];

    return port->delayed_used && unetmm_port_open(core, first->frame) ?
           first->due_ns : INT64_MAX;
}

/* Sends the frames that are due, as far as there is room. */
static void delay_go(UnetmmCore *core)
{
    UnetmmPort *port = core->port;

    while (port->delayed_used && delay_next(core) <=
           core->ops->now_ns(core->host)) {
        UnetmmDelayed *first = delay_at(port, 0);
        uint8_t *frame = g_steal_pointer(&first->frame);
        uint32_t bytes = first->bytes;

        port->delayed_first = (port->delayed_first + 1) % UNETMM_MAX_DELAYED;
        port->delayed_used--;
        unetmm_port_emit(core, frame, bytes);
        unetmm_port_room(core);
    }
}

static void delay_late(UnetmmCore *core)
{
    if (core->port->delayed_used) {
        delay_go(core);
    }
}

static void delay_reset(UnetmmCore *core)
{
    UnetmmPort *port = core->port;

    core->counters[UNETMM_C_drop_reset] += port->delayed_used +
                                           !!port->reordered;
    unetmm_port_release(core, g_steal_pointer(&port->reordered));
    for (uint32_t i = 0; i < port->delayed_used; i++) {
        unetmm_port_release(core, g_steal_pointer(&delay_at(port, i)->frame));
    }
    port->delayed_first = port->delayed_used = 0;
}

void unetmm_delay_save(UnetmmStream *st, UnetmmCore *core)
{
    UnetmmPort *port = core->port;
    uint32_t used = unetmm_stream_choice(st, port->delayed_used,
                                         UNETMM_MAX_DELAYED + 1,
                                         "delayed_used");
    int64_t before = st->now;

    for (uint32_t i = 0; i < used && !st->wrong; i++) {
        UnetmmDelayed *d = delay_at(port, i);

        unetmm_stream_enter(st, "delayed", i);
        unetmm_port_save_sealed(st, core, &d->frame, &d->bytes);
        if (unetmm_stream_reads(st)) {
            port->delayed_used++;
        }
        unetmm_stream_time(st, &d->due_ns, UNETMM_MAX_LATE_NS, "due_ns");
        unetmm_stream_leave(st);
        if (unetmm_stream_reads(st) && d->due_ns < before) {
            unetmm_stream_refuse(st, "a late frame goes before its turn");
        }
        before = d->due_ns;
    }
}

static int64_t delay_deadline(const UnetmmCore *core)
{
    int64_t when = delay_next(core);

    /* While the wire is blocked there is no time: the wire says when. */
    return core->port->reordered && unetmm_port_ready(core) ?
           MIN(when, core->port->reordered_until_ns) : when;
}

static void delay_due(UnetmmCore *core, int64_t now)
{
    unetmm_port_flush_reordered(core, true);
}

const UnetmmModule unetmm_module_delay = {
    .name = "delay",
    .reset = delay_reset,
    .deadline = delay_deadline,
    .deadline_passed = delay_due,
    .engine_entered = delay_late,
};
