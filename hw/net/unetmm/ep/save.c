/*
 * unetmm: saving and restoring endpoints, their sends, and a landing
 *
 * What EP_CREATE and CHANNEL_SET check is checked by the same functions when it
 * is restored.  A transfer is restored only in a form in which it could have
 * stopped; what its steps rely on is checked here, once.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../card/core.h"

/* ---- The send in progress ----------------------------------------------- */

static void segments_save(UnetmmStream *st, UnetmmTransfer *tx)
{
    UnetmmDescriptor *d = &tx->desc;
    uint64_t before = 0, total = 0;

    d->nsegs = unetmm_stream_choice(st, d->nsegs, UNETMM_MAX_SEGS + 1,
                                     "nsegs");
    for (unsigned i = 0; i < d->nsegs; i++) {
        struct unetmm_seg *seg = &d->segs[i];

        unetmm_stream_enter(st, "segs", i);
        unetmm_stream_u64(st, &seg->addr, "addr");
        unetmm_stream_u32(st, &seg->len, "len");
        unetmm_stream_leave(st);
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
static void moving_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
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
    unetmm_page_save(st, core, ep, &tx->page, at >> UNETMM_PAGE_SHIFT, false);
    unetmm_stream_time(st, &tx->deadline_ns, core->ops->now_ns(core->host),
                       core->params.dma_page_ns, "deadline_ns");
    if (unetmm_stream_reads(st) && !st->wrong) {
        unetmm_page_move(&tx->page, true);
        tx->moving = true;
    }
}

/* A message that is not yet gone: all that is needed to go on with it. */
static void gather_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmTransfer *tx = &ep->tx;

    unetmm_stream_u64(st, &tx->desc.remote, "remote");
    tx->done = unetmm_stream_choice(st, tx->done, tx->desc.len + 1, "done");
    tx->seg = unetmm_stream_choice(st, tx->seg, UNETMM_MAX_SEGS, "seg");
    unetmm_stream_u32(st, &tx->seg_off, "seg_off");
    segments_save(st, tx);
    unetmm_stream_u32(st, &tx->desc.imm, "imm");
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
        unetmm_send_save_gathered(st, core, ep);
    }
}

void unetmm_send_save_gathered(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmTransfer *tx = &ep->tx;

    uint32_t head = unetmm_send_headroom(tx->rel ? 0 : tx->desc.opcode);

    unetmm_port_save_frame(st, core, &tx->frame, head, head + tx->done);
    if (tx->blocked_on == UNETMM_BLOCKED_TIME) {
        moving_save(st, core, ep);
    }
}

bool unetmm_send_blocked_ok(const UnetmmTransfer *tx)
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

static void transfer_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmTransfer *tx = &ep->tx;

    tx->state = unetmm_stream_choice(st, tx->state, UNETMM_TX_COMPLETE + 1,
                                     "state");
    if (tx->state == UNETMM_TX_IDLE) {
        return;
    }
    tx->blocked_on = unetmm_stream_choice(st, tx->blocked_on,
                                          UNETMM_BLOCKED_CQ + 1, "blocked_on");
    if (unetmm_stream_reads(st) && tx->blocked_on == UNETMM_BLOCKED_WIRE) {
        core->port.wanted = true;
    }
    tx->rel = core->tables->saved->connection(st, core, ep, tx->rel);
    if (tx->rel) {
        core->tables->saved->packet(st, core, ep);
        return;
    }
    tx->ops = unetmm_send_ops(core, ep);
    unetmm_stream_u8(st, &tx->desc.opcode, "opcode");
    unetmm_stream_u8(st, &tx->desc.flags, "flags");
    tx->status = unetmm_stream_choice(st, tx->status, UNETMM_NUM_ST, "status");
    tx->slots = unetmm_stream_choice(st, tx->slots, UNETMM_MAX_SLOTS + 1,
                                     "slots");
    unetmm_stream_u16(st, &tx->desc.channel, "channel");
    unetmm_stream_u64(st, &tx->desc.cookie, "cookie");
    tx->desc.len = unetmm_stream_choice(st, tx->desc.len,
                                   (tx->state == UNETMM_TX_COMPLETE ?
                                    UNETMM_MAX_MESSAGE :
                                    UNETMM_MAX_PAYLOAD) + 1, "len");
    /* The process may have moved its index back since: not to be relied on. */
    if (!tx->slots || tx->slots > 1u << ep->sq_log2 ||
        !unetmm_send_blocked_ok(tx)) {
        unetmm_stream_refuse(st, "endpoint %u has a send that fits no queue, "
                             "or waits for nothing", ep->id);
    }
    if (tx->state != UNETMM_TX_COMPLETE && !st->wrong) {
        gather_save(st, core, ep);
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

static void heads_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    ep->first_head = unetmm_stream_choice(st, ep->first_head, UNETMM_MAX_HEADS,
                                          "first_head");
    ep->nheads = unetmm_stream_choice(st, ep->nheads, ep->max_heads + 1,
                                      "nheads");
    for (uint32_t i = 0; i < ep->nheads && !st->wrong; i++) {
        UnetmmHead *head = unetmm_head_at(ep, i);

        unetmm_stream_enter(st, "head", i);
        head->state = unetmm_stream_choice(st, head->state,
                                           UNETMM_HEAD_FAILED + 1, "state");
        head->status = unetmm_stream_choice(st, head->status, UNETMM_NUM_ST,
                                            "status");
        unetmm_stream_bool(st, &head->zero, "zero");
        unetmm_stream_u32(st, &head->asked_in, "asked_in");
        unetmm_stream_u32(st, &head->asks, "asks");
        unetmm_stream_u32(st, &head->len, "len");
        unetmm_stream_u64(st, &head->addr, "addr");
        unetmm_stream_u64(st, &head->cookie, "cookie");
        unetmm_stream_leave(st);
        if (!head_ok(core, ep, head)) {
            unetmm_stream_refuse(st, "endpoint %u has a free buffer that it "
                                 "would have refused", ep->id);
        }
    }
}

/* Of a channel that there is, or was: is its end to be told? */
static void channel_end_save(UnetmmStream *st, UnetmmEp *ep,
                             UnetmmChannel *channel)
{
    unetmm_stream_bool(st, &channel->tell, "tell");
    channel->ended = unetmm_stream_choice(st, channel->ended, UNETMM_NUM_ST,
                                          "ended");
    if (channel->tell && (channel->ended || !channel->live)) {
        unetmm_stream_refuse(st, "a channel of endpoint %u ends twice",
                             ep->id);
    }
    if (unetmm_stream_reads(st)) {
        ep->ends_owed += channel->ended != UNETMM_ST_OK;
    }
}

static void channel_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep,
                         uint16_t number)
{
    UnetmmChannel *channel = &ep->channels[number];
    struct unetmm_cmd_channel cmd = {
        .channel = number, .peer_ep = channel->peer_ep,
        .peer_channel = channel->peer_channel, .mtu = channel->mtu,
        .type = channel->live ? unetmm_channel_type(core, channel) : 0,
        .recv_credits = channel->rel ?
                        core->tables->saved->credits(channel->rel) : 0,
    };
    bool live = channel->live;

    unetmm_stream_bool(st, &live, "live");
    if (!live) {
        channel_end_save(st, ep, channel);
        return;
    }
    memcpy(cmd.peer_mac, channel->mac, sizeof(cmd.peer_mac));
    unetmm_stream_bytes(st, cmd.peer_mac, sizeof(cmd.peer_mac), "peer_mac");
    unetmm_stream_u16(st, &cmd.peer_ep, "peer_ep");
    unetmm_stream_u16(st, &cmd.peer_channel, "peer_channel");
    unetmm_stream_u32(st, &cmd.mtu, "mtu");
    unetmm_stream_u8(st, &cmd.type, "type");
    unetmm_stream_u32(st, &cmd.recv_credits, "recv_credits");
    if (unetmm_stream_reads(st) && !st->wrong &&
        unetmm_channel_set(core, ep->id, &cmd) != UNETMM_CS_OK) {
        unetmm_stream_refuse(st, "channel %u of endpoint %u could not have "
                             "been set", number, ep->id);
    }
    channel_end_save(st, ep, channel);
}

/* ---- Endpoints ---------------------------------------------------------- */

/* What EP_CREATE was given.  False: there is no endpoint to go on with. */
static bool ep_create_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep,
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
    unetmm_stream_u16(st, &space, "space");
    unetmm_stream_u64(st, &cmd.sq_base, "sq_base");
    unetmm_stream_u64(st, &cmd.fq_base, "fq_base");
    unetmm_stream_u64(st, &cmd.cq_base, "cq_base");
    unetmm_stream_u64(st, &cmd.index, "index");
    unetmm_stream_u64(st, &cmd.posts, "posts");
    unetmm_stream_u8(st, &cmd.sq_log2, "sq_log2");
    unetmm_stream_u8(st, &cmd.fq_log2, "fq_log2");
    unetmm_stream_u8(st, &cmd.cq_log2, "cq_log2");
    unetmm_stream_u8(st, &cmd.policy, "policy");
    unetmm_stream_u8(st, &cmd.pretranslate, "pretranslate");
    unetmm_stream_u8(st, &cmd.flags, "flags");
    unetmm_stream_u16(st, &cmd.backup, "backup");
    if (unetmm_stream_reads(st) && !st->wrong &&
        unetmm_ep_setup(core, id, space, &cmd) != UNETMM_CS_OK) {
        unetmm_stream_refuse(st, "endpoint %u could not have been created",
                             id);
    }
    return !st->wrong;
}

static void ep_queues_save(UnetmmStream *st, UnetmmEp *ep)
{
    unetmm_stream_u32(st, &ep->sq_prod, "sq_prod");
    unetmm_stream_u32(st, &ep->sq_cons, "sq_cons");
    unetmm_stream_u32(st, &ep->fq_prod, "fq_prod");
    unetmm_stream_u32(st, &ep->fq_cons, "fq_cons");
    unetmm_stream_u32(st, &ep->cq_prod, "cq_prod");
    unetmm_stream_u32(st, &ep->cq_cons, "cq_cons");
    unetmm_stream_u32(st, &ep->arm, "arm");
    unetmm_stream_u32(st, &ep->arm_done, "arm_done");
    unetmm_stream_u32(st, &ep->activity, "activity");
    unetmm_stream_u32(st, &ep->state_shown, "state_shown");
    /* A stopped endpoint may have been stopped for its indices. */
    if ((!ep->error && (ep->sq_prod - ep->sq_cons > 1u << ep->sq_log2 ||
                        ep->fq_prod - ep->fq_cons > 1u << ep->fq_log2)) ||
        ep->cq_prod - ep->cq_cons > 1u << ep->cq_log2) {
        unetmm_stream_refuse(st, "an index of endpoint %u is out of its queue",
                             ep->id);
    }
}

static void ep_flags_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    unetmm_stream_bool(st, &ep->error, "error");
    unetmm_stream_bool(st, &ep->closing, "closing");
    unetmm_stream_bool(st, &ep->notify_cq, "notify_cq");
    unetmm_stream_bool(st, &ep->notify_error, "notify_error");
    unetmm_stream_bool(st, &ep->publish, "publish");
    unetmm_stream_bool(st, &ep->failed_cqe, "failed_cqe");
    unetmm_stream_bool(st, &ep->sq_waits, "sq_waits");
    unetmm_stream_bool(st, &ep->rel_turn, "rel_turn");
    ep->fail_status = unetmm_stream_choice(st, ep->fail_status, UNETMM_NUM_ST,
                                           "fail_status");
    unetmm_stream_u16(st, &ep->close_tag, "close_tag");
    if ((ep->closing && (!ep->error || ep->notify_cq || ep->notify_error)) ||
        (ep->failed_cqe && !ep->error)) {
        unetmm_stream_refuse(st, "endpoint %u is stopped and not stopped",
                             ep->id);
    }
    if (unetmm_stream_reads(st)) {
        core->closing += ep->closing;
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
    heads_save(st, core, ep);
    /* How far they have been looked at is not saved. */
    if (unetmm_stream_reads(st) && ep->nheads) {
        ep->heads_behind = core->heads_behind = true;
    }
    core->tables->saved->waiting(st, core, ep);
    unetmm_stream_counters(st, ep->counters);
    core->tables->saved->connections(st, core, ep);
    unetmm_stream_enter(st, "send", UNETMM_STREAM_ONE);
    transfer_save(st, core, ep);
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

/* ---- The message that is landing ---------------------------------------- */

/* The header of a packet that is not kept whole; its psn and len are known. */
void unetmm_recv_save_head(UnetmmStream *st, struct unetmm_frame *f)
{
    unetmm_stream_u8(st, &f->opcode, "opcode");
    unetmm_stream_u32(st, &f->flags, "flags");
    unetmm_stream_u32(st, &f->offset, "offset");
    unetmm_stream_u64(st, &f->remote, "remote");
    unetmm_stream_u32(st, &f->handle, "handle");
    unetmm_stream_u32(st, &f->imm, "imm");
    if (!st->wrong && !unetmm_recv_members_ok(f)) {
        unetmm_stream_refuse(st, "a packet has a header that none has");
    }
}

static const UnetmmLandingOps *landing_owner(const UnetmmCore *core,
                                             const UnetmmEp *ep)
{
    return core->rx.of ? ep->rel_ops->landing :
           unetmm_ep_slotted(ep) ? core->tables->slots->landing :
           &unetmm_landing_head;
}

/* Is each of the pieces a part of the message, and the current one one? */
static bool landing_pieces_ok(const UnetmmCore *core)
{
    const UnetmmLanding *rx = &core->rx;
    const UnetmmPiece *now = &rx->place.pieces[rx->place.piece];
    uint64_t pages = 0;

    for (uint32_t i = 0; i < rx->place.npieces; i++) {
        const UnetmmPiece *p = &rx->place.pieces[i];

        if (!p->len || p->addr > UINT64_MAX - (p->len - 1) ||
            p->from > rx->len || p->len > rx->len - p->from) {
            return false;
        }
        pages += unetmm_pte_pages(p->addr, p->len);
    }
    return core->params.dma_page_ns && rx->place.piece < rx->place.npieces &&
           rx->place.off < now->len && pages <= UNETMM_MAX_BUF_PAGES &&
           (!rx->place.off ||
            (now->addr + rx->place.off) % UNETMM_PAGE_BYTES == 0);
}

static void landing_pieces(UnetmmStream *st, UnetmmCore *core)
{
    UnetmmLanding *rx = &core->rx;

    rx->place.npieces = unetmm_stream_choice(st, rx->place.npieces,
                                             UNETMM_MAX_PIECES + 1, "npieces");
    for (uint32_t i = 0; i < rx->place.npieces; i++) {
        unetmm_stream_enter(st, "piece", i);
        unetmm_stream_u64(st, &rx->place.pieces[i].addr, "addr");
        unetmm_stream_u32(st, &rx->place.pieces[i].len, "len");
        unetmm_stream_u32(st, &rx->place.pieces[i].from, "from");
        unetmm_stream_leave(st);
    }
    rx->place.piece = unetmm_stream_choice(st, rx->place.piece,
                                           UNETMM_MAX_PIECES, "piece");
    rx->place.off = unetmm_stream_choice(st, rx->place.off, UNETMM_MAX_PAYLOAD,
                                         "off");
    if (!st->wrong && !landing_pieces_ok(core)) {
        unetmm_stream_refuse(st, "a message lands where it cannot");
    }
}

/* Where it has got to follows from its pieces. */
static void landing_pages(UnetmmStream *st, UnetmmCore *core,
                          const UnetmmEp *ep)
{
    UnetmmLanding *rx = &core->rx;
    uint32_t at = 0;

    for (uint32_t i = 0; i < rx->place.npieces && !st->wrong; i++) {
        const UnetmmPiece *p = &rx->place.pieces[i];
        uint64_t vpn = p->addr >> UNETMM_PAGE_SHIFT;
        uint64_t now = (p->addr + rx->place.off) >> UNETMM_PAGE_SHIFT;

        for (uint32_t n = unetmm_pte_pages(p->addr, p->len); n && !st->wrong;
             n--, vpn++, at++) {
            if (i < rx->place.piece || (i == rx->place.piece && vpn < now)) {
                continue;
            }
            if (i == rx->place.piece && vpn == now) {
                rx->place.page = at;
            }
            unetmm_stream_enter(st, "page", at);
            unetmm_page_save(st, core, ep, &rx->place.pages[at], vpn, true);
            unetmm_stream_leave(st);
        }
    }
    rx->place.npages = at;
    if (unetmm_stream_reads(st) && !st->wrong) {
        unetmm_page_move(&rx->place.pages[rx->place.page], true);
    }
}

static void landing_fields(UnetmmStream *st, UnetmmCore *core)
{
    UnetmmLanding *rx = &core->rx;

    rx->ep = unetmm_stream_choice(st, rx->ep, core->params.endpoints, "ep");
    rx->len = unetmm_stream_choice(st, rx->len, UNETMM_MAX_PAYLOAD + 1, "len");
    landing_pieces(st, core);
    unetmm_stream_enter(st, "cqe", UNETMM_STREAM_ONE);
    unetmm_stream_u64(st, &rx->cqe.cookie, "cookie");
    unetmm_stream_u16(st, &rx->cqe.channel, "channel");
    rx->cqe.flags = unetmm_stream_choice(st, rx->cqe.flags,
                                         UNETMM_CQE_F_CSUM_OK + 1, "flags");
    if (rx->cqe.flags & ~UNETMM_CQE_F_CSUM_OK) {
        unetmm_stream_refuse(st, "a message lands in its completion");
    }
    rx->cqe.opcode = unetmm_stream_choice(st, rx->cqe.opcode,
                                          UNETMM_CQE_CONTROL + 1, "opcode");
    unetmm_stream_u64(st, &rx->cqe.source, "source");
    unetmm_stream_leave(st);
    rx->cqe.len = rx->len;
}

static void landing_save(UnetmmStream *st, UnetmmCore *core)
{
    UnetmmLanding *rx = &core->rx;
    bool active = rx->active;
    UnetmmEp *ep;

    unetmm_stream_bool(st, &active, "active");
    if (!active) {
        return;
    }
    if (unetmm_stream_reads(st)) {
        memset(&rx->cqe, 0, sizeof(rx->cqe));
        memset(&rx->head, 0, sizeof(rx->head));
    }
    landing_fields(st, core);
    ep = &core->eps[rx->ep];
    rx->of = core->tables->saved->connection(st, core, ep, rx->of);
    if (rx->of) {
        unetmm_stream_enter(st, "head", UNETMM_STREAM_ONE);
        unetmm_stream_u32(st, &rx->head.psn, "psn");
        rx->head.len = rx->len;
        unetmm_recv_save_head(st, &rx->head);
        unetmm_stream_leave(st);
    }
    if ((rx->cqe.opcode != UNETMM_CQE_RECEIVED &&
         rx->cqe.opcode != UNETMM_CQE_CONTROL) || !ep->live || st->wrong ||
        !landing_owner(core, ep)->place_ok(core, ep)) {
        unetmm_stream_refuse(st, "a message lands where it cannot");
    }
    if (st->wrong) {
        return;
    }
    landing_pages(st, core, ep);
    unetmm_stream_time(st, &rx->deadline_ns, core->ops->now_ns(core->host),
                       core->params.dma_page_ns, "deadline_ns");
    unetmm_port_save_frame(st, core, &rx->frame, 0, rx->len);
    if (unetmm_stream_reads(st)) {
        rx->owner = landing_owner(core, ep);
        rx->generation = ep->generation;
        rx->active = rx->moving = true;
        ep->landing = true;
        /* Channels that are not held up are not touched by its end. */
        core->rels_held_up = true;
    }
}

void unetmm_landing_save(UnetmmStream *st, UnetmmCore *core)
{
    unetmm_stream_enter(st, "landing", UNETMM_STREAM_ONE);
    landing_save(st, core);
    unetmm_stream_leave(st);
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
            unetmm_stream_refuse(st, "a miss of endpoint %u waits for what "
                                 "cannot come", ep->id);
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
