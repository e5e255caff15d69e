// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the receive side of the netdev, and its NAPI.
 *
 * NAPI alone uses it while the netdev is up.  The card names a buffer by its slot of
 * the free queue; a completion that names a slot without a buffer is refused.
 */
#include <linux/dma-mapping.h>
#include <linux/etherdevice.h>
#include <linux/slab.h>

#include "net/net.h"

#define UNETMM_NET_HEADROOM	(NET_SKB_PAD + NET_IP_ALIGN)
/* Up to this a frame is copied, and its buffer used again. */
#define UNETMM_NET_COPY		256

/* Memory for buffers is had in chunks of this order, or, if need be, of 0. */
#define UNETMM_NET_ORDER	3

/* The members of a completion, each read once. */
struct unetmm_net_cqe {
	u64 cookie;
	u32 len;
	u32 flags;
	u8 opcode;
	u8 status;
};

u32 unetmm_net_rx_len(u32 mtu)
{
	return max_t(u32, mtu, ETH_DATA_LEN) + UNETMM_NET_HEADER;
}

/* Posts a buffer in the next slot, which must be empty. */
static void unetmm_net_rx_post(struct unetmm_net *net,
			       const struct unetmm_net_buf *buf)
{
	struct unetmm_fqe *fqe = net->ep->block->cpu + net->ep->fq_offset;
	struct unetmm_net_rx *rx = &net->rx;
	u32 slot = rx->prod & (BIT(net->ep->fq_log2) - 1);

	rx->bufs[slot] = *buf;
	fqe += slot;
	memset(fqe, 0, sizeof(*fqe));
	fqe->addr = cpu_to_le64(buf->dma);
	fqe->len = cpu_to_le32(rx->len);
	fqe->cookie = cpu_to_le64(slot);
	rx->prod++;
	rx->held++;
}

static bool unetmm_net_rx_full(const struct unetmm_net *net)
{
	const struct unetmm_net_rx *rx = &net->rx;

	return rx->bufs[rx->prod & (BIT(net->ep->fq_log2) - 1)].mem;
}

static void unetmm_net_rx_publish(struct unetmm_net *net)
{
	/* The entries before the index that covers them. */
	dma_wmb();
	WRITE_ONCE(net->ep->index->user.fq_prod, cpu_to_le32(net->rx.prod));
}

static void unetmm_net_rx_unmap(struct unetmm_net *net,
				const struct unetmm_net_buf *buf)
{
	dma_unmap_single(&net->dev->pdev->dev, buf->dma, net->rx.len,
			 DMA_FROM_DEVICE);
}

/*
 * New memory is zeroed, by Debian's kernels, which costs about as much as
 * anything else that is done with a frame.  So chunks are kept when they have
 * been cut up, in order, and used again when nobody has a buffer of them.  One
 * that somebody holds for long goes when there are too many behind it.
 */
static u32 unetmm_net_idle_slot(const struct unetmm_net *net, u32 i)
{
	return (net->rx.idle_first + i) & (BIT(net->ep->fq_log2) - 1);
}

static struct page *unetmm_net_idle_take(struct unetmm_net *net)
{
	struct unetmm_net_rx *rx = &net->rx;
	struct page *page;

	if (!rx->nidle)
		return NULL;
	page = rx->idle[unetmm_net_idle_slot(net, 0)];
	rx->idle_first++;
	rx->nidle--;
	return page;
}

/* At most twice as many chunks as the card's buffers fill. */
static void unetmm_net_idle_add(struct unetmm_net *net, struct page *page)
{
	struct unetmm_net_rx *rx = &net->rx;
	u32 each = page_size(page) / rx->bytes;
	u32 most = min_t(u32, BIT(net->ep->fq_log2),
			 2 * BIT(net->ep->fq_log2) / each + 1);

	if (page_is_pfmemalloc(page)) {
		put_page(page);
		return;
	}
	while (rx->nidle >= most)
		put_page(unetmm_net_idle_take(net));
	rx->idle[unetmm_net_idle_slot(net, rx->nidle++)] = page;
}

static struct page *unetmm_net_chunk(struct unetmm_net *net, gfp_t gfp)
{
	struct unetmm_net_rx *rx = &net->rx;
	struct page *page;

	if (rx->nidle &&
	    page_ref_count(rx->idle[unetmm_net_idle_slot(net, 0)]) == 1)
		return unetmm_net_idle_take(net);
	page = __dev_alloc_pages(gfp | __GFP_NOWARN | __GFP_NORETRY,
				 UNETMM_NET_ORDER);
	if (!page && rx->bytes <= PAGE_SIZE)
		page = __dev_alloc_pages(gfp | __GFP_NOWARN, 0);
	return page;
}

static void *unetmm_net_cut(struct unetmm_net *net, gfp_t gfp)
{
	struct unetmm_net_rx *rx = &net->rx;
	void *mem;

	if (!rx->chunk) {
		rx->chunk = unetmm_net_chunk(net, gfp);
		rx->cut = 0;
	}
	if (!rx->chunk)
		return NULL;
	mem = page_address(rx->chunk) + rx->cut;
	get_page(rx->chunk);
	rx->cut += rx->bytes;
	if (rx->cut + rx->bytes > page_size(rx->chunk)) {
		unetmm_net_idle_add(net, rx->chunk);
		rx->chunk = NULL;
	}
	return mem;
}

static int unetmm_net_rx_new(struct unetmm_net *net, struct unetmm_net_buf *buf,
			     bool napi)
{
	struct device *dma = &net->dev->pdev->dev;
	struct unetmm_net_rx *rx = &net->rx;

	buf->mem = unetmm_net_cut(net, napi ? GFP_ATOMIC : GFP_KERNEL);
	if (!buf->mem)
		return -ENOMEM;
	buf->dma = dma_map_single(dma, buf->mem + UNETMM_NET_HEADROOM, rx->len,
				  DMA_FROM_DEVICE);
	if (!dma_mapping_error(dma, buf->dma))
		return 0;
	skb_free_frag(buf->mem);
	return -ENOMEM;
}

/* Gives the card as many buffers as it can hold, or as there is memory for. */
static int unetmm_net_rx_fill(struct unetmm_net *net, bool napi)
{
	u32 before = net->rx.prod;
	struct unetmm_net_buf buf;
	int ret = 0;

	while (!unetmm_net_rx_full(net)) {
		ret = unetmm_net_rx_new(net, &buf, napi);
		if (ret) {
			unetmm_net_count(net, rx_no_memory);
			break;
		}
		unetmm_net_rx_post(net, &buf);
	}
	if (net->rx.prod != before)
		unetmm_net_rx_publish(net);
	return ret;
}

/* A short frame: into memory of its own size. */
static struct sk_buff *unetmm_net_rx_copy(struct unetmm_net *net,
					  const struct unetmm_net_buf *buf,
					  u32 len)
{
	struct sk_buff *skb = napi_alloc_skb(&net->napi, len);

	if (skb) {
		dma_sync_single_for_cpu(&net->dev->pdev->dev, buf->dma, len,
					DMA_FROM_DEVICE);
		skb_put_data(skb, buf->mem + UNETMM_NET_HEADROOM, len);
		dma_sync_single_for_device(&net->dev->pdev->dev, buf->dma, len,
					   DMA_FROM_DEVICE);
		unetmm_net_count(net, rx_copied);
	}
	return skb;
}

/* The buffer becomes the frame's, if that succeeds. */
static struct sk_buff *unetmm_net_rx_build(struct unetmm_net *net,
					   const struct unetmm_net_buf *buf,
					   u32 len)
{
	struct sk_buff *skb = napi_build_skb(buf->mem, net->rx.bytes);

	if (skb) {
		unetmm_net_rx_unmap(net, buf);
		skb_reserve(skb, UNETMM_NET_HEADROOM);
		skb_put(skb, len);
	}
	return skb;
}

/* The buffer has been filled, and is ours again. */
static void unetmm_net_receive(struct unetmm_net *net,
			       struct unetmm_net_buf *buf,
			       const struct unetmm_net_cqe *cqe)
{
	struct unetmm_net_rx *rx = &net->rx;
	bool copy = cqe->len <= UNETMM_NET_COPY;
	struct sk_buff *skb;

	skb = copy ? unetmm_net_rx_copy(net, buf, cqe->len) :
		     unetmm_net_rx_build(net, buf, cqe->len);
	if (copy || !skb)
		unetmm_net_rx_post(net, buf);
	if (!skb) {
		unetmm_net_count(net, rx_no_memory);
		unetmm_net_stat(&rx->stats, dropped);
		return;
	}
	if (unlikely(unetmm_net_test_took(net, skb->data, skb->len))) {
		napi_consume_skb(skb, 1);
		return;
	}
	if (cqe->flags & UNETMM_CQE_F_CSUM_OK &&
	    net->netdev->features & NETIF_F_RXCSUM)
		skb->ip_summed = CHECKSUM_UNNECESSARY;
	skb->protocol = eth_type_trans(skb, net->netdev);
	unetmm_net_add(&rx->stats, 1, cqe->len);
	if (skb->pkt_type == PACKET_MULTICAST)
		unetmm_net_stat(&rx->stats, multicast);
	napi_gro_receive(&net->napi, skb);
}

/* An impossible completion: none of it is used. */
static void unetmm_net_rx_bad(struct unetmm_net *net)
{
	unetmm_net_count(net, rx_bad);
	unetmm_net_stat(&net->rx.stats, errors);
	unetmm_net_ask(net, UNETMM_NET_RESET);
}

static void unetmm_net_buffer(struct unetmm_net *net,
			      const struct unetmm_net_cqe *cqe)
{
	struct unetmm_net_rx *rx = &net->rx;
	struct unetmm_net_buf buf;

	if (cqe->cookie >> net->ep->fq_log2 || !rx->bufs[cqe->cookie].mem) {
		unetmm_net_rx_bad(net);
		return;
	}
	buf = rx->bufs[cqe->cookie];
	rx->bufs[cqe->cookie].mem = NULL;
	rx->held--;
	/* Buffers come back in order: the next slot is empty at the latest now. */
	if (unetmm_net_rx_full(net)) {
		unetmm_net_rx_unmap(net, &buf);
		skb_free_frag(buf.mem);
		unetmm_net_rx_bad(net);
	} else if (cqe->opcode == UNETMM_CQE_BUFFER) {
		unetmm_net_count(net, rx_returned);
		unetmm_net_rx_post(net, &buf);
	} else if (cqe->flags & UNETMM_CQE_F_INLINE || cqe->len < ETH_HLEN ||
		   cqe->len > rx->len) {
		unetmm_net_rx_post(net, &buf);
		unetmm_net_rx_bad(net);
	} else {
		unetmm_net_receive(net, &buf, cqe);
	}
}

static void unetmm_net_complete(struct unetmm_net *net,
				const struct unetmm_net_cqe *cqe)
{
	switch (cqe->opcode) {
	case UNETMM_CQE_RECEIVED:
	case UNETMM_CQE_BUFFER:
		unetmm_net_buffer(net, cqe);
		break;
	case UNETMM_CQE_SENT:
		/* The index frees sent frames: unetmm_net_reclaim(). */
		if (cqe->status != UNETMM_ST_OK)
			unetmm_net_count(net, tx_failed);
		break;
	case UNETMM_CQE_FAILED:
		unetmm_net_ask(net, UNETMM_NET_RESET);
		break;
	default:
		unetmm_net_rx_bad(net);
		break;
	}
}

/* Takes up to `budget` completions; returns how many there were. */
static int unetmm_net_take(struct unetmm_net *net, int budget)
{
	struct unetmm_ep *ep = net->ep;
	const struct unetmm_cqe *peek;
	struct unetmm_net_cqe cqe;
	u32 before = net->rx.prod;
	int work = 0;

	while (work < budget && (peek = unetmm_ep_peek(ep, net->cq_cons))) {
		cqe.cookie = le64_to_cpu(READ_ONCE(peek->cookie));
		cqe.len = le32_to_cpu(READ_ONCE(peek->len));
		cqe.flags = le32_to_cpu(READ_ONCE(peek->flags));
		cqe.opcode = READ_ONCE(peek->opcode);
		cqe.status = READ_ONCE(peek->status);
		net->cq_cons++;
		work++;
		unetmm_net_complete(net, &cqe);
	}
	if (!work)
		return 0;
	if (net->rx.prod != before)
		unetmm_net_rx_publish(net);
	unetmm_ep_cq_release(ep, net->cq_cons);
	if (le32_to_cpu(READ_ONCE(ep->index->card.state)) &
	    UNETMM_EP_CQ_BLOCKED && unetmm_reachable(net->dev))
		writel(0, net->doorbell);
	return work;
}

int unetmm_net_poll(struct napi_struct *napi, int budget)
{
	struct unetmm_net *net = container_of(napi, struct unetmm_net, napi);
	int work;

	unetmm_net_count(net, polls);
	unetmm_net_tx_poll(net, budget);
	if (!budget)
		return 0;
	work = unetmm_net_take(net, budget);
	/* Without memory, try again later: the card counts the frames that it drops. */
	if (unetmm_net_rx_fill(net, true) && !timer_pending(&net->timer))
		mod_timer(&net->timer, jiffies + HZ / 50);
	if (work < budget && napi_complete_done(napi, work) &&
	    unetmm_ep_arm(net->ep, net->cq_cons))
		napi_schedule(napi);
	return work;
}

int unetmm_net_rx_alloc(struct unetmm_net *net)
{
	struct unetmm_net_rx *rx = &net->rx;

	rx->prod = 0;
	rx->held = 0;
	rx->chunk = NULL;
	rx->idle_first = 0;
	rx->nidle = 0;
	rx->len = unetmm_net_rx_len(net->netdev->mtu);
	rx->bytes = SKB_DATA_ALIGN(UNETMM_NET_HEADROOM + rx->len) +
		    SKB_DATA_ALIGN(sizeof(struct skb_shared_info));
	rx->bufs = kvcalloc(BIT(net->ep->fq_log2), sizeof(*rx->bufs),
			    GFP_KERNEL);
	rx->idle = kvcalloc(BIT(net->ep->fq_log2), sizeof(*rx->idle),
			    GFP_KERNEL);
	if (!rx->bufs || !rx->idle)
		return -ENOMEM;
	/* With some of them it can begin. */
	if (unetmm_net_rx_fill(net, false) && !rx->held)
		return -ENOMEM;
	return 0;
}

void unetmm_net_rx_free(struct unetmm_net *net)
{
	struct unetmm_net_rx *rx = &net->rx;
	u32 i;

	for (i = 0; rx->bufs && i < BIT(net->ep->fq_log2); i++) {
		if (!rx->bufs[i].mem)
			continue;
		unetmm_net_rx_unmap(net, &rx->bufs[i]);
		skb_free_frag(rx->bufs[i].mem);
	}
	if (rx->chunk)
		put_page(rx->chunk);
	rx->chunk = NULL;
	while (rx->nidle)
		put_page(unetmm_net_idle_take(net));
	kvfree(rx->idle);
	rx->idle = NULL;
	kvfree(rx->bufs);
	rx->bufs = NULL;
}
