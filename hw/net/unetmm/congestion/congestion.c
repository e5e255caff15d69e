/*
 * unetmm: congestion controls: round trips, and windows that become smaller
 *
 * One packet at a time is timed.  A packet that goes again tells no time (P.
 * Karn, C. Partridge, SIGCOMM 1987).  Mean and deviation are those of RFC 6298.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "congestion.h"

#define MOST_SILENCES   20      /* doublings */
#define MOST_FRESH      64      /* packets: a window */

#define DECLARE(number, upper, name, help) \
    extern const UnetmmCongestionOps unetmm_congestion_##name;
#define ENTRY(number, upper, name, help) [number] = &unetmm_congestion_##name,
UNETMM_CONGESTIONS(DECLARE)
static const UnetmmCongestionOps *const controls[] = {
    UNETMM_CONGESTIONS(ENTRY)
};
#undef DECLARE
#undef ENTRY

void unetmm_congestion_begin(UnetmmCongestion *c, const UnetmmParams *p)
{
    *c = (UnetmmCongestion) {
        .window = unetmm_congestion_is_on(p) ?
                  p->congestion_window * UNETMM_CONGESTION_ONE :
                  UNETMM_CONGESTION_MOST,
    };
}

void unetmm_congestion_time(UnetmmCongestion *c, uint32_t psn, bool request,
                            int64_t now)
{
    if (!c->timing) {
        c->timing = true;
        c->request = request;
        c->timed_psn = psn;
        c->timed_ns = now;
    }
}

void unetmm_congestion_forget(UnetmmCongestion *c, uint32_t psn)
{
    c->timing &= c->timed_psn != psn;
}

uint32_t unetmm_congestion_trip(const UnetmmCongestion *c, int64_t now)
{
    return MAX(1, MIN(now - c->timed_ns, UINT32_MAX));
}

static void congestion_measure(UnetmmCongestion *c, uint32_t trip_ns)
{
    uint32_t off = MAX(trip_ns, c->mean_ns) - MIN(trip_ns, c->mean_ns);

    c->timing = false;
    if (!c->mean_ns) {
        c->mean_ns = trip_ns;
        c->deviation_ns = trip_ns / 2;
        return;
    }
    c->deviation_ns = c->deviation_ns - c->deviation_ns / 4 + off / 4;
    c->mean_ns = MAX(1, c->mean_ns - c->mean_ns / 8 + trip_ns / 8);
}

/* By the packets' part of the window: by one packet for a whole window. */
static void congestion_grow(UnetmmCongestion *c)
{
    uint32_t more = c->fresh * UNETMM_CONGESTION_ONE * UNETMM_CONGESTION_ONE /
                    c->window;

    c->window = MIN(c->window + MIN(more, UNETMM_CONGESTION_ONE),
                    UNETMM_CONGESTION_MOST);
}

static bool congestion_cut(UnetmmCongestion *c, uint32_t keep, uint32_t nxt)
{
    uint32_t before = c->window;

    if (c->cut || keep >= UNETMM_CONGESTION_KEEP) {
        return false;
    }
    c->window = MAX(UNETMM_CONGESTION_ONE,
                    c->window * keep / UNETMM_CONGESTION_KEEP);
    c->cut = true;
    c->cut_psn = nxt;
    return c->window != before;
}

bool unetmm_congestion_news(UnetmmCongestion *c, const UnetmmParams *p,
                            const UnetmmCongestionNews *news)
{
    const UnetmmCongestionOps *ops = controls[p->congestion];
    uint32_t keep = ops->news ? ops->news(c, p, news) : UNETMM_CONGESTION_KEEP;

    c->silences = 0;
    c->fresh = MIN(c->fresh + news->over, MOST_FRESH);
    if (c->cut && (int32_t)(news->una - c->cut_psn) >= 0) {
        c->cut = false;
    }
    if (news->lost && !ops->fixed) {
        keep = MIN(keep, UNETMM_CONGESTION_HALF);
    }
    if (keep == UNETMM_CONGESTION_GROW) {
        congestion_grow(c);
    }
    if (news->trip_ns) {
        congestion_measure(c, news->trip_ns);
        c->fresh = 0;
    }
    return congestion_cut(c, keep, news->nxt);
}

uint64_t unetmm_congestion_silence_ns(const UnetmmCongestion *c)
{
    uint64_t ns = c->mean_ns + MAX(4ull * c->deviation_ns,
                                   UNETMM_CONGESTION_SLACK_NS);

    return c->mean_ns ? ns << c->silences : 0;
}

bool unetmm_congestion_silent(UnetmmCongestion *c, const UnetmmParams *p)
{
    uint32_t before = c->window;

    c->silences = MIN(c->silences + 1, MOST_SILENCES);
    if (!controls[p->congestion]->fixed) {
        c->window = UNETMM_CONGESTION_ONE;
    }
    return c->window != before;
}

static const UnetmmField congestion_fields[] = {
    UNETMM_FIELD_RANGE(UnetmmCongestion, window, UNETMM_CONGESTION_ONE,
                       UNETMM_CONGESTION_MOST),
    UNETMM_FIELD_RANGE(UnetmmCongestion, fresh, 0, MOST_FRESH),
    UNETMM_FIELDS(UnetmmCongestion, mean_ns, deviation_ns),
    UNETMM_FIELD_RANGE(UnetmmCongestion, silences, 0, MOST_SILENCES),
    UNETMM_FIELD_BOOL(UnetmmCongestion, cut),
    UNETMM_FIELD(UnetmmCongestion, cut_psn),
    UNETMM_BOOLS(UnetmmCongestion, timing, request),
    UNETMM_FIELD(UnetmmCongestion, timed_psn),
};

void unetmm_congestion_save(UnetmmStream *st, UnetmmCongestion *c)
{
    uint32_t age = MIN(st->now - c->timed_ns, UINT32_MAX);

    UNETMM_STREAM_FIELDS(st, c, congestion_fields);
    if (c->timing) {
        unetmm_stream_u32(st, &age, "age");
        c->timed_ns = st->now - age;
    }
}
