// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: counters: the card's, an endpoint's, the driver's own.
 */
#include <linux/capability.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "card/card.h"
#include "ep/ep.h"
#include "source/source.h"
#include "space/space.h"
#include "base/base.h"

#define UNETMM_COUNTER_NAME(name, help) [UNETMM_D_##name] = #name,
const char * const unetmm_driver_counter_names[] = {
	UNETMM_DRIVER_COUNTERS(UNETMM_COUNTER_NAME)
};

/* A reference, and whether it is one of the caller's own; NULL: there is none. */
static struct unetmm_ep *unetmm_ep_now(struct unetmm_dev *dev, u32 id,
				       bool *own)
{
	struct unetmm_ep *ep = NULL;
	unsigned long flags;

	spin_lock_irqsave(&dev->ep_lock, flags);
	if (dev->eps && id < dev->hw.endpoints)
		ep = dev->eps[id];
	if (ep) {
		kref_get(&ep->ref);
		*own = ep->space && ep->space->mm == current->mm;
	}
	spin_unlock_irqrestore(&dev->ep_lock, flags);
	return ep;
}

/*
 * The counters of an endpoint reveal the work of its process: they are shown to that
 * process, for each of its files, and to processes that may administer the network.
 */
static struct unetmm_ep *unetmm_ep_shown(struct unetmm_dev *dev, u32 id)
{
	struct unetmm_ep *ep;
	bool own;

	ep = unetmm_ep_now(dev, id, &own);
	if (!ep)
		return ERR_PTR(-ENOENT);
	if (own || capable(CAP_NET_ADMIN))
		return ep;
	unetmm_ep_put(ep);
	return ERR_PTR(-EPERM);
}

/* While it has the number, the counters that the card shows are its own. */
static bool unetmm_ep_is(struct unetmm_dev *dev, const struct unetmm_ep *ep)
{
	unsigned long flags;
	bool is;

	spin_lock_irqsave(&dev->ep_lock, flags);
	is = dev->eps && dev->eps[ep->id] == ep;
	spin_unlock_irqrestore(&dev->ep_lock, flags);
	return is;
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

/* rwsem */
static int unetmm_counters_read(struct unetmm_dev *dev,
				const struct unetmm_counters *a, u64 *values,
				u32 n)
{
	struct unetmm_ep *ep = NULL;
	int ret = 0;
	u32 i;

	if (a->scope == UNETMM_SCOPE_ENDPOINT) {
		ep = unetmm_ep_shown(dev, a->endpoint);
		if (IS_ERR(ep))
			return PTR_ERR(ep);
	}
	for (i = 0; i < n; i++)
		values[i] = unetmm_counter(dev, a, i);
	if (ep) {
		ret = unetmm_ep_is(dev, ep) ? 0 : -ENOENT;
		unetmm_ep_put(ep);
	}
	return ret;
}

int unetmm_op_counters(struct unetmm_file *file, void *arg)
{
	struct unetmm_dev *dev = file->dev;
	struct unetmm_counters *a = arg;
	u32 n, exist;
	int ret;
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
		unetmm_fill_counters(dev);
	down_read(&dev->rwsem);
	ret = unetmm_counters_read(dev, a, values, n);
	up_read(&dev->rwsem);
	if (!ret && copy_to_user(u64_to_user_ptr(a->values), values,
				 n * sizeof(*values)))
		ret = -EFAULT;
	if (!ret)
		a->count = exist;
	kfree(values);
	return ret;
}
