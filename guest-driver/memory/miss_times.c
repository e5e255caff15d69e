// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the stages of misses and invalidations.
 *
 * Two clocks meet here: records of the fault ring have times of the card's clock, which
 * can also be read in a register.  So the driver reads the card's clock when it takes
 * records from the ring, and computes the age of each record.  Nothing else depends on
 * these times; a card that tells nonsense fills a wrong bucket.
 */
#include <linux/ktime.h>

#include "memory/memory.h"
#include "pager/pager.h"
#include "space/space.h"
#include "util/histogram.h"
#include "base/base.h"

/* Before records are looked at that have been taken just now. */
void unetmm_stages_clock(struct unetmm_dev *dev, u64 seen_ns)
{
	struct unetmm_clock *clock = &dev->misses->clock;

	clock->ns = 0;
	if (!static_branch_unlikely(&unetmm_stages_key))
		return;
	clock->card = unetmm_read(dev, UNETMM_REG_CLOCK_LO);
	clock->ns = ktime_get_ns();
	clock->seen_ns = seen_ns;
}

/* A miss has been taken from the ring. */
void unetmm_stages_came(struct unetmm_dev *dev, const struct unetmm_fault *rec,
			struct unetmm_miss *miss)
{
	const struct unetmm_clock *clock = &dev->misses->clock;
	u64 written = le64_to_cpu(rec->time_ns);
	u64 found = le64_to_cpu(rec->found_ns);
	u64 on_ours, seen;
	u32 age;

	miss->seen_ns = 0;
	if (!clock->ns)
		return;
	/* Modulo 4 seconds. */
	age = clock->card - lower_32_bits(written);
	on_ours = clock->ns - min_t(u64, age, clock->ns);
	/* A record written after the interrupt was seen when it was taken. */
	seen = clock->seen_ns > on_ours ? clock->seen_ns : clock->ns;
	unetmm_hist_add(&dev->misses->stages[UNETMM_FSTAGE_CARD],
			written > found ? written - found : 0);
	unetmm_hist_add(&dev->misses->stages[UNETMM_FSTAGE_IRQ], seen - on_ours);
	miss->seen_ns = seen;
}

/* Its turn has come. */
void unetmm_stages_begin(struct unetmm_dev *dev, const struct unetmm_miss *miss,
			 struct unetmm_batch *batch)
{
	u64 now = miss->seen_ns ? ktime_get_ns() : 0;

	if (now)
		unetmm_hist_add(&dev->misses->stages[UNETMM_FSTAGE_WAIT],
				now - miss->seen_ns);
	batch->began_ns = now;
	batch->page_ns = 0;
	batch->table_ns = 0;
	batch->resume_ns = 0;
}

/* It has been answered, and the card has gone on. */
void unetmm_stages_end(struct unetmm_dev *dev, const struct unetmm_batch *batch)
{
	u64 known = batch->page_ns + batch->table_ns + batch->resume_ns;
	u64 all;

	if (!batch->began_ns)
		return;
	all = ktime_get_ns() - batch->began_ns;
	if (batch->page_ns)
		unetmm_hist_add(&dev->misses->stages[UNETMM_FSTAGE_PAGE],
				batch->page_ns);
	unetmm_hist_add(&dev->misses->stages[UNETMM_FSTAGE_FIND],
			all - min(all, known));
	unetmm_hist_add(&dev->misses->stages[UNETMM_FSTAGE_TABLE],
			batch->table_ns);
	unetmm_hist_add(&dev->misses->stages[UNETMM_FSTAGE_RESUME],
			batch->resume_ns);
}

/* One stage of an invalidation is over: when the next one has begun. */
u64 unetmm_stages_inv(struct unetmm_dev *dev, enum unetmm_inv_stage stage,
		      u64 began_ns)
{
	u64 now = unetmm_stage_ns();

	if (now && began_ns)
		unetmm_hist_add(&dev->misses->invs[stage], now - began_ns);
	return now;
}
