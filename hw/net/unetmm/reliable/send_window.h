/*
 * unetmm: reliable channels: the window of packets that were sent
 *
 * A packet flies from its first transmission until the peer has taken it and,
 * if it is a request, has answered it.  Only send_window.c and the inline
 * functions below write the members of the window; each function is one event
 * in a packet's life.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_SEND_WINDOW_H
#define UNETMM_SEND_WINDOW_H

#include "../stream/stream.h"
#include "psn.h"

#define UNETMM_REL_OVERTAKEN    3       /* later ones arrived: it is lost */

/*
 * Bit `lost` is set by _acked (enough later packets have overtaken it),
 * _timed_out, _resumed, _rejected, _void, _lost, _rewound (also by _answered
 * for other packets) and _place_came (requests without a place).  The bit is
 * cleared by _sent, _acked, _set_aside, _answered, _unplaced, _void of a packet
 * that the peer has, and _end.
 */
typedef struct UnetmmSendWindow {
    uint32_t una;               /* the oldest packet that flies */
    uint32_t cum;               /* the peer has taken all before it */
    uint32_t nxt;               /* the next one that was never sent */
    uint32_t most;              /* packets from una on may go, 1..WINDOW */
    uint32_t asked;             /* the last one that asked for an answer */
    uint32_t stamp;             /* transmissions so far */
    uint32_t acked_stamp;       /* stamp of the latest one acknowledged */
    uint32_t answered_stamp;    /* stamp of the latest request answered */
    uint64_t acked;             /* bit: una..nxt, the peer has the packet */
    uint64_t lost;              /* bit: to be sent again; see above */
    uint64_t pending;           /* bit: a request without its answer */
    uint64_t unplaced;          /* bit: pending, its answer had no place */
    uint64_t voids;             /* bit: only its number is sent any more */
    uint32_t stamps[UNETMM_REL_WINDOW];     /* each packet's last stamp */
    uint32_t retries;           /* timeouts since the last progress */
    uint32_t refusals;          /* not ready, since the last progress */
    bool again;                 /* requests, or early packets, went again */
    bool rewinding;             /* no answer behind rewind_psn is taken */
    uint32_t rewind_psn;        /* the request that is to be answered first */
    bool paused;                /* nothing is sent before deadline_ns */
    bool limited;               /* new packets need the peer's credit */
    uint32_t limit;             /* new packets have numbers below this one */
    bool starves;               /* a message waits for a higher limit */
    bool probe;                 /* the next ACK asks for the peer's state */
    bool aside;                 /* the peer has cum, but not in its place */
    bool early;                 /* the deadline is before the channel's own */
    int64_t deadline_ns;        /* INT64_MAX: nothing is waited for */
} UnetmmSendWindow;

static inline bool unetmm_sendwin_flies(const UnetmmSendWindow *w, uint32_t psn)
{
    return psn - w->una < w->nxt - w->una;
}

static inline bool unetmm_sendwin_is_void(const UnetmmSendWindow *w,
                                          uint32_t psn)
{
    return psn != w->nxt && (w->voids & unetmm_rel_bit(psn));
}

/* Does the request wait for its answer? */
static inline bool unetmm_sendwin_is_pending(const UnetmmSendWindow *w,
                                             uint32_t psn)
{
    return unetmm_sendwin_flies(w, psn) && (w->pending & unetmm_rel_bit(psn));
}

/* Does the peer still need the packet, or is the packet the next new one? */
static inline bool unetmm_sendwin_needs(const UnetmmSendWindow *w, uint32_t psn)
{
    uint64_t bit = unetmm_rel_bit(psn);

    return psn == w->nxt ||
           (unetmm_sendwin_flies(w, psn) &&
            (!(w->acked & bit) || (w->pending & bit)));
}

static inline bool unetmm_sendwin_no_credit(const UnetmmSendWindow *w)
{
    return w->limited && (int32_t)(w->limit - w->nxt) <= 0;
}

/* May this packet go, as far as the window's size is asked? */
static inline bool unetmm_sendwin_within(const UnetmmSendWindow *w,
                                         uint32_t psn)
{
    return psn - w->una < w->most;
}

/* Is there a number for another packet?  Credits are looked at elsewhere. */
static inline bool unetmm_sendwin_room(const UnetmmSendWindow *w)
{
    return unetmm_sendwin_within(w, w->nxt);
}

/* The oldest lost packet, or else the next new one. */
uint32_t unetmm_sendwin_pick(const UnetmmSendWindow *w);
/* Do the members agree with each other?  `open`: the channel has not ended. */
bool unetmm_sendwin_ok(const UnetmmSendWindow *w, bool open);
void unetmm_sendwin_save(UnetmmStream *st, UnetmmSendWindow *w, bool open);
/* *armed: there is a deadline; it is restored by unetmm_sendwin_wait(). */
void unetmm_sendwin_save_deadline(UnetmmStream *st, UnetmmSendWindow *w,
                                  bool *armed, int64_t *when);

/* ---- Events ------------------------------------------------------------- */

/* The channel begins.  credits 0: new packets need none. */
void unetmm_sendwin_begin(UnetmmSendWindow *w, uint32_t psn, uint32_t credits);
/* The channel ends: nothing is sent or waited for any more. */
void unetmm_sendwin_end(UnetmmSendWindow *w);
/* The packet goes out.  True: again; else it takes number nxt. */
bool unetmm_sendwin_sent(UnetmmSendWindow *w, uint32_t psn, bool request);
/* The packet asks for an acknowledgement. */
static inline void unetmm_sendwin_asked_for_ack(UnetmmSendWindow *w,
                                                uint32_t psn)
{
    w->asked = psn;
}

/*
 * The peer has taken all before cum, and keeps packet cum + 1 + i for each bit
 * i.  False: that is known already, and there is no other news.
 */
bool unetmm_sendwin_acked(UnetmmSendWindow *w, uint32_t cum, uint64_t bits,
                          bool news);
/* The peer has packet cum, not in its place yet: no second copy is needed. */
void unetmm_sendwin_set_aside(UnetmmSendWindow *w);
/* Can the peer have refused packet una since the last refusal? */
bool unetmm_sendwin_can_refuse(const UnetmmSendWindow *w);
/* The peer refused packet una: a pause begins. */
void unetmm_sendwin_refused(UnetmmSendWindow *w);
/* The pause ends: una goes again. */
void unetmm_sendwin_resumed(UnetmmSendWindow *w);
/* The peer will never take the packet; it waits for the number alone. */
void unetmm_sendwin_rejected(UnetmmSendWindow *w, uint32_t psn);
/* The packet's message has ended: its number goes out as VOID. */
void unetmm_sendwin_void(UnetmmSendWindow *w, uint32_t psn);
/* The packet, or its answer, is lost. */
void unetmm_sendwin_lost(UnetmmSendWindow *w, uint32_t psn);
/* The answer is in its place. */
void unetmm_sendwin_answered(UnetmmSendWindow *w, uint32_t psn);
/* The answer came and had no place. */
void unetmm_sendwin_unplaced(UnetmmSendWindow *w, uint32_t psn);
/* Requests from this one on are to go again.  True: others were not yet. */
bool unetmm_sendwin_rewind(UnetmmSendWindow *w, uint32_t psn);
/* Ends the rewinding if its request is over. */
void unetmm_sendwin_rewound(UnetmmSendWindow *w);
/* There is a place again: requests without one go again. */
void unetmm_sendwin_place_came(UnetmmSendWindow *w);
/*
 * The deadline has passed; an early one is no retry.  True: una is not sent
 * again, the peer is asked.
 */
bool unetmm_sendwin_timed_out(UnetmmSendWindow *w);
/* So many packets from una on may go, from now on. */
static inline void unetmm_sendwin_allow(UnetmmSendWindow *w, uint32_t most)
{
    w->most = most;
}

/*
 * True: no packet may go, and the last one has not asked for an answer, so the
 * peer is to be asked.
 */
bool unetmm_sendwin_stuck(UnetmmSendWindow *w);
/* The acknowledgement goes out that asks for the peer's state. */
static inline void unetmm_sendwin_probed(UnetmmSendWindow *w)
{
    w->probe = false;
}

/* The peer allows packets up to this number.  False: it did already. */
bool unetmm_sendwin_credit(UnetmmSendWindow *w, uint32_t limit);
/* A message waits for credit, or none does.  True: one begins to. */
static inline bool unetmm_sendwin_starve(UnetmmSendWindow *w, bool starves)
{
    bool begins = starves && !w->starves;

    w->starves = starves;
    return begins;
}

/* An answer is awaited until then; INT64_MAX: none is. */
static inline void unetmm_sendwin_wait(UnetmmSendWindow *w, int64_t when)
{
    w->deadline_ns = when;
    w->early = false;
}

/* The time of unetmm_sendwin_wait() follows from round trips. */
static inline void unetmm_sendwin_hurry(UnetmmSendWindow *w)
{
    w->early = true;
}

/*
 * Does a packet that asks for an answer fly?  If the peer has that one, one of
 * those before it is lost.
 */
static inline bool unetmm_sendwin_asks(const UnetmmSendWindow *w)
{
    return unetmm_sendwin_flies(w, w->asked);
}

#endif /* UNETMM_SEND_WINDOW_H */
