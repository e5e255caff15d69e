// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: mappings of a process: queue memory, doorbell pages, windows and proxy
 * pages.
 *
 * An offset is (endpoint << 32) | 0 for queues, 1 << 31 for the doorbell,
 * 1 << 30 | page << 12 for a window, and 1 << 29 besides for proxy pages; of
 * endpoint 0, 1 << 30 is the log of source utlb (source/utlb.c), 1 << 29 the page
 * of event counters.  A mapping covers the whole object.  They outlive their objects
 * without harm: behind a doorbell that is closed or whose card is gone lies a
 * page that nobody reads, behind queues whose card is gone a copy of their last
 * state.  So hot-unplug costs a process no signal, unless there is no memory for the
 * copy; the process learns of it from its next call.
 *
 * The VMAs are VM_IO and VM_PFNMAP: they cannot be pinned, hence not be used
 * as message buffers.
 */
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "compat/compat.h"
#include "map/map.h"
#include "space/space.h"
#include "base/base.h"

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
					GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
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
	/* A block of the driver's own is never mapped, and ends before the card does. */
	if (space) {
		mutex_lock(&dev->map_lock);
		list_add(&block->node, &dev->blocks);
		mutex_unlock(&dev->map_lock);
	}
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

static void unetmm_block_free_memory(struct unetmm_block *block)
{
	if (block->cpu)
		dma_free_coherent(&block->dev->pdev->dev, block->bytes, block->cpu, block->dma);
}

static void unetmm_block_free(struct kref *ref)
{
	struct unetmm_block *block = container_of(ref, struct unetmm_block,
						  ref);
	struct unetmm_dev *dev = block->dev;

	if (block->space) {
		/* The DMA memory goes under the lock: unetmm_blocks_bury() is outside. */
		mutex_lock(&dev->map_lock);
		list_del(&block->node);
		unetmm_block_free_memory(block);
		mutex_unlock(&dev->map_lock);
	} else {
		/* Reclaim may wait for the endpoint to end, and for the lock's holders. */
		unetmm_block_free_memory(block);
	}
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
	list_for_each_entry(file, &dev->files, node) {
		if (file->filp)
			unmap_mapping_range(file->filp->f_mapping, 0, 0, 1);
	}
	mutex_unlock(&dev->files_lock);
}

/*
 * The card is gone and the endpoints are closed; some queues are still mapped.
 * A process that touches them from now on gets the copy, or SIGBUS if there was no
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
 * not dma_mmap_coherent(): docs/design-memory.md.
 */
unsigned long unetmm_block_pfn(struct unetmm_block *block, size_t offset)
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

/* Before the number can be another's. */
void unetmm_doorbell_zap(struct unetmm_file *file, u32 ep)
{
	if (file->filp)
		unmap_mapping_range(file->filp->f_mapping, unetmm_map_offset(ep, true),
				    PAGE_SIZE, 1);
}
