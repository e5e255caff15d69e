/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Bytes of a stream: into the peer's ring, out of ours.
 *
 * A piece is written to where the peer's ring goes on, with a word that says so
 * when it is there.  A short piece is copied into the descriptor.  A long one is
 * taken from the caller's memory, which the card uses until it is done, and so the
 * call waits in the end; there, all its pieces are on their way together.
 * Where memory has to be pinned by name, or where nobody may wait, it is
 * copied into stages of our own first.
 */
#include "stream.h"

#include <errno.h>
#include <limits.h>

/* ---- Out --------------------------------------------------------------- */

/* How many of `len` bytes fit in one piece, and where. */
static uint32_t piece_of(const struct unetmm_stream *s, size_t len, uint32_t most,
                         uint64_t *offset)
{
    uint32_t piece = flow_piece(&s->flow, offset);

    piece = piece < most ? piece : most;
    return len < piece ? (uint32_t)len : piece;
}

/* 0, or -errno: it is not on its way. */
static int send_piece(struct unetmm_stream *s, uint64_t offset, const void *bytes,
                      uint32_t len, bool loud)
{
    uint32_t word = flow_word(FLOW_DATA, s->flow.sent + len);
    int ret = stream_write(s, offset, bytes, len, word, loud);

    if (!ret) {
        flow_put(&s->flow, len);
        s->last_data = s->posted;
        s->stats.sent += len;
        s->stats.writes++;
    }
    return ret;
}

/* A piece that is copied before: how many bytes of it, or -errno. */
static int64_t send_copied(struct unetmm_stream *s, const uint8_t *bytes, size_t len)
{
    uint8_t *stage = s->stage + s->next_stage * STAGE_BYTES;
    uint64_t offset;
    uint32_t piece = piece_of(s, len, STAGE_BYTES, &offset);
    int ret;

    if (!piece || s->stage_used[s->next_stage] > s->done) {
        return -EAGAIN;
    }
    memcpy(stage, bytes, piece);
    ret = send_piece(s, offset, stage, piece, true);
    if (ret) {
        return ret;
    }
    s->stage_used[s->next_stage] = s->posted;
    s->next_stage = (s->next_stage + 1) % STAGES;
    s->stats.staged += piece;
    return piece;
}

/* The bytes that can be written now, in pieces of `most`, with the words left. */
static uint64_t run_of(const struct unetmm_stream *s, size_t len, uint32_t most)
{
    uint32_t words = FLOW_WORDS - s->flow.words_out.count;
    uint64_t room = flow_room(&s->flow), offset;

    if (words <= 2) {
        return piece_of(s, len, most, &offset);
    }
    /* The ring's end cuts one piece in two. */
    if (room > (uint64_t)(words - 2) * most) {
        room = (uint64_t)(words - 2) * most;
    }
    return len < room ? len : room;
}

/* The next piece of a run: how many bytes, or -errno. */
static int64_t send_next(struct unetmm_stream *s, const uint8_t *bytes, size_t len)
{
    uint64_t offset;
    uint32_t piece;
    int ret;

    if (s->stage_needed) {
        return send_copied(s, bytes, len);
    }
    piece = piece_of(s, len, PIECE_BYTES, &offset);
    ret = send_piece(s, offset, bytes, piece, true);
    if (ret) {
        return ret;
    }
    s->last_direct = s->posted;
    return piece;
}

/*
 * Waits for the operation `op`.  The memory of the bytes under way is the card's until then,
 * so neither a signal nor an error ends the wait.  The deadline ends the channel, and with it
 * the card's use of the memory.
 */
static void wait_under_way(struct unetmm_stream *s, uint64_t op, int64_t deadline)
{
    if (stream_wait(s, deadline) == -ETIMEDOUT && s->done < op) {
        stream_fail(s, -ETIMEDOUT);
        unetmm_disconnect(s->ep, s->channel);
        s->done = s->posted;
    }
}

/*
 * As much as there is room for.  Announced bytes are then sent, or the stream fails: the peer
 * waits for them.
 */
static int64_t send_run(struct unetmm_stream *s, const uint8_t *bytes, size_t len)
{
    int64_t deadline = stream_deadline(s->attr.timeout_ns);
    uint64_t run = run_of(s, len, s->stage_needed ? STAGE_BYTES : PIECE_BYTES);
    uint64_t done = 0;

    if (!run) {
        return -EAGAIN;
    }
    if (s->announce_least && run >= s->announce_least) {
        int ret = stream_write(s, 0, NULL, 0,
                               flow_word(FLOW_AHEAD, s->flow.sent + run),
                               false);

        if (ret) {
            return ret;
        }
    }
    while (done < run && !s->error) {
        int64_t n = send_next(s, bytes + done, run - done);

        if (n > 0) {
            done += (uint64_t)n;
        } else if (n != -EAGAIN) {
            stream_fail(s, (int)n);
        } else {
            wait_under_way(s, s->posted, deadline);
        }
    }
    return done ? (int64_t)done : s->error;
}

static int64_t send_some(struct unetmm_stream *s, const uint8_t *bytes, size_t len,
                         bool nowait)
{
    uint64_t offset;
    uint32_t piece;
    int ret;

    if (len > UNETMM_MAX_INLINE) {
        return nowait ? send_copied(s, bytes, len) : send_run(s, bytes, len);
    }
    piece = piece_of(s, len, UNETMM_MAX_INLINE, &offset);
    if (!piece) {
        return -EAGAIN;
    }
    ret = send_piece(s, offset, bytes, piece, false);
    return ret ? ret : (int64_t)piece;
}

/* Some bytes have not arrived, or that is unknown; later ones do not count. */
static bool data_failed(const struct unetmm_stream *s)
{
    return s->error && s->failed <= s->last_data;
}

ssize_t unetmm_stream_send(struct unetmm_stream *s, const void *bytes, size_t len,
                           unsigned flags)
{
    bool nowait = s->nonblocking || flags & UNETMM_STREAM_DONTWAIT;
    int64_t deadline, n;
    size_t sent = 0;
    int ret = stream_check(s);

    if (ret || flags & ~UNETMM_STREAM_DONTWAIT) {
        return ret ? ret : -EINVAL;
    }
    len = len > SSIZE_MAX ? SSIZE_MAX : len;
    deadline = stream_deadline(s->attr.timeout_ns);
    while (!ret && sent < len) {
        ret = stream_look(s);
        ret = ret ? ret : s->flow.fin_out ? -EPIPE : s->error;
        if (ret) {
            break;
        }
        n = send_some(s, (const uint8_t *)bytes + sent, len - sent,
                      nowait || !s->attr.timeout_ns);
        if (n >= 0) {
            sent += (size_t)n;
        } else if (n != -EAGAIN || nowait) {
            ret = (int)n;
        } else {
            stream_credit(s);
            ret = stream_wait(s, deadline);
        }
    }
    deadline = stream_deadline(s->attr.timeout_ns);
    while (s->done < s->last_direct && s->error != -EIO && !stream_check(s)) {
        wait_under_way(s, s->last_direct, deadline);
    }
    /* The failed bytes may have left a gap: that is worse than a short count. */
    return data_failed(s) || !sent ? (s->error ? s->error : ret) :
           (ssize_t)sent;
}

int stream_finish(struct unetmm_stream *s, int64_t deadline_ns)
{
    int ret = 0;

    while (!ret && !s->flow.fin_out) {
        ret = stream_look(s);
        if (ret || s->error) {
            break;
        }
        ret = s->import < 0 ? -EAGAIN :
            stream_write(s, 0, NULL, 0, flow_word(FLOW_FIN, s->flow.sent),
                         true);
        if (!ret) {
            s->flow.fin_out = true;
            s->fin = s->posted;
        } else if (ret == -EAGAIN) {
            ret = stream_wait(s, deadline_ns);
        }
    }
    return ret ? ret : stream_error(s);
}

int unetmm_stream_shutdown(struct unetmm_stream *s)
{
    int ret = stream_check(s);

    if (ret || s->flow.fin_out) {
        return ret;
    }
    return stream_finish(s, stream_deadline(s->attr.timeout_ns));
}

/* ---- In ---------------------------------------------------------------- */

static size_t copy_out(struct unetmm_stream *s, uint8_t *to, size_t len)
{
    size_t copied = 0;

    while (copied < len && flow_there(&s->flow)) {
        uint64_t offset;
        size_t piece = flow_stretch(&s->flow, &offset);

        piece = piece < len - copied ? piece : len - copied;
        memcpy(to + copied, s->ring + offset, piece);
        flow_consume(&s->flow, piece);
        copied += piece;
    }
    s->stats.copied += copied;
    return copied;
}

/* Receives bytes that are there or announced, without waiting for others. */
static int64_t receive_some(struct unetmm_stream *s, uint8_t *to, size_t len,
                            bool nowait, int64_t deadline)
{
    int64_t n = (int64_t)copy_out(s, to, len);

    if (!n && !nowait && len) {
        n = redirect_receive(s, to, len, deadline);
    }
    if (n > 0) {
        s->stats.received += (uint64_t)n;
        stream_credit(s);
    }
    return n;
}

ssize_t unetmm_stream_recv(struct unetmm_stream *s, void *bytes, size_t len, unsigned flags)
{
    bool nowait = s->nonblocking || flags & UNETMM_STREAM_DONTWAIT;
    int64_t deadline, n;
    size_t got = 0;
    int ret = stream_check(s);

    if (ret || flags & ~(UNETMM_STREAM_DONTWAIT | UNETMM_STREAM_WAITALL)) {
        return ret ? ret : -EINVAL;
    }
    len = len > SSIZE_MAX ? SSIZE_MAX : len;
    deadline = stream_deadline(s->attr.timeout_ns);
    while (!ret && got < len) {
        ret = stream_look(s);
        if (ret) {
            break;
        }
        n = receive_some(s, (uint8_t *)bytes + got, len - got,
                         nowait || (got && !(flags & UNETMM_STREAM_WAITALL)),
                         deadline);
        if (n > 0) {
            got += (size_t)n;
        } else if (n < 0) {
            ret = (int)n;
        } else if (s->flow.fin_in || s->error) {
            ret = s->flow.fin_in ? 0 : s->error;
            break;
        } else if (got && !(flags & UNETMM_STREAM_WAITALL)) {
            break;
        } else {
            ret = nowait ? -EAGAIN : stream_wait(s, deadline);
        }
    }
    return got ? (ssize_t)got : ret;
}
