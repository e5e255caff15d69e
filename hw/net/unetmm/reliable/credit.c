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

bool unetmm_rel_starved(const UnetmmRel *rel)
{
    return unetmm_sendwin_no_credit(&rel->tx) &&
           rel->msgs.next != rel->msgs.end;
}

void unetmm_rel_starve(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel)
{
    bool starved = unetmm_rel_starved(rel);

    if (unetmm_sendwin_starve(&rel->tx, starved)) {
        unetmm_count(core, ep, UNETMM_C_credit_waits, 1);
    }
    if (starved && rel->tx.deadline_ns == INT64_MAX) {
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
    if (f->flags & UNETMM_WIRE_F_CREDIT &&
        unetmm_sendwin_credit(&rel->tx, f->handle)) {
        trace_unetmm_rel_credit(ep->id, rel->channel, f->handle);
    }
}
