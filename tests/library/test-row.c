/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names and numbers as the tools write them in JSON.
 */
#include <stddef.h>
#include <stdint.h>

/* First: both have a fail(), and only the macro gives way. */
#include "common.h"
#include "row.h"

#include "../one_test.h"
#include <stdio.h>
#include <stdlib.h>

/* Prints the row, and frees it. */
static void expect_row(json_t *row, const char *wanted)
{
    FILE *saved = stdout;
    size_t bytes;
    char *line;

    stdout = open_memstream(&line, &bytes);
    assert_non_null(stdout);
    row_print(row);
    fclose(stdout);
    stdout = saved;
    assert_string_equal(line, wanted);
    free(line);
}

/* The text as the only entry of a list */
static void expect(const char *text, const char *wanted)
{
    json_t *list = row_list();

    row_append(list, text_value(text));
    expect_row(list, wanted);
}

TEST(names_stay_what_they_are, cmocka_unit_test)
{
    expect("", "[\"\"]\n");
    expect("/dev/unetmm0", "[\"/dev/unetmm0\"]\n");
    /* Two, three and four bytes */
    expect("gr\xc3\xbc\xc3\x9f", "[\"gr\xc3\xbc\xc3\x9f\"]\n");
    expect("\xe2\x82\xac \xf0\x9f\x90\xa7", "[\"\xe2\x82\xac \xf0\x9f\x90\xa7\"]\n");
    expect("a\"b\\c\x01\x1f", "[\"a\\\"b\\\\c\\u0001\\u001F\"]\n");
}

#define WRONG   "\xef\xbf\xbd"

/* Each byte alone: the bytes behind it are not swallowed. */
TEST(bytes_of_no_character_are_marked, cmocka_unit_test)
{
    static const char *const wrong[] = {
        "\x80", "\xbf", "\xc0", "\xc1", "\xf5", "\xff",
    };
    size_t i;

    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        expect(wrong[i], "[\"" WRONG "\"]\n");
    }
    expect("\xc3z", "[\"" WRONG "z\"]\n");
    expect("\xe2\x82", "[\"" WRONG WRONG "\"]\n");
    expect("\xf0\x9f\x90\"", "[\"" WRONG WRONG WRONG "\\\"\"]\n");
    expect("\xc3\xbc\xff\xe2\x82\xac", "[\"\xc3\xbc" WRONG "\xe2\x82\xac\"]\n");
    /* Longer than necessary; a surrogate; a number beyond all characters */
    expect("\xe0\x9f\xbf", "[\"" WRONG WRONG WRONG "\"]\n");
    expect("\xed\xa0\x80", "[\"" WRONG WRONG WRONG "\"]\n");
    expect("\xf4\x90\x80\x80", "[\"" WRONG WRONG WRONG WRONG "\"]\n");
}

TEST(numbers_keep_their_digits, cmocka_unit_test)
{
    json_t *row = row_new();

    row_count(row, "most", INT64_MAX);
    row_count(row, "more", UINT64_MAX);
    row_real(row, "third", 1.0 / 3, 3);
    row_real(row, "tie", 2.0005, 3);
    row_real(row, "whole", 12345678.9, 0);
    row_flag(row, "yes", true);
    expect_row(row, "{\"most\":9223372036854775807,"
               "\"more\":\"18446744073709551615\",\"third\":0.333,"
               "\"tie\":2.001,\"whole\":12345679.0,\"yes\":true}\n");
}
