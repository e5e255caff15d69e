/*
 * unetmm: sending: the next descriptor of a send queue, copied and checked
 *
 * A channel type with `post` takes the message over; of other messages a
 * transfer of send.c begins, with the inline bytes already in the frame.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../abi/unetmm_le.h"
#include "../channel/channel.h"
#include "../port/port.h"
#include "send.h"

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

static bool tx_read_slot(UnetmmCore *core, UnetmmEp *ep, uint32_t index,
                         uint8_t *buf)
{
    uint32_t mask = (1u << ep->sq_log2) - 1;

    return unetmm_dma_read(core, ep, ep->sq_base + (uint64_t)(index & mask) *
                           UNETMM_SLOT_BYTES, buf, UNETMM_SLOT_BYTES);
}

static bool tx_read_slots(UnetmmCore *core, UnetmmEp *ep, uint32_t index,
                          uint32_t n, uint8_t *buf)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!tx_read_slot(core, ep, index + i, buf + i * UNETMM_SLOT_BYTES)) {
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

    return use ? !(use & (use - 1)) :
           !imm && !(flags & UNETMM_SQE_F_INV);
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

uint32_t unetmm_send_limit(const UnetmmCore *core, const UnetmmEp *ep,
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

    if (d->flags & UNETMM_SQE_F_INV && !ep->channels[d->channel].strict) {
        return false;
    }
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
              unetmm_send_limit(core, ep, d);
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
    memcpy(unetmm_send_payload(tx, 0, inline_len), data, inline_len);
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
        /* The message's packets take bytes of the budget, each when it goes. */
        tx->desc.len = 0;
        break;
    case UNETMM_POST_FULL:
        /* The descriptor is read again when the channel has room. */
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

bool unetmm_send_goes_on(UnetmmCore *core, UnetmmEp *ep,
                         uint16_t channel)
{
    uint8_t slot[UNETMM_SLOT_BYTES];
    struct unetmm_sqe sqe;

    if (ep->sq_prod == ep->sq_cons ||
        !tx_read_slot(core, ep, ep->sq_cons, slot)) {
        return false;
    }
    memcpy(&sqe, slot, sizeof(sqe));
    unetmm_le_sqe(&sqe);
    return sqe.channel == channel;
}

bool unetmm_send_fetch(UnetmmCore *core, UnetmmEp *ep)
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
