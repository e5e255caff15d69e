// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the space of the kernel's verbs, as unetmm_ib.ko has it: a number, endpoints and
 * regions on the card.  There is no process, hence no struct unetmm_aspace: the source is
 * pinned, which has no misses, and the module fills the table.
 *
 * LIFETIMES.  The space is there from the module's first use of it until the module ends it
 * with the auxiliary device, thus while the card runs; its endpoints and regions end before.
 *
 * LOCKS.  The calls take dev->rwsem for reading, and ctl.lock; never map_lock.
 */
#include "card/card.h"
#include "channel/channel.h"
#include "ep/ep.h"
#include "memory/memory.h"
#include "map/map.h"
#include "ring/ring.h"
#include "space/space.h"
#include "base/base.h"

static bool unetmm_kernel_direct(struct unetmm_dev *dev)
{
	bool direct = false;
	struct page *page;
	dma_addr_t dma;

	if (!(dev->hw.sources & BIT(UNETMM_SOURCE_PINNED)))
		return false;
	page = alloc_page(GFP_KERNEL);
	if (!page)
		return false;
	if (!unetmm_map_page(dev, page, true, &dma)) {
		direct = dma == page_to_phys(page);
		unetmm_unmap_page(dev, dma, true);
	}
	__free_page(page);
	return direct;
}

static int unetmm_kernel_command(struct unetmm_dev *dev, struct unetmm_cmd *cmd)
{
	int ret;

	down_read(&dev->rwsem);
	ret = unetmm_cmd(dev, cmd, NULL);
	up_read(&dev->rwsem);
	return ret;
}

/* Memory of the object is given back: a card that does not end the object loses the bus. */
static void unetmm_kernel_ended(struct unetmm_dev *dev, int ret)
{
	if (ret && unetmm_reachable(dev))
		unetmm_fail(dev, "the card does not end an object of the kernel's verbs");
}

static int unetmm_kernel_open(struct unetmm_dev *dev, dma_addr_t root, u32 levels)
{
	u32 id;
	int ret;

	/* A lookup by the number finds no space of a process. */
	ret = xa_alloc(&dev->spaces, &id, NULL, XA_LIMIT(1, dev->hw.spaces - 1), GFP_KERNEL);
	if (ret)
		return ret == -EBUSY ? -ENOSPC : ret;
	down_read(&dev->rwsem);
	ret = unetmm_space_command(dev, id, UNETMM_SOURCE_PINNED, levels, root);
	up_read(&dev->rwsem);
	if (ret)
		xa_erase(&dev->spaces, id);
	return ret ? ret : id;
}

static void unetmm_kernel_close(struct unetmm_dev *dev, u32 space)
{
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_SPACE_DESTROY,
		.space = cpu_to_le16(space),
	};

	unetmm_kernel_ended(dev, unetmm_kernel_command(dev, &cmd));
	xa_erase(&dev->spaces, space);
}

static int unetmm_kernel_ep_start(struct unetmm_ep *ep, u32 policy)
{
	int ret;

	down_read(&ep->dev->rwsem);
	ret = unetmm_ep_command(ep, policy, 0);
	up_read(&ep->dev->rwsem);
	return ret;
}

static struct unetmm_ep *unetmm_kernel_ep_open(struct unetmm_dev *dev, u32 space,
					       const struct unetmm_endpoint *a, u32 pd,
					       void (*woken)(struct unetmm_ep *ep, u8 type),
					       void *owner)
{
	struct unetmm_ep *ep = unetmm_ep_alloc(dev);
	int ret;

	if (!ep)
		return ERR_PTR(-ENOMEM);
	ep->kernel_space = space;
	ep->lent.pd = pd;
	ep->sq_log2 = a->sq_log2;
	ep->fq_log2 = a->fq_log2;
	ep->cq_log2 = a->cq_log2;
	ep->flags = UNETMM_EP_F_NO_INLINE;
	/* Before anybody finds the endpoint. */
	ep->woken = woken;
	ep->owner = owner;
	ret = unetmm_ep_layout(ep);
	if (ret)
		goto put;
	ret = unetmm_ep_publish(dev, ep, 1);
	if (ret)
		goto put;
	ret = unetmm_kernel_ep_start(ep, a->policy);
	if (!ret)
		return ep;
	unetmm_ep_unpublish(ep);
put:
	unetmm_ep_put(ep);
	return ERR_PTR(ret);
}

static int unetmm_kernel_ep_end(struct unetmm_ep *ep)
{
	int ret;

	down_read(&ep->dev->rwsem);
	ret = unetmm_ep_destroy(ep);
	up_read(&ep->dev->rwsem);
	unetmm_kernel_ended(ep->dev, ret);
	return ret;
}

int unetmm_kernel_ep_restart(struct unetmm_ep *ep, u32 policy)
{
	if (unetmm_kernel_ep_end(ep))
		return -ENODEV;
	memset(ep->block->cpu, 0, ep->block->bytes);
	return unetmm_kernel_ep_start(ep, policy);
}

/* `woken` comes no more. */
void unetmm_kernel_ep_close(struct unetmm_ep *ep)
{
	unetmm_kernel_ep_end(ep);
	unetmm_ep_unpublish(ep);
	unetmm_ep_put(ep);
}

static int unetmm_kernel_region_take(struct unetmm_dev *dev)
{
	struct unetmm_ctl *ctl = dev->ctl;
	int ret = -ENOSPC;
	u32 number;

	mutex_lock(&ctl->lock);
	number = unetmm_region_number(dev);
	/* The keys of region 0 mean memory without a region. */
	if (!number)
		number = find_next_zero_bit(ctl->region_map, dev->hw.regions, 1);
	if (number < dev->hw.regions && number <= U16_MAX) {
		__set_bit(number, ctl->region_map);
		ctl->region_next = number + 1;
		ret = number;
	}
	mutex_unlock(&ctl->lock);
	return ret;
}

static void unetmm_kernel_region_give(struct unetmm_dev *dev, u32 region)
{
	mutex_lock(&dev->ctl->lock);
	__clear_bit(region, dev->ctl->region_map);
	mutex_unlock(&dev->ctl->lock);
}

static int unetmm_kernel_region_set(struct unetmm_dev *dev, u32 space,
				    const struct unetmm_cmd_region *how)
{
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_REGION_SET,
		.space = cpu_to_le16(space),
		.region = *how,
	};

	return unetmm_kernel_command(dev, &cmd);
}

static void unetmm_kernel_region_clear(struct unetmm_dev *dev, u32 region)
{
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_REGION_CLEAR,
		.region.region = cpu_to_le32(region),
	};

	unetmm_kernel_ended(dev, unetmm_kernel_command(dev, &cmd));
}

const struct unetmm_kernel_calls unetmm_kernel_calls = {
	.direct = unetmm_kernel_direct,
	.open = unetmm_kernel_open,
	.close = unetmm_kernel_close,
	.ep_open = unetmm_kernel_ep_open,
	.region_take = unetmm_kernel_region_take,
	.region_give = unetmm_kernel_region_give,
	.region_set = unetmm_kernel_region_set,
	.region_clear = unetmm_kernel_region_clear,
	.invalidate = unetmm_invalidate,
};
