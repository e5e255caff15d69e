/*
 * unetmm: sending: one resumable transfer for each endpoint
 *
 * Fetch the descriptor (fetch.c), gather its segments page by page into one
 * contiguous frame, transmit, complete.  Each step may stop (blocked_on) and
 * is entered again from where it stopped; only the state that a step needs is
 * kept.
 *
 * A channel's packets and a raw endpoint's frames are gathered in the same way;
 * UnetmmTransferOps, which reliable/ and ether/ fill, has the differences.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../channel/channel.h"
#include "../port/port.h"
#include "send.h"

/* Pages from the current one on that are missing, within the segment. */
static uint32_t tx_missing(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn)
{
    UnetmmTransfer *tx = &ep->tx;
    const struct unetmm_seg *seg = &tx->desc.segs[tx->seg];
    uint64_t limit = unetmm_pte_pages(seg->addr + tx->seg_off,
                                      seg->len - tx->seg_off);

    return unetmm_space_missing(core, ep, vpn, false, limit,
                                core->params.fault_batch);
}

/* The next page cannot be read now: it is asked for, or the peer has to. */
static void tx_miss(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn)
{
    UnetmmTransfer *tx = &ep->tx;

    if (tx->ops && tx->ops->never_waits) {
        /* The peer asks again; our own sends do not wait for it. */
        unetmm_send_finish(tx, UNETMM_ST_NOT_READY);
        return;
    }
    tx->blocked_on = UNETMM_BLOCKED_FAULT;
    unetmm_count(core, ep, UNETMM_C_send_waits, 1);
    unetmm_miss_want(core, &ep->misses[0], vpn, tx_missing(core, ep, vpn),
                     false);
}

/* Copies the chunk that has moved and steps over it. */
static void tx_land_chunk(UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmTransfer *tx = &ep->tx;
    uint64_t at = tx->desc.segs[tx->seg].addr + tx->seg_off;

    if (!unetmm_dma_read(core, ep, tx->page.dma + at % UNETMM_PAGE_BYTES,
                         unetmm_send_payload(tx, tx->done, tx->chunk),
                         tx->chunk)) {
        unetmm_send_finish(tx, UNETMM_ST_DMA);
        return;
    }
    unetmm_spend(core, UNETMM_STEP_GATHER, tx->chunk);
    tx->done += tx->chunk;
    tx->seg_off += tx->chunk;
}

/* Starts one page; with a DMA time, stops until it has moved. */
static void tx_start_chunk(UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmTransfer *tx = &ep->tx;
    const struct unetmm_seg *seg = &tx->desc.segs[tx->seg];
    uint64_t at = seg->addr + tx->seg_off;
    uint64_t vpn = at >> UNETMM_PAGE_SHIFT;

    if (tx->ops && tx->ops->may_read && !tx->ops->may_read(core, ep, tx)) {
        unetmm_send_finish(tx, UNETMM_ST_REVOKED);
        return;
    }
    switch (unetmm_space_lookup(core, ep, vpn, false, &tx->page)) {
    case UNETMM_XLAT_OK:
        if (unetmm_page_lock(core, ep, &tx->page, false)) {
            break;
        }
        /* fall through */
    case UNETMM_XLAT_MISS:
        tx_miss(core, ep, vpn);
        return;
    case UNETMM_XLAT_ERROR:
        unetmm_send_finish(tx, UNETMM_ST_PROTECTION);
        return;
    }
    tx->chunk = MIN(UNETMM_PAGE_BYTES - at % UNETMM_PAGE_BYTES,
                    MIN(seg->len - tx->seg_off, tx->desc.len - tx->done));
    if (!core->params.dma_page_ns) {
        tx_land_chunk(core, ep);
        unetmm_page_unlock(core, ep, &tx->page);
        return;
    }
    unetmm_page_hold(&tx->page);
    unetmm_page_move(&tx->page, true);
    tx->moving = true;
    tx->blocked_on = UNETMM_BLOCKED_TIME;
    tx->deadline_ns = core->ops->now_ns(core->host) + core->params.dma_page_ns;
}

/* A page's time is over: the data is there, its translation is let go. */
static void send_landed(UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmTransfer *tx = &ep->tx;
    const UnetmmTransferOps *ops = tx->ops;

    tx->moving = false;
    tx->blocked_on = UNETMM_BLOCKED_NOT;
    unetmm_page_move(&tx->page, false);
    if (!ep->error) {
        tx_land_chunk(core, ep);
        if (tx->needless) {
            /* No further page: the memory is the process's again. */
            unetmm_send_finish(tx, UNETMM_ST_OK);
        }
        unetmm_ready_push(core, ep);
    }
    unetmm_page_unlock(core, ep, &tx->page);
    unetmm_page_release(core, &tx->page);
    if (ops && ops->landed) {
        ops->landed(core);
    }
    if (ep->error) {
        unetmm_send_abort(core, ep);
        core->tables->ep->landed(core, ep);
    }
}

static void tx_gather(UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmTransfer *tx = &ep->tx;

    while (tx->state == UNETMM_TX_GATHER &&
           tx->blocked_on == UNETMM_BLOCKED_NOT && tx->done < tx->desc.len) {
        if (tx->seg_off == tx->desc.segs[tx->seg].len) {
            tx->seg++;
            tx->seg_off = 0;
            continue;
        }
        tx_start_chunk(core, ep);
    }
    if (tx->state == UNETMM_TX_GATHER &&
        tx->blocked_on == UNETMM_BLOCKED_NOT) {
        tx->state = UNETMM_TX_TRANSMIT;
    }
}

/* The descriptor has the address; the other channel has the same number. */
static void tx_address(struct unetmm_frame *f, const UnetmmChannel *channel,
                       const UnetmmDescriptor *d)
{
    f->opcode = UNETMM_WIRE_SEND_TO;
    unetmm_mac_from_u64(f->dst, UNETMM_GET(UNETMM_UD_MAC, d->remote));
    f->dst_ep = UNETMM_GET(UNETMM_UD_EP, d->remote);
    f->dst_channel = f->src_channel = d->channel;
    f->handle = d->handle & UNETMM_QKEY_OWN ? channel->qkey : d->handle;
    if (d->flags & UNETMM_SQE_F_IMM) {
        f->flags |= UNETMM_WIRE_F_IMM;
        f->imm = d->imm;
    }
}

/* Writes the header.  Checksums are the port's, which may be told to lie. */
static void tx_header(const UnetmmCore *core, const UnetmmEp *ep,
                      const UnetmmTransfer *tx)
{
    struct unetmm_frame *f = (struct unetmm_frame *)tx->frame;
    const UnetmmChannel *channel = &ep->channels[tx->desc.channel];

    memset(f, 0, sizeof(*f));
    memcpy(f->src, core->params.mac, sizeof(f->src));
    f->ethertype[0] = UNETMM_ETHERTYPE >> 8;
    f->ethertype[1] = UNETMM_ETHERTYPE & 0xff;
    f->version = UNETMM_WIRE_VERSION;
    f->src_ep = ep->id;
    f->len = tx->desc.len;
    if (tx->desc.opcode == UNETMM_OP_CONTROL) {
        f->opcode = UNETMM_WIRE_CONTROL;
        unetmm_mac_from_u64(f->dst, tx->desc.remote);
    } else if (tx->desc.opcode == UNETMM_OP_SEND_TO) {
        tx_address(f, channel, &tx->desc);
    } else {
        f->opcode = UNETMM_WIRE_DATAGRAM;
        memcpy(f->dst, channel->mac, sizeof(f->dst));
        f->dst_ep = channel->peer_ep;
        f->dst_channel = channel->peer_channel;
        f->src_channel = tx->desc.channel;
    }
}

void unetmm_send_wait(UnetmmCore *core, UnetmmTransfer *tx)
{
    core->counters[UNETMM_C_wire_waits]++;
    tx->blocked_on = UNETMM_BLOCKED_WIRE;
    core->port->wanted = true;
}

bool unetmm_send_room(UnetmmCore *core, UnetmmTransfer *tx, const uint8_t *to)
{
    if (unetmm_port_open(core, to) && unetmm_delay_room(core)) {
        return true;
    }
    unetmm_send_wait(core, tx);
    return false;
}

static void tx_transmit(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *tx)
{
    uint32_t limit = unetmm_send_limit(core, ep, &tx->desc);
    bool local;

    /* The channel may have changed while the segments were gathered. */
    if (!limit || tx->desc.len > limit) {
        unetmm_send_finish(tx, limit ? UNETMM_ST_TOO_LONG :
                           UNETMM_ST_BAD_CHANNEL);
        return;
    }
    tx_header(core, ep, tx);
    local = unetmm_port_local(core, tx->frame);
    if (!local && !core->port->link) {
        unetmm_count(core, ep, UNETMM_C_drop_link, 1);
        unetmm_send_finish(tx, UNETMM_ST_LINK_DOWN);
        return;
    }
    if (!unetmm_send_room(core, tx, tx->frame)) {
        return;
    }
    unetmm_port_turn_over(core, ep->id);
    unetmm_count(core, ep, UNETMM_C_tx_frames, 1);
    unetmm_count(core, ep, UNETMM_C_tx_bytes, tx->desc.len);
    switch (unetmm_port_transmit(core, g_steal_pointer(&tx->frame),
                                 sizeof(struct unetmm_frame) + tx->desc.len)) {
    case UNETMM_SENT_DONE:
    case UNETMM_SENT_QUEUED:
        unetmm_send_finish(tx, UNETMM_ST_OK);
        break;
    case UNETMM_SENT_REFUSED:
        unetmm_send_finish(tx, UNETMM_ST_REFUSED);
        break;
    }
}

static void tx_complete(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *tx)
{
    struct unetmm_cqe cqe = {
        .opcode = UNETMM_CQE_SENT, .status = tx->status,
        .cookie = tx->desc.cookie, .channel = tx->desc.channel,
        .len = tx->desc.len,
    };

    if (tx->status != UNETMM_ST_OK || !(tx->desc.flags & UNETMM_SQE_F_QUIET)) {
        /* The last place may be a landing message's. */
        if (unetmm_ep_cq_room(ep) <= ep->landing ||
            !unetmm_ep_complete(core, ep, &cqe)) {
            if (!ep->error) {
                tx->blocked_on = UNETMM_BLOCKED_CQ;
                ep->publish = true;
                unetmm_count(core, ep, UNETMM_C_cq_waits, 1);
            }
            return;
        }
    }
    unetmm_count(core, ep, tx->status == UNETMM_ST_OK ?
                 UNETMM_C_sends_done : UNETMM_C_sends_failed, 1);
    unetmm_port_release(core, g_steal_pointer(&tx->frame));
    ep->sq_cons += tx->slots;
    ep->publish = true;
    tx->state = UNETMM_TX_IDLE;
}

/* Descriptors and packets of the channels alternate, if there are both. */
static bool tx_begin(UnetmmCore *core, UnetmmEp *ep)
{
    if (!ep->rels) {
        return unetmm_send_fetch(core, ep);
    }
    ep->rel_turn = !ep->rel_turn;
    return (ep->rel_turn && ep->rel_ops->next(core, ep, &ep->tx)) ||
           (!ep->sq_waits && unetmm_send_fetch(core, ep)) ||
           (!ep->rel_turn && ep->rel_ops->next(core, ep, &ep->tx));
}

/* Is it a channel's message, in one frame, that has not gone yet? */
static bool tx_is_here(const UnetmmTransfer *tx)
{
    return !tx->ops && (tx->state == UNETMM_TX_GATHER ||
                        tx->state == UNETMM_TX_TRANSMIT);
}

/* UNETMM_ST_* with which the message is not to go; OK: it is to go. */
static uint8_t tx_ending(const UnetmmEp *ep)
{
    const UnetmmTransfer *tx = &ep->tx;

    if (!tx_is_here(tx) || tx->status != UNETMM_ST_OK) {
        return tx_is_here(tx) ? tx->status : UNETMM_ST_OK;
    }
    return ep->flushing && tx->desc.opcode == UNETMM_OP_SEND_TO ?
           UNETMM_ST_FLUSHED : UNETMM_ST_OK;
}

static bool tx_step(UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmTransfer *tx = &ep->tx;
    uint8_t ending = tx_ending(ep);

    if (ending != UNETMM_ST_OK) {
        unetmm_send_finish(tx, ending);
    }
    switch (tx->state) {
    case UNETMM_TX_IDLE:
        return tx_begin(core, ep);
    case UNETMM_TX_GATHER:
        tx_gather(core, ep);
        break;
    case UNETMM_TX_TRANSMIT:
        if (tx->ops) {
            tx->ops->transmit(core, ep, tx);
        } else {
            tx_transmit(core, ep, tx);
        }
        break;
    case UNETMM_TX_COMPLETE:
        if (tx->ops && tx->ops->complete) {
            tx->ops->complete(core, ep, tx);
        } else {
            tx_complete(core, ep, tx);
        }
        break;
    }
    return tx->blocked_on == UNETMM_BLOCKED_NOT;
}

/*
 * Works on the send queue until it is empty, stops, or the endpoint's share of
 * the budget is used.
 */
void unetmm_send_turn(UnetmmCore *core, UnetmmEp *ep)
{
    const UnetmmBudget *left = &core->budget;
    uint32_t descriptors = left->descriptors -
                           MIN(left->descriptors, UNETMM_TURN_DESCRIPTORS);
    uint32_t bytes = left->bytes - MIN(left->bytes, UNETMM_TURN_BYTES);
    UnetmmTransfer *tx = &ep->tx;

    if (tx->blocked_on != UNETMM_BLOCKED_NOT) {
        return;
    }
    while (!ep->error && left->descriptors > descriptors &&
           left->bytes > bytes && tx_step(core, ep)) {
        if (tx->state == UNETMM_TX_IDLE) {
            unetmm_charge(core, 1, tx->desc.len);
        }
    }
}

/* ---- The miss of the send in progress ----------------------------------- */

static void send_reply(UnetmmCore *core, UnetmmMiss *miss, uint8_t reply,
                       uint8_t status)
{
    UnetmmEp *ep = miss->ep;

    if (reply == UNETMM_REPLY_DEFERRED) {
        unetmm_count(core, ep, UNETMM_C_faults_deferred, 1);
        return;
    }
    if (reply == UNETMM_REPLY_ERROR) {
        unetmm_count(core, ep, UNETMM_C_faults_error, 1);
        unetmm_send_finish(&ep->tx, status);
    }
    ep->tx.blocked_on = UNETMM_BLOCKED_NOT;
    unetmm_ready_push(core, ep);
}

/* The segments behind the one that the transfer waits in. */
static uint32_t send_ahead(const UnetmmCore *core, const UnetmmMiss *miss,
                           UnetmmAhead *ahead)
{
    const UnetmmTransfer *tx = &miss->ep->tx;

    if (tx->blocked_on != UNETMM_BLOCKED_FAULT) {
        return 0;
    }
    /* A restored transfer may wait for a page and have no segment. */
    return unetmm_segments_ahead(tx->desc.segs, tx->seg + 1, tx->desc.nsegs,
                                 ahead);
}

static const UnetmmMissOwner send_owner = {
    .name = "send", .reply = send_reply, .ahead = send_ahead,
};

void unetmm_send_own_misses(UnetmmEp *ep)
{
    unetmm_miss_own(&ep->misses[0], &send_owner, ep, NULL);
}

/* Ends the transfer unless a page is moving; then the page's end does. */
void unetmm_send_abort(UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmTransfer *tx = &ep->tx;

    if (tx->moving) {
        return;
    }
    unetmm_port_release(core, g_steal_pointer(&tx->frame));
    memset(tx, 0, sizeof(*tx));
}

/*
 * A page that is moving is waited for: then the next step looks again, when a
 * CHANNEL_SET may have ended the flush.
 */
void unetmm_send_flush(UnetmmCore *core, UnetmmEp *ep)
{
    uint8_t ending = tx_ending(ep);

    if (ending != UNETMM_ST_OK) {
        ep->tx.status = ending;
    }
    if (ending != UNETMM_ST_OK && !ep->tx.moving) {
        unetmm_miss_cancel(core, &ep->misses[0]);
        ep->tx.blocked_on = UNETMM_BLOCKED_NOT;
        unetmm_ready_push(core, ep);
    }
}

void unetmm_send_end(UnetmmCore *core, UnetmmEp *ep, uint16_t channel)
{
    if (tx_is_here(&ep->tx) && ep->tx.desc.channel == channel) {
        ep->tx.status = UNETMM_ST_BAD_CHANNEL;
        unetmm_send_flush(core, ep);
    }
}

static void send_stop(UnetmmCore *core, UnetmmEp *ep)
{
    unetmm_miss_cancel(core, &ep->misses[0]);
    unetmm_send_abort(core, ep);
}

/* x-dma-page-ns: the pages that sends move. */
static int64_t send_deadline(const UnetmmCore *core)
{
    int64_t when = INT64_MAX;

    for (uint32_t i = 0; core->params.dma_page_ns &&
         i < core->params.endpoints; i++) {
        const UnetmmEp *ep = &core->eps[i];

        if (ep->live && ep->tx.moving) {
            when = MIN(when, ep->tx.deadline_ns);
        }
    }
    return when;
}

static void send_due(UnetmmCore *core, int64_t now)
{
    for (uint32_t i = 0; core->params.dma_page_ns &&
         i < core->params.endpoints; i++) {
        UnetmmEp *ep = &core->eps[i];

        if (ep->live && ep->tx.moving && ep->tx.deadline_ns <= now) {
            send_landed(core, ep);
        }
    }
}

const UnetmmModule unetmm_module_send = {
    .name = "send",
    .ep_stop = send_stop,
    .deadline = send_deadline,
    .deadline_of_pages = true,
    .deadline_passed = send_due,
};
