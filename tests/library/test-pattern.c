/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The pattern that all checks of data rest on.
 */
#include <stddef.h>
#include <stdint.h>

#include "../one_test.h"

#include "pattern.h"

TEST(pieces_make_the_whole, cmocka_unit_test)
{
    uint8_t whole[256], part[256];
    size_t from, len;

    pattern_fill(whole, sizeof(whole), 9, 1000);
    for (from = 0; from < 32; from++) {
        for (len = 0; len + from <= sizeof(whole); len++) {
            pattern_fill(part, len, 9, 1000 + from);
            assert_memory_equal(part, whole + from, len);
            assert_int_equal(pattern_check(part, len, 9, 1000 + from), len);
        }
    }
}

TEST(finds_every_wrong_bit, cmocka_unit_test)
{
    uint8_t bytes[67];
    size_t i;
    int bit;

    for (i = 0; i < sizeof(bytes); i++) {
        for (bit = 0; bit < 8; bit++) {
            pattern_fill(bytes, sizeof(bytes), 10, 3);
            bytes[i] ^= (uint8_t)(1u << bit);
            assert_int_equal(pattern_check(bytes, sizeof(bytes), 10, 3), i);
        }
    }
}

TEST(other_place_or_message_differs, cmocka_unit_test)
{
    uint8_t bytes[64];
    uint64_t i;

    for (i = 1; i < 10000; i++) {
        pattern_fill(bytes, sizeof(bytes), pattern_key(1, 1), 0);
        assert_true(pattern_check(bytes, 64, pattern_key(1, 1), i) < 64);
        assert_true(pattern_check(bytes, 64, pattern_key(1, 1 + i), 0) < 64);
        assert_true(pattern_check(bytes, 64, pattern_key(1 + i, 1), 0) < 64);
    }
}
