/*
 * unetmm: exhaustive exploration of small states: which two are the same
 *
 * Two worlds are the same if nothing that can still happen tells them apart.
 * So all state that counts goes in, relative where it is absolute: an age as a
 * rank, a deadline as a distance, a generation as "stale".  Counters, clocks,
 * tags and the places of entries in a ring stay out.  Too much here only costs
 * time; too little would hide states.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "explore.h"

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15ull;
    return h ^ h >> 29;
}

static uint64_t mix_bytes(uint64_t h, const void *data, size_t n)
{
    const uint8_t *p = data;

    while (n--) {
        h = mix(h, *p++);
    }
    return h;
}

/* The message number that a frame carries says all of its bytes. */
static uint64_t mix_frame(uint64_t h, const uint8_t *frame)
{
    return mix_bytes(h, frame, sizeof(struct unetmm_frame) + 4);
}

static uint64_t hash_tlb(uint64_t h, const UnetmmTlb *tlb)
{
    uint32_t n = unetmm_tlb_capacity(tlb);

    for (uint32_t i = 0; i < n; i++) {
        const UnetmmTlbEntry *e = &tlb->entries[i];
        unsigned rank = 0;

        for (uint32_t k = 0; k < n; k++) {
            rank += tlb->entries[k].stamp < e->stamp;
        }
        h = mix(h, tlb->slot[i]);
        h = mix(h, e->valid | e->dying << 1 | e->dirty << 2 | rank << 3 |
                   e->busy << 8 | e->in_dma << 16);
        if (e->valid || e->dying) {
            h = mix(h, e->vpn << 16 | e->space);
            h = mix(h, e->pte);
        }
    }
    return h;
}

static uint64_t hash_tx(uint64_t h, const UnetmmTransfer *tx, int64_t now)
{
    h = mix(h, tx->state | tx->blocked_on << 4 | tx->status << 8 |
               tx->seg << 16);
    if (tx->state == UNETMM_TX_IDLE) {
        return h;
    }
    h = mix(h, tx->desc.cookie << 32 | tx->done);
    h = mix(h, (uint64_t)tx->seg_off << 32 | tx->moving);
    if (tx->moving) {
        h = mix(h, tx->page.id | (tx->deadline_ns - now) << 8);
    }
    /* Only gathered bytes count. */
    return tx->frame ? mix_bytes(h, tx->frame + sizeof(struct unetmm_frame),
                                 MIN(tx->done, 4)) : h;
}

static uint64_t hash_heads(uint64_t h, UnetmmEp *ep)
{
    h = mix(h, ep->nheads);
    for (uint32_t i = 0; i < ep->nheads; i++) {
        const UnetmmHead *head = unetmm_head_at(ep, i);
        bool now = head->asked_in == ep->activity;

        h = mix(h, head->state | head->status << 4 | now << 12 |
                   (now ? head->asks : 0) << 16);
        h = mix(h, head->addr);
        h = mix(h, head->cookie);
    }
    return h;
}

static uint64_t hash_ep(uint64_t h, World *w, XEp *x)
{
    UnetmmEp *ep = &w->h.core.eps[x->ep.id];

    h = mix(h, x->open | x->closing << 1 | x->lost << 2 | x->opened << 3);
    if (!x->open) {
        return h;
    }
    h = mix(h, w->h.core.lists->ready.has[ep->id] | ep->landing << 1 | ep->error << 2 |
               ep->closing << 3 | ep->publish << 4 | ep->state_shown << 8);
    h = mix(h, (uint64_t)ep->sq_prod << 32 | ep->sq_cons);
    h = mix(h, (uint64_t)ep->fq_prod << 32 | ep->fq_cons);
    h = mix(h, (uint64_t)ep->cq_prod << 32 | ep->cq_cons);
    h = mix(h, (uint64_t)x->sent << 32 | x->completed);
    h = mix(h, (uint64_t)x->posted << 32 | x->returned);
    h = mix(h, (uint64_t)ep->first_head << 32 | x->ep.cq_cons);
    h = mix_bytes(h, fake_ptr(&w->h, x->ep.cq, 64u << x->ep.cq_log2),
                  64u << x->ep.cq_log2);
    return hash_tx(hash_heads(h, ep), &ep->tx, w->h.now);
}

static uint64_t hash_list(uint64_t h, const UnetmmList *list)
{
    for (uint32_t i = 0; i < list->used; i++) {
        h = mix(h, list->numbers[(list->first + i) % list->size]);
    }
    return h;
}

static uint64_t hash_misses(uint64_t h, const UnetmmCore *core)
{
    uint32_t n = unetmm_misses(core);

    for (uint32_t i = UNETMM_EP_MISSES; i < n; i++) {
        const UnetmmMiss *miss = &core->miss->all[i];
        bool queued = core->miss->wanted.has[i];

        if (miss->state == UNETMM_MISS_NONE && !queued) {
            continue;
        }
        h = mix(h, i | miss->state << 16 | miss->write << 20 |
                   queued << 21 | miss->npages << 24);
        h = mix(h, miss->vpn);
        h = mix(h, miss->state == UNETMM_MISS_JOINED ? miss->leader : 0);
    }
    for (uint32_t i = 0; i < core->miss->in_flight_used; i++) {
        h = mix(h, core->miss->in_flight[i]);
    }
    h = hash_list(h, &core->miss->wanted);
    return mix(h, core->miss->in_flight_used << 16 | core->miss->wanted.used);
}

static uint64_t hash_frames(uint64_t h, World *w)
{
    const UnetmmCore *core = &w->h.core;
    const UnetmmLanding *rx = core->landing;

    for (uint32_t i = 0; i < core->port->fifo_used; i++) {
        uint32_t at = (core->port->fifo_first + i) % core->params.local_queue;

        h = mix_frame(h, core->port->fifo[at].frame);
    }
    h = mix(h, core->port->fifo_used << 8 | core->port->wanted << 1 |
               rx->active);
    if (rx->active) {
        h = mix(h, (uint64_t)rx->ep << 32 | rx->place.page << 16 |
                   rx->place.off);
        h = mix(h, rx->cqe.cookie << 32 | (rx->deadline_ns - w->h.now));
        for (uint32_t i = rx->place.page; i < rx->place.npages; i++) {
            h = mix(h, rx->place.pages[i].id);
        }
        /* rx->frame starts with the payload. */
        h = mix_bytes(h, rx->frame, 4);
    }
    return h;
}

/* The records in the ring that the driver has not read yet. */
static uint64_t hash_ring(uint64_t h, World *w)
{
    const FakeRing *ring = &w->d.ring[UNETMM_RING_FAULT];
    uint32_t prod = w->h.core.ring->all[UNETMM_RING_FAULT].prod;

    for (uint32_t i = ring->index; i != prod; i++) {
        uint32_t slot = i & ((1u << ring->log2) - 1);
        struct unetmm_fault f;

        fake_read(&w->h, ring->base + (uint64_t)slot * sizeof(f), &f,
                  sizeof(f));
        unetmm_le_fault(&f);
        h = mix(h, f.type | f.flags << 8 | f.npages << 16);
        if (f.type == UNETMM_FAULT_MISS) {
            XFault fault = { .f = f };

            h = mix(h, (f.fault_id & 0xffff) | world_stale(w, &fault) << 16);
        }
        h = mix(h, f.vaddr);
    }
    return mix(h, prod - ring->index);
}

static uint64_t hash_model(uint64_t h, World *w)
{
    for (unsigned i = 0; i < w->faults->len; i++) {
        const XFault *fault = &g_array_index(w->faults, XFault, i);

        h = mix(h, (fault->f.fault_id & 0xffff) | fault->deferred << 16 |
                   world_stale(w, fault) << 17);
        h = mix(h, fault->f.vaddr | fault->f.npages);
    }
    h = mix(h, w->faults->len);
    h = mix_bytes(h, &w->left, sizeof(w->left));
    for (unsigned m = 0; m < w->messages; m++) {
        h = mix(h, w->message[m].to | w->message[m].received << 1);
    }
    h = mix(h, (w->deferred != 0) | (w->errors != 0) << 1 |
               w->inv_pending << 2);
    return w->inv_pending ? mix(h, w->inv_first << 4 | w->inv_space->id) : h;
}

uint64_t world_hash(World *w)
{
    const UnetmmCore *core = &w->h.core;
    uint64_t h = hash_tlb(1, &core->source->tlb);

    for (unsigned i = 0; i < X_EPS; i++) {
        h = hash_ep(h, w, &w->x[i]);
    }
    h = hash_list(h, &core->lists->ready);
    h = mix(h, core->lists->ready.used << 8 | core->ring->late);
    h = mix(h, !!(core->ring->events & UNETMM_EVENT_FAULT_FULL));
    return hash_model(hash_ring(hash_frames(hash_misses(h, core), w), w), w);
}
