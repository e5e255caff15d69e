// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: counters: the card's, an endpoint's, the driver's own.
 */
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "unetmm_drv.h"

#define UNETMM_COUNTER_NAME(name, help) [UNETMM_D_##name] = #name,
const char * const unetmm_driver_counter_names[] = {
	UNETMM_DRIVER_COUNTERS(UNETMM_COUNTER_NAME)
};

void unetmm_pinned_add(struct unetmm_dev *dev, u32 n)
{
	s64 now = atomic64_add_return(n, &dev->counters[UNETMM_D_pinned_now]);
	s64 max = atomic64_read(&dev->counters[UNETMM_D_pinned_max]);

	unetmm_count_add(dev, pins, n);
	while (now > max &&
	       !atomic64_try_cmpxchg(&dev->counters[UNETMM_D_pinned_max], &max,
				     now))
		cpu_relax();
}

void unetmm_pinned_sub(struct unetmm_dev *dev, u32 n)
{
	atomic64_sub(n, &dev->counters[UNETMM_D_pinned_now]);
	unetmm_count_add(dev, unpins, n);
}

/* Does it exist now?  The card would show the last user's counters, or 0. */
static bool unetmm_ep_exists(struct unetmm_dev *dev, u32 id)
{
	unsigned long flags;
	bool exists;

	spin_lock_irqsave(&dev->ep_lock, flags);
	exists = dev->eps && id < dev->hw.endpoints && dev->eps[id];
	spin_unlock_irqrestore(&dev->ep_lock, flags);
	return exists;
}

static u64 unetmm_counter(struct unetmm_dev *dev,
			  const struct unetmm_counters *a, u32 n)
{
	switch (a->scope) {
	case UNETMM_SCOPE_CARD:
		return unetmm_read_counter(dev, n);
	case UNETMM_SCOPE_ENDPOINT:
		return unetmm_read_ep_counter(dev, a->endpoint, n);
	default:
		return atomic64_read(&dev->counters[n]);
	}
}

int unetmm_op_counters(struct unetmm_file *file, void *arg)
{
	struct unetmm_dev *dev = file->dev;
	struct unetmm_counters *a = arg;
	u32 i, n, exist;
	int ret = 0;
	u64 *values;

	if (a->scope > UNETMM_SCOPE_DRIVER)
		return -EINVAL;
	if (a->scope != UNETMM_SCOPE_ENDPOINT && a->endpoint)
		return -EINVAL;
	exist = a->scope == UNETMM_SCOPE_DRIVER ? UNETMM_NUM_DRIVER_COUNTERS :
						  UNETMM_NUM_COUNTERS;
	n = min(a->count, exist);
	values = kcalloc(exist, sizeof(*values), GFP_KERNEL_ACCOUNT);
	if (!values)
		return -ENOMEM;
	if (a->scope == UNETMM_SCOPE_DRIVER)
		unetmm_push_counters(dev);
	down_read(&dev->rwsem);
	if (a->scope == UNETMM_SCOPE_ENDPOINT &&
	    !unetmm_ep_exists(dev, a->endpoint))
		ret = -ENOENT;
	for (i = 0; !ret && i < n; i++)
		values[i] = unetmm_counter(dev, a, i);
	up_read(&dev->rwsem);
	if (!ret && copy_to_user(u64_to_user_ptr(a->values), values,
				 n * sizeof(*values)))
		ret = -EFAULT;
	if (!ret)
		a->count = exist;
	kfree(values);
	return ret;
}
