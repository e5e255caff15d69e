/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * System calls as the library needs them: the result is -errno, the caller's errno
 * stays as it was, and none is a cancellation point.
 */
#ifndef UNETMM_SYS_H
#define UNETMM_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* Turns a call's return value into its result, and puts `saved` back. */
static inline int sys_result(int result, int saved)
{
    if (result < 0) {
        result = -errno;
    }
    errno = saved;
    return result;
}

/*
 * A thread that is cancelled in the library would leave a lock, a count or half an
 * object behind.  Between these two it is not; they nest.
 */
static inline int sys_cancel_disable(void)
{
    int before;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void sys_cancel_restore(int before)
{
    pthread_setcancelstate(before, NULL);
}

static inline int sys_open(const char *path, int flags)
{
    int saved = errno, state = sys_cancel_disable();
    int fd = open(path, flags);

    sys_cancel_restore(state);
    return sys_result(fd, saved);
}

/* A new file that no other user may read; -EEXIST: it is there, or a link with its name. */
static inline int sys_create(const char *path)
{
    int saved = errno, state = sys_cancel_disable();
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    sys_cancel_restore(state);
    return sys_result(fd, saved);
}

/* All bytes, or -errno. */
static inline int sys_write_all(int fd, const char *bytes, size_t n)
{
    int saved = errno, state = sys_cancel_disable(), ret = 0;

    while (n && !ret) {
        ssize_t done = write(fd, bytes, n);

        if (done > 0) {
            bytes += done;
            n -= (size_t)done;
        } else if (!done || errno != EINTR) {
            ret = done ? -errno : -EIO;
        }
    }
    errno = saved;
    sys_cancel_restore(state);
    return ret;
}

static inline int sys_close(int fd)
{
    int saved = errno, state = sys_cancel_disable();
    int ret = close(fd);

    sys_cancel_restore(state);
    return sys_result(ret, saved);
}

/* Draws a number; false: there is none to be had. */
static inline int sys_random(uint64_t *number)
{
    int saved = errno, state = sys_cancel_disable();
    ssize_t bytes = getrandom(number, sizeof(*number), 0);

    sys_cancel_restore(state);
    errno = saved;
    return bytes == sizeof(*number);
}

static inline int sys_ioctl(int fd, unsigned long request, void *argument)
{
    int saved = errno;

    return sys_result(ioctl(fd, request, argument), saved);
}

static inline int sys_eventfd(void)
{
    int saved = errno;

    return sys_result(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), saved);
}

static inline int sys_mmap(void **address, size_t bytes, int protection,
                           int flags, int fd, uint64_t offset)
{
    int saved = errno;
    void *map = mmap(NULL, bytes, protection, flags, fd, (off_t)offset);

    *address = map == MAP_FAILED ? NULL : map;
    return sys_result(map == MAP_FAILED ? -1 : 0, saved);
}

static inline int sys_munmap(void *address, size_t bytes)
{
    int saved = errno;

    return sys_result(munmap(address, bytes), saved);
}

static inline int sys_madvise(void *address, size_t bytes, int advice)
{
    int saved = errno;

    return sys_result(madvise(address, bytes, advice), saved);
}

static inline int sys_ppoll(struct pollfd *fds, nfds_t count,
                            const struct timespec *timeout)
{
    int saved = errno, state = sys_cancel_disable();
    int ret = ppoll(fds, count, timeout, NULL);

    sys_cancel_restore(state);
    return sys_result(ret, saved);
}

/* Takes the eventfd's count; a count of zero is not an error. */
static inline void sys_eventfd_drain(int fd)
{
    int saved = errno, state = sys_cancel_disable();
    uint64_t value;

    if (read(fd, &value, sizeof(value)) < 0) {
        errno = saved;
    }
    sys_cancel_restore(state);
}

/* Makes an eventfd readable; one that is already stays so. */
static inline void sys_eventfd_add(int fd)
{
    const uint64_t one = 1;
    int saved = errno, state = sys_cancel_disable();

    if (write(fd, &one, sizeof(one)) < 0) {
        errno = saved;
    }
    sys_cancel_restore(state);
}

static inline void *sys_calloc(size_t count, size_t bytes)
{
    int saved = errno;
    void *memory = calloc(count, bytes);

    errno = saved;
    return memory;
}

/* pthread_cond_wait() and pthread_join(), which cannot fail here */
static inline void sys_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
{
    int state = sys_cancel_disable();

    pthread_cond_wait(cond, lock);
    sys_cancel_restore(state);
}

static inline void sys_join(pthread_t thread)
{
    int state = sys_cancel_disable();

    pthread_join(thread, NULL);
    sys_cancel_restore(state);
}

static inline uint64_t sys_now_ns(void)
{
    struct timespec now;

    /* Cannot fail: the clock exists and the pointer is good. */
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif /* UNETMM_SYS_H */
