/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Structures that begin with their size, `uint32_t size`, and may grow.  A program
 * gives the size that it was compiled with, which may be of an older or of a newer
 * library.
 */
#ifndef UNETMM_SIZED_H
#define UNETMM_SIZED_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/*
 * Reads a program's structure into `ours`, which holds the default of each member.
 * A shorter one, of `least` bytes or more, leaves the members that it lacks at their
 * defaults.  A longer one is taken if all that this library does not know is 0, and
 * is otherwise refused with -E2BIG.  -EINVAL: shorter than `least`.
 */
static inline int sized_read(void *ours, size_t bytes, size_t least,
                             const void *theirs)
{
    const unsigned char *from = theirs;
    uint32_t own = (uint32_t)bytes, size;
    size_t i;

    memcpy(&size, from, sizeof(size));
    if (size < least) {
        return -EINVAL;
    }
    for (i = bytes; i < size; i++) {
        if (from[i]) {
            return -E2BIG;
        }
    }
    memcpy(ours, from, size < bytes ? size : bytes);
    memcpy(ours, &own, sizeof(own));
    return 0;
}

/*
 * Writes `ours` to a program's structure: as much as that holds.  Members that this
 * library does not know are set to 0, and the program's `size` stays.  -EINVAL: it
 * is shorter than `least`.
 */
static inline int sized_write(void *theirs, const void *ours, size_t bytes,
                              size_t least)
{
    unsigned char *to = theirs;
    uint32_t size;

    memcpy(&size, to, sizeof(size));
    if (size < least) {
        return -EINVAL;
    }
    if (size > bytes) {
        memset(to + bytes, 0, size - bytes);
    }
    memcpy(to + sizeof(size), (const unsigned char *)ours + sizeof(size),
           (size < bytes ? size : bytes) - sizeof(size));
    return 0;
}

/* The size of a structure up to a member, and with it. */
#define SIZED_UP_TO(type, member) \
    (offsetof(type, member) + sizeof(((type *)NULL)->member))

#endif /* UNETMM_SIZED_H */
