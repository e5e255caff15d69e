/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The locks of both providers; provider.h and verbs/verbs.h say which members each lock guards.
 * Each call of the data path takes one, and with a pthread mutex that would be half of the
 * instructions of a short message.  Without contention a lock is one atomic instruction each way; a
 * thread that has to wait sleeps in the kernel.
 */
#ifndef UNETMM_LOCK_H
#define UNETMM_LOCK_H

#include <assert.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* For functions of the data path, and those that their callers need in a short form */
#define SYS_INLINE static inline __attribute__((__always_inline__))

/* AWAITED: held, and threads may sleep */
enum { SYS_LOCK_FREE, SYS_LOCK_HELD, SYS_LOCK_AWAITED };

struct sys_lock {
    uint32_t state;
};

static inline bool sys_lock_try(struct sys_lock *lock)
{
    uint32_t expected = SYS_LOCK_FREE;

    return __atomic_compare_exchange_n(&lock->state, &expected, SYS_LOCK_HELD, false,
                                       __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

__attribute__((__cold__, __noinline__, __unused__))
static void sys_lock_wait(struct sys_lock *lock)
{
    /* Other threads may sleep, too: the unlock of this thread wakes one of them. */
    while (__atomic_exchange_n(&lock->state, SYS_LOCK_AWAITED, __ATOMIC_ACQUIRE) != SYS_LOCK_FREE) {
        syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, SYS_LOCK_AWAITED, NULL);
    }
}

__attribute__((__cold__, __noinline__, __unused__))
static void sys_lock_wake(struct sys_lock *lock)
{
    syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1);
}

/* For functions that are called under the lock: some thread has it, if not this one. */
static inline void sys_assert_held(const struct sys_lock *lock)
{
    assert(__atomic_load_n(&lock->state, __ATOMIC_RELAXED) != SYS_LOCK_FREE);
}

static inline void sys_lock_take(struct sys_lock *lock)
{
    if (__builtin_expect(!sys_lock_try(lock), 0)) {
        sys_lock_wait(lock);
    }
}

/* True: another thread sleeps, and is to be woken. */
SYS_INLINE bool sys_lock_release(struct sys_lock *lock)
{
    return __builtin_expect(__atomic_exchange_n(&lock->state, SYS_LOCK_FREE, __ATOMIC_RELEASE) ==
                            SYS_LOCK_AWAITED, 0);
}

SYS_INLINE void sys_lock_drop(struct sys_lock *lock)
{
    if (sys_lock_release(lock)) {
        sys_lock_wake(lock);
    }
}

#endif /* UNETMM_LOCK_H */
