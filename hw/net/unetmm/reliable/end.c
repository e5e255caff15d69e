/*
 * unetmm: reliable channels: the end of a connection, in error or by a clear
 *
 * A connection whose channel was cleared lives on (CLOSED) until the sends that
 * it took have been completed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "packet.h"

const UnetmmRelMsg unetmm_rel_nobody;

void unetmm_rel_drop_kept(UnetmmCore *core, UnetmmRel *rel)
{
    for (unsigned i = 0; i < UNETMM_REL_WINDOW; i++) {
        if (rel->kept[i].frame) {
            unetmm_port_release(core, g_steal_pointer(&rel->kept[i].frame));
            core->rel->kept--;
        }
    }
    rel->share.unlanded = 0;
    unetmm_recvwin_drop(&rel->rx);
}

void unetmm_rel_give_back(UnetmmRel *rel, uint8_t status)
{
    if (rel->in.claimed && !rel->in.giving_back) {
        rel->in.giving_back = true;
        rel->in.buf_status = status;
    }
}

void unetmm_rel_abort_tx(UnetmmCore *core, UnetmmEp *ep, const UnetmmRel *rel)
{
    if (ep->tx.rel != rel) {
        return;
    }
    if (ep->tx.moving) {
        ep->tx.needless = true;
        return;
    }
    unetmm_miss_cancel(core, &ep->misses[0]);
    unetmm_send_abort(core, ep);
}

/*
 * Ends all sends that have not ended; see unetmm_rel_fail().  False: no send
 * has the status.
 */
static bool rel_end_sends(UnetmmRel *rel, const UnetmmRelMsg *blame,
                          uint8_t status, uint8_t others)
{
    for (uint32_t i = rel->msgs.first; i != rel->msgs.end; i++) {
        UnetmmRelMsg *m = unetmm_rel_msg(rel, i);

        if (m->ended) {
            continue;
        }
        blame = blame ?: m;
        m->ended = true;
        m->status = m == blame ? status : others;
    }
    rel->ending.due = false;
    rel->msgs.next = rel->msgs.end;
    unetmm_sendwin_end(&rel->tx);
    return blame && blame != &unetmm_rel_nobody;
}

/* Common to the end of a channel in error and by a clear. */
static void rel_leave(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel)
{
    unetmm_rel_drop_kept(core, rel);
    unetmm_rel_abort_tx(core, ep, rel);
    unetmm_rel_ask_no_more(core, rel);
    unetmm_recvwin_end(&rel->rx);
    rel->answers.owed = 0;
    rel->along.question = UNETMM_REL_NO_QUESTION;
    unetmm_rel_wake(ep, rel);
    unetmm_ready_push(core, ep);
}

void unetmm_rel_fail(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                     const UnetmmRelMsg *blame, uint8_t status, uint8_t reason)
{
    if (rel->state != UNETMM_REL_OPEN) {
        return;
    }
    rel->state = UNETMM_REL_FAILED;
    rel->why = reason;
    unetmm_count(core, ep, UNETMM_C_rel_failed, reason != UNETMM_REL_QUIET);
    trace_unetmm_rel_failed(ep->id, rel->channel, status, reason);
    if (!rel_end_sends(rel, blame, status, UNETMM_ST_FLUSHED) &&
        rel->strict && status != UNETMM_ST_FLUSHED) {
        unetmm_notify_end(core, ep, status);
    }
    unetmm_window_forget(core, ep, &rel->stores);
    unetmm_rel_give_back(rel, UNETMM_ST_FLUSHED);
    rel_leave(core, ep, rel);
    unetmm_channel_ended(core, ep, rel->channel, status);
    /* The other half is told, unless it was it that told us. */
    if (reason != UNETMM_REL_QUIET && status != UNETMM_ST_PEER_FAILED &&
        status != UNETMM_ST_PEER_BUFFER) {
        unetmm_rel_owe_ack(core, rel);
    }
}

void unetmm_rel_end_at(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                       const UnetmmRelMsg *m, uint8_t status)
{
    uint32_t at = (uint32_t)(m - rel->msgs.msg) - rel->msgs.first;
    UnetmmRelEnding ending = {
        .due = true, .status = status,
        .msg = rel->msgs.first + at % UNETMM_REL_MSGS,
    };

    /* A send before it may fail later. */
    if (!rel->ending.due ||
        (int32_t)(rel->ending.msg - ending.msg) > 0) {
        rel->ending = ending;
    }
    unetmm_rel_wake(ep, rel);
    unetmm_ready_push(core, ep);
}

void unetmm_rel_close(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel)
{
    unetmm_rel_ack_now(core, rel);
    rel->state = UNETMM_REL_CLOSED;
    rel_end_sends(rel, NULL, UNETMM_ST_BAD_CHANNEL, UNETMM_ST_BAD_CHANNEL);
    unetmm_window_forget(core, ep, &rel->stores);
    unetmm_rel_give_back(rel, UNETMM_ST_BAD_CHANNEL);
    unetmm_rel_no_ack(core, rel);
    rel_leave(core, ep, rel);
}

void unetmm_rel_detach(UnetmmCore *core, UnetmmRel *rel)
{
    core->rel->all[rel->number] = NULL;
    for (unsigned kind = 0; kind < UNETMM_REL_MISSES; kind++) {
        unetmm_miss_own(&rel->misses[kind], NULL, NULL, NULL);
    }
    core->store->waiting[rel->number] = NULL;
}

void unetmm_rel_delete(UnetmmCore *core, UnetmmRel *rel)
{
    unetmm_window_forget(core, &core->eps[rel->ep], &rel->stores);
    unetmm_rel_drop_kept(core, rel);
    unetmm_rel_no_ack(core, rel);
    unetmm_sysbuf_forget(core, &rel->share);
    unetmm_rel_detach(core, rel);
    core->rel->used--;
    g_free(rel);
}
