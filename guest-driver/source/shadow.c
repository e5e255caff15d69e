// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: source `shadow`: the entries of the table, and the card's lock.
 *
 * The table has the resident pages and no others; no page is pinned, or held in
 * any other way.  Before a page is freed, the notifier takes its entry away, and waits
 * for the DMA that has it locked.
 *
 * AN ENTRY is one 64-bit word that both sides change by compare-and-swap:
 *
 *   0                     > VALID, rights, address        unetmm_shadow_set()
 *   VALID ...             > the same, one DMA more or less, DIRTY    the card
 *   VALID ...             > address, DMAs, DIRTY          shadow_take()
 *   address, DMAs, DIRTY  > the same, one DMA less                   the card
 *   address, no DMA       > 0, the page marked dirty      shadow_finish()
 *
 * All but the card's steps are under space->lock.  The driver never waits there:
 * a thread that finds a DMA under way releases the lock, and looks again.  A word that
 * is not 0 has its page in leaf->pages[], so that the first thread there can finish it.
 *
 * SET AGAINST TAKE is INSERT AGAINST INVALIDATE in docs/driver.rst: the pages of a
 * snapshot are entered only if no invalidation has begun or ended since.  And two
 * invalidations of one page each wait until its word is 0 or of a later set,
 * hence neither returns while the card has the page.
 *
 * A card that is gone, or was reset, does no DMA: its locked entries count as
 * unlocked (unetmm_reachable()).
 */
#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/log2.h>

#include "source/source.h"
#include "memory/memory.h"
#include "pager/pager.h"
#include "table/table.h"
#include "map/map.h"
#include "space/space.h"
#include "base/base.h"
#include "trace/trace.h"

#define UNETMM_PTE_RIGHTS	(UNETMM_PTE_VALID | UNETMM_PTE_READ | \
				 UNETMM_PTE_WRITE)
#define UNETMM_LOCK_LOOKS	64	/* then: is the card still there? */

static unsigned int unetmm_leaf_slot(unsigned long vpn)
{
	return vpn & (UNETMM_TABLE_ENTRIES - 1);
}

/* As cmpxchg(): returns the old word. */
static u64 unetmm_word_change(struct unetmm_leaf *leaf, unsigned int slot,
			      u64 old, u64 new)
{
	/* The same bits on either side of the bus. */
	u64 *word = (u64 __force *)&leaf->entries[slot];
	u64 was = cmpxchg64(word, (u64 __force)cpu_to_le64(old),
			    (u64 __force)cpu_to_le64(new));

	return le64_to_cpu((__le64 __force)was);
}

/* No new DMA begins.  Returns the word as it is now. */
static u64 unetmm_shadow_take(struct unetmm_leaf *leaf, unsigned int slot,
			      u64 word)
{
	u64 was;

	/* The card changes it a few times for each DMA: this ends. */
	for (;;) {
		was = unetmm_word_change(leaf, slot, word,
					 word & ~UNETMM_PTE_RIGHTS);
		if (was == word)
			return word & ~UNETMM_PTE_RIGHTS;
		word = was;
	}
}

/* No DMA is under way: the page is the system's. */
static void unetmm_shadow_finish(struct unetmm_aspace *space,
				 struct unetmm_leaf *leaf, unsigned int slot,
				 u64 word)
{
	unsigned long mapped = leaf->pages[slot];
	struct page *page = (struct page *)(mapped & ~UNETMM_LEAF_WRITE);

	lockdep_assert_held(&space->lock);
	/* Never the locking variant: the notifier's caller may have it locked. */
	if (word & UNETMM_PTE_DIRTY) {
		set_page_dirty(page);
		unetmm_count(space->dev, pages_dirtied);
	}
	unetmm_unmap_page(space->dev, word & UNETMM_PTE_ADDR,
			  mapped & UNETMM_LEAF_WRITE);
	leaf->pages[slot] = 0;
	leaf->used--;
	WRITE_ONCE(leaf->entries[slot], 0);
	unetmm_count(space->dev, shadow_cleared);
}

/*
 * Takes pages first..last of the leaf away as far as the card has none of them
 * locked.  Returns how many it still has.
 */
static u32 unetmm_shadow_clear(struct unetmm_aspace *space,
			       struct unetmm_leaf *leaf, unsigned int first,
			       unsigned int last, unsigned long *cleared)
{
	bool gone = !unetmm_reachable(space->dev);
	unsigned int slot;
	u32 locked = 0;
	u64 word;

	lockdep_assert_held(&space->lock);
	if (gone && leaf->used)
		unetmm_check_parted(space->dev);
	for (slot = first; leaf->used && slot <= last; slot++) {
		word = unetmm_leaf_word(leaf, slot);
		if (!word)
			continue;
		if (word & UNETMM_PTE_VALID) {
			word = unetmm_shadow_take(leaf, slot, word);
			++*cleared;
		}
		if (word & UNETMM_PTE_LOCKS && !gone)
			locked++;
		else
			unetmm_shadow_finish(space, leaf, slot, word);
	}
	return locked;
}

static void unetmm_shadow_waited(struct unetmm_dev *dev, u64 ns)
{
	u32 n = ns ? ilog2(ns) : 0;
	s64 max = atomic64_read(&dev->counters[UNETMM_D_shadow_wait_max_ns]);

	atomic64_inc(&dev->shadow_waits[min_t(u32, n,
					      UNETMM_SHADOW_BUCKETS - 1)]);
	unetmm_count_add(dev, shadow_wait_ns, ns);
	while (ns > max &&
	       !atomic64_try_cmpxchg(&dev->counters[UNETMM_D_shadow_wait_max_ns],
				     &max, ns))
		cpu_relax();
}

/*
 * The card has pages of this leaf locked, each for one page's DMA.  Neither
 * sleeps nor allocates, nor holds a lock.
 */
static void unetmm_shadow_wait(struct unetmm_aspace *space,
			       struct unetmm_leaf *leaf, unsigned int first,
			       unsigned int last, unsigned long *cleared)
{
	struct unetmm_dev *dev = space->dev;
	struct unetmm_patience patience;
	u64 start = ktime_get_ns();
	u32 looks = 0, locked;

	unetmm_count(dev, shadow_waits);
	unetmm_patience_begin(&patience);
	do {
		if (++looks % UNETMM_LOCK_LOOKS == 0 && unetmm_reachable(dev))
			unetmm_read(dev, UNETMM_REG_STATUS);
		/* A card that is given up has nothing locked: the next look ends it. */
		if (!unetmm_patient(&patience) && unetmm_reachable(dev)) {
			unetmm_count(dev, invalidate_timeouts);
			unetmm_fail(dev, "the card keeps a page locked");
		}
		udelay(1);
		spin_lock(&space->lock);
		locked = unetmm_shadow_clear(space, leaf, first, last, cleared);
		spin_unlock(&space->lock);
	} while (locked);
	start = ktime_get_ns() - start;
	unetmm_shadow_waited(dev, start);
	trace_unetmm_shadow_wait(space->id, start);
}

static unsigned long unetmm_shadow_drop(struct unetmm_aspace *space,
					unsigned long vpn, unsigned long last)
{
	unsigned long cleared = 0;
	struct unetmm_leaf *leaf;
	unsigned long end;
	u32 locked;

	while ((leaf = unetmm_table_leaf_from(space->table, &vpn, last))) {
		end = min(last, vpn | (UNETMM_TABLE_ENTRIES - 1));
		spin_lock(&space->lock);
		locked = unetmm_shadow_clear(space, leaf, unetmm_leaf_slot(vpn),
					     unetmm_leaf_slot(end), &cleared);
		spin_unlock(&space->lock);
		if (locked)
			unetmm_shadow_wait(space, leaf, unetmm_leaf_slot(vpn),
					   unetmm_leaf_slot(end), &cleared);
		vpn = end + 1;
		if (!vpn)
			break;
	}
	return cleared;
}

/* A page that is there for reading may now be written, too. */
static bool unetmm_shadow_upgrade(struct unetmm_aspace *space,
				  struct unetmm_leaf *leaf, unsigned int slot,
				  u64 word, u64 new)
{
	u64 dma = word & UNETMM_PTE_ADDR;

	/* With a DMA under way its old mapping is in use. */
	if (word & UNETMM_PTE_LOCKS ||
	    unetmm_word_change(leaf, slot, word,
			       new | (word & UNETMM_PTE_DIRTY)) != word)
		return false;
	unetmm_unmap_page(space->dev, dma, false);
	leaf->pages[slot] |= UNETMM_LEAF_WRITE;
	return true;
}

/* Of a page that has been mapped for the card.  False: it is not entered. */
static bool unetmm_shadow_enter(struct unetmm_aspace *space,
				struct unetmm_leaf *leaf, unsigned int slot,
				unsigned long mapped, dma_addr_t dma)
{
	u64 new = UNETMM_PTE_VALID | UNETMM_PTE_READ | (dma & UNETMM_PTE_ADDR);
	u64 word = unetmm_leaf_word(leaf, slot);

	if (mapped & UNETMM_LEAF_WRITE)
		new |= UNETMM_PTE_WRITE;
	if (word & UNETMM_PTE_VALID)
		return mapped == (leaf->pages[slot] | UNETMM_LEAF_WRITE) &&
		       mapped != leaf->pages[slot] &&
		       unetmm_shadow_upgrade(space, leaf, slot, word, new);
	/* Else it is being taken away, as something else. */
	if (word)
		return false;
	leaf->pages[slot] = mapped;
	leaf->used++;
	/* The card looks as soon as it is there; it does not change a 0. */
	dma_wmb();
	WRITE_ONCE(leaf->entries[slot], cpu_to_le64(new));
	unetmm_count(space->dev, shadow_set);
	return true;
}

static int unetmm_shadow_set(struct unetmm_aspace *space,
			     struct unetmm_batch *batch, unsigned long vpn,
			     u32 npages, unsigned long seq)
{
	struct unetmm_leaf *leaf = unetmm_table_leaf(space->table, vpn);
	unsigned long last = vpn + npages - 1;
	int ret = 0;
	u32 i;

	spin_lock(&space->lock);
	if (space->closing)
		ret = -ESTALE;
	else if (unetmm_space_raced(space, seq, vpn << PAGE_SHIFT,
				    last << PAGE_SHIFT | ~PAGE_MASK))
		ret = -EAGAIN;
	for (i = 0; !ret && i < npages; i++) {
		if (unetmm_snapshot_map(space, batch, i) &&
		    unetmm_shadow_enter(space, leaf, unetmm_leaf_slot(vpn + i),
					batch->pfns[i], batch->dma[i]))
			batch->pfns[i] = 0;
	}
	spin_unlock(&space->lock);
	if (!ret)
		unetmm_snapshot_unmap(space, batch, npages);
	return ret;
}

const struct unetmm_source unetmm_shadow_source = {
	.table = true,
	.stays = true,
	.open = unetmm_fill_open,
	.start = unetmm_fill_start,
	.stop = unetmm_fill_stop,
	.free = unetmm_fill_free,
	.drop = unetmm_shadow_drop,
	.rights_changed = unetmm_fill_again,
	.enter = unetmm_shadow_set,
	.resolve = unetmm_resolve_snapshot,
};
