/*
 * unetmm: reliable channels: packets into buffers, in their order
 *
 * Packets may arrive in any order, and are taken in theirs.  One that comes
 * before its turn is kept, as it came, if the card has room for it; what is
 * kept is acknowledged and never dropped.  (An operation that says itself
 * where its data belongs can put it there at once and keep the header alone:
 * `have` without a frame.)
 *
 * A message takes its buffer out of the free queue with its first packet, so
 * that a message that never ends is in nobody's way.  What the packet needs
 * and cannot have now (a buffer, a page, room in the completion queue) makes
 * the peer come again later: nothing waits in the card, and no frame waits for
 * an endpoint.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "unetmm_host.h"
#include "unetmm_rel.h"

typedef enum RelTake {
    REL_TAKEN,
    REL_LATER,                  /* its pages are moving */
    REL_REFUSED,                /* the peer is to come again */
    REL_DROPPED,                /* and counted */
    REL_ENDED,                  /* so has the channel, or the endpoint */
} RelTake;

/* ---- One packet, at its turn -------------------------------------------- */

/* Is it the packet that the message needs next? */
static bool rel_fits(const UnetmmRel *rel, const struct unetmm_frame *f)
{
    const UnetmmRelRx *rx = &rel->rx;
    bool last = f->flags & UNETMM_WIRE_F_LAST;

    if (f->remote > UNETMM_MAX_MESSAGE ||
        f->offset != (rx->in_message ? rx->done : 0) ||
        f->offset > f->remote || f->len > f->remote - f->offset ||
        (rx->in_message && f->remote != rx->len)) {
        return false;
    }
    return last == (f->offset + f->len == f->remote) &&
           (last || f->len == rel->mtu);
}

static RelTake rel_refuse(UnetmmRel *rel, UnetmmRelWant want)
{
    rel->rx.refused = want;
    return REL_REFUSED;
}

static RelTake rel_take_inline(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                               const struct unetmm_frame *f,
                               const uint8_t *payload)
{
    struct unetmm_cqe cqe = {
        .opcode = UNETMM_CQE_RECEIVED, .len = f->len, .channel = rel->channel,
    };

    if (!unetmm_ep_cq_spare(ep)) {
        ep->publish = true;
        return rel_refuse(rel, UNETMM_REL_WANT_CQ);
    }
    unetmm_recv_inline(core, ep, &cqe, payload);
    return ep->error ? REL_ENDED : REL_TAKEN;
}

/* A message begins: it takes the next buffer that is ready for good. */
static RelTake rel_claim(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         uint32_t len)
{
    enum unetmm_counter why;
    UnetmmHead *head = unetmm_recv_find_head(core, ep, len, &why);

    if (ep->error) {
        return REL_ENDED;
    }
    if (!head && why == UNETMM_C_drop_too_long) {
        unetmm_rel_fail(core, ep, rel, NULL, UNETMM_ST_FLUSHED,
                        UNETMM_WHY_BUFFER);
        return REL_ENDED;
    }
    if (!head) {
        return rel_refuse(rel, why == UNETMM_C_drop_cq_full ?
                          UNETMM_REL_WANT_CQ : UNETMM_REL_WANT_HEAD);
    }
    /* Looked up again for each packet: a message may take long. */
    unetmm_pages_release(core, core->rx.pages, 0, core->rx.npages);
    rel->rx.claimed = true;
    rel->rx.in_message = true;
    rel->rx.len = len;
    rel->rx.done = 0;
    rel->rx.buf_addr = head->addr;
    rel->rx.buf_cookie = head->cookie;
    unetmm_head_pop(core, ep);
    return REL_TAKEN;
}

/* Pages from vpn on, up to `limit`, that are not translated. */
static uint32_t rel_missing(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                            uint32_t limit)
{
    UnetmmPage page;
    uint32_t n = 1;

    while (n < limit && unetmm_space_lookup(core, ep, vpn + n, true, &page) ==
           UNETMM_XLAT_MISS) {
        n++;
    }
    return n;
}

/* All pages of [addr, + len), held in core->rx.pages; or why not. */
static RelTake rel_pages(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         uint64_t addr, uint32_t len)
{
    uint64_t first = addr >> UNETMM_PAGE_SHIFT;
    uint32_t n = unetmm_pte_pages(addr, len);
    UnetmmXlat result = UNETMM_XLAT_OK;
    uint32_t i;

    for (i = 0; i < n; i++) {
        result = unetmm_space_lookup(core, ep, first + i, true,
                                     &core->rx.pages[i]);
        if (result != UNETMM_XLAT_OK) {
            break;
        }
        unetmm_page_hold(&core->rx.pages[i]);
    }
    if (result == UNETMM_XLAT_OK) {
        return REL_TAKEN;
    }
    unetmm_pages_release(core, core->rx.pages, 0, i);
    if (result == UNETMM_XLAT_ERROR) {
        unetmm_rel_give_back(rel, UNETMM_ST_PROTECTION);
        unetmm_rel_fail(core, ep, rel, NULL, UNETMM_ST_FLUSHED,
                        UNETMM_WHY_CHANNEL);
        return REL_ENDED;
    }
    /* One question at a time for all channels of an endpoint. */
    if (ep->misses[UNETMM_MISS_CLAIMED].state == UNETMM_MISS_NONE) {
        ep->rel_missed = rel;
        unetmm_miss_want(core, ep, UNETMM_MISS_CLAIMED, first + i,
                         rel_missing(core, ep, first + i, n - i), true,
                         false);
    }
    return rel_refuse(rel, UNETMM_REL_WANT_PAGE);
}

/* The packet has been written: is the message complete?  False: not told. */
static bool rel_placed(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                       uint32_t len)
{
    UnetmmRelRx *rx = &rel->rx;
    struct unetmm_cqe cqe = {
        .opcode = UNETMM_CQE_RECEIVED, .cookie = rx->buf_cookie,
        .channel = rel->channel, .len = rx->len,
    };

    if (rx->done + len == rx->len) {
        if (!unetmm_ep_complete(core, ep, &cqe)) {
            return false;
        }
        rx->claimed = rx->in_message = false;
        trace_unetmm_receive(ep->id, rx->len);
    }
    rx->done += len;
    unetmm_count(core, ep, UNETMM_C_rx_frames, 1);
    unetmm_count(core, ep, UNETMM_C_rx_bytes, len);
    return true;
}

static void rel_bus_refused(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel)
{
    unetmm_recv_drop(core, ep, UNETMM_C_drop_dma);
    unetmm_rel_give_back(rel, UNETMM_ST_DMA);
    unetmm_rel_fail(core, ep, rel, NULL, UNETMM_ST_FLUSHED,
                    UNETMM_WHY_CHANNEL);
}

static RelTake rel_place(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         const struct unetmm_frame *f, const uint8_t *payload)
{
    UnetmmRelRx *rx = &rel->rx;
    uint64_t addr = rx->buf_addr + rx->done;
    RelTake take;

    if (rx->done + f->len == rx->len && !unetmm_ep_cq_spare(ep)) {
        ep->publish = true;
        return rel_refuse(rel, UNETMM_REL_WANT_CQ);
    }
    take = rel_pages(core, ep, rel, addr, f->len);
    if (take != REL_TAKEN) {
        return take;
    }
    switch (unetmm_recv_place(core, ep, rel, addr, f->len, payload)) {
    case UNETMM_PLACED:
        return rel_placed(core, ep, rel, f->len) ? REL_TAKEN : REL_ENDED;
    case UNETMM_PLACED_NOT:
        rel_bus_refused(core, ep, rel);
        return REL_ENDED;
    case UNETMM_PLACED_LATER:
        rx->taking = true;
        return REL_LATER;
    }
    return REL_ENDED;
}

static RelTake rel_take(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                        const struct unetmm_frame *f, const uint8_t *payload)
{
    RelTake take;

    if (!rel_fits(rel, f)) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_bad);
        return REL_DROPPED;
    }
    if (!rel->rx.in_message) {
        if (f->remote <= UNETMM_CQE_INLINE) {
            return rel_take_inline(core, ep, rel, f, payload);
        }
        take = rel_claim(core, ep, rel, f->remote);
        if (take != REL_TAKEN) {
            return take;
        }
    }
    return rel_place(core, ep, rel, f, payload);
}

/* ---- Their order -------------------------------------------------------- */

static void rel_step_on(UnetmmRel *rel)
{
    rel->rx.have &= ~unetmm_rel_bit(rel->rx.nxt);
    rel->rx.nxt++;
    rel->rx.refused = UNETMM_REL_WANT_NOTHING;
    rel->rx.refuse = false;
}

/* A packet that the peer sent at its turn, or that was kept until then. */
static RelTake rel_turn(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                        const struct unetmm_frame *f, const uint8_t *payload)
{
    RelTake take = rel_take(core, ep, rel, f, payload);

    trace_unetmm_rel_turn(ep->id, rel->channel, f->psn, take);
    if (take == REL_TAKEN) {
        rel_step_on(rel);
    } else if (take == REL_REFUSED) {
        rel->rx.refuse = true;
        unetmm_rel_owe_ack(core, rel);
    }
    return take;
}

/* Takes the packets that were kept for this moment. */
static void rel_go_on(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel)
{
    while (!ep->error && rel->state == UNETMM_REL_OPEN && !core->rx.active &&
           (rel->rx.have & unetmm_rel_bit(rel->rx.nxt))) {
        UnetmmQueued *q = &rel->rx.kept[rel->rx.nxt % UNETMM_REL_WINDOW];
        uint8_t *frame = g_steal_pointer(&q->frame);
        struct unetmm_frame f;
        RelTake take;

        memcpy(&f, frame, sizeof(f));
        take = rel_turn(core, ep, rel, &f, frame + sizeof(f));
        if (take == REL_REFUSED) {
            /* It was promised to the peer, so it stays until it fits. */
            q->frame = frame;
            return;
        }
        core->kept--;
        unetmm_port_release(core, frame);
        if (take != REL_TAKEN) {
            rel->rx.have &= ~unetmm_rel_bit(rel->rx.nxt);
            return;
        }
    }
}

/* A packet before its turn. */
static void rel_early(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                      const struct unetmm_frame *f, const uint8_t *payload)
{
    UnetmmQueued *q = &rel->rx.kept[f->psn % UNETMM_REL_WINDOW];

    if (rel->rx.refused) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_refused);
        return;
    }
    unetmm_rel_owe_ack(core, rel);
    if (rel->rx.have & unetmm_rel_bit(f->psn)) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_again);
        return;
    }
    if (core->kept >= core->params.reliable_keep) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_room);
        return;
    }
    q->frame = unetmm_port_buffer(core);
    q->bytes = sizeof(*f) + f->len;
    memcpy(q->frame, f, sizeof(*f));
    memcpy(q->frame + sizeof(*f), payload, f->len);
    rel->rx.have |= unetmm_rel_bit(f->psn);
    core->kept++;
    unetmm_count(core, ep, UNETMM_C_rel_kept, 1);
    trace_unetmm_rel_kept(ep->id, rel->channel, f->psn);
}

/* The packet whose turn it is; it may have been kept already. */
static void rel_expected(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         const struct unetmm_frame *f, const uint8_t *payload)
{
    RelTake take = REL_TAKEN;

    bool ask = f->flags & UNETMM_WIRE_F_ASK || rel->rx.have;

    if (rel->rx.have & unetmm_rel_bit(f->psn)) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_again);
    } else {
        take = rel_turn(core, ep, rel, f, payload);
    }
    if (ask && take == REL_TAKEN) {
        unetmm_rel_owe_ack(core, rel);
    }
    if (take == REL_TAKEN) {
        rel_go_on(core, ep, rel);
    } else if (take == REL_REFUSED) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_refused);
    }
}

static void rel_data(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                     const struct unetmm_frame *f, const uint8_t *payload)
{
    UnetmmRelRx *rx = &rel->rx;
    uint32_t ahead = f->psn - rx->nxt;

    if (rel->state != UNETMM_REL_OPEN) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_failed);
        unetmm_rel_owe_ack(core, rel);
    } else if (rx->nxt - f->psn - 1 < UNETMM_REL_WINDOW) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_again);
        unetmm_rel_owe_ack(core, rel);
    } else if (ahead >= UNETMM_REL_WINDOW) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_window);
    } else if (ahead) {
        rel_early(core, ep, rel, f, payload);
    } else {
        rel_expected(core, ep, rel, f, payload);
    }
}

void unetmm_rel_receive(UnetmmCore *core, UnetmmEp *ep, UnetmmChannel *channel,
                        const struct unetmm_frame *f, const uint8_t *payload)
{
    UnetmmRel *rel = channel->rel;

    if (f->src_channel != channel->peer_channel) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_channel);
    } else if (f->opcode == UNETMM_WIRE_ACK) {
        unetmm_rel_ack(core, ep, rel, f);
    } else {
        rel_data(core, ep, rel, f, payload);
    }
}

/* ---- What was waited for ------------------------------------------------ */

/* The pages of a packet have moved, or (why) have not. */
void unetmm_rel_landed(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                       bool landed, enum unetmm_counter why)
{
    rel->rx.taking = false;
    if (rel->state != UNETMM_REL_OPEN) {
        unetmm_engine_queue(core, ep);
        return;
    }
    if (landed) {
        if (!rel_placed(core, ep, rel, core->rx.len)) {
            return;
        }
        trace_unetmm_rel_turn(ep->id, rel->channel, rel->rx.nxt, REL_TAKEN);
        rel_step_on(rel);
        rel_go_on(core, ep, rel);
    } else if (why == UNETMM_C_drop_dma) {
        rel_bus_refused(core, ep, rel);
        return;
    } else {
        unetmm_recv_drop(core, ep, why);
        trace_unetmm_rel_turn(ep->id, rel->channel, rel->rx.nxt, REL_REFUSED);
        rel->rx.refused = UNETMM_REL_WANT_PAGE;
        rel->rx.refuse = true;
    }
    unetmm_rel_owe_ack(core, rel);
}

/* The driver answered for a page of a message's buffer. */
void unetmm_rel_answer(UnetmmCore *core, UnetmmEp *ep, uint8_t reply,
                       uint8_t status)
{
    UnetmmRel *rel = ep->rel_missed;

    if (reply == UNETMM_REPLY_DEFERRED) {
        unetmm_count(core, ep, UNETMM_C_faults_deferred, 1);
        return;
    }
    ep->rel_missed = NULL;
    if (reply == UNETMM_REPLY_ERROR) {
        unetmm_count(core, ep, UNETMM_C_faults_error, 1);
        unetmm_rel_give_back(rel, status);
        unetmm_rel_fail(core, ep, rel, NULL, UNETMM_ST_FLUSHED,
                        UNETMM_WHY_CHANNEL);
    }
    unetmm_engine_queue(core, ep);
}

static bool rel_ready(UnetmmEp *ep, const UnetmmRel *rel)
{
    switch (rel->rx.refused) {
    case UNETMM_REL_WANT_HEAD:
        return ep->nheads &&
               unetmm_head_at(ep, 0)->state == UNETMM_HEAD_READY;
    case UNETMM_REL_WANT_PAGE:
        return ep->misses[UNETMM_MISS_CLAIMED].state == UNETMM_MISS_NONE;
    default:
        return true;
    }
}

void unetmm_rel_look_again(UnetmmCore *core, UnetmmEp *ep)
{
    bool room = unetmm_ep_cq_spare(ep);

    for (UnetmmRel *rel = ep->rels; rel && room; rel = rel->next) {
        /* What is still to be refused has not been said yet. */
        if (rel->state == UNETMM_REL_OPEN && rel->rx.refused &&
            !rel->rx.refuse && rel_ready(ep, rel)) {
            rel->rx.refused = UNETMM_REL_WANT_NOTHING;
            unetmm_rel_owe_ack(core, rel);
        }
    }
}
