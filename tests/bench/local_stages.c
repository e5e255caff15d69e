/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Histograms of the driver's, as debugfs has them: of each stage a line with its name,
 * how often, and how long in all.
 */
#include "local.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void stages_read(const char *path, const struct stage *stages, unsigned n,
                 struct stage_sum *sums)
{
    FILE *file = fopen(path, "r");
    struct stage_sum sum;
    char line[200], word[50];

    memset(sums, 0, n * sizeof(*sums));
    while (file && fgets(line, sizeof(line), file)) {
        if (sscanf(line, "%49s count %" SCNu64 " ns %" SCNu64, word,
                   &sum.count, &sum.ns) != 3) {
            continue;
        }
        for (unsigned i = 0; i < n; i++) {
            if (!strcmp(word, stages[i].word)) {
                sums[i] = sum;
            }
        }
    }
    if (file) {
        fclose(file);
    }
}
