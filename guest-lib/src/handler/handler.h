/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls of handlers, and the library's thread that makes them.
 */
#ifndef UNETMM_HANDLER_H
#define UNETMM_HANDLER_H

#include "../queue/queue.h"

/* The entry of a notification's handler, or NULL. */
struct unetmm_notify_upcall *unetmm_notify_find(const struct unetmm_handlers *h,
                                                uint64_t user_data);

/*
 * Calls the handler of a completion, or `end` if that is NULL.  0, or the
 * endpoint must not be touched any more: -ESHUTDOWN, it was destroyed and is
 * freed now; -EOWNERDEAD, this is a child that was forked in the handler.
 */
int unetmm_upcall(struct unetmm_ep_private *ep,
                  const struct unetmm_completion *c);

/*
 * Calls the handlers of counters that have changed, each once, while handlers are not
 * blocked.  Returns their number, or the result of unetmm_upcall().
 */
int unetmm_upcall_events(struct unetmm_ep_private *ep, unsigned most);

/*
 * The end of the library's thread before that of the endpoint: awaited, or
 * promised if the caller is a handler in it.
 */
void unetmm_thread_leave(struct unetmm_ep_private *ep);

#endif /* UNETMM_HANDLER_H */
