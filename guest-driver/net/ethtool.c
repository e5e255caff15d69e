// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the netdev's ethtool operations.  Under rtnl.
 */
#include <linux/ethtool.h>
#include <linux/pci.h>

#include "net/net.h"

/* Those of the card's counters that an endpoint like ours has a part in. */
#define UNETMM_NET_CARD(X) \
	X(eth_tx_frames) \
	X(eth_tx_bytes) \
	X(eth_segmented) \
	X(eth_csums) \
	X(eth_rx_frames) \
	X(eth_rx_bytes) \
	X(doorbells) \
	X(notifications) \
	X(sends_done) \
	X(sends_failed) \
	X(cq_waits) \
	X(bufs_failed) \
	X(drop_no_buffer) \
	X(drop_too_long) \
	X(drop_cq_full) \
	X(drop_stopped) \
	X(drop_dma) \
	X(drop_source) \
	X(drop_forged) \
	X(drop_offload) \
	X(err_descriptor) \
	X(err_index) \
	X(err_dma)

#define UNETMM_NET_NAME(name)	#name,
static const char unetmm_net_names[][ETH_GSTRING_LEN] = {
	UNETMM_NET_CARD(UNETMM_NET_NAME)
	UNETMM_NET_COUNTERS(UNETMM_NET_NAME)
};

#define UNETMM_NET_NUMBER(name)	UNETMM_C_##name,
static const u32 unetmm_net_card[] = {
	UNETMM_NET_CARD(UNETMM_NET_NUMBER)
};

static void unetmm_net_drvinfo(struct net_device *netdev,
			       struct ethtool_drvinfo *info)
{
	struct unetmm_net *net = netdev_priv(netdev);

	strscpy(info->driver, UNETMM_NAME, sizeof(info->driver));
	strscpy(info->bus_info, pci_name(net->dev->pdev),
		sizeof(info->bus_info));
	snprintf(info->fw_version, sizeof(info->fw_version), "%u.%u",
		 FIELD_GET(UNETMM_VERSION_MAJOR, net->dev->hw.version),
		 FIELD_GET(UNETMM_VERSION_MINOR, net->dev->hw.version));
}

/* There is neither a speed nor anything to be negotiated. */
static int unetmm_net_ksettings(struct net_device *netdev,
				struct ethtool_link_ksettings *cmd)
{
	ethtool_link_ksettings_zero_link_mode(cmd, supported);
	ethtool_link_ksettings_zero_link_mode(cmd, advertising);
	cmd->base.speed = SPEED_UNKNOWN;
	cmd->base.duplex = DUPLEX_FULL;
	cmd->base.port = PORT_OTHER;
	cmd->base.autoneg = AUTONEG_DISABLE;
	return 0;
}

static u32 unetmm_net_max_log2(const struct unetmm_net *net)
{
	return min_t(u32, UNETMM_NET_MAX_LOG2, net->dev->hw.max_log2 - 1);
}

static void unetmm_net_get_rings(struct net_device *netdev,
				 struct ethtool_ringparam *ring,
				 struct kernel_ethtool_ringparam *kernel,
				 struct netlink_ext_ack *extack)
{
	struct unetmm_net *net = netdev_priv(netdev);

	ring->rx_max_pending = BIT(unetmm_net_max_log2(net));
	ring->tx_max_pending = ring->rx_max_pending;
	ring->rx_pending = BIT(net->rx_log2);
	ring->tx_pending = BIT(net->tx_log2);
}

/* Rings are powers of two: the wanted sizes are rounded up. */
static int unetmm_net_set_rings(struct net_device *netdev,
				struct ethtool_ringparam *ring,
				struct kernel_ethtool_ringparam *kernel,
				struct netlink_ext_ack *extack)
{
	struct unetmm_net *net = netdev_priv(netdev);
	u32 least = BIT(UNETMM_NET_MIN_LOG2);
	u32 tx, rx;

	if (ring->rx_mini_pending || ring->rx_jumbo_pending)
		return -EINVAL;
	if (ring->rx_pending < least || ring->tx_pending < least) {
		NL_SET_ERR_MSG(extack, "a ring needs at least 64 entries");
		return -EINVAL;
	}
	tx = order_base_2(ring->tx_pending);
	rx = order_base_2(ring->rx_pending);
	if (max(tx, rx) > unetmm_net_max_log2(net))
		return -EINVAL;
	if (tx == net->tx_log2 && rx == net->rx_log2)
		return 0;
	return unetmm_net_resize(net, tx, rx);
}

/*
 * The card can moderate the interrupt that wakes receiving processes; the netdev's own
 * interrupt comes once for each time that NAPI has armed it.
 */
static int unetmm_net_get_coalesce(struct net_device *netdev,
				   struct ethtool_coalesce *coalesce,
				   struct kernel_ethtool_coalesce *kernel,
				   struct netlink_ext_ack *extack)
{
	struct unetmm_net *net = netdev_priv(netdev);

	coalesce->rx_coalesce_usecs =
		unetmm_param(net->dev, UNETMM_P_notify_moderate_ns) /
		NSEC_PER_USEC;
	return 0;
}

static int unetmm_net_set_coalesce(struct net_device *netdev,
				   struct ethtool_coalesce *coalesce,
				   struct kernel_ethtool_coalesce *kernel,
				   struct netlink_ext_ack *extack)
{
	struct unetmm_net *net = netdev_priv(netdev);

	if (coalesce->rx_coalesce_usecs > U32_MAX / NSEC_PER_USEC) {
		NL_SET_ERR_MSG(extack, "the longest delay of the card is 4294967 us");
		return -ERANGE;
	}
	unetmm_param_set(net->dev, UNETMM_P_notify_moderate_ns,
			 coalesce->rx_coalesce_usecs * NSEC_PER_USEC);
	return 0;
}

static int unetmm_net_count_strings(struct net_device *netdev, int set)
{
	switch (set) {
	case ETH_SS_STATS:
		return ARRAY_SIZE(unetmm_net_names);
	case ETH_SS_TEST:
		return unetmm_net_test_count();
	default:
		return -EOPNOTSUPP;
	}
}

static void unetmm_net_strings(struct net_device *netdev, u32 set, u8 *data)
{
	if (set == ETH_SS_STATS)
		memcpy(data, unetmm_net_names, sizeof(unetmm_net_names));
	else if (set == ETH_SS_TEST)
		unetmm_net_test_names(data);
}

static void unetmm_net_values(struct net_device *netdev,
			      struct ethtool_stats *stats, u64 *data)
{
	struct unetmm_net *net = netdev_priv(netdev);
	u32 i;

	spin_lock(&net->stats_lock);
	for (i = 0; i < ARRAY_SIZE(unetmm_net_card); i++)
		*data++ = unetmm_net_card_counter(net, unetmm_net_card[i]);
	spin_unlock(&net->stats_lock);
	for (i = 0; i < UNETMM_NUM_NET_COUNTERS; i++)
		*data++ = atomic64_read(&net->counters[i]);
}

const struct ethtool_ops unetmm_net_ethtool_ops = {
	.supported_coalesce_params = ETHTOOL_COALESCE_RX_USECS,
	.get_coalesce = unetmm_net_get_coalesce,
	.set_coalesce = unetmm_net_set_coalesce,
	.get_drvinfo = unetmm_net_drvinfo,
	.get_link = ethtool_op_get_link,
	.get_link_ksettings = unetmm_net_ksettings,
	.get_ringparam = unetmm_net_get_rings,
	.set_ringparam = unetmm_net_set_rings,
	.get_sset_count = unetmm_net_count_strings,
	.get_strings = unetmm_net_strings,
	.get_ethtool_stats = unetmm_net_values,
	.get_ts_info = ethtool_op_get_ts_info,
	.self_test = unetmm_net_test,
};
