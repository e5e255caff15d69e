/*
 * unetmm: channel type reliable: how its connections begin, and its operations
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "reliable.h"

static void rel_create(UnetmmCore *core)
{
    core->rels = g_new0(UnetmmRel *, MAX(core->params.reliable, 1));
    core->acks = g_new0(uint64_t, core->params.reliable / 64 + 1);
    core->timed = g_new0(uint64_t, core->params.reliable / 64 + 1);
    core->rel_due_ns = INT64_MAX;
}

static void rel_free(UnetmmCore *core)
{
    g_clear_pointer(&core->rels, g_free);
    g_clear_pointer(&core->acks, g_free);
    g_clear_pointer(&core->timed, g_free);
}

/* A connection in `slot`, which is free. */
UnetmmRel *unetmm_rel_new(UnetmmCore *core, UnetmmEp *ep, uint16_t slot)
{
    UnetmmRel *rel = g_new0(UnetmmRel, 1);

    unetmm_rel_join(ep, rel);
    ep->rel_ops = &unetmm_channel_reliable;
    rel->ep = rel->share.ep = ep->id;
    rel->share.ops = &unetmm_rel_share;
    unetmm_sendwin_wait(&rel->tx, INT64_MAX);
    rel->stores = (UnetmmStores) { .rel = rel, .ep = ep->id,
                                   .due_ns = INT64_MAX };
    unetmm_rel_attach(core, rel, slot);
    core->rels_used++;
    return rel;
}

static bool rel_credits_ok(const UnetmmCore *core, const UnetmmEp *ep,
                           const struct unetmm_cmd_channel *cmd)
{
    return cmd->send_credits <= UNETMM_REL_WINDOW &&
           (ep->policy->channel_ok ? ep->policy->channel_ok(core, cmd) :
            !cmd->recv_credits);
}

static uint8_t rel_set(UnetmmCore *core, UnetmmEp *ep, UnetmmChannel *channel,
                       const struct unetmm_cmd_channel *cmd)
{
    uint16_t slot = 0;
    UnetmmRel *rel;

    if (cmd->timeout_us > UNETMM_REL_MAX_TIMEOUT_US ||
        cmd->not_ready_us > UNETMM_REL_MAX_TIMEOUT_US) {
        return UNETMM_CS_BAD_ARG;
    }
    if (!rel_credits_ok(core, ep, cmd)) {
        return UNETMM_CS_BAD_ARG;
    }
    if (core->rels_used == core->params.reliable ||
        !unetmm_sysbuf_promise(core, cmd->recv_credits)) {
        return UNETMM_CS_FULL;
    }
    while (core->rels[slot]) {
        slot++;
    }
    rel = unetmm_rel_new(core, ep, slot);
    rel->share.credits = cmd->recv_credits;
    rel->rewinds = cmd->flags & UNETMM_CHANNEL_F_REWIND;
    rel->plain_rnr = cmd->flags & UNETMM_CHANNEL_F_PLAIN_RNR;
    unetmm_sendwin_begin(&rel->tx, cmd->send_psn, cmd->send_credits);
    rel->channel = rel->share.channel = cmd->channel;
    rel->peer_ep = cmd->peer_ep;
    rel->peer_channel = cmd->peer_channel;
    rel->mtu = cmd->mtu;
    memcpy(rel->mac, cmd->peer_mac, sizeof(rel->mac));
    rel->retries = cmd->retries ?: UNETMM_REL_RETRIES;
    rel->not_ready_retries = cmd->not_ready_retries;
    rel->timeout_us = cmd->timeout_us ?: UNETMM_REL_TIMEOUT_US;
    rel->not_ready_us = cmd->not_ready_us ?: UNETMM_REL_NOT_READY_US;
    unetmm_recvwin_begin(&rel->rx, cmd->recv_psn);
    rel->along.likely = UNETMM_REL_ALONG_FIRST;
    channel->rel = rel;
    channel->longest = UNETMM_MAX_MESSAGE;
    return UNETMM_CS_OK;
}

static void rel_clear(UnetmmCore *core, UnetmmEp *ep, UnetmmChannel *channel)
{
    UnetmmRel *rel = g_steal_pointer(&channel->rel);

    unetmm_rel_close(core, ep, rel);
    /* Keys of one peer's memory must not be said to another. */
    unetmm_import_drop(core, ep, channel - ep->channels);
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

static bool rel_has_work(UnetmmCore *core, UnetmmEp *ep)
{
    return unetmm_rel_first(ep) != NULL;
}

const UnetmmChannelOps unetmm_channel_reliable = {
    .name = "reliable",
    .with = UNETMM_WITH_RELIABLE,
    .wire = 1u << UNETMM_WIRE_SEND | 1u << UNETMM_WIRE_ACK |
            1u << UNETMM_WIRE_WRITE | 1u << UNETMM_WIRE_READ |
            1u << UNETMM_WIRE_ATOMIC | 1u << UNETMM_WIRE_ANSWER |
            1u << UNETMM_WIRE_VOID,
    .set = rel_set,
    .clear = rel_clear,
    .post = unetmm_rel_post,
    .receive = unetmm_rel_receive,
    .allows = unetmm_import_allows,
    .next = unetmm_rel_next,
    .has_work = rel_has_work,
    .completes = unetmm_rel_completes,
    .moved = unetmm_rel_moved,
    .stores = unetmm_rel_stores,
    .update = unetmm_rel_update,
    .overrun = unetmm_rel_overrun,
    .start = unetmm_rel_start,
    .landing = &unetmm_landing_packet,
};

static void rel_reset(UnetmmCore *core)
{
    for (uint32_t i = 0; i < core->params.endpoints; i++) {
        if (core->eps[i].live) {
            rel_forget(core, &core->eps[i]);
        }
    }
    core->rel_due_ns = INT64_MAX;
    core->rels_waiting = false;
}

static void rel_turn(UnetmmCore *core, UnetmmEp *ep)
{
    if (ep->rels) {
        unetmm_rel_complete(core, ep);
        unetmm_rel_look_again(core, ep);
    }
}

static bool rel_idle(UnetmmCore *core)
{
    if (!core->acks_owed) {
        return false;
    }
    unetmm_rel_flush_acks(core);
    return true;
}

static void rel_due(UnetmmCore *core, int64_t now)
{
    if (core->rel_due_ns <= now) {
        unetmm_rel_timer(core, now);
    }
}

const UnetmmModule unetmm_module_rel = {
    .name = "rel",
    .create = rel_create,
    .reset = rel_reset,
    .free = rel_free,
    .ep_stop = rel_stop,
    .ep_end = rel_forget,
    .turn = rel_turn,
    .idle = rel_idle,
    .deadline_at = offsetof(UnetmmCore, rel_due_ns),
    .due = rel_due,
    .landed = unetmm_rel_landing_over,
    .check = unetmm_rels_check,
    .save_limit = unetmm_rels_save_limit,
};
