/*
 * unetmm: congestion control `delay`: a round trip's time
 *
 * While a trip takes congestion-trip-ns at most, the window grows by a packet a
 * trip; a longer one makes the window smaller, by its excess, by half at most.
 * The rule is Swift's (G. Kumar et al., SIGCOMM 2020), with one measured packet
 * a trip and a window of one packet or more.  The peer may read absent pages
 * before it answers a request, so a request's trip makes no window smaller.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "congestion.h"

#define DELAY_EXCESS    205     /* of 256: how much of an excess is cut */

static uint32_t delay_news(const UnetmmCongestion *c, const UnetmmParams *p,
                           const UnetmmCongestionNews *news)
{
    uint32_t trip = news->trip_ns, aim = p->congestion_trip_ns;

    if (trip && trip <= aim) {
        return UNETMM_CONGESTION_GROW;
    }
    if (!trip || c->request) {
        return UNETMM_CONGESTION_KEEP;
    }
    return MAX(UNETMM_CONGESTION_HALF, UNETMM_CONGESTION_KEEP -
               (uint64_t)(trip - aim) * DELAY_EXCESS / trip);
}

const UnetmmCongestionOps unetmm_congestion_delay = {
    .news = delay_news,
};
