/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Events of a stream: completions, the peer's words, its end; and waiting
 * for them.
 */
#include "stream.h"

#include <errno.h>

#define BATCH   16u

/* ---- Completions ------------------------------------------------------- */

/* Why an operation on the peer's memory failed, in a word of POSIX. */
static int error_of(const struct unetmm_stream *s, unsigned status)
{
    switch (status) {
    case UNETMM_ST_TIMEOUT:
    case UNETMM_ST_NOT_READY:
        return -ETIMEDOUT;
    case UNETMM_ST_PROTECTION:
    case UNETMM_ST_UNSUPPORTED:
    case UNETMM_ST_TOO_LARGE:
        return -EFAULT;
    case UNETMM_ST_LIMIT:
        return -ENOMEM;
    case UNETMM_ST_REMOTE_RANGE:
    case UNETMM_ST_REMOTE_RIGHT:
        return -EPROTO;
    default:
        /* Its channel or ring is no more; did it say that it would go? */
        return s->flow.fin_in ? -EPIPE : -ECONNRESET;
    }
}

static void on_sent(struct unetmm_stream *s, const struct unetmm_completion *c)
{
    /* Operations end in their order. */
    if (c->user_data > s->done && c->user_data <= s->posted) {
        s->done = c->user_data;
    }
    if (c->status) {
        if (!s->failed) {
            s->failed = c->user_data;
        }
        stream_fail(s, error_of(s, c->status));
    }
}

static void on_notify(struct unetmm_stream *s, const struct unetmm_completion *c)
{
    if (!flow_take(&s->flow, unetmm_notify_imm(c), unetmm_notify_offset(c),
                   c->len)) {
        stream_fail(s, -EPROTO);
    }
}

/*
 * An endpoint that was made for the first caller may have had a second one; the
 * second channel was closed at once.
 */
static void on_completion(struct unetmm_stream *s, const struct unetmm_completion *c)
{
    if (c->type == UNETMM_CQE_FAILED) {
        stream_fail(s, -EIO);
        return;
    }
    if (s->channel < 0 || c->channel != s->channel) {
        return;
    }
    if (c->type == UNETMM_CQE_SENT) {
        on_sent(s, c);
    } else if (c->type == UNETMM_CQE_RECEIVED) {
        stream_greeting(s, c);
    } else if (c->type == UNETMM_CQE_NOTIFY && s->error != -EPROTO) {
        on_notify(s, c);
    }
}

static int take_batch(struct unetmm_stream *s, const struct unetmm_completion *c, int n)
{
    int i;

    if (n == -EIO) {
        stream_fail(s, -EIO);
        return 0;
    }
    for (i = 0; i < n; i++) {
        on_completion(s, &c[i]);
    }
    return n < 0 ? n : 0;
}

int stream_look(struct unetmm_stream *s)
{
    struct unetmm_completion c[BATCH];
    int n;

    do {
        n = unetmm_poll(s->ep, c, BATCH);
        if (n == -EOWNERDEAD) {
            return n;
        }
        take_batch(s, c, n);
    } while (n == (int)BATCH);
    stream_import(s);
    return 0;
}

/* ---- Is the peer still there? ------------------------------------------ */

/*
 * A write of nothing is acknowledged by a card that still has the ring; before we
 * know the ring, a message of one byte.
 */
static int ask(struct unetmm_stream *s)
{
    return s->import < 0 ?
        unetmm_send(s->ep, s->channel, "?", 1, s->posted + 1, 0) :
        unetmm_write(s->ep, s->import, 0, NULL, 0, 0,
                     s->posted + 1, 0);
}

void stream_probe(struct unetmm_stream *s, int64_t now)
{
    if (s->channel < 0 || s->error || s->last_probe > s->done ||
        now - s->probed_ns < PROBE_NS) {
        return;
    }
    s->probed_ns = now;
    if (!ask(s)) {
        s->last_probe = ++s->posted;
        s->stats.probes++;
    }
}

int stream_wait(struct unetmm_stream *s, int64_t deadline_ns)
{
    struct unetmm_completion c[BATCH];
    int64_t now = stream_now(), left = deadline_ns - now, nap = stream_nap(s, now);
    int n;

    if (left <= 0) {
        n = stream_look(s);
        return n ? n : -ETIMEDOUT;
    }
    n = unetmm_wait(s->ep, c, BATCH, left < nap ? left : nap);
    stream_import(s);
    if (!n) {
        stream_probe(s, stream_now());
        return 0;
    }
    return take_batch(s, c, n);
}
