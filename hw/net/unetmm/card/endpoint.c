/*
 * unetmm: the life of endpoints: creation, turns, the end
 *
 * An endpoint has something of every room, from its queues to its reliable
 * channels; here the rooms come together.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../channel/channel.h"
#include "../port/port.h"
#include "../recv/recv.h"
#include "../ring/ring.h"
#include "../send/send.h"
#include "core.h"

static bool ep_log2_ok(uint8_t log2)
{
    return log2 >= UNETMM_MIN_RING_LOG2 && log2 <= UNETMM_MAX_RING_LOG2;
}

static bool ep_args_ok(const UnetmmCore *core, const struct unetmm_cmd_ep *cmd)
{
    return ep_log2_ok(cmd->sq_log2) && ep_log2_ok(cmd->fq_log2) &&
           ep_log2_ok(cmd->cq_log2) &&
           unetmm_policy_by_id(core, cmd->policy) &&
           cmd->pretranslate <= core->params.pretranslate &&
           cmd->sq_base % UNETMM_SLOT_BYTES == 0 &&
           cmd->fq_base % sizeof(struct unetmm_fqe) == 0 &&
           cmd->cq_base % sizeof(struct unetmm_cqe) == 0 &&
           cmd->index % sizeof(struct unetmm_ep_index) == 0 &&
           cmd->posts % sizeof(struct unetmm_ep_index) == 0;
}

/* Is it one or the other side of a shared queue, or none? */
static bool ep_queue_ok(uint16_t id, const struct unetmm_cmd_ep *cmd)
{
    bool shared = cmd->flags & UNETMM_EP_F_SHARED;

    return (!shared && !cmd->fq_of) ||
           (id && !(cmd->flags & UNETMM_EP_F_RAW) && !cmd->backup &&
            !cmd->posts && (shared ? !cmd->fq_of : !cmd->pretranslate));
}

/*
 * Endpoint 0 and space 0 are the driver's and go together; in space 0 there are
 * raw ones besides, which alone may have a vector.
 */
static bool ep_place_ok(const UnetmmCore *core, uint16_t id, uint16_t space,
                        const struct unetmm_cmd_ep *cmd)
{
    bool raw = cmd->flags & UNETMM_EP_F_RAW;

    if (cmd->flags & ~UNETMM_EP_F_ALL || (raw && !core->params.flows) ||
        (cmd->flags & UNETMM_EP_F_VECTOR && (!raw || space)) ||
        (cmd->flags & UNETMM_EP_F_NO_INLINE && raw) ||
        (cmd->flags & UNETMM_EP_F_KEYS &&
         (raw || !space || cmd->backup || cmd->posts)) ||
        !ep_queue_ok(id, cmd)) {
        return false;
    }
    return raw ? id != 0 : (id == 0) == (space == 0);
}

/* May it be with this source, or on a raw endpoint; has it what it needs? */
static bool ep_policy_ok(const UnetmmCore *core, uint16_t space,
                         const struct unetmm_cmd_ep *cmd)
{
    const UnetmmPolicyOps *policy = unetmm_policy_by_id(core, cmd->policy);
    const UnetmmSourceOps *source = core->spaces[space].source;
    uint32_t with = source->driver_brings ? UNETMM_WITH_BROUGHT :
                    UNETMM_WITH_FIXED;

    with |= cmd->flags & UNETMM_EP_F_RAW ? UNETMM_WITH_RAW : 0;
    return unetmm_policy_allows(core, policy, with) &&
           (policy->ep_ok ? policy->ep_ok(core, cmd) : !cmd->backup);
}

static void ep_set_flags(UnetmmEp *ep, const struct unetmm_cmd_ep *cmd)
{
    ep->raw = cmd->flags & UNETMM_EP_F_RAW;
    ep->vector = cmd->flags & UNETMM_EP_F_VECTOR;
    ep->keys = cmd->flags & UNETMM_EP_F_KEYS;
    ep->no_inline = cmd->flags & UNETMM_EP_F_NO_INLINE;
    ep->shared = cmd->flags & UNETMM_EP_F_SHARED;
    ep->slotted = ep->raw || cmd->backup;
    ep->queue = ep;
    ep->first_user = UNETMM_NO_EP;
}

static uint8_t ep_check(UnetmmCore *core, uint16_t id, uint16_t space,
                        const struct unetmm_cmd_ep *cmd)
{
    if (id >= core->params.endpoints || space >= core->params.spaces ||
        !core->spaces[space].live) {
        return UNETMM_CS_BAD_ID;
    }
    if (core->eps[id].live) {
        return UNETMM_CS_EXISTS;
    }
    if (!ep_place_ok(core, id, space, cmd) || !ep_args_ok(core, cmd) ||
        !ep_policy_ok(core, space, cmd) ||
        core->spaces[space].source->driver_posts != !!cmd->posts) {
        return UNETMM_CS_BAD_ARG;
    }
    return cmd->fq_of ? unetmm_shared_check(core, space, cmd->fq_of) :
           UNETMM_CS_OK;
}

uint8_t unetmm_ep_setup(UnetmmCore *core, uint16_t id, uint16_t space,
                        const struct unetmm_cmd_ep *cmd)
{
    uint8_t status = ep_check(core, id, space, cmd);
    uint32_t generation;
    UnetmmEp *ep;

    if (status != UNETMM_CS_OK) {
        return status;
    }
    ep = &core->eps[id];
    generation = ep->generation;
    memset(ep, 0, sizeof(*ep));
    ep->live = true;
    ep->id = id;
    ep->space = space;
    ep->generation = generation + 1;
    ep->misses = &core->miss->all[id * UNETMM_EP_MISSES];
    ep->policy = unetmm_policy_by_id(core, cmd->policy);
    ep_set_flags(ep, cmd);
    ep->sq_base = cmd->sq_base;
    ep->fq_base = cmd->fq_base;
    ep->cq_base = cmd->cq_base;
    ep->index = cmd->index;
    ep->posts = cmd->posts;
    ep->pd = cmd->pd;
    ep->sq_log2 = cmd->sq_log2;
    ep->fq_log2 = cmd->fq_log2;
    ep->cq_log2 = cmd->cq_log2;
    /* Slots are looked at when they are used, and no sooner. */
    ep->max_heads = unetmm_ep_slotted(ep) ? 0 :
                    cmd->pretranslate ?: core->params.pretranslate;
    unetmm_send_own_misses(ep);
    unetmm_head_begin(core, ep);
    if (unetmm_ep_slotted(ep)) {
        core->tables->slots->begin(ep);
    }
    ep->bm_size = cmd->backup;
    ep->channels = g_new0(UnetmmChannel, core->params.channels);
    if (cmd->fq_of) {
        unetmm_shared_join(core, ep, cmd->fq_of);
    }
    unetmm_modules_ep_begin(&core->modules, core, ep);
    unetmm_ep_join(core, ep);
    trace_unetmm_ep_create(id, space, ep->policy->name);
    return UNETMM_CS_OK;
}

uint8_t unetmm_ep_create(UnetmmCore *core, uint16_t id, uint16_t space,
                         const struct unetmm_cmd_ep *cmd)
{
    uint8_t status = unetmm_ep_setup(core, id, space, cmd);

    if (status == UNETMM_CS_OK) {
        core->eps[id].publish = true;
        unetmm_ep_sync(core, &core->eps[id]);
    }
    return status;
}

static void ep_finish(UnetmmCore *core, UnetmmEp *ep)
{
    ep->live = false;
    ep->closing = false;
    unetmm_modules_ep_end(&core->modules, core, ep);
    g_clear_pointer(&ep->channels, g_free);
    unetmm_ep_part(core, ep);
    trace_unetmm_ep_destroy(ep->id);
}

static bool ep_page_moving(const UnetmmCore *core, const UnetmmEp *ep)
{
    return ep->tx.moving ||
           (core->landing->active && core->landing->moving &&
            core->landing->ep == ep->id &&
            core->landing->generation == ep->generation);
}

uint8_t unetmm_ep_destroy(UnetmmCore *core, uint16_t id, uint16_t tag,
                          bool *wait)
{
    UnetmmEp *ep = unetmm_ep_live(core, id);

    *wait = false;
    if (!ep || ep->closing) {
        return UNETMM_CS_BAD_ID;
    }
    if (ep->users) {
        return UNETMM_CS_BUSY;
    }
    ep->closing = true;
    unetmm_ep_stop(core, ep);
    unetmm_modules_ep_close(&core->modules, core, ep);
    ep->notify_cq = ep->notify_error = ep->notify_tail = false;
    ep->end_status = UNETMM_ST_OK;
    if (ep_page_moving(core, ep)) {
        ep->close_tag = tag;
        unetmm_cmd_later(core);
        *wait = true;
        return UNETMM_CS_OK;
    }
    ep_finish(core, ep);
    return UNETMM_CS_OK;
}

/* A page has landed: is this the end that EP_DESTROY waits for? */
static void ep_landed(UnetmmCore *core, UnetmmEp *ep)
{
    if (ep->closing && !ep_page_moving(core, ep)) {
        unetmm_send_abort(core, ep);
        ep_finish(core, ep);
        unetmm_cmd_done_late(core, ep->close_tag, UNETMM_CMD_EP_DESTROY,
                             UNETMM_CS_OK, 0);
    }
}

static bool ep_has_work(UnetmmCore *core, UnetmmEp *ep)
{
    /* A failed buffer waits until the completion queue has room. */
    if (unetmm_head_to_return(ep) && unetmm_ep_cq_spare(ep)) {
        return true;
    }
    if (unetmm_heads_wanted(ep) ||
        (ep->flushing && unetmm_heads_flush_due(ep))) {
        return true;
    }
    if (((ep->ends_owed && unetmm_channel_tells(core, ep)) ||
         unetmm_ep_completes(core, ep)) &&
        unetmm_ep_cq_spare(ep)) {
        return true;
    }
    /* The budget may have left some, whatever the next send waits for. */
    if (ep->rels && ep->rel_ops->completes(core, ep)) {
        return true;
    }
    if (ep->tx.blocked_on != UNETMM_BLOCKED_NOT) {
        return false;
    }
    return ep->tx.state != UNETMM_TX_IDLE ||
           (ep->sq_prod != ep->sq_cons && !ep->sq_waits) ||
           (ep->rels && ep->rel_ops->has_work(core, ep));
}

void unetmm_ep_turn(UnetmmCore *core, UnetmmEp *ep)
{
    if (!ep->live) {
        return;
    }
    if (!ep->error && unetmm_ep_read_user(core, ep)) {
        unetmm_head_fetch(core, ep);
        if (ep->shared) {
            unetmm_shared_turn(core, ep);
        }
        for (unsigned i = 0; core->modules.turn[i]; i++) {
            core->modules.turn[i](core, ep);
        }
        if (ep->ends_owed) {
            unetmm_channel_tell(core, ep);
        }
        unetmm_send_turn(core, ep);
    }
    unetmm_ep_sync(core, ep);
}

/*
 * There may be room for one frame only: the endpoint that sent the last one
 * comes last.
 */
void unetmm_ep_wire_room(UnetmmCore *core)
{
    uint32_t n = core->params.endpoints;

    for (uint32_t i = 0; i < n; i++) {
        UnetmmEp *ep = &core->eps[(core->port->wire_turn + i) % n];

        if (ep->live && ep->tx.blocked_on == UNETMM_BLOCKED_WIRE) {
            ep->tx.blocked_on = UNETMM_BLOCKED_NOT;
            unetmm_ready_push(core, ep);
        }
    }
}

const UnetmmEpOps unetmm_ep_ops = {
    .has_work = ep_has_work,
    .landed = ep_landed,
};

static void ep_create(UnetmmCore *core)
{
    core->eps = g_new0(UnetmmEp, core->params.endpoints);
}

/* Other modules have freed their parts of the endpoint already. */
static void ep_reset(UnetmmCore *core)
{
    for (uint32_t i = 0; i < core->params.endpoints; i++) {
        UnetmmEp *ep = &core->eps[i];
        uint32_t generation = ep->generation;

        if (!ep->live) {
            continue;
        }
        if (ep->tx.state != UNETMM_TX_IDLE) {
            core->counters[UNETMM_C_drop_reset]++;
        }
        unetmm_port_release(core, ep->tx.frame);
        g_free(ep->channels);
        memset(ep, 0, sizeof(*ep));
        ep->generation = generation;
    }
}

static void ep_free(UnetmmCore *core)
{
    g_clear_pointer(&core->eps, g_free);
}

static uint64_t eps_save_limit(const UnetmmCore *core)
{
    const UnetmmParams *p = &core->params;

    return p->endpoints * (UNETMM_SAVED_FRAME + 4096 +
                           UNETMM_NUM_COUNTERS * 8 + p->channels * 32ull);
}

const UnetmmModule unetmm_module_ep = {
    .name = "ep",
    .create = ep_create,
    .reset = ep_reset,
    .free = ep_free,
    .save = unetmm_eps_save,
    .check = unetmm_eps_check,
    .save_limit = eps_save_limit,
};
