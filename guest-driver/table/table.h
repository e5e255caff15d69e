/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: the table of translations that the card reads, of sources that have one.
 */
#ifndef UNETMM_TABLE_H
#define UNETMM_TABLE_H

#include "space/space.h"

#define UNETMM_LEVELS		5	/* 57 bits: any address of any x86 */

/* 512 consecutive pages in the table; changes under space->lock. */
struct unetmm_leaf {
	__le64 *entries;
	unsigned long *pages;		/* shadow, odp: UNETMM_LEAF_* */
	u32 used;			/* shadow, odp: entries that are not 0 */
};

#define UNETMM_LEAF_WRITE	1UL	/* mapped for writing; else a page */

int unetmm_table_init(struct unetmm_aspace *space);
void unetmm_table_free(struct unetmm_aspace *space);
dma_addr_t unetmm_table_root(const struct unetmm_table *table);
int unetmm_table_grow(struct unetmm_aspace *space, u64 start, u64 last);
int unetmm_table_try_grow(struct unetmm_aspace *space, u64 vaddr);
void unetmm_table_set(struct unetmm_table *table, unsigned long vpn, u64 pte);
u64 unetmm_leaf_word(const struct unetmm_leaf *leaf, unsigned int slot);
bool unetmm_table_has(struct unetmm_aspace *space, unsigned long vpn,
		      bool write);
u32 unetmm_table_run(struct unetmm_aspace *space, unsigned long vpn, u32 npages,
		     bool write);
void unetmm_table_words(struct unetmm_aspace *space, unsigned long vpn,
			u32 npages, u64 *words);
struct unetmm_leaf *unetmm_table_leaf(const struct unetmm_table *table,
				      unsigned long vpn);
struct unetmm_leaf *unetmm_table_leaf_from(const struct unetmm_table *table,
					   unsigned long *vpn,
					   unsigned long last);

#endif /* UNETMM_TABLE_H */
