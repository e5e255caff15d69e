/*
 * unetmm: the queue of endpoints that have work; card/engine.c serves it
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "ep.h"

void unetmm_engine_queue(UnetmmCore *core, UnetmmEp *ep)
{
    uint32_t n = core->params.endpoints;

    if (!ep->queued && ep->live) {
        ep->queued = true;
        core->ready[(core->ready_first + core->ready_used++) % n] = ep->id;
    }
}

UnetmmEp *unetmm_ready_pop(UnetmmCore *core)
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

static void ready_create(UnetmmCore *core)
{
    core->ready = g_new0(uint16_t, core->params.endpoints);
}

static void ready_reset(UnetmmCore *core)
{
    for (uint32_t i = 0; i < core->params.endpoints; i++) {
        core->eps[i].queued = false;
    }
    core->ready_first = core->ready_used = 0;
}

static void ready_free(UnetmmCore *core)
{
    g_clear_pointer(&core->ready, g_free);
}

/* Whose turn it is: the order is state of its own. */
static void ready_save(UnetmmStream *st, UnetmmCore *core)
{
    uint32_t n = core->params.endpoints;
    uint32_t used = unetmm_stream_choice(st, core->ready_used, n + 1,
                                         "ready_used");

    for (uint32_t i = 0; i < used && !st->wrong; i++) {
        uint16_t *slot = &core->ready[(core->ready_first + i) % n];

        *slot = unetmm_stream_member(st, *slot, n, "ready", i);
        if (!unetmm_stream_reads(st)) {
            continue;
        }
        if (core->eps[*slot].queued) {
            unetmm_stream_refuse(st, "endpoint %u is to be served twice",
                                 *slot);
            return;
        }
        core->eps[*slot].queued = true;
        core->ready_used++;
    }
}

const UnetmmModule unetmm_module_ready = {
    .name = "ready",
    .create = ready_create,
    .reset = ready_reset,
    .free = ready_free,
    .save = ready_save,
};
