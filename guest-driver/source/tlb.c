// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: source `tlb` (U-Net/MM): the card has a TLB and no table.  A miss pins the
 * page and gives the card its translation; an eviction, or an invalidation, unpins it.
 */
#include "source/source.h"
#include "mm/mm.h"
#include "space/space.h"
#include "base/base.h"

const struct unetmm_source unetmm_tlb_source = {
	.pins = true,
	.drop = unetmm_drop_pins,
	.resolve = unetmm_resolve_pins,
};
