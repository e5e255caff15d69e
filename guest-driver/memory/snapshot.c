// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: sources `shadow` and `odp`: resident pages are entered into the table.
 *
 * A snapshot is hmm_range_fault() told not to fault: it reads the page tables
 * under mmap_lock, and its result is valid as long as our notifier is not
 * called.  It wants a mmu_interval_notifier for two things, the mm and a sequence
 * to compare; a registered one would be called for each change of the whole
 * address space, as ours is already.  So it gets one that is on our stack and in
 * no list, and the sequence that counts is the space's.
 *
 * A miss takes a snapshot as well: pages come into page tables without a fault
 * (mremap, khugepaged, migration, swapoff, UFFDIO_COPY).  Only pages that are absent
 * after that are faulted in, like the misses of source `tlb`.
 */
#include <linux/dma-mapping.h>
#include <linux/hmm.h>
#include <linux/mmu_notifier.h>

#include "compat/compat.h"
#include "memory/memory.h"
#include "pager/pager.h"
#include "table/table.h"
#include "map/map.h"
#include "space/space.h"
#include "util/histogram.h"
#include "base/base.h"

/* As much as Linux maps around a fault of a file. */
#define UNETMM_AROUND		16

/*
 * 0, or why the page at vaddr will never be entered.  HMM says ERROR also where
 * no page is mapped or readable: the page-in finds the reason.
 */
static int unetmm_snapshot_lent(struct mm_struct *mm, u64 vaddr, unsigned long pfn)
{
	const struct vm_area_struct *vma = vma_lookup(mm, vaddr);

	if (!vma || !(vma->vm_flags & VM_READ) ||
	    vma->vm_flags & (VM_IO | VM_PFNMAP))
		return 0;
	return unetmm_secret(vma) || pfn & HMM_PFN_ERROR ? -EOPNOTSUPP : 0;
}

/* Takes out the pages of VMAs that are not lent. */
static void unetmm_snapshot_filter(struct mm_struct *mm, struct unetmm_batch *batch,
				   unsigned long start, unsigned long end)
{
	struct vm_area_struct *vma;
	unsigned long at = start;

	lockdep_assert_held(&mm->mmap_lock);
	while (at < end && (vma = find_vma(mm, at)) && vma->vm_start < end) {
		at = max(at, vma->vm_start);
		for (; unetmm_secret(vma) && at < min(end, vma->vm_end);
		     at += PAGE_SIZE)
			batch->pfns[(at - start) >> PAGE_SHIFT] = 0;
		at = vma->vm_end;
	}
}

/* Reads the page tables.  The pfns are HMM's. */
static int unetmm_snapshot_read(struct unetmm_aspace *space,
				struct unetmm_batch *batch, unsigned long vpn,
				u32 npages)
{
	struct mmu_interval_notifier unlisted = { .mm = space->mm };
	struct hmm_range range = {
		.notifier = &unlisted,
		.start = vpn << PAGE_SHIFT,
		.end = (vpn + npages) << PAGE_SHIFT,
		.hmm_pfns = batch->pfns,
		.dev_private_owner = space->dev,
	};
	int ret;

	lockdep_assert_held(&space->mm->mmap_lock);
	memset(batch->pfns, 0, npages * sizeof(batch->pfns[0]));
	ret = hmm_range_fault(&range);
	if (!ret)
		unetmm_snapshot_filter(space->mm, batch, range.start, range.end);
	return ret;
}

/* A page that HMM has found, as space->ops->enter wants it; 0: none. */
static unsigned long unetmm_snapshot_page(unsigned long pfn)
{
	if (!(pfn & HMM_PFN_VALID))
		return 0;
	return (unsigned long)hmm_pfn_to_page(pfn) |
	       (pfn & HMM_PFN_WRITE ? UNETMM_LEAF_WRITE : 0);
}

/*
 * Given up by MADV_FREE, for the kernel to take when it wants to; a hint.  Lent for
 * writing it would have to be kept.
 */
static bool unetmm_snapshot_given_up(unsigned long pfn)
{
	struct page *page = hmm_pfn_to_page(pfn);

	return PageAnon(page) && !folio_test_swapbacked(page_folio(page));
}

/*
 * Source odp: the requested pages, and no others.  A page that is lent for writing
 * counts as written, and a read-only page does not serve a miss for writing.
 */
static void unetmm_snapshot_narrow(struct unetmm_batch *batch, unsigned long vpn,
				   u32 npages)
{
	u32 i;

	for (i = 0; i < npages; i++) {
		if (!batch->write)
			batch->pfns[i] &= ~HMM_PFN_WRITE;
		else if (!(batch->pfns[i] & HMM_PFN_WRITE) ||
			 (vpn + i > batch->asked &&
			  unetmm_snapshot_given_up(batch->pfns[i])))
			batch->pfns[i] = 0;
	}
}

/*
 * Is it in the table as it was found, or with more rights?  A hint: the entry may
 * go meanwhile.
 */
static bool unetmm_snapshot_known(const struct unetmm_leaf *leaf, unsigned int slot,
				  unsigned long mapped)
{
	unsigned long known = READ_ONCE(leaf->pages[slot]);

	return (known == mapped || known == (mapped | UNETMM_LEAF_WRITE)) &&
	       READ_ONCE(leaf->entries[slot]) & cpu_to_le64(UNETMM_PTE_VALID);
}

/* Reduces batch->pfns to the pages that space->ops->enter() is to enter. */
static void unetmm_snapshot_pick(struct unetmm_aspace *space,
				 struct unetmm_batch *batch, unsigned long vpn,
				 u32 npages)
{
	struct unetmm_leaf *leaf = unetmm_table_leaf(space->table, vpn);
	unsigned long mapped;
	u32 i;

	for (i = 0; i < npages; i++) {
		mapped = unetmm_snapshot_page(batch->pfns[i]);
		batch->pfns[i] = 0;
		if (mapped &&
		    !unetmm_snapshot_known(leaf, (vpn + i) &
					   (UNETMM_TABLE_ENTRIES - 1), mapped))
			batch->pfns[i] = mapped;
	}
}

/*
 * Maps a page of a snapshot for the card.  The caller has found, and holds the lock
 * since, that nothing was invalidated: else the page might be anybody's.  False: it
 * is not mapped, and batch->pfns forgets it.
 */
bool unetmm_snapshot_map(struct unetmm_aspace *space, struct unetmm_batch *batch,
			 u32 i)
{
	unsigned long mapped = batch->pfns[i];
	int ret;

	lockdep_assert_held(&space->lock);
	if (!mapped)
		return false;
	ret = unetmm_map_page(space->dev,
			      (struct page *)(mapped & ~UNETMM_LEAF_WRITE),
			      mapped & UNETMM_LEAF_WRITE, &batch->dma[i]);
	if (!ret)
		return true;
	batch->pfns[i] = 0;
	if (i == batch->target)
		batch->target_err = ret;
	return false;
}

/* Those that were mapped and not entered. */
void unetmm_snapshot_unmap(struct unetmm_aspace *space, struct unetmm_batch *batch,
			   u32 npages)
{
	u32 i;

	for (i = 0; i < npages; i++) {
		if (batch->pfns[i])
			unetmm_unmap_page(space->dev, batch->dma[i],
					  batch->pfns[i] & UNETMM_LEAF_WRITE);
	}
}

static bool unetmm_snapshot_any(const struct unetmm_batch *batch, u32 npages)
{
	u32 i;

	for (i = 0; i < npages; i++) {
		if (batch->pfns[i] & HMM_PFN_VALID)
			return true;
	}
	return false;
}

/* The leaf that has the page; it is made if need be. */
static int unetmm_snapshot_grow(struct unetmm_aspace *space, unsigned long vpn,
				bool wait)
{
	u64 vaddr = (u64)vpn << PAGE_SHIFT;
	int ret;

	if (unetmm_table_leaf(space->table, vpn))
		return 0;
	ret = wait ? unetmm_table_grow(space, vaddr, vaddr) :
		     unetmm_table_try_grow(space, vaddr);
	return ret && ret != -EAGAIN ? -EDQUOT : ret;
}

/*
 * Snapshot of [vpn, last], in one leaf.  0: the resident pages there that may be
 * lent are in the table, or were a moment ago; else why `target` is not, or may
 * not be: -EAGAIN, memory is changing (or mmap_lock is taken, and `wait` is
 * not set); -EOPNOTSUPP; -EDQUOT; -ENOMEM; -ESTALE.  The caller holds mm_users,
 * and no lock.
 */
int unetmm_snapshot_enter(struct unetmm_aspace *space, struct unetmm_batch *batch,
			  unsigned long vpn, unsigned long last, unsigned long target,
			  bool wait)
{
	struct mm_struct *mm = space->mm;
	u32 npages = last - vpn + 1;
	unsigned long seq;
	u64 start;
	int ret;

	batch->target = target - vpn;
	batch->target_err = 0;
	unetmm_count(space->dev, shadow_snaps);
	seq = unetmm_space_seq(space);
	if (!unetmm_mmap_lock(space, wait))
		return -EAGAIN;
	ret = unetmm_snapshot_read(space, batch, vpn, npages);
	if (!ret)
		batch->target_err =
			unetmm_snapshot_lent(mm, (u64)target << PAGE_SHIFT,
					     batch->pfns[batch->target]);
	mmap_read_unlock(mm);
	batch->huge = !ret && hmm_pfn_to_map_order(batch->pfns[batch->target]) >=
			      UNETMM_TABLE_BITS;
	if (ret)
		return -EAGAIN;
	if (space->ops->asked_only)
		unetmm_snapshot_narrow(batch, vpn, npages);
	if (!unetmm_snapshot_any(batch, npages))
		return batch->target_err;
	ret = unetmm_snapshot_grow(space, vpn, wait);
	if (ret)
		return ret;
	unetmm_snapshot_pick(space, batch, vpn, npages);
	start = unetmm_stage_ns();
	ret = space->ops->enter(space, batch, vpn, npages, seq);
	batch->table_ns += unetmm_stage_since(start);
	if (ret == -EAGAIN)
		unetmm_count(space->dev, shadow_raced);
	return ret ? ret : batch->target_err;
}

/* The same, of all that a miss wants and Linux would map around it. */
static int unetmm_snapshot_miss(struct unetmm_aspace *space,
				struct unetmm_batch *batch,
				const struct unetmm_miss *miss, bool wait)
{
	unsigned long target = miss->vaddr >> PAGE_SHIFT;
	unsigned long vpn = round_down(target, UNETMM_AROUND);
	unsigned long last = round_up(target + miss->npages, UNETMM_AROUND) - 1;
	unsigned long end = vpn | (UNETMM_TABLE_ENTRIES - 1);
	int ret;

	ret = unetmm_snapshot_enter(space, batch, vpn, min(last, end), target, wait);
	if (!ret && batch->huge)
		unetmm_snapshot_enter(space, batch,
				      round_down(target, UNETMM_TABLE_ENTRIES), end,
				      target, wait);
	/* The rest is in the next leaf; another miss asks for more. */
	if (!ret && last > end)
		unetmm_snapshot_enter(space, batch, end + 1, last, end + 1, wait);
	return ret;
}

/*
 * Faults pages in as far as that needs no waiting.  0: look again; -EFAULT: the
 * process may not; -EOPNOTSUPP; -EINVAL.
 */
int unetmm_snapshot_touch(struct unetmm_aspace *space,
			  const struct unetmm_miss *miss)
{
	struct mm_struct *mm = space->mm;
	u32 npages = miss->npages;
	struct vm_area_struct *vma;
	int ret;

	if (!mmap_read_trylock(mm))
		return 0;
	vma = unetmm_usable_vma(mm, miss->vaddr, miss->write, &npages);
	ret = PTR_ERR_OR_ZERO(vma);
	if (!ret && miss->zero && !unetmm_zero_vma(mm, miss->vaddr))
		ret = -EINVAL;
	if (!ret && unetmm_secret(vma))
		ret = -EOPNOTSUPP;
	/* GUP never faults in a page that a userfaultfd watches (memory/pin.c). */
	if (!ret)
		npages = unetmm_faults_at_once(mm, vma, miss->vaddr, npages);
	if (!ret && npages)
		unetmm_get_remote(mm, miss->vaddr, npages, FOLL_NOWAIT |
				  (miss->write ? FOLL_WRITE : 0), NULL, NULL);
	mmap_read_unlock(mm);
	return ret;
}

static int unetmm_snapshot_resolve(struct unetmm_aspace *space,
				   const struct unetmm_miss *miss,
				   struct unetmm_batch *batch, int most)
{
	unsigned long vpn = miss->vaddr >> PAGE_SHIFT;
	int ret = -EAGAIN, tries;

	batch->write = true;
	for (tries = 0; tries <= most; tries++) {
		if (!unetmm_table_has(space, vpn, miss->write))
			ret = unetmm_snapshot_miss(space, batch, miss, false);
		if (unetmm_table_has(space, vpn, miss->write)) {
			unetmm_resolved(space, miss, batch);
			return 1;
		}
		if (ret && ret != -EAGAIN)
			return ret;
		if (ret == -EAGAIN) {
			unetmm_count(space->dev, faults_retried);
			continue;
		}
		if (tries)
			return 0;
		ret = unetmm_snapshot_touch(space, miss);
		if (ret)
			return ret;
	}
	return -EAGAIN;
}

/* The table stays until the put.  False: the space is being closed. */
bool unetmm_snapshot_get(struct unetmm_aspace *space)
{
	bool open;

	spin_lock(&space->lock);
	open = !space->closing;
	space->snapshot_users += open;
	spin_unlock(&space->lock);
	return open;
}

void unetmm_snapshot_put(struct unetmm_aspace *space)
{
	spin_lock(&space->lock);
	if (!--space->snapshot_users)
		wake_up_all(&space->idle);
	spin_unlock(&space->lock);
}

/* `closing` is set: nobody new comes. */
void unetmm_snapshot_settle(struct unetmm_aspace *space)
{
	wait_event(space->idle, !READ_ONCE(space->snapshot_users));
	/* The last one is still inside the lock when it wakes us. */
	spin_lock(&space->lock);
	spin_unlock(&space->lock);
}

/* A worker may come here when the space has just been closed. */
int unetmm_resolve_snapshot(struct unetmm_aspace *space,
			    const struct unetmm_miss *miss,
			    struct unetmm_batch *batch, int most)
{
	int ret;

	if (miss->vaddr >= space->mm->task_size)
		return -EFAULT;
	if (!unetmm_snapshot_get(space))
		return -ESTALE;
	ret = unetmm_snapshot_resolve(space, miss, batch, most);
	unetmm_snapshot_put(space);
	return ret;
}
