/*
 * unetmm: the card's TLB
 *
 * slot[] holds numbers of entries: slots 0 .. sets*ways-1 are the sets, the
 * rest are the victims.  To move an entry, the TLB swaps two numbers in slot[];
 * the entry stays in entries[] and keeps its number, so a holder's number stays
 * valid.  Victims are FIFO by the time at which they fell out of their set.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../abi/unetmm_hw.h"
#include "replace.h"

#define DECLARE(number, upper, name, help) \
    extern const UnetmmTlbReplaceOps unetmm_tlb_replace_##name;
#define ENTRY(number, upper, name, help) [number] = &unetmm_tlb_replace_##name,
UNETMM_TLB_REPLACEMENTS(DECLARE)
static const UnetmmTlbReplaceOps *const replacements[] = {
    UNETMM_TLB_REPLACEMENTS(ENTRY)
};
#undef DECLARE
#undef ENTRY

/* Odd, so that it permutes the sets; spreads spaces far from each other. */
#define UNETMM_TLB_SPREAD 0x9e3779b1u

void unetmm_tlb_init(UnetmmTlb *tlb, uint32_t sets, uint32_t ways,
                     uint32_t victims)
{
    *tlb = (UnetmmTlb) { .sets = sets, .ways = ways, .victims = victims };
    tlb->entries = g_new0(UnetmmTlbEntry, unetmm_tlb_capacity(tlb));
    tlb->slot = g_new0(uint32_t, unetmm_tlb_capacity(tlb));
    unetmm_tlb_reset(tlb);
}

void unetmm_tlb_free(UnetmmTlb *tlb)
{
    g_clear_pointer(&tlb->entries, g_free);
    g_clear_pointer(&tlb->slot, g_free);
}

void unetmm_tlb_reset(UnetmmTlb *tlb)
{
    uint32_t n = unetmm_tlb_capacity(tlb);

    memset(tlb->entries, 0, n * sizeof(*tlb->entries));
    for (uint32_t i = 0; i < n; i++) {
        tlb->slot[i] = i;
    }
    tlb->clock = 0;
    tlb->epoch = 0;
    tlb->random = 1;
    tlb->used = 0;
    tlb->moving = 0;
    tlb->lost_head = false;
}

static uint32_t tlb_set(const UnetmmTlb *tlb, uint16_t space, uint64_t vpn)
{
    uint32_t spread = space * UNETMM_TLB_SPREAD;
    uint32_t low = (uint32_t)vpn;

    if (tlb->index == UNETMM_TLB_INDEX_XOR) {
        return (low ^ spread) & (tlb->sets - 1);
    }
    return (low + spread) & (tlb->sets - 1);
}

static inline bool tlb_match(const UnetmmTlbEntry *e, uint16_t space,
                             uint64_t vpn)
{
    return e->vpn == vpn && e->space == space && e->valid;
}

static inline bool tlb_slot_is_free(const UnetmmTlbEntry *e)
{
    return !e->valid && !e->dying;
}

/* The slot that holds the page, or UNETMM_TLB_NONE. */
static uint32_t tlb_find(const UnetmmTlb *tlb, uint16_t space, uint64_t vpn)
{
    uint32_t first = tlb_set(tlb, space, vpn) * tlb->ways;
    uint32_t victim = tlb->sets * tlb->ways;

    for (uint32_t i = first; i < first + tlb->ways; i++) {
        if (tlb_match(unetmm_tlb_at(tlb, i), space, vpn)) {
            return i;
        }
    }
    for (uint32_t i = victim; i < victim + tlb->victims; i++) {
        if (tlb_match(unetmm_tlb_at(tlb, i), space, vpn)) {
            return i;
        }
    }
    return UNETMM_TLB_NONE;
}

static void tlb_swap(UnetmmTlb *tlb, uint32_t a, uint32_t b)
{
    uint32_t id = tlb->slot[a];

    tlb->slot[a] = tlb->slot[b];
    tlb->slot[b] = id;
}

/* The way of a set that goes next, or UNETMM_TLB_NONE if all are held. */
static uint32_t tlb_pick_way(UnetmmTlb *tlb, uint32_t first)
{
    return replacements[tlb->replace]->pick(tlb, first);
}

static void tlb_enter(UnetmmTlb *tlb, UnetmmTlbEntry *e)
{
    const UnetmmTlbReplaceOps *ops = replacements[tlb->replace];

    (ops->enter ?: unetmm_tlb_renew)(tlb, e);
}

static void tlb_use(UnetmmTlb *tlb, UnetmmTlbEntry *e)
{
    const UnetmmTlbReplaceOps *ops = replacements[tlb->replace];

    if (ops->use) {
        ops->use(tlb, e);
    }
}

static void tlb_clear(UnetmmTlb *tlb, UnetmmTlbEntry *e)
{
    if (e->valid || e->dying) {
        tlb->used--;
    }
    memset(e, 0, sizeof(*e));
}

/* Tells the owner, then empties the slot.  False: the owner said no. */
static bool tlb_push_out(UnetmmTlb *tlb, uint32_t slot)
{
    UnetmmTlbEntry *e = unetmm_tlb_at(tlb, slot);

    if (tlb->evict && !tlb->evict(tlb->opaque, e)) {
        return false;
    }
    tlb_clear(tlb, e);
    return true;
}

/* An empty victim slot, made by pushing the oldest out if it must be. */
static uint32_t tlb_victim_room(UnetmmTlb *tlb)
{
    uint32_t first = tlb->sets * tlb->ways;
    uint32_t oldest = UNETMM_TLB_NONE;

    for (uint32_t i = first; i < first + tlb->victims; i++) {
        UnetmmTlbEntry *e = unetmm_tlb_at(tlb, i);

        if (tlb_slot_is_free(e)) {
            return i;
        }
        if (unetmm_tlb_movable(tlb, e) &&
            (oldest == UNETMM_TLB_NONE ||
             e->stamp < unetmm_tlb_at(tlb, oldest)->stamp)) {
            oldest = i;
        }
    }
    if (oldest == UNETMM_TLB_NONE || !tlb_push_out(tlb, oldest)) {
        return UNETMM_TLB_NONE;
    }
    return oldest;
}

/* An empty slot for a page of this set, or UNETMM_TLB_NONE. */
static uint32_t tlb_make_room(UnetmmTlb *tlb, uint16_t space, uint64_t vpn)
{
    uint32_t first = tlb_set(tlb, space, vpn) * tlb->ways;
    uint32_t way, victim;

    for (uint32_t i = first; i < first + tlb->ways; i++) {
        if (tlb_slot_is_free(unetmm_tlb_at(tlb, i))) {
            return i;
        }
    }
    way = tlb_pick_way(tlb, first);
    victim = tlb_victim_room(tlb);
    if (way == UNETMM_TLB_NONE) {
        return victim;
    }
    if (victim != UNETMM_TLB_NONE) {
        unetmm_tlb_renew(tlb, unetmm_tlb_at(tlb, way));
        tlb_swap(tlb, way, victim);
        return way;
    }
    return tlb_push_out(tlb, way) ? way : UNETMM_TLB_NONE;
}

UnetmmTlbHit unetmm_tlb_lookup(UnetmmTlb *tlb, uint16_t space, uint64_t vpn,
                               bool write, uint32_t *id)
{
    uint32_t slot = tlb_find(tlb, space, vpn);
    uint32_t victims = tlb->sets * tlb->ways;
    uint64_t right = write ? UNETMM_PTE_WRITE : UNETMM_PTE_READ;
    UnetmmTlbHit hit = UNETMM_TLB_HIT_SET;

    if (slot == UNETMM_TLB_NONE || !(unetmm_tlb_at(tlb, slot)->pte & right)) {
        return UNETMM_TLB_MISS;
    }
    if (slot >= victims) {
        uint32_t way = tlb_pick_way(tlb, tlb_set(tlb, space, vpn) * tlb->ways);

        hit = UNETMM_TLB_HIT_VICTIM;
        if (way != UNETMM_TLB_NONE && !unetmm_tlb_at(tlb, slot)->busy) {
            unetmm_tlb_renew(tlb, unetmm_tlb_at(tlb, way));
            tlb_swap(tlb, way, slot);
            slot = way;
            tlb_enter(tlb, unetmm_tlb_at(tlb, slot));
        }
    } else {
        tlb_use(tlb, unetmm_tlb_at(tlb, slot));
    }
    *id = tlb->slot[slot];
    return hit;
}

bool unetmm_tlb_has(const UnetmmTlb *tlb, uint16_t space, uint64_t vpn)
{
    return tlb_find(tlb, space, vpn) != UNETMM_TLB_NONE;
}

bool unetmm_tlb_fits(const UnetmmTlb *tlb, uint16_t space, const uint64_t *vpns,
                     uint32_t n)
{
    uint32_t beyond = 0;

    if (n <= tlb->ways + tlb->victims) {
        return true;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t before = 0;

        for (uint32_t j = 0; j < i; j++) {
            before += tlb_set(tlb, space, vpns[j]) ==
                      tlb_set(tlb, space, vpns[i]);
        }
        beyond += before >= tlb->ways;
    }
    return beyond <= tlb->victims;
}

void unetmm_tlb_new_batch(UnetmmTlb *tlb)
{
    /* Epoch 0 belongs to nobody, so an idle TLB protects nothing. */
    if (++tlb->epoch == 0) {
        tlb->epoch = 1;
    }
}

UnetmmTlbInsert unetmm_tlb_insert(UnetmmTlb *tlb, uint16_t space, uint64_t vpn,
                                  uint64_t pte, uint32_t tag)
{
    uint32_t slot = tlb_find(tlb, space, vpn);
    UnetmmTlbInsert result = UNETMM_TLB_REPLACED;
    UnetmmTlbEntry *e;

    if (slot != UNETMM_TLB_NONE) {
        e = unetmm_tlb_at(tlb, slot);
        if (e->busy) {
            return UNETMM_TLB_REFUSED;
        }
    } else {
        slot = tlb_make_room(tlb, space, vpn);
        if (slot == UNETMM_TLB_NONE) {
            return UNETMM_TLB_REFUSED;
        }
        e = unetmm_tlb_at(tlb, slot);
        tlb_enter(tlb, e);
        e->dirty = e->head = false;
        tlb->used++;
        result = UNETMM_TLB_INSERTED;
    }
    e->space = space;
    e->vpn = vpn;
    e->pte = pte;
    e->tag = tag;
    e->epoch = tlb->epoch;
    e->valid = true;
    /* A page written through an entry that is replaced stays written. */
    return result;
}

void unetmm_tlb_hold(UnetmmTlb *tlb, uint32_t id)
{
    tlb->entries[id].busy++;
}

void unetmm_tlb_release(UnetmmTlb *tlb, uint32_t id)
{
    UnetmmTlbEntry *e = &tlb->entries[id];

    assert(e->busy > 0);
    if (--e->busy == 0 && e->dying) {
        tlb_clear(tlb, e);
    }
}

void unetmm_tlb_dma_begin(UnetmmTlb *tlb, uint32_t id)
{
    assert(tlb->entries[id].busy > 0);
    tlb->entries[id].in_dma++;
    tlb->moving++;
}

void unetmm_tlb_dma_end(UnetmmTlb *tlb, uint32_t id)
{
    assert(tlb->entries[id].in_dma > 0);
    tlb->entries[id].in_dma--;
    tlb->moving--;
}

static void tlb_drop(UnetmmTlb *tlb, UnetmmTlbEntry *e)
{
    tlb->lost_head |= e->head;
    if (e->busy) {
        e->valid = false;
        e->dying = true;
    } else {
        tlb_clear(tlb, e);
    }
}

uint32_t unetmm_tlb_invalidate(UnetmmTlb *tlb, uint16_t space, uint64_t first,
                               uint64_t last)
{
    uint32_t n = unetmm_tlb_capacity(tlb);
    uint32_t dropped = 0;

    /* A short range is looked up page by page, a long one by a scan. */
    if (last - first < n / (tlb->ways + tlb->victims)) {
        for (uint64_t vpn = first; vpn <= last; vpn++) {
            uint32_t slot = tlb_find(tlb, space, vpn);

            if (slot != UNETMM_TLB_NONE) {
                tlb_drop(tlb, unetmm_tlb_at(tlb, slot));
                dropped++;
            }
        }
        return dropped;
    }
    for (uint32_t i = 0; i < n; i++) {
        UnetmmTlbEntry *e = &tlb->entries[i];

        if (e->valid && e->space == space && e->vpn >= first &&
            e->vpn <= last) {
            tlb_drop(tlb, e);
            dropped++;
        }
    }
    return dropped;
}

bool unetmm_tlb_in_dma(const UnetmmTlb *tlb, uint16_t space, uint64_t first,
                       uint64_t last)
{
    for (uint32_t i = 0; tlb->moving && i < unetmm_tlb_capacity(tlb); i++) {
        const UnetmmTlbEntry *e = &tlb->entries[i];

        if (e->in_dma && e->space == space && e->vpn >= first &&
            e->vpn <= last) {
            return true;
        }
    }
    return false;
}

bool unetmm_tlb_consistent(const UnetmmTlb *tlb)
{
    for (uint32_t i = 0; i < unetmm_tlb_capacity(tlb); i++) {
        const UnetmmTlbEntry *e = unetmm_tlb_at(tlb, i);

        if (e->valid ? tlb_find(tlb, e->space, e->vpn) != i :
            e->dying && !e->busy) {
            return false;
        }
    }
    return true;
}

bool unetmm_tlb_evict_one(UnetmmTlb *tlb, uint32_t id)
{
    UnetmmTlbEntry *e = &tlb->entries[id];

    if (!e->valid || e->busy ||
        (tlb->evict && !tlb->evict(tlb->opaque, e))) {
        return false;
    }
    tlb_clear(tlb, e);
    return true;
}

/* ---- Saved state -------------------------------------------------------- */

static const UnetmmField entry_fields[] = {
    UNETMM_FIELDS(UnetmmTlbEntry, space, vpn, pte, stamp, tag, epoch),
    UNETMM_BOOLS(UnetmmTlbEntry, valid, dirty),
};

static const UnetmmField tlb_fields[] = {
    UNETMM_FIELDS(UnetmmTlb, clock, epoch, random),
};

/* Every entry is in one slot. */
static void slots_save(UnetmmStream *st, UnetmmTlb *tlb)
{
    uint32_t n = unetmm_tlb_capacity(tlb);
    g_autofree bool *seen = g_new0(bool, n);

    for (uint32_t i = 0; i < n; i++) {
        uint32_t id = unetmm_stream_member(st, tlb->slot[i], n, "slot", i);

        if (seen[id]) {
            unetmm_stream_refuse(st, "an entry of the TLB is in two slots");
        }
        if (st->wrong) {
            return;
        }
        seen[id] = true;
        tlb->slot[i] = id;
    }
}

static void entries_load(UnetmmStream *st, UnetmmTlb *tlb, uint32_t used,
                         UnetmmTlbEntryOk *ok, void *opaque)
{
    uint32_t n = unetmm_tlb_capacity(tlb);
    uint32_t next = 0;

    while (tlb->used < used && !st->wrong) {
        UnetmmTlbEntry *e;
        uint32_t id;

        unetmm_stream_enter(st, "entry", tlb->used);
        id = unetmm_stream_choice(st, 0, n, "id");
        e = &tlb->entries[id];
        if (id < next) {
            unetmm_stream_refuse(st, "translations are not in order");
        }
        UNETMM_STREAM_FIELDS(st, e, entry_fields);
        unetmm_stream_leave(st);
        if (!st->wrong && (e->stamp > tlb->clock || !ok(opaque, tlb, e))) {
            unetmm_stream_refuse(st, "translation %u is of a space that has "
                                 "none, or malformed", id);
        }
        e->dying = !e->valid;
        /* If no head relies on it, its end costs one look for nothing. */
        e->head = true;
        next = id + 1;
        tlb->used++;
    }
}

static void entries_save(UnetmmStream *st, UnetmmTlb *tlb)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < unetmm_tlb_capacity(tlb); i++) {
        UnetmmTlbEntry *e = &tlb->entries[i];
        uint32_t id = i;

        if (e->valid || e->dying) {
            unetmm_stream_enter(st, "entry", n++);
            unetmm_stream_u32(st, &id, "id");
            UNETMM_STREAM_FIELDS(st, e, entry_fields);
            unetmm_stream_leave(st);
        }
    }
}

void unetmm_tlb_save(UnetmmStream *st, UnetmmTlb *tlb, UnetmmTlbEntryOk *ok,
                     void *opaque)
{
    uint32_t used;

    UNETMM_STREAM_FIELDS(st, tlb, tlb_fields);
    slots_save(st, tlb);
    used = unetmm_stream_choice(st, tlb->used, unetmm_tlb_capacity(tlb) + 1,
                                "used");
    if (unetmm_stream_reads(st)) {
        entries_load(st, tlb, used, ok, opaque);
    } else {
        entries_save(st, tlb);
    }
}
