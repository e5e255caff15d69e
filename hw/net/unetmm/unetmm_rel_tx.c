/*
 * unetmm: reliable channels: messages into packets, and packets again
 *
 * The card keeps no copy of what it sends: each packet is gathered from the
 * process's memory when it goes out, the first time and every other, by the
 * same resumable transfer as any send (unetmm_send.c), which may therefore
 * wait for a translation each time.  Only inline data is kept.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "unetmm_host.h"
#include "unetmm_rel.h"

UnetmmPosted unetmm_rel_post(UnetmmCore *core, UnetmmEp *ep,
                             UnetmmChannel *channel, const uint8_t *data)
{
    const UnetmmTransfer *t = &ep->tx;
    UnetmmRel *rel = channel->rel;
    UnetmmRelTx *tx = &rel->tx;
    UnetmmRelMsg *m;

    if (rel->state != UNETMM_REL_OPEN) {
        /* In order, also then. */
        return tx->msg_first == tx->msg_end ? UNETMM_POST_FAILED :
               UNETMM_POST_FULL;
    }
    if (tx->msg_end - tx->msg_first == UNETMM_REL_MSGS) {
        return UNETMM_POST_FULL;
    }
    m = unetmm_rel_msg(rel, tx->msg_end++);
    memset(m, 0, sizeof(*m));
    m->cookie = t->cookie;
    m->len = t->len;
    m->flags = t->flags;
    m->nsegs = t->nsegs;
    if (t->flags & UNETMM_SQE_F_INLINE) {
        memcpy(m->data, data, t->len);
    } else {
        memcpy(m->segs, t->segs, t->nsegs * sizeof(m->segs[0]));
    }
    return UNETMM_POSTED;
}

static bool rel_window_open(const UnetmmRelTx *tx)
{
    return tx->nxt - tx->una < UNETMM_REL_WINDOW &&
           tx->msg_next != tx->msg_end;
}

/* Behind a refusal only the packet that was refused goes out. */
bool unetmm_rel_can_send(const UnetmmRel *rel)
{
    const UnetmmRelTx *tx = &rel->tx;

    if (rel->state != UNETMM_REL_OPEN || tx->paused) {
        return false;
    }
    if (tx->refusals) {
        return tx->una != tx->nxt && (tx->lost & unetmm_rel_bit(tx->una));
    }
    return tx->lost || rel_window_open(tx);
}

/* The oldest lost packet, or else the next new one. */
static uint32_t rel_pick(const UnetmmRelTx *tx)
{
    uint32_t psn = tx->una;

    while (psn != tx->nxt && !(tx->lost & unetmm_rel_bit(psn))) {
        psn++;
    }
    return psn;
}

/* The message of a packet that was sent, or is the next to be. */
static UnetmmRelMsg *rel_msg_of(UnetmmRel *rel, uint32_t psn)
{
    if (psn == rel->tx.nxt) {
        return unetmm_rel_msg(rel, rel->tx.msg_next);
    }
    return unetmm_rel_msg(rel, rel->tx.msg[psn % UNETMM_REL_WINDOW]);
}

static uint32_t rel_offset_of(const UnetmmRel *rel, const UnetmmRelMsg *m,
                              uint32_t psn)
{
    return m->started ? (psn - m->first_psn) * rel->mtu : 0;
}

uint32_t unetmm_rel_packet_len(UnetmmRel *rel, uint32_t psn)
{
    const UnetmmRelMsg *m = rel_msg_of(rel, psn);

    return MIN(rel->mtu, m->len - rel_offset_of(rel, m, psn));
}

/* Makes ep->tx the packet, nothing of which has been gathered. */
static void rel_load(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                     uint32_t psn)
{
    const UnetmmRelMsg *m = rel_msg_of(rel, psn);
    UnetmmTransfer *t = &ep->tx;
    uint32_t at = rel_offset_of(rel, m, psn);

    memset(t, 0, sizeof(*t));
    t->state = UNETMM_TX_GATHER;
    t->opcode = UNETMM_OP_SEND;
    t->flags = m->flags;
    t->channel = rel->channel;
    t->cookie = m->cookie;
    t->rel = rel;
    t->psn = psn;
    t->len = unetmm_rel_packet_len(rel, psn);
    t->frame = unetmm_port_buffer(core);
    if (m->flags & UNETMM_SQE_F_INLINE) {
        memcpy(t->frame + sizeof(struct unetmm_frame), m->data, t->len);
        t->done = t->len;
        return;
    }
    t->nsegs = m->nsegs;
    memcpy(t->segs, m->segs, m->nsegs * sizeof(m->segs[0]));
    while (t->seg + 1 < t->nsegs && at >= t->segs[t->seg].len) {
        at -= t->segs[t->seg++].len;
    }
    t->seg_off = at;
}

bool unetmm_rel_next(UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmRel **link = &ep->rels;
    UnetmmRel *rel;

    while (*link && !unetmm_rel_can_send(*link)) {
        link = &(*link)->next;
    }
    rel = *link;
    if (!rel || ep->error) {
        return false;
    }
    rel_load(core, ep, rel, rel_pick(&rel->tx));
    /* The others are before it the next time. */
    *link = rel->next;
    while (*link) {
        link = &(*link)->next;
    }
    *link = rel;
    rel->next = NULL;
    return true;
}

/* Does the peer still need it?  What happened since it was picked counts. */
bool unetmm_rel_wanted(const UnetmmRel *rel, uint32_t psn)
{
    const UnetmmRelTx *tx = &rel->tx;

    return rel->state == UNETMM_REL_OPEN &&
           (psn == tx->nxt || (psn - tx->una < tx->nxt - tx->una &&
                               !(tx->acked & unetmm_rel_bit(psn))));
}

/* A packet goes out for the first time: its number is given. */
static void rel_first_time(UnetmmRel *rel, UnetmmRelMsg *m, uint32_t len)
{
    UnetmmRelTx *tx = &rel->tx;

    if (!m->started) {
        m->started = true;
        m->first_psn = tx->nxt;
    }
    m->sent += len;
    tx->msg[tx->nxt % UNETMM_REL_WINDOW] = tx->msg_next % UNETMM_REL_MSGS;
    tx->acked &= ~unetmm_rel_bit(tx->nxt);
    tx->nxt++;
    if (m->sent == m->len) {
        tx->msg_next++;
    }
}

/* An answer is asked for when none would come by itself soon. */
static bool rel_should_ask(const UnetmmEp *ep, const UnetmmRelTx *tx,
                           uint32_t psn, bool again)
{
    return again || tx->nxt - tx->una == UNETMM_REL_WINDOW ||
           psn - tx->asked >= UNETMM_REL_ASK_EVERY ||
           (tx->msg_next == tx->msg_end && ep->sq_prod == ep->sq_cons);
}

static void rel_packet_header(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                              UnetmmRelMsg *m, bool again)
{
    const UnetmmTransfer *t = &ep->tx;
    struct unetmm_frame *f = (struct unetmm_frame *)t->frame;

    unetmm_rel_header(core, rel, f, UNETMM_WIRE_SEND);
    f->len = t->len;
    f->psn = t->psn;
    f->offset = rel_offset_of(rel, m, t->psn);
    f->remote = m->len;
    if (f->offset + t->len == m->len) {
        f->flags |= UNETMM_WIRE_F_LAST;
    }
    if (rel_should_ask(ep, &rel->tx, t->psn, again)) {
        f->flags |= UNETMM_WIRE_F_ASK;
        rel->tx.asked = t->psn;
    }
}

/* The packet goes out now: what has to be known of it is noted. */
static void rel_account(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel)
{
    UnetmmTransfer *t = &ep->tx;
    UnetmmRelMsg *m = rel_msg_of(rel, t->psn);
    UnetmmRelTx *tx = &rel->tx;
    bool again = t->psn != tx->nxt;

    if (!again) {
        rel_first_time(rel, m, t->len);
    }
    tx->stamps[t->psn % UNETMM_REL_WINDOW] = ++tx->stamp;
    tx->lost &= ~unetmm_rel_bit(t->psn);
    if (tx->deadline_ns == INT64_MAX) {
        unetmm_rel_arm(core, rel);
    }
    rel_packet_header(core, ep, rel, m, again);
    unetmm_count(core, ep, UNETMM_C_rel_packets, 1);
    unetmm_count(core, ep, UNETMM_C_rel_resent, again);
    trace_unetmm_rel_sent(ep->id, rel->channel, t->psn, again);
}

void unetmm_rel_transmit(UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmTransfer *t = &ep->tx;
    UnetmmRel *rel = t->rel;
    bool local = unetmm_port_local(core, rel->mac);

    t->status = UNETMM_ST_OK;
    if (!unetmm_rel_wanted(rel, t->psn)) {
        t->state = UNETMM_TX_COMPLETE;
        return;
    }
    if (!unetmm_send_room(core, ep, rel->mac)) {
        return;
    }
    rel_account(core, ep, rel);
    t->state = UNETMM_TX_COMPLETE;
    /* What does not get away is lost on its way, like anything else. */
    if (!local && !core->port.link) {
        unetmm_count(core, ep, UNETMM_C_drop_link, 1);
        return;
    }
    unetmm_count(core, ep, UNETMM_C_tx_frames, 1);
    unetmm_count(core, ep, UNETMM_C_tx_bytes, t->len);
    unetmm_port_transmit(core, g_steal_pointer(&t->frame),
                         sizeof(struct unetmm_frame) + t->len);
}

void unetmm_rel_packet_done(UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmTransfer *t = &ep->tx;
    UnetmmRel *rel = t->rel;
    uint8_t status = t->status;
    uint32_t psn = t->psn;
    UnetmmRelMsg *m;

    unetmm_port_release(core, g_steal_pointer(&t->frame));
    t->state = UNETMM_TX_IDLE;
    t->rel = NULL;
    if (status == UNETMM_ST_OK || !unetmm_rel_wanted(rel, psn)) {
        return;
    }
    m = rel_msg_of(rel, psn);
    if (!m->started) {
        /* The peer has seen nothing of it: only this send fails. */
        m->ended = true;
        m->status = status;
        rel->tx.msg_next++;
        return;
    }
    unetmm_rel_fail(core, ep, rel, m, status, UNETMM_WHY_CHANNEL);
}
