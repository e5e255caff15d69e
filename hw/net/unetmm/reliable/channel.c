/*
 * unetmm: channel type reliable: its operations
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../send/send.h"
#include "pace.h"
#include "reliable.h"

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
        cmd->not_ready_us > UNETMM_REL_MAX_TIMEOUT_US ||
        cmd->state > UNETMM_CHANNEL_INIT) {
        return UNETMM_CS_BAD_ARG;
    }
    if (!rel_credits_ok(core, ep, cmd) || cmd->denied & ~UNETMM_RIGHT_ALL) {
        return UNETMM_CS_BAD_ARG;
    }
    if (core->rel->used == core->params.reliable ||
        !unetmm_sysbuf_promise(core, cmd->recv_credits)) {
        return UNETMM_CS_FULL;
    }
    while (core->rel->all[slot]) {
        slot++;
    }
    rel = unetmm_rel_new(core, ep, slot);
    rel->share.credits = cmd->recv_credits;
    rel->rewinds = cmd->flags & UNETMM_CHANNEL_F_REWIND;
    rel->strict = cmd->flags & UNETMM_CHANNEL_F_STRICT;
    rel->denied = cmd->denied;
    rel->plain_rnr = cmd->flags & UNETMM_CHANNEL_F_PLAIN_RNR;
    unetmm_sendwin_begin(&rel->tx, cmd->send_psn, cmd->send_credits);
    unetmm_rel_pace_begin(core, rel);
    rel->channel = rel->share.channel = cmd->channel;
    rel->peer_ep = cmd->peer_ep;
    rel->peer_channel = cmd->peer_channel;
    rel->mtu = cmd->mtu;
    memcpy(rel->mac, cmd->peer_mac, sizeof(rel->mac));
    rel->retries = cmd->retries ?: UNETMM_REL_RETRIES;
    rel->not_ready_retries = cmd->not_ready_retries ?: UNETMM_REL_NO_LIMIT;
    rel->stage = cmd->state;
    rel->timeout_us = cmd->timeout_us ?: UNETMM_REL_TIMEOUT_US;
    rel->not_ready_us = cmd->not_ready_us ?: UNETMM_REL_NOT_READY_US;
    unetmm_recvwin_begin(&rel->rx, cmd->recv_psn);
    rel->along.likely = UNETMM_REL_ALONG_FIRST;
    channel->rel = rel;
    channel->longest = unetmm_rel_longest(rel);
    return UNETMM_CS_OK;
}

/* A time that may be changed to. */
static bool rel_time_ok(uint32_t us)
{
    return us && us <= UNETMM_REL_MAX_TIMEOUT_US;
}

/* Are the members that count right, in the state that the channel has now? */
static bool rel_modify_ok(const UnetmmRel *rel,
                          const struct unetmm_cmd_modify *cmd)
{
    uint16_t members = cmd->members;

    return rel->state == UNETMM_REL_OPEN && !(members & ~UNETMM_MODIFY_ALL) &&
           !(members & UNETMM_MODIFY_STATE && cmd->state > rel->stage) &&
           !(members & UNETMM_MODIFY_RETRIES &&
             cmd->retries > UNETMM_MODIFY_MAX_RETRIES) &&
           !(members & UNETMM_MODIFY_NOT_READY_RETRIES &&
             cmd->not_ready_retries > UNETMM_MODIFY_MAX_RETRIES) &&
           !(members & UNETMM_MODIFY_DENIED &&
             cmd->denied & ~UNETMM_RIGHT_ALL) &&
           !(members & UNETMM_MODIFY_TIMEOUT &&
             !rel_time_ok(cmd->timeout_us)) &&
           !(members & UNETMM_MODIFY_NOT_READY &&
             !rel_time_ok(cmd->not_ready_us)) &&
           !(members & UNETMM_MODIFY_SEND_PSN &&
             (rel->stage == UNETMM_CHANNEL_RTS ||
              cmd->send_psn > UNETMM_MODIFY_MAX_PSN)) &&
           !(members & UNETMM_MODIFY_RECV_PSN &&
             (rel->stage != UNETMM_CHANNEL_INIT ||
              cmd->recv_psn > UNETMM_MODIFY_MAX_PSN));
}

static void rel_modify_numbers(UnetmmCore *core, UnetmmRel *rel,
                               const struct unetmm_cmd_modify *cmd)
{
    uint32_t credits = rel->tx.limited ? rel->tx.limit - rel->tx.nxt : 0;

    if (cmd->members & UNETMM_MODIFY_SEND_PSN) {
        unetmm_sendwin_begin(&rel->tx, cmd->send_psn, credits);
        unetmm_rel_pace_begin(core, rel);
    }
    if (cmd->members & UNETMM_MODIFY_RECV_PSN) {
        unetmm_recvwin_begin(&rel->rx, cmd->recv_psn);
    }
}

static uint8_t rel_modify(UnetmmCore *core, UnetmmEp *ep,
                          UnetmmChannel *channel,
                          const struct unetmm_cmd_modify *cmd)
{
    UnetmmRel *rel = channel->rel;
    uint16_t members = cmd->members;

    if (!rel_modify_ok(rel, cmd)) {
        return UNETMM_CS_BAD_ARG;
    }
    rel_modify_numbers(core, rel, cmd);
    if (members & UNETMM_MODIFY_RETRIES) {
        rel->retries = cmd->retries;
    }
    if (members & UNETMM_MODIFY_NOT_READY_RETRIES) {
        rel->not_ready_retries =
            cmd->not_ready_retries == UNETMM_MODIFY_MAX_RETRIES ?
            UNETMM_REL_NO_LIMIT : cmd->not_ready_retries;
    }
    if (members & UNETMM_MODIFY_DENIED) {
        rel->denied = cmd->denied;
    }
    if (members & UNETMM_MODIFY_TIMEOUT) {
        rel->timeout_us = cmd->timeout_us;
    }
    if (members & UNETMM_MODIFY_NOT_READY) {
        rel->not_ready_us = cmd->not_ready_us;
    }
    if (members & UNETMM_MODIFY_STATE) {
        rel->stage = cmd->state;
        unetmm_rel_wake(ep, rel);
        unetmm_ready_push(core, ep);
    }
    return UNETMM_CS_OK;
}

static void rel_clear(UnetmmCore *core, UnetmmEp *ep, UnetmmChannel *channel)
{
    UnetmmRel *rel = g_steal_pointer(&channel->rel);

    unetmm_rel_close(core, ep, rel);
    /* Keys of one peer's memory must not be said to another. */
    unetmm_import_drop(core, ep, channel - ep->channels);
}

static void rel_flush(UnetmmCore *core, UnetmmEp *ep, UnetmmChannel *channel)
{
    UnetmmRel *rel = channel->rel;

    /* The peer hears of messages that were taken, and of nothing else. */
    if (rel->state == UNETMM_REL_OPEN && rel->stage != UNETMM_CHANNEL_INIT) {
        unetmm_rel_owe_ack(core, rel);
    }
    unetmm_rel_fail(core, ep, rel, &unetmm_rel_nobody, UNETMM_ST_FLUSHED,
                    UNETMM_REL_QUIET);
    unetmm_send_flush(core, ep);
}

static bool rel_busy(const UnetmmChannel *channel)
{
    const UnetmmRel *rel = channel->rel;

    return rel->msgs.first != rel->msgs.end || rel->in.giving_back;
}

static bool rel_gives_back(const UnetmmEp *ep)
{
    const UnetmmRel *rel = ep->rels;

    while (rel && !rel->in.giving_back) {
        rel = rel->next;
    }
    return rel;
}

/* A strict channel ends by such a buffer, when that is the next one. */
static bool rel_keeps_failed(const UnetmmEp *ep)
{
    const UnetmmRel *rel = ep->rels;

    while (rel && !rel->strict) {
        rel = rel->next;
    }
    return rel;
}

static uint32_t rel_owed(const UnetmmEp *ep, uint16_t number)
{
    uint32_t owed = 0;

    for (const UnetmmRel *rel = ep->rels; rel; rel = rel->next) {
        if (rel->state == UNETMM_REL_CLOSED && rel->channel == number) {
            owed += rel->msgs.end - rel->msgs.first;
        }
    }
    return owed;
}

static bool rel_has_work(UnetmmCore *core, UnetmmEp *ep)
{
    return unetmm_rel_first(ep) != NULL;
}

const UnetmmChannelOps unetmm_channel_reliable = {
    .name = "reliable",
    .with = UNETMM_WITH_RELIABLE,
    .set = rel_set,
    .modify = rel_modify,
    .clear = rel_clear,
    .post = unetmm_rel_post,
    .receive = unetmm_rel_receive,
    .allows = unetmm_import_allows,
    .next = unetmm_rel_next,
    .has_work = rel_has_work,
    .completes = unetmm_rel_completes,
    .flush = rel_flush,
    .busy = rel_busy,
    .gives_back = rel_gives_back,
    .keeps_failed = rel_keeps_failed,
    .owed = rel_owed,
    .moved = unetmm_rel_moved,
    .stores = unetmm_rel_stores,
    .update = unetmm_rel_update,
    .overrun = unetmm_rel_overrun,
    .start = unetmm_rel_start,
    .landing = &unetmm_landing_packet,
};
