// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: source `pinned`: registered memory is pinned, and in the card's table,
 * until it is deregistered.  memory/registration.c has the regions.
 */
#include "source/source.h"
#include "memory/memory.h"
#include "space/space.h"
#include "base/base.h"

const struct unetmm_source unetmm_pinned_source = {
	.table = true,
	.pins = true,
	.keeps = true,
	.registers = true,
	.stays = true,
	.drop = unetmm_drop_pins,
};
