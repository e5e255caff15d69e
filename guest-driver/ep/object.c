// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: endpoints, of processes and of the driver: structure, number, queue memory,
 * place on the card.
 */
#include <linux/eventfd.h>
#include <linux/slab.h>

#include "ep/ep.h"
#include "map/map.h"
#include "space/space.h"
#include "ring/ring.h"
#include "base/base.h"

struct unetmm_ep *unetmm_ep_alloc(struct unetmm_dev *dev)
{
	struct unetmm_ep *ep = kzalloc(sizeof(*ep), GFP_KERNEL_ACCOUNT);

	if (!ep)
		return NULL;
	ep->chan_map = bitmap_zalloc(dev->hw.channels, GFP_KERNEL_ACCOUNT);
	if (!ep->chan_map) {
		kfree(ep);
		return NULL;
	}
	if (dev->hw.imports) {
		ep->import_map = bitmap_zalloc(dev->hw.imports,
					       GFP_KERNEL_ACCOUNT);
		if (!ep->import_map) {
			bitmap_free(ep->chan_map);
			kfree(ep);
			return NULL;
		}
	}
	kref_init(&ep->ref);
	INIT_LIST_HEAD(&ep->node);
	INIT_LIST_HEAD(&ep->accepts);
	INIT_LIST_HEAD(&ep->chans);
	INIT_LIST_HEAD(&ep->resting);
	INIT_LIST_HEAD(&ep->hunt_node);
	INIT_LIST_HEAD(&ep->windows);
	INIT_LIST_HEAD(&ep->flows);
	INIT_HLIST_NODE(&ep->service_node);
	init_waitqueue_head(&ep->wait);
	ep->dev = dev;
	return ep;
}

static void unetmm_ep_free(struct kref *ref)
{
	struct unetmm_ep *ep = container_of(ref, struct unetmm_ep, ref);

	if (ep->eventfd)
		eventfd_ctx_put(ep->eventfd);
	if (ep->block)
		unetmm_block_put(ep->block);
	if (ep->kq)
		unetmm_kqueues_free(ep->kq);
	bitmap_free(ep->import_map);
	bitmap_free(ep->chan_map);
	kfree(ep);
}

void unetmm_ep_put(struct unetmm_ep *ep)
{
	kref_put(&ep->ref, unetmm_ep_free);
}

struct unetmm_ep *unetmm_ep_find_locked(struct unetmm_file *file, u32 id)
{
	struct unetmm_ep *ep;

	lockdep_assert_held(&file->lock);
	list_for_each_entry(ep, &file->eps, node) {
		if (ep->id == id)
			return ep;
	}
	return NULL;
}

struct unetmm_ep *unetmm_ep_find(struct unetmm_file *file, u32 id)
{
	struct unetmm_ep *ep;

	mutex_lock(&file->lock);
	ep = unetmm_ep_find_locked(file, id);
	if (ep)
		kref_get(&ep->ref);
	mutex_unlock(&file->lock);
	return ep;
}

/*
 * Is the endpoint that has the number the one that a record of the fault ring
 * speaks of?  While it is open, the card's request is valid.
 */
bool unetmm_ep_reported(struct unetmm_aspace *space, u32 id, u32 index)
{
	struct unetmm_dev *dev = space->dev;
	const struct unetmm_ep *ep = NULL;
	unsigned long flags;
	bool is;

	spin_lock_irqsave(&dev->ep_lock, flags);
	if (id < dev->hw.endpoints)
		ep = dev->eps[id];
	is = ep && ep->space == space && (s32)(index - ep->first_fault) >= 0;
	spin_unlock_irqrestore(&dev->ep_lock, flags);
	return is;
}

/* Gives the endpoint the first free number from `from` on. */
int unetmm_ep_publish(struct unetmm_dev *dev, struct unetmm_ep *ep, u32 from)
{
	unsigned long flags;
	int ret = -ENOSPC;
	u32 id;

	spin_lock_irqsave(&dev->ep_lock, flags);
	for (id = from; id < dev->hw.endpoints; id++) {
		if (!dev->eps[id]) {
			dev->eps[id] = ep;
			ep->id = id;
			ret = 0;
			break;
		}
	}
	spin_unlock_irqrestore(&dev->ep_lock, flags);
	return ret;
}

void unetmm_ep_unpublish(struct unetmm_ep *ep)
{
	unsigned long flags;

	spin_lock_irqsave(&ep->dev->ep_lock, flags);
	ep->dev->eps[ep->id] = NULL;
	spin_unlock_irqrestore(&ep->dev->ep_lock, flags);
}

/* [index page | send queue | free queue | completion queue], each in pages. */
int unetmm_ep_layout(struct unetmm_ep *ep)
{
	size_t sq = PAGE_ALIGN(sizeof(struct unetmm_sqe) << ep->sq_log2);
	size_t fq = PAGE_ALIGN(sizeof(struct unetmm_fqe) << ep->fq_log2);
	size_t cq = PAGE_ALIGN(sizeof(struct unetmm_cqe) << ep->cq_log2);

	ep->sq_offset = PAGE_SIZE;
	ep->fq_offset = ep->sq_offset + sq;
	ep->cq_offset = ep->fq_offset + fq;
	ep->block = unetmm_block_alloc(ep->dev, ep->space, ep->cq_offset + cq);
	if (IS_ERR(ep->block)) {
		int ret = PTR_ERR(ep->block);

		ep->block = NULL;
		return ret;
	}
	ep->index = ep->block->cpu;
	return 0;
}

int unetmm_ep_command(struct unetmm_ep *ep, u32 policy, u32 pretranslate)
{
	dma_addr_t dma = ep->block->dma;
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_EP_CREATE,
		.space = cpu_to_le16(ep->space ? ep->space->id : ep->kernel_space),
		.ep = cpu_to_le16(ep->id),
		.ep_create = {
			.sq_base = cpu_to_le64(dma + ep->sq_offset),
			.fq_base = cpu_to_le64(dma + ep->fq_offset),
			.cq_base = cpu_to_le64(dma + ep->cq_offset),
			.index = cpu_to_le64(dma),
			.sq_log2 = ep->sq_log2,
			.fq_log2 = ep->fq_log2,
			.cq_log2 = ep->cq_log2,
			.policy = policy,
			.pretranslate = pretranslate,
			.flags = ep->flags,
			.backup = cpu_to_le16(ep->backup),
			.pd = cpu_to_le32(ep->lent.pd),
			.fq_of = cpu_to_le16(ep->lent.queue),
		},
	};

	if (ep->kq) {
		dma = ep->kq->block->dma;
		cmd.ep_create.sq_base = cpu_to_le64(dma + ep->kq->sq_offset);
		cmd.ep_create.fq_base = cpu_to_le64(dma + ep->kq->fq_offset);
		cmd.ep_create.posts = cpu_to_le64(dma);
	}
	return unetmm_cmd(ep->dev, &cmd, NULL);
}

int unetmm_ep_destroy(struct unetmm_ep *ep)
{
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_EP_DESTROY,
		.ep = cpu_to_le16(ep->id),
	};

	return unetmm_cmd(ep->dev, &cmd, NULL);
}

/* The next completion of an endpoint of the driver's own, or NULL. */
const struct unetmm_cqe *unetmm_ep_peek(const struct unetmm_ep *ep, u32 cons)
{
	const struct unetmm_cqe *cqe = ep->block->cpu + ep->cq_offset;
	u32 phase = UNETMM_PHASE_OF(cons, ep->cq_log2);

	cqe += cons & (BIT(ep->cq_log2) - 1);
	if ((le32_to_cpu(READ_ONCE(cqe->flags)) & UNETMM_PHASE) != phase)
		return NULL;
	/* Pairs with the card's order: it writes the phase last. */
	dma_rmb();
	return cqe;
}

/* Register, arm, look again.  True: there is something already. */
bool unetmm_ep_arm(const struct unetmm_ep *ep, u32 cons)
{
	u32 seen = cons & UNETMM_ARM_COUNT;

	WRITE_ONCE(ep->index->user.cq_arm, cpu_to_le32(UNETMM_ARM | seen));
	/* Pairs with the card: completion, full barrier, cq_arm. */
	mb();
	return unetmm_ep_peek(ep, cons);
}
