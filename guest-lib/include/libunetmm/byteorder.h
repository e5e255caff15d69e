/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The only place of the library where byte order is known.  Queue memory is
 * little-endian on every host.
 */
#ifndef LIBUNETMM_BYTEORDER_H
#define LIBUNETMM_BYTEORDER_H

#include <stdint.h>

#include <libunetmm/helper.h>

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__

UNETMM_HELPER_ uint16_t unetmm_swap16(uint16_t v) { return v; }
UNETMM_HELPER_ uint32_t unetmm_swap32(uint32_t v) { return v; }
UNETMM_HELPER_ uint64_t unetmm_swap64(uint64_t v) { return v; }

#else

UNETMM_HELPER_ uint16_t unetmm_swap16(uint16_t v)
{
    return __builtin_bswap16(v);
}
UNETMM_HELPER_ uint32_t unetmm_swap32(uint32_t v)
{
    return __builtin_bswap32(v);
}
UNETMM_HELPER_ uint64_t unetmm_swap64(uint64_t v)
{
    return __builtin_bswap64(v);
}

#endif

#endif /* LIBUNETMM_BYTEORDER_H */
