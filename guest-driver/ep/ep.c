// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: endpoints of processes: checks, create, close.
 */
#include <linux/eventfd.h>

#include "compat/compat.h"
#include "ep/ep.h"
#include "memory/memory.h"
#include "map/map.h"
#include "space/space.h"
#include "base/base.h"

static int unetmm_ep_check(const struct unetmm_dev *dev,
			   const struct unetmm_endpoint *a)
{
	const struct unetmm_policy_ops *ops;
	u32 max = dev->hw.max_log2;

	if (a->flags & ~(UNETMM_ENDPOINT_RAW | UNETMM_ENDPOINT_NO_INLINE) ||
	    a->rsvd)
		return -EOPNOTSUPP;
	if (a->flags & UNETMM_ENDPOINT_NO_INLINE &&
	    !(dev->hw.caps & UNETMM_CAP_IMMEDIATE))
		return -EOPNOTSUPP;
	if (a->flags == (UNETMM_ENDPOINT_RAW | UNETMM_ENDPOINT_NO_INLINE))
		return -EINVAL;
	if (a->sq_log2 < UNETMM_MIN_RING_LOG2 || a->sq_log2 > max ||
	    a->fq_log2 < UNETMM_MIN_RING_LOG2 || a->fq_log2 > max ||
	    a->cq_log2 < UNETMM_MIN_RING_LOG2 || a->cq_log2 > max)
		return -EINVAL;
	if (a->policy >= BITS_PER_TYPE(u32) ||
	    a->pretranslate > dev->hw.pretranslate)
		return -EINVAL;
	if (a->policy >= dev->npolicies || !(dev->hw.policies & BIT(a->policy)))
		return -EOPNOTSUPP;
	ops = dev->policy_ops[a->policy];
	if ((a->backup && !(ops && ops->bits)) || a->backup > dev->hw.backup_bits)
		return -EINVAL;
	if (a->pretranslate && (a->flags & UNETMM_ENDPOINT_RAW || (ops && ops->late)))
		return -EINVAL;
	return unetmm_raw_check(dev, a);
}

/*
 * A policy that waits for absent memory wants a source with misses: with the others,
 * absence is an error of the process.  Source ktlb has misses, but no reliable channels,
 * and its descriptors are the driver's, which are for messages only.
 */
static bool unetmm_ep_suits(const struct unetmm_aspace *space,
			    const struct unetmm_endpoint *a)
{
	bool absent = space->dev->policies[a->policy].absent;

	if (space->ops->lists)
		return !absent && !(a->flags & UNETMM_ENDPOINT_RAW);
	return space->ops->resolve || !absent;
}

static int unetmm_ep_eventfd(struct unetmm_ep *ep, int fd)
{
	struct eventfd_ctx *ctx;

	if (fd == -1)
		return 0;
	ctx = eventfd_ctx_fdget(fd);
	if (IS_ERR(ctx))
		return PTR_ERR(ctx) == -EBADF ? -EINVAL : PTR_ERR(ctx);
	ep->eventfd = ctx;
	return 0;
}

static void unetmm_ep_list(struct unetmm_file *file, struct unetmm_ep *ep,
			   bool add)
{
	lockdep_assert_held(&file->lock);
	mutex_lock(&file->dev->map_lock);
	if (add)
		list_add_tail(&ep->node, &file->eps);
	else
		list_del_init(&ep->node);
	mutex_unlock(&file->dev->map_lock);
}

static void unetmm_ep_result(const struct unetmm_ep *ep,
			     struct unetmm_endpoint *a)
{
	a->id = ep->id;
	a->sq_offset = ep->sq_offset;
	a->fq_offset = ep->fq_offset;
	a->cq_offset = ep->cq_offset;
	a->index_offset = 0;
	a->queue_map = unetmm_map_offset(ep->id, false);
	a->queue_bytes = ep->block->bytes;
	a->doorbell_map = unetmm_map_offset(ep->id, true);
	a->doorbell_bytes = PAGE_SIZE;
	a->backup = ep->backup;
}

/* A number for it, one of those that its user may have. */
static int unetmm_ep_take(struct unetmm_ep *ep)
{
	int ret;

	ret = unetmm_object_take(ep->space, UNETMM_USE_ENDPOINTS, 1, &ep->group);
	if (ret)
		return ret;
	ret = unetmm_ep_publish(ep->dev, ep, 1);
	if (ret)
		unetmm_object_give(ep->space, UNETMM_USE_ENDPOINTS, 1,
				   ep->group);
	return ret;
}

static void unetmm_ep_give(struct unetmm_ep *ep)
{
	unetmm_ep_unpublish(ep);
	unetmm_object_give(ep->space, UNETMM_USE_ENDPOINTS, 1, ep->group);
}

static int unetmm_ep_create(struct unetmm_file *file,
			    struct unetmm_endpoint *a,
			    const struct unetmm_ep_lent *lent)
{
	struct unetmm_dev *dev = file->dev;
	struct unetmm_ep *ep = unetmm_ep_alloc(dev);
	int ret;

	lockdep_assert_held(&file->lock);
	if (!ep)
		return -ENOMEM;
	ep->file = file;
	ep->space = file->space;
	ep->lent = *lent;
	ep->sq_log2 = a->sq_log2;
	ep->fq_log2 = a->fq_log2;
	ep->cq_log2 = a->cq_log2;
	ep->policy = &dev->policies[a->policy];
	ep->policy_ops = dev->policy_ops[a->policy];
	ep->flags = (a->flags & UNETMM_ENDPOINT_RAW ? UNETMM_EP_F_RAW : 0) |
		    (a->flags & UNETMM_ENDPOINT_NO_INLINE ?
		     UNETMM_EP_F_NO_INLINE : 0) |
		    (lent->shared ? UNETMM_EP_F_SHARED : 0);
	ret = unetmm_ep_eventfd(ep, a->event_fd);
	if (ret)
		goto put;
	ret = unetmm_ep_layout(ep);
	if (ret)
		goto put;
	ep->first_fault = unetmm_read(dev, UNETMM_REG_RING(UNETMM_RING_FAULT) +
				      UNETMM_RING_PROD);
	ret = unetmm_ep_take(ep);
	if (ret)
		goto put;
	if (ep->space->ops->lists)
		ret = unetmm_kqueues_create(ep);
	else if (ep->policy_ops)
		ret = ep->policy_ops->open(ep, a);
	if (!ret)
		ret = unetmm_ep_command(ep, a->policy, a->pretranslate);
	if (ret)
		goto unpublish;
	ep->space->endpoints++;
	unetmm_ep_list(file, ep, true);
	unetmm_ep_result(ep, a);
	return 0;

unpublish:
	if (ep->kq)
		unetmm_kqueues_drop(ep);
	if (ep->policy_ops)
		ep->policy_ops->close(ep);
	unetmm_ep_give(ep);
put:
	unetmm_ep_put(ep);
	return ret;
}

int unetmm_endpoint_make(struct unetmm_file *file, struct unetmm_endpoint *a,
			 const struct unetmm_ep_lent *lent)
{
	int ret;

	ret = unetmm_ep_check(file->dev, a);
	if (ret)
		return ret;
	mutex_lock(&file->lock);
	ret = unetmm_ep_suits(file->space, a) ? unetmm_ep_create(file, a, lent) :
						-EOPNOTSUPP;
	mutex_unlock(&file->lock);
	return ret;
}

int unetmm_op_endpoint(struct unetmm_file *file, void *arg)
{
	return unetmm_endpoint_make(file, arg, &(struct unetmm_ep_lent) {});
}

/*
 * The card has gone, and has no bus to write by: each look at the endpoint
 * finds it stopped, and sleeping threads are woken to look.  The caller holds map_lock, or
 * ep_lock for an endpoint of the kernel.
 */
void unetmm_ep_gone(struct unetmm_ep *ep)
{
	if (ep->file)
		lockdep_assert_held(&ep->dev->map_lock);
	else
		lockdep_assert_held(&ep->dev->ep_lock);
	WRITE_ONCE(ep->index->card.state, cpu_to_le32(UNETMM_EP_ERROR));
	if (ep->woken)
		ep->woken(ep, UNETMM_NOTIFY_EP_ERROR);
	if (ep->eventfd)
		unetmm_eventfd_signal(ep->eventfd);
	wake_up_all(&ep->wait);
}

/*
 * The process loses the endpoint and its doorbell, then the channels end on the
 * wire, then the endpoint on the card.  With the space's last endpoint the card
 * drops its translations without a word, so we drop the pins; unasked as the
 * card is, our own invalidation makes it certain.
 */
void unetmm_ep_close(struct unetmm_ep *ep)
{
	struct unetmm_aspace *space = ep->space;
	struct unetmm_file *file = ep->file;
	unsigned long dropped;

	lockdep_assert_held(&file->lock);
	unetmm_ep_list(file, ep, false);
	unetmm_doorbell_zap(file, ep->id);
	ep->dev->up->ep_closing(ep);
	unetmm_raw_close(ep);
	if (ep->kq)
		unetmm_kqueues_close(ep);
	unetmm_ep_destroy(ep);
	if (ep->kq)
		unetmm_kqueues_drop(ep);
	if (ep->policy_ops)
		ep->policy_ops->close(ep);
	unetmm_ep_give(ep);
	/* From here on the buffers are the process's: threads that gave one up have ended that. */
	mutex_lock(&space->zero_lock);
	mutex_unlock(&space->zero_lock);
	if (!--space->endpoints && !space->ops->stays) {
		dropped = unetmm_space_drop(space, 0, ULONG_MAX);
		/* Its library goes on with the next endpoint. */
		unetmm_space_lost(space, 0, ULONG_MAX, dropped);
	}
	unetmm_ep_put(ep);
}

int unetmm_endpoint_destroy(struct unetmm_file *file, struct unetmm_ep *ep,
			    const struct unetmm_destroy *a)
{
	if (a->id)
		return -EOPNOTSUPP;
	unetmm_ep_close(ep);
	return 0;
}
