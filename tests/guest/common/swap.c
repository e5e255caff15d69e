/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Swap on a disk or in zram, and pages that have gone there. */
#include "swap.h"
#include "guard.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

static void swap_on_device(const char *device)
{
    char command[200];

    /* A test that failed may have left it on. */
    snprintf(command, sizeof(command), "swapoff /dev/vda 2>/dev/null; "
             "swapoff /dev/zram0 2>/dev/null; "
             "mkswap %s >/dev/null && swapon %s", device, device);
    if (system(command)) {
        test_skip("%s does not become swap", device);
    }
    note("swap on %s", device);
}

void swap_on_zram(void)
{
    const char *zram = "/dev/zram0";

    if (!is_there(zram) && system("modprobe -q zram")) {
        test_skip("no zram");
    }
    if (system("swapoff /dev/zram0 2>/dev/null; "
               "echo 1 >/sys/block/zram0/reset; "
               "echo 32M >/sys/block/zram0/disksize")) {
        test_skip("zram does not take a size");
    }
    swap_on_device(zram);
}

void swap_on_disk(void)
{
    if (!is_there("/dev/vda")) {
        test_skip("no disk");
    }
    swap_on_device("/dev/vda");
}

void swap_on(void)
{
    if (is_there("/dev/vda")) {
        swap_on_disk();
    } else {
        swap_on_zram();
    }
}

void swap_off(void)
{
    if (system("swapoff /dev/vda 2>/dev/null || swapoff /dev/zram0")) {
        FAIL("swapoff");
    }
}

bool swapped(const uint8_t *at)
{
    int fd = CHECK_SYS(open("/proc/self/pagemap", O_RDONLY));
    uint64_t entry;

    CHECK_EQ(pread(fd, &entry, sizeof(entry),
                   (off_t)((uintptr_t)at / PAGE * sizeof(entry))),
             sizeof(entry));
    close(fd);
    return entry >> 62 & 1;
}

bool page_out(uint8_t *at, unsigned npages)
{
    unsigned i, gone = 0;

    CHECK_SYS(madvise(at, npages * PAGE, MADV_PAGEOUT));
    for (i = 0; i < npages; i++) {
        gone += swapped(at + i * PAGE);
    }
    return gone == npages;
}

unsigned long long swap_reads(void)
{
    FILE *file = fopen("/proc/vmstat", "r");
    unsigned long long value = 0;
    char line[100];

    CHECK(file);
    while (fgets(line, sizeof(line), file)) {
        if (sscanf(line, "pswpin %llu", &value) == 1) {
            fclose(file);
            return value;
        }
    }
    /* The debug kernel does not count events. */
    fclose(file);
    return 0;
}
