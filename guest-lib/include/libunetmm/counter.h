/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Event counters: control transferred by writes.  Part of libunetmm.h, which
 * includes it.
 *
 * A counter is a number that is read here and that peers add 1 to, by naming it in
 * a write: a reader that sees the new value sees the bytes of that write and of all
 * that were posted before it on its channel.  A reader spins on it, sleeps until it
 * has reached a value, or has a handler called; each at any time.
 */
#ifndef LIBUNETMM_COUNTER_H
#define LIBUNETMM_COUNTER_H

#include <libunetmm.h>

#ifdef __cplusplus
extern "C" {
#endif

struct unetmm_event_counter;

/*
 * Makes `n` counters, 1..512, and fills `counters` with them.  They are zero, and
 * have numbers that follow each other, so that one export can give them all.  A
 * context has 512.
 *
 * -ENOSPC: there are not so many in a row.  -ENOMEM, -EDQUOT: memory.  -EINVAL: n;
 * or the context observes.  -EOPNOTSUPP: the card can't.
 */
int unetmm_event_create(struct unetmm_ctx *ctx, unsigned n,
                        struct unetmm_event_counter **counters);

/*
 * Ends one, which no other thread may be using.  -EBUSY: an export gives it, or it
 * has a handler.
 */
int unetmm_event_destroy(struct unetmm_event_counter *counter);

/*
 * unetmm_export() whose peers may name `n` counters, from `first` on: the first is
 * their number 0.  -ENOENT: there are not so many behind each other.
 */
int unetmm_export_events(struct unetmm_ctx *ctx, uint64_t id, void *addr,
                         size_t length, unsigned rights, unsigned flags,
                         uint64_t user_data, const struct unetmm_event_counter *first,
                         unsigned n);

/*
 * The number of writes that named the counter, modulo 2^64.  The data of the counted
 * writes is visible.  No system call.  In a forked child, 0.
 */
uint64_t unetmm_event_read(const struct unetmm_event_counter *counter);

/* Is a counter that is `now` at `value`, or by up to 2^63 - 1 behind it? */
int unetmm_event_reached(uint64_t now, uint64_t value);

#define UNETMM_EVENT_SPIN     0x01u   /* without a system call */
#define UNETMM_EVENT_BLOCK    0x02u   /* with one, and asleep */

/*
 * Waits until the counter has reached `value`.  `how`: one of the two above, or
 * both: spins for a short time, then blocks.  Returns 1, or 0 when the timeout has
 * passed.  Any number of threads may wait for any values.
 *
 * -EINTR: a signal handler ran (BLOCK).  -ENODEV: the card is gone.  -EINVAL: how.
 */
int unetmm_event_wait(struct unetmm_event_counter *counter, uint64_t value,
                      unsigned how, int64_t timeout_ns);

/* `now` is the value read before the call; several increments make one call. */
typedef void (*unetmm_event_handler)(struct unetmm_ep *ep,
                                     struct unetmm_event_counter *counter,
                                     uint64_t now, void *arg);

/*
 * From now on unetmm_dispatch() on the endpoint, or its thread
 * (unetmm_handlers_start()), calls the handler whenever the counter's value differs
 * from that of the last call; before the first call, from `seen`.  NULL removes the
 * handler.  The rules of unetmm_set_handler() and unetmm_handlers_block() apply.
 *
 * -EBUSY: another endpoint has it.  -EINVAL: not of the same context.  -ENOMEM.
 */
int unetmm_event_set_handler(struct unetmm_ep *ep,
                             struct unetmm_event_counter *counter, uint64_t seen,
                             unetmm_event_handler handler, void *arg);

#ifdef __cplusplus
}
#endif

#endif /* LIBUNETMM_COUNTER_H */
