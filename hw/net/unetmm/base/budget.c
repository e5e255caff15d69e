/*
 * unetmm: the budget of one activity
 *
 * card/engine.c lists the users of the budget, and when it is renewed.
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

void unetmm_spend_now(UnetmmCore *core, UnetmmStep step, uint32_t n)
{
    core->ops->spend(core->host, step, n);
}
