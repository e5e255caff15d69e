/*
 * unetmm: one test of a program alone
 *
 * Every program of cmocka is linked with this file.  UNETMM_TEST in the
 * environment names the tests of the program that are to be run; * stands for
 * any characters.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

static void __attribute__((constructor)) choose_tests(void)
{
    const char *name = getenv("UNETMM_TEST");

    if (name) {
        cmocka_set_test_filter(name);
    }
}
