/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files that tests map, without a name.
 */
#ifndef TEST_DISK_H
#define TEST_DISK_H

#include <stdbool.h>

/* An empty one, which was made there. */
int new_file(const char *path);
/* One on an ext4 file system of its own; -1: there is no disk, or no ext4. */
int new_file_on_ext4(void);
/* The same with DAX: its pages are those of persistent memory; -1: there is none. */
int new_file_on_dax(void);
/* A device of persistent memory, whose pages are mapped without a file system; -1. */
int open_dax_device(void);
/* A memfd. */
int new_memory_file(unsigned flags);

/* Clean pages leave the page cache, but for those in use. */
void drop_caches(void);

#endif /* TEST_DISK_H */
