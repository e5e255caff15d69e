/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Endpoints that talk to each other: two on one card, or (role client) one
 * whose messages the program `echo` in another guest sends back.  Either way a
 * message goes out at link.tx and comes in at link.rx.
 *
 * Messages are datagrams: one that meets a buffer whose pages the card has
 * asked for but not got yet is dropped and counted.  deliver() finds out the fate of
 * a message without guessing by time; exchange() repeats it.
 */
#ifndef TEST_LINK_H
#define TEST_LINK_H

#include "tap.h"

#include <sys/uio.h>

#define SERVICE_ECHO    0xec40
#define SERVICE_MIRROR  0xec41  /* the same on reliable channels */
/* The mirror's export: zeros at first, for all to use. */
#define MIRROR_EXPORT   0xe4
#define MIRROR_BYTES    ((size_t)200 * 1024)
/*
 * There: notifications so far, 8 bytes; and 8 bytes of those whose `imm` was not
 * that number.
 */
#define MIRROR_SEEN     (MIRROR_BYTES - 16)
/* There, too: how often it has moved a part of the next, and bytes copied for it. */
#define MIRROR_MOVED    (MIRROR_BYTES - 32)
/* Another, of which it moves a part with each notification. */
#define MOVING_EXPORT   0xe5
#define MOVING_BYTES    ((size_t)200 * 1024)
/*
 * The mirror's import from a peer that asks it to count (PEER_COUNT_HERE): number i goes
 * into slot i % COUNTED_SLOTS, 8 bytes, and counts.
 */
#define COUNTED_EXPORT  0xe6
#define COUNTED_SLOTS   64
/*
 * Reliable channels whose far end has policy redirect: each buffer, and the export
 * (ABSENT_EXPORT) with PEER_AWAY, is given up before it is used again.
 */
#define SERVICE_ABSENT  0xec42
#define ABSENT_EXPORT   0xe7
#define ABSENT_BYTES    ((size_t)200 * 1024)
/* A semaphore and a wait-queue that it has */
#define SERVICE_SEM     0xec50
#define SERVICE_QUEUE   0xec51
#define SEM_UNITS       2
/* A semaphore and a wait-queue that a test has, for members in the other guest */
#define SERVICE_AT_HOME 0xec52
#define QUEUE_AT_HOME   0xec53
#define SERVICE_FIRST   0x1000  /* for tests; each takes its own from here on */

#define STASH           256

/* An endpoint, and completions taken from it while looking for another one. */
struct station {
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;
    unsigned channel;
    uint32_t mtu;
    unsigned stashed;
    struct unetmm_completion stash[STASH];
};

struct link {
    struct unetmm_ctx *ctx;
    bool owns_ctx;
    struct station one, two;
    struct station *tx, *rx;
};

/* The card with the variant's source. */
struct unetmm_ctx *open_card(void);
void card_info(struct unetmm_info *info);
/* The card's own address. */
void card_mac(uint8_t mac[6]);

struct unetmm_ep_attr default_attr(void);

/* `attr` NULL: the default, with the variant's policy.  `ctx` NULL: a new one. */
void station_open(struct station *station, struct unetmm_ctx *ctx,
                  const struct unetmm_ep_attr *attr);
void station_close(struct station *station);
/* one.channel and two.channel become the two ends of a channel. */
void join(struct station *one, struct station *two);
/* The same, of a type; `attr` for both sides.  -errno if it cannot be. */
int try_join(struct station *one, struct station *two,
             const struct unetmm_channel_attr *attr, int64_t timeout_ns);

void link_open(struct link *link, struct unetmm_ctx *ctx,
               const struct unetmm_ep_attr *attr);
void link_close(struct link *link);

/* Source pinned: registers the messages' memory; tlb: nothing to do. */
void reach(struct unetmm_ctx *ctx, void *at, size_t len, bool write);
void unreach(struct unetmm_ctx *ctx, void *at, size_t len);

/* The next completion of the type, or false when the time has come. */
bool take_until(struct station *station, unsigned type,
                struct unetmm_completion *c, uint64_t deadline);
/* The same; none within 10 s fails the test. */
void take(struct station *station, unsigned type, struct unetmm_completion *c);
/* Takes none that is not there already. */
bool take_now(struct station *station, unsigned type,
              struct unetmm_completion *c);

/* Posts, waiting for room if there is none. */
void post(struct station *station, void *buffer, size_t len, uint64_t cookie);
/* Sends, waiting for room if there is none. */
void send_pieces(struct station *station, const struct iovec *iov, unsigned n,
                 uint64_t cookie, unsigned flags);
/* The next completion of a send that is not one of peer_ask()'s and the like. */
void take_sent(struct station *station, struct unetmm_completion *c);
/* Sends and takes the completion; returns its status. */
unsigned send_status(struct station *station, const void *buffer, size_t len);

/*
 * Sends a message once.  True: it was received, `c` says where; false: it was
 * dropped.  The send itself must succeed.  Buffers that came back unfilled
 * remain to be taken.
 */
bool deliver(struct link *link, const struct iovec *iov, unsigned n,
             struct unetmm_completion *c);

/*
 * Posts the buffer and delivers the message into it, however often that needs
 * to be repeated.  A message that comes inline leaves the buffer posted: then
 * it is delivered a message too long for that, too, so that in the end no
 * buffer is posted.  c->data or the buffer has the message.
 */
void exchange(struct link *link, const struct iovec *iov, unsigned n,
              void *buffer, size_t len, struct unetmm_completion *c);

/* exchange() of one piece with pattern `key`, every byte checked. */
void exchange_pattern(struct link *link, void *from, void *to, size_t len,
                      uint64_t key);

/*
 * Offers messages to a posted buffer that cannot be used until it comes back,
 * and returns its status.  A message touches no pages of the buffer behind its
 * own end: `message` has to reach the page that is absent; NULL: a short one, for
 * the first page.
 */
unsigned provoke_return(struct link *link, const struct iovec *message,
                        void *buffer, size_t len, uint64_t cookie);

/* Writes numbers from + 1 .. from + n as COUNTED_EXPORT has it, each counted. */
void count_to(struct unetmm_ep *ep, unsigned import, uint64_t from, uint64_t n);

/* ---- Counters ---------------------------------------------------------------- */

uint64_t ep_counter(const struct station *station, enum unetmm_counter n);
uint64_t card_counter(struct unetmm_ctx *ctx, enum unetmm_counter n);
uint64_t driver_counter(struct unetmm_ctx *ctx, enum unetmm_driver_counter n);
/* Messages for the endpoint that were received or dropped. */
uint64_t ep_handled(const struct station *station);
/* Of all counters of drops in receiving that are kept per endpoint. */
uint64_t sum_of_drops(const uint64_t *values);

/* Frames that came to a card, by the sum of its counters. */
uint64_t frames_from_wire(const uint64_t *values);
/* Frames that a card gave to the wire. */
uint64_t frames_to_wire(const uint64_t *values);

/* ---- The echo program ------------------------------------------------------------ */

enum peer_op {
    PEER_PING,                  /* nothing; all before it has been answered */
    PEER_ECHO,                  /* from now on: messages are sent back */
    PEER_SINK,                  /* ...: messages are counted and checked */
    PEER_COUNT,                 /* gets the number of messages since then */
    PEER_BAD,                   /* ... of those that were wrong */
    PEER_FRAMES_IN,             /* gets frames_from_wire() of its card */
    PEER_DIE,                   /* kill -9; another takes its place */
    PEER_QUIT,                  /* the program ends */
    PEER_DOUBLES,               /* ... of those that had come before */
    PEER_DROPS,                 /* gets sum_of_drops() of its card */
    PEER_COUNT_HERE,            /* count_to(): `number` on, `value` of them */
    PEER_AWAY,                  /* gives ABSENT_EXPORT's memory up; gets how many
                                 * packets its endpoint has redirected */
    PEER_JOIN,                  /* another member: value peer_join() */
    PEER_MEMBERS,               /* gets peer_members(); value 1: they may go on */
    PEER_LEAVE,                 /* kill -9: all members */
};

/*
 * A process that waits at SERVICE_AT_HOME of the card with this address, keeps its
 * units, and asks for more when it is told that it may go on.  Or, with a number
 * from PEER_QUEUE on, one that waits at QUEUE_AT_HOME again and again.  The
 * number tells them apart: an order that comes twice is one.
 */
#define PEER_MEMBERS_MOST 8
#define PEER_QUEUE      128
#define peer_join(mac48, number) ((uint64_t)(mac48) << 8 | (number))
/* The number of members that hold their unit, and of those that lost their home. */
#define peer_members(holding, cut_off) ((uint64_t)(holding) << 32 | (cut_off))

#define PEER_MAGIC      0x6c7463727473656full

/* A message of just this size and start is an order, the answer alike. */
struct peer_message {
    uint64_t magic;
    uint64_t op;
    uint64_t value;
    uint64_t number;
};

/*
 * Seed of the patterns that a sink checks; a message's first 8 bytes name it.
 * Names below SINK_NAMES that come twice are counted as doubles.
 */
#define SINK_SEED       0x51c4
#define SINK_NAMES      65536

/* Asks the echo program, once at least; false: no answer by then. */
bool peer_try(struct station *station, enum peer_op op, uint64_t *value,
              uint64_t deadline);
uint64_t peer_ask(struct station *station, enum peer_op op);
/* The same with something to go by. */
uint64_t peer_tell(struct station *station, enum peer_op op, uint64_t value);

/* Imports the export of the peer of the station's channel, or fails. */
unsigned import_of(struct station *station, uint64_t id, unsigned rights);

#endif /* TEST_LINK_H */
