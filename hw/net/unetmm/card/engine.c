/*
 * unetmm: the engine: which endpoint is served, for how long, and when
 *
 * The engine runs inside the access that gave it work (a doorbell, a frame),
 * within a budget; the rest runs later.  While it is on the stack every
 * other entry only adds to the lists it works off, and no frame is taken from
 * the net layer: a host operation may well call back (slirp answers inside our
 * own send).  Endpoints are served in turn (ep/ready.c), each with a share
 * of the budget: unetmm_send_turn() ends a turn after UNETMM_TURN_DESCRIPTORS
 * descriptors or UNETMM_TURN_BYTES bytes.
 *
 * The budget is the card's, not an entry's: the net layer enters again and
 * again before it lets the main loop go on (two cards on a hub), and all that
 * time nobody else has the host's lock.  So only unetmm_core_run(), which the
 * host calls once in a turn of its main loop, renews it.  When half of it is
 * spent the host is asked for that call, so that a card which is served as fast
 * as it works never stops.
 *
 * Frames from the wire, with all that is done for them at once, have a part of
 * their own, and are not taken from the net layer without: an endpoint that
 * sends all the time does not stop others from receiving, and vice versa.
 * Those that have waited in the local queue are paid for by the common part,
 * like sends; before each endpoint's turn they get a share of it, so that a
 * full queue leaves something for the endpoint.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../port/port.h"
#include "../recv/recv.h"
#include "../ring/ring.h"
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

/* Is there something that only the budget keeps from being done? */
static bool engine_work_left(const UnetmmCore *core)
{
    return (core->lists->ready.used || unetmm_port_waits(core)) &&
           unetmm_may_run(core);
}

/* False: no module had put work off, so there is still nothing to do. */
static bool engine_deferred_work(UnetmmCore *core)
{
    bool some = false;

    for (unsigned i = 0; core->modules.deferred_work[i]; i++) {
        some |= core->modules.deferred_work[i](core);
    }
    return some;
}

static void engine_serve(UnetmmCore *core)
{
    uint32_t commands = UNETMM_RUN_COMMANDS;

    while (unetmm_may_run(core)) {
        UnetmmEp *ep;

        unetmm_cmd_run(core, &commands);
        unetmm_port_drain(core);
        ep = unetmm_budget_left(core) ? unetmm_ready_pop(core) : NULL;
        /* No endpoint wants the rest of the budget. */
        if (!ep && unetmm_port_waits(core) && unetmm_budget_left(core)) {
            continue;
        }
        /* When all that arrived has been looked at, and no sooner. */
        if (!ep && engine_deferred_work(core) && unetmm_port_waits(core) &&
            unetmm_budget_left(core)) {
            continue;
        }
        if (!ep) {
            break;
        }
        core->counters[UNETMM_C_turns]++;
        core->budget.turns--;
        unetmm_ep_turn(core, ep);
    }
    core->engine.again |= !commands;
}

static void engine_work(UnetmmCore *core)
{
    engine_serve(core);
    if (!unetmm_budget_left(core) && !core->budget.stopped &&
        engine_work_left(core)) {
        core->budget.stopped = true;
        core->counters[UNETMM_C_budget_stops]++;
    }
    if (unetmm_may_run(core)) {
        for (unsigned i = 0; core->modules.flush[i]; i++) {
            core->modules.flush[i](core);
        }
    }
}

/* The next moment at which a delay or timeout ends. */
static int64_t engine_deadline(const UnetmmCore *core)
{
    int64_t when = INT64_MAX;

    /* Time stands still, too; deadlines are looked at after it. */
    if (core->engine.paused) {
        return INT64_MAX;
    }
    for (unsigned i = 0; core->modules.deadline[i]; i++) {
        int64_t next = core->modules.deadline[i](core);

        when = MIN(when, next);
    }
    for (unsigned i = 0; core->modules.deadline_at[i]; i++) {
        when = MIN(when, *core->modules.deadline_at[i]);
    }
    return when;
}

static void engine_set_timer(UnetmmCore *core)
{
    int64_t when = engine_deadline(core);

    if (when != core->engine.timer_ns) {
        core->engine.timer_ns = when;
        core->ops->timer_at(core->host, when);
    }
}

void unetmm_engine_enter(UnetmmCore *core)
{
    core->engine.run += !core->engine.depth++;
}

void unetmm_engine_leave(UnetmmCore *core)
{
    if (core->engine.depth > 1) {
        core->engine.depth--;
        return;
    }
    if (!core->engine.reset_wanted && !core->engine.paused) {
        for (unsigned i = 0; core->modules.engine_entered[i]; i++) {
            core->modules.engine_entered[i](core);
        }
    }
    engine_work(core);
    if (core->engine.reset_wanted) {
        core->engine.reset_wanted = false;
        unetmm_engine_reset(core);
    }
    if (!core->engine.paused) {
        unetmm_irq_flush(core);
    }
    /* The address of an interrupt is the guest's choice: it may be ours. */
    core->engine.again |= core->engine.reset_wanted ||
                          engine_work_left(core) ||
                          (core->heads->behind && unetmm_may_run(core)) ||
                          (engine_half_spent(core) && !core->budget.asked);
    engine_set_timer(core);
    if (core->engine.again) {
        core->engine.again = false;
        core->budget.asked = true;
        core->ops->run_later(core->host);
    }
    core->engine.depth--;
    if (core->engine.was_closed && unetmm_core_can_receive(core)) {
        core->engine.was_closed = false;
        core->ops->may_receive(core->host);
    }
}

void unetmm_core_run(UnetmmCore *core)
{
    /*
     * From inside one of our own calls it is no turn of the main loop, though
     * it was to be the one that was asked for: another one is.
     */
    if (core->engine.depth) {
        core->engine.again = true;
        return;
    }
    unetmm_budget_renew(core);
    unetmm_engine_enter(core);
    unetmm_heads_go_on(core);
    unetmm_engine_leave(core);
}

void unetmm_core_timer(UnetmmCore *core)
{
    int64_t now = core->ops->now_ns(core->host);

    core->engine.timer_ns = INT64_MAX;
    if (core->engine.paused) {
        /* The timer is set again when the machine goes on. */
        return;
    }
    unetmm_engine_enter(core);
    for (unsigned i = 0; core->modules.deadline_passed[i]; i++) {
        core->modules.deadline_passed[i](core, now);
    }
    unetmm_engine_leave(core);
}

/*
 * An engine at rest may be saved.  Going on is left for later, when all of
 * the machine has been told: the engine uses memory, interrupts and the wire.
 * Until then no caller may use any of these: a machine into which a stream is
 * read has parts that are not there yet.
 */
void unetmm_core_pause(UnetmmCore *core, bool pause)
{
    core->engine.paused = pause;
    if (!pause) {
        core->ops->run_later(core->host);
    }
}
