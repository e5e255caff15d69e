/*
 * unetmm: sending: one resumable transfer for each endpoint
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_SEND_H
#define UNETMM_SEND_H

#include "../ep/ep.h"
#include "../port/port.h"

/*
 * Operations of a transfer that is no message of its own: a channel's packets,
 * its answers, and the frames of a raw endpoint.
 */
typedef struct UnetmmTransferOps {
    /* A page that is absent is not asked for: it ends with ST_NOT_READY. */
    bool never_waits;
    /* May the next page be read?  Else it ends with ST_REVOKED.  NULL: yes. */
    bool (*may_read)(const UnetmmCore *core, const UnetmmEp *ep,
                     const UnetmmTransfer *tx);
    /* A page has moved, and its translation is let go.  May be NULL. */
    void (*landed)(UnetmmCore *core);
    /* The frame is whole: sends it and finishes, or waits for room. */
    void (*transmit)(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *tx);
    /*
     * The transfer's status is known: TX_IDLE then, or the transfer waits for
     * room.  NULL: its descriptor is of the send queue, and completes there.
     */
    void (*complete)(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *tx);
} UnetmmTransferOps;

/* The flags and members of a descriptor by opcode; rows: card/tables.c. */
struct UnetmmSqeOp {
    uint8_t flags;              /* UNETMM_SQE_F_* that may be set ... */
    uint8_t must;               /* ... and must be */
    uint8_t operands;           /* atomics: inline bytes */
    uint8_t inline_least, segs_behind;  /* segments: behind inline bytes */
    bool one_sided;             /* has a handle and an offset */
    bool bare;                  /* has no data */
    bool raw;                   /* raw endpoints have it, and no other */
    bool ud;                    /* of UD channels: names its destination */
};

/* NULL: there is no such opcode. */
static inline const UnetmmSqeOp *unetmm_sqe_op(const UnetmmCore *core,
                                               uint8_t op)
{
    return op < core->tables->nsqes ? core->tables->sqes[op] : NULL;
}

/* The frames that raw endpoints send; ether/raw.c. */
struct UnetmmFrameOps {
    UnetmmTransferOps transfer;
    /* May a frame's descriptor have this `imm`?  How long may it be? */
    bool (*imm_ok)(uint32_t imm);
    uint32_t (*longest)(uint32_t imm);
};

/* Where the data of this opcode begins in a frame's buffer. */
static inline uint32_t unetmm_send_headroom(uint8_t op)
{
    return op == UNETMM_OP_FRAME ? 0 : sizeof(struct unetmm_frame);
}

/*
 * The place of bytes [at, + n) of the data.  A raw endpoint's frame has the
 * header that the process wrote.
 */
static inline uint8_t *unetmm_send_payload(UnetmmTransfer *tx, uint32_t at,
                                           uint32_t n)
{
    return unetmm_frame_at(tx->frame,
                           unetmm_send_headroom(tx->desc.opcode) + at, n);
}

/* Of a descriptor of the endpoint's send queue. */
static inline const UnetmmTransferOps *unetmm_send_ops(const UnetmmCore *core,
                                                       const UnetmmEp *ep)
{
    return ep->raw ? &core->tables->frames->transfer : NULL;
}

static inline void unetmm_send_finish(UnetmmTransfer *tx, uint8_t status)
{
    tx->status = status;
    tx->state = UNETMM_TX_COMPLETE;
}

/* send/save.c */
void unetmm_send_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep);
/* Segments, n of them; returns n, and the sum of their lengths. */
uint8_t unetmm_send_save_segs(UnetmmStream *st, struct unetmm_seg *segs,
                              uint8_t n, uint64_t *total);
/* Bytes of a send's frame, the page that moves; for both kinds of sends. */
void unetmm_send_save_gathered(UnetmmStream *st, UnetmmCore *core,
                               UnetmmEp *ep);
/* Could it have stopped in its state for what it waits for? */
bool unetmm_send_blocked_ok(const UnetmmTransfer *tx);

/* send/fetch.c */
/*
 * Fetches the next descriptor.  False: there is none, the ring failed, or the
 * descriptor's channel has no room.
 */
bool unetmm_send_fetch(UnetmmCore *core, UnetmmEp *ep);
/*
 * Is the next descriptor for this channel?  A hint: the descriptor is checked
 * when it is fetched.
 */
bool unetmm_send_goes_on(UnetmmCore *core, UnetmmEp *ep,
                         uint16_t channel);
/* The longest message for the destination, if no frame; 0: there is none. */
uint32_t unetmm_send_limit(const UnetmmCore *core, const UnetmmEp *ep,
                           const UnetmmDescriptor *d);
/* Could a descriptor be this, whose first bytes are inline? */
bool unetmm_send_fields_ok(const UnetmmCore *core, const UnetmmEp *ep,
                           const UnetmmDescriptor *d, uint8_t inline_len);
/* May a message on a channel have these flags? */
bool unetmm_send_flags_ok(const UnetmmCore *core, uint8_t op, uint8_t flags);

/* send/send.c */
void unetmm_send_turn(UnetmmCore *core, UnetmmEp *ep);
/* The endpoint gets its misses: the send's, the heads'. */
void unetmm_send_own_misses(UnetmmEp *ep);
void unetmm_send_abort(UnetmmCore *core, UnetmmEp *ep);
/* The endpoint is flushed: a message of its UD channels is not to wait. */
void unetmm_send_flush(UnetmmCore *core, UnetmmEp *ep);
/* A channel ends: a message of it that has not gone does not go any more. */
void unetmm_send_end(UnetmmCore *core, UnetmmEp *ep, uint16_t channel);
/*
 * Is there room for a frame to this address, its first bytes?  If not, the
 * transfer waits for it.
 */
bool unetmm_send_room(UnetmmCore *core, UnetmmTransfer *tx, const uint8_t *to);
/* The transfer waits for the wire, or the local queue. */
void unetmm_send_wait(UnetmmCore *core, UnetmmTransfer *tx);

#endif /* UNETMM_SEND_H */
