/*
 * unetmm: reliable channels: acknowledgements that go along with packets
 *
 * An acknowledgement that says no more than "all before this number have been
 * taken" needs no frame of its own if a packet of the other direction goes out:
 * a SEND, ANSWER or VOID has the number then (F_ACK), or the end of a WRITE
 * whose immediate nobody uses.  The peer's process is woken once, for the
 * message and for the end of its own.  The number is whole, as in a frame of
 * its own, so that a packet that comes twice or late says nothing wrong.
 *
 * So the answer to a question may wait, for UNETMM_REL_ALONG_NS at most, if
 * such a packet is likely: the last questions were each followed by one within
 * that time, two of them at first, UNETMM_REL_ALONG_LIKELY after a wait in
 * vain.
 * Messages that nothing answers are acknowledged at once.  One answer waits,
 * never two: a second question is answered at once.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "packet.h"

static bool along_taken(const UnetmmCore *core, const UnetmmRel *rel)
{
    return rel->state == UNETMM_REL_OPEN &&
           core->eps[rel->ep].channels[rel->channel].peer_takes &
           UNETMM_CHANNEL_F_ACK;
}

/* The member that has room for the number; NULL: there is none. */
static uint32_t *along_member(const UnetmmCore *core, const UnetmmRel *rel,
                              struct unetmm_frame *f)
{
    const UnetmmRelOp *op = unetmm_rel_op(core, f->opcode);
    const UnetmmEp *ep = &core->eps[rel->ep];

    return op->along &&
           (!op->has_room ||
            op->has_room(f, ep->channels[rel->channel].peer_takes)) ?
           (uint32_t *)((uint8_t *)f + op->along) : NULL;
}

/* Would a frame of its own say no more? */
static bool along_says_all(const UnetmmRel *rel)
{
    const UnetmmRecvWindow *rx = &rel->rx;

    return !rx->have && !rx->why && !rx->late_why && !rx->refuse &&
           rx->refused == UNETMM_REL_WANT_NOTHING && !rel->tx.probe &&
           !rel->share.credits && !rel->share.unlanded;
}

static void along_in_vain(UnetmmRelAlong *along)
{
    along->likely = along->question == UNETMM_REL_WAITS ? 0 :
                    MIN(along->likely, UNETMM_REL_ALONG_FIRST);
}

void unetmm_rel_asked(UnetmmCore *core, UnetmmRel *rel)
{
    UnetmmRelAlong *along = &rel->along;
    bool likely;

    if (!along_taken(core, rel)) {
        unetmm_rel_owe_ack(core, rel);
        return;
    }
    if (along->question != UNETMM_REL_NO_QUESTION) {
        along_in_vain(along);
    }
    likely = along->question != UNETMM_REL_WAITS &&
             along->likely >= UNETMM_REL_ALONG_LIKELY && along_says_all(rel);
    along->question_ns = core->ops->now_ns(core->host) + UNETMM_REL_ALONG_NS;
    if (likely) {
        along->question = UNETMM_REL_WAITS;
        unetmm_rel_due_at(core, rel, along->question_ns);
    } else {
        along->question = UNETMM_REL_ANSWERED;
        unetmm_rel_owe_ack(core, rel);
    }
}

void unetmm_rel_go_along(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         struct unetmm_frame *f)
{
    UnetmmRelAlong *along = &rel->along;
    bool waits = along->question == UNETMM_REL_WAITS;
    uint32_t *member = along_member(core, rel, f);

    if (!member || !along_taken(core, rel)) {
        return;
    }
    if (along->question != UNETMM_REL_NO_QUESTION &&
        core->ops->now_ns(core->host) <= along->question_ns) {
        along->likely = MIN(along->likely + 1, UNETMM_REL_ALONG_LIKELY);
    } else if (along->question != UNETMM_REL_NO_QUESTION) {
        along_in_vain(along);
    }
    along->question = UNETMM_REL_NO_QUESTION;
    if (!waits && !unetmm_rel_owes_ack(core, rel)) {
        return;
    }
    if (!along_says_all(rel)) {
        unetmm_rel_owe_ack(core, rel);
        return;
    }
    unetmm_rel_no_ack(core, rel);
    f->flags |= UNETMM_WIRE_F_ACK;
    *member = rel->rx.nxt;
    unetmm_count(core, ep, UNETMM_C_rel_acks_along, 1);
    trace_unetmm_rel_ack_sent(ep->id, rel->channel, *member, 0,
                              UNETMM_ACK_OK);
}

int64_t unetmm_rel_along_due(UnetmmCore *core, UnetmmRel *rel, int64_t now)
{
    if (rel->along.question != UNETMM_REL_WAITS) {
        return INT64_MAX;
    }
    if (rel->along.question_ns > now) {
        return rel->along.question_ns;
    }
    along_in_vain(&rel->along);
    rel->along.question = UNETMM_REL_NO_QUESTION;
    unetmm_count(core, &core->eps[rel->ep], UNETMM_C_rel_acks_late, 1);
    unetmm_rel_owe_ack(core, rel);
    return INT64_MAX;
}
