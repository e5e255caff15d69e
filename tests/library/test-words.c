/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names, sentences and addresses.
 */
#include <stddef.h>
#include <stdint.h>

#include "../one_test.h"

#include <libunetmm.h>
#include <netinet/ether.h>
#include <string.h>

TEST(reads_addresses, cmocka_unit_test)
{
    static const char *const wrong[] = {
        "", "5", "52:54:00:12:34", "52:54:00:12:34:5", "52:54:00:12:34:56:",
        "52:54:00:12:34:56:78", "52 54 00 12 34 56", "g2:54:00:12:34:56",
        "525400123456", "01:00:00:00:00:00", "ff:ff:ff:ff:ff:ff",
        "00:00:00:00:00:00", "52:54:00:12:34:5g",
    };
    const uint8_t expected[6] = { 0x52, 0x54, 0, 0xab, 0xcd, 0xef };
    char text[UNETMM_MAC_CHARS];
    uint8_t mac[6] = { 0 };
    size_t i;

    assert_int_equal(unetmm_parse_mac("52:54:00:ab:CD:Ef", mac), 0);
    assert_memory_equal(mac, expected, 6);
    assert_string_equal(unetmm_format_mac(mac, text), "52:54:00:ab:cd:ef");
    assert_int_equal(unetmm_parse_mac("52-54-00-ab-cd-ef", mac), 0);
    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(unetmm_parse_mac(wrong[i], mac), -EINVAL);
    }
    assert_memory_equal(mac, expected, 6);
}

TEST(every_status_has_a_sentence, cmocka_unit_test)
{
    unsigned i;

    for (i = 0; i < UNETMM_NUM_ST; i++) {
        assert_non_null(unetmm_status_str(i));
        assert_in_range(-unetmm_status_errno(i), i != UNETMM_ST_OK, 4095);
        assert_string_not_equal(unetmm_status_str(i), "unknown status");
    }
    assert_string_equal(unetmm_status_str(UNETMM_NUM_ST), "unknown status");
    assert_string_equal(unetmm_status_str(~0u), "unknown status");
    assert_int_equal(unetmm_status_errno(UNETMM_ST_OK), 0);
    assert_int_equal(unetmm_status_errno(UNETMM_ST_REMOTE_RIGHT), -EACCES);
    assert_int_equal(unetmm_status_errno(UNETMM_NUM_ST), -EIO);
    assert_int_equal(unetmm_status_errno(~0u), -EIO);
}

TEST(every_error_has_a_sentence, cmocka_unit_test)
{
    int error, call;

    for (call = UNETMM_CALL_ANY; call <= UNETMM_CALL_PREFETCH; call++) {
        for (error = -200; error < 200; error++) {
            const char *words = unetmm_strerror(error, call);

            assert_non_null(words);
            /* Options and programs are not the library's to speak of. */
            assert_null(strstr(words, "--"));
            assert_null(strstr(words, "unetmm-"));
        }
        assert_non_null(unetmm_strerror(INT32_MIN, call));
    }
    assert_string_equal(unetmm_strerror(-ENOENT, UNETMM_CALL_OPEN),
                        unetmm_strerror(ENOENT, UNETMM_CALL_OPEN));
    assert_string_not_equal(unetmm_strerror(-ENOENT, UNETMM_CALL_OPEN),
                            unetmm_strerror(-ENOENT, UNETMM_CALL_SEND));
    assert_string_equal(unetmm_strerror(0, UNETMM_CALL_ANY), "no error");
}

/* The answer of ether_hostton(), in ethers(5)'s place. */
static int hostton_result;
static uint8_t hostton_address[6];

int ether_hostton(const char *name, struct ether_addr *address)
{
    assert_string_equal(name, "box");
    errno = ENOENT;
    memcpy(address, hostton_address, sizeof(hostton_address));
    return hostton_result;
}

TEST(resolves_names, cmocka_unit_test)
{
    static const uint8_t good[6] = { 2, 0, 0, 0, 0, 7 };
    uint8_t mac[6] = { 0 };

    errno = 12345;
    memcpy(hostton_address, good, sizeof(good));
    assert_int_equal(unetmm_resolve("box", mac), 0);
    assert_memory_equal(mac, good, sizeof(mac));
    assert_int_equal(unetmm_resolve("52:54:00:12:34:56", mac), 0);
    assert_int_equal(mac[5], 0x56);
    hostton_result = -1;
    assert_int_equal(unetmm_resolve("box", mac), -ENOENT);
    hostton_result = 0;
    hostton_address[0] = 1;
    assert_int_equal(unetmm_resolve("box", mac), -EINVAL);
    memset(hostton_address, 0, sizeof(hostton_address));
    assert_int_equal(unetmm_resolve("box", mac), -EINVAL);
    assert_int_equal(mac[5], 0x56);
    assert_int_equal(errno, 12345);
}

TEST(counters_have_names, cmocka_unit_test)
{
    const char *help = NULL;
    unsigned i;

    for (i = 0; i < UNETMM_NUM_COUNTERS; i++) {
        assert_non_null(unetmm_stats_name(UNETMM_SCOPE_CARD, i, &help));
        assert_non_null(help);
    }
    assert_null(unetmm_stats_name(UNETMM_SCOPE_CARD, i, &help));
    for (i = 0; i < UNETMM_NUM_DRIVER_COUNTERS; i++) {
        assert_non_null(unetmm_stats_name(UNETMM_SCOPE_DRIVER, i, NULL));
    }
    assert_null(unetmm_stats_name(UNETMM_SCOPE_DRIVER, i, NULL));
    assert_null(unetmm_stats_name(3, 0, NULL));
    assert_string_equal(unetmm_stats_name(UNETMM_SCOPE_ENDPOINT,
                                          UNETMM_C_tlb_hits, NULL),
                        "tlb_hits");
    assert_null(unetmm_stats_name(UNETMM_SCOPE_ENDPOINT, UNETMM_C_turns,
                                  NULL));
}
