/*
 * unetmm: reliable channels: packets, both ways
 *
 * tx.c makes packets of messages; rx.c takes packets in their order, and msg.c,
 * write.c, read.c, atomic.c and answer.c carry out the opcodes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_PACKET_H
#define UNETMM_PACKET_H

#include "connection.h"
#include "../send/send.h"

/* The result of a packet's turn. */
typedef enum UnetmmRelTake {
    UNETMM_REL_TAKEN,
    UNETMM_REL_LATER,           /* its pages are moving */
    UNETMM_REL_REFUSED,         /* the peer is to come again */
    UNETMM_REL_DROPPED,         /* and counted */
    UNETMM_REL_ENDED,           /* the channel or endpoint ended */
    UNETMM_REL_REJECTED,        /* the peer is to do without */
    UNETMM_REL_ASIDE,           /* it is in the system buffer */
} UnetmmRelTake;

/* The receiver's operations for one opcode. */
typedef struct UnetmmRelOp {
    /* At its turn.  payload NULL: `early` has all that is still needed. */
    UnetmmRelTake (*take)(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                          const struct unetmm_frame *f,
                          const uint8_t *payload);
    /* Before its turn: keeps it or drops it. */
    void (*early)(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                  const struct unetmm_frame *f, const uint8_t *payload);
    /* It has been taken before.  NULL: that is all. */
    void (*again)(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                  const struct unetmm_frame *f);
    /* Its pages have moved, or (why) have not.  NULL: it has none. */
    void (*landed)(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                   const struct unetmm_frame *f, bool landed,
                   enum unetmm_counter why);
} UnetmmRelOp;

/* reliable/ack.c */
void unetmm_rel_ack(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                    const struct unetmm_frame *f);
/* The peer has all packets before `cum`, and those of the bits. */
void unetmm_rel_progress(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         uint32_t cum, uint64_t bits, bool news);
void unetmm_rel_flush_acks(UnetmmCore *core);
void unetmm_rel_ack_now(UnetmmCore *core, UnetmmRel *rel);

/* reliable/along.c */
/* A packet that was taken asks: it is answered now, or with one of ours. */
void unetmm_rel_asked(UnetmmCore *core, UnetmmRel *rel);
/* The packet goes out now: with the acknowledgement, if it has room for it. */
void unetmm_rel_go_along(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         struct unetmm_frame *f);
/* When a wait ends; INT64_MAX: never.  One that has ended is over. */
int64_t unetmm_rel_along_due(UnetmmCore *core, UnetmmRel *rel, int64_t now);

/* reliable/answer.c */
extern const UnetmmRelOp unetmm_rel_op_answer;
void unetmm_rel_owe_answer(UnetmmRel *rel, uint32_t psn, bool atomic,
                           const UnetmmTarget *target);
bool unetmm_rel_can_answer(const UnetmmRel *rel);
extern const UnetmmTransferOps unetmm_rel_answer;
/* Makes *t the next answer. */
void unetmm_rel_load_answer(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                            UnetmmTransfer *t);
void unetmm_rel_answered(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         const struct unetmm_frame *f, const uint8_t *payload);
/* Where the answer goes.  False: it is not as long as was asked. */
bool unetmm_rel_answer_aim(UnetmmRel *rel, const struct unetmm_frame *f,
                           UnetmmPlacement *place);
/* A page for an answer is there, or (status) never will be. */
void unetmm_rel_answer_page(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                            uint8_t status);
/* The segments that a READ has behind the one in which a page is missing. */
uint32_t unetmm_rel_ahead(const UnetmmCore *core, const UnetmmMiss *miss,
                          UnetmmAhead *ahead);

/* reliable/op/atomic.c */
extern const UnetmmRelOp unetmm_rel_op_atomic;
const UnetmmRelResult *unetmm_rel_result(const UnetmmRel *rel, uint32_t psn);

/* reliable/complete.c */
/* Writes the completions that are due, as far as there is room. */
void unetmm_rel_complete(UnetmmCore *core, UnetmmEp *ep);
/* UnetmmChannelOps.completes */
bool unetmm_rel_completes(UnetmmCore *core, UnetmmEp *ep);
/* Has it nothing to do before one of its own events? */
bool unetmm_rel_quiet(UnetmmRel *rel);

/* reliable/credit.c */
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

/* reliable/end.c */
/* Gives the connection a place in core->rels, and the misses of that place. */
void unetmm_rel_attach(UnetmmCore *core, UnetmmRel *rel, uint16_t slot);
void unetmm_rel_detach(UnetmmCore *core, UnetmmRel *rel);
/*
 * Ends the channel: `status` for the send that is to blame (NULL: the oldest),
 * FLUSHED for all others.
 */
void unetmm_rel_fail(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                     const UnetmmRelMsg *blame, uint8_t status, uint8_t why);
/* The buffer of the message that is arriving goes back. */
void unetmm_rel_give_back(UnetmmRel *rel, uint8_t status);
void unetmm_rel_drop_kept(UnetmmCore *core, UnetmmRel *rel);
/* Ends ep->tx if it is of this channel, unless a page is moving. */
void unetmm_rel_abort_tx(UnetmmCore *core, UnetmmEp *ep, const UnetmmRel *rel);
/* The channel was cleared; its messages still complete. */
void unetmm_rel_close(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel);
void unetmm_rel_delete(UnetmmCore *core, UnetmmRel *rel);

/* reliable/keyed.c */
/* TAKEN: the header is that of an import's packet now; or REJECTED, ENDED. */
UnetmmRelTake unetmm_rel_keyed(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                               struct unetmm_frame *f);

/* reliable/op/send.c */
extern const UnetmmRelOp unetmm_rel_op_send;

/* reliable/op/read.c */
extern const UnetmmRelOp unetmm_rel_op_read;
/* A request that has been taken is answered again; `more` bytes follow it. */
void unetmm_rel_read_again(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                           uint32_t psn, const UnetmmTarget *target,
                           uint64_t more);

/* reliable/receive.c */
void unetmm_rel_moved(UnetmmCore *core, UnetmmEp *ep);
void unetmm_rel_receive(UnetmmCore *core, UnetmmEp *ep, UnetmmChannel *channel,
                        const struct unetmm_frame *f, const uint8_t *payload);
UnetmmRelTake unetmm_rel_refuse(UnetmmRel *rel, UnetmmRelWant want);
UnetmmRelTake unetmm_rel_reject(UnetmmRel *rel, uint32_t why);
/* The same for a request that has been taken. */
void unetmm_rel_reject_late(UnetmmCore *core, UnetmmRel *rel, uint32_t psn,
                            uint32_t why);
/* Packet nxt has landed and been taken; on with those behind it. */
void unetmm_rel_taken(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel);
/* Packet nxt has landed, and lacks something else. */
void unetmm_rel_refused(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel);
/* Packet nxt has not: the peer is to come again. */
void unetmm_rel_not_landed(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                           enum unetmm_counter why);
extern const UnetmmLandingOps unetmm_landing_packet;
/* unetmm_recv_place() of a packet; LATER: `landed` of its opcode is called. */
UnetmmPlaced unetmm_rel_place(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                              UnetmmPlacement *place,
                              const struct unetmm_frame *f,
                              const uint8_t *payload);
/* Is it a packet of which the header may be kept? */
bool unetmm_rel_early_ok(const UnetmmRelEarly *e);
void unetmm_rel_landing_over(UnetmmCore *core);
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
/* The channel becomes the owner of its misses; or (own false) nobody is. */
void unetmm_rel_own_misses(UnetmmCore *core, UnetmmRel *rel, bool own);
void unetmm_rel_ask_no_more(UnetmmCore *core, UnetmmRel *rel);
/*
 * Are these bytes there, to be read?  If not, the driver is asked for them, for
 * packet psn, and for all up to byte addr + run if the source asks ahead.
 */
UnetmmXlat unetmm_rel_present(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                              uint32_t psn, uint64_t addr, uint32_t len,
                              uint32_t run);
/* Goes on behind slots; refused peers hear when they can come again. */
void unetmm_rel_look_again(UnetmmCore *core, UnetmmEp *ep);

/* reliable/save_packet.c */
/* UnetmmSavedParts.packet */
void unetmm_rel_save_packet(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep);
/* May core->rx->header, one of its packets, go where core->rx has it go? */
bool unetmm_rel_landing_ok(UnetmmCore *core, UnetmmRel *rel);
/* The number of the packet that is kept in this place. */
uint32_t unetmm_rel_kept_psn(const UnetmmRel *rel, uint32_t slot);
/* The kept part of a packet that came before its turn. */
void unetmm_rel_save_early(UnetmmStream *st, UnetmmRel *rel, uint32_t slot);
/* Rejections, the WRITE that arrives, answers, results. */
void unetmm_rel_save_one_sided(UnetmmStream *st, UnetmmRel *rel);

/* reliable/timer.c */
void unetmm_rel_timer(UnetmmCore *core, int64_t now);

/* reliable/transmit.c */
extern const UnetmmTransferOps unetmm_rel_packet;
/* The channel whose turn it is to send a packet or an answer, or NULL. */
UnetmmRel *unetmm_rel_first(const UnetmmEp *ep);
bool unetmm_rel_next(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *t);
/* The frame of a packet or an answer goes its way. */
void unetmm_rel_emit(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *t);
/* The transfer is over: it is nobody's. */
void unetmm_rel_let_go(UnetmmCore *core, UnetmmTransfer *t);
bool unetmm_rel_can_send(const UnetmmRel *rel);
/* Is the packet in ep->tx still to be sent?  And is it as long as it says? */
bool unetmm_rel_wanted(const UnetmmRel *rel, uint32_t psn);
uint32_t unetmm_rel_packet_len(UnetmmRel *rel, uint32_t psn);
/* Of its message: how many bytes it is about, and from where on. */
uint32_t unetmm_rel_packet_bytes(UnetmmRel *rel, uint32_t psn,
                                 uint32_t *offset);
UnetmmRelMsg *unetmm_rel_msg_of(UnetmmRel *rel, uint32_t psn);
bool unetmm_rel_one_sided(const UnetmmRelMsg *m);
bool unetmm_rel_request(const UnetmmRelMsg *m);
/*
 * Ends one one-sided message that has begun: its remaining packet numbers go
 * out as VOID, and the channel goes on.
 */
void unetmm_rel_end_message(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                            UnetmmRelMsg *m, uint8_t status);
UnetmmPosted unetmm_rel_post(UnetmmCore *core, UnetmmEp *ep,
                             UnetmmChannel *channel, const UnetmmDescriptor *d,
                             const uint8_t *data);

/* reliable/op/write.c */
extern const UnetmmRelOp unetmm_rel_op_write;
/* Has the arriving WRITE at most UNETMM_MAX_MESSAGE bytes with this packet? */
bool unetmm_rel_write_fits(const UnetmmRel *rel, const struct unetmm_frame *f);

#endif /* UNETMM_PACKET_H */
