// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the notifier of a process's memory: invalidations.
 *
 * Why an invalidation is safe against a concurrent insert is told in docs/driver.rst.
 */
#include "memory/memory.h"
#include "space/space.h"
#include "base/base.h"

static void unetmm_inv_begin(struct unetmm_aspace *space, unsigned long start,
			     unsigned long last)
{
	spin_lock(&space->lock);
	if (!space->inv_count++) {
		space->inv_start = start;
		space->inv_last = last;
	} else {
		space->inv_start = min(space->inv_start, start);
		space->inv_last = max(space->inv_last, last);
	}
	spin_unlock(&space->lock);
}

static void unetmm_inv_end(struct unetmm_aspace *space)
{
	spin_lock(&space->lock);
	space->inv_seq++;
	space->inv_count--;
	unetmm_lost_kick(space);
	spin_unlock(&space->lock);
}

/*
 * Between inv_begin and inv_end.  Neither sleeps nor allocates.  Returns how
 * many pages have gone.
 */
static unsigned long unetmm_inv_drop(struct unetmm_aspace *space,
				     unsigned long start, unsigned long last)
{
	/* Pairs with unetmm_space_create(): before that there is nothing. */
	if (!smp_load_acquire(&space->live))
		return 0;
	return space->ops->drop(space, start >> PAGE_SHIFT, last >> PAGE_SHIFT);
}

/* Drops the pages of [start, last] that the card may reach, without an event of Linux. */
unsigned long unetmm_space_drop(struct unetmm_aspace *space,
				unsigned long start, unsigned long last)
{
	unsigned long dropped;

	unetmm_inv_begin(space, start, last);
	dropped = unetmm_inv_drop(space, start, last);
	unetmm_inv_end(space);
	return dropped;
}

/* Sources whose pins stay; see memory/lost_pins.c.  Returns how many have not. */
static unsigned long unetmm_range_keep(struct unetmm_aspace *space,
				       const struct mmu_notifier_range *range)
{
	unsigned long vpn = range->start >> PAGE_SHIFT;
	unsigned long last = (range->end - 1) >> PAGE_SHIFT;

	switch (range->event) {
	case MMU_NOTIFY_PROTECTION_PAGE:
	case MMU_NOTIFY_SOFT_DIRTY:
		return 0;
	case MMU_NOTIFY_PROTECTION_VMA:
		return unetmm_lost_protect(space, vpn, last);
	case MMU_NOTIFY_UNMAP:
		return unetmm_inv_drop(space, range->start, range->end - 1);
	default:
		unetmm_lost_mark(space, vpn, last);
		return 0;
	}
}

/*
 * Is just one huge page's place cleared?  Then the memory is still there, mostly,
 * when the invalidation is over: it becomes small pages, or they become it.
 */
static bool unetmm_range_is_huge(const struct mmu_notifier_range *range)
{
	return range->event == MMU_NOTIFY_CLEAR &&
	       range->end - range->start == PMD_SIZE;
}

static int unetmm_range_start(struct mmu_notifier *mn,
			      const struct mmu_notifier_range *range)
{
	struct unetmm_aspace *space = container_of(mn, struct unetmm_aspace,
						  notifier);
	unsigned long dropped;

	unetmm_inv_begin(space, range->start, range->end - 1);
	/* Pairs with unetmm_space_create(). */
	if (!smp_load_acquire(&space->live))
		return 0;
	/*
	 * As in the papers: the card keeps pages that the process gave away.  Only
	 * pinned ones: another page could belong to another process by now.
	 */
	if (space->ops->pins && READ_ONCE(unetmm_hole))
		return 0;
	if (space->ops->keeps)
		dropped = unetmm_range_keep(space, range);
	else
		dropped = unetmm_inv_drop(space, range->start, range->end - 1);
	unetmm_space_lost(space, range->start, range->end - 1, dropped);
	return 0;
}

/* Is it still there? */
static bool unetmm_range_stays(const struct mmu_notifier_range *range)
{
	return unetmm_range_is_huge(range) ||
	       range->event == MMU_NOTIFY_PROTECTION_VMA ||
	       range->event == MMU_NOTIFY_PROTECTION_PAGE ||
	       range->event == MMU_NOTIFY_SOFT_DIRTY;
}

static void unetmm_range_end(struct mmu_notifier *mn,
			     const struct mmu_notifier_range *range)
{
	struct unetmm_aspace *space = container_of(mn, struct unetmm_aspace,
						  notifier);

	unetmm_inv_end(space);
	/* Pairs with unetmm_space_create(). */
	if (smp_load_acquire(&space->live) && space->ops->rights_changed &&
	    unetmm_range_stays(range))
		space->ops->rights_changed(space, range->start >> PAGE_SHIFT,
					   (range->end - 1) >> PAGE_SHIFT);
}

static void unetmm_mm_release(struct mmu_notifier *mn, struct mm_struct *mm)
{
	struct unetmm_aspace *space = container_of(mn, struct unetmm_aspace,
						  notifier);

	spin_lock(&space->lock);
	WRITE_ONCE(space->closing, true);
	spin_unlock(&space->lock);
	unetmm_space_drop(space, 0, ULONG_MAX);
}

const struct mmu_notifier_ops unetmm_notifier_ops = {
	.release = unetmm_mm_release,
	.invalidate_range_start = unetmm_range_start,
	.invalidate_range_end = unetmm_range_end,
};
