/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Event counters, which peers add 1 to by naming one in a write.  Part of libunetmm.h.
 * unetmm_event_create(3) has all functions.  Any thread may read and wait.
 */
#ifndef LIBUNETMM_COUNTER_H
#define LIBUNETMM_COUNTER_H

#include <libunetmm.h>

#ifdef __cplusplus
extern "C" {
#endif

struct unetmm_event_counter;

/* Makes `n` counters, 1..512, which are zero and whose numbers follow each other. */
int unetmm_event_create(struct unetmm_ctx *ctx, unsigned n,
                        struct unetmm_event_counter **counters);

/* Ends a counter, which no other thread uses.  -EBUSY: an export or a handler has it. */
int unetmm_event_destroy(struct unetmm_event_counter *counter);

/* unetmm_export() whose peers may name `n` counters; `first` is their number 0. */
int unetmm_export_events(struct unetmm_ctx *ctx, uint64_t id, void *addr,
                         size_t length, unsigned rights, unsigned flags,
                         uint64_t user_data, const struct unetmm_event_counter *first,
                         unsigned n);

/* The number of writes that named the counter, modulo 2^64; their data is visible. */
uint64_t unetmm_event_read(const struct unetmm_event_counter *counter);

/* Is a counter that is `now` at `value`, or by up to 2^63 - 1 behind it? */
int unetmm_event_reached(uint64_t now, uint64_t value);

#define UNETMM_EVENT_SPIN     0x01u   /* without a system call */
#define UNETMM_EVENT_BLOCK    0x02u   /* with one, and asleep */

/* Waits until the counter has reached `value`: 1, or 0 at the timeout. */
int unetmm_event_wait(struct unetmm_event_counter *counter, uint64_t value,
                      unsigned how, int64_t timeout_ns);

/* `now` is the value read before the call; several increments make one call. */
typedef void (*unetmm_event_handler)(struct unetmm_ep *ep,
                                     struct unetmm_event_counter *counter,
                                     uint64_t now, void *arg);

/*
 * Has the endpoint's dispatcher or thread call the handler when the counter differs from
 * `seen`, and then from the last call; NULL: none.
 */
int unetmm_event_set_handler(struct unetmm_ep *ep,
                             struct unetmm_event_counter *counter, uint64_t seen,
                             unetmm_event_handler handler, void *arg);

#ifdef __cplusplus
}
#endif

#endif /* LIBUNETMM_COUNTER_H */
