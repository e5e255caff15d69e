// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the four rings between driver and card.
 *
 * Indices run freely over 32 bits.  The card marks an entry that it has written
 * by the phase bit in its last word.
 */
#include <linux/dma-mapping.h>

#include "ring/ring.h"
#include "base/base.h"

int unetmm_ring_init(struct unetmm_dev *dev, struct unetmm_ring *ring,
		     u32 number, u32 entry_bytes, u32 log2)
{
	size_t bytes = (size_t)entry_bytes << log2;

	ring->mem = dma_alloc_coherent(&dev->pdev->dev, bytes, &ring->dma,
				       GFP_KERNEL);
	if (!ring->mem)
		return -ENOMEM;
	ring->entry_bytes = entry_bytes;
	ring->log2 = log2;
	ring->index = 0;
	ring->released = 0;
	ring->regs = UNETMM_REG_RING(number);
	unetmm_write(dev, ring->regs + UNETMM_RING_BASE_LO,
		     lower_32_bits(ring->dma));
	unetmm_write(dev, ring->regs + UNETMM_RING_BASE_HI,
		     upper_32_bits(ring->dma));
	unetmm_write(dev, ring->regs + UNETMM_RING_LOG2, log2);
	unetmm_write(dev, ring->regs + UNETMM_RING_ENABLE, 1);
	return 0;
}

/* The card has been reset, or is gone, before this: it is done with the ring. */
void unetmm_ring_exit(struct unetmm_dev *dev, struct unetmm_ring *ring)
{
	if (!ring->mem)
		return;
	dma_free_coherent(&dev->pdev->dev,
			  (size_t)ring->entry_bytes << ring->log2, ring->mem,
			  ring->dma);
	ring->mem = NULL;
}

/* The entry at our index. */
void *unetmm_ring_slot(const struct unetmm_ring *ring)
{
	u32 slot = ring->index & (BIT(ring->log2) - 1);

	return ring->mem + (size_t)slot * ring->entry_bytes;
}

/* The next entry that the card wrote, or NULL.  To be followed by ++index. */
const void *unetmm_ring_peek(const struct unetmm_ring *ring)
{
	const void *entry = unetmm_ring_slot(ring);
	const __le32 *last = entry + ring->entry_bytes - sizeof(*last);
	u32 phase = UNETMM_PHASE_OF(ring->index, ring->log2);

	if ((le32_to_cpu(READ_ONCE(*last)) & UNETMM_PHASE) != phase)
		return NULL;
	/* Pairs with the card's order: it writes the phase last. */
	dma_rmb();
	return entry;
}

/* Gives the places of the entries that were read back to the card. */
void unetmm_ring_release(struct unetmm_dev *dev, struct unetmm_ring *ring)
{
	ring->released = ring->index;
	unetmm_mb_before_release();
	unetmm_write(dev, ring->regs + UNETMM_RING_CONS, ring->index);
}

/* The same for a ring that the card has lost. */
void unetmm_ring_forget(struct unetmm_ring *ring)
{
	ring->released = ring->index;
}
