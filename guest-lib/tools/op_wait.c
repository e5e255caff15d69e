/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Waiting for a message that is written into one's memory.
 */
#include "op_wait.h"

#include <time.h>

#define LOOKS       64      /* between two looks at queues and clock */
#define LATE_NS     NS_PER_S
#define PAUSE_NS    50000   /* between looks, when it takes long */

void op_wait_start(struct op_wait *wait)
{
    wait->start_ns = now_ns();
}

static bool op_wait_notified(struct one_sided *o, uint32_t seq,
                             struct event *event)
{
    session_event(o->s, event, (int64_t)NS_PER_S);
    if (event->type == EVENT_DONE) {
        one_sided_done(o, event);
    }
    return event->type == EVENT_NOTIFIED && event->number == seq;
}

bool op_wait(struct one_sided *o, const struct op_wait *wait, uint32_t seq,
             struct event *event)
{
    unsigned i;

    event->type = EVENT_NONE;
    if (o->plan.notify) {
        return op_wait_notified(o, seq, event);
    }
    for (i = 0; i < LOOKS; i++) {
        if (one_sided_arrived(o, seq)) {
            return true;
        }
    }
    session_event(o->s, event, 0);
    if (event->type == EVENT_DONE) {
        one_sided_done(o, event);
    }
    /* Nothing wakes a wait for memory, and the peer may want to run here. */
    if (o->s->opt->spin_ns != UNETMM_SPIN_FOREVER &&
        now_ns() - wait->start_ns > o->s->opt->spin_ns) {
        const struct timespec pause = { .tv_nsec = PAUSE_NS };

        nanosleep(&pause, NULL);
    }
    return false;
}

bool op_wait_right(struct one_sided *o, uint32_t seq, bool reply)
{
    uint64_t start = now_ns();

    while (!one_sided_right(o, o->own, seq, reply)) {
        if (now_ns() - start > LATE_NS) {
            return false;
        }
    }
    return true;
}
