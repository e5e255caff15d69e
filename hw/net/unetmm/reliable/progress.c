/*
 * unetmm: reliable channels: sends go on, or end
 *
 * Acknowledgements, answers and the end of a message say here which packets
 * the peer has.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "packet.h"
#include "pace.h"

/* Ends all sends of which each packet is over. */
static void progress_end_sends(UnetmmRel *rel)
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
        /* Strict: the peer's word comes too late for one that has failed. */
        if (rel->ending.due && (int32_t)(i - rel->ending.msg) >= 0) {
            m->status = i == rel->ending.msg ? rel->ending.status :
                        UNETMM_ST_FLUSHED;
        }
    }
}

/* A packet being sent again may have become needless. */
static void progress_abort_tx(UnetmmCore *core, UnetmmEp *ep,
                              const UnetmmRel *rel)
{
    uint32_t psn = ep->tx.psn;

    if (ep->tx.rel == rel && !ep->tx.answer && psn != rel->tx.nxt &&
        !unetmm_rel_wanted(rel, psn)) {
        unetmm_rel_abort_tx(core, ep, rel);
    }
}

void unetmm_rel_progress(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         uint32_t cum, uint64_t bits, bool news)
{
    const UnetmmSendWindow *tx = &rel->tx;
    UnetmmRelPace before = unetmm_rel_pace(tx);

    if (!unetmm_sendwin_acked(&rel->tx, cum, bits, news)) {
        return;
    }
    unetmm_rel_pace_news(core, ep, rel, &before);
    progress_end_sends(rel);
    progress_abort_tx(core, ep, rel);
    if (tx->una == tx->nxt) {
        unetmm_rel_starve(core, ep, rel);
    } else if (!tx->paused) {
        unetmm_rel_arm(core, rel);
    }
}

/* Drops the part of it in ep->tx. */
static void rel_abort_message(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                              const UnetmmRelMsg *m)
{
    if (ep->tx.rel == rel && !ep->tx.answer &&
        (ep->tx.psn == rel->tx.nxt ||
         unetmm_sendwin_flies(&rel->tx, ep->tx.psn)) &&
        !unetmm_sendwin_is_void(&rel->tx, ep->tx.psn) &&
        unetmm_rel_msg_of(rel, ep->tx.psn) == m) {
        unetmm_rel_abort_tx(core, ep, rel);
    }
}

void unetmm_rel_end_message(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                            UnetmmRelMsg *m, uint8_t status)
{
    const UnetmmSendWindow *tx = &rel->tx;

    rel_abort_message(core, ep, rel, m);
    if (rel->strict) {
        unetmm_rel_end_at(core, ep, rel, m, status);
        return;
    }
    for (uint32_t psn = tx->una; psn != tx->nxt; psn++) {
        if (!unetmm_sendwin_is_void(tx, psn) &&
            unetmm_rel_msg_of(rel, psn) == m) {
            unetmm_sendwin_void(&rel->tx, psn);
        }
    }
    unetmm_sendwin_rewound(&rel->tx);
    m->ended = true;
    m->status = status;
    if (rel->msgs.next != rel->msgs.end &&
        unetmm_rel_msg(rel, rel->msgs.next) == m) {
        rel->msgs.next++;
    }
    unetmm_rel_progress(core, ep, rel, tx->cum, 0, true);
}
