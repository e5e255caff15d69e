/*
 * unetmm: reliable channels: acknowledgements, both ways
 *
 * An acknowledgement names the packets taken (all before its psn) and kept
 * (its bits); both statements stay true, so that acknowledgements may be lost,
 * doubled and overtaken.  It is sent when it is asked for, and when a packet
 * was not the one expected; owed acknowledgements are written at the end of a
 * run, so that many packets need one.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "packet.h"

#define UNETMM_REL_MAX_BACKOFF  7       /* a wait doubles so often */

/* ---- Sent --------------------------------------------------------------- */

static void ack_reject(UnetmmCore *core, UnetmmRel *rel,
                       struct unetmm_frame *f, uint8_t why)
{
    f->imm = UNETMM_ACK_REJECTED;
    f->offset = why;
    unetmm_count(core, &core->eps[rel->ep], UNETMM_C_rel_rejects_sent, 1);
}

static void ack_fill(UnetmmCore *core, UnetmmRel *rel, struct unetmm_frame *f)
{
    unetmm_rel_header(core, rel, f, UNETMM_WIRE_ACK);
    if (rel->state == UNETMM_REL_OPEN && rel->rx.late_why) {
        /*
         * The receiver has taken request late_psn, and so all packets before
         * it: the packet may be acknowledged up to there.
         */
        f->psn = rel->rx.late_psn;
        ack_reject(core, rel, f, rel->rx.late_why);
        unetmm_recvwin_told_late(&rel->rx);
        return;
    }
    unetmm_rel_no_ack(core, rel);
    if (rel->along.question == UNETMM_REL_WAITS) {
        rel->along.question = UNETMM_REL_ANSWERED;
    }
    f->psn = rel->rx.nxt;
    f->remote = unetmm_recvwin_bits(&rel->rx);
    unetmm_rel_grant(rel, f);
    if (rel->tx.probe) {
        f->flags |= UNETMM_WIRE_F_ASK;
        unetmm_sendwin_probed(&rel->tx);
    }
    if (rel->state == UNETMM_REL_FAILED) {
        f->imm = UNETMM_ACK_FAILED;
        f->offset = rel->why;
    } else if (rel->rx.why) {
        ack_reject(core, rel, f, rel->rx.why);
    } else if (rel->rx.refuse) {
        f->imm = UNETMM_ACK_NOT_READY;
        f->offset = rel->not_ready_us;
        unetmm_count(core, &core->eps[rel->ep], UNETMM_C_rel_nacks_sent, 1);
    } else if (rel->share.unlanded & unetmm_rel_bit(rel->rx.nxt)) {
        f->imm = UNETMM_ACK_PENDING;
    }
    unetmm_recvwin_told_refusal(&rel->rx);
}

/* False: there is no room now. */
static bool ack_send(UnetmmCore *core, UnetmmRel *rel)
{
    bool local = unetmm_port_local(core, rel->mac);
    struct unetmm_frame *f;

    if (!unetmm_port_open(core, rel->mac) || !unetmm_delay_room(core)) {
        return false;
    }
    f = (struct unetmm_frame *)unetmm_port_buffer(core);
    ack_fill(core, rel, f);
    unetmm_spend(core, UNETMM_STEP_ACK, 0);
    unetmm_count(core, &core->eps[rel->ep], UNETMM_C_rel_acks_sent, 1);
    trace_unetmm_rel_ack_sent(rel->ep, rel->channel, f->psn, f->remote,
                              f->imm);
    if (!local && !core->port->link) {
        core->counters[UNETMM_C_drop_link]++;
        unetmm_port_release(core, (uint8_t *)f);
        return true;
    }
    unetmm_port_transmit(core, (uint8_t *)f, sizeof(*f));
    return true;
}

void unetmm_rel_ack_now(UnetmmCore *core, UnetmmRel *rel)
{
    if (rel->along.question == UNETMM_REL_WAITS) {
        ack_send(core, rel);
    }
}

/* Those for which there is no room now are still owed. */
void unetmm_rel_flush_acks(UnetmmCore *core)
{
    uint32_t n = core->params.reliable;

    for (uint32_t i = unetmm_rel_next_bit(core->acks, 0, n); i < n;
         i = unetmm_rel_next_bit(core->acks, i + 1, n)) {
        UnetmmRel *rel = core->rels[i];

        /* A late rejection is a frame of its own, before the usual one. */
        while (unetmm_rel_owes_ack(core, rel) && ack_send(core, rel)) {
            continue;
        }
    }
}

/* ---- Received ----------------------------------------------------------- */

/* Does it speak of packets that were sent, and only of these? */
static bool ack_possible(const UnetmmSendWindow *tx,
                         const struct unetmm_frame *f)
{
    uint32_t taken = f->psn - tx->cum;
    uint32_t beyond = tx->nxt - f->psn;     /* sent and not taken */

    if (taken > tx->nxt - tx->cum) {
        return false;
    }
    /* The first of those beyond has no bit: it is the one that is missing. */
    return beyond > 1 ? f->remote < 1ull << (beyond - 1) : !f->remote;
}

/* Ends all sends of which each packet is over. */
static void ack_end_sends(UnetmmRel *rel)
{
    for (uint32_t i = rel->msgs.first; i != rel->msgs.next; i++) {
        UnetmmRelMsg *m = unetmm_rel_msg(rel, i);

        if (m->ended) {
            continue;
        }
        if ((int32_t)(rel->tx.una - m->first_psn -
                      unetmm_rel_packets(m->len, rel->mtu)) < 0) {
            return;
        }
        m->ended = true;
    }
}

/* A packet being sent again may have become needless. */
static void ack_abort_tx(UnetmmCore *core, UnetmmEp *ep, const UnetmmRel *rel)
{
    uint32_t psn = ep->tx.psn;

    if (ep->tx.rel == rel && !ep->tx.answer && psn != rel->tx.nxt &&
        !unetmm_rel_wanted(rel, psn)) {
        unetmm_rel_abort_tx(core, ep, rel);
    }
}

static void ack_not_ready(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                          uint32_t us)
{
    uint32_t refusals = rel->tx.refusals;

    if (!unetmm_sendwin_can_refuse(&rel->tx)) {
        return;
    }
    if (rel->not_ready_retries && refusals >= rel->not_ready_retries) {
        unetmm_rel_fail(core, ep, rel, NULL, UNETMM_ST_NOT_READY,
                        UNETMM_WHY_CHANNEL);
        return;
    }
    /* A pause of 0 would have both sides ask and refuse at one moment. */
    us = MAX(1, MIN(us, UNETMM_REL_MAX_TIMEOUT_US)) <<
         (rel->plain_rnr ? 0 : MIN(refusals, UNETMM_REL_MAX_BACKOFF));
    unetmm_sendwin_refused(&rel->tx);
    unetmm_rel_arm_at(core, rel, core->ops->now_ns(core->host) +
                      MIN(us, UNETMM_REL_MAX_TIMEOUT_US) * 1000ll);
}

/* The peer takes packets again: its pauses and refusals are over. */
static void ack_ready(UnetmmCore *core, UnetmmRel *rel)
{
    if (rel->tx.paused) {
        unetmm_sendwin_resumed(&rel->tx);
        unetmm_rel_arm(core, rel);
    }
}

void unetmm_rel_progress(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         uint32_t cum, uint64_t bits, bool news)
{
    const UnetmmSendWindow *tx = &rel->tx;

    if (!unetmm_sendwin_acked(&rel->tx, cum, bits, news)) {
        return;
    }
    ack_end_sends(rel);
    ack_abort_tx(core, ep, rel);
    if (tx->una == tx->nxt) {
        unetmm_rel_starve(core, ep, rel);
    } else if (!tx->paused) {
        unetmm_rel_arm(core, rel);
    }
}

static const uint8_t reject_status[] = {
    [UNETMM_WHY_REGION] = UNETMM_ST_REVOKED,
    [UNETMM_WHY_RANGE] = UNETMM_ST_REMOTE_RANGE,
    [UNETMM_WHY_RIGHT] = UNETMM_ST_REMOTE_RIGHT,
    [UNETMM_WHY_MEMORY] = UNETMM_ST_REMOTE_MEMORY,
    [UNETMM_WHY_COUNTER] = UNETMM_ST_REMOTE_COUNTER,
};

/* Only a one-sided message on its way can be rejected. */
static bool ack_may_reject(UnetmmRel *rel, const struct unetmm_frame *f)
{
    const UnetmmSendWindow *tx = &rel->tx;
    uint64_t bit = unetmm_rel_bit(f->psn);

    return f->offset < G_N_ELEMENTS(reject_status) &&
           reject_status[f->offset] && unetmm_sendwin_flies(tx, f->psn) &&
           ((tx->voids & bit) ||
            unetmm_rel_one_sided(unetmm_rel_msg_of(rel, f->psn)));
}

/* The peer will never take this packet; it waits for the number alone. */
static void ack_rejected(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         const struct unetmm_frame *f)
{
    const UnetmmSendWindow *tx = &rel->tx;
    uint64_t bit = unetmm_rel_bit(f->psn);

    /* A request may be rejected after it was taken; nothing else may. */
    if (f->psn - tx->una < tx->cum - tx->una && !(tx->pending & bit)) {
        return;
    }
    if (!(tx->voids & bit)) {
        UnetmmRelMsg *m = unetmm_rel_msg_of(rel, f->psn);

        unetmm_count(core, ep, UNETMM_C_rel_rejects, 1);
        trace_unetmm_rel_rejected(ep->id, rel->channel, f->psn, f->offset);
        unetmm_rel_end_message(core, ep, rel, m, reject_status[f->offset]);
    }
    unetmm_sendwin_rejected(&rel->tx, f->psn);
}

/* Is it older than what has been heard already? */
static bool ack_overtaken(const UnetmmSendWindow *tx,
                          const struct unetmm_frame *f)
{
    return f->imm == UNETMM_ACK_REJECTED ?
           unetmm_rel_before(f->psn, tx->una) :
           unetmm_rel_before(f->psn, tx->cum);
}

static bool ack_believable(UnetmmRel *rel, const struct unetmm_frame *f)
{
    if (!unetmm_rel_limit_ok(f)) {
        return false;
    }
    if (f->imm == UNETMM_ACK_PENDING) {
        return ack_possible(&rel->tx, f) && f->psn != rel->tx.nxt;
    }
    if (f->imm != UNETMM_ACK_REJECTED) {
        return f->imm <= UNETMM_ACK_FAILED && ack_possible(&rel->tx, f);
    }
    return ack_may_reject(rel, f) &&
           (unetmm_rel_before(f->psn, rel->tx.cum) ||
            ack_possible(&rel->tx, f));
}

void unetmm_rel_ack(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                    const struct unetmm_frame *f)
{
    const UnetmmSendWindow *tx = &rel->tx;

    if (rel->state != UNETMM_REL_OPEN) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_failed);
        return;
    }
    if (ack_overtaken(tx, f)) {
        return;
    }
    if (!ack_believable(rel, f)) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_ack);
        return;
    }
    unetmm_count(core, ep, UNETMM_C_rel_acks, 1);
    trace_unetmm_rel_ack(ep->id, rel->channel, f->psn, f->remote, f->imm);
    if (f->flags & UNETMM_WIRE_F_ASK) {
        unetmm_rel_owe_ack(core, rel);
    }
    unetmm_rel_credit(ep, rel, f);
    if (!unetmm_rel_before(f->psn, tx->cum)) {
        unetmm_rel_progress(core, ep, rel, f->psn, f->remote, false);
    }
    if (f->imm == UNETMM_ACK_REJECTED) {
        ack_rejected(core, ep, rel, f);
        ack_ready(core, rel);
    } else if (f->imm == UNETMM_ACK_NOT_READY) {
        unetmm_count(core, ep, UNETMM_C_rel_nacks, 1);
        ack_not_ready(core, ep, rel, f->offset);
    } else if (f->imm == UNETMM_ACK_PENDING) {
        unetmm_sendwin_set_aside(&rel->tx);
        unetmm_rel_arm(core, rel);
    } else if (f->imm == UNETMM_ACK_FAILED) {
        unetmm_rel_fail(core, ep, rel, NULL,
                        f->offset == UNETMM_WHY_BUFFER ?
                        UNETMM_ST_PEER_BUFFER : UNETMM_ST_PEER_FAILED,
                        UNETMM_WHY_CHANNEL);
    } else {
        ack_ready(core, rel);
    }
    unetmm_rel_complete(core, ep);
}
