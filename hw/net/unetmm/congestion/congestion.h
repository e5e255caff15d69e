/*
 * unetmm: congestion controls: how many packets of a channel may fly
 *
 * A control is a file congestion/NAME.c with a UnetmmCongestionOps, its path in
 * sources.txt, and a row in UNETMM_CONGESTIONS.  congestion.c measures round
 * trips and makes windows smaller, once in a round trip at most; a control says
 * by how much, and when the window grows.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_CONGESTION_H
#define UNETMM_CONGESTION_H

#include "../abi/unetmm_params.h"
#include "../stream/stream.h"

/*
 * Number, name, property congestion=NAME of the card, the packets of a channel
 * that may fly.  The first one is the default.
 */
#define UNETMM_CONGESTIONS(C) \
    C(0, NONE, none, "64, the whole window, at once") \
    C(1, WINDOW, window, "``congestion-window`` of them, always") \
    C(2, DELAY, delay, "as many as make a round trip of ``congestion-trip-ns``")

#define UNETMM_CONGESTION_ENUM_(number, upper, name, help) \
    UNETMM_CONGESTION_##upper = number,
typedef enum UnetmmCongestionKind {
    UNETMM_CONGESTIONS(UNETMM_CONGESTION_ENUM_)
    UNETMM_NUM_CONGESTION
} UnetmmCongestionKind;

#define UNETMM_CONGESTION_ONE   256u        /* a packet, in a window */
#define UNETMM_CONGESTION_MOST  (64 * UNETMM_CONGESTION_ONE)
#define UNETMM_CONGESTION_KEEP  256u        /* parts of 256: no cut */
#define UNETMM_CONGESTION_GROW  257u        /* a packet more in a round trip */
#define UNETMM_CONGESTION_HALF  128u
/* An answer may wait so long for a packet (reliable/along.c), twice. */
#define UNETMM_CONGESTION_SLACK_NS 100000

/* Only the functions of congestion.c write the members. */
typedef struct UnetmmCongestion {
    uint32_t window;            /* in 1/256 packets: ONE..MOST */
    uint32_t fresh;             /* packets over since a trip was measured */
    uint32_t mean_ns;           /* of round trips; 0: none was measured */
    uint32_t deviation_ns;
    uint32_t silences;          /* since the last news */
    bool cut;                   /* no other cut before cut_psn is over */
    uint32_t cut_psn;
    bool timing;                /* packet timed_psn is timed */
    bool request;               /* the peer may read pages before it answers */
    uint32_t timed_psn;
    int64_t timed_ns;
} UnetmmCongestion;

/* The contents of an acknowledgement, as far as a control needs them. */
typedef struct UnetmmCongestionNews {
    uint32_t una, nxt;          /* the oldest packet that flies, the next */
    uint32_t over;              /* packets that are over by it */
    uint32_t trip_ns;           /* of the timed packet; 0: it still flies */
    bool lost;                  /* later packets have overtaken one */
} UnetmmCongestionNews;

typedef struct UnetmmCongestionOps {
    bool fixed;                 /* losses and silence make no window smaller */
    /* Parts of 256 of the window to keep, or KEEP, or GROW.  NULL: KEEP. */
    uint32_t (*news)(const UnetmmCongestion *c, const UnetmmParams *p,
                     const UnetmmCongestionNews *news);
} UnetmmCongestionOps;

static inline bool unetmm_congestion_is_on(const UnetmmParams *p)
{
    return p->congestion != UNETMM_CONGESTION_NONE;
}

static inline uint32_t unetmm_congestion_packets(const UnetmmCongestion *c)
{
    return c->window / UNETMM_CONGESTION_ONE;
}

void unetmm_congestion_begin(UnetmmCongestion *c, const UnetmmParams *p);
/* The packet goes out and is to be timed, if no other is. */
void unetmm_congestion_time(UnetmmCongestion *c, uint32_t psn, bool request,
                            int64_t now);
/* The packet's trip will tell nothing about the network. */
void unetmm_congestion_forget(UnetmmCongestion *c, uint32_t psn);
/* The timed packet's trip until now, in ns, 1 at least. */
uint32_t unetmm_congestion_trip(const UnetmmCongestion *c, int64_t now);
/* True: the window became smaller. */
bool unetmm_congestion_news(UnetmmCongestion *c, const UnetmmParams *p,
                            const UnetmmCongestionNews *news);
/* The time without news after which a packet is lost; 0: no trip is known. */
uint64_t unetmm_congestion_silence_ns(const UnetmmCongestion *c);
/* So long there were no news.  True: the window became smaller. */
bool unetmm_congestion_silent(UnetmmCongestion *c, const UnetmmParams *p);
void unetmm_congestion_save(UnetmmStream *st, UnetmmCongestion *c);

#endif /* UNETMM_CONGESTION_H */
