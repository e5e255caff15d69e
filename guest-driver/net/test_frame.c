// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the frame of the netdev's self-test.
 */
#include <linux/etherdevice.h>

#include "net/net.h"

#define UNETMM_NET_TEST_BYTES	512	/* of a frame behind its header */

/* The payload of the test's frame. */
struct unetmm_net_test_data {
	__be32 nonce;
	u8 pattern[UNETMM_NET_TEST_BYTES - sizeof(__be32)];
};

static u8 unetmm_net_pattern(u32 nonce, u32 i)
{
	return nonce + 37 * i;
}

struct sk_buff *unetmm_net_test_frame(struct unetmm_net *net, u32 nonce)
{
	const u8 *mac = net->netdev->dev_addr;
	struct unetmm_net_test_data *data;
	struct sk_buff *skb;
	u32 i;

	skb = netdev_alloc_skb(net->netdev, ETH_HLEN + sizeof(*data));
	if (!skb)
		return NULL;
	skb_reset_mac_header(skb);
	skb_put(skb, ETH_HLEN);
	eth_hdr(skb)->h_proto = htons(ETH_P_LOOPBACK);
	ether_addr_copy(eth_hdr(skb)->h_source, mac);
	ether_addr_copy(eth_hdr(skb)->h_dest, mac);
	skb_set_network_header(skb, ETH_HLEN);
	skb->protocol = htons(ETH_P_LOOPBACK);
	data = skb_put(skb, sizeof(*data));
	data->nonce = cpu_to_be32(nonce);
	for (i = 0; i < sizeof(data->pattern); i++)
		data->pattern[i] = unetmm_net_pattern(nonce, i);
	return skb;
}

bool unetmm_net_test_took(struct unetmm_net *net, const void *frame, u32 len)
{
	const struct unetmm_net_test_data *data = frame + ETH_HLEN;
	const struct ethhdr *header = frame;
	bool took = false;
	u32 i;

	if (!READ_ONCE(net->test.waits) || len != ETH_HLEN + sizeof(*data) ||
	    header->h_proto != htons(ETH_P_LOOPBACK))
		return false;
	spin_lock(&net->test.lock);
	if (net->test.waits && be32_to_cpu(data->nonce) == net->test.nonce) {
		took = true;
		for (i = 0; i < sizeof(data->pattern); i++)
			if (data->pattern[i] !=
			    unetmm_net_pattern(net->test.nonce, i))
				took = false;
		if (took)
			complete(&net->test.came);
	}
	spin_unlock(&net->test.lock);
	return took;
}
