/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory that is swapped out.
 */
#ifndef TEST_SWAP_H
#define TEST_SWAP_H

#include <stdbool.h>
#include <stdint.h>

/* A disk of QEMU's if there is one, since its reads take time; else zram. */
void swap_on(void);
void swap_on_disk(void);
void swap_on_zram(void);
void swap_off(void);

/* Is the page in swap, and not mapped? */
bool swapped(const uint8_t *at);
/* Sends pages to swap; true if all went. */
bool page_out(uint8_t *at, unsigned npages);

/* Pages that the whole system has read back from swap; 0 if nobody counts. */
unsigned long long swap_reads(void);

#endif /* TEST_SWAP_H */
