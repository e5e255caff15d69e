/*
 * unetmm: reliable channels: a connection begins, and owns its misses
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "reliable.h"

/* A page of a region will never be there: tells the packets waiting. */
static void rel_region_error(UnetmmCore *core, UnetmmRel *rel, uint32_t psn)
{
    if (psn == rel->rx.nxt && (rel->rx.landed ||
                               (rel->share.unlanded & unetmm_rel_bit(psn)))) {
        /* The packet is in a slot, which the driver will give up as well. */
        return;
    }
    if (psn == rel->rx.nxt && rel->kept[psn % UNETMM_REL_WINDOW].frame) {
        /* A peer that gave the number twice: a message needs no region. */
        return;
    }
    if (psn == rel->rx.nxt) {
        unetmm_recvwin_ready(&rel->rx);
        unetmm_recvwin_lost(&rel->rx);
        unetmm_recvwin_rejected(&rel->rx, UNETMM_WHY_MEMORY);
        unetmm_rel_owe_ack(core, rel);
    } else if (unetmm_recvwin_again(&rel->rx, psn)) {
        unetmm_rel_reject_late(core, rel, psn, UNETMM_WHY_MEMORY);
    }
    /* An early packet asks again at its turn. */
}

/* The page of a buffer in which a message arrives will never be there. */
static void rel_buffer_error(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                             uint32_t psn, uint8_t status)
{
    /*
     * If it is not that packet's turn any more, its page has come in another
     * way: the buffer that may be there is another message's.
     */
    if (psn == rel->rx.nxt) {
        unetmm_rel_give_back(rel, status);
        unetmm_rel_fail(core, ep, rel, NULL, UNETMM_ST_FLUSHED,
                        UNETMM_WHY_MEMORY);
    }
}

/* The driver has replied for a page that a channel needs. */
static void rel_reply(UnetmmCore *core, UnetmmMiss *miss, uint8_t reply,
                      uint8_t status)
{
    UnetmmRel *rel = miss->of;
    UnetmmRelFault kind = miss - rel->misses;
    const UnetmmRelMissed *what = &rel->missed[kind];
    bool error = reply == UNETMM_REPLY_ERROR;
    UnetmmEp *ep = miss->ep;

    if (reply == UNETMM_REPLY_DEFERRED) {
        unetmm_count(core, ep, UNETMM_C_faults_deferred, 1);
        return;
    }
    unetmm_count(core, ep, UNETMM_C_faults_error, error);
    unetmm_rel_wake(ep, rel);
    if (kind == UNETMM_REL_FAULT_ANSWER) {
        if (unetmm_rel_answer_page(core, ep, rel,
                                   error ? status : UNETMM_ST_OK)) {
            unetmm_rel_complete(core, ep);
        }
    } else if (error && what->buffer) {
        rel_buffer_error(core, ep, rel, what->psn, status);
    } else if (error) {
        rel_region_error(core, rel, what->psn);
    }
    unetmm_ready_push(core, ep);
}

static const UnetmmMissOwner rel_owners[UNETMM_REL_MISSES] = {
    [UNETMM_REL_FAULT_ANSWER] = {
        .name = "answer", .write = true, .reply = rel_reply,
        .ahead = unetmm_rel_ahead,
    },
    [UNETMM_REL_FAULT_SERVE] = { .name = "serve", .reply = rel_reply },
    [UNETMM_REL_FAULT_ARRIVE] = {
        .name = "arrive", .write = true, .reply = rel_reply,
    },
};

/* A question about a region may be no packet's any more. */
static void rel_ask_otherwise(UnetmmCore *core, UnetmmRel *rel)
{
    if (unetmm_rel_asks(rel, UNETMM_REL_FAULT_SERVE)) {
        unetmm_miss_cancel(core, &rel->misses[UNETMM_REL_FAULT_SERVE]);
    }
    if (unetmm_rel_asks(rel, UNETMM_REL_FAULT_ARRIVE) &&
        !rel->missed[UNETMM_REL_FAULT_ARRIVE].buffer) {
        unetmm_miss_cancel(core, &rel->misses[UNETMM_REL_FAULT_ARRIVE]);
    }
}

/*
 * A held part was released, or a missed page is no packet's any more: channels
 * that wait for either look again.  A reply that comes all the same says
 * nothing about where the packet goes now.
 */
void unetmm_rel_moved(UnetmmCore *core, UnetmmEp *ep)
{
    for (UnetmmRel *rel = ep->rels; rel; rel = rel->next) {
        if (rel->rx.refused == UNETMM_REL_WANT_PART) {
            unetmm_recvwin_refused(&rel->rx, UNETMM_REL_WANT_PAGE);
        }
        rel_ask_otherwise(core, rel);
    }
    unetmm_ready_push(core, ep);
}

void unetmm_rel_attach(UnetmmCore *core, UnetmmRel *rel, uint16_t slot)
{
    core->rel->all[slot] = rel;
    rel->number = slot;
    rel->misses = &core->miss->all[core->params.endpoints * UNETMM_EP_MISSES +
                                   slot * UNETMM_REL_MISSES];
    for (unsigned kind = 0; kind < UNETMM_REL_MISSES; kind++) {
        unetmm_miss_own(&rel->misses[kind], &rel_owners[kind],
                        &core->eps[rel->ep], rel);
    }
    core->store->waiting[slot] = &rel->stores;
}

/* A connection in `slot`, which is free. */
UnetmmRel *unetmm_rel_new(UnetmmCore *core, UnetmmEp *ep, uint16_t slot)
{
    UnetmmRel *rel = g_new0(UnetmmRel, 1);

    unetmm_rel_join(ep, rel);
    ep->rel_ops = core->tables->channels[UNETMM_CHANNEL_RELIABLE];
    rel->ep = rel->share.ep = ep->id;
    rel->share.ops = core->tables->shares;
    unetmm_sendwin_wait(&rel->tx, INT64_MAX);
    rel->stores = (UnetmmStores) { .rel = rel, .ep = ep->id,
                                   .due_ns = INT64_MAX };
    unetmm_rel_attach(core, rel, slot);
    core->rel->used++;
    return rel;
}
