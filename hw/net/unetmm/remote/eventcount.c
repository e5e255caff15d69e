/*
 * unetmm: event counters: control transferred by writes
 *
 * A counter is a word in a page of host memory that its process can read; the
 * card alone changes it, and keeps no copy.  A process that spins makes no
 * call, and the card's only state is the value that a sleeper waits for: one
 * for each counter.  An increment and the look at that value are one step to
 * the driver, as is arming with the look at the counter: so no wake-up is lost
 * between.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../abi/unetmm_le.h"
#include "../ring/ring.h"
#include "remote.h"

#define COUNT_TRIES     64              /* no one should compete */

uint8_t unetmm_event_counters_set(UnetmmCore *core, uint16_t id,
                                  const struct unetmm_cmd_counters *cmd)
{
    UnetmmSpace *space;

    if (!id || id >= core->params.spaces || !core->spaces[id].live) {
        return UNETMM_CS_BAD_ID;
    }
    space = &core->spaces[id];
    if (space->counters) {
        return UNETMM_CS_EXISTS;
    }
    if (!cmd->page || cmd->page % UNETMM_PAGE_BYTES) {
        return UNETMM_CS_BAD_ARG;
    }
    space->counter_page = cmd->page;
    space->counters = g_new0(UnetmmEventCounter, UNETMM_EVENT_COUNTERS);
    return UNETMM_CS_OK;
}

/* The list may still have the space: it owes nothing then. */
static void counters_drop(UnetmmSpace *space)
{
    g_clear_pointer(&space->counters, g_free);
    space->counter_page = 0;
    space->counters_due = 0;
}

static void eventcount_reset(UnetmmCore *core)
{
    for (uint32_t i = 0; i < core->params.spaces; i++) {
        counters_drop(&core->spaces[i]);
    }
    unetmm_list_clear(&core->remote->due);
}

static uint64_t counter_address(const UnetmmSpace *space, uint32_t id)
{
    return space->counter_page + id * sizeof(uint64_t);
}

/* As the specification compares them: modulo 2^64. */
static bool counter_reached(uint64_t now, uint64_t value)
{
    return now - value <= INT64_MAX;
}

static void counter_disarm(UnetmmSpace *space, UnetmmEventCounter *c)
{
    space->counters_due -= c->state == UNETMM_COUNTER_DUE;
    c->state = UNETMM_COUNTER_IDLE;
}

uint8_t unetmm_event_counter_arm(UnetmmCore *core, uint16_t id,
                                 const struct unetmm_cmd_arm *cmd,
                                 uint32_t *result)
{
    UnetmmSpace *space;
    UnetmmEventCounter *c;
    uint64_t now;

    if (id >= core->params.spaces || !core->spaces[id].live ||
        !core->spaces[id].counters || cmd->counter >= UNETMM_EVENT_COUNTERS) {
        return UNETMM_CS_BAD_ID;
    }
    if (cmd->arm > 1 || !unetmm_all_zero(cmd->rsvd, sizeof(cmd->rsvd))) {
        return UNETMM_CS_BAD_ARG;
    }
    space = &core->spaces[id];
    c = &space->counters[cmd->counter];
    counter_disarm(space, c);
    if (!cmd->arm) {
        return UNETMM_CS_OK;
    }
    if (!unetmm_dma_read(core, NULL, counter_address(space, cmd->counter),
                         &now, sizeof(now))) {
        return UNETMM_CS_DMA;
    }
    unetmm_le_u64(&now);
    *result = counter_reached(now, cmd->value);
    if (!*result) {
        c->state = UNETMM_COUNTER_ARMED;
        c->value = cmd->value;
        core->counters[UNETMM_C_counter_arms]++;
    }
    trace_unetmm_counter_arm(id, cmd->counter, cmd->value, now);
    return UNETMM_CS_OK;
}

uint32_t unetmm_event_counter_check(const UnetmmCore *core,
                                    const UnetmmRegion *region, uint32_t imm,
                                    uint32_t *id)
{
    if (imm >= region->ncounters ||
        !core->spaces[region->space].counters) {
        return UNETMM_WHY_COUNTER;
    }
    *id = region->counter + imm;
    return 0;
}

bool unetmm_event_counter_add(UnetmmCore *core, UnetmmEp *ep, uint32_t id)
{
    UnetmmSpace *space = &core->spaces[ep->space];
    UnetmmEventCounter *c = &space->counters[id];
    uint64_t at = counter_address(space, id);
    uint64_t old = 0, expected;
    unsigned tries = 0;

    /* cmpxchg is one access with all barriers: older data is seen first. */
    do {
        expected = old;
        if (tries++ == COUNT_TRIES ||
            !unetmm_dma_cmpxchg(core, ep, at, &old, old + 1)) {
            return false;
        }
    } while (old != expected);
    unetmm_count(core, ep, UNETMM_C_rel_counts, 1);
    if (c->state == UNETMM_COUNTER_ARMED &&
        counter_reached(old + 1, c->value)) {
        c->state = UNETMM_COUNTER_DUE;
        space->counters_due++;
        unetmm_list_add(&core->remote->due, ep->space);
    }
    trace_unetmm_counter_add(ep->space, id, old + 1);
    return true;
}

/* False: the notification ring is full. */
static bool counters_tell(UnetmmCore *core, uint16_t id)
{
    UnetmmSpace *space = &core->spaces[id];

    for (uint32_t i = 0; space->counters_due && i < UNETMM_EVENT_COUNTERS;
         i++) {
        UnetmmEventCounter *c = &space->counters[i];
        struct unetmm_notify n = { .type = UNETMM_NOTIFY_COUNTER, .ep = id,
                                   .data = i, .value = c->value };

        if (c->state != UNETMM_COUNTER_DUE) {
            continue;
        }
        if (!unetmm_ring_post_notify(core, n)) {
            return false;
        }
        counter_disarm(space, c);
        core->counters[UNETMM_C_counter_wakeups]++;
        trace_unetmm_notify(id, UNETMM_NOTIFY_COUNTER, i);
    }
    return true;
}

/* Endpoints come first. */
static void eventcount_flush(UnetmmCore *core)
{
    UnetmmList *due = &core->remote->due;

    while (due->used && !core->lists->tell.used) {
        uint16_t id = unetmm_list_first(due);

        if (!counters_tell(core, id)) {
            unetmm_notify_full(core);
            return;
        }
        unetmm_list_pop(due);
    }
}

static void eventcount_space_end(UnetmmCore *core, uint16_t space)
{
    counters_drop(&core->spaces[space]);
}

/* ---- Saved state -------------------------------------------------------- */

/*
 * The counts are in the guest's memory.  The card saves their address, the
 * value with which each is armed, and the wake-ups still to be reported.
 */
static void counter_save(UnetmmStream *st, UnetmmSpace *space,
                         UnetmmEventCounter *c)
{
    uint8_t state = c->state;

    unetmm_stream_u8(st, &state, "state");
    if (state > UNETMM_COUNTER_DUE) {
        unetmm_stream_refuse(st, "an event counter has a state that none has");
        return;
    }
    c->state = state;
    if (state == UNETMM_COUNTER_IDLE) {
        return;
    }
    unetmm_stream_u64(st, &c->value, "value");
    if (unetmm_stream_reads(st) && c->state == UNETMM_COUNTER_DUE) {
        space->counters_due++;
    }
}

void unetmm_event_counters_save(UnetmmStream *st, UnetmmCore *core, uint16_t id)
{
    UnetmmSpace *space = &core->spaces[id];
    struct unetmm_cmd_counters cmd = { .page = space->counter_page };

    unetmm_stream_u64(st, &cmd.page, "counter_page");
    if (st->wrong || !cmd.page) {
        return;
    }
    if (unetmm_stream_reads(st) &&
        unetmm_event_counters_set(core, id, &cmd) != UNETMM_CS_OK) {
        unetmm_stream_refuse(st, "space %u could not have event counters", id);
        return;
    }
    for (unsigned i = 0; i < UNETMM_EVENT_COUNTERS && !st->wrong; i++) {
        unetmm_stream_enter(st, "counter", i);
        counter_save(st, space, &space->counters[i]);
        unetmm_stream_leave(st);
    }
}

/* Each counter that owes a record is in the list; others may be, too. */
static void counters_due_save(UnetmmStream *st, UnetmmCore *core)
{
    uint32_t n = core->params.spaces;
    const bool *due = core->remote->due.has;

    unetmm_list_save(st, &core->remote->due, n, &(UnetmmListNames) {
        "due_used", "due", "counters of space %u are to be told of twice",
    });
    for (uint32_t i = 0; i < n && !st->wrong; i++) {
        if (core->spaces[i].counters_due && !due[i]) {
            unetmm_stream_refuse(st, "nobody is to tell of counters of space "
                                 "%u", i);
        }
    }
}

static uint64_t counters_save_limit(const UnetmmCore *core)
{
    return core->params.spaces * UNETMM_EVENT_COUNTERS * 9ull;
}

const UnetmmModule unetmm_module_eventcount = {
    .name = "eventcount",
    .reset = eventcount_reset,
    .space_end = eventcount_space_end,
    .flush = eventcount_flush,
    .save = counters_due_save,
    .save_limit = counters_save_limit,
};
