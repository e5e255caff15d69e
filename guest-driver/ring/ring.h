/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: rings that the card and the driver share, and commands.
 */
#ifndef UNETMM_RING_H
#define UNETMM_RING_H

#include <linux/completion.h>
#include <linux/semaphore.h>

#include "base/base.h"

/* One ring shared with the card; `index` is ours and runs freely. */
struct unetmm_ring {
	void *mem;
	dma_addr_t dma;
	u32 entry_bytes;
	u32 log2;
	u32 index;
	u32 released;		/* index that the card has been told; rings that it fills */
	u32 regs;		/* offset of its register block */
};

#define UNETMM_CMD_SLOTS	32	/* outstanding; the rings hold twice that */
#define UNETMM_CMD_SPIN	UNETMM_CMD_SLOTS	/* one more: unetmm_cmd_spin()'s */
#define UNETMM_CMD_INV	(UNETMM_CMD_SLOTS + 1)	/* another: unetmm_invalidate()'s */
#define UNETMM_CMD_ALL	(UNETMM_CMD_SLOTS + 2)

struct unetmm_cmdq_slot {
	struct completion done;	/* of a slot that somebody sleeps for */
	bool ended;		/* written after the next two */
	u8 status;
	u32 result;
};

struct unetmm_cmdq {
	struct semaphore free;	/* slots that are free */
	spinlock_t lock;	/* all below; taken in the event interrupt */
	DECLARE_BITMAP(used, UNETMM_CMD_ALL);
	struct unetmm_cmdq_slot slots[UNETMM_CMD_ALL];
	struct unetmm_ring cmd;
	struct unetmm_ring done;
	u32 waiting;		/* threads that want EVENT_CMD to interrupt */
	bool inv_registers;	/* the card takes no INVALIDATE; dev->reg_lock */
};

/* dev->rings: there while the card runs. */
struct unetmm_rings {
	struct unetmm_cmdq cmdq;
	struct unetmm_ring fault;
	struct unetmm_ring notify;

	struct mutex reply_lock;	/* the list page, and slot UNETMM_CMD_SPIN */
	__le64 *reply_list;		/* of FAULT_REPLY */
	dma_addr_t reply_list_dma;
};

/*
 * Stands between the loads of an entry that the card wrote and the store of the index by which the
 * card gets the entry's place back: the card may overwrite the place as soon as it sees the index.
 * dma_rmb() orders loads before loads, dma_wmb() and writel() stores before stores; none of these
 * orders a load before a later store.
 */
static inline void unetmm_mb_before_release(void)
{
	dma_mb();
}

/* ring/ring.c */
int unetmm_ring_init(struct unetmm_dev *dev, struct unetmm_ring *ring,
		     u32 number, u32 entry_bytes, u32 log2);
void unetmm_ring_exit(struct unetmm_dev *dev, struct unetmm_ring *ring);
void *unetmm_ring_slot(const struct unetmm_ring *ring);
const void *unetmm_ring_peek(const struct unetmm_ring *ring);
void unetmm_ring_release(struct unetmm_dev *dev, struct unetmm_ring *ring);
void unetmm_ring_forget(struct unetmm_ring *ring);
/* Entries that were read, and whose places the card has not got back. */
static inline u32 unetmm_ring_held(const struct unetmm_ring *ring)
{
	return ring->index - ring->released;
}

/* ring/cmd.c */
int unetmm_cmdq_init(struct unetmm_dev *dev);
void unetmm_cmdq_exit(struct unetmm_dev *dev);
void unetmm_cmdq_event(struct unetmm_dev *dev);
int unetmm_cmd_spin(struct unetmm_dev *dev, struct unetmm_cmd *cmd, u32 *result);
void unetmm_invalidate(struct unetmm_dev *dev, u32 space, u64 start, u64 last);
int unetmm_cmd(struct unetmm_dev *dev, struct unetmm_cmd *cmd, u32 *result);

#endif /* UNETMM_RING_H */
