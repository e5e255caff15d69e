/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Counting instructions exactly, without the processor's help: another process
 * steps through them one by one.
 */
#ifndef BENCH_STEPS_H
#define BENCH_STEPS_H

#include <stdint.h>

/*
 * Runs fn(opaque) in a child process and counts its instructions between calls
 * of steps_mark(): the first and the second, the third and the fourth, and so
 * on.  There must be nothing between the first two; their cost is subtracted
 * from each of the others.  Returns the sum, or -1; a child that fails has
 * said why.
 */
int64_t steps_count(void (*fn)(void *opaque), void *opaque);
void steps_mark(void);

#endif /* BENCH_STEPS_H */
