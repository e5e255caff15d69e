/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The first words of both sides, and the peer's ring.
 *
 * Each side exports its ring under a number that is drawn at random, for all peers
 * of the process could import it, and tells it to the other in a message.
 */
#include "stream.h"

#include <errno.h>

/*
 * The thread that asks for a peer's ring may have other streams, and the peer's driver may
 * say nothing: a question waits from ASK_FIRST_NS to ASK_LONGEST_NS, and twice as long
 * passes before the next one.
 */
#define ASK_FIRST_NS    20000000ll
#define ASK_LONGEST_NS  160000000ll
#define ASK_LIMIT_NS    3000000000ll

#define GREETING_MAGIC  0x6d616572747375ull     /* "ustream" */
#define GREETING_VERSION 1

/* Little-endian, and short enough to come inside of a completion. */
struct greeting {
    uint64_t magic;
    uint64_t ring_id;
    uint32_t version;
    uint32_t ring_bytes;
    uint32_t redirect_least;    /* 0: does not redirect */
    uint32_t rsvd;
};

/* ---- Greetings --------------------------------------------------------- */

int stream_greet(struct unetmm_stream *s)
{
    struct greeting hello = {
        .magic = unetmm_swap64(GREETING_MAGIC),
        .ring_id = unetmm_swap64(s->ring_id),
        .version = unetmm_swap32(GREETING_VERSION),
        .ring_bytes = unetmm_swap32(s->attr.ring_bytes),
        .redirect_least = unetmm_swap32(
            redirect_export_flags(s) ? s->attr.redirect_least : 0),
    };
    int ret = unetmm_send(s->ep, s->channel, &hello, sizeof(hello),
                          s->posted + 1, UNETMM_UNSIGNALED | UNETMM_INLINE);

    if (!ret) {
        s->posted++;
    }
    return ret;
}

/* 0, or -errno, which is -EAGAIN if the peer's driver has not answered. */
static int import_ring(struct unetmm_stream *s)
{
    uint64_t length = 0;
    int ret = unetmm_import(s->ep, s->channel, s->theirs.id, UNETMM_RIGHT_WRITE,
                            s->theirs.step_ns, &length);

    if (ret == -EHOSTUNREACH || ret == -EINTR) {
        return -EAGAIN;
    }
    if (ret < 0) {
        /* The ring that it named is not there, or its driver is not. */
        return ret == -ENOSPC || ret == -EOPNOTSUPP ? ret : -ECONNRESET;
    }
    if (length != s->theirs.bytes || !flow_peer(&s->flow, s->theirs.bytes)) {
        return -EPROTO;
    }
    s->import = ret;
    return 0;
}

void stream_import(struct unetmm_stream *s)
{
    int64_t now = stream_now();
    int ret;

    if (!s->theirs.end_ns || s->import >= 0 || s->error || now < s->theirs.next_ns) {
        return;
    }
    ret = import_ring(s);
    now = stream_now();
    if (ret == -EAGAIN && now < s->theirs.end_ns) {
        s->theirs.next_ns = now + 2 * s->theirs.step_ns;
        s->theirs.step_ns *= s->theirs.step_ns < ASK_LONGEST_NS ? 2 : 1;
    } else if (ret) {
        stream_fail(s, ret == -EAGAIN ? -ECONNRESET : ret);
    }
}

int64_t stream_nap(const struct unetmm_stream *s, int64_t now)
{
    int64_t left = s->theirs.next_ns - now;

    if (!s->theirs.end_ns || s->import >= 0 || s->error || left > PROBE_NS) {
        return PROBE_NS;
    }
    return left > 1 ? left : 1;
}

void stream_greeting(struct unetmm_stream *s, const struct unetmm_completion *c)
{
    struct greeting hello;

    if (c->is_inline && c->len == 1) {
        return;     /* only asks whether we are here */
    }
    if (!c->is_inline || c->len != sizeof(hello) || s->theirs.end_ns) {
        stream_fail(s, -EPROTO);
        return;
    }
    memcpy(&hello, c->data, sizeof(hello));
    if (unetmm_swap64(hello.magic) != GREETING_MAGIC ||
        unetmm_swap32(hello.version) != GREETING_VERSION) {
        stream_fail(s, -EPROTO);
        return;
    }
    s->theirs.id = unetmm_swap64(hello.ring_id);
    s->theirs.bytes = unetmm_swap32(hello.ring_bytes);
    s->theirs.step_ns = ASK_FIRST_NS;
    s->theirs.next_ns = stream_now();
    s->theirs.end_ns = s->theirs.next_ns + ASK_LIMIT_NS;
    s->announce_least = unetmm_swap32(hello.redirect_least);
    stream_import(s);
}
