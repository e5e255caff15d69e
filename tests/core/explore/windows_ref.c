/*
 * unetmm: the windows of a reliable channel, packet by packet: the reference
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "windows_ref.h"

bool ref_waits(const Ref *r, int i)
{
    return r->p[i].request && !r->p[i].answered && !r->p[i].empty;
}

/* The oldest packet that the peer has not taken, or not answered. */
static int ref_oldest(const Ref *r)
{
    int i = r->una;

    while (i < r->cum && !ref_waits(r, i)) {
        i++;
    }
    return i;
}

void ref_sent(Ref *r, int i, bool request)
{
    if (i == r->n) {
        r->p[r->n++] = (RefPacket) { .request = request };
    }
    r->p[i].at = ++r->clock;
    r->p[i].lost = r->p[i].unplaced = false;
}

static void ref_has(Ref *r, int i)
{
    if (!r->p[i].has) {
        r->p[i].has = true;
        r->p[i].lost = false;
        r->heard = r->p[i].at > r->heard ? r->p[i].at : r->heard;
    }
}

void ref_acked(Ref *r, int cum, unsigned bits, bool news)
{
    int una = r->una, needed;

    news |= cum > r->cum;
    for (int i = r->cum; i < cum; i++) {
        ref_has(r, i);
    }
    for (int i = cum + 1; i < r->n; i++) {
        if (bits >> (i - cum - 1) & 1) {
            news |= !r->p[i].has;
            ref_has(r, i);
        }
    }
    /* A packet of which the peer says that it is missing, is. */
    r->aside = false;
    if (cum < r->n) {
        r->p[cum].has = false;
    }
    r->cum = cum;
    if (!news) {
        return;
    }
    r->una = ref_oldest(r);
    needed = r->retries || r->refusals || r->again ? 1 : 3;
    for (int i = r->una; i < r->n; i++) {
        RefPacket *p = &r->p[i];
        bool answer_missing = p->has && ref_waits(r, i) && !p->unplaced;

        if ((!p->has && r->heard - p->at >= needed) ||
            (answer_missing && r->told - p->at >= needed)) {
            p->lost = true;
        }
    }
    r->retries = 0;
    if (r->una != una) {
        r->refusals = 0;
        r->again = r->paused = false;
    }
}

void ref_set_aside(Ref *r)
{
    r->p[r->cum].has = true;
    r->p[r->cum].lost = false;
    r->aside = true;
    r->paused = false;
    r->retries = r->refusals = 0;
}

void ref_refused(Ref *r)
{
    r->refusals++;
    r->paused = true;
}

void ref_resumed(Ref *r)
{
    r->paused = false;
    r->p[r->una].lost = true;
}

void ref_rejected(Ref *r, int i)
{
    if (i == r->cum) {
        r->p[i].has = false;
        r->p[i].lost = true;
    }
}

/* Its answer is awaited no more: do others go again that stood behind it? */
static void ref_rewound(Ref *r)
{
    if (r->rewind >= 0 && !ref_waits(r, r->rewind)) {
        r->rewind = -1;
        ref_place_came(r);
    }
}

void ref_void(Ref *r, int i)
{
    r->p[i].empty = true;
    r->p[i].unplaced = false;
    r->p[i].lost = !r->p[i].has;
    ref_rewound(r);
}

void ref_answered(Ref *r, int i)
{
    RefPacket *p = &r->p[i];

    p->answered = true;
    p->lost = p->unplaced = false;
    r->told = p->at > r->told ? p->at : r->told;
    r->heard = p->at > r->heard ? p->at : r->heard;
    ref_rewound(r);
}

void ref_unplaced(Ref *r, int i)
{
    r->p[i].unplaced = true;
    r->p[i].lost = false;
    r->retries = 0;
}

void ref_rewind(Ref *r, int i)
{
    r->rewind = r->rewind < 0 || i < r->rewind ? i : r->rewind;
}

void ref_place_came(Ref *r)
{
    for (int i = 0; i < r->n; i++) {
        if (ref_waits(r, i) && (r->p[i].unplaced ||
                                (r->rewind >= 0 && i >= r->rewind))) {
            r->p[i].lost = r->again = true;
            r->p[i].unplaced = false;
        }
    }
}

void ref_timed_out(Ref *r)
{
    int una = r->una;

    r->retries++;
    if (r->p[una].has && !ref_waits(r, una)) {
        r->probe = true;
        return;
    }
    r->p[una].lost = true;
    if (r->cum < r->n && !r->p[r->cum].has) {
        r->p[r->cum].lost = true;
    }
}
