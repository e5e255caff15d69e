/*
 * unetmm: reliable channels: the window of packets that are to be taken
 *
 * Packets are taken in their order.  A packet before its turn may be kept; the
 * packet whose turn it is may be refused (the peer is to come again) or
 * rejected (the peer's VOID alone is taken).  Only recv_window.c and the
 * inline functions below write the members of the window; each is one event.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_RECV_WINDOW_H
#define UNETMM_RECV_WINDOW_H

#include "../stream/stream.h"
#include "psn.h"

/* The thing that a refused packet waits for. */
typedef enum UnetmmRelWant {
    UNETMM_REL_WANT_NOTHING,
    UNETMM_REL_WANT_CQ,         /* room for its completion */
    UNETMM_REL_WANT_HEAD,       /* a buffer */
    UNETMM_REL_WANT_PAGE,       /* where it goes */
    UNETMM_REL_WANT_PART,       /* of a region, which is held */
    UNETMM_REL_WANT_READ,       /* a page that it reads */
} UnetmmRelWant;

typedef struct UnetmmRecvWindow {
    uint32_t nxt;               /* the next packet to be taken */
    uint64_t have;              /* bit: nxt.., kept; no frame without it */
    uint64_t spoilt;            /* bit: of `have`, never to be in its place */
    uint64_t wrong;             /* bit: nxt.., its key was wrong, and counted */
    uint8_t bad_keys;           /* ever; fewer than UNETMM_REL_BAD_KEYS */
    bool landed;                /* a slot has been answered: go on */
    uint8_t why;                /* UNETMM_WHY_*: packet nxt is rejected */
    uint8_t late_why;           /* and, to be said once, request late_psn */
    uint32_t late_psn;
    UnetmmRelWant refused;      /* why packet nxt could not be taken */
    bool refuse;                /* the peer has to be told so */
} UnetmmRecvWindow;

static inline bool unetmm_recvwin_has(const UnetmmRecvWindow *w, uint32_t psn)
{
    return w->have & unetmm_rel_bit(psn);
}

/* Has the packet been taken before? */
static inline bool unetmm_recvwin_again(const UnetmmRecvWindow *w, uint32_t psn)
{
    return unetmm_rel_before(psn, w->nxt);
}

/* Bit i: packet nxt + 1 + i is kept. */
uint64_t unetmm_recvwin_bits(const UnetmmRecvWindow *w);
/* *unlanded: the packets in slots of the system buffer. */
void unetmm_recvwin_save(UnetmmStream *st, UnetmmRecvWindow *w,
                         uint64_t *unlanded, bool open);
void unetmm_recvwin_save_rejects(UnetmmStream *st, UnetmmRecvWindow *w);

/* ---- Events ------------------------------------------------------------- */

static inline void unetmm_recvwin_begin(UnetmmRecvWindow *w, uint32_t psn)
{
    w->nxt = psn;
}

/* Kept packets are forgotten. */
void unetmm_recvwin_drop(UnetmmRecvWindow *w);
/* The channel ends: nothing is refused or rejected any more. */
void unetmm_recvwin_end(UnetmmRecvWindow *w);
/* Packet nxt is taken: it is the turn of the one behind it. */
static inline void unetmm_recvwin_taken(UnetmmRecvWindow *w)
{
    uint64_t others = ~unetmm_rel_bit(w->nxt++);

    w->have &= others;
    w->spoilt &= others;
    w->wrong &= others;
    w->refused = UNETMM_REL_WANT_NOTHING;
    w->refuse = false;
    w->why = 0;
}

/* A packet before its turn is kept, whole or in part. */
static inline void unetmm_recvwin_kept(UnetmmRecvWindow *w, uint32_t psn)
{
    w->have |= unetmm_rel_bit(psn);
}

/* Packet nxt, which was kept, is neither taken nor kept. */
void unetmm_recvwin_lost(UnetmmRecvWindow *w);
/* The packet in a slot is in its place, or never will be. */
void unetmm_recvwin_landed(UnetmmRecvWindow *w, uint32_t psn, bool in_place);
/* Packets behind slots are taken now. */
static inline void unetmm_recvwin_goes_on(UnetmmRecvWindow *w)
{
    w->landed = false;
}

/* Packet nxt lacks something. */
static inline void unetmm_recvwin_refused(UnetmmRecvWindow *w,
                                          UnetmmRelWant want)
{
    w->refused = want;
}

/* The peer has to be told of a refusal, and is. */
static inline void unetmm_recvwin_tell_refusal(UnetmmRecvWindow *w)
{
    w->refuse = true;
}

static inline void unetmm_recvwin_told_refusal(UnetmmRecvWindow *w)
{
    w->refuse = false;
}

/* Packet nxt lacks nothing any more, as far as is known. */
static inline void unetmm_recvwin_ready(UnetmmRecvWindow *w)
{
    w->refused = UNETMM_REL_WANT_NOTHING;
}

/* Packet nxt will never be accepted. */
static inline void unetmm_recvwin_rejected(UnetmmRecvWindow *w, uint8_t reason)
{
    w->why = reason;
}

/* The request, which has been taken, will never be answered. */
void unetmm_recvwin_rejected_late(UnetmmRecvWindow *w, uint32_t psn,
                                  uint8_t reason);
static inline void unetmm_recvwin_told_late(UnetmmRecvWindow *w)
{
    w->late_why = 0;
}

/* The packet's key is wrong: only a VOID takes its number now. */
static inline void unetmm_recvwin_wrong_key(UnetmmRecvWindow *w, uint32_t psn)
{
    w->wrong |= unetmm_rel_bit(psn);
}

/* A wrong key counts.  True: it was the last that the channel is allowed. */
bool unetmm_recvwin_bad_key(UnetmmRecvWindow *w);

#endif /* UNETMM_RECV_WINDOW_H */
