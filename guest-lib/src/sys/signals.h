/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Signals of threads that the library and the provider of libfabric make.
 */
#ifndef UNETMM_SIGNALS_H
#define UNETMM_SIGNALS_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/*
 * Called before a thread is made, which inherits the mask: signals are for the
 * program's threads, except those of a thread's own fault.  *before is the
 * caller's mask, to be set again.
 */
static inline void sys_block_signals(sigset_t *before)
{
    static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
                               SIGABRT };
    sigset_t set;
    size_t i;

    sigfillset(&set);
    for (i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        sigdelset(&set, own[i]);
    }
    pthread_sigmask(SIG_SETMASK, &set, before);
}

#endif /* UNETMM_SIGNALS_H */
