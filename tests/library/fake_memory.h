/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * calloc() of a program of tests, which takes it over (ld's --wrap) and can have
 * the library run out of memory.
 */
#ifndef FAKE_MEMORY_H
#define FAKE_MEMORY_H

#include <errno.h>
#include <stddef.h>

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

/* The allocation of this number fails, once; 0: none does. */
static unsigned memory_ends;

void *__wrap_calloc(size_t count, size_t bytes)
{
    if (memory_ends && !--memory_ends) {
        errno = ENOMEM;
        return NULL;
    }
    return __real_calloc(count, bytes);
}

#endif /* FAKE_MEMORY_H */
