// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm_ib: address handles.
 *
 * ib_core has checked port, GID and route, and has found the station's MAC address for the
 * destination's GID, as for RTR of a reliable queue pair: by the neighbours of the netdev.  So
 * an address handle is a MAC address and a network header (GRH), which the sender's software
 * puts in front of the message.  verbs/ud.c has the rest of the map from verbs to the card.
 *
 * librxe names an address handle by a number in the request, so the engine looks for it in
 * dev->ahs; our library gets MAC address and header, and needs the driver for neither.
 *
 * LIFETIMES.  The engine copies header and MAC address of a handle under ahs.xa_lock.
 */
#include <linux/etherdevice.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_pack.h>

#include "verbs/ud.h"

/* Behind the network header of RoCE v2, beside the message: UDP, BTH, DETH and the checksum. */
#define UNETMM_IB_ROCE_BYTES	(sizeof(struct udphdr) + IB_BTH_BYTES + IB_DETH_BYTES + 4)

/* ---- The network header ------------------------------------------------------- */

static struct iphdr *unetmm_ib_grh_ip4(u8 *grh)
{
	return (struct iphdr *)(grh + UNETMM_IB_GRH - sizeof(struct iphdr));
}

/* `grh` is zero before.  IPv4's header has the end of the place, as RoCE v2 has it. */
void unetmm_ib_grh(u8 *grh, const union ib_gid *from, const struct ib_global_route *to)
{
	if (ipv6_addr_v4mapped((const struct in6_addr *)to->dgid.raw)) {
		struct iphdr *ip = unetmm_ib_grh_ip4(grh);

		ip->version = 4;
		ip->ihl = sizeof(*ip) / 4;
		ip->tos = to->traffic_class;
		ip->ttl = to->hop_limit;
		ip->protocol = IPPROTO_UDP;
		memcpy(&ip->saddr, from->raw + 12, sizeof(ip->saddr));
		memcpy(&ip->daddr, to->dgid.raw + 12, sizeof(ip->daddr));
	} else {
		struct ipv6hdr *ip6 = (struct ipv6hdr *)grh;

		ip6_flow_hdr(ip6, to->traffic_class, htonl(to->flow_label & 0xfffff));
		ip6->nexthdr = IPPROTO_UDP;
		ip6->hop_limit = to->hop_limit;
		memcpy(&ip6->saddr, from->raw, sizeof(ip6->saddr));
		memcpy(&ip6->daddr, to->dgid.raw, sizeof(ip6->daddr));
	}
	unetmm_ib_grh_length(grh, 0);
}

/* Sets the length of the message, and the checksum of IPv4. */
void unetmm_ib_grh_length(u8 *grh, u32 bytes)
{
	u32 all = ALIGN(bytes, 4) + UNETMM_IB_ROCE_BYTES;
	struct ipv6hdr *ip6 = (struct ipv6hdr *)grh;
	struct iphdr *ip = unetmm_ib_grh_ip4(grh);

	if (ip6->version == 6) {
		ip6->payload_len = htons(all);
	} else {
		ip->tot_len = htons(all + sizeof(*ip));
		ip->check = 0;
		ip->check = ip_fast_csum(ip, ip->ihl);
	}
}

/* ---- Address handles ---------------------------------------------------------- */

/* The caller's reference to the GID ends with the call. */
static void unetmm_ib_ah_keep(struct unetmm_ib_ah *ah, const struct rdma_ah_attr *attr)
{
	ah->attr = *attr;
	ah->attr.grh.sgid_attr = NULL;
}

/* The kernel's own: QP1's. */
static int unetmm_ib_create_ah(struct ib_ah *ib, struct rdma_ah_init_attr *init,
			       struct ib_udata *udata)
{
	unetmm_ib_ah_keep(unetmm_ib_ah(ib), init->ah_attr);
	return 0;
}

static int unetmm_ib_ah_tell_rxe(struct unetmm_ib *dev, struct unetmm_ib_ah *ah,
				 struct ib_udata *udata)
{
	struct rxe_create_ah_resp resp = {};
	int ret = xa_alloc_cyclic(&dev->ahs, &ah->number, ah, XA_LIMIT(1, S32_MAX),
				  &dev->ah_next, GFP_KERNEL_ACCOUNT);

	if (ret < 0) {
		ah->number = 0;
		return ret == -EBUSY ? -ENOMEM : ret;
	}
	resp.ah_num = ah->number;
	ret = ib_copy_to_udata(udata, &resp, min(udata->outlen, sizeof(resp)));
	if (ret)
		xa_erase(&dev->ahs, ah->number);
	return ret;
}

static int unetmm_ib_ah_tell_own(const struct unetmm_ib_ah *ah, struct ib_udata *udata)
{
	struct unetmm_verbs_ah resp = {};

	ether_addr_copy(resp.mac, ah->attr.roce.dmac);
	memcpy(resp.grh, ah->grh, sizeof(resp.grh));
	return ib_copy_to_udata(udata, &resp, min(udata->outlen, sizeof(resp)));
}

static int unetmm_ib_create_user_ah(struct ib_ah *ib, struct rdma_ah_init_attr *init,
				    struct ib_udata *udata)
{
	const struct rdma_ah_attr *attr = init->ah_attr;
	struct unetmm_ib *dev = unetmm_ib_of(ib->device);
	struct unetmm_ib_ah *ah = unetmm_ib_ah(ib);
	int ret;

	if (attr->type != RDMA_AH_ATTR_TYPE_ROCE || !attr->grh.sgid_attr)
		return -EINVAL;
	/* The card has no groups. */
	if (is_multicast_ether_addr(attr->roce.dmac))
		return -EOPNOTSUPP;
	ret = unetmm_ib_take(ib->pd);
	if (ret)
		return ret;
	unetmm_ib_grh(ah->grh, &attr->grh.sgid_attr->gid, &attr->grh);
	unetmm_ib_ah_keep(ah, attr);
	ret = dev->own ? unetmm_ib_ah_tell_own(ah, udata) : unetmm_ib_ah_tell_rxe(dev, ah, udata);
	if (ret)
		unetmm_ib_give(ib->pd);
	return ret;
}

static int unetmm_ib_query_ah(struct ib_ah *ib, struct rdma_ah_attr *attr)
{
	*attr = unetmm_ib_ah(ib)->attr;
	return 0;
}

static int unetmm_ib_destroy_ah(struct ib_ah *ib, u32 flags)
{
	struct unetmm_ib_ah *ah = unetmm_ib_ah(ib);

	if (ah->number)
		xa_erase(&unetmm_ib_of(ib->device)->ahs, ah->number);
	unetmm_ib_give(ib->pd);
	return 0;
}

/* Header and MAC address; false: there is none of this number in the protection domain. */
static bool unetmm_ib_ah_find(struct unetmm_ib_qp *qp, u32 number, u8 *grh, u8 *mac)
{
	struct xarray *ahs = &qp->dev->ahs;
	const struct unetmm_ib_ah *ah;
	bool found;

	xa_lock(ahs);
	ah = xa_load(ahs, number);
	found = ah && ah->ib.pd == qp->ib.pd;
	if (found) {
		memcpy(grh, ah->grh, sizeof(ah->grh));
		ether_addr_copy(mac, ah->attr.roce.dmac);
	}
	xa_unlock(ahs);
	return found;
}

/* ---- Requests and completions: qp->lock --------------------------------------- */

/* IB_WC_*.  Endpoint 0, which takes no messages, stands for numbers that no queue pair has. */
int unetmm_ud_address(struct unetmm_ib_qp *qp, struct unetmm_sqe *sqe, u8 *grh,
		      const struct rxe_send_wr *wr)
{
	u32 ep = wr->wr.ud.remote_qpn - UNETMM_IB_QPN;
	struct {
		u8 mac[ETH_ALEN];
		__le16 ep;
	} __packed __aligned(8) to = { .ep = cpu_to_le16(ep > U16_MAX ? 0 : ep) };

	if (!unetmm_ib_ah_find(qp, wr->wr.ud.ah_num, grh, to.mac))
		return IB_WC_LOC_QP_OP_ERR;
	BUILD_BUG_ON(sizeof(to) != sizeof(sqe->remote));
	memcpy(&sqe->remote, &to, sizeof(to));
	sqe->handle = cpu_to_le32(wr->wr.ud.remote_qkey);
	return IB_WC_SUCCESS;
}

void unetmm_ud_received(const struct unetmm_cqe *cqe, struct ib_uverbs_wc *wc)
{
	wc->src_qp = (le64_to_cpu(cqe->source) >> 48) + UNETMM_IB_QPN;
	wc->wc_flags |= IB_WC_GRH;
}

const struct ib_device_ops unetmm_ib_ah_ops = {
	.create_ah = unetmm_ib_create_ah,
	.create_user_ah = unetmm_ib_create_user_ah,
	.query_ah = unetmm_ib_query_ah,
	.destroy_ah = unetmm_ib_destroy_ah,
	INIT_RDMA_OBJ_SIZE(ib_ah, unetmm_ib_ah, ib),
};
