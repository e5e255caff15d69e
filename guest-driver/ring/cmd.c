// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: commands to the card and their completions.
 *
 * A command occupies a slot, whose number is its tag.  The card executes it in
 * the register write that posts it; its completion is normally there when that
 * returns.  Only EP_DESTROY, REGION_CLEAR and REGION_REDIRECT may take longer, and
 * only for the DMA in flight.
 * Slots and completions whose places are not given back are fewer than the entries of
 * a ring, so neither ring can overflow (static_assert below).
 *
 * The answer to a miss of source tlb is posted with a spinlock held, and is the
 * command that the driver sends most often.  It has a slot of its own
 * (UNETMM_CMD_SPIN), which belongs to the holder of dev->rings->reply_lock: so no slot has to
 * be found for it, and no sleeper to be woken.
 *
 * INVALIDATE, which the notifier sends, has another (UNETMM_CMD_INV), of the holder of
 * dev->reg_lock.  It is one register write; the registers INV_* are six and a read.
 */
#include <linux/delay.h>

#include "ring/ring.h"
#include "base/base.h"
#include "trace/trace.h"

#define UNETMM_CMD_TIMEOUT	(2 * HZ)

/* Places of completions that the card gets back by one register write. */
#define UNETMM_CMD_HELD		16

static_assert(UNETMM_CMD_ALL + UNETMM_CMD_HELD <= BIT(UNETMM_CMD_LOG2));

int unetmm_cmdq_init(struct unetmm_dev *dev)
{
	struct unetmm_cmdq *q = &dev->rings->cmdq;
	int i, ret;

	sema_init(&q->free, UNETMM_CMD_SLOTS);
	spin_lock_init(&q->lock);
	bitmap_zero(q->used, UNETMM_CMD_ALL);
	__set_bit(UNETMM_CMD_SPIN, q->used);
	__set_bit(UNETMM_CMD_INV, q->used);
	q->inv_registers = false;
	q->waiting = 0;
	for (i = 0; i < UNETMM_CMD_ALL; i++)
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
	unetmm_ring_exit(dev, &dev->rings->cmdq.done);
	unetmm_ring_exit(dev, &dev->rings->cmdq.cmd);
}

static int unetmm_cmd_slot_get(struct unetmm_dev *dev)
{
	struct unetmm_cmdq *q = &dev->rings->cmdq;
	unsigned long flags;
	int slot;

	down(&q->free);
	spin_lock_irqsave(&q->lock, flags);
	slot = find_first_zero_bit(q->used, UNETMM_CMD_SLOTS);
	__set_bit(slot, q->used);
	reinit_completion(&q->slots[slot].done);
	q->slots[slot].ended = false;
	spin_unlock_irqrestore(&q->lock, flags);
	return slot;
}

static void unetmm_cmd_slot_put(struct unetmm_dev *dev, int slot)
{
	struct unetmm_cmdq *q = &dev->rings->cmdq;
	unsigned long flags;

	spin_lock_irqsave(&q->lock, flags);
	__clear_bit(slot, q->used);
	spin_unlock_irqrestore(&q->lock, flags);
	up(&q->free);
}

static void unetmm_cmd_reap(struct unetmm_dev *dev)
{
	struct unetmm_cmdq *q = &dev->rings->cmdq;
	const struct unetmm_cmd_done *done;

	lockdep_assert_held(&q->lock);
	if (!unetmm_reachable(dev))
		return;
	while ((done = unetmm_ring_peek(&q->done))) {
		u16 tag = le16_to_cpu(done->tag);

		if (tag < UNETMM_CMD_ALL && test_bit(tag, q->used)) {
			q->slots[tag].status = done->status;
			q->slots[tag].result = le32_to_cpu(done->result);
			/* Pairs with unetmm_cmd_ended(). */
			smp_store_release(&q->slots[tag].ended, true);
			if (tag < UNETMM_CMD_SLOTS)
				complete(&q->slots[tag].done);
		}
		q->done.index++;
	}
	/* There is room for those that are outstanding without these places. */
	if (unetmm_ring_held(&q->done) >= UNETMM_CMD_HELD)
		unetmm_ring_release(dev, &q->done);
}

/* UNETMM_EVENT_CMD: a late completion. */
void unetmm_cmdq_event(struct unetmm_dev *dev)
{
	unsigned long flags;

	spin_lock_irqsave(&dev->rings->cmdq.lock, flags);
	unetmm_cmd_reap(dev);
	spin_unlock_irqrestore(&dev->rings->cmdq.lock, flags);
}

static int unetmm_cmd_post(struct unetmm_dev *dev, int slot,
			   struct unetmm_cmd *cmd)
{
	struct unetmm_cmdq *q = &dev->rings->cmdq;
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

static bool unetmm_cmd_ended(struct unetmm_dev *dev, int slot)
{
	/* Pairs with unetmm_cmd_reap(). */
	return smp_load_acquire(&dev->rings->cmdq.slots[slot].ended);
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
	struct unetmm_cmdq_slot *s = &dev->rings->cmdq.slots[slot];

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
 * callable under space->lock.  The caller has dev->rings->reply_lock, and with it the slot.
 */
int unetmm_cmd_spin(struct unetmm_dev *dev, struct unetmm_cmd *cmd, u32 *result)
{
	struct unetmm_patience patience;
	int ret;

	lockdep_assert_held(&dev->rings->reply_lock);
	WRITE_ONCE(dev->rings->cmdq.slots[UNETMM_CMD_SPIN].ended, false);
	ret = unetmm_cmd_post(dev, UNETMM_CMD_SPIN, cmd);
	if (ret)
		return ret;
	if (likely(unetmm_cmd_ended(dev, UNETMM_CMD_SPIN)))
		return unetmm_cmd_finish(dev, UNETMM_CMD_SPIN, cmd, true, result);
	unetmm_patience_begin(&patience);
	do {
		udelay(1);
		unetmm_cmdq_event(dev);
	} while (!unetmm_cmd_ended(dev, UNETMM_CMD_SPIN) &&
		 unetmm_reachable(dev) && unetmm_patient(&patience));
	return unetmm_cmd_finish(dev, UNETMM_CMD_SPIN, cmd,
				 unetmm_cmd_ended(dev, UNETMM_CMD_SPIN), result);
}

/* False: to be done by the registers. */
static bool unetmm_cmd_invalidate(struct unetmm_dev *dev, u32 space, u64 start,
				  u64 last, bool *busy)
{
	struct unetmm_cmdq *q = &dev->rings->cmdq;
	struct unetmm_cmdq_slot *slot = &q->slots[UNETMM_CMD_INV];
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_INVALIDATE,
		.space = cpu_to_le16(space),
		.inv = {
			.start = cpu_to_le64(start),
			.last = cpu_to_le64(last),
		},
	};

	lockdep_assert_held(&dev->reg_lock);
	if (q->inv_registers)
		return false;
	WRITE_ONCE(slot->ended, false);
	if (!unetmm_cmd_post(dev, UNETMM_CMD_INV, &cmd) &&
	    unetmm_cmd_ended(dev, UNETMM_CMD_INV) &&
	    slot->status == UNETMM_CS_OK) {
		*busy = slot->result;
		return true;
	}
	/* The command's completion may still come: the slot is not used again. */
	q->inv_registers = true;
	return false;
}

/*
 * Makes the card drop the translations of [start, last] and waits until DMA
 * through them has ended.  Called from the notifier: sleeps not, allocates not.
 * The wait is for the page in flight only, since a transfer stalled on a fault
 * holds no translation; should it not end, the card loses the bus.
 */
void unetmm_invalidate(struct unetmm_dev *dev, u32 space, u64 start, u64 last)
{
	bool done = true, busy = true;

	spin_lock(&dev->reg_lock);
	if (unetmm_reachable(dev)) {
		if (!unetmm_cmd_invalidate(dev, space, start, last, &busy))
			unetmm_invalidate_registers(dev, space, start, last);
		done = !busy || unetmm_invalidate_wait(dev);
	}
	spin_unlock(&dev->reg_lock);
	if (!unetmm_reachable(dev))
		unetmm_check_parted(dev);
	trace_unetmm_invalidate(space, start, last, done);
	unetmm_count(dev, invalidations);
	if (!done) {
		unetmm_count(dev, invalidate_timeouts);
		unetmm_fail(dev, "an invalidation does not end");
	}
}

/*
 * While somebody sleeps for a completion, EVENT_CMD interrupts.  Order: clear
 * the event, unmask it, look again, sleep.
 */
static void unetmm_cmd_arm(struct unetmm_dev *dev, int change)
{
	struct unetmm_cmdq *q = &dev->rings->cmdq;
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
	struct completion *done = &dev->rings->cmdq.slots[slot].done;
	unsigned long deadline = jiffies + UNETMM_CMD_TIMEOUT;
	bool ok;

	unetmm_cmd_arm(dev, 1);
	/* In pieces, so that a card that fails meanwhile is noticed. */
	do {
		ok = wait_for_completion_timeout(done, HZ / 20);
		unetmm_cmdq_event(dev);
		ok = ok || unetmm_cmd_ended(dev, slot);
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
		done = unetmm_cmd_ended(dev, slot) || unetmm_cmd_sleep(dev, slot);
		ret = unetmm_cmd_finish(dev, slot, cmd, done, result);
	}
	unetmm_cmd_slot_put(dev, slot);
	return ret;
}
