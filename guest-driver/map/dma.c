// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: memory that is mapped for the card's DMA, and never bounced.
 */
#include <linux/dma-mapping.h>
#include <linux/iommu.h>

#include "compat/compat.h"
#include "map/map.h"

/*
 * A streaming mapping that bounces would show the card a copy.  Behind a
 * translating IOMMU whole pages never bounce (and all are said to need to be
 * synchronized).  Without one, a mapping that needs to be synchronized is a copy, or
 * the card's DMA is not coherent with the processor's cache: both are useless here.
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

/*
 * May the card have a page of a device's memory?  All pages that the card may reach come
 * here, pinned ones and those of a snapshot.
 *
 *   fsdax    yes: its file system unmaps a page, and so calls the notifier, before it gives
 *            the page to another file.  Linux pins none of these pages for long, so only
 *            sources without pins get here with one.
 *   devdax   yes: the page belongs to the mapping for as long as that exists.
 *   private  no: the processor itself cannot reach the page.  A snapshot has none, and
 *            a page fault brings the data back to ordinary memory.
 *   coherent no: the page is the memory of another device, which may not answer the card.
 *   p2pdma   no: a BAR of another device, with addresses of its own on the bus.
 */
static bool unetmm_may_reach(const struct page *page)
{
	if (!is_zone_device_page(page))
		return true;
	switch (unetmm_device_kind(page)) {
	case MEMORY_DEVICE_FS_DAX:
	case MEMORY_DEVICE_GENERIC:
		return true;
	default:
		return false;
	}
}

/* -EOPNOTSUPP: not this page; -ENOMEM.  Sleeps not. */
int unetmm_map_page(struct unetmm_dev *dev, struct page *page,
		    bool write, dma_addr_t *dma)
{
	struct device *d = &dev->pdev->dev;

	if (!unetmm_may_reach(page))
		return -EOPNOTSUPP;
	*dma = dma_map_page_attrs(d, page, 0, PAGE_SIZE,
				  unetmm_direction(write), UNETMM_DMA_ATTRS);
	if (dma_mapping_error(d, *dma))
		return -ENOMEM;
	/* An address that is the page's own is no copy's; x86 is coherent. */
	if (*dma != page_to_phys(page) && unetmm_bounced(d, *dma)) {
		unetmm_unmap_page(dev, *dma, write);
		unetmm_count(dev, bounce_refused);
		return -EOPNOTSUPP;
	}
	return 0;
}

void unetmm_unmap_page(struct unetmm_dev *dev, dma_addr_t dma, bool write)
{
	dma_unmap_page_attrs(&dev->pdev->dev, dma, PAGE_SIZE,
			     unetmm_direction(write), UNETMM_DMA_ATTRS);
}
