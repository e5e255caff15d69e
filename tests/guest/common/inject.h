/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Allocations and copies that the kernel lets fail on request.
 */
#ifndef TEST_INJECT_H
#define TEST_INJECT_H

#include "tap.h"

/*
 * Skips the test on a kernel that cannot do it.  Else: whatever may fail can be
 * asked to, nothing fails yet, and the kernel does not print each failure.
 */
void inject_need(void);

/*
 * The n-th thing of this thread that can fail from now on fails, once: an
 * allocation of memory by the kernel, or a copy from or to user memory.
 */
void inject_nth(unsigned n);
/*
 * Nothing fails from here on.  Returns n less the chances that there have been:
 * 0 if it has failed.
 */
unsigned inject_end(void);

/*
 * Of the allocations of kernel threads, those of work queues and the driver's
 * own among them, `percent` fail, `most` at most.
 */
void inject_into_workers(unsigned percent, unsigned most);
/* Of all the kernel's allocations that cannot wait, in interrupts or elsewhere. */
void inject_into_those_in_haste(unsigned percent);
void inject_stop(void);

#endif /* TEST_INJECT_H */
