// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: source `tlb` (U-Net/MM): the card has a TLB and no table.  A miss pins the
 * page and gives the card its translation; an eviction, or an invalidation, unpins it.
 * At a limit the oldest translations of the process make room for the new ones.
 */
#include "source/source.h"
#include "memory/memory.h"
#include "ring/ring.h"
#include "space/space.h"
#include "base/base.h"

/* The card asks again for a page that a transfer still needs. */
static bool unetmm_give_entry(struct unetmm_aspace *space, struct unetmm_pin *pin)
{
	u64 start = (u64)pin->vpn << PAGE_SHIFT;

	unetmm_invalidate(space->dev, space->id, start, start | ~PAGE_MASK);
	return true;
}

const struct unetmm_source unetmm_tlb_source = {
	.pins = true,
	.give = unetmm_give_entry,
	.drop = unetmm_drop_pins,
	.resolve = unetmm_resolve_pins,
};
