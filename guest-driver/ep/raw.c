// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: raw endpoints of processes, and the flows that they may have.
 *
 * To have such an endpoint is to see and to send the frames that packet sockets can:
 * CAP_NET_RAW.  A flow takes frames: from the kernel's netdev or from another
 * process, where the address is the card's own or the kind goes before the
 * address (CAP_NET_ADMIN, which could also reconfigure the netdev); from nobody,
 * where it is an address of its own, or of a group.  The first one has a
 * flow: the card refuses a second one.
 *
 * Flows of an endpoint are in a list under file->lock, and go with it.
 */
#include <linux/capability.h>
#include <linux/etherdevice.h>
#include <linux/slab.h>

#include "ep/ep.h"
#include "space/space.h"
#include "base/base.h"

struct unetmm_raw_flow {
	struct list_head node;		/* ep->flows; file->lock */
	struct rdma_cgroup *group;
	u32 number;
};

/* Before anything of the endpoint is made. */
int unetmm_raw_check(const struct unetmm_dev *dev,
		     const struct unetmm_endpoint *a)
{
	if (!(a->flags & UNETMM_ENDPOINT_RAW))
		return 0;
	if (!dev->hw.flows || !dev->policies[a->policy].raw)
		return -EOPNOTSUPP;
	return capable(CAP_NET_RAW) ? 0 : -EPERM;
}

/* ---- Rights to a flow --------------------------------------------------------- */

static int unetmm_raw_flow_value(const struct unetmm_flow *a)
{
	switch (a->kind) {
	case UNETMM_FLOW_ETHERTYPE:
		return a->value >= ETH_P_802_3_MIN ? 0 : -EINVAL;
	case UNETMM_FLOW_UDP:
	case UNETMM_FLOW_TCP:
		return a->value ? 0 : -EINVAL;
	default:
		return a->value ? -EINVAL : 0;
	}
}

static int unetmm_raw_flow_mac(const struct unetmm_flow *a)
{
	switch (a->kind) {
	case UNETMM_FLOW_MAC:
		if (is_zero_ether_addr(a->mac))
			return -EINVAL;
		return a->flags && is_multicast_ether_addr(a->mac) ?
		       -EINVAL : 0;
	case UNETMM_FLOW_ETHERTYPE:
	case UNETMM_FLOW_UDP:
	case UNETMM_FLOW_TCP:
		return !a->flags && is_valid_ether_addr(a->mac) ? 0 : -EINVAL;
	default:
		return !a->flags && is_zero_ether_addr(a->mac) ? 0 : -EINVAL;
	}
}

/*
 * Does it take, or copy, the frames of others?  A frame to a station that has a flow
 * stays on the card, even the kernel's own, so that a flow for the router's address,
 * say, would have all that the kernel sends to it.
 */
static bool unetmm_raw_flow_takes(const struct unetmm_flow *a)
{
	return a->kind != UNETMM_FLOW_MAC ||
	       !is_multicast_ether_addr(a->mac) ||
	       is_link_local_ether_addr(a->mac);
}

static int unetmm_raw_flow_check(const struct unetmm_dev *dev,
				 const struct unetmm_flow *a)
{
	int ret;

	if (!dev->hw.flows || a->rsvd || a->flags & ~UNETMM_FLOW_F_ALL)
		return -EOPNOTSUPP;
	if (a->kind < UNETMM_FLOW_MAC || a->kind > UNETMM_FLOW_ANY)
		return -EINVAL;
	ret = unetmm_raw_flow_value(a);
	if (!ret)
		ret = unetmm_raw_flow_mac(a);
	if (ret)
		return ret;
	if (a->kind == UNETMM_FLOW_ETHERTYPE && a->value == UNETMM_ETHERTYPE)
		return -EPERM;
	if (unetmm_raw_flow_takes(a) && !capable(CAP_NET_ADMIN))
		return -EPERM;
	return 0;
}

/* ---- Calls -------------------------------------------------------------------- */

static struct unetmm_ep *unetmm_raw_ep(struct unetmm_file *file, u32 id)
{
	struct unetmm_ep *ep = unetmm_ep_find_locked(file, id);

	lockdep_assert_held(&file->lock);
	if (!ep)
		return ERR_PTR(-ENOENT);
	return ep->flags & UNETMM_EP_F_RAW ? ep : ERR_PTR(-EPROTOTYPE);
}

static int unetmm_raw_flow_add(struct unetmm_ep *ep, struct unetmm_flow *a)
{
	struct unetmm_raw_flow *flow = kzalloc(sizeof(*flow),
					       GFP_KERNEL_ACCOUNT);
	int ret;

	if (!flow)
		return -ENOMEM;
	ret = unetmm_object_take(ep->space, UNETMM_USE_FLOWS, 1, &flow->group);
	if (ret)
		goto free;
	ret = unetmm_flow_set(ep, a->kind, a->flags, a->value, a->mac);
	if (ret < 0)
		goto give;
	flow->number = ret;
	list_add(&flow->node, &ep->flows);
	a->flow = ret;
	return 0;

give:
	unetmm_object_give(ep->space, UNETMM_USE_FLOWS, 1, flow->group);
free:
	kfree(flow);
	return ret == -EEXIST ? -EADDRINUSE : ret;
}

static void unetmm_raw_flow_drop(struct unetmm_ep *ep,
				 struct unetmm_raw_flow *flow)
{
	unetmm_flow_clear(ep->dev, flow->number);
	unetmm_object_give(ep->space, UNETMM_USE_FLOWS, 1, flow->group);
	list_del(&flow->node);
	kfree(flow);
}

int unetmm_op_flow(struct unetmm_file *file, void *arg)
{
	struct unetmm_flow *a = arg;
	struct unetmm_ep *ep;
	int ret;

	ret = unetmm_raw_flow_check(file->dev, a);
	if (ret)
		return ret;
	mutex_lock(&file->lock);
	ep = unetmm_raw_ep(file, a->endpoint);
	ret = IS_ERR(ep) ? PTR_ERR(ep) : unetmm_raw_flow_add(ep, a);
	mutex_unlock(&file->lock);
	return ret;
}

int unetmm_flow_destroy(struct unetmm_file *file, struct unetmm_ep *ep,
			const struct unetmm_destroy *a)
{
	struct unetmm_raw_flow *flow;

	if (!(ep->flags & UNETMM_EP_F_RAW))
		return -EPROTOTYPE;
	list_for_each_entry(flow, &ep->flows, node) {
		if (flow->number == a->id) {
			unetmm_raw_flow_drop(ep, flow);
			return 0;
		}
	}
	return -ENOENT;
}

/* Before the endpoint leaves the card: its frames are somebody else's again. */
void unetmm_raw_close(struct unetmm_ep *ep)
{
	struct unetmm_raw_flow *flow, *next;

	list_for_each_entry_safe(flow, next, &ep->flows, node)
		unetmm_raw_flow_drop(ep, flow);
}
