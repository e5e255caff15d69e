/*
 * unetmm: two ways of translation on the same references; see utlb.c
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef SIM_UTLB_H
#define SIM_UTLB_H

#include "libunetmm.h"
#include "sim.h"

typedef struct UtlbConfig {
    uint32_t entries, ways, fetch;
    uint32_t quota;             /* pages of a process */
    uint32_t prepin;            /* pinned by one call, from the needed one on */
    const struct unetmm_utlb_policy *policy;    /* NULL: by interrupt */
} UtlbConfig;

typedef struct UtlbCount {
    uint64_t refs;
    uint64_t misses;            /* fetches from the table, or interrupts */
    uint64_t calls;             /* of the library, to pin or to unpin */
    uint64_t pins, unpins;      /* pages */
} UtlbCount;

/* UtlbRun: sim.h */
UtlbRun *utlb_new(const UtlbConfig *configs, unsigned n);
void utlb_free(UtlbRun *run);
/* The process's memory ends before page `end`. */
void utlb_ref(UtlbRun *run, unsigned computer, uint16_t space, uint64_t vpn,
              uint64_t end);
const UtlbCount *utlb_count(const UtlbRun *run, unsigned i);

#endif /* SIM_UTLB_H */
