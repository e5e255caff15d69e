// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: pages: charge, pin, map for DMA, and the way back.
 *
 * FOLL_LONGTERM is used in spite of the notifier: it moves pages out of CMA and
 * movable zones, makes Linux refuse memory that must not be written behind its back,
 * and makes fork() copy pinned pages early.  It is combined with FOLL_NOWAIT
 * and without `locked`, the one combination that 6.1 and 6.12 both allow for a
 * remote mm: 6.1 refuses FOLL_LONGTERM with `locked`, and without `locked` a
 * fault that must wait (I/O, userfaultfd) would sleep with mmap_lock held or be
 * refused.  With FOLL_NOWAIT such a fault returns 0 pages.  A thread that may sleep pages
 * in first, by unetmm_page_in(), which drops mmap_lock, and then pins.
 *
 * GUP never faults in memory that a userfaultfd watches.  While a userfaultfd
 * is being closed its faults are neither served nor refused, and GUP repeats
 * them with mmap_lock held, for which the close waits: Linux before 6.15 stays
 * there until the caller is killed, and a worker that serves never is.  So there GUP
 * takes mapped pages (FOLL_NOFAULT), and the rest is paged in by single faults
 * between which mmap_lock is free.  So it does where a fault may wait although it is told
 * not to: see unetmm_faults_at_once().
 */
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/iommu.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/userfaultfd_k.h>

#include "compat/compat.h"
#include "memory/memory.h"
#include "pager/pager.h"
#include "map/map.h"
#include "space/space.h"
#include "base/base.h"
#include "trace/trace.h"

/* Pins given up while space->lock is held once: for each the card may have to end a DMA. */
#define UNETMM_GIVE_CHUNK	16

static struct kmem_cache *unetmm_pin_cache;

int unetmm_pin_cache_init(void)
{
	unetmm_pin_cache = KMEM_CACHE(unetmm_pin, SLAB_ACCOUNT);
	return unetmm_pin_cache ? 0 : -ENOMEM;
}

void unetmm_pin_cache_exit(void)
{
	kmem_cache_destroy(unetmm_pin_cache);
}

/* The page is pinned, and not charged by it; sleeps. */
int unetmm_pin_make(struct unetmm_aspace *space, unsigned long vpn,
		    struct page *page, bool write, struct unetmm_pin **result)
{
	struct unetmm_pin *pin;
	int ret;

	pin = kmem_cache_zalloc(unetmm_pin_cache, GFP_KERNEL);
	if (!pin)
		return -ENOMEM;
	ret = unetmm_map_page(space->dev, page, write, &pin->dma);
	if (ret) {
		kmem_cache_free(unetmm_pin_cache, pin);
		return ret;
	}
	pin->vpn = vpn;
	pin->page = page;
	pin->write = write;
	pin->rights = VM_READ | VM_WRITE;
	INIT_LIST_HEAD(&pin->drop);
	INIT_LIST_HEAD(&pin->age);
	INIT_LIST_HEAD(&pin->lost_node);
	INIT_LIST_HEAD(&pin->uses);
	pin->entry.vpn = vpn;
	unetmm_pinned_add(space->dev, 1);
	trace_unetmm_pin(space->id, vpn, page_to_pfn(page), write);
	*result = pin;
	return 0;
}

/*
 * File systems want their pages locked when they are made dirty; anonymous pages have
 * no file that could be truncated.  False: the page is locked by somebody else.
 */
static bool unetmm_pin_set_dirty(struct unetmm_aspace *space,
				 struct unetmm_pin *pin)
{
	bool anon = PageAnon(pin->page);

	if (!anon && !trylock_page(pin->page))
		return false;
	set_page_dirty(pin->page);
	if (!anon)
		unlock_page(pin->page);
	pin->dirty = false;
	unetmm_count(space->dev, pages_dirtied);
	return true;
}

/* The card and the DMA API are through with it. */
static void unetmm_pin_end(struct unetmm_aspace *space, struct unetmm_pin *pin)
{
	unpin_user_page(pin->page);
	unetmm_pinned_sub(space->dev, 1);
	if (pin->charged)
		unetmm_uncharge(space, 1);
	kmem_cache_free(unetmm_pin_cache, pin);
}

/*
 * PAGES THAT STAY LOCKED
 *
 * How long a page of a file stays locked is the business of its file system, which
 * may be a process that does not answer (FUSE).  So nobody waits for the lock: a pin
 * whose page is to be made dirty, and is locked, goes to space->dirty_list, and stays
 * pinned and charged, until dirty_work, which looks from time to time, finds the page
 * unlocked.  The work needs neither the card nor the process: while the list is not
 * empty, the work has a reference to the space and one to the module.  So the card
 * can go, and the process end, before that; the module cannot.  The list has no more
 * pins than the process may have.  The work tries and never waits: it may be
 * flushed.
 */
#define UNETMM_DIRTY_PAUSE	(HZ / 20)
#define UNETMM_DIRTY_GRACE_MS	20

/* False: the module is being unloaded. */
static bool unetmm_dirty_later(struct unetmm_aspace *space,
			       struct unetmm_pin *pin)
{
	bool first;

	if (!try_module_get(THIS_MODULE))
		return false;
	spin_lock(&space->lock);
	first = !space->dirty_waits;
	space->dirty_waits = true;
	list_add_tail(&pin->drop, &space->dirty_list);
	if (first) {
		kref_get(&space->ref);
		queue_delayed_work(unetmm_drop_wq, &space->dirty_work,
				   UNETMM_DIRTY_PAUSE);
	}
	spin_unlock(&space->lock);
	if (!first)
		module_put(THIS_MODULE);
	return true;
}

/*
 * The place among the spaces of its user is free when the space is closed and has no
 * pins left: else a user could have the pins of any number of processes that are gone.
 */
void unetmm_space_unplace(struct unetmm_aspace *space)
{
	lockdep_assert_held(&space->lock);
	if (!space->placed || !space->closed || space->dirty_waits)
		return;
	space->placed = false;
	unetmm_user_give(space, UNETMM_USE_SPACES, 1);
}

void unetmm_dirty_work(struct work_struct *work)
{
	struct unetmm_aspace *space = container_of(to_delayed_work(work),
						   struct unetmm_aspace,
						   dirty_work);
	struct unetmm_pin *pin, *next;
	LIST_HEAD(pins);
	bool more;

	spin_lock(&space->lock);
	list_splice_init(&space->dirty_list, &pins);
	spin_unlock(&space->lock);
	list_for_each_entry_safe(pin, next, &pins, drop) {
		if (unetmm_pin_set_dirty(space, pin)) {
			list_del(&pin->drop);
			unetmm_pin_end(space, pin);
		}
		cond_resched();
	}
	spin_lock(&space->lock);
	list_splice(&pins, &space->dirty_list);
	more = !list_empty(&space->dirty_list);
	space->dirty_waits = more;
	unetmm_space_unplace(space);
	if (more)
		queue_delayed_work(unetmm_drop_wq, &space->dirty_work,
				   UNETMM_DIRTY_PAUSE);
	spin_unlock(&space->lock);
	if (more)
		return;
	unetmm_space_put(space);
	/* unetmm_exit() waits for this work to return. */
	module_put(THIS_MODULE);
}

/*
 * When this returns, all pins that were dropped before are unpinned and uncharged,
 * except those whose pages somebody else keeps locked.
 */
static void unetmm_pins_flush(struct unetmm_aspace *space)
{
	flush_work(&space->drop_work);
	flush_delayed_work(&space->dirty_work);
}

/*
 * The same for callers whose process may write the pages back next: Linux locks most
 * pages for a moment only, and one that is not dirty yet would be taken for written.
 * Not for those that others wait for.
 */
void unetmm_pins_settle(struct unetmm_aspace *space)
{
	int i;

	unetmm_pins_flush(space);
	for (i = 0; i < UNETMM_DIRTY_GRACE_MS; i++) {
		if (!READ_ONCE(space->dirty_waits) ||
		    !unetmm_reachable(space->dev))
			break;
		usleep_range(1000, 2000);
		flush_delayed_work(&space->dirty_work);
	}
}

/*
 * Unmaps, unpins, uncharges, at once or, if the page is locked, later.  The card has
 * dropped it.  The caller has a reference to the space.  Sleeps, but for no page.
 */
void unetmm_pin_free(struct unetmm_aspace *space, struct unetmm_pin *pin)
{
	might_sleep();
	unetmm_unmap_page(space->dev, pin->dma, pin->write);
	trace_unetmm_unpin(space->id, pin->vpn, page_to_pfn(pin->page),
			   pin->write);
	if (pin->dirty && !unetmm_pin_set_dirty(space, pin)) {
		if (unetmm_dirty_later(space, pin))
			return;
		/* Nobody has a file open: only the unloading of the module waits. */
		set_page_dirty_lock(pin->page);
		unetmm_count(space->dev, pages_dirtied);
	}
	unetmm_pin_end(space, pin);
}

void unetmm_unpin_batch(struct unetmm_aspace *space, struct unetmm_batch *batch,
			u32 from)
{
	u32 i;

	for (i = from; i < batch->count; i++)
		unetmm_pin_free(space, batch->pins[i]);
	batch->count = min(batch->count, from);
}

/* Pages that GUP gave become pins; those from the first that fails go back. */
static int unetmm_batch_fill(struct unetmm_aspace *space,
			     struct unetmm_batch *batch, u32 npages)
{
	unsigned long vpn = batch->vaddr >> PAGE_SHIFT;
	int ret = 0;
	u32 i;

	for (i = 0; i < npages; i++) {
		ret = unetmm_pin_make(space, vpn + i, batch->pages[i],
				      batch->write, &batch->pins[i]);
		if (ret)
			break;
		batch->pins[i]->charged = true;
	}
	batch->count = i;
	if (i < npages) {
		unpin_user_pages(&batch->pages[i], npages - i);
		unetmm_uncharge(space, npages - i);
	}
	return i ? i : ret;
}

/*
 * GUP has not faulted, and says EFAULT.  0: the page is not mapped as it is wanted, so
 * it is to be paged in; -EOPNOTSUPP: it is, and Linux does not lend it.  A private page
 * is mapped as it is wanted when it is the process's own, and then it is lent.
 */
static int unetmm_why_absent(struct mm_struct *mm, struct vm_area_struct *vma,
			     const struct unetmm_batch *batch)
{
	struct page *page;

	if (userfaultfd_armed(vma) || !(vma->vm_flags & VM_SHARED))
		return 0;
	if (unetmm_secret(vma))
		return -EOPNOTSUPP;
	if (unetmm_get_remote(mm, batch->vaddr, 1, FOLL_NOFAULT |
			      (batch->write ? FOLL_WRITE : 0), &page,
			      NULL) != 1)
		return 0;
	put_page(page);
	return -EOPNOTSUPP;
}

/* Pins pages that are mapped, or can be without waiting; the VMA has the rights wanted. */
static long unetmm_pin_vma(struct mm_struct *mm, struct vm_area_struct *vma,
			   struct unetmm_batch *batch, u32 npages,
			   unsigned int flags)
{
	u64 vaddr = batch->vaddr;
	long got, more;
	u32 n;

	got = unetmm_pin_remote(mm, vaddr, npages, flags | FOLL_NOFAULT,
				batch->pages);
	if (got < 0 && got != -EFAULT)
		return unetmm_why_refused(mm, vaddr, got);
	n = max(got, 0L);
	if (n == npages || batch->mapped)
		return n;
	vaddr += (u64)n * PAGE_SIZE;
	npages = unetmm_faults_at_once(mm, vma, vaddr, npages - n);
	if (!npages)
		return n ? got : unetmm_why_absent(mm, vma, batch);
	more = unetmm_pin_remote(mm, vaddr, npages, flags, batch->pages + n);
	if (n)
		return n + max(more, 0L);
	return more < 0 ? unetmm_why_refused(mm, vaddr, more) : more;
}

static long unetmm_pin_pages(struct unetmm_aspace *space,
			     struct unetmm_batch *batch, u32 npages)
{
	unsigned int flags = FOLL_LONGTERM | FOLL_NOWAIT;
	struct mm_struct *mm = space->mm;
	struct vm_area_struct *vma;
	long ret;

	/* A long wait for mmap_lock counts as "not resident". */
	if (!unetmm_mmap_lock(space, false))
		return 0;
	vma = unetmm_usable_vma(mm, batch->vaddr, batch->write, &npages);
	ret = PTR_ERR_OR_ZERO(vma);
	if (!ret && batch->zero && !unetmm_zero_vma(mm, batch->vaddr))
		ret = -EINVAL;
	if (!ret) {
		if (batch->write || unetmm_pin_copies(space, vma))
			flags |= FOLL_WRITE;
		ret = unetmm_pin_vma(mm, vma, batch, npages, flags);
	}
	mmap_read_unlock(mm);
	return ret;
}

/*
 * GUP does not say why it refuses a page, and page tables and file sizes change meanwhile.
 * So EOPNOTSUPP needs two attempts without an invalidation from the first one's begin to
 * the second one's end: a page that another thread mapped after the first attempt is still
 * mapped in the second.
 */
static long unetmm_pin_surely(struct unetmm_aspace *space,
			      struct unetmm_batch *batch, u32 npages)
{
	u64 last = batch->vaddr + (u64)npages * PAGE_SIZE - 1;
	unsigned long seq = unetmm_space_seq(space);
	long got = unetmm_pin_pages(space, batch, npages);
	bool raced;

	if (got == -EOPNOTSUPP)
		got = unetmm_pin_pages(space, batch, npages);
	if (got != -EOPNOTSUPP)
		return got;
	spin_lock(&space->lock);
	raced = unetmm_space_raced(space, seq, batch->vaddr, last);
	spin_unlock(&space->lock);
	return raced ? 0 : got;
}

/*
 * Gives up to n pins of the space up, the oldest first, but for those of npages pages from
 * vpn.  Pins that stay count as new.  False: there is none to give.
 */
static bool unetmm_pins_give(struct unetmm_aspace *space, unsigned long vpn,
			     u32 npages, u32 n)
{
	unsigned long looks = READ_ONCE(space->npins);
	struct unetmm_pin *pin;
	bool any = false;
	int i;

	while (space->ops->give && n && looks) {
		spin_lock(&space->lock);
		for (i = 0; i < UNETMM_GIVE_CHUNK && n && looks; i++) {
			pin = list_first_entry_or_null(&space->aged,
						       struct unetmm_pin, age);
			looks = pin ? looks - 1 : 0;
			if (!pin)
				break;
			if (pin->vpn - vpn < npages ||
			    !space->ops->give(space, pin)) {
				list_move_tail(&pin->age, &space->aged);
				continue;
			}
			unetmm_pin_drop(space, pin);
			unetmm_count(space->dev, pins_given_up);
			any = true;
			n--;
		}
		spin_unlock(&space->lock);
		cond_resched();
	}
	if (any)
		queue_work(unetmm_drop_wq, &space->drop_work);
	return any;
}

/* Another charge of the process is at a limit.  False: there is no pin to give. */
bool unetmm_pins_make_room(struct unetmm_aspace *space)
{
	if (!unetmm_pins_give(space, 0, 0, 1))
		return false;
	unetmm_pins_flush(space);
	return true;
}

/*
 * Charges up to npages pages, and batch->need at least.  Pins that only wait to be undone
 * make room first, then older pins of the space.  Returns the number, 0: the limits do not
 * allow so many.
 */
static u32 unetmm_pin_charge(struct unetmm_aspace *space,
			     const struct unetmm_batch *batch, u32 npages)
{
	u32 need = clamp(batch->need, 1U, npages);
	u32 charged = unetmm_charge_some(space, npages);
	bool more = true;

	while (charged < need && more) {
		unetmm_pins_flush(space);
		charged += unetmm_charge_some(space, need - charged);
		more = charged < need &&
		       unetmm_pins_give(space, batch->vaddr >> PAGE_SHIFT,
					npages, need - charged);
	}
	if (charged >= need)
		return charged;
	unetmm_uncharge(space, charged);
	unetmm_count(space->dev, pin_limited);
	return 0;
}

/*
 * Pins the resident ones, and those that need no waiting, of npages pages from
 * vaddr: a prefix, at least one page.  Returns how many, with a pin for
 * each in the batch; 0: must be paged in first; -EFAULT: the process may not;
 * -EOPNOTSUPP: Linux does not lend it; -EINVAL: not memory for batch->zero;
 * -EDQUOT: a limit; -ENOMEM, -EINTR.  The caller has set batch->zero and batch->need,
 * and holds mm_users, and no lock.
 */
int unetmm_pin_batch(struct unetmm_aspace *space, struct unetmm_batch *batch,
		     u64 vaddr, u32 npages, bool write)
{
	u32 charged;
	long got;

	batch->vaddr = vaddr;
	batch->write = write;
	batch->count = 0;
	charged = unetmm_pin_charge(space, batch, npages);
	if (!charged)
		return -EDQUOT;
	got = unetmm_pin_surely(space, batch, charged);
	unetmm_uncharge(space, charged - max(got, 0L));
	return got > 0 ? unetmm_batch_fill(space, batch, got) : got;
}

/* The first pin at vpn or above. */
struct unetmm_pin *unetmm_pin_first(struct unetmm_aspace *space,
				    unsigned long vpn)
{
	struct rb_node *node = space->pins.rb_node;
	struct unetmm_pin *first = NULL;

	lockdep_assert_held(&space->lock);
	while (node) {
		struct unetmm_pin *pin = rb_entry(node, struct unetmm_pin, node);

		if (pin->vpn >= vpn) {
			first = pin;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return first;
}

/* A tree of embedded nodes: adding under the spinlock cannot fail. */
void unetmm_pin_add(struct unetmm_aspace *space, struct unetmm_pin *pin)
{
	struct rb_node **link = &space->pins.rb_node, *parent = NULL;

	lockdep_assert_held(&space->lock);
	while (*link) {
		parent = *link;
		if (pin->vpn < rb_entry(parent, struct unetmm_pin, node)->vpn)
			link = &parent->rb_left;
		else
			link = &parent->rb_right;
	}
	rb_link_node(&pin->node, parent, link);
	rb_insert_color(&pin->node, &space->pins);
	list_add_tail(&pin->age, &space->aged);
	space->npins++;
}

void unetmm_pin_take(struct unetmm_aspace *space, struct unetmm_pin *pin)
{
	lockdep_assert_held(&space->lock);
	if (space->ops->forget)
		space->ops->forget(space, pin);
	rb_erase(&pin->node, &space->pins);
	list_del_init(&pin->age);
	space->npins--;
}

/*
 * Hands a pin to drop_work.  The page is made dirty now, for the notifier's caller
 * may write it back or out next; if that caller has locked it, unetmm_pin_free() or
 * dirty_work makes it dirty.
 */
void unetmm_pin_drop(struct unetmm_aspace *space, struct unetmm_pin *pin)
{
	unetmm_pin_take(space, pin);
	pin->lost = false;
	list_del_init(&pin->lost_node);
	pin->dirty = pin->write && !unetmm_pin_set_dirty(space, pin);
	list_add_tail(&pin->drop, &space->drop_list);
}

/* A right to write implies one to read.  0: the mapping gives no right. */
u64 unetmm_pte(const struct unetmm_pin *pin)
{
	bool write = pin->write && pin->rights & VM_WRITE;

	if (!write && !(pin->rights & VM_READ))
		return 0;
	return UNETMM_PTE_VALID | UNETMM_PTE_READ |
	       (write ? UNETMM_PTE_WRITE : 0) |
	       (pin->dma & UNETMM_PTE_ADDR);
}
