/*
 * unetmm: reliable channels: acknowledgements that go out
 *
 * An acknowledgement names the packets taken (all before its psn) and kept
 * (its bits); both statements stay true, so that acknowledgements may be lost,
 * doubled and overtaken.  It is sent when it is asked for, and when a packet
 * was not the one expected; owed acknowledgements are written at the end of a
 * run, so that many packets need one.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "packet.h"

static void ack_reject(UnetmmCore *core, UnetmmRel *rel,
                       struct unetmm_frame *f, uint8_t reason)
{
    f->imm = UNETMM_ACK_REJECTED;
    f->offset = reason;
    unetmm_count(core, &core->eps[rel->ep], UNETMM_C_rel_rejects_sent, 1);
}

static void ack_fill(UnetmmCore *core, UnetmmRel *rel, struct unetmm_frame *f)
{
    unetmm_rel_header(core, rel, f, UNETMM_WIRE_ACK);
    if (rel->state == UNETMM_REL_OPEN && rel->rx.late_why) {
        /*
         * The receiver has taken request late_psn, and so all packets before
         * it: the packet may be acknowledged up to there.
         */
        f->psn = rel->rx.late_psn;
        ack_reject(core, rel, f, rel->rx.late_why);
        unetmm_recvwin_told_late(&rel->rx);
        return;
    }
    unetmm_rel_no_ack(core, rel);
    if (rel->along.question == UNETMM_REL_WAITS) {
        rel->along.question = UNETMM_REL_ANSWERED;
    }
    f->psn = rel->rx.nxt;
    f->remote = unetmm_recvwin_bits(&rel->rx);
    unetmm_rel_grant(rel, f);
    if (rel->tx.probe) {
        f->flags |= UNETMM_WIRE_F_ASK;
        unetmm_sendwin_probed(&rel->tx);
    }
    if (rel->state == UNETMM_REL_FAILED && rel->why != UNETMM_REL_QUIET) {
        f->imm = UNETMM_ACK_FAILED;
        f->offset = rel->why;
    } else if (rel->rx.why) {
        ack_reject(core, rel, f, rel->rx.why);
    } else if (rel->rx.refuse) {
        f->imm = UNETMM_ACK_NOT_READY;
        f->offset = rel->not_ready_us;
        unetmm_count(core, &core->eps[rel->ep], UNETMM_C_rel_nacks_sent, 1);
    } else if (rel->share.unlanded & unetmm_rel_bit(rel->rx.nxt)) {
        f->imm = UNETMM_ACK_PENDING;
    }
    unetmm_recvwin_told_refusal(&rel->rx);
}

/* False: there is no room now. */
static bool ack_send(UnetmmCore *core, UnetmmRel *rel)
{
    bool local = unetmm_port_local(core, rel->mac);
    struct unetmm_frame *f;

    if (!unetmm_port_open(core, rel->mac) || !unetmm_delay_room(core)) {
        return false;
    }
    f = (struct unetmm_frame *)unetmm_port_buffer(core);
    ack_fill(core, rel, f);
    unetmm_spend(core, UNETMM_STEP_ACK, 0);
    unetmm_count(core, &core->eps[rel->ep], UNETMM_C_rel_acks_sent, 1);
    trace_unetmm_rel_ack_sent(rel->ep, rel->channel, f->psn, f->remote,
                              f->imm);
    if (!local && !core->port->link) {
        core->counters[UNETMM_C_drop_link]++;
        unetmm_port_release(core, (uint8_t *)f);
        return true;
    }
    unetmm_port_transmit(core, (uint8_t *)f, sizeof(*f));
    return true;
}

void unetmm_rel_ack_now(UnetmmCore *core, UnetmmRel *rel)
{
    if (rel->along.question == UNETMM_REL_WAITS) {
        ack_send(core, rel);
    }
}

/* Acknowledgements for which there is no room now stay owed. */
void unetmm_rel_flush_acks(UnetmmCore *core)
{
    uint32_t n = core->params.reliable;

    for (uint32_t i = unetmm_next_bit(core->rel->acks, 0, n); i < n;
         i = unetmm_next_bit(core->rel->acks, i + 1, n)) {
        UnetmmRel *rel = core->rel->all[i];

        /* A late rejection is a frame of its own, before the usual one. */
        while (unetmm_rel_owes_ack(core, rel) && ack_send(core, rel)) {
            continue;
        }
    }
}
