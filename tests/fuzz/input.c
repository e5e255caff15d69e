/*
 * unetmm: fuzzing: reading an input
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <endian.h>
#include <string.h>

#include "input.h"

void fuzz_bytes(FuzzIn *in, void *buf, size_t n)
{
    size_t have = n < in->left ? n : in->left;

    memset(buf, 0, n);
    if (have) {
        memcpy(buf, in->data, have);
        in->data += have;
        in->left -= have;
    }
}

uint8_t fuzz_u8(FuzzIn *in)
{
    uint8_t v;

    fuzz_bytes(in, &v, sizeof(v));
    return v;
}

uint16_t fuzz_u16(FuzzIn *in)
{
    uint16_t v;

    fuzz_bytes(in, &v, sizeof(v));
    return le16toh(v);
}

uint32_t fuzz_u32(FuzzIn *in)
{
    uint32_t v;

    fuzz_bytes(in, &v, sizeof(v));
    return le32toh(v);
}

uint64_t fuzz_u64(FuzzIn *in)
{
    uint64_t v;

    fuzz_bytes(in, &v, sizeof(v));
    return le64toh(v);
}

uint32_t fuzz_below(FuzzIn *in, uint32_t n)
{
    return (n <= 256 ? fuzz_u8(in) : fuzz_u16(in)) % n;
}
