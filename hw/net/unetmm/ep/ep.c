/*
 * unetmm: endpoints: creation, indices, completions, arming, the end
 *
 * What a process writes (struct unetmm_ep_user) is read once a turn into a copy
 * that is checked; a forged index stops that endpoint alone.  What the card
 * writes goes out in unetmm_ep_sync(), which then looks at the process's words
 * once more behind a full barrier: that look is what makes arming, and a
 * completion queue that was full, free of lost wake-ups.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../card/core.h"
#include "../abi/unetmm_le.h"

UnetmmEp *unetmm_ep_live(UnetmmCore *core, uint32_t id)
{
    if (id >= core->params.endpoints || !core->eps[id].live) {
        return NULL;
    }
    return &core->eps[id];
}

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

/*
 * Endpoint 0 and space 0 are the driver's and go together; in space 0 there are
 * raw ones besides, which alone may have a vector.
 */
static bool ep_place_ok(const UnetmmCore *core, uint16_t id, uint16_t space,
                        const struct unetmm_cmd_ep *cmd)
{
    bool raw = cmd->flags & UNETMM_EP_F_RAW;

    if (cmd->flags & ~UNETMM_EP_F_ALL || (raw && !core->params.flows) ||
        (cmd->flags & UNETMM_EP_F_VECTOR && (!raw || space))) {
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

uint8_t unetmm_ep_setup(UnetmmCore *core, uint16_t id, uint16_t space,
                        const struct unetmm_cmd_ep *cmd)
{
    uint32_t generation;
    bool queued, telling;
    UnetmmEp *ep;

    if (id >= core->params.endpoints || space >= core->params.spaces ||
        !core->spaces[space].live) {
        return UNETMM_CS_BAD_ID;
    }
    ep = &core->eps[id];
    if (ep->live) {
        return UNETMM_CS_EXISTS;
    }
    if (!ep_place_ok(core, id, space, cmd) || !ep_args_ok(core, cmd) ||
        !ep_policy_ok(core, space, cmd) ||
        core->spaces[space].source->driver_posts != !!cmd->posts) {
        return UNETMM_CS_BAD_ARG;
    }
    generation = ep->generation;
    /* The lists may still have the old one. */
    queued = ep->queued;
    telling = ep->telling;
    memset(ep, 0, sizeof(*ep));
    ep->queued = queued;
    ep->telling = telling;
    ep->live = true;
    ep->id = id;
    ep->space = space;
    ep->generation = generation + 1;
    ep->misses = &core->misses[id * UNETMM_EP_MISSES];
    ep->policy = unetmm_policy_by_id(core, cmd->policy);
    ep->raw = cmd->flags & UNETMM_EP_F_RAW;
    ep->vector = cmd->flags & UNETMM_EP_F_VECTOR;
    ep->slotted = ep->raw || cmd->backup;
    ep->sq_base = cmd->sq_base;
    ep->fq_base = cmd->fq_base;
    ep->cq_base = cmd->cq_base;
    ep->index = cmd->index;
    ep->posts = cmd->posts;
    ep->sq_log2 = cmd->sq_log2;
    ep->fq_log2 = cmd->fq_log2;
    ep->cq_log2 = cmd->cq_log2;
    /* Slots are looked at when they are used, and no sooner. */
    ep->max_heads = unetmm_ep_slotted(ep) ? 0 :
                    cmd->pretranslate ?: core->params.pretranslate;
    unetmm_send_own_misses(ep);
    unetmm_head_own_misses(ep);
    if (unetmm_ep_slotted(ep)) {
        core->tables->slots->begin(ep);
    }
    ep->bm_size = cmd->backup;
    ep->channels = g_new0(UnetmmChannel, core->params.channels);
    unetmm_modules_ep_begin(core, ep);
    unetmm_space_join(core, ep);
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
    unetmm_modules_ep_end(core, ep);
    g_clear_pointer(&ep->channels, g_free);
    unetmm_space_part(core, ep);
    trace_unetmm_ep_destroy(ep->id);
}

static bool ep_page_moving(const UnetmmCore *core, const UnetmmEp *ep)
{
    return ep->tx.moving ||
           (core->rx.active && core->rx.moving && core->rx.ep == ep->id &&
            core->rx.generation == ep->generation);
}

/* Nothing of it happens any more, but for a page that is moving. */
static void ep_stop(UnetmmCore *core, UnetmmEp *ep)
{
    ep->error = true;
    unetmm_head_cancel_all(core, ep);
    unetmm_miss_cancel(core, &ep->misses[0]);
    unetmm_modules_ep_stop(core, ep);
}

uint8_t unetmm_ep_destroy(UnetmmCore *core, uint16_t id, uint16_t tag,
                          bool *wait)
{
    UnetmmEp *ep = unetmm_ep_live(core, id);

    *wait = false;
    if (!ep || ep->closing) {
        return UNETMM_CS_BAD_ID;
    }
    ep->closing = true;
    ep_stop(core, ep);
    unetmm_modules_ep_close(core, ep);
    ep->notify_cq = ep->notify_error = ep->notify_tail = false;
    unetmm_send_abort(core, ep);
    if (ep_page_moving(core, ep)) {
        ep->close_tag = tag;
        core->closing++;
        *wait = true;
        return UNETMM_CS_OK;
    }
    ep_finish(core, ep);
    return UNETMM_CS_OK;
}

/* A page has landed: is this the end that EP_DESTROY waits for? */
void unetmm_ep_close_check(UnetmmCore *core, UnetmmEp *ep)
{
    if (ep->closing && !ep_page_moving(core, ep)) {
        unetmm_send_abort(core, ep);
        ep_finish(core, ep);
        unetmm_cmd_done_late(core, ep->close_tag, UNETMM_CMD_EP_DESTROY,
                             UNETMM_CS_OK, 0);
    }
}

/* Stops an endpoint for good; only its owner is told, and the driver. */
void unetmm_ep_fail(UnetmmCore *core, UnetmmEp *ep, uint8_t status)
{
    if (ep->error) {
        return;
    }
    ep->failed_cqe = true;
    ep->fail_status = status;
    ep->publish = true;
    ep_stop(core, ep);
    unetmm_send_abort(core, ep);
    unetmm_notify_want(core, ep, true);
    unetmm_event(core, UNETMM_EVENT_EP_ERROR);
    UNETMM_GUEST_ERR(endpoint, "endpoint %u stopped, status %u", ep->id,
                     status);
    unetmm_engine_queue(core, ep);
}

uint32_t unetmm_ep_cq_room(const UnetmmEp *ep)
{
    return (1u << ep->cq_log2) - (ep->cq_prod - ep->cq_cons);
}

/*
 * Places that are nobody's yet: a send in progress and a message that is
 * landing have a right to one each.
 */
uint32_t unetmm_ep_cq_spare(const UnetmmEp *ep)
{
    bool sends = ep->tx.state != UNETMM_TX_IDLE && !ep->tx.rel;
    uint32_t kept = sends + ep->landing;
    uint32_t room = unetmm_ep_cq_room(ep);

    return room > kept ? room - kept : 0;
}

/*
 * x-lie: the driver is told something else than what has happened.  Not in the
 * phase, without which it would be told nothing.
 */
static void ep_lie(UnetmmCore *core, const UnetmmEp *ep,
                   struct unetmm_cqe *cqe)
{
    const uint32_t head = 8 * offsetof(struct unetmm_cqe, data);
    uint8_t *bytes = (uint8_t *)cqe;
    uint32_t bit;

    if (ep->space || !unetmm_chance(core, core->knobs.lie)) {
        return;
    }
    bit = unetmm_random(core) % (head + 31);
    if (bit >= head) {
        bit += 8 * offsetof(struct unetmm_cqe, flags) - head + 1;
    }
    bytes[bit / 8] ^= 1 << bit % 8;
    core->counters[UNETMM_C_inj_lie]++;
}

/* Writes a completion.  False: no room, or the bus refused (then failed). */
bool unetmm_ep_complete(UnetmmCore *core, UnetmmEp *ep,
                        struct unetmm_cqe *cqe)
{
    uint32_t slot = ep->cq_prod & ((1u << ep->cq_log2) - 1);

    if (!unetmm_ep_cq_room(ep)) {
        return false;
    }
    cqe->flags |= UNETMM_PHASE_OF(ep->cq_prod, ep->cq_log2);
    trace_unetmm_complete(ep->id, cqe->opcode, cqe->status, cqe->cookie,
                          cqe->len);
    unetmm_le_cqe(cqe);
    ep_lie(core, ep, cqe);
    if (!unetmm_dma_post(core, ep, ep->cq_base + slot * sizeof(*cqe), cqe,
                         sizeof(*cqe))) {
        unetmm_ep_fail(core, ep, UNETMM_ST_DMA);
        return false;
    }
    unetmm_charge(core, 0, UNETMM_LEAST_BYTES);
    ep->cq_prod++;
    ep->publish = true;
    return true;
}

/*
 * The words of whoever posts, and of whoever takes completions: one process, or
 * the driver on its behalf and the process.
 */
static bool ep_fetch_user(UnetmmCore *core, UnetmmEp *ep,
                          struct unetmm_ep_user *user)
{
    return unetmm_dma_read(core, ep, ep->index, user,
                           offsetof(struct unetmm_ep_user, rsvd)) &&
           (!ep->posts ||
            unetmm_dma_read(core, ep, ep->posts, user,
                            offsetof(struct unetmm_ep_user, cq_cons)));
}

/* Reads the process's words into the endpoint.  False: stopped. */
bool unetmm_ep_read_user(UnetmmCore *core, UnetmmEp *ep)
{
    struct unetmm_ep_user user;

    if (!ep_fetch_user(core, ep, &user)) {
        unetmm_ep_fail(core, ep, UNETMM_ST_DMA);
        return false;
    }
    unetmm_le_user(&user);
    if (user.sq_prod - ep->sq_cons > 1u << ep->sq_log2 ||
        user.fq_prod - ep->fq_cons > 1u << ep->fq_log2 ||
        ep->cq_prod - user.cq_cons > ep->cq_prod - ep->cq_cons) {
        unetmm_count(core, ep, UNETMM_C_err_index, 1);
        UNETMM_GUEST_ERR(index, "endpoint %u: index forged: sq 0x%x fq 0x%x "
                         "cq 0x%x", ep->id, user.sq_prod, user.fq_prod,
                         user.cq_cons);
        unetmm_ep_fail(core, ep, UNETMM_ST_BAD_INDEX);
        return false;
    }
    /* What the indices cover is read after them. */
    smp_rmb();
    ep->sq_prod = user.sq_prod;
    ep->fq_prod = user.fq_prod;
    ep->cq_cons = user.cq_cons;
    ep->arm = user.cq_arm;
    for (unsigned i = 0; ep->tail_armed && core->hooks.posted[i]; i++) {
        core->hooks.posted[i](core, ep);
    }
    return true;
}

/* Do completions of slots that have waited for others wait for room? */
static bool ep_slot_completes(const UnetmmCore *core, const UnetmmEp *ep)
{
    for (unsigned i = 0; core->hooks.completes[i]; i++) {
        if (core->hooks.completes[i](ep)) {
            return true;
        }
    }
    return false;
}

static inline bool ep_completes(const UnetmmCore *core, const UnetmmEp *ep)
{
    return ep->head_offset && ep_slot_completes(core, ep);
}

static uint32_t ep_state(const UnetmmCore *core, const UnetmmEp *ep)
{
    if (ep->error) {
        return UNETMM_EP_ERROR;
    }
    /* The one place that there is may be kept for a send. */
    return UNETMM_EP_RUNNING |
           (!unetmm_ep_cq_room(ep) || ep_completes(core, ep) ?
            UNETMM_EP_CQ_BLOCKED : 0) |
           (ep->tail_armed ? UNETMM_EP_FQ_AWAITED : 0);
}

static bool ep_show(UnetmmCore *core, UnetmmEp *ep, uint64_t index,
                    const struct unetmm_ep_card *card)
{
    return unetmm_dma_write(core, ep, index +
                            offsetof(struct unetmm_ep_index, card), card,
                            offsetof(struct unetmm_ep_card, rsvd));
}

static void ep_publish(UnetmmCore *core, UnetmmEp *ep)
{
    struct unetmm_ep_card card = {
        .sq_cons = ep->sq_cons, .fq_cons = ep->fq_cons,
        .cq_prod = ep->cq_prod, .state = ep_state(core, ep),
    };

    ep->publish = false;
    ep->state_shown = card.state;
    unetmm_le_card(&card);
    /* The driver first: what the process sees free it may post again. */
    if ((ep->posts && !ep_show(core, ep, ep->posts, &card)) ||
        !ep_show(core, ep, ep->index, &card)) {
        unetmm_ep_fail(core, ep, UNETMM_ST_DMA);
    }
}

static void ep_check_arm(UnetmmCore *core, UnetmmEp *ep)
{
    uint32_t ahead = (ep->cq_prod - ep->arm) & UNETMM_ARM_COUNT;

    /* Exceeded: ahead by 1 .. 2^30 - 1, modulo 2^31. */
    if (!(ep->arm & UNETMM_ARM) || ahead == 0 ||
        ahead > UNETMM_ARM_COUNT / 2) {
        /* The same word may come again when the count has gone round. */
        ep->arm_done = 0;
    } else if (ep->arm != ep->arm_done) {
        ep->arm_done = ep->arm;
        unetmm_notify_want(core, ep, false);
    }
}

static bool ep_has_work(UnetmmCore *core, UnetmmEp *ep)
{
    /* It could not be returned before the completion queue had room. */
    if (ep->nheads && unetmm_ep_cq_spare(ep) &&
        unetmm_head_at(ep, 0)->state == UNETMM_HEAD_FAILED && !ep->landing) {
        return true;
    }
    if (ep->nheads < ep->max_heads &&
        ep->fq_cons + ep->nheads != ep->fq_prod) {
        return true;
    }
    if ((ep->ends_owed || ep_completes(core, ep)) &&
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

/* Of a stopped endpoint's words only the completions taken still count. */
static void ep_look_for_room(UnetmmCore *core, UnetmmEp *ep)
{
    uint64_t at = ep->index + offsetof(struct unetmm_ep_user, cq_cons);
    uint32_t cons;

    if (unetmm_dma_read(core, ep, at, &cons, sizeof(cons))) {
        unetmm_le_u32(&cons);
        if (ep->cq_prod - cons <= ep->cq_prod - ep->cq_cons) {
            ep->cq_cons = cons;
        }
    }
}

static void ep_sync_failed(UnetmmCore *core, UnetmmEp *ep)
{
    struct unetmm_cqe cqe = {
        .opcode = UNETMM_CQE_FAILED, .status = ep->fail_status,
    };

    if (ep->failed_cqe && !unetmm_ep_cq_room(ep)) {
        ep_look_for_room(core, ep);
    }
    if (ep->failed_cqe && unetmm_ep_cq_room(ep)) {
        ep->failed_cqe = false;
        unetmm_ep_complete(core, ep, &cqe);
    }
    if (ep->publish) {
        ep_publish(core, ep);
    }
}

/* Publishes, looks again, wakes, and queues the endpoint if it has work. */
void unetmm_ep_sync(UnetmmCore *core, UnetmmEp *ep)
{
    if (ep->error) {
        ep_sync_failed(core, ep);
        return;
    }
    if (ep->publish) {
        ep_publish(core, ep);
    }
    /* Pairs with the process's barrier between arming and looking again. */
    smp_mb();
    if (!unetmm_ep_read_user(core, ep)) {
        return;
    }
    ep_check_arm(core, ep);
    if (ep_state(core, ep) != ep->state_shown) {
        ep_publish(core, ep);
    }
    /* A landing message's place is not room; it is given back by its end. */
    if (ep->tx.blocked_on == UNETMM_BLOCKED_CQ &&
        unetmm_ep_cq_room(ep) > ep->landing) {
        ep->tx.blocked_on = UNETMM_BLOCKED_NOT;
    }
    if (ep_has_work(core, ep)) {
        unetmm_engine_queue(core, ep);
    }
}

void unetmm_ep_turn(UnetmmCore *core, UnetmmEp *ep)
{
    if (!ep->live) {
        return;
    }
    if (!ep->error && unetmm_ep_read_user(core, ep)) {
        unetmm_head_fetch(core, ep);
        for (unsigned i = 0; core->hooks.turn[i]; i++) {
            core->hooks.turn[i](core, ep);
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
        UnetmmEp *ep = &core->eps[(core->wire_turn + i) % n];

        if (ep->live && ep->tx.blocked_on == UNETMM_BLOCKED_WIRE) {
            ep->tx.blocked_on = UNETMM_BLOCKED_NOT;
            unetmm_engine_queue(core, ep);
        }
    }
}

/* x-dma-page-ns: the pages that sends move. */
static int64_t ep_deadline(const UnetmmCore *core)
{
    int64_t when = INT64_MAX;

    for (uint32_t i = 0; core->params.dma_page_ns &&
         i < core->params.endpoints; i++) {
        const UnetmmEp *ep = &core->eps[i];

        if (ep->live && ep->tx.moving) {
            when = MIN(when, ep->tx.deadline_ns);
        }
    }
    return when;
}

static void ep_due(UnetmmCore *core, int64_t now)
{
    for (uint32_t i = 0; core->params.dma_page_ns &&
         i < core->params.endpoints; i++) {
        UnetmmEp *ep = &core->eps[i];

        if (ep->live && ep->tx.moving && ep->tx.deadline_ns <= now) {
            unetmm_send_landed(core, ep);
        }
    }
}

static void ep_create(UnetmmCore *core)
{
    core->eps = g_new0(UnetmmEp, core->params.endpoints);
}

/* What other modules have of an endpoint they have freed already. */
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
    .pages_lost = unetmm_head_lost_page,
    .deadline = ep_deadline,
    .deadline_of_pages = true,
    .due = ep_due,
    .save = unetmm_eps_save,
    .check = unetmm_eps_check,
    .save_limit = eps_save_limit,
};
