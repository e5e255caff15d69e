/*
 * unetmm: CRC32C: known answers, and the table against the instruction
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fake_host.h"
/* The two ways are static: this program has its own copy of them. */
#include "unetmm_crc.c"

/* RFC 3720, B.4, and the usual check value. */
static void test_known_answers(void **state)
{
    uint8_t buf[32];

    assert_int_equal(unetmm_crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(unetmm_crc32c(0, "", 0), 0);
    memset(buf, 0, sizeof(buf));
    assert_int_equal(unetmm_crc32c(0, buf, 32), 0x8a9136aa);
    memset(buf, 0xff, sizeof(buf));
    assert_int_equal(unetmm_crc32c(0, buf, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++) {
        buf[i] = i;
    }
    assert_int_equal(unetmm_crc32c(0, buf, 32), 0x46dd794e);
    for (int i = 0; i < 32; i++) {
        buf[i] = 31 - i;
    }
    assert_int_equal(unetmm_crc32c(0, buf, 32), 0x113fdb5c);
}

static void test_in_pieces(void **state)
{
    uint8_t buf[300];
    uint32_t whole;

    for (unsigned i = 0; i < sizeof(buf); i++) {
        buf[i] = fake_pattern(1, i);
    }
    whole = unetmm_crc32c(0, buf, sizeof(buf));
    for (unsigned cut = 0; cut <= sizeof(buf); cut++) {
        uint32_t part = unetmm_crc32c(0, buf, cut);

        assert_int_equal(unetmm_crc32c(part, buf + cut, sizeof(buf) - cut),
                         whole);
    }
}

static void test_table_is_instruction(void **state)
{
    uint64_t random = fake_seed();
    uint8_t buf[600];

    for (unsigned n = 0; n < 2000; n++) {
        size_t at = fake_random(&random) % 16;
        size_t bytes = fake_random(&random) % (sizeof(buf) - 16);
        uint32_t start = fake_random(&random);

        for (size_t i = 0; i < bytes; i++) {
            buf[at + i] = fake_random(&random);
        }
        assert_int_equal(crc_by_table(start, buf + at, bytes),
                         crc_by_instruction(start, buf + at, bytes));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_in_pieces),
        cmocka_unit_test(test_table_is_instruction),
    };

    /* The last compares the table with the instruction, if there is one. */
    return _cmocka_run_group_tests("tests", tests, G_N_ELEMENTS(tests) -
                                   !crc_have_instruction(), NULL, NULL);
}
