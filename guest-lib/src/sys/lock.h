/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The locks of both providers; provider.h and verbs/verbs.h say which members each lock guards.
 * Each call of the data path takes one, and with a pthread mutex that would be half of the
 * instructions of a short message.  Without contention a lock is one atomic instruction each way; a
 * thread that has to wait sleeps in the kernel.
 */
#ifndef UMFI_LOCK_H
#define UMFI_LOCK_H

#include <assert.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* For functions of the data path, and those that their callers need in a short form */
#define UMFI_INLINE static inline __attribute__((__always_inline__))

enum { UMFI_FREE, UMFI_HELD, UMFI_AWAITED };    /* AWAITED: held, and threads may sleep */

struct umfi_lock {
    uint32_t state;
};

static inline bool umfi_lock_try(struct umfi_lock *lock)
{
    uint32_t expected = UMFI_FREE;

    return __atomic_compare_exchange_n(&lock->state, &expected, UMFI_HELD, false,
                                       __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

__attribute__((__cold__, __noinline__, __unused__))
static void umfi_lock_wait(struct umfi_lock *lock)
{
    /* Other threads may sleep, too: when this one unlocks it wakes one of them. */
    while (__atomic_exchange_n(&lock->state, UMFI_AWAITED, __ATOMIC_ACQUIRE) != UMFI_FREE) {
        syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, UMFI_AWAITED, NULL);
    }
}

__attribute__((__cold__, __noinline__, __unused__))
static void umfi_lock_wake(struct umfi_lock *lock)
{
    syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1);
}

/* For functions that are called under the lock: some thread has it, if not this one. */
static inline void umfi_assert_held(const struct umfi_lock *lock)
{
    assert(__atomic_load_n(&lock->state, __ATOMIC_RELAXED) != UMFI_FREE);
}

static inline void umfi_lock_take(struct umfi_lock *lock)
{
    if (__builtin_expect(!umfi_lock_try(lock), 0)) {
        umfi_lock_wait(lock);
    }
}

/* True: another thread sleeps, and is to be woken. */
UMFI_INLINE bool umfi_lock_release(struct umfi_lock *lock)
{
    return __builtin_expect(__atomic_exchange_n(&lock->state, UMFI_FREE, __ATOMIC_RELEASE) ==
                            UMFI_AWAITED, 0);
}

UMFI_INLINE void umfi_lock_drop(struct umfi_lock *lock)
{
    if (umfi_lock_release(lock)) {
        umfi_lock_wake(lock);
    }
}

#endif /* UMFI_LOCK_H */
