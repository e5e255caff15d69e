/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Common to the tools: messages, the clock, samples.
 */
#ifndef UNETMM_TOOLS_COMMON_H
#define UNETMM_TOOLS_COMMON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <libunetmm.h>

#include "options.h"

#define NS_PER_S        1000000000ull
#define NS_PER_MS       1000000ull

/* One sentence on stderr, then the end with EXIT_FAILURE. */
void fail(const char *format, ...)
    __attribute__((noreturn, format(printf, 1, 2)));

/* One sentence on stderr, and on. */
void complain(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* The same for an error of the library: "<call>: <advice>". */
void complain_call(int error, enum unetmm_call call, const char *what);
void fail_call(int error, enum unetmm_call call, const char *what)
    __attribute__((noreturn));

uint64_t now_ns(void);
/* 0: the time has passed. */
int64_t time_left(uint64_t deadline);

/*
 * True, after a pause: connecting failed with `ret` because there is no link, which may
 * come with the peer's machine, before `deadline`.
 */
bool link_may_come(int ret, uint64_t deadline);

/* The sample at `share` of all (0.5: the median); they must be sorted. */
uint64_t percentile(const uint64_t *sorted, size_t count, double share);
void sort_samples(uint64_t *samples, size_t count);

/* The name for messages; set once by main(). */
extern const char *tool_name;

#endif /* UNETMM_TOOLS_COMMON_H */
