/*
 * unetmm: references to pages, from a file
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "references.h"

static const char *path;
static FILE *file;
static uint64_t line_number;

static void G_GNUC_NORETURN stop(const char *why)
{
    fprintf(stderr, "error: %s:%" PRIu64 ": %s\n", path, line_number, why);
    exit(2);
}

void references_open(const char *name)
{
    path = name;
    line_number = 0;
    file = strcmp(name, "-") ? fopen(name, "r") : stdin;
    if (!file) {
        stop(g_strerror(errno));
    }
}

/* Takes a number of so many bits from the text, and the spaces behind it. */
static uint64_t take_number(char **at, unsigned bits)
{
    char *end;
    uint64_t v = g_ascii_strtoull(*at, &end, 0);

    if (!g_ascii_isdigit(**at) || v >> bits ||
        (*end && !g_ascii_isspace(*end))) {
        stop("use SPACE PAGE, as 1 0x7f3a2, with a space below 65536 and a page below 2^48");
    }
    *at = g_strchug(end);
    return v;
}

bool references_next(uint16_t *space, uint64_t *page)
{
    char text[128];

    while (fgets(text, sizeof(text), file)) {
        char *at;

        line_number++;
        if (!strchr(text, '\n') && !feof(file)) {
            stop("a line is longer than 126 bytes");
        }
        at = g_strchug(text);
        if (!*at || *at == '#') {
            continue;
        }
        *space = take_number(&at, REFERENCE_SPACE_BITS);
        *page = take_number(&at, REFERENCE_PAGE_BITS);
        if (*at) {
            stop("there is more than SPACE PAGE");
        }
        return true;
    }
    if (ferror(file)) {
        stop(g_strerror(errno));
    }
    fclose(file);
    return false;
}
