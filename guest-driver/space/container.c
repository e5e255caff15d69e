// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: limits of containers: the kernel's rdma controller of cgroups.
 *
 * A user's share (space/limits.c) is that of a uid, and containers may have the same
 * uid.  An administrator limits a container by "rdma.max" of its cgroup: hca_handle are
 * spaces, hca_object endpoints, exports, windows and flows.  A group counts for all
 * groups above it, so a container cannot pass its limit by groups of its own.  Channels
 * that peers open are not counted: no process of the container runs then.
 *
 * The kernel counts for the group of the calling task.  Each object gives its count back
 * before the driver lets go of the card (unetmm_container_unregister()).
 */
#include <linux/cgroup_rdma.h>
#include <linux/slab.h>

#include "space/space.h"
#include "base/base.h"

#ifdef CONFIG_CGROUP_RDMA

int unetmm_container_register(struct unetmm_dev *dev)
{
	struct rdmacg_device *device = kzalloc(sizeof(*device), GFP_KERNEL);

	if (!device)
		return -ENOMEM;
	device->name = dev->name;
	rdmacg_register_device(device);
	dev->rdmacg = device;
	return 0;
}

void unetmm_container_unregister(struct unetmm_dev *dev)
{
	rdmacg_unregister_device(dev->rdmacg);
	kfree(dev->rdmacg);
	dev->rdmacg = NULL;
}

static enum rdmacg_resource_type unetmm_resource(enum unetmm_use use)
{
	return use == UNETMM_USE_SPACES ? RDMACG_RESOURCE_HCA_HANDLE :
					  RDMACG_RESOURCE_HCA_OBJECT;
}

/* -EDQUOT; -ENOMEM. */
static int unetmm_container_take(struct unetmm_dev *dev, enum unetmm_use use,
				 struct rdma_cgroup **group)
{
	int ret = rdmacg_try_charge(group, dev->rdmacg, unetmm_resource(use));

	return ret == -EAGAIN ? -EDQUOT : ret;
}

void unetmm_container_give(struct unetmm_dev *dev, enum unetmm_use use,
			   struct rdma_cgroup *group)
{
	rdmacg_uncharge(group, dev->rdmacg, unetmm_resource(use));
}

#else

int unetmm_container_register(struct unetmm_dev *dev)
{
	return 0;
}

void unetmm_container_unregister(struct unetmm_dev *dev)
{
}

static int unetmm_container_take(struct unetmm_dev *dev, enum unetmm_use use,
				 struct rdma_cgroup **group)
{
	return 0;
}

void unetmm_container_give(struct unetmm_dev *dev, enum unetmm_use use,
			   struct rdma_cgroup *group)
{
}

#endif

int unetmm_object_take(struct unetmm_aspace *space, enum unetmm_use use, u32 n,
		       struct rdma_cgroup **group)
{
	int ret;

	if (!unetmm_user_take_all(space, use, n))
		return -EDQUOT;
	ret = unetmm_container_take(space->dev, use, group);
	if (!ret)
		return 0;
	unetmm_user_give(space, use, n);
	if (ret == -EDQUOT)
		unetmm_count(space->dev, user_limited);
	return ret;
}

void unetmm_object_give(struct unetmm_aspace *space, enum unetmm_use use, u32 n,
			struct rdma_cgroup *group)
{
	unetmm_container_give(space->dev, use, group);
	unetmm_user_give(space, use, n);
}
