/*
 * unetmm: receiving: free buffers, and messages that land in them
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_RECV_H
#define UNETMM_RECV_H

#include "head.h"

typedef struct UnetmmLandingOps UnetmmLandingOps;

/* Where some of a message's bytes go. */
typedef struct UnetmmPiece {
    uint64_t addr;
    uint32_t len;
    uint32_t from;              /* in the message, or the packet */
} UnetmmPiece;

/*
 * A packet can have a hole for each packet that came before its turn, and be
 * cut at both ends of each part of the region that has moved.
 */
#define UNETMM_MAX_PIECES       (UNETMM_REL_WINDOW + 1 + 2 * UNETMM_REDIRECTS)

/*
 * Where a message, or a packet of one, goes.  Pages are held from the lookup
 * until they have been written.  The function that begins a message takes
 * unetmm_recv_blank() and passes the placement on.
 */
typedef struct UnetmmPlacement {
    uint32_t npieces;
    uint32_t npages;            /* that they touch, piece by piece */
    uint32_t piece, off;        /* how far it has been written */
    uint32_t page;              /* the next page to be written */
    UnetmmPage *pages;          /* UNETMM_MAX_BUF_PAGES of them */
    UnetmmPiece pieces[UNETMM_MAX_PIECES];
} UnetmmPlacement;

/* Whose message is landing: a head's, a slot's, a channel's packet. */
struct UnetmmLandingOps {
    const char *name;
    /* May the next page move?  If not, *drop counts it.  NULL: always. */
    bool (*may_go_on)(const UnetmmCore *core, const UnetmmLanding *landing,
                      enum unetmm_counter *drop);
    /*
     * All pages of the message have moved; or they have not, which `drop`
     * counts.  The landing is over: the next may begin in the same place.
     */
    void (*landed)(UnetmmCore *core, UnetmmEp *ep, UnetmmLanding *landing,
                   bool landed, enum unetmm_counter drop);
    /* core->landing has been restored: may it be where it is? */
    bool (*place_ok)(UnetmmCore *core, const UnetmmEp *ep);
};

/* A message that is landing page by page, with x-dma-page-ns. */
struct UnetmmLanding {
    bool active;
    bool moving;
    const UnetmmLandingOps *owner;
    void *of;                   /* a packet's: its UnetmmRel; else NULL */
    struct unetmm_frame header;   /* a packet's; else zeros */
    uint16_t ep;
    uint32_t generation;
    uint8_t *frame;
    uint32_t len;
    UnetmmPlacement place;
    struct unetmm_cqe cqe;      /* to be written when all has landed */
    int64_t deadline_ns;
    UnetmmPlacement blank;      /* for the next message: unetmm_recv_blank() */
};

/* The placement of a message that begins; the last caller's is void now. */
static inline UnetmmPlacement *unetmm_recv_blank(UnetmmCore *core)
{
    return &core->landing->blank;
}

static inline uint32_t unetmm_read_bytes(const struct unetmm_frame *f)
{
    return UNETMM_GET(UNETMM_READ_BYTES, f->imm);
}

/* The buffer that a message needs. */
typedef struct UnetmmNeed {
    uint32_t len;               /* bytes that the buffer must have */
    uint32_t begins;            /* not 0: only these must be there; not held */
    bool as_it_is;              /* these bytes may be absent, too */
    bool unfilled;              /* all bytes may be absent: none is written */
    bool strict;                /* a buffer that has failed is the caller's */
} UnetmmNeed;

typedef enum UnetmmPlaced {
    UNETMM_PLACED,
    UNETMM_PLACED_NOT,          /* the bus refused it */
    UNETMM_PLACED_GONE,         /* a page went before its DMA began */
    UNETMM_PLACED_LATER,        /* its owner will be told */
} UnetmmPlaced;

static inline enum unetmm_counter unetmm_recv_why(UnetmmPlaced placed)
{
    return placed == UNETMM_PLACED_GONE ? UNETMM_C_drop_invalidated :
           UNETMM_C_drop_dma;
}

/*
 * Operations of aside/slot.c that recv/ and card/ call for endpoints with slots
 * in place of heads.
 */
struct UnetmmSlotOps {
    /* The endpoint has slots, and one miss, in place of heads. */
    void (*begin)(UnetmmEp *ep);
    void (*receive)(UnetmmCore *core, UnetmmEp *ep,
                    const struct unetmm_cqe *cqe, const uint8_t *data);
    const UnetmmLandingOps *landing;
};

/* recv/recv.c */
void unetmm_recv_frame(UnetmmCore *core, const uint8_t *frame, size_t bytes);
/* The immediate of a packet, if it has one, becomes the completion's. */
static inline void unetmm_recv_imm(struct unetmm_cqe *cqe,
                                   const struct unetmm_frame *f)
{
    if (f->flags & UNETMM_WIRE_F_IMM) {
        cqe->flags |= UNETMM_CQE_F_IMM |
                      (f->flags & UNETMM_WIRE_F_INV ? UNETMM_CQE_F_INV : 0);
        cqe->imm = f->imm;
    }
}
/* Is what must be zero in a header of this opcode zero? */
bool unetmm_recv_members_ok(const UnetmmCore *core,
                            const struct unetmm_frame *f);
void unetmm_recv_inline(UnetmmCore *core, UnetmmEp *ep,
                        struct unetmm_cqe *cqe, const uint8_t *payload);

/* recv/buffer.c */
/* The others are reached by UnetmmSlotOps and UnetmmChannelOps. */
extern const UnetmmLandingOps unetmm_landing_head;
/*
 * The first head of the first buffer that can take a message, whose place is
 * `place`; its pages are held unless the need is less.  NULL: *drop is the
 * reason for which the message is dropped.
 */
UnetmmHead *unetmm_recv_find_head(UnetmmCore *core, UnetmmEp *ep,
                                  const UnetmmNeed *need,
                                  UnetmmPlacement *place,
                                  enum unetmm_counter *drop);
/* Bytes of the first buffer, whose end is there */
uint64_t unetmm_recv_room(UnetmmEp *ep);
/*
 * Lands a message in that buffer, and completes it; the pages that it touches
 * are held.
 */
void unetmm_recv_land(UnetmmCore *core, UnetmmEp *ep, const UnetmmHead *head,
                      UnetmmPlacement *place, struct unetmm_cqe *cqe,
                      const uint8_t *payload);

/* recv/placement.c */
/* Makes [addr, + len) all of a placement. */
void unetmm_recv_whole(UnetmmPlacement *place, uint64_t addr, uint32_t len);
/* Makes bytes [at, + len) of a buffer all of it, as far as that reaches. */
void unetmm_recv_parts(UnetmmPlacement *place, const UnetmmPart *parts,
                       uint32_t nparts, uint32_t at, uint32_t len);
static inline bool unetmm_recv_same_pieces(const UnetmmPlacement *a,
                                           const UnetmmPlacement *b)
{
    return a->npieces == b->npieces &&
           !memcmp(a->pieces, b->pieces, a->npieces * sizeof(a->pieces[0]));
}
/*
 * Holds the pages of the pieces; or holds none, and *vpn is the first that is
 * missing, *npages how many are from there on.  Pages that the TLB cannot have
 * at the same time are an error.
 */
UnetmmXlat unetmm_recv_hold(UnetmmCore *core, UnetmmEp *ep,
                            UnetmmPlacement *place, uint64_t *vpn,
                            uint32_t *npages);
/*
 * Can all pages be translated at the same time?  If not, the miss of each page
 * would push out the others for ever, or the card would wait for an entry that
 * it holds itself.  An entry of several pages is not held.
 */
bool unetmm_recv_fits(UnetmmCore *core, UnetmmEp *ep,
                      const UnetmmPlacement *place);

/* recv/landing.c */
/*
 * Writes `len` bytes to the pieces, whose pages are held; lets them go.  LATER:
 * core->landing is this landing, and the caller fills its owner's members.
 */
UnetmmPlaced unetmm_recv_place(UnetmmCore *core, UnetmmEp *ep,
                               UnetmmPlacement *place,
                               const UnetmmLandingOps *owner, uint32_t len,
                               const uint8_t *payload);

/* recv/count.c */
void unetmm_recv_drop(UnetmmCore *core, UnetmmEp *ep, enum unetmm_counter drop);
/* Counts bytes that are in their place. */
void unetmm_recv_done(UnetmmCore *core, UnetmmEp *ep, uint32_t len);

/* recv/shared.c: free queues that endpoints share */
/* May an endpoint of the space use the free queue of endpoint `id`? */
uint8_t unetmm_shared_check(UnetmmCore *core, uint16_t space, uint16_t id);
/* The endpoint uses that free queue from now on. */
void unetmm_shared_join(UnetmmCore *core, UnetmmEp *ep, uint16_t id);
/* A channel of the endpoint waits for the next buffer that is ready. */
void unetmm_shared_wait(UnetmmEp *ep);
/* A queue's turn, behind unetmm_head_fetch(). */
void unetmm_shared_turn(UnetmmCore *core, UnetmmEp *ep);
uint8_t unetmm_low_arm(UnetmmCore *core, uint16_t id,
                       const struct unetmm_cmd_low *cmd, uint32_t *result);

/* recv/save.c */
#define UNETMM_PIECE_FIELDS     3
extern const UnetmmField unetmm_piece_fields[UNETMM_PIECE_FIELDS];
/* The header of a packet that is not kept whole; its psn and len are known. */
void unetmm_recv_save_header(UnetmmStream *st, const UnetmmCore *core,
                             struct unetmm_frame *f);
void unetmm_landing_save(UnetmmStream *st, UnetmmCore *core);
void unetmm_heads_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep);

#endif /* UNETMM_RECV_H */
