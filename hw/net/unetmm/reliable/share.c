/*
 * unetmm: reliable channels: packets that the system buffer holds for them
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "reliable.h"

static UnetmmRel *rel_of(UnetmmShare *share)
{
    return container_of(share, UnetmmRel, share);
}

static void share_keep(UnetmmCore *core, UnetmmShare *share,
                       const struct unetmm_frame *f)
{
    unetmm_rel_keep_header(core, &core->eps[share->ep], rel_of(share), f, NULL);
}

static void share_done(UnetmmCore *core, UnetmmShare *share, uint32_t psn,
                       uint8_t status)
{
    UnetmmRel *rel = rel_of(share);
    UnetmmEp *ep = &core->eps[rel->ep];
    bool landed = status == UNETMM_SLOT_LANDED;
    uint8_t opcode = rel->early[psn % UNETMM_REL_WINDOW].header.opcode;

    unetmm_count(core, ep, landed ? UNETMM_C_sysbuf_landed :
                 UNETMM_C_sysbuf_failed, 1);
    unetmm_rel_wake(ep, rel);
    unetmm_ready_push(core, ep);
    if (rel->state != UNETMM_REL_OPEN || ep->error) {
        return;
    }
    unetmm_count(core, ep, UNETMM_C_rel_writes,
                 landed && opcode == UNETMM_WIRE_WRITE);
    share->unlanded &= ~unetmm_rel_bit(psn);
    unetmm_recvwin_landed(&rel->rx, psn, landed);
}

static UnetmmShare *share_save(UnetmmStream *st, UnetmmCore *core,
                               UnetmmShare *share)
{
    UnetmmRel *rel = share ? rel_of(share) : NULL;

    rel = unetmm_rel_save_number(st, core, NULL, rel);
    return rel ? &rel->share : NULL;
}

static void share_restored(UnetmmStream *st, UnetmmCore *core,
                           UnetmmShare *share, uint16_t number)
{
    const UnetmmSysbufSlot *slot = &core->sysbuf->slots[number];
    const UnetmmRel *rel = rel_of(share);

    if (++share->used > share->credits) {
        unetmm_stream_refuse(st, "a channel uses more slots than it has");
    }
    if (rel->state == UNETMM_REL_OPEN && !core->eps[rel->ep].error) {
        if (slot->psn - rel->rx.nxt >= UNETMM_REL_WINDOW ||
            !(share->unlanded & unetmm_rel_bit(slot->psn))) {
            unetmm_stream_refuse(st, "a slot has a packet that none waits for");
        }
        share->slot_of[slot->psn % UNETMM_REL_WINDOW] = number;
    }
}

const UnetmmShareOps unetmm_rel_share = {
    .keep = share_keep,
    .done = share_done,
    .save = share_save,
    .restored = share_restored,
};
