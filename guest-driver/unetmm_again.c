// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: sources `pinned` and `utlb`: pins that stay, whatever Linux does with the
 * memory for itself.
 *
 * The notifier tells of much that changes nothing for these sources: a page that is
 * pinned for long is not swapped, migrated or merged, and fork() gives the child
 * a copy of it.  But it is also how the driver learns of what the process gives up,
 * and the events do not say which of both it is.  So:
 *
 *   UNMAP             munmap(), mremap(), the OOM reaper: the pins go, at once.
 *   PROTECTION_PAGE,  fork(), writeback, soft-dirty bits: nothing.  A pinned page is
 *   SOFT_DIRTY        not shared with a child, and the driver says that it is dirty
 *                     when it is unpinned.
 *   PROTECTION_VMA    mprotect(): the pins stay, and their entries in the table give
 *                     the rights that the mapping has now, also when it gets back
 *                     what it has lost.
 *   CLEAR, others     the pins are LOST, and are looked for when the change is over.
 *                     A huge page becomes small ones, or could have become one;
 *                     compaction tried to move the page, KSM to merge it; or
 *                     madvise(MADV_DONTNEED) and truncation have taken it.
 *
 * A PIN THAT IS LOST stays in the tree, and keeps its page pinned: that is why
 * Linux, mostly, puts back what it has taken.  Its entry in the table is
 * PTE_CHANGING, by which who needs the page waits; the card looks again when the
 * page is invalidated once more:
 *
 *   pinned > lost    unetmm_again_lose(): entry, then INV
 *   lost   > pinned  unetmm_again_same(): the page is mapped there again: entry, INV
 *   lost   > pinned  unetmm_again_insert(), or whoever pins the page himself before
 *                    that (unetmm_region_insert()): entry, INV, another pin in its
 *                    place, which has its charge
 *   lost   > shut    unetmm_again_shut(): the mapping gives no right: entry 0, INV
 *   shut   > lost    unetmm_again_protect(): it gives one again: entry, INV
 *   lost   > gone    unetmm_again_give_up(), or whoever unpins or unmaps it
 *                    before that (unetmm_drop_pins()): entry, INV, no pin
 *
 * Each is one step under space->lock, but for the INV of those that hide entries
 * (inv_count is up then, and nothing is inserted).  So no entry is left PTE_CHANGING
 * without a pin that is on space->again, and none is there without the work that
 * ends it.  A pin that is shut is lost, and on no list.  One that is going
 * (unetmm_visit()) is left alone: its entry is 0 for good.
 *
 * A LOOK AGAINST INVALIDATE: the work reads the mapping's rights and the page tables
 * without space->lock, and applies the result later, under it.  pin->changed tells
 * whether the result is out of date: the work clears it before the look, each
 * invalidation of the page that makes the pin lost or changes its rights sets it, and
 * a step that finds it set does nothing.  While an invalidation of the page is in
 * progress the work does not look at all.  Invalidations of other pages do not matter.
 *
 * THE WORK DOES NOT FAULT PAGES IN: it pins only pages that are mapped (FOLL_NOFAULT).
 * A fault could wait for memory that the process has given up, or allocate a new page
 * in its place.  The exception is a page of a file that is still in the page cache:
 * Linux unmaps such pages even if they are pinned, so the work maps the page again
 * if that needs no waiting.
 */
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/userfaultfd_k.h>

#include "unetmm_compat.h"
#include "unetmm_drv.h"

/* Pins handled while space->lock is held once. */
#define UNETMM_AGAIN_CHUNK	256
/* Looks that found a page busy, before its pin is given up: some seconds. */
#define UNETMM_AGAIN_TRIES	20
/* Looks of one turn of the work. */
#define UNETMM_AGAIN_TURN	64

struct unetmm_run {
	unsigned long vpn;
	u32 npages;
	bool write;
	bool file;		/* pages that a file has: may be mapped again */
	u8 rights;		/* of the mapping, as of the look */
};

static struct unetmm_pin *unetmm_again_from(struct unetmm_aspace *space,
					    unsigned long vpn,
					    unsigned long last)
{
	struct unetmm_pin *pin = unetmm_pin_first(space, vpn);

	return pin && pin->vpn <= last ? pin : NULL;
}

/* ---- The notifier; at its rules ------------------------------------------- */

static void unetmm_pin_lose(struct unetmm_aspace *space, struct unetmm_pin *pin)
{
	pin->changed = true;
	/* Shut: the mapping gives no right, whatever is in it. */
	if (pin->going || (pin->lost && list_empty(&pin->again)))
		return;
	if (!pin->lost)
		list_add_tail(&pin->again, &space->again);
	pin->lost = true;
	unetmm_table_set(space->table, pin->vpn, UNETMM_PTE_CHANGING);
}

/* The mapping's rights have changed, or may have: they become the entry's. */
static void unetmm_pin_protect(struct unetmm_aspace *space,
			       struct unetmm_pin *pin, u8 rights)
{
	if (pin->going)
		return;
	/* Rights that the work has read before are of no use any more. */
	pin->changed = true;
	pin->rights = rights;
	if (!pin->lost) {
		unetmm_table_set(space->table, pin->vpn, unetmm_pte(pin));
	} else if (list_empty(&pin->again) && unetmm_pte(pin)) {
		list_add_tail(&pin->again, &space->again);
		unetmm_table_set(space->table, pin->vpn, UNETMM_PTE_CHANGING);
	}
}

static u8 unetmm_vma_rights(const struct vm_area_struct *vma)
{
	return vma ? vma->vm_flags & (VM_READ | VM_WRITE) : 0;
}

/* mmap_lock is held by who protects memory, for the VMA's flags are its. */
static u8 unetmm_rights_at(struct unetmm_aspace *space, unsigned long vpn,
			   struct vm_area_struct **vma)
{
	unsigned long addr = vpn << PAGE_SHIFT;

	if (!*vma || addr < (*vma)->vm_start || addr >= (*vma)->vm_end)
		*vma = vma_lookup(space->mm, addr);
	return unetmm_vma_rights(*vma);
}

static void unetmm_again_inv(struct unetmm_aspace *space, unsigned long vpn,
			     unsigned long last)
{
	unetmm_invalidate(space->dev, space->id, (u64)vpn << PAGE_SHIFT,
			  (u64)last << PAGE_SHIFT | ~PAGE_MASK);
}

/* What an invalidation does to the pins in its range. */
struct unetmm_change {
	bool protect;			/* other rights; else the pins are lost */
	struct vm_area_struct *vma;	/* of the last pin; protect */
	bool any;			/* the card is to be told */
	unsigned long less;		/* entries that give less than before */
};

static void unetmm_change_pin(struct unetmm_aspace *space,
			      struct unetmm_pin *pin,
			      struct unetmm_change *change)
{
	u64 before = unetmm_pte(pin);

	if (!change->protect) {
		unetmm_pin_lose(space, pin);
		change->any = true;
		return;
	}
	unetmm_pin_protect(space, pin,
			   unetmm_rights_at(space, pin->vpn, &change->vma));
	change->any = change->any || before != unetmm_pte(pin);
	change->less += (before & ~unetmm_pte(pin)) != 0;
}

/* In portions, so that space->lock is not held for long. */
static void unetmm_change_range(struct unetmm_aspace *space, unsigned long vpn,
				unsigned long last,
				struct unetmm_change *change)
{
	unsigned long at = vpn;
	struct unetmm_pin *pin;
	int i;

	do {
		spin_lock(&space->lock);
		for (i = 0; i < UNETMM_AGAIN_CHUNK; i++) {
			pin = at <= last ? unetmm_again_from(space, at, last) :
					   NULL;
			if (!pin)
				break;
			unetmm_change_pin(space, pin, change);
			at = pin->vpn + 1;
		}
		spin_unlock(&space->lock);
	} while (i == UNETMM_AGAIN_CHUNK);
	if (change->any)
		unetmm_again_inv(space, vpn, last);
}

/* inv_count is up: no pin is added, and no entry becomes valid meanwhile. */
void unetmm_again_lose(struct unetmm_aspace *space, unsigned long vpn,
		       unsigned long last)
{
	struct unetmm_change change = { .protect = false };

	unetmm_change_range(space, vpn, last, &change);
}

/*
 * The pins stay, with the rights of the mapping.  Returns how many entries give less
 * than before.
 */
unsigned long unetmm_again_protect(struct unetmm_aspace *space,
				   unsigned long vpn, unsigned long last)
{
	struct unetmm_change change = { .protect = true };

	unetmm_change_range(space, vpn, last, &change);
	return change.less;
}

/* ---- The work ------------------------------------------------------------ */

/* Reclaim unmaps a file's pages, also pinned ones; the file has them still. */
static bool unetmm_again_cached(const struct unetmm_pin *pin)
{
	return !PageAnon(pin->page) &&
	       READ_ONCE(page_folio(pin->page)->mapping);
}

static bool unetmm_again_changing(struct unetmm_aspace *space,
				  unsigned long vpn)
{
	return unetmm_space_changing(space, (u64)vpn << PAGE_SHIFT,
				     (u64)vpn << PAGE_SHIFT | ~PAGE_MASK);
}

/*
 * The next to be looked for; while its place is changing there is none.  A run ends
 * before a pin whose place is changing: that change is not over, so its pin->changed
 * is not taken back.
 */
static bool unetmm_again_next(struct unetmm_aspace *space,
			      struct unetmm_run *run, u32 most)
{
	struct unetmm_pin *pin;

	spin_lock(&space->lock);
	pin = list_first_entry_or_null(&space->again, struct unetmm_pin, again);
	if (!pin || space->closing ||
	    unetmm_again_changing(space, pin->vpn)) {
		spin_unlock(&space->lock);
		return false;
	}
	*run = (struct unetmm_run){ .vpn = pin->vpn, .npages = 1,
				    .write = pin->write,
				    .file = unetmm_again_cached(pin) };
	pin->changed = false;
	list_for_each_entry_continue(pin, &space->again, again) {
		if (run->npages >= most ||
		    pin->vpn != run->vpn + run->npages ||
		    pin->write != run->write ||
		    unetmm_again_cached(pin) != run->file ||
		    unetmm_again_changing(space, pin->vpn))
			break;
		pin->changed = false;
		run->npages++;
	}
	spin_unlock(&space->lock);
	/* The page tables are read after that, as in unetmm_space_seq(). */
	smp_rmb();
	return true;
}

/* The pin there, if what was seen since unetmm_again_next() is still so. */
static struct unetmm_pin *unetmm_again_ready(struct unetmm_aspace *space,
					     unsigned long vpn)
{
	struct unetmm_pin *pin = unetmm_again_from(space, vpn, vpn);

	if (!pin || !pin->lost || pin->changed || list_empty(&pin->again) ||
	    space->closing || unetmm_again_changing(space, vpn))
		return NULL;
	return pin;
}

/*
 * How to look at the run.  `fresh`: not for the page that was there, which has been
 * pinned with all its rights, but for another in its place.  -EFAULT: it is gone;
 * -EACCES: the mapping gives no right.
 */
static int unetmm_look_flags(struct unetmm_aspace *space,
			     struct vm_area_struct *vma, struct unetmm_run *run,
			     bool fresh, unsigned int *flags)
{
	bool armed;

	if (!vma || vma->vm_flags & (VM_IO | VM_PFNMAP))
		return -EFAULT;
	run->rights = unetmm_vma_rights(vma);
	if (!(run->rights & (run->write ? VM_READ | VM_WRITE : VM_READ)))
		return -EACCES;
	if (fresh && run->write && !(run->rights & VM_WRITE))
		return -EFAULT;
	*flags = FOLL_LONGTERM | FOLL_NOWAIT;
	if (!(run->rights & VM_READ) ||
	    (fresh && (run->write || unetmm_pin_copies(space, vma))))
		*flags |= FOLL_WRITE;
	armed = userfaultfd_armed(vma);
	if (armed && unetmm_gup_faults_always(vma))
		return -EFAULT;
	if (!run->file || fresh || armed)
		*flags |= FOLL_NOFAULT;
	/* Where FOLL_NOFAULT is not known. */
	if (!run->file && unetmm_gup_faults_always(vma))
		*flags |= FOLL_DUMP;
	return 0;
}

/*
 * Pins what is mapped of the run, a prefix.  Returns how many pages; 0: to be looked at
 * once more; or -errno, of the first.
 */
static long unetmm_look(struct unetmm_aspace *space, struct unetmm_run *run,
			struct page **pages, bool fresh)
{
	u64 vaddr = (u64)run->vpn << PAGE_SHIFT;
	struct mm_struct *mm = space->mm;
	struct vm_area_struct *vma;
	unsigned int flags = 0;
	long ret;

	if (!unetmm_snap_lock(space, true))
		return 0;
	vma = vma_lookup(mm, vaddr);
	ret = unetmm_look_flags(space, vma, run, fresh, &flags);
	if (vma)
		run->npages = min_t(u64, run->npages,
				    (vma->vm_end - vaddr) >> PAGE_SHIFT);
	if (!ret)
		ret = unetmm_pin_remote(mm, vaddr, run->npages, flags, pages);
	mmap_read_unlock(mm);
	return ret == -EAGAIN || ret == -ENOMEM || ret == -EBUSY ? 0 : ret;
}

/*
 * Where the mapping has the same page as before, the pin is lost no more: its entry
 * becomes valid again, with the rights that the mapping has now.
 */
static void unetmm_again_same(struct unetmm_aspace *space,
			      const struct unetmm_run *run,
			      struct page **pages, u32 npages)
{
	struct unetmm_pin *pin;
	bool any = false;
	u32 i;

	spin_lock(&space->lock);
	for (i = 0; i < npages; i++) {
		pin = unetmm_again_ready(space, run->vpn + i);
		if (!pin || pin->page != pages[i])
			continue;
		pin->lost = false;
		list_del_init(&pin->again);
		pin->rights = run->rights;
		unetmm_table_set(space->table, pin->vpn, unetmm_pte(pin));
		unetmm_count(space->dev, repins);
		any = true;
	}
	if (any)
		unetmm_again_inv(space, run->vpn, run->vpn + npages - 1);
	spin_unlock(&space->lock);
	unpin_user_pages(pages, npages);
}

/* The mapping has another page than before: a new pin, with the old one's charge. */
static void unetmm_again_insert(struct unetmm_aspace *space,
				struct unetmm_pin *new, u8 rights)
{
	struct unetmm_pin *pin;

	spin_lock(&space->lock);
	pin = unetmm_again_ready(space, new->vpn);
	if (pin) {
		new->rights = rights;
		new->charged = pin->charged;
		pin->charged = false;
		unetmm_table_set(space->table, new->vpn, unetmm_pte(new));
		unetmm_pin_drop(space, pin);
		unetmm_pin_add(space, new);
		unetmm_again_inv(space, new->vpn, new->vpn);
		queue_work(unetmm_drop_wq, &space->drop_work);
		unetmm_count(space->dev, repins);
	}
	spin_unlock(&space->lock);
	if (!pin)
		unetmm_pin_free(space, new);
}

/* The process does not have the pages any more, or they may not be pinned now. */
static void unetmm_again_give_up(struct unetmm_aspace *space,
				 const struct unetmm_run *run, u32 npages)
{
	unsigned long last = run->vpn + npages - 1, vpn, lost = 0;
	struct unetmm_pin *pin;

	spin_lock(&space->lock);
	for (vpn = run->vpn; vpn <= last; vpn++) {
		pin = unetmm_again_ready(space, vpn);
		if (!pin)
			continue;
		unetmm_table_set(space->table, vpn, 0);
		unetmm_pin_drop(space, pin);
		lost++;
	}
	if (lost) {
		unetmm_again_inv(space, run->vpn, last);
		queue_work(unetmm_drop_wq, &space->drop_work);
	}
	spin_unlock(&space->lock);
	if (lost && space->utlb_log)
		unetmm_utlb_lost(space, (u64)run->vpn << PAGE_SHIFT,
				 (u64)last << PAGE_SHIFT | ~PAGE_MASK, lost);
}

/*
 * The mapping gives no right, so the page tables do not tell which page is there: the
 * pins have no entry until the mapping gives a right again.
 */
static void unetmm_again_shut(struct unetmm_aspace *space,
			      const struct unetmm_run *run)
{
	unsigned long last = run->vpn + run->npages - 1, vpn, shut = 0;
	struct unetmm_pin *pin;

	spin_lock(&space->lock);
	for (vpn = run->vpn; vpn <= last; vpn++) {
		pin = unetmm_again_ready(space, vpn);
		if (!pin)
			continue;
		pin->rights = run->rights;
		list_del_init(&pin->again);
		unetmm_table_set(space->table, vpn, 0);
		shut++;
	}
	if (shut)
		unetmm_again_inv(space, run->vpn, last);
	spin_unlock(&space->lock);
	if (shut && space->utlb_log)
		unetmm_utlb_lost(space, (u64)run->vpn << PAGE_SHIFT,
				 (u64)last << PAGE_SHIFT | ~PAGE_MASK, shut);
}

/* The mapping has not the page that was pinned.  False: to be looked at once more. */
static bool unetmm_again_other(struct unetmm_aspace *space, unsigned long vpn,
			       bool write)
{
	struct unetmm_run run = { .vpn = vpn, .npages = 1, .write = write };
	struct unetmm_pin *new;
	struct page *page;
	long ret;

	ret = unetmm_look(space, &run, &page, true);
	if (!ret)
		return false;
	if (ret < 0) {
		unetmm_again_give_up(space, &run, 1);
		return true;
	}
	ret = unetmm_pin_make(space, vpn, page, write, &new);
	if (!ret) {
		unetmm_again_insert(space, new, run.rights);
		return true;
	}
	unpin_user_page(page);
	if (ret == -ENOMEM)
		return false;
	unetmm_again_give_up(space, &run, 1);
	return true;
}

/* The run's first page is gone.  Returns how many pages in a row are. */
static u32 unetmm_again_gone(struct unetmm_aspace *space,
			     const struct unetmm_run *run)
{
	struct unetmm_run next = *run;
	struct page *page;
	u32 gone;
	long ret;

	for (gone = 1; gone < run->npages; gone++) {
		next.vpn = run->vpn + gone;
		next.npages = 1;
		ret = unetmm_look(space, &next, &page, false);
		if (ret > 0)
			unpin_user_page(page);
		if (ret >= 0 || ret == -EACCES)
			break;
	}
	return gone;
}

/* False: all of it, or a part, is to be looked at once more. */
static bool unetmm_again_run(struct unetmm_aspace *space,
			     struct unetmm_run *run, struct page **pages)
{
	bool there, done = true;
	long i, n;

	n = unetmm_look(space, run, pages, false);
	if (n == -EACCES)
		unetmm_again_shut(space, run);
	else if (n < 0)
		unetmm_again_give_up(space, run, unetmm_again_gone(space, run));
	else if (n)
		unetmm_again_same(space, run, pages, n);
	for (i = 0; i < n; i++) {
		spin_lock(&space->lock);
		there = unetmm_again_ready(space, run->vpn + i);
		spin_unlock(&space->lock);
		if (there)
			done = unetmm_again_other(space, run->vpn + i,
						  run->write) && done;
	}
	return n && done;
}

void unetmm_again_work(struct work_struct *work)
{
	struct unetmm_aspace *space = container_of(work, struct unetmm_aspace,
						  again_work);
	struct page **pages, *one;
	struct unetmm_run run;
	int turn, tries = 0;
	u32 most;

	/* Without its memory all is dropped, what is lost as well. */
	if (!mmget_not_zero(space->mm))
		return;
	pages = kvmalloc_array(UNETMM_REPLY_MAX_PAGES, sizeof(*pages),
			       GFP_KERNEL);
	most = pages ? UNETMM_REPLY_MAX_PAGES : 1;
	for (turn = 0; unetmm_again_next(space, &run, most); turn++) {
		if (turn == UNETMM_AGAIN_TURN) {
			queue_work(unetmm_wq, &space->again_work);
			break;
		}
		if (unetmm_again_run(space, &run, pages ?: &one)) {
			tries = 0;
			cond_resched();
		} else if (++tries < UNETMM_AGAIN_TRIES) {
			schedule_timeout_uninterruptible(min_t(long, HZ / 4,
							       1L << tries));
		} else {
			unetmm_again_give_up(space, &run, 1);
			tries = 0;
		}
	}
	kvfree(pages);
	/* The last reference must not be given up here: it calls our notifier. */
	mmput_async(space->mm);
}
