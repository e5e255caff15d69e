/*
 * unetmm: reliable channels: where packets go, and pages that are missing there
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "packet.h"

/* unetmm_recv_find_head() has found none: the peer is to come again. */
UnetmmRelTake unetmm_rel_no_head(UnetmmEp *ep, UnetmmRel *rel,
                                 enum unetmm_counter drop)
{
    if (drop == UNETMM_C_drop_cq_full) {
        return unetmm_rel_refuse(rel, UNETMM_REL_WANT_CQ);
    }
    unetmm_shared_wait(ep);
    return unetmm_rel_refuse(rel, UNETMM_REL_WANT_HEAD);
}

void unetmm_rel_reject_late(UnetmmCore *core, UnetmmRel *rel, uint32_t psn,
                            uint32_t reason)
{
    unetmm_recvwin_rejected_late(&rel->rx, psn, reason);
    unetmm_rel_owe_ack(core, rel);
}

void unetmm_rel_keep_header(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                            const struct unetmm_frame *f,
                            const uint8_t *payload)
{
    UnetmmRelEarly *e = &rel->early[f->psn % UNETMM_REL_WINDOW];

    e->header = *f;
    memset(e->operands, 0, sizeof(e->operands));
    if (payload) {
        memcpy(e->operands, payload, MIN(f->len, sizeof(e->operands)));
    }
    unetmm_recvwin_kept(&rel->rx, f->psn);
    unetmm_count(core, ep, UNETMM_C_rel_kept, 1);
    trace_unetmm_rel_kept(ep->id, rel->channel, f->psn);
}

UnetmmPlaced unetmm_rel_place(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                              UnetmmPlacement *place,
                              const struct unetmm_frame *f,
                              const uint8_t *payload)
{
    UnetmmPlaced placed = unetmm_recv_place(core, ep, place,
                                            ep->rel_ops->landing, f->len,
                                            payload);

    if (placed == UNETMM_PLACED_LATER) {
        core->landing->of = rel;
        core->landing->header = *f;
    }
    return placed;
}

bool unetmm_rel_aside(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                      UnetmmAbsentAt at, const struct unetmm_frame *f,
                      const UnetmmPlacement *place, const uint8_t *payload)
{
    const UnetmmAbsent ctx = { .ep = ep, .at = at, .len = f->len };

    return ep->policy->absent(core, &ctx) == UNETMM_VERDICT_ASIDE &&
           unetmm_sysbuf_take(core, ep, &rel->share, f, place, payload);
}

void unetmm_rel_ask(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                    UnetmmRelFault kind, UnetmmRelMissed what, uint64_t vpn,
                    uint32_t npages)
{
    if (unetmm_rel_asks(rel, kind)) {
        unetmm_count(core, ep, UNETMM_C_faults_behind, 1);
        return;
    }
    rel->missed[kind] = what;
    unetmm_miss_want(core, &rel->misses[kind], vpn, npages, false);
}

void unetmm_rel_ask_no_more(UnetmmCore *core, UnetmmRel *rel)
{
    for (unsigned kind = 0; kind < UNETMM_REL_MISSES; kind++) {
        if (unetmm_rel_asks(rel, kind)) {
            unetmm_miss_cancel(core, &rel->misses[kind]);
        }
    }
}

UnetmmXlat unetmm_rel_present(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                              uint32_t psn, uint64_t addr, uint32_t len,
                              uint32_t run)
{
    uint64_t vpn = addr >> UNETMM_PAGE_SHIFT;
    uint32_t n = unetmm_pte_pages(addr, len);
    uint32_t first = n, end = 0;
    UnetmmPage page;

    for (uint32_t i = 0; i < n; i++) {
        UnetmmXlat result = unetmm_space_lookup(core, ep, vpn + i, false,
                                                &page);

        if (result == UNETMM_XLAT_ERROR) {
            return result;
        }
        if (result == UNETMM_XLAT_MISS) {
            first = MIN(first, i);
            end = i + 1;
        } else if (end) {
            break;
        }
    }
    if (!end) {
        return UNETMM_XLAT_OK;
    }
    unetmm_rel_ask(core, ep, rel, UNETMM_REL_FAULT_SERVE,
                   (UnetmmRelMissed) { .psn = psn }, vpn + first,
                   unetmm_space_ahead(core, ep, vpn + first, end - first,
                                      addr, run));
    return UNETMM_XLAT_MISS;
}
