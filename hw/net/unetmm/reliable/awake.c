/*
 * unetmm: reliable channels: those of an endpoint that may have something to do
 *
 * An endpoint may have a thousand channels and use one.  So its list begins
 * with the channels that are awake, in the order of their turns; the card looks
 * at these alone, and the others rest.  Each event wakes its channel before it
 * changes it: a message, a frame, the end of a time, of a landing or of a miss.
 * Only unetmm_rel_completes() puts a channel to rest: if it has nothing to do.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "connection.h"

/* Behind the last one that is awake. */
static void list_insert(UnetmmEp *ep, UnetmmRel *rel)
{
    UnetmmRel **link = ep->rel_awake ? &ep->rel_awake->next : &ep->rels;

    rel->prev = ep->rel_awake;
    rel->next = *link;
    if (rel->next) {
        rel->next->prev = rel;
    }
    *link = rel;
}

void unetmm_rel_part(UnetmmEp *ep, UnetmmRel *rel)
{
    UnetmmRel **link = rel->prev ? &rel->prev->next : &ep->rels;

    *link = rel->next;
    if (rel->next) {
        rel->next->prev = rel->prev;
    }
    if (ep->rel_awake == rel) {
        ep->rel_awake = rel->prev;
    }
}

void unetmm_rel_join(UnetmmEp *ep, UnetmmRel *rel)
{
    list_insert(ep, rel);
    rel->awake = true;
    ep->rel_awake = rel;
}

void unetmm_rel_last(UnetmmEp *ep, UnetmmRel *rel)
{
    if (rel != ep->rel_awake) {
        unetmm_rel_part(ep, rel);
        unetmm_rel_join(ep, rel);
    }
}

void unetmm_rel_wake(UnetmmEp *ep, UnetmmRel *rel)
{
    if (rel->awake) {
        return;
    }
    if (rel->prev != ep->rel_awake) {
        unetmm_rel_part(ep, rel);
        list_insert(ep, rel);
    }
    rel->awake = true;
    ep->rel_awake = rel;
}

void unetmm_rel_rest(UnetmmEp *ep, UnetmmRel *rel)
{
    if (rel == ep->rel_awake) {
        ep->rel_awake = rel->prev;
    } else {
        unetmm_rel_part(ep, rel);
        list_insert(ep, rel);
    }
    rel->awake = false;
}
