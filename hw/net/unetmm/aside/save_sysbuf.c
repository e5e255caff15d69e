/*
 * unetmm: saving and restoring the system buffer and what is in its slots
 *
 * The slots come before the channels, which are promised some; which packet is
 * in which comes behind them.  What is in a slot is in guest memory and is not
 * saved here; nor is what follows: how many are free or promised, and whether a
 * channel waits for a landing to end.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../rel/rel.h"
#include "../card/state.h"

void unetmm_state_sysbuf(UnetmmStream *st, UnetmmCore *core)
{
    UnetmmSysbuf *sb = &core->sysbuf;
    uint32_t n = unetmm_stream_choice(st, sb->n, core->params.sysbuf_slots + 1,
                                      "the slots of the system buffer");
    g_autofree uint64_t *addrs = g_new0(uint64_t, n + 1);
    uint32_t bytes = sb->bytes;

    unetmm_stream_u32(st, &bytes);
    for (uint32_t i = 0; i < n && !st->wrong; i++) {
        addrs[i] = sb->slots[i].addr;
        unetmm_stream_u64(st, &addrs[i]);
    }
    if (unetmm_stream_reads(st) && !st->wrong &&
        !unetmm_sysbuf_give(core, addrs, n, bytes)) {
        unetmm_stream_refuse(st, "the system buffer could not have been "
                             "given");
    }
}

static void state_slot_pieces(UnetmmStream *st, UnetmmSlot *slot)
{
    slot->npieces = unetmm_stream_choice(st, slot->npieces,
                                         UNETMM_SLOT_PIECES + 1,
                                         "the pieces of a packet");
    for (unsigned i = 0; i < slot->npieces; i++) {
        UnetmmPiece *piece = &slot->pieces[i];

        unetmm_stream_u64(st, &piece->addr);
        unetmm_stream_u32(st, &piece->len);
        unetmm_stream_u32(st, &piece->from);
        if (!piece->len || piece->addr > UINT64_MAX - (piece->len - 1)) {
            unetmm_stream_refuse(st, "a piece of a packet wraps round");
        }
    }
}

/* Gives it to its channel, which must be waiting for it. */
static void slot_restore(UnetmmStream *st, UnetmmCore *core, uint32_t number,
                         uint32_t rel)
{
    UnetmmSlot *slot = &core->sysbuf.slots[number];
    UnetmmRelRx *rx;
    uint32_t at = slot->psn % UNETMM_REL_WINDOW;

    if (!rel) {
        if (!unetmm_sysbuf_promise(core, 1)) {
            unetmm_stream_refuse(st, "more slots are promised than there are");
        }
        return;
    }
    slot->rel = core->rels[rel - 1];
    if (!slot->rel) {
        unetmm_stream_refuse(st, "a slot is of no channel");
        return;
    }
    rx = &slot->rel->rx;
    if (++rx->slots > slot->rel->credits) {
        unetmm_stream_refuse(st, "a channel uses more slots than it has");
    }
    if (slot->rel->state == UNETMM_REL_OPEN &&
        !core->eps[slot->rel->ep].error) {
        if (slot->psn - rx->nxt >= UNETMM_REL_WINDOW ||
            !(rx->unlanded & unetmm_rel_bit(slot->psn))) {
            unetmm_stream_refuse(st, "a slot has what nobody waits for");
        }
        rx->slot_of[at] = number;
    }
}

static void state_slot(UnetmmStream *st, UnetmmCore *core, uint32_t number)
{
    UnetmmSlot *slot = &core->sysbuf.slots[number];
    uint32_t rel;

    slot->state = unetmm_stream_choice(st, slot->state, UNETMM_SLOT_TOLD + 1,
                                       "the state of a slot");
    if (slot->state == UNETMM_SLOT_FREE) {
        return;
    }
    rel = unetmm_stream_choice(st, slot->rel ? slot->rel->slot + 1 : 0,
                               core->params.reliable + 1,
                               "the channel of a slot");
    unetmm_stream_u32(st, &slot->psn);
    slot->ep = unetmm_stream_choice(st, slot->ep, core->params.endpoints,
                                    "the endpoint of a slot");
    slot->space = unetmm_stream_choice(st, slot->space, core->params.spaces,
                                       "the space of a slot");
    state_slot_pieces(st, slot);
    if (unetmm_stream_reads(st) && !st->wrong) {
        slot_restore(st, core, number, rel);
    }
}

/* In which order they are to be reported. */
static void state_full(UnetmmStream *st, UnetmmCore *core)
{
    UnetmmSysbuf *sb = &core->sysbuf;
    uint32_t used = unetmm_stream_choice(st, sb->full_used, sb->n + 1,
                                         "the slots to be reported");
    uint32_t full = 0;

    for (uint32_t i = 0; i < used && !st->wrong; i++) {
        uint16_t *number = &sb->full[(sb->full_first + i) %
                                     core->params.sysbuf_slots];

        *number = unetmm_stream_choice(st, *number, sb->n, "a slot");
        /* Each of them once, if there are as many. */
        for (uint32_t j = 0; unetmm_stream_reads(st) && j < i; j++) {
            if (sb->full[j] == *number) {
                unetmm_stream_refuse(st, "a slot is to be reported twice");
            }
        }
    }
    if (!unetmm_stream_reads(st) || st->wrong) {
        return;
    }
    sb->full_used = used;
    for (uint32_t i = 0; i < sb->n; i++) {
        full += sb->slots[i].state == UNETMM_SLOT_FULL;
    }
    for (uint32_t i = 0; i < used; i++) {
        if (sb->slots[sb->full[i]].state != UNETMM_SLOT_FULL) {
            unetmm_stream_refuse(st, "a slot that is not full is reported");
        }
    }
    if (full != used) {
        unetmm_stream_refuse(st, "a slot is full, and is not reported");
    }
}

/* Each packet that waits is in a slot of its own, and no slot has another. */
static bool unlanded_ok(const UnetmmCore *core, const UnetmmRel *rel)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < UNETMM_REL_WINDOW; i++) {
        const UnetmmSlot *slot = &core->sysbuf.slots[rel->rx.slot_of[i]];

        if (!(rel->rx.unlanded & unetmm_rel_bit(i))) {
            continue;
        }
        if (slot->rel != rel || slot->psn % UNETMM_REL_WINDOW != i) {
            return false;
        }
        n++;
    }
    return n == rel->rx.slots;
}

/* What a channel waits for is in a slot. */
static void check_unlanded(UnetmmStream *st, const UnetmmCore *core)
{
    for (uint32_t i = 0; i < core->params.reliable && !st->wrong; i++) {
        const UnetmmRel *rel = core->rels[i];

        if (rel && rel->state == UNETMM_REL_OPEN &&
            !core->eps[rel->ep].error && !unlanded_ok(core, rel)) {
            unetmm_stream_refuse(st, "a channel waits for a slot that it has "
                                 "not");
        }
    }
}

void unetmm_state_slots(UnetmmStream *st, UnetmmCore *core)
{
    UnetmmSysbuf *sb = &core->sysbuf;

    for (uint32_t i = 0; i < sb->n && !st->wrong; i++) {
        state_slot(st, core, i);
    }
    state_full(st, core);
    if (!unetmm_stream_reads(st) || st->wrong) {
        return;
    }
    sb->nfree = 0;
    for (uint32_t i = sb->n; i-- > 0;) {
        if (sb->slots[i].state == UNETMM_SLOT_FREE) {
            sb->free[sb->nfree++] = i;
        }
    }
    check_unlanded(st, core);
}

/* It follows: a channel whose slot was answered goes on now, or at its end. */
void unetmm_state_held_up(UnetmmCore *core)
{
    for (uint32_t i = 0; i < core->params.reliable; i++) {
        core->sysbuf.held_up |= core->rels[i] && core->rels[i]->rx.landed;
    }
}
