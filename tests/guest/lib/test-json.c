/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names as the tools write them in JSON.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* First: both have a fail(), and only the macro gives way. */
#include "common.h"

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

static void expect(const char *text, const char *wanted)
{
    FILE *saved = stdout;
    size_t bytes;
    char *json;

    stdout = open_memstream(&json, &bytes);
    assert_non_null(stdout);
    json_string(text);
    fclose(stdout);
    stdout = saved;
    assert_string_equal(json, wanted);
    free(json);
}

static void names_stay_what_they_are(void **state)
{
    (void)state;
    expect("", "\"\"");
    expect("/dev/unetmm0", "\"/dev/unetmm0\"");
    /* Two, three and four bytes, and the first and last of each length */
    expect("gr\xc3\xbc\xc3\x9f", "\"gr\xc3\xbc\xc3\x9f\"");
    expect("\xe2\x82\xac \xf0\x9f\x90\xa7", "\"\xe2\x82\xac \xf0\x9f\x90\xa7\"");
    expect("\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf",
           "\"\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\"");
    expect("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\xed\x9f\xbf",
           "\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\xed\x9f\xbf\"");
}

static void what_json_reads_is_escaped(void **state)
{
    (void)state;
    expect("a\"b\\c", "\"a\\u0022b\\u005cc\"");
    expect("\x01\n\x1f \x7f", "\"\\u0001\\u000a\\u001f \\u007f\"");
}

/* Each byte alone: the bytes behind it are not swallowed. */
static void what_is_no_character_is_marked(void **state)
{
    static const char *const wrong[] = {
        "\x80", "\xbf", "\xc0", "\xc1", "\xf5", "\xff",
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        expect(wrong[i], "\"\\ufffd\"");
    }
    expect("\xc3z", "\"\\ufffdz\"");
    expect("\xe2\x82", "\"\\ufffd\\ufffd\"");
    expect("\xf0\x9f\x90\"", "\"\\ufffd\\ufffd\\ufffd\\u0022\"");
    /* Detours, surrogates, numbers beyond all characters */
    expect("\xe0\x9f\xbf", "\"\\ufffd\\ufffd\\ufffd\"");
    expect("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"");
    expect("\xf0\x8f\xbf\xbf", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
    expect("\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_stay_what_they_are),
        cmocka_unit_test(what_json_reads_is_escaped),
        cmocka_unit_test(what_is_no_character_is_marked),
    };

    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
