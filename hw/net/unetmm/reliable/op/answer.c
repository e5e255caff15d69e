/*
 * unetmm: reliable channels: answers that come
 *
 * A request is over when it has been answered, and is sent again until then.
 * So an answer may be lost, doubled and overtaken, and may be given up
 * wherever going on would make somebody wait: by the answering card, when a
 * page of the region has gone since; by the asking one, when a page for the
 * data is not there.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../../abi/unetmm_host.h"
#include "../packet.h"

/* ---- Pages that answers go to -------------------------------------------- */

/* The first of the segments for the answer's bytes. */
static const struct unetmm_seg *answer_to(const UnetmmRelMsg *m)
{
    return m->operands ? &m->segs[UNETMM_SQE_RESULT] : m->segs;
}

/*
 * The segment of the message, from byte `at` of it on, that has the page;
 * *addr and *len are its remaining bytes.  nsegs: none has it.
 */
static uint32_t answer_segment(const UnetmmRelMsg *m, uint32_t at,
                               uint64_t vpn, uint64_t *addr, uint32_t *len)
{
    uint32_t i;

    for (i = 0; i < m->nsegs; i++) {
        const struct unetmm_seg *seg = &answer_to(m)[i];

        if (at >= seg->len) {
            at -= seg->len;
            continue;
        }
        *addr = seg->addr + at;
        *len = seg->len - at;
        at = 0;
        if (vpn - (*addr >> UNETMM_PAGE_SHIFT) <
            unetmm_pte_pages(*addr, *len)) {
            break;
        }
    }
    return i;
}

/*
 * Pages from vpn on, which answer psn has no place for, npages of them in this
 * packet, up to the end of the segment.
 */
static uint32_t answer_pages(const UnetmmCore *core, UnetmmRel *rel,
                             uint32_t psn, uint64_t vpn, uint32_t npages)
{
    const UnetmmRelMsg *m = unetmm_rel_msg_of(rel, psn);
    uint64_t addr = 0;
    uint32_t at, len = 0;

    unetmm_rel_packet_bytes(rel, psn, &at);
    if (answer_segment(m, at, vpn, &addr, &len) == m->nsegs) {
        return npages;
    }
    return unetmm_space_ahead(core, &core->eps[rel->ep], vpn, npages, addr,
                              len);
}

/* UnetmmMissOwner.ahead of UNETMM_REL_FAULT_ANSWER. */
uint32_t unetmm_rel_ahead(const UnetmmCore *core, const UnetmmMiss *miss,
                          UnetmmAhead *ahead)
{
    UnetmmRel *rel = miss->of;
    uint32_t psn = rel->missed[UNETMM_REL_FAULT_ANSWER].psn;
    const UnetmmRelMsg *m;
    uint64_t addr;
    uint32_t at, i, len;

    /* The request may have ended since. */
    if (!unetmm_sendwin_is_pending(&rel->tx, psn)) {
        return 0;
    }
    m = unetmm_rel_msg_of(rel, psn);
    unetmm_rel_packet_bytes(rel, psn, &at);
    i = answer_segment(m, at, miss->vpn, &addr, &len);
    if (i == m->nsegs) {
        return 0;
    }
    return unetmm_segments_ahead(answer_to(m), i + 1, m->nsegs, ahead);
}

/* ---- Received ----------------------------------------------------------- */

/* Places bytes [at, + len) of the message in its segments. */
static void answer_pieces(const UnetmmRelMsg *m, uint32_t at, uint32_t len,
                          UnetmmPlacement *place)
{
    uint32_t from = 0;

    place->npieces = 0;
    for (unsigned i = 0; i < m->nsegs && from < len; i++) {
        const struct unetmm_seg *seg = &answer_to(m)[i];
        uint32_t n;

        if (at >= seg->len) {
            at -= seg->len;
            continue;
        }
        n = MIN(seg->len - at, len - from);
        place->pieces[place->npieces++] = (UnetmmPiece) {
            .addr = seg->addr + at, .len = n, .from = from,
        };
        from += n;
        at = 0;
    }
}

/* Places the answer.  False: its length is not the requested one. */
static bool answer_aim(UnetmmRel *rel, const struct unetmm_frame *f,
                           UnetmmPlacement *place)
{
    uint32_t at;

    if (unetmm_rel_packet_bytes(rel, f->psn, &at) != f->len) {
        return false;
    }
    answer_pieces(unetmm_rel_msg_of(rel, f->psn), at, f->len, place);
    return true;
}

/* The peer has taken the request, and all before it. */
static bool answer_heard(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         uint32_t psn, bool over)
{
    const UnetmmSendWindow *tx = &rel->tx;
    bool later = psn - tx->una >= tx->cum - tx->una;

    unetmm_rel_progress(core, ep, rel, later ? psn + 1 : tx->cum, 0, over);
    return true;
}

/* The request is over, and with it all before it, for the peer. */
static bool answer_accept(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                          const struct unetmm_frame *f)
{
    unetmm_sendwin_answered(&rel->tx, f->psn);
    unetmm_count(core, ep, UNETMM_C_rel_answers, 1);
    trace_unetmm_rel_answer(ep->id, rel->channel, f->psn, f->len);
    return answer_heard(core, ep, rel, f->psn, true);
}

/* The answer has no place now: it is requested again, not at once. */
static bool answer_unplaced(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                            const struct unetmm_frame *f,
                            enum unetmm_counter drop)
{
    unetmm_sendwin_unplaced(&rel->tx, f->psn);
    unetmm_rel_arm(core, rel);
    unetmm_recv_drop(core, ep, drop);
    return answer_heard(core, ep, rel, f->psn, false);
}

/* Drop and rewind: from this one on, all have to be asked for again. */
static void answer_rewind(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                          uint32_t psn)
{
    if (rel->rewinds) {
        unetmm_count(core, ep, UNETMM_C_rel_rewinds,
                     unetmm_sendwin_rewind(&rel->tx, psn));
    }
}

static bool answer_out_of_turn(const UnetmmSendWindow *tx, uint32_t psn)
{
    return tx->rewinding && unetmm_rel_before(tx->rewind_psn, psn);
}

/*
 * The answer will never have a place.  Of an atomic the peer keeps the result
 * for as long as for any: it needs no VOID, and counts as one that was sent.
 */
static bool answer_end(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                       uint32_t psn, uint8_t status)
{
    UnetmmRelMsg *m = unetmm_rel_msg_of(rel, psn);

    if (m->operands && !rel->strict) {
        m->status = status;
        unetmm_sendwin_answered(&rel->tx, psn);
        return answer_heard(core, ep, rel, psn, true);
    }
    unetmm_rel_end_message(core, ep, rel, m, status);
    return true;
}

/* Treats the answer as one that the wire has lost. */
static bool answer_lost(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                        uint32_t psn, enum unetmm_counter drop)
{
    unetmm_recv_drop(core, ep, drop);
    unetmm_sendwin_lost(&rel->tx, psn);
    return false;
}

static bool answer_place(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         const struct unetmm_frame *f, UnetmmPlacement *place,
                         const uint8_t *payload)
{
    UnetmmRelMsg *m = unetmm_rel_msg_of(rel, f->psn);
    uint32_t npages;
    uint64_t vpn;

    if (m->operands) {
        memcpy(m->old, payload, sizeof(m->old));
    }
    if (!place->npieces) {
        return answer_accept(core, ep, rel, f);
    }
    switch (unetmm_recv_hold(core, ep, place, &vpn, &npages)) {
    case UNETMM_XLAT_OK:
        break;
    case UNETMM_XLAT_MISS:
        unetmm_rel_ask(core, ep, rel, UNETMM_REL_FAULT_ANSWER,
                       (UnetmmRelMissed) { .psn = f->psn }, vpn,
                       answer_pages(core, rel, f->psn, vpn,
                                               npages));
        answer_rewind(core, ep, rel, f->psn);
        return answer_unplaced(core, ep, rel, f, UNETMM_C_drop_rel_unplaced);
    case UNETMM_XLAT_ERROR:
        return answer_end(core, ep, rel, f->psn, UNETMM_ST_PROTECTION);
    }
    switch (unetmm_rel_place(core, ep, rel, place, f, payload)) {
    case UNETMM_PLACED:
        return answer_accept(core, ep, rel, f);
    case UNETMM_PLACED_NOT:
        return answer_end(core, ep, rel, f->psn, UNETMM_ST_DMA);
    case UNETMM_PLACED_GONE:
        return answer_lost(core, ep, rel, f->psn, UNETMM_C_drop_invalidated);
    case UNETMM_PLACED_LATER:
        break;
    }
    return false;
}

static bool answer_received(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                            const struct unetmm_frame *f,
                            const uint8_t *payload)
{
    UnetmmPlacement *place = unetmm_recv_blank(core);

    if (rel->state != UNETMM_REL_OPEN) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_failed);
        return false;
    }
    if (!unetmm_sendwin_is_pending(&rel->tx, f->psn) ||
        !answer_aim(rel, f, place)) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_answer);
        return false;
    }
    if (answer_out_of_turn(&rel->tx, f->psn)) {
        return answer_unplaced(core, ep, rel, f, UNETMM_C_drop_rel_rewind);
    }
    return answer_place(core, ep, rel, f, place, payload);
}

static UnetmmRelTake answer_landed(UnetmmCore *core, UnetmmEp *ep,
                                   UnetmmRel *rel,
                                   const struct unetmm_frame *f, bool landed,
                                   enum unetmm_counter drop)
{
    bool heard = false;

    if (!unetmm_sendwin_is_pending(&rel->tx, f->psn)) {
        /* The request has ended meanwhile; its completion waited for this. */
        return UNETMM_TAKE_DROPPED;
    }
    if (landed) {
        heard = answer_accept(core, ep, rel, f);
    } else if (drop == UNETMM_C_drop_dma) {
        unetmm_recv_drop(core, ep, drop);
        heard = answer_end(core, ep, rel, f->psn, UNETMM_ST_DMA);
    } else {
        heard = answer_lost(core, ep, rel, f->psn, drop);
    }
    return heard ? UNETMM_TAKE_HEARD : UNETMM_TAKE_DROPPED;
}

/* The pieces follow from the request; if that has ended they only land. */
static bool answer_landing_ok(UnetmmCore *core, UnetmmRel *rel)
{
    UnetmmPlacement now;

    return !unetmm_sendwin_is_pending(&rel->tx, core->landing->header.psn) ||
           (answer_aim(rel, &core->landing->header, &now) &&
            unetmm_recv_same_pieces(&now, &core->landing->place));
}

static bool answer_header_ok(const struct unetmm_frame *f)
{
    return f->len && unetmm_rel_handle_ok(f);
}

const UnetmmRelOp unetmm_rel_op_answer = {
    .header = { .with = UNETMM_WITH_RELIABLE,
                .flags = UNETMM_WIRE_F_PAYLOAD_CRC | UNETMM_WIRE_F_ACK,
                .psn = true, .handle = true, .len = true,
                .ok = answer_header_ok },
    .along = offsetof(struct unetmm_frame, handle),
    .at_once = answer_received,
    .landed = answer_landed,
    .landing_ok = answer_landing_ok,
};

/* ---- Pages for them ----------------------------------------------------- */

bool unetmm_rel_answer_page(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                            uint8_t status)
{
    uint32_t psn = rel->missed[UNETMM_REL_FAULT_ANSWER].psn;
    bool heard = false;

    if (status != UNETMM_ST_OK && unetmm_sendwin_is_pending(&rel->tx, psn)) {
        heard = answer_end(core, ep, rel, psn, status);
    }
    if (rel->state == UNETMM_REL_OPEN) {
        unetmm_sendwin_place_came(&rel->tx);
    }
    return heard;
}
