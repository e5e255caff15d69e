/*
 * unetmm: saving and restoring single packets of reliable channels
 *
 * Headers of packets before their turn, answers that are owed, results of
 * atomics; a packet that lands, and one that is on its way out.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "packet.h"

uint32_t unetmm_rel_kept_psn(const UnetmmRel *rel, uint32_t slot)
{
    return rel->rx.nxt + (slot - rel->rx.nxt) % UNETMM_REL_WINDOW;
}

/* The bytes cut out of a later packet of the same region. */
static bool early_range_ok(const struct unetmm_frame *f)
{
    return f->opcode != UNETMM_WIRE_WRITE || !f->len ||
           f->remote <= UINT64_MAX - (f->len - 1);
}

void unetmm_rel_save_early(UnetmmStream *st, UnetmmRel *rel, uint32_t slot)
{
    UnetmmRelEarly *e = &rel->early[slot];

    e->header.psn = unetmm_rel_kept_psn(rel, slot);
    e->header.len = unetmm_stream_choice(st, e->header.len, rel->mtu + 1,
                                         "len");
    unetmm_recv_save_header(st, &e->header);
    unetmm_stream_bytes(st, e->operands, sizeof(e->operands), "operands");
    if ((!unetmm_rel_early_ok(e) &&
         (e->header.opcode != UNETMM_WIRE_SEND ||
          e->header.psn != rel->rx.nxt)) || !early_range_ok(&e->header)) {
        unetmm_stream_refuse(st, "a packet is kept that cannot be");
    }
}

/* Answers that are owed, and the old values of atomics. */
static void asks_save(UnetmmStream *st, UnetmmRel *rel)
{
    UnetmmRelAnswers *answers = &rel->answers;
    uint32_t kept;

    unetmm_stream_u64(st, &answers->owed, "owed");
    unetmm_stream_bool(st, &answers->answered, "answered");
    for (uint32_t i = 0; i < UNETMM_REL_WINDOW && !st->wrong; i++) {
        UnetmmRelAsk *ask = &answers->asks[i];

        if (!(answers->owed & unetmm_rel_bit(i))) {
            continue;
        }
        ask->psn = rel->rx.nxt - 1 - (rel->rx.nxt - 1 - i) % UNETMM_REL_WINDOW;
        unetmm_stream_enter(st, "ask", i);
        unetmm_stream_bool(st, &ask->atomic, "atomic");
        unetmm_target_save(st, &ask->target, "target");
        unetmm_stream_leave(st);
        if (!ask->atomic && (!ask->target.len ||
                             ask->target.len > rel->mtu)) {
            unetmm_stream_refuse(st, "an answer is too long");
        }
    }
    answers->nresults = unetmm_stream_choice(st, answers->nresults,
                                             2 * UNETMM_REL_ATOMICS,
                                             "nresults");
    kept = MIN(answers->nresults, UNETMM_REL_ATOMICS);
    for (uint32_t i = 0; i < kept; i++) {
        unetmm_stream_enter(st, "results", i);
        unetmm_stream_u32(st, &answers->results[i].psn, "psn");
        unetmm_stream_bytes(st, answers->results[i].old,
                            sizeof(answers->results[i].old), "old");
        unetmm_stream_leave(st);
    }
}

void unetmm_rel_save_one_sided(UnetmmStream *st, UnetmmRel *rel)
{
    unetmm_recvwin_save_rejects(st, &rel->rx);
    rel->in.run = unetmm_stream_choice(st, rel->in.run, UNETMM_MAX_MESSAGE + 1,
                                       "run");
    unetmm_target_save(st, &rel->in.run_next, "run_next");
    asks_save(st, rel);
    if (rel->state != UNETMM_REL_OPEN &&
        (rel->rx.why || rel->rx.late_why || rel->answers.owed)) {
        unetmm_stream_refuse(st, "a channel that has ended goes on");
    }
}

/* ---- A packet that lands ------------------------------------------------ */

static bool landing_send_ok(UnetmmCore *core, const UnetmmRel *rel)
{
    const UnetmmLanding *rx = core->rx;

    unetmm_recv_parts(core->place, rel->in.parts, rel->in.nparts, rel->in.done,
                      rx->len);
    return rel->in.in_message && rx->header.psn == rel->rx.nxt &&
           unetmm_recv_same_pieces(core->place, &rx->place) &&
           rx->len == MIN(rel->mtu, rel->in.len - rel->in.done);
}

/* Is it where that part of the region is? */
static bool landing_piece_ok(const UnetmmRegion *region,
                             const UnetmmPiece *piece, uint64_t remote)
{
    uint32_t n;

    for (uint32_t at = 0; at < piece->len; at += n) {
        uint64_t addr;

        n = unetmm_region_run(region, remote + piece->from + at,
                              piece->len - at, &addr);
        if (addr != piece->addr + at) {
            return false;
        }
    }
    return true;
}

/*
 * Each piece is the part of the region that the header says.  Of a packet
 * before its turn the length of its WRITE is looked at when it is its turn.
 */
static bool landing_write_ok(const UnetmmCore *core, const UnetmmRel *rel)
{
    const UnetmmLanding *rx = core->rx;
    const UnetmmRegion *region = &core->regions[0];

    if (rx->header.handle >= core->params.regions ||
        rx->header.psn - rel->rx.nxt >= UNETMM_REL_WINDOW ||
        (rel->rx.have & unetmm_rel_bit(rx->header.psn)) ||
        rx->len > rel->mtu ||
        (rx->header.psn == rel->rx.nxt &&
         !unetmm_rel_write_fits(rel, &rx->header))) {
        return false;
    }
    region += rx->header.handle;
    if (!region->live || rx->header.flags & UNETMM_WIRE_F_KEYED ||
        region->key != rx->header.offset ||
        region->space != core->eps[rel->ep].space ||
        rx->header.remote > region->length ||
        rx->len > region->length - rx->header.remote ||
        !(region->rights & UNETMM_RIGHT_WRITE)) {
        return false;
    }
    for (uint32_t i = 0; i < rx->place.npieces; i++) {
        if (!landing_piece_ok(region, &rx->place.pieces[i],
                              rx->header.remote)) {
            return false;
        }
    }
    return true;
}

/* The pieces follow from the request; if that has ended they only land. */
static bool landing_answer_ok(UnetmmCore *core, UnetmmRel *rel)
{
    const UnetmmPlacement *was = &core->rx->place;
    UnetmmPlacement *now = core->place;

    return !unetmm_sendwin_pends(&rel->tx, core->rx->header.psn) ||
           (unetmm_rel_answer_aim(rel, &core->rx->header, now) &&
            unetmm_recv_same_pieces(now, was));
}

bool unetmm_rel_landing_ok(UnetmmCore *core, UnetmmRel *rel)
{
    const UnetmmLanding *rx = core->rx;

    if (rel->state != UNETMM_REL_OPEN || core->eps[rel->ep].error) {
        return rx->header.opcode != UNETMM_WIRE_SEND || rel->in.giving_back ||
               core->eps[rel->ep].error;
    }
    switch (rx->header.opcode) {
    case UNETMM_WIRE_SEND:
        return landing_send_ok(core, rel);
    case UNETMM_WIRE_WRITE:
        return landing_write_ok(core, rel);
    case UNETMM_WIRE_ANSWER:
        return landing_answer_ok(core, rel);
    default:
        return false;
    }
}

/* ---- A packet on its way out -------------------------------------------- */

/* Its segments have as many bytes as are left of it. */
static bool packet_segments_ok(const UnetmmTransfer *tx)
{
    const UnetmmDescriptor *d = &tx->desc;
    uint64_t left = 0;

    if (tx->done == d->len) {
        return true;
    }
    if (tx->seg >= d->nsegs || tx->seg_off > d->segs[tx->seg].len) {
        return false;
    }
    for (unsigned i = tx->seg; i < d->nsegs; i++) {
        left += d->segs[i].len;
    }
    return left - tx->seg_off >= d->len - tx->done;
}

/*
 * An answer is as long as its request: when the rest is sent, only `target` is
 * looked at again.  An atomic's answer is in the frame: it has no segments.
 */
static bool packet_answer_ok(const UnetmmTransfer *tx)
{
    const UnetmmTarget *target = &tx->target;

    if (!tx->desc.nsegs) {
        return tx->desc.len == sizeof(uint64_t) && tx->done == tx->desc.len &&
               !target->len;
    }
    /* A closed channel has no MTU any more, and is not asked again. */
    return tx->desc.len && target->len == tx->desc.len &&
           (tx->rel->state != UNETMM_REL_OPEN || tx->desc.len <= tx->rel->mtu);
}

static bool packet_ok(const UnetmmTransfer *tx)
{
    UnetmmRel *rel = tx->rel;

    if (!unetmm_send_blocked_ok(tx) || !packet_segments_ok(tx) ||
        (tx->state != UNETMM_TX_GATHER && tx->state != UNETMM_TX_COMPLETE &&
         tx->done != tx->desc.len) || tx->blocked_on == UNETMM_BLOCKED_CQ) {
        return false;
    }
    if (tx->answer) {
        return tx->blocked_on != UNETMM_BLOCKED_FAULT &&
               packet_answer_ok(tx);
    }
    if (tx->blocked_on == UNETMM_BLOCKED_FAULT && tx->done == tx->desc.len) {
        return false;
    }
    if (tx->needless || !unetmm_rel_wanted(rel, tx->psn)) {
        return true;
    }
    return (tx->psn != rel->tx.nxt || rel->msgs.next != rel->msgs.end) &&
           tx->desc.len == unetmm_rel_packet_len(rel, tx->psn);
}

void unetmm_rel_save_packet(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmTransfer *tx = &ep->tx;
    UnetmmDescriptor *d = &tx->desc;

    d->channel = tx->rel->channel;
    unetmm_stream_u32(st, &tx->psn, "psn");
    unetmm_stream_bool(st, &tx->needless, "needless");
    unetmm_stream_bool(st, &tx->answer, "answer");
    tx->ops = tx->answer ? &unetmm_rel_answer : &unetmm_rel_packet;
    if (tx->answer) {
        unetmm_target_save(st, &tx->target, "target");
    }
    tx->status = unetmm_stream_choice(st, tx->status, UNETMM_NUM_ST, "status");
    d->len = unetmm_stream_choice(st, d->len, UNETMM_MAX_PAYLOAD + 1, "len");
    tx->done = unetmm_stream_choice(st, tx->done, d->len + 1, "done");
    unetmm_stream_u32(st, &tx->seg_off, "seg_off");
    tx->seg = unetmm_stream_choice(st, tx->seg, UNETMM_MAX_SEGS, "seg");
    d->nsegs = unetmm_stream_choice(st, d->nsegs, UNETMM_MAX_SEGS + 1,
                                     "nsegs");
    for (unsigned i = 0; i < d->nsegs; i++) {
        unetmm_stream_enter(st, "segs", i);
        unetmm_stream_u64(st, &d->segs[i].addr, "addr");
        unetmm_stream_u32(st, &d->segs[i].len, "len");
        unetmm_stream_leave(st);
        if (d->segs[i].len &&
            d->segs[i].addr > UINT64_MAX - (d->segs[i].len - 1)) {
            unetmm_stream_refuse(st, "a segment wraps round");
        }
    }
    if (!st->wrong && !packet_ok(tx)) {
        unetmm_stream_refuse(st, "endpoint %u sends a packet that it cannot",
                             ep->id);
    }
    if (!st->wrong) {
        unetmm_send_save_gathered(st, core, ep);
    }
}
