/*
 * unetmm: endpoints: their state, queues, completions and notifications
 *
 * card/endpoint.c creates and destroys them.  An endpoint's queues are memory
 * of a process: indices are copied, checked, and then used.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_EP_H
#define UNETMM_EP_H

#include "../policy/policy.h"
#include "../xlat/xlat.h"

typedef struct UnetmmChannel UnetmmChannel;
typedef struct UnetmmImport UnetmmImport;
typedef struct UnetmmTaken UnetmmTaken;
typedef struct UnetmmDescriptor UnetmmDescriptor;
typedef struct UnetmmTransfer UnetmmTransfer;
typedef struct UnetmmTransferOps UnetmmTransferOps;

/* A part of a region, as a peer names it. */
typedef struct UnetmmTarget {
    uint32_t region, key;
    uint32_t len;
    uint64_t offset;
} UnetmmTarget;

typedef enum UnetmmBlocked {
    UNETMM_BLOCKED_NOT,
    UNETMM_BLOCKED_FAULT,       /* a translation */
    UNETMM_BLOCKED_TIME,        /* a page's DMA */
    UNETMM_BLOCKED_WIRE,        /* the net layer or the local queue */
    UNETMM_BLOCKED_CQ,          /* room for the completion */
} UnetmmBlocked;

typedef enum UnetmmTxState {
    UNETMM_TX_IDLE,
    UNETMM_TX_GATHER,           /* segments into the frame */
    UNETMM_TX_TRANSMIT,         /* frame complete */
    UNETMM_TX_COMPLETE,         /* status known, completion to be written */
} UnetmmTxState;

/*
 * A descriptor of the send queue, as it was read, once; or, for a packet that a
 * channel sends, the same members filled by the channel.
 */
struct UnetmmDescriptor {
    uint8_t opcode;
    uint8_t flags;
    uint8_t nsegs;
    uint8_t operands, refused;  /* of an atomic, bytes; UNETMM_ST_* */
    uint16_t channel, region;
    uint32_t handle, imm;
    uint32_t len;               /* of the message */
    uint64_t cookie;
    uint64_t remote;
    struct unetmm_seg segs[UNETMM_MAX_SEGS];    /* host byte order */
};

/*
 * A send in progress: everything needed to go on after any wait.  It holds
 * indices and copies, no pointers into guest memory, and no translation unless
 * a page is moving this moment (then `page`, until `deadline_ns`).
 */
struct UnetmmTransfer {
    const UnetmmTransferOps *ops;       /* NULL: a datagram, or CONTROL */
    UnetmmTxState state;
    UnetmmBlocked blocked_on;
    uint8_t status;
    uint8_t slots;              /* of the send queue */
    uint8_t seg;                /* current segment */
    uint32_t seg_off;           /* bytes of it that have been gathered */
    UnetmmDescriptor desc;
    uint32_t done;              /* gathered */
    uint8_t *frame;             /* from the pool; header room, then data */
    bool moving;
    UnetmmPage page;
    uint32_t chunk;             /* bytes that are moving */
    int64_t deadline_ns;
    UnetmmRel *rel;             /* whose packet this is; NULL: a datagram */
    uint32_t psn;               /* of the packet, or of the request answered */
    bool needless;              /* its message ended while it was gathered */
    bool answer;                /* an answer to request psn, from `target` */
    UnetmmTarget target;
};

/* Endpoints that wait, by number; one that has ended since may be listed. */
struct UnetmmEpLists {
    UnetmmList ready;           /* to be served */
    UnetmmList tell;            /* to be notified */
};

struct UnetmmEp {
    union {
        UnetmmUser user;
        struct {
            UNETMM_USER_MEMBERS
        };
    };
    bool error;                 /* stopped by UNETMM_EP_ERROR */
    bool closing;               /* EP_DESTROY waits for a page to land */
    bool notify_cq, notify_error, notify_tail, notify_low;      /* owed */
    bool publish;               /* the card's index words have changed */
    bool landing;               /* a message is landing in the first head */
    bool waits_for_buffer;      /* a channel waits for a head of `queue` */
    uint32_t state_shown;       /* UNETMM_EP_* as last published */
    bool failed_cqe;            /* CQE_FAILED still to be written */
    uint8_t fail_status;
    uint8_t end_status;         /* of a NOTIFY_END that is owed; OK: none */
    uint16_t next_in_space;     /* UNETMM_NO_EP: the last */
    uint16_t close_tag;
    uint32_t generation;
    const UnetmmPolicyOps *policy;
    bool raw;                   /* EP_F_RAW */
    bool slotted;               /* its free queue has slots, and no heads */
    bool vector;                /* EP_F_VECTOR */
    bool no_inline, keys, shared;       /* EP_F_NO_INLINE, _KEYS, _SHARED */
    uint64_t flow_turn;         /* of the frame that it had a copy of last */
    uint64_t sq_base, fq_base, cq_base, index;
    uint64_t posts;             /* 0: the producers are in `index` too */
    uint32_t pd;
    uint32_t sq_log2, fq_log2, cq_log2;
    uint32_t sq_prod, sq_cons, fq_prod, fq_cons;
    bool flushing;              /* CHANNEL_F_FLUSH */
    uint32_t flush_sq, flush_fq;        /* producers when the flush began */
    uint32_t cq_prod, cq_cons, arm, arm_done;
    uint32_t activity;          /* doorbells and datagrams */
    uint32_t max_heads;
    uint32_t nheads;            /* fetched; see unetmm_head_at() */
    uint32_t first_head;
    bool heads_behind;          /* their pages have not all been looked at */
    UnetmmHead *heads;          /* UNETMM_MAX_HEADS of them */
    UnetmmMiss *misses;         /* 0: send; 1 + n: head n, or 1: slot */
    /*
     * The endpoint whose free queue and heads its messages use: itself, or one
     * with EP_F_SHARED, which has a list of those that do.
     */
    UnetmmEp *queue;
    uint16_t next_user;         /* of that list; UNETMM_NO_EP: the last */
    uint16_t first_user;
    uint32_t users, waiting;    /* and how many of them waits_for_buffer */
    uint32_t low;               /* LOW_ARM; 0: not armed */
    /*
     * Endpoints without heads (unetmm_ep_slotted()): the next slot is fq_cons +
     * head_offset.  With policy backup that can be beyond 0, also beyond the
     * posted slots, and there are a bitmap (1: the packet is in the backup
     * ring) and the pending completions of those slots, by slot & taken_mask.
     */
    uint32_t head_offset;
    uint32_t bm_size, bm_index; /* bits; that of slot fq_cons */
    uint64_t *bitmap;
    UnetmmTaken *taken;
    uint32_t taken_mask;
    uint32_t slot_asked;        /* slot of the last miss */
    uint8_t slot_status;        /* of that miss, if its reply was ERROR */
    bool tail_armed;            /* TAIL_ARM: of slot tail_slot */
    uint32_t tail_slot;
    UnetmmTransfer tx;
    UnetmmChannel *channels;
    uint32_t ends_owed;         /* channels that have `ended` */
    UnetmmImport *imports;
    UnetmmRel *rels;            /* list of its reliable channels */
    UnetmmRel *rel_awake;       /* the last of them that does not rest */
    const UnetmmChannelOps *rel_ops;    /* their type, if there are any */
    uint32_t updates_shared;    /* stores that wait in shared places */
    bool sq_waits;              /* no room in the next message's channel */
    bool rel_turn;              /* descriptors and packets alternate */
};

G_STATIC_ASSERT(offsetof(UnetmmEp, user) == 0);

/* Operations of the rooms above an endpoint's queues. */
struct UnetmmEpOps {
    /* Has it work that a turn can do? */
    bool (*has_work)(UnetmmCore *core, UnetmmEp *ep);
    /* A page of it has landed: EP_DESTROY may have waited for that. */
    void (*landed)(UnetmmCore *core, UnetmmEp *ep);
};

/* Has its free queue slots, that is: no heads? */
static inline bool unetmm_ep_slotted(const UnetmmEp *ep)
{
    return ep->slotted;
}

/* NULL: there is none with this number. */
static inline UnetmmEp *unetmm_ep_live(UnetmmCore *core, uint32_t id)
{
    if (id >= core->params.endpoints || !core->eps[id].live) {
        return NULL;
    }
    return &core->eps[id];
}

static inline uint32_t unetmm_ep_cq_room(const UnetmmEp *ep)
{
    return (1u << ep->cq_log2) - (ep->cq_prod - ep->cq_cons);
}

/*
 * Places that are nobody's yet: a send in progress and a message that is
 * landing have a right to one each.
 */
static inline uint32_t unetmm_ep_cq_spare(const UnetmmEp *ep)
{
    bool sends = ep->tx.state != UNETMM_TX_IDLE && !ep->tx.rel;
    uint32_t kept = sends + ep->landing;
    uint32_t room = unetmm_ep_cq_room(ep);

    return room > kept ? room - kept : 0;
}

/* ep/ep.c */
/* Stops it; nothing is told. */
void unetmm_ep_stop(UnetmmCore *core, UnetmmEp *ep);
/* The endpoint is, or is no longer, among those of its space. */
void unetmm_ep_join(UnetmmCore *core, UnetmmEp *ep);
void unetmm_ep_part(UnetmmCore *core, UnetmmEp *ep);
void unetmm_ep_fail(UnetmmCore *core, UnetmmEp *ep, uint8_t status);
bool unetmm_ep_complete(UnetmmCore *core, UnetmmEp *ep,
                        struct unetmm_cqe *cqe);
void unetmm_ep_sync(UnetmmCore *core, UnetmmEp *ep);
bool unetmm_ep_read_user(UnetmmCore *core, UnetmmEp *ep);
/* Do completions of slots that have waited for others wait for room? */
bool unetmm_ep_slot_completes(const UnetmmCore *core, const UnetmmEp *ep);
static inline bool unetmm_ep_completes(const UnetmmCore *core,
                                       const UnetmmEp *ep)
{
    return ep->head_offset && unetmm_ep_slot_completes(core, ep);
}

/* ep/notify.c */
void unetmm_notify_want(UnetmmCore *core, UnetmmEp *ep, bool error);
void unetmm_notify_tail(UnetmmCore *core, UnetmmEp *ep);
void unetmm_notify_low(UnetmmCore *core, UnetmmEp *ep);
void unetmm_notify_end(UnetmmCore *core, UnetmmEp *ep, uint8_t status);
/* The notification ring has no room: says so, once. */
void unetmm_notify_full(UnetmmCore *core);

/* ep/ready.c */
/*
 * Queues the endpoint for a turn, and takes the first of the queue, or NULL.
 * Code that unetmm_ep_sync() follows (a turn, a frame from the wire, the end of
 * a landing) queues nothing: that function queues an endpoint that has work.
 */
void unetmm_ready_push(UnetmmCore *core, UnetmmEp *ep);
UnetmmEp *unetmm_ready_pop(UnetmmCore *core);

#endif /* UNETMM_EP_H */
