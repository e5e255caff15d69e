/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which frames of a run have been seen: the peer numbers them, so that each call takes
 * the same short time for any number.
 */
#ifndef UNETMM_TOOLS_SEEN_H
#define UNETMM_TOOLS_SEEN_H

#include <stdbool.h>
#include <stdint.h>

#define SEEN_FRAMES     65536u  /* how late a frame may be and still count */

struct seen {
    uint64_t high;              /* one above the highest frame seen */
    uint8_t bits[SEEN_FRAMES / 8];
};

/* Moves on to `high`, with all frames between unseen; never back. */
void seen_advance(struct seen *seen, uint64_t high);

/* True the first time that a frame is seen. */
bool seen_is_new(struct seen *seen, uint64_t number);

#endif /* UNETMM_TOOLS_SEEN_H */
