/*
 * unetmm: reliable channels: life, completions, the end
 *
 * A send leaves its queue when the channel has taken its descriptor, and has
 * its completion when the peer has acknowledged all of it; until then its
 * memory is read as often as it takes.  So the sends of one channel complete
 * in order, and those of two channels of an endpoint do not wait for each
 * other.
 *
 * A channel that was cleared lives on here (CLOSED) until what it took has
 * been completed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "rel.h"

static void rel_create(UnetmmCore *core)
{
    core->rels = g_new0(UnetmmRel *, core->params.reliable + 1);
    core->acks = g_new0(uint64_t, core->params.reliable / 64 + 1);
    core->rel_due_ns = INT64_MAX;
}

static void rel_free(UnetmmCore *core)
{
    g_clear_pointer(&core->rels, g_free);
    g_clear_pointer(&core->acks, g_free);
}

void unetmm_rel_attach(UnetmmCore *core, UnetmmRel *rel, uint16_t slot)
{
    core->rels[slot] = rel;
    rel->slot = slot;
    rel->misses = &core->misses[core->params.endpoints * UNETMM_EP_MISSES +
                                slot * UNETMM_REL_MISSES];
    unetmm_rel_own_misses(core, rel, true);
    core->stores[slot] = &rel->stores;
}

void unetmm_rel_detach(UnetmmCore *core, UnetmmRel *rel)
{
    core->rels[rel->slot] = NULL;
    unetmm_rel_own_misses(core, rel, false);
    core->stores[rel->slot] = NULL;
}

/* A connection in `slot`, which is free, as the last of its endpoint's. */
UnetmmRel *unetmm_rel_new(UnetmmCore *core, UnetmmEp *ep, uint16_t slot)
{
    UnetmmRel *rel = g_new0(UnetmmRel, 1);
    UnetmmRel **link = &ep->rels;

    while (*link) {
        link = &(*link)->next;
    }
    *link = rel;
    ep->rel_ops = &unetmm_channel_reliable;
    rel->ep = rel->share.ep = ep->id;
    rel->share.ops = &unetmm_rel_share;
    rel->tx.deadline_ns = INT64_MAX;
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
    rel->tx.limited = cmd->send_credits;
    rel->tx.limit = cmd->send_psn + cmd->send_credits;
    rel->channel = rel->share.channel = cmd->channel;
    rel->peer_ep = cmd->peer_ep;
    rel->peer_channel = cmd->peer_channel;
    rel->mtu = cmd->mtu;
    memcpy(rel->mac, cmd->peer_mac, sizeof(rel->mac));
    rel->retries = cmd->retries ?: UNETMM_REL_RETRIES;
    rel->not_ready_retries = cmd->not_ready_retries;
    rel->timeout_us = cmd->timeout_us ?: UNETMM_REL_TIMEOUT_US;
    rel->not_ready_us = cmd->not_ready_us ?: UNETMM_REL_NOT_READY_US;
    rel->tx.una = rel->tx.cum = rel->tx.nxt = cmd->send_psn;
    rel->tx.asked = cmd->send_psn - 1;
    rel->rx.nxt = cmd->recv_psn;
    channel->rel = rel;
    channel->longest = UNETMM_MAX_MESSAGE;
    return UNETMM_CS_OK;
}

void unetmm_rel_drop_kept(UnetmmCore *core, UnetmmRel *rel)
{
    for (unsigned i = 0; i < UNETMM_REL_WINDOW; i++) {
        if (rel->rx.kept[i].frame) {
            unetmm_port_release(core, g_steal_pointer(&rel->rx.kept[i].frame));
            core->kept--;
        }
    }
    rel->rx.have = rel->rx.spoilt = rel->share.unlanded = 0;
    rel->rx.landed = false;
}

void unetmm_rel_give_back(UnetmmRel *rel, uint8_t status)
{
    if (rel->rx.claimed && !rel->rx.giving_back) {
        rel->rx.giving_back = true;
        rel->rx.buf_status = status;
    }
}

void unetmm_rel_abort_tx(UnetmmCore *core, UnetmmEp *ep, const UnetmmRel *rel)
{
    if (ep->tx.rel != rel) {
        return;
    }
    if (ep->tx.moving) {
        ep->tx.needless = true;
        return;
    }
    unetmm_miss_cancel(core, &ep->misses[0]);
    unetmm_send_abort(core, ep);
}

/* Ends all sends that have not ended; see unetmm_rel_fail(). */
static void rel_end_sends(UnetmmRel *rel, const UnetmmRelMsg *blame,
                          uint8_t status, uint8_t others)
{
    UnetmmRelTx *tx = &rel->tx;

    for (uint32_t i = tx->msg_first; i != tx->msg_end; i++) {
        UnetmmRelMsg *m = unetmm_rel_msg(rel, i);

        if (m->ended) {
            continue;
        }
        blame = blame ?: m;
        m->ended = true;
        m->status = m == blame ? status : others;
    }
    tx->msg_next = tx->msg_end;
    tx->lost = tx->pending = tx->unplaced = tx->voids = 0;
    tx->paused = tx->again = tx->rewinding = false;
    tx->deadline_ns = INT64_MAX;
}

/* What both ends of a channel, in error or in peace, have in common. */
static void rel_leave(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel)
{
    unetmm_rel_drop_kept(core, rel);
    unetmm_rel_abort_tx(core, ep, rel);
    unetmm_rel_ask_no_more(core, rel);
    rel->rx.refused = UNETMM_REL_WANT_NOTHING;
    rel->rx.refuse = false;
    rel->rx.owed = 0;
    rel->rx.why = rel->rx.late_why = 0;
    unetmm_engine_queue(core, ep);
}

void unetmm_rel_fail(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                     const UnetmmRelMsg *blame, uint8_t status, uint8_t why)
{
    if (rel->state != UNETMM_REL_OPEN) {
        return;
    }
    rel->state = UNETMM_REL_FAILED;
    rel->why = why;
    unetmm_count(core, ep, UNETMM_C_rel_failed, 1);
    trace_unetmm_rel_failed(ep->id, rel->channel, status, why);
    rel_end_sends(rel, blame, status, UNETMM_ST_FLUSHED);
    unetmm_window_forget(core, ep, &rel->stores);
    unetmm_rel_give_back(rel, UNETMM_ST_FLUSHED);
    rel_leave(core, ep, rel);
    unetmm_channel_ended(core, ep, rel->channel, status);
    /* The other half is told, unless it was it that told us. */
    if (status != UNETMM_ST_PEER_FAILED && status != UNETMM_ST_PEER_BUFFER) {
        unetmm_rel_owe_ack(core, rel);
    }
}

static void rel_clear(UnetmmCore *core, UnetmmEp *ep, UnetmmChannel *channel)
{
    UnetmmRel *rel = g_steal_pointer(&channel->rel);

    rel->state = UNETMM_REL_CLOSED;
    rel_end_sends(rel, NULL, UNETMM_ST_BAD_CHANNEL, UNETMM_ST_BAD_CHANNEL);
    unetmm_window_forget(core, ep, &rel->stores);
    unetmm_rel_give_back(rel, UNETMM_ST_BAD_CHANNEL);
    unetmm_rel_no_ack(core, rel);
    rel_leave(core, ep, rel);
    ep->sq_waits = false;
    /* Keys of one peer's memory must not be said to another. */
    unetmm_import_drop(core, ep, channel - ep->channels);
}

static void rel_stop(UnetmmCore *core, UnetmmEp *ep)
{
    for (UnetmmRel *rel = ep->rels; rel; rel = rel->next) {
        rel->tx.deadline_ns = INT64_MAX;
        unetmm_rel_drop_kept(core, rel);
        unetmm_rel_no_ack(core, rel);
        unetmm_window_forget(core, ep, &rel->stores);
        unetmm_rel_ask_no_more(core, rel);
    }
}

static void rel_delete(UnetmmCore *core, UnetmmRel *rel)
{
    unetmm_window_forget(core, &core->eps[rel->ep], &rel->stores);
    unetmm_rel_drop_kept(core, rel);
    unetmm_rel_no_ack(core, rel);
    unetmm_sysbuf_forget(core, &rel->share);
    unetmm_rel_detach(core, rel);
    core->rels_used--;
    g_free(rel);
}

static void rel_forget(UnetmmCore *core, UnetmmEp *ep)
{
    while (ep->rels) {
        UnetmmRel *rel = ep->rels;

        ep->rels = rel->next;
        rel_delete(core, rel);
    }
}

/* ---- Completions -------------------------------------------------------- */

/* The memory of a send is the process's again only when no page of it moves. */
static bool rel_send_moving(const UnetmmCore *core, const UnetmmEp *ep,
                            const UnetmmRel *rel)
{
    return (ep->tx.rel == rel && ep->tx.moving && !ep->tx.answer) ||
           (core->rx.active && core->rx.of == rel &&
            core->rx.head.opcode == UNETMM_WIRE_ANSWER);
}

static bool rel_send_due(const UnetmmCore *core, const UnetmmEp *ep,
                         UnetmmRel *rel)
{
    return rel->tx.msg_first != rel->tx.msg_end &&
           unetmm_rel_msg(rel, rel->tx.msg_first)->ended &&
           !rel_send_moving(core, ep, rel);
}

static bool rel_buffer_due(const UnetmmCore *core, const UnetmmRel *rel)
{
    return rel->rx.giving_back && core->rx.of != rel && !rel->share.used;
}

static bool rel_over(const UnetmmCore *core, const UnetmmEp *ep,
                     const UnetmmRel *rel)
{
    return rel->state == UNETMM_REL_CLOSED &&
           rel->tx.msg_first == rel->tx.msg_end && !rel->rx.giving_back &&
           ep->tx.rel != rel && core->rx.of != rel && !rel->share.used;
}

/* False: no room, or the endpoint was stopped. */
static bool rel_post_cqe(UnetmmCore *core, UnetmmEp *ep,
                         struct unetmm_cqe *cqe)
{
    if (!unetmm_ep_cq_spare(ep)) {
        ep->publish = true;
        return false;
    }
    return unetmm_ep_complete(core, ep, cqe);
}

static bool rel_complete_send(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel)
{
    UnetmmRelMsg *m = unetmm_rel_msg(rel, rel->tx.msg_first);
    struct unetmm_cqe cqe = {
        .opcode = UNETMM_CQE_SENT, .status = m->status, .cookie = m->cookie,
        .channel = rel->channel, .len = m->len,
    };
    bool good = m->status == UNETMM_ST_OK, said;

    if (good && m->operands) {
        cqe.flags = UNETMM_CQE_F_INLINE;
        memcpy(cqe.data, m->old, sizeof(m->old));
    }
    said = m->unasked ? unetmm_rel_unasked_cqe(core, ep, m, &cqe) :
           !(good && (m->flags & UNETMM_SQE_F_QUIET));
    if (said && !rel_post_cqe(core, ep, &cqe)) {
        return false;
    }
    if (said && m->unasked) {
        unetmm_rel_unasked_said(core, ep, m);
    }
    unetmm_count(core, ep, good ? UNETMM_C_sends_done : UNETMM_C_sends_failed,
                 1);
    rel->tx.msg_first++;
    ep->sq_waits = false;
    return true;
}

static bool rel_complete_buffer(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel)
{
    struct unetmm_cqe cqe = {
        .opcode = UNETMM_CQE_BUFFER, .status = rel->rx.buf_status,
        .cookie = rel->rx.buf_cookie,
    };

    if (!rel_post_cqe(core, ep, &cqe)) {
        return false;
    }
    unetmm_count(core, ep, UNETMM_C_bufs_failed, 1);
    rel->rx.claimed = rel->rx.giving_back = rel->rx.in_message = false;
    return true;
}

/* The next completion of this channel, if one is due and there is room. */
static bool rel_complete_one(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel)
{
    if (rel_send_due(core, ep, rel)) {
        if (!rel_complete_send(core, ep, rel)) {
            return false;
        }
        unetmm_window_go_on(core, ep, &rel->stores);
        return true;
    }
    return rel_buffer_due(core, rel) && rel_complete_buffer(core, ep, rel);
}

/*
 * Behind one that waits for room there may be others that are over.  What the
 * budget leaves is work for another turn.
 */
void unetmm_rel_complete(UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmRel **link = &ep->rels;

    while (!ep->error && *link && unetmm_budget_left(core)) {
        UnetmmRel *rel = *link;

        if (rel_complete_one(core, ep, rel)) {
            continue;
        }
        if (rel_over(core, ep, rel)) {
            *link = rel->next;
            rel_delete(core, rel);
        } else {
            link = &rel->next;
        }
    }
}

static bool rel_completes(UnetmmCore *core, UnetmmEp *ep)
{
    bool room = unetmm_ep_cq_spare(ep);

    for (UnetmmRel *rel = ep->rels; rel; rel = rel->next) {
        if (rel_over(core, ep, rel) ||
            (room && (rel_send_due(core, ep, rel) ||
                      rel_buffer_due(core, rel)))) {
            return true;
        }
    }
    return false;
}

static bool rel_has_work(UnetmmCore *core, UnetmmEp *ep)
{
    for (UnetmmRel *rel = ep->rels; rel; rel = rel->next) {
        if (unetmm_rel_can_send(rel) || unetmm_rel_can_answer(rel)) {
            return true;
        }
    }
    return false;
}

/* ---- On the wire -------------------------------------------------------- */

/* All of a header but what the opcode is about.  Host byte order. */
void unetmm_rel_header(UnetmmCore *core, const UnetmmRel *rel,
                       struct unetmm_frame *f, uint8_t opcode)
{
    memset(f, 0, sizeof(*f));
    memcpy(f->dst, rel->mac, sizeof(f->dst));
    memcpy(f->src, core->params.mac, sizeof(f->src));
    f->ethertype[0] = UNETMM_ETHERTYPE >> 8;
    f->ethertype[1] = UNETMM_ETHERTYPE & 0xff;
    f->version = UNETMM_WIRE_VERSION;
    f->opcode = opcode;
    f->dst_ep = rel->peer_ep;
    f->src_ep = rel->ep;
    f->dst_channel = rel->peer_channel;
    f->src_channel = rel->channel;
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
    .completes = rel_completes,
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
    core->rels_held_up = false;
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
