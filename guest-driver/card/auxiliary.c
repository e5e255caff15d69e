// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the card as unetmm_ib.ko has it: an auxiliary device, and calls.
 *
 * LIFETIMES.  The device is there while the card runs: it goes before the card is
 * stopped (removed, reset, asleep), and its driver's remove() ends all contexts first.
 * The auxiliary device has a reference to the card.
 *
 * LOCKS.  The calls take dev->rwsem themselves, for reading.  The caller may hold locks of
 * its own outside of ours, none that a call of `woken` takes.
 */
#include <linux/auxiliary_bus.h>
#include <linux/interrupt.h>
#include <linux/slab.h>

#include "card/card.h"
#include "net/net.h"
#include "remote/remote.h"
#include "channel/channel.h"
#include "ep/ep.h"
#include "memory/memory.h"
#include "map/map.h"
#include "space/space.h"
#include "ring/ring.h"
#include "base/base.h"

static struct unetmm_file *unetmm_lent_open(struct unetmm_dev *dev)
{
	struct unetmm_space a = { .size = sizeof(a), .source = UNETMM_SOURCE_ODP };
	struct unetmm_file *file;
	int ret;

	if (!current->mm)
		return ERR_PTR(-EINVAL);
	file = unetmm_file_new(dev);
	if (IS_ERR(file))
		return file;
	ret = unetmm_op_space(file, &a);
	if (!ret)
		return file;
	unetmm_file_free(file);
	return ERR_PTR(ret);
}

static bool unetmm_lent_ours(const struct unetmm_file *file)
{
	return file->space->mm == current->mm;
}

/* Interrupts, and unetmm_ep_gone() of an endpoint of the kernel, read both members with ep_lock. */
static void unetmm_lent_wake_kernel(struct unetmm_ep *ep,
				    void (*woken)(struct unetmm_ep *ep, u8 type), void *owner)
{
	unsigned long flags;

	spin_lock_irqsave(&ep->dev->ep_lock, flags);
	ep->woken = woken;
	ep->owner = owner;
	spin_unlock_irqrestore(&ep->dev->ep_lock, flags);
}

/* For an endpoint of a process unetmm_ep_gone() reads both members with map_lock. */
static void unetmm_lent_wake(struct unetmm_ep *ep, void (*woken)(struct unetmm_ep *ep, u8 type),
			     void *owner)
{
	mutex_lock(&ep->dev->map_lock);
	unetmm_lent_wake_kernel(ep, woken, owner);
	mutex_unlock(&ep->dev->map_lock);
}

static struct unetmm_ep *unetmm_lent_ep_open(struct unetmm_file *file,
					     struct unetmm_endpoint *a,
					     const struct unetmm_ep_lent *lent,
					     void (*woken)(struct unetmm_ep *ep, u8 type), void *owner)
{
	struct unetmm_ep *ep = NULL;
	int ret;

	if (!unetmm_lent_ours(file))
		return ERR_PTR(-EPERM);
	ret = unetmm_file_enter(file);
	if (ret)
		return ERR_PTR(ret);
	ret = unetmm_endpoint_make(file, a, lent);
	if (!ret)
		ep = unetmm_ep_find(file, a->id);
	if (ep)
		unetmm_lent_wake(ep, woken, owner);
	ret = unetmm_file_leave(file, ret);
	return ep ? ep : ERR_PTR(ret ? ret : -ENODEV);
}

static int unetmm_lent_low_arm(struct unetmm_ep *ep, u32 buffers, u32 *result)
{
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_LOW_ARM,
		.ep = cpu_to_le16(ep->id),
		.low.buffers = cpu_to_le32(buffers),
	};
	struct unetmm_file *file = ep->file;
	int ret = unetmm_file_enter(file);

	if (ret)
		return ret;
	ret = unetmm_cmd(ep->dev, &cmd, result);
	if (!ret && !buffers)
		unetmm_notify_read(ep->dev);
	return unetmm_file_leave(file, ret);
}

/* The card has no channel of the endpoint any more. */
static void unetmm_lent_channel_gone(struct unetmm_ep *ep)
{
	lockdep_assert_held(&ep->file->lock);
	if (ep->has_channel)
		unetmm_user_give(ep->space, UNETMM_USE_CHANNELS, 1);
	ep->has_channel = false;
}

static int unetmm_lent_restart_locked(struct unetmm_ep *ep, u32 policy)
{
	struct unetmm_dev *dev = ep->dev;

	if (unetmm_ep_destroy(ep)) {
		/* The channel's queues are not ours to empty. */
		unetmm_fail(dev, "the card does not end an endpoint");
		return -ENODEV;
	}
	unetmm_lent_channel_gone(ep);
	memset(ep->block->cpu, 0, ep->block->bytes);
	unetmm_notify_read(dev);
	WRITE_ONCE(ep->failed, false);
	WRITE_ONCE(ep->end_status, UNETMM_ST_OK);
	ep->first_fault = unetmm_read(dev, UNETMM_REG_RING(UNETMM_RING_FAULT) +
				      UNETMM_RING_PROD);
	return unetmm_ep_command(ep, policy, 0);
}

static int unetmm_lent_ep_restart(struct unetmm_ep *ep, u32 policy)
{
	struct unetmm_file *file = ep->file;
	int ret = -ENODEV;

	if (!file)
		return unetmm_kernel_ep_restart(ep, policy);
	/* Not killable: the endpoint is emptied in a process that dies, too. */
	down_read(&file->dev->rwsem);
	mutex_lock(&file->lock);
	if (unetmm_running(file->dev) && !file->dead)
		ret = unetmm_lent_restart_locked(ep, policy);
	mutex_unlock(&file->lock);
	return unetmm_file_leave(file, ret);
}

static void unetmm_lent_ep_close(struct unetmm_ep *ep)
{
	struct unetmm_file *file = ep->file;

	if (!file) {
		/* No lock whose holders allocate memory: reclaim may wait for a disk behind it. */
		unetmm_lent_wake_kernel(ep, NULL, NULL);
		unetmm_kernel_ep_close(ep);
		return;
	}
	unetmm_lent_wake(ep, NULL, NULL);
	down_read(&file->dev->rwsem);
	mutex_lock(&file->lock);
	if (!file->dead)
		unetmm_ep_close(ep);
	unetmm_lent_channel_gone(ep);
	mutex_unlock(&file->lock);
	up_read(&file->dev->rwsem);
	unetmm_ep_put(ep);
}

/* A user has a limit of reliable channels; a UD channel has no connection. */
static int unetmm_lent_channel_locked(struct unetmm_ep *ep, struct unetmm_cmd *cmd)
{
	bool charged = cmd->channel.type == UNETMM_CHANNEL_RELIABLE;

	if (charged && !ep->has_channel && !unetmm_user_take(ep->space, UNETMM_USE_CHANNELS, 1))
		return -ENOMEM;
	ep->has_channel |= charged;
	return unetmm_cmd(ep->dev, cmd, NULL);
}

/* Not killable: the end of a queue pair goes on in a process that dies. */
static int unetmm_lent_channel_cmd(struct unetmm_ep *ep, struct unetmm_cmd *cmd)
{
	int ret;

	cmd->ep = cpu_to_le16(ep->id);
	down_read(&ep->dev->rwsem);
	ret = ep->file && ep->file->dead ? -ENODEV : unetmm_cmd(ep->dev, cmd, NULL);
	up_read(&ep->dev->rwsem);
	return ret;
}

static int unetmm_lent_channel_set(struct unetmm_ep *ep, const struct unetmm_cmd_channel *how)
{
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_CHANNEL_SET,
		.ep = cpu_to_le16(ep->id),
		.channel = *how,
	};
	struct unetmm_file *file = ep->file;
	int ret;

	if (!file)
		return unetmm_lent_channel_cmd(ep, &cmd);
	ret = unetmm_file_enter(file);
	if (ret)
		return ret;
	mutex_lock(&file->lock);
	ret = unetmm_lent_channel_locked(ep, &cmd);
	mutex_unlock(&file->lock);
	return unetmm_file_leave(file, ret);
}

static int unetmm_lent_channel_modify(struct unetmm_ep *ep, const struct unetmm_cmd_modify *how)
{
	struct unetmm_cmd cmd = { .opcode = UNETMM_CMD_CHANNEL_MODIFY, .modify = *how };

	return unetmm_lent_channel_cmd(ep, &cmd);
}

static int unetmm_lent_channel_flush(struct unetmm_ep *ep)
{
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_CHANNEL_CLEAR,
		.channel.flags = UNETMM_CHANNEL_F_TELL | UNETMM_CHANNEL_F_FLUSH,
	};

	return unetmm_lent_channel_cmd(ep, &cmd);
}

static int unetmm_lent_region_set(struct unetmm_file *file, const struct unetmm_export *a,
				  u64 iova, u32 pd, u32 *rkey)
{
	return unetmm_lent_ours(file) ? unetmm_export_rkey(file, a, iova, pd, rkey) : -EPERM;
}

static void unetmm_lent_region_clear(struct unetmm_file *file, u64 id)
{
	const struct unetmm_destroy a = { .id = id };

	unetmm_export_destroy(file, NULL, &a);
}

/* A window is an export, bound or not. */
static int unetmm_lent_window_take(struct unetmm_file *file, struct rdma_cgroup **group)
{
	int ret = unetmm_object_take(file->space, UNETMM_USE_EXPORTS, 1, group);

	if (ret)
		return ret;
	ret = unetmm_kernel_calls.region_take(file->dev);
	if (ret < 0)
		unetmm_object_give(file->space, UNETMM_USE_EXPORTS, 1, *group);
	return ret;
}

/* A card that has been reset has the number, too, for others. */
static void unetmm_lent_window_give(struct unetmm_file *file, u32 region,
				    struct rdma_cgroup *group)
{
	down_read(&file->dev->rwsem);
	if (!file->dead)
		unetmm_kernel_calls.region_give(file->dev, region);
	up_read(&file->dev->rwsem);
	unetmm_object_give(file->space, UNETMM_USE_EXPORTS, 1, group);
}

/* Not killable: a window ends in a process that dies, too. */
static int unetmm_lent_window_cmd(struct unetmm_file *file, struct unetmm_cmd *cmd)
{
	int ret;

	down_read(&file->dev->rwsem);
	ret = file->dead ? -ENODEV : unetmm_cmd(file->dev, cmd, NULL);
	up_read(&file->dev->rwsem);
	return ret;
}

static int unetmm_lent_window_set(struct unetmm_file *file, const struct unetmm_cmd_region *how)
{
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_REGION_SET,
		.space = cpu_to_le16(file->space->id),
		.region = *how,
	};

	return unetmm_lent_window_cmd(file, &cmd);
}

static void unetmm_lent_window_clear(struct unetmm_file *file, u32 region)
{
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_REGION_CLEAR,
		.region.region = cpu_to_le32(region),
	};

	unetmm_lent_window_cmd(file, &cmd);
}

static void unetmm_lent_watch(struct unetmm_file *file, struct unetmm_watch *watch, bool on)
{
	struct unetmm_aspace *space = file->space;

	spin_lock(&space->lock);
	if (on)
		interval_tree_insert(&watch->node, &space->watches);
	else
		interval_tree_remove(&watch->node, &space->watches);
	spin_unlock(&space->lock);
}

static bool unetmm_lent_charge(struct unetmm_file *file, u32 npages)
{
	return unetmm_charge_all(file->space, npages);
}

static void unetmm_lent_uncharge(struct unetmm_file *file, u32 npages)
{
	unetmm_uncharge(file->space, npages);
}

static bool unetmm_lent_take(struct unetmm_file *file)
{
	return unetmm_user_take(file->space, UNETMM_USE_VERBS, 1) == 1;
}

static void unetmm_lent_give(struct unetmm_file *file)
{
	unetmm_user_give(file->space, UNETMM_USE_VERBS, 1);
}

static struct net_device *unetmm_lent_netdev(struct unetmm_dev *dev)
{
	return dev->net ? dev->net->netdev : NULL;
}

static const struct unetmm_lent_calls unetmm_lent_calls = {
	.open = unetmm_lent_open,
	.close = unetmm_file_free,
	.ours = unetmm_lent_ours,
	.ep_open = unetmm_lent_ep_open,
	.ep_restart = unetmm_lent_ep_restart,
	.ep_close = unetmm_lent_ep_close,
	.ep_put = unetmm_ep_put,
	.ep_peek = unetmm_ep_peek,
	.ep_arm = unetmm_ep_arm,
	.low_arm = unetmm_lent_low_arm,
	.channel_set = unetmm_lent_channel_set,
	.channel_modify = unetmm_lent_channel_modify,
	.channel_flush = unetmm_lent_channel_flush,
	.region_set = unetmm_lent_region_set,
	.region_clear = unetmm_lent_region_clear,
	.window_take = unetmm_lent_window_take,
	.window_give = unetmm_lent_window_give,
	.window_set = unetmm_lent_window_set,
	.window_clear = unetmm_lent_window_clear,
	.page_in = unetmm_op_prefetch,
	.memory = unetmm_export_memory,
	.watch = unetmm_lent_watch,
	.charge = unetmm_lent_charge,
	.uncharge = unetmm_lent_uncharge,
	.take = unetmm_lent_take,
	.give = unetmm_lent_give,
	.netdev = unetmm_lent_netdev,
	.kernel = &unetmm_kernel_calls,
};

static void unetmm_auxiliary_release(struct device *device)
{
	struct unetmm_auxiliary *aux = container_of(to_auxiliary_dev(device),
						    struct unetmm_auxiliary, base);
	struct unetmm_dev *dev = aux->dev;

	kfree(aux);
	unetmm_dev_put(dev);
}

/* Verbs need source odp, reliable channels with keys, and a netdev for addresses. */
static bool unetmm_auxiliary_fits(const struct unetmm_dev *dev)
{
	const u32 caps = UNETMM_CAP_RELIABLE | UNETMM_CAP_KEYED | UNETMM_CAP_IMMEDIATE |
			 UNETMM_CAP_VERBS;

	return dev->net && (dev->hw.caps & caps) == caps && dev->hw.regions &&
	       dev->hw.sources & BIT(UNETMM_SOURCE_ODP) &&
	       dev->hw.policies & BIT(UNETMM_POLICY_RNR);
}

/* A card without verbs is a card all the same. */
void unetmm_auxiliary_add(struct unetmm_dev *dev)
{
	struct unetmm_auxiliary *aux;
	int ret = -ENOMEM;

	if (!unetmm_auxiliary_fits(dev))
		return;
	aux = kzalloc(sizeof(*aux), GFP_KERNEL);
	if (!aux)
		goto failed;
	kref_get(&dev->ref);
	aux->dev = dev;
	aux->calls = &unetmm_lent_calls;
	aux->base.name = UNETMM_AUXILIARY;
	aux->base.id = dev->number;
	aux->base.dev.parent = &dev->pdev->dev;
	aux->base.dev.release = unetmm_auxiliary_release;
	ret = auxiliary_device_init(&aux->base);
	if (ret) {
		kfree(aux);
		unetmm_dev_put(dev);
		goto failed;
	}
	ret = auxiliary_device_add(&aux->base);
	if (ret) {
		auxiliary_device_uninit(&aux->base);
		goto failed;
	}
	unetmm_card(dev)->auxiliary = aux;
	return;
failed:
	dev_warn(&dev->pdev->dev, "no device for verbs: %d\n", ret);
}

void unetmm_auxiliary_remove(struct unetmm_dev *dev)
{
	struct unetmm_auxiliary *aux = unetmm_card(dev)->auxiliary;

	if (!aux)
		return;
	unetmm_card(dev)->auxiliary = NULL;
	auxiliary_device_delete(&aux->base);
	auxiliary_device_uninit(&aux->base);
}
