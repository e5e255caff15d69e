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
#include "reliable.h"

static const UnetmmRelOp *rel_op(const UnetmmCore *core,
                                 const struct unetmm_frame *f)
{
    return unetmm_rel_op(core, f->opcode);
}

/* ---- Their order -------------------------------------------------------- */

/* The counter of a packet that will never be taken. */
static enum unetmm_counter rel_rejected(const UnetmmCore *core,
                                        const UnetmmEp *ep,
                                        const struct unetmm_frame *f)
{
    return rel_op(core, f)->kind[0].sqe.one_sided &&
           unetmm_region_foreign(core, ep, f->handle, f->offset) ?
           UNETMM_C_drop_rel_pd : UNETMM_C_drop_rel_rejected;
}

/* A packet that the peer sent at its turn, or that was kept until then. */
static UnetmmRelTake rel_turn(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                              const struct unetmm_frame *f,
                              const uint8_t *payload)
{
    UnetmmRelTake take = UNETMM_TAKE_REJECTED;

    if (rel->strict && rel->rx.why && f->opcode == UNETMM_WIRE_VOID) {
        /* The peer would go on behind the rejected packet. */
        unetmm_rel_fail(core, ep, rel, &unetmm_rel_nobody,
                        unetmm_rel_reject_status(rel->rx.why), rel->rx.why);
        return UNETMM_TAKE_ENDED;
    }
    if (!rel->rx.why || f->opcode == UNETMM_WIRE_VOID) {
        take = rel_op(core, f)->take(core, ep, rel, f, payload);
    }
    trace_unetmm_rel_turn(ep->id, rel->channel, f->psn, take);
    if (take == UNETMM_TAKE_DONE) {
        unetmm_recvwin_taken(&rel->rx);
    } else if (take == UNETMM_TAKE_REFUSED) {
        unetmm_recvwin_tell_refusal(&rel->rx);
        unetmm_rel_owe_ack(core, rel);
    } else if (take == UNETMM_TAKE_REJECTED) {
        unetmm_recv_drop(core, ep, rel_rejected(core, ep, f));
        unetmm_rel_owe_ack(core, rel);
    } else if (take == UNETMM_TAKE_ASIDE) {
        /* The acknowledgement keeps the peer from sending it again. */
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
     * The frame's arrival was charged when the frame came; the copy to its
     * place is charged now.
     */
    unetmm_charge(core, 0, f.len);
    take = rel_turn(core, ep, rel, &f, frame + sizeof(f));
    if (take == UNETMM_TAKE_REFUSED) {
        /* The peer sends a kept packet no more: the card keeps it. */
        q->frame = frame;
        return take;
    }
    core->rel->kept--;
    unetmm_port_release(core, frame);
    return take;
}

/* A packet at its turn of which only the header was kept; its data is there. */
static UnetmmRelTake rel_turn_early(UnetmmCore *core, UnetmmEp *ep,
                                    UnetmmRel *rel)
{
    UnetmmRelEarly *e = &rel->early[rel->rx.nxt % UNETMM_REL_WINDOW];
    struct unetmm_frame f = e->header;

    return rel_turn(core, ep, rel, &f, rel_op(core, &f)->kind[0].gathers ?
                    NULL : e->operands);
}

/* Takes the packets that were kept for this moment. */
static void rel_go_on(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel)
{
    while (!ep->error && rel->state == UNETMM_REL_OPEN &&
           !core->landing->active &&
           (rel->rx.have & ~rel->share.unlanded &
            unetmm_rel_bit(rel->rx.nxt))) {
        UnetmmQueued *q = &rel->kept[rel->rx.nxt % UNETMM_REL_WINDOW];
        UnetmmRelTake take;

        take = q->frame ? rel_turn_kept(core, ep, rel, q) :
               rel_turn_early(core, ep, rel);
        if (take == UNETMM_TAKE_REFUSED || take == UNETMM_TAKE_ASIDE) {
            return;
        }
        if (take != UNETMM_TAKE_DONE) {
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
    if (rel->strict && rel_op(core, f)->right == UNETMM_RIGHT_WRITE) {
        /* A packet before it may end the channel: nothing is to be written. */
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_early);
        return;
    }
    rel_op(core, f)->early(core, ep, rel, f, payload);
}

/* The packet whose turn it is; it may have been kept already. */
static void rel_take_in_turn(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                             const struct unetmm_frame *f,
                             const uint8_t *payload)
{
    UnetmmRelTake take = UNETMM_TAKE_DONE;

    if (unetmm_recvwin_has(&rel->rx, f->psn)) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_again);
    } else {
        take = rel_turn(core, ep, rel, f, payload);
    }
    if (take == UNETMM_TAKE_DONE && rel->rx.have) {
        unetmm_rel_owe_ack(core, rel);
    } else if (take == UNETMM_TAKE_DONE && f->flags & UNETMM_WIRE_F_ASK) {
        unetmm_rel_asked(core, rel);
    }
    if (take == UNETMM_TAKE_DONE) {
        rel_go_on(core, ep, rel);
    } else if (take == UNETMM_TAKE_REFUSED) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_refused);
    }
}

/* A packet comes again: requests may have to be answered once more. */
static void rel_take_duplicate(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                               const struct unetmm_frame *f)
{
    unetmm_rel_owe_ack(core, rel);
    if (rel_op(core, f)->again) {
        rel_op(core, f)->again(core, ep, rel, f);
    } else {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_again);
    }
}

/*
 * A packet that will never be taken, and which the window and the credits
 * allow.
 */
static void rel_reject_packet(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                              const struct unetmm_frame *f, uint32_t reason,
                              enum unetmm_counter counter)
{
    if (unetmm_recvwin_again(&rel->rx, f->psn)) {
        unetmm_rel_reject_late(core, rel, f->psn, reason);
    } else if (f->psn != rel->rx.nxt) {
        counter = UNETMM_C_drop_rel_early;
    } else if (unetmm_recvwin_has(&rel->rx, f->psn)) {
        counter = UNETMM_C_drop_rel_again;
    } else {
        unetmm_recvwin_rejected(&rel->rx, rel->rx.why ?: reason);
        trace_unetmm_rel_turn(ep->id, rel->channel, f->psn,
                              UNETMM_TAKE_REJECTED);
    }
    unetmm_recv_drop(core, ep, counter);
    unetmm_rel_owe_ack(core, rel);
}

/*
 * Has the peer no right to such a packet?  A READ that comes again is read
 * again; nothing says that it was one when its number was taken.  A WRITE or
 * ATOMIC that comes again touches no region.
 */
static bool rel_denied(const UnetmmCore *core, const UnetmmRel *rel,
                       const struct unetmm_frame *f)
{
    return rel_op(core, f)->right & rel->denied &&
           (f->opcode == UNETMM_WIRE_READ ||
            !unetmm_recvwin_again(&rel->rx, f->psn));
}

static void rel_in_window(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                          const struct unetmm_frame *f, const uint8_t *payload)
{
    if (unetmm_recvwin_again(&rel->rx, f->psn)) {
        rel_take_duplicate(core, ep, rel, f);
    } else if (f->psn != rel->rx.nxt) {
        rel_early(core, ep, rel, f, payload);
    } else {
        rel_take_in_turn(core, ep, rel, f, payload);
    }
}

static void rel_by_key(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                       const struct unetmm_frame *f, const uint8_t *payload)
{
    struct unetmm_frame by_offset = *f;

    switch (unetmm_rel_keyed(core, ep, rel, &by_offset)) {
    case UNETMM_TAKE_DONE:
        rel_in_window(core, ep, rel, &by_offset, payload);
        break;
    case UNETMM_TAKE_REJECTED:
        rel_reject_packet(core, ep, rel, f, UNETMM_WHY_REGION,
                          rel_rejected(core, ep, f));
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
        if (rel->why != UNETMM_REL_QUIET) {
            unetmm_rel_owe_ack(core, rel);
        }
    } else if (!again && f->psn - rel->rx.nxt >= UNETMM_REL_WINDOW) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_window);
    } else if (!again && !unetmm_rel_granted(rel, f->psn)) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_credit);
    } else if (rel_denied(core, rel, f)) {
        rel_reject_packet(core, ep, rel, f, UNETMM_WHY_RIGHT,
                          UNETMM_C_drop_rel_denied);
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
    struct unetmm_frame ack = { .opcode = UNETMM_WIRE_ACK };

    if (f->flags & UNETMM_WIRE_F_ACK && rel->state == UNETMM_REL_OPEN) {
        memcpy(&ack.psn, (const uint8_t *)f + rel_op(core, f)->along,
               sizeof(ack.psn));
        if (rel_op(core, &ack)->at_once(core, ep, rel, &ack, NULL)) {
            unetmm_rel_complete(core, ep);
        }
    }
}

void unetmm_rel_receive(UnetmmCore *core, UnetmmEp *ep, UnetmmChannel *channel,
                        const struct unetmm_frame *f, const uint8_t *payload)
{
    const UnetmmRelOp *op = rel_op(core, f);
    UnetmmRel *rel = channel->rel;

    if (f->src_channel != channel->peer_channel) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_channel);
        return;
    }
    if (rel->state == UNETMM_REL_OPEN && rel->stage == UNETMM_CHANNEL_INIT) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_init);
        return;
    }
    unetmm_rel_wake(ep, rel);
    rel_came_along(core, ep, rel, f);
    if (ep->error) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_stopped);
    } else if (!op->at_once) {
        rel_data(core, ep, rel, f, payload);
    } else if (op->at_once(core, ep, rel, f, payload)) {
        unetmm_rel_complete(core, ep);
    }
}

/* ---- Answers and pages that arrive -------------------------------------- */

static bool packet_may_go_on(const UnetmmCore *core,
                             const UnetmmLanding *landing,
                             enum unetmm_counter *drop)
{
    const UnetmmRelOp *op = rel_op(core, &landing->header);

    return !op->may_go_on || op->may_go_on(core, landing, drop);
}

/* The pages of a packet have moved; or they have not, which `drop` counts. */
static void packet_landed(UnetmmCore *core, UnetmmEp *ep,
                          UnetmmLanding *landing, bool landed,
                          enum unetmm_counter drop)
{
    UnetmmRel *rel = g_steal_pointer(&landing->of);
    struct unetmm_frame f = landing->header;
    UnetmmRelTake take;

    unetmm_rel_wake(ep, rel);
    if (rel->state != UNETMM_REL_OPEN) {
        return;
    }
    take = rel_op(core, &f)->landed(core, ep, rel, &f, landed, drop);
    if (take == UNETMM_TAKE_HEARD) {
        unetmm_rel_complete(core, ep);
    } else if (take == UNETMM_TAKE_DONE) {
        trace_unetmm_rel_turn(ep->id, rel->channel, rel->rx.nxt, take);
        unetmm_recvwin_taken(&rel->rx);
        rel_go_on(core, ep, rel);
        unetmm_rel_owe_ack(core, rel);
    } else if (take == UNETMM_TAKE_REFUSED) {
        trace_unetmm_rel_turn(ep->id, rel->channel, rel->rx.nxt, take);
        unetmm_recvwin_tell_refusal(&rel->rx);
        unetmm_rel_owe_ack(core, rel);
    } else if (take == UNETMM_TAKE_REJECTED || take == UNETMM_TAKE_KEPT) {
        unetmm_rel_owe_ack(core, rel);
    }
}

static bool packet_place_ok(UnetmmCore *core, const UnetmmEp *ep)
{
    return unetmm_rel_landing_ok(core, core->landing->of);
}

const UnetmmLandingOps unetmm_landing_packet = {
    .name = "packet",
    .may_go_on = packet_may_go_on,
    .landed = packet_landed,
    .place_ok = packet_place_ok,
};

/* ---- Slots of the system buffer ----------------------------------------- */

/* A landing is over, for which channels may have had to wait. */
void unetmm_rel_landing_over(UnetmmCore *core)
{
    for (uint32_t i = 0; core->rel->waiting && i < core->params.endpoints;
         i++) {
        for (UnetmmRel *rel = core->eps[i].rels; rel && rel->awake;
             rel = rel->next) {
            if (rel->rx.landed) {
                unetmm_ready_push(core, &core->eps[i]);
            }
        }
    }
    core->rel->waiting = false;
}

static void rel_slots_go_on(UnetmmCore *core, UnetmmEp *ep)
{
    for (UnetmmRel *rel = ep->rels; rel && rel->awake; rel = rel->next) {
        if (!rel->rx.landed) {
            continue;
        }
        if (core->landing->active) {
            core->rel->waiting = true;
            return;
        }
        if (!unetmm_budget_left(core)) {
            unetmm_ready_push(core, ep);
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

static bool rel_ready(UnetmmEp *ep, const UnetmmRel *rel)
{
    switch (rel->rx.refused) {
    case UNETMM_REL_WANT_HEAD:
        /* A head that asks no more asks again when the packet comes. */
        if (unetmm_heads_settled(ep->queue)) {
            return true;
        }
        unetmm_shared_wait(ep);
        return false;
    case UNETMM_REL_WANT_PAGE:
        return !unetmm_rel_asks(rel, UNETMM_REL_FAULT_ARRIVE);
    case UNETMM_REL_WANT_READ:
        return !unetmm_rel_asks(rel, UNETMM_REL_FAULT_SERVE);
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
        if (rel->rx.refused == UNETMM_REL_WANT_HEAD && rel->rx.refuse) {
            unetmm_shared_wait(ep);
        }
        if (rel->state == UNETMM_REL_OPEN && rel->rx.refused &&
            !rel->rx.refuse && rel_ready(ep, rel)) {
            unetmm_recvwin_ready(&rel->rx);
            if (!rel->plain_rnr) {
                unetmm_rel_owe_ack(core, rel);
            }
        }
    }
}
