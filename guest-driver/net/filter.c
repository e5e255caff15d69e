// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: which frames the netdev receives: its flows.
 *
 * Under rtnl, while the netdev is up.  New flows are added before old ones are removed,
 * so that no frame is missed between the two, except where a second address becomes
 * the first.
 */
#include <linux/etherdevice.h>
#include <linux/slab.h>

#include "net/net.h"

/* The netdev's addresses, as they were at one moment. */
struct unetmm_net_addrs {
	u32 nunicast;
	u32 n;				/* those of groups are behind */
	bool any;
	bool group;
	u8 mac[UNETMM_NET_MACS][ETH_ALEN];
};

static void unetmm_net_addrs_get(struct unetmm_net *net,
				 struct unetmm_net_addrs *a)
{
	struct net_device *netdev = net->netdev;
	struct netdev_hw_addr *ha;

	netif_addr_lock_bh(netdev);
	a->any = netdev->flags & IFF_PROMISC ||
		 netdev_uc_count(netdev) > UNETMM_NET_MACS;
	a->group = netdev->flags & (IFF_PROMISC | IFF_ALLMULTI);
	if (!a->any) {
		netdev_for_each_uc_addr(ha, netdev)
			ether_addr_copy(a->mac[a->n++], ha->addr);
	}
	a->nunicast = a->n;
	a->group |= netdev_mc_count(netdev) > UNETMM_NET_MACS - a->n;
	if (!a->group) {
		netdev_for_each_mc_addr(ha, netdev)
			ether_addr_copy(a->mac[a->n++], ha->addr);
	}
	netif_addr_unlock_bh(netdev);
}

static struct unetmm_net_flow *unetmm_net_find(struct unetmm_net *net, u8 kind,
					       const u8 *mac)
{
	struct unetmm_net_flow *flow;

	for (flow = net->flows; flow < net->flows + net->nflows; flow++) {
		if (flow->kind == kind && ether_addr_equal(flow->mac, mac))
			return flow;
	}
	return NULL;
}

static void unetmm_net_forget(struct unetmm_net *net,
			      struct unetmm_net_flow *flow)
{
	unetmm_flow_clear(net->dev, flow->number);
	*flow = net->flows[--net->nflows];
}

static int unetmm_net_want(struct unetmm_net *net, u8 kind, u8 flags,
			   const u8 *mac)
{
	struct unetmm_net_flow *flow = unetmm_net_find(net, kind, mac);
	int number;

	if (flow && !(flags & ~flow->flags)) {
		flow->wanted = true;
		return 0;
	}
	/* A second address becomes the first: the card takes no two of one. */
	if (flow)
		unetmm_net_forget(net, flow);
	if (net->nflows == UNETMM_NET_FLOWS)
		return -ENOSPC;
	number = unetmm_flow_set(net->ep, kind, flags, 0, mac);
	if (number < 0)
		return number;
	flow = &net->flows[net->nflows++];
	flow->number = number;
	flow->kind = kind;
	flow->flags = flags;
	ether_addr_copy(flow->mac, mac);
	flow->wanted = true;
	return 0;
}

/* False: the card has too few flows; @a says which ones are wanted in their place. */
static bool unetmm_net_want_all(struct unetmm_net *net,
				struct unetmm_net_addrs *a)
{
	static const u8 none[ETH_ALEN];
	bool ok = true;
	u32 i;

	if (a->any && unetmm_net_want(net, UNETMM_FLOW_ANY, 0, none))
		ok = false;
	if (a->group && unetmm_net_want(net, UNETMM_FLOW_GROUP, 0, none))
		ok = false;
	for (i = 0; i < a->n; i++) {
		bool group = i >= a->nunicast;

		/* The flow of the first address includes broadcast, where it is wanted. */
		if (is_broadcast_ether_addr(a->mac[i]) ||
		    (group ? a->group : a->any) ||
		    !unetmm_net_want(net, UNETMM_FLOW_MAC, 0, a->mac[i]))
			continue;
		ok = false;
		if (group)
			a->group = true;
		else
			a->any = true;
	}
	return ok;
}

static void unetmm_net_drop_unwanted(struct unetmm_net *net)
{
	u32 i = 0;

	while (i < net->nflows) {
		if (net->flows[i].wanted)
			i++;
		else
			unetmm_net_forget(net, &net->flows[i]);
	}
}

/* Adds and removes flows, until they are those of the netdev's addresses and flags. */
int unetmm_net_filter(struct unetmm_net *net)
{
	struct unetmm_net_addrs *a = kzalloc(sizeof(*a), GFP_KERNEL);
	u32 i;
	int ret;

	ASSERT_RTNL();
	if (!a)
		return -ENOMEM;
	for (i = 0; i < net->nflows; i++)
		net->flows[i].wanted = false;
	ret = unetmm_net_want(net, UNETMM_FLOW_MAC, UNETMM_FLOW_F_BROADCAST |
			      UNETMM_FLOW_F_SOURCE, net->netdev->dev_addr);
	if (ret)
		goto free;
	unetmm_net_addrs_get(net, a);
	if (!unetmm_net_want_all(net, a)) {
		/* There may be room behind those that go. */
		unetmm_net_drop_unwanted(net);
		if (!unetmm_net_want_all(net, a))
			unetmm_net_count(net, flows_failed);
	}
	unetmm_net_drop_unwanted(net);
free:
	kfree(a);
	return ret;
}

void unetmm_net_filter_clear(struct unetmm_net *net)
{
	u32 i;

	for (i = 0; i < net->nflows; i++)
		net->flows[i].wanted = false;
	unetmm_net_drop_unwanted(net);
}
