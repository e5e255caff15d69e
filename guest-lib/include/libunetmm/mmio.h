/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Accesses that the card sees, each of a guaranteed width.
 */
#ifndef LIBUNETMM_MMIO_H
#define LIBUNETMM_MMIO_H

#include <stdint.h>

#include <libunetmm/barrier.h>
#include <libunetmm/byteorder.h>
#include <unetmm_user.h>

/* One 32-bit read of a word that the card writes; never torn or repeated. */
UNETMM_HELPER_ uint32_t unetmm_read_word(const unetmm_le32 *word)
{
    return unetmm_swap32(__atomic_load_n(word, __ATOMIC_RELAXED));
}

/* One 32-bit write of a word that the card reads. */
UNETMM_HELPER_ void unetmm_write_word(unetmm_le32 *word, uint32_t value)
{
    __atomic_store_n(word, unetmm_swap32(value), __ATOMIC_RELAXED);
}

/* A producer or consumer index: the entries that it covers are visible before it. */
UNETMM_HELPER_ void unetmm_write_index(unetmm_le32 *word, uint32_t value)
{
    unetmm_to_card_barrier();
    unetmm_write_word(word, value);
}

/*
 * The doorbell: exactly one 32-bit store to the bus.  The card ignores the
 * value.
 */
UNETMM_HELPER_ void unetmm_write_doorbell(volatile uint32_t *doorbell)
{
    unetmm_doorbell_barrier();
    *doorbell = 1;
}

#endif /* LIBUNETMM_MMIO_H */
