// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the netdev's endpoint: up, down, and up again; under rtnl.
 */
#include <linux/io.h>

#include "compat/compat.h"
#include "net/net.h"

u64 unetmm_net_card_counter(struct unetmm_net *net, u32 n)
{
	lockdep_assert_held(&net->stats_lock);
	return net->up ? unetmm_read_ep_counter(net->dev, net->ep->id, n) : 0;
}

/* Frames that the card has dropped for want of a place, since probe. */
u64 unetmm_net_missed(struct unetmm_net *net)
{
	u64 missed;

	spin_lock(&net->stats_lock);
	missed = net->missed +
		 unetmm_net_card_counter(net, UNETMM_C_drop_no_buffer) +
		 unetmm_net_card_counter(net, UNETMM_C_drop_cq_full);
	missed = max(missed, net->most_missed);
	net->most_missed = missed;
	spin_unlock(&net->stats_lock);
	return missed;
}

void unetmm_net_link(struct unetmm_net *net)
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
int unetmm_net_restart(struct unetmm_net *net)
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
	ret = unetmm_net_restart(net);
	if (ret) {
		net->tx_log2 = old_tx;
		net->rx_log2 = old_rx;
		unetmm_net_restart(net);
	}
	return ret;
}
