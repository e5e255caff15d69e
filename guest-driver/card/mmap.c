// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: mmap() of a file: queues, doorbells, windows, the log of source utlb, the
 * page of event counters.
 *
 * Callers hold mmap_lock, so only dev->map_lock is taken.
 */
#include <linux/mm.h>

#include "compat/compat.h"
#include "card/card.h"
#include "remote/remote.h"
#include "ep/ep.h"
#include "source/source.h"
#include "map/map.h"
#include "space/space.h"
#include "base/base.h"

static vm_fault_t unetmm_queue_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct unetmm_block *block = vma->vm_private_data;
	size_t offset = ((u64)vmf->pgoff << PAGE_SHIFT) & UNETMM_MAP_NUMBER;
	vm_fault_t ret = VM_FAULT_SIGBUS;
	unsigned long pfn;

	mutex_lock(&block->dev->map_lock);
	pfn = unetmm_block_pfn(block, offset);
	if (pfn)
		ret = vmf_insert_pfn(vma, vmf->address & PAGE_MASK, pfn);
	mutex_unlock(&block->dev->map_lock);
	return ret;
}

static void unetmm_queue_vm_open(struct vm_area_struct *vma)
{
	struct unetmm_block *block = vma->vm_private_data;

	kref_get(&block->ref);
}

static void unetmm_queue_vm_close(struct vm_area_struct *vma)
{
	unetmm_block_put(vma->vm_private_data);
}

static const struct vm_operations_struct unetmm_queue_vm_ops = {
	.open = unetmm_queue_vm_open,
	.close = unetmm_queue_vm_close,
	.fault = unetmm_queue_fault,
};

/* An endpoint of the file; the caller holds map_lock, not file->lock. */
static struct unetmm_ep *unetmm_map_ep(struct unetmm_file *file, u32 id)
{
	struct unetmm_ep *ep;

	lockdep_assert_held(&file->dev->map_lock);
	list_for_each_entry(ep, &file->eps, node) {
		if (ep->id == id)
			return ep;
	}
	return NULL;
}

static struct page *unetmm_scratch(struct unetmm_file *file)
{
	lockdep_assert_held(&file->dev->map_lock);
	if (!file->scratch)
		file->scratch = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	return file->scratch;
}

static vm_fault_t unetmm_doorbell_fault(struct vm_fault *vmf)
{
	struct unetmm_file *file = vmf->vma->vm_file->private_data;
	u32 id = vmf->pgoff >> (32 - PAGE_SHIFT);
	struct unetmm_dev *dev = file->dev;
	vm_fault_t ret = VM_FAULT_OOM;
	struct page *page;
	phys_addr_t start;

	mutex_lock(&dev->map_lock);
	if (unetmm_reachable(dev) && unetmm_map_ep(file, id)) {
		start = dev->doorbell_start + (u64)id * dev->hw.db_stride;
		ret = vmf_insert_pfn(vmf->vma, vmf->address & PAGE_MASK,
				     PHYS_PFN(start));
	} else {
		page = unetmm_scratch(file);
		if (page)
			ret = vmf_insert_pfn(vmf->vma, vmf->address & PAGE_MASK,
					     page_to_pfn(page));
	}
	mutex_unlock(&dev->map_lock);
	return ret;
}

static const struct vm_operations_struct unetmm_doorbell_vm_ops = {
	.fault = unetmm_doorbell_fault,
};

/* The offset of a page in its endpoint's part of the file. */
static bool unetmm_map_is_window(u64 offset, bool *proxy, u32 *page)
{
	*proxy = offset & UNETMM_MAP_PROXY;
	*page = (offset & UNETMM_MAP_NUMBER) >> PAGE_SHIFT;
	return (offset & (UNETMM_MAP_DOORBELL | UNETMM_MAP_WINDOW)) ==
	       UNETMM_MAP_WINDOW;
}

static vm_fault_t unetmm_window_fault(struct vm_fault *vmf)
{
	struct unetmm_file *file = vmf->vma->vm_file->private_data;
	u32 id = vmf->pgoff >> (32 - PAGE_SHIFT);
	struct unetmm_dev *dev = file->dev;
	vm_fault_t ret = VM_FAULT_OOM;
	struct unetmm_ep *ep;
	phys_addr_t phys = 0;
	struct page *scratch;
	bool proxy;
	u32 page;

	unetmm_map_is_window(lower_32_bits((u64)vmf->pgoff << PAGE_SHIFT),
			     &proxy, &page);
	mutex_lock(&dev->map_lock);
	ep = unetmm_reachable(dev) ? unetmm_map_ep(file, id) : NULL;
	if (ep)
		phys = unetmm_window_phys(ep, proxy, page);
	if (!phys) {
		scratch = unetmm_scratch(file);
		if (scratch)
			phys = page_to_phys(scratch);
	}
	if (phys)
		ret = vmf_insert_pfn(vmf->vma, vmf->address & PAGE_MASK,
				     PHYS_PFN(phys));
	mutex_unlock(&dev->map_lock);
	return ret;
}

static const struct vm_operations_struct unetmm_window_vm_ops = {
	.fault = unetmm_window_fault,
};

/* To be read only: the numbers are the card's. */
static int unetmm_mmap_events(struct unetmm_aspace *space,
			      struct vm_area_struct *vma)
{
	struct unetmm_block *block;

	if (!(vma->vm_flags & VM_SHARED) || vma->vm_flags & (VM_WRITE | VM_EXEC) ||
	    vma->vm_end - vma->vm_start != PAGE_SIZE)
		return -EINVAL;
	mutex_lock(&space->dev->map_lock);
	block = unetmm_ecs_block(space);
	mutex_unlock(&space->dev->map_lock);
	if (!block)
		return -ENOENT;
	unetmm_vm_flags_mod(vma, VM_IO | VM_PFNMAP | VM_DONTCOPY |
			    VM_DONTEXPAND | VM_DONTDUMP, VM_MAYWRITE | VM_MAYEXEC);
	vma->vm_private_data = block;
	vma->vm_ops = &unetmm_queue_vm_ops;
	return 0;
}

/* Called with mmap_lock held for writing: takes no lock but map_lock. */
int unetmm_mmap(struct file *filp, struct vm_area_struct *vma)
{
	struct unetmm_file *file = filp->private_data;
	struct unetmm_aspace *space;
	u32 id = vma->vm_pgoff >> (32 - PAGE_SHIFT);
	unsigned long page = vma->vm_pgoff & (BIT_ULL(32 - PAGE_SHIFT) - 1);
	bool doorbell = page == UNETMM_MAP_PAGES;
	struct unetmm_ep *ep;
	bool window, proxy;
	size_t bytes;
	int ret = -ENOENT;
	u32 number;

	/* Pairs with unetmm_op_space(). */
	space = smp_load_acquire(&file->space);
	if (!space)
		return -EINVAL;
	if (space->mm != current->mm)
		return -EPERM;
	if (vma->vm_pgoff == UNETMM_MAP_UTLB_LOG >> PAGE_SHIFT)
		return unetmm_utlb_mmap(space, vma);
	if (vma->vm_pgoff == UNETMM_MAP_EVENTS >> PAGE_SHIFT)
		return unetmm_mmap_events(space, vma);
	window = unetmm_map_is_window((u64)page << PAGE_SHIFT, &proxy, &number);
	if (!(vma->vm_flags & VM_SHARED) || (page && !doorbell && !window) ||
	    vma->vm_flags & VM_EXEC || vma->vm_pgoff >> (48 - PAGE_SHIFT))
		return -EINVAL;
	mutex_lock(&file->dev->map_lock);
	ep = unetmm_map_ep(file, id);
	if (!ep)
		goto unlock;
	bytes = doorbell ? PAGE_SIZE : ep->block->bytes;
	ret = -EINVAL;
	if (window ? !unetmm_window_covers(ep, proxy, number, vma_pages(vma)) :
		     vma->vm_end - vma->vm_start != bytes)
		goto unlock;
	unetmm_vm_flags_mod(vma, VM_IO | VM_PFNMAP | VM_DONTCOPY |
			    VM_DONTEXPAND | VM_DONTDUMP, VM_MAYEXEC);
	if (doorbell || window) {
		vma->vm_page_prot = pgprot_noncached(vma->vm_page_prot);
		vma->vm_ops = window ? &unetmm_window_vm_ops :
				       &unetmm_doorbell_vm_ops;
	} else {
		kref_get(&ep->block->ref);
		vma->vm_private_data = ep->block;
		vma->vm_ops = &unetmm_queue_vm_ops;
	}
	ret = 0;
unlock:
	mutex_unlock(&file->dev->map_lock);
	return ret;
}
