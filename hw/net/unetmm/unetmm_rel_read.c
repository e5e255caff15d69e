/*
 * unetmm: reliable channels: requests to read a region
 *
 * A request is looked at in its turn, so that what was written before it is
 * there, and again whenever it is repeated; the answer is gathered when it goes
 * out, and may be older or newer than another one to the same request.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "unetmm_host.h"
#include "unetmm_rel.h"

/* May it be answered, and can it now?  *why: never. */
static UnetmmXlat read_look(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                            uint32_t psn, const UnetmmTarget *target,
                            uint32_t *why)
{
    UnetmmXlat result;
    uint64_t addr;

    *why = unetmm_region_check(core, ep, target, UNETMM_RIGHT_READ, &addr);
    if (*why) {
        return UNETMM_XLAT_ERROR;
    }
    result = unetmm_rel_present(core, ep, rel, psn, addr, target->len, false);
    *why = result == UNETMM_XLAT_ERROR ? UNETMM_WHY_MEMORY : 0;
    return result;
}

static UnetmmRelTake read_take(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                               const struct unetmm_frame *f,
                               const uint8_t *payload)
{
    UnetmmTarget target = unetmm_rel_target(f, f->imm);
    uint32_t why;

    if (f->imm > rel->mtu) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_bad);
        return UNETMM_REL_DROPPED;
    }
    switch (read_look(core, ep, rel, f->psn, &target, &why)) {
    case UNETMM_XLAT_OK:
        break;
    case UNETMM_XLAT_MISS:
        return unetmm_rel_refuse(rel, UNETMM_REL_WANT_PAGE);
    case UNETMM_XLAT_ERROR:
        return unetmm_rel_reject(rel, why);
    }
    unetmm_count(core, ep, UNETMM_C_rel_reads, 1);
    unetmm_rel_owe_answer(core, ep, rel, f->psn, false, &target);
    return UNETMM_REL_TAKEN;
}

/* The peer has no answer to it, or one that it could not use. */
void unetmm_rel_read_again(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                           uint32_t psn, const UnetmmTarget *target)
{
    uint32_t why;

    switch (read_look(core, ep, rel, psn, target, &why)) {
    case UNETMM_XLAT_OK:
        unetmm_rel_owe_answer(core, ep, rel, psn, false, target);
        break;
    case UNETMM_XLAT_MISS:
        /* It comes again when the pause is over. */
        rel->rx.refuse = true;
        unetmm_rel_owe_ack(core, rel);
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_stale);
        break;
    case UNETMM_XLAT_ERROR:
        unetmm_rel_reject_late(core, rel, psn, why);
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_rejected);
        break;
    }
}

static void read_again(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                       const struct unetmm_frame *f)
{
    UnetmmTarget target = unetmm_rel_target(f, f->imm);

    if (f->imm > rel->mtu) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_bad);
        return;
    }
    unetmm_rel_read_again(core, ep, rel, f->psn, &target);
}

const UnetmmRelOp unetmm_rel_op_read = {
    .take = read_take,
    .early = unetmm_rel_keep_head,
    .again = read_again,
};
