/*
 * unetmm: a test of cmocka whose definition puts it into its program
 *
 *     TEST(test_basics, fix_test)              TEST(test_slow, fix_test_with, slow)
 *     {                                        {
 *
 * The second word is cmocka_unit_test or a macro of its kind, whose further
 * arguments follow.  ALSO() beside TEST() has the test run once more, with other
 * arguments.  Tests run in the order of their lines.
 *
 *     TEST_OF(test_of_a_card, Fix *f, fix_test)
 *
 * has the state that the kind's setup has made as its argument.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef ONE_TEST_H
#define ONE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define TEST(fn, ...) \
    ALSO(fn, __VA_ARGS__) static void fn(void **state __attribute__((unused)))
#define TEST_OF(fn, argument, ...) \
    static void fn##_of(argument); \
    ALSO(fn, __VA_ARGS__) static void fn(void **state) { fn##_of(*state); } \
    static void fn##_of(argument)
#define ALSO(fn, ...) ONE_TEST(__LINE__, fn, __VA_ARGS__)
#define ONE_TEST(line, fn, ...) ONE_TEST_AT(line, fn, __VA_ARGS__)
#define ONE_TEST_AT(line, fn, kind, ...) \
    static void fn(void **state); \
    static void __attribute__((constructor)) fn##_at_##line(void) \
    { \
        one_test_add(line, (struct CMUnitTest)kind(fn, ##__VA_ARGS__)); \
    }

void one_test_add(unsigned line, struct CMUnitTest test);

#endif /* ONE_TEST_H */
