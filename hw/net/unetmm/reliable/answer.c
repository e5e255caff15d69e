/*
 * unetmm: reliable channels: answers that go out
 *
 * An answer is gathered like a packet, and may be given up wherever going on
 * would make somebody wait: the peer asks again.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "packet.h"

/* The oldest that is owed. */
static UnetmmRelAsk *answer_pick(UnetmmRel *rel)
{
    uint32_t psn = rel->rx.nxt - UNETMM_REL_WINDOW;

    while (!(rel->answers.owed & unetmm_rel_bit(psn))) {
        psn++;
    }
    return &rel->answers.asks[psn % UNETMM_REL_WINDOW];
}

/* Finds the requested bytes.  0: they cannot be read, or not now. */
static uint8_t answer_segs(const UnetmmCore *core, const UnetmmEp *ep,
                           const UnetmmTarget *target, struct unetmm_seg *segs)
{
    const UnetmmRegion *region;
    uint32_t at = 0;
    uint8_t n = 0;

    if (unetmm_region_check(core, ep, target, UNETMM_RIGHT_READ, &region) ||
        unetmm_region_is_held(region, target->offset, target->len)) {
        return 0;
    }
    while (at < target->len && n < UNETMM_MAX_SEGS) {
        uint64_t addr;
        uint32_t len = unetmm_region_run(region, target->offset + at,
                                         target->len - at, &addr);

        segs[n++] = (struct unetmm_seg) { .addr = addr, .len = len };
        at += len;
    }
    return n;
}

void unetmm_rel_load_answer(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                            UnetmmTransfer *t)
{
    const UnetmmRelAsk *ask = answer_pick(rel);
    const UnetmmRelResult *result = ask->atomic ?
                                    unetmm_rel_result(rel, ask->psn) : NULL;

    rel->answers.owed &= ~unetmm_rel_bit(ask->psn);
    rel->answers.answered = true;
    memset(t, 0, sizeof(*t));
    t->ops = &unetmm_rel_answer;
    t->state = UNETMM_TX_GATHER;
    t->desc.channel = rel->channel;
    t->rel = rel;
    t->psn = ask->psn;
    t->answer = true;
    t->frame = unetmm_port_buffer(core);
    if (ask->atomic) {
        t->desc.len = t->done = sizeof(result->old);
        if (!result) {
            t->needless = true;
            unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_stale);
        } else {
            memcpy(unetmm_frame_at(t->frame, sizeof(struct unetmm_frame),
                                   t->desc.len), result->old, t->desc.len);
        }
        return;
    }
    t->target = ask->target;
    t->desc.len = ask->target.len;
    t->desc.nsegs = answer_segs(core, ep, &t->target, t->desc.segs);
    if (!t->desc.nsegs) {
        /* answer_may_read() finds this out before the first page. */
        t->desc.nsegs = 1;
        t->desc.segs[0].len = t->desc.len;
    }
}

/* Are the bytes still where they were when the gathering began? */
static bool answer_may_read(const UnetmmCore *core, const UnetmmEp *ep,
                            const UnetmmTransfer *t)
{
    const UnetmmDescriptor *d = &t->desc;
    struct unetmm_seg segs[UNETMM_MAX_SEGS];
    uint8_t n = answer_segs(core, ep, &t->target, segs);

    for (unsigned i = 0; i < MIN(n, d->nsegs); i++) {
        if (segs[i].addr != d->segs[i].addr || segs[i].len != d->segs[i].len) {
            return false;
        }
    }
    return n && n == d->nsegs;
}

static void answer_transmit(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *t)
{
    struct unetmm_frame *f = (struct unetmm_frame *)t->frame;
    UnetmmRel *rel = t->rel;

    if (t->needless || rel->state != UNETMM_REL_OPEN) {
        unetmm_send_finish(t, UNETMM_ST_OK);
        return;
    }
    if (!unetmm_send_room(core, t, rel->mac)) {
        return;
    }
    unetmm_rel_header(core, rel, f, UNETMM_WIRE_ANSWER);
    f->len = t->desc.len;
    f->psn = t->psn;
    unetmm_rel_go_along(core, ep, rel, f);
    unetmm_count(core, ep, UNETMM_C_rel_answers_sent, 1);
    trace_unetmm_rel_answer_sent(ep->id, rel->channel, t->psn, t->desc.len);
    unetmm_send_finish(t, UNETMM_ST_OK);
    unetmm_rel_emit(core, ep, t);
}

/* The answer has gone out, or (its status) could not be gathered. */
static void answer_complete(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *t)
{
    uint8_t status = t->needless ? UNETMM_ST_OK : t->status;
    UnetmmTarget target = t->target;
    UnetmmRel *rel = t->rel;
    uint32_t psn = t->psn;

    unetmm_rel_let_go(core, t);
    if (status == UNETMM_ST_OK || rel->state != UNETMM_REL_OPEN) {
        return;
    }
    if (status == UNETMM_ST_DMA) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_stale);
        unetmm_rel_reject_late(core, rel, psn, UNETMM_WHY_MEMORY);
    } else {
        unetmm_rel_read_again(core, ep, rel, psn, &target, 0);
    }
}

/* The peer asks again for absent pages: our own sends do not wait. */
const UnetmmTransferOps unetmm_rel_answer = {
    .never_waits = true,
    .may_read = answer_may_read,
    .landed = unetmm_region_landed,
    .transmit = answer_transmit,
    .complete = answer_complete,
};
