/*
 * unetmm: hosts with cards in a simulated network: one direction of a link
 *
 * A frame goes when those before it have gone.  The queue is not kept: how long
 * the wire will be busy tells how many bytes wait, as all of them go at one
 * rate.  A host's own wire has a queue without a bound, as its card takes no
 * notice of it.  A frame that is lost has used the wire.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "scale.h"

struct Wire {
    Costs wire;                 /* with the link's values */
    const Link *link;
    bool bounded;
    Ps free;
    uint64_t random;
    WireCounts counts;
};

Wire *wire_new(const Config *c, unsigned link, unsigned side)
{
    Wire *w = g_new0(Wire, 1);

    w->link = &g_array_index(c->links, Link, link);
    w->wire = c->costs;
    w->wire.wire_byte = w->link->byte;
    w->wire.delay = w->link->delay;
    w->bounded = w->link->end[side] >= c->hosts;
    w->random = (uint64_t)c->seed << 20 ^ link << 1 ^ side;
    return w;
}

void wire_free(Wire *w)
{
    g_free(w);
}

/* The bytes that the wire needs this time for. */
static uint64_t bytes_in(const Wire *w, Ps time)
{
    return w->link->byte ? (uint64_t)(time / w->link->byte) * 1000 +
           (uint64_t)(time % w->link->byte) * 1000 / w->link->byte : 0;
}

static WireFate drop(Wire *w, size_t bytes, WireFate why)
{
    w->counts.full += why == WIRE_FULL;
    w->counts.lost += why == WIRE_LOST;
    w->counts.gone += bytes;
    return why;
}

WireFate wire_take(Wire *w, int64_t now, size_t bytes, int64_t *begins,
                   int64_t *there)
{
    uint64_t waiting = bytes_in(w, MAX(0, w->free - now));
    Ps time = node_wire_time(&w->wire, bytes - sizeof(struct unetmm_frame));

    if (w->bounded && w->link->queue &&
        waiting + bytes > (uint64_t)w->link->queue) {
        return drop(w, bytes, WIRE_FULL);
    }
    w->counts.most = MAX(w->counts.most, waiting + bytes);
    w->counts.frames++;
    w->counts.bytes += bytes;
    w->counts.busy += time;
    *begins = MAX(w->free, now);
    w->free = *begins + time;
    *there = w->free + node_wire_behind(&w->wire, time);
    if (w->link->loss &&
        fake_random(&w->random) % 1000000 < (uint64_t)w->link->loss) {
        return drop(w, bytes, WIRE_LOST);
    }
    return WIRE_GOES;
}

const WireCounts *wire_counts(const Wire *w)
{
    return &w->counts;
}
