/*
 * unetmm: answers of the card that stay within the question of the driver
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "../../one_test.h"

#include "util/share.h"

/* Against each byte of a small space. */
TEST(test_all_small_ones, cmocka_unit_test)
{
    for (unsigned start = 0; start < 8; start++) {
        for (unsigned bytes = 0; bytes < 8; bytes++) {
            for (unsigned offset = 0; offset < 17; offset++) {
                for (unsigned length = 0; length < 17; length++) {
                    bool within = length > 0;

                    for (unsigned i = offset; i < offset + length; i++) {
                        within = within && i >= start && i < start + bytes;
                    }
                    assert_int_equal(unetmm_within(offset, length, start,
                                                   bytes), within);
                }
            }
        }
    }
}

/* Sums that pass 2^64 are no way in. */
TEST(test_no_overflow, cmocka_unit_test)
{
    assert_false(unetmm_within(UINT64_MAX, 2, 0, 10));
    assert_false(unetmm_within(5, UINT64_MAX, 0, 10));
    assert_false(unetmm_within(5, UINT64_MAX - 3, 4, 10));
    assert_false(unetmm_within(0, 1, UINT64_MAX - 1, 10));
    assert_true(unetmm_within(UINT64_MAX, 1, UINT64_MAX, 1));
    assert_true(unetmm_within(0, UINT64_MAX, 0, UINT64_MAX));
}
