/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The samples of a run: a file that has each of them, and a histogram.
 */
#ifndef UNETMM_TOOLS_SAMPLES_H
#define UNETMM_TOOLS_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

/*
 * Opens the file for --samples, "-" for stdout, and writes its first line.  Ends the
 * program with a sentence if it cannot be written.
 */
FILE *samples_open(const char *path);

/*
 * Writes one line for each sample, in the order of their measurement: the size of the
 * message and the microseconds, which are `divisor` nanoseconds each.
 */
void samples_write(FILE *file, unsigned bytes, const uint64_t *samples,
                   size_t count, double divisor);

/* Ends the program with a sentence if not all could be written. */
void samples_close(FILE *file, const char *path);

/*
 * The histogram of sorted samples.  Four intervals are between a power of two and the
 * next one, and those without a sample are left out.  As JSON it is a list of
 * [from, count].
 */
void histogram_print(const uint64_t *sorted, size_t count, double divisor);
json_t *histogram_json(const uint64_t *sorted, size_t count, double divisor);

#endif /* UNETMM_TOOLS_SAMPLES_H */
