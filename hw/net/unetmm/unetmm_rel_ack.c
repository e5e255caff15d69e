/*
 * unetmm: reliable channels: acknowledgements, both ways
 *
 * An acknowledgement says what has been taken (all before its psn) and what
 * has been kept (its bits); neither is ever taken back, so that
 * acknowledgements may be lost, doubled and overtaken.  It is sent when it is
 * asked for, and when a packet was not the one expected; what is owed is
 * written at the end of a run, so that many packets need one.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "unetmm_host.h"
#include "unetmm_rel.h"

/* ---- Sent --------------------------------------------------------------- */

void unetmm_rel_owe_ack(UnetmmCore *core, UnetmmRel *rel)
{
    uint64_t *word = &core->acks[rel->slot / 64];
    uint64_t bit = 1ull << rel->slot % 64;

    core->acks_owed += !(*word & bit);
    *word |= bit;
}

void unetmm_rel_no_ack(UnetmmCore *core, UnetmmRel *rel)
{
    uint64_t *word = &core->acks[rel->slot / 64];
    uint64_t bit = 1ull << rel->slot % 64;

    core->acks_owed -= !!(*word & bit);
    *word &= ~bit;
}

/* Bit i: packet nxt + 1 + i is kept. */
static uint64_t ack_bits(const UnetmmRelRx *rx)
{
    uint64_t bits = 0;

    for (uint32_t i = 0; rx->have && i < UNETMM_REL_WINDOW - 1; i++) {
        if (rx->have & unetmm_rel_bit(rx->nxt + 1 + i)) {
            bits |= 1ull << i;
        }
    }
    return bits;
}

static void ack_fill(UnetmmCore *core, UnetmmRel *rel, struct unetmm_frame *f)
{
    unetmm_rel_header(core, rel, f, UNETMM_WIRE_ACK);
    f->psn = rel->rx.nxt;
    f->remote = ack_bits(&rel->rx);
    if (rel->state == UNETMM_REL_FAILED) {
        f->imm = UNETMM_ACK_FAILED;
        f->offset = rel->why;
    } else if (rel->rx.refuse) {
        f->imm = UNETMM_ACK_NOT_READY;
        f->offset = UNETMM_REL_NOT_READY_US;
        unetmm_count(core, &core->eps[rel->ep], UNETMM_C_rel_nacks_sent, 1);
    }
    rel->rx.refuse = false;
}

static void ack_send(UnetmmCore *core, UnetmmRel *rel)
{
    bool local = unetmm_port_local(core, rel->mac);
    struct unetmm_frame *f;

    if (!unetmm_port_open(core, rel->mac) || !unetmm_delay_room(core)) {
        return;
    }
    unetmm_rel_no_ack(core, rel);
    f = (struct unetmm_frame *)unetmm_port_buffer(core);
    ack_fill(core, rel, f);
    unetmm_count(core, &core->eps[rel->ep], UNETMM_C_rel_acks_sent, 1);
    trace_unetmm_rel_ack_sent(rel->ep, rel->channel, f->psn, f->remote,
                              f->imm);
    if (!local && !core->port.link) {
        core->counters[UNETMM_C_drop_link]++;
        unetmm_port_release(core, (uint8_t *)f);
        return;
    }
    unetmm_port_transmit(core, (uint8_t *)f, sizeof(*f));
}

/* Those for which there is no room now are still owed. */
void unetmm_rel_flush_acks(UnetmmCore *core)
{
    for (uint32_t i = 0; core->acks_owed && i < core->params.reliable; i++) {
        if (core->acks[i / 64] & 1ull << i % 64) {
            ack_send(core, core->rels[i]);
        }
    }
}

/* ---- Received ----------------------------------------------------------- */

/* Does it speak of packets that were sent, and only of these? */
static bool ack_possible(const UnetmmRelTx *tx, const struct unetmm_frame *f)
{
    uint32_t taken = f->psn - tx->una;
    uint32_t beyond = tx->nxt - f->psn;     /* sent and not taken */

    if (taken > tx->nxt - tx->una) {
        return false;
    }
    /* The first of those beyond has no bit: it is the one that is missing. */
    return beyond > 1 ? f->remote < 1ull << (beyond - 1) : !f->remote;
}

static void ack_one(UnetmmRelTx *tx, uint32_t psn)
{
    uint32_t stamp = tx->stamps[psn % UNETMM_REL_WINDOW];

    if ((int32_t)(stamp - tx->acked_stamp) > 0) {
        tx->acked_stamp = stamp;
    }
    tx->lost &= ~unetmm_rel_bit(psn);
}

/* Takes over what is new in it.  True: something is. */
static bool ack_progress(UnetmmRelTx *tx, const struct unetmm_frame *f)
{
    bool news = f->psn != tx->una;

    for (; tx->una != f->psn; tx->una++) {
        if (!(tx->acked & unetmm_rel_bit(tx->una))) {
            ack_one(tx, tx->una);
        }
        tx->acked &= ~unetmm_rel_bit(tx->una);
    }
    for (uint32_t i = 0; f->remote >> i && i < UNETMM_REL_WINDOW - 1; i++) {
        uint32_t psn = f->psn + 1 + i;

        if ((f->remote >> i & 1) && !(tx->acked & unetmm_rel_bit(psn))) {
            tx->acked |= unetmm_rel_bit(psn);
            ack_one(tx, psn);
            news = true;
        }
    }
    /* It is what the peer expects, whatever was said of it before. */
    tx->acked &= ~unetmm_rel_bit(tx->una);
    return news;
}

/*
 * A packet after which enough others were sent that arrived is lost: some, as
 * frames may overtake each other a little; but one, when all before it were
 * probably lost, by a silence or a refusal.
 */
static void ack_find_lost(UnetmmRelTx *tx)
{
    int32_t enough = tx->retries || tx->refusals ? 1 : UNETMM_REL_OVERTAKEN;

    for (uint32_t psn = tx->una; psn != tx->nxt; psn++) {
        int32_t later = tx->acked_stamp -
                        tx->stamps[psn % UNETMM_REL_WINDOW];

        if (!(tx->acked & unetmm_rel_bit(psn)) &&
            later >= enough) {
            tx->lost |= unetmm_rel_bit(psn);
        }
    }
}

/* Sends all of whose packets have been taken. */
static void ack_end_sends(UnetmmRel *rel)
{
    UnetmmRelTx *tx = &rel->tx;

    for (uint32_t i = tx->msg_first; i != tx->msg_next; i++) {
        UnetmmRelMsg *m = unetmm_rel_msg(rel, i);

        if (m->ended) {
            continue;
        }
        if ((int32_t)(tx->una - m->first_psn -
                      unetmm_rel_packets(m->len, rel->mtu)) < 0) {
            return;
        }
        m->ended = true;
    }
}

/* What is on its way to be sent again may have become needless. */
static void ack_abort_tx(UnetmmCore *core, UnetmmEp *ep, const UnetmmRel *rel)
{
    uint32_t psn = ep->tx.psn;

    if (ep->tx.rel == rel && psn != rel->tx.nxt &&
        (psn - rel->tx.una >= rel->tx.nxt - rel->tx.una ||
         (rel->tx.acked & unetmm_rel_bit(psn)))) {
        unetmm_rel_abort_tx(core, ep, rel);
    }
}

static void ack_not_ready(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                          uint32_t us)
{
    UnetmmRelTx *tx = &rel->tx;

    /* Of one pause, or of what is not on its way: it says nothing new. */
    if (tx->paused || tx->una == tx->nxt ||
        (tx->refusals && (tx->lost & unetmm_rel_bit(tx->una)))) {
        return;
    }
    if (rel->not_ready_retries && tx->refusals >= rel->not_ready_retries) {
        unetmm_rel_fail(core, ep, rel, NULL, UNETMM_ST_NOT_READY,
                        UNETMM_WHY_CHANNEL);
        return;
    }
    us = MIN(us, UNETMM_REL_MAX_TIMEOUT_US) <<
         MIN(tx->refusals, UNETMM_REL_MAX_BACKOFF);
    tx->refusals++;
    tx->paused = true;
    unetmm_rel_arm_at(core, rel, core->ops->now_ns(core->host) +
                      MIN(us, UNETMM_REL_MAX_TIMEOUT_US) * 1000ll);
}

/* The peer is there, and takes packets: no more waiting for what is over. */
static void ack_ready(UnetmmCore *core, UnetmmRel *rel)
{
    UnetmmRelTx *tx = &rel->tx;

    if (tx->paused) {
        tx->paused = false;
        tx->lost |= unetmm_rel_bit(tx->una);
        unetmm_rel_arm(core, rel);
    }
}

void unetmm_rel_ack(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                    const struct unetmm_frame *f)
{
    UnetmmRelTx *tx = &rel->tx;
    uint32_t una = tx->una;

    if (rel->state != UNETMM_REL_OPEN) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_failed);
        return;
    }
    if (tx->una - f->psn - 1 < UNETMM_REL_WINDOW) {
        return;                 /* overtaken by a later one */
    }
    if (f->imm > UNETMM_ACK_FAILED || !ack_possible(tx, f)) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_ack);
        return;
    }
    unetmm_count(core, ep, UNETMM_C_rel_acks, 1);
    trace_unetmm_rel_ack(ep->id, rel->channel, f->psn, f->remote, f->imm);
    if (ack_progress(tx, f)) {
        ack_find_lost(tx);
        tx->retries = 0;
        if (tx->una != una) {
            tx->refusals = 0;
            tx->paused = false;
        }
        ack_end_sends(rel);
        ack_abort_tx(core, ep, rel);
        if (tx->una == tx->nxt) {
            tx->deadline_ns = INT64_MAX;
        } else if (!tx->paused) {
            unetmm_rel_arm(core, rel);
        }
    }
    if (f->imm == UNETMM_ACK_NOT_READY) {
        unetmm_count(core, ep, UNETMM_C_rel_nacks, 1);
        ack_not_ready(core, ep, rel, f->offset);
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
