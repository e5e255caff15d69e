// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: how long what was served took, stage by stage.
 *
 * Two clocks meet here: records of the fault ring have the card's, which can also
 * be read in a register.  So the card's clock is read when records are taken from
 * the ring, and how old a record was then is all that is used of it.  Nothing
 * depends on these times; a card that tells nonsense fills a wrong bucket.
 */
#include <linux/ktime.h>
#include <linux/log2.h>
#include <linux/seq_file.h>

#include "unetmm_drv.h"

void unetmm_hist_add(struct unetmm_hist *hist, u64 ns)
{
	u32 n = ns ? ilog2(ns) : 0;

	n = min_t(u32, n, UNETMM_STAGE_BUCKETS - 1);
	atomic64_inc(&hist->buckets[n]);
	atomic64_add(ns, &hist->ns);
	atomic64_inc(&hist->count);
}

void unetmm_hist_show(struct seq_file *s, const char *name,
		      const struct unetmm_hist *hist)
{
	u32 n;

	seq_printf(s, "%s count %lld ns %lld\n", name,
		   atomic64_read(&hist->count), atomic64_read(&hist->ns));
	for (n = 0; n < UNETMM_STAGE_BUCKETS; n++) {
		if (atomic64_read(&hist->buckets[n]))
			seq_printf(s, "%s %10llu ns and more: %lld\n", name,
				   1ULL << n,
				   atomic64_read(&hist->buckets[n]));
	}
}

/* ---- Misses: fault_work ---------------------------------------------------- */

/* Before records are looked at that have been taken just now. */
void unetmm_stages_clock(struct unetmm_dev *dev, u64 seen_ns)
{
	struct unetmm_clock *clock = &dev->fault_clock;

	clock->card = unetmm_read(dev, UNETMM_REG_CLOCK_LO);
	clock->ns = ktime_get_ns();
	clock->seen_ns = seen_ns;
}

/* A miss has been taken from the ring. */
void unetmm_stages_came(struct unetmm_dev *dev, const struct unetmm_fault *rec,
			struct unetmm_miss *miss)
{
	const struct unetmm_clock *clock = &dev->fault_clock;
	u64 written = le64_to_cpu(rec->time_ns);
	u64 found = le64_to_cpu(rec->found_ns);
	/* Modulo 4 seconds. */
	u32 age = clock->card - lower_32_bits(written);
	u64 on_ours = clock->ns - min_t(u64, age, clock->ns);
	/* What the card wrote behind the interrupt was seen when it was taken. */
	u64 seen = clock->seen_ns > on_ours ? clock->seen_ns : clock->ns;

	unetmm_hist_add(&dev->fault_stages[UNETMM_FSTAGE_CARD],
			written > found ? written - found : 0);
	unetmm_hist_add(&dev->fault_stages[UNETMM_FSTAGE_IRQ], seen - on_ours);
	miss->seen_ns = seen;
}

/* Its turn has come. */
void unetmm_stages_begin(struct unetmm_dev *dev, const struct unetmm_miss *miss,
			 struct unetmm_batch *batch)
{
	u64 now = ktime_get_ns();

	unetmm_hist_add(&dev->fault_stages[UNETMM_FSTAGE_WAIT],
			now - miss->seen_ns);
	batch->began_ns = now;
	batch->page_ns = 0;
	batch->table_ns = 0;
	batch->resume_ns = 0;
}

/* It has been answered, and the card has gone on. */
void unetmm_stages_end(struct unetmm_dev *dev, const struct unetmm_batch *batch)
{
	u64 all = ktime_get_ns() - batch->began_ns;
	u64 known = batch->page_ns + batch->table_ns + batch->resume_ns;

	if (batch->page_ns)
		unetmm_hist_add(&dev->fault_stages[UNETMM_FSTAGE_PAGE],
				batch->page_ns);
	unetmm_hist_add(&dev->fault_stages[UNETMM_FSTAGE_FIND],
			all - min(all, known));
	unetmm_hist_add(&dev->fault_stages[UNETMM_FSTAGE_TABLE],
			batch->table_ns);
	unetmm_hist_add(&dev->fault_stages[UNETMM_FSTAGE_RESUME],
			batch->resume_ns);
}

/* One stage of an invalidation is over: when the next one has begun. */
u64 unetmm_stages_inv(struct unetmm_dev *dev, enum unetmm_inv_stage stage,
		      u64 began_ns)
{
	u64 now = ktime_get_ns();

	unetmm_hist_add(&dev->inv_stages[stage], now - began_ns);
	return now;
}
