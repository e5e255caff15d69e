/*
 * unetmm: free queues that endpoints share
 *
 * An endpoint with EP_F_SHARED has a free queue, heads and their misses, and no
 * channels.  Endpoints of its space that name it take their buffers from there:
 * UnetmmEp.queue leads to it, and each function that looks for a buffer goes
 * that way.  A buffer that a message has taken is the receiving endpoint's: it
 * comes back there, filled or not.  One that cannot be used stays where it is
 * until a message takes it, as with an SRQ of InfiniBand.
 *
 * The queue's own turns fetch, ask for pages and publish; a taken buffer asks
 * for such a turn.  An endpoint whose channel has been refused for want of a
 * buffer says so once; when the first buffer is ready all of these get a turn
 * of their own, within the budget, as any other work.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "recv.h"

uint8_t unetmm_shared_check(UnetmmCore *core, uint16_t space, uint16_t id)
{
    const UnetmmEp *queue = unetmm_ep_live(core, id);

    if (!queue || queue->closing) {
        return UNETMM_CS_BAD_ID;
    }
    return queue->shared && queue->space == space ? UNETMM_CS_OK :
           UNETMM_CS_BAD_ARG;
}

/* The link that names the endpoint, or that it has to be entered at. */
static uint16_t *shared_link(UnetmmCore *core, const UnetmmEp *ep)
{
    uint16_t *link = &ep->queue->first_user;

    while (*link < ep->id) {
        link = &core->eps[*link].next_user;
    }
    return link;
}

void unetmm_shared_join(UnetmmCore *core, UnetmmEp *ep, uint16_t id)
{
    uint16_t *link;

    ep->queue = &core->eps[id];
    ep->max_heads = 0;
    link = shared_link(core, ep);
    ep->next_user = *link;
    *link = ep->id;
    ep->queue->users++;
}

void unetmm_shared_wait(UnetmmEp *ep)
{
    if (ep->queue != ep && !ep->waits_for_buffer) {
        ep->waits_for_buffer = true;
        ep->queue->waiting++;
    }
}

static void shared_wait_no_more(UnetmmEp *ep)
{
    ep->queue->waiting -= ep->waits_for_buffer;
    ep->waits_for_buffer = false;
}

static void shared_wake(UnetmmCore *core, UnetmmEp *queue)
{
    for (uint16_t i = queue->first_user; queue->waiting;
         i = core->eps[i].next_user) {
        UnetmmEp *ep = &core->eps[i];

        if (ep->waits_for_buffer) {
            shared_wait_no_more(ep);
            unetmm_ready_push(core, ep);
        }
    }
}

static bool shared_is_low(const UnetmmEp *ep)
{
    return ep->fq_prod - ep->fq_cons < ep->low;
}

void unetmm_shared_turn(UnetmmCore *core, UnetmmEp *ep)
{
    if (ep->error) {
        return;
    }
    /* Whatever makes the first buffer ready is, or asks for, such a turn. */
    if (ep->waiting && unetmm_heads_settled(ep)) {
        shared_wake(core, ep);
    }
    if (shared_is_low(ep)) {
        ep->low = 0;
        unetmm_notify_low(core, ep);
    }
}

uint8_t unetmm_low_arm(UnetmmCore *core, uint16_t id,
                       const struct unetmm_cmd_low *cmd, uint32_t *result)
{
    UnetmmEp *ep = unetmm_ep_live(core, id);

    if (!ep || ep->closing || ep->error || !ep->shared ||
        !unetmm_ep_read_user(core, ep)) {
        return UNETMM_CS_BAD_ID;
    }
    if (cmd->buffers > 1u << ep->fq_log2) {
        return UNETMM_CS_BAD_ARG;
    }
    /* A notification that was owed for the earlier mark is void. */
    ep->notify_low = false;
    ep->low = cmd->buffers;
    *result = shared_is_low(ep);
    if (*result) {
        ep->low = 0;
    }
    /* Buffers that this look has found are fetched. */
    unetmm_ready_push(core, ep);
    return UNETMM_CS_OK;
}

static void shared_ep_stop(UnetmmCore *core, UnetmmEp *ep)
{
    shared_wait_no_more(ep);
    ep->low = 0;
    ep->notify_low = false;
}

static void shared_ep_end(UnetmmCore *core, UnetmmEp *ep)
{
    if (ep->queue != ep) {
        *shared_link(core, ep) = ep->next_user;
        ep->queue->users--;
    }
}

/* ---- Saved state: behind all endpoints, one of which may be the queue ---- */

static const UnetmmField shared_fields[] = {
    UNETMM_FIELD(UnetmmEp, low),
    UNETMM_BOOLS(UnetmmEp, notify_low, waits_for_buffer),
};

static bool shared_ok(UnetmmCore *core, const UnetmmEp *ep, uint16_t of)
{
    return of ? unetmm_shared_check(core, ep->space, of) == UNETMM_CS_OK &&
                !ep->shared && !ep->slotted && !ep->posts && ep->id &&
                !ep->nheads :
           !ep->waits_for_buffer;
}

static void shared_ep_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    uint16_t of = ep->queue == ep ? 0 : ep->queue->id;

    unetmm_stream_u16(st, &of, "fq_of");
    UNETMM_STREAM_FIELDS(st, ep, shared_fields);
    if (ep->low > (ep->shared && !ep->error ? 1u << ep->fq_log2 : 0) ||
        (ep->notify_low && (!ep->shared || ep->error)) ||
        (ep->waits_for_buffer && ep->error) ||
        (unetmm_stream_reads(st) && !shared_ok(core, ep, of))) {
        unetmm_stream_refuse(st, "endpoint %u could not have a part in that "
                             "free queue", ep->id);
        ep->waits_for_buffer = false;
    }
    if (of && unetmm_stream_takes(st)) {
        unetmm_shared_join(core, ep, of);
        ep->queue->waiting += ep->waits_for_buffer;
    }
}

static void shared_save(UnetmmStream *st, UnetmmCore *core)
{
    for (uint32_t i = 0; i < core->params.endpoints && !st->wrong; i++) {
        if (core->eps[i].live) {
            unetmm_stream_enter(st, "shared", i);
            shared_ep_save(st, core, &core->eps[i]);
            unetmm_stream_leave(st);
        }
    }
}

const UnetmmModule unetmm_module_shared = {
    .name = "shared",
    .ep_stop = shared_ep_stop,
    .ep_end = shared_ep_end,
    .save = shared_save,
};
