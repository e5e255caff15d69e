/*
 * unetmm: the tests of a program, or one of them alone
 *
 * Every program of cmocka is linked with this file.  UNETMM_TEST in the
 * environment names the tests of the program that are to be run; * stands for
 * any characters.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "one_test.h"
#include <stdlib.h>

static struct CMUnitTest tests[256];
static unsigned lines[256];
static size_t count;

/* Keeps the tests in the order of their lines. */
void one_test_add(unsigned line, struct CMUnitTest test)
{
    size_t i = count++;

    if (i == sizeof(lines) / sizeof(lines[0])) {
        abort();
    }
    for (; i > 0 && lines[i - 1] > line; i--) {
        lines[i] = lines[i - 1];
        tests[i] = tests[i - 1];
    }
    lines[i] = line;
    tests[i] = test;
}

static void __attribute__((constructor)) choose_tests(void)
{
    const char *name = getenv("UNETMM_TEST");

    if (name) {
        cmocka_set_test_filter(name);
    }
}

/* Of a program that defines its tests by TEST() */
int __attribute__((weak)) main(void)
{
    return count ? _cmocka_run_group_tests("tests", tests, count, NULL, NULL) :
        EXIT_FAILURE;
}
