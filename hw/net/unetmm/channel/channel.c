/*
 * unetmm: channels: an endpoint's peers, and the type of each channel
 *
 * A type is a table of operations; everything that differs between types is in
 * its own files.  Only the driver sets channels.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "channel.h"

uint8_t unetmm_channel_type(const UnetmmCore *core,
                            const UnetmmChannel *channel)
{
    uint8_t type = 0;

    while (core->tables->channels[type] != channel->ops) {
        type++;
    }
    return type;
}

static UnetmmChannel *channel_at(UnetmmCore *core, uint16_t id,
                                 uint16_t number)
{
    UnetmmEp *ep = unetmm_ep_live(core, id);

    if (!ep || id == 0 || ep->closing || number >= core->params.channels) {
        return NULL;
    }
    return &ep->channels[number];
}

/* A process that frees or reuses the number need not be told. */
static void channel_forget_end(UnetmmEp *ep, UnetmmChannel *channel)
{
    ep->ends_owed -= channel->end_owed != UNETMM_ST_OK;
    channel->end_owed = UNETMM_ST_OK;
    channel->tells_end = false;
}

void unetmm_channel_ended(UnetmmCore *core, UnetmmEp *ep, uint16_t number,
                          uint8_t status)
{
    UnetmmChannel *channel = &ep->channels[number];

    if (channel->tells_end) {
        channel->tells_end = false;
        channel->end_owed = status;
        ep->ends_owed++;
        unetmm_ready_push(core, ep);
    }
}

/*
 * Is an entry that was posted before `end` still to come back?  `end` may lie
 * any number of entries behind.
 */
static bool channel_flushes_to(uint32_t end, uint32_t cons, uint32_t prod)
{
    return end != cons && end - cons <= prod - cons;
}

/* Is something to come back that was there when the flush began? */
static bool channel_flushes(const UnetmmEp *ep, const UnetmmChannel *channel)
{
    return ep->flushing &&
           (channel_flushes_to(ep->flush_sq, ep->sq_cons, ep->sq_prod) ||
            (ep->queue == ep &&
             channel_flushes_to(ep->flush_fq, ep->fq_cons, ep->fq_prod)) ||
            (channel->live && channel->ops->busy &&
             channel->ops->busy(channel)));
}

/*
 * All that the channel has received, and all that a flush gives back, comes
 * before the report of its end.
 */
static bool channel_due(const UnetmmCore *core, const UnetmmEp *ep, uint16_t i)
{
    return ep->channels[i].end_owed != UNETMM_ST_OK &&
           !channel_flushes(ep, &ep->channels[i]) &&
           !unetmm_modules_unfinished(&core->modules, core, ep, i);
}

bool unetmm_channel_tells(const UnetmmCore *core, const UnetmmEp *ep)
{
    for (uint32_t i = 0; i < core->params.channels; i++) {
        if (channel_due(core, ep, i)) {
            return true;
        }
    }
    return false;
}

/* Writes the notifications owed, as far as room and budget go. */
void unetmm_channel_tell(UnetmmCore *core, UnetmmEp *ep)
{
    for (uint32_t i = 0; i < core->params.channels && ep->ends_owed &&
         unetmm_ep_cq_spare(ep) && unetmm_budget_left(core); i++) {
        UnetmmChannel *channel = &ep->channels[i];
        struct unetmm_cqe cqe = {
            .opcode = UNETMM_CQE_CLOSED, .status = channel->end_owed,
            .channel = i,
        };

        if (!channel_due(core, ep, i)) {
            continue;
        }
        if (!unetmm_ep_complete(core, ep, &cqe)) {
            return;
        }
        channel->end_owed = UNETMM_ST_OK;
        ep->ends_owed--;
    }
}

static void channel_end(UnetmmCore *core, UnetmmEp *ep,
                        UnetmmChannel *channel)
{
    if (channel->live && channel->ops->clear) {
        channel->ops->clear(core, ep, channel);
    }
    channel->live = false;
}

/* False: the channel, or its endpoint, has no such end. */
static bool channel_flush(UnetmmCore *core, UnetmmEp *ep,
                          UnetmmChannel *channel)
{
    if (!channel->live || !channel->ops->flush || unetmm_ep_slotted(ep)) {
        return false;
    }
    if (!ep->error && unetmm_ep_read_user(core, ep)) {
        ep->flushing = true;
        ep->flush_sq = ep->sq_prod;
        ep->flush_fq = ep->fq_prod;
        channel->ops->flush(core, ep, channel);
        unetmm_ready_push(core, ep);
    }
    return true;
}

uint8_t unetmm_channel_clear(UnetmmCore *core, uint16_t id,
                             const struct unetmm_cmd_channel *cmd,
                             uint32_t *result)
{
    UnetmmChannel *channel = channel_at(core, id, cmd->channel);
    UnetmmEp *ep;

    if (!channel) {
        return UNETMM_CS_BAD_ID;
    }
    ep = &core->eps[id];
    if (cmd->flags & UNETMM_CHANNEL_F_FLUSH) {
        if (!channel_flush(core, ep, channel)) {
            return UNETMM_CS_BAD_ARG;
        }
        channel->tells_end = cmd->flags & UNETMM_CHANNEL_F_TELL &&
                             !channel->end_owed;
        unetmm_channel_ended(core, ep, cmd->channel, UNETMM_ST_FLUSHED);
    } else {
        channel_end(core, ep, channel);
    }
    if (cmd->flags & UNETMM_CHANNEL_F_TELL) {
        unetmm_channel_ended(core, ep, cmd->channel, UNETMM_ST_BAD_CHANNEL);
    } else if (!(cmd->flags & UNETMM_CHANNEL_F_FLUSH)) {
        channel_forget_end(ep, channel);
    }
    *result = (channel->end_owed != UNETMM_ST_OK) +
              unetmm_modules_unfinished(&core->modules, core, ep,
                                        cmd->channel) +
              (ep->rels ? ep->rel_ops->owed(ep, cmd->channel) : 0);
    trace_unetmm_channel(id, cmd->channel, false, 0, 0);
    return UNETMM_CS_OK;
}

/* Does the report of another channel wait for all that a flush gives back? */
static bool channel_other_flushes(const UnetmmCore *core, const UnetmmEp *ep,
                                  const UnetmmChannel *but)
{
    for (uint32_t i = 0; ep->flushing && i < core->params.channels; i++) {
        const UnetmmChannel *other = &ep->channels[i];

        if (other != but && other->end_owed != UNETMM_ST_OK &&
            channel_flushes(ep, other)) {
            return true;
        }
    }
    return false;
}

/* A UD channel that still takes the message under way. */
static bool channel_stays(const UnetmmEp *ep, const UnetmmChannel *channel,
                          const UnetmmChannel *wanted)
{
    return channel->live && unetmm_channel_is_ud(channel) &&
           channel->ops == wanted->ops && !ep->flushing &&
           wanted->longest >= channel->longest;
}

uint8_t unetmm_channel_set(UnetmmCore *core, uint16_t id,
                           const struct unetmm_cmd_channel *cmd)
{
    UnetmmChannel *channel = channel_at(core, id, cmd->channel);
    UnetmmChannel wanted = {
        .live = true, .peer_ep = cmd->peer_ep,
        .peer_channel = cmd->peer_channel, .mtu = cmd->mtu,
        .longest = cmd->mtu, .qkey = cmd->qkey,
        .tells_end = cmd->flags & UNETMM_CHANNEL_F_TELL,
        .peer_takes = cmd->flags & UNETMM_CHANNEL_F_PEER,
        .strict = cmd->flags & UNETMM_CHANNEL_F_STRICT,
    };
    uint8_t status;

    if (!channel) {
        return UNETMM_CS_BAD_ID;
    }
    if (cmd->mtu < UNETMM_MIN_MTU || cmd->mtu > UNETMM_MAX_PAYLOAD ||
        (cmd->peer_mac[0] & 1) || cmd->type >= UNETMM_NUM_CHANNEL_TYPES) {
        return UNETMM_CS_BAD_ARG;
    }
    wanted.ops = core->tables->channels[cmd->type];
    if (core->eps[id].raw || core->eps[id].shared ||
        !unetmm_policy_allows(core, core->eps[id].policy,
                              wanted.ops->with)) {
        return UNETMM_CS_BAD_ARG;
    }
    if (channel_other_flushes(core, &core->eps[id], channel)) {
        return UNETMM_CS_BUSY;
    }
    memcpy(wanted.mac, cmd->peer_mac, sizeof(wanted.mac));
    if (wanted.ops->set) {
        status = wanted.ops->set(core, &core->eps[id], &wanted, cmd);
        if (status != UNETMM_CS_OK) {
            return status;
        }
    }
    if (!channel_stays(&core->eps[id], channel, &wanted)) {
        channel_end(core, &core->eps[id], channel);
    }
    channel_forget_end(&core->eps[id], channel);
    *channel = wanted;
    core->eps[id].flushing = false;
    trace_unetmm_channel(id, cmd->channel, true, cmd->peer_ep, cmd->mtu);
    return UNETMM_CS_OK;
}

uint8_t unetmm_channel_modify(UnetmmCore *core, uint16_t id,
                              const struct unetmm_cmd_modify *cmd)
{
    UnetmmChannel *channel = channel_at(core, id, cmd->channel);

    if (!channel || !channel->live) {
        return UNETMM_CS_BAD_ID;
    }
    return channel->ops->modify ?
           channel->ops->modify(core, &core->eps[id], channel, cmd) :
           UNETMM_CS_BAD_ARG;
}
