/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tour.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static const char *tour_name;     /* for the sentences */

int check(int ret, enum unetmm_call call)
{
    if (ret < 0) {
        fprintf(stderr, "%s: %s\n", tour_name, unetmm_strerror(ret, call));
        exit(EXIT_FAILURE);
    }
    return ret;
}

void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", tour_name, what);
    exit(EXIT_FAILURE);
}

void check_status(unsigned status, const char *what)
{
    if (status) {
        fprintf(stderr, "%s: %s: %s\n", tour_name, what,
                unetmm_status_str(status));
        exit(EXIT_FAILURE);
    }
}

void *memory(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    /* Huge pages are paged out as a whole or not at all. */
    if (at == MAP_FAILED || madvise(at, bytes, MADV_NOHUGEPAGE)) {
        fail("no memory");
    }
    memset(at, 1, bytes);
    return at;
}

uint64_t page_out(uint8_t *at, size_t bytes)
{
    unsigned char *there = malloc(bytes / PAGE);
    uint64_t out = 0;

    if (!there || madvise(at, bytes, MADV_PAGEOUT) ||
        mincore(at, bytes, there)) {
        fail("the kernel pages nothing out");
    }
    for (size_t i = 0; i < bytes / PAGE; i++) {
        out += !(there[i] & 1);
    }
    free(there);
    return out;
}

static uint8_t pattern(uint32_t key, uint64_t at)
{
    return (uint8_t)((at * 0x9e3779b1u + key * 0x85ebca6bu) >> 13 | 1);
}

void fill(uint8_t *to, uint32_t key, uint64_t offset, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        to[i] = pattern(key, offset + i);
    }
}

uint64_t wrong(const uint8_t *at, uint32_t key, uint64_t offset, size_t length)
{
    uint64_t count = 0;

    for (size_t i = 0; i < length; i++) {
        count += at[i] != pattern(key, offset + i);
    }
    return count;
}

struct unetmm_completion next(struct unetmm_ep *ep, unsigned type)
{
    struct unetmm_completion c;

    do {
        if (!check(unetmm_wait(ep, &c, 1, 60 * SECOND), UNETMM_CALL_POLL)) {
            fail("nothing came for a minute");
        }
    } while (c.type != type);
    return c;
}

uint64_t card(struct unetmm_ctx *ctx, enum unetmm_counter n)
{
    uint64_t values[UNETMM_NUM_COUNTERS];

    check(unetmm_stats_read(ctx, UNETMM_SCOPE_CARD, 0, values,
                            UNETMM_NUM_COUNTERS), UNETMM_CALL_STATS);
    return values[n];
}

uint64_t driver(struct unetmm_ctx *ctx, enum unetmm_driver_counter n)
{
    uint64_t values[UNETMM_NUM_DRIVER_COUNTERS];

    check(unetmm_stats_read(ctx, UNETMM_SCOPE_DRIVER, 0, values,
                            UNETMM_NUM_DRIVER_COUNTERS), UNETMM_CALL_STATS);
    return values[n];
}

double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

int tour_main(int argc, char **argv, const char *name, unsigned source,
              void (*visit)(struct unetmm_ctx *ctx, const char *mac),
              void (*host)(struct unetmm_ctx *ctx))
{
    struct unetmm_ctx *ctx;

    tour_name = name;
    if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
        fprintf(stderr, "usage: %s [MAC]\n", name);
        return 2;
    }
    check(unetmm_open(NULL, source, &ctx), UNETMM_CALL_OPEN);
    if (argc == 2) {
        visit(ctx, argv[1]);
    } else {
        host(ctx);
    }
    return check(unetmm_close(ctx), UNETMM_CALL_ANY);
}
