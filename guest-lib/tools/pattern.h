/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A pattern of bytes in which every byte depends on a seed, on the number of
 * the message and on its position in it, so that data from another message,
 * another place or another run is found out.
 */
#ifndef UNETMM_PATTERN_H
#define UNETMM_PATTERN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The key of one message: all of its bits depend on all of seed and seq. */
static inline uint64_t pattern_key(uint64_t seed, uint64_t seq)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15ull + seq;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

/* Eight bytes from position 8 * word on; cheap, for it is in inner loops. */
static inline uint64_t pattern_word(uint64_t key, uint64_t word)
{
    uint64_t x = (key + word) * 0xd6e8feb86659fd93ull;

    return x ^ x >> 32;
}

static inline uint8_t pattern_byte(uint64_t key, uint64_t position)
{
    return (uint8_t)(pattern_word(key, position / 8) >> 8 * (position % 8));
}

static inline uint64_t pattern_load(const uint8_t *bytes)
{
    uint64_t v = 0;

    memcpy(&v, bytes, sizeof(v));
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    return v;
}

/* Fills `len` bytes, which are those from `position` on in the message. */
static inline void pattern_fill(void *buffer, size_t len, uint64_t key,
                                uint64_t position)
{
    uint8_t *bytes = buffer;
    size_t i = 0;

    for (; i < len && (position + i) % 8; i++) {
        bytes[i] = pattern_byte(key, position + i);
    }
    for (; i + 8 <= len; i += 8) {
        uint64_t v = pattern_word(key, (position + i) / 8);

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
        v = __builtin_bswap64(v);
#endif
        memcpy(bytes + i, &v, sizeof(v));
    }
    for (; i < len; i++) {
        bytes[i] = pattern_byte(key, position + i);
    }
}

/* The index of the first byte that differs, or `len`. */
static inline size_t pattern_check(const void *buffer, size_t len,
                                   uint64_t key, uint64_t position)
{
    const uint8_t *bytes = buffer;
    size_t i = 0;

    for (; i < len && (position + i) % 8; i++) {
        if (bytes[i] != pattern_byte(key, position + i)) {
            return i;
        }
    }
    for (; i + 8 <= len; i += 8) {
        if (pattern_load(bytes + i) != pattern_word(key, (position + i) / 8)) {
            break;
        }
    }
    for (; i < len; i++) {
        if (bytes[i] != pattern_byte(key, position + i)) {
            return i;
        }
    }
    return len;
}

#endif /* UNETMM_PATTERN_H */
