/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * An open card: contexts, event counters.
 */
#ifndef UNETMM_CARD_H
#define UNETMM_CARD_H

#include "../base/base.h"

struct unetmm_event_private {
    struct unetmm_event_counter pub;    /* first: the handle points here */
    struct unetmm_ctx *ctx;
    uint32_t id;
    /* Of the endpoint that watches the counter, while handlers are blocked there */
    struct unetmm_ep_private *ep;
    struct unetmm_event_private *next;
    uint64_t seen;
    unetmm_event_handler handler;
    void *arg;
};

static inline struct unetmm_event_private *unetmm_event_private(
    const struct unetmm_event_counter *counter)
{
    return (struct unetmm_event_private *)(uintptr_t)counter;
}

/* The context ends.  `child`: the process has no such mapping. */
void unetmm_events_unmap(struct unetmm_ctx *ctx, bool child);

#endif /* UNETMM_CARD_H */
