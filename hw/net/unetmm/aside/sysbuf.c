/*
 * unetmm: the system buffer (NetVM): where a packet goes whose memory is absent
 *
 * The driver gives slots.  Each channel of an endpoint with policy `redirect`
 * is promised some, and grants its peer so many packets beyond the next one
 * expected (credits): a packet that may be sent has a slot, whoever else sends
 * what, and a slot is never looked for in vain.
 *
 * A packet in a slot is here, but not in its place: it keeps its turn until the
 * driver has copied it, once, and so do all behind it.  What comes later for a
 * page of a slot goes to a slot as well, and they are copied in that order.
 * Putting it there takes no simulated time (x-dma-page-ns).
 *
 * A slot outlives its channel if the endpoint goes first; it is the card's
 * again when the driver says so, and only then promised to somebody else.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../rel/rel.h"
#include "../abi/unetmm_le.h"

static void sysbuf_create(UnetmmCore *core)
{
    core->sysbuf.slots = g_new0(UnetmmSlot, core->params.sysbuf_slots + 1);
    core->sysbuf.free = g_new0(uint16_t, core->params.sysbuf_slots + 1);
    core->sysbuf.full = g_new0(uint16_t, core->params.sysbuf_slots + 1);
}

static void sysbuf_free(UnetmmCore *core)
{
    g_clear_pointer(&core->sysbuf.slots, g_free);
    g_clear_pointer(&core->sysbuf.free, g_free);
    g_clear_pointer(&core->sysbuf.full, g_free);
}

static void sysbuf_reset(UnetmmCore *core)
{
    UnetmmSysbuf *sb = &core->sysbuf;

    memset(sb->slots, 0, core->params.sysbuf_slots * sizeof(*sb->slots));
    sb->n = sb->bytes = sb->promised = sb->nfree = 0;
    sb->full_first = sb->full_used = 0;
    sb->held_up = false;
}

/* ---- Given and promised ------------------------------------------------- */

bool unetmm_sysbuf_give(UnetmmCore *core, const uint64_t *addrs, uint32_t n,
                        uint32_t bytes)
{
    UnetmmSysbuf *sb = &core->sysbuf;

    if (n > core->params.sysbuf_slots ||
        (n && bytes < UNETMM_SLOT_HEAD + core->params.user_mtu)) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (addrs[i] % 8 || addrs[i] > UINT64_MAX - bytes) {
            return false;
        }
    }
    sb->n = sb->nfree = n;
    sb->bytes = bytes;
    for (uint32_t i = 0; i < n; i++) {
        sb->slots[i] = (UnetmmSlot) { .addr = addrs[i] };
        /* The first one is the first to be used. */
        sb->free[i] = n - 1 - i;
    }
    return true;
}

uint8_t unetmm_sysbuf_set(UnetmmCore *core,
                          const struct unetmm_cmd_sysbuf *cmd)
{
    g_autofree uint64_t *addrs = NULL;

    if (cmd->slots > core->params.sysbuf_slots || cmd->list % 8) {
        return UNETMM_CS_BAD_ARG;
    }
    if (core->sysbuf.promised || core->sysbuf.nfree != core->sysbuf.n) {
        return UNETMM_CS_BUSY;
    }
    addrs = g_new0(uint64_t, cmd->slots + 1);
    if (cmd->slots && !unetmm_dma_read(core, NULL, cmd->list, addrs,
                                       cmd->slots * sizeof(*addrs))) {
        return UNETMM_CS_DMA;
    }
    for (uint32_t i = 0; i < cmd->slots; i++) {
        unetmm_le_u64(&addrs[i]);
    }
    if (!unetmm_sysbuf_give(core, addrs, cmd->slots, cmd->slot_bytes)) {
        return UNETMM_CS_BAD_ARG;
    }
    trace_unetmm_sysbuf_set(cmd->slots, cmd->slot_bytes);
    return UNETMM_CS_OK;
}

bool unetmm_sysbuf_promise(UnetmmCore *core, uint32_t n)
{
    if (n > core->sysbuf.n - core->sysbuf.promised) {
        return false;
    }
    core->sysbuf.promised += n;
    return true;
}

void unetmm_sysbuf_forget(UnetmmCore *core, UnetmmRel *rel)
{
    UnetmmSysbuf *sb = &core->sysbuf;

    for (uint32_t i = 0; rel->rx.slots && i < sb->n; i++) {
        if (sb->slots[i].state != UNETMM_SLOT_FREE &&
            sb->slots[i].rel == rel) {
            sb->slots[i].rel = NULL;
            rel->rx.slots--;
            rel->credits--;
        }
    }
    sb->promised -= rel->credits;
    rel->credits = 0;
}

/* ---- Filled ------------------------------------------------------------- */

static bool pages_meet(const UnetmmPiece *a, const UnetmmPiece *b)
{
    return (a->addr >> UNETMM_PAGE_SHIFT) <=
           ((b->addr + (b->len - 1)) >> UNETMM_PAGE_SHIFT) &&
           (b->addr >> UNETMM_PAGE_SHIFT) <=
           ((a->addr + (a->len - 1)) >> UNETMM_PAGE_SHIFT);
}

static bool slot_meets(const UnetmmSlot *slot, const UnetmmPlacement *place)
{
    for (unsigned i = 0; i < slot->npieces; i++) {
        for (uint32_t p = 0; p < place->npieces; p++) {
            if (pages_meet(&slot->pieces[i], &place->pieces[p])) {
                return true;
            }
        }
    }
    return false;
}

bool unetmm_sysbuf_follows(const UnetmmCore *core, const UnetmmRel *rel,
                           const UnetmmPlacement *place)
{
    const UnetmmRelRx *rx = &rel->rx;

    for (unsigned i = 0; rx->slots && i < UNETMM_REL_WINDOW; i++) {
        if ((rx->unlanded & unetmm_rel_bit(i)) &&
            slot_meets(&core->sysbuf.slots[rx->slot_of[i]], place)) {
            return true;
        }
    }
    return false;
}

/* False: the bus refused it. */
static bool slot_write(UnetmmCore *core, UnetmmEp *ep, const UnetmmRel *rel,
                       const UnetmmSlot *slot, const struct unetmm_frame *f,
                       const uint8_t *payload)
{
    bool write = f->opcode == UNETMM_WIRE_WRITE;
    struct unetmm_slot head = {
        .space = ep->space, .ep = ep->id, .channel = rel->channel,
        .opcode = write ? UNETMM_OP_WRITE : UNETMM_OP_SEND,
        .npieces = slot->npieces, .region = write ? f->handle : 0,
        .len = f->len, .time_ns = core->ops->now_ns(core->host),
    };

    for (unsigned i = 0; i < slot->npieces; i++) {
        head.piece[i] = (struct unetmm_piece) {
            .addr = slot->pieces[i].addr, .len = slot->pieces[i].len,
            .from = slot->pieces[i].from,
        };
    }
    unetmm_le_slot(&head);
    return unetmm_dma_write(core, ep, slot->addr + UNETMM_SLOT_HEAD, payload,
                            f->len) &&
           unetmm_dma_write(core, ep, slot->addr, &head, sizeof(head));
}

static void slot_is_full(UnetmmCore *core, UnetmmRel *rel, uint16_t number,
                         uint32_t psn)
{
    UnetmmSysbuf *sb = &core->sysbuf;
    UnetmmSlot *slot = &sb->slots[number];

    slot->state = UNETMM_SLOT_FULL;
    slot->rel = rel;
    slot->psn = psn;
    slot->ep = rel->ep;
    slot->space = core->eps[rel->ep].space;
    sb->full[(sb->full_first + sb->full_used++) %
             core->params.sysbuf_slots] = number;
    rel->rx.slots++;
    rel->rx.slot_of[psn % UNETMM_REL_WINDOW] = number;
    rel->rx.unlanded |= unetmm_rel_bit(psn);
}

bool unetmm_sysbuf_take(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                        const struct unetmm_frame *f,
                        const UnetmmPlacement *place, const uint8_t *payload)
{
    UnetmmSysbuf *sb = &core->sysbuf;
    uint16_t number;
    UnetmmSlot *slot;

    if (!ep->policy->slots || rel->rx.slots >= rel->credits || !sb->nfree) {
        return false;
    }
    if (!place->npieces || place->npieces > UNETMM_SLOT_PIECES) {
        unetmm_count(core, ep, UNETMM_C_sysbuf_refused, 1);
        return false;
    }
    number = sb->free[sb->nfree - 1];
    slot = &sb->slots[number];
    slot->npieces = place->npieces;
    memcpy(slot->pieces, place->pieces,
           place->npieces * sizeof(slot->pieces[0]));
    if (!slot_write(core, ep, rel, slot, f, payload)) {
        return false;
    }
    sb->nfree--;
    slot_is_full(core, rel, number, f->psn);
    unetmm_rel_keep_head(core, ep, rel, f, NULL);
    unetmm_count(core, ep, UNETMM_C_sysbuf_packets, 1);
    unetmm_count(core, ep, UNETMM_C_sysbuf_bytes, f->len);
    trace_unetmm_sysbuf_take(ep->id, rel->channel, f->psn, number, f->len);
    return true;
}

/* ---- Reported and answered ---------------------------------------------- */

static void slot_free(UnetmmCore *core, uint16_t number)
{
    UnetmmSysbuf *sb = &core->sysbuf;

    sb->slots[number].state = UNETMM_SLOT_FREE;
    sb->slots[number].rel = NULL;
    sb->free[sb->nfree++] = number;
}

/* False: the ring has no room now. */
static bool slot_report(UnetmmCore *core, uint16_t number)
{
    UnetmmSlot *slot = &core->sysbuf.slots[number];
    struct unetmm_fault fault = {
        .type = UNETMM_FAULT_SLOT, .space = slot->space, .ep = slot->ep,
        .fault_id = number,
    };

    if (!unetmm_fault_room(core) || !unetmm_ring_post_fault(core, fault)) {
        return false;
    }
    slot->state = UNETMM_SLOT_TOLD;
    return true;
}

void unetmm_sysbuf_flush(UnetmmCore *core)
{
    UnetmmSysbuf *sb = &core->sysbuf;

    while (sb->full_used) {
        uint16_t number = sb->full[sb->full_first];

        if (!sb->slots[number].rel) {
            /* Nobody knows of it, and nobody wants it. */
            slot_free(core, number);
            sb->promised--;
        } else if (!slot_report(core, number)) {
            return;
        }
        sb->full_first = (sb->full_first + 1) % core->params.sysbuf_slots;
        sb->full_used--;
    }
}

uint8_t unetmm_sysbuf_done(UnetmmCore *core, const struct unetmm_cmd_slot *cmd)
{
    UnetmmSysbuf *sb = &core->sysbuf;
    UnetmmRel *rel;
    uint32_t psn;

    if (cmd->slot >= sb->n ||
        sb->slots[cmd->slot].state != UNETMM_SLOT_TOLD) {
        return UNETMM_CS_BAD_ID;
    }
    if (cmd->status > UNETMM_SLOT_GONE || cmd->rsvd[0] || cmd->rsvd[1] ||
        cmd->rsvd[2]) {
        return UNETMM_CS_BAD_ARG;
    }
    rel = sb->slots[cmd->slot].rel;
    psn = sb->slots[cmd->slot].psn;
    trace_unetmm_sysbuf_done(cmd->slot, cmd->status);
    slot_free(core, cmd->slot);
    if (rel) {
        rel->rx.slots--;
        unetmm_rel_slot_done(core, rel, psn, cmd->status);
    } else {
        sb->promised--;
    }
    return UNETMM_CS_OK;
}

/* A landing is over, for which channels may have had to wait. */
void unetmm_sysbuf_go_on(UnetmmCore *core)
{
    for (uint32_t i = 0; core->sysbuf.held_up && i < core->params.endpoints;
         i++) {
        for (UnetmmRel *rel = core->eps[i].rels; rel; rel = rel->next) {
            if (rel->rx.landed) {
                unetmm_engine_queue(core, &core->eps[i]);
            }
        }
    }
    core->sysbuf.held_up = false;
}

const UnetmmModule unetmm_module_sysbuf = {
    .name = "sysbuf",
    .create = sysbuf_create,
    .reset = sysbuf_reset,
    .free = sysbuf_free,
};
