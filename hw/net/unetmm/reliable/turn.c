/*
 * unetmm: reliable channels: an endpoint's turn to send a packet
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "reliable.h"

UnetmmRel *unetmm_rel_first(const UnetmmEp *ep)
{
    UnetmmRel *rel = ep->rels;

    while (rel && rel->awake && !unetmm_rel_can_send(rel) &&
           !unetmm_rel_can_answer(rel)) {
        rel = rel->next;
    }
    return rel && rel->awake ? rel : NULL;
}

bool unetmm_rel_next(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *t)
{
    UnetmmRel *rel = unetmm_rel_first(ep);

    if (!rel || ep->error) {
        return false;
    }
    if (unetmm_rel_can_answer(rel) &&
        !(rel->answers.answered && unetmm_rel_can_send(rel))) {
        unetmm_rel_load_answer(core, ep, rel, t);
    } else {
        unetmm_rel_load_packet(core, rel, unetmm_sendwin_pick(&rel->tx), t);
        rel->answers.answered = false;
    }
    /* The others are before it the next time. */
    unetmm_rel_last(ep, rel);
    return true;
}
