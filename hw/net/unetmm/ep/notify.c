/*
 * unetmm: wake-ups for processes, by way of the notification ring
 *
 * An endpoint remembers that it owes a wake-up; a full ring delays it and is
 * reported by a sticky event, never loses it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../ring/ring.h"
#include "ep.h"

void unetmm_notify_want(UnetmmCore *core, UnetmmEp *ep, bool error)
{
    bool *flag = error ? &ep->notify_error : &ep->notify_cq;

    if (ep->vector) {
        unetmm_irq_want(core, UNETMM_VEC_NET);
        unetmm_count(core, ep, UNETMM_C_notifications, 1);
        return;
    }
    *flag = true;
    unetmm_list_add(&core->lists->tell, ep->id);
}

void unetmm_notify_tail(UnetmmCore *core, UnetmmEp *ep)
{
    ep->notify_tail = true;
    unetmm_list_add(&core->lists->tell, ep->id);
}

void unetmm_notify_low(UnetmmCore *core, UnetmmEp *ep)
{
    ep->notify_low = true;
    unetmm_list_add(&core->lists->tell, ep->id);
}

/* A strict channel has failed with `status`, which no send has. */
void unetmm_notify_end(UnetmmCore *core, UnetmmEp *ep, uint8_t status)
{
    ep->end_status = status;
    unetmm_list_add(&core->lists->tell, ep->id);
}

static uint32_t notify_data(const UnetmmEp *ep, uint8_t type)
{
    switch (type) {
    case UNETMM_NOTIFY_TAIL:
        return ep->tail_slot;
    case UNETMM_NOTIFY_END:
        return ep->end_status;
    default:
        return ep->cq_prod;
    }
}

static bool notify_post(UnetmmCore *core, UnetmmEp *ep, bool *flag,
                        uint8_t type)
{
    struct unetmm_notify n = {
        .type = type, .ep = ep->id, .data = notify_data(ep, type),
    };

    if (!*flag) {
        return true;
    }
    if (!unetmm_ring_post_notify(core, n)) {
        return false;
    }
    *flag = false;
    unetmm_count(core, ep, UNETMM_C_notifications, 1);
    unetmm_count(core, ep, UNETMM_C_tail_wakeups, type == UNETMM_NOTIFY_TAIL);
    trace_unetmm_notify(ep->id, type, n.data);
    return true;
}

void unetmm_notify_full(UnetmmCore *core)
{
    if (!(core->ring->events & UNETMM_EVENT_NOTIFY_FULL)) {
        core->counters[UNETMM_C_notify_waited]++;
        unetmm_event(core, UNETMM_EVENT_NOTIFY_FULL);
    }
}

/* Of free queues */
static bool notify_post_queue(UnetmmCore *core, UnetmmEp *ep)
{
    return (!ep->notify_tail && !ep->notify_low) ||
           (notify_post(core, ep, &ep->notify_tail, UNETMM_NOTIFY_TAIL) &&
            notify_post(core, ep, &ep->notify_low, UNETMM_NOTIFY_LOW));
}

static bool notify_post_end(UnetmmCore *core, UnetmmEp *ep)
{
    bool owed = ep->end_status != UNETMM_ST_OK;

    if (!notify_post(core, ep, &owed, UNETMM_NOTIFY_END)) {
        return false;
    }
    ep->end_status = UNETMM_ST_OK;
    return true;
}

/* An endpoint that has been closed since owes nothing, and leaves the list. */
static void notify_flush(UnetmmCore *core)
{
    UnetmmList *tell = &core->lists->tell;

    while (tell->used) {
        UnetmmEp *ep = &core->eps[unetmm_list_first(tell)];

        if (!notify_post(core, ep, &ep->notify_error,
                         UNETMM_NOTIFY_EP_ERROR) ||
            !notify_post(core, ep, &ep->notify_cq, UNETMM_NOTIFY_CQ) ||
            !notify_post_queue(core, ep) || !notify_post_end(core, ep)) {
            unetmm_notify_full(core);
            return;
        }
        unetmm_list_pop(tell);
    }
}

/* ---- Saved state -------------------------------------------------------- */

/* First come, first served; some owe nothing any more. */
static void notify_save(UnetmmStream *st, UnetmmCore *core)
{
    unetmm_list_save(st, &core->lists->tell, core->params.endpoints,
                     &(UnetmmListNames) {
        "tell_used", "tell", "endpoint %u is to be notified twice",
    });
}

static void notify_check(UnetmmStream *st, UnetmmCore *core)
{
    for (uint32_t i = 0; i < core->params.endpoints; i++) {
        const UnetmmEp *ep = &core->eps[i];

        if (ep->live && !core->lists->tell.has[i] &&
            (ep->notify_cq || ep->notify_error || ep->notify_tail ||
             ep->notify_low || ep->end_status)) {
            unetmm_stream_refuse(st, "endpoint %u is owed a notification that "
                                 "will not come", ep->id);
        }
    }
}

const UnetmmModule unetmm_module_notify = {
    .name = "notify",
    .flush = notify_flush,
    .save = notify_save,
    .check = notify_check,
};
