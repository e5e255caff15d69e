/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Latency of one-sided operations, on the connecting side.
 *
 * The peer's process answers operations that write its memory in the same way
 * (op_serve.c); those that bring data back need no process there.
 */
#include "onesided.h"
#include "op_wait.h"

static void prepare(struct one_sided *o, uint32_t seq)
{
    one_sided_await_place(o, seq);
    if (o->op->one_way) {
        one_sided_fill(o, o->local, seq, false);
    }
}

/* Until the answer's end is there. */
static void await_answer(struct one_sided *o, uint32_t seq)
{
    struct op_wait wait;
    struct event event;

    op_wait_start(&wait);
    while (!op_wait(o, &wait, seq, &event)) {
        if (event.type == EVENT_FRAME) {
            session_release(o->s, &event);
        }
        if (now_ns() - wait.start_ns > o->s->opt->timeout_ns) {
            fail("the peer has stopped answering, after %u messages of %u "
                 "bytes", seq - o->plan.first, o->plan.size);
        }
    }
}

static bool is_right(struct one_sided *o, uint32_t seq)
{
    return o->op->check ? o->op->check(o, seq) : op_wait_right(o, seq, true);
}

uint64_t op_measure_latency(struct one_sided *o, uint64_t *samples)
{
    const struct plan *plan = &o->plan;
    uint64_t bad = 0;
    uint32_t i;

    for (i = 0; i < plan->warmup + plan->count; i++) {
        uint32_t seq = plan->first + i;
        uint64_t start, took;

        prepare(o, seq);
        start = now_ns();
        one_sided_start(o, seq);
        if (o->op->one_way) {
            await_answer(o, seq);
        } else {
            one_sided_await_place(o, seq);
        }
        took = now_ns() - start;
        if (i >= plan->warmup) {
            samples[i - plan->warmup] = took;
        }
        bad += !is_right(o, seq);
        if (!o->op->one_way) {
            one_sided_say(o);
        }
    }
    return bad;
}
