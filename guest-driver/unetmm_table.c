// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the table in host memory that the card reads for source `pinned`.
 *
 * A radix tree of 4096-byte pages (UNETMM_PTE_*).  It only grows, under
 * region_lock; leaf entries change under space->lock.  Its pages are charged
 * like pins, so a process cannot make it grow without bound.
 */
#include <linux/dma-mapping.h>
#include <linux/slab.h>

#include "unetmm_drv.h"

struct unetmm_node {
	__le64 *entries;		/* what the card sees */
	dma_addr_t dma;
	struct unetmm_node *child[];	/* none in a leaf */
};

struct unetmm_table {
	struct unetmm_node *root;
};

static struct unetmm_node *unetmm_node_alloc(struct unetmm_aspace *space,
					     unsigned int level)
{
	struct unetmm_node *node;

	if (!unetmm_charge_all(space, 1))
		return NULL;
	node = kvzalloc(struct_size(node, child,
				    level ? UNETMM_TABLE_ENTRIES : 0),
			GFP_KERNEL_ACCOUNT);
	if (!node)
		goto uncharge;
	node->entries = dma_alloc_coherent(&space->dev->pdev->dev,
					   UNETMM_PAGE_BYTES, &node->dma,
					   GFP_KERNEL);
	if (!node->entries)
		goto free;
	return node;

free:
	kvfree(node);
uncharge:
	unetmm_uncharge(space, 1);
	return NULL;
}

static void unetmm_node_free(struct unetmm_aspace *space,
			     struct unetmm_node *node, unsigned int level)
{
	int i;

	if (!node)
		return;
	for (i = 0; level && i < UNETMM_TABLE_ENTRIES; i++)
		unetmm_node_free(space, node->child[i], level - 1);
	dma_free_coherent(&space->dev->pdev->dev, UNETMM_PAGE_BYTES,
			  node->entries, node->dma);
	kvfree(node);
	unetmm_uncharge(space, 1);
}

int unetmm_table_init(struct unetmm_aspace *space)
{
	struct unetmm_table *table = kzalloc(sizeof(*table),
					     GFP_KERNEL_ACCOUNT);

	if (!table)
		return -ENOMEM;
	table->root = unetmm_node_alloc(space, UNETMM_LEVELS - 1);
	if (!table->root) {
		kfree(table);
		return -ENOMEM;
	}
	space->table = table;
	return 0;
}

/* The card has forgotten the space. */
void unetmm_table_free(struct unetmm_aspace *space)
{
	if (!space->table)
		return;
	unetmm_node_free(space, space->table->root, UNETMM_LEVELS - 1);
	kfree(space->table);
	space->table = NULL;
}

dma_addr_t unetmm_table_root(const struct unetmm_table *table)
{
	return table->root->dma;
}

static unsigned int unetmm_slot(unsigned long vpn, unsigned int level)
{
	return (vpn >> (level * UNETMM_TABLE_BITS)) & (UNETMM_TABLE_ENTRIES - 1);
}

static int unetmm_table_grow_one(struct unetmm_aspace *space,
				 unsigned long vpn)
{
	struct unetmm_node *node = space->table->root;
	unsigned int level;

	for (level = UNETMM_LEVELS - 1; level; level--) {
		unsigned int slot = unetmm_slot(vpn, level);
		struct unetmm_node *child = node->child[slot];

		if (!child) {
			child = unetmm_node_alloc(space, level - 1);
			if (!child)
				return -ENOMEM;
			/* The card may look as soon as the entry is there. */
			dma_wmb();
			WRITE_ONCE(node->entries[slot],
				   cpu_to_le64(UNETMM_PTE_VALID | child->dma));
			/* Pairs with the load in unetmm_table_set(). */
			smp_store_release(&node->child[slot], child);
		}
		node = child;
	}
	return 0;
}

/* Makes the leaves for [start, last]. */
int unetmm_table_grow(struct unetmm_aspace *space, u64 start, u64 last)
{
	unsigned long vpn = start >> PAGE_SHIFT;
	unsigned long last_vpn = last >> PAGE_SHIFT;
	int ret;

	lockdep_assert_held(&space->region_lock);
	for (; vpn <= last_vpn; vpn = (vpn | (UNETMM_TABLE_ENTRIES - 1)) + 1) {
		ret = unetmm_table_grow_one(space, vpn);
		if (ret)
			return ret;
		cond_resched();
	}
	return 0;
}

/* The leaf exists. */
void unetmm_table_set(struct unetmm_table *table, unsigned long vpn, u64 pte)
{
	struct unetmm_node *node = table->root;
	unsigned int level;

	for (level = UNETMM_LEVELS - 1; level; level--) {
		/* Pairs with unetmm_table_grow_one(). */
		node = smp_load_acquire(&node->child[unetmm_slot(vpn, level)]);
		if (WARN_ON_ONCE(!node))
			return;
	}
	WRITE_ONCE(node->entries[unetmm_slot(vpn, 0)], cpu_to_le64(pte));
}

u64 unetmm_pte(const struct unetmm_pin *pin)
{
	return UNETMM_PTE_VALID | UNETMM_PTE_READ |
	       (pin->write ? UNETMM_PTE_WRITE : 0) |
	       (pin->dma & UNETMM_PTE_ADDR);
}
