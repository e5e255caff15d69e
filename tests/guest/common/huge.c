/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Huge pages of each kind: asks for one until the kernel gives it. */
#include "huge.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE   25
#endif

#define TRIES           20u

uint8_t *huge_page(void)
{
    int error = 0;
    unsigned tries;

    for (tries = 0; tries < TRIES; tries++) {
        uint8_t *map = pages(2 * HUGE_PAGES);
        uint8_t *at = map + (HUGE - (uintptr_t)map % HUGE) % HUGE;

        error = madvise(at, HUGE, MADV_HUGEPAGE) ? errno : 0;
        if (!error) {
            memset(at, 0x77, HUGE);
            /* A small guest's Linux makes none unless it is told to. */
            error = madvise(at, HUGE, MADV_COLLAPSE) ? errno : 0;
        }
        if (huge_kilobytes(at, HUGE) >= HUGE / 1024) {
            if (at > map) {
                CHECK_SYS(munmap(map, (size_t)(at - map)));
            }
            CHECK_SYS(munmap(at + HUGE, (size_t)(map + HUGE - at)));
            return at;
        }
        CHECK_SYS(munmap(map, 2 * HUGE));
        if (error == EINVAL) {
            break;
        }
        breathe();
    }
    test_skip("this kernel makes no transparent huge page: %s",
              error ? error_name(-error) : "it does not say why");
}

static bool write_word(const char *path, const char *word)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool good;

    if (fd < 0) {
        return false;
    }
    good = write(fd, word, strlen(word)) == (ssize_t)strlen(word);
    close(fd);
    return good;
}

uint8_t *huge_reserved(void)
{
    unsigned tries;
    void *at;

    for (tries = 0; tries < TRIES; tries++) {
        if (!write_word("/proc/sys/vm/nr_hugepages", "4")) {
            test_skip("this kernel sets no huge pages aside");
        }
        at = mmap(NULL, HUGE, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
        if (at != MAP_FAILED) {
            return at;
        }
        /* Others may have been given their places meanwhile. */
        (void)write_word("/proc/sys/vm/compact_memory", "1");
        breathe();
    }
    test_skip("this kernel has no room for a huge page");
}
