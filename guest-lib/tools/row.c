/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See row.h. */
#include "row.h"
#include "common.h"

#include <stdlib.h>

#define REPLACEMENT     "\xef\xbf\xbd"       /* U+FFFD */
#define LONGEST         4u                      /* bytes of a character */

/* The doubles that a program prints have no more significant digits. */
#define FLAGS           (JSON_COMPACT | JSON_REAL_PRECISION(15))

static json_t *checked(json_t *value)
{
    if (!value) {
        fail("out of memory");
    }
    return value;
}

json_t *row_new(void)
{
    return checked(json_object());
}

json_t *row_list(void)
{
    return checked(json_array());
}

void row_add(json_t *row, const char *name, json_t *value)
{
    if (json_object_set_new(row, name, checked(value))) {
        fail("out of memory");
    }
}

void row_append(json_t *list, json_t *value)
{
    if (json_array_append_new(list, checked(value))) {
        fail("out of memory");
    }
}

void row_flag(json_t *row, const char *name, bool flag)
{
    row_add(row, name, json_boolean(flag));
}

void row_count(json_t *row, const char *name, uint64_t count)
{
    char digits[24];

    if (count <= INT64_MAX) {
        row_add(row, name, json_integer((json_int_t)count));
        return;
    }
    snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count);
    row_text(row, name, digits);
}

/* Rounded as printf() rounds for people. */
json_t *real_value(double value, int digits)
{
    char text[400];

    snprintf(text, sizeof(text), "%.*f", digits, value);
    return checked(json_real(strtod(text, NULL)));
}

void row_real(json_t *row, const char *name, double value, int digits)
{
    row_add(row, name, real_value(value, digits));
}

/* Bytes of the character there; 0: they are none. */
static size_t character(const char *text, size_t left)
{
    size_t bytes;

    for (bytes = 1; bytes <= LONGEST && bytes <= left; bytes++) {
        json_t *value = json_stringn(text, bytes);

        if (value) {
            json_decref(value);
            return bytes;
        }
    }
    return 0;
}

json_t *text_value(const char *text)
{
    size_t left = strlen(text), n = 0;
    json_t *value = json_string(text);
    char *good;

    if (value) {
        return value;
    }
    good = malloc(left * strlen(REPLACEMENT) + 1);
    if (!good) {
        fail("out of memory");
    }
    while (left) {
        size_t bytes = character(text, left), step = bytes ? bytes : 1;

        memcpy(good + n, bytes ? text : REPLACEMENT,
               bytes ? bytes : strlen(REPLACEMENT));
        n += bytes ? bytes : strlen(REPLACEMENT);
        text += step;
        left -= step;
    }
    value = checked(json_stringn(good, n));
    free(good);
    return value;
}

void row_text(json_t *row, const char *name, const char *text)
{
    row_add(row, name, text_value(text));
}

void row_print(json_t *row)
{
    flockfile(stdout);
    json_dumpf(row, stdout, FLAGS);
    putchar('\n');
    fflush(stdout);
    funlockfile(stdout);
    json_decref(row);
}
