// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: Linux's netdev on the card: up and down, and the stack's operations.
 *
 * net/net.h says which lock protects which members.
 */
#include <linux/etherdevice.h>
#include <linux/io.h>

#include "compat/compat.h"
#include "net/net.h"

#define UNETMM_NET_OFFLOADS	(NETIF_F_SG | NETIF_F_HIGHDMA | \
				 NETIF_F_IP_CSUM | NETIF_F_IPV6_CSUM | \
				 NETIF_F_TSO | NETIF_F_TSO6)

void unetmm_net_ask(struct unetmm_net *net, u32 what)
{
	if (!test_and_set_bit(what, &net->todo))
		mod_delayed_work(unetmm_wq, &net->work, 0);
}

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

static void unetmm_net_link(struct unetmm_net *net)
{
	if (net->up && unetmm_reachable(net->dev) && unetmm_link_up(net->dev))
		netif_carrier_on(net->netdev);
	else
		netif_carrier_off(net->netdev);
}

static struct unetmm_ep *unetmm_net_ep(struct unetmm_net *net)
{
	struct unetmm_dev *dev = net->dev;
	struct unetmm_ep *ep = unetmm_ep_alloc(dev);
	int ret;

	if (!ep)
		return ERR_PTR(-ENOMEM);
	ep->flags = UNETMM_EP_F_RAW | UNETMM_EP_F_VECTOR;
	ep->sq_log2 = net->tx_log2;
	ep->fq_log2 = net->rx_log2;
	/* All that can be under way, and the end. */
	ep->cq_log2 = min(max(net->tx_log2, net->rx_log2) + 1,
			  dev->hw.max_log2);
	ret = unetmm_ep_publish(dev, ep, 1);
	if (ret)
		goto put;
	ret = unetmm_ep_layout(ep);
	if (!ret)
		return ep;
	unetmm_ep_unpublish(ep);
put:
	unetmm_ep_put(ep);
	return ERR_PTR(ret);
}

/* The card has no endpoint and no flow of the netdev, or never had. */
static void unetmm_net_free(struct unetmm_net *net)
{
	unetmm_net_rx_free(net);
	unetmm_net_tx_free(net);
	if (net->doorbell)
		iounmap(net->doorbell);
	net->doorbell = NULL;
	unetmm_ep_unpublish(net->ep);
	unetmm_ep_put(net->ep);
	net->ep = NULL;
}

static int unetmm_net_alloc(struct unetmm_net *net)
{
	struct unetmm_dev *dev = net->dev;
	int ret;

	net->ep = unetmm_net_ep(net);
	if (IS_ERR(net->ep))
		return PTR_ERR(net->ep);
	net->cq_cons = 0;
	ret = unetmm_net_tx_alloc(net);
	if (!ret)
		ret = unetmm_net_rx_alloc(net);
	if (!ret) {
		net->doorbell = ioremap(dev->doorbell_start + net->ep->id *
					(resource_size_t)dev->hw.db_stride,
					PAGE_SIZE);
		if (!net->doorbell)
			ret = -ENOMEM;
	}
	if (ret)
		unetmm_net_free(net);
	return ret;
}

/*
 * The card must not go on with memory that is given back; one that does not say
 * that it has ended loses the bus.
 */
static void unetmm_net_destroy(struct unetmm_net *net)
{
	if (unetmm_ep_destroy(net->ep) && unetmm_reachable(net->dev))
		unetmm_fail(net->dev, "the card does not end the endpoint of the interface");
}

int unetmm_net_up(struct unetmm_net *net)
{
	int ret;

	ASSERT_RTNL();
	if (!unetmm_reachable(net->dev))
		return -ENODEV;
	/* Whatever was wrong before is not any more. */
	clear_bit(UNETMM_NET_RESET, &net->todo);
	ret = unetmm_net_alloc(net);
	if (ret)
		return ret;
	ret = unetmm_ep_command(net->ep, UNETMM_POLICY_DROP, 0);
	if (ret)
		goto free;
	ret = unetmm_net_filter(net);
	if (ret) {
		unetmm_net_filter_clear(net);
		unetmm_net_destroy(net);
		goto free;
	}
	spin_lock(&net->stats_lock);
	net->up = true;
	spin_unlock(&net->stats_lock);
	napi_enable(&net->napi);
	/* The first poll arms. */
	local_bh_disable();
	napi_schedule(&net->napi);
	local_bh_enable();
	/* Without new frames of the stack, nothing else would send the queued ones. */
	netif_tx_wake_all_queues(net->netdev);
	unetmm_net_link(net);
	return 0;

free:
	unetmm_net_free(net);
	return ret;
}

void unetmm_net_down(struct unetmm_net *net)
{
	u64 missed;

	ASSERT_RTNL();
	if (!net->up)
		return;
	netif_carrier_off(net->netdev);
	/* NAPI wakes the queue: it first. */
	napi_disable(&net->napi);
	netif_tx_disable(net->netdev);
	synchronize_net();
	timer_delete_sync(&net->timer);
	missed = unetmm_net_missed(net);
	spin_lock(&net->stats_lock);
	net->up = false;
	net->missed = missed;
	spin_unlock(&net->stats_lock);
	unetmm_net_filter_clear(net);
	unetmm_net_destroy(net);
	unetmm_net_free(net);
}

/* The netdev is up, but could not be started: try again later. */
void unetmm_net_retry(struct unetmm_net *net)
{
	ASSERT_RTNL();
	if (!netif_running(net->netdev) || !unetmm_reachable(net->dev))
		return;
	set_bit(UNETMM_NET_RESET, &net->todo);
	queue_delayed_work(unetmm_wq, &net->work, HZ);
}

/* Stops, and starts. */
static int unetmm_net_again(struct unetmm_net *net)
{
	int ret;

	unetmm_net_down(net);
	ret = unetmm_net_up(net);
	if (!ret)
		return 0;
	netdev_err(net->netdev, "cannot restart the interface: %d\n", ret);
	unetmm_net_retry(net);
	return ret;
}

/* With other rings; if there is no memory for these, with those it had. */
int unetmm_net_resize(struct unetmm_net *net, u32 tx_log2, u32 rx_log2)
{
	u32 old_tx = net->tx_log2;
	u32 old_rx = net->rx_log2;
	int ret;

	net->tx_log2 = tx_log2;
	net->rx_log2 = rx_log2;
	if (!net->up)
		return 0;
	ret = unetmm_net_again(net);
	if (ret) {
		net->tx_log2 = old_tx;
		net->rx_log2 = old_rx;
		unetmm_net_again(net);
	}
	return ret;
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
		unetmm_net_again(net);
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
	ret = unetmm_net_again(net);
	if (ret) {
		WRITE_ONCE(netdev->mtu, old);
		unetmm_net_again(net);
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
