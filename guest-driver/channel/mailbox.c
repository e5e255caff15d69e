// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the driver's own endpoint, number 0, over which control messages go.
 *
 * Its space 0 takes DMA addresses.  All of it is under ctl.lock.
 */
#include <linux/dma-mapping.h>
#include <linux/etherdevice.h>
#include <linux/io.h>
#include <linux/sched/mm.h>

#include "channel/channel.h"
#include "ep/ep.h"
#include "memory/memory.h"
#include "base/base.h"
#include "trace/trace.h"

#define UNETMM_MAILBOX_SQ_LOG2	7
#define UNETMM_MAILBOX_FQ_LOG2	6
#define UNETMM_MAILBOX_CQ_LOG2	8
#define UNETMM_MAILBOX_BUFS		BIT(UNETMM_MAILBOX_FQ_LOG2)
#define UNETMM_MAILBOX_BUF_BYTES	64
#define UNETMM_MAILBOX_TURN		64	/* completions before others get a chance */

/* A message is inline: the part that does not fit the descriptor is in a second slot. */
#define UNETMM_MAILBOX_SLOTS	2

static_assert(sizeof(struct unetmm_control) > UNETMM_SQE_INLINE);
static_assert(sizeof(struct unetmm_control_named) <=
	      UNETMM_SQE_INLINE + UNETMM_SLOT_BYTES);
static_assert(sizeof(struct unetmm_control_named) <= UNETMM_MAX_INLINE);
static_assert(sizeof(struct unetmm_control_named) <= UNETMM_MAILBOX_BUF_BYTES);

static void unetmm_mailbox_post(struct unetmm_ctl *ctl, u32 buf)
{
	struct unetmm_ep *ep = ctl->ep;
	struct unetmm_fqe *fqe = ep->block->cpu + ep->fq_offset;

	fqe += ctl->fq_prod & (UNETMM_MAILBOX_BUFS - 1);
	memset(fqe, 0, sizeof(*fqe));
	fqe->addr = cpu_to_le64(ctl->bufs_dma + buf * UNETMM_MAILBOX_BUF_BYTES);
	fqe->len = cpu_to_le32(UNETMM_MAILBOX_BUF_BYTES);
	fqe->cookie = cpu_to_le64(buf);
	ctl->fq_prod++;
	/* The entry before the index that covers it. */
	dma_wmb();
	WRITE_ONCE(ep->index->user.fq_prod, cpu_to_le32(ctl->fq_prod));
}

static void unetmm_mailbox_ring(struct unetmm_dev *dev)
{
	if (unetmm_reachable(dev))
		writel(0, dev->doorbell);
}

static void *unetmm_mailbox_slot(const struct unetmm_ctl *ctl, u32 index)
{
	return ctl->ep->block->cpu + ctl->ep->sq_offset +
	       (index & (BIT(UNETMM_MAILBOX_SQ_LOG2) - 1)) * UNETMM_SLOT_BYTES;
}

/* The message may be longer than its head `msg`: `bytes` are all of it. */
static bool unetmm_mailbox_put(struct unetmm_dev *dev, const u8 *mac,
			       const struct unetmm_control *msg, u32 bytes)
{
	struct unetmm_ctl *ctl = dev->ctl;
	struct unetmm_ep *ep = ctl->ep;
	struct unetmm_sqe *sqe;
	u64 remote = 0;
	int i;

	lockdep_assert_held(&ctl->lock);
	if (!ep || ctl->sq_prod - le32_to_cpu(READ_ONCE(ep->index->card.sq_cons)) >
	    BIT(UNETMM_MAILBOX_SQ_LOG2) - UNETMM_MAILBOX_SLOTS)
		return false;
	for (i = ETH_ALEN - 1; i >= 0; i--)
		remote = remote << 8 | mac[i];
	sqe = unetmm_mailbox_slot(ctl, ctl->sq_prod);
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = UNETMM_OP_CONTROL;
	sqe->flags = UNETMM_SQE_F_INLINE | UNETMM_SQE_F_QUIET;
	sqe->inline_len = bytes;
	sqe->remote = cpu_to_le64(remote);
	memcpy(sqe->data, msg, UNETMM_SQE_INLINE);
	memcpy(unetmm_mailbox_slot(ctl, ctl->sq_prod + 1),
	       (const u8 *)msg + UNETMM_SQE_INLINE, bytes - UNETMM_SQE_INLINE);
	ctl->sq_prod += UNETMM_MAILBOX_SLOTS;
	/* The slots before the index that covers them. */
	dma_wmb();
	WRITE_ONCE(ep->index->user.sq_prod, cpu_to_le32(ctl->sq_prod));
	trace_unetmm_control(true, mac, msg->type, msg->status,
			     le16_to_cpu(msg->src_ep),
			     le16_to_cpu(msg->src_channel),
			     le16_to_cpu(msg->dst_ep),
			     le16_to_cpu(msg->dst_channel),
			     le64_to_cpu(msg->nonce));
	unetmm_mailbox_ring(dev);
	return true;
}

/*
 * Sends a control message, or drops it if the card is slow to send (false): the
 * asking side repeats its question.
 */
bool unetmm_mailbox_send(struct unetmm_dev *dev, const u8 *mac,
			 const struct unetmm_control *msg)
{
	return unetmm_mailbox_put(dev, mac, msg, sizeof(*msg));
}

bool unetmm_mailbox_send_named(struct unetmm_dev *dev, const u8 *mac,
			       const struct unetmm_control_named *msg)
{
	return unetmm_mailbox_put(dev, mac, &msg->head, sizeof(*msg));
}

/* Each type has one length. */
static bool unetmm_mailbox_whole(const struct unetmm_control_named *msg, u32 len)
{
	return len == (msg->head.type == UNETMM_CTL_PEER ? sizeof(*msg) :
							   sizeof(msg->head));
}

static void unetmm_mailbox_message(struct unetmm_dev *dev,
				   const struct unetmm_cqe *cqe, u32 buf)
{
	u64 source = le64_to_cpu(cqe->source);
	struct unetmm_control_named msg;
	u8 mac[ETH_ALEN];
	int i;

	for (i = 0; i < ETH_ALEN; i++)
		mac[i] = source >> (8 * i);
	memcpy(&msg, dev->ctl->bufs + buf * UNETMM_MAILBOX_BUF_BYTES, sizeof(msg));
	if (!unetmm_mailbox_whole(&msg, le32_to_cpu(cqe->len)) ||
	    !is_valid_ether_addr(mac)) {
		unetmm_count(dev, control_bad);
		return;
	}
	trace_unetmm_control(false, mac, msg.head.type, msg.head.status,
			     le16_to_cpu(msg.head.src_ep),
			     le16_to_cpu(msg.head.src_channel),
			     le16_to_cpu(msg.head.dst_ep),
			     le16_to_cpu(msg.head.dst_channel),
			     le64_to_cpu(msg.head.nonce));
	dev->ctl->got(dev, mac, &msg);
}

static void unetmm_mailbox_complete(struct unetmm_dev *dev,
				    const struct unetmm_cqe *cqe)
{
	u64 buf = le64_to_cpu(cqe->cookie);

	switch (cqe->opcode) {
	case UNETMM_CQE_CONTROL:
	case UNETMM_CQE_BUFFER:
		if (buf >= UNETMM_MAILBOX_BUFS)
			return;
		if (cqe->opcode == UNETMM_CQE_CONTROL)
			unetmm_mailbox_message(dev, cqe, buf);
		unetmm_mailbox_post(dev->ctl, buf);
		break;
	case UNETMM_CQE_FAILED:
		dev_warn(&dev->pdev->dev,
			 "the card stopped the control endpoint: no new channels until a reset\n");
		break;
	default:
		/* A send that failed, for want of a link: it is repeated. */
		break;
	}
}

void unetmm_mailbox_work(struct work_struct *work)
{
	struct unetmm_ctl *ctl = container_of(work, struct unetmm_ctl, work);
	struct unetmm_dev *dev = ctl->dev;
	const struct unetmm_cqe *cqe;
	u32 budget = UNETMM_MAILBOX_TURN;

	mutex_lock(&ctl->lock);
	if (!ctl->ep || !unetmm_reachable(dev))
		goto unlock;
	while (budget &&
	       (cqe = unetmm_ep_peek(ctl->ep, ctl->cq_cons))) {
		unetmm_mailbox_complete(dev, cqe);
		ctl->cq_cons++;
		budget--;
		unetmm_ep_cq_release(ctl->ep, ctl->cq_cons);
	}
	unetmm_mailbox_ring(dev);
	if (!budget || unetmm_ep_arm(ctl->ep, ctl->cq_cons))
		queue_work(unetmm_wq, &ctl->work);
unlock:
	mutex_unlock(&ctl->lock);
}

static int unetmm_mailbox_bufs(struct unetmm_dev *dev)
{
	struct unetmm_ctl *ctl = dev->ctl;
	u32 i;

	ctl->bufs = dma_alloc_coherent(&dev->pdev->dev, UNETMM_MAILBOX_BUFS *
				       UNETMM_MAILBOX_BUF_BYTES, &ctl->bufs_dma,
				       GFP_KERNEL);
	if (!ctl->bufs)
		return -ENOMEM;
	ctl->sq_prod = 0;
	ctl->fq_prod = 0;
	ctl->cq_cons = 0;
	for (i = 0; i < UNETMM_MAILBOX_BUFS; i++)
		unetmm_mailbox_post(ctl, i);
	return 0;
}

static void unetmm_mailbox_free(struct unetmm_dev *dev)
{
	struct unetmm_ctl *ctl = dev->ctl;

	if (ctl->bufs)
		dma_free_coherent(&dev->pdev->dev,
				  UNETMM_MAILBOX_BUFS * UNETMM_MAILBOX_BUF_BYTES,
				  ctl->bufs, ctl->bufs_dma);
	ctl->bufs = NULL;
	if (ctl->ep) {
		unetmm_ep_unpublish(ctl->ep);
		unetmm_ep_put(ctl->ep);
	}
	ctl->ep = NULL;
	ctl->hunt_left = 0;
}

int unetmm_mailbox_init(struct unetmm_dev *dev)
{
	struct unetmm_ctl *ctl = dev->ctl;
	struct unetmm_ep *ep;
	unsigned int flags;
	int ret;

	ret = unetmm_space_command(dev, 0, UNETMM_SOURCE_DIRECT, 0, 0);
	if (ret)
		return ret;
	ep = unetmm_ep_alloc(dev);
	if (!ep)
		return -ENOMEM;
	ep->sq_log2 = UNETMM_MAILBOX_SQ_LOG2;
	ep->fq_log2 = UNETMM_MAILBOX_FQ_LOG2;
	ep->cq_log2 = UNETMM_MAILBOX_CQ_LOG2;
	mutex_lock(&ctl->lock);
	/* A disk of verbs, whose queue pairs are made anew, may wait for the lock. */
	flags = memalloc_noio_save();
	ret = unetmm_ep_publish(dev, ep, 0);
	if (ret) {
		unetmm_ep_put(ep);
		goto unlock;
	}
	ctl->ep = ep;
	ret = unetmm_ep_layout(ep);
	if (!ret)
		ret = unetmm_mailbox_bufs(dev);
	if (!ret)
		ret = unetmm_ep_command(ep, UNETMM_POLICY_DROP, 0);
	if (ret)
		unetmm_mailbox_free(dev);
	else
		queue_work(unetmm_wq, &ctl->work);
unlock:
	memalloc_noio_restore(flags);
	mutex_unlock(&ctl->lock);
	return ret;
}

/* The card has been reset or is gone; the work has been cancelled. */
void unetmm_mailbox_exit(struct unetmm_dev *dev)
{
	mutex_lock(&dev->ctl->lock);
	unetmm_mailbox_free(dev);
	mutex_unlock(&dev->ctl->lock);
}
