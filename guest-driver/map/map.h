/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: memory that the driver shares: queue memory that processes map, and memory
 * that is mapped for DMA.
 */
#ifndef UNETMM_MAP_H
#define UNETMM_MAP_H

#include <linux/dma-mapping.h>
#include <linux/scatterlist.h>

#include "space/space.h"

/* Queue memory; the pages behind it change once, under dev->map_lock. */
struct unetmm_block {
	struct kref ref;
	struct unetmm_dev *dev;
	struct unetmm_aspace *space;	/* the space charged; NULL: none */
	struct list_head node;		/* dev->blocks, if there is a space; dev->map_lock */
	size_t bytes;
	void *cpu;
	dma_addr_t dma;
	struct sg_table pages;		/* those of `cpu`, from the DMA API */
	bool buried;
	void *grave;			/* vmalloc copy, after the card has gone */
};

/* map/map.c: offsets of mappings, see there */
#define UNETMM_MAP_DOORBELL	BIT_ULL(31)
#define UNETMM_MAP_PAGES	(UNETMM_MAP_DOORBELL >> PAGE_SHIFT)
/* The driver's own endpoint is never mapped. */
#define UNETMM_MAP_UTLB_LOG	BIT_ULL(30)
#define UNETMM_MAP_EVENTS	BIT_ULL(29)
#define UNETMM_MAP_WINDOW	BIT_ULL(30)
#define UNETMM_MAP_PROXY	BIT_ULL(29)
#define UNETMM_MAP_NUMBER	(UNETMM_MAP_PROXY - 1)	/* of a page */

struct unetmm_block *unetmm_block_alloc(struct unetmm_dev *dev,
					struct unetmm_aspace *space,
					size_t bytes);
void unetmm_block_put(struct unetmm_block *block);
/* The card is gone: mappings get copies. */
void unetmm_blocks_bury(struct unetmm_dev *dev);
/* map_lock */
unsigned long unetmm_block_pfn(struct unetmm_block *block, size_t offset);
u64 unetmm_map_offset(u32 ep, bool doorbell);
u64 unetmm_map_utlb_log(void);
u64 unetmm_map_event_counters(void);
u64 unetmm_map_window(u32 ep, bool proxy, u32 page);
void unetmm_doorbell_zap(struct unetmm_file *file, u32 ep);

/* map/dma.c */
int unetmm_map_page(struct unetmm_dev *dev, struct page *page, bool write,
		    dma_addr_t *dma);
void unetmm_unmap_page(struct unetmm_dev *dev, dma_addr_t dma, bool write);
int unetmm_map_kernel(struct unetmm_dev *dev, void *mem, size_t bytes,
		      dma_addr_t *dma);
void unetmm_unmap_kernel(struct unetmm_dev *dev, dma_addr_t dma, size_t bytes);

#endif /* UNETMM_MAP_H */
