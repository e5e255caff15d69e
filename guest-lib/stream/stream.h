/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The stream library's files, from top to bottom, and the functions between them.
 *
 *   stream.c    making and ending streams
 *   fd.c        streams by file descriptor
 *   transfer.c  bytes in and out
 *   redirect.c  bytes that need not be copied out of the ring
 *   events.c    completions, waiting
 *   greeting.c  the first words of both sides, the import of the peer's ring
 *   state.c     errors, the clock, words to the peer
 *   flow.c      positions
 */
#ifndef UNETMM_STREAM_INTERNAL_H
#define UNETMM_STREAM_INTERNAL_H

#include "flow.h"

#include <libunetmm/byteorder.h>
#include <libunetmm/stream.h>

/*
 * Bytes that are copied before they are sent go through these.  While one is on its
 * way the next is filled.
 */
#define STAGES          4u
#define STAGE_BYTES     65536u

/* Longest write: the first of a large send is there while others go. */
#define PIECE_BYTES     65536u

/*
 * A peer whose process or host has gone says nothing.  A waiting side asks its card
 * at this interval.
 */
#define PROBE_NS        200000000ll

struct unetmm_stream {
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;
    struct unetmm_stream_attr attr;
    struct flow flow;
    struct unetmm_stream_stats stats;
    uint8_t *ring;              /* exported as ring_id */
    uint64_t ring_id;
    bool exported;
    int channel;                /* -1: none yet */
    uint8_t peer_mac[6];
    int import;                 /* of the peer's ring; -1: none yet */
    struct {                    /* the peer's ring, by its greeting */
        uint64_t id, bytes;
        int64_t next_ns;        /* the next question to the peer's driver */
        int64_t step_ns;        /* ... waits for an answer so long */
        int64_t end_ns;         /* ... and is the last one then; 0: not greeted yet */
    } theirs;
    uint32_t announce_least;    /* the peer is told of so much ahead; 0: no */
    uint64_t announced;         /* position up to which it was */
    bool nonblocking;
    int error;                  /* -errno: nothing more can be sent */
    uint8_t *stage;
    bool stage_needed;          /* source pinned: our own memory only */
    uint64_t stage_used[STAGES];    /* the last operation of each */
    unsigned next_stage;
    uint64_t posted, done;      /* operations; done: all up to it */
    uint64_t fin;               /* operation: the end of our data; 0: not posted */
    uint64_t last_data;         /* ... the last with bytes */
    uint64_t last_direct;       /* ... the last from the caller's memory */
    uint64_t failed;            /* ... the first that failed; 0: none */
    uint64_t last_probe;        /* ... the last that only asked */
    int64_t probed_ns;          /* when */
    int poll_fd, timer_fd;      /* -1: not asked for */
};

/* ---- transfer.c -------------------------------------------------------- */

/* unetmm_stream_shutdown() with a time. */
int stream_finish(struct unetmm_stream *s, int64_t deadline_ns);

/* ---- redirect.c -------------------------------------------------------- */

/*
 * Receives up to `len` bytes that are on their way without a copy.  How many; 0:
 * it is not worth it, or cannot be done; -errno as stream_wait().
 */
int64_t redirect_receive(struct unetmm_stream *s, void *to, size_t len,
                         int64_t deadline_ns);

/* ---- events.c ---------------------------------------------------------- */

/* Takes the events that are there.  0, or -errno of ours, not of the stream. */
int stream_look(struct unetmm_stream *s);

/*
 * Waits for something to come, looks at it.  0: something may have.
 * -ETIMEDOUT: the time has passed.  -EINTR.
 */
int stream_wait(struct unetmm_stream *s, int64_t deadline_ns);

/* Asks the peer's card for a sign of life, if it is time to. */
void stream_probe(struct unetmm_stream *s, int64_t now);

/* ---- greeting.c -------------------------------------------------------- */

/* Flags that a ring is exported with. */
static inline unsigned redirect_export_flags(const struct unetmm_stream *s)
{
    return s->attr.redirect_least ? UNETMM_EXPORT_REDIRECT : 0;
}

/* Sends our greeting.  0 or -errno. */
int stream_greet(struct unetmm_stream *s);

/* A message of the peer has come: its greeting. */
void stream_greeting(struct unetmm_stream *s, const struct unetmm_completion *c);

/* Asks for the peer's ring, if it is greeted, without an import, and it is time to. */
void stream_import(struct unetmm_stream *s);

/* How long the thread may sleep before that is to be called; at most PROBE_NS. */
int64_t stream_nap(const struct unetmm_stream *s, int64_t now);

/* ---- state.c ----------------------------------------------------------- */

/* Nothing can be done any more: 0, or -EOWNERDEAD in a forked child. */
int stream_check(const struct unetmm_stream *s);

/* The stream fails; the first reason stays. */
void stream_fail(struct unetmm_stream *s, int error);

/* Why the stream has failed, -errno; 0: it has not, or has only ended. */
int stream_error(const struct unetmm_stream *s);

int64_t stream_now(void);
/* Now and a timeout; INT64_MAX if it is negative. */
int64_t stream_deadline(int64_t timeout_ns);

/*
 * Posts a word, with bytes or without, to the peer's ring.  0 or -errno; -EAGAIN:
 * the queue is full.  `loud`: it has a completion when it is done.
 */
int stream_write(struct unetmm_stream *s, uint64_t offset, const void *bytes,
                 uint32_t len, uint32_t word, bool loud);

/* Tells the peer how far we are, if that is worth it and can be done now. */
void stream_credit(struct unetmm_stream *s);

#endif /* UNETMM_STREAM_INTERNAL_H */
