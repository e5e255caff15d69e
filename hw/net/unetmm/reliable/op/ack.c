/*
 * unetmm: reliable channels: acknowledgements that come
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../../abi/unetmm_host.h"
#include "../../abi/unetmm_lists.h"
#include "../packet.h"
#include "../pace.h"

#define UNETMM_REL_MAX_BACKOFF  7       /* a wait doubles so often */

/* Does the ACK name packets that were sent, and only these? */
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

static void ack_not_ready(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                          uint32_t us)
{
    uint32_t refusals = rel->tx.refusals;

    if (!unetmm_sendwin_can_refuse(&rel->tx)) {
        return;
    }
    if (rel->not_ready_retries != UNETMM_REL_NO_LIMIT &&
        refusals >= rel->not_ready_retries) {
        if (rel->strict && rel->tx.cum != rel->tx.nxt) {
            /* Before the refused one there may be READs. */
            unetmm_rel_end_at(core, ep, rel,
                              unetmm_rel_msg_of(rel, rel->tx.cum),
                              UNETMM_ST_NOT_READY);
        } else {
            unetmm_rel_fail(core, ep, rel, NULL, UNETMM_ST_NOT_READY,
                            UNETMM_WHY_CHANNEL);
        }
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

#define STATUS(number, upper, status, meaning) [number] = UNETMM_ST_##status,
static const uint8_t reject_status[] = { UNETMM_WHYS(STATUS) };

uint8_t unetmm_rel_reject_status(uint32_t reason)
{
    return reason < G_N_ELEMENTS(reject_status) ? reject_status[reason] :
           UNETMM_ST_OK;
}

/* Only a one-sided message on its way can be rejected. */
static bool ack_may_reject(UnetmmRel *rel, const struct unetmm_frame *f)
{
    const UnetmmSendWindow *tx = &rel->tx;
    uint64_t bit = unetmm_rel_bit(f->psn);

    return unetmm_rel_reject_status(f->offset) &&
           unetmm_sendwin_flies(tx, f->psn) &&
           ((tx->voids & bit) ||
            unetmm_rel_msg_of(rel, f->psn)->kind->sqe.one_sided);
}

/* The peer will never take this packet; it waits for the number alone. */
static void ack_rejected(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         const struct unetmm_frame *f)
{
    const UnetmmSendWindow *tx = &rel->tx;
    uint64_t bit = unetmm_rel_bit(f->psn);

    /* A request may be rejected after it was taken; nothing else may. */
    if ((f->psn - tx->una < tx->cum - tx->una && !(tx->pending & bit)) ||
        !unetmm_rel_goes(rel, f->psn)) {
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

/*
 * The peer's half has ended.  With a strict channel the number says for which
 * send; unless a packet of the peer was rejected here: then for that packet.
 */
static void ack_failed(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                       const struct unetmm_frame *f)
{
    uint8_t status = f->offset == UNETMM_WHY_BUFFER ? UNETMM_ST_PEER_BUFFER :
                     UNETMM_ST_PEER_FAILED;
    const UnetmmRelMsg *blame = NULL;

    if (rel->strict && rel->rx.why) {
        status = unetmm_rel_reject_status(rel->rx.why);
        blame = &unetmm_rel_nobody;
    } else if (rel->strict && unetmm_sendwin_flies(&rel->tx, f->psn) &&
               !unetmm_sendwin_is_void(&rel->tx, f->psn)) {
        status = unetmm_rel_reject_status(f->offset) ?: status;
        blame = unetmm_rel_msg_of(rel, f->psn);
    }
    unetmm_rel_fail(core, ep, rel, blame, status, UNETMM_WHY_CHANNEL);
    unetmm_rel_no_ack(core, rel);
}

/* Is the ACK older than the last news? */
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

static bool ack_received(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         const struct unetmm_frame *f, const uint8_t *payload)
{
    const UnetmmSendWindow *tx = &rel->tx;

    if (rel->state != UNETMM_REL_OPEN) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_failed);
        return false;
    }
    if (ack_overtaken(tx, f)) {
        return false;
    }
    if (!ack_believable(rel, f)) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_ack);
        return false;
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
        unetmm_rel_pace_aside(rel);
        unetmm_rel_arm(core, rel);
    } else if (f->imm == UNETMM_ACK_FAILED) {
        ack_failed(core, ep, rel, f);
    } else {
        ack_ready(core, rel);
    }
    return true;
}

static bool ack_header_ok(const struct unetmm_frame *f)
{
    return !f->handle || f->flags & UNETMM_WIRE_F_CREDIT;
}

const UnetmmRelOp unetmm_rel_op_ack = {
    .header = { .with = UNETMM_WITH_RELIABLE,
                .flags = UNETMM_WIRE_F_PAYLOAD_CRC | UNETMM_WIRE_F_ASK |
                         UNETMM_WIRE_F_CREDIT,
                .psn = true, .offset = true, .remote = true, .handle = true,
                .imm = true, .ok = ack_header_ok },
    .at_once = ack_received,
};
