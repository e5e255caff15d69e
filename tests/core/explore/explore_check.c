/*
 * unetmm: exhaustive exploration of small states: invariants
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "explore.h"

/* ---- The processes' view ---- */

static void check_bytes(World *w, XEp *x, uint64_t at, uint32_t len)
{
    uint8_t data[512];
    uint32_t buffer = world_buffer_len(w->scene);
    uint32_t m;

    fake_load(x->ep.space, at, data, buffer);
    memcpy(&m, data, sizeof(m));
    must(m < w->messages, "a message that nobody sent");
    must(&w->x[w->message[m].to] == x, "message %u came to the wrong one", m);
    must(!w->message[m].received, "message %u came twice", m);
    must(len == w->message[m].len, "message %u has %u bytes", m, len);
    w->message[m].received = true;
    for (uint32_t i = sizeof(m); i < len; i++) {
        must(data[i] == fake_pattern(m, i), "message %u: byte %u is wrong", m,
             i);
    }
    for (uint32_t i = len; i < buffer && !x->lost; i++) {
        must(!data[i], "byte %u behind message %u is written", i, m);
    }
}

void check_completion(World *w, XEp *x, const struct unetmm_cqe *cqe)
{
    unsigned slot;

    switch (cqe->opcode) {
    case UNETMM_CQE_SENT:
        must(cqe->cookie == x->completed && x->completed < x->sent,
             "send %u of endpoint %u completes, %u was next",
             (unsigned)cqe->cookie, x->ep.id, x->completed);
        must(cqe->status == UNETMM_ST_OK ||
             (cqe->status == UNETMM_ST_LIMIT && w->errors),
             "a send ends with status %u", cqe->status);
        x->completed++;
        return;
    case UNETMM_CQE_RECEIVED:
    case UNETMM_CQE_BUFFER:
        must(cqe->cookie == x->returned && x->returned < x->posted,
             "buffer %u of endpoint %u comes back, %u was next",
             (unsigned)cqe->cookie, x->ep.id, x->returned);
        break;
    default:
        violation("completion %u, status %u", cqe->opcode, cqe->status);
    }
    slot = (x->slots_posted - (x->posted - x->returned)) % 2;
    x->returned++;
    if (cqe->opcode == UNETMM_CQE_BUFFER) {
        must((cqe->status == UNETMM_ST_SKIPPED && w->deferred) ||
             (cqe->status == UNETMM_ST_LIMIT && w->errors),
             "a buffer comes back with status %u", cqe->status);
        return;
    }
    must(cqe->status == UNETMM_ST_OK, "received with status %u", cqe->status);
    x->received++;
    check_bytes(w, x, world_buffer_addr(x, slot), cqe->len);
}

/* A miss is asked once, until it has its answer or nobody wants one. */
void check_new_fault(World *w, const struct unetmm_fault *f)
{
    for (unsigned i = 0; i < w->faults->len; i++) {
        const XFault *old = &g_array_index(w->faults, XFault, i);

        must((old->f.fault_id & 0xffff) != (f->fault_id & 0xffff) ||
             world_stale(w, old), "fault %x asked again as %x",
             old->f.fault_id, f->fault_id);
    }
}

/* ---- Pins ---- */

static bool in_tlb(const UnetmmCore *core, uint16_t space, uint64_t vpn)
{
    unsigned found = 0;

    for (uint32_t i = 0; i < unetmm_tlb_capacity(&core->source->tlb); i++) {
        const UnetmmTlbEntry *e = &core->source->tlb.entries[i];

        found += e->valid && e->space == space && e->vpn == vpn;
    }
    must(found <= 1, "page %" PRIx64 " is in the TLB twice", vpn);
    return found;
}

/* Pinned exactly while the TLB has it, or an invalidation is under way. */
static void check_pins(World *w, FakeSpace *s)
{
    GHashTableIter iter;
    FakeVpage *page = NULL;

    g_hash_table_iter_init(&iter, s->pages);
    while (g_hash_table_iter_next(&iter, NULL, (void **)&page)) {
        if (w->inv_pending && s == w->inv_space && page->vpn >= w->inv_first &&
            page->vpn <= w->inv_last) {
            continue;
        }
        must(page->pins == in_tlb(&w->h.core, s->id, page->vpn),
             "space %u page %" PRIx64 ": %u pins, in the TLB: %d", s->id,
             page->vpn, page->pins, !page->pins);
    }
}

/* A page moves through an entry that is held, and has a pin. */
static void check_moving(World *w, const UnetmmPage *page)
{
    const UnetmmTlbEntry *e = &w->h.core.source->tlb.entries[page->id];
    const FakeVpage *v = fake_vpage(w->d.spaces[e->space], e->vpn << 12);

    must(e->busy && e->in_dma && (e->valid || e->dying),
         "a page moves through an entry that is not held");
    must((e->pte & UNETMM_PTE_ADDR) == page->dma && v && v->pins,
         "a page moves that the driver may have taken back");
    must(e->valid || w->inv_pending, "an invalidation was answered while its "
         "page is moving");
}

/* ---- Counts ---- */

static uint64_t dropped_at_receive(const UnetmmCore *core)
{
    static const enum unetmm_counter why[] = {
        UNETMM_C_drop_no_buffer, UNETMM_C_drop_asked, UNETMM_C_drop_absent,
        UNETMM_C_drop_too_long, UNETMM_C_drop_cq_full, UNETMM_C_drop_stopped,
        UNETMM_C_drop_invalidated, UNETMM_C_drop_dma, UNETMM_C_drop_channel,
        UNETMM_C_drop_no_endpoint, UNETMM_C_drop_malformed,
        UNETMM_C_drop_crc, UNETMM_C_drop_local_full,
    };
    uint64_t n = 0;

    for (unsigned i = 0; i < G_N_ELEMENTS(why); i++) {
        n += core->counters[why[i]];
    }
    return n;
}

/* Completions that are written and not yet taken, by kind. */
static void count_unread(XEp *x, unsigned *sends, unsigned *buffers)
{
    const UnetmmEp *ep = &x->ep.host->core.eps[x->ep.id];

    *sends = *buffers = 0;
    for (uint32_t i = x->ep.cq_cons; i != ep->cq_prod; i++) {
        uint32_t slot = i & ((1u << x->ep.cq_log2) - 1);
        uint64_t at = x->ep.cq + slot * sizeof(struct unetmm_cqe);
        const struct unetmm_cqe *cqe = fake_ptr(x->ep.host, at, sizeof(*cqe));

        must((le32_to_cpu(cqe->flags) & UNETMM_PHASE) ==
             UNETMM_PHASE_OF(i, x->ep.cq_log2), "completion without phase");
        *sends += cqe->opcode == UNETMM_CQE_SENT;
        *buffers += cqe->opcode != UNETMM_CQE_SENT;
    }
}

/* An endpoint that waits has a miss that is waited for. */
static void check_waiting(World *w, UnetmmEp *ep)
{
    must((ep->tx.blocked_on == UNETMM_BLOCKED_FAULT) ==
         (ep->misses[0].state != UNETMM_MISS_NONE),
         "endpoint %u: its send waits: %d, its miss is in state %u", ep->id,
         ep->tx.blocked_on, ep->misses[0].state);
    for (uint32_t i = 0; i < ep->nheads; i++) {
        const UnetmmHead *head = unetmm_head_at(ep, i);
        const UnetmmMiss *miss = &ep->misses[1 + (head - ep->heads)];
        const UnetmmMiss *of = miss->state == UNETMM_MISS_JOINED ?
                               &w->h.core.miss->all[miss->leader] : miss;

        must(of->state != UNETMM_MISS_DEFERRED ||
             head->state == UNETMM_HEAD_DEFERRED,
             "endpoint %u: a deferred head was not told", ep->id);
    }
}

static void check_ep(World *w, XEp *x)
{
    UnetmmEp *ep = &w->h.core.eps[x->ep.id];
    unsigned sends, buffers;

    must(ep->live && ep->error == x->closing, "endpoint %u is stopped",
         ep->id);
    if (x->closing) {
        return;
    }
    x->lost |= ep->counters[UNETMM_C_drop_invalidated] != 0;
    count_unread(x, &sends, &buffers);
    must(ep->fq_cons == x->returned + buffers,
         "endpoint %u: %u buffers left the queue, %u came back", ep->id,
         ep->fq_cons, x->returned + buffers);
    must(ep->sq_cons == x->completed + sends,
         "endpoint %u: %u sends left the queue, %u completed", ep->id,
         ep->sq_cons, x->completed + sends);
    must(ep->nheads <= x->posted - ep->fq_cons, "more heads than buffers");
    must(unetmm_ep_cq_room(ep) >= ep->landing,
         "endpoint %u: no place for the completion of landing messages",
         ep->id);
    check_waiting(w, ep);
    if (ep->tx.moving) {
        check_moving(w, &ep->tx.page);
    }
}

void check_world(World *w)
{
    const UnetmmCore *core = &w->h.core;
    unsigned busy = 0;

    for (unsigned i = 0; i < X_EPS; i++) {
        const UnetmmTransfer *tx = &core->eps[w->x[i].ep.id].tx;

        if (w->x[i].open) {
            check_ep(w, &w->x[i]);
            busy += tx->moving;
        } else {
            must(!core->eps[w->x[i].ep.id].live, "a closed endpoint lives");
        }
        check_pins(w, w->x[i].ep.space);
    }
    if (core->landing->active) {
        check_moving(w, &core->landing->place.pages[core->landing->place.page]);
        busy += core->landing->place.npages - core->landing->place.page;
    }
    for (uint32_t i = 0; i < unetmm_tlb_capacity(&core->source->tlb); i++) {
        busy -= core->source->tlb.entries[i].busy;
    }
    must(busy == 0, "entries held and holders differ by %d", (int)busy);
    must(core->counters[UNETMM_C_local_frames] + w->offered ==
         core->counters[UNETMM_C_rx_frames] + dropped_at_receive(core) +
         core->port->fifo_used + core->landing->active,
         "a frame is neither received nor counted as dropped");
}

/* ---- At the end ---- */

static bool in_slot(uint64_t at, uint64_t first, uint32_t len)
{
    return at - first < len;
}

/* Is the byte in a buffer, or in what was sent? */
static bool somebodys(World *w, const FakeSpace *s, uint64_t at)
{
    bool mine = false;

    for (unsigned e = 0; e < X_EPS && !mine; e++) {
        const XEp *x = &w->x[e];

        for (unsigned k = 0; k < 2 && x->ep.space == s; k++) {
            mine |= in_slot(at, world_send_addr(x, k),
                            world_send_len(w->scene)) ||
                    in_slot(at, world_buffer_addr(x, k),
                            world_buffer_len(w->scene));
        }
    }
    return mine;
}

/* Nothing but buffers and sent bytes has ever been written. */
static void check_outside(World *w, FakeSpace *s)
{
    GHashTableIter iter;
    FakeVpage *page = NULL;

    g_hash_table_iter_init(&iter, s->pages);
    while (g_hash_table_iter_next(&iter, NULL, (void **)&page)) {
        const uint8_t *p = fake_ptr(&w->h, page->dma, FAKE_PAGE);

        /* All zero is the usual case, and quick to see. */
        if (!p[0] && !memcmp(p, p + 1, FAKE_PAGE - 1)) {
            continue;
        }
        for (unsigned i = 0; i < FAKE_PAGE; i++) {
            must(!p[i] || somebodys(w, s, (page->vpn << 12) + i),
                 "byte %u of page %" PRIx64 " outside of all buffers is "
                 "written", i, page->vpn);
        }
    }
}

void check_settled(World *w)
{
    const UnetmmCore *core = &w->h.core;

    must(!w->inv_pending, "an invalidation is never answered");
    must(!core->miss->in_flight_used && !core->miss->wanted.used &&
         !core->miss->asked && !core->miss->joined &&
         !core->miss->refused && !core->miss->changing,
         "misses are left: %u in flight, %u wanted, %u joined, %u refused, "
         "%u of changing entries",
         core->miss->in_flight_used, core->miss->wanted.used,
         core->miss->joined, core->miss->refused, core->miss->changing);
    must(!core->landing->active && !core->port->fifo_used &&
         !core->source->tlb.moving, "something still moves");
    for (unsigned i = 0; i < X_EPS; i++) {
        XEp *x = &w->x[i];

        must(!x->closing, "a close is never answered");
        if (i == 0 || x->ep.space != w->x[0].ep.space) {
            check_outside(w, x->ep.space);
        }
        if (!x->open) {
            continue;
        }
        must(x->completed == x->sent, "endpoint %u: %u sends, %u completed",
             x->ep.id, x->sent, x->completed);
        must(x->posted - x->returned ==
             x->ep.fq_prod - core->eps[x->ep.id].fq_cons,
             "endpoint %u: buffers are lost", x->ep.id);
        must(core->eps[x->ep.id].counters[UNETMM_C_rx_frames] == x->received,
             "endpoint %u: a message was received and not completed",
             x->ep.id);
    }
}
