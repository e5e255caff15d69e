/*
 * unetmm: reliable channels: messages, and the packets that they become
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "packet.h"

/* The import's present state is copied: the message uses the copy. */
static void rel_post_target(const UnetmmEp *ep, UnetmmRelMsg *m,
                            const UnetmmDescriptor *d)
{
    if (d->flags & UNETMM_SQE_F_KEYED) {
        m->region = d->region;
        m->key = d->handle;
    } else {
        m->region = ep->imports[d->handle].region;
        m->key = ep->imports[d->handle].key;
    }
    m->remote = d->remote;
}

/*
 * A READ of no bytes has no request, and a WRITE of no bytes by key nothing to
 * tell: the number alone is the fence.
 */
static bool rel_is_fence(const UnetmmRelMsg *m)
{
    uint32_t says = UNETMM_SQE_F_KEYED | UNETMM_SQE_F_NOTIFY |
                    UNETMM_SQE_F_COUNT | UNETMM_SQE_F_IMM;

    return !m->len && (m->op == UNETMM_OP_READ ||
                       (m->op == UNETMM_OP_WRITE &&
                        (m->flags & says) == UNETMM_SQE_F_KEYED));
}

const UnetmmRelKind *unetmm_rel_kind_of(const UnetmmCore *core,
                                        const UnetmmRelMsg *m)
{
    return unetmm_rel_kind(core, rel_is_fence(m) ? UNETMM_OP_FENCE : m->op);
}

UnetmmPosted unetmm_rel_post(UnetmmCore *core, UnetmmEp *ep,
                             UnetmmChannel *channel, const UnetmmDescriptor *d,
                             const uint8_t *data)
{
    UnetmmRel *rel = channel->rel;
    UnetmmRelMsg *m;

    if (rel->state != UNETMM_REL_OPEN) {
        /* Also the sends of a failed channel complete in their order. */
        return rel->msgs.first == rel->msgs.end ? UNETMM_POST_FAILED :
               UNETMM_POST_FULL;
    }
    if (!unetmm_window_flush(core, ep, &rel->stores) ||
        rel->msgs.end - rel->msgs.first == UNETMM_REL_MSGS) {
        return UNETMM_POST_FULL;
    }
    m = unetmm_rel_msg(rel, rel->msgs.end++);
    memset(m, 0, sizeof(*m));
    m->op = d->opcode;
    m->cookie = d->cookie;
    m->len = d->len;
    m->flags = d->flags;
    m->kind = unetmm_rel_kind_of(core, m);
    m->imm = d->imm;
    m->nsegs = d->nsegs;
    m->operands = d->operands;
    if (m->kind->sqe.one_sided) {
        rel_post_target(ep, m, d);
    }
    if (d->flags & UNETMM_SQE_F_INLINE) {
        memcpy(m->data, data, MAX(d->len, d->operands));
        if (d->nsegs) {
            m->segs[UNETMM_SQE_RESULT] = d->segs[UNETMM_SQE_RESULT];
        }
    } else {
        memcpy(m->segs, d->segs, d->nsegs * sizeof(m->segs[0]));
    }
    if (d->refused != UNETMM_ST_OK) {
        unetmm_count(core, ep, UNETMM_C_err_descriptor, 1);
        unetmm_rel_end_at(core, ep, rel, m, d->refused);
    }
    unetmm_rel_wake(ep, rel);
    unetmm_rel_starve(core, ep, rel);
    return UNETMM_POSTED;
}

/*
 * The peer keeps the results of the last few atomics: another must not push one
 * out that may still be asked for.
 */
static bool rel_atomics_full(const UnetmmRel *rel)
{
    const UnetmmSendWindow *tx = &rel->tx;
    uint32_t n = 0;

    for (uint32_t psn = tx->una; tx->pending && psn != tx->nxt; psn++) {
        uint64_t bit = unetmm_rel_bit(psn);
        uint8_t of = rel->msgs.of[psn % UNETMM_REL_WINDOW];
        const UnetmmRelMsg *m = &rel->msgs.msg[of];

        if (!(tx->voids & bit) && m->operands && (n || tx->pending & bit)) {
            n++;
        }
    }
    return n >= UNETMM_REL_ATOMICS;
}

static bool rel_window_open(const UnetmmRel *rel)
{
    const UnetmmSendWindow *tx = &rel->tx;

    return unetmm_sendwin_room(tx) && rel->msgs.next != rel->msgs.end &&
           !unetmm_sendwin_no_credit(tx) &&
           (!rel->msgs.msg[rel->msgs.next % UNETMM_REL_MSGS].operands ||
            !rel_atomics_full(rel));
}

/*
 * Behind a refusal only the packet that was refused is chosen.  One whose
 * gathering had begun before still goes out: it is as if the refusal had come
 * a little later.
 */
bool unetmm_rel_can_send(const UnetmmRel *rel)
{
    const UnetmmSendWindow *tx = &rel->tx;

    if (rel->state != UNETMM_REL_OPEN || tx->paused ||
        rel->stage != UNETMM_CHANNEL_RTS) {
        return false;
    }
    if (rel->ending.due && !unetmm_rel_goes(rel, unetmm_sendwin_pick(tx))) {
        return false;
    }
    if (tx->refusals) {
        return tx->una != tx->nxt && (tx->lost & unetmm_rel_bit(tx->una));
    }
    return tx->lost ? unetmm_sendwin_within(tx, unetmm_sendwin_pick(tx)) :
           rel_window_open(rel);
}

/* The message of a packet that was sent, or is the next to be. */
UnetmmRelMsg *unetmm_rel_msg_of(UnetmmRel *rel, uint32_t psn)
{
    if (psn == rel->tx.nxt) {
        return unetmm_rel_msg(rel, rel->msgs.next);
    }
    return unetmm_rel_msg(rel, rel->msgs.of[psn % UNETMM_REL_WINDOW]);
}

uint32_t unetmm_rel_offset_of(const UnetmmRel *rel, const UnetmmRelMsg *m,
                              uint32_t psn)
{
    return m->started ? (psn - m->first_psn) * rel->mtu : 0;
}

uint32_t unetmm_rel_packet_bytes(UnetmmRel *rel, uint32_t psn,
                                 uint32_t *offset)
{
    const UnetmmRelMsg *m = unetmm_rel_msg_of(rel, psn);

    *offset = unetmm_rel_offset_of(rel, m, psn);
    return MIN(rel->mtu, m->len - *offset);
}

uint32_t unetmm_rel_packet_len(UnetmmRel *rel, uint32_t psn)
{
    const UnetmmRelMsg *m;
    uint32_t at;

    if (unetmm_sendwin_is_void(&rel->tx, psn)) {
        return 0;
    }
    m = unetmm_rel_msg_of(rel, psn);
    return m->kind->gathers ? unetmm_rel_packet_bytes(rel, psn, &at) :
           m->operands;
}

/* Does the peer still need the packet? */
bool unetmm_rel_wanted(const UnetmmRel *rel, uint32_t psn)
{
    return rel->state == UNETMM_REL_OPEN && unetmm_rel_goes(rel, psn) &&
           unetmm_sendwin_needs(&rel->tx, psn);
}

void unetmm_rel_fill_target(const UnetmmRelMsg *m, struct unetmm_frame *f,
                            uint32_t at)
{
    f->handle = m->region;
    f->offset = m->key;
    f->remote = m->remote + at;
    f->flags |= m->flags & UNETMM_SQE_F_KEYED ? UNETMM_WIRE_F_KEYED : 0;
}

bool unetmm_rel_handle_ok(const struct unetmm_frame *f)
{
    return !f->handle || f->flags & UNETMM_WIRE_F_ACK;
}
