/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The system calls that a program of tests takes over (ld's --wrap): call() in the
 * library is then __wrap_call() of the program, and __real_call() that of the C
 * library.  The file that includes this has __wrap_mmap().
 */
#ifndef FAKE_CALLS_H
#define FAKE_CALLS_H

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/types.h>

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_close(int fd);
int __wrap_close(int fd);
int __real_ioctl(int fd, unsigned long request, void *argument);
int __wrap_ioctl(int fd, unsigned long request, void *argument);
void *__real_mmap(void *address, size_t bytes, int protection, int flags,
                  int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags,
                  int fd, off_t offset);
int __real_munmap(void *address, size_t bytes);
int __wrap_munmap(void *address, size_t bytes);

/* The C library's name for it where file offsets are given 64 bits */
void *__wrap_mmap64(void *address, size_t bytes, int protection, int flags,
                    int fd, off_t offset)
    __attribute__((alias("__wrap_mmap")));

/* Ends as a system call does that fails. */
static inline int refuse(int error)
{
    errno = error;
    return -1;
}

/* A page of memory that stands for one of the card; or MAP_FAILED */
static inline void *new_page(void)
{
    return __real_mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

#endif /* FAKE_CALLS_H */
