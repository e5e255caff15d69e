/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory that a userfaultfd watches: faults sleep there until the test lets go.
 */
#ifndef TEST_WATCH_H
#define TEST_WATCH_H

#include "tap.h"

struct watch {
    int fd;
    uint8_t *at;
    unsigned npages;
};

/* Pages of our own memory; `mode` is UFFDIO_REGISTER_MODE_*.  Skips without. */
void watch_start(struct watch *watch, uint8_t *at, unsigned npages,
                 uint64_t mode);
void watch_end(struct watch *watch);

/* The page that somebody waits for; false: nobody within so many ms. */
bool watch_wanted(struct watch *watch, int ms, unsigned *page, bool *protect);

/* Brings a page, which is not there, with these bytes.  False: it is there. */
bool watch_bring(struct watch *watch, unsigned page, const void *bytes);
/*
 * Takes the right to write to pages, or gives it, and wakes threads that wait for
 * it.
 */
void watch_protect(struct watch *watch, unsigned first, unsigned n, bool protect);

#endif /* TEST_WATCH_H */
