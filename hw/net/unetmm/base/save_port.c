/*
 * unetmm: saving and restoring frames, and the message that is landing
 *
 * A frame that the net layer had taken and not yet sent stays behind: it is a
 * datagram lost, and counted where the card goes on.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../ether/eth.h"
#include "../rel/rel.h"
#include "../card/state.h"

void unetmm_state_frame(UnetmmStream *st, UnetmmCore *core, uint8_t **frame,
                        uint32_t from, uint32_t to)
{
    if (unetmm_stream_reads(st)) {
        *frame = unetmm_port_buffer(core);
    }
    unetmm_stream_bytes(st, unetmm_frame_at(*frame, from, to - from),
                        to - from);
}

/* A raw one, or none. */
static bool queued_ep_ok(const UnetmmCore *core, uint16_t id)
{
    return id == UNETMM_NO_EP || id == UNETMM_EP_GONE ||
           (id < core->params.endpoints && core->eps[id].live &&
            core->eps[id].raw);
}

static void state_fifo(UnetmmStream *st, UnetmmCore *core)
{
    UnetmmPort *port = &core->port;
    uint32_t n = core->params.local_queue;
    uint32_t used = unetmm_stream_choice(st, port->fifo_used, n + 1,
                                         "the local queue");

    for (uint32_t i = 0; i < used && !st->wrong; i++) {
        UnetmmQueued *q = &port->fifo[(port->fifo_first + i) % n];

        q->bytes = unetmm_stream_choice(st, q->bytes, UNETMM_MAX_FRAME + 1,
                                        "the length of a frame");
        if (q->bytes < UNETMM_ETH_HEADER) {
            unetmm_stream_refuse(st, "a frame is shorter than its header");
        }
        unetmm_state_frame(st, core, &q->frame, 0, q->bytes);
        if (!st->wrong && q->bytes > UNETMM_MAX_PAYLOAD &&
            !unetmm_eth_ours(q->frame)) {
            unetmm_stream_refuse(st, "a frame is longer than any that is "
                                 "taken");
        }
        if (unetmm_stream_reads(st)) {
            port->fifo_used++;
        }
        unetmm_stream_u16(st, &q->from);
        unetmm_stream_u16(st, &q->only);
        if (!queued_ep_ok(core, q->from) || !queued_ep_ok(core, q->only)) {
            unetmm_stream_refuse(st, "a frame is of an endpoint that there "
                                 "is not");
        }
    }
}

/* A frame that is complete, and is sent as it is. */
static void state_sealed(UnetmmStream *st, UnetmmCore *core, uint8_t **frame,
                         uint32_t *bytes)
{
    *bytes = unetmm_stream_choice(st, *bytes, UNETMM_MAX_FRAME + 1,
                                  "the length of a frame");
    if (*bytes < UNETMM_ETH_HEADER) {
        unetmm_stream_refuse(st, "a frame is shorter than its header");
    }
    unetmm_state_frame(st, core, frame, 0, *bytes);
}

static void state_held(UnetmmStream *st, UnetmmCore *core)
{
    UnetmmPort *port = &core->port;
    bool held = port->held;

    unetmm_stream_bool(st, &held, "a frame held back");
    if (!held) {
        return;
    }
    state_sealed(st, core, &port->held, &port->held_bytes);
    unetmm_stream_time(st, &port->held_until_ns,
                       core->ops->now_ns(core->host), UNETMM_HOLD_NS,
                       "the end of a frame's delay");
}

static void state_delayed(UnetmmStream *st, UnetmmCore *core)
{
    UnetmmPort *port = &core->port;
    uint32_t used = unetmm_stream_choice(st, port->delayed_used,
                                         UNETMM_MAX_DELAYED + 1,
                                         "the queue of late frames");
    int64_t now = core->ops->now_ns(core->host), before = now;

    for (uint32_t i = 0; i < used && !st->wrong; i++) {
        UnetmmDelayed *d = &port->delayed[(port->delayed_first + i) %
                                          UNETMM_MAX_DELAYED];

        state_sealed(st, core, &d->frame, &d->bytes);
        if (unetmm_stream_reads(st)) {
            port->delayed_used++;
        }
        unetmm_stream_time(st, &d->due_ns, now, UNETMM_MAX_LATE_NS,
                           "the end of a frame's delay");
        if (unetmm_stream_reads(st) && d->due_ns < before) {
            unetmm_stream_refuse(st, "a late frame goes before its turn");
        }
        before = d->due_ns;
    }
}

void unetmm_state_port(UnetmmStream *st, UnetmmCore *core)
{
    bool behind = core->port.busy;

    state_fifo(st, core);
    state_held(st, core);
    state_delayed(st, core);
    unetmm_stream_bool(st, &behind, "the frame in the net layer");
    if (!unetmm_stream_reads(st) || st->wrong) {
        return;
    }
    for (uint32_t i = 0; i < core->params.endpoints; i++) {
        core->port.wanted |= core->eps[i].live &&
            core->eps[i].tx.blocked_on == UNETMM_BLOCKED_WIRE;
    }
    if (behind) {
        core->counters[UNETMM_C_drop_purged]++;
        unetmm_engine_wire_room(core);
    }
}

/* ---- The message that is landing ---------------------------------------- */

static bool landing_ep_ok(UnetmmCore *core, UnetmmEp *ep)
{
    const UnetmmLanding *rx = &core->rx;
    const UnetmmHead *head = unetmm_head_at(ep, 0);

    if (rx->of) {
        return unetmm_state_landing_ok(core, rx->of);
    }
    if (unetmm_ep_slotted(ep)) {
        return rx->place.npieces == 1 && rx->place.pieces[0].len == rx->len &&
               rx->cqe.opcode == UNETMM_CQE_RECEIVED &&
               unetmm_state_slot_ok(ep);
    }
    /* A stopped endpoint has no buffers any more; its message ends here. */
    return ep->error ||
           (ep->nheads && (head->state == UNETMM_HEAD_CHECK ||
                           head->state == UNETMM_HEAD_READY) &&
            rx->place.npieces == 1 && head->addr == rx->place.pieces[0].addr &&
            rx->place.pieces[0].len == rx->len && head->len >= rx->len &&
            head->cookie == rx->cqe.cookie);
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
                                             UNETMM_MAX_PIECES + 1,
                                             "the pieces of a message");
    for (uint32_t i = 0; i < rx->place.npieces; i++) {
        unetmm_stream_u64(st, &rx->place.pieces[i].addr);
        unetmm_stream_u32(st, &rx->place.pieces[i].len);
        unetmm_stream_u32(st, &rx->place.pieces[i].from);
    }
    rx->place.piece = unetmm_stream_choice(st, rx->place.piece,
                                           UNETMM_MAX_PIECES,
                                           "the piece that lands");
    rx->place.off = unetmm_stream_choice(st, rx->place.off, UNETMM_MAX_PAYLOAD,
                                         "what has landed of a piece");
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
            unetmm_state_page(st, core, ep, &rx->place.pages[at], vpn, true);
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

    rx->ep = unetmm_stream_choice(st, rx->ep, core->params.endpoints,
                                  "the endpoint of a message");
    rx->len = unetmm_stream_choice(st, rx->len, UNETMM_MAX_PAYLOAD + 1,
                                   "the length of a message");
    landing_pieces(st, core);
    unetmm_stream_u64(st, &rx->cqe.cookie);
    unetmm_stream_u16(st, &rx->cqe.channel);
    rx->cqe.flags = unetmm_stream_choice(st, rx->cqe.flags,
                                         UNETMM_CQE_F_CSUM_OK + 1,
                                         "the flags of a message");
    if (rx->cqe.flags & ~UNETMM_CQE_F_CSUM_OK) {
        unetmm_stream_refuse(st, "a message lands in its completion");
    }
    rx->cqe.opcode = unetmm_stream_choice(st, rx->cqe.opcode,
                                          UNETMM_CQE_CONTROL + 1,
                                          "the kind of a message");
    unetmm_stream_u64(st, &rx->cqe.source);
    rx->cqe.len = rx->len;
}

void unetmm_state_landing(UnetmmStream *st, UnetmmCore *core)
{
    UnetmmLanding *rx = &core->rx;
    bool active = rx->active;
    UnetmmEp *ep;

    unetmm_stream_bool(st, &active, "whether a message is landing");
    if (!active) {
        return;
    }
    if (unetmm_stream_reads(st)) {
        memset(&rx->cqe, 0, sizeof(rx->cqe));
        memset(&rx->head, 0, sizeof(rx->head));
    }
    landing_fields(st, core);
    ep = &core->eps[rx->ep];
    rx->of = unetmm_state_rel(st, core, ep, rx->of);
    if (rx->of) {
        unetmm_stream_u32(st, &rx->head.psn);
        rx->head.len = rx->len;
        unetmm_state_head(st, &rx->head);
    }
    if ((rx->cqe.opcode != UNETMM_CQE_RECEIVED &&
         rx->cqe.opcode != UNETMM_CQE_CONTROL) || !ep->live || st->wrong ||
        !landing_ep_ok(core, ep)) {
        unetmm_stream_refuse(st, "a message lands where it cannot");
    }
    if (st->wrong) {
        return;
    }
    landing_pages(st, core, ep);
    unetmm_stream_time(st, &rx->deadline_ns, core->ops->now_ns(core->host),
                       core->params.dma_page_ns, "the end of a page");
    unetmm_state_frame(st, core, &rx->frame, 0, rx->len);
    if (unetmm_stream_reads(st)) {
        rx->owner = rx->of ? &unetmm_landing_packet :
                    unetmm_ep_slotted(ep) ? &unetmm_landing_slot :
                    &unetmm_landing_head;
        rx->generation = ep->generation;
        rx->active = rx->moving = true;
        ep->landing = true;
        unetmm_state_held_up(core);
    }
}
