/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The card and its driver's module, as the administrator sees them.
 */
#ifndef TEST_CARD_H
#define TEST_CARD_H

#include <stdbool.h>

/* Returns 0 or -errno. */
int write_file(const char *path, const char *text);

/* Allows processes without CAP_SYS_ADMIN to observe the kernel, or forbids it. */
void user_probes(bool allowed);

/* Is there a driver for it? */
bool card_present(void);
/* Looks where it is; brings back one that a failed test has taken away. */
void card_find(void);
/* Writes to one of its files in sysfs. */
void card_write(const char *file, const char *text);
/* The number behind a word, in a file of the driver's debugfs that has such lines alone. */
unsigned card_value(const char *path, const char *word);
/* Its configuration space, to be read and written. */
int card_config(void);
/* It answers no access to its registers, or does again. */
void card_memory_space(bool on);
/* tests/e2e/run takes it that the kernel complains so, once. */
void expect_complaint(const char *text);
/* Its driver lets go of it, or takes it; 0 or -errno. */
int card_unbind(void);
int card_bind(void);

/* The module; 0 or -errno. */
int module_unload(void);
int module_load(void);
/* The same in two steps: with nothing but the system call in the second. */
int module_file(void);
int module_load_from(int fd);

/* Can the device be opened? */
bool card_opens(void);
/* Fails unless messages go through.  Nothing of them stays. */
void card_check_works(void);

#endif /* TEST_CARD_H */
