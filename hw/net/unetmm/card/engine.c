/*
 * unetmm: the engine: who is served, for how long, and when
 *
 * The engine runs inside the access that gave it work (a doorbell, a frame),
 * within a budget; what is left runs later.  While it is on the stack every
 * other entry only adds to the lists it works off, and no frame is taken from
 * the net layer: a host operation may well call back (slirp answers inside our
 * own send).  Endpoints are served in turn, each with a share of the budget.
 *
 * The budget is the card's, not an entry's: the net layer enters again and
 * again before it lets the main loop go on (two cards on a hub), and all that
 * time nobody else has the host's lock.  So only unetmm_core_run(), which the
 * host calls once in a turn of its main loop, renews it.  When half of it is
 * spent the host is asked for that call, so that a card which is served as fast
 * as it works never stops.
 *
 * Frames from the wire, with all that is done for them at once, have a part of
 * their own, and are not taken from the net layer without: who sends all the
 * time keeps nobody from receiving, nor the other way round.  Those that have
 * waited in the local queue are paid for by the common part, like sends; before
 * each endpoint's turn they get a share of it, so that a full queue leaves
 * something for the endpoint.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "core.h"

#define UNETMM_RUN_COMMANDS     64

static bool engine_half_spent(const UnetmmCore *core)
{
    const UnetmmBudget *b = &core->budget;

    return b->descriptors <= core->params.budget_descriptors / 2 ||
           b->bytes <= core->params.budget_bytes / 2 ||
           b->arrivals <= core->params.budget_bytes / 2 ||
           b->turns <= core->params.budget_descriptors;
}

static UnetmmEp *engine_pop(UnetmmCore *core)
{
    UnetmmEp *ep;

    if (!core->ready_used) {
        return NULL;
    }
    ep = &core->eps[core->ready[core->ready_first]];
    core->ready_first = (core->ready_first + 1) % core->params.endpoints;
    core->ready_used--;
    ep->queued = false;
    return ep;
}

/*
 * The wire or the local queue has room: who waited for it goes on.  This is
 * called for each frame, so it looks at the endpoints only if one waits.  There
 * may be room for one frame only: whoever sent the last one comes last.
 */
void unetmm_engine_wire_room(UnetmmCore *core)
{
    uint32_t n = core->params.endpoints;

    if (!core->port.wanted) {
        return;
    }
    core->port.wanted = false;
    for (uint32_t i = 0; i < n; i++) {
        UnetmmEp *ep = &core->eps[(core->wire_turn + i) % n];

        if (ep->live && ep->tx.blocked_on == UNETMM_BLOCKED_WIRE) {
            ep->tx.blocked_on = UNETMM_BLOCKED_NOT;
            unetmm_engine_queue(core, ep);
        }
    }
}

static void engine_turn(UnetmmCore *core, UnetmmEp *ep)
{
    if (!ep->live) {
        return;
    }
    if (!ep->error && unetmm_ep_read_user(core, ep)) {
        unetmm_head_fetch(core, ep);
        unetmm_backup_walk(core, ep);
        if (ep->rels) {
            unetmm_rel_complete(core, ep);
            unetmm_rel_look_again(core, ep);
        }
        if (ep->ends_owed) {
            unetmm_channel_tell(core, ep);
        }
        unetmm_send_turn(core, ep);
    }
    unetmm_ep_sync(core, ep);
}

bool unetmm_engine_may_run(const UnetmmCore *core)
{
    return (core->ctrl & UNETMM_CTRL_ENABLE) && !core->reset_wanted &&
           !core->paused && !(core->status & UNETMM_STATUS_FATAL);
}

/* Are there frames in the local queue that may be delivered now? */
static bool engine_frames_wait(const UnetmmCore *core)
{
    return core->port.fifo_used && !core->rx.active;
}

/* True: there may be frames in the local queue now, which make work. */
static bool engine_acks(UnetmmCore *core)
{
    unetmm_rel_flush_acks(core);
    return engine_frames_wait(core);
}

/* Is there something that only the budget keeps from being done? */
static bool engine_work_left(const UnetmmCore *core)
{
    return (core->ready_used || engine_frames_wait(core)) &&
           unetmm_engine_may_run(core);
}

static void engine_serve(UnetmmCore *core)
{
    uint32_t commands = UNETMM_RUN_COMMANDS;

    while (unetmm_engine_may_run(core)) {
        UnetmmEp *ep;

        unetmm_cmd_run(core, &commands);
        unetmm_port_drain(core);
        ep = unetmm_budget_left(core) ? engine_pop(core) : NULL;
        /* Nobody else wants the rest of the budget. */
        if (!ep && engine_frames_wait(core) && unetmm_budget_left(core)) {
            continue;
        }
        /* When all that arrived has been looked at, and no sooner. */
        if (!ep && core->acks_owed && engine_acks(core) &&
            unetmm_budget_left(core)) {
            continue;
        }
        if (!ep) {
            break;
        }
        core->counters[UNETMM_C_turns]++;
        core->budget.turns--;
        engine_turn(core, ep);
    }
    core->again |= !commands;
}

static void engine_work(UnetmmCore *core)
{
    engine_serve(core);
    if (!unetmm_budget_left(core) && !core->budget.stopped &&
        engine_work_left(core)) {
        core->budget.stopped = true;
        core->counters[UNETMM_C_budget_stops]++;
    }
    if (unetmm_engine_may_run(core)) {
        unetmm_sysbuf_flush(core);
        unetmm_miss_flush(core);
        unetmm_notify_flush(core);
    }
}

/* The next moment at which something ends by itself. */
static int64_t engine_deadline(const UnetmmCore *core)
{
    int64_t when = MIN(unetmm_irq_deadline(core),
                       MIN(core->rel_due_ns, core->window_due_ns));

    /* Time stands still, too; what is due by then is looked at after it. */
    if (core->paused) {
        return INT64_MAX;
    }
    /* While the wire is blocked unetmm_core_sent() sees to it. */
    if (core->port.held && unetmm_port_ready(core)) {
        when = MIN(when, core->port.held_until_ns);
    }
    if (core->rx.active) {
        when = MIN(when, core->rx.deadline_ns);
    }
    when = MIN(when, unetmm_delay_deadline(core));
    when = MIN(when, unetmm_miss_deadline(core));
    for (uint32_t i = 0; core->params.dma_page_ns &&
         i < core->params.endpoints; i++) {
        const UnetmmEp *ep = &core->eps[i];

        if (ep->live && ep->tx.moving) {
            when = MIN(when, ep->tx.deadline_ns);
        }
    }
    return when;
}

static void engine_set_timer(UnetmmCore *core)
{
    int64_t when = engine_deadline(core);

    if (when != core->timer_ns) {
        core->timer_ns = when;
        core->ops->timer_at(core->host, when);
    }
}

void unetmm_enter(UnetmmCore *core)
{
    core->run += !core->depth++;
}

void unetmm_leave(UnetmmCore *core)
{
    if (core->depth > 1) {
        core->depth--;
        return;
    }
    if (!core->reset_wanted && !core->paused) {
        unetmm_delay_flush(core);
        unetmm_miss_due(core);
    }
    engine_work(core);
    if (core->reset_wanted) {
        core->reset_wanted = false;
        unetmm_engine_reset(core);
    }
    if (!core->paused) {
        unetmm_irq_flush(core);
    }
    /* The address of an interrupt is the guest's choice: it may be ours. */
    core->again |= core->reset_wanted || engine_work_left(core) ||
                   (core->heads_behind && unetmm_engine_may_run(core)) ||
                   (engine_half_spent(core) && !core->budget.asked);
    engine_set_timer(core);
    if (core->again) {
        core->again = false;
        core->budget.asked = true;
        core->ops->run_later(core->host);
    }
    core->depth--;
    if (core->was_closed && unetmm_core_can_receive(core)) {
        core->was_closed = false;
        core->ops->may_receive(core->host);
    }
}

void unetmm_core_run(UnetmmCore *core)
{
    /*
     * From inside one of our own calls it is no turn of the main loop, though
     * it was to be the one that was asked for: another one is.
     */
    if (core->depth) {
        core->again = true;
        return;
    }
    unetmm_budget_renew(core);
    unetmm_enter(core);
    unetmm_heads_go_on(core);
    unetmm_leave(core);
}

void unetmm_core_timer(UnetmmCore *core)
{
    int64_t now = core->ops->now_ns(core->host);

    core->timer_ns = INT64_MAX;
    if (core->paused) {
        /* It is set again when the machine goes on. */
        return;
    }
    unetmm_enter(core);
    unetmm_port_flush_held(core, true);
    if (core->rx.active && core->rx.deadline_ns <= now) {
        unetmm_recv_landed(core);
    }
    if (core->rel_due_ns <= now) {
        unetmm_rel_timer(core, now);
    }
    if (core->window_due_ns <= now) {
        unetmm_window_timer(core, now);
    }
    for (uint32_t i = 0; core->params.dma_page_ns &&
         i < core->params.endpoints; i++) {
        UnetmmEp *ep = &core->eps[i];

        if (ep->live && ep->tx.moving && ep->tx.deadline_ns <= now) {
            unetmm_send_landed(core, ep);
        }
    }
    unetmm_leave(core);
}

/*
 * What has come to rest may be saved.  Going on is left for later, when all of
 * the machine has been told: the engine uses memory, interrupts and the wire.
 * Until then none of these is used, whoever calls: a machine that a stream is
 * being read into has parts that are not there yet.
 */
void unetmm_core_pause(UnetmmCore *core, bool pause)
{
    core->paused = pause;
    if (!pause) {
        core->ops->run_later(core->host);
    }
}

/* The value is ignored: the indices in memory say what there is to do. */
void unetmm_core_doorbell(UnetmmCore *core, uint32_t page)
{
    UnetmmEp *ep = unetmm_ep_live(core, page);

    unetmm_enter(core);
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
        unetmm_engine_queue(core, ep);
    }
    unetmm_leave(core);
}
