/*
 * unetmm: saving and restoring endpoints, their sends, and misses
 *
 * What EP_CREATE and CHANNEL_SET check is checked by the same functions when it
 * is restored.  A transfer is restored only in a form in which it could have
 * stopped; what its steps rely on is checked here, once.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../rel/rel.h"
#include "../card/state.h"

/* ---- The send in progress ----------------------------------------------- */

static void state_segments(UnetmmStream *st, UnetmmTransfer *tx)
{
    UnetmmDescriptor *d = &tx->desc;
    uint64_t before = 0, total = 0;

    d->nsegs = unetmm_stream_choice(st, d->nsegs, UNETMM_MAX_SEGS + 1,
                                    "the number of segments");
    for (unsigned i = 0; i < d->nsegs; i++) {
        struct unetmm_seg *seg = &d->segs[i];

        unetmm_stream_u64(st, &seg->addr);
        unetmm_stream_u32(st, &seg->len);
        if (seg->len && seg->addr > UINT64_MAX - (seg->len - 1)) {
            unetmm_stream_refuse(st, "a segment wraps round");
        }
        before += i < tx->seg ? seg->len : 0;
        total += seg->len;
    }
    if (d->flags & UNETMM_SQE_F_INLINE) {
        if (d->nsegs || tx->seg || tx->seg_off || tx->done != d->len ||
            d->len > UNETMM_MAX_INLINE) {
            unetmm_stream_refuse(st, "an inline message has segments");
        }
    } else if (tx->seg > d->nsegs || (d->nsegs && tx->seg == d->nsegs) ||
               tx->seg_off > d->segs[tx->seg].len || total != d->len ||
               before + tx->seg_off != tx->done) {
        unetmm_stream_refuse(st, "a message and its segments do not agree");
    }
}

/* The page that is moving: which, how much of it, and until when. */
static void state_moving(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmTransfer *tx = &ep->tx;
    const struct unetmm_seg *seg = &tx->desc.segs[tx->seg];
    uint64_t at = seg->addr + tx->seg_off;

    if (!core->params.dma_page_ns || tx->done == tx->desc.len ||
        tx->seg_off == seg->len) {
        unetmm_stream_refuse(st, "endpoint %u moves a page that it does not "
                             "need", ep->id);
        return;
    }
    tx->chunk = MIN(UNETMM_PAGE_BYTES - at % UNETMM_PAGE_BYTES,
                    MIN(seg->len - tx->seg_off, tx->desc.len - tx->done));
    unetmm_state_page(st, core, ep, &tx->page, at >> UNETMM_PAGE_SHIFT, false);
    unetmm_stream_time(st, &tx->deadline_ns, core->ops->now_ns(core->host),
                       core->params.dma_page_ns, "the end of a page");
    if (unetmm_stream_reads(st) && !st->wrong) {
        unetmm_page_move(&tx->page, true);
        tx->moving = true;
    }
}

/* A message that is not yet gone: all that is needed to go on with it. */
static void state_gather(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmTransfer *tx = &ep->tx;

    unetmm_stream_u64(st, &tx->desc.remote);
    tx->done = unetmm_stream_choice(st, tx->done, tx->desc.len + 1,
                                    "what has been gathered");
    tx->seg = unetmm_stream_choice(st, tx->seg, UNETMM_MAX_SEGS, "a segment");
    unetmm_stream_u32(st, &tx->seg_off);
    state_segments(st, tx);
    unetmm_stream_u32(st, &tx->desc.imm);
    if (ep->raw ? tx->desc.opcode != UNETMM_OP_FRAME || tx->desc.channel ||
        !core->tables->frames->imm_ok(tx->desc.imm) ||
        tx->desc.len > core->tables->frames->longest(tx->desc.imm) :
        tx->desc.opcode == UNETMM_OP_CONTROL ? ep->id || tx->desc.channel :
        tx->desc.opcode != UNETMM_OP_SEND) {
        unetmm_stream_refuse(st, "endpoint %u may not send this", ep->id);
    }
    if (tx->state == UNETMM_TX_TRANSMIT && tx->done != tx->desc.len) {
        unetmm_stream_refuse(st, "endpoint %u sends a part of a message",
                             ep->id);
    }
    if (tx->blocked_on == UNETMM_BLOCKED_FAULT && tx->done == tx->desc.len) {
        unetmm_stream_refuse(st, "endpoint %u waits for a page that it does "
                             "not need", ep->id);
    }
    if (!st->wrong) {
        unetmm_state_gathered(st, core, ep);
    }
}

void unetmm_state_gathered(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmTransfer *tx = &ep->tx;

    uint32_t head = unetmm_send_headroom(tx->rel ? 0 : tx->desc.opcode);

    unetmm_state_frame(st, core, &tx->frame, head, head + tx->done);
    if (tx->blocked_on == UNETMM_BLOCKED_TIME) {
        state_moving(st, core, ep);
    }
}

bool unetmm_state_blocked_ok(const UnetmmTransfer *tx)
{
    switch (tx->state) {
    case UNETMM_TX_GATHER:
        return tx->blocked_on <= UNETMM_BLOCKED_TIME;
    case UNETMM_TX_TRANSMIT:
        return tx->blocked_on == UNETMM_BLOCKED_NOT ||
               tx->blocked_on == UNETMM_BLOCKED_WIRE;
    case UNETMM_TX_COMPLETE:
        return tx->blocked_on == UNETMM_BLOCKED_NOT ||
               tx->blocked_on == UNETMM_BLOCKED_CQ;
    default:
        return false;
    }
}

static void state_transfer(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmTransfer *tx = &ep->tx;

    tx->state = unetmm_stream_choice(st, tx->state, UNETMM_TX_COMPLETE + 1,
                                     "the state of a send");
    if (tx->state == UNETMM_TX_IDLE) {
        return;
    }
    tx->blocked_on = unetmm_stream_choice(st, tx->blocked_on,
                                          UNETMM_BLOCKED_CQ + 1,
                                          "what a send waits for");
    tx->rel = unetmm_state_rel(st, core, ep, tx->rel);
    if (tx->rel) {
        unetmm_state_packet(st, core, ep);
        return;
    }
    tx->ops = unetmm_send_ops(core, ep);
    unetmm_stream_u8(st, &tx->desc.opcode);
    unetmm_stream_u8(st, &tx->desc.flags);
    tx->status = unetmm_stream_choice(st, tx->status, UNETMM_NUM_ST,
                                      "the status of a send");
    tx->slots = unetmm_stream_choice(st, tx->slots, UNETMM_MAX_SLOTS + 1,
                                     "the slots of a send");
    unetmm_stream_u16(st, &tx->desc.channel);
    unetmm_stream_u64(st, &tx->desc.cookie);
    tx->desc.len = unetmm_stream_choice(st, tx->desc.len, (tx->state ==
                                   UNETMM_TX_COMPLETE ? UNETMM_MAX_MESSAGE :
                                   UNETMM_MAX_PAYLOAD) + 1,
                                   "the length of a send");
    /* The process may have moved its index back since: not to be relied on. */
    if (!tx->slots || tx->slots > 1u << ep->sq_log2 ||
        !unetmm_state_blocked_ok(tx)) {
        unetmm_stream_refuse(st, "endpoint %u has a send that fits no queue, "
                             "or waits for nothing", ep->id);
    }
    if (tx->state != UNETMM_TX_COMPLETE && !st->wrong) {
        state_gather(st, core, ep);
    }
}

/* ---- Free buffers and channels ------------------------------------------ */

static bool head_ok(UnetmmCore *core, const UnetmmEp *ep,
                    const UnetmmHead *head)
{
    const UnetmmSourceOps *source = core->spaces[ep->space].source;

    return head->state == UNETMM_HEAD_FAILED ||
           (head->len && head->addr <= UINT64_MAX - (head->len - 1) &&
            (!head->zero ||
             unetmm_head_may_zero(source, head->addr, head->len)) &&
            unetmm_pte_pages(head->addr, head->len) <= source->max_pages(core));
}

static void state_heads(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    ep->first_head = unetmm_stream_choice(st, ep->first_head, UNETMM_MAX_HEADS,
                                          "the first free buffer");
    ep->nheads = unetmm_stream_choice(st, ep->nheads, ep->max_heads + 1,
                                      "the number of free buffers");
    for (uint32_t i = 0; i < ep->nheads && !st->wrong; i++) {
        UnetmmHead *head = unetmm_head_at(ep, i);

        head->state = unetmm_stream_choice(st, head->state,
                                           UNETMM_HEAD_FAILED + 1,
                                           "the state of a free buffer");
        head->status = unetmm_stream_choice(st, head->status, UNETMM_NUM_ST,
                                            "the status of a free buffer");
        unetmm_stream_bool(st, &head->zero, "what a free buffer may lose");
        unetmm_stream_u32(st, &head->asked_in);
        unetmm_stream_u32(st, &head->asks);
        unetmm_stream_u32(st, &head->len);
        unetmm_stream_u64(st, &head->addr);
        unetmm_stream_u64(st, &head->cookie);
        if (!head_ok(core, ep, head)) {
            unetmm_stream_refuse(st, "endpoint %u has a free buffer that it "
                                 "would have refused", ep->id);
        }
    }
}

/* Of a channel that there is, or was: is its end to be told? */
static void state_channel_end(UnetmmStream *st, UnetmmEp *ep,
                              UnetmmChannel *channel)
{
    unetmm_stream_bool(st, &channel->tell, "whether an end is told");
    channel->ended = unetmm_stream_choice(st, channel->ended, UNETMM_NUM_ST,
                                          "why a channel has ended");
    if (channel->tell && (channel->ended || !channel->live)) {
        unetmm_stream_refuse(st, "a channel of endpoint %u ends twice",
                             ep->id);
    }
    if (unetmm_stream_reads(st)) {
        ep->ends_owed += channel->ended != UNETMM_ST_OK;
    }
}

static void state_channel(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep,
                          uint16_t number)
{
    UnetmmChannel *channel = &ep->channels[number];
    struct unetmm_cmd_channel cmd = {
        .channel = number, .peer_ep = channel->peer_ep,
        .peer_channel = channel->peer_channel, .mtu = channel->mtu,
        .type = channel->live ? unetmm_channel_type(core, channel) : 0,
        .recv_credits = channel->rel ? channel->rel->credits : 0,
    };
    bool live = channel->live;

    unetmm_stream_bool(st, &live, "a channel's state");
    if (!live) {
        state_channel_end(st, ep, channel);
        return;
    }
    memcpy(cmd.peer_mac, channel->mac, sizeof(cmd.peer_mac));
    unetmm_stream_bytes(st, cmd.peer_mac, sizeof(cmd.peer_mac));
    unetmm_stream_u16(st, &cmd.peer_ep);
    unetmm_stream_u16(st, &cmd.peer_channel);
    unetmm_stream_u32(st, &cmd.mtu);
    unetmm_stream_u8(st, &cmd.type);
    unetmm_stream_u32(st, &cmd.recv_credits);
    if (unetmm_stream_reads(st) && !st->wrong &&
        unetmm_channel_set(core, ep->id, &cmd) != UNETMM_CS_OK) {
        unetmm_stream_refuse(st, "channel %u of endpoint %u could not have "
                             "been set", number, ep->id);
    }
    state_channel_end(st, ep, channel);
}

/* ---- Endpoints ---------------------------------------------------------- */

/* What EP_CREATE was given.  False: there is no endpoint to go on with. */
static bool state_ep_create(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep,
                            uint16_t id)
{
    struct unetmm_cmd_ep cmd = {
        .sq_base = ep->sq_base, .fq_base = ep->fq_base,
        .cq_base = ep->cq_base, .index = ep->index, .posts = ep->posts,
        .sq_log2 = ep->sq_log2, .fq_log2 = ep->fq_log2,
        .cq_log2 = ep->cq_log2, .pretranslate = ep->max_heads,
        .flags = (ep->raw ? UNETMM_EP_F_RAW : 0) |
                 (ep->vector ? UNETMM_EP_F_VECTOR : 0),
        .backup = ep->bm_size,
    };
    uint16_t space = ep->space;

    while (ep->live && unetmm_policy_by_id(core, cmd.policy) != ep->policy) {
        cmd.policy++;
    }
    unetmm_stream_u16(st, &space);
    unetmm_stream_u64(st, &cmd.sq_base);
    unetmm_stream_u64(st, &cmd.fq_base);
    unetmm_stream_u64(st, &cmd.cq_base);
    unetmm_stream_u64(st, &cmd.index);
    unetmm_stream_u64(st, &cmd.posts);
    unetmm_stream_u8(st, &cmd.sq_log2);
    unetmm_stream_u8(st, &cmd.fq_log2);
    unetmm_stream_u8(st, &cmd.cq_log2);
    unetmm_stream_u8(st, &cmd.policy);
    unetmm_stream_u8(st, &cmd.pretranslate);
    unetmm_stream_u8(st, &cmd.flags);
    unetmm_stream_u16(st, &cmd.backup);
    if (unetmm_stream_reads(st) && !st->wrong &&
        unetmm_ep_setup(core, id, space, &cmd) != UNETMM_CS_OK) {
        unetmm_stream_refuse(st, "endpoint %u could not have been created",
                             id);
    }
    return !st->wrong;
}

static void state_ep_queues(UnetmmStream *st, UnetmmEp *ep)
{
    uint32_t *const words[] = {
        &ep->sq_prod, &ep->sq_cons, &ep->fq_prod, &ep->fq_cons, &ep->cq_prod,
        &ep->cq_cons, &ep->arm, &ep->arm_done, &ep->activity,
        &ep->state_shown,
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(words); i++) {
        unetmm_stream_u32(st, words[i]);
    }
    /* A stopped endpoint may have been stopped for its indices. */
    if ((!ep->error && (ep->sq_prod - ep->sq_cons > 1u << ep->sq_log2 ||
                        ep->fq_prod - ep->fq_cons > 1u << ep->fq_log2)) ||
        ep->cq_prod - ep->cq_cons > 1u << ep->cq_log2) {
        unetmm_stream_refuse(st, "an index of endpoint %u is out of its queue",
                             ep->id);
    }
}

static void state_ep_flags(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    bool *const flags[] = {
        &ep->error, &ep->closing, &ep->notify_cq, &ep->notify_error,
        &ep->publish, &ep->failed_cqe, &ep->sq_waits, &ep->rel_turn,
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(flags); i++) {
        unetmm_stream_bool(st, flags[i], "the state of an endpoint");
    }
    ep->fail_status = unetmm_stream_choice(st, ep->fail_status, UNETMM_NUM_ST,
                                           "why an endpoint was stopped");
    unetmm_stream_u16(st, &ep->close_tag);
    if ((ep->closing && (!ep->error || ep->notify_cq || ep->notify_error)) ||
        (ep->failed_cqe && !ep->error)) {
        unetmm_stream_refuse(st, "endpoint %u is stopped and not stopped",
                             ep->id);
    }
    if (unetmm_stream_reads(st)) {
        core->closing += ep->closing;
    }
}

static void state_ep(UnetmmStream *st, UnetmmCore *core, uint16_t id)
{
    UnetmmEp *ep = &core->eps[id];
    uint32_t generation = ep->generation;
    bool live = ep->live;

    unetmm_stream_u32(st, &generation);
    unetmm_stream_bool(st, &live, "whether an endpoint exists");
    ep->generation = generation;
    if (!live || !state_ep_create(st, core, ep, id)) {
        return;
    }
    ep->generation = generation;
    /* Before it may be closing: then no channel can be set any more. */
    for (uint32_t i = 0; i < core->params.channels; i++) {
        state_channel(st, core, ep, i);
    }
    unetmm_state_imports(st, core, ep);
    state_ep_flags(st, core, ep);
    state_ep_queues(st, ep);
    state_heads(st, core, ep);
    /* How far they have been looked at is not saved. */
    if (unetmm_stream_reads(st) && ep->nheads) {
        ep->heads_behind = core->heads_behind = true;
    }
    unetmm_state_waiting(st, ep);
    for (unsigned i = 0; i < UNETMM_NUM_COUNTERS; i++) {
        unetmm_stream_u64(st, &ep->counters[i]);
    }
    unetmm_state_rels(st, core, ep);
    state_transfer(st, core, ep);
}

void unetmm_state_eps(UnetmmStream *st, UnetmmCore *core)
{
    for (uint32_t i = 0; i < core->params.endpoints && !st->wrong; i++) {
        state_ep(st, core, i);
    }
}

/* ---- Misses ------------------------------------------------------------- */

/* x-fault-delay: the answer that has come and does not count yet. */
static void state_late(UnetmmStream *st, UnetmmCore *core, UnetmmMiss *miss)
{
    unetmm_stream_bool(st, &miss->late, "whether an answer is late");
    if (!miss->late) {
        return;
    }
    miss->late_reply = unetmm_stream_choice(st, miss->late_reply,
                                            UNETMM_REPLY_ERROR + 1,
                                            "a late answer");
    miss->late_status = unetmm_stream_choice(st, miss->late_status,
                                             UNETMM_NUM_ST,
                                             "the status of a late answer");
    if (miss->late_reply == UNETMM_REPLY_DEFERRED ||
        (miss->late_reply == UNETMM_REPLY_ERROR) !=
        (miss->late_status != UNETMM_ST_OK)) {
        unetmm_stream_refuse(st, "a late answer says nothing");
    }
    unetmm_stream_time(st, &miss->due_ns, core->ops->now_ns(core->host),
                       UNETMM_MAX_LATE_NS, "the time of a late answer");
}

/* For how long it has waited to be reported, whatever clock goes on. */
static void state_found(UnetmmStream *st, UnetmmCore *core, UnetmmMiss *miss)
{
    int64_t now = core->ops->now_ns(core->host);
    uint64_t age = now - miss->found_ns;

    unetmm_stream_u64(st, &age);
    if (unetmm_stream_reads(st)) {
        miss->found_ns = age < (uint64_t)now ? now - (int64_t)age : 0;
    }
}

static void state_miss(UnetmmStream *st, UnetmmCore *core, UnetmmMiss *miss)
{
    uint32_t n = unetmm_misses(core);

    miss->state = unetmm_stream_choice(st, miss->state,
                                       UNETMM_MISS_CHANGING + 1,
                                       "the state of a miss");
    unetmm_stream_u16(st, &miss->generation);
    if (miss->state == UNETMM_MISS_NONE) {
        return;
    }
    unetmm_stream_bool(st, &miss->write, "the right that a miss wants");
    unetmm_stream_bool(st, &miss->zero, "what a miss may lose");
    if (miss->state == UNETMM_MISS_JOINED) {
        miss->leader = unetmm_stream_choice(st, miss->leader, n,
                                            "the miss that another joined");
    }
    unetmm_stream_u64(st, &miss->vpn);
    miss->npages = unetmm_stream_choice(st, miss->npages,
                                        UNETMM_MISS_MAX_PAGES + 1,
                                        "the pages of a miss");
    if (!miss->npages || miss->vpn > (UINT64_MAX >> UNETMM_PAGE_SHIFT) -
        (miss->npages - 1)) {
        unetmm_stream_refuse(st, "a miss has pages that there cannot be");
    }
    if (miss->state == UNETMM_MISS_WANTED) {
        state_found(st, core, miss);
    }
    if (miss->state == UNETMM_MISS_ASKED ||
        miss->state == UNETMM_MISS_DEFERRED) {
        state_late(st, core, miss);
    }
    if (unetmm_stream_reads(st) && !st->wrong) {
        core->misses_asked += miss->state == UNETMM_MISS_ASKED;
        core->misses_joined += miss->state == UNETMM_MISS_JOINED;
        core->misses_refused += miss->state == UNETMM_MISS_REFUSED;
        core->misses_changing += miss->state == UNETMM_MISS_CHANGING;
        core->misses_late += miss->late;
    }
}

/* Those in flight, in the order in which others look for one to join. */
static void state_flight(UnetmmStream *st, UnetmmCore *core)
{
    uint32_t n = unetmm_misses(core);
    g_autofree bool *seen = g_new0(bool, n);
    uint32_t used = unetmm_stream_choice(st, core->in_flight_used, n + 1,
                                         "the misses in flight");

    for (uint32_t i = 0; i < used && !st->wrong; i++) {
        uint32_t number = unetmm_stream_choice(st, core->in_flight[i], n,
                                               "a miss in flight");
        UnetmmMissState state = core->misses[number].state;

        if (seen[number] || (state != UNETMM_MISS_ASKED &&
                             state != UNETMM_MISS_DEFERRED)) {
            unetmm_stream_refuse(st, "miss %u is not in flight", number);
        }
        seen[number] = true;
        if (unetmm_stream_reads(st)) {
            core->in_flight[core->in_flight_used++] = number;
        }
    }
}

/* Those to be reported, first come first served; some are not any more. */
static void state_wanted(UnetmmStream *st, UnetmmCore *core)
{
    uint32_t n = unetmm_misses(core);
    uint32_t used = unetmm_stream_choice(st, core->wanted_used, n + 1,
                                         "the misses to report");

    for (uint32_t i = 0; i < used && !st->wrong; i++) {
        uint16_t *slot = &core->wanted[(core->wanted_first + i) % n];

        *slot = unetmm_stream_choice(st, *slot, n, "a miss to report");
        if (!unetmm_stream_reads(st)) {
            continue;
        }
        if (core->misses[*slot].queued) {
            unetmm_stream_refuse(st, "miss %u is to be reported twice", *slot);
            return;
        }
        core->misses[*slot].queued = true;
        core->wanted_used++;
    }
}

void unetmm_state_misses(UnetmmStream *st, UnetmmCore *core)
{
    uint32_t n = unetmm_misses(core);

    for (uint32_t i = 0; i < n && !st->wrong; i++) {
        state_miss(st, core, &core->misses[i]);
    }
    state_flight(st, core);
    state_wanted(st, core);
}
