// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm_ib: QP1, which the kernel's connection manager has: messages of 256 bytes in UDP
 * datagrams of the netdev, as RoCEv2 has them but for the checksum of their end, which is
 * 0 and not looked at.
 *
 * One socket for each family serves all cards; a datagram is for the card whose netdev it
 * came by.  A message to the card's own address does not leave the machine.
 *
 * LIFETIMES.  A unetmm_ib_gsi is there as long as its queue pair, and listed in
 * unetmm_ib_gsis: a datagram finds it there under RCU.  Sends wait in its list for the
 * work item, since ib_mad posts with interrupts disabled.  The work item has a queue without
 * engines: however busy these are, connections are made.
 *
 * LOCKS.  gsi->lock: receives and sends; innermost but for cq->lock.
 */
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/netdevice.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/sock.h>
#include <net/udp_tunnel.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_pack.h>

#include "compat/compat.h"
#include "verbs/gsi.h"
#include "verbs/ud.h"

#define UNETMM_IB_PORT		4791
#define UNETMM_IB_MAD_SGES	4
#define UNETMM_IB_MAD_ALL	(UNETMM_IB_GRH + IB_MGMT_MAD_SIZE)

/* BTH, DETH, the message, and the place of RoCE's checksum. */
struct unetmm_ib_packet {
	u8 opcode;
	u8 flags;
	__be16 pkey;
	__be32 dest_qp;
	__be32 psn;
	__be32 qkey;
	__be32 source_qp;
	u8 mad[IB_MGMT_MAD_SIZE];
	__be32 icrc;
} __packed;

struct unetmm_ib_mad_send {
	struct list_head node;
	struct ib_cqe *cqe;
	union ib_gid from;
	union ib_gid to;
	struct unetmm_ib_packet packet;
};

struct unetmm_ib_mad_receive {
	struct list_head node;
	struct ib_cqe *cqe;
	int num_sge;
	struct ib_sge sge[UNETMM_IB_MAD_SGES];
};

struct unetmm_ib_gsi {
	struct list_head node;		/* unetmm_ib_gsis */
	struct unetmm_ib *dev;
	struct ib_qp *qp;
	struct ib_cq *send_cq;
	struct ib_cq *recv_cq;
	struct work_struct work;
	spinlock_t lock;		/* sends, receives */
	struct list_head sends;
	struct list_head receives;
	u32 psn;			/* the work's */
};

static LIST_HEAD(unetmm_ib_gsis);
static DEFINE_MUTEX(unetmm_ib_gsis_lock);	/* the list's writers */
static struct socket *unetmm_ib_socks[2];	/* IPv4, IPv6; NULL: none */
static struct workqueue_struct *unetmm_ib_gsi_wq;

/* Memory of ib_mad, by its DMA address if the device has these. */
static void *unetmm_ib_memory(const struct unetmm_ib *dev, u64 addr)
{
	return dev->direct ? phys_to_virt(addr) : (void *)(uintptr_t)addr;
}

/* ---- From the wire ------------------------------------------------------------ */

static struct unetmm_ib_mad_receive *unetmm_ib_take_receive(struct unetmm_ib_gsi *gsi)
{
	struct unetmm_ib_mad_receive *r;
	unsigned long flags;

	spin_lock_irqsave(&gsi->lock, flags);
	r = list_first_entry_or_null(&gsi->receives, struct unetmm_ib_mad_receive, node);
	if (r)
		list_del(&r->node);
	spin_unlock_irqrestore(&gsi->lock, flags);
	return r;
}

static bool unetmm_ib_packet_ok(const struct unetmm_ib_packet *packet)
{
	return packet->opcode == IB_OPCODE_UD_SEND_ONLY &&
	       packet->pkey == cpu_to_be16(IB_DEFAULT_PKEY_FULL) &&
	       (packet->dest_qp & cpu_to_be32(0xffffff)) == cpu_to_be32(1) &&
	       packet->qkey == cpu_to_be32(IB_QP1_QKEY);
}

/* `all`: the network's header, behind zeros if it is shorter, and the message. */
static void unetmm_ib_deliver(struct unetmm_ib_gsi *gsi, const u8 *all,
			      const struct unetmm_ib_packet *packet, bool v6)
{
	struct unetmm_ib_mad_receive *r;
	struct ib_wc wc = {
		.opcode = IB_WC_RECV,
		.byte_len = UNETMM_IB_MAD_ALL,
		.qp = gsi->qp,
		.src_qp = be32_to_cpu(packet->source_qp) & 0xffffff,
		.wc_flags = IB_WC_GRH | IB_WC_WITH_NETWORK_HDR_TYPE,
		.port_num = 1,
		.network_hdr_type = v6 ? RDMA_NETWORK_IPV6 : RDMA_NETWORK_IPV4,
	};
	u32 done = 0;
	int i;

	if (!unetmm_ib_packet_ok(packet))
		return;
	r = unetmm_ib_take_receive(gsi);
	/* The sender repeats it. */
	if (!r)
		return;
	for (i = 0; i < r->num_sge && done < UNETMM_IB_MAD_ALL; i++) {
		u32 n = min_t(u32, r->sge[i].length, UNETMM_IB_MAD_ALL - done);

		memcpy(unetmm_ib_memory(gsi->dev, r->sge[i].addr), all + done, n);
		done += n;
	}
	wc.wr_cqe = r->cqe;
	if (done < UNETMM_IB_MAD_ALL)
		wc.status = IB_WC_LOC_LEN_ERR;
	kfree(r);
	unetmm_ib_cq_put_kernel(gsi->recv_cq, &wc);
}

static void unetmm_ib_receive_skb(struct unetmm_ib_gsi *gsi, const struct sk_buff *skb)
{
	bool v6 = skb->protocol == htons(ETH_P_IPV6);
	u32 header = v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
	struct unetmm_ib_packet packet;
	u8 all[UNETMM_IB_MAD_ALL] = {};

	/* Behind UDP's header; RoCE's checksum may be missing, or anything. */
	if (skb_copy_bits(skb, sizeof(struct udphdr), &packet, offsetof(typeof(packet), icrc)))
		return;
	memcpy(all + UNETMM_IB_GRH - header, skb_network_header(skb), header);
	memcpy(all + UNETMM_IB_GRH, packet.mad, sizeof(packet.mad));
	unetmm_ib_deliver(gsi, all, &packet, v6);
}

/* All datagrams of the port are ours, and end here. */
static int unetmm_ib_encap_rcv(struct sock *sk, struct sk_buff *skb)
{
	struct unetmm_ib_gsi *gsi;

	rcu_read_lock();
	list_for_each_entry_rcu(gsi, &unetmm_ib_gsis, node) {
		if (gsi->dev->netdev == skb->dev) {
			unetmm_ib_receive_skb(gsi, skb);
			break;
		}
	}
	rcu_read_unlock();
	consume_skb(skb);
	return 0;
}

/* ---- To the wire -------------------------------------------------------------- */

/* As if it came by the wire. */
static void unetmm_ib_loop(struct unetmm_ib_gsi *gsi, const struct unetmm_ib_mad_send *s)
{
	bool v6 = !ipv6_addr_v4mapped((const struct in6_addr *)s->to.raw);
	const struct ib_global_route to = { .dgid = s->to, .hop_limit = 64 };
	u8 all[UNETMM_IB_MAD_ALL] = {};

	unetmm_ib_grh(all, &s->from, &to);
	unetmm_ib_grh_length(all, sizeof(s->packet.mad));
	memcpy(all + UNETMM_IB_GRH, s->packet.mad, sizeof(s->packet.mad));
	unetmm_ib_deliver(gsi, all, &s->packet, v6);
}

/* By this netdev, from this address: there may be others on the way. */
static int unetmm_ib_transmit(struct unetmm_ib_gsi *gsi, struct unetmm_ib_mad_send *s)
{
	bool v6 = !ipv6_addr_v4mapped((const struct in6_addr *)s->to.raw);
	struct socket *sock = unetmm_ib_socks[v6];
	int ifindex = gsi->dev->netdev->ifindex;
	struct sockaddr_in6 to6 = {
		.sin6_family = AF_INET6, .sin6_port = htons(UNETMM_IB_PORT),
		.sin6_scope_id = ifindex,
	};
	struct sockaddr_in to4 = { .sin_family = AF_INET, .sin_port = htons(UNETMM_IB_PORT) };
	u8 control[CMSG_SPACE(sizeof(struct in6_pktinfo))] __aligned(8) = {};
	struct cmsghdr *cmsg = (struct cmsghdr *)control;
	struct in_pktinfo info4 = { .ipi_ifindex = ifindex };
	struct in6_pktinfo info6 = { .ipi6_ifindex = ifindex };
	struct kvec vec = { .iov_base = &s->packet, .iov_len = sizeof(s->packet) };
	struct msghdr msg = { .msg_control = control };

	if (!sock || !net_eq(dev_net(gsi->dev->netdev), &init_net))
		return -EAFNOSUPPORT;
	memcpy(&to6.sin6_addr, s->to.raw, sizeof(to6.sin6_addr));
	memcpy(&to4.sin_addr, s->to.raw + 12, sizeof(to4.sin_addr));
	memcpy(&info6.ipi6_addr, s->from.raw, sizeof(info6.ipi6_addr));
	memcpy(&info4.ipi_spec_dst, s->from.raw + 12, sizeof(info4.ipi_spec_dst));
	msg.msg_name = v6 ? (void *)&to6 : (void *)&to4;
	msg.msg_namelen = v6 ? sizeof(to6) : sizeof(to4);
	msg.msg_controllen = v6 ? CMSG_SPACE(sizeof(info6)) : CMSG_SPACE(sizeof(info4));
	cmsg->cmsg_level = v6 ? SOL_IPV6 : SOL_IP;
	cmsg->cmsg_type = v6 ? IPV6_PKTINFO : IP_PKTINFO;
	cmsg->cmsg_len = v6 ? CMSG_LEN(sizeof(info6)) : CMSG_LEN(sizeof(info4));
	memcpy(CMSG_DATA(cmsg), v6 ? (void *)&info6 : (void *)&info4,
	       v6 ? sizeof(info6) : sizeof(info4));
	return kernel_sendmsg(sock, &msg, &vec, 1, sizeof(s->packet));
}

static struct unetmm_ib_mad_send *unetmm_ib_take_send(struct unetmm_ib_gsi *gsi)
{
	struct unetmm_ib_mad_send *s;

	spin_lock_irq(&gsi->lock);
	s = list_first_entry_or_null(&gsi->sends, struct unetmm_ib_mad_send, node);
	if (s)
		list_del(&s->node);
	spin_unlock_irq(&gsi->lock);
	return s;
}

/* A datagram may be lost: a send that fails is one that was lost. */
static void unetmm_ib_gsi_work(struct work_struct *work)
{
	struct unetmm_ib_gsi *gsi = container_of(work, struct unetmm_ib_gsi, work);
	struct ib_wc wc = { .opcode = IB_WC_SEND, .qp = gsi->qp, .port_num = 1 };
	struct unetmm_ib_mad_send *s;

	while ((s = unetmm_ib_take_send(gsi))) {
		s->packet.psn = cpu_to_be32(gsi->psn++ & 0xffffff);
		if (!memcmp(&s->from, &s->to, sizeof(s->to)))
			unetmm_ib_loop(gsi, s);
		else
			unetmm_ib_transmit(gsi, s);
		wc.wr_cqe = s->cqe;
		kfree(s);
		unetmm_ib_cq_put_kernel(gsi->send_cq, &wc);
	}
}

/* ---- ib_mad ------------------------------------------------------------------- */

static struct unetmm_ib_mad_send *unetmm_ib_mad(const struct unetmm_ib *dev,
						const struct ib_send_wr *wr)
{
	const struct ib_ud_wr *ud = ud_wr(wr);
	const struct unetmm_ib_ah *ah = container_of(ud->ah, struct unetmm_ib_ah, ib);
	const struct ib_global_route *grh = rdma_ah_read_grh(&ah->attr);
	struct unetmm_ib_mad_send *s = kzalloc(sizeof(*s), GFP_ATOMIC);
	u32 done = 0;
	int i;

	if (!s)
		return ERR_PTR(-ENOMEM);
	s->cqe = wr->wr_cqe;
	s->to = grh->dgid;
	if (ud->ah->sgid_attr)
		s->from = ud->ah->sgid_attr->gid;
	s->packet.opcode = IB_OPCODE_UD_SEND_ONLY;
	s->packet.pkey = cpu_to_be16(IB_DEFAULT_PKEY_FULL);
	s->packet.dest_qp = cpu_to_be32(ud->remote_qpn);
	/* The wr says IB_QP_SET_QKEY: that of the sending queue pair. */
	s->packet.qkey = cpu_to_be32(IB_QP1_QKEY);
	s->packet.source_qp = cpu_to_be32(1);
	for (i = 0; i < wr->num_sge && done < IB_MGMT_MAD_SIZE; i++) {
		u32 n = min_t(u32, wr->sg_list[i].length, IB_MGMT_MAD_SIZE - done);

		memcpy(s->packet.mad + done, unetmm_ib_memory(dev, wr->sg_list[i].addr), n);
		done += n;
	}
	return s;
}

int unetmm_ib_gsi_send(struct ib_qp *ib, const struct ib_send_wr *wr,
		       const struct ib_send_wr **bad)
{
	struct unetmm_ib_gsi *gsi = unetmm_ib_of(ib->device)->gsi;
	struct unetmm_ib_mad_send *s;
	unsigned long flags;
	int ret = 0;

	for (; wr; wr = wr->next) {
		s = wr->opcode == IB_WR_SEND ? unetmm_ib_mad(gsi->dev, wr) : ERR_PTR(-EINVAL);
		if (IS_ERR(s)) {
			*bad = wr;
			ret = PTR_ERR(s);
			break;
		}
		spin_lock_irqsave(&gsi->lock, flags);
		list_add_tail(&s->node, &gsi->sends);
		spin_unlock_irqrestore(&gsi->lock, flags);
	}
	queue_work(unetmm_ib_gsi_wq, &gsi->work);
	return ret;
}

int unetmm_ib_gsi_receive(struct ib_qp *ib, const struct ib_recv_wr *wr,
			  const struct ib_recv_wr **bad)
{
	struct unetmm_ib_gsi *gsi = unetmm_ib_of(ib->device)->gsi;
	struct unetmm_ib_mad_receive *r;
	unsigned long flags;

	for (; wr; wr = wr->next) {
		r = wr->num_sge <= UNETMM_IB_MAD_SGES ? kzalloc(sizeof(*r), GFP_ATOMIC) : NULL;
		if (!r) {
			*bad = wr;
			return -ENOMEM;
		}
		r->cqe = wr->wr_cqe;
		r->num_sge = wr->num_sge;
		memcpy(r->sge, wr->sg_list, wr->num_sge * sizeof(r->sge[0]));
		spin_lock_irqsave(&gsi->lock, flags);
		list_add_tail(&r->node, &gsi->receives);
		spin_unlock_irqrestore(&gsi->lock, flags);
	}
	return 0;
}

int unetmm_ib_gsi_create(struct ib_qp *ib, const struct ib_qp_init_attr *attr)
{
	struct unetmm_ib *dev = unetmm_ib_of(ib->device);
	struct unetmm_ib_gsi *gsi;

	if (dev->gsi)
		return -EBUSY;
	gsi = kzalloc(sizeof(*gsi), GFP_KERNEL);
	if (!gsi)
		return -ENOMEM;
	gsi->dev = dev;
	gsi->qp = ib;
	gsi->send_cq = attr->send_cq;
	gsi->recv_cq = attr->recv_cq;
	INIT_WORK(&gsi->work, unetmm_ib_gsi_work);
	spin_lock_init(&gsi->lock);
	INIT_LIST_HEAD(&gsi->sends);
	INIT_LIST_HEAD(&gsi->receives);
	dev->gsi = gsi;
	ib->qp_num = 1;
	mutex_lock(&unetmm_ib_gsis_lock);
	list_add_tail_rcu(&gsi->node, &unetmm_ib_gsis);
	mutex_unlock(&unetmm_ib_gsis_lock);
	return 0;
}

void unetmm_ib_gsi_destroy(struct ib_qp *ib)
{
	struct unetmm_ib *dev = unetmm_ib_of(ib->device);
	struct unetmm_ib_gsi *gsi = dev->gsi;
	struct unetmm_ib_mad_receive *r, *next;
	struct unetmm_ib_mad_send *s;

	mutex_lock(&unetmm_ib_gsis_lock);
	list_del_rcu(&gsi->node);
	mutex_unlock(&unetmm_ib_gsis_lock);
	/* Datagrams that have found it are through. */
	synchronize_net();
	cancel_work_sync(&gsi->work);
	dev->gsi = NULL;
	while ((s = unetmm_ib_take_send(gsi)))
		kfree(s);
	list_for_each_entry_safe(r, next, &gsi->receives, node)
		kfree(r);
	kfree(gsi);
}

/* ---- Sockets ------------------------------------------------------------------ */

static int unetmm_ib_sock(bool v6)
{
	struct udp_port_cfg port = {
		.family = v6 ? AF_INET6 : AF_INET,
		.local_udp_port = htons(UNETMM_IB_PORT),
		.ipv6_v6only = v6,
		.use_udp6_tx_checksums = v6,
		.use_udp6_rx_checksums = v6,
	};
	struct udp_tunnel_sock_cfg tunnel = {
		.encap_type = 1,
		.encap_rcv = unetmm_ib_encap_rcv,
	};
	int ret = udp_sock_create(&init_net, &port, &unetmm_ib_socks[v6]);

	if (ret) {
		unetmm_ib_socks[v6] = NULL;
		return ret;
	}
	unetmm_tunnel_setup(unetmm_ib_socks[v6], &tunnel);
	return 0;
}

/* A kernel may have no IPv6. */
int unetmm_ib_gsi_init(void)
{
	int ret;

	unetmm_ib_gsi_wq = alloc_ordered_workqueue("unetmm-ib-cm", WQ_MEM_RECLAIM);
	if (!unetmm_ib_gsi_wq)
		return -ENOMEM;
	ret = unetmm_ib_sock(false);
	if (ret) {
		pr_err("unetmm_ib: no UDP port %d (%d): is rdma_rxe loaded?\n",
		       UNETMM_IB_PORT, ret);
		destroy_workqueue(unetmm_ib_gsi_wq);
		return ret;
	}
	ret = unetmm_ib_sock(true);
	if (ret)
		pr_debug("unetmm_ib: no IPv6 (%d)\n", ret);
	return 0;
}

void unetmm_ib_gsi_exit(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(unetmm_ib_socks); i++) {
		if (unetmm_ib_socks[i])
			unetmm_tunnel_release(unetmm_ib_socks[i]);
		unetmm_ib_socks[i] = NULL;
	}
	destroy_workqueue(unetmm_ib_gsi_wq);
}
