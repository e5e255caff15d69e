// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the table in host memory that the card reads, with all sources but
 * `tlb`.
 *
 * A radix tree of 4096-byte pages (UNETMM_PTE_*).  It only grows; leaf entries
 * change under space->lock.  Its pages are charged
 * like pins, so a process cannot make it grow without bound.
 */
#include <linux/dma-mapping.h>
#include <linux/slab.h>

#include "table/table.h"
#include "space/space.h"
#include "base/base.h"

struct unetmm_node {
	struct unetmm_leaf leaf;	/* .entries: the card's view */
	dma_addr_t dma;
	struct unetmm_node *child[];	/* none in a leaf */
};

struct unetmm_table {
	struct unetmm_node *root;
	struct mutex lock;		/* to grow the tree */
};

static struct unetmm_node *unetmm_node_alloc(struct unetmm_aspace *space,
					     unsigned int level)
{
	bool pages = space->ops->enter && !level;
	struct unetmm_node *node;

	if (!unetmm_charge_all(space, 1))
		return NULL;
	/* A leaf whose pages nobody pins has them in the place of children. */
	node = kvzalloc(struct_size(node, child,
				    level || pages ? UNETMM_TABLE_ENTRIES : 0),
			GFP_KERNEL_ACCOUNT);
	if (!node)
		goto uncharge;
	node->leaf.pages = pages ? (unsigned long *)node->child : NULL;
	node->leaf.entries = dma_alloc_coherent(&space->dev->pdev->dev,
					   UNETMM_PAGE_BYTES, &node->dma,
					   GFP_KERNEL_ACCOUNT);
	if (!node->leaf.entries)
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
			  node->leaf.entries, node->dma);
	kvfree(node);
	unetmm_uncharge(space, 1);
}

int unetmm_table_init(struct unetmm_aspace *space)
{
	struct unetmm_table *table = kzalloc(sizeof(*table),
					     GFP_KERNEL_ACCOUNT);

	if (!table)
		return -ENOMEM;
	mutex_init(&table->lock);
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
	struct unetmm_table *table;

	/* A reader looks at it under the lock. */
	spin_lock(&space->lock);
	table = space->table;
	space->table = NULL;
	spin_unlock(&space->lock);
	if (!table)
		return;
	unetmm_node_free(space, table->root, UNETMM_LEVELS - 1);
	kfree(table);
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
			WRITE_ONCE(node->leaf.entries[slot],
				   cpu_to_le64(UNETMM_PTE_VALID | child->dma));
			/* Pairs with the loads of those who descend. */
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
	int ret = 0;

	mutex_lock(&space->table->lock);
	for (; !ret && vpn <= last_vpn;
	     vpn = (vpn | (UNETMM_TABLE_ENTRIES - 1)) + 1) {
		ret = unetmm_table_grow_one(space, vpn);
		cond_resched();
	}
	mutex_unlock(&space->table->lock);
	return ret;
}

/*
 * The same of one page, for threads that serve others, too: the lock's holder may be
 * a process that waits for memory, or for a processor.  -EAGAIN: it is taken.
 */
int unetmm_table_try_grow(struct unetmm_aspace *space, u64 vaddr)
{
	int ret;

	if (!mutex_trylock(&space->table->lock))
		return -EAGAIN;
	ret = unetmm_table_grow_one(space, vaddr >> PAGE_SHIFT);
	mutex_unlock(&space->table->lock);
	return ret;
}

/* How far `vpn` is from the leaf that has it; 0: *node is that. */
static unsigned int unetmm_table_descend(const struct unetmm_table *table,
					 unsigned long vpn,
					 struct unetmm_node **node)
{
	unsigned int level;

	*node = table->root;
	for (level = UNETMM_LEVELS - 1; level; level--) {
		struct unetmm_node *child;

		/* Pairs with unetmm_table_grow_one(). */
		child = smp_load_acquire(&(*node)->child[unetmm_slot(vpn,
								     level)]);
		if (!child)
			break;
		*node = child;
	}
	return level;
}

/* The first leaf from *vpn on, which becomes its first page or stays; NULL: none. */
struct unetmm_leaf *unetmm_table_leaf_from(const struct unetmm_table *table,
					   unsigned long *vpn,
					   unsigned long last)
{
	struct unetmm_node *node;
	unsigned int shift;

	while (*vpn <= last &&
	       !(*vpn >> (UNETMM_LEVELS * UNETMM_TABLE_BITS))) {
		shift = unetmm_table_descend(table, *vpn, &node) *
			UNETMM_TABLE_BITS;
		if (!shift)
			return &node->leaf;
		*vpn = ((*vpn >> shift) + 1) << shift;
	}
	return NULL;
}

struct unetmm_leaf *unetmm_table_leaf(const struct unetmm_table *table,
				      unsigned long vpn)
{
	return unetmm_table_leaf_from(table, &vpn, vpn);
}

/* The leaf exists. */
void unetmm_table_set(struct unetmm_table *table, unsigned long vpn, u64 pte)
{
	struct unetmm_leaf *leaf = unetmm_table_leaf(table, vpn);

	if (!WARN_ON_ONCE(!leaf))
		WRITE_ONCE(leaf->entries[unetmm_slot(vpn, 0)],
			   cpu_to_le64(pte));
}

u64 unetmm_leaf_word(const struct unetmm_leaf *leaf, unsigned int slot)
{
	return le64_to_cpu(READ_ONCE(leaf->entries[slot]));
}

bool unetmm_table_has(struct unetmm_aspace *space, unsigned long vpn,
		      bool write)
{
	struct unetmm_leaf *leaf = unetmm_table_leaf(space->table, vpn);
	u64 right = write ? UNETMM_PTE_WRITE : UNETMM_PTE_READ;
	u64 word = leaf ? unetmm_leaf_word(leaf, unetmm_slot(vpn, 0)) : 0;

	return word & UNETMM_PTE_VALID && word & right;
}

/* How many pages the table has, from vpn on, without a gap. */
u32 unetmm_table_run(struct unetmm_aspace *space, unsigned long vpn, u32 npages,
		     bool write)
{
	u64 need = UNETMM_PTE_VALID |
		   (write ? UNETMM_PTE_WRITE : UNETMM_PTE_READ);
	struct unetmm_leaf *leaf = NULL;
	unsigned int slot;
	u32 n;

	for (n = 0; n < npages; n++) {
		slot = (vpn + n) & (UNETMM_TABLE_ENTRIES - 1);
		if (!n || !slot)
			leaf = unetmm_table_leaf(space->table, vpn + n);
		if (!leaf || (unetmm_leaf_word(leaf, slot) & need) != need)
			break;
	}
	return n;
}

/* Entries of the table as the card sees them, for debugfs. */
void unetmm_table_words(struct unetmm_aspace *space, unsigned long vpn,
			u32 npages, u64 *words)
{
	struct unetmm_leaf *leaf;
	u32 i;

	spin_lock(&space->lock);
	for (i = 0; i < npages; i++) {
		leaf = space->table ? unetmm_table_leaf(space->table, vpn + i) :
				      NULL;
		words[i] = leaf ? unetmm_leaf_word(leaf,
						   unetmm_slot(vpn + i, 0)) : 0;
	}
	spin_unlock(&space->lock);
}
