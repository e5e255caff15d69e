/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A wait for other threads that fails, after two minutes, instead of lasting for ever.
 */
#ifndef EVENTUALLY_H
#define EVENTUALLY_H

#include "sys/sys.h"

#include <sched.h>

#define EVENTUALLY(condition) \
    do { \
        uint64_t end_ = sys_now_ns() + 120000000000; \
        while (!(condition)) { \
            assert_true(sys_now_ns() < end_); \
            sched_yield(); \
        } \
    } while (0)

#endif
