/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One endpoint, one peer: buffers, frames and control messages of the tools.
 *
 * A message is cut into frames of nearly equal length, none longer than the
 * channel's frame.  The first eight bytes of each are a header: the number of
 * the message and that of the frame in it; shorter frames have as much of it
 * as fits.  The other bytes are a pattern when they are to be verified.
 *
 * Control messages are 40 bytes and start with a word that is never the number
 * of a message.  They are datagrams like all others: a side that needs an answer
 * asks again.
 */
#ifndef UNETMM_TOOLS_SESSION_H
#define UNETMM_TOOLS_SESSION_H

#include "measure.h"

#include <libunetmm/inline.h>

#define HEADER_BYTES    8

/* The user_data of a one-sided operation, with a number in its lower half */
#define OP_COOKIE       0x4000000000000000ull

/* The messages of a run, agreed before it */
struct plan {
    uint32_t run;               /* tells runs apart */
    uint32_t size;              /* bytes of a message */
    uint32_t count;             /* messages that are measured */
    uint32_t warmup;            /* messages before them */
    uint32_t frame;             /* longest frame */
    uint32_t nframes;           /* of one message */
    uint32_t first;             /* number of the first message */
    uint64_t seed;
    bool verify;
    bool bidir;
    /* Of one-sided operations; one is one frame. */
    unsigned op;                /* OP_* */
    uint32_t places;            /* of messages, on each side */
    uint32_t combine;           /* bytes that stores are combined to */
    bool notify;                /* each asks for a notification */
};

enum control_type {
    CONTROL_START = 1,          /* the plan */
    CONTROL_STARTED,            /* its answer; w: 0 or the largest frame;
                                   buffers; its own operation */
    CONTROL_CREDIT,             /* q[0]: frames below this may be sent */
    CONTROL_STALLED,            /* q[0]: frames sent so far; asks for CREDIT */
    CONTROL_FINISH,             /* q[0]: frames sent altogether */
    CONTROL_REPORT,             /* w: lost, doubled, bad; q: ns, bytes */
    CONTROL_END,                /* no more runs */
    CONTROL_ENDED,              /* its answer; w[0]: bad frames seen */
    CONTROL_ALIVE,              /* from a side with one-sided operations */
    CONTROL_CHECK,              /* q: first and number of messages written */
    CONTROL_CHECKED,            /* its answer; q[0] again; w[0]: bad ones */
    CONTROL_ASKED,              /* behind message q[0], whose answer is late; w[0]:
                                   how often it was sent again */
    CONTROL_TOLD,               /* the same words, behind the answer to the message */
};

struct control {
    enum control_type type;
    uint8_t flags;
    uint16_t run;
    uint32_t w[4];
    uint64_t q[2];
};

struct event {
    enum {
        EVENT_NONE, EVENT_FRAME, EVENT_CONTROL, EVENT_DONE, EVENT_NOTIFIED,
    } type;
    const uint8_t *bytes;       /* FRAME */
    uint32_t len;
    bool buffer;                /* FRAME: in a buffer, to be given back */
    uint16_t channel;           /* FRAME, CONTROL */
    uint32_t number;            /* DONE: its user_data's; NOTIFIED: the writer's */
    uint64_t old;               /* DONE, of an atomic: the old value */
    struct control control;
};

/* Callers that a listener waits for at a time */
#define MOST_CALLERS    16u

/* A peer that has a channel, and has not asked for a run yet */
struct caller {
    struct unetmm_peer peer;
    uint64_t since_ns;
};

struct session {
    const struct options *opt;
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;
    struct unetmm_info info;
    struct unetmm_peer peer;
    struct caller callers[MOST_CALLERS];    /* of a listener; oldest first */
    unsigned ncallers;
    bool accepting;             /* the peer is not chosen yet */
    bool gone;                  /* of a listener: the peer takes nothing any more */
    struct event asked;         /* START of the chosen one, until it is taken */
    uint32_t frame;             /* bytes of a buffer */
    uint32_t buffers;           /* posted at a time */
    void *block;                /* from malloc(): rx and tx are in it */
    uint8_t *rx;
    size_t stride;
    uint32_t rx_slots;
    uint32_t depth;             /* completions that can wait */
    uint32_t posted;            /* buffers posted so far */
    uint8_t *tx;
    size_t tx_bytes;
    uint32_t tx_slots;          /* frames that fit into tx */
    uint32_t *outstanding;      /* sends that use a slot of tx */
    uint64_t skipped;           /* buffers that came back unfilled */
    unsigned ncompletions, next_completion;
    struct unetmm_completion completions[32];
};

/* Opens the card, makes the endpoint and its buffers, posts them. */
void session_open(struct session *s, const struct options *opt);
void session_close(struct session *s);

/* Where --frame is not given: more would not fit the TLB many times. */
#define RELIABLE_FRAME  65536u

/* Says in a sentence if the peer could not be reached in time: it may boot still. */
void session_connect(struct session *s);
/*
 * The listening side: listens, and has `serve` serve a peer, with --forever one after
 * the other.  Each is the first of all callers that asks for a run, and none keeps the
 * others from it by silence.  Returns the result of `serve`: the peer was served well.
 */
bool session_serve(struct session *s, bool (*serve)(struct session *s));
/* Says in a sentence that the listener's peer has ended without a word. */
void session_silent(const struct session *s);

/*
 * The next frame or control message; EVENT_NONE after `timeout_ns`.  A frame
 * has to be released before the next call.
 */
void session_event(struct session *s, struct event *event, int64_t timeout_ns);
/*
 * Takes an event where something waits for room.  The first call of a wait sets
 * `since_ns`, which is 0 before: a send that finds room does not look at the clock, a
 * part of each latency.  False: the wait has taken too long; a listener is done with
 * this peer, a client ends with a sentence.
 */
bool session_room(struct session *s, struct event *event, uint64_t *since_ns);
void session_release(struct session *s, struct event *event);

void session_control(struct session *s, const struct control *control);

/*
 * Sends until an answer of `reply` comes, then true.  False: no answer in
 * `timeout_ns`.  Frames that come meanwhile are thrown away.
 */
bool session_request(struct session *s, const struct control *request,
                     enum control_type reply, struct control *answer,
                     uint64_t timeout_ns);

/* The number of the next run and of its first message; both begin again somewhen. */
void plan_follow(const struct plan *plan, uint32_t *run, uint32_t *first);

/* A START and the plan that it carries */
void plan_make(struct plan *plan, const struct session *s, uint64_t size,
               uint32_t run, uint32_t first);
void plan_to_control(const struct plan *plan, struct control *control);
/* False, and said in a sentence: no side of ours can ask for that. */
bool plan_from_control(struct plan *plan, const struct control *control);

/*
 * The listening side's answer to START.  False: our buffers are too small, or it
 * is for another operation.
 */
bool session_started(struct session *s, const struct plan *plan);
/* Ends with a sentence if the listener was started for another operation. */
void session_check_op(const struct session *s, const struct control *started);

/* Frame `frame` of a message has this length and starts at that position. */
uint32_t plan_frame_length(const struct plan *plan, uint32_t frame);
uint32_t plan_frame_position(const struct plan *plan, uint32_t frame);

/*
 * Writes a frame into its place in memory.  False: the place is still in use by
 * a send; take events and try again.
 */
bool session_prepare(struct session *s, const struct plan *plan, bool reply,
                     uint32_t seq, uint32_t frame);

/* Sends a prepared frame.  False: the queue is full; take events. */
bool session_send(struct session *s, const struct plan *plan, uint32_t seq,
                  uint32_t frame, bool more);

/*
 * Which message and frame this is; a short header is completed from the number
 * that is expected.  False: of no message of this plan.
 */
bool plan_identify(const struct plan *plan, const struct event *event,
                   uint32_t expected, uint32_t *seq, uint32_t *frame);

/* True if every byte is right; always true if the plan does not verify. */
bool plan_verify(const struct plan *plan, const struct event *event,
                 bool reply, uint32_t seq, uint32_t frame);

#endif /* UNETMM_TOOLS_SESSION_H */
