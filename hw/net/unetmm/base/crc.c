/*
 * unetmm: CRC32C, by the processor's instruction where there is one
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "base.h"

#define CRC32C_POLY 0x82f63b78u         /* Castagnoli, reflected */

static uint32_t crc_table[256];

static void __attribute__((constructor)) crc_fill_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;

        for (int bit = 0; bit < 8; bit++) {
            c = c & 1 ? c >> 1 ^ CRC32C_POLY : c >> 1;
        }
        crc_table[i] = c;
    }
}

static uint32_t crc_by_table(uint32_t crc, const uint8_t *p, size_t bytes)
{
    while (bytes--) {
        crc = crc >> 8 ^ crc_table[(crc ^ *p++) & 0xff];
    }
    return crc;
}

#if defined(__x86_64__)
static uint32_t __attribute__((target("sse4.2")))
crc_by_instruction(uint32_t crc, const uint8_t *p, size_t bytes)
{
    uint64_t wide = crc;

    for (; bytes >= 8; bytes -= 8, p += 8) {
        uint64_t v;

        memcpy(&v, p, 8);
        wide = __builtin_ia32_crc32di(wide, v);
    }
    crc = (uint32_t)wide;
    while (bytes--) {
        crc = __builtin_ia32_crc32qi(crc, *p++);
    }
    return crc;
}

static bool crc_have_instruction(void)
{
    return __builtin_cpu_supports("sse4.2");
}
#else
static uint32_t crc_by_instruction(uint32_t crc, const uint8_t *p,
                                   size_t bytes)
{
    return crc_by_table(crc, p, bytes);
}

static bool crc_have_instruction(void)
{
    return false;
}
#endif

uint32_t unetmm_crc32c(uint32_t crc, const void *data, size_t bytes)
{
    crc = ~crc;
    if (crc_have_instruction()) {
        crc = crc_by_instruction(crc, data, bytes);
    } else {
        crc = crc_by_table(crc, data, bytes);
    }
    return ~crc;
}
