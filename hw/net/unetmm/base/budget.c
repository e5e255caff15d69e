/*
 * unetmm: the budget of one activity, and the endpoints that wait for a turn
 *
 * card/engine.c says who spends the budget, and when it is renewed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../card/core.h"

void unetmm_budget_renew(UnetmmCore *core)
{
    core->budget = (UnetmmBudget) {
        .descriptors = core->params.budget_descriptors,
        .bytes = core->params.budget_bytes,
        .turns = 2 * core->params.budget_descriptors,
        .arrivals = core->params.budget_bytes,
    };
}

void unetmm_charge(UnetmmCore *core, uint32_t descriptors, uint32_t bytes)
{
    UnetmmBudget *b = &core->budget;

    if (b->arriving) {
        bytes += descriptors * UNETMM_LEAST_BYTES;
        b->arrivals -= MIN(b->arrivals, bytes);
        return;
    }
    b->descriptors -= MIN(b->descriptors, descriptors);
    b->bytes -= MIN(b->bytes, bytes);
}

void unetmm_engine_queue(UnetmmCore *core, UnetmmEp *ep)
{
    uint32_t n = core->params.endpoints;

    if (!ep->queued && ep->live) {
        ep->queued = true;
        core->ready[(core->ready_first + core->ready_used++) % n] = ep->id;
    }
}

static void ready_create(UnetmmCore *core)
{
    core->ready = g_new0(uint16_t, core->params.endpoints);
    unetmm_budget_renew(core);
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

const UnetmmModule unetmm_module_ready = {
    .name = "ready",
    .create = ready_create,
    .reset = ready_reset,
    .free = ready_free,
};
