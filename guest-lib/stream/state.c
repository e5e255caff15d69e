/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The state of a stream, and words to the peer.
 */
#include "stream.h"
#include "../src/sys/sys.h"

/* One of so many operations has a completion, so that a full queue is noticed. */
#define LOUD_EACH   32u

int64_t stream_now(void)
{
    return (int64_t)sys_now_ns();
}

int64_t stream_deadline(int64_t timeout_ns)
{
    int64_t now = stream_now();

    return timeout_ns < 0 || timeout_ns > INT64_MAX - now ? INT64_MAX :
           now + timeout_ns;
}

int stream_check(const struct unetmm_stream *s)
{
    return unetmm_fd(s->ep) == -EOWNERDEAD ? -EOWNERDEAD : 0;
}

void stream_fail(struct unetmm_stream *s, int error)
{
    if (!s->error) {
        s->error = error;
    }
}

/*
 * A peer that has announced the end of its data, and has had all our bytes, may go
 * before a credit or a question of ours has reached it: -EPIPE, see error_of() in events.c.
 */
int stream_error(const struct unetmm_stream *s)
{
    return s->error == -EPIPE && s->failed > s->last_data ? 0 : s->error;
}

int stream_write(struct unetmm_stream *s, uint64_t offset, const void *bytes,
                 uint32_t len, uint32_t word, bool loud)
{
    uint64_t op = s->posted + 1;
    int ret = unetmm_write(s->ep, s->import, offset, bytes, len,
                           word, op, UNETMM_NOTIFY |
                           (loud || op % LOUD_EACH == 0 ? 0 : UNETMM_UNSIGNALED));

    if (!ret) {
        s->posted = op;
    }
    return ret;
}

void stream_credit(struct unetmm_stream *s)
{
    uint32_t word = flow_word(FLOW_CREDIT, s->flow.consumed);

    if (s->import >= 0 && !s->error && flow_owes(&s->flow) &&
        !stream_write(s, 0, NULL, 0, word, false)) {
        flow_tell(&s->flow);
        s->stats.credits++;
    }
}
