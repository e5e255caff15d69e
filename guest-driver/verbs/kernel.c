// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm_ib: the space of the kernel's queue pairs on the card.
 *
 * The space has source pinned.  Its table has two parts.  Below 2^52 each page is at its DMA
 * address, so the addresses of the local DMA lkey need no translation; tables of level 0 are
 * made when a request first names memory of theirs.  Above are the places of memory regions,
 * 512 pages for each number of a region (verbs/fast.c).  A peer reaches the second part alone,
 * by regions of the card.
 *
 * Kernel queue pairs need DMA addresses that are those of the memory: no translating IOMMU, and
 * no bounce buffer.  Otherwise QP1 works, and other queue pairs are refused.
 */
#include <linux/dma-mapping.h>
#include <linux/slab.h>

#include "table/table.h"
#include "verbs/verbs.h"

#define UNETMM_IB_IDENTITY	BIT_ULL(52)	/* DMA addresses are below */

struct unetmm_ib_node {
	__le64 *entries;
	dma_addr_t dma;
	bool identity;			/* level 0: has all pages at their addresses */
	struct unetmm_ib_node *child[];	/* none at level 0 */
};

/* ---- The table: kernel.lock --------------------------------------------------- */

static struct unetmm_ib_node *unetmm_ib_node_alloc(struct unetmm_ib *dev, unsigned int level)
{
	struct unetmm_ib_node *node;

	node = kzalloc(struct_size(node, child, level ? UNETMM_TABLE_ENTRIES : 0), GFP_KERNEL);
	if (!node)
		return NULL;
	node->entries = dma_alloc_coherent(&dev->dev->pdev->dev, UNETMM_PAGE_BYTES, &node->dma,
					   GFP_KERNEL);
	if (node->entries)
		return node;
	kfree(node);
	return NULL;
}

static void unetmm_ib_node_free(struct unetmm_ib *dev, struct unetmm_ib_node *node,
				unsigned int level)
{
	unsigned int i;

	if (!node)
		return;
	for (i = 0; level && i < UNETMM_TABLE_ENTRIES; i++)
		unetmm_ib_node_free(dev, node->child[i], level - 1);
	dma_free_coherent(&dev->dev->pdev->dev, UNETMM_PAGE_BYTES, node->entries, node->dma);
	kfree(node);
}

static struct unetmm_ib_node *unetmm_ib_node(struct unetmm_ib *dev, u64 addr)
{
	struct unetmm_ib_node *node = dev->kernel.root;
	unsigned int level;

	lockdep_assert_held(&dev->kernel.lock);
	for (level = UNETMM_LEVELS - 1; level; level--) {
		unsigned int slot = addr >> (PAGE_SHIFT + level * UNETMM_TABLE_BITS) &
				    (UNETMM_TABLE_ENTRIES - 1);

		if (!node->child[slot]) {
			node->child[slot] = unetmm_ib_node_alloc(dev, level - 1);
			if (!node->child[slot])
				return NULL;
			/* The card may look as soon as the entry is there. */
			dma_wmb();
			WRITE_ONCE(node->entries[slot],
				   cpu_to_le64(UNETMM_PTE_VALID | node->child[slot]->dma));
		}
		node = node->child[slot];
	}
	return node;
}

__le64 *unetmm_ib_kernel_leaf(struct unetmm_ib *dev, u64 addr)
{
	struct unetmm_ib_node *node = unetmm_ib_node(dev, addr);

	return node ? node->entries : NULL;
}

/* The table of level 0 that has the address gets all of its pages. */
static bool unetmm_ib_identity(struct unetmm_ib *dev, u64 addr)
{
	struct unetmm_ib_node *node = unetmm_ib_node(dev, addr);
	u64 page = addr & ~((UNETMM_TABLE_ENTRIES << PAGE_SHIFT) - 1ull);
	unsigned int i;

	if (!node || node->identity)
		return node;
	for (i = 0; i < UNETMM_TABLE_ENTRIES; i++, page += PAGE_SIZE)
		WRITE_ONCE(node->entries[i], cpu_to_le64(page | UNETMM_PTE_VALID |
							 UNETMM_PTE_READ | UNETMM_PTE_WRITE));
	node->identity = true;
	return true;
}

/* The table gets the segment; a longer one is not used beyond the longest message. */
bool unetmm_ib_kernel_local(struct unetmm_ib *dev, u64 addr, u32 length)
{
	u64 last = addr + min(length, UNETMM_MAX_MESSAGE) - 1;
	u64 bytes = UNETMM_TABLE_ENTRIES << PAGE_SHIFT;
	unsigned int flags;
	bool made = true;

	if (addr >= UNETMM_IB_IDENTITY || last >= UNETMM_IB_IDENTITY)
		return false;
	flags = unetmm_ib_kernel_lock(&dev->kernel);
	for (addr &= ~(bytes - 1); made && addr <= last; addr += bytes)
		made = unetmm_ib_identity(dev, addr);
	unetmm_ib_kernel_unlock(&dev->kernel, flags);
	return made;
}

/* ---- The space ---------------------------------------------------------------- */

void unetmm_ib_kernel_init(struct unetmm_ib *dev)
{
	unsigned int i;

	mutex_init(&dev->kernel.lock);
	xa_init(&dev->kernel.mrs);
	for (i = 0; i < UNETMM_IB_MR_LOCKS; i++)
		mutex_init(&dev->kernel.mr_locks[i]);
}

static int unetmm_ib_kernel_open(struct unetmm_ib *dev)
{
	int ret;

	dev->kernel.root = unetmm_ib_node_alloc(dev, UNETMM_LEVELS - 1);
	if (!dev->kernel.root)
		return -ENOMEM;
	ret = dev->calls->kernel->open(dev->dev, dev->kernel.root->dma, UNETMM_LEVELS);
	if (ret < 0) {
		unetmm_ib_node_free(dev, dev->kernel.root, UNETMM_LEVELS - 1);
		dev->kernel.root = NULL;
		return ret;
	}
	dev->kernel.space = ret;
	return 0;
}

int unetmm_ib_kernel_get(struct unetmm_ib *dev)
{
	unsigned int flags;
	int ret = 0;

	if (!dev->direct) {
		dev_warn_once(&dev->dev->pdev->dev,
			      "no queue pairs for the kernel: an IOMMU translates the card's DMA, or a bounce buffer copies\n");
		return -EOPNOTSUPP;
	}
	flags = unetmm_ib_kernel_lock(&dev->kernel);
	if (!dev->kernel.space)
		ret = unetmm_ib_kernel_open(dev);
	unetmm_ib_kernel_unlock(&dev->kernel, flags);
	return ret;
}

/* Queue pairs and regions have ended. */
void unetmm_ib_kernel_exit(struct unetmm_ib *dev)
{
	if (dev->kernel.space)
		dev->calls->kernel->close(dev->dev, dev->kernel.space);
	unetmm_ib_node_free(dev, dev->kernel.root, UNETMM_LEVELS - 1);
	xa_destroy(&dev->kernel.mrs);
}
