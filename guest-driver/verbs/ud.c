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
 *
 * LOCKS, the outer ones first
 *   process->lock   the UD queue pairs of one process.  A sender holds the lock for the turns of
 *                   the engines of this process, so that no other process waits for them.
 *   qp->lock        see verbs/verbs.h.
 * dev->uds_lock keeps the list of processes and their counts.  No other lock is taken inside.
 */
#include <linux/if_ether.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
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

static struct unetmm_ud_process *unetmm_ud_find(struct unetmm_ib *dev, const struct mm_struct *mm)
{
	struct unetmm_ud_process *process;

	lockdep_assert_held(&dev->uds_lock);
	list_for_each_entry(process, &dev->uds, node) {
		if (process->mm == mm)
			return process;
	}
	return NULL;
}

/* Counts one queue pair more.  NULL: no memory. */
static struct unetmm_ud_process *unetmm_ud_process_get(struct unetmm_ib *dev, struct mm_struct *mm)
{
	struct unetmm_ud_process *new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT), *process;

	if (!new)
		return NULL;
	new->mm = mm;
	mutex_init(&new->lock);
	INIT_LIST_HEAD(&new->qps);
	mutex_lock(&dev->uds_lock);
	process = unetmm_ud_find(dev, mm);
	if (!process) {
		list_add(&new->node, &dev->uds);
		process = new;
	}
	process->users++;
	mutex_unlock(&dev->uds_lock);
	if (process != new)
		kfree(new);
	return process;
}

static void unetmm_ud_process_put(struct unetmm_ib *dev, struct unetmm_ud_process *process)
{
	bool last;

	mutex_lock(&dev->uds_lock);
	last = !--process->users;
	if (last)
		list_del(&process->node);
	mutex_unlock(&dev->uds_lock);
	if (last)
		kfree(process);
}

/* Regions that are registered meanwhile find the count. */
int unetmm_ud_join(struct unetmm_ib_qp *qp)
{
	struct unetmm_file *file = qp->context->file;
	struct unetmm_ud_process *process = unetmm_ud_process_get(qp->dev, file->space->mm);

	if (!process)
		return -ENOMEM;
	atomic_inc(&unetmm_ib_pd(qp->ib.pd)->uds);
	mutex_lock(&process->lock);
	list_add_tail(&qp->ud, &process->qps);
	mutex_unlock(&process->lock);
	/* Pairs with unetmm_ud_look(): the endpoint is there, and may have queued the work. */
	smp_store_release(&qp->process, process);
	return unetmm_ib_mr_enter_all(qp->dev, qp->ib.pd, file);
}

/* Also of one that has not joined.  Nobody calls unetmm_ud_look() for it any more. */
void unetmm_ud_leave(struct unetmm_ib_qp *qp)
{
	if (!qp->process)
		return;
	atomic_dec(&unetmm_ib_pd(qp->ib.pd)->uds);
	mutex_lock(&qp->process->lock);
	list_del(&qp->ud);
	mutex_unlock(&qp->process->lock);
	unetmm_ud_process_put(qp->dev, qp->process);
	qp->process = NULL;
}

/*
 * With librxe: lets the engine take the send requests that are posted now.  The receive requests
 * that the process has posted before them, to any of its queue pairs, go to the card first.  Other
 * senders of the process wait for as many turns of the engine as the process has queue pairs.
 */
void unetmm_ud_look(struct unetmm_ib_qp *qp)
{
	/* Pairs with unetmm_ud_join(). */
	struct unetmm_ud_process *process = smp_load_acquire(&qp->process);
	struct unetmm_ib_qp *other;
	u32 posted;

	if (!process || !unetmm_ib_queue_waits(&qp->sq))
		return;
	mutex_lock(&process->lock);
	posted = unetmm_ib_queue_posted(&qp->sq);
	list_for_each_entry(other, &process->qps, ud) {
		if (other == qp)
			continue;
		/* An engine that has just taken some has told the card when the lock is free. */
		mutex_lock(&other->lock);
		if (other->state != IB_QPS_ERR && unetmm_ib_receives_wait(other))
			unetmm_ib_run(other);
		mutex_unlock(&other->lock);
	}
	mutex_lock(&qp->lock);
	qp->send_end = posted;
	mutex_unlock(&qp->lock);
	mutex_unlock(&process->lock);
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
