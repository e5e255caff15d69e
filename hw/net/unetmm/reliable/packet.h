/*
 * unetmm: reliable channels: packets, both ways; private to the room
 *
 * Files from top to bottom; each calls those below it alone (scripts/layers):
 * module.c, channel.c, share.c, save.c, save_packet.c, timer.c, unasked.c;
 * misses.c, receive.c; keyed.c; turn.c, complete.c, answer.c, transmit.c; op/;
 * progress.c; end.c; pace.c, place.c, message.c, credit.c, along.c, ack.c;
 * connection.c, awake.c; the windows.  ack.c and answer.c make those that go
 * out, op/ takes those that come.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_PACKET_H
#define UNETMM_PACKET_H

#include "../send/send.h"
#include "connection.h"

/* The result of a packet's turn, or of its landing. */
typedef enum UnetmmRelTake {
    UNETMM_TAKE_DONE,
    UNETMM_TAKE_LATER,           /* its pages are moving */
    UNETMM_TAKE_REFUSED,         /* the peer is to come again */
    UNETMM_TAKE_DROPPED,         /* and counted */
    UNETMM_TAKE_ENDED,           /* the channel or endpoint ended */
    UNETMM_TAKE_REJECTED,        /* it will never be accepted */
    UNETMM_TAKE_ASIDE,           /* it is in the system buffer */
    UNETMM_TAKE_KEPT,            /* landed before its turn, or dropped then */
    UNETMM_TAKE_HEARD,           /* sends may have ended by it */
} UnetmmRelTake;

/* One opcode of descriptors: the packets of its messages. */
struct UnetmmRelKind {
    UnetmmSqeOp sqe;
    uint8_t opcode;             /* UNETMM_WIRE_* */
    bool request;               /* over when it has been answered */
    bool gathers;               /* a packet has the message's bytes */
    /* The rest of a header; `at`: where in the message the packet begins. */
    void (*fill)(const UnetmmRelMsg *m, struct unetmm_frame *f, uint32_t at,
                 uint32_t bytes);
};

/* One opcode of packets: a file in op/ fills one, card/tables.c lists it. */
typedef struct UnetmmRelOp {
    UnetmmWireOp header;
    UnetmmRelKind kind[2];      /* opcodes of descriptors that make it */
    uint8_t right;              /* UNETMM_RIGHT_* that the packet uses */
    size_t along;               /* member for an acknowledgement; 0: none */
    /* Has this packet room for an acknowledgement?  NULL: always. */
    bool (*has_room)(const struct unetmm_frame *f, uint8_t peer_takes);
    bool header_is_enough;      /* to be kept, before the packet's turn */
    /* Not in the window's order.  True: sends may have ended.  NULL: in it. */
    bool (*at_once)(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                    const struct unetmm_frame *f, const uint8_t *payload);
    /* At its turn.  payload NULL: `early` has all that is still needed. */
    UnetmmRelTake (*take)(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                          const struct unetmm_frame *f,
                          const uint8_t *payload);
    /* Before its turn: keeps it or drops it. */
    void (*early)(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                  const struct unetmm_frame *f, const uint8_t *payload);
    /* The packet has been taken before.  NULL: nothing is done again. */
    void (*again)(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                  const struct unetmm_frame *f);
    /* The packet's pages have moved, or not (`drop`).  NULL: it has none. */
    UnetmmRelTake (*landed)(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                            const struct unetmm_frame *f, bool landed,
                            enum unetmm_counter drop);
    /* UnetmmLandingOps.may_go_on; NULL: always. */
    bool (*may_go_on)(const UnetmmCore *core, const UnetmmLanding *landing,
                      enum unetmm_counter *drop);
    /* May core->landing, a packet of the channel, go where it is to go? */
    bool (*landing_ok)(UnetmmCore *core, UnetmmRel *rel);
} UnetmmRelOp;

/* The row of an opcode that reliable channels have. */
static inline const UnetmmRelOp *unetmm_rel_op(const UnetmmCore *core,
                                               uint8_t opcode)
{
    return container_of(core->tables->wires[opcode], UnetmmRelOp, header);
}

static inline const UnetmmRelKind *unetmm_rel_kind(const UnetmmCore *core,
                                                   uint8_t op)
{
    return container_of(core->tables->sqes[op], UnetmmRelKind, sqe);
}

static inline UnetmmRelTake unetmm_rel_refuse(UnetmmRel *rel,
                                              UnetmmRelWant want)
{
    unetmm_recvwin_refused(&rel->rx, want);
    return UNETMM_TAKE_REFUSED;
}

static inline UnetmmRelTake unetmm_rel_reject(UnetmmRel *rel, uint32_t reason)
{
    unetmm_recvwin_rejected(&rel->rx, reason);
    return UNETMM_TAKE_REJECTED;
}

/* ack.c */
void unetmm_rel_flush_acks(UnetmmCore *core);
void unetmm_rel_ack_now(UnetmmCore *core, UnetmmRel *rel);

/* along.c */
/* A packet that was taken asks: it is answered now, or with one of ours. */
void unetmm_rel_asked(UnetmmCore *core, UnetmmRel *rel);
/* The packet goes out now: with the acknowledgement, if it has room for it. */
void unetmm_rel_go_along(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         struct unetmm_frame *f);
/* When a wait ends; INT64_MAX: never.  One that has ended is over. */
int64_t unetmm_rel_along_due(UnetmmCore *core, UnetmmRel *rel, int64_t now);

/* answer.c */
extern const UnetmmTransferOps unetmm_rel_answer;
/* Makes *t the next answer. */
void unetmm_rel_load_answer(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                            UnetmmTransfer *t);

/* credit.c */
/* Puts the peer's credit into an acknowledgement. */
void unetmm_rel_grant(const UnetmmRel *rel, struct unetmm_frame *f);
/* Has the peer had a credit for the packet, which is not before its turn? */
bool unetmm_rel_granted(const UnetmmRel *rel, uint32_t psn);
/* Is there something to send, for which there is no credit? */
bool unetmm_rel_starved(const UnetmmRel *rel);
/* Something was posted, or is over: from when on is it out of credits? */
void unetmm_rel_starve(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel);
bool unetmm_rel_limit_ok(const struct unetmm_frame *f);
void unetmm_rel_credit(const UnetmmEp *ep, UnetmmRel *rel,
                       const struct unetmm_frame *f);

/* end.c */
void unetmm_rel_detach(UnetmmCore *core, UnetmmRel *rel);
/*
 * Ends the channel: `status` for the send that is to blame (NULL: the oldest),
 * FLUSHED for all others.  The peer is told the reason, unless that is QUIET.
 */
void unetmm_rel_fail(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                     const UnetmmRelMsg *blame, uint8_t status, uint8_t reason);
/* Strict: the send has failed; the channel ends when those before are over. */
void unetmm_rel_end_at(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                       const UnetmmRelMsg *m, uint8_t status);
/* The buffer of the message that is arriving goes back. */
void unetmm_rel_give_back(UnetmmRel *rel, uint8_t status);
void unetmm_rel_drop_kept(UnetmmCore *core, UnetmmRel *rel);
/* Ends ep->tx if it is of this channel, unless a page is moving. */
void unetmm_rel_abort_tx(UnetmmCore *core, UnetmmEp *ep, const UnetmmRel *rel);
/* The channel was cleared; its messages still complete. */
void unetmm_rel_close(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel);
void unetmm_rel_delete(UnetmmCore *core, UnetmmRel *rel);

/* keyed.c */
/* DONE: *f is now the header of a packet by import; else REJECTED, ENDED. */
UnetmmRelTake unetmm_rel_keyed(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                               struct unetmm_frame *f);

/* message.c */
const UnetmmRelKind *unetmm_rel_kind_of(const UnetmmCore *core,
                                        const UnetmmRelMsg *m);
UnetmmPosted unetmm_rel_post(UnetmmCore *core, UnetmmEp *ep,
                             UnetmmChannel *channel, const UnetmmDescriptor *d,
                             const uint8_t *data);
bool unetmm_rel_can_send(const UnetmmRel *rel);
/* Is the packet in ep->tx still to be sent?  And is it as long as it says? */
bool unetmm_rel_wanted(const UnetmmRel *rel, uint32_t psn);
uint32_t unetmm_rel_packet_len(UnetmmRel *rel, uint32_t psn);
/* Returns the packet's length within its message; *offset: its start. */
uint32_t unetmm_rel_packet_bytes(UnetmmRel *rel, uint32_t psn,
                                 uint32_t *offset);
uint32_t unetmm_rel_offset_of(const UnetmmRel *rel, const UnetmmRelMsg *m,
                              uint32_t psn);
UnetmmRelMsg *unetmm_rel_msg_of(UnetmmRel *rel, uint32_t psn);
/* UnetmmRelKind.fill of the members that say where in a region. */
void unetmm_rel_fill_target(const UnetmmRelMsg *m, struct unetmm_frame *f,
                            uint32_t at);
/* UnetmmWireOp.ok: `handle` is an acknowledgement that goes along, or 0. */
bool unetmm_rel_handle_ok(const struct unetmm_frame *f);

/* op/ack.c */
/* The status of an operation that is rejected for UNETMM_WHY_*; or OK. */
uint8_t unetmm_rel_reject_status(uint32_t reason);

/* op/answer.c */
/* A page for an answer is there, or (status) never will be.  True: HEARD. */
bool unetmm_rel_answer_page(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                            uint8_t status);
/* The segments for an answer behind the one in which a page is missing. */
uint32_t unetmm_rel_ahead(const UnetmmCore *core, const UnetmmMiss *miss,
                          UnetmmAhead *ahead);

/* op/atomic.c */
const UnetmmRelResult *unetmm_rel_result(const UnetmmRel *rel, uint32_t psn);

/* op/read.c */
/* A request that has been taken is answered again; `more` bytes follow it. */
void unetmm_rel_read_again(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                           uint32_t psn, const UnetmmTarget *target,
                           uint64_t more);

/* place.c */
UnetmmRelTake unetmm_rel_no_head(UnetmmEp *ep, UnetmmRel *rel,
                                 enum unetmm_counter drop);
/* A request that has been taken will never be answered. */
void unetmm_rel_reject_late(UnetmmCore *core, UnetmmRel *rel, uint32_t psn,
                            uint32_t reason);
/* unetmm_recv_place() of a packet; LATER: `landed` of its opcode is called. */
UnetmmPlaced unetmm_rel_place(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                              UnetmmPlacement *place,
                              const struct unetmm_frame *f,
                              const uint8_t *payload);
/* The packet's memory is absent.  True: it is in the system buffer. */
bool unetmm_rel_aside(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                      UnetmmAbsentAt at, const struct unetmm_frame *f,
                      const UnetmmPlacement *place, const uint8_t *payload);
void unetmm_rel_keep_header(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                            const struct unetmm_frame *f,
                            const uint8_t *payload);
/* Asks the driver, one question of each kind at a time. */
void unetmm_rel_ask(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                    UnetmmRelFault kind, UnetmmRelMissed what, uint64_t vpn,
                    uint32_t npages);
void unetmm_rel_ask_no_more(UnetmmCore *core, UnetmmRel *rel);
/*
 * Are these bytes there, to be read?  If not, the driver is asked for them, for
 * packet psn, and for all up to byte addr + run if the source asks ahead.
 */
UnetmmXlat unetmm_rel_present(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                              uint32_t psn, uint64_t addr, uint32_t len,
                              uint32_t run);

/* progress.c */
/* The peer has all packets before `cum`, and those of the bits. */
void unetmm_rel_progress(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         uint32_t cum, uint64_t bits, bool news);
/*
 * Ends one one-sided message that has begun: its remaining packet numbers go
 * out as VOID, and the channel goes on.
 */
void unetmm_rel_end_message(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                            UnetmmRelMsg *m, uint8_t status);

/* transmit.c */
extern const UnetmmTransferOps unetmm_rel_packet;
/* Makes *t the packet, nothing of which has been gathered. */
void unetmm_rel_load_packet(UnetmmCore *core, UnetmmRel *rel, uint32_t psn,
                            UnetmmTransfer *t);

#endif /* UNETMM_PACKET_H */
