/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A memory control group, and the kernel's counters of it.
 */
#ifndef TEST_GROUP_H
#define TEST_GROUP_H

/* The number behind a word in one of the kernel's files; 0: it has none. */
unsigned long long kernel_number(const char *path, const char *word);

/*
 * The group that the calls below are about; _make: makes it, and has the controller
 * ("+NAME") for it; _enter: makes it, with that of memory, and goes into it.
 */
void group_name(const char *name);
void group_make(const char *name, const char *controller);
void group_enter(const char *name);
/* 0 or -errno */
int group_write(const char *file, const char *text);

/* One of its limits; 0: none. */
void group_limit(const char *file, long long bytes);
/* Has the kernel take that much from it, or less. */
void group_reclaim(long long bytes);
/* A file with a number, and one of memory.events. */
long long group_now(const char *file);
unsigned long long group_event(const char *word);

#endif /* TEST_GROUP_H */
