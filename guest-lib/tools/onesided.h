/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory of two processes for one-sided operations: exported, imported, filled and
 * looked at.  The rows of op.h's table work on it.
 *
 * Messages have places, which they take in turn; a message ends where its place
 * ends, at a multiple of 8.  Its last bytes, 8 or all if it is shorter, are made
 * of its number and are never zero, so that a waiting process can tell it from the
 * earlier contents.  The others are a pattern when they are to be verified.
 */
#ifndef UNETMM_TOOLS_ONESIDED_H
#define UNETMM_TOOLS_ONESIDED_H

#include "op.h"
#include "session.h"

#define MOST_PLACES     16u

struct one_sided {
    struct session *s;
    const struct op *op;
    struct plan plan;
    bool server;
    bool running;
    uint32_t places;
    size_t stride;
    void *block;                /* of which these are parts: */
    uint8_t *own;               /* exported, if `exported` */
    uint8_t *local;             /* from which and to which operations go */
    bool exported, registered;
    int import;                 /* of the peer's export; -1: none */
    void *window;               /* the peer's memory; au, udma */
    void *proxy;                /* ours; udma */
    uint32_t outstanding[MOST_PLACES];
    uint64_t old;               /* the last atomic's old value */
    uint64_t said_ns;           /* when the peer was last told that we live */
};

/* The session's peer, with an agreed plan or before. */
void one_sided_init(struct one_sided *o, struct session *s);

/* The client's side of a run: START, and all until operations can begin. */
void one_sided_begin(struct one_sided *o, const struct plan *plan);
/*
 * The server's answer to a START; it may be a repetition.  False, and said in a
 * sentence: the run is impossible, or the peer has gone.
 */
bool one_sided_answer(struct one_sided *o, const struct control *start);
/* Gives all back.  May be called again. */
void one_sided_end(struct one_sided *o);

/* Where message `seq` is in one's own, exported memory, and in the peer's. */
size_t one_sided_at(const struct one_sided *o, uint32_t seq);
uint32_t one_sided_place(const struct one_sided *o, uint32_t seq);

/* Writes a message (`reply`: that of the listening side) into `memory`. */
void one_sided_fill(struct one_sided *o, uint8_t *memory, uint32_t seq,
                    bool reply);
/* Is its end there? */
bool one_sided_arrived(const struct one_sided *o, uint32_t seq);
/* Are all its bytes there? */
bool one_sided_right(const struct one_sided *o, const uint8_t *memory,
                     uint32_t seq, bool reply);

/* Takes a completion of an operation. */
void one_sided_done(struct one_sided *o, const struct event *event);
/*
 * Waits until the place of `seq` in `local` is no operation's any more.  As the next two
 * for no longer than session_room() does.
 */
void one_sided_await_place(struct one_sided *o, uint32_t seq);
/* Waits for all operations. */
void one_sided_settle(struct one_sided *o);
/* Starts `seq`, waiting for room. */
void one_sided_start(struct one_sided *o, uint32_t seq);
/* Tells the peer, which need not notice operations, that we are there. */
void one_sided_say(struct one_sided *o);

/* op_latency.c: fills `samples` (round trips, ns); returns how many were wrong. */
uint64_t op_measure_latency(struct one_sided *o, uint64_t *samples);

/* op_bandwidth.c: the time of the measured messages, and wrong ones. */
struct op_bandwidth {
    uint64_t ns;
    uint64_t bytes;
    uint32_t bad;
};
void op_measure_bandwidth(struct one_sided *o, struct op_bandwidth *result);

/* op_serve.c: the listening side.  False: the peer is silent, or bytes wrong. */
bool op_serve(struct session *s);

#endif /* UNETMM_TOOLS_ONESIDED_H */
