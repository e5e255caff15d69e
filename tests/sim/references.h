/*
 * unetmm: references to pages, from a file of lines "SPACE PAGE"
 *
 * The numbers are decimal or 0x; empty lines and those that begin with # are left out.  One file is
 * open at a time.  A mistake ends the program with one sentence and status 2.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef SIM_REFERENCES_H
#define SIM_REFERENCES_H

#include <glib.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>

#define REFERENCE_SPACE_BITS    16
#define REFERENCE_PAGE_BITS     (64 - REFERENCE_SPACE_BITS)

/* "-" is the standard input. */
void references_open(const char *name);
/* False: the file has ended, and is closed. */
bool references_next(uint16_t *space, uint64_t *page);

#endif /* SIM_REFERENCES_H */
