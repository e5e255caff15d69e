/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Each source of the provider is tested with this header before it: a lock that is dropped
 * has to be held.  So a test fails if a lock is not taken, without a second thread.
 */
#ifndef UNETMM_TESTS_PROVIDER_HELD_H
#define UNETMM_TESTS_PROVIDER_HELD_H

#include "../../guest-lib/src/sys/lock.h"

#include <stdlib.h>

static inline void held_lock_drop(struct sys_lock *lock)
{
    if (__atomic_load_n(&lock->state, __ATOMIC_RELAXED) == SYS_LOCK_FREE) {
        abort();
    }
    sys_lock_drop(lock);
}

#define sys_lock_drop  held_lock_drop

#endif
