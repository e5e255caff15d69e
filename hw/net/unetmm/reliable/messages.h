/*
 * unetmm: reliable channels: the sends that a channel has taken
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_MESSAGES_H
#define UNETMM_MESSAGES_H

#include "../ep/ep.h"

#define UNETMM_REL_MSGS         64      /* sends not completed, of a channel */

typedef enum UnetmmRelUnasked {
    UNETMM_REL_ASKED,
    UNETMM_REL_UPDATE,          /* stores in a window */
    UNETMM_REL_START,           /* by proxy pages */
} UnetmmRelUnasked;

typedef struct UnetmmRelKind UnetmmRelKind;

/* A send that has been taken from the queue. */
typedef struct UnetmmRelMsg {
    uint8_t op;                 /* UNETMM_OP_*, and ... */
    const UnetmmRelKind *kind;  /* ... its row, unless the message has ended */
    UnetmmRelUnasked unasked;   /* no descriptor has asked for it */
    uint16_t import;            /* if so, by which import */
    uint8_t operands;           /* atomics: bytes of them, in data[] */
    uint32_t region, key, imm;  /* one-sided: where, as it was when taken */
    uint64_t remote;
    uint8_t old[8];             /* atomics: the old value, as in memory */
    uint64_t cookie;
    uint32_t len;
    uint32_t sent;              /* bytes that have been in a packet */
    uint32_t first_psn;         /* once `started` */
    bool started;
    bool ended;                 /* with `status`, sent or not */
    uint8_t status, nsegs;
    uint8_t flags;              /* UNETMM_SQE_F_* */
    union {                     /* atomics: operands, and segment SQE_RESULT */
        struct unetmm_seg segs[UNETMM_MAX_SEGS];    /* host byte order */
        uint8_t data[UNETMM_MAX_INLINE];
    };
} UnetmmRelMsg;

static_assert(UNETMM_SQE_RESULT * sizeof(struct unetmm_seg) >= 16,
              "the operands of an atomic end before its segment");

/* Not a message of a channel: no send is to blame for the end. */
extern const UnetmmRelMsg unetmm_rel_nobody;

/* The sends of a channel; their numbers run freely. */
typedef struct UnetmmRelMsgs {
    /* Sends between first and next are sent, but not completed. */
    uint32_t first, next, end;
    uint8_t of[UNETMM_REL_WINDOW];      /* a packet's: its place in msg[] */
    UnetmmRelMsg msg[UNETMM_REL_MSGS];
} UnetmmRelMsgs;

/*
 * A strict channel in which a send has failed: it ends as soon as the sends
 * before that one have completed.
 */
typedef struct UnetmmRelEnding {
    bool due;
    uint8_t status;             /* of the send */
    uint32_t msg;               /* which */
} UnetmmRelEnding;

#endif /* UNETMM_MESSAGES_H */
