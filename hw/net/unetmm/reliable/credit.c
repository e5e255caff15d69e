/*
 * unetmm: reliable channels: credits: how many packets may be sent
 *
 * An endpoint with slots of a system buffer for a channel tells its peer the
 * highest number to send: the next one expected and so many more.  It is a
 * limit, not a difference, and never goes back; so it may be lost, doubled and
 * overtaken.  Packets that are sent again and acknowledgements need none.
 *
 * The packet that uses the last credit asks for more.  If the answer is lost
 * the channel's time ends, and a probe (an acknowledgement that asks for one)
 * is sent; the same is sent while the peer has a packet that is not in its
 * place, for which it says PENDING: it needs no second copy of it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "packet.h"

/* ---- Granted ------------------------------------------------------------ */

void unetmm_rel_grant(const UnetmmRel *rel, struct unetmm_frame *f)
{
    if (rel->share.credits && rel->state == UNETMM_REL_OPEN) {
        f->flags |= UNETMM_WIRE_F_CREDIT;
        f->handle = rel->rx.nxt + rel->share.credits;
    }
}

bool unetmm_rel_granted(const UnetmmRel *rel, uint32_t psn)
{
    return !rel->share.credits || psn - rel->rx.nxt < rel->share.credits;
}

/* ---- Used --------------------------------------------------------------- */

bool unetmm_rel_out_of_credits(const UnetmmRelTx *tx)
{
    return tx->limited && (int32_t)(tx->limit - tx->nxt) <= 0;
}

bool unetmm_rel_starved(const UnetmmRelTx *tx)
{
    return unetmm_rel_out_of_credits(tx) && tx->msg_next != tx->msg_end;
}

void unetmm_rel_starve(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel)
{
    UnetmmRelTx *tx = &rel->tx;

    if (!unetmm_rel_starved(tx)) {
        tx->starves = false;
        return;
    }
    unetmm_count(core, ep, UNETMM_C_credit_waits, !tx->starves);
    tx->starves = true;
    if (tx->deadline_ns == INT64_MAX) {
        unetmm_rel_arm(core, rel);
    }
}

bool unetmm_rel_limit_ok(const struct unetmm_frame *f)
{
    /* A peer has no more slots for a channel than that has numbers. */
    return !(f->flags & UNETMM_WIRE_F_CREDIT) ||
           f->handle - f->psn <= UNETMM_REL_WINDOW;
}

void unetmm_rel_credit(const UnetmmEp *ep, UnetmmRel *rel,
                       const struct unetmm_frame *f)
{
    UnetmmRelTx *tx = &rel->tx;

    if (!tx->limited || !(f->flags & UNETMM_WIRE_F_CREDIT) ||
        (int32_t)(f->handle - tx->limit) <= 0) {
        return;
    }
    tx->limit = f->handle;
    trace_unetmm_rel_credit(ep->id, rel->channel, tx->limit);
    if (tx->starves) {
        tx->starves = false;
        tx->retries = 0;
        if (tx->una == tx->nxt) {
            tx->deadline_ns = INT64_MAX;
        }
    }
}

/* ---- Asked for ---------------------------------------------------------- */

bool unetmm_rel_probes(const UnetmmRelTx *tx)
{
    return tx->una == tx->nxt ? unetmm_rel_starved(tx) :
           (tx->acked & unetmm_rel_bit(tx->una)) &&
           !(tx->pending & unetmm_rel_bit(tx->una));
}

void unetmm_rel_probe(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel)
{
    rel->tx.probe = true;
    unetmm_count(core, ep, UNETMM_C_credit_probes, 1);
    unetmm_rel_owe_ack(core, rel);
}

void unetmm_rel_pending(UnetmmCore *core, UnetmmRel *rel)
{
    UnetmmRelTx *tx = &rel->tx;

    tx->aside = true;
    tx->acked |= unetmm_rel_bit(tx->cum);
    tx->lost &= ~unetmm_rel_bit(tx->cum);
    tx->paused = false;
    tx->retries = tx->refusals = 0;
    unetmm_rel_arm(core, rel);
}
