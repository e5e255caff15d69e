/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Waiting for a message that is written into one's memory.
 */
#ifndef UNETMM_TOOLS_OP_WAIT_H
#define UNETMM_TOOLS_OP_WAIT_H

#include "onesided.h"

struct op_wait {
    uint64_t start_ns;
};

void op_wait_start(struct op_wait *wait);

/*
 * Looks for message `seq` for a while.  True: its end is there.  False: an event
 * came instead, or none did.  With --block it waits for its notification.
 */
bool op_wait(struct one_sided *o, const struct op_wait *wait, uint32_t seq,
             struct event *event);

/*
 * Are all bytes of a message right whose end has arrived?  Where packets were
 * lost others may come after it: they are waited for.
 */
bool op_wait_right(struct one_sided *o, uint32_t seq, bool reply);

#endif /* UNETMM_TOOLS_OP_WAIT_H */
