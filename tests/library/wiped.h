/*
 * Leaves out a test of forks where the system ignores madvise(MADV_WIPEONFORK), as an old
 * qemu-user does: the library's child would not know that it is one.  cmocka's skip() is a
 * failure for meson.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef TEST_WIPED_H
#define TEST_WIPED_H

#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static inline bool wipes_on_fork(void)
{
    char *page = aligned_alloc(4096, 4096);
    int status;
    pid_t pid;

    assert_non_null(page);
    assert_int_equal(madvise(page, 4096, MADV_WIPEONFORK), 0);
    *page = 1;
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        _exit(*(volatile char *)page);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(madvise(page, 4096, MADV_KEEPONFORK), 0);
    free(page);
    if (status) {
        print_message("# left out: the system ignores MADV_WIPEONFORK\n");
    }
    return !status;
}

#endif /* TEST_WIPED_H */
