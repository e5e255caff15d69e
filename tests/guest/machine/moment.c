/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * moment NS: returns when the virtual time of the machine is NS.
 *
 * Where instructions are the clock (-icount), the TSC counts the nanoseconds of
 * virtual time since the machine began.  The clocks of Linux begin later, at a
 * moment that depends on the boot, and are set by measuring.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <x86intrin.h>

/* The last part is no sleep, so that two guests return at the same moment. */
#define CLOSE_NS 100000

static void sleep_ns(uint64_t ns)
{
    struct timespec time = {
        .tv_sec = (time_t)(ns / 1000000000),
        .tv_nsec = (long)(ns % 1000000000),
    };

    nanosleep(&time, NULL);
}

int main(int argc, char **argv)
{
    char *end = NULL;
    uint64_t moment, now;

    errno = 0;
    moment = argc == 2 ? strtoull(argv[1], &end, 10) : 0;
    if (!end || *end || end == argv[1] || errno) {
        fprintf(stderr, "Usage: moment NS\n");
        return 1;
    }
    /* A sleep is as long as it was asked for. */
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    while ((now = __rdtsc()) < moment) {
        /* The clock of Linux may be slow: half a sleep is never too long. */
        if (moment - now > CLOSE_NS) {
            sleep_ns((moment - now) / 2);
        }
    }
    return 0;
}
