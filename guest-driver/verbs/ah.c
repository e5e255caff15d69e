// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm_ib: address handles.
 *
 * ib_core has checked port, GID and route, and has found the station's MAC address for the
 * destination's GID, as for RTR of a reliable queue pair: by the neighbours of the netdev.  So
 * an address handle is a MAC address and a network header (GRH), which the sender's library
 * puts in front of the message.  verbs/ud.c has the rest of the map from verbs to the card.
 *
 * Our library gets MAC address and header, and needs the driver for neither.  librxe is told
 * number 0, as by old kernels: then each request has the address itself.
 */
#include <linux/bitfield.h>
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

static void unetmm_ib_grh_gid(union ib_gid *gid, const struct sockaddr_in6 *addr, bool ip4)
{
	if (ip4)
		ipv6_addr_set_v4mapped(((const struct sockaddr_in *)addr)->sin_addr.s_addr,
				       (struct in6_addr *)gid->raw);
	else
		memcpy(gid->raw, &addr->sin6_addr, sizeof(gid->raw));
}

/*
 * The destination of a request of librxe, and the network header in front of its message of so many
 * bytes.  All of the address is the process's to choose, as with our library.
 */
void unetmm_ib_ah_address(struct unetmm_sqe *sqe, u8 *grh, const struct rxe_send_wr *wr, u32 bytes)
{
	const struct rxe_av *av = &wr->wr.ud.av;
	u32 ep = wr->wr.ud.remote_qpn - UNETMM_IB_QPN;
	bool ip4 = av->network_type == RXE_NETWORK_TYPE_IPV4;
	struct ib_global_route to = {
		.flow_label = av->grh.flow_label,
		.hop_limit = av->grh.hop_limit,
		.traffic_class = av->grh.traffic_class,
	};
	union ib_gid from;
	__le64 mac = 0;

	memcpy(&mac, av->dmac, ETH_ALEN);
	/* Endpoint 0, which takes no messages, stands for numbers that no queue pair has. */
	sqe->remote = mac | cpu_to_le64(FIELD_PREP(UNETMM_UD_EP, ep > U16_MAX ? 0 : ep));
	sqe->handle = cpu_to_le32(wr->wr.ud.remote_qkey);
	unetmm_ib_grh_gid(&from, &av->sgid_addr._sockaddr_in6, ip4);
	unetmm_ib_grh_gid(&to.dgid, &av->dgid_addr._sockaddr_in6, ip4);
	unetmm_ib_grh(grh, &from, &to);
	unetmm_ib_grh_length(grh, bytes);
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

static int unetmm_ib_ah_tell_rxe(struct ib_udata *udata)
{
	struct rxe_create_ah_resp resp = {};

	return ib_copy_to_udata(udata, &resp, min(udata->outlen, sizeof(resp)));
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
	ret = dev->own ? unetmm_ib_ah_tell_own(ah, udata) : unetmm_ib_ah_tell_rxe(udata);
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
	unetmm_ib_give(ib->pd);
	return 0;
}

const struct ib_device_ops unetmm_ib_ah_ops = {
	.create_ah = unetmm_ib_create_ah,
	.create_user_ah = unetmm_ib_create_user_ah,
	.query_ah = unetmm_ib_query_ah,
	.destroy_ah = unetmm_ib_destroy_ah,
	INIT_RDMA_OBJ_SIZE(ib_ah, unetmm_ib_ah, ib),
};
