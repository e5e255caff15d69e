/*
 * unetmm: saving and restoring endpoints and their channels
 *
 * The functions of EP_CREATE and CHANNEL_SET check restored values as they do
 * commands.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../channel/channel.h"
#include "../recv/recv.h"
#include "../ring/ring.h"
#include "../send/send.h"
#include "core.h"

/* ---- Channels ----------------------------------------------------------- */

/* Of a channel that there is, or was: is its end to be told? */
static void channel_end_save(UnetmmStream *st, UnetmmEp *ep,
                             UnetmmChannel *channel)
{
    unetmm_stream_bool(st, &channel->tells_end, "tell");
    channel->end_owed = unetmm_stream_choice(st, channel->end_owed,
                                             UNETMM_NUM_ST, "ended");
    if (channel->tells_end && (channel->end_owed || !channel->live)) {
        unetmm_stream_refuse(st, "a channel of endpoint %u ends twice",
                             ep->id);
    }
    if (unetmm_stream_reads(st)) {
        ep->ends_owed += channel->end_owed != UNETMM_ST_OK;
    }
}

static const UnetmmField channel_fields[] = {
    UNETMM_FIELD_BYTES(struct unetmm_cmd_channel, peer_mac),
    UNETMM_FIELDS(struct unetmm_cmd_channel, peer_ep, peer_channel, mtu, type,
                  recv_credits, qkey),
    UNETMM_FIELD_AS(struct unetmm_cmd_channel, flags, "peer_takes"),
};

static void channel_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep,
                         uint16_t number)
{
    UnetmmChannel *channel = &ep->channels[number];
    struct unetmm_cmd_channel cmd = {
        .channel = number, .peer_ep = channel->peer_ep,
        .peer_channel = channel->peer_channel, .mtu = channel->mtu,
        .qkey = channel->qkey,
        .type = channel->live ? unetmm_channel_type(core, channel) : 0,
        .recv_credits = channel->rel ?
                        core->tables->saved->credits(channel->rel) : 0,
        .flags = channel->peer_takes |
                 (channel->strict ? UNETMM_CHANNEL_F_STRICT : 0),
    };
    bool live = channel->live;

    unetmm_stream_bool(st, &live, "live");
    if (!live) {
        channel_end_save(st, ep, channel);
        return;
    }
    memcpy(cmd.peer_mac, channel->mac, sizeof(cmd.peer_mac));
    UNETMM_STREAM_FIELDS(st, &cmd, channel_fields);
    if (cmd.flags & ~(UNETMM_CHANNEL_F_PEER | UNETMM_CHANNEL_F_STRICT)) {
        unetmm_stream_refuse(st, "a peer takes packets that are unknown");
    }
    if (unetmm_stream_takes(st) &&
        unetmm_channel_set(core, ep->id, &cmd) != UNETMM_CS_OK) {
        unetmm_stream_refuse(st, "channel %u of endpoint %u could not have "
                             "been set", number, ep->id);
    }
    channel_end_save(st, ep, channel);
}

/* ---- Endpoints ---------------------------------------------------------- */

static const UnetmmField ep_fields[] = {
    UNETMM_FIELDS(struct unetmm_cmd_ep, sq_base, fq_base, cq_base, index, posts,
                  sq_log2, fq_log2, cq_log2, policy, pretranslate, flags),
    UNETMM_FIELDS(struct unetmm_cmd_ep, backup, pd),
};

/* EP_CREATE's arguments.  False: there is no endpoint to go on with. */
static bool ep_create_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep,
                           uint16_t id)
{
    struct unetmm_cmd_ep cmd = {
        .sq_base = ep->sq_base, .fq_base = ep->fq_base,
        .cq_base = ep->cq_base, .index = ep->index, .posts = ep->posts,
        .sq_log2 = ep->sq_log2, .fq_log2 = ep->fq_log2,
        .cq_log2 = ep->cq_log2, .pretranslate = ep->max_heads,
        .flags = (ep->raw ? UNETMM_EP_F_RAW : 0) |
                 (ep->vector ? UNETMM_EP_F_VECTOR : 0) |
                 (ep->no_inline ? UNETMM_EP_F_NO_INLINE : 0) |
                 (ep->keys ? UNETMM_EP_F_KEYS : 0) |
                 (ep->shared ? UNETMM_EP_F_SHARED : 0),
        .backup = ep->bm_size, .pd = ep->pd,
    };
    uint16_t space = ep->space;

    while (ep->live && unetmm_policy_by_id(core, cmd.policy) != ep->policy) {
        cmd.policy++;
    }
    unetmm_stream_u16(st, &space, "space");
    UNETMM_STREAM_FIELDS(st, &cmd, ep_fields);
    if (unetmm_stream_takes(st) &&
        unetmm_ep_setup(core, id, space, &cmd) != UNETMM_CS_OK) {
        unetmm_stream_refuse(st, "endpoint %u could not have been created",
                             id);
    }
    return !st->wrong;
}

static const UnetmmField ep_queues_fields[] = {
    UNETMM_FIELDS(UnetmmEp, sq_prod, sq_cons, fq_prod, fq_cons, cq_prod,
                  cq_cons, arm, arm_done, activity, state_shown),
};

static const UnetmmField ep_flush_fields[] = {
    UNETMM_FIELD_IF(UnetmmEp, flushing),
    UNETMM_FIELDS(UnetmmEp, flush_sq, flush_fq),
};

static void ep_queues_save(UnetmmStream *st, UnetmmEp *ep)
{
    UNETMM_STREAM_FIELDS(st, ep, ep_queues_fields);
    UNETMM_STREAM_FIELDS(st, ep, ep_flush_fields);
    /* A stopped endpoint may have been stopped for its indices. */
    if ((!ep->error && (ep->sq_prod - ep->sq_cons > 1u << ep->sq_log2 ||
                        ep->fq_prod - ep->fq_cons > 1u << ep->fq_log2)) ||
        ep->cq_prod - ep->cq_cons > 1u << ep->cq_log2) {
        unetmm_stream_refuse(st, "an index of endpoint %u is out of its queue",
                             ep->id);
    }
    /* Where the flush ends may be any number: see channel_flushes_to(). */
    if (ep->flushing && unetmm_ep_slotted(ep)) {
        unetmm_stream_refuse(st, "endpoint %u cannot be flushed so", ep->id);
    }
}

static const UnetmmField ep_flags_fields[] = {
    UNETMM_BOOLS(UnetmmEp, error, closing, notify_cq, notify_error, publish,
                 failed_cqe, sq_waits, rel_turn),
    UNETMM_FIELD_RANGE(UnetmmEp, fail_status, 0, UNETMM_NUM_ST - 1),
    UNETMM_FIELD_RANGE(UnetmmEp, end_status, 0, UNETMM_NUM_ST - 1),
    UNETMM_FIELD(UnetmmEp, close_tag),
};

static void ep_flags_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    UNETMM_STREAM_FIELDS(st, ep, ep_flags_fields);
    if ((ep->closing && (!ep->error || ep->notify_cq || ep->notify_error ||
                         ep->end_status)) ||
        (ep->failed_cqe && !ep->error)) {
        unetmm_stream_refuse(st, "endpoint %u is stopped and not stopped",
                             ep->id);
    }
    if (unetmm_stream_reads(st) && ep->closing) {
        unetmm_cmd_later(core);
    }
}

static void ep_save(UnetmmStream *st, UnetmmCore *core, uint16_t id)
{
    UnetmmEp *ep = &core->eps[id];
    uint32_t generation = ep->generation;
    bool live = ep->live;

    unetmm_stream_u32(st, &generation, "generation");
    unetmm_stream_bool(st, &live, "live");
    ep->generation = generation;
    if (!live || !ep_create_save(st, core, ep, id)) {
        return;
    }
    ep->generation = generation;
    /* Before it may be closing: then no channel can be set any more. */
    for (uint32_t i = 0; i < core->params.channels; i++) {
        unetmm_stream_enter(st, "channel", i);
        channel_save(st, core, ep, i);
        unetmm_stream_leave(st);
    }
    core->tables->saved->imports(st, core, ep);
    ep_flags_save(st, core, ep);
    ep_queues_save(st, ep);
    unetmm_heads_save(st, core, ep);
    core->tables->saved->waiting(st, core, ep);
    unetmm_stream_counters(st, ep->counters);
    core->tables->saved->connections(st, core, ep);
    unetmm_stream_enter(st, "send", UNETMM_STREAM_ONE);
    unetmm_send_save(st, core, ep);
    unetmm_stream_leave(st);
}

void unetmm_eps_save(UnetmmStream *st, UnetmmCore *core)
{
    for (uint32_t i = 0; i < core->params.endpoints && !st->wrong; i++) {
        unetmm_stream_enter(st, "ep", i);
        ep_save(st, core, i);
        unetmm_stream_leave(st);
    }
}

/* ---- Checks ------------------------------------------------------------- */

/* A stopped endpoint has let go of all but a page that is moving. */
static void stopped_check(UnetmmStream *st, const UnetmmEp *ep)
{
    bool moves = ep->tx.moving || ep->landing;

    if (ep->nheads || (ep->tx.state != UNETMM_TX_IDLE && !ep->tx.moving) ||
        (ep->closing && !moves)) {
        unetmm_stream_refuse(st, "endpoint %u is stopped and goes on", ep->id);
    }
}

/* Each wait for a translation has a miss, and each miss has a wait. */
static void waiting_check(UnetmmStream *st, UnetmmEp *ep)
{
    bool waits[UNETMM_EP_MISSES] = {
        ep->tx.blocked_on == UNETMM_BLOCKED_FAULT,
    };

    for (uint32_t i = 0; i < ep->nheads; i++) {
        const UnetmmHead *head = unetmm_head_at(ep, i);

        waits[1 + (head - ep->heads)] = head->state == UNETMM_HEAD_ASKED ||
                                        head->state == UNETMM_HEAD_DEFERRED;
    }
    /* A slot may have one or none: only the next packet asks. */
    if (unetmm_ep_slotted(ep) && !ep->error) {
        waits[1] = ep->misses[1].state != UNETMM_MISS_NONE;
    }
    for (unsigned i = 0; i < UNETMM_EP_MISSES; i++) {
        if (waits[i] != (ep->misses[i].state != UNETMM_MISS_NONE)) {
            unetmm_stream_refuse(st, "endpoint %u waits for a translation "
                                 "that it did not miss, or the reverse",
                                 ep->id);
        }
    }
}

/* Nothing may be lost of a buffer that can go back meanwhile. */
static bool zero_ok(const UnetmmHead *head)
{
    return head->zero && head->state == UNETMM_HEAD_ASKED;
}

/* Only a buffer that has received nothing has old contents to spare. */
static void misses_check(UnetmmStream *st, const UnetmmEp *ep)
{
    for (unsigned i = 0; i < UNETMM_EP_MISSES; i++) {
        const UnetmmMiss *miss = &ep->misses[i];

        if (miss->state != UNETMM_MISS_NONE && miss->zero &&
            !(i && zero_ok(&ep->heads[i - 1]))) {
            unetmm_stream_refuse(st, "a miss of endpoint %u waits in "
                                 "vain", ep->id);
        }
    }
}

void unetmm_eps_check(UnetmmStream *st, UnetmmCore *core)
{
    for (uint32_t i = 0; i < core->params.endpoints; i++) {
        UnetmmEp *ep = &core->eps[i];

        if (!ep->live) {
            continue;
        }
        if (ep->error) {
            stopped_check(st, ep);
        }
        waiting_check(st, ep);
        misses_check(st, ep);
    }
}
