/*
 * unetmm: sending: one resumable transfer for each endpoint
 *
 * Fetch the descriptor, gather its segments page by page into one contiguous
 * frame, transmit, complete.  Each step may stop (blocked_on) and is entered
 * again from where it stopped; only the state that a step needs is kept.
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
#include "../abi/unetmm_le.h"

/*
 * Where bytes [at, + n) of the data are to be written.  A raw endpoint's frame
 * has the header that its process wrote.
 */
static uint8_t *tx_payload(UnetmmTransfer *tx, uint32_t at, uint32_t n)
{
    return unetmm_frame_at(tx->frame,
                           unetmm_send_headroom(tx->desc.opcode) + at, n);
}

/* Segments that would have the place of the inline bytes. */
static uint32_t tx_inline_places(const struct unetmm_sqe *sqe)
{
    return sqe->flags & UNETMM_SQE_F_INLINE ?
           (sqe->inline_len + sizeof(sqe->seg[0]) - 1) / sizeof(sqe->seg[0]) :
           0;
}

/* Slots beyond the first that a descriptor takes; 0 if it says nonsense. */
static uint32_t tx_extra_slots(const struct unetmm_sqe *sqe)
{
    uint32_t places = tx_inline_places(sqe) + sqe->nsegs;

    if ((sqe->flags & UNETMM_SQE_F_INLINE &&
         sqe->inline_len > UNETMM_MAX_INLINE) ||
        sqe->nsegs > UNETMM_MAX_SEGS || places > UNETMM_MAX_PLACES ||
        places <= UNETMM_SQE_SEGS) {
        return 0;
    }
    return (places - UNETMM_SQE_SEGS + UNETMM_SLOT_SEGS - 1) / UNETMM_SLOT_SEGS;
}

static bool tx_read_slots(UnetmmCore *core, UnetmmEp *ep, uint32_t index,
                          uint32_t n, uint8_t *buf)
{
    uint32_t mask = (1u << ep->sq_log2) - 1;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = ep->sq_base +
                      (uint64_t)((index + i) & mask) * UNETMM_SLOT_BYTES;

        if (!unetmm_dma_read(core, ep, at, buf + i * UNETMM_SLOT_BYTES,
                             UNETMM_SLOT_BYTES)) {
            unetmm_ep_fail(core, ep, UNETMM_ST_DMA);
            return false;
        }
    }
    return true;
}

const UnetmmSqeOp unetmm_sqe_control = {
    .flags = UNETMM_SQE_F_INLINE | UNETMM_SQE_F_QUIET,
};

const UnetmmSqeOp unetmm_sqe_send_to = {
    .flags = UNETMM_SQE_F_INLINE | UNETMM_SQE_F_QUIET | UNETMM_SQE_F_IMM,
    .must = UNETMM_SQE_F_INLINE, .inline_least = UNETMM_UD_HEAD,
    .segs_behind = UNETMM_UD_SEGS, .ud = true,
};

/* `imm` has one meaning. */
static bool tx_imm_ok(uint8_t flags, uint32_t imm)
{
    uint8_t use = flags & (UNETMM_SQE_F_NOTIFY | UNETMM_SQE_F_COUNT |
                           UNETMM_SQE_F_IMM);

    return use ? !(use & (use - 1)) : !imm;
}

bool unetmm_send_flags_ok(const UnetmmCore *core, uint8_t op, uint8_t flags)
{
    const UnetmmSqeOp *row = unetmm_sqe_op(core, op);

    return row && op != UNETMM_OP_CONTROL && !row->raw && !row->ud &&
           !(flags & ~row->flags) && !(row->must & ~flags) &&
           tx_imm_ok(flags, 0);
}

/* Has the opcode these flags, and the members that they go with? */
static bool tx_flags_ok(const UnetmmCore *core, const UnetmmSqeOp *op,
                        const struct unetmm_sqe *sqe)
{
    return !(sqe->flags & ~op->flags) && !(op->must & ~sqe->flags) &&
           (!sqe->region || sqe->flags & UNETMM_SQE_F_KEYED) &&
           (!sqe->handle || op->one_sided || op->ud) &&
           (op->raw ? core->tables->frames->imm_ok(sqe->imm) :
            tx_imm_ok(sqe->flags, sqe->imm));
}

static bool tx_lengths_ok(const UnetmmSqeOp *op, const struct unetmm_sqe *sqe)
{
    bool is_inline = sqe->flags & UNETMM_SQE_F_INLINE;

    return sqe->nsegs <= (op->bare ? 0 : is_inline ? op->segs_behind :
                          UNETMM_MAX_SEGS) &&
           sqe->inline_len <= (is_inline ? UNETMM_MAX_INLINE : 0) &&
           sqe->inline_len >= op->inline_least &&
           (!op->operands || sqe->inline_len == op->operands) &&
           tx_inline_places(sqe) + sqe->nsegs <= UNETMM_MAX_PLACES;
}

static bool tx_fields_ok(const UnetmmCore *core, const UnetmmEp *ep,
                         const struct unetmm_sqe *sqe)
{
    const UnetmmSqeOp *op = unetmm_sqe_op(core, sqe->opcode);

    if (!op || op->raw != ep->raw || !tx_flags_ok(core, op, sqe) ||
        !tx_lengths_ok(op, sqe)) {
        return false;
    }
    if (op->ud) {
        /* Multicast destinations are not supported. */
        return !(sqe->remote & 1);
    }
    if (sqe->opcode == UNETMM_OP_CONTROL) {
        return ep->id == 0 && sqe->channel == 0;
    }
    if (ep->raw && sqe->channel) {
        return false;
    }
    return op->one_sided || !sqe->remote;
}

bool unetmm_send_fields_ok(const UnetmmCore *core, const UnetmmEp *ep,
                           const UnetmmDescriptor *d, uint8_t inline_len)
{
    const struct unetmm_sqe sqe = {
        .opcode = d->opcode, .flags = d->flags, .nsegs = d->nsegs,
        .inline_len = inline_len, .channel = d->channel, .imm = d->imm,
        .handle = d->handle, .remote = d->remote,
    };

    return tx_fields_ok(core, ep, &sqe);
}

/* EP_F_KEYS: from the region's addresses to those of the space. */
static bool tx_by_key(UnetmmCore *core, UnetmmEp *ep,
                      const UnetmmDescriptor *d, struct unetmm_seg *seg)
{
    /* The segment of an atomic is for the result. */
    bool write = d->opcode == UNETMM_OP_READ ||
                 unetmm_sqe_op(core, d->opcode)->operands;

    if (seg->len && !core->tables->local(core, ep, seg->key, write,
                                         &seg->addr, seg->len)) {
        unetmm_count(core, ep, UNETMM_C_err_key, 1);
        return false;
    }
    seg->key = 0;
    return true;
}

/* Takes one segment over, which is in this place.  UNETMM_ST_*. */
static uint8_t tx_take_segment(UnetmmCore *core, UnetmmEp *ep,
                               UnetmmDescriptor *d, const uint8_t *slots,
                               unsigned i, unsigned place)
{
    struct unetmm_seg *seg = &d->segs[i];

    memcpy(seg, slots + offsetof(struct unetmm_sqe, seg) +
           place * sizeof(*seg), sizeof(*seg));
    unetmm_le_seg(seg);
    if (ep->keys && !tx_by_key(core, ep, d, seg)) {
        return UNETMM_ST_PROTECTION;
    }
    if (seg->rsvd) {
        return UNETMM_ST_BAD_DESC;
    }
    return seg->len && seg->addr > UINT64_MAX - (seg->len - 1) ?
           UNETMM_ST_PROTECTION : UNETMM_ST_OK;
}

/* Takes the segments over and adds them up, to inline data.  UNETMM_ST_*. */
static uint8_t tx_take_segments(UnetmmCore *core, UnetmmEp *ep,
                                UnetmmDescriptor *d,
                                const struct unetmm_sqe *sqe,
                                const uint8_t *slots, uint32_t longest)
{
    unsigned place = tx_inline_places(sqe);
    uint64_t total = sqe->inline_len;

    for (unsigned i = 0; i < d->nsegs; i++) {
        uint8_t status = tx_take_segment(core, ep, d, slots, i, place + i);

        if (status != UNETMM_ST_OK) {
            return status;
        }
        total += d->segs[i].len;
    }
    if (total > MAX(longest, UNETMM_MAX_PAYLOAD)) {
        return UNETMM_ST_TOO_LONG;
    }
    d->len = total;
    return UNETMM_ST_OK;
}

/* An atomic has one segment more, behind its operands.  UNETMM_ST_*. */
static uint8_t tx_take_result(UnetmmCore *core, UnetmmEp *ep,
                              UnetmmDescriptor *d, const uint8_t *slots)
{
    uint8_t status = tx_take_segment(core, ep, d, slots, UNETMM_SQE_RESULT,
                                     UNETMM_SQE_RESULT);

    return status == UNETMM_ST_OK &&
           d->segs[UNETMM_SQE_RESULT].len != sizeof(uint64_t) ?
           UNETMM_ST_BAD_DESC : status;
}

/* The longest message for the destination, if no frame; 0: there is none. */
static uint32_t tx_limit(const UnetmmCore *core, const UnetmmEp *ep,
                         const UnetmmDescriptor *d)
{
    if (d->opcode == UNETMM_OP_CONTROL) {
        return UNETMM_MIN_MTU;
    }
    if (d->channel >= core->params.channels ||
        !ep->channels[d->channel].live ||
        unetmm_channel_is_ud(&ep->channels[d->channel]) !=
        (d->opcode == UNETMM_OP_SEND_TO)) {
        return 0;
    }
    return ep->channels[d->channel].longest;
}

/* Does the peer's card know the packets that the descriptor makes? */
static bool tx_peer_takes(const UnetmmEp *ep, const UnetmmDescriptor *d)
{
    uint8_t need = (d->flags & UNETMM_SQE_F_KEYED ? UNETMM_CHANNEL_F_KEYED :
                    0) |
                   (d->flags & UNETMM_SQE_F_IMM ? UNETMM_CHANNEL_F_IMM : 0);

    return !need || !(need & ~ep->channels[d->channel].peer_takes);
}

/* The descriptor's channel, if its type takes messages over; or NULL. */
static UnetmmChannel *tx_poster(const UnetmmEp *ep, const UnetmmDescriptor *d)
{
    UnetmmChannel *channel = &ep->channels[d->channel];

    return d->opcode != UNETMM_OP_CONTROL && !ep->raw && channel->live &&
           channel->ops->post ? channel : NULL;
}

/* May a one-sided operation, whose length is known, be?  UNETMM_ST_*. */
static uint8_t tx_one_sided(UnetmmCore *core, UnetmmEp *ep,
                            UnetmmDescriptor *d)
{
    const UnetmmChannel *channel = tx_poster(ep, d);

    if (!channel) {
        return UNETMM_ST_BAD_CHANNEL;
    }
    d->operands = unetmm_sqe_op(core, d->opcode)->operands;
    if (d->operands) {
        /* The old value comes back into it; the new one has its size. */
        d->len = sizeof(uint64_t);
    }
    if (d->flags & UNETMM_SQE_F_KEYED) {
        /* The peer alone knows if this is right. */
        return UNETMM_ST_OK;
    }
    return channel->ops->allows(core, ep, d) ? UNETMM_ST_OK :
           UNETMM_ST_BAD_IMPORT;
}

/* Checks the descriptor, and fills in the fields of its slots.  UNETMM_ST_*. */
static uint8_t tx_load(UnetmmCore *core, UnetmmEp *ep, UnetmmDescriptor *d,
                       const struct unetmm_sqe *sqe, const uint8_t *slots)
{
    const UnetmmSqeOp *op = unetmm_sqe_op(core, d->opcode);
    uint32_t longest;
    uint8_t status;

    if (!tx_fields_ok(core, ep, sqe)) {
        return UNETMM_ST_BAD_DESC;
    }
    longest = ep->raw ? core->tables->frames->longest(d->imm) :
              tx_limit(core, ep, d);
    if (!longest) {
        return UNETMM_ST_BAD_CHANNEL;
    }
    d->nsegs = sqe->nsegs;
    if (op->operands) {
        d->len = sqe->inline_len;
        status = d->nsegs ? tx_take_result(core, ep, d, slots) : UNETMM_ST_OK;
    } else {
        status = tx_take_segments(core, ep, d, sqe, slots, longest);
    }
    if (status != UNETMM_ST_OK) {
        return status;
    }
    if (d->len > longest) {
        return UNETMM_ST_TOO_LONG;
    }
    if (op->ud) {
        return UNETMM_ST_OK;
    }
    if ((op->bare || d->flags & UNETMM_SQE_F_IMM) &&
        !tx_poster(ep, d)) {
        return UNETMM_ST_BAD_CHANNEL;
    }
    status = op->one_sided ? tx_one_sided(core, ep, d) :
             UNETMM_ST_OK;
    return status == UNETMM_ST_OK && !tx_peer_takes(ep, d) ?
           UNETMM_ST_PEER_LACKS : status;
}

/* A frame for the message; its inline data is gathered at once. */
static void tx_begin_frame(UnetmmCore *core, UnetmmTransfer *tx,
                           const uint8_t *data, uint32_t inline_len)
{
    tx->frame = unetmm_port_buffer(core);
    memcpy(tx_payload(tx, 0, inline_len), data, inline_len);
    tx->done = inline_len;
}

/* Gives the message to its channel.  False: that has no room now. */
static bool tx_post(UnetmmCore *core, UnetmmEp *ep, UnetmmChannel *channel,
                    const uint8_t *data)
{
    UnetmmTransfer *tx = &ep->tx;

    switch (channel->ops->post(core, ep, channel, &tx->desc, data)) {
    case UNETMM_POSTED:
        ep->sq_cons += tx->slots;
        ep->publish = true;
        /* Its packets take their bytes of the budget, each when it goes. */
        tx->desc.len = 0;
        break;
    case UNETMM_POST_FULL:
        /* Its descriptor is read again then. */
        ep->sq_waits = true;
        break;
    case UNETMM_POST_FAILED:
        unetmm_send_finish(tx, UNETMM_ST_FLUSHED);
        return true;
    }
    tx->state = UNETMM_TX_IDLE;
    return !ep->sq_waits;
}

/*
 * A refused descriptor of a strict channel ends that in its turn: the channel
 * takes it over as one that fails.  NULL: there is no such channel.
 */
static UnetmmChannel *tx_strict(const UnetmmCore *core, const UnetmmEp *ep,
                                UnetmmDescriptor *d, uint8_t status)
{
    UnetmmChannel *channel = d->channel < core->params.channels ?
                             tx_poster(ep, d) : NULL;

    if (!channel || !channel->strict) {
        return NULL;
    }
    *d = (UnetmmDescriptor) {
        .opcode = UNETMM_OP_FENCE, .channel = d->channel,
        .cookie = d->cookie, .refused = status,
    };
    return channel;
}

/* The descriptor is refused: it completes with this status. */
static void tx_refuse(UnetmmCore *core, UnetmmEp *ep, uint8_t status)
{
    unetmm_count(core, ep, UNETMM_C_err_descriptor, 1);
    UNETMM_GUEST_ERR(send_descriptor, "endpoint %u: send descriptor "
                     "refused, status %u", ep->id, status);
    unetmm_send_finish(&ep->tx, status);
}

/*
 * Fetches the next descriptor.  False: there is none, the ring failed, or its
 * channel has no room.
 */
static bool tx_fetch(UnetmmCore *core, UnetmmEp *ep)
{
    uint8_t slots[UNETMM_MAX_SLOTS * UNETMM_SLOT_BYTES];
    const uint8_t *data = slots + offsetof(struct unetmm_sqe, data);
    uint32_t filled = ep->sq_prod - ep->sq_cons;
    UnetmmTransfer *tx = &ep->tx;
    UnetmmDescriptor *d = &tx->desc;
    UnetmmChannel *channel;
    struct unetmm_sqe sqe;
    uint32_t extra;
    uint8_t status;

    if (!filled || !tx_read_slots(core, ep, ep->sq_cons, 1, slots)) {
        return false;
    }
    memcpy(&sqe, slots, sizeof(sqe));
    unetmm_le_sqe(&sqe);
    extra = tx_extra_slots(&sqe);
    memset(tx, 0, sizeof(*tx));
    tx->state = UNETMM_TX_GATHER;
    tx->ops = unetmm_send_ops(core, ep);
    d->opcode = sqe.opcode;
    d->flags = sqe.flags;
    d->channel = sqe.channel;
    d->cookie = sqe.cookie;
    d->remote = sqe.remote;
    d->handle = sqe.handle;
    d->region = sqe.region;
    d->imm = sqe.imm;
    tx->slots = MIN(1 + extra, filled);
    if (tx->slots < 1 + extra) {
        status = UNETMM_ST_BAD_DESC;
    } else if (!tx_read_slots(core, ep, ep->sq_cons + 1, extra,
                              slots + UNETMM_SLOT_BYTES)) {
        return false;
    } else {
        status = tx_load(core, ep, d, &sqe, slots);
    }
    trace_unetmm_send(ep->id, d->channel, d->cookie, d->len, status);
    unetmm_spend(core, UNETMM_STEP_FETCH, tx->slots);
    channel = status == UNETMM_ST_OK ? tx_poster(ep, d) :
              tx_strict(core, ep, d, status);
    if (status != UNETMM_ST_OK && !channel) {
        tx_refuse(core, ep, status);
        return true;
    }
    if (channel) {
        return tx_post(core, ep, channel, data);
    }
    tx_begin_frame(core, tx, data, sqe.inline_len);
    return true;
}

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
                         tx_payload(tx, tx->done, tx->chunk), tx->chunk)) {
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
        unetmm_engine_queue(core, ep);
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
    uint32_t limit = tx_limit(core, ep, &tx->desc);
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
        return tx_fetch(core, ep);
    }
    ep->rel_turn = !ep->rel_turn;
    return (ep->rel_turn && ep->rel_ops->next(core, ep, &ep->tx)) ||
           (!ep->sq_waits && tx_fetch(core, ep)) ||
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
    unetmm_engine_queue(core, ep);
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
        unetmm_engine_queue(core, ep);
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
    .due = send_due,
};
