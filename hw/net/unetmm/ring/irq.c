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
    core->ring->events |= events;
    trace_unetmm_event(events, core->ring->events);
    if (events & core->ring->event_mask) {
        unetmm_irq_want(core, UNETMM_VEC_EVENT);
    }
}

void unetmm_events_clear(UnetmmCore *core, uint32_t events)
{
    core->ring->events &= ~events;
    /* Events still pending must not wait for the next one. */
    if (core->ring->events & core->ring->event_mask) {
        unetmm_irq_want(core, UNETMM_VEC_EVENT);
    }
}

void unetmm_events_mask(UnetmmCore *core, uint32_t mask)
{
    core->ring->event_mask = mask & UNETMM_EVENT_ALL;
    unetmm_events_clear(core, 0);
}

void unetmm_core_fatal(UnetmmCore *core)
{
    if (!(core->engine.status & UNETMM_STATUS_FATAL)) {
        core->engine.status |= UNETMM_STATUS_FATAL;
        unetmm_event(core, UNETMM_EVENT_FATAL);
    }
}

void unetmm_irq_want(UnetmmCore *core, unsigned vector)
{
    core->ring->vectors[vector].pending = true;
    /* Also from inside of unetmm_irq_flush(), behind this vector's turn. */
    core->ring->vectors_wait = true;
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
           core->ring->all[ring[vector]].moderate_ns;
}

void unetmm_irq_flush(UnetmmCore *core)
{
    UnetmmRings *r = core->ring;

    r->vectors_wait = false;
    for (unsigned i = 0; i < UNETMM_NUM_VECTORS; i++) {
        UnetmmVector *v = &r->vectors[i];
        uint32_t least;

        if (!v->pending) {
            continue;
        }
        least = irq_moderation(core, i);
        if (least) {
            int64_t now = core->ops->now_ns(core->host);

            if (now < v->not_before_ns) {
                r->vectors_wait = true;
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
    const UnetmmRings *r = core->ring;
    int64_t when = INT64_MAX;

    for (unsigned i = 0; r->vectors_wait && i < UNETMM_NUM_VECTORS; i++) {
        if (r->vectors[i].pending) {
            when = MIN(when, r->vectors[i].not_before_ns);
        }
    }
    return when;
}

static const UnetmmField vector_fields[] = {
    UNETMM_FIELD_BOOL(UnetmmVector, pending),
    UNETMM_FIELD_TIME(UnetmmVector, not_before_ns, UINT32_MAX),
};

static void vector_save(UnetmmStream *st, UnetmmCore *core, uint32_t i)
{
    UNETMM_STREAM_FIELDS(st, &core->ring->vectors[i], vector_fields);
}

static void irq_save(UnetmmStream *st, UnetmmCore *core)
{
    unetmm_stream_each(st, core, "vector", UNETMM_NUM_VECTORS, vector_save);
}

const UnetmmModule unetmm_module_irq = {
    .name = "irq",
    .deadline = irq_deadline,
    .save = irq_save,
};
