/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See samples.h. */
#include "samples.h"
#include "common.h"
#include "row.h"

#include <string.h>

#define BAR_COLUMNS     40u

FILE *samples_open(const char *path)
{
    FILE *file = strcmp(path, "-") ? fopen(path, "w") : stdout;

    if (!file) {
        fail("%s cannot be written: %s", path, strerror(errno));
    }
    fprintf(file, "# bytes microseconds\n");
    return file;
}

void samples_write(FILE *file, unsigned bytes, const uint64_t *samples,
                   size_t count, double divisor)
{
    size_t i;

    for (i = 0; i < count; i++) {
        fprintf(file, "%u %.3f\n", bytes, (double)samples[i] / divisor);
    }
}

void samples_close(FILE *file, const char *path)
{
    bool failed = ferror(file);

    failed |= file == stdout ? fflush(file) != 0 : fclose(file) != 0;
    if (failed) {
        fail("not all samples could be written to %s", path);
    }
}

/* Where the interval of a sample begins: its three most significant bits. */
static uint64_t interval(uint64_t sample)
{
    unsigned bits = 0;

    while (sample >> bits > 7) {
        bits++;
    }
    return sample >> bits << bits;
}

/* The end of the samples from `first` on that are in one interval. */
static size_t interval_end(const uint64_t *sorted, size_t count, size_t first)
{
    size_t end = first + 1;

    while (end < count && interval(sorted[end]) == interval(sorted[first])) {
        end++;
    }
    return end;
}

static void print_bar(size_t n, size_t most)
{
    size_t columns = (n * BAR_COLUMNS + most - 1) / most;

    while (columns--) {
        putchar('#');
    }
    putchar('\n');
}

void histogram_print(const uint64_t *sorted, size_t count, double divisor)
{
    size_t first, end, most = 0;

    for (first = 0; first < count; first = end) {
        end = interval_end(sorted, count, first);
        most = end - first > most ? end - first : most;
    }
    printf("%12s %8s\n", "from us", "n");
    for (first = 0; first < count; first = end) {
        end = interval_end(sorted, count, first);
        printf("%12.2f %8zu ", (double)interval(sorted[first]) / divisor,
               end - first);
        print_bar(end - first, most);
    }
}

json_t *histogram_json(const uint64_t *sorted, size_t count, double divisor)
{
    json_t *list = row_list();
    size_t first, end;

    for (first = 0; first < count; first = end) {
        json_t *entry = row_list();

        end = interval_end(sorted, count, first);
        row_append(entry, real_value((double)interval(sorted[first]) / divisor, 3));
        row_append(entry, json_integer((json_int_t)(end - first)));
        row_append(list, entry);
    }
    return list;
}
