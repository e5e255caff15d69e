/*
 * unetmm: what must hold between the parts of a card that has been restored
 *
 * Each part has been checked by itself when it was read.  Here are the rules
 * that join them, those on which the rest of the core relies without looking.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../rel/rel.h"
#include "state.h"

static bool ep_page_moving(const UnetmmEp *ep)
{
    return ep->tx.moving || ep->landing;
}

/* A stopped endpoint has let go of all but a page that is moving. */
static void check_stopped(UnetmmStream *st, const UnetmmEp *ep)
{
    if (ep->nheads || (ep->tx.state != UNETMM_TX_IDLE && !ep->tx.moving) ||
        (ep->closing && !ep_page_moving(ep))) {
        unetmm_stream_refuse(st, "endpoint %u is stopped and goes on", ep->id);
    }
}

/* Who waits for a translation has a miss, and nobody else has. */
static void check_waiting(UnetmmStream *st, UnetmmEp *ep)
{
    bool waits[UNETMM_EP_MISSES] = {
        ep->tx.blocked_on == UNETMM_BLOCKED_FAULT,
    };

    for (uint32_t i = 0; i < ep->nheads; i++) {
        const UnetmmHead *head = unetmm_head_at(ep, i);

        waits[1 + (head - ep->heads)] = head->state == UNETMM_HEAD_ASKED ||
                                        head->state == UNETMM_HEAD_DEFERRED;
    }
    /* A slot's miss is whatever it is: nobody but the next packet asks. */
    if (unetmm_ep_slotted(ep) && !ep->error) {
        waits[1] = ep->misses[1].state != UNETMM_MISS_NONE;
    }
    for (unsigned i = 0; i < UNETMM_EP_MISSES; i++) {
        if (waits[i] != (ep->misses[i].state != UNETMM_MISS_NONE)) {
            unetmm_stream_refuse(st, "endpoint %u waits for a translation "
                                 "that it did not miss, or the reverse",
                                 ep->id);
        }
    }
}

static bool joined_ok(const UnetmmCore *core, const UnetmmEp *ep,
                      const UnetmmMiss *miss)
{
    const UnetmmMiss *leader = &core->misses[miss->leader];

    return leader->state != UNETMM_MISS_NONE &&
           leader->state != UNETMM_MISS_JOINED && leader->owner &&
           leader->ep->live && leader->ep->space == ep->space &&
           leader->write == miss->write && leader->zero == miss->zero;
}

/* Nothing may be lost of a buffer that can go back meanwhile. */
static bool zero_ok(const UnetmmHead *head)
{
    return head->zero && head->state == UNETMM_HEAD_ASKED;
}

/* The head that it is for, or NULL: it is a send's, or a channel's. */
static const UnetmmHead *miss_head(const UnetmmCore *core, const UnetmmEp *ep,
                                   uint32_t number)
{
    return number < core->params.endpoints * UNETMM_EP_MISSES &&
           number % UNETMM_EP_MISSES ?
           &ep->heads[number % UNETMM_EP_MISSES - 1] : NULL;
}

/* Nobody else than a channel that goes on has misses of its own. */
static bool miss_owner_ok(const UnetmmCore *core, uint32_t number)
{
    uint32_t first = core->params.endpoints * UNETMM_EP_MISSES;
    const UnetmmEp *ep = core->misses[number].ep;

    return ep && ep->live &&
           (number < first || (!ep->error &&
            core->rels[(number - first) / UNETMM_REL_MISSES]->state ==
            UNETMM_REL_OPEN));
}

static void check_miss(UnetmmStream *st, const UnetmmCore *core,
                       uint32_t number)
{
    const UnetmmMiss *miss = &core->misses[number];
    const UnetmmHead *head;
    const UnetmmEp *ep;
    bool asks;

    if (miss->state == UNETMM_MISS_NONE) {
        return;
    }
    if (!miss_owner_ok(core, number)) {
        unetmm_stream_refuse(st, "miss %u is of no endpoint, or no channel",
                             number);
        return;
    }
    ep = miss->ep;
    head = miss_head(core, ep, number);
    /* Only a source that takes answers can be waiting for one. */
    asks = core->spaces[ep->space].source->asks;
    if (miss->write != miss->owner->write ||
        (miss->zero && !(head && zero_ok(head))) ||
        (!asks && miss->state != UNETMM_MISS_REFUSED &&
         miss->state != UNETMM_MISS_CHANGING) ||
        (asks && miss->state == UNETMM_MISS_CHANGING) ||
        (miss->state == UNETMM_MISS_WANTED && !miss->queued) ||
        (miss->state == UNETMM_MISS_JOINED && !joined_ok(core, ep, miss))) {
        unetmm_stream_refuse(st, "miss %u waits for what cannot come", number);
    }
}

static void check_misses(UnetmmStream *st, const UnetmmCore *core)
{
    uint32_t n = unetmm_misses(core);
    uint32_t flying = 0;

    for (uint32_t i = 0; i < n; i++) {
        UnetmmMissState state = core->misses[i].state;

        check_miss(st, core, i);
        flying += state == UNETMM_MISS_ASKED || state == UNETMM_MISS_DEFERRED;
    }
    /* Each of the list is in flight, and none twice: so all are in it. */
    if (flying != core->in_flight_used ||
        core->misses_asked > core->params.max_faults) {
        unetmm_stream_refuse(st, "the misses in flight are not those asked");
    }
}

/* Does each of its parts that is to move wait for a page that moves? */
static bool moved_ok(const UnetmmCore *core, uint32_t number)
{
    const UnetmmMoved *m = core->regions[number].moved;

    for (unsigned i = 0; m && i < UNETMM_REDIRECTS; i++) {
        const UnetmmRedirect *r = &m->redirects[i];

        if (r->waits && !unetmm_region_moving_in(core, number, r->first,
                                                 r->last)) {
            return false;
        }
    }
    return true;
}

/* Each region that is being cleared waits for a page, and that for its end. */
static void check_clearing(UnetmmStream *st, UnetmmCore *core)
{
    for (uint32_t i = 0; i < core->params.regions; i++) {
        if ((core->regions[i].clearing && !unetmm_region_moving(core, i)) ||
            !moved_ok(core, i)) {
            unetmm_stream_refuse(st, "region %u waits for a page that does "
                                 "not move", i);
        }
    }
}

void unetmm_state_check(UnetmmStream *st, UnetmmCore *core)
{
    check_clearing(st, core);
    for (uint32_t i = 0; i < core->params.endpoints; i++) {
        UnetmmEp *ep = &core->eps[i];

        if (!ep->live) {
            continue;
        }
        if (ep->error) {
            check_stopped(st, ep);
        }
        if ((ep->notify_cq || ep->notify_error || ep->notify_tail) &&
            !ep->telling) {
            unetmm_stream_refuse(st, "endpoint %u is owed a notification that "
                                 "will not come", ep->id);
        }
        check_waiting(st, ep);
    }
    check_misses(st, core);
    if (!unetmm_tlb_consistent(&core->tlb) ||
        !unetmm_tlb_consistent(&core->cache)) {
        unetmm_stream_refuse(st, "a translation is where it cannot be found, "
                             "there twice, or kept for nobody");
    }
}
