/*
 * unetmm: CRC32C: known answers, and the table against the instruction
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fake_host.h"
/* The two ways are static: this program has its own copy of them. */
#include "base/crc.c"

/* RFC 3720, B.4, and the usual check value. */
TEST(test_known_answers, cmocka_unit_test)
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

TEST(test_in_pieces, cmocka_unit_test)
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

/* Bit by bit, as the polynomial is defined. */
static uint32_t crc_by_bits(uint32_t crc, const uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i < 8 * bytes; i++) {
        uint32_t bit = (crc ^ p[i / 8] >> i % 8) & 1;

        crc = crc >> 1 ^ (bit ? 0x82f63b78u : 0);
    }
    return crc;
}

/* The table and, where there is one, the processor's instruction. */
TEST(test_table_and_instruction, cmocka_unit_test)
{
    uint64_t random = fake_seed();
    uint8_t buf[600];

    for (unsigned n = 0; n < 2000; n++) {
        size_t at = fake_random(&random) % 16;
        size_t bytes = fake_random(&random) % (sizeof(buf) - 16);
        uint32_t start = fake_random(&random);
        uint32_t crc;

        for (size_t i = 0; i < bytes; i++) {
            buf[at + i] = fake_random(&random);
        }
        crc = crc_by_bits(start, buf + at, bytes);
        assert_int_equal(crc_by_table(start, buf + at, bytes), crc);
        if (crc_have_instruction()) {
            assert_int_equal(crc_by_instruction(start, buf + at, bytes), crc);
        }
    }
}
