/*
 * unetmm: reliable channels: packets, in their order
 *
 * Packets may arrive in any order, and are taken in theirs.  The table of its
 * opcode gives a packet its meaning.  One that comes before its turn may be
 * kept, whole or its header alone (`early`: the data of a WRITE is where it
 * belongs by then); a kept packet is acknowledged and never dropped.
 *
 * A packet at its turn is taken, or refused (the peer is to come again: nothing
 * waits in the card, and no frame waits for an endpoint), or rejected: then
 * only a VOID with its number is taken, so that no packet that comes twice or
 * late undoes a rejection.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "packet.h"

UnetmmRelTake unetmm_rel_refuse(UnetmmRel *rel, UnetmmRelWant want)
{
    unetmm_recvwin_refused(&rel->rx, want);
    return UNETMM_REL_REFUSED;
}

UnetmmRelTake unetmm_rel_reject(UnetmmRel *rel, uint32_t why)
{
    unetmm_recvwin_rejected(&rel->rx, why);
    return UNETMM_REL_REJECTED;
}

void unetmm_rel_reject_late(UnetmmCore *core, UnetmmRel *rel, uint32_t psn,
                            uint32_t why)
{
    unetmm_recvwin_rejected_late(&rel->rx, psn, why);
    unetmm_rel_owe_ack(core, rel);
}

static const bool early_heads[] = {
    [UNETMM_WIRE_WRITE] = true,
    [UNETMM_WIRE_READ] = true,
    [UNETMM_WIRE_ATOMIC] = true,
    [UNETMM_WIRE_VOID] = true,
};

void unetmm_rel_keep_header(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                          const struct unetmm_frame *f,
                          const uint8_t *payload)
{
    UnetmmRelEarly *e = &rel->early[f->psn % UNETMM_REL_WINDOW];

    e->header = *f;
    memset(e->operands, 0, sizeof(e->operands));
    if (f->opcode == UNETMM_WIRE_ATOMIC) {
        memcpy(e->operands, payload, f->len);
    }
    unetmm_recvwin_kept(&rel->rx, f->psn);
    unetmm_count(core, ep, UNETMM_C_rel_kept, 1);
    trace_unetmm_rel_kept(ep->id, rel->channel, f->psn);
}

bool unetmm_rel_early_ok(const UnetmmRelEarly *e)
{
    /* One by key has an offset when it is kept. */
    return e->header.opcode < G_N_ELEMENTS(early_heads) &&
           early_heads[e->header.opcode] &&
           !(e->header.flags & UNETMM_WIRE_F_KEYED);
}

/* ---- Nothing but a number ----------------------------------------------- */

static UnetmmRelTake void_take(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                               const struct unetmm_frame *f,
                               const uint8_t *payload)
{
    rel->in.run = 0;
    return UNETMM_REL_TAKEN;
}

static const UnetmmRelOp rel_op_void = {
    .take = void_take,
    .early = unetmm_rel_keep_header,
};

static const UnetmmRelOp *const ops[] = {
    [UNETMM_WIRE_SEND] = &unetmm_rel_op_send,
    [UNETMM_WIRE_WRITE] = &unetmm_rel_op_write,
    [UNETMM_WIRE_READ] = &unetmm_rel_op_read,
    [UNETMM_WIRE_ATOMIC] = &unetmm_rel_op_atomic,
    [UNETMM_WIRE_ANSWER] = &unetmm_rel_op_answer,
    [UNETMM_WIRE_VOID] = &rel_op_void,
};

/* ---- Their order -------------------------------------------------------- */

/* A packet that the peer sent at its turn, or that was kept until then. */
static UnetmmRelTake rel_turn(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                              const struct unetmm_frame *f,
                              const uint8_t *payload)
{
    UnetmmRelTake take = UNETMM_REL_REJECTED;

    if (!rel->rx.why || f->opcode == UNETMM_WIRE_VOID) {
        take = ops[f->opcode]->take(core, ep, rel, f, payload);
    }
    trace_unetmm_rel_turn(ep->id, rel->channel, f->psn, take);
    if (take == UNETMM_REL_TAKEN) {
        unetmm_recvwin_taken(&rel->rx);
    } else if (take == UNETMM_REL_REFUSED) {
        unetmm_recvwin_tell_refusal(&rel->rx);
        unetmm_rel_owe_ack(core, rel);
    } else if (take == UNETMM_REL_REJECTED) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_rejected);
        unetmm_rel_owe_ack(core, rel);
    } else if (take == UNETMM_REL_ASIDE) {
        /* It need not be sent again. */
        unetmm_rel_owe_ack(core, rel);
    }
    return take;
}

/* A packet that was kept whole, at its turn. */
static UnetmmRelTake rel_turn_kept(UnetmmCore *core, UnetmmEp *ep,
                                   UnetmmRel *rel, UnetmmQueued *q)
{
    uint8_t *frame = g_steal_pointer(&q->frame);
    struct unetmm_frame f;
    UnetmmRelTake take;

    memcpy(&f, frame, sizeof(f));
    /*
     * Its arrival was charged when it came; the copy to its place is charged
     * now.
     */
    unetmm_charge(core, 0, f.len);
    take = rel_turn(core, ep, rel, &f, frame + sizeof(f));
    if (take == UNETMM_REL_REFUSED) {
        /* It was promised to the peer, so it stays until it fits. */
        q->frame = frame;
        return take;
    }
    core->kept--;
    unetmm_port_release(core, frame);
    return take;
}

/* The rest of a packet of which only the header was kept. */
static UnetmmRelTake rel_turn_early(UnetmmCore *core, UnetmmEp *ep,
                                    UnetmmRel *rel)
{
    UnetmmRelEarly *e = &rel->early[rel->rx.nxt % UNETMM_REL_WINDOW];
    struct unetmm_frame f = e->header;

    return rel_turn(core, ep, rel, &f, f.opcode == UNETMM_WIRE_WRITE ||
                    f.opcode == UNETMM_WIRE_SEND ? NULL : e->operands);
}

/* Takes the packets that were kept for this moment. */
static void rel_go_on(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel)
{
    while (!ep->error && rel->state == UNETMM_REL_OPEN && !core->rx->active &&
           (rel->rx.have & ~rel->share.unlanded &
            unetmm_rel_bit(rel->rx.nxt))) {
        UnetmmQueued *q = &rel->kept[rel->rx.nxt % UNETMM_REL_WINDOW];
        UnetmmRelTake take;

        take = q->frame ? rel_turn_kept(core, ep, rel, q) :
               rel_turn_early(core, ep, rel);
        if (take == UNETMM_REL_REFUSED || take == UNETMM_REL_ASIDE) {
            return;
        }
        if (take != UNETMM_REL_TAKEN) {
            unetmm_recvwin_lost(&rel->rx);
            return;
        }
    }
}

/* A packet before its turn. */
static void rel_early(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                      const struct unetmm_frame *f, const uint8_t *payload)
{
    if (rel->rx.refused) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_refused);
        return;
    }
    unetmm_rel_owe_ack(core, rel);
    if (unetmm_recvwin_has(&rel->rx, f->psn)) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_again);
        return;
    }
    ops[f->opcode]->early(core, ep, rel, f, payload);
}

/* The packet whose turn it is; it may have been kept already. */
static void rel_expected(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         const struct unetmm_frame *f, const uint8_t *payload)
{
    UnetmmRelTake take = UNETMM_REL_TAKEN;

    if (unetmm_recvwin_has(&rel->rx, f->psn)) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_again);
    } else {
        take = rel_turn(core, ep, rel, f, payload);
    }
    if (take == UNETMM_REL_TAKEN && rel->rx.have) {
        unetmm_rel_owe_ack(core, rel);
    } else if (take == UNETMM_REL_TAKEN && f->flags & UNETMM_WIRE_F_ASK) {
        unetmm_rel_asked(core, rel);
    }
    if (take == UNETMM_REL_TAKEN) {
        rel_go_on(core, ep, rel);
    } else if (take == UNETMM_REL_REFUSED) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_refused);
    }
}

/* It was taken before: requests may have to be answered once more. */
static void rel_again(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                      const struct unetmm_frame *f)
{
    unetmm_rel_owe_ack(core, rel);
    if (ops[f->opcode]->again) {
        ops[f->opcode]->again(core, ep, rel, f);
    } else {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_again);
    }
}

/* A packet by a wrong key, which the window and the credits allow. */
static void rel_wrong_key(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                          const struct unetmm_frame *f)
{
    enum unetmm_counter why = UNETMM_C_drop_rel_rejected;

    if (unetmm_recvwin_again(&rel->rx, f->psn)) {
        unetmm_rel_reject_late(core, rel, f->psn, UNETMM_WHY_REGION);
    } else if (f->psn != rel->rx.nxt) {
        why = UNETMM_C_drop_rel_early;
    } else if (unetmm_recvwin_has(&rel->rx, f->psn)) {
        why = UNETMM_C_drop_rel_again;
    } else {
        unetmm_recvwin_rejected(&rel->rx, rel->rx.why ?: UNETMM_WHY_REGION);
        trace_unetmm_rel_turn(ep->id, rel->channel, f->psn,
                              UNETMM_REL_REJECTED);
    }
    unetmm_recv_drop(core, ep, why);
    unetmm_rel_owe_ack(core, rel);
}

static void rel_in_window(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                          const struct unetmm_frame *f, const uint8_t *payload)
{
    if (unetmm_recvwin_again(&rel->rx, f->psn)) {
        rel_again(core, ep, rel, f);
    } else if (f->psn != rel->rx.nxt) {
        rel_early(core, ep, rel, f, payload);
    } else {
        rel_expected(core, ep, rel, f, payload);
    }
}

static void rel_by_key(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                       const struct unetmm_frame *f, const uint8_t *payload)
{
    struct unetmm_frame by_offset = *f;

    switch (unetmm_rel_keyed(core, ep, rel, &by_offset)) {
    case UNETMM_REL_TAKEN:
        rel_in_window(core, ep, rel, &by_offset, payload);
        break;
    case UNETMM_REL_REJECTED:
        rel_wrong_key(core, ep, rel, f);
        break;
    default:
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_failed);
        break;
    }
}

static void rel_data(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                     const struct unetmm_frame *f, const uint8_t *payload)
{
    bool again = unetmm_recvwin_again(&rel->rx, f->psn);

    if (rel->state != UNETMM_REL_OPEN) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_failed);
        unetmm_rel_owe_ack(core, rel);
    } else if (!again && f->psn - rel->rx.nxt >= UNETMM_REL_WINDOW) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_window);
    } else if (!again && !unetmm_rel_granted(rel, f->psn)) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_credit);
    } else if (f->flags & UNETMM_WIRE_F_KEYED) {
        rel_by_key(core, ep, rel, f, payload);
    } else {
        rel_in_window(core, ep, rel, f, payload);
    }
}

/* The acknowledgement that goes along with a packet. */
static void rel_came_along(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                           const struct unetmm_frame *f)
{
    const struct unetmm_frame ack = {
        .opcode = UNETMM_WIRE_ACK,
        .psn = f->opcode == UNETMM_WIRE_WRITE ? f->imm : f->handle,
    };

    if (f->flags & UNETMM_WIRE_F_ACK && rel->state == UNETMM_REL_OPEN) {
        unetmm_rel_ack(core, ep, rel, &ack);
    }
}

void unetmm_rel_receive(UnetmmCore *core, UnetmmEp *ep, UnetmmChannel *channel,
                        const struct unetmm_frame *f, const uint8_t *payload)
{
    UnetmmRel *rel = channel->rel;

    if (f->src_channel != channel->peer_channel) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_channel);
        return;
    }
    unetmm_rel_wake(ep, rel);
    rel_came_along(core, ep, rel, f);
    if (ep->error) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_stopped);
    } else if (f->opcode == UNETMM_WIRE_ACK) {
        unetmm_rel_ack(core, ep, rel, f);
    } else if (f->opcode == UNETMM_WIRE_ANSWER) {
        unetmm_rel_answered(core, ep, rel, f, payload);
    } else {
        rel_data(core, ep, rel, f, payload);
    }
}

/* ---- Answers and pages that arrive -------------------------------------- */

void unetmm_rel_taken(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel)
{
    trace_unetmm_rel_turn(ep->id, rel->channel, rel->rx.nxt,
                          UNETMM_REL_TAKEN);
    unetmm_recvwin_taken(&rel->rx);
    rel_go_on(core, ep, rel);
    unetmm_rel_owe_ack(core, rel);
}

void unetmm_rel_refused(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel)
{
    unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_refused);
    trace_unetmm_rel_turn(ep->id, rel->channel, rel->rx.nxt,
                          UNETMM_REL_REFUSED);
    unetmm_recvwin_tell_refusal(&rel->rx);
    unetmm_rel_owe_ack(core, rel);
}

void unetmm_rel_not_landed(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                           enum unetmm_counter why)
{
    unetmm_recv_drop(core, ep, why);
    trace_unetmm_rel_turn(ep->id, rel->channel, rel->rx.nxt,
                          UNETMM_REL_REFUSED);
    unetmm_recvwin_refused(&rel->rx, UNETMM_REL_WANT_PAGE);
    unetmm_recvwin_tell_refusal(&rel->rx);
    unetmm_rel_owe_ack(core, rel);
}

/*
 * May the packet go on through its region?  If not, that has been cleared
 * meanwhile, or the packet's part of it is being moved.
 */
static bool packet_may_go_on(const UnetmmCore *core,
                             const UnetmmLanding *landing,
                             enum unetmm_counter *why)
{
    const struct unetmm_frame *f = &landing->header;
    const UnetmmRegion *region;

    if (f->opcode != UNETMM_WIRE_WRITE) {
        return true;
    }
    region = unetmm_region_find(core, core->eps[landing->ep].space, f->handle,
                                f->offset);
    *why = region ? UNETMM_C_drop_moved : UNETMM_C_drop_revoked;
    return region && !unetmm_region_held(region, f->remote, f->len);
}

/* The pages of a packet have moved, or (why) have not. */
static void packet_landed(UnetmmCore *core, UnetmmEp *ep,
                          UnetmmLanding *landing, bool landed,
                          enum unetmm_counter why)
{
    UnetmmRel *rel = g_steal_pointer(&landing->of);
    struct unetmm_frame f = landing->header;

    unetmm_rel_wake(ep, rel);
    if (rel->state == UNETMM_REL_OPEN) {
        ops[f.opcode]->landed(core, ep, rel, &f, landed, why);
    }
}

static bool packet_place_ok(UnetmmCore *core, const UnetmmEp *ep)
{
    return unetmm_rel_landing_ok(core, core->rx->of);
}

const UnetmmLandingOps unetmm_landing_packet = {
    .name = "packet",
    .may_go_on = packet_may_go_on,
    .landed = packet_landed,
    .place_ok = packet_place_ok,
};

UnetmmPlaced unetmm_rel_place(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                              UnetmmPlacement *place,
                              const struct unetmm_frame *f,
                              const uint8_t *payload)
{
    UnetmmPlaced placed = unetmm_recv_place(core, ep, place,
                                            &unetmm_landing_packet, f->len,
                                            payload);

    if (placed == UNETMM_PLACED_LATER) {
        core->rx->of = rel;
        core->rx->header = *f;
    }
    return placed;
}

/* ---- Slots of the system buffer ----------------------------------------- */

bool unetmm_rel_aside(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                      UnetmmAbsentAt at, const struct unetmm_frame *f,
                      const UnetmmPlacement *place, const uint8_t *payload)
{
    const UnetmmAbsent ctx = { .ep = ep, .at = at, .len = f->len };

    return ep->policy->absent(core, &ctx) == UNETMM_VERDICT_ASIDE &&
           unetmm_sysbuf_take(core, ep, &rel->share, f, place, payload);
}

/* A landing is over, for which channels may have had to wait. */
void unetmm_rel_landing_over(UnetmmCore *core)
{
    for (uint32_t i = 0; core->rels_waiting && i < core->params.endpoints;
         i++) {
        for (UnetmmRel *rel = core->eps[i].rels; rel && rel->awake;
             rel = rel->next) {
            if (rel->rx.landed) {
                unetmm_engine_queue(core, &core->eps[i]);
            }
        }
    }
    core->rels_waiting = false;
}

static void rel_slots_go_on(UnetmmCore *core, UnetmmEp *ep)
{
    for (UnetmmRel *rel = ep->rels; rel && rel->awake; rel = rel->next) {
        if (!rel->rx.landed) {
            continue;
        }
        if (core->rx->active) {
            core->rels_waiting = true;
            return;
        }
        if (!unetmm_budget_left(core)) {
            unetmm_engine_queue(core, ep);
            return;
        }
        unetmm_recvwin_goes_on(&rel->rx);
        rel_go_on(core, ep, rel);
        if (ep->error) {
            return;
        }
        if (rel->state == UNETMM_REL_OPEN) {
            unetmm_rel_owe_ack(core, rel);
        }
    }
}

/* ---- Pages -------------------------------------------------------------- */

static bool rel_asks(const UnetmmRel *rel, UnetmmRelFault kind)
{
    return rel->misses[kind].state != UNETMM_MISS_NONE;
}

void unetmm_rel_ask(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                    UnetmmRelFault kind, UnetmmRelMissed what, uint64_t vpn,
                    uint32_t npages)
{
    if (rel_asks(rel, kind)) {
        unetmm_count(core, ep, UNETMM_C_faults_behind, 1);
        return;
    }
    rel->missed[kind] = what;
    unetmm_miss_want(core, &rel->misses[kind], vpn, npages, false);
}

void unetmm_rel_ask_no_more(UnetmmCore *core, UnetmmRel *rel)
{
    for (unsigned kind = 0; kind < UNETMM_REL_MISSES; kind++) {
        if (rel_asks(rel, kind)) {
            unetmm_miss_cancel(core, &rel->misses[kind]);
        }
    }
}

UnetmmXlat unetmm_rel_present(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                              uint32_t psn, uint64_t addr, uint32_t len,
                              uint32_t run)
{
    uint64_t vpn = addr >> UNETMM_PAGE_SHIFT;
    uint32_t n = unetmm_pte_pages(addr, len);
    uint32_t first = n, end = 0;
    UnetmmPage page;

    for (uint32_t i = 0; i < n; i++) {
        UnetmmXlat result = unetmm_space_lookup(core, ep, vpn + i, false,
                                                &page);

        if (result == UNETMM_XLAT_ERROR) {
            return result;
        }
        if (result == UNETMM_XLAT_MISS) {
            first = MIN(first, i);
            end = i + 1;
        } else if (end) {
            break;
        }
    }
    if (!end) {
        return UNETMM_XLAT_OK;
    }
    unetmm_rel_ask(core, ep, rel, UNETMM_REL_FAULT_SERVE,
                   (UnetmmRelMissed) { .psn = psn }, vpn + first,
                   unetmm_space_ahead(core, ep, vpn + first, end - first,
                                      addr, run));
    return UNETMM_XLAT_MISS;
}

/* A page of a region will never be there: tells the packets waiting. */
static void rel_region_error(UnetmmCore *core, UnetmmRel *rel, uint32_t psn)
{
    if (psn == rel->rx.nxt && (rel->rx.landed ||
                               (rel->share.unlanded & unetmm_rel_bit(psn)))) {
        /* It is in a slot, of which the driver will say the same. */
        return;
    }
    if (psn == rel->rx.nxt) {
        unetmm_recvwin_ready(&rel->rx);
        unetmm_recvwin_lost(&rel->rx);
        unetmm_recvwin_rejected(&rel->rx, UNETMM_WHY_MEMORY);
        unetmm_rel_owe_ack(core, rel);
    } else if (unetmm_recvwin_again(&rel->rx, psn)) {
        unetmm_rel_reject_late(core, rel, psn, UNETMM_WHY_MEMORY);
    }
    /* Else it is early: it asks again at its turn. */
}

/* The page of a buffer in which a message arrives will never be there. */
static void rel_buffer_error(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                             uint32_t psn, uint8_t status)
{
    /*
     * If it is not that packet's turn any more, its page has come in another
     * way: the buffer that may be there is another message's.
     */
    if (psn == rel->rx.nxt) {
        unetmm_rel_give_back(rel, status);
        unetmm_rel_fail(core, ep, rel, NULL, UNETMM_ST_FLUSHED,
                        UNETMM_WHY_CHANNEL);
    }
}

/* The driver has replied for a page that a channel needs. */
static void rel_reply(UnetmmCore *core, UnetmmMiss *miss, uint8_t reply,
                      uint8_t status)
{
    UnetmmRel *rel = miss->of;
    UnetmmRelFault kind = miss - rel->misses;
    const UnetmmRelMissed *what = &rel->missed[kind];
    bool error = reply == UNETMM_REPLY_ERROR;
    UnetmmEp *ep = miss->ep;

    if (reply == UNETMM_REPLY_DEFERRED) {
        unetmm_count(core, ep, UNETMM_C_faults_deferred, 1);
        return;
    }
    unetmm_count(core, ep, UNETMM_C_faults_error, error);
    unetmm_rel_wake(ep, rel);
    if (kind == UNETMM_REL_FAULT_ANSWER) {
        unetmm_rel_answer_page(core, ep, rel, error ? status : UNETMM_ST_OK);
    } else if (error && what->buffer) {
        rel_buffer_error(core, ep, rel, what->psn, status);
    } else if (error) {
        rel_region_error(core, rel, what->psn);
    }
    unetmm_engine_queue(core, ep);
}

static const UnetmmMissOwner rel_owners[UNETMM_REL_MISSES] = {
    [UNETMM_REL_FAULT_ANSWER] = {
        .name = "answer", .write = true, .reply = rel_reply,
        .ahead = unetmm_rel_ahead,
    },
    [UNETMM_REL_FAULT_SERVE] = { .name = "serve", .reply = rel_reply },
    [UNETMM_REL_FAULT_ARRIVE] = {
        .name = "arrive", .write = true, .reply = rel_reply,
    },
};

void unetmm_rel_own_misses(UnetmmCore *core, UnetmmRel *rel, bool own)
{
    for (unsigned kind = 0; kind < UNETMM_REL_MISSES; kind++) {
        unetmm_miss_own(&rel->misses[kind], own ? &rel_owners[kind] : NULL,
                        own ? &core->eps[rel->ep] : NULL, own ? rel : NULL);
    }
}

static bool rel_ready(UnetmmEp *ep, const UnetmmRel *rel)
{
    switch (rel->rx.refused) {
    case UNETMM_REL_WANT_HEAD:
        /* One that does not ask any more asks for the packet when it comes. */
        return unetmm_heads_settled(ep);
    case UNETMM_REL_WANT_PAGE:
        return !rel_asks(rel, UNETMM_REL_FAULT_ARRIVE);
    case UNETMM_REL_WANT_READ:
        return !rel_asks(rel, UNETMM_REL_FAULT_SERVE);
    case UNETMM_REL_WANT_PART:
        return false;
    default:
        return true;
    }
}

void unetmm_rel_look_again(UnetmmCore *core, UnetmmEp *ep)
{
    bool room;

    rel_slots_go_on(core, ep);
    room = unetmm_ep_cq_spare(ep);
    for (UnetmmRel *rel = ep->rels; rel && rel->awake && room && !ep->error;
         rel = rel->next) {
        /* A refusal that is still owed has not been sent yet. */
        if (rel->state == UNETMM_REL_OPEN && rel->rx.refused &&
            !rel->rx.refuse && rel_ready(ep, rel)) {
            unetmm_recvwin_ready(&rel->rx);
            if (!rel->plain_rnr) {
                unetmm_rel_owe_ack(core, rel);
            }
        }
    }
}

/* A question about a region may be no packet's any more. */
static void rel_ask_otherwise(UnetmmCore *core, UnetmmRel *rel)
{
    if (rel_asks(rel, UNETMM_REL_FAULT_SERVE)) {
        unetmm_miss_cancel(core, &rel->misses[UNETMM_REL_FAULT_SERVE]);
    }
    if (rel_asks(rel, UNETMM_REL_FAULT_ARRIVE) &&
        !rel->missed[UNETMM_REL_FAULT_ARRIVE].buffer) {
        unetmm_miss_cancel(core, &rel->misses[UNETMM_REL_FAULT_ARRIVE]);
    }
}

/*
 * A held part was released, or a missed page is no packet's any more: channels
 * that wait for either look again.  A reply that comes all the same says
 * nothing about where the packet goes now.
 */
void unetmm_rel_moved(UnetmmCore *core, UnetmmEp *ep)
{
    for (UnetmmRel *rel = ep->rels; rel; rel = rel->next) {
        if (rel->rx.refused == UNETMM_REL_WANT_PART) {
            unetmm_recvwin_refused(&rel->rx, UNETMM_REL_WANT_PAGE);
        }
        rel_ask_otherwise(core, rel);
    }
    unetmm_engine_queue(core, ep);
}
