/*
 * unetmm: reliable channels: times that end
 *
 * A channel has one time: that by which an answer to its packets is due, or,
 * when the peer was not ready, that at which it is asked again; and the time of
 * an acknowledgement that waits (along.c).  The card has one moment before
 * which none of them ends; it may be too early, and is made right when it
 * comes.  It looks at the channels that had a time since it did so last.
 *
 * With a congestion control a time that follows from measured round trips comes
 * first, and doubles up to timeout_us; its expiries do not count.
 *
 * Without news the time doubles, from timeout_us up to
 * UNETMM_REL_MAX_TIMEOUT_US.  The expiry after `retries` of them ends the
 * channel (unetmm_rel_fail()): its oldest send completes with ST_TIMEOUT, the
 * others with ST_FLUSHED, and one completion more tells the process that the
 * channel has ended.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "pace.h"
#include "reliable.h"

/* Where the peer has the oldest packet, no loss is known: it is asked once. */
static uint32_t rel_retries(const UnetmmRel *rel)
{
    const UnetmmSendWindow *tx = &rel->tx;
    bool known = tx->una == tx->nxt ||
                 ((tx->acked | tx->unplaced) & unetmm_rel_bit(tx->una));

    return known ? MAX(rel->retries, 1) : rel->retries;
}

static void rel_expired(UnetmmCore *core, UnetmmRel *rel)
{
    UnetmmEp *ep = &core->eps[rel->ep];
    const UnetmmSendWindow *tx = &rel->tx;

    if (tx->una == tx->nxt && !unetmm_rel_starved(rel)) {
        unetmm_sendwin_wait(&rel->tx, INT64_MAX);
        return;
    }
    if (tx->paused) {
        unetmm_sendwin_resumed(&rel->tx);
        trace_unetmm_rel_resumed(ep->id, rel->channel, tx->una);
    } else if (!(tx->lost & unetmm_rel_bit(tx->una))) {
        if (!tx->early && tx->retries >= rel_retries(rel)) {
            unetmm_rel_fail(core, ep, rel, NULL, UNETMM_ST_TIMEOUT,
                            UNETMM_WHY_CHANNEL);
            return;
        }
        if (unetmm_sendwin_timed_out(&rel->tx)) {
            unetmm_count(core, ep, UNETMM_C_credit_probes, 1);
            unetmm_rel_owe_ack(core, rel);
        } else {
            unetmm_rel_pace_silent(core, ep, rel);
        }
        unetmm_count(core, ep, UNETMM_C_rel_timeouts, 1);
        trace_unetmm_rel_timeout(ep->id, rel->channel, tx->una, tx->retries);
    }
    /* A lost packet that waits for its turn cannot time out. */
    unetmm_rel_arm(core, rel);
    unetmm_rel_wake(ep, rel);
    unetmm_ready_push(core, ep);
}

void unetmm_rel_timer(UnetmmCore *core, int64_t now)
{
    uint32_t n = core->params.reliable;

    core->rel->due_ns = INT64_MAX;
    for (uint32_t i = unetmm_next_bit(core->rel->timed, 0, n); i < n;
         i = unetmm_next_bit(core->rel->timed, i + 1, n)) {
        UnetmmRel *rel = core->rel->all[i];
        int64_t due = INT64_MAX;

        if (rel && rel->tx.deadline_ns <= now) {
            rel_expired(core, rel);
        }
        if (rel) {
            due = unetmm_rel_along_due(core, rel, now);
            due = MIN(due, rel->tx.deadline_ns);
        }
        if (due == INT64_MAX) {
            core->rel->timed[i / 64] &= ~(1ull << i % 64);
        }
        core->rel->due_ns = MIN(core->rel->due_ns, due);
    }
}
