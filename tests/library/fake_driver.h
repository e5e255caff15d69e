/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A driver and a card in one process: it takes over the system calls on files
 * named /fake/N (card N, MAC 52:54:00:00:00:N) and carries frames to other
 * such processes through UNIX datagram sockets in $UNETMM_FAKE_DIR.
 *
 * $UNETMM_FAKE_LOSS is the share of user frames that are lost, in 1/1000, and
 * $UNETMM_FAKE_DUP that of frames that come twice; $UNETMM_FAKE_SEED decides
 * which.  $UNETMM_FAKE_MTU is the card's user MTU.  There is no link for
 * $UNETMM_FAKE_LINK_AFTER milliseconds.
 */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include <linux/unetmm.h>
#include <stdbool.h>
#include <stdint.h>

#define FAKE_FD         1000    /* stands for the open device */
#define FAKE_RELIABLE   8       /* reliable channels of the card, it says */
#define FAKE_EXPORTS    4
#define FAKE_KEY        0x8000000000ull /* export 0's; the others' follow */
/* The range to prefetch with source odp, and the most of one call. */
#define FAKE_MAPPED     0x10000ul
#define FAKE_MAPPED_LAST 0xfffffful
#define FAKE_AT_ONCE    8192u
#define FAKE_MESSAGE    65536   /* bytes of the longest message on one */

/* The next call of this kind fails with this errno; 0: none does. */
struct fake_failures {
    unsigned long request;
    int error;
    void (*change)(void *answer);   /* ... or its answer is changed so */
    bool nothing;               /* PREFETCH says that it has done so much */
    bool queue_map;
    bool doorbell_map;
    bool thread;                /* ... of the library */
};

extern struct fake_failures fake_failures;

/* The last object that was ended */
extern struct unetmm_destroy fake_destroyed;

/* Does a part of an export wait for what is copied? */
bool fake_held(void);
/* Posting calls (source ktlb) that were not refused; messages sent */
uint64_t fake_driver_posts(void);
uint64_t fake_driver_sent(void);
/* Callers that have not been accepted */
unsigned fake_driver_waiting(void);

/* Open files, mappings and endpoints that have not been given back */
int fake_driver_leaks(void);

#endif /* FAKE_DRIVER_H */
