// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: source `odp`: a table that faults fill and invalidations empty.
 *
 * No page is pinned, or held in any other way.  The card keeps entries in its own
 * cache.  Before a page is freed, the notifier takes its entry away and has the card
 * drop it, which first lets the DMA under way end.
 *
 * AN ENTRY is one word, which the card only reads:
 *
 *   0                     > VALID, rights, address        unetmm_odp_put()
 *   VALID ...             > address                       unetmm_odp_hide()
 *   address               > 0, the page unmapped          unetmm_odp_finish()
 *
 * All under space->lock, and between the last two steps an INV of the card's that
 * began after the first of them.  From the first to the last the page is in
 * leaf->pages[], with UNETMM_LEAF_WRITE if the card may write it: then it counts
 * as written, since the card does not say.  So a page is lent for writing only when
 * the card asks for that.
 *
 * An invalidation that finds a word hidden by another one has the card drop it as
 * well, and may finish it: none returns while the card has the page.
 *
 * SET AGAINST TAKE is INSERT AGAINST INVALIDATE in docs/driver.rst.
 *
 * A MISS names all that its work request has left.  It is served as a whole: one
 * look at the page tables, one update of the table for each 512 pages, one answer.
 * Pages that are absent for the process, too, are faulted in before that, as far as
 * no thread has to wait; a worker of the pager does the rest (pager/pager.h), because
 * hmm_range_fault() would wait for I/O with mmap_lock held, and others with it.
 * Further segments of the work request come as reports of their own before the
 * miss: they are served in the same way, without an answer, and pages that need
 * waiting are left for a miss of their own.
 */
#include "source/source.h"
#include "memory/memory.h"
#include "pager/pager.h"
#include "table/table.h"
#include "map/map.h"
#include "space/space.h"
#include "util/histogram.h"
#include "util/watch.h"
#include "ring/ring.h"
#include "base/base.h"
#include "param/param.h"

/* ---- Entries: space->lock is held ---------------------------------------- */

/* No new DMA begins once the card has dropped it.  Were there any? */
static u32 unetmm_odp_hide(struct unetmm_aspace *space,
			   struct unetmm_leaf *leaf, unsigned int slot)
{
	u64 word = unetmm_leaf_word(leaf, slot);

	if (!leaf->pages[slot])
		return 0;
	WRITE_ONCE(leaf->entries[slot], cpu_to_le64(word & UNETMM_PTE_ADDR));
	return 1;
}

/* The card has dropped it: the page is the system's. */
static u32 unetmm_odp_finish(struct unetmm_aspace *space,
			     struct unetmm_leaf *leaf, unsigned int slot)
{
	u64 word = unetmm_leaf_word(leaf, slot);
	unsigned long mapped = leaf->pages[slot];

	if (!mapped || word & UNETMM_PTE_VALID)
		return 0;
	/* Never the locking variant: the notifier's caller may have it locked. */
	if (mapped & UNETMM_LEAF_WRITE) {
		set_page_dirty((struct page *)(mapped & ~UNETMM_LEAF_WRITE));
		unetmm_count(space->dev, pages_dirtied);
	}
	unetmm_unmap_page(space->dev, word, mapped & UNETMM_LEAF_WRITE);
	leaf->pages[slot] = 0;
	leaf->used--;
	WRITE_ONCE(leaf->entries[slot], 0);
	unetmm_count(space->dev, odp_cleared);
	return 1;
}

/* Of a page that has been mapped for the card.  False: it is not entered. */
static bool unetmm_odp_put(struct unetmm_leaf *leaf, unsigned int slot,
			   unsigned long mapped, dma_addr_t dma)
{
	u64 new = UNETMM_PTE_VALID | UNETMM_PTE_READ | (dma & UNETMM_PTE_ADDR);

	/* As it was found, or better; or it is being taken away. */
	if (leaf->pages[slot])
		return false;
	if (mapped & UNETMM_LEAF_WRITE)
		new |= UNETMM_PTE_WRITE;
	leaf->pages[slot] = mapped;
	leaf->used++;
	/* The card looks as soon as it is there. */
	dma_wmb();
	WRITE_ONCE(leaf->entries[slot], cpu_to_le64(new));
	return true;
}

/*
 * Pages that the card has for reading make place for the same ones, mapped for
 * writing.
 */
static void unetmm_odp_upgrade(struct unetmm_aspace *space,
			       struct unetmm_leaf *leaf,
			       const struct unetmm_batch *batch,
			       unsigned long vpn, u32 npages)
{
	unsigned int slot, base = vpn & (UNETMM_TABLE_ENTRIES - 1);
	u32 i, first = npages, last = 0, n = 0;

	for (i = 0; i < npages; i++) {
		slot = base + i;
		if (!(batch->pfns[i] & UNETMM_LEAF_WRITE) ||
		    !leaf->pages[slot] ||
		    leaf->pages[slot] & UNETMM_LEAF_WRITE)
			continue;
		n += unetmm_odp_hide(space, leaf, slot);
		first = min(first, i);
		last = i;
	}
	if (!n)
		return;
	unetmm_count_add(space->dev, odp_upgraded, n);
	unetmm_invalidate(space->dev, space->id,
			  (u64)(vpn + first) << PAGE_SHIFT,
			  (u64)(vpn + last) << PAGE_SHIFT | ~PAGE_MASK);
	for (i = first; i <= last; i++)
		unetmm_odp_finish(space, leaf, base + i);
}

/* ---- Pages of a snapshot, and pages that the notifier takes -------------- */

static int unetmm_odp_enter(struct unetmm_aspace *space,
			    struct unetmm_batch *batch, unsigned long vpn,
			    u32 npages, unsigned long seq)
{
	struct unetmm_leaf *leaf = unetmm_table_leaf(space->table, vpn);
	unsigned int first = vpn & (UNETMM_TABLE_ENTRIES - 1);
	unsigned long last = vpn + npages - 1;
	u32 i, set = 0;
	int ret = 0;

	spin_lock(&space->lock);
	if (space->closing)
		ret = -ESTALE;
	else if (unetmm_space_raced(space, seq, vpn << PAGE_SHIFT,
				    last << PAGE_SHIFT | ~PAGE_MASK))
		ret = -EAGAIN;
	else
		unetmm_odp_upgrade(space, leaf, batch, vpn, npages);
	for (i = 0; !ret && i < npages; i++) {
		if (unetmm_snapshot_map(space, batch, i) &&
		    unetmm_odp_put(leaf, first + i, batch->pfns[i],
				   batch->dma[i])) {
			batch->pfns[i] = 0;
			set++;
		}
	}
	spin_unlock(&space->lock);
	unetmm_count_add(space->dev, odp_set, set);
	if (!ret)
		unetmm_snapshot_unmap(space, batch, npages);
	return ret;
}

static u32 unetmm_odp_hide_page(struct unetmm_aspace *space, struct unetmm_leaf *leaf,
				unsigned long vpn)
{
	return unetmm_odp_hide(space, leaf, vpn & (UNETMM_TABLE_ENTRIES - 1));
}

/* Linux takes the page from the process. */
static u32 unetmm_odp_take_page(struct unetmm_aspace *space, struct unetmm_leaf *leaf,
				unsigned long vpn)
{
	u32 taken = unetmm_odp_finish(space, leaf, vpn & (UNETMM_TABLE_ENTRIES - 1));

	if (taken)
		unetmm_watch_count(&space->watches, UNETMM_WATCH_INVALIDATIONS, vpn, vpn);
	return taken;
}

static unsigned long unetmm_odp_visit(struct unetmm_aspace *space,
				      unsigned long vpn, unsigned long last,
				      u32 (*step)(struct unetmm_aspace *space,
						  struct unetmm_leaf *leaf,
						  unsigned long vpn))
{
	unsigned long n = 0, end;
	struct unetmm_leaf *leaf;

	while ((leaf = unetmm_table_leaf_from(space->table, &vpn, last))) {
		end = min(last, vpn | (UNETMM_TABLE_ENTRIES - 1));
		spin_lock(&space->lock);
		for (; leaf->used && vpn <= end; vpn++)
			n += step(space, leaf, vpn);
		spin_unlock(&space->lock);
		vpn = end + 1;
	}
	return n;
}

/* Pages that were never mapped cost a look at the table, and no command. */
static unsigned long unetmm_odp_drop(struct unetmm_aspace *space,
				     unsigned long vpn, unsigned long last)
{
	unsigned long n;
	u64 began_ns;

	/* Most is of memory that the card never uses: that reads no clock. */
	if (!unetmm_table_leaf_from(space->table, &vpn, last))
		return 0;
	began_ns = unetmm_stage_ns();
	n = unetmm_odp_visit(space, vpn, last, unetmm_odp_hide_page);
	if (!n)
		return 0;
	began_ns = unetmm_stages_inv(space->dev, UNETMM_ISTAGE_TABLE, began_ns);
	unetmm_invalidate(space->dev, space->id, (u64)vpn << PAGE_SHIFT,
			  (u64)last << PAGE_SHIFT | ~PAGE_MASK);
	began_ns = unetmm_stages_inv(space->dev, UNETMM_ISTAGE_CARD, began_ns);
	unetmm_odp_visit(space, vpn, last, unetmm_odp_take_page);
	unetmm_stages_inv(space->dev, UNETMM_ISTAGE_FREE, began_ns);
	return n;
}

/* ---- Misses -------------------------------------------------------------- */

/*
 * Enters the resident pages of a miss, and behind it.  0, or the reason why its
 * first page is not entered.
 */
static int unetmm_odp_snapshot(struct unetmm_aspace *space,
			       struct unetmm_batch *batch,
			       const struct unetmm_miss *miss)
{
	unsigned long vpn = miss->vaddr >> PAGE_SHIFT, at, end;
	unsigned long last = vpn + miss->npages - 1 +
			     min_t(u32, unetmm_param(space->dev,
						UNETMM_P_odp_prefetch),
				   UNETMM_MISS_MAX_PAGES);
	int ret, first = 0;

	last = min(last, (space->mm->task_size >> PAGE_SHIFT) - 1);
	batch->write = miss->write;
	batch->asked = vpn + miss->npages - 1;
	for (at = vpn; at <= last; at = end + 1) {
		end = min(last, at | (UNETMM_TABLE_ENTRIES - 1));
		ret = unetmm_snapshot_enter(space, batch, at, end, at, false);
		if (at == vpn)
			first = ret;
		/* The rest may be another miss's. */
		if (ret)
			break;
	}
	return first;
}

/* Faults in pages that the table lacks, unless that needs waiting. */
static int unetmm_odp_touch(struct unetmm_aspace *space,
			    const struct unetmm_miss *miss, u32 have)
{
	struct unetmm_miss rest = *miss;

	rest.vaddr += (u64)have << PAGE_SHIFT;
	rest.npages -= have;
	return unetmm_snapshot_touch(space, &rest);
}

/*
 * Attempts at a miss.  Returns how many of its pages the table has; 0: they need to
 * be paged in; or -errno.
 */
static int unetmm_odp_fill(struct unetmm_aspace *space,
			   const struct unetmm_miss *miss,
			   struct unetmm_batch *batch, int most)
{
	unsigned long vpn = miss->vaddr >> PAGE_SHIFT;
	bool touched = false;
	int ret = 0, tries;
	u32 have;

	have = unetmm_table_run(space, vpn, miss->npages, miss->write);
	for (tries = 0; tries <= most && have < miss->npages; tries++) {
		ret = unetmm_odp_snapshot(space, batch, miss);
		have = unetmm_table_run(space, vpn, miss->npages, miss->write);
		if (have == miss->npages)
			break;
		if (ret == -EAGAIN) {
			unetmm_count(space->dev, faults_retried);
			continue;
		}
		if (ret || touched)
			break;
		ret = unetmm_odp_touch(space, miss, have);
		touched = true;
		if (ret)
			break;
	}
	return have ? have : ret;
}

/* So many pages of the miss were entered. */
static void unetmm_odp_faulted(struct unetmm_aspace *space, const struct unetmm_miss *miss, u32 n)
{
	unsigned long vpn = miss->vaddr >> PAGE_SHIFT;

	spin_lock(&space->lock);
	unetmm_watch_count(&space->watches, UNETMM_WATCH_FAULTS, vpn, vpn + n - 1);
	spin_unlock(&space->lock);
}

/* A worker may come here when the space has just been closed. */
static int unetmm_odp_resolve(struct unetmm_aspace *space,
			      const struct unetmm_miss *miss,
			      struct unetmm_batch *batch, int most)
{
	int ret;

	if (miss->vaddr >= space->mm->task_size)
		return -EFAULT;
	if (!unetmm_snapshot_get(space))
		return -ESTALE;
	ret = unetmm_odp_fill(space, miss, batch, most);
	unetmm_snapshot_put(space);
	if (ret <= 0)
		return ret;
	unetmm_count_add(space->dev, odp_faulted, ret);
	unetmm_odp_faulted(space, miss, ret);
	unetmm_resolved(space, miss, batch);
	return 1;
}

static void unetmm_odp_ahead(struct unetmm_aspace *space,
			     const struct unetmm_miss *miss,
			     struct unetmm_batch *batch)
{
	int ret;

	if (unetmm_param(space->dev, UNETMM_P_odp_batch) <= 1 ||
	    miss->vaddr >= space->mm->task_size || !unetmm_snapshot_get(space))
		return;
	ret = unetmm_odp_fill(space, miss, batch, 1);
	unetmm_snapshot_put(space);
	if (ret > 0) {
		unetmm_count_add(space->dev, odp_ahead, ret);
		unetmm_odp_faulted(space, miss, ret);
	}
}

const struct unetmm_source unetmm_odp_source = {
	.table = true,
	.stays = true,
	.asked_only = true,
	.whole = true,
	.odp_batch = true,
	.stop = unetmm_snapshot_settle,
	.drop = unetmm_odp_drop,
	.enter = unetmm_odp_enter,
	.resolve = unetmm_odp_resolve,
	.ahead = unetmm_odp_ahead,
};
