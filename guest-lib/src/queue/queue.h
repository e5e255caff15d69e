/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The queues of an endpoint: rare cases of the fast path, waiting, completions that are
 * set aside, event counters that are watched.
 */
#ifndef UNETMM_QUEUE_H
#define UNETMM_QUEUE_H

#include "../card/card.h"

/* An endpoint without queues; unetmm_ep_bind() gives it some. */
int unetmm_ep_alloc(uint32_t channels, uint32_t imports,
                    struct unetmm_ep_private **ep);
void unetmm_ep_free(struct unetmm_ep_private *ep);
void unetmm_ep_bind(struct unetmm_ep_private *ep,
                    const struct unetmm_endpoint *layout, void *queues,
                    void *doorbell);

/* The rare cases of the fast path: struct unetmm_rare_ops_ of inline.h. */
int unetmm_trap(struct unetmm_ep *ep);
int unetmm_kick_rare(struct unetmm_ep *ep);
int unetmm_queue_rare(struct unetmm_ep *ep, const struct iovec *iov, unsigned n,
                      size_t len, int is_inline);
int unetmm_post_rare(struct unetmm_ep *ep, void *buf, size_t len,
                     uint64_t user_data, unsigned flags);
int unetmm_poll_rare(struct unetmm_ep *ep, struct unetmm_completion *c, unsigned n);
int unetmm_poll_note(struct unetmm_ep *ep, uint32_t state, unsigned taken,
                     unsigned n);
uint32_t unetmm_inline_slots(size_t len);
void unetmm_put_pieces(struct unetmm_ep *ep, uint32_t index, uint8_t *to,
                       const struct iovec *iov, unsigned n);
int unetmm_unstash(struct unetmm_ep *ep, struct unetmm_completion *c,
                   unsigned n);

/* -ENOBUFS: the program has to poll before a call may wait for a completion. */
int unetmm_stash_check(const struct unetmm_ep_private *ep);
/*
 * Takes completions until that of `user_data` comes; 1: it is in `c`.  Other completions
 * go behind those that were set aside before.  user_data 0: takes one completion, and
 * sets it aside.
 */
int unetmm_take_until(struct unetmm_ep_private *ep, uint64_t user_data,
                      struct unetmm_completion *c, uint64_t deadline);

/* Polls until `end`; with `counters` until one of the endpoint's changes.  0: no completion. */
int unetmm_spin(struct unetmm_ep *ep, struct unetmm_completion *c, unsigned n,
                uint64_t end, bool counters);

/*
 * unetmm_wait(); with `counters` the wait also returns 0 when one of the endpoint's
 * counters has changed.
 */
int unetmm_wait_any(struct unetmm_ep *ep, struct unetmm_completion *c,
                    unsigned n, int64_t timeout_ns, bool counters);

/* Has any of the endpoint's counters changed since its handler was called? */
bool unetmm_watch_due(const struct unetmm_ep_private *ep);
/* Has the driver signal event_fd when a counter changes.  1: one has; -errno. */
int unetmm_watch_arm(struct unetmm_ep_private *ep);
/* The endpoint no longer watches the counter; any of its counters. */
void unetmm_watch_end(struct unetmm_event_private *c);
void unetmm_watch_end_all(struct unetmm_ep_private *ep);

#endif /* UNETMM_QUEUE_H */
