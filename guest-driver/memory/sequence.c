// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the sequence of a space's invalidations: have pages changed since they were
 * looked for?  memory/invalidate.c counts, under space->lock.
 */
#include "memory/memory.h"
#include "space/space.h"

/* To be read before pages are pinned, for unetmm_space_raced(). */
unsigned long unetmm_space_seq(struct unetmm_aspace *space)
{
	unsigned long seq;

	spin_lock(&space->lock);
	seq = space->inv_seq;
	spin_unlock(&space->lock);
	/* The page tables are read after the sequence, as KVM does it. */
	smp_rmb();
	return seq;
}

/* Is [start, last] being invalidated, or may be? */
bool unetmm_space_changing(struct unetmm_aspace *space, unsigned long start,
			   unsigned long last)
{
	lockdep_assert_held(&space->lock);
	return space->inv_count && start <= space->inv_last &&
	       last >= space->inv_start;
}

/* Has [start, last] been, or is it being, invalidated since seq was read? */
bool unetmm_space_raced(struct unetmm_aspace *space, unsigned long seq,
			unsigned long start, unsigned long last)
{
	return unetmm_space_changing(space, start, last) ||
	       space->inv_seq != seq;
}
