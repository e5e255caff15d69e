// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm_ib: queue pairs of type UD: an endpoint with policy drop, and its channel 0, a UD
 * channel.
 *
 * FROM VERBS TO THE CARD
 *   GID               -> MAC address: the neighbour's, in the address handle (verbs/ah.c)
 *   queue pair number -> endpoint: the number without UNETMM_IB_QPN; each channel is number 0
 *   Q_Key             -> the channel's; in a request with bit 31 the sender's own, by the card
 *   GRH               -> the first 40 bytes of the message, which the sender's driver writes
 * A completion has the sender's MAC address and endpoint from the card, so the source that a
 * program sees is true; the GRH is as the sender wrote it.
 *
 * States: the channel is there from RTR on, and the engine takes sends in RTS.  A message for
 * an endpoint without a channel is dropped (drop_channel).
 *
 * A message finds a buffer, and its pages in the card's table, or is lost: nobody sends it
 * again.  In a protection domain with such a queue pair the pages of a region without
 * IB_ACCESS_ON_DEMAND are entered there (verbs/mr.c); Linux may take them back.  librxe posts receives without any call: so
 * a send has the engine look for receives of all UD queue pairs of the card first, and the
 * timer looks often for messages from elsewhere.  A worker may see the send before that: it takes
 * only sends up to qp->looked.
 *
 * LOCKS.  dev->uds_lock, outside of qp->lock: the list of these queue pairs.
 */
#include <linux/if_ether.h>
#include <linux/netdevice.h>
#include <rdma/ib_addr.h>

#include "verbs/ud.h"

/* Bytes of a packet, and of a UD message. */
int unetmm_ib_mtu(const struct unetmm_ib *dev)
{
	u32 mtu = dev->dev->hw.user_mtu;

	return mtu >= 4096 ? 4096 : max(ib_mtu_enum_to_int(iboe_get_mtu(mtu)), UNETMM_MIN_MTU);
}

int unetmm_ud_check(const struct unetmm_ib *dev, const struct ib_qp_cap *cap)
{
	if (!(dev->dev->hw.caps & UNETMM_CAP_UD))
		return -EOPNOTSUPP;
	if (cap->max_send_sge > UNETMM_UD_SEGS ||
	    cap->max_inline_data > UNETMM_MAX_INLINE - UNETMM_IB_GRH)
		return -EINVAL;
	return 0;
}

/* ---- All of the card ---------------------------------------------------------- */

void unetmm_ud_join(struct unetmm_ib_qp *qp)
{
	mutex_lock(&qp->dev->uds_lock);
	list_add_tail(&qp->ud, &qp->dev->uds);
	mutex_unlock(&qp->dev->uds_lock);
	atomic_inc(&unetmm_ib_pd(qp->ib.pd)->uds);
	unetmm_ib_mr_enter_all(qp->dev, qp->ib.pd, qp->context->file);
}

/* Also of one that has not joined. */
void unetmm_ud_leave(struct unetmm_ib_qp *qp)
{
	if (list_empty(&qp->ud))
		return;
	atomic_dec(&unetmm_ib_pd(qp->ib.pd)->uds);
	mutex_lock(&qp->dev->uds_lock);
	list_del_init(&qp->ud);
	mutex_unlock(&qp->dev->uds_lock);
}

/*
 * The messages that are posted now may go: one to a queue pair of this card finds the requests
 * that were posted before it.  A worker may have taken some that the card does not see yet: hence
 * the lock of each queue pair, also of those without requests.
 */
int unetmm_ud_look(struct unetmm_ib_qp *from)
{
	struct unetmm_ib *dev = from->dev;
	struct unetmm_ib_qp *qp;
	int ret = 0;
	u32 posted;
	bool idle;

	mutex_lock(&from->lock);
	idle = from->state >= IB_QPS_RTS && from->looked == unetmm_ib_queue_posted(&from->sq);
	mutex_unlock(&from->lock);
	if (idle)
		return 0;
	mutex_lock(&dev->uds_lock);
	posted = unetmm_ib_queue_posted(&from->sq);
	list_for_each_entry(qp, &dev->uds, ud) {
		mutex_lock(&qp->lock);
		if (qp->state != IB_QPS_ERR && unetmm_ib_queue_waits(&qp->rq))
			unetmm_ib_run(qp);
		mutex_unlock(&qp->lock);
	}
	mutex_lock(&from->lock);
	/* Requests of before RTS are refused. */
	if (from->state < IB_QPS_RTS) {
		unetmm_ib_queue_discard(&from->sq);
		posted = from->sq.index;
		ret = -EINVAL;
	}
	from->looked = posted;
	mutex_unlock(&from->lock);
	mutex_unlock(&dev->uds_lock);
	return ret;
}

/* ---- The channel: qp->lock ---------------------------------------------------- */

/* RTR; and again with another Q_Key. */
int unetmm_ud_open_channel(struct unetmm_ib_qp *qp)
{
	struct unetmm_cmd_channel how = {
		.type = UNETMM_CHANNEL_UD,
		.mtu = cpu_to_le32(min_t(u32, unetmm_ib_mtu(qp->dev) + UNETMM_IB_GRH,
					 qp->dev->dev->hw.user_mtu)),
		.flags = UNETMM_CHANNEL_F_TELL,
		.qkey = cpu_to_le32(qp->attr.qkey),
	};
	int ret = qp->dev->calls->channel_set(qp->ep, &how);

	qp->open |= !ret;
	return ret;
}
