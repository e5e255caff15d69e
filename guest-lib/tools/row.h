/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The tools' JSON: one object, made member by member, is one line of output.
 *
 * Each function ends the program with a sentence if there is no memory.
 */
#ifndef UNETMM_TOOLS_ROW_H
#define UNETMM_TOOLS_ROW_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

json_t *row_new(void);
json_t *row_list(void);

/* Both take over the reference to `value`. */
void row_add(json_t *row, const char *name, json_t *value);
void row_append(json_t *list, json_t *value);

void row_flag(json_t *row, const char *name, bool flag);

/* An integer; the digits as a string if jansson has no integer so large. */
void row_count(json_t *row, const char *name, uint64_t count);

/* With so many digits behind the point. */
void row_real(json_t *row, const char *name, double value, int digits);
json_t *real_value(double value, int digits);

/* JSON is UTF-8: each byte of a name that is part of no character becomes U+FFFD. */
void row_text(json_t *row, const char *name, const char *text);
json_t *text_value(const char *text);

/* Prints the line, and frees the row. */
void row_print(json_t *row);

#endif /* UNETMM_TOOLS_ROW_H */
