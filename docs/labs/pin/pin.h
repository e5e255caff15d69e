/*
 * unetmm lab `pin`: the driver's side of a miss
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LAB_PIN_H
#define LAB_PIN_H

#include "fixture.h"

typedef Fix Driver;

/*
 * Pins a page of the process and returns its DMA address; 0: the process has no
 * such page, or may not write it.  A page has one pin for each call.
 */
uint64_t pin_page(Driver *d, uint16_t space, uint64_t vaddr, bool write);
/* The process's right to write the page: the entry needs it, too. */
bool page_is_writable(Driver *d, uint16_t space, uint64_t vaddr);
void unpin_page(Driver *d, uint16_t space, uint64_t vaddr);

/* Stores n entries where the card can read them; returns their DMA address. */
uint64_t put_list(Driver *d, const uint64_t *entries, uint32_t n);
/* Executes a command on the card; returns its status, UNETMM_CS_*. */
uint8_t command(Driver *d, struct unetmm_cmd cmd, uint32_t *result);

/* Yours: one record of the fault ring, a MISS or an EVICT. */
void driver_fault(Driver *d, const struct unetmm_fault *f);

#endif /* LAB_PIN_H */
