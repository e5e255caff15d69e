/*
 * unetmm: reliable channels: the state of one connection
 *
 * rel/rel.c        life, completions, the end
 * rel/tx.c     messages into packets, and packets again
 * rel/rx.c     packets, in their order
 * rel/msg.c    packets of SENDs into buffers
 * rel/ack.c    acknowledgements, both ways
 * rel/timer.c  times that end
 * rel/write.c  packets of WRITEs into regions, notifications
 * rel/read.c   requests to read a region
 * rel/atomic.c requests to change a word of one
 * rel/answer.c answers to requests, both ways
 * rel/ahead.c  pages that a packet does not need yet
 * rel/unasked.c messages that no descriptor asked for
 * rel/credit.c how many packets may be sent, both ways
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

#include "../card/core.h"

#define UNETMM_REL_MSGS         64      /* sends not completed, of a channel */
#define UNETMM_REL_ASK_EVERY    16      /* packets without a question */
#define UNETMM_REL_OVERTAKEN    3       /* later ones arrived: it is lost */
#define UNETMM_REL_MAX_BACKOFF  7       /* a wait doubles so often */

typedef enum UnetmmRelState {
    UNETMM_REL_OPEN,
    UNETMM_REL_FAILED,          /* completes what it had; answers FAILED */
    UNETMM_REL_CLOSED,          /* not the channel's any more; completes */
} UnetmmRelState;

typedef enum UnetmmRelUnasked {
    UNETMM_REL_ASKED,
    UNETMM_REL_UPDATE,          /* stores in a window */
    UNETMM_REL_START,           /* by proxy pages */
} UnetmmRelUnasked;

/* A send that has been taken from the queue. */
typedef struct UnetmmRelMsg {
    uint8_t op;                 /* UNETMM_OP_* */
    UnetmmRelUnasked unasked;   /* no descriptor has asked for it */
    uint16_t import;            /* if so, by which import */
    uint8_t operands;           /* atomics: bytes of them, in data[] */
    uint32_t region, key, imm;  /* one-sided: where, as it was when taken */
    uint64_t remote;
    uint8_t old[8];             /* atomics: what was there, as in memory */
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
    uint32_t una;               /* the oldest packet that is not over */
    uint32_t cum;               /* the peer has taken all before it */
    uint32_t nxt;               /* the next one that was never sent */
    uint32_t asked;             /* the last one that asked for an answer */
    uint32_t stamp;             /* transmissions so far ... */
    uint32_t acked_stamp;       /* ... of the latest one acknowledged */
    uint32_t answered_stamp;    /* ... of the latest request answered */
    uint64_t acked;             /* bit: una..nxt, the peer has it */
    uint64_t lost;              /* bit: to be sent again */
    uint64_t pending;           /* bit: a request without its answer */
    uint64_t unplaced;          /* bit: that came, and had no place */
    uint64_t voids;             /* bit: only its number is sent any more */
    uint32_t stamps[UNETMM_REL_WINDOW];     /* of the last transmission */
    uint8_t msg[UNETMM_REL_WINDOW];         /* slot of its message */
    /* Free-running; all between first and next are sent, but not completed. */
    uint32_t msg_first, msg_next, msg_end;
    UnetmmRelMsg msgs[UNETMM_REL_MSGS];
    uint32_t retries;           /* timeouts since the last progress */
    uint32_t refusals;          /* not ready, since the last progress */
    bool again;                 /* requests went again since then */
    bool rewinding;             /* no answer behind ... */
    uint32_t rewind_psn;        /* ... this one's is taken */
    bool paused;                /* not before deadline_ns */
    bool limited;               /* new packets only up to ... */
    uint32_t limit;             /* ... this number, without it */
    bool starves;               /* that is what it waits for */
    bool probe;                 /* the peer is to say what it has */
    bool aside;                 /* the peer has cum, but not in its place */
    int64_t deadline_ns;        /* INT64_MAX: nothing is waited for */
} UnetmmRelTx;

/* What a packet that was refused is waiting for. */
typedef enum UnetmmRelWant {
    UNETMM_REL_WANT_NOTHING,
    UNETMM_REL_WANT_CQ,         /* room for its completion */
    UNETMM_REL_WANT_HEAD,       /* a buffer */
    UNETMM_REL_WANT_PAGE,       /* where it goes */
    UNETMM_REL_WANT_PART,       /* of a region, which is held */
    UNETMM_REL_WANT_READ,       /* a page of what it asks for */
} UnetmmRelWant;

/* A packet before its turn of which the header is enough. */
typedef struct UnetmmRelEarly {
    struct unetmm_frame head;
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

/* What this side receives. */
typedef struct UnetmmRelRx {
    uint32_t nxt;               /* the next packet to be taken */
    uint64_t have;              /* bit: nxt.., kept whole or `early` */
    uint64_t spoilt;            /* bit: of `have`, never to be in its place */
    bool landed;                /* a slot has been answered: go on */
    UnetmmQueued kept[UNETMM_REL_WINDOW];
    UnetmmRelEarly early[UNETMM_REL_WINDOW];
    uint8_t why;                /* UNETMM_WHY_*: packet nxt is rejected */
    uint8_t late_why;           /* and, to be said once, request late_psn */
    uint32_t late_psn;
    uint32_t run;               /* bytes of the WRITE that arrives, ... */
    UnetmmTarget run_next;      /* ... and where it goes on */
    uint64_t owed;              /* bit: the answer of asks[] */
    bool answered;              /* answers and packets alternate */
    UnetmmRelAsk asks[UNETMM_REL_WINDOW];
    uint32_t nresults;          /* of atomics, ever */
    UnetmmRelResult results[UNETMM_REL_ATOMICS];
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

/*
 * What a reliable channel has a miss for, one of each kind.  The fourth kind,
 * initiator and read, is of the send in progress, which is its endpoint's.
 */
typedef enum UnetmmRelFault {
    UNETMM_REL_FAULT_ANSWER,    /* initiator, write: where an answer goes */
    UNETMM_REL_FAULT_SERVE,     /* responder, read: what is asked for */
    UNETMM_REL_FAULT_ARRIVE,    /* responder, write: where a packet goes */
} UnetmmRelFault;

/* What one of its misses is for. */
typedef struct UnetmmRelMissed {
    bool buffer;                /* ARRIVE: of the message's; else a region's */
    uint32_t psn;               /* which packet */
} UnetmmRelMissed;

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
    bool rewinds;               /* UNETMM_CHANNEL_F_REWIND */
    uint8_t why;                /* FAILED: UNETMM_WHY_* */
    uint32_t timeout_us;
    uint32_t not_ready_us;      /* the peer is to wait, at first */
    UnetmmShare share;          /* of the system buffer */
    UnetmmRelTx tx;
    UnetmmRelRx rx;
    UnetmmStores stores;
    UnetmmMiss *misses;         /* one for each UnetmmRelFault */
    UnetmmRelMissed missed[UNETMM_REL_MISSES];
};

/* What became of a packet at its turn. */
typedef enum UnetmmRelTake {
    UNETMM_REL_TAKEN,
    UNETMM_REL_LATER,           /* its pages are moving */
    UNETMM_REL_REFUSED,         /* the peer is to come again */
    UNETMM_REL_DROPPED,         /* and counted */
    UNETMM_REL_ENDED,           /* so has the channel, or the endpoint */
    UNETMM_REL_REJECTED,        /* the peer is to do without */
    UNETMM_REL_ASIDE,           /* it is in the system buffer */
} UnetmmRelTake;

/* What a packet of one opcode means to its receiver. */
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

extern const UnetmmRelOp unetmm_rel_op_send;
extern const UnetmmRelOp unetmm_rel_op_write;
extern const UnetmmRelOp unetmm_rel_op_read;
extern const UnetmmRelOp unetmm_rel_op_atomic;
extern const UnetmmRelOp unetmm_rel_op_answer;

static inline UnetmmRel *unetmm_rel_of_share(UnetmmShare *share)
{
    return container_of(share, UnetmmRel, share);
}

static inline uint64_t unetmm_rel_bit(uint32_t psn)
{
    return 1ull << psn % UNETMM_REL_WINDOW;
}

static inline UnetmmRelMsg *unetmm_rel_msg(UnetmmRel *rel, uint32_t index)
{
    return &rel->tx.msgs[index % UNETMM_REL_MSGS];
}

/* Is the packet on its way? */
static inline bool unetmm_rel_flying(const UnetmmRelTx *tx, uint32_t psn)
{
    return psn - tx->una < tx->nxt - tx->una;
}

/* What of a region a packet is about; its length differs by opcode. */
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

/*
 * rel/write.c: would the WRITE that arrives have at most UNETMM_MAX_MESSAGE
 * bytes with this packet?
 */
bool unetmm_rel_write_fits(const UnetmmRel *rel, const struct unetmm_frame *f);

/* rel/rel.c */
extern const UnetmmChannelOps unetmm_channel_reliable;
UnetmmRel *unetmm_rel_new(UnetmmCore *core, UnetmmEp *ep, uint16_t slot);
/* It gets a place in core->rels, and what goes with that; and loses it. */
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
/* Lets go of what ep->tx has of this channel, unless a page is moving. */
void unetmm_rel_abort_tx(UnetmmCore *core, UnetmmEp *ep, const UnetmmRel *rel);
void unetmm_rel_header(UnetmmCore *core, const UnetmmRel *rel,
                       struct unetmm_frame *f, uint8_t opcode);

/* rel/tx.c */
extern const UnetmmTransferOps unetmm_rel_packet;
/* UnetmmChannelOps.next */
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
 * Ends one one-sided message that has begun: what is left of its packet numbers
 * goes out as VOID, and the channel goes on.
 */
void unetmm_rel_end_message(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                            UnetmmRelMsg *m, uint8_t status);
UnetmmPosted unetmm_rel_post(UnetmmCore *core, UnetmmEp *ep,
                             UnetmmChannel *channel, const UnetmmDescriptor *d,
                             const uint8_t *data);

/* rel/rx.c */
/* UnetmmChannelOps.moved */
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
/* UnetmmModule.landed */
void unetmm_rel_landing_over(UnetmmCore *core);
/* The packet's memory is absent.  True: it is in the system buffer. */
bool unetmm_rel_aside(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                      UnetmmAbsentAt at, const struct unetmm_frame *f,
                      const UnetmmPlacement *place, const uint8_t *payload);
/* UnetmmShareOps; rel/save.c. */
UnetmmShare *unetmm_rel_share_save(UnetmmStream *st, UnetmmCore *core,
                                   UnetmmShare *share);
void unetmm_rel_share_restored(UnetmmStream *st, UnetmmCore *core,
                               UnetmmShare *share, uint16_t number);
/* What the system buffer says to its channels. */
extern const UnetmmShareOps unetmm_rel_share;
/* Keeps the header, until the packet's turn. */
void unetmm_rel_keep_head(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                          const struct unetmm_frame *f,
                          const uint8_t *payload);
/* Asks the driver, one question of each kind at a time. */
void unetmm_rel_ask(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                    UnetmmRelFault kind, UnetmmRelMissed what, uint64_t vpn,
                    uint32_t npages);
/* Its misses are its own, or nobody's. */
void unetmm_rel_own_misses(UnetmmCore *core, UnetmmRel *rel, bool own);
/* Nothing is asked for any more. */
void unetmm_rel_ask_no_more(UnetmmCore *core, UnetmmRel *rel);
/*
 * Are all pages of a part of the space there, to be read?  If not, the driver
 * is asked for what is missing, for packet psn; or, if the source asks ahead,
 * for what is behind it up to byte addr + run.
 */
UnetmmXlat unetmm_rel_present(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                              uint32_t psn, uint64_t addr, uint32_t len,
                              uint32_t run);

/* rel/credit.c */
/* What the peer may send, into an acknowledgement. */
void unetmm_rel_grant(const UnetmmRel *rel, struct unetmm_frame *f);
/* Has the peer had a credit for the packet, which is not before its turn? */
bool unetmm_rel_granted(const UnetmmRel *rel, uint32_t psn);
bool unetmm_rel_out_of_credits(const UnetmmRelTx *tx);
/* Is there something to send, for which there is no credit? */
bool unetmm_rel_starved(const UnetmmRelTx *tx);
/* Something was posted, or is over: from when on is it out of credits? */
void unetmm_rel_starve(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel);
bool unetmm_rel_limit_ok(const struct unetmm_frame *f);
void unetmm_rel_credit(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                       const struct unetmm_frame *f);
/* The channel's time has ended: is there nothing to be sent again? */
bool unetmm_rel_probes(const UnetmmRelTx *tx);
void unetmm_rel_probe(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel);
/* The peer has the packet that it expects, but not in its place. */
void unetmm_rel_pending(UnetmmCore *core, UnetmmRel *rel);

/* rel/answer.c */
void unetmm_rel_owe_answer(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                           uint32_t psn, bool atomic,
                           const UnetmmTarget *target);
bool unetmm_rel_can_answer(const UnetmmRel *rel);
extern const UnetmmTransferOps unetmm_rel_answer;
/* Makes *t the next answer. */
void unetmm_rel_load_answer(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                            UnetmmTransfer *t);
/* An answer came. */
void unetmm_rel_answered(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         const struct unetmm_frame *f, const uint8_t *payload);
/* Does the request wait for its answer? */
bool unetmm_rel_answer_open(const UnetmmRel *rel, uint32_t psn);
/* Where the answer goes.  False: it is not as long as was asked. */
bool unetmm_rel_answer_aim(UnetmmRel *rel, const struct unetmm_frame *f,
                           UnetmmPlacement *place);
/* Some requests have ended: is what others wait behind among them? */
void unetmm_rel_rewind_check(UnetmmRel *rel);
/* A page for an answer is there, or (status) never will be. */
void unetmm_rel_answer_page(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                            uint8_t status);

/* rel/ahead.c */
/* The segments that a READ has behind the one in which a page is missing. */
uint32_t unetmm_rel_ahead(const UnetmmCore *core, const UnetmmMiss *miss,
                          UnetmmAhead *ahead);
/*
 * Pages from vpn on, which answer psn has no place for, npages of them in this
 * packet, up to the end of the segment.
 */
uint32_t unetmm_rel_answer_pages(const UnetmmCore *core, UnetmmRel *rel,
                                 uint32_t psn, uint64_t vpn, uint32_t npages);
/*
 * Like unetmm_region_run(), of a packet's part of the region, which has been
 * checked, and what the packet says is to follow, as far as it may be true.
 */
uint32_t unetmm_rel_run_ahead(const UnetmmRegion *region, uint64_t offset,
                              uint32_t len, uint64_t more, uint64_t *addr);

/* rel/read.c */
/*
 * The request, which has been taken, is to be answered again, if it can be;
 * `more` bytes are said to follow it.
 */
void unetmm_rel_read_again(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                           uint32_t psn, const UnetmmTarget *target,
                           uint64_t more);

/* rel/atomic.c */
const UnetmmRelResult *unetmm_rel_result(const UnetmmRel *rel, uint32_t psn);

/* rel/ack.c */
void unetmm_rel_owe_ack(UnetmmCore *core, UnetmmRel *rel);
void unetmm_rel_no_ack(UnetmmCore *core, UnetmmRel *rel);
void unetmm_rel_ack(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                    const struct unetmm_frame *f);

/* All before `cum` is over for the peer, and what the bits say. */
void unetmm_rel_progress(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         uint32_t cum, uint64_t bits, bool news);

/* rel/unasked.c: UnetmmChannelOps */
UnetmmStores *unetmm_rel_stores(const UnetmmChannel *channel);
bool unetmm_rel_update(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                       const UnetmmUpdate *u);
void unetmm_rel_overrun(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel);
UnetmmPosted unetmm_rel_start(UnetmmCore *core, UnetmmEp *ep,
                              UnetmmChannel *channel, const UnetmmStart *start,
                              uint64_t addr);
/*
 * What is to be said of one that has failed: of updates once for each import,
 * and of none what the end of the channel says anyway.  False: nothing.
 */
bool unetmm_rel_unasked_cqe(const UnetmmCore *core, UnetmmEp *ep,
                            const UnetmmRelMsg *m, struct unetmm_cqe *cqe);
/* It has been said: the windows of the import go. */
void unetmm_rel_unasked_said(UnetmmCore *core, UnetmmEp *ep,
                             const UnetmmRelMsg *m);

/* rel/timer.c */
/* The answer to what has been sent is waited for, from now on. */
void unetmm_rel_arm(UnetmmCore *core, UnetmmRel *rel);
void unetmm_rel_arm_at(UnetmmCore *core, UnetmmRel *rel, int64_t when);

/* rel/save.c: UnetmmSavedParts.connections and .connection */
void unetmm_rels_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep);
UnetmmRel *unetmm_rel_save_number(UnetmmStream *st, UnetmmCore *core,
                                  const UnetmmEp *ep, UnetmmRel *rel);
uint32_t unetmm_rel_credits(const UnetmmRel *rel);
/* Of module rel. */
void unetmm_rels_check(UnetmmStream *st, UnetmmCore *core);
uint64_t unetmm_rels_save_limit(const UnetmmCore *core);

/* rel/save_ops.c */
/* UnetmmSavedParts.packet */
void unetmm_rel_save_packet(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep);
/* May core->rx.head, one of its packets, go where core->rx has it go? */
bool unetmm_rel_landing_ok(UnetmmCore *core, UnetmmRel *rel);
/* The number of the packet that is kept in this place. */
uint32_t unetmm_rel_kept_psn(const UnetmmRel *rel, uint32_t slot);
/* What is left of a packet before its turn. */
void unetmm_rel_save_early(UnetmmStream *st, UnetmmRel *rel, uint32_t slot);
/* What is rejected, the WRITE that arrives, answers, results. */
void unetmm_rel_save_one_sided(UnetmmStream *st, UnetmmRel *rel);

#endif /* UNETMM_REL_H */
