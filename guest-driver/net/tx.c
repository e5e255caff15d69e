// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the frames that the netdev sends.
 *
 * All of it is under the queue's lock.
 *
 * WAKE-UPS
 *
 * Received frames: NAPI arms the completion queue when it has found it empty
 * (register, arm, full barrier, look again), and VEC_NET schedules NAPI.
 *
 * Sent frames: descriptors are unsignaled, and sq_cons counts the descriptors that
 * the card has sent.  As a rule the card has sent a frame when the doorbell's store
 * returns, and the driver frees the frame at once.  Otherwise a later descriptor asks
 * for a completion, which NAPI takes.  A completion may be taken before the new
 * sq_cons is visible, so a timer schedules NAPI until all frames are freed.  The
 * queue wakes up, and memory is freed, even if no further frame is sent.
 */
#include <linux/dma-mapping.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <net/ip.h>

#include "net/net.h"

/* The longest descriptor and some more: less than this stops the queue. */
#define UNETMM_NET_TX_LEAST	(2 * UNETMM_MAX_SLOTS)

static struct netdev_queue *unetmm_net_txq(struct unetmm_net *net)
{
	return netdev_get_tx_queue(net->netdev, 0);
}

/*
 * A slot has room for 4 segments; the first one of a descriptor has its head in
 * the place of two.
 */
static u32 unetmm_net_slots(u32 nsegs)
{
	return DIV_ROUND_UP(UNETMM_SQE_SEGS + nsegs, UNETMM_SLOT_SEGS);
}

static u32 unetmm_net_place(const struct unetmm_net *net, u32 first, u32 seg)
{
	return (first * UNETMM_SLOT_SEGS + UNETMM_SQE_SEGS + seg) &
	       ((UNETMM_SLOT_SEGS << net->ep->sq_log2) - 1);
}

static u32 unetmm_net_tx_room(const struct unetmm_net *net)
{
	return BIT(net->ep->sq_log2) - (net->tx.prod - net->tx.cons);
}

/* Unmaps the first n segments; the first of all is the head. */
static void unetmm_net_unmap(struct unetmm_net *net, u32 first, u32 n)
{
	struct device *dma = &net->dev->pdev->dev;
	struct unetmm_net_seg *seg;
	u32 i;

	for (i = 0; i < n; i++) {
		seg = &net->tx.segs[unetmm_net_place(net, first, i)];
		if (i)
			dma_unmap_page(dma, seg->dma, seg->len, DMA_TO_DEVICE);
		else
			dma_unmap_single(dma, seg->dma, seg->len,
					 DMA_TO_DEVICE);
	}
}

/* Maps the frame; its segments are written where they belong. */
static int unetmm_net_map(struct unetmm_net *net, struct sk_buff *skb)
{
	struct unetmm_seg *slots = net->ep->block->cpu + net->ep->sq_offset;
	struct device *dma = &net->dev->pdev->dev;
	struct unetmm_net_tx *tx = &net->tx;
	u32 n = skb_shinfo(skb)->nr_frags + 1;
	u32 i;

	for (i = 0; i < n; i++) {
		u32 place = unetmm_net_place(net, tx->prod, i);
		struct unetmm_net_seg *seg = &tx->segs[place];
		const skb_frag_t *frag;

		if (i) {
			frag = &skb_shinfo(skb)->frags[i - 1];
			seg->len = skb_frag_size(frag);
			seg->dma = skb_frag_dma_map(dma, frag, 0, seg->len,
						    DMA_TO_DEVICE);
		} else {
			seg->len = skb_headlen(skb);
			seg->dma = dma_map_single(dma, skb->data, seg->len,
						  DMA_TO_DEVICE);
		}
		if (dma_mapping_error(dma, seg->dma)) {
			unetmm_net_unmap(net, tx->prod, i);
			return -ENOMEM;
		}
		slots[place].addr = cpu_to_le64(seg->dma);
		slots[place].len = cpu_to_le32(seg->len);
		slots[place].rsvd = 0;
	}
	return n;
}

static u32 unetmm_net_offload(const struct sk_buff *skb)
{
	if (skb_is_gso(skb))
		return UNETMM_TX_SEGMENT | UNETMM_TX_CSUM |
		       FIELD_PREP(UNETMM_TX_MSS, skb_shinfo(skb)->gso_size);
	if (skb->ip_summed == CHECKSUM_PARTIAL)
		return UNETMM_TX_CSUM;
	return 0;
}

/* Counts the bytes on the wire: each segment has the headers. */
static void unetmm_net_account(struct unetmm_net_tx *tx,
			       const struct sk_buff *skb)
{
	u32 packets = 1;
	u32 bytes = skb->len;

	if (skb_is_gso(skb)) {
		packets = max_t(u32, skb_shinfo(skb)->gso_segs, 1);
		bytes += (packets - 1) * skb_tcp_all_headers(skb);
	}
	unetmm_net_add(&tx->stats, packets, bytes);
}

/*
 * Frees sent frames.  After an impossible index the card is reset, and no index of it
 * is used until then.
 */
static void unetmm_net_reclaim(struct unetmm_net *net, int budget)
{
	u32 cons = le32_to_cpu(READ_ONCE(net->ep->index->card.sq_cons));
	struct unetmm_net_tx *tx = &net->tx;
	u32 packets = 0, bytes = 0, slots;

	if (cons - tx->cons > tx->prod - tx->cons) {
		unetmm_net_ask(net, UNETMM_NET_RESET);
		return;
	}
	while (tx->cons != cons) {
		struct unetmm_net_sent *sent = &tx->sent[tx->cons &
			(BIT(net->ep->sq_log2) - 1)];

		slots = unetmm_net_slots(sent->nsegs);
		if (cons - tx->cons < slots)
			break;
		unetmm_net_unmap(net, tx->cons, sent->nsegs);
		packets++;
		bytes += sent->skb->len;
		unetmm_net_account(tx, sent->skb);
		napi_consume_skb(sent->skb, budget);
		sent->skb = NULL;
		WRITE_ONCE(tx->cons, tx->cons + slots);
	}
	if (packets)
		netdev_tx_completed_queue(unetmm_net_txq(net), packets, bytes);
	if (netif_tx_queue_stopped(unetmm_net_txq(net)) &&
	    unetmm_net_tx_room(net) >= BIT(net->ep->sq_log2) / 4)
		netif_tx_wake_queue(unetmm_net_txq(net));
}

/*
 * Frames remain to be freed.  Even a completion that was asked for may have come
 * before: the index follows at the end of the card's turn.
 */
static void unetmm_net_tx_watch(struct unetmm_net *net)
{
	struct unetmm_net_tx *tx = &net->tx;

	if (tx->prod != tx->cons && unetmm_reachable(net->dev) &&
	    !timer_pending(&net->timer))
		mod_timer(&net->timer, jiffies + 1);
}

/* The card is behind: has it been asked for a completion lately? */
static bool unetmm_net_tx_asks(const struct unetmm_net *net)
{
	const struct unetmm_net_tx *tx = &net->tx;

	return (s32)(tx->rung - tx->cons) > 0 &&
	       ((s32)(tx->asked - tx->cons) <= 0 ||
		tx->prod - tx->asked >= BIT(net->ep->sq_log2) / 4);
}

/* The segments are in the queue; now the descriptor, and then the index. */
static void unetmm_net_post(struct unetmm_net *net, struct sk_buff *skb,
			    u32 nsegs)
{
	struct unetmm_net_tx *tx = &net->tx;
	u32 slot = tx->prod & (BIT(net->ep->sq_log2) - 1);
	struct unetmm_sqe *sqe = net->ep->block->cpu + net->ep->sq_offset +
				 slot * UNETMM_SLOT_BYTES;
	bool ask = unetmm_net_tx_asks(net);

	memset(sqe, 0, offsetof(struct unetmm_sqe, seg));
	sqe->opcode = UNETMM_OP_FRAME;
	sqe->flags = ask ? 0 : UNETMM_SQE_F_QUIET;
	sqe->nsegs = nsegs;
	sqe->imm = cpu_to_le32(unetmm_net_offload(skb));
	tx->sent[slot].skb = skb;
	tx->sent[slot].nsegs = nsegs;
	WRITE_ONCE(tx->prod, tx->prod + unetmm_net_slots(nsegs));
	if (ask) {
		tx->asked = tx->prod;
		unetmm_net_count(net, tx_asked);
	}
	skb_tx_timestamp(skb);
	/* The slots before the index that covers them. */
	dma_wmb();
	WRITE_ONCE(net->ep->index->user.sq_prod, cpu_to_le32(tx->prod));
}

/* The card looks when it is told; more often than not it is done then. */
static void unetmm_net_ring(struct unetmm_net *net)
{
	struct unetmm_net_tx *tx = &net->tx;

	if (tx->rung != tx->prod && unetmm_reachable(net->dev)) {
		tx->rung = tx->prod;
		writel(0, net->doorbell);
		unetmm_net_reclaim(net, 0);
	}
	unetmm_net_tx_watch(net);
}

static int unetmm_net_send(struct unetmm_net *net, struct sk_buff *skb)
{
	int nsegs;

	if (!unetmm_reachable(net->dev))
		return -ENODEV;
	if (skb_shinfo(skb)->nr_frags >= UNETMM_MAX_SEGS) {
		if (skb_linearize(skb))
			return -ENOMEM;
		unetmm_net_count(net, tx_linearized);
	}
	nsegs = unetmm_net_map(net, skb);
	if (nsegs > 0)
		unetmm_net_post(net, skb, nsegs);
	return min(nsegs, 0);
}

netdev_tx_t unetmm_net_xmit(struct sk_buff *skb, struct net_device *netdev)
{
	struct unetmm_net *net = netdev_priv(netdev);
	struct netdev_queue *txq = unetmm_net_txq(net);
	struct unetmm_net_tx *tx = &net->tx;
	bool more = netdev_xmit_more();
	u32 bytes = skb->len;

	/* It runs, but had no memory for its rings. */
	if (unlikely(!net->up)) {
		unetmm_net_stat(&tx->stats, dropped);
		dev_kfree_skb_any(skb);
		return NETDEV_TX_OK;
	}
	if (tx->cons != tx->rung)
		unetmm_net_reclaim(net, 0);
	if (unetmm_net_tx_room(net) < UNETMM_MAX_SLOTS) {
		netif_tx_stop_queue(txq);
		unetmm_net_ring(net);
		return NETDEV_TX_BUSY;
	}
	if (unetmm_net_send(net, skb)) {
		unetmm_net_count(net, tx_no_memory);
		unetmm_net_stat(&tx->stats, dropped);
		dev_kfree_skb_any(skb);
		if (!more)
			unetmm_net_ring(net);
		return NETDEV_TX_OK;
	}
	if (unetmm_net_tx_room(net) < UNETMM_NET_TX_LEAST) {
		netif_tx_stop_queue(txq);
		unetmm_net_count(net, tx_stopped);
	}
	if (__netdev_tx_sent_queue(txq, bytes, more))
		unetmm_net_ring(net);
	return NETDEV_TX_OK;
}

/* From NAPI. */
void unetmm_net_tx_poll(struct unetmm_net *net, int budget)
{
	struct netdev_queue *txq = unetmm_net_txq(net);

	if (READ_ONCE(net->tx.prod) == READ_ONCE(net->tx.cons))
		return;
	__netif_tx_lock(txq, smp_processor_id());
	unetmm_net_reclaim(net, budget);
	unetmm_net_tx_watch(net);
	__netif_tx_unlock(txq);
}

/* The tag is in the frame, or will be put there before we get it. */
static bool unetmm_net_service_tag(const struct sk_buff *skb)
{
	return skb->protocol == htons(ETH_P_8021AD) ||
	       (skb_vlan_tag_present(skb) &&
		skb->vlan_proto == htons(ETH_P_8021AD));
}

/*
 * The card parses the headers.  Frames whose headers it would not find, or
 * whose checksum it would compute differently, are left to the stack.
 */
static bool unetmm_net_csum_ok(const struct sk_buff *skb)
{
	u32 network = skb_network_header_len(skb);
	__be16 type = vlan_get_protocol(skb);

	if (skb->encapsulation || unetmm_net_service_tag(skb) ||
	    skb_checksum_start_offset(skb) != skb_transport_offset(skb))
		return false;
	if (type == htons(ETH_P_IP)) {
		if (network != ip_hdrlen(skb) || ip_is_fragment(ip_hdr(skb)))
			return false;
	} else if (type != htons(ETH_P_IPV6) ||
		   network != sizeof(struct ipv6hdr)) {
		return false;
	}
	return skb->csum_offset == offsetof(struct tcphdr, check) ||
	       skb->csum_offset == offsetof(struct udphdr, check);
}

netdev_features_t unetmm_net_features(struct sk_buff *skb,
				      struct net_device *netdev,
				      netdev_features_t features)
{
	features = vlan_features_check(skb, features);
	if (skb->ip_summed == CHECKSUM_PARTIAL && !unetmm_net_csum_ok(skb))
		features &= ~(NETIF_F_CSUM_MASK | NETIF_F_GSO_MASK);
	/* Smaller pieces have fewer fragments: nothing needs to be copied. */
	if (skb_is_gso(skb) &&
	    (skb_shinfo(skb)->gso_size < UNETMM_ETH_MIN_MSS ||
	     skb_shinfo(skb)->nr_frags >= UNETMM_MAX_SEGS))
		features &= ~NETIF_F_GSO_MASK;
	return features;
}

int unetmm_net_tx_alloc(struct unetmm_net *net)
{
	struct unetmm_net_tx *tx = &net->tx;
	u32 slots = BIT(net->ep->sq_log2);

	tx->prod = 0;
	tx->cons = 0;
	tx->rung = 0;
	tx->asked = 0;
	tx->sent = kvcalloc(slots, sizeof(*tx->sent), GFP_KERNEL);
	tx->segs = kvcalloc(slots * UNETMM_SLOT_SEGS, sizeof(*tx->segs),
			    GFP_KERNEL);
	return tx->sent && tx->segs ? 0 : -ENOMEM;
}

/* The endpoint is gone: queued frames are freed unsent. */
void unetmm_net_tx_free(struct unetmm_net *net)
{
	struct unetmm_net_tx *tx = &net->tx;
	struct unetmm_net_sent *sent;

	while (tx->cons != tx->prod) {
		sent = &tx->sent[tx->cons & (BIT(net->ep->sq_log2) - 1)];
		unetmm_net_unmap(net, tx->cons, sent->nsegs);
		unetmm_net_stat(&tx->stats, dropped);
		dev_kfree_skb_any(sent->skb);
		tx->cons += unetmm_net_slots(sent->nsegs);
	}
	netdev_tx_reset_queue(unetmm_net_txq(net));
	kvfree(tx->segs);
	kvfree(tx->sent);
	tx->segs = NULL;
	tx->sent = NULL;
}
