/*
 * unetmm: saving and restoring the send in progress of an endpoint
 *
 * A transfer is restored only in a form in which it could have stopped; the
 * assumptions of its steps are checked here, once.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../port/port.h"
#include "send.h"

static const UnetmmField seg_fields[] = {
    UNETMM_FIELDS(struct unetmm_seg, addr, len),
};

uint8_t unetmm_send_save_segs(UnetmmStream *st, struct unetmm_seg *segs,
                              uint8_t n, uint64_t *total)
{
    *total = 0;
    n = unetmm_stream_choice(st, n, UNETMM_MAX_SEGS + 1, "nsegs");
    for (struct unetmm_seg *seg = segs; seg < segs + n; seg++) {
        unetmm_stream_enter(st, "segs", seg - segs);
        UNETMM_STREAM_FIELDS(st, seg, seg_fields);
        unetmm_stream_leave(st);
        if (seg->len && seg->addr > UINT64_MAX - (seg->len - 1)) {
            unetmm_stream_refuse(st, "a segment wraps round");
        }
        *total += seg->len;
    }
    return n;
}

static_assert(UNETMM_MAX_INLINE < UINT8_MAX,
              "the longest inline part that segments_save() tells is refused");

/* Returns how many bytes are inline. */
static uint8_t segments_save(UnetmmStream *st, UnetmmTransfer *tx)
{
    UnetmmDescriptor *d = &tx->desc;
    uint64_t before = 0, total, data;

    d->nsegs = unetmm_send_save_segs(st, d->segs, d->nsegs, &total);
    /* The inline bytes. */
    data = d->len - MIN(total, d->len);
    for (unsigned i = 0; i < MIN(tx->seg, d->nsegs); i++) {
        before += d->segs[i].len;
    }
    if (tx->seg > d->nsegs || (d->nsegs && tx->seg == d->nsegs) ||
        tx->seg_off > d->segs[tx->seg].len || total > d->len ||
        data + before + tx->seg_off != tx->done) {
        unetmm_stream_refuse(st, "a message and its segments do not agree");
    }
    return MIN(data, UINT8_MAX);
}

/* Could endpoint and transfer be these, of whose data so much is inline? */
static bool gather_ok(const UnetmmCore *core, const UnetmmEp *ep,
                      const UnetmmDescriptor *d, uint8_t inline_len)
{
    const UnetmmSqeOp *op = unetmm_sqe_op(core, d->opcode);

    return unetmm_send_fields_ok(core, ep, d, inline_len) &&
           !op->one_sided && !op->bare &&
           (!ep->raw || d->len <= core->tables->frames->longest(d->imm));
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
    unetmm_stream_time(st, &tx->deadline_ns, core->params.dma_page_ns,
                       "deadline_ns");
    if (unetmm_stream_takes(st)) {
        unetmm_page_move(&tx->page, true);
        tx->moving = true;
    }
}

/* A message that is not yet gone: all that is needed to go on with it. */
static void gather_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmTransfer *tx = &ep->tx;
    uint8_t inline_len;

    unetmm_stream_u64(st, &tx->desc.remote, "remote");
    tx->done = unetmm_stream_choice(st, tx->done, tx->desc.len + 1, "done");
    tx->seg = unetmm_stream_choice(st, tx->seg, UNETMM_MAX_SEGS, "seg");
    unetmm_stream_u32(st, &tx->seg_off, "seg_off");
    inline_len = segments_save(st, tx);
    unetmm_stream_u32(st, &tx->desc.imm, "imm");
    unetmm_stream_u32(st, &tx->desc.handle, "handle");
    if (!gather_ok(core, ep, &tx->desc, inline_len)) {
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

    uint32_t head = unetmm_send_headroom(tx->desc.opcode);

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

static const UnetmmField send_state[] = {
    UNETMM_FIELD_IF_RANGE(UnetmmTransfer, state, UNETMM_TX_IDLE,
                          UNETMM_TX_COMPLETE),
    UNETMM_FIELD_RANGE(UnetmmTransfer, blocked_on, 0, UNETMM_BLOCKED_CQ),
};

static const UnetmmField send_fields[] = {
    UNETMM_FIELD_AS(UnetmmTransfer, desc.opcode, "opcode"),
    UNETMM_FIELD_AS(UnetmmTransfer, desc.flags, "flags"),
    UNETMM_FIELD_RANGE(UnetmmTransfer, status, 0, UNETMM_NUM_ST - 1),
    UNETMM_FIELD_RANGE(UnetmmTransfer, slots, 0, UNETMM_MAX_SLOTS),
    UNETMM_FIELD_AS(UnetmmTransfer, desc.channel, "channel"),
    UNETMM_FIELD_AS(UnetmmTransfer, desc.cookie, "cookie"),
};

void unetmm_send_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmTransfer *tx = &ep->tx;

    if (!UNETMM_STREAM_FIELDS(st, tx, send_state)) {
        return;
    }
    if (unetmm_stream_reads(st) && tx->blocked_on == UNETMM_BLOCKED_WIRE) {
        core->port->wanted = true;
    }
    tx->rel = core->tables->saved->connection(st, core, ep, tx->rel);
    if (tx->rel) {
        core->tables->saved->packet(st, core, ep);
        return;
    }
    tx->ops = unetmm_send_ops(core, ep);
    UNETMM_STREAM_FIELDS(st, tx, send_fields);
    tx->desc.len = unetmm_stream_choice(st, tx->desc.len,
                                   (tx->state == UNETMM_TX_COMPLETE ?
                                    UNETMM_MAX_STRICT_MESSAGE :
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
