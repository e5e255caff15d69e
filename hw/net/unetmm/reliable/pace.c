/*
 * unetmm: reliable channels: the congestion control's part
 *
 * The control (congestion/) says how many packets from `una` on may go.  If the
 * window becomes smaller than the packets that fly, and none of these has
 * asked, the card asks the peer.  Without a control nothing here is done.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "packet.h"
#include "pace.h"

void unetmm_rel_pace_begin(const UnetmmCore *core, UnetmmRel *rel)
{
    unetmm_congestion_begin(&rel->congestion, &core->params);
    unetmm_rel_pace_allow(rel);
}

/* The window may have changed. */
static void pace_changed(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         bool smaller)
{
    unetmm_count(core, ep, UNETMM_C_rel_cuts, smaller);
    unetmm_rel_pace_allow(rel);
}

/* A request is timed until its answer, another packet if it asks. */
void unetmm_rel_pace_sent(UnetmmCore *core, UnetmmRel *rel,
                          const struct unetmm_frame *f, bool again)
{
    bool request = unetmm_sendwin_is_pending(&rel->tx, f->psn);
    bool asks = f->flags & UNETMM_WIRE_F_ASK;

    if (!unetmm_congestion_is_on(&core->params)) {
        return;
    }
    if (again) {
        unetmm_congestion_forget(&rel->congestion, f->psn);
    } else if (asks || request) {
        unetmm_congestion_time(&rel->congestion, f->psn, request,
                               core->ops->now_ns(core->host));
    }
    if (asks && unetmm_rel_hurries(rel)) {
        unetmm_rel_arm(core, rel);
    }
}

/* An answer that waits for a page says nothing about the network. */
void unetmm_rel_pace_silent(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel)
{
    if (unetmm_congestion_is_on(&core->params) && !rel->tx.unplaced) {
        pace_changed(core, ep, rel,
                     unetmm_congestion_silent(&rel->congestion, &core->params));
    }
}

void unetmm_rel_pace_aside(UnetmmRel *rel)
{
    unetmm_congestion_forget(&rel->congestion, rel->tx.cum);
}

/* Is the timed packet over, as far as the network is concerned? */
static bool pace_over(const UnetmmRel *rel)
{
    const UnetmmSendWindow *tx = &rel->tx;
    uint32_t psn = rel->congestion.timed_psn;

    return !unetmm_sendwin_flies(tx, psn) ||
           tx->acked & ~tx->pending & unetmm_rel_bit(psn);
}

void unetmm_rel_pace_news(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                          const UnetmmRelPace *before)
{
    const UnetmmSendWindow *tx = &rel->tx;
    UnetmmCongestionNews news = {
        .una = tx->una, .nxt = tx->nxt, .over = tx->una - before->una,
        .lost = before->in_order && tx->lost & ~before->lost,
    };
    bool smaller;

    if (!unetmm_congestion_is_on(&core->params)) {
        return;
    }
    if (rel->congestion.timing && pace_over(rel)) {
        news.trip_ns = unetmm_congestion_trip(&rel->congestion,
                                              core->ops->now_ns(core->host));
    }
    smaller = unetmm_congestion_news(&rel->congestion, &core->params, &news);
    pace_changed(core, ep, rel, smaller);
    if (unetmm_sendwin_stuck(&rel->tx)) {
        unetmm_count(core, ep, UNETMM_C_credit_probes, 1);
        unetmm_rel_owe_ack(core, rel);
    }
    trace_unetmm_rel_pace(ep->id, rel->channel, tx->most, news.trip_ns);
}
