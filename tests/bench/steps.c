/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "steps.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define MARK    SIGUSR1

void steps_mark(void)
{
    raise(MARK);
}

/* Lets the child go on until it stops.  The signal; 0: it has ended well. */
static int go_on(pid_t child, int how)
{
    int status;

    if (ptrace(how, child, NULL, NULL) || waitpid(child, &status, 0) < 0) {
        return -1;
    }
    if (WIFSTOPPED(status)) {
        return WSTOPSIG(status);
    }
    return status ? -1 : 0;
}

/* Instructions until the next mark, or -1. */
static int64_t step_to_mark(pid_t child)
{
    int64_t n = 0;
    int sig = go_on(child, PTRACE_SINGLESTEP);

    for (; sig == SIGTRAP; sig = go_on(child, PTRACE_SINGLESTEP)) {
        n++;
    }
    return sig == MARK ? n : -1;
}

static int64_t count_child(pid_t child)
{
    int64_t nothing = -1, sum = 0, n;
    int status, sig;

    /* It stops itself when it may be traced. */
    if (waitpid(child, &status, 0) < 0 || !WIFSTOPPED(status)) {
        return -1;
    }
    while ((sig = go_on(child, PTRACE_CONT)) == MARK) {
        n = step_to_mark(child);
        if (n < 0) {
            return -1;
        }
        nothing = nothing < 0 ? n : nothing;
        sum += n - nothing;
    }
    return sig == 0 && nothing >= 0 ? sum : -1;
}

/* On one processor each step is two switches and wakes nobody up. */
static void stay_here(void)
{
    cpu_set_t here;

    CPU_ZERO(&here);
    CPU_SET(sched_getcpu(), &here);
    sched_setaffinity(0, sizeof(here), &here);
}

int64_t steps_count(void (*fn)(void *opaque), void *opaque)
{
    pid_t child;
    int64_t n;

    stay_here();
    child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL)) {
            _exit(EXIT_FAILURE);
        }
        raise(SIGSTOP);
        fn(opaque);
        _exit(EXIT_SUCCESS);
    }
    if (child < 0) {
        return -1;
    }
    n = count_child(child);
    if (n < 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    return n;
}
