// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: pages: charge, pin, map for DMA, and the way back.
 *
 * FOLL_LONGTERM is used in spite of the notifier: it moves pages out of CMA and
 * movable zones, makes Linux refuse what must not be written behind its back,
 * and makes fork() copy pinned pages early.  It is combined with FOLL_NOWAIT
 * and without `locked`, the one combination that 6.1 and 6.12 both allow for a
 * remote mm: 6.1 refuses FOLL_LONGTERM with `locked`, and without `locked` a
 * fault that must wait (I/O, userfaultfd) would sleep with mmap_lock held or be
 * refused.  With FOLL_NOWAIT such a fault returns 0 pages.  Who may sleep pages
 * in first, by unetmm_page_in(), which drops mmap_lock, and then pins.
 *
 * GUP never faults in memory that a userfaultfd watches.  While a userfaultfd
 * is being closed its faults are neither served nor refused, and GUP repeats
 * them with mmap_lock held, for which the close waits: Linux before 6.15 stays
 * there until the caller is killed, and a worker never is.  So there GUP takes
 * what is mapped (FOLL_NOFAULT), and the rest is paged in by single faults
 * between which mmap_lock is free.
 */
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/iommu.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/userfaultfd_k.h>

#include "unetmm_compat.h"
#include "unetmm_drv.h"
#include "unetmm_trace.h"

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

/* Adds up to n to *used without passing limit; returns how many. */
static u32 unetmm_charge_one(atomic64_t *used, unsigned long limit, u32 n)
{
	u64 now = atomic64_add_return(n, used);
	u32 over;

	if (now <= limit)
		return n;
	over = min_t(u64, n, now - limit);
	atomic64_sub(over, used);
	return n - over;
}

/*
 * Charges up to npages to the process and to the card, as ib_umem does to
 * pinned_vm alone.  Returns how many; the others are over a limit.
 */
u32 unetmm_charge_some(struct unetmm_aspace *space, u32 npages)
{
	struct unetmm_dev *dev = space->dev;
	u32 card, process;

	card = unetmm_charge_one(&dev->pinned,
				 READ_ONCE(unetmm_pin_limit_pages), npages);
	process = unetmm_charge_one(&space->mm->pinned_vm, space->pin_limit,
				    card);
	atomic64_sub(card - process, &dev->pinned);
	return process;
}

void unetmm_uncharge(struct unetmm_aspace *space, u32 npages)
{
	atomic64_sub(npages, &space->mm->pinned_vm);
	atomic64_sub(npages, &space->dev->pinned);
}

bool unetmm_charge_all(struct unetmm_aspace *space, u32 npages)
{
	u32 got = unetmm_charge_some(space, npages);

	if (got == npages)
		return true;
	unetmm_uncharge(space, got);
	unetmm_count(space->dev, pin_limited);
	return false;
}

/*
 * May the pages be used so, as far as the VMA tells?  Then it is returned, good
 * for as long as mmap_lock is held, with npages clipped to it, which also keeps
 * GUP from the gap below a stack, where it would complain.
 */
struct vm_area_struct *unetmm_usable_vma(struct mm_struct *mm, u64 vaddr,
					 bool write, u32 *npages)
{
	struct vm_area_struct *vma;

	lockdep_assert_held(&mm->mmap_lock);
	if (vaddr >= mm->task_size)
		return ERR_PTR(-EFAULT);
	vma = vma_lookup(mm, vaddr);
	if (!vma || !(vma->vm_flags & (write ? VM_WRITE : VM_READ)))
		return ERR_PTR(-EFAULT);
	if (vma->vm_flags & (VM_IO | VM_PFNMAP) ||
	    (userfaultfd_armed(vma) && unetmm_gup_faults_always(vma)))
		return ERR_PTR(-EOPNOTSUPP);
	*npages = min_t(u64, *npages, (vma->vm_end - vaddr) >> PAGE_SHIFT);
	return vma;
}

/*
 * GUP says EFAULT for what the process itself could not touch, and for memory
 * that Linux does not lend to a device (secretmem, files that track dirty
 * pages).  The rights have been checked; what is left of the former is a file
 * that ends before the address.
 */
static int unetmm_why_refused(struct mm_struct *mm, u64 vaddr, int err)
{
	struct vm_area_struct *vma;
	u64 offset;

	lockdep_assert_held(&mm->mmap_lock);
	if (err == -ENOMEM || err == -EINTR || err == -EAGAIN)
		return err;
	vma = vma_lookup(mm, vaddr);
	if (!vma)
		return -EFAULT;
	if (vma->vm_file) {
		offset = vaddr - vma->vm_start +
			 ((u64)vma->vm_pgoff << PAGE_SHIFT);
		if (offset >= i_size_read(file_inode(vma->vm_file)))
			return -EFAULT;
	}
	return -EOPNOTSUPP;
}

/*
 * A streaming mapping that bounces would show the card a copy.  Behind a
 * translating IOMMU whole pages never bounce (and all are said to need to be
 * synchronized); without one a mapping needs that because it is a copy, or because
 * the card does not see what is in the processor's cache: neither will do.
 */
static bool unetmm_bounced(struct device *d, dma_addr_t dma)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(d);

	if (domain && domain->type != IOMMU_DOMAIN_IDENTITY)
		return false;
	return dma_need_sync(d, dma);
}

/* Memory of ours, whole pages, that the card writes. */
int unetmm_map_kernel(struct unetmm_dev *dev, void *mem, size_t bytes,
		      dma_addr_t *dma)
{
	struct device *d = &dev->pdev->dev;

	*dma = dma_map_single_attrs(d, mem, bytes, DMA_FROM_DEVICE,
				    DMA_ATTR_NO_WARN);
	if (dma_mapping_error(d, *dma))
		return -ENOMEM;
	if (unetmm_bounced(d, *dma)) {
		unetmm_unmap_kernel(dev, *dma, bytes);
		unetmm_count(dev, bounce_refused);
		return -EOPNOTSUPP;
	}
	return 0;
}

void unetmm_unmap_kernel(struct unetmm_dev *dev, dma_addr_t dma, size_t bytes)
{
	dma_unmap_single(&dev->pdev->dev, dma, bytes, DMA_FROM_DEVICE);
}

/*
 * One page may be mapped several times at once: by two addresses, two
 * processes, or because its last mapping still waits to be undone.  That is
 * fine since no cache is synchronized for us, and said by SKIP_CPU_SYNC.
 */
#define UNETMM_DMA_ATTRS	(DMA_ATTR_SKIP_CPU_SYNC | DMA_ATTR_NO_WARN)

static enum dma_data_direction unetmm_direction(bool write)
{
	return write ? DMA_BIDIRECTIONAL : DMA_TO_DEVICE;
}

/* Sleeps not. */
int unetmm_map_page(struct unetmm_dev *dev, struct page *page,
		    bool write, dma_addr_t *dma)
{
	struct device *d = &dev->pdev->dev;

	*dma = dma_map_page_attrs(d, page, 0, PAGE_SIZE,
				  unetmm_direction(write), UNETMM_DMA_ATTRS);
	if (dma_mapping_error(d, *dma))
		return -ENOMEM;
	if (unetmm_bounced(d, *dma)) {
		unetmm_unmap_page(dev, *dma, write);
		unetmm_count(dev, bounce_refused);
		return -EOPNOTSUPP;
	}
	return 0;
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
	INIT_LIST_HEAD(&pin->again);
	INIT_LIST_HEAD(&pin->uses);
	pin->entry.vpn = vpn;
	unetmm_pinned_add(space->dev, 1);
	trace_unetmm_pin(space->id, vpn, page_to_pfn(page), write);
	*result = pin;
	return 0;
}

void unetmm_unmap_page(struct unetmm_dev *dev, dma_addr_t dma, bool write)
{
	dma_unmap_page_attrs(&dev->pdev->dev, dma, PAGE_SIZE,
			     unetmm_direction(write), UNETMM_DMA_ATTRS);
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
 * What has been dropped so far is unpinned when this returns, and its charge is free,
 * but for pages that somebody else keeps locked.
 */
void unetmm_pins_flush(struct unetmm_aspace *space)
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
		/* Nobody has a file open: who unloads the module waits alone. */
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
 * Memory that is pinned for long stays what it is: a private page that the process may
 * write is copied (or made) before it is pinned, or the first write would put
 * another in its place.
 */
bool unetmm_pin_copies(const struct unetmm_aspace *space,
		       const struct vm_area_struct *vma)
{
	return space->ops->keeps &&
	       (vma->vm_flags & (VM_SHARED | VM_WRITE)) == VM_WRITE;
}

/*
 * One page fault, which may sleep, but not with mmap_lock.  As fixup_user_fault(), but
 * that who waits for the lock afterwards can be killed: -EINTR, without the lock.
 */
static int unetmm_page_fault(struct mm_struct *mm, u64 vaddr,
			     unsigned int flags)
{
	struct vm_area_struct *vma;
	vm_fault_t ret;
	u32 one = 1;

	flags |= FAULT_FLAG_ALLOW_RETRY | FAULT_FLAG_KILLABLE;
	for (;;) {
		vma = unetmm_usable_vma(mm, vaddr, flags & FAULT_FLAG_WRITE,
					&one);
		if (IS_ERR(vma))
			return PTR_ERR(vma);
		ret = handle_mm_fault(vma, vaddr, flags, NULL);
		if (!(ret & (VM_FAULT_RETRY | VM_FAULT_COMPLETED)))
			break;
		if (fatal_signal_pending(current) ||
		    mmap_read_lock_killable(mm))
			return -EINTR;
		if (ret & VM_FAULT_COMPLETED)
			return 0;
		flags |= FAULT_FLAG_TRIED;
	}
	return ret & VM_FAULT_ERROR ?
	       unetmm_why_refused(mm, vaddr, vm_fault_to_errno(ret, 0)) : 0;
}

/*
 * Makes pages resident as an access of the process would, sleeping for I/O or
 * userfaultfd without mmap_lock.  They may be gone again when it returns.  What
 * it returns is of the first page: 0; -EFAULT: an access of the process would
 * fail; -EOPNOTSUPP; -ENOMEM; -EINTR.  The caller holds mm_users, and no lock.
 */
int unetmm_page_in(struct unetmm_aspace *space, u64 vaddr, u32 npages,
		   bool write)
{
	struct mm_struct *mm = space->mm;
	unsigned int flags = FAULT_FLAG_REMOTE;
	struct vm_area_struct *vma;
	u32 i;
	int ret;

	unetmm_may_wait(space->dev);
	if (mmap_read_lock_killable(mm))
		return -EINTR;
	vma = unetmm_usable_vma(mm, vaddr, write, &npages);
	ret = PTR_ERR_OR_ZERO(vma);
	/* A page that is shared is not pinned for reading before it is copied. */
	write = write || (!ret && unetmm_pin_copies(space, vma));
	/* From here on the lock may have been let go of, and the VMA be gone. */
	if (write)
		flags |= FAULT_FLAG_WRITE;
	else if (space->ops->pins)
		flags |= FAULT_FLAG_UNSHARE;
	for (i = 0; !ret && i < npages; i++) {
		ret = unetmm_page_fault(mm, vaddr + (u64)i * PAGE_SIZE, flags);
		if (ret == -EINTR)
			return ret;
		if (ret && i) {
			ret = 0;
			break;
		}
	}
	mmap_read_unlock(mm);
	return ret;
}

static long unetmm_pin_pages(struct unetmm_aspace *space,
			     struct unetmm_batch *batch, u32 npages)
{
	unsigned int flags = FOLL_LONGTERM | FOLL_NOWAIT;
	struct mm_struct *mm = space->mm;
	struct vm_area_struct *vma;
	bool armed;
	long ret;

	/* Who holds mmap_lock for long counts as "not resident". */
	if (!unetmm_snap_lock(space, false))
		return 0;
	vma = unetmm_usable_vma(mm, batch->vaddr, batch->write, &npages);
	ret = PTR_ERR_OR_ZERO(vma);
	if (!ret && batch->zero && !unetmm_zero_vma(mm, batch->vaddr))
		ret = -EINVAL;
	if (!ret) {
		if (batch->write || unetmm_pin_copies(space, vma))
			flags |= FOLL_WRITE;
		armed = userfaultfd_armed(vma);
		if (armed)
			flags |= FOLL_NOFAULT;
		ret = unetmm_pin_remote(mm, batch->vaddr, npages, flags,
					batch->pages);
		if (ret == -EFAULT && armed)
			ret = 0;
		else if (ret < 0)
			ret = unetmm_why_refused(mm, batch->vaddr, ret);
	}
	mmap_read_unlock(mm);
	return ret;
}

/*
 * Pins what is resident, or can be made so without waiting, of npages pages
 * from vaddr: a prefix, at least one page.  Returns how many, with a pin for
 * each in the batch; 0: must be paged in first; -EFAULT: the process may not;
 * -EOPNOTSUPP: Linux does not lend it; -EINVAL: not memory for batch->zero;
 * -EDQUOT: a limit; -ENOMEM, -EINTR.  The caller has set batch->zero, and holds
 * mm_users, and no lock.
 */
int unetmm_pin_batch(struct unetmm_aspace *space, struct unetmm_batch *batch,
		     u64 vaddr, u32 npages, bool write)
{
	u32 charged;
	long got;

	batch->vaddr = vaddr;
	batch->write = write;
	batch->count = 0;
	charged = unetmm_charge_some(space, npages);
	if (!charged) {
		/* Pins that only wait to be undone should not count. */
		unetmm_pins_flush(space);
		charged = unetmm_charge_some(space, npages);
	}
	if (!charged) {
		unetmm_count(space->dev, pin_limited);
		return -EDQUOT;
	}
	got = unetmm_pin_pages(space, batch, charged);
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
	space->npins++;
}

void unetmm_pin_take(struct unetmm_aspace *space, struct unetmm_pin *pin)
{
	lockdep_assert_held(&space->lock);
	if (space->source == UNETMM_SOURCE_KTLB)
		unetmm_klist_forget(space, pin);
	rb_erase(&pin->node, &space->pins);
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
	list_del_init(&pin->again);
	pin->dirty = pin->write && !unetmm_pin_set_dirty(space, pin);
	list_add_tail(&pin->drop, &space->drop_list);
}
