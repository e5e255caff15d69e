/*
 * unetmm: reliable channels: their part in the card's life
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "reliable.h"

static void rel_create(UnetmmCore *core)
{
    core->rel = g_new0(UnetmmRels, 1);
    core->rel->all = g_new0(UnetmmRel *, MAX(core->params.reliable, 1));
    core->rel->acks = g_new0(uint64_t, core->params.reliable / 64 + 1);
    core->rel->timed = g_new0(uint64_t, core->params.reliable / 64 + 1);
    core->rel->due_ns = INT64_MAX;
}

static void rel_free(UnetmmCore *core)
{
    g_free(core->rel->all);
    g_free(core->rel->acks);
    g_free(core->rel->timed);
    g_clear_pointer(&core->rel, g_free);
}

static void rel_stop(UnetmmCore *core, UnetmmEp *ep)
{
    for (UnetmmRel *rel = ep->rels; rel; rel = rel->next) {
        unetmm_sendwin_wait(&rel->tx, INT64_MAX);
        unetmm_rel_drop_kept(core, rel);
        unetmm_rel_no_ack(core, rel);
        rel->along.question = UNETMM_REL_NO_QUESTION;
        unetmm_window_forget(core, ep, &rel->stores);
        unetmm_rel_ask_no_more(core, rel);
    }
}

static void rel_forget(UnetmmCore *core, UnetmmEp *ep)
{
    while (ep->rels) {
        UnetmmRel *rel = ep->rels;

        unetmm_rel_part(ep, rel);
        unetmm_rel_delete(core, rel);
    }
}

static void rel_reset(UnetmmCore *core)
{
    for (uint32_t i = 0; i < core->params.endpoints; i++) {
        if (core->eps[i].live) {
            rel_forget(core, &core->eps[i]);
        }
    }
    core->rel->due_ns = INT64_MAX;
    core->rel->waiting = false;
}

static void rel_ep_turn(UnetmmCore *core, UnetmmEp *ep)
{
    if (ep->rels) {
        unetmm_rel_complete(core, ep);
        unetmm_rel_look_again(core, ep);
    }
}

static bool rel_idle(UnetmmCore *core)
{
    if (!core->rel->acks_owed) {
        return false;
    }
    unetmm_rel_flush_acks(core);
    return true;
}

static void rel_due(UnetmmCore *core, int64_t now)
{
    if (core->rel->due_ns <= now) {
        unetmm_rel_timer(core, now);
    }
}

static const int64_t *rel_deadline(const UnetmmCore *core)
{
    return &core->rel->due_ns;
}

const UnetmmModule unetmm_module_rel = {
    .name = "rel",
    .create = rel_create,
    .reset = rel_reset,
    .free = rel_free,
    .ep_stop = rel_stop,
    .ep_end = rel_forget,
    .turn = rel_ep_turn,
    .deferred_work = rel_idle,
    .deadline_at = rel_deadline,
    .deadline_passed = rel_due,
    .landing_over = unetmm_rel_landing_over,
    .check = unetmm_rels_check,
    .save_limit = unetmm_rels_save_limit,
};
