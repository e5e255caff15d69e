// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the netdev's self-test, `ethtool -t`.
 *
 * Registers, DMA, the interrupt and the link can be looked at while everything
 * goes on.  Offline a frame is sent as well, to the netdev's own address; the
 * card delivers it without the wire.  Under rtnl.
 */
#include <linux/dma-mapping.h>
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/random.h>

#include "net/net.h"

#define UNETMM_NET_TEST_WAIT	(HZ / 2)

/* The register reads back the written value, twice. */
static u64 unetmm_net_test_registers(struct unetmm_net *net)
{
	static const u32 values[] = { 0, 1, 0x55555555, 0x2aaaaaaa, 0x7fffffff };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(values); i++) {
		unetmm_write(net->dev, UNETMM_REG_TEST, values[i]);
		if (unetmm_read(net->dev, UNETMM_REG_TEST) != 2 * values[i])
			return 1 + i;
	}
	return unetmm_read(net->dev, UNETMM_REG_ID) != UNETMM_ID_VALUE;
}

static u64 unetmm_net_test_interrupt(struct unetmm_net *net)
{
	atomic64_t *count = &net->counters[UNETMM_N_interrupts];
	unsigned long deadline = jiffies + UNETMM_NET_TEST_WAIT;
	u64 before = atomic64_read(count);

	unetmm_write(net->dev, UNETMM_REG_TEST_IRQ, UNETMM_VEC_NET);
	while (atomic64_read(count) == before) {
		if (time_after(jiffies, deadline))
			return 1;
		cond_resched();
	}
	return 0;
}

static u64 unetmm_net_dma_op(struct unetmm_net *net, dma_addr_t dma, u32 op)
{
	struct unetmm_dev *dev = net->dev;

	unetmm_write(dev, UNETMM_REG_TEST_DMA_LO, lower_32_bits(dma));
	unetmm_write(dev, UNETMM_REG_TEST_DMA_HI, upper_32_bits(dma));
	unetmm_write(dev, UNETMM_REG_TEST_DMA_LEN, UNETMM_PAGE_BYTES);
	unetmm_write(dev, UNETMM_REG_TEST_DMA_OP, op);
	return unetmm_read(dev, UNETMM_REG_TEST_DMA_RES);
}

static u64 unetmm_net_test_dma(struct unetmm_net *net)
{
	struct device *d = &net->dev->pdev->dev;
	u64 bad = 0;
	dma_addr_t dma;
	u8 *page;
	u32 i;

	page = dma_alloc_coherent(d, UNETMM_PAGE_BYTES, &dma, GFP_KERNEL);
	if (!page)
		return 1;
	if (unetmm_net_dma_op(net, dma, UNETMM_TEST_DMA_FILL))
		bad = 1;
	for (i = 0; i < UNETMM_PAGE_BYTES; i++)
		bad += page[i] != (u8)i;
	if (unetmm_net_dma_op(net, dma, UNETMM_TEST_DMA_INVERT))
		bad++;
	for (i = 0; i < UNETMM_PAGE_BYTES; i++)
		bad += page[i] != (u8)~i;
	dma_free_coherent(d, UNETMM_PAGE_BYTES, page, dma);
	return bad;
}

static u64 unetmm_net_test_link(struct unetmm_net *net)
{
	return !unetmm_link_up(net->dev);
}

static void unetmm_net_test_wait(struct unetmm_net *net, bool waits, u32 nonce)
{
	spin_lock_bh(&net->test.lock);
	net->test.waits = waits;
	net->test.nonce = nonce;
	reinit_completion(&net->test.came);
	spin_unlock_bh(&net->test.lock);
}

/* Past the queue's discipline, which has no link to send to, perhaps. */
static u64 unetmm_net_loop(struct unetmm_net *net)
{
	struct netdev_queue *txq = netdev_get_tx_queue(net->netdev, 0);
	u32 nonce = get_random_u32();
	struct sk_buff *skb;
	netdev_tx_t sent;
	u64 bad;

	skb = unetmm_net_test_frame(net, nonce);
	if (!skb)
		return 1;
	unetmm_net_test_wait(net, true, nonce);
	__netif_tx_lock_bh(txq);
	sent = netdev_start_xmit(skb, net->netdev, txq, false);
	__netif_tx_unlock_bh(txq);
	if (sent != NETDEV_TX_OK)
		kfree_skb(skb);
	bad = !wait_for_completion_timeout(&net->test.came,
					   UNETMM_NET_TEST_WAIT);
	unetmm_net_test_wait(net, false, 0);
	return bad;
}

static u64 unetmm_net_test_loop(struct unetmm_net *net)
{
	bool was_up = net->up;
	u64 bad;

	if (was_up)
		return unetmm_net_loop(net);
	bad = unetmm_net_up(net) ? 1 : unetmm_net_loop(net);
	unetmm_net_down(net);
	/* If it was to be tried again, that has been forgotten. */
	unetmm_net_retry(net);
	return bad;
}

static const struct {
	const char name[ETH_GSTRING_LEN];
	u64 (*run)(struct unetmm_net *net);	/* 0: passed */
	bool offline;
} unetmm_net_tests[] = {
	{ "Registers  (online)", unetmm_net_test_registers },
	{ "Interrupt  (online)", unetmm_net_test_interrupt },
	{ "DMA        (online)", unetmm_net_test_dma },
	{ "Loopback  (offline)", unetmm_net_test_loop, true },
	{ "Link       (online)", unetmm_net_test_link },
};

int unetmm_net_test_count(void)
{
	return ARRAY_SIZE(unetmm_net_tests);
}

void unetmm_net_test_names(u8 *names)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(unetmm_net_tests); i++)
		memcpy(names + i * ETH_GSTRING_LEN, unetmm_net_tests[i].name,
		       ETH_GSTRING_LEN);
}

void unetmm_net_test(struct net_device *netdev, struct ethtool_test *test,
		     u64 *results)
{
	struct unetmm_net *net = netdev_priv(netdev);
	bool offline = test->flags & ETH_TEST_FL_OFFLINE;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(unetmm_net_tests); i++) {
		results[i] = 0;
		if (!unetmm_reachable(net->dev))
			results[i] = 1;
		else if (offline || !unetmm_net_tests[i].offline)
			results[i] = unetmm_net_tests[i].run(net);
		if (results[i])
			test->flags |= ETH_TEST_FL_FAILED;
	}
}
