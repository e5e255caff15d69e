/*
 * unetmm: reliable channels: packets of SENDs into buffers
 *
 * A message takes its buffer out of the free queue with its first packet, so
 * that a message that never ends is in nobody's way.  If a buffer, a page or
 * room in the completion queue is missing now, the peer comes again later:
 * nothing waits in the card, and no frame waits for an endpoint.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../../abi/unetmm_host.h"
#include "../packet.h"

/* Is the packet the next one of the message? */
static bool send_fits(const UnetmmRel *rel, const struct unetmm_frame *f)
{
    bool last = f->flags & UNETMM_WIRE_F_LAST;

    if (f->remote > unetmm_rel_longest(rel) ||
        f->offset != (rel->in.in_message ? rel->in.done : 0) ||
        f->offset > f->remote || f->len > f->remote - f->offset ||
        (rel->in.in_message && f->remote != rel->in.len)) {
        return false;
    }
    return last == (f->offset + f->len == f->remote) &&
           (last || f->len == rel->mtu);
}

static UnetmmRelTake send_take_inline(UnetmmCore *core, UnetmmEp *ep,
                                      UnetmmRel *rel,
                                      const struct unetmm_frame *f,
                                      const uint8_t *payload)
{
    struct unetmm_cqe cqe = {
        .opcode = UNETMM_CQE_RECEIVED, .len = f->len, .channel = rel->channel,
    };

    if (!unetmm_ep_cq_spare(ep)) {
        ep->publish = true;
        return unetmm_rel_refuse(rel, UNETMM_REL_WANT_CQ);
    }
    unetmm_recv_imm(&cqe, f);
    unetmm_recv_inline(core, ep, &cqe, payload);
    return ep->error ? UNETMM_TAKE_ENDED : UNETMM_TAKE_DONE;
}

/*
 * A page of the next buffer cannot be had: that is the end of a strict channel.
 * The buffer goes back with the reason.
 */
static UnetmmRelTake send_no_memory(UnetmmCore *core, UnetmmEp *ep,
                                    UnetmmRel *rel, uint8_t status)
{
    if (!unetmm_ep_cq_spare(ep)) {
        ep->publish = true;
        return unetmm_rel_refuse(rel, UNETMM_REL_WANT_CQ);
    }
    if (unetmm_head_return(core, ep, status)) {
        unetmm_rel_fail(core, ep, rel, NULL, UNETMM_ST_FLUSHED,
                        UNETMM_WHY_MEMORY);
    }
    return UNETMM_TAKE_ENDED;
}

/*
 * A message begins: it takes the next buffer, and keeps it, if that is ready
 * for the packet.  The other pages are looked up in their turn: not all of a
 * long buffer need ever be translated at the same time.
 */
static UnetmmRelTake send_claim(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                                const struct unetmm_frame *f)
{
    UnetmmNeed need = {
        .len = f->remote, .begins = f->len, .as_it_is = rel->share.credits,
        .unfilled = !f->remote, .strict = rel->strict,
    };
    const UnetmmHead *failed;
    enum unetmm_counter drop;
    UnetmmHead *head;

    head = unetmm_recv_find_head(core, ep, &need, unetmm_recv_blank(core),
                                 &drop);
    if (ep->error) {
        return UNETMM_TAKE_ENDED;
    }
    failed = head ? NULL : unetmm_head_failed(ep->queue);
    if (failed && rel->strict) {
        return send_no_memory(core, ep, rel, failed->status);
    }
    if (!head && drop == UNETMM_C_drop_too_long) {
        /* The process of a strict channel learns the reason from the buffer. */
        if (rel->strict && !unetmm_head_return(core, ep, UNETMM_ST_TOO_LONG)) {
            return UNETMM_TAKE_ENDED;
        }
        unetmm_rel_fail(core, ep, rel, NULL, UNETMM_ST_FLUSHED,
                        UNETMM_WHY_BUFFER);
        return UNETMM_TAKE_ENDED;
    }
    if (!head) {
        return unetmm_rel_no_head(ep, rel, drop);
    }
    rel->in.claimed = true;
    rel->in.in_message = true;
    rel->in.len = need.len;
    rel->in.done = 0;
    rel->in.nparts = unetmm_head_parts(ep->queue, rel->in.parts);
    rel->in.buf_cookie = head->cookie;
    unetmm_head_pop(core, ep);
    return UNETMM_TAKE_DONE;
}

/*
 * The pages from vpn on, of the piece that misses npages: as far as the message
 * is to reach in that part of its buffer.
 */
static uint32_t send_ahead(UnetmmCore *core, UnetmmEp *ep,
                           const UnetmmRelIn *in, uint64_t vpn, uint32_t npages)
{
    uint32_t at = in->done, left = in->len - in->done;
    uint32_t n = npages;

    for (uint32_t i = 0; i < in->nparts && n == npages; i++) {
        const UnetmmPart *part = &in->parts[i];
        uint32_t skip = MIN(at, part->len);
        uint32_t len = MIN(part->len - skip, left);

        n = unetmm_space_ahead(core, ep, vpn, npages, part->addr + skip, len);
        at -= skip;
        left -= len;
    }
    return n;
}

/* Asks for pages of the message's buffer. */
static void send_ask_buffer(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                            uint32_t psn, uint64_t vpn, uint32_t npages)
{
    unetmm_rel_ask(core, ep, rel, UNETMM_REL_FAULT_ARRIVE,
                   (UnetmmRelMissed) { .buffer = true, .psn = psn }, vpn,
                   send_ahead(core, ep, &rel->in, vpn, npages));
}

/* Holds all pages of the placement. */
static UnetmmRelTake send_pages(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                                UnetmmPlacement *place, uint32_t psn)
{
    uint32_t npages;
    uint64_t vpn;

    switch (unetmm_recv_hold(core, ep, place, &vpn, &npages)) {
    case UNETMM_XLAT_OK:
        return UNETMM_TAKE_DONE;
    case UNETMM_XLAT_ERROR:
        unetmm_rel_give_back(rel, UNETMM_ST_PROTECTION);
        unetmm_rel_fail(core, ep, rel, NULL, UNETMM_ST_FLUSHED,
                        UNETMM_WHY_MEMORY);
        return UNETMM_TAKE_ENDED;
    case UNETMM_XLAT_MISS:
        send_ask_buffer(core, ep, rel, psn, vpn, npages);
        return unetmm_rel_refuse(rel, UNETMM_REL_WANT_PAGE);
    }
    return UNETMM_TAKE_ENDED;
}

/* The packet has been written: is the message complete?  False: not told. */
static bool send_placed(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                        const struct unetmm_frame *f)
{
    struct unetmm_cqe cqe = {
        .opcode = UNETMM_CQE_RECEIVED, .cookie = rel->in.buf_cookie,
        .channel = rel->channel, .len = rel->in.len,
    };

    if (rel->in.done + f->len == rel->in.len) {
        unetmm_recv_imm(&cqe, f);
        if (!unetmm_ep_complete(core, ep, &cqe)) {
            return false;
        }
        rel->in.claimed = rel->in.in_message = false;
        trace_unetmm_receive(ep->id, rel->in.len);
    }
    rel->in.done += f->len;
    unetmm_count(core, ep, UNETMM_C_rx_frames, 1);
    unetmm_count(core, ep, UNETMM_C_rx_bytes, f->len);
    return true;
}

static void send_bus_refused(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel)
{
    unetmm_recv_drop(core, ep, UNETMM_C_drop_dma);
    unetmm_rel_give_back(rel, UNETMM_ST_DMA);
    unetmm_rel_fail(core, ep, rel, NULL, UNETMM_ST_FLUSHED,
                    UNETMM_WHY_MEMORY);
}

static UnetmmRelTake send_place(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                                const struct unetmm_frame *f,
                                const uint8_t *payload)
{
    UnetmmPlacement *place = unetmm_recv_blank(core);
    UnetmmRelTake take;

    if (rel->in.done + f->len == rel->in.len && !unetmm_ep_cq_spare(ep)) {
        ep->publish = true;
        return unetmm_rel_refuse(rel, UNETMM_REL_WANT_CQ);
    }
    unetmm_recv_parts(place, rel->in.parts, rel->in.nparts, rel->in.done,
                      f->len);
    take = send_pages(core, ep, rel, place, f->psn);
    if (take == UNETMM_TAKE_REFUSED &&
        unetmm_rel_aside(core, ep, rel, UNETMM_ABSENT_SEND, f, place,
                         payload)) {
        unetmm_recvwin_ready(&rel->rx);
        return UNETMM_TAKE_ASIDE;
    }
    if (take != UNETMM_TAKE_DONE) {
        return take;
    }
    switch (unetmm_rel_place(core, ep, rel, place, f, payload)) {
    case UNETMM_PLACED:
        return send_placed(core, ep, rel, f) ? UNETMM_TAKE_DONE :
               UNETMM_TAKE_ENDED;
    case UNETMM_PLACED_NOT:
        send_bus_refused(core, ep, rel);
        return UNETMM_TAKE_ENDED;
    case UNETMM_PLACED_GONE:
        return unetmm_rel_refuse(rel, UNETMM_REL_WANT_PAGE);
    case UNETMM_PLACED_LATER:
        return UNETMM_TAKE_LATER;
    }
    return UNETMM_TAKE_ENDED;
}

/* The packet was in a slot: has the driver copied it to its place? */
static UnetmmRelTake send_copied(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                                 const struct unetmm_frame *f)
{
    if (!rel->in.in_message) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_bad);
        return UNETMM_TAKE_DROPPED;
    }
    if (rel->rx.spoilt & unetmm_rel_bit(f->psn)) {
        unetmm_rel_give_back(rel, UNETMM_ST_PROTECTION);
        unetmm_rel_fail(core, ep, rel, NULL, UNETMM_ST_FLUSHED,
                        UNETMM_WHY_MEMORY);
        return UNETMM_TAKE_ENDED;
    }
    if (rel->in.done + f->len == rel->in.len && !unetmm_ep_cq_spare(ep)) {
        ep->publish = true;
        return unetmm_rel_refuse(rel, UNETMM_REL_WANT_CQ);
    }
    return send_placed(core, ep, rel, f) ? UNETMM_TAKE_DONE : UNETMM_TAKE_ENDED;
}

static UnetmmRelTake send_take(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                               const struct unetmm_frame *f,
                               const uint8_t *payload)
{
    UnetmmRelTake take;

    if (!send_fits(rel, f)) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_bad);
        return UNETMM_TAKE_DROPPED;
    }
    if (!payload) {
        return send_copied(core, ep, rel, f);
    }
    if (!rel->in.in_message) {
        if (f->remote <= UNETMM_CQE_INLINE && !ep->no_inline) {
            return send_take_inline(core, ep, rel, f, payload);
        }
        take = send_claim(core, ep, rel, f);
        if (take != UNETMM_TAKE_DONE) {
            return take;
        }
    }
    return send_place(core, ep, rel, f, payload);
}

/* Packets that the channel keeps whole. */
static uint32_t send_kept(const UnetmmRel *rel)
{
    uint32_t n = 0;

    for (unsigned i = 0; i < UNETMM_REL_WINDOW; i++) {
        n += rel->kept[i].frame != NULL;
    }
    return n;
}

/*
 * The packet's data has no place yet: the packet is kept as it came, if the
 * channel may have one more of the places that all channels share
 * (`reliable-keep`).
 */
static void send_early(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                       const struct unetmm_frame *f, const uint8_t *payload)
{
    UnetmmQueued *q = &rel->kept[f->psn % UNETMM_REL_WINDOW];

    if (!unetmm_half_left(core->params.reliable_keep, core->rel->kept,
                          send_kept(rel))) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_room);
        return;
    }
    q->frame = unetmm_port_buffer(core);
    q->bytes = sizeof(*f) + f->len;
    memcpy(q->frame, f, sizeof(*f));
    memcpy(unetmm_frame_at(q->frame, sizeof(*f), f->len), payload, f->len);
    unetmm_recvwin_kept(&rel->rx, f->psn);
    core->rel->kept++;
    unetmm_count(core, ep, UNETMM_C_rel_kept, 1);
    trace_unetmm_rel_kept(ep->id, rel->channel, f->psn);
}

static UnetmmRelTake send_landed(UnetmmCore *core, UnetmmEp *ep,
                                 UnetmmRel *rel, const struct unetmm_frame *f,
                                 bool landed, enum unetmm_counter drop)
{
    if (landed) {
        return send_placed(core, ep, rel, f) ? UNETMM_TAKE_DONE :
               UNETMM_TAKE_ENDED;
    }
    if (drop == UNETMM_C_drop_dma) {
        send_bus_refused(core, ep, rel);
        return UNETMM_TAKE_ENDED;
    }
    unetmm_recv_drop(core, ep, drop);
    return unetmm_rel_refuse(rel, UNETMM_REL_WANT_PAGE);
}

static bool send_landing_ok(UnetmmCore *core, UnetmmRel *rel)
{
    const UnetmmLanding *rx = core->landing;
    UnetmmPlacement place;

    unetmm_recv_parts(&place, rel->in.parts, rel->in.nparts, rel->in.done,
                      rx->len);
    return rel->in.in_message && rx->header.psn == rel->rx.nxt &&
           unetmm_recv_same_pieces(&place, &rx->place) &&
           rx->len == MIN(rel->mtu, rel->in.len - rel->in.done);
}

/* An immediate goes with the end of the message. */
static bool send_header_ok(const struct unetmm_frame *f)
{
    return (f->flags & UNETMM_WIRE_F_IMM ? f->flags & UNETMM_WIRE_F_LAST :
            !f->imm && !(f->flags & UNETMM_WIRE_F_INV)) &&
           unetmm_rel_handle_ok(f);
}

static void send_fill(const UnetmmRelMsg *m, struct unetmm_frame *f,
                      uint32_t at, uint32_t bytes)
{
    f->offset = at;
    f->remote = m->len;
    if (at + bytes != m->len) {
        return;
    }
    f->flags |= UNETMM_WIRE_F_LAST;
    if (m->flags & UNETMM_SQE_F_IMM) {
        f->flags |= UNETMM_WIRE_F_IMM |
                    (m->flags & UNETMM_SQE_F_INV ? UNETMM_WIRE_F_INV : 0);
        f->imm = m->imm;
    }
}

const UnetmmRelOp unetmm_rel_op_send = {
    .kind[0] = {
        .sqe.flags = UNETMM_SQE_F_INLINE | UNETMM_SQE_F_QUIET |
                     UNETMM_SQE_F_IMM | UNETMM_SQE_F_INV,
        .opcode = UNETMM_WIRE_SEND, .gathers = true, .fill = send_fill,
    },
    .header = { .with = UNETMM_WITH_RELIABLE,
                .flags = UNETMM_WIRE_F_PAYLOAD_CRC | UNETMM_WIRE_F_LAST |
                         UNETMM_WIRE_F_ASK | UNETMM_WIRE_F_IMM |
                         UNETMM_WIRE_F_INV | UNETMM_WIRE_F_ACK,
                .psn = true, .offset = true, .remote = true, .handle = true,
                .imm = true, .len = true, .ok = send_header_ok },
    .along = offsetof(struct unetmm_frame, handle),
    .take = send_take,
    .early = send_early,
    .landed = send_landed,
    .landing_ok = send_landing_ok,
};
