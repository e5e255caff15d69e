/*
 * unetmm: reliable channels: the state of one connection
 *
 * unetmm_rel.c        life, completions, the end
 * unetmm_rel_tx.c     messages into packets, and packets again
 * unetmm_rel_rx.c     packets into buffers, in their order
 * unetmm_rel_ack.c    acknowledgements, both ways
 * unetmm_rel_timer.c  times that end
 *
 * Packet numbers run freely over 32 bits.  Of two numbers of one window the
 * difference is looked at, never the order; a number that the peer says is
 * compared with what it can be before anything is done with it.  Slots and bits
 * of a packet are those of its number modulo UNETMM_REL_WINDOW.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_REL_H
#define UNETMM_REL_H

#include "unetmm_core.h"

#define UNETMM_REL_MSGS         64      /* sends not completed, of a channel */
#define UNETMM_REL_ASK_EVERY    16      /* packets without a question */
#define UNETMM_REL_OVERTAKEN    3       /* later ones arrived: it is lost */
#define UNETMM_REL_NOT_READY_US 100     /* the peer is to wait, at first */
#define UNETMM_REL_MAX_BACKOFF  7       /* that wait doubles so often */

typedef enum UnetmmRelState {
    UNETMM_REL_OPEN,
    UNETMM_REL_FAILED,          /* completes what it had; answers FAILED */
    UNETMM_REL_CLOSED,          /* not the channel's any more; completes */
} UnetmmRelState;

/* A send that has been taken from the queue. */
typedef struct UnetmmRelMsg {
    uint64_t cookie;
    uint32_t len;
    uint32_t sent;              /* bytes that have been in a packet */
    uint32_t first_psn;         /* once `started` */
    bool started;
    bool ended;                 /* with `status`, sent or not */
    uint8_t status;
    uint8_t flags;              /* UNETMM_SQE_F_* */
    uint8_t nsegs;
    union {
        struct unetmm_seg segs[UNETMM_MAX_SEGS];    /* host byte order */
        uint8_t data[UNETMM_MAX_INLINE];
    };
} UnetmmRelMsg;

/* What this side sends. */
typedef struct UnetmmRelTx {
    uint32_t una;               /* the oldest packet not acknowledged */
    uint32_t nxt;               /* the next one that was never sent */
    uint32_t asked;             /* the last one that asked for an answer */
    uint32_t stamp;             /* transmissions so far ... */
    uint32_t acked_stamp;       /* ... of the latest one acknowledged */
    uint64_t acked;             /* bit: una..nxt, out of order */
    uint64_t lost;              /* bit: to be sent again */
    uint32_t stamps[UNETMM_REL_WINDOW];     /* of the last transmission */
    uint8_t msg[UNETMM_REL_WINDOW];         /* slot of its message */
    /* Free-running; all between first and next are sent, but not completed. */
    uint32_t msg_first, msg_next, msg_end;
    UnetmmRelMsg msgs[UNETMM_REL_MSGS];
    uint32_t retries;           /* timeouts since the last progress */
    uint32_t refusals;          /* not ready, since the last progress */
    bool paused;                /* not before deadline_ns */
    int64_t deadline_ns;        /* INT64_MAX: nothing is waited for */
} UnetmmRelTx;

/* What a packet that was refused is waiting for. */
typedef enum UnetmmRelWant {
    UNETMM_REL_WANT_NOTHING,
    UNETMM_REL_WANT_CQ,         /* room for its completion */
    UNETMM_REL_WANT_HEAD,       /* a buffer */
    UNETMM_REL_WANT_PAGE,       /* of the buffer that the message has */
} UnetmmRelWant;

/* What this side receives. */
typedef struct UnetmmRelRx {
    uint32_t nxt;               /* the next packet to be taken */
    uint64_t have;              /* bit: nxt.., kept */
    UnetmmQueued kept[UNETMM_REL_WINDOW];
    bool taking;                /* packet nxt is landing */
    UnetmmRelWant refused;      /* why packet nxt could not be taken */
    bool refuse;                /* the peer has to be told so */
    bool in_message;            /* its first packet has been taken */
    bool claimed;               /* it has the buffer below */
    bool giving_back;           /* which is to go back with buf_status */
    uint8_t buf_status;
    uint32_t len;               /* of the message */
    uint32_t done;
    uint64_t buf_addr;
    uint64_t buf_cookie;
} UnetmmRelRx;

struct UnetmmRel {
    UnetmmRel *next;            /* of the endpoint's */
    UnetmmRelState state;
    uint16_t slot;              /* in core->rels */
    uint16_t ep;
    uint16_t channel;           /* local number */
    uint16_t peer_ep, peer_channel;
    uint8_t mac[6];
    uint32_t mtu;
    uint8_t retries;
    uint8_t not_ready_retries;  /* 0: without limit */
    uint8_t why;                /* FAILED: UNETMM_WHY_* */
    uint32_t timeout_us;
    UnetmmRelTx tx;
    UnetmmRelRx rx;
};

static inline uint64_t unetmm_rel_bit(uint32_t psn)
{
    return 1ull << psn % UNETMM_REL_WINDOW;
}

static inline UnetmmRelMsg *unetmm_rel_msg(UnetmmRel *rel, uint32_t index)
{
    return &rel->tx.msgs[index % UNETMM_REL_MSGS];
}

/* Packets of a message: one at least. */
static inline uint32_t unetmm_rel_packets(uint32_t len, uint32_t mtu)
{
    return len ? (len - 1) / mtu + 1 : 1;
}

/* unetmm_rel.c */
UnetmmRel *unetmm_rel_new(UnetmmCore *core, UnetmmEp *ep, uint16_t slot);
/*
 * Ends the channel: `status` for the send that is to blame (NULL: the oldest),
 * FLUSHED for all others.
 */
void unetmm_rel_fail(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                     const UnetmmRelMsg *blame, uint8_t status, uint8_t why);
/* The buffer of the message that is arriving goes back. */
void unetmm_rel_give_back(UnetmmRel *rel, uint8_t status);
void unetmm_rel_drop_kept(UnetmmCore *core, UnetmmRel *rel);
/* Lets go of what ep->tx has of this channel, unless a page is moving. */
void unetmm_rel_abort_tx(UnetmmCore *core, UnetmmEp *ep, const UnetmmRel *rel);
void unetmm_rel_header(UnetmmCore *core, const UnetmmRel *rel,
                       struct unetmm_frame *f, uint8_t opcode);

/* unetmm_rel_tx.c */
bool unetmm_rel_can_send(const UnetmmRel *rel);
/* Is the packet in ep->tx still to be sent?  And is it as long as it says? */
bool unetmm_rel_wanted(const UnetmmRel *rel, uint32_t psn);
uint32_t unetmm_rel_packet_len(UnetmmRel *rel, uint32_t psn);
UnetmmPosted unetmm_rel_post(UnetmmCore *core, UnetmmEp *ep,
                             UnetmmChannel *channel, const uint8_t *data);

/* unetmm_rel_rx.c */
void unetmm_rel_receive(UnetmmCore *core, UnetmmEp *ep, UnetmmChannel *channel,
                        const struct unetmm_frame *f, const uint8_t *payload);

/* unetmm_rel_ack.c */
void unetmm_rel_owe_ack(UnetmmCore *core, UnetmmRel *rel);
void unetmm_rel_no_ack(UnetmmCore *core, UnetmmRel *rel);
void unetmm_rel_ack(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                    const struct unetmm_frame *f);

/* unetmm_rel_timer.c */
/* The answer to what has been sent is waited for, from now on. */
void unetmm_rel_arm(UnetmmCore *core, UnetmmRel *rel);
void unetmm_rel_arm_at(UnetmmCore *core, UnetmmRel *rel, int64_t when);

#endif /* UNETMM_REL_H */
