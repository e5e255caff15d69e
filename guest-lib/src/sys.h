/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * System calls as the library needs them: the result is -errno, and the
 * caller's errno stays as it was.
 */
#ifndef UNETMM_SYS_H
#define UNETMM_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Turns what a call returned into its result, and puts `saved` back. */
static inline int sys_result(int result, int saved)
{
    if (result < 0) {
        result = -errno;
    }
    errno = saved;
    return result;
}

static inline int sys_open(const char *path, int flags)
{
    int saved = errno;

    return sys_result(open(path, flags), saved);
}

static inline int sys_close(int fd)
{
    int saved = errno;

    return sys_result(close(fd), saved);
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
    int saved = errno;

    return sys_result(ppoll(fds, count, timeout, NULL), saved);
}

/* Takes what an eventfd has counted; nothing counted is not an error. */
static inline void sys_eventfd_drain(int fd)
{
    int saved = errno;
    uint64_t value;

    if (read(fd, &value, sizeof(value)) < 0) {
        errno = saved;
    }
}

/* Makes an eventfd readable; one that is already stays so. */
static inline void sys_eventfd_add(int fd)
{
    const uint64_t one = 1;
    int saved = errno;

    if (write(fd, &one, sizeof(one)) < 0) {
        errno = saved;
    }
}

static inline void *sys_calloc(size_t count, size_t bytes)
{
    int saved = errno;
    void *memory = calloc(count, bytes);

    errno = saved;
    return memory;
}

static inline uint64_t sys_now_ns(void)
{
    struct timespec now;

    /* Cannot fail: the clock exists and the pointer is good. */
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif /* UNETMM_SYS_H */
