/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Bytes that need not be copied out of the ring: while they are on their way, the
 * part of the ring where they are to land is moved to the caller's memory.
 *
 * Only bytes that the peer has announced are moved, so that each part is waited for
 * to its end, and nothing is left to be sorted out.  When the time passes or the
 * stream fails, bytes that landed beyond the last word go back into the ring.
 *
 * Several parts are moved at a time, one behind the other, so that the peer is told
 * of room, and sends on, while the next ones are filled.
 */
#include "stream.h"

/* As many as the driver moves of one export. */
#define PARTS   4u

struct part {
    uint64_t start;             /* a position of the stream */
    uint32_t len;
};

struct redirection {
    struct unetmm_stream *s;
    uint8_t *to;                /* the byte at position `base` goes here */
    size_t len;
    uint64_t base, end;         /* parts have been made up to there */
    struct part parts[PARTS];
    unsigned first, count;
};

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The copied bytes had landed already, or were near some that had. */
static void count_part(struct unetmm_stream *s, uint32_t len,
                       const struct unetmm_redirected *what)
{
    uint64_t copied = least_of(what->copied, len);

    s->stats.redirections++;
    s->stats.copied += copied;
    s->stats.redirected += len - copied;
}

/*
 * Where memory is pinned by name two parts cannot share a page: the end of the first
 * part would unpin it.
 */
static unsigned most_parts(const struct unetmm_stream *s)
{
    return s->stage_needed ? 1 : PARTS;
}

/* False: there is nothing more to move, or it cannot be moved now. */
static bool part_add(struct redirection *r)
{
    struct unetmm_stream *s = r->s;
    uint64_t offset = r->end & (s->flow.in_size - 1), len;
    struct unetmm_redirected what;
    struct part *part;

    len = least_of(s->flow.ahead - r->end, s->flow.in_size - offset);
    len = least_of(len, s->flow.in_size / PARTS);
    len = least_of(len, r->len - (r->end - r->base));
    if (r->count == most_parts(s) || len < s->attr.redirect_least || s->error ||
        unetmm_redirect(s->ctx, s->ring_id, offset, r->to + (r->end - r->base),
                        (size_t)len, &what)) {
        return false;
    }
    part = &r->parts[(r->first + r->count++) % PARTS];
    part->start = r->end;
    part->len = (uint32_t)len;
    r->end += len;
    count_part(s, part->len, &what);
    return true;
}

static uint64_t offset_of(const struct redirection *r, const struct part *part)
{
    return part->start & (r->s->flow.in_size - 1);
}

/* The oldest part is whole. */
static void part_done(struct redirection *r)
{
    struct part *part = &r->parts[r->first];
    struct unetmm_stream *s = r->s;
    int ret = unetmm_redirect_end(s->ctx, s->ring_id, offset_of(r, part));

    if (ret) {
        stream_fail(s, ret);
    }
    flow_consume(&s->flow, part->len);
    stream_credit(s);
    r->first = (r->first + 1) % PARTS;
    r->count--;
}

/* Announced bytes stay; others that have landed go back into the ring. */
static void parts_back(struct redirection *r)
{
    struct unetmm_stream *s = r->s;

    for (; r->count; r->count--, r->first = (r->first + 1) % PARTS) {
        struct part *part = &r->parts[r->first];
        uint64_t keep = s->flow.received > part->start ?
            least_of(s->flow.received - part->start, part->len) : 0;
        int ret = unetmm_redirect_back(s->ctx, s->ring_id, offset_of(r, part),
                                       (size_t)keep, NULL);

        if (ret) {
            stream_fail(s, ret);
        }
        s->stats.redirected -= least_of(s->stats.redirected,
                                        part->len - keep);
        flow_consume(&s->flow, keep);
    }
}

int64_t redirect_receive(struct unetmm_stream *s, void *to, size_t len,
                         int64_t deadline_ns)
{
    struct redirection r = {
        .s = s, .to = to, .len = len,
        .base = s->flow.consumed, .end = s->flow.consumed,
    };
    int ret = 0;

    if (!s->attr.redirect_least) {
        return 0;
    }
    for (;;) {
        while (!ret && part_add(&r)) {
        }
        if (!r.count) {
            break;
        }
        if (s->flow.received >= r.parts[r.first].start + r.parts[r.first].len) {
            part_done(&r);
        } else if (s->error || ret) {
            parts_back(&r);
            break;
        } else {
            ret = stream_wait(s, deadline_ns);
        }
    }
    len = (size_t)(s->flow.consumed - r.base);
    return len ? (int64_t)len : ret;
}
