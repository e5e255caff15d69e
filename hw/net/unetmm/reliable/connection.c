/*
 * unetmm: reliable channels: functions that need a connection alone
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "connection.h"

/* The timer looks at the channel, then or before. */
void unetmm_rel_due_at(UnetmmCore *core, const UnetmmRel *rel, int64_t when)
{
    core->rel->timed[rel->number / 64] |= 1ull << rel->number % 64;
    core->rel->due_ns = MIN(core->rel->due_ns, when);
}

void unetmm_rel_arm_at(UnetmmCore *core, UnetmmRel *rel, int64_t when)
{
    unetmm_sendwin_wait(&rel->tx, when);
    unetmm_rel_due_at(core, rel, when);
}

/*
 * The driver's time is for a peer that is gone; the loss of a packet shows
 * earlier, unless the answer waits for a page.  All early times of a row
 * together are shorter than the driver's.
 */
bool unetmm_rel_hurries(const UnetmmRel *rel)
{
    const UnetmmSendWindow *tx = &rel->tx;
    uint64_t silence = unetmm_congestion_silence_ns(&rel->congestion);

    return silence && silence < rel->timeout_us * 500ull && !tx->retries &&
           !tx->paused && !tx->aside && !tx->pending &&
           unetmm_sendwin_asks(tx);
}

/* Each timeout in a row doubles the time. */
void unetmm_rel_arm(UnetmmCore *core, UnetmmRel *rel)
{
    int64_t now = core->ops->now_ns(core->host);
    uint64_t us = (uint64_t)rel->timeout_us << MIN(rel->tx.retries, 20);

    us = MIN(us, UNETMM_REL_MAX_TIMEOUT_US);
    if (unetmm_rel_hurries(rel)) {
        unetmm_rel_arm_at(core, rel, now + unetmm_congestion_silence_ns(
                          &rel->congestion));
        unetmm_sendwin_hurry(&rel->tx);
    } else {
        unetmm_rel_arm_at(core, rel, now + us * 1000);
    }
}

void unetmm_rel_owe_ack(UnetmmCore *core, UnetmmRel *rel)
{
    uint64_t *word = &core->rel->acks[rel->number / 64];
    uint64_t bit = 1ull << rel->number % 64;

    core->rel->acks_owed += !(*word & bit);
    *word |= bit;
}

bool unetmm_rel_owes_ack(const UnetmmCore *core, const UnetmmRel *rel)
{
    return core->rel->acks[rel->number / 64] & 1ull << rel->number % 64;
}

void unetmm_rel_no_ack(UnetmmCore *core, UnetmmRel *rel)
{
    uint64_t *word = &core->rel->acks[rel->number / 64];
    uint64_t bit = 1ull << rel->number % 64;

    core->rel->acks_owed -= !!(*word & bit);
    *word &= ~bit;
}

/* Fills a header but for the opcode's members.  Host byte order. */
void unetmm_rel_header(UnetmmCore *core, const UnetmmRel *rel,
                       struct unetmm_frame *f, uint8_t opcode)
{
    memset(f, 0, sizeof(*f));
    memcpy(f->dst, rel->mac, sizeof(f->dst));
    memcpy(f->src, core->params.mac, sizeof(f->src));
    f->ethertype[0] = UNETMM_ETHERTYPE >> 8;
    f->ethertype[1] = UNETMM_ETHERTYPE & 0xff;
    f->version = UNETMM_WIRE_VERSION;
    f->opcode = opcode;
    f->dst_ep = rel->peer_ep;
    f->src_ep = rel->ep;
    f->dst_channel = rel->peer_channel;
    f->src_channel = rel->channel;
}

void unetmm_rel_emit(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *t)
{
    bool local = unetmm_port_local(core, t->rel->mac);

    /* A packet without a link counts as lost on its way. */
    if (!local && !core->port->link) {
        unetmm_count(core, ep, UNETMM_C_drop_link, 1);
        return;
    }
    unetmm_count(core, ep, UNETMM_C_tx_frames, 1);
    unetmm_count(core, ep, UNETMM_C_tx_bytes, t->desc.len);
    unetmm_port_transmit(core, g_steal_pointer(&t->frame),
                         sizeof(struct unetmm_frame) + t->desc.len);
}

void unetmm_rel_let_go(UnetmmCore *core, UnetmmTransfer *t)
{
    unetmm_port_release(core, g_steal_pointer(&t->frame));
    unetmm_rel_wake(&core->eps[t->rel->ep], t->rel);
    t->state = UNETMM_TX_IDLE;
    t->rel = NULL;
    t->answer = t->needless = false;
}

void unetmm_rel_owe_answer(UnetmmRel *rel, uint32_t psn, bool atomic,
                           const UnetmmTarget *target)
{
    UnetmmRelAsk *ask = &rel->answers.asks[psn % UNETMM_REL_WINDOW];

    /* An older answer of this place would be a window old. */
    *ask = (UnetmmRelAsk) { .psn = psn, .atomic = atomic };
    if (target) {
        ask->target = *target;
    }
    rel->answers.owed |= unetmm_rel_bit(psn);
}
