// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm_ib: queue pairs of type UD: an endpoint with policy drop, and its channel 0, a UD
 * channel.  A message that finds no buffer is lost.  librxe posts receives without a call, and the
 * card has a buffer only when the engine has looked: it looks with each completion, by its timer,
 * and before it takes a send request of a UD queue pair of the same process.
 *
 * FROM VERBS TO THE CARD
 *   GID               -> MAC address: the neighbour's, in the address handle (verbs/ah.c)
 *   queue pair number -> endpoint: the number without UNETMM_IB_QPN; each channel is number 0
 *   Q_Key             -> the channel's; in a request with bit 31 the sender's own, by the card
 *   GRH               -> the first 40 bytes of the message, which the sender's library writes
 * A completion has the sender's MAC address and endpoint from the card, so the source that a
 * program sees is true; the GRH is as the sender wrote it.
 *
 * States: the channel is there from RTR on.  A message for an endpoint without a channel is
 * dropped (drop_channel).
 *
 * A message finds a buffer, and its pages in the card's table, or is lost: nobody sends it
 * again.  In a protection domain with such a queue pair the pages of a region without
 * IB_ACCESS_ON_DEMAND are entered there (verbs/mr.c); Linux may take them back.
 */
#include <linux/if_ether.h>
#include <linux/netdevice.h>
#include <rdma/ib_addr.h>

#include "verbs/mr.h"
#include "verbs/ud.h"

/* Bytes of a packet, and of a UD message, which has its network header besides. */
int unetmm_ib_mtu(const struct unetmm_ib *dev)
{
	u32 mtu = dev->dev->hw.user_mtu;

	return mtu >= 4096 + UNETMM_IB_GRH ? 4096 :
	       max(ib_mtu_enum_to_int(iboe_get_mtu(mtu)), UNETMM_MIN_MTU);
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

/* Regions that are registered meanwhile find the count. */
int unetmm_ud_join(struct unetmm_ib_qp *qp)
{
	struct unetmm_ib *dev = qp->dev;

	atomic_inc(&unetmm_ib_pd(qp->ib.pd)->uds);
	mutex_lock(&dev->uds_lock);
	list_add_tail(&qp->ud, &dev->uds);
	mutex_unlock(&dev->uds_lock);
	qp->joined = true;
	return unetmm_ib_mr_enter_all(qp->dev, qp->ib.pd, qp->context->file);
}

/* Also of one that has not joined. */
void unetmm_ud_leave(struct unetmm_ib_qp *qp)
{
	if (!qp->joined)
		return;
	atomic_dec(&unetmm_ib_pd(qp->ib.pd)->uds);
	mutex_lock(&qp->dev->uds_lock);
	list_del(&qp->ud);
	mutex_unlock(&qp->dev->uds_lock);
	qp->joined = false;
}

/*
 * With librxe: lets the engine take the send requests that are posted now.  The receive requests
 * that the process has posted before them, to any of its queue pairs, go to the card first.  Others
 * that send meanwhile wait for as many turns of the engine as the process has queue pairs.
 */
void unetmm_ud_look(struct unetmm_ib_qp *qp)
{
	const struct unetmm_file *file = qp->context->file;
	struct unetmm_ib *dev = qp->dev;
	struct unetmm_ib_qp *other;
	u32 posted;

	if (!unetmm_ib_queue_waits(&qp->sq))
		return;
	mutex_lock(&dev->uds_lock);
	posted = unetmm_ib_queue_posted(&qp->sq);
	list_for_each_entry(other, &dev->uds, ud) {
		if (other == qp || other->context->file->space->mm != file->space->mm)
			continue;
		/* An engine that has just taken some has told the card when the lock is free. */
		mutex_lock(&other->lock);
		if (other->state != IB_QPS_ERR && unetmm_ib_queue_waits(&other->rq))
			unetmm_ib_run(other);
		mutex_unlock(&other->lock);
	}
	mutex_lock(&qp->lock);
	qp->send_end = posted;
	mutex_unlock(&qp->lock);
	mutex_unlock(&dev->uds_lock);
}

/* RTR; and again with another Q_Key.  qp->lock */
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
