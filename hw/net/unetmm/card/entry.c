/*
 * unetmm: entry points: frames, the link, doorbells, windows and proxy pages
 *
 * Each enters the engine, calls down, and leaves, which is when the work is
 * done.  Those of the whole card are in card/card.c and card/engine.c, of
 * registers in card/regs.c, of the saved state in card/save.c.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../ether/ether.h"
#include "../port/port.h"
#include "../ring/ring.h"
#include "../store/store.h"
#include "core.h"

/* ---- Frames ------------------------------------------------------------- */

/*
 * For this card?  Of the frames for all stations only the control message PEERS
 * is: with it a driver asks drivers that it does not know.  All others have one
 * receiver.
 */
static bool entry_for_us(const UnetmmCore *core, const uint8_t *frame,
                         size_t bytes)
{
    static const uint8_t all[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
    size_t type = sizeof(struct unetmm_frame) +
                  offsetof(struct unetmm_control, type);

    return !memcmp(frame, core->params.mac, sizeof(all)) ||
           (!memcmp(frame, all, sizeof(all)) && type < bytes &&
            frame[offsetof(struct unetmm_frame, opcode)] ==
            UNETMM_WIRE_CONTROL && frame[type] == UNETMM_CTL_PEERS);
}

/* Ethernet's part of the checks.  False: dropped. */
static bool entry_takes(UnetmmCore *core, const uint8_t *frame, size_t bytes)
{
    const uint8_t *mac = core->params.mac;
    enum unetmm_counter why;

    if (!unetmm_may_run(core)) {
        why = UNETMM_C_drop_disabled;
    } else if (bytes < UNETMM_ETH_HEADER) {
        why = UNETMM_C_drop_runt;
    } else if (bytes > UNETMM_MAX_FRAME) {
        why = UNETMM_C_drop_malformed;
    } else if (!memcmp(frame + 6, mac, 6)) {
        why = UNETMM_C_drop_self;
        if (!core->port->warned_self) {
            core->port->warned_self = true;
            core->ops->warn_self(core->host);
        }
    } else if (!unetmm_eth_ours(frame)) {
        if (bytes > UNETMM_MAX_PAYLOAD) {
            why = UNETMM_C_drop_malformed;
        } else if (core->flow->end) {
            return true;
        } else {
            why = UNETMM_C_drop_ethertype;
        }
    } else if (!entry_for_us(core, frame, bytes)) {
        why = UNETMM_C_drop_other_mac;
    } else {
        return true;
    }
    core->counters[why]++;
    trace_unetmm_drop(UINT32_MAX, why);
    return false;
}

bool unetmm_core_can_receive(UnetmmCore *core)
{
    /* A card that does not run drops all: it must not block the wire. */
    bool can = core->engine.depth == 0 && !core->engine.paused &&
               ((core->port->fifo_used < core->params.local_queue &&
                 core->budget.arrivals) || !unetmm_may_run(core));

    core->engine.was_closed |= !can;
    return can;
}

static void entry_frame(UnetmmCore *core, const uint8_t *frame, size_t bytes,
                        uint16_t from)
{
    if (unetmm_eth_ours(frame)) {
        unetmm_recv_frame(core, frame, bytes);
    } else {
        unetmm_flow_receive(core, frame, bytes, from);
    }
}

/* A frame for one endpoint alone, which has waited in the local queue. */
static void entry_frame_only(UnetmmCore *core, const UnetmmQueued *q)
{
    UnetmmEp *ep = unetmm_ep_live(core, q->only);
    UnetmmSums sums = UNETMM_SUMS_UNKNOWN;

    if (ep) {
        unetmm_raw_receive(core, ep, q->frame, q->bytes, &sums);
    } else {
        core->counters[UNETMM_C_drop_stopped]++;
    }
}

static void entry_queued(UnetmmCore *core, const UnetmmQueued *q)
{
    if (q->only == UNETMM_NO_EP) {
        entry_frame(core, q->frame, q->bytes, q->from);
    } else {
        entry_frame_only(core, q);
    }
}

static bool entry_busy(const UnetmmCore *core)
{
    return core->landing->active;
}

const UnetmmPortOps unetmm_entry_port = {
    .frame = entry_queued,
    .busy = entry_busy,
    .room = unetmm_ep_wire_room,
};

bool unetmm_core_receive(UnetmmCore *core, const uint8_t *frame, size_t bytes)
{
    if (!unetmm_core_can_receive(core)) {
        return false;
    }
    unetmm_engine_enter(core);
    trace_unetmm_wire_in(bytes);
    if (entry_takes(core, frame, bytes)) {
        core->budget.arriving = true;
        unetmm_charge(core, 0, MAX(bytes, UNETMM_LEAST_BYTES));
        if (core->landing->active || core->port->fifo_used) {
            uint8_t *copy = unetmm_port_buffer(core);

            memcpy(unetmm_frame_at(copy, 0, bytes), frame, bytes);
            unetmm_port_keep(core, copy, bytes, UNETMM_NO_EP, UNETMM_NO_EP);
        } else {
            entry_frame(core, frame, bytes, UNETMM_NO_EP);
        }
        core->budget.arriving = false;
    }
    unetmm_engine_leave(core);
    return true;
}

void unetmm_core_sent(UnetmmCore *core, bool sent)
{
    unetmm_engine_enter(core);
    core->port->busy -= core->port->busy > 0;
    core->counters[UNETMM_C_drop_purged] += !sent;
    unetmm_port_flush_reordered(core, true);
    unetmm_port_room(core);
    unetmm_engine_leave(core);
}

void unetmm_core_set_link(UnetmmCore *core, bool up)
{
    unetmm_engine_enter(core);
    if (core->port->link != up) {
        core->port->link = up;
        unetmm_event(core, UNETMM_EVENT_LINK);
        unetmm_port_room(core);
    }
    unetmm_engine_leave(core);
}

/* ---- Pages that processes write ----------------------------------------- */

/* The value is ignored: the indices in memory name the work. */
void unetmm_core_doorbell(UnetmmCore *core, uint32_t page)
{
    UnetmmEp *ep = unetmm_ep_live(core, page);

    unetmm_engine_enter(core);
    if (!ep || ep->closing) {
        core->counters[UNETMM_C_err_doorbell]++;
        UNETMM_GUEST_ERR(doorbell, "doorbell of endpoint %u, which is not "
                         "there", page);
    } else {
        unetmm_count(core, ep, UNETMM_C_doorbells, 1);
        trace_unetmm_doorbell(page);
        ep->activity++;
        if (ep->tx.blocked_on == UNETMM_BLOCKED_CQ) {
            ep->tx.blocked_on = UNETMM_BLOCKED_NOT;
        }
        unetmm_ready_push(core, ep);
    }
    unetmm_engine_leave(core);
}

void unetmm_core_store(UnetmmCore *core, uint32_t offset, const uint8_t *data,
                       unsigned bytes)
{
    unetmm_engine_enter(core);
    unetmm_window_store(core, offset, data, bytes);
    unetmm_engine_leave(core);
}

/* A store makes no work: its value is kept until the load. */
void unetmm_core_proxy_store(UnetmmCore *core, uint64_t offset,
                             uint64_t value)
{
    unetmm_proxy_store(core, offset, value);
}

uint32_t unetmm_core_proxy_load(UnetmmCore *core, uint64_t offset)
{
    uint32_t result;

    unetmm_engine_enter(core);
    result = unetmm_proxy_load(core, offset);
    unetmm_engine_leave(core);
    return result;
}
