/*
 * unetmm: reliable channels: packet numbers
 *
 * Packet numbers run freely over 32 bits.  Of two numbers of one window the
 * difference is looked at, never the order; a number from the peer is checked
 * against its possible range before it is used.  Slots and bits
 * of a packet are those of its number modulo UNETMM_REL_WINDOW.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_PSN_H
#define UNETMM_PSN_H

#include "../abi/unetmm_wire.h"

static inline uint64_t unetmm_rel_bit(uint32_t psn)
{
    return 1ull << psn % UNETMM_REL_WINDOW;
}

/* Is the packet before `nxt`, by one window at most? */
static inline bool unetmm_rel_before(uint32_t psn, uint32_t nxt)
{
    return nxt - psn - 1 < UNETMM_REL_WINDOW;
}

#endif /* UNETMM_PSN_H */
