/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Pages that come when the test says so: a userfaultfd watches them.
 */
#ifndef TEST_LATE_H
#define TEST_LATE_H

#include <stdint.h>

struct late {
    int fd;
    uint8_t *at;
    unsigned npages;
};

/* Skips the test if the kernel cannot do it.  _watch: of pages that nobody has used. */
void late_watch(struct late *late, uint8_t *at, unsigned npages);
void late_make(struct late *late, unsigned npages);
/* Waits until somebody wants a page; returns which. */
unsigned late_wanted(struct late *late);
/* Brings one page, with its part of the pattern over all of them. */
void late_give(struct late *late, unsigned page, uint64_t key);
/* Unmaps all; threads that wait for a page have to be told to look again. */
void late_unmap(struct late *late);

#endif /* TEST_LATE_H */
