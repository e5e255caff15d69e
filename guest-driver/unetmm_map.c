// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: what a process maps: queue memory, doorbell pages, windows and proxy
 * pages.
 *
 * An offset is (endpoint << 32) | 0 for queues, 1 << 31 for the doorbell,
 * 1 << 30 | page << 12 for a window, and 1 << 29 besides for proxy pages; of
 * endpoint 0, 1 << 30 is the log of source utlb (unetmm_utlb.c), 1 << 29 the page
 * of event counters.  A mapping covers the whole object.  They outlive what they map without harm: behind a
 * doorbell that is closed or whose card is gone lies a page that nobody reads,
 * behind queues whose card is gone a copy of their last state.  So hot-unplug
 * costs a process no signal; it learns of it from its next call.
 *
 * The VMAs are VM_IO and VM_PFNMAP: they cannot be pinned, hence not be used
 * as message buffers.
 */
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "unetmm_compat.h"
#include "unetmm_drv.h"

#define UNETMM_MAP_DOORBELL	BIT_ULL(31)
#define UNETMM_MAP_PAGES	(UNETMM_MAP_DOORBELL >> PAGE_SHIFT)
/* The driver's own endpoint is never mapped. */
#define UNETMM_MAP_UTLB_LOG	BIT_ULL(30)
#define UNETMM_MAP_EVENTS	BIT_ULL(29)
#define UNETMM_MAP_WINDOW	BIT_ULL(30)
#define UNETMM_MAP_PROXY	BIT_ULL(29)
#define UNETMM_MAP_NUMBER	(UNETMM_MAP_PROXY - 1)	/* of a page */

u64 unetmm_map_offset(u32 ep, bool doorbell)
{
	return (u64)ep << 32 | (doorbell ? UNETMM_MAP_DOORBELL : 0);
}

u64 unetmm_map_utlb_log(void)
{
	return UNETMM_MAP_UTLB_LOG;
}

u64 unetmm_map_event_counters(void)
{
	return UNETMM_MAP_EVENTS;
}

u64 unetmm_map_window(u32 ep, bool proxy, u32 page)
{
	return (u64)ep << 32 | UNETMM_MAP_WINDOW |
	       (proxy ? UNETMM_MAP_PROXY : 0) | (u64)page << PAGE_SHIFT;
}

struct unetmm_block *unetmm_block_alloc(struct unetmm_dev *dev,
					struct unetmm_aspace *space,
					size_t bytes)
{
	u32 npages = bytes >> PAGE_SHIFT;
	struct unetmm_block *block;
	int ret = -EDQUOT;

	if (space && !unetmm_charge_all(space, npages))
		return ERR_PTR(ret);
	ret = -ENOMEM;
	block = kzalloc(sizeof(*block), GFP_KERNEL_ACCOUNT);
	if (!block)
		goto uncharge;
	block->cpu = dma_alloc_coherent(&dev->pdev->dev, bytes, &block->dma,
					GFP_KERNEL | __GFP_NOWARN);
	if (!block->cpu)
		goto free;
	ret = dma_get_sgtable(&dev->pdev->dev, &block->pages, block->cpu,
			      block->dma, bytes);
	if (ret)
		goto free_memory;
	memset(block->cpu, 0, bytes);
	kref_init(&block->ref);
	kref_get(&dev->ref);
	block->dev = dev;
	block->bytes = bytes;
	if (space) {
		kref_get(&space->ref);
		block->space = space;
	}
	mutex_lock(&dev->map_lock);
	list_add(&block->node, &dev->blocks);
	mutex_unlock(&dev->map_lock);
	return block;

free_memory:
	dma_free_coherent(&dev->pdev->dev, bytes, block->cpu, block->dma);
free:
	kfree(block);
uncharge:
	if (space)
		unetmm_uncharge(space, npages);
	return ERR_PTR(ret);
}

static void unetmm_block_free(struct kref *ref)
{
	struct unetmm_block *block = container_of(ref, struct unetmm_block,
						  ref);
	struct unetmm_dev *dev = block->dev;

	/* The DMA memory goes under the lock: unetmm_blocks_bury() is outside. */
	mutex_lock(&dev->map_lock);
	list_del(&block->node);
	if (block->cpu)
		dma_free_coherent(&dev->pdev->dev, block->bytes, block->cpu,
				  block->dma);
	mutex_unlock(&dev->map_lock);
	sg_free_table(&block->pages);
	vfree(block->grave);
	if (block->space) {
		unetmm_uncharge(block->space, block->bytes >> PAGE_SHIFT);
		unetmm_space_put(block->space);
	}
	kfree(block);
	unetmm_dev_put(dev);
}

void unetmm_block_put(struct unetmm_block *block)
{
	kref_put(&block->ref, unetmm_block_free);
}

static void unetmm_zap_all(struct unetmm_dev *dev)
{
	struct unetmm_file *file;

	mutex_lock(&dev->files_lock);
	list_for_each_entry(file, &dev->files, node)
		unmap_mapping_range(file->filp->f_mapping, 0, 0, 1);
	mutex_unlock(&dev->files_lock);
}

/*
 * The card is gone and the endpoints are closed; some queues are still mapped.
 * Whoever touches them from now on gets the copy, or SIGBUS if there was no
 * memory for one.
 */
void unetmm_blocks_bury(struct unetmm_dev *dev)
{
	struct unetmm_block *block;

	mutex_lock(&dev->map_lock);
	list_for_each_entry(block, &dev->blocks, node) {
		if (block->buried)
			continue;
		block->buried = true;
		block->grave = vmalloc(block->bytes);
		if (block->grave)
			memcpy(block->grave, block->cpu, block->bytes);
	}
	mutex_unlock(&dev->map_lock);
	/* From here on unetmm_queue_fault() gives the copy only. */
	unetmm_zap_all(dev);
	mutex_lock(&dev->map_lock);
	list_for_each_entry(block, &dev->blocks, node) {
		if (!block->cpu)
			continue;
		dma_free_coherent(&dev->pdev->dev, block->bytes, block->cpu,
				  block->dma);
		block->cpu = NULL;
	}
	mutex_unlock(&dev->map_lock);
}

/*
 * The page at an offset, or 0.  That of coherent memory is asked of the DMA API.  Why
 * not dma_mmap_coherent(): docs/design-notes.md.
 */
static unsigned long unetmm_block_pfn(struct unetmm_block *block, size_t offset)
{
	struct sg_page_iter piter;

	lockdep_assert_held(&block->dev->map_lock);
	if (offset >= block->bytes)
		return 0;
	if (block->buried)
		return block->grave ? vmalloc_to_pfn(block->grave + offset) : 0;
	for_each_sgtable_page(&block->pages, &piter, offset >> PAGE_SHIFT)
		return page_to_pfn(sg_page_iter_page(&piter));
	return 0;
}

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

/* Before the number can be another's. */
void unetmm_doorbell_zap(struct unetmm_file *file, u32 ep)
{
	unmap_mapping_range(file->filp->f_mapping, unetmm_map_offset(ep, true),
			    PAGE_SIZE, 1);
}

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
