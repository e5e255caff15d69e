/*
 * unetmm: reliable channels: the state of one connection
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_CONNECTION_H
#define UNETMM_CONNECTION_H

#include "../aside/aside.h"
#include "../congestion/congestion.h"
#include "../port/port.h"
#include "../store/store.h"
#include "messages.h"
#include "recv_window.h"
#include "send_window.h"

#define UNETMM_REL_NO_LIMIT     UINT16_MAX
#define UNETMM_REL_ALONG_NS     50000   /* an acknowledgement waits, at most */
#define UNETMM_REL_ALONG_LIKELY 16      /* questions that packets followed */
#define UNETMM_REL_ALONG_FIRST  14      /* `likely` of a new channel */

#define UNETMM_REL_QUIET        0       /* beside UNETMM_WHY_*: not told */

typedef enum UnetmmRelState {
    UNETMM_REL_OPEN,
    UNETMM_REL_FAILED,          /* completes its messages; says so */
    UNETMM_REL_CLOSED,          /* not the channel's any more; completes */
} UnetmmRelState;

/* The last packet that asked for an acknowledgement; along.c. */
typedef enum UnetmmRelQuestion {
    UNETMM_REL_NO_QUESTION,     /* a packet of ours has gone since */
    UNETMM_REL_ANSWERED,
    UNETMM_REL_WAITS,           /* the answer: for a packet of ours */
} UnetmmRelQuestion;

/* A packet before its turn of which the header is enough. */
typedef struct UnetmmRelEarly {
    struct unetmm_frame header;
    uint8_t operands[16];       /* of an atomic */
} UnetmmRelEarly;

/* A request whose answer is to be sent. */
typedef struct UnetmmRelAsk {
    uint32_t psn;
    bool atomic;                /* from `results` */
    UnetmmTarget target;        /* a READ's */
} UnetmmRelAsk;

typedef struct UnetmmRelResult {
    uint32_t psn;
    uint8_t old[8];
} UnetmmRelResult;

/* Requests that were taken: the answers that are owed, results of atomics. */
typedef struct UnetmmRelAnswers {
    uint64_t owed;              /* bit: the answer of asks[] */
    bool answered;              /* answers and packets alternate */
    UnetmmRelAsk asks[UNETMM_REL_WINDOW];
    uint32_t nresults;          /* of atomics, ever */
    UnetmmRelResult results[UNETMM_REL_ATOMICS];
} UnetmmRelAnswers;

/* The message that arrives. */
typedef struct UnetmmRelIn {
    uint32_t run;               /* bytes of the WRITE that arrives */
    UnetmmTarget run_next;      /* where the WRITE goes on */
    bool in_message;            /* a SEND: its first packet has been taken */
    bool claimed;               /* the SEND has the buffer below */
    bool giving_back;           /* the buffer is to go back with buf_status */
    uint8_t buf_status;
    uint32_t len, done;         /* of the message */
    uint32_t nparts;            /* of the buffer */
    UnetmmPart parts[UNETMM_MAX_SEGS];
    uint64_t buf_cookie;
} UnetmmRelIn;

/* Acknowledgements that go with packets; along.c. */
typedef struct UnetmmRelAlong {
    UnetmmRelQuestion question;
    int64_t question_ns;        /* a packet until then has followed it */
    uint8_t likely;             /* that followed; up to ALONG_LIKELY */
} UnetmmRelAlong;

/*
 * A reliable channel's misses, one of each kind.  The fourth kind,
 * initiator and read, is of the send in progress, which is its endpoint's.
 */
typedef enum UnetmmRelFault {
    UNETMM_REL_FAULT_ANSWER,    /* initiator, write: where an answer goes */
    UNETMM_REL_FAULT_SERVE,     /* responder, read: the bytes to be read */
    UNETMM_REL_FAULT_ARRIVE,    /* responder, write: where a packet goes */
} UnetmmRelFault;

/* The packet of a miss. */
typedef struct UnetmmRelMissed {
    bool buffer;                /* ARRIVE: for a message; else a region */
    uint32_t psn;               /* which packet */
} UnetmmRelMissed;

struct UnetmmRel {
    UnetmmRel *next, *prev;     /* in the list of awake.c */
    bool awake;                 /* it may have something to do */
    UnetmmRelState state;
    uint16_t number;            /* its place in core->rel->all */
    uint16_t ep, channel;       /* local number */
    uint16_t peer_ep, peer_channel;
    uint8_t mac[6];
    uint32_t mtu;
    uint8_t stage;              /* UNETMM_CHANNEL_RTS, _RTR, _INIT */
    uint8_t retries;
    uint16_t not_ready_retries; /* or UNETMM_REL_NO_LIMIT */
    bool rewinds;               /* UNETMM_CHANNEL_F_REWIND */
    bool plain_rnr;             /* UNETMM_CHANNEL_F_PLAIN_RNR */
    bool strict;                /* UNETMM_CHANNEL_F_STRICT */
    UnetmmRelEnding ending;
    uint8_t denied;             /* RIGHT_* refused, whatever regions allow */
    uint8_t why;                /* FAILED: UNETMM_WHY_*, or UNETMM_REL_QUIET */
    uint32_t timeout_us;
    uint32_t not_ready_us;      /* the peer is to wait, at first */
    UnetmmShare share;          /* of the system buffer */
    UnetmmSendWindow tx;
    UnetmmCongestion congestion;
    UnetmmRelMsgs msgs;
    UnetmmRecvWindow rx;
    UnetmmQueued kept[UNETMM_REL_WINDOW];
    UnetmmRelEarly early[UNETMM_REL_WINDOW];
    UnetmmRelAsk guess;         /* where the last goes on; keyed.c */
    UnetmmRelIn in;
    UnetmmRelAnswers answers;
    UnetmmRelAlong along;
    UnetmmStores stores;
    UnetmmMiss *misses;         /* one for each UnetmmRelFault */
    UnetmmRelMissed missed[UNETMM_REL_MISSES];
};

struct UnetmmRels {
    UnetmmRel **all;            /* params.reliable of them, or NULL each */
    uint32_t used;
    uint32_t kept;              /* packets before their turn, in all */
    uint64_t *acks, *timed;     /* bit n: all[n] owes one; has a time */
    uint32_t acks_owed;         /* acknowledgements */
    bool waiting;               /* a channel goes on after the landing */
    int64_t due_ns;             /* no channel's time ends before */
};

static inline UnetmmRelMsg *unetmm_rel_msg(UnetmmRel *rel, uint32_t index)
{
    return &rel->msgs.msg[index % UNETMM_REL_MSGS];
}

/* A packet's part of a region; its length depends on the opcode. */
static inline UnetmmTarget unetmm_rel_target(const struct unetmm_frame *f,
                                             uint32_t len)
{
    return (UnetmmTarget) { .region = f->handle, .key = f->offset,
                            .len = len, .offset = f->remote };
}

/* Packets of a message: one at least. */
static inline uint32_t unetmm_rel_packets(uint32_t len, uint32_t mtu)
{
    return len ? (len - 1) / mtu + 1 : 1;
}

/* Bytes of its longest message. */
static inline uint32_t unetmm_rel_longest(const UnetmmRel *rel)
{
    return rel->strict ? UNETMM_MAX_STRICT_MESSAGE : UNETMM_MAX_MESSAGE;
}

static inline bool unetmm_rel_can_answer(const UnetmmRel *rel)
{
    return rel->answers.owed && rel->state == UNETMM_REL_OPEN;
}

/* May packet psn go, whatever send of a strict channel has failed? */
static inline bool unetmm_rel_goes(const UnetmmRel *rel, uint32_t psn)
{
    const UnetmmRelMsg *m = &rel->msgs.msg[rel->ending.msg % UNETMM_REL_MSGS];

    if (!rel->ending.due) {
        return true;
    }
    /* The next packet is of the first message that has not been sent. */
    return psn == rel->tx.nxt ?
           (int32_t)(rel->msgs.next - rel->ending.msg) < 0 :
           !m->ended && (!m->started || (int32_t)(psn - m->first_psn) < 0);
}

/* Is the end of a strict channel now? */
static inline bool unetmm_rel_ends(const UnetmmRel *rel)
{
    return rel->ending.due && rel->state == UNETMM_REL_OPEN &&
           rel->msgs.first == rel->ending.msg;
}

static inline bool unetmm_rel_asks(const UnetmmRel *rel, UnetmmRelFault kind)
{
    return rel->misses[kind].state != UNETMM_MISS_NONE;
}

/* connection.c */
void unetmm_rel_header(UnetmmCore *core, const UnetmmRel *rel,
                       struct unetmm_frame *f, uint8_t opcode);
void unetmm_rel_owe_ack(UnetmmCore *core, UnetmmRel *rel);
bool unetmm_rel_owes_ack(const UnetmmCore *core, const UnetmmRel *rel);
void unetmm_rel_no_ack(UnetmmCore *core, UnetmmRel *rel);
/* The window is that of the congestion control. */
static inline void unetmm_rel_pace_allow(UnetmmRel *rel)
{
    unetmm_sendwin_allow(&rel->tx, unetmm_congestion_packets(&rel->congestion));
}

/* Does the time of round trips say earlier that a packet is lost? */
bool unetmm_rel_hurries(const UnetmmRel *rel);
/* Starts to wait for the answer to the packets sent. */
void unetmm_rel_arm(UnetmmCore *core, UnetmmRel *rel);
void unetmm_rel_due_at(UnetmmCore *core, const UnetmmRel *rel, int64_t when);
void unetmm_rel_arm_at(UnetmmCore *core, UnetmmRel *rel, int64_t when);
/* The frame of a packet or an answer goes its way. */
void unetmm_rel_emit(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *t);
/* The transfer is over: no channel owns it. */
void unetmm_rel_let_go(UnetmmCore *core, UnetmmTransfer *t);
void unetmm_rel_owe_answer(UnetmmRel *rel, uint32_t psn, bool atomic,
                           const UnetmmTarget *target);

/* awake.c: the channels of an endpoint; a new one is awake */
void unetmm_rel_join(UnetmmEp *ep, UnetmmRel *rel);
void unetmm_rel_part(UnetmmEp *ep, UnetmmRel *rel);
void unetmm_rel_last(UnetmmEp *ep, UnetmmRel *rel);
void unetmm_rel_wake(UnetmmEp *ep, UnetmmRel *rel);
void unetmm_rel_rest(UnetmmEp *ep, UnetmmRel *rel);

#endif /* UNETMM_CONNECTION_H */
