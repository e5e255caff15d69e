/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The driver's histograms, as debugfs has them: of each stage a line with its
 * name, how often, and how long in all.
 */
#include "local.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PARAMETER   "/sys/module/unetmm/parameters/stages"

/* The driver measures stages when it is told to, and goes on with that. */
static void ask_for_stages(void)
{
    FILE *file = fopen(PARAMETER, "w");

    if (file) {
        fputs("1", file);
        fclose(file);
    }
}

void stages_read(const char *path, const struct stage *stages, unsigned n,
                 struct stage_sum *sums)
{
    struct stage_sum sum;
    char line[200], word[50];
    FILE *file;

    ask_for_stages();
    file = fopen(path, "r");
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
