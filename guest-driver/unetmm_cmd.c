// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: commands to the card and their completions.
 *
 * A command occupies a slot, whose number is its tag.  The card executes it in
 * the register write that posts it; its completion is normally there when that
 * returns.  Only EP_DESTROY may take longer, and only for the DMA in flight.
 * With half as many slots as the rings have entries, neither can overflow.
 */
#include <linux/delay.h>

#include "unetmm_drv.h"
#include "unetmm_trace.h"

#define UNETMM_CMD_TIMEOUT	(2 * HZ)

int unetmm_cmdq_init(struct unetmm_dev *dev)
{
	struct unetmm_cmdq *q = &dev->cmdq;
	int i, ret;

	sema_init(&q->free, UNETMM_CMD_SLOTS);
	spin_lock_init(&q->lock);
	bitmap_zero(q->used, UNETMM_CMD_SLOTS);
	q->waiting = 0;
	for (i = 0; i < UNETMM_CMD_SLOTS; i++)
		init_completion(&q->slots[i].done);
	ret = unetmm_ring_init(dev, &q->cmd, UNETMM_RING_CMD,
			       sizeof(struct unetmm_cmd), UNETMM_CMD_LOG2);
	if (ret)
		return ret;
	ret = unetmm_ring_init(dev, &q->done, UNETMM_RING_CMDC,
			       sizeof(struct unetmm_cmd_done), UNETMM_CMD_LOG2);
	if (ret)
		unetmm_ring_exit(dev, &q->cmd);
	return ret;
}

void unetmm_cmdq_exit(struct unetmm_dev *dev)
{
	unetmm_ring_exit(dev, &dev->cmdq.done);
	unetmm_ring_exit(dev, &dev->cmdq.cmd);
}

int unetmm_cmd_slot_get(struct unetmm_dev *dev)
{
	struct unetmm_cmdq *q = &dev->cmdq;
	unsigned long flags;
	int slot;

	down(&q->free);
	spin_lock_irqsave(&q->lock, flags);
	slot = find_first_zero_bit(q->used, UNETMM_CMD_SLOTS);
	__set_bit(slot, q->used);
	reinit_completion(&q->slots[slot].done);
	spin_unlock_irqrestore(&q->lock, flags);
	return slot;
}

void unetmm_cmd_slot_put(struct unetmm_dev *dev, int slot)
{
	struct unetmm_cmdq *q = &dev->cmdq;
	unsigned long flags;

	spin_lock_irqsave(&q->lock, flags);
	__clear_bit(slot, q->used);
	spin_unlock_irqrestore(&q->lock, flags);
	up(&q->free);
}

static void unetmm_cmd_reap(struct unetmm_dev *dev)
{
	struct unetmm_cmdq *q = &dev->cmdq;
	const struct unetmm_cmd_done *done;
	bool any = false;

	lockdep_assert_held(&q->lock);
	if (!unetmm_reachable(dev))
		return;
	while ((done = unetmm_ring_peek(&q->done))) {
		u16 tag = le16_to_cpu(done->tag);

		if (tag < UNETMM_CMD_SLOTS && test_bit(tag, q->used)) {
			q->slots[tag].status = done->status;
			q->slots[tag].result = le32_to_cpu(done->result);
			complete(&q->slots[tag].done);
		}
		q->done.index++;
		any = true;
	}
	if (any)
		unetmm_ring_release(dev, &q->done);
}

/* UNETMM_EVENT_CMD: a late completion. */
void unetmm_cmdq_event(struct unetmm_dev *dev)
{
	unsigned long flags;

	spin_lock_irqsave(&dev->cmdq.lock, flags);
	unetmm_cmd_reap(dev);
	spin_unlock_irqrestore(&dev->cmdq.lock, flags);
}

static int unetmm_cmd_post(struct unetmm_dev *dev, int slot,
			   struct unetmm_cmd *cmd)
{
	struct unetmm_cmdq *q = &dev->cmdq;
	unsigned long flags;
	int ret = -ENODEV;

	cmd->tag = cpu_to_le16(slot);
	spin_lock_irqsave(&q->lock, flags);
	if (unetmm_reachable(dev)) {
		memcpy(unetmm_ring_slot(&q->cmd), cmd, sizeof(*cmd));
		q->cmd.index++;
		/* writel() orders the entry before the index. */
		unetmm_write(dev, q->cmd.regs + UNETMM_RING_PROD, q->cmd.index);
		unetmm_cmd_reap(dev);
		ret = 0;
	}
	spin_unlock_irqrestore(&q->lock, flags);
	unetmm_count(dev, commands);
	return ret;
}

static int unetmm_cmd_errno(u8 status)
{
	switch (status) {
	case UNETMM_CS_OK:
	case UNETMM_CS_PARTIAL:
		return 0;
	case UNETMM_CS_STALE:
		return -ESTALE;
	case UNETMM_CS_BAD_ID:
		return -ENOENT;
	case UNETMM_CS_EXISTS:
		return -EEXIST;
	case UNETMM_CS_BUSY:
		return -EBUSY;
	case UNETMM_CS_BAD_ARG:
		return -EINVAL;
	case UNETMM_CS_FULL:
		return -ENOSPC;
	default:
		return -EIO;
	}
}

static int unetmm_cmd_finish(struct unetmm_dev *dev, int slot,
			     const struct unetmm_cmd *cmd, bool done,
			     u32 *result)
{
	struct unetmm_cmdq_slot *s = &dev->cmdq.slots[slot];

	if (!done) {
		if (!unetmm_reachable(dev))
			return -ENODEV;
		unetmm_count(dev, command_timeouts);
		unetmm_fail(dev, "a command does not complete");
		return -EIO;
	}
	trace_unetmm_command(cmd->opcode, le16_to_cpu(cmd->space),
			     le16_to_cpu(cmd->ep), s->status, s->result);
	if (result)
		*result = s->result;
	return unetmm_cmd_errno(s->status);
}

/*
 * Posts a command that the card never completes late, and waits spinning:
 * callable under space->lock.
 */
int unetmm_cmd_spin(struct unetmm_dev *dev, int slot, struct unetmm_cmd *cmd,
		    u32 *result)
{
	struct completion *done = &dev->cmdq.slots[slot].done;
	struct unetmm_patience patience;
	int ret;

	ret = unetmm_cmd_post(dev, slot, cmd);
	if (ret)
		return ret;
	unetmm_patience_begin(&patience);
	while (!completion_done(done) && unetmm_reachable(dev) &&
	       unetmm_patient(&patience)) {
		udelay(1);
		unetmm_cmdq_event(dev);
	}
	return unetmm_cmd_finish(dev, slot, cmd, completion_done(done), result);
}

/*
 * While somebody sleeps for a completion, EVENT_CMD interrupts.  Order: clear
 * the event, unmask it, look again, sleep.
 */
static void unetmm_cmd_arm(struct unetmm_dev *dev, int change)
{
	struct unetmm_cmdq *q = &dev->cmdq;
	unsigned long flags;
	u32 mask = UNETMM_EVENT_ALL & ~UNETMM_EVENT_CMD;

	spin_lock_irqsave(&q->lock, flags);
	q->waiting += change;
	if (q->waiting)
		mask |= UNETMM_EVENT_CMD;
	if (unetmm_reachable(dev)) {
		unetmm_write(dev, UNETMM_REG_EVENTS, UNETMM_EVENT_CMD);
		unetmm_write(dev, UNETMM_REG_EVENT_MASK, mask);
		unetmm_cmd_reap(dev);
	}
	spin_unlock_irqrestore(&q->lock, flags);
}

static bool unetmm_cmd_sleep(struct unetmm_dev *dev, int slot)
{
	struct completion *done = &dev->cmdq.slots[slot].done;
	unsigned long deadline = jiffies + UNETMM_CMD_TIMEOUT;
	bool ok;

	unetmm_cmd_arm(dev, 1);
	/* In pieces, so that a card that fails meanwhile is noticed. */
	do {
		ok = wait_for_completion_timeout(done, HZ / 20);
		unetmm_cmdq_event(dev);
		ok = ok || completion_done(done);
	} while (!ok && unetmm_reachable(dev) && time_before(jiffies, deadline));
	unetmm_cmd_arm(dev, -1);
	return ok;
}

/* Any command, from a context that may sleep.  0, or -errno of its status. */
int unetmm_cmd(struct unetmm_dev *dev, struct unetmm_cmd *cmd, u32 *result)
{
	int slot, ret;
	bool done;

	slot = unetmm_cmd_slot_get(dev);
	ret = unetmm_cmd_post(dev, slot, cmd);
	if (!ret) {
		done = completion_done(&dev->cmdq.slots[slot].done) ||
		       unetmm_cmd_sleep(dev, slot);
		ret = unetmm_cmd_finish(dev, slot, cmd, done, result);
	}
	unetmm_cmd_slot_put(dev, slot);
	return ret;
}
