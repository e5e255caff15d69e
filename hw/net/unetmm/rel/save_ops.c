/*
 * unetmm: saving and restoring what arrives of one-sided operations
 *
 * Headers of packets before their turn, answers that are owed, results of
 * atomics; and whether a packet may land where it is said to.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "rel.h"
#include "../card/state.h"

void unetmm_state_head(UnetmmStream *st, struct unetmm_frame *f)
{
    unetmm_stream_u8(st, &f->opcode);
    unetmm_stream_u32(st, &f->flags);
    unetmm_stream_u32(st, &f->offset);
    unetmm_stream_u64(st, &f->remote);
    unetmm_stream_u32(st, &f->handle);
    unetmm_stream_u32(st, &f->imm);
    if (!st->wrong && !unetmm_recv_members_ok(f)) {
        unetmm_stream_refuse(st, "a packet has a header that none has");
    }
}

uint32_t unetmm_state_psn(const UnetmmRel *rel, uint32_t slot)
{
    return rel->rx.nxt + (slot - rel->rx.nxt) % UNETMM_REL_WINDOW;
}

/* What is cut out of a later packet of the same region. */
static bool early_range_ok(const struct unetmm_frame *f)
{
    return f->opcode != UNETMM_WIRE_WRITE || !f->len ||
           f->remote <= UINT64_MAX - (f->len - 1);
}

void unetmm_state_early(UnetmmStream *st, UnetmmRel *rel, uint32_t slot)
{
    UnetmmRelEarly *e = &rel->rx.early[slot];

    e->head.psn = unetmm_state_psn(rel, slot);
    e->head.len = unetmm_stream_choice(st, e->head.len, rel->mtu + 1,
                                       "the length of a packet");
    unetmm_state_head(st, &e->head);
    unetmm_stream_bytes(st, e->operands, sizeof(e->operands));
    if ((!unetmm_rel_early_ok(e) &&
         (e->head.opcode != UNETMM_WIRE_SEND ||
          e->head.psn != rel->rx.nxt)) || !early_range_ok(&e->head)) {
        unetmm_stream_refuse(st, "a packet is kept that cannot be");
    }
}

void unetmm_state_target(UnetmmStream *st, UnetmmTarget *target)
{
    unetmm_stream_u32(st, &target->region);
    unetmm_stream_u32(st, &target->key);
    unetmm_stream_u32(st, &target->len);
    unetmm_stream_u64(st, &target->offset);
}

/* Answers that are owed, and what atomics found. */
static void state_asks(UnetmmStream *st, UnetmmRel *rel)
{
    UnetmmRelRx *rx = &rel->rx;
    uint32_t kept;

    unetmm_stream_u64(st, &rx->owed);
    unetmm_stream_bool(st, &rx->answered, "whose turn it is");
    for (uint32_t i = 0; i < UNETMM_REL_WINDOW && !st->wrong; i++) {
        UnetmmRelAsk *ask = &rx->asks[i];

        if (!(rx->owed & unetmm_rel_bit(i))) {
            continue;
        }
        ask->psn = rx->nxt - 1 - (rx->nxt - 1 - i) % UNETMM_REL_WINDOW;
        unetmm_stream_bool(st, &ask->atomic, "what an answer is to");
        unetmm_state_target(st, &ask->target);
        if (!ask->atomic && (!ask->target.len ||
                             ask->target.len > rel->mtu)) {
            unetmm_stream_refuse(st, "an answer is too long");
        }
    }
    rx->nresults = unetmm_stream_choice(st, rx->nresults,
                                        2 * UNETMM_REL_ATOMICS,
                                        "the results of atomics");
    kept = MIN(rx->nresults, UNETMM_REL_ATOMICS);
    for (uint32_t i = 0; i < kept; i++) {
        unetmm_stream_u32(st, &rx->results[i].psn);
        unetmm_stream_bytes(st, rx->results[i].old,
                            sizeof(rx->results[i].old));
    }
}

void unetmm_state_one_sided(UnetmmStream *st, UnetmmRel *rel)
{
    UnetmmRelRx *rx = &rel->rx;

    unetmm_stream_u8(st, &rx->why);
    unetmm_stream_u8(st, &rx->late_why);
    unetmm_stream_u32(st, &rx->late_psn);
    rx->run = unetmm_stream_choice(st, rx->run, UNETMM_MAX_MESSAGE + 1,
                                   "the length of a WRITE");
    unetmm_state_target(st, &rx->run_next);
    if (rx->why > UNETMM_WHY_COUNTER || rx->late_why > UNETMM_WHY_COUNTER ||
        (rx->why && (rx->have & unetmm_rel_bit(rx->nxt)))) {
        unetmm_stream_refuse(st, "a packet is rejected for no reason");
    }
    state_asks(st, rel);
    if (rel->state != UNETMM_REL_OPEN &&
        (rx->why || rx->late_why || rx->owed)) {
        unetmm_stream_refuse(st, "a channel that has ended goes on");
    }
}

/* ---- A packet that lands ------------------------------------------------ */

/* All of it at one place? */
static bool landing_whole(const UnetmmLanding *rx, uint64_t addr)
{
    const UnetmmPlacement *place = &rx->place;

    return place->npieces == 1 && place->pieces[0].addr == addr &&
           place->pieces[0].len == rx->len;
}

static bool landing_send_ok(const UnetmmLanding *rx, const UnetmmRel *rel)
{
    return rel->rx.in_message && rx->head.psn == rel->rx.nxt &&
           landing_whole(rx, rel->rx.buf_addr + rel->rx.done) &&
           rx->len == MIN(rel->mtu, rel->rx.len - rel->rx.done);
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
    const UnetmmLanding *rx = &core->rx;
    const UnetmmRegion *region = &core->regions[0];

    if (rx->head.handle >= core->params.regions ||
        rx->head.psn - rel->rx.nxt >= UNETMM_REL_WINDOW ||
        (rel->rx.have & unetmm_rel_bit(rx->head.psn)) ||
        rx->len > rel->mtu ||
        (rx->head.psn == rel->rx.nxt &&
         !unetmm_rel_write_fits(rel, &rx->head))) {
        return false;
    }
    region += rx->head.handle;
    if (!region->live || region->key != rx->head.offset ||
        region->space != core->eps[rel->ep].space ||
        rx->head.remote > region->length ||
        rx->len > region->length - rx->head.remote ||
        !(region->rights & UNETMM_RIGHT_WRITE)) {
        return false;
    }
    for (uint32_t i = 0; i < rx->place.npieces; i++) {
        if (!landing_piece_ok(region, &rx->place.pieces[i], rx->head.remote)) {
            return false;
        }
    }
    return true;
}

/* The pieces follow from the request; if that has ended they only land. */
static bool landing_answer_ok(UnetmmCore *core, UnetmmRel *rel)
{
    const UnetmmPlacement *was = &core->rx.place;
    UnetmmPlacement *now = &core->place;

    return !unetmm_rel_answer_open(rel, core->rx.head.psn) ||
           (unetmm_rel_answer_aim(rel, &core->rx.head, now) &&
            now->npieces == was->npieces &&
            !memcmp(now->pieces, was->pieces,
                    was->npieces * sizeof(was->pieces[0])));
}

bool unetmm_state_landing_ok(UnetmmCore *core, UnetmmRel *rel)
{
    const UnetmmLanding *rx = &core->rx;

    if (rel->state != UNETMM_REL_OPEN || core->eps[rel->ep].error) {
        return rx->head.opcode != UNETMM_WIRE_SEND || rel->rx.giving_back ||
               core->eps[rel->ep].error;
    }
    switch (rx->head.opcode) {
    case UNETMM_WIRE_SEND:
        return landing_send_ok(rx, rel);
    case UNETMM_WIRE_WRITE:
        return landing_write_ok(core, rel);
    case UNETMM_WIRE_ANSWER:
        return landing_answer_ok(core, rel);
    default:
        return false;
    }
}
