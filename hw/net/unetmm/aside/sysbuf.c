/*
 * unetmm: the system buffer (NetVM): where a packet goes whose memory is absent
 *
 * The driver gives slots.  Each channel of an endpoint with policy `redirect`
 * is promised some, and grants its peer so many packets beyond the next one
 * expected (credits): a packet that may be sent has a slot, whatever others
 * send, so the card always finds one.
 *
 * A packet in a slot is here, but not in its place: it keeps its turn until the
 * driver has copied it, once, as do all behind it.  A later packet for a
 * page of a slot goes to a slot as well; the driver copies them in that order.
 * Putting it there takes no simulated time (x-dma-page-ns).
 *
 * A slot outlives its channel if the endpoint goes first; it is the card's
 * again when the driver says so, and only then promised to somebody else.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../abi/unetmm_le.h"
#include "../ring/ring.h"
#include "aside.h"

static void sysbuf_create(UnetmmCore *core)
{
    core->sysbuf = g_new0(UnetmmSysbuf, 1);
    core->sysbuf->slots = g_new0(UnetmmSysbufSlot,
                                 MAX(core->params.sysbuf_slots, 1));
    core->sysbuf->free = g_new0(uint16_t, MAX(core->params.sysbuf_slots, 1));
    unetmm_list_create(&core->sysbuf->full, core->params.sysbuf_slots);
}

static void sysbuf_free(UnetmmCore *core)
{
    g_free(core->sysbuf->slots);
    g_free(core->sysbuf->free);
    unetmm_list_free(&core->sysbuf->full);
    g_clear_pointer(&core->sysbuf, g_free);
}

static void sysbuf_reset(UnetmmCore *core)
{
    UnetmmSysbuf *sb = core->sysbuf;

    memset(sb->slots, 0, core->params.sysbuf_slots * sizeof(*sb->slots));
    sb->n = sb->bytes = sb->promised = sb->nfree = 0;
    unetmm_list_clear(&sb->full);
}

/* ---- Given and promised ------------------------------------------------- */

bool unetmm_sysbuf_give(UnetmmCore *core, const uint64_t *addrs, uint32_t n,
                        uint32_t bytes)
{
    UnetmmSysbuf *sb = core->sysbuf;

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
        sb->slots[i] = (UnetmmSysbufSlot) { .addr = addrs[i] };
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
    if (core->sysbuf->promised || core->sysbuf->nfree != core->sysbuf->n) {
        return UNETMM_CS_BUSY;
    }
    addrs = g_new0(uint64_t, MAX(cmd->slots, 1));
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
    if (n > core->sysbuf->n - core->sysbuf->promised) {
        return false;
    }
    core->sysbuf->promised += n;
    return true;
}

void unetmm_sysbuf_forget(UnetmmCore *core, UnetmmShare *share)
{
    UnetmmSysbuf *sb = core->sysbuf;

    for (uint32_t i = 0; share->used && i < sb->n; i++) {
        if (sb->slots[i].state != UNETMM_SLOT_FREE &&
            sb->slots[i].share == share) {
            sb->slots[i].share = NULL;
            share->used--;
            share->credits--;
        }
    }
    sb->promised -= share->credits;
    share->credits = 0;
}

/* ---- Filled ------------------------------------------------------------- */

static bool pages_meet(const UnetmmPiece *a, const UnetmmPiece *b)
{
    return (a->addr >> UNETMM_PAGE_SHIFT) <=
           ((b->addr + (b->len - 1)) >> UNETMM_PAGE_SHIFT) &&
           (b->addr >> UNETMM_PAGE_SHIFT) <=
           ((a->addr + (a->len - 1)) >> UNETMM_PAGE_SHIFT);
}

static bool slot_meets(const UnetmmSysbufSlot *slot,
                       const UnetmmPlacement *place)
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

bool unetmm_sysbuf_follows(const UnetmmCore *core, const UnetmmShare *share,
                           const UnetmmPlacement *place)
{
    for (unsigned i = 0; share->used && i < UNETMM_REL_WINDOW; i++) {
        if ((share->unlanded >> i & 1) &&
            slot_meets(&core->sysbuf->slots[share->slot_of[i]], place)) {
            return true;
        }
    }
    return false;
}

/* False: the bus refused it. */
static bool slot_write(UnetmmCore *core, UnetmmEp *ep,
                       const UnetmmShare *share, const UnetmmSysbufSlot *slot,
                       const struct unetmm_frame *f, const uint8_t *payload)
{
    bool write = f->opcode == UNETMM_WIRE_WRITE;
    struct unetmm_slot head = {
        .space = ep->space, .ep = ep->id, .channel = share->channel,
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

static void slot_is_full(UnetmmCore *core, UnetmmShare *share, uint16_t number,
                         uint32_t psn)
{
    UnetmmSysbuf *sb = core->sysbuf;
    UnetmmSysbufSlot *slot = &sb->slots[number];

    slot->state = UNETMM_SLOT_FULL;
    slot->share = share;
    slot->psn = psn;
    slot->ep = share->ep;
    slot->space = core->eps[share->ep].space;
    unetmm_list_add(&sb->full, number);
    share->used++;
    share->slot_of[psn % UNETMM_REL_WINDOW] = number;
    share->unlanded |= 1ull << psn % UNETMM_REL_WINDOW;
}

bool unetmm_sysbuf_take(UnetmmCore *core, UnetmmEp *ep, UnetmmShare *share,
                        const struct unetmm_frame *f,
                        const UnetmmPlacement *place, const uint8_t *payload)
{
    UnetmmSysbuf *sb = core->sysbuf;
    uint16_t number;
    UnetmmSysbufSlot *slot;

    if (share->used >= share->credits || !sb->nfree) {
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
    if (!slot_write(core, ep, share, slot, f, payload)) {
        return false;
    }
    sb->nfree--;
    slot_is_full(core, share, number, f->psn);
    share->ops->keep(core, share, f);
    unetmm_count(core, ep, UNETMM_C_sysbuf_packets, 1);
    unetmm_count(core, ep, UNETMM_C_sysbuf_bytes, f->len);
    trace_unetmm_sysbuf_take(ep->id, share->channel, f->psn, number, f->len);
    return true;
}

/* ---- Reported and answered ---------------------------------------------- */

static void slot_free(UnetmmCore *core, uint16_t number)
{
    UnetmmSysbuf *sb = core->sysbuf;

    sb->slots[number].state = UNETMM_SLOT_FREE;
    sb->slots[number].share = NULL;
    sb->free[sb->nfree++] = number;
}

/* False: the ring has no room now. */
static bool slot_report(UnetmmCore *core, uint16_t number)
{
    UnetmmSysbufSlot *slot = &core->sysbuf->slots[number];
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

static void sysbuf_report(UnetmmCore *core)
{
    UnetmmSysbuf *sb = core->sysbuf;

    while (sb->full.used) {
        uint16_t number = unetmm_list_first(&sb->full);

        if (!sb->slots[number].share) {
            /* Nobody knows of it, and nobody wants it. */
            slot_free(core, number);
            sb->promised--;
        } else if (!slot_report(core, number)) {
            return;
        }
        unetmm_list_pop(&sb->full);
    }
}

static void sysbuf_flush(UnetmmCore *core)
{
    if (core->sysbuf->full.used) {
        sysbuf_report(core);
    }
}

uint8_t unetmm_sysbuf_done(UnetmmCore *core, const struct unetmm_cmd_slot *cmd)
{
    UnetmmSysbuf *sb = core->sysbuf;
    UnetmmShare *share;
    uint32_t psn;

    if (cmd->slot >= sb->n ||
        sb->slots[cmd->slot].state != UNETMM_SLOT_TOLD) {
        return UNETMM_CS_BAD_ID;
    }
    if (cmd->status > UNETMM_SLOT_GONE || cmd->rsvd[0] || cmd->rsvd[1] ||
        cmd->rsvd[2]) {
        return UNETMM_CS_BAD_ARG;
    }
    share = sb->slots[cmd->slot].share;
    psn = sb->slots[cmd->slot].psn;
    trace_unetmm_sysbuf_done(cmd->slot, cmd->status);
    slot_free(core, cmd->slot);
    if (share) {
        share->used--;
        share->ops->done(core, share, psn, cmd->status);
    } else {
        sb->promised--;
    }
    return UNETMM_CS_OK;
}

/* ---- Saved state -------------------------------------------------------- */

/*
 * The slots come before the channels, which are promised some; which packet is
 * in which comes behind them.  The packet's bytes are in guest memory and are
 * not saved here.  Derived values are not saved either: how many slots are free
 * or promised, and whether a channel waits for a landing to end.
 */
static void sysbuf_save(UnetmmStream *st, UnetmmCore *core)
{
    g_autofree uint64_t *addrs = NULL;
    UnetmmSysbuf *sb = core->sysbuf;
    uint32_t bytes = sb->bytes;
    uint32_t n;

    unetmm_stream_enter(st, "sysbuf", UNETMM_STREAM_ONE);
    n = unetmm_stream_choice(st, sb->n, core->params.sysbuf_slots + 1, "n");
    addrs = g_new0(uint64_t, MAX(n, 1));
    unetmm_stream_u32(st, &bytes, "bytes");
    for (uint32_t i = 0; i < n && !st->wrong; i++) {
        addrs[i] = sb->slots[i].addr;
        unetmm_stream_enter(st, "slot", i);
        unetmm_stream_u64(st, &addrs[i], "addr");
        unetmm_stream_leave(st);
    }
    unetmm_stream_leave(st);
    if (unetmm_stream_takes(st) &&
        !unetmm_sysbuf_give(core, addrs, n, bytes)) {
        unetmm_stream_refuse(st, "the system buffer could not have been "
                             "given");
    }
}

static const UnetmmField slot_packet[] = {
    UNETMM_FIELD(UnetmmSysbufSlot, psn),
    UNETMM_FIELD_BELOW(UnetmmSysbufSlot, ep, "ep", endpoints, 0),
    UNETMM_FIELD_BELOW(UnetmmSysbufSlot, space, "space", spaces, 0),
    UNETMM_FIELD_RANGE(UnetmmSysbufSlot, npieces, 0, UNETMM_SLOT_PIECES),
    UNETMM_FIELD_LIST(UnetmmSysbufSlot, npieces, pieces, "piece",
                      unetmm_piece_fields),
};

static void slot_save(UnetmmStream *st, UnetmmCore *core, uint32_t number)
{
    UnetmmSysbufSlot *slot = &core->sysbuf->slots[number];

    slot->state = unetmm_stream_choice(st, slot->state, UNETMM_SLOT_TOLD + 1,
                                       "state");
    if (slot->state == UNETMM_SLOT_FREE) {
        return;
    }
    slot->share = core->tables->shares->save(st, core, slot->share);
    UNETMM_STREAM_FIELDS(st, slot, slot_packet);
    for (unsigned i = 0; i < slot->npieces; i++) {
        const UnetmmPiece *piece = &slot->pieces[i];

        if (!piece->len || piece->addr > UINT64_MAX - (piece->len - 1)) {
            unetmm_stream_refuse(st, "a piece of a packet wraps round");
        }
    }
    if (!unetmm_stream_takes(st)) {
        return;
    }
    if (slot->share) {
        slot->share->ops->restored(st, core, slot->share, number);
    } else if (!unetmm_sysbuf_promise(core, 1)) {
        unetmm_stream_refuse(st, "more slots are promised than there are");
    }
}

/* In which order they are to be reported. */
static void full_save(UnetmmStream *st, UnetmmCore *core)
{
    UnetmmSysbuf *sb = core->sysbuf;

    unetmm_list_save(st, &sb->full, sb->n, &(UnetmmListNames) {
        "full_used", "full", "slot %u is to be reported twice",
    });
    for (uint32_t i = 0; i < sb->n; i++) {
        bool full = sb->slots[i].state == UNETMM_SLOT_FULL;

        if (full != sb->full.has[i]) {
            unetmm_stream_refuse(st, full ? "slot %u is full, and is not to "
                                 "be reported" : "slot %u is to be reported, "
                                 "and is not full", i);
        }
    }
}

static void slots_save(UnetmmStream *st, UnetmmCore *core)
{
    UnetmmSysbuf *sb = core->sysbuf;

    unetmm_stream_enter(st, "sysbuf", UNETMM_STREAM_ONE);
    unetmm_stream_each(st, core, "slot", sb->n, slot_save);
    full_save(st, core);
    unetmm_stream_leave(st);
    if (!unetmm_stream_takes(st)) {
        return;
    }
    sb->nfree = 0;
    for (uint32_t i = sb->n; i-- > 0;) {
        if (sb->slots[i].state == UNETMM_SLOT_FREE) {
            sb->free[sb->nfree++] = i;
        }
    }
}

static uint64_t sysbuf_save_limit(const UnetmmCore *core)
{
    return core->params.sysbuf_slots * (32ull + UNETMM_SLOT_PIECES * 16);
}

const UnetmmModule unetmm_module_sysbuf = {
    .name = "sysbuf",
    .create = sysbuf_create,
    .reset = sysbuf_reset,
    .free = sysbuf_free,
    .flush = sysbuf_flush,
    .save = sysbuf_save,
    .save_limit = sysbuf_save_limit,
};

/* The packets in the slots: they are saved behind the channels. */
const UnetmmModule unetmm_module_slots = {
    .name = "slots",
    .save = slots_save,
};
