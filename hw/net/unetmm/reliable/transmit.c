/*
 * unetmm: reliable channels: messages into packets, and packets again
 *
 * The card keeps no copy of sent data: each packet is gathered from the
 * process's memory when it goes out, the first time and every other, by the
 * same resumable transfer as any send (send/send.c), which may wait for a
 * translation each time.  Only inline data is kept.
 *
 * All packets of a channel have one numbering, and messages complete in one
 * order; the row of its opcode (op/) fills a packet's header.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "packet.h"
#include "pace.h"

#define UNETMM_REL_ASK_EVERY    16      /* packets without a question */

void unetmm_rel_load_packet(UnetmmCore *core, UnetmmRel *rel, uint32_t psn,
                            UnetmmTransfer *t)
{
    const UnetmmRelMsg *m;
    uint32_t at;

    memset(t, 0, sizeof(*t));
    t->ops = &unetmm_rel_packet;
    t->state = UNETMM_TX_GATHER;
    t->desc.channel = rel->channel;
    t->rel = rel;
    t->psn = psn;
    t->desc.len = unetmm_rel_packet_len(rel, psn);
    t->frame = unetmm_port_buffer(core);
    if (!t->desc.len) {
        return;
    }
    m = unetmm_rel_msg_of(rel, psn);
    if (m->flags & UNETMM_SQE_F_INLINE) {
        memcpy(unetmm_frame_at(t->frame, sizeof(struct unetmm_frame),
                               t->desc.len), m->data, t->desc.len);
        t->done = t->desc.len;
        return;
    }
    at = unetmm_rel_offset_of(rel, m, psn);
    t->desc.nsegs = m->nsegs;
    memcpy(t->desc.segs, m->segs, m->nsegs * sizeof(m->segs[0]));
    while (t->seg + 1 < t->desc.nsegs && at >= t->desc.segs[t->seg].len) {
        at -= t->desc.segs[t->seg++].len;
    }
    t->seg_off = at;
}

/* A packet goes out for the first time: the message goes on by it. */
static void rel_first_time(UnetmmRel *rel, UnetmmRelMsg *m, uint32_t psn)
{
    uint32_t at;

    m->sent += unetmm_rel_packet_bytes(rel, psn, &at);
    if (!m->started) {
        m->started = true;
        m->first_psn = psn;
    }
    rel->msgs.of[psn % UNETMM_REL_WINDOW] = rel->msgs.next % UNETMM_REL_MSGS;
    if (m->sent == m->len) {
        rel->msgs.next++;
    }
}

/* An answer is asked for when none would come unasked soon. */
static bool rel_should_ask(UnetmmCore *core, UnetmmEp *ep,
                           const UnetmmRel *rel, uint32_t psn, bool again)
{
    const UnetmmSendWindow *tx = &rel->tx;

    if (!again && tx->limited && psn + 1 == tx->limit) {
        return true;
    }
    if (!again && (tx->pending & unetmm_rel_bit(psn))) {
        return false;
    }
    return again || !unetmm_sendwin_room(tx) ||
           psn - tx->asked >= UNETMM_REL_ASK_EVERY ||
           (rel->msgs.next == rel->msgs.end &&
            !unetmm_send_goes_on(core, ep, rel->channel));
}

/* m NULL: the packet is void. */
static void rel_packet_header(UnetmmCore *core, UnetmmEp *ep,
                              const UnetmmTransfer *t, const UnetmmRelMsg *m,
                              bool again)
{
    struct unetmm_frame *f = (struct unetmm_frame *)t->frame;
    UnetmmRel *rel = t->rel;

    unetmm_rel_header(core, rel, f, m ? m->kind->opcode :
                      UNETMM_WIRE_VOID);
    f->len = t->desc.len;
    f->psn = t->psn;
    if (m) {
        uint32_t bytes, at;

        bytes = unetmm_rel_packet_bytes(rel, t->psn, &at);
        m->kind->fill(m, f, at, bytes);
    }
    if (rel_should_ask(core, ep, rel, t->psn, again)) {
        f->flags |= UNETMM_WIRE_F_ASK;
        unetmm_sendwin_asked_for_ack(&rel->tx, t->psn);
    }
    unetmm_rel_pace_sent(core, rel, f, again);
    unetmm_rel_go_along(core, ep, rel, f);
}

/* The packet goes out now: notes its number and time. */
static void rel_account(UnetmmCore *core, UnetmmEp *ep,
                        const UnetmmTransfer *t)
{
    UnetmmRel *rel = t->rel;
    bool again = t->psn != rel->tx.nxt;
    bool empty = unetmm_sendwin_is_void(&rel->tx, t->psn);
    UnetmmRelMsg *m = empty ? NULL : unetmm_rel_msg_of(rel, t->psn);

    if (!again) {
        rel_first_time(rel, m, t->psn);
    }
    unetmm_sendwin_sent(&rel->tx, t->psn, !empty && m->kind->request);
    if (rel->tx.deadline_ns == INT64_MAX) {
        unetmm_rel_arm(core, rel);
    }
    rel_packet_header(core, ep, t, m, again);
    unetmm_rel_starve(core, ep, rel);
    unetmm_spend(core, UNETMM_STEP_PACKET, t->desc.len);
    unetmm_count(core, ep, UNETMM_C_rel_packets, 1);
    unetmm_count(core, ep, UNETMM_C_rel_resent, again);
    unetmm_count(core, ep, UNETMM_C_rel_voids, empty);
    trace_unetmm_rel_sent(ep->id, rel->channel, t->psn, again);
}

static void rel_transmit(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *t)
{
    UnetmmRel *rel = t->rel;

    if (t->needless || !unetmm_rel_wanted(rel, t->psn)) {
        unetmm_send_finish(t, UNETMM_ST_OK);
        return;
    }
    if (!unetmm_send_room(core, t, rel->mac)) {
        return;
    }
    rel_account(core, ep, t);
    unetmm_send_finish(t, UNETMM_ST_OK);
    unetmm_rel_emit(core, ep, t);
}

static void rel_complete(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *t)
{
    UnetmmRel *rel = t->rel;
    uint8_t status = t->status;
    uint32_t psn = t->psn;
    bool over = status == UNETMM_ST_OK || t->needless;
    UnetmmRelMsg *m;

    unetmm_rel_let_go(core, t);
    if (over || !unetmm_rel_wanted(rel, psn) ||
        unetmm_sendwin_is_void(&rel->tx, psn)) {
        return;
    }
    m = unetmm_rel_msg_of(rel, psn);
    if (rel->strict) {
        unetmm_rel_end_at(core, ep, rel, m, status);
    } else if (!m->started) {
        /* The peer has seen nothing of it: only this send fails. */
        m->ended = true;
        m->status = status;
        rel->msgs.next++;
    } else if (m->kind->sqe.one_sided) {
        unetmm_rel_end_message(core, ep, rel, m, status);
    } else {
        unetmm_rel_fail(core, ep, rel, m, status, UNETMM_WHY_CHANNEL);
    }
}

const UnetmmTransferOps unetmm_rel_packet = {
    .transmit = rel_transmit,
    .complete = rel_complete,
};
