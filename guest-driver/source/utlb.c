// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: source `utlb`: the process chooses the pinned pages.
 *
 * Its library pins pages before it names them in descriptors, and unpins pages that
 * it has not used for long.  The pins are in the table that the card reads, like
 * registered memory, but page by page: there are no regions, and the tree
 * alone has the set of pinned pages.
 *
 * The notifier takes away pages and rights that the process gives up; changes that
 * Linux makes for itself take none (memory/lost_pins.c).  It writes such pages into a log that
 * the process maps, so that the library need not ask.  The log is a hint: where it is
 * late, the card's completion tells the library.
 *
 * A page of the log is ordinary memory.  The space and each mapping of it have a
 * reference.
 */
#include <linux/gfp.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "compat/compat.h"
#include "source/source.h"
#include "memory/memory.h"
#include "pager/pager.h"
#include "map/map.h"
#include "space/space.h"
#include "base/base.h"
#include "param/param.h"

static_assert(sizeof(struct unetmm_utlb_log) == PAGE_SIZE);

static int unetmm_utlb_open(struct unetmm_aspace *space)
{
	struct page *page;

	if (!unetmm_charge_all(space, 1))
		return -ENOMEM;
	page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!page) {
		unetmm_uncharge(space, 1);
		return -ENOMEM;
	}
	space->utlb_log = page_address(page);
	return 0;
}

/* With the space's last reference. */
static void unetmm_utlb_free(struct unetmm_aspace *space)
{
	if (!space->utlb_log)
		return;
	__free_page(virt_to_page(space->utlb_log));
	unetmm_uncharge(space, 1);
}

static void unetmm_utlb_answer(const struct unetmm_aspace *space,
			       struct unetmm_space *a)
{
	a->quota_pages = unetmm_param(space->dev, UNETMM_P_utlb_quota_pages);
	a->log_bytes = sizeof(*space->utlb_log);
	a->log_map = unetmm_map_utlb_log();
}

/* The notifier has dropped pages of [start, last].  Does not sleep. */
static void unetmm_utlb_lost(struct unetmm_aspace *space, unsigned long start,
			     unsigned long last, unsigned long npages)
{
	struct unetmm_utlb_log *log = space->utlb_log;
	struct unetmm_utlb_range *range;
	u64 seq;

	unetmm_count_add(space->dev, utlb_lost, npages);
	spin_lock(&space->lock);
	seq = log->seq;
	range = &log->ranges[(u32)(seq % UNETMM_UTLB_LOG_RANGES)];
	/* A reader of the old range sees that seq is about to pass it. */
	smp_wmb();
	WRITE_ONCE(range->start, start);
	WRITE_ONCE(range->last, last);
	/* Pairs with the reader's acquire. */
	smp_store_release(&log->seq, seq + 1);
	spin_unlock(&space->lock);
}

/* mmap_lock is held for writing. */
int unetmm_utlb_mmap(const struct unetmm_aspace *space,
		     struct vm_area_struct *vma)
{
	if (!space->utlb_log)
		return -ENOENT;
	if (!(vma->vm_flags & VM_SHARED) ||
	    vma->vm_flags & (VM_EXEC | VM_WRITE) ||
	    vma->vm_end - vma->vm_start != sizeof(*space->utlb_log))
		return -EINVAL;
	unetmm_vm_flags_mod(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP,
			    VM_MAYWRITE | VM_MAYEXEC);
	return vm_insert_page(vma, vma->vm_start,
			      virt_to_page(space->utlb_log));
}

/* Of [vpn, last], the pages at its start that need not be pinned. */
static u32 unetmm_utlb_known(struct unetmm_aspace *space, unsigned long vpn,
			     unsigned long last, bool write)
{
	struct unetmm_pin *pin;
	u32 n = 0;

	spin_lock(&space->lock);
	for (; vpn + n <= last; n++) {
		pin = unetmm_pin_first(space, vpn + n);
		if (!pin || pin->vpn != vpn + n || pin->lost ||
		    !(unetmm_pte(pin) &
		      (write ? UNETMM_PTE_WRITE : UNETMM_PTE_READ)))
			break;
	}
	spin_unlock(&space->lock);
	return n;
}

/*
 * ... and those, from vpn on, that have to be: none of them is pinned, or each
 * of them lacks the right.  -EDQUOT: there may be none more.
 */
static int unetmm_utlb_wanted(struct unetmm_aspace *space, unsigned long vpn,
			      unsigned long last)
{
	unsigned long quota = unetmm_param(space->dev,
					   UNETMM_P_utlb_quota_pages);
	unsigned long room, npages = last - vpn + 1;
	struct unetmm_pin *pin;

	spin_lock(&space->lock);
	pin = unetmm_pin_first(space, vpn);
	if (pin && pin->vpn == vpn) {
		/* The pin is replaced, and the quota does not change. */
		spin_unlock(&space->lock);
		return 1;
	}
	if (pin)
		npages = min(npages, pin->vpn - vpn);
	room = quota > space->npins ? quota - space->npins : 0;
	spin_unlock(&space->lock);
	if (!room)
		unetmm_count(space->dev, pin_limited);
	return room ? min(npages, room) : -EDQUOT;
}

/*
 * Pins a prefix of pages that are not pinned.  Resident memory, the usual case,
 * is not looked at twice.  Any invalidation in between spoils a try, also one of
 * other pages; the fewer pages the shorter it takes.
 */
static int unetmm_utlb_pin_some(struct unetmm_file *file,
				struct unetmm_batch *batch, u64 vaddr,
				u32 npages, bool write)
{
	int tries, ret, err;

	for (tries = 0; tries < UNETMM_PIN_TRIES; tries++) {
		npages = tries ? DIV_ROUND_UP(npages, 4) : npages;
		ret = unetmm_region_try(file, batch, vaddr, npages, write);
		if (ret != -EAGAIN)
			return ret;
		err = unetmm_page_in(file->space, vaddr, npages, write);
		if (fatal_signal_pending(current))
			return -EINTR;
		if (err)
			return err;
		/* The task that changes memory may need our processor to end it. */
		if (tries)
			schedule_timeout_killable(1);
	}
	return -EAGAIN;
}

static int unetmm_utlb_pin_run(struct unetmm_file *file,
			       struct unetmm_batch *batch,
			       struct unetmm_utlb *a)
{
	struct unetmm_aspace *space = file->space;
	unsigned long vpn = a->addr >> PAGE_SHIFT;
	unsigned long last = vpn + a->npages - 1;
	bool write = a->flags & UNETMM_REGION_WRITE;
	int ret;

	a->done = 0;
	for (;;) {
		a->done += unetmm_utlb_known(space, vpn + a->done, last, write);
		if (vpn + a->done > last)
			return 0;
		ret = unetmm_utlb_wanted(space, vpn + a->done, last);
		if (ret > 0)
			ret = unetmm_utlb_pin_some(file, batch,
						   (u64)(vpn + a->done) <<
						   PAGE_SHIFT, ret, write);
		if (ret < 0)
			return a->done ? 0 : ret;
		a->done += ret;
	}
}

/* The last page that may be pinned ahead behind vpn: of the same mapping. */
static unsigned long unetmm_utlb_edge(struct unetmm_aspace *space,
				      unsigned long vpn, u32 ahead, bool write)
{
	struct vm_area_struct *vma;
	u32 npages = ahead + 1;

	if (!unetmm_mmap_lock(space, false))
		return vpn;
	vma = unetmm_usable_vma(space->mm, (u64)vpn << PAGE_SHIFT, write,
				&npages);
	mmap_read_unlock(space->mm);
	return IS_ERR(vma) ? vpn : vpn + npages - 1;
}

/* Of [vpn, last], pages at its start that are pinned now; 0, -errno: none. */
static int unetmm_utlb_ahead_some(struct unetmm_file *file,
				  struct unetmm_batch *batch,
				  unsigned long vpn, unsigned long last,
				  bool write)
{
	int n = unetmm_utlb_known(file->space, vpn, last, write);

	if (n)
		return n;
	n = unetmm_utlb_wanted(file->space, vpn, last);
	return n < 0 ? n : unetmm_region_try(file, batch,
					     (u64)vpn << PAGE_SHIFT, n, write);
}

/*
 * Pages that no descriptor names yet: as far as they are mapped, and there is room.  The
 * caller does not learn of a failure.
 */
static void unetmm_utlb_pin_ahead(struct unetmm_file *file,
				  struct unetmm_batch *batch,
				  struct unetmm_utlb *a)
{
	unsigned long vpn = (a->addr >> PAGE_SHIFT) + a->npages, last;
	struct unetmm_aspace *space = file->space;
	bool write = a->flags & UNETMM_REGION_WRITE;
	int n;

	last = unetmm_utlb_edge(space, vpn - 1,
				min_t(u32, a->ahead, UNETMM_REPLY_MAX_PAGES -
				      a->npages), write);
	if (last < vpn ||
	    unetmm_region_grow(file, (u64)vpn << PAGE_SHIFT,
			       ((u64)last << PAGE_SHIFT) | ~PAGE_MASK))
		return;
	batch->mapped = true;
	do {
		n = unetmm_utlb_ahead_some(file, batch, vpn, last, write);
		a->done += max(n, 0);
		vpn += max(n, 0);
	} while (n > 0 && vpn <= last);
}

static int unetmm_utlb_check(struct unetmm_file *file,
			     const struct unetmm_utlb *a, u32 flags)
{
	u64 last;

	if (a->flags & ~flags || a->rsvd ||
	    file->space->ops != &unetmm_utlb_source)
		return -EOPNOTSUPP;
	if (!a->npages || offset_in_page(a->addr) ||
	    check_add_overflow(a->addr, ((u64)a->npages << PAGE_SHIFT) - 1,
			       &last) ||
	    last >= current->mm->task_size)
		return -EINVAL;
	unetmm_count(file->dev, utlb_calls);
	return 0;
}

int unetmm_op_utlb_pin(struct unetmm_file *file, void *arg)
{
	struct unetmm_utlb *a = arg;
	struct unetmm_batch *batch;
	int ret;

	ret = unetmm_utlb_check(file, a, UNETMM_REGION_WRITE);
	if (ret)
		return ret;
	a->npages = min_t(u32, a->npages, UNETMM_REPLY_MAX_PAGES);
	batch = kvzalloc(sizeof(*batch), GFP_KERNEL_ACCOUNT);
	if (!batch)
		return -ENOMEM;
	ret = mutex_lock_killable(&file->space->region_lock);
	if (ret)
		goto free;
	ret = unetmm_region_grow(file, a->addr, a->addr +
				 ((u64)a->npages << PAGE_SHIFT) - 1);
	if (!ret)
		ret = unetmm_utlb_pin_run(file, batch, a);
	if (!ret && a->done == a->npages && a->ahead)
		unetmm_utlb_pin_ahead(file, batch, a);
	mutex_unlock(&file->space->region_lock);
free:
	kvfree(batch);
	return ret;
}

int unetmm_op_utlb_unpin(struct unetmm_file *file, void *arg)
{
	struct unetmm_utlb *a = arg;
	struct unetmm_aspace *space;
	int ret;

	if (a->ahead)
		return -EOPNOTSUPP;
	ret = unetmm_utlb_check(file, a, 0);
	if (ret)
		return ret;
	space = file->space;
	ret = mutex_lock_killable(&space->region_lock);
	if (ret)
		return ret;
	down_read(&file->dev->rwsem);
	ret = file->dead ? -ENODEV : 0;
	if (!ret) {
		a->done = unetmm_space_drop(space, a->addr, a->addr +
					    ((u64)a->npages << PAGE_SHIFT) - 1);
		unetmm_pins_settle(space);
	}
	up_read(&file->dev->rwsem);
	mutex_unlock(&space->region_lock);
	return ret;
}

const struct unetmm_source unetmm_utlb_source = {
	.table = true,
	.pins = true,
	.keeps = true,
	.open = unetmm_utlb_open,
	.free = unetmm_utlb_free,
	.answer = unetmm_utlb_answer,
	.lost = unetmm_utlb_lost,
	.drop = unetmm_drop_pins,
};
