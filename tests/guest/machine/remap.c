/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A CPU goes on being interrupted while another changes the memory map.
 *
 * QEMU 10.0's TCG let an access of the one CPU go astray then (the patch
 * `tcg-mmio-after-the-map-has-changed` says how).  The lost access was an end of
 * interrupt, most of the time, after which the CPU took no interrupt: half of the guest
 * stood still, and the test that was running with it.
 */
#include "tap.h"

#include <fcntl.h>
#include <glob.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COMMAND         4           /* PCI's configuration space */
#define COMMAND_MEMORY  2
#define DEVICES         "/sys/bus/pci/devices/"

static void run_on(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set)) {
        test_skip("there is no CPU %d", cpu);
    }
}

/* A timer's interrupt each time. */
static void sleeper(void *argument)
{
    const struct timespec time = { .tv_nsec = 20000 };

    (void)argument;
    run_on(1);
    for (;;) {
        nanosleep(&time, NULL);
    }
}

/* The timer interrupts of CPU 1 so far. */
static unsigned long ticks(void)
{
    char line[4096];
    unsigned long count = 0;
    bool found = false;
    FILE *file = fopen("/proc/interrupts", "r");

    CHECK(file);
    while (!found && fgets(line, sizeof(line), file)) {
        found = sscanf(line, " LOC: %*u %lu", &count) == 1;
    }
    fclose(file);
    CHECK(found);
    return count;
}

/* The configuration space of a device with memory that nobody uses. */
static int open_unused(void)
{
    glob_t found;
    int fd = -1;
    size_t i;

    CHECK_EQ(glob(DEVICES "*/resource5", 0, NULL, &found), 0);
    for (i = 0; i < found.gl_pathc && fd < 0; i++) {
        char *end = strrchr(found.gl_pathv[i], '/');
        char path[256];

        snprintf(path, sizeof(path), "%.*s/driver",
                 (int)(end - found.gl_pathv[i]), found.gl_pathv[i]);
        if (access(path, F_OK)) {
            strcpy(strrchr(path, '/'), "/config");
            fd = CHECK_SYS(open(path, O_RDWR | O_CLOEXEC));
        }
    }
    globfree(&found);
    if (fd < 0) {
        test_skip("all devices with memory have a driver");
    }
    return fd;
}

static void set_memory(int fd, bool on)
{
    uint16_t command;

    CHECK_EQ(pread(fd, &command, sizeof(command), COMMAND), sizeof(command));
    command = on ? command | COMMAND_MEMORY : command & ~COMMAND_MEMORY;
    CHECK_EQ(pwrite(fd, &command, sizeof(command), COMMAND), sizeof(command));
}

TEST(timers, TEST_TLB)
{
    int fd = open_unused();
    unsigned long before;
    unsigned i, k;
    pid_t pid;

    run_on(1);
    run_on(0);
    pid = start_process(sleeper, NULL);
    for (i = 0; i < rounds(10); i++) {
        for (k = 0; k < 100; k++) {
            set_memory(fd, true);
            set_memory(fd, false);
        }
        before = ticks();
        EVENTUALLY(ticks() != before);
    }
    CHECK_SYS(kill(pid, SIGKILL));
    await_process(pid);
    close(fd);
}
