/*
 * unetmm: saving and restoring event counters
 *
 * The counts are in the guest's memory.  What goes with the card is where, what
 * each is armed with, and who is still to be told.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../card/state.h"

static void state_counter(UnetmmStream *st, UnetmmSpace *space,
                          UnetmmCounter *c)
{
    uint8_t state = c->state;

    unetmm_stream_u8(st, &state);
    if (state > UNETMM_COUNTER_DUE) {
        unetmm_stream_refuse(st, "an event counter has a state that none has");
        return;
    }
    c->state = state;
    if (state == UNETMM_COUNTER_IDLE) {
        return;
    }
    unetmm_stream_u64(st, &c->value);
    if (unetmm_stream_reads(st) && c->state == UNETMM_COUNTER_DUE) {
        space->counters_due++;
    }
}

void unetmm_state_event_counters(UnetmmStream *st, UnetmmCore *core,
                                 uint16_t id)
{
    UnetmmSpace *space = &core->spaces[id];
    struct unetmm_cmd_counters cmd = { .page = space->counter_page };

    unetmm_stream_u64(st, &cmd.page);
    if (st->wrong || !cmd.page) {
        return;
    }
    if (unetmm_stream_reads(st) &&
        unetmm_counters_set(core, id, &cmd) != UNETMM_CS_OK) {
        unetmm_stream_refuse(st, "space %u could not have event counters", id);
        return;
    }
    for (unsigned i = 0; i < UNETMM_EVENT_COUNTERS && !st->wrong; i++) {
        state_counter(st, space, &space->counters[i]);
    }
}

/* Who owes is in the list; who owes nothing any more may be. */
void unetmm_state_counters_due(UnetmmStream *st, UnetmmCore *core)
{
    uint32_t n = core->params.spaces;
    uint32_t used = unetmm_stream_choice(st, core->due_used, n + 1,
                                         "the list of counters to tell of");

    for (uint32_t i = 0; i < used && !st->wrong; i++) {
        uint16_t *slot = &core->due[(core->due_first + i) % n];

        *slot = unetmm_stream_choice(st, *slot, n, "counters to tell of");
        if (!unetmm_stream_reads(st)) {
            continue;
        }
        if (core->spaces[*slot].telling) {
            unetmm_stream_refuse(st, "counters of space %u are to be told of "
                                 "twice", *slot);
            return;
        }
        unetmm_counters_list(core, *slot);
    }
    for (uint32_t i = 0; i < n && !st->wrong; i++) {
        if (core->spaces[i].counters_due && !core->spaces[i].telling) {
            unetmm_stream_refuse(st, "nobody is to tell of counters of space "
                                 "%u", i);
        }
    }
}
