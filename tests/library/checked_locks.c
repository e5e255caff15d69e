/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The library's mutexes, checked: with these calls in place of the C library's
 * (--wrap) each mutex is initialised before its use, locked by a thread that
 * does not hold it, unlocked by the one that does, and never destroyed while locked.
 * A test with one thread is enough to see a lock() or unlock() that is not there.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST    1024u

int __real_pthread_mutex_init(pthread_mutex_t *lock,
                              const pthread_mutexattr_t *attr);
int __real_pthread_mutex_destroy(pthread_mutex_t *lock);
int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_init(pthread_mutex_t *lock,
                              const pthread_mutexattr_t *attr);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);

/* Guards the list of those that are initialised. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static const pthread_mutex_t *known[MOST];

static void check(int error, const char *call)
{
    if (error) {
        fprintf(stderr, "%s: %s\n", call, strerror(error));
        abort();
    }
}

/* Puts `now` where `was` is.  False: there is none. */
static int replace(const pthread_mutex_t *was, const pthread_mutex_t *now)
{
    unsigned i;

    check(__real_pthread_mutex_lock(&list_lock), "the list's lock");
    for (i = 0; i < MOST && known[i] != was; i++) {
    }
    if (i < MOST) {
        known[i] = now;
    }
    check(__real_pthread_mutex_unlock(&list_lock), "the list's unlock");
    return i < MOST;
}

int __wrap_pthread_mutex_init(pthread_mutex_t *lock,
                              const pthread_mutexattr_t *attr)
{
    pthread_mutexattr_t checked;

    if (attr) {
        return __real_pthread_mutex_init(lock, attr);
    }
    check(pthread_mutexattr_init(&checked), "pthread_mutexattr_init");
    check(pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK),
          "pthread_mutexattr_settype");
    check(__real_pthread_mutex_init(lock, &checked), "pthread_mutex_init");
    /* A mutex is destroyed before its memory is freed. */
    if (replace(lock, lock) || !replace(NULL, lock)) {
        fprintf(stderr, "a mutex is initialised that there is, or one of more "
                "than %u\n", MOST);
        abort();
    }
    pthread_mutexattr_destroy(&checked);
    return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *lock)
{
    if (!replace(lock, NULL)) {
        fprintf(stderr, "a mutex is destroyed that was not initialised\n");
        abort();
    }
    check(__real_pthread_mutex_destroy(lock), "pthread_mutex_destroy");
    return 0;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    if (!replace(lock, lock)) {
        fprintf(stderr, "a mutex is locked that was not initialised\n");
        abort();
    }
    check(__real_pthread_mutex_lock(lock), "pthread_mutex_lock");
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    check(__real_pthread_mutex_unlock(lock), "pthread_mutex_unlock");
    return 0;
}
