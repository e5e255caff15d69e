/*
 * unetmm: the budget of the card's work
 *
 * All entry points spend the same budget; unetmm_core_run() renews it.
 * card/engine.c lists the work that each part of it pays for.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "base.h"

void unetmm_budget_renew(UnetmmCore *core)
{
    core->budget = (UnetmmBudget) {
        .descriptors = core->params.budget_descriptors,
        .bytes = core->params.budget_bytes,
        .turns = 2 * core->params.budget_descriptors,
        .arrivals = core->params.budget_bytes,
    };
}
