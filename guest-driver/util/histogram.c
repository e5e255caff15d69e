// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: histograms of the time that stages take.
 *
 * Nothing is measured, and no clock is read, until the module's parameter `stages`
 * is set.  A stage that began before that has no beginning, and is not counted.
 */
#include <linux/jump_label.h>
#include <linux/ktime.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/seq_file.h>

#include "util/histogram.h"

DEFINE_STATIC_KEY_FALSE(unetmm_stages_key);

static int unetmm_stages_set(const char *text, const struct kernel_param *kp)
{
	bool on;
	int ret = kstrtobool(text, &on);

	if (ret)
		return ret;
	if (on)
		static_branch_enable(&unetmm_stages_key);
	else
		static_branch_disable(&unetmm_stages_key);
	return 0;
}

static int unetmm_stages_get(char *text, const struct kernel_param *kp)
{
	return sysfs_emit(text, "%d\n",
			  static_key_enabled(&unetmm_stages_key));
}

static const struct kernel_param_ops unetmm_stages_ops = {
	.set = unetmm_stages_set,
	.get = unetmm_stages_get,
};

module_param_cb(stages, &unetmm_stages_ops, NULL, 0644);
MODULE_PARM_DESC(stages,
		 "measure how long stages of misses, copies and invalidations take (debugfs)");

void unetmm_hist_add(struct unetmm_hist *hist, u64 ns)
{
	u32 n = ns ? ilog2(ns) : 0;

	if (!static_branch_unlikely(&unetmm_stages_key))
		return;
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
