/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Counting semaphores and wait-queues across nodes.  Part of libunetmm.h.  unetmm_sem_home(3)
 * has all functions, docs/library.rst the protocol.  One thread at a time uses a member.
 */
#ifndef LIBUNETMM_SYNC_H
#define LIBUNETMM_SYNC_H

#include <libunetmm.h>

#ifdef __cplusplus
extern "C" {
#endif

struct unetmm_sync_home;
struct unetmm_sync;

#define UNETMM_SYNC_MEMBERS     64      /* of a home, at a time */

/* Makes a semaphore or a wait-queue, which a thread of the library serves. */
int unetmm_sem_home(struct unetmm_ctx *ctx, uint64_t service, uint32_t units,
                    struct unetmm_sync_home **home);
int unetmm_waitq_home(struct unetmm_ctx *ctx, uint64_t service,
                      struct unetmm_sync_home **home);

/* The same with one atomic operation a wait or a post, while no member waits. */
int unetmm_sem_home_light(struct unetmm_ctx *ctx, uint64_t service,
                          uint32_t units, struct unetmm_sync_home **home);
int unetmm_sync_home_close(struct unetmm_sync_home *home);

/* Becomes a member: the home is at the card `mac`. */
int unetmm_sync_open(struct unetmm_ctx *ctx, const uint8_t mac[6],
                     uint64_t service, int64_t timeout_ns,
                     struct unetmm_sync **sync);

/* Returns the units that the member holds. */
int unetmm_sync_close(struct unetmm_sync *sync);

/* Takes a unit.  1: it has one more; 0: the timeout has passed.  -ENOTCONN: no home. */
int unetmm_sem_wait(struct unetmm_sync *sync, int64_t timeout_ns);

/* Gives a unit back.  -EPERM: it has none. */
int unetmm_sem_post(struct unetmm_sync *sync);

/* 1: woken; 0: the timeout has passed.  Else as unetmm_sem_wait(). */
int unetmm_waitq_wait(struct unetmm_sync *sync, int64_t timeout_ns);

/* Wakes the `n` members that have waited longest, or all that wait (0). */
int unetmm_waitq_wake(struct unetmm_sync *sync, uint32_t n);

#ifdef __cplusplus
}
#endif

#endif /* LIBUNETMM_SYNC_H */
