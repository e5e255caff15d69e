/*
 * unetmm: the common part of the sources with tables in host memory
 *
 * One file of this room fills one UnetmmSourceOps (xlat/xlat.h); card/tables.c
 * lists them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_SOURCE_H
#define UNETMM_SOURCE_H

#include "../xlat/xlat.h"

/*
 * Entries of a table of source shadow as they were when they were read, in
 * this run of the engine: where a lock begins to try, and no more than that.
 */
#define UNETMM_SHADOW_LINES     4
#define UNETMM_SHADOW_LINE      8       /* entries: 64 bytes of a table */

typedef struct UnetmmShadowLine {
    uint64_t run;               /* of another run: nothing */
    uint64_t at;
    uint64_t ptes[UNETMM_SHADOW_LINE];
} UnetmmShadowLine;

struct UnetmmSources {
    UnetmmTlb tlb;              /* source tlb */
    UnetmmTlb cache;            /* sources with a table */
    UnetmmShadowLine *lines;    /* UNETMM_SHADOW_LINES of them */
};

/* source/table.c */
/* Of a table in host memory: the entry cache, then the table. */
UnetmmXlat unetmm_table_lookup(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                               bool write, UnetmmPage *page, bool *absent);
/* The two halves of it.  First: is the page in the entry cache? */
bool unetmm_table_cached(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                         bool write, UnetmmPage *page);
/*
 * The table of level 0 that has the page's entry.  MISS: there is none; ERROR:
 * the bus refused the walk.
 */
UnetmmXlat unetmm_table_leaf(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                             uint64_t *leaf);
/*
 * Reads the aligned group of `group` (a power of two) entries that has the
 * page's, in one access.  False: the table does not reach so far, or the bus
 * refused it; else each entry is as in memory, valid or not.
 */
bool unetmm_table_read(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                       unsigned group, uint64_t *ptes);
/* Puts a valid entry into the cache and uses it. */
UnetmmXlat unetmm_table_use(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                            bool write, uint64_t pte, UnetmmPage *page);
/* The meaning of an invalid entry, where the driver cannot be asked. */
UnetmmXlat unetmm_table_absent(uint64_t pte);
/* UnetmmSourceOps.changing */
bool unetmm_table_changing(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn);
UnetmmTlb *unetmm_table_cache(UnetmmCore *core);
uint32_t unetmm_table_max_pages(const UnetmmCore *core);

#endif /* UNETMM_SOURCE_H */
