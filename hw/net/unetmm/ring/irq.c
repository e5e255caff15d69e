/*
 * unetmm: sticky events, interrupts and their moderation
 *
 * An interrupt is wanted when something is written for the driver and sent when
 * the engine leaves, so that one run costs at most one message a vector.  With
 * moderation the next one waits until its time; it is never lost.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "ring.h"

void unetmm_event(UnetmmCore *core, uint32_t events)
{
    core->events |= events;
    trace_unetmm_event(events, core->events);
    if (events & core->event_mask) {
        unetmm_irq_want(core, UNETMM_VEC_EVENT);
    }
}

void unetmm_core_fatal(UnetmmCore *core)
{
    if (!(core->status & UNETMM_STATUS_FATAL)) {
        core->status |= UNETMM_STATUS_FATAL;
        unetmm_event(core, UNETMM_EVENT_FATAL);
    }
}

void unetmm_irq_want(UnetmmCore *core, unsigned vector)
{
    core->vectors[vector].pending = true;
    /* Also from inside of unetmm_irq_flush(), behind this vector's turn. */
    core->vectors_wait = true;
}

static uint32_t irq_moderation(const UnetmmCore *core, unsigned vector)
{
    /* VEC_NET's handler arms it anew: that is moderation enough. */
    static const unsigned ring[UNETMM_NUM_VECTORS - 1] = {
        [UNETMM_VEC_EVENT] = UNETMM_RING_CMDC,
        [UNETMM_VEC_FAULT] = UNETMM_RING_FAULT,
        [UNETMM_VEC_NOTIFY] = UNETMM_RING_NOTIFY,
    };

    return vector == UNETMM_VEC_NET ? 0 :
           core->rings[ring[vector]].moderate_ns;
}

void unetmm_irq_flush(UnetmmCore *core)
{
    core->vectors_wait = false;
    for (unsigned i = 0; i < UNETMM_NUM_VECTORS; i++) {
        UnetmmVector *v = &core->vectors[i];
        uint32_t least = irq_moderation(core, i);

        if (!v->pending) {
            continue;
        }
        if (least) {
            int64_t now = core->ops->now_ns(core->host);

            if (now < v->not_before_ns) {
                core->vectors_wait = true;
                continue;
            }
            v->not_before_ns = now + least;
        }
        v->pending = false;
        core->counters[UNETMM_C_interrupts]++;
        trace_unetmm_interrupt(i);
        core->ops->interrupt(core->host, i);
    }
}

/* Looked at behind a flush: when the next moderated interrupt is due. */
static int64_t irq_deadline(const UnetmmCore *core)
{
    int64_t when = INT64_MAX;

    for (unsigned i = 0; core->vectors_wait && i < UNETMM_NUM_VECTORS; i++) {
        if (core->vectors[i].pending) {
            when = MIN(when, core->vectors[i].not_before_ns);
        }
    }
    return when;
}

static void irq_save(UnetmmStream *st, UnetmmCore *core)
{
    int64_t now = core->ops->now_ns(core->host);

    for (unsigned i = 0; i < UNETMM_NUM_VECTORS; i++) {
        UnetmmVector *v = &core->vectors[i];

        unetmm_stream_enter(st, "vector", i);
        unetmm_stream_bool(st, &v->pending, "pending");
        unetmm_stream_time(st, &v->not_before_ns, now, UINT32_MAX,
                           "not_before_ns");
        unetmm_stream_leave(st);
    }
}

static void irq_reset(UnetmmCore *core)
{
    memset(core->vectors, 0, sizeof(core->vectors));
}

const UnetmmModule unetmm_module_irq = {
    .name = "irq",
    .reset = irq_reset,
    .deadline = irq_deadline,
    .save = irq_save,
};
