/*
 * unetmm: reliable channels: the congestion control's part
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_PACE_H
#define UNETMM_PACE_H

#include "connection.h"

/* The window before an acknowledgement. */
typedef struct UnetmmRelPace {
    uint32_t una;
    uint64_t lost;
    bool in_order;              /* a loss would be one of the network */
} UnetmmRelPace;

static inline UnetmmRelPace unetmm_rel_pace(const UnetmmSendWindow *tx)
{
    return (UnetmmRelPace) {
        .una = tx->una, .lost = tx->lost,
        .in_order = !tx->retries && !tx->refusals && !tx->again,
    };
}

/* pace.c */
/* A channel begins: its first window. */
void unetmm_rel_pace_begin(const UnetmmCore *core, UnetmmRel *rel);
/* A packet goes out. */
void unetmm_rel_pace_sent(UnetmmCore *core, UnetmmRel *rel,
                          const struct unetmm_frame *f, bool again);
/* No news came in time. */
void unetmm_rel_pace_silent(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel);
/* The peer has packet cum and waits for its page. */
void unetmm_rel_pace_aside(UnetmmRel *rel);
/* News came, which have changed the window. */
void unetmm_rel_pace_news(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                          const UnetmmRelPace *before);

#endif /* UNETMM_PACE_H */
