/*
 * unetmm: reliable channels: answers to requests, both ways
 *
 * A request is over when it has been answered, and is sent again until then.
 * So an answer may be lost, doubled and overtaken, and may be given up
 * wherever going on would make somebody wait: by the answering card, when a
 * page of the region has gone since; by the asking one, when a page for the
 * data is not there.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "packet.h"

/* ---- Sent --------------------------------------------------------------- */

void unetmm_rel_owe_answer(UnetmmRel *rel, uint32_t psn, bool atomic,
                           const UnetmmTarget *target)
{
    UnetmmRelAsk *ask = &rel->answers.asks[psn % UNETMM_REL_WINDOW];

    /* Whatever was owed for this place is a window old. */
    *ask = (UnetmmRelAsk) { .psn = psn, .atomic = atomic };
    if (target) {
        ask->target = *target;
    }
    rel->answers.owed |= unetmm_rel_bit(psn);
}

bool unetmm_rel_can_answer(const UnetmmRel *rel)
{
    return rel->answers.owed && rel->state == UNETMM_REL_OPEN;
}

/* The oldest that is owed. */
static UnetmmRelAsk *answer_pick(UnetmmRel *rel)
{
    uint32_t psn = rel->rx.nxt - UNETMM_REL_WINDOW;

    while (!(rel->answers.owed & unetmm_rel_bit(psn))) {
        psn++;
    }
    return &rel->answers.asks[psn % UNETMM_REL_WINDOW];
}

/* Where the requested bytes are.  0: not readable, or not now. */
static uint8_t answer_segs(const UnetmmCore *core, const UnetmmEp *ep,
                           const UnetmmTarget *target, struct unetmm_seg *segs)
{
    const UnetmmRegion *region;
    uint32_t at = 0;
    uint8_t n = 0;

    if (unetmm_region_check(core, ep, target, UNETMM_RIGHT_READ, &region) ||
        unetmm_region_held(region, target->offset, target->len)) {
        return 0;
    }
    while (at < target->len && n < UNETMM_MAX_SEGS) {
        uint64_t addr;
        uint32_t len = unetmm_region_run(region, target->offset + at,
                                         target->len - at, &addr);

        segs[n++] = (struct unetmm_seg) { .addr = addr, .len = len };
        at += len;
    }
    return n;
}

void unetmm_rel_load_answer(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                            UnetmmTransfer *t)
{
    const UnetmmRelAsk *ask = answer_pick(rel);
    const UnetmmRelResult *result = ask->atomic ?
                                    unetmm_rel_result(rel, ask->psn) : NULL;

    rel->answers.owed &= ~unetmm_rel_bit(ask->psn);
    rel->answers.answered = true;
    memset(t, 0, sizeof(*t));
    t->ops = &unetmm_rel_answer;
    t->state = UNETMM_TX_GATHER;
    t->desc.channel = rel->channel;
    t->rel = rel;
    t->psn = ask->psn;
    t->answer = true;
    t->frame = unetmm_port_buffer(core);
    if (ask->atomic) {
        t->desc.len = t->done = sizeof(result->old);
        if (!result) {
            t->needless = true;
            unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_stale);
        } else {
            memcpy(unetmm_frame_at(t->frame, sizeof(struct unetmm_frame),
                                   t->desc.len), result->old, t->desc.len);
        }
        return;
    }
    t->target = ask->target;
    t->desc.len = ask->target.len;
    t->desc.nsegs = answer_segs(core, ep, &t->target, t->desc.segs);
    if (!t->desc.nsegs) {
        /* This is found out before the first page. */
        t->desc.nsegs = 1;
        t->desc.segs[0].len = t->desc.len;
    }
}

/* Has nothing changed since it was looked at first? */
static bool answer_may_read(const UnetmmCore *core, const UnetmmEp *ep,
                            const UnetmmTransfer *t)
{
    const UnetmmDescriptor *d = &t->desc;
    struct unetmm_seg segs[UNETMM_MAX_SEGS];
    uint8_t n = answer_segs(core, ep, &t->target, segs);

    for (unsigned i = 0; i < MIN(n, d->nsegs); i++) {
        if (segs[i].addr != d->segs[i].addr || segs[i].len != d->segs[i].len) {
            return false;
        }
    }
    return n && n == d->nsegs;
}

static void answer_transmit(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *t)
{
    struct unetmm_frame *f = (struct unetmm_frame *)t->frame;
    UnetmmRel *rel = t->rel;

    if (t->needless || rel->state != UNETMM_REL_OPEN) {
        unetmm_send_finish(t, UNETMM_ST_OK);
        return;
    }
    if (!unetmm_send_room(core, t, rel->mac)) {
        return;
    }
    unetmm_rel_header(core, rel, f, UNETMM_WIRE_ANSWER);
    f->len = t->desc.len;
    f->psn = t->psn;
    unetmm_rel_go_along(core, ep, rel, f);
    unetmm_count(core, ep, UNETMM_C_rel_answers_sent, 1);
    trace_unetmm_rel_answer_sent(ep->id, rel->channel, t->psn, t->desc.len);
    unetmm_send_finish(t, UNETMM_ST_OK);
    unetmm_rel_emit(core, ep, t);
}

/* It has gone, or (its status) could not be gathered. */
static void answer_complete(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *t)
{
    uint8_t status = t->needless ? UNETMM_ST_OK : t->status;
    UnetmmTarget target = t->target;
    UnetmmRel *rel = t->rel;
    uint32_t psn = t->psn;

    unetmm_rel_let_go(core, t);
    if (status == UNETMM_ST_OK || rel->state != UNETMM_REL_OPEN) {
        return;
    }
    if (status == UNETMM_ST_DMA) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_stale);
        unetmm_rel_reject_late(core, rel, psn, UNETMM_WHY_MEMORY);
    } else {
        unetmm_rel_read_again(core, ep, rel, psn, &target, 0);
    }
}

/* The peer asks again for absent pages: our own sends do not wait. */
const UnetmmTransferOps unetmm_rel_answer = {
    .never_waits = true,
    .may_read = answer_may_read,
    .landed = unetmm_region_landed,
    .transmit = answer_transmit,
    .complete = answer_complete,
};

/* ---- Pages that answers go to -------------------------------------------- */

/*
 * The segment of the message, from byte `at` of it on, that has the page;
 * *addr and *len are its remaining bytes.  nsegs: none has it.
 */
static uint32_t answer_segment(const UnetmmRelMsg *m, uint32_t at,
                               uint64_t vpn, uint64_t *addr, uint32_t *len)
{
    uint32_t i;

    for (i = 0; i < m->nsegs; i++) {
        const struct unetmm_seg *seg = &m->segs[i];

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

    /* The READ may have ended since. */
    if (!unetmm_sendwin_pends(&rel->tx, psn)) {
        return 0;
    }
    m = unetmm_rel_msg_of(rel, psn);
    unetmm_rel_packet_bytes(rel, psn, &at);
    i = answer_segment(m, at, miss->vpn, &addr, &len);
    if (i == m->nsegs) {
        return 0;
    }
    return unetmm_segments_ahead(m->segs, i + 1, m->nsegs, ahead);
}

/* ---- Received ----------------------------------------------------------- */

/* Where in the message's segments bytes [at, + len) of it are. */
static void answer_pieces(const UnetmmRelMsg *m, uint32_t at, uint32_t len,
                          UnetmmPlacement *place)
{
    uint32_t from = 0;

    place->npieces = 0;
    for (unsigned i = 0; i < m->nsegs && from < len; i++) {
        const struct unetmm_seg *seg = &m->segs[i];
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

bool unetmm_rel_answer_aim(UnetmmRel *rel, const struct unetmm_frame *f,
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
static void answer_heard(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         uint32_t psn, bool over)
{
    const UnetmmSendWindow *tx = &rel->tx;
    bool later = psn - tx->una >= tx->cum - tx->una;

    unetmm_rel_progress(core, ep, rel, later ? psn + 1 : tx->cum, 0, over);
    unetmm_rel_complete(core, ep);
}

/* The request is over, and with it all before it, for the peer. */
static void answer_accept(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                          const struct unetmm_frame *f)
{
    unetmm_sendwin_answered(&rel->tx, f->psn);
    unetmm_count(core, ep, UNETMM_C_rel_answers, 1);
    trace_unetmm_rel_answer(ep->id, rel->channel, f->psn, f->len);
    answer_heard(core, ep, rel, f->psn, true);
}

/* There is no place for it now; it has to be asked for again, not at once. */
static void answer_unplaced(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                            const struct unetmm_frame *f,
                            enum unetmm_counter why)
{
    unetmm_sendwin_unplaced(&rel->tx, f->psn);
    unetmm_rel_arm(core, rel);
    unetmm_recv_drop(core, ep, why);
    answer_heard(core, ep, rel, f->psn, false);
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

static void answer_end(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                       uint32_t psn, uint8_t status)
{
    unetmm_rel_end_message(core, ep, rel, unetmm_rel_msg_of(rel, psn), status);
    unetmm_rel_complete(core, ep);
}

/* As if it had been lost on the wire. */
static void answer_lost(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                        uint32_t psn, enum unetmm_counter why)
{
    unetmm_recv_drop(core, ep, why);
    unetmm_sendwin_lost(&rel->tx, psn);
}

static void answer_place(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         const struct unetmm_frame *f, UnetmmPlacement *place,
                         const uint8_t *payload)
{
    UnetmmRelMsg *m = unetmm_rel_msg_of(rel, f->psn);
    uint32_t npages;
    uint64_t vpn;

    if (m->operands) {
        memcpy(m->old, payload, sizeof(m->old));
        answer_accept(core, ep, rel, f);
        return;
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
        answer_unplaced(core, ep, rel, f, UNETMM_C_drop_rel_unplaced);
        return;
    case UNETMM_XLAT_ERROR:
        answer_end(core, ep, rel, f->psn, UNETMM_ST_PROTECTION);
        return;
    }
    switch (unetmm_rel_place(core, ep, rel, place, f, payload)) {
    case UNETMM_PLACED:
        answer_accept(core, ep, rel, f);
        break;
    case UNETMM_PLACED_NOT:
        answer_end(core, ep, rel, f->psn, UNETMM_ST_DMA);
        break;
    case UNETMM_PLACED_GONE:
        answer_lost(core, ep, rel, f->psn, UNETMM_C_drop_invalidated);
        break;
    case UNETMM_PLACED_LATER:
        break;
    }
}

void unetmm_rel_answered(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         const struct unetmm_frame *f, const uint8_t *payload)
{
    UnetmmPlacement *place = core->place;

    if (rel->state != UNETMM_REL_OPEN) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_failed);
        return;
    }
    if (!unetmm_sendwin_pends(&rel->tx, f->psn) ||
        !unetmm_rel_answer_aim(rel, f, place)) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_answer);
        return;
    }
    if (answer_out_of_turn(&rel->tx, f->psn)) {
        answer_unplaced(core, ep, rel, f, UNETMM_C_drop_rel_rewind);
        return;
    }
    answer_place(core, ep, rel, f, place, payload);
}

static void answer_landed(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                          const struct unetmm_frame *f, bool landed,
                          enum unetmm_counter why)
{
    if (!unetmm_sendwin_pends(&rel->tx, f->psn)) {
        /* It has ended meanwhile; its completion waited for this. */
        return;
    }
    if (landed) {
        answer_accept(core, ep, rel, f);
    } else if (why == UNETMM_C_drop_dma) {
        unetmm_recv_drop(core, ep, why);
        answer_end(core, ep, rel, f->psn, UNETMM_ST_DMA);
    } else {
        answer_lost(core, ep, rel, f->psn, why);
    }
}

const UnetmmRelOp unetmm_rel_op_answer = {
    .landed = answer_landed,
};

/* ---- Pages for them ----------------------------------------------------- */

void unetmm_rel_answer_page(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                            uint8_t status)
{
    uint32_t psn = rel->missed[UNETMM_REL_FAULT_ANSWER].psn;

    if (status != UNETMM_ST_OK && unetmm_sendwin_pends(&rel->tx, psn)) {
        answer_end(core, ep, rel, psn, status);
    }
    if (rel->state == UNETMM_REL_OPEN) {
        unetmm_sendwin_place_came(&rel->tx);
    }
}
