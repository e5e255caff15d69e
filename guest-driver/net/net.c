// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: Linux's netdev on the card: the stack's operations.
 *
 * net/net.h says which lock protects which members.
 */
#include <linux/etherdevice.h>

#include "compat/compat.h"
#include "net/net.h"

#define UNETMM_NET_OFFLOADS	(NETIF_F_SG | NETIF_F_HIGHDMA | \
				 NETIF_F_IP_CSUM | NETIF_F_IPV6_CSUM | \
				 NETIF_F_TSO | NETIF_F_TSO6)

void unetmm_net_event(struct unetmm_dev *dev)
{
	struct unetmm_net *net = READ_ONCE(dev->net);

	if (net)
		unetmm_net_ask(net, UNETMM_NET_LINK);
}

void unetmm_net_interrupt(struct unetmm_dev *dev)
{
	struct unetmm_net *net = READ_ONCE(dev->net);

	if (!net)
		return;
	unetmm_net_count(net, interrupts);
	napi_schedule(&net->napi);
}

static void unetmm_net_timer(struct timer_list *timer)
{
	struct unetmm_net *net = timer_container_of(net, timer, timer);

	unetmm_net_count(net, timer);
	napi_schedule(&net->napi);
}

static void unetmm_net_work(struct work_struct *work)
{
	struct unetmm_net *net = container_of(to_delayed_work(work),
					      struct unetmm_net, work);
	bool filter;

	rtnl_lock();
	filter = test_and_clear_bit(UNETMM_NET_FILTER, &net->todo);
	if (test_and_clear_bit(UNETMM_NET_RESET, &net->todo) &&
	    netif_running(net->netdev) && netif_device_present(net->netdev)) {
		unetmm_net_count(net, resets);
		unetmm_net_restart(net);
	} else if (filter && net->up && unetmm_net_filter(net)) {
		unetmm_net_count(net, flows_failed);
	}
	if (test_and_clear_bit(UNETMM_NET_LINK, &net->todo))
		unetmm_net_link(net);
	rtnl_unlock();
}

static int unetmm_net_open(struct net_device *netdev)
{
	return unetmm_net_up(netdev_priv(netdev));
}

static int unetmm_net_stop(struct net_device *netdev)
{
	unetmm_net_down(netdev_priv(netdev));
	return 0;
}

/* Called where nobody may sleep, as the card's commands do. */
static void unetmm_net_rx_mode(struct net_device *netdev)
{
	unetmm_net_ask(netdev_priv(netdev), UNETMM_NET_FILTER);
}

static int unetmm_net_mac(struct net_device *netdev, void *addr)
{
	struct unetmm_net *net = netdev_priv(netdev);
	u8 old[ETH_ALEN];
	int ret;

	ether_addr_copy(old, netdev->dev_addr);
	ret = eth_mac_addr(netdev, addr);
	if (ret || !net->up)
		return ret;
	ret = unetmm_net_filter(net);
	if (ret) {
		eth_hw_addr_set(netdev, old);
		/* The old flows may have been removed already. */
		unetmm_net_ask(net, UNETMM_NET_FILTER);
	}
	return ret;
}

static int unetmm_net_mtu(struct net_device *netdev, int mtu)
{
	struct unetmm_net *net = netdev_priv(netdev);
	int old = netdev->mtu;
	int ret;

	WRITE_ONCE(netdev->mtu, mtu);
	if (!net->up || unetmm_net_rx_len(mtu) == net->rx.len)
		return 0;
	ret = unetmm_net_restart(net);
	if (ret) {
		WRITE_ONCE(netdev->mtu, old);
		unetmm_net_restart(net);
	}
	return ret;
}

static void unetmm_net_timeout(struct net_device *netdev, unsigned int queue)
{
	struct unetmm_net *net = netdev_priv(netdev);

	unetmm_net_count(net, tx_timeouts);
	unetmm_net_ask(net, UNETMM_NET_RESET);
}

static void unetmm_net_stats_of(struct unetmm_net_stats *stats, u64 *packets,
				u64 *bytes, u64 *multicast, u64 *dropped,
				u64 *errors)
{
	unsigned int start;

	do {
		start = u64_stats_fetch_begin(&stats->sync);
		*packets = u64_stats_read(&stats->packets);
		*bytes = u64_stats_read(&stats->bytes);
		*multicast = u64_stats_read(&stats->multicast);
		*dropped = u64_stats_read(&stats->dropped);
		*errors = u64_stats_read(&stats->errors);
	} while (u64_stats_fetch_retry(&stats->sync, start));
}

static void unetmm_net_stats64(struct net_device *netdev,
			       struct rtnl_link_stats64 *s)
{
	struct unetmm_net *net = netdev_priv(netdev);
	u64 unused;

	unetmm_net_stats_of(&net->tx.stats, &s->tx_packets, &s->tx_bytes,
			    &unused, &s->tx_dropped, &s->tx_errors);
	unetmm_net_stats_of(&net->rx.stats, &s->rx_packets, &s->rx_bytes,
			    &s->multicast, &s->rx_dropped, &s->rx_errors);
	s->tx_errors += atomic64_read(&net->counters[UNETMM_N_tx_failed]);
	s->rx_missed_errors = unetmm_net_missed(net);
}

static const struct net_device_ops unetmm_net_ops = {
	.ndo_open = unetmm_net_open,
	.ndo_stop = unetmm_net_stop,
	.ndo_start_xmit = unetmm_net_xmit,
	.ndo_features_check = unetmm_net_features,
	.ndo_set_rx_mode = unetmm_net_rx_mode,
	.ndo_set_mac_address = unetmm_net_mac,
	.ndo_validate_addr = eth_validate_addr,
	.ndo_change_mtu = unetmm_net_mtu,
	.ndo_tx_timeout = unetmm_net_timeout,
	.ndo_get_stats64 = unetmm_net_stats64,
};

/* Off the card, without the stack's noticing more than that the link is down. */
void unetmm_net_suspend(struct unetmm_dev *dev)
{
	struct unetmm_net *net = dev->net;

	if (!net)
		return;
	rtnl_lock();
	netif_device_detach(net->netdev);
	unetmm_net_down(net);
	rtnl_unlock();
}

void unetmm_net_resume(struct unetmm_dev *dev)
{
	struct unetmm_net *net = dev->net;

	if (!net)
		return;
	rtnl_lock();
	if (netif_running(net->netdev) && unetmm_net_up(net)) {
		netdev_err(net->netdev, "cannot restart the interface after a reset\n");
		unetmm_net_retry(net);
	}
	netif_device_attach(net->netdev);
	rtnl_unlock();
}

static void unetmm_net_setup(struct unetmm_dev *dev, struct net_device *netdev)
{
	struct unetmm_net *net = netdev_priv(netdev);

	net->dev = dev;
	net->netdev = netdev;
	net->tx_log2 = min_t(u32, UNETMM_NET_TX_LOG2, dev->hw.max_log2 - 1);
	net->rx_log2 = min_t(u32, UNETMM_NET_RX_LOG2, dev->hw.max_log2 - 1);
	INIT_DELAYED_WORK(&net->work, unetmm_net_work);
	timer_setup(&net->timer, unetmm_net_timer, 0);
	spin_lock_init(&net->stats_lock);
	spin_lock_init(&net->test.lock);
	init_completion(&net->test.came);
	u64_stats_init(&net->tx.stats.sync);
	u64_stats_init(&net->rx.stats.sync);
	SET_NETDEV_DEV(netdev, &dev->pdev->dev);
	netdev->netdev_ops = &unetmm_net_ops;
	netdev->ethtool_ops = &unetmm_net_ethtool_ops;
	netdev->hw_features = UNETMM_NET_OFFLOADS | NETIF_F_RXCSUM;
	netdev->features = netdev->hw_features;
	netdev->vlan_features = UNETMM_NET_OFFLOADS;
	netdev->priv_flags |= IFF_UNICAST_FLT | IFF_LIVE_ADDR_CHANGE;
	netdev->min_mtu = ETH_MIN_MTU;
	netdev->max_mtu = UNETMM_NET_MAX_MTU;
	eth_hw_addr_set(netdev, dev->hw.mac);
	netif_napi_add(netdev, &net->napi, unetmm_net_poll);
	netif_carrier_off(netdev);
}

/* Without flows the card has no Ethernet, and this does nothing. */
int unetmm_net_init(struct unetmm_dev *dev)
{
	struct net_device *netdev;
	int ret;

	if (!dev->hw.flows)
		return 0;
	netdev = alloc_etherdev(sizeof(struct unetmm_net));
	if (!netdev)
		return -ENOMEM;
	unetmm_net_setup(dev, netdev);
	WRITE_ONCE(dev->net, netdev_priv(netdev));
	ret = register_netdev(netdev);
	if (ret) {
		WRITE_ONCE(dev->net, NULL);
		unetmm_irq_sync(dev);
		cancel_work_sync(&dev->fail_work);
		cancel_delayed_work_sync(&((struct unetmm_net *)
					   netdev_priv(netdev))->work);
		free_netdev(netdev);
	}
	return ret;
}

void unetmm_net_exit(struct unetmm_dev *dev)
{
	struct unetmm_net *net = dev->net;

	if (!net)
		return;
	unregister_netdev(net->netdev);
	WRITE_ONCE(dev->net, NULL);
	/* Nobody asks it for anything any more. */
	unetmm_irq_sync(dev);
	cancel_work_sync(&dev->fail_work);
	cancel_delayed_work_sync(&net->work);
	free_netdev(net->netdev);
}
