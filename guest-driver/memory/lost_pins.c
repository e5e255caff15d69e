// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: sources `pinned` and `utlb`: pins that stay, whatever Linux does with the
 * memory for itself.
 *
 * The notifier tells of much that changes nothing for these sources: a page that is
 * pinned for long is not swapped, migrated or merged, and fork() gives the child
 * a copy of it.  But it is also how the driver learns that the process gives up memory,
 * and the events do not say which of both it is.  So:
 *
 *   UNMAP             munmap(), mremap(), the OOM reaper: the pins go, at once.
 *   PROTECTION_PAGE,  fork(), writeback, soft-dirty bits: nothing.  A pinned page is
 *   SOFT_DIRTY        not shared with a child, and the driver says that it is dirty
 *                     when it is unpinned.
 *   PROTECTION_VMA    mprotect(): the pins stay, and their entries in the table give
 *                     the rights that the mapping has now, also when it regains
 *                     lost rights.
 *   CLEAR, others     the pins are LOST, and are looked for when the change is over.
 *                     A huge page becomes small ones, or could have become one;
 *                     compaction tried to move the page, KSM to merge it; or
 *                     madvise(MADV_DONTNEED) and truncation have taken it.
 *
 * A PIN THAT IS LOST stays in the tree, and keeps its page pinned: that is why
 * Linux, mostly, maps the same page there again.  Its entry in the table is
 * PTE_CHANGING: the card waits if it needs the page, and looks again when the page is
 * invalidated once more:
 *
 *   pinned > lost    unetmm_lost_mark(): entry, then INV
 *   lost   > pinned  unetmm_lost_same(): the page is mapped there again: entry, INV
 *   lost   > pinned  unetmm_lost_insert(), or another pin of the page before
 *                    that (unetmm_region_insert()): entry, INV, another pin in its
 *                    place, which has its charge
 *   lost   > shut    unetmm_lost_shut(): the mapping gives no right: entry 0, INV
 *   shut   > lost    unetmm_lost_protect(): it gives one again: entry, INV
 *   lost   > gone    unetmm_lost_give_up(), or an unpin or unmap of the page
 *                    before that (unetmm_drop_pins()): entry, INV, no pin
 *
 * Each is one step under space->lock, but for the INV of those that hide entries
 * (inv_count is up then, and nothing is inserted).  So no entry is left PTE_CHANGING
 * without a pin that is on space->lost_pins, and none is there without the job that
 * ends it.  A pin that is shut is lost, and on no list.  One that is going
 * (unetmm_pins_visit()) is left alone: its entry stays 0.
 *
 * A LOOK AGAINST INVALIDATE: the job reads the mapping's rights and the page tables
 * without space->lock, and applies the result later, under it.  pin->changed tells
 * whether the result is out of date: the job clears it before the look, each
 * invalidation of the page that makes the pin lost or changes its rights sets it, and
 * a step that finds it set does nothing.  While an invalidation of the page is in
 * progress the job does not look at all, but RESTS until one has ended
 * (unetmm_lost_kick()).  Invalidations of other pages do not matter.
 *
 * THE JOB DOES NOT FAULT PAGES IN: it pins only pages that are mapped (FOLL_NOFAULT).
 * A fault could wait for memory that the process has given up, or allocate a new page
 * in its place.  The exception is a page of a file that is still in the page cache:
 * Linux unmaps such pages even if they are pinned, so the page is mapped again.  That
 * may take as long as the file system likes, which may be a process (FUSE reads ahead,
 * and waits for its daemon), so a worker of the pager does it asleep
 * (unetmm_lost_page_in()), with the pager's limits, and nobody waits for the worker.
 * A pin whose page does not come within UNETMM_LOST_PATIENCE is given up.
 *
 * A LOOK AGAINST A HOLE: a fault in a file that has lost its page fills the hole.
 * Truncation and MADV_REMOVE unmap all of the range first, so the look comes while
 * they take the pages from the page cache.  Both hold the lock of the inode for
 * writing.  So a page is mapped again only after it has been found, with that lock held
 * for reading, that the page cache has the page still: there the page stays until the
 * lock is released.  A write() holds the lock, too, for as long as the copy from the
 * writer's memory takes, so the worker that waits for it is one that is asleep, too.
 *
 *   - tmpfs and hugetlbfs, where holes are memory: the page is mapped before the lock is
 *     released.  Nothing is waited for with the lock held, or other processes that use
 *     the file would wait along: mmap_lock is only tried, and a fault of a page that is
 *     pinned, and not about to be taken from the file, waits for no other.
 *   - Other file systems: the lock is released before the fault, which may be long.  A
 *     hole that is begun in between may be filled, with a page that reads as the hole.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/userfaultfd_k.h>

#include "compat/compat.h"
#include "memory/memory.h"
#include "pager/pager.h"
#include "table/table.h"
#include "space/space.h"
#include "ring/ring.h"
#include "base/base.h"

/* Pins handled while space->lock is held once. */
#define UNETMM_LOST_CHUNK	256
/* How long a page, or its file, may be busy before its pin is given up. */
#define UNETMM_LOST_PATIENCE	(4 * HZ)
/* Looks before others of the space, or other spaces, have their turn. */
#define UNETMM_LOST_TURN	8

/* The job that looks for the lost pins of a space. */
struct unetmm_lost {
	struct unetmm_job job;
	unsigned long until;		/* a page that has not come then is given up */
	struct delayed_work late;	/* ends the job's sleep then */
};

struct unetmm_run {
	unsigned long vpn;
	u32 npages;
	bool write;
	bool file;		/* pages that a file has: may be mapped again */
	u8 rights;		/* of the mapping, as of the look */
	unsigned int flags;	/* of GUP: how to look */
	bool fault;		/* pages that are not mapped may be mapped again ... */
	bool absent;		/* ... by a worker that may sleep: the first is not */
};

static struct unetmm_pin *unetmm_lost_from(struct unetmm_aspace *space,
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
	if (pin->going || (pin->lost && list_empty(&pin->lost_node)))
		return;
	if (!pin->lost)
		list_add_tail(&pin->lost_node, &space->lost_pins);
	pin->lost = true;
	unetmm_table_set(space->table, pin->vpn, UNETMM_PTE_CHANGING);
}

/* The mapping's rights have changed, or may have: they become the entry's. */
static void unetmm_pin_protect(struct unetmm_aspace *space,
			       struct unetmm_pin *pin, u8 rights)
{
	if (pin->going)
		return;
	/* Rights that the job has read before are of no use any more. */
	pin->changed = true;
	pin->rights = rights;
	if (!pin->lost) {
		unetmm_table_set(space->table, pin->vpn, unetmm_pte(pin));
	} else if (list_empty(&pin->lost_node) && unetmm_pte(pin)) {
		list_add_tail(&pin->lost_node, &space->lost_pins);
		unetmm_table_set(space->table, pin->vpn, UNETMM_PTE_CHANGING);
	}
}

static u8 unetmm_vma_rights(const struct vm_area_struct *vma)
{
	return vma ? vma->vm_flags & (VM_READ | VM_WRITE) : 0;
}

/* mprotect() holds mmap_lock, which protects the VMA's flags. */
static u8 unetmm_rights_at(struct unetmm_aspace *space, unsigned long vpn,
			   struct vm_area_struct **vma)
{
	unsigned long addr = vpn << PAGE_SHIFT;

	if (!*vma || addr < (*vma)->vm_start || addr >= (*vma)->vm_end)
		*vma = vma_lookup(space->mm, addr);
	return unetmm_vma_rights(*vma);
}

static void unetmm_lost_inv(struct unetmm_aspace *space, unsigned long vpn,
			    unsigned long last)
{
	unetmm_invalidate(space->dev, space->id, (u64)vpn << PAGE_SHIFT,
			  (u64)last << PAGE_SHIFT | ~PAGE_MASK);
}

/* The effect of an invalidation on the pins in its range. */
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
		for (i = 0; i < UNETMM_LOST_CHUNK; i++) {
			pin = at <= last ? unetmm_lost_from(space, at, last) :
					   NULL;
			if (!pin)
				break;
			unetmm_change_pin(space, pin, change);
			at = pin->vpn + 1;
		}
		spin_unlock(&space->lock);
	} while (i == UNETMM_LOST_CHUNK);
	if (change->any)
		unetmm_lost_inv(space, vpn, last);
}

/* inv_count is up: no pin is added, and no entry becomes valid meanwhile. */
void unetmm_lost_mark(struct unetmm_aspace *space, unsigned long vpn,
		      unsigned long last)
{
	struct unetmm_change change = { .protect = false };

	unetmm_change_range(space, vpn, last, &change);
}

/*
 * The pins stay, with the rights of the mapping.  Returns how many entries give less
 * than before.
 */
unsigned long unetmm_lost_protect(struct unetmm_aspace *space,
				  unsigned long vpn, unsigned long last)
{
	struct unetmm_change change = { .protect = true };

	unetmm_change_range(space, vpn, last, &change);
	return change.less;
}

/* An invalidation has ended: the job skipped the lost pins in its range. */
void unetmm_lost_kick(struct unetmm_aspace *space)
{
	lockdep_assert_held(&space->lock);
	if (list_empty(&space->lost_pins) || !space->lost_rests)
		return;
	space->lost_rests = false;
	unetmm_job_kick(&space->lost->job);
}

/* ---- A look -------------------------------------------------------------- */

/* Reclaim unmaps a file's pages, also pinned ones; the file has them still. */
static bool unetmm_lost_cached(const struct unetmm_pin *pin)
{
	return !PageAnon(pin->page) &&
	       READ_ONCE(page_folio(pin->page)->mapping);
}

static bool unetmm_lost_changing(struct unetmm_aspace *space,
				 unsigned long vpn)
{
	return unetmm_space_changing(space, (u64)vpn << PAGE_SHIFT,
				     (u64)vpn << PAGE_SHIFT | ~PAGE_MASK);
}

/*
 * The next to be looked for; while its place is changing there is none, and the job
 * rests.  A run ends before a pin whose place is changing: that change is not over, so
 * its pin->changed is not taken back.
 */
static bool unetmm_lost_next(struct unetmm_aspace *space,
			     struct unetmm_run *run, u32 most)
{
	struct unetmm_pin *pin;

	spin_lock(&space->lock);
	pin = list_first_entry_or_null(&space->lost_pins, struct unetmm_pin,
				       lost_node);
	if (!pin || space->closing ||
	    unetmm_lost_changing(space, pin->vpn)) {
		space->lost_rests = true;
		spin_unlock(&space->lock);
		return false;
	}
	*run = (struct unetmm_run){ .vpn = pin->vpn, .npages = 1,
				    .write = pin->write,
				    .file = unetmm_lost_cached(pin) };
	pin->changed = false;
	list_for_each_entry_continue(pin, &space->lost_pins, lost_node) {
		if (run->npages >= most ||
		    pin->vpn != run->vpn + run->npages ||
		    pin->write != run->write ||
		    unetmm_lost_cached(pin) != run->file ||
		    unetmm_lost_changing(space, pin->vpn))
			break;
		pin->changed = false;
		run->npages++;
	}
	spin_unlock(&space->lock);
	/* The page tables are read after that, as in unetmm_space_seq(). */
	smp_rmb();
	return true;
}

/* The pin there, if nothing has changed since unetmm_lost_next(). */
static struct unetmm_pin *unetmm_lost_ready(struct unetmm_aspace *space,
					    unsigned long vpn)
{
	struct unetmm_pin *pin = unetmm_lost_from(space, vpn, vpn);

	if (!pin || !pin->lost || pin->changed || list_empty(&pin->lost_node) ||
	    space->closing || unetmm_lost_changing(space, vpn))
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
			     bool fresh)
{
	bool armed;

	if (!vma || vma->vm_flags & (VM_IO | VM_PFNMAP))
		return -EFAULT;
	run->rights = unetmm_vma_rights(vma);
	if (!(run->rights & (run->write ? VM_READ | VM_WRITE : VM_READ)))
		return -EACCES;
	if (fresh && run->write && !(run->rights & VM_WRITE))
		return -EFAULT;
	run->flags = FOLL_LONGTERM | FOLL_NOWAIT;
	if (!(run->rights & VM_READ) ||
	    (fresh && (run->write || unetmm_pin_copies(space, vma))))
		run->flags |= FOLL_WRITE;
	armed = userfaultfd_armed(vma);
	if (armed && unetmm_gup_faults_always(vma))
		return -EFAULT;
	run->fault = run->file && !fresh && !armed;
	return 0;
}

/* Of lost pages, those at the start that the file still has. */
static u32 unetmm_look_cached(struct unetmm_aspace *space, unsigned long vpn,
			      u32 npages, const struct address_space *mapping)
{
	struct unetmm_pin *pin;
	u32 n;

	spin_lock(&space->lock);
	for (n = 0; n < npages; n++) {
		pin = unetmm_lost_ready(space, vpn + n);
		if (!pin || PageAnon(pin->page) ||
		    READ_ONCE(page_folio(pin->page)->mapping) != mapping)
			break;
	}
	spin_unlock(&space->lock);
	return n;
}

/*
 * As GUP has no FOLL_NOFAULT there: pages that the file has are mapped, and no others, and
 * that waits for nothing with the inode's lock held.
 */
static long unetmm_look_hugetlb(struct unetmm_aspace *space,
				struct vm_area_struct *vma,
				struct unetmm_run *run, struct page **pages)
{
	struct address_space *mapping = vma->vm_file->f_mapping;
	u32 npages = run->npages;
	long ret = -EFAULT;

	if (!inode_trylock_shared(mapping->host)) {
		run->absent = run->fault;
		return 0;
	}
	if (run->fault)
		npages = unetmm_look_cached(space, run->vpn, npages, mapping);
	if (npages)
		/* FOLL_DUMP keeps to pages that the file has. */
		ret = unetmm_pin_remote(space->mm, (u64)run->vpn << PAGE_SHIFT,
					npages, run->flags |
					(run->fault ? 0 : FOLL_DUMP), pages);
	inode_unlock_shared(mapping->host);
	return ret;
}

static long unetmm_look_pages(struct unetmm_aspace *space,
			      struct vm_area_struct *vma,
			      struct unetmm_run *run, struct page **pages)
{
	long ret;

	if (unetmm_gup_faults_always(vma))
		return unetmm_look_hugetlb(space, vma, run, pages);
	ret = unetmm_pin_remote(space->mm, (u64)run->vpn << PAGE_SHIFT,
				run->npages, run->flags | FOLL_NOFAULT, pages);
	if (ret != -EFAULT || !run->fault ||
	    !unetmm_look_cached(space, run->vpn, 1, vma->vm_file->f_mapping))
		return ret;
	run->absent = true;
	return 0;
}

/*
 * Pins the first pages of the run, up to the first one that is not mapped.  Returns the
 * number of pages pinned, 0 if the caller is to try again later (run->absent: when the
 * first has been mapped again), or -errno of the first page.
 */
static long unetmm_look(struct unetmm_aspace *space, struct unetmm_run *run,
			struct page **pages, bool fresh)
{
	u64 vaddr = (u64)run->vpn << PAGE_SHIFT;
	struct mm_struct *mm = space->mm;
	struct vm_area_struct *vma;
	long ret;

	run->absent = false;
	if (!unetmm_mmap_lock(space, false))
		return 0;
	vma = vma_lookup(mm, vaddr);
	ret = unetmm_look_flags(space, vma, run, fresh);
	if (vma)
		run->npages = min_t(u64, run->npages,
				    (vma->vm_end - vaddr) >> PAGE_SHIFT);
	if (!ret)
		ret = unetmm_look_pages(space, vma, run, pages);
	mmap_read_unlock(mm);
	return ret == -EAGAIN || ret == -ENOMEM || ret == -EBUSY ? 0 : ret;
}

/* ---- The results of a look ------------------------------------------------ */

/*
 * Where the mapping has the same page as before, the pin is lost no more: its entry
 * becomes valid again, with the rights that the mapping has now.
 */
static void unetmm_lost_same(struct unetmm_aspace *space,
			     const struct unetmm_run *run,
			     struct page **pages, u32 npages)
{
	struct unetmm_pin *pin;
	bool any = false;
	u32 i;

	spin_lock(&space->lock);
	for (i = 0; i < npages; i++) {
		pin = unetmm_lost_ready(space, run->vpn + i);
		if (!pin || pin->page != pages[i])
			continue;
		pin->lost = false;
		list_del_init(&pin->lost_node);
		pin->rights = run->rights;
		unetmm_table_set(space->table, pin->vpn, unetmm_pte(pin));
		unetmm_count(space->dev, repins);
		any = true;
	}
	if (any)
		unetmm_lost_inv(space, run->vpn, run->vpn + npages - 1);
	spin_unlock(&space->lock);
	unpin_user_pages(pages, npages);
}

/* The mapping has another page than before: a new pin, with the old one's charge. */
static void unetmm_lost_insert(struct unetmm_aspace *space,
			       struct unetmm_pin *new, u8 rights)
{
	struct unetmm_pin *pin;

	spin_lock(&space->lock);
	pin = unetmm_lost_ready(space, new->vpn);
	if (pin) {
		new->rights = rights;
		new->charged = pin->charged;
		pin->charged = false;
		unetmm_table_set(space->table, new->vpn, unetmm_pte(new));
		unetmm_pin_drop(space, pin);
		unetmm_pin_add(space, new);
		unetmm_lost_inv(space, new->vpn, new->vpn);
		queue_work(unetmm_drop_wq, &space->drop_work);
		unetmm_count(space->dev, repins);
	}
	spin_unlock(&space->lock);
	if (!pin)
		unetmm_pin_free(space, new);
}

/* The process does not have the pages any more, or they may not be pinned now. */
static void unetmm_lost_give_up(struct unetmm_aspace *space,
				const struct unetmm_run *run, u32 npages)
{
	unsigned long last = run->vpn + npages - 1, vpn, lost = 0;
	struct unetmm_pin *pin;

	spin_lock(&space->lock);
	for (vpn = run->vpn; vpn <= last; vpn++) {
		pin = unetmm_lost_ready(space, vpn);
		if (!pin)
			continue;
		unetmm_table_set(space->table, vpn, 0);
		unetmm_pin_drop(space, pin);
		lost++;
	}
	if (lost) {
		unetmm_lost_inv(space, run->vpn, last);
		queue_work(unetmm_drop_wq, &space->drop_work);
	}
	spin_unlock(&space->lock);
	unetmm_space_lost(space, (u64)run->vpn << PAGE_SHIFT,
			  (u64)last << PAGE_SHIFT | ~PAGE_MASK, lost);
}

/*
 * The mapping gives no right, so the page tables do not tell which page is there: the
 * pins have no entry until the mapping gives a right again.
 */
static void unetmm_lost_shut(struct unetmm_aspace *space,
			     const struct unetmm_run *run)
{
	unsigned long last = run->vpn + run->npages - 1, vpn, shut = 0;
	struct unetmm_pin *pin;

	spin_lock(&space->lock);
	for (vpn = run->vpn; vpn <= last; vpn++) {
		pin = unetmm_lost_ready(space, vpn);
		if (!pin)
			continue;
		pin->rights = run->rights;
		list_del_init(&pin->lost_node);
		unetmm_table_set(space->table, vpn, 0);
		shut++;
	}
	if (shut)
		unetmm_lost_inv(space, run->vpn, last);
	spin_unlock(&space->lock);
	unetmm_space_lost(space, (u64)run->vpn << PAGE_SHIFT,
			  (u64)last << PAGE_SHIFT | ~PAGE_MASK, shut);
}

/*
 * The mapping has not the page that was pinned at `vpn` of a run.  False: to be looked
 * at once more.
 */
static bool unetmm_lost_other(struct unetmm_aspace *space, unsigned long vpn,
			      const struct unetmm_run *of)
{
	struct unetmm_run run = { .vpn = vpn, .npages = 1, .write = of->write };
	struct unetmm_pin *new;
	struct page *page;
	long ret;

	ret = unetmm_look(space, &run, &page, true);
	if (!ret)
		return false;
	if (ret < 0) {
		unetmm_lost_give_up(space, &run, 1);
		return true;
	}
	ret = unetmm_pin_make(space, vpn, page, run.write, &new);
	if (!ret) {
		unetmm_lost_insert(space, new, run.rights);
		return true;
	}
	unpin_user_page(page);
	if (ret == -ENOMEM)
		return false;
	unetmm_lost_give_up(space, &run, 1);
	return true;
}

/* The run's first page is gone.  Returns how many pages in a row are. */
static u32 unetmm_lost_gone(struct unetmm_aspace *space,
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

/* False: all of it, or a part, is to be looked at once more; see run->absent. */
static bool unetmm_lost_run(struct unetmm_aspace *space,
			    struct unetmm_run *run, struct page **pages)
{
	bool there, done = true;
	long i, n;

	n = unetmm_look(space, run, pages, false);
	if (n == -EACCES)
		unetmm_lost_shut(space, run);
	else if (n < 0)
		unetmm_lost_give_up(space, run, unetmm_lost_gone(space, run));
	else if (n)
		unetmm_lost_same(space, run, pages, n);
	for (i = 0; i < n; i++) {
		spin_lock(&space->lock);
		there = unetmm_lost_ready(space, run->vpn + i);
		spin_unlock(&space->lock);
		if (there)
			done = unetmm_lost_other(space, run->vpn + i, run) &&
			       done;
	}
	return n && done;
}

/* ---- A worker that may sleep: with the space, and without the job ----------------- */

/* The file that is mapped at the address; a reference. */
static struct file *unetmm_lost_file(struct mm_struct *mm, u64 vaddr)
{
	struct file *file = NULL;
	struct vm_area_struct *vma;

	if (mmap_read_lock_killable(mm))
		return NULL;
	vma = vma_lookup(mm, vaddr);
	if (vma && vma->vm_file)
		file = get_file(vma->vm_file);
	mmap_read_unlock(mm);
	return file;
}

/*
 * Takes the inode's lock and mmap_lock, both for reading.  While it waits for one of
 * them it does not hold the other.
 */
static int unetmm_lost_lock(struct mm_struct *mm, struct inode *inode)
{
	for (;;) {
		if (down_read_killable(&inode->i_rwsem))
			return -EINTR;
		if (mmap_read_trylock(mm))
			return 0;
		inode_unlock_shared(inode);
		if (mmap_read_lock_killable(mm))
			return -EINTR;
		mmap_read_unlock(mm);
	}
}

/*
 * Which of the pages may be mapped again; with both locks.  *at_once: those that can be
 * have been.
 */
static u32 unetmm_lost_there(struct unetmm_aspace *space,
			     const struct unetmm_page_in *want,
			     const struct address_space *mapping, bool *at_once)
{
	struct vm_area_struct *vma = vma_lookup(space->mm, want->vaddr);
	u32 npages = want->npages;

	*at_once = false;
	if (!vma || !vma->vm_file || vma->vm_file->f_mapping != mapping ||
	    userfaultfd_armed(vma))
		return 0;
	npages = min_t(u64, npages, (vma->vm_end - want->vaddr) >> PAGE_SHIFT);
	npages = unetmm_look_cached(space, want->vaddr >> PAGE_SHIFT, npages,
				    mapping);
	*at_once = unetmm_in_memory(vma);
	if (npages && *at_once)
		unetmm_get_remote(space->mm, want->vaddr, npages, FOLL_NOWAIT |
				  (want->write ? FOLL_WRITE : 0), NULL, NULL);
	return npages;
}

/*
 * Maps lost pages again that their file still has.  It may sleep for as long as others
 * like.  The caller holds mm_users and a reference to the space, which may be closed
 * meanwhile.  0: look whether they are mapped; or -errno of the first.
 */
static int unetmm_lost_page_in(struct unetmm_aspace *space,
			       const struct unetmm_page_in *want)
{
	struct file *file;
	bool at_once;
	u32 npages;
	int ret;

	unetmm_may_wait(space->dev);
	file = unetmm_lost_file(space->mm, want->vaddr);
	if (!file)
		return -EFAULT;
	ret = unetmm_lost_lock(space->mm, file->f_mapping->host);
	if (ret)
		goto put;
	npages = unetmm_lost_there(space, want, file->f_mapping, &at_once);
	mmap_read_unlock(space->mm);
	inode_unlock_shared(file->f_mapping->host);
	if (npages && !at_once)
		ret = unetmm_page_in_as_is(space, want->vaddr, npages,
					   want->write);
put:
	fput(file);
	return ret;
}

/* ---- The job ---------------------------------------------------------------- */

/* A look was in vain.  A page-in that was, too, is not begun again at once. */
static enum unetmm_job_next unetmm_lost_wait(struct unetmm_job *job,
					     const struct unetmm_run *run)
{
	struct unetmm_aspace *space = job->space;
	long left = space->lost->until - jiffies;

	if (!run->absent || job->paged)
		return UNETMM_JOB_DELAY;
	job->want = (struct unetmm_page_in) {
		.vaddr = (u64)run->vpn << PAGE_SHIFT,
		.npages = run->npages,
		.write = !(run->rights & VM_READ),
		.how = unetmm_lost_page_in,
	};
	mod_delayed_work(unetmm_wq, &space->lost->late, max(left, 1L));
	return UNETMM_JOB_PAGE;
}

static enum unetmm_job_next unetmm_lost_serve(struct unetmm_job *job,
					      struct unetmm_batch *batch)
{
	struct unetmm_aspace *space = job->space;
	struct unetmm_run run;
	int i;

	for (i = 0; i < UNETMM_LOST_TURN; i++) {
		if (!unetmm_lost_next(space, &run, ARRAY_SIZE(batch->pages))) {
			space->lost->until = 0;
			return UNETMM_JOB_DONE;
		}
		/* 0: the first look after a rest, or after one that was not in vain. */
		if (!space->lost->until)
			space->lost->until = (jiffies + UNETMM_LOST_PATIENCE) | 1;
		if (!unetmm_lost_run(space, &run, batch->pages)) {
			if (time_before(jiffies, space->lost->until))
				return unetmm_lost_wait(job, &run);
			unetmm_lost_give_up(space, &run, 1);
		}
		space->lost->until = 0;
	}
	return UNETMM_JOB_AGAIN;
}

/* Its pins are dropped with all others of the process. */
static void unetmm_lost_cancel(struct unetmm_job *job)
{
}

static const struct unetmm_job_ops unetmm_lost_ops = {
	.serve = unetmm_lost_serve,
	.cancel = unetmm_lost_cancel,
};

/* The page has been waited for long enough. */
static void unetmm_lost_late_work(struct work_struct *work)
{
	struct unetmm_lost *lost = container_of(to_delayed_work(work),
						struct unetmm_lost, late);

	unetmm_job_disturb(&lost->job);
}

int unetmm_lost_init(struct unetmm_aspace *space)
{
	struct unetmm_lost *lost = kzalloc(sizeof(*lost), GFP_KERNEL_ACCOUNT);

	if (!lost)
		return -ENOMEM;
	INIT_DELAYED_WORK(&lost->late, unetmm_lost_late_work);
	unetmm_job_init(&lost->job, space, &unetmm_lost_ops);
	space->lost = lost;
	space->lost_rests = true;
	return 0;
}

void unetmm_lost_free(struct unetmm_aspace *space)
{
	kfree(space->lost);
}

void unetmm_lost_close(struct unetmm_aspace *space)
{
	cancel_delayed_work_sync(&space->lost->late);
}
