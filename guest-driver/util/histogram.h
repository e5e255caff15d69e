/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: histograms of the time that stages take, measured only while the
 * module's parameter `stages` is set.
 */
#ifndef UNETMM_HISTOGRAM_H
#define UNETMM_HISTOGRAM_H

#include <linux/atomic.h>
#include <linux/jump_label.h>
#include <linux/ktime.h>


struct seq_file;

#define UNETMM_STAGE_BUCKETS	32	/* n: 2^n ns and more, below 2^(n+1) */

struct unetmm_hist {
	atomic64_t count;
	atomic64_t ns;
	atomic64_t buckets[UNETMM_STAGE_BUCKETS];
};

DECLARE_STATIC_KEY_FALSE(unetmm_stages_key);

/* The time, if anybody wants to know how long stages take; else 0. */
static inline u64 unetmm_stage_ns(void)
{
	return static_branch_unlikely(&unetmm_stages_key) ? ktime_get_ns() : 0;
}

/* How long it is since unetmm_stage_ns() said that; 0: it did not. */
static inline u64 unetmm_stage_since(u64 began_ns)
{
	return began_ns ? ktime_get_ns() - began_ns : 0;
}

void unetmm_hist_add(struct unetmm_hist *hist, u64 ns);
void unetmm_hist_show(struct seq_file *s, const char *name,
		      const struct unetmm_hist *hist);

#endif /* UNETMM_HISTOGRAM_H */
