// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: source ktlb: the queues of an endpoint that only the driver and the card have;
 * ep/kpost.c fills them.
 */
#include <linux/io.h>
#include <linux/slab.h>

#include "ep/ep.h"
#include "source/source.h"
#include "map/map.h"
#include "space/space.h"
#include "base/base.h"

static int unetmm_kring_init(struct unetmm_kring *ring, u32 log2)
{
	ring->log2 = log2;
	ring->slots = kvcalloc(BIT(log2), sizeof(*ring->slots),
			       GFP_KERNEL_ACCOUNT);
	return ring->slots ? 0 : -ENOMEM;
}

static int unetmm_kqueues_block(struct unetmm_ep *ep, struct unetmm_kqueues *kq)
{
	size_t sq = PAGE_ALIGN(UNETMM_SLOT_BYTES << ep->sq_log2);
	size_t fq = PAGE_ALIGN(sizeof(struct unetmm_fqe) << ep->fq_log2);
	struct unetmm_block *block;

	kq->sq_offset = PAGE_SIZE;
	kq->fq_offset = kq->sq_offset + sq;
	block = unetmm_block_alloc(ep->dev, ep->space, kq->fq_offset + fq);
	if (IS_ERR(block))
		return PTR_ERR(block);
	kq->block = block;
	kq->posts = block->cpu;
	return 0;
}

/* A queue that fails half-way goes with the endpoint, by unetmm_kqueues_free(). */
int unetmm_kqueues_create(struct unetmm_ep *ep)
{
	struct unetmm_dev *dev = ep->dev;
	struct unetmm_kqueues *kq = kzalloc(sizeof(*kq), GFP_KERNEL_ACCOUNT);
	int ret;

	if (!kq)
		return -ENOMEM;
	ep->kq = kq;
	mutex_init(&kq->lock);
	INIT_LIST_HEAD(&kq->node);
	kq->id = ep->id;
	kq->batch = kvzalloc(sizeof(*kq->batch), GFP_KERNEL_ACCOUNT);
	kq->doorbell = ioremap(dev->doorbell_start +
			       (u64)ep->id * dev->hw.db_stride, PAGE_SIZE);
	if (!kq->batch || !kq->doorbell)
		return -ENOMEM;
	ret = unetmm_kring_init(&kq->sq, ep->sq_log2);
	if (!ret)
		ret = unetmm_kring_init(&kq->fq, ep->fq_log2);
	if (!ret)
		ret = unetmm_kqueues_block(ep, kq);
	if (ret)
		return ret;
	spin_lock(&ep->space->lock);
	list_add(&kq->node, &ep->space->kqueues);
	spin_unlock(&ep->space->lock);
	return 0;
}

/* No POST from here on. */
void unetmm_kqueues_close(struct unetmm_ep *ep)
{
	mutex_lock(&ep->kq->lock);
	ep->kq->closed = true;
	mutex_unlock(&ep->kq->lock);
}

/* The card knows nothing of the endpoint (any more); nobody posts. */
void unetmm_kqueues_drop(struct unetmm_ep *ep)
{
	struct unetmm_kqueues *kq = ep->kq;

	unetmm_klist_done(ep->space, &kq->sq, kq->sq.next);
	unetmm_klist_done(ep->space, &kq->fq, kq->fq.next);
	spin_lock(&ep->space->lock);
	list_del_init(&kq->node);
	spin_unlock(&ep->space->lock);
}

/* With the endpoint's last reference. */
void unetmm_kqueues_free(struct unetmm_kqueues *kq)
{
	if (kq->block)
		unetmm_block_put(kq->block);
	kvfree(kq->sq.slots);
	kvfree(kq->fq.slots);
	if (kq->doorbell)
		iounmap(kq->doorbell);
	kvfree(kq->batch);
	kfree(kq);
}
