// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm_ib: the RDMA device: the auxiliary driver, the properties of the device, its link.
 */
#include <linux/auxiliary_bus.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <net/addrconf.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_mad.h>

#include "verbs/gsi.h"
#include "verbs/mr.h"
#include "verbs/own.h"
#include "verbs/ud.h"

#define UNETMM_IB_GIDS	64

static char *verbs = "own";
module_param(verbs, charp, 0444);
MODULE_PARM_DESC(verbs,
		 "the user's interface: own (libunetmm-rdmav34), rxe (Debian's librxe) or off");

static bool unetmm_ib_has_srq(const struct unetmm_ib *dev)
{
	return dev->dev->hw.caps & UNETMM_CAP_SHARED;
}

static int unetmm_ib_query_device(struct ib_device *ib, struct ib_device_attr *a,
				  struct ib_udata *udata)
{
	const struct unetmm_limits *hw = &unetmm_ib_of(ib)->dev->hw;

	if (udata->inlen || udata->outlen)
		return -EINVAL;
	memset(a, 0, sizeof(*a));
	addrconf_addr_eui48((u8 *)&a->sys_image_guid, hw->mac);
	a->vendor_id = UNETMM_PCI_VENDOR_ID;
	a->vendor_part_id = UNETMM_PCI_DEVICE_ID;
	a->hw_ver = hw->version;
	a->max_mr_size = U64_MAX;
	a->page_size_cap = PAGE_SIZE;
	a->max_qp = hw->endpoints - 2;
	a->max_qp_wr = UNETMM_IB_MAX_WR;
	a->max_send_sge = UNETMM_IB_MAX_SGE;
	a->max_recv_sge = UNETMM_IB_MAX_SGE;
	a->max_sge_rd = UNETMM_IB_MAX_SGE;
	a->max_cq = 2 * hw->endpoints;
	a->max_cqe = unetmm_ib_of(ib)->own ? UNETMM_OWN_MAX_CQE : UNETMM_IB_MAX_CQE;
	a->max_mr = hw->regions;
	a->max_mw = hw->regions;
	a->max_pd = UNETMM_VERBS_MOST;
	a->max_ah = UNETMM_VERBS_MOST;
	a->max_pkeys = 1;
	a->max_qp_rd_atom = 16;
	a->max_qp_init_rd_atom = 16;
	a->max_res_rd_atom = 16 * hw->endpoints;
	a->atomic_cap = IB_ATOMIC_HCA;
	a->device_cap_flags = IB_DEVICE_RC_RNR_NAK_GEN | IB_DEVICE_MEM_WINDOW |
			      (hw->caps & UNETMM_CAP_BIND ? IB_DEVICE_MEM_WINDOW_TYPE_2B : 0);
	a->kernel_cap_flags = IBK_ON_DEMAND_PAGING | IBK_LOCAL_DMA_LKEY;
	if (unetmm_ib_of(ib)->direct) {
		a->device_cap_flags |= IB_DEVICE_MEM_MGT_EXTENSIONS;
		a->max_fast_reg_page_list_len = UNETMM_IB_FAST_PAGES;
	}
	a->local_ca_ack_delay = 15;
	a->odp_caps.general_caps = IB_ODP_SUPPORT | IB_ODP_SUPPORT_IMPLICIT;
	a->odp_caps.per_transport_caps.rc_odp_caps = IB_ODP_SUPPORT_SEND | IB_ODP_SUPPORT_RECV |
						     IB_ODP_SUPPORT_WRITE | IB_ODP_SUPPORT_READ |
						     IB_ODP_SUPPORT_ATOMIC;
	if (hw->caps & UNETMM_CAP_UD)
		a->odp_caps.per_transport_caps.ud_odp_caps = IB_ODP_SUPPORT_SEND;
	if (unetmm_ib_has_srq(unetmm_ib_of(ib))) {
		a->max_srq = a->max_qp;
		a->max_srq_wr = UNETMM_IB_MAX_WR;
		a->max_srq_sge = UNETMM_IB_MAX_SGE;
		a->odp_caps.per_transport_caps.rc_odp_caps |= IB_ODP_SUPPORT_SRQ_RECV;
	}
	return 0;
}

static bool unetmm_ib_up(const struct unetmm_ib *dev)
{
	return netif_running(dev->netdev) && netif_carrier_ok(dev->netdev);
}

static int unetmm_ib_query_port(struct ib_device *ib, u32 port, struct ib_port_attr *a)
{
	struct unetmm_ib *dev = unetmm_ib_of(ib);
	bool up = unetmm_ib_up(dev);

	a->state = up ? IB_PORT_ACTIVE : IB_PORT_DOWN;
	a->phys_state = up ? IB_PORT_PHYS_STATE_LINK_UP : IB_PORT_PHYS_STATE_DISABLED;
	a->max_mtu = IB_MTU_4096;
	a->active_mtu = ib_mtu_int_to_enum(unetmm_ib_mtu(dev));
	a->gid_tbl_len = UNETMM_IB_GIDS;
	a->pkey_tbl_len = 1;
	a->max_msg_sz = unetmm_ib_longest(dev, false);
	a->port_cap_flags = IB_PORT_CM_SUP;
	a->active_width = IB_WIDTH_1X;
	a->active_speed = IB_SPEED_QDR;
	a->ip_gids = true;
	return 0;
}

static int unetmm_ib_query_pkey(struct ib_device *ib, u32 port, u16 index, u16 *pkey)
{
	if (index)
		return -EINVAL;
	*pkey = IB_DEFAULT_PKEY_FULL;
	return 0;
}

/* SMC of Linux 6.1 asks the driver, and not ib_core, which knows the netdev as well. */
static struct net_device *unetmm_ib_get_netdev(struct ib_device *ib, u32 port)
{
	struct net_device *netdev = unetmm_ib_of(ib)->netdev;

	dev_hold(netdev);
	return netdev;
}

static enum rdma_link_layer unetmm_ib_link_layer(struct ib_device *ib, u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

static int unetmm_ib_immutable(struct ib_device *ib, u32 port, struct ib_port_immutable *a)
{
	a->core_cap_flags = RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	a->pkey_tbl_len = 1;
	a->gid_tbl_len = UNETMM_IB_GIDS;
	a->max_mad_size = IB_MGMT_MAD_SIZE;
	return 0;
}

static const struct ib_device_ops unetmm_ib_ops = {
	.owner = THIS_MODULE,
	.query_device = unetmm_ib_query_device,
	.query_port = unetmm_ib_query_port,
	.query_pkey = unetmm_ib_query_pkey,
	.get_netdev = unetmm_ib_get_netdev,
	.get_link_layer = unetmm_ib_link_layer,
	.get_port_immutable = unetmm_ib_immutable,
};

static const struct ib_device_ops unetmm_rxe_ops = {
	.driver_id = RDMA_DRIVER_RXE,
	.uverbs_abi_ver = UNETMM_IB_ABI,
};

/* rtnl */
static int unetmm_ib_netdev_event(struct notifier_block *notifier, unsigned long event,
				  void *info)
{
	struct unetmm_ib *dev = container_of(notifier, struct unetmm_ib, notifier);
	struct ib_event told = { .device = &dev->ib, .element.port_num = 1 };

	if (netdev_notifier_info_to_dev(info) != dev->netdev ||
	    (event != NETDEV_UP && event != NETDEV_DOWN && event != NETDEV_CHANGE))
		return NOTIFY_DONE;
	told.event = unetmm_ib_up(dev) ? IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR;
	ib_dispatch_event(&told);
	return NOTIFY_DONE;
}

static int unetmm_ib_register(struct unetmm_ib *dev, struct device *parent)
{
	int ret;

	dev->ib.node_type = RDMA_NODE_IB_CA;
	dev->ib.phys_port_cnt = 1;
	dev->ib.num_comp_vectors = 1;
	dev->ib.local_dma_lkey = UNETMM_IB_LOCAL_LKEY;
	dev->ib.dev.parent = parent;
	strscpy(dev->ib.node_desc, UNETMM_NAME, sizeof(dev->ib.node_desc));
	addrconf_addr_eui48((u8 *)&dev->ib.node_guid, dev->dev->hw.mac);
	dev->ib.uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_POST_SEND) |
				   BIT_ULL(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ);
	ib_set_device_ops(&dev->ib, dev->own ? &unetmm_own_ops : &unetmm_rxe_ops);
	ib_set_device_ops(&dev->ib, &unetmm_ib_ops);
	ib_set_device_ops(&dev->ib, &unetmm_ib_context_ops);
	ib_set_device_ops(&dev->ib, &unetmm_ib_ah_ops);
	ib_set_device_ops(&dev->ib, &unetmm_ib_cq_ops);
	ib_set_device_ops(&dev->ib, &unetmm_ib_mr_ops);
	ib_set_device_ops(&dev->ib, &unetmm_ib_mw_ops);
	ib_set_device_ops(&dev->ib, &unetmm_ib_fast_ops);
	ib_set_device_ops(&dev->ib, &unetmm_ib_qp_ops);
	if (unetmm_ib_has_srq(dev))
		ib_set_device_ops(&dev->ib, &unetmm_srq_ops);
	if (dev->own)
		dev->ib.driver_def = unetmm_own_defs;
	ret = ib_device_set_netdev(&dev->ib, dev->netdev, 1);
	/* Without a device for DMA addresses are the kernel's: QP1, which copies, has no other need. */
	return ret ? ret : ib_register_device(&dev->ib, UNETMM_NAME "%d",
					      dev->direct ? parent : NULL);
}

static int unetmm_ib_probe(struct auxiliary_device *base, const struct auxiliary_device_id *id)
{
	struct unetmm_auxiliary *aux = container_of(base, struct unetmm_auxiliary, base);
	struct net_device *netdev = aux->calls->netdev(aux->dev);
	struct unetmm_ib *dev;
	int ret;

	dev = ib_alloc_device(unetmm_ib, ib);
	if (!dev)
		return -ENOMEM;
	dev->dev = aux->dev;
	dev->calls = aux->calls;
	dev->netdev = netdev;
	dev->own = !strcmp(verbs, "own");
	dev->direct = aux->calls->kernel->direct(aux->dev);
	/* A segment of the kernel's may have all of its memory in one piece. */
	dma_set_max_seg_size(base->dev.parent, UINT_MAX);
	xa_init_flags(&dev->mrs, XA_FLAGS_ALLOC);
	mutex_init(&dev->uds_lock);
	INIT_LIST_HEAD(&dev->uds);
	unetmm_ib_kernel_init(dev);
	ret = unetmm_ib_register(dev, base->dev.parent);
	if (ret) {
		/* A client that was added before the failure may have used both. */
		unetmm_ib_kernel_exit(dev);
		xa_destroy(&dev->mrs);
		ib_dealloc_device(&dev->ib);
		return ret;
	}
	auxiliary_set_drvdata(base, dev);
	dev->notifier.notifier_call = unetmm_ib_netdev_event;
	/* Without it nobody is told that the link comes and goes, and all else works. */
	if (register_netdevice_notifier(&dev->notifier))
		dev->notifier.notifier_call = NULL;
	return 0;
}

static void unetmm_ib_remove(struct auxiliary_device *base)
{
	struct unetmm_ib *dev = auxiliary_get_drvdata(base);

	if (dev->notifier.notifier_call)
		unregister_netdevice_notifier(&dev->notifier);
	ib_unregister_device(&dev->ib);
	unetmm_ib_kernel_exit(dev);
	xa_destroy(&dev->mrs);
	ib_dealloc_device(&dev->ib);
}

static const struct auxiliary_device_id unetmm_ib_ids[] = {
	{ .name = UNETMM_NAME "." UNETMM_AUXILIARY },
	{ }
};
MODULE_DEVICE_TABLE(auxiliary, unetmm_ib_ids);

static struct auxiliary_driver unetmm_ib_driver = {
	.name = UNETMM_AUXILIARY,
	.probe = unetmm_ib_probe,
	.remove = unetmm_ib_remove,
	.id_table = unetmm_ib_ids,
};

static int unetmm_ib_check_param(void)
{
	if (!strcmp(verbs, "rxe") || !strcmp(verbs, "own") || !strcmp(verbs, "off"))
		return 0;
	pr_err("unetmm_ib: verbs=%s is not one of own, rxe, off\n", verbs);
	return -EINVAL;
}

static int __init unetmm_ib_init(void)
{
	int ret = unetmm_ib_check_param();

	if (ret)
		return ret;
	/* Nothing at all, nor UDP port 4791, which rdma_rxe may want. */
	if (!strcmp(verbs, "off"))
		return 0;
	unetmm_ib_wq = alloc_workqueue("unetmm-ib", WQ_UNBOUND, 0);
	if (!unetmm_ib_wq)
		return -ENOMEM;
	ret = -ENOMEM;
	/* Memory may be freed by a block device behind a queue pair. */
	unetmm_ib_kernel_wq = alloc_workqueue("unetmm-ib-kernel",
					      WQ_UNBOUND | WQ_HIGHPRI | WQ_MEM_RECLAIM, 0);
	if (!unetmm_ib_kernel_wq)
		goto destroy;
	ret = unetmm_ib_gsi_init();
	if (ret)
		goto destroy_kernel;
	ret = auxiliary_driver_register(&unetmm_ib_driver);
	if (!ret)
		return 0;
	unetmm_ib_gsi_exit();
destroy_kernel:
	destroy_workqueue(unetmm_ib_kernel_wq);
destroy:
	destroy_workqueue(unetmm_ib_wq);
	return ret;
}

static void __exit unetmm_ib_exit(void)
{
	if (!unetmm_ib_wq)
		return;
	auxiliary_driver_unregister(&unetmm_ib_driver);
	unetmm_ib_gsi_exit();
	destroy_workqueue(unetmm_ib_kernel_wq);
	destroy_workqueue(unetmm_ib_wq);
}

module_init(unetmm_ib_init);
module_exit(unetmm_ib_exit);
MODULE_DESCRIPTION("unetmm: verbs with on-demand paging");
MODULE_LICENSE("GPL");
