/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Each source of the provider is tested with this header before it: a lock that is dropped
 * has to be held.  So a test fails if a lock is not taken, without a second thread.
 */
#ifndef UNETMM_TESTS_PROVIDER_HELD_H
#define UNETMM_TESTS_PROVIDER_HELD_H

#include "../../guest-lib/provider/lock.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

static inline void held_lock_drop(struct umfi_lock *lock)
{
    if (__atomic_load_n(&lock->state, __ATOMIC_RELAXED) == UMFI_FREE) {
        abort();
    }
    umfi_lock_drop(lock);
}

static inline int held_mutex_unlock(pthread_mutex_t *mutex)
{
    if (pthread_mutex_trylock(mutex) != EBUSY) {
        abort();
    }
    return pthread_mutex_unlock(mutex);
}

#define umfi_lock_drop          held_lock_drop
#define pthread_mutex_unlock    held_mutex_unlock

#endif
