/*
 * unetmm: saving and restoring the heads of a free queue, and a landing
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../channel/channel.h"
#include "../port/port.h"
#include "recv.h"

/* ---- Free buffers ------------------------------------------------------- */

static bool head_ok(UnetmmCore *core, const UnetmmEp *ep,
                    const UnetmmHead *head)
{
    const UnetmmSourceOps *source = core->spaces[ep->space].source;

    return head->state == UNETMM_HEAD_FAILED ||
           (!head->len && !head->zero && !head->chain &&
            head->state <= UNETMM_HEAD_READY && unetmm_head_may_be_empty(ep)) ||
           (head->len && head->addr <= UINT64_MAX - (head->len - 1) &&
            (!head->zero ||
             (!head->chain &&
              unetmm_head_may_zero(source, head->addr, head->len))) &&
            unetmm_head_may_have(core, ep,
                                 unetmm_pte_pages(head->addr, head->len)));
}

/* A part of a chain without memory has failed when it was fetched. */
static bool parts_ok(UnetmmEp *ep)
{
    for (uint32_t i = 1; i < ep->nheads; i++) {
        const UnetmmHead *head = unetmm_head_at(ep, i);

        if (!head->len && head->state != UNETMM_HEAD_FAILED &&
            unetmm_head_at(ep, i - 1)->chain) {
            return false;
        }
    }
    return true;
}

/* A chain ends in time; the window is larger only for the first one's end. */
static bool heads_ok(UnetmmEp *ep)
{
    uint32_t chained = unetmm_head_chained(ep);

    return chained < UNETMM_MAX_SEGS &&
           (ep->nheads <= ep->max_heads || chained == ep->nheads ||
            unetmm_head_run(ep) == ep->nheads);
}

static const UnetmmField head_fields[] = {
    UNETMM_FIELD_RANGE(UnetmmHead, state, 0, UNETMM_HEAD_FAILED),
    UNETMM_FIELD_RANGE(UnetmmHead, status, 0, UNETMM_NUM_ST - 1),
    UNETMM_BOOLS(UnetmmHead, zero, chain),
    UNETMM_FIELDS(UnetmmHead, asked_in, asks, len, addr, cookie),
};

void unetmm_heads_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    ep->first_head = unetmm_stream_choice(st, ep->first_head, UNETMM_MAX_HEADS,
                                          "first_head");
    ep->nheads = unetmm_stream_choice(st, ep->nheads, ep->max_heads ?
                                      UNETMM_MAX_HEADS + 1 : 1, "nheads");
    for (uint32_t i = 0; i < ep->nheads && !st->wrong; i++) {
        UnetmmHead *head = unetmm_head_at(ep, i);

        unetmm_stream_enter(st, "head", i);
        UNETMM_STREAM_FIELDS(st, head, head_fields);
        unetmm_stream_leave(st);
        if (!head_ok(core, ep, head)) {
            unetmm_stream_refuse(st, "endpoint %u has a free buffer that it "
                                 "would have refused", ep->id);
        }
    }
    /* How far they have been looked at is not saved. */
    if (unetmm_stream_reads(st) && ep->nheads) {
        ep->heads_behind = core->heads->behind = true;
    }
    if (!st->wrong && !parts_ok(ep)) {
        unetmm_stream_refuse(st, "endpoint %u has a part of a buffer that it "
                             "would have refused", ep->id);
    }
    if (!st->wrong && !heads_ok(ep)) {
        unetmm_stream_refuse(st, "endpoint %u has a free buffer of too many "
                             "parts", ep->id);
    }
}

/* ---- The message that is landing ---------------------------------------- */

static const UnetmmField recv_save_header_fields[] = {
    UNETMM_FIELDS(struct unetmm_frame, opcode, flags, offset, remote, handle,
                  imm),
};

/* The header of a packet that is not kept whole; its psn and len are known. */
void unetmm_recv_save_header(UnetmmStream *st, const UnetmmCore *core,
                             struct unetmm_frame *f)
{
    UNETMM_STREAM_FIELDS(st, f, recv_save_header_fields);
    if (!st->wrong && !unetmm_recv_members_ok(core, f)) {
        unetmm_stream_refuse(st, "a packet has a header that none has");
    }
}

static const UnetmmLandingOps *landing_owner(const UnetmmCore *core,
                                             const UnetmmEp *ep)
{
    return core->landing->of ? ep->rel_ops->landing :
           unetmm_ep_slotted(ep) ? core->tables->slots->landing :
           &unetmm_landing_head;
}

/* Is each of the pieces a part of the message, and the current one one? */
static bool landing_pieces_ok(const UnetmmCore *core)
{
    const UnetmmLanding *rx = core->landing;
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

const UnetmmField unetmm_piece_fields[UNETMM_PIECE_FIELDS] = {
    UNETMM_FIELDS(UnetmmPiece, addr, len, from),
};

static const UnetmmField placement_fields[] = {
    UNETMM_FIELD_RANGE(UnetmmPlacement, npieces, 0, UNETMM_MAX_PIECES),
    UNETMM_FIELD_LIST(UnetmmPlacement, npieces, pieces, "piece",
                      unetmm_piece_fields),
    UNETMM_FIELD_RANGE(UnetmmPlacement, piece, 0, UNETMM_MAX_PIECES - 1),
    UNETMM_FIELD_RANGE(UnetmmPlacement, off, 0, UNETMM_MAX_PAYLOAD - 1),
};

/* Where it has got to follows from its pieces. */
static void landing_pages(UnetmmStream *st, UnetmmCore *core,
                          const UnetmmEp *ep)
{
    UnetmmLanding *rx = core->landing;
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
    if (unetmm_stream_takes(st)) {
        unetmm_page_move(&rx->place.pages[rx->place.page], true);
    }
}

static const UnetmmField landing_fields[] = {
    UNETMM_FIELD_BELOW(UnetmmLanding, ep, "ep", endpoints, 0),
    UNETMM_FIELD_RANGE(UnetmmLanding, len, 0, UNETMM_MAX_PAYLOAD),
};

#define LANDING_FLAGS   (UNETMM_CQE_F_CSUM_OK | UNETMM_CQE_F_IMM)

static const UnetmmField landing_cqe[] = {
    UNETMM_FIELDS(struct unetmm_cqe, cookie, channel, imm),
    UNETMM_FIELD_RANGE(struct unetmm_cqe, flags, 0, LANDING_FLAGS),
    UNETMM_FIELD_RANGE(struct unetmm_cqe, opcode, 0, UNETMM_CQE_CONTROL),
    UNETMM_FIELD(struct unetmm_cqe, source),
};

static void landing_message(UnetmmStream *st, UnetmmCore *core)
{
    UnetmmLanding *rx = core->landing;

    UNETMM_STREAM_FIELDS(st, rx, landing_fields);
    if (UNETMM_STREAM_FIELDS(st, &rx->place, placement_fields) &&
        !landing_pieces_ok(core)) {
        unetmm_stream_refuse(st, "a message lands where it cannot");
    }
    unetmm_stream_enter(st, "cqe", UNETMM_STREAM_ONE);
    UNETMM_STREAM_FIELDS(st, &rx->cqe, landing_cqe);
    unetmm_stream_leave(st);
    if (rx->cqe.flags & ~LANDING_FLAGS ||
        (rx->cqe.imm && !(rx->cqe.flags & UNETMM_CQE_F_IMM))) {
        unetmm_stream_refuse(st, "a message lands in its completion");
    }
    rx->cqe.len = rx->len;
}

static void landing_save(UnetmmStream *st, UnetmmCore *core)
{
    UnetmmLanding *rx = core->landing;
    bool active = rx->active;
    UnetmmEp *ep;

    unetmm_stream_bool(st, &active, "active");
    if (!active) {
        return;
    }
    if (unetmm_stream_reads(st)) {
        memset(&rx->cqe, 0, sizeof(rx->cqe));
        memset(&rx->header, 0, sizeof(rx->header));
    }
    landing_message(st, core);
    ep = &core->eps[rx->ep];
    rx->of = core->tables->saved->connection(st, core, ep, rx->of);
    if (rx->of) {
        unetmm_stream_enter(st, "head", UNETMM_STREAM_ONE);
        unetmm_stream_u32(st, &rx->header.psn, "psn");
        rx->header.len = rx->len;
        unetmm_recv_save_header(st, core, &rx->header);
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
    unetmm_stream_time(st, &rx->deadline_ns, core->params.dma_page_ns,
                       "deadline_ns");
    unetmm_port_save_frame(st, core, &rx->frame, 0, rx->len);
    if (unetmm_stream_reads(st)) {
        rx->owner = landing_owner(core, ep);
        rx->generation = ep->generation;
        rx->active = rx->moving = true;
        ep->landing = ep->queue->landing = true;
    }
}

void unetmm_landing_save(UnetmmStream *st, UnetmmCore *core)
{
    unetmm_stream_enter(st, "landing", UNETMM_STREAM_ONE);
    landing_save(st, core);
    unetmm_stream_leave(st);
}
