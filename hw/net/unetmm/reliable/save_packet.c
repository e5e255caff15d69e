/*
 * unetmm: saving and restoring single packets of reliable channels
 *
 * Headers of packets before their turn, answers that are owed, results of
 * atomics; a packet that lands, and one that is on its way out.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "reliable.h"

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

/* A packet by key has an offset by the time it is kept. */
static bool early_ok(const UnetmmCore *core, const struct unetmm_frame *f)
{
    return unetmm_wire_op(core, f->opcode) &&
           unetmm_wire_op(core, f->opcode)->with == UNETMM_WITH_RELIABLE &&
           unetmm_rel_op(core, f->opcode)->header_is_enough &&
           !(f->flags & UNETMM_WIRE_F_KEYED);
}

void unetmm_rel_save_early(UnetmmStream *st, const UnetmmCore *core,
                           UnetmmRel *rel, uint32_t slot)
{
    UnetmmRelEarly *e = &rel->early[slot];

    e->header.psn = unetmm_rel_kept_psn(rel, slot);
    e->header.len = unetmm_stream_choice(st, e->header.len, rel->mtu + 1,
                                         "len");
    unetmm_recv_save_header(st, core, &e->header);
    unetmm_stream_bytes(st, e->operands, sizeof(e->operands), "operands");
    if ((!early_ok(core, &e->header) &&
         (e->header.opcode != UNETMM_WIRE_SEND ||
          e->header.psn != rel->rx.nxt)) || !early_range_ok(&e->header)) {
        unetmm_stream_refuse(st, "a packet is kept that cannot be");
    }
}

static const UnetmmField answers_fields[] = {
    UNETMM_FIELD(UnetmmRelAnswers, owed),
    UNETMM_FIELD_BOOL(UnetmmRelAnswers, answered),
};

static const UnetmmField result_fields[] = {
    UNETMM_FIELD(UnetmmRelResult, psn),
    UNETMM_FIELD_BYTES(UnetmmRelResult, old),
};

/* Answers that are owed, and the old values of atomics. */
static void asks_save(UnetmmStream *st, UnetmmRel *rel)
{
    UnetmmRelAnswers *answers = &rel->answers;

    UNETMM_STREAM_FIELDS(st, answers, answers_fields);
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
    for (uint32_t i = 0; i < MIN(answers->nresults, UNETMM_REL_ATOMICS); i++) {
        unetmm_stream_enter(st, "results", i);
        UNETMM_STREAM_FIELDS(st, &answers->results[i], result_fields);
        unetmm_stream_leave(st);
    }
}

void unetmm_rel_save_one_sided(UnetmmStream *st, UnetmmRel *rel)
{
    unetmm_recvwin_save_rejects(st, &rel->rx);
    rel->in.run = unetmm_stream_choice(st, rel->in.run,
                                       UNETMM_MAX_STRICT_MESSAGE + 1, "run");
    unetmm_target_save(st, &rel->in.run_next, "run_next");
    asks_save(st, rel);
    /* A closed channel is not known to have been strict. */
    if (rel->state == UNETMM_REL_OPEN &&
        rel->in.run > unetmm_rel_longest(rel)) {
        unetmm_stream_refuse(st, "a WRITE is too long");
    }
    if (rel->state != UNETMM_REL_OPEN &&
        (rel->rx.why || rel->rx.late_why || rel->answers.owed)) {
        unetmm_stream_refuse(st, "a channel that has ended goes on");
    }
}

/* ---- A packet that lands ------------------------------------------------ */

bool unetmm_rel_landing_ok(UnetmmCore *core, UnetmmRel *rel)
{
    const UnetmmLanding *rx = core->landing;
    const UnetmmRelOp *op;

    if (unetmm_wire_op(core, rx->header.opcode)->with !=
        UNETMM_WITH_RELIABLE) {
        return false;
    }
    op = unetmm_rel_op(core, rx->header.opcode);
    if (rel->state != UNETMM_REL_OPEN || core->eps[rel->ep].error) {
        return rx->header.opcode != UNETMM_WIRE_SEND || rel->in.giving_back ||
               core->eps[rel->ep].error;
    }
    return op->landing_ok && op->landing_ok(core, rel);
}

/* ---- A packet on its way out -------------------------------------------- */

/* The segments have as many bytes as the packet still needs. */
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

static const UnetmmField packet_kind[] = {
    UNETMM_FIELD(UnetmmTransfer, psn),
    UNETMM_BOOLS(UnetmmTransfer, needless, answer),
};

static const UnetmmField packet_at[] = {
    UNETMM_FIELD(UnetmmTransfer, seg_off),
    UNETMM_FIELD_RANGE(UnetmmTransfer, seg, 0, UNETMM_MAX_SEGS - 1),
};

void unetmm_rel_save_packet(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmTransfer *tx = &ep->tx;
    UnetmmDescriptor *d = &tx->desc;
    uint64_t total;

    d->channel = tx->rel->channel;
    UNETMM_STREAM_FIELDS(st, tx, packet_kind);
    tx->ops = tx->answer ? &unetmm_rel_answer : &unetmm_rel_packet;
    if (tx->answer) {
        unetmm_target_save(st, &tx->target, "target");
    }
    tx->status = unetmm_stream_choice(st, tx->status, UNETMM_NUM_ST, "status");
    d->len = unetmm_stream_choice(st, d->len, UNETMM_MAX_PAYLOAD + 1, "len");
    tx->done = unetmm_stream_choice(st, tx->done, d->len + 1, "done");
    UNETMM_STREAM_FIELDS(st, tx, packet_at);
    d->nsegs = unetmm_send_save_segs(st, d->segs, d->nsegs, &total);
    if (!st->wrong && !packet_ok(tx)) {
        unetmm_stream_refuse(st, "endpoint %u sends a packet that it cannot",
                             ep->id);
    }
    if (!st->wrong) {
        unetmm_send_save_gathered(st, core, ep);
    }
}
