/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Positions of both directions of a stream, and the peer's words about them.
 *
 * Positions count the bytes of a direction from its beginning.  A word of 32 bits
 * goes with each notification: its kind, and 30 bits of a position.  All
 * differences are far below that, since no ring is larger than 2^26.
 *
 * Nothing here touches memory: a word is accepted only if it is possible, and an
 * offset is always made from our own positions.
 */
#ifndef UNETMM_STREAM_FLOW_H
#define UNETMM_STREAM_FLOW_H

#include <stdbool.h>
#include <stdint.h>

/* Kinds of words */
#define FLOW_DATA       0u      /* bytes up to here have been written */
#define FLOW_CREDIT     1u      /* bytes up to here have been received */
#define FLOW_FIN        2u      /* there are no more than these */
#define FLOW_AHEAD      3u      /* bytes up to here are being written */

#define FLOW_KIND_SHIFT 30
#define FLOW_POSITION   0x3fffffffu

/*
 * Notifications of data that may be on their way: together with all else they
 * fit the peer's completion queue, so that a peer that does not look for a while
 * holds up nobody's card.
 */
#define FLOW_WORDS      256u
/* Room is told when a quarter of the ring, or of these, has become free. */
#define FLOW_SHARE      4

/* Where the data of each word ends, oldest first */
struct flow_words {
    uint64_t end[FLOW_WORDS];
    uint32_t first, count;
};

struct flow {
    /* Receiving */
    uint32_t in_size;           /* of our ring; a power of two */
    uint64_t received;          /* written by the peer */
    uint64_t ahead;             /* ... or being written; >= received */
    uint64_t consumed;          /* taken by the program */
    uint64_t told;              /* ... as the peer knows */
    struct flow_words words_in; /* of data that is there */
    uint32_t words_done;        /* of data consumed since we told */
    bool fin_in;
    /* Sending */
    uint32_t out_size;          /* of the peer's ring; 0: not known yet */
    uint64_t sent;
    uint64_t credited;          /* received by the peer's program */
    struct flow_words words_out; /* of data that is on its way */
    bool fin_out;
};

void flow_init(struct flow *flow, uint32_t in_size);
/* The peer's ring; false: there is no such size. */
bool flow_peer(struct flow *flow, uint64_t out_size);

uint32_t flow_word(unsigned kind, uint64_t position);

/*
 * Takes a word, with the offset and length that were written.  False: the peer
 * cannot mean this.
 */
bool flow_take(struct flow *flow, uint32_t word, uint64_t offset, uint32_t len);

/* Bytes that may be written now; 0 also if too many words are on their way. */
uint64_t flow_room(const struct flow *flow);
/* ... and in one piece, from where in the peer's ring. */
uint32_t flow_piece(const struct flow *flow, uint64_t *offset);
/* They are on their way; the word that goes with them. */
uint32_t flow_put(struct flow *flow, uint32_t len);

/* Bytes that can be taken; in one piece, from where in our ring. */
uint64_t flow_there(const struct flow *flow);
uint32_t flow_stretch(const struct flow *flow, uint64_t *offset);
void flow_consume(struct flow *flow, uint64_t len);
/* True: the peer should be told how far we are.  flow_tell() is the word. */
bool flow_owes(const struct flow *flow);
uint32_t flow_tell(struct flow *flow);

#endif /* UNETMM_STREAM_FLOW_H */
