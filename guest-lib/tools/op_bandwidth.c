/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Bandwidth of one-sided operations, on the connecting side: as many at a time
 * as there are places.
 *
 * The clock starts when the last message of the warm-up is done and stops when
 * the last one is.  Written data is verified in rounds: all places are written, the
 * peer looks at them and says so; the clock stands meanwhile.
 */
#include "onesided.h"

#define BATCH       8u      /* operations for one doorbell */

struct stream {
    struct one_sided *o;
    uint32_t total;
    uint32_t posted;
    uint32_t done;
    uint32_t checked;           /* by the peer */
    uint64_t start_ns, stopped_ns;
    struct op_bandwidth *result;
};

static bool rounds(const struct stream *st)
{
    return st->o->op->one_way && st->o->plan.verify;
}

/* Is there a message, and a place for it, behind so many that are not posted? */
static bool may_post_behind(const struct stream *st, uint32_t n)
{
    uint32_t oldest = rounds(st) ? st->checked : st->done;

    return st->posted + n < st->total &&
        st->posted + n - oldest < st->o->places;
}

static void post_some(struct stream *st)
{
    struct one_sided *o = st->o;
    uint32_t i;

    /* Half of all at a time, so that there is a batch to post. */
    if (st->posted - st->done > o->places / 2) {
        return;
    }
    for (i = 0; i < BATCH && may_post_behind(st, 0); i++) {
        uint32_t seq = o->plan.first + st->posted;

        if (o->op->one_way) {
            one_sided_fill(o, o->local, seq, false);
        }
        if (!o->op->start(o, seq, i + 1 < BATCH && may_post_behind(st, 1))) {
            break;
        }
        st->posted++;
    }
}

static void on_done(struct stream *st, const struct event *event)
{
    struct one_sided *o = st->o;
    uint32_t seq = o->plan.first + st->done;

    one_sided_done(o, event);
    st->result->bad += event->number != one_sided_place(o, seq);
    if (o->op->check) {
        st->result->bad += !o->op->check(o, seq);
    }
    st->done++;
    if (st->done == o->plan.warmup) {
        st->start_ns = now_ns();
        st->stopped_ns = 0;
    }
}

static void check_round(struct stream *st)
{
    struct one_sided *o = st->o;
    const struct control check = {
        .type = CONTROL_CHECK, .run = (uint16_t)o->plan.run,
        .q = { o->plan.first + st->checked, st->done - st->checked },
    };
    struct control checked;
    uint64_t start = now_ns();

    /* An answer that was late, and asked for again, may still be on its way. */
    do {
        if (!session_request(o->s, &check, CONTROL_CHECKED, &checked,
                             o->s->opt->timeout_ns)) {
            fail("the peer has stopped answering, after %u of %u messages",
                 st->done, st->total);
        }
    } while (checked.run != check.run || checked.q[0] != check.q[0]);
    st->result->bad += checked.w[0];
    st->checked = st->done;
    st->stopped_ns += now_ns() - start;
}

void op_measure_bandwidth(struct one_sided *o, struct op_bandwidth *result)
{
    struct stream st = {
        .o = o, .total = o->plan.warmup + o->plan.count, .result = result,
    };
    uint64_t heard;

    *result = (struct op_bandwidth) { 0 };
    st.start_ns = heard = now_ns();
    while (st.done < st.total) {
        struct event event;

        post_some(&st);
        session_event(o->s, &event, (int64_t)NS_PER_S);
        if (event.type == EVENT_DONE) {
            on_done(&st, &event);
            heard = now_ns();
        } else if (event.type == EVENT_FRAME) {
            session_release(o->s, &event);
        }
        if (now_ns() - heard > o->s->opt->timeout_ns) {
            fail("the peer's card has stopped answering, after %u of %u "
                 "messages", st.done, st.total);
        }
        if (st.done == st.posted && rounds(&st)) {
            check_round(&st);
        }
        one_sided_say(o);
    }
    result->ns = now_ns() - st.start_ns - st.stopped_ns;
    result->bytes = (uint64_t)o->plan.count * o->plan.size;
}
