/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Counting semaphores and wait-queues across nodes.  Part of libunetmm.h, which
 * includes it.
 *
 * One process, the home, has the words; any, itself included, are members.  Members
 * trust each other and the home.  Waiting members are served in the order of their
 * requests.  When a member's process or node dies, the units that it holds are
 * returned, but for those of a light semaphore.  docs/library.rst has the protocol.
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

/*
 * Makes a semaphore with so many units, or a wait-queue, which members find by
 * `service` (as unetmm_listen()).  A thread of the library and an endpoint serve it
 * until unetmm_sync_home_close(), after which members get -ENOTCONN.
 *
 * As unetmm_ep_create(), unetmm_listen() and unetmm_event_create(); -EAGAIN: the
 * system has no thread left.
 */
int unetmm_sem_home(struct unetmm_ctx *ctx, uint64_t service, uint32_t units,
                    struct unetmm_sync_home **home);
int unetmm_waitq_home(struct unetmm_ctx *ctx, uint64_t service,
                      struct unetmm_sync_home **home);

/*
 * A lighter semaphore, for the same members' calls: a wait or a post is one atomic
 * operation as long as no member waits.  unetmm_sync_close() returns the units that a
 * member holds; if its process or node dies, they are lost, and a unit that it was
 * just giving back may be.  After a timeout the wait takes as long as the member's
 * step out of the queue.
 */
int unetmm_sem_home_light(struct unetmm_ctx *ctx, uint64_t service,
                          uint32_t units, struct unetmm_sync_home **home);
int unetmm_sync_home_close(struct unetmm_sync_home *home);

/*
 * Becomes a member: the home is at the card `mac`.  One thread at a time uses the
 * handle.  Errors as unetmm_connect() and unetmm_import(); -ENOSPC: the home has no
 * place for another member.
 */
int unetmm_sync_open(struct unetmm_ctx *ctx, const uint8_t mac[6],
                     uint64_t service, int64_t timeout_ns,
                     struct unetmm_sync **sync);

/* Returns the units that the member holds. */
int unetmm_sync_close(struct unetmm_sync *sync);

/*
 * Takes a unit.  1: it has one more; 0: the timeout has passed, and it has no place
 * in the queue any more.  -ENOTCONN: the home has gone.  -EPROTOTYPE: it is a
 * wait-queue's.
 */
int unetmm_sem_wait(struct unetmm_sync *sync, int64_t timeout_ns);

/* Gives a unit back.  -EPERM: it has none. */
int unetmm_sem_post(struct unetmm_sync *sync);

/* 1: woken; 0: the timeout has passed.  Else as unetmm_sem_wait(). */
int unetmm_waitq_wait(struct unetmm_sync *sync, int64_t timeout_ns);

/*
 * Wakes the members that have waited longest, `n` at most, or all that wait (0).  A
 * member that begins to wait later is not woken by this call.
 */
int unetmm_waitq_wake(struct unetmm_sync *sync, uint32_t n);

#ifdef __cplusplus
}
#endif

#endif /* LIBUNETMM_SYNC_H */
