/*
 * unetmm: endpoints: indices, completions, arming, failure
 *
 * The process's words (struct unetmm_ep_user) are read once a turn into a copy
 * that is checked; a forged index stops that endpoint alone.  The card's own
 * words go out in unetmm_ep_sync(), which then looks at the process's words
 * once more behind a full barrier: because of that look, arming, and a
 * completion queue that was full, lose no wake-up.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../abi/unetmm_le.h"
#include "../ring/ring.h"
#include "ep.h"

/*
 * The link that names the endpoint, or that it has to be entered at: they stand
 * in the order of their numbers, so that the list follows from the endpoints.
 */
static uint16_t *space_link(UnetmmCore *core, const UnetmmEp *ep)
{
    uint16_t *link = &core->spaces[ep->space].first_ep;

    while (*link < ep->id) {
        link = &core->eps[*link].next_in_space;
    }
    return link;
}

void unetmm_ep_join(UnetmmCore *core, UnetmmEp *ep)
{
    uint16_t *link = space_link(core, ep);

    ep->next_in_space = *link;
    *link = ep->id;
    core->spaces[ep->space].endpoints++;
}

void unetmm_ep_part(UnetmmCore *core, UnetmmEp *ep)
{
    *space_link(core, ep) = ep->next_in_space;
    if (--core->spaces[ep->space].endpoints == 0) {
        unetmm_space_drop(core, ep->space);
    }
}

/* Nothing of it happens any more, but for a page that is moving. */
void unetmm_ep_stop(UnetmmCore *core, UnetmmEp *ep)
{
    ep->error = true;
    unetmm_modules_ep_stop(&core->modules, core, ep);
}

/* Stops an endpoint until it is closed; tells its owner and the driver. */
void unetmm_ep_fail(UnetmmCore *core, UnetmmEp *ep, uint8_t status)
{
    if (ep->error) {
        return;
    }
    ep->failed_cqe = true;
    ep->fail_status = status;
    ep->publish = true;
    unetmm_ep_stop(core, ep);
    unetmm_notify_want(core, ep, true);
    unetmm_event(core, UNETMM_EVENT_EP_ERROR);
    UNETMM_GUEST_ERR(endpoint, "endpoint %u stopped, status %u", ep->id,
                     status);
    unetmm_ready_push(core, ep);
}

/*
 * x-lie: the driver reads a falsified completion.  The phase stays true,
 * without which it would read none.
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
    unetmm_spend(core, UNETMM_STEP_COMPLETE, cqe->len);
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
 * The words of the poster, and of the reader of completions: one process, or
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
    /* The entries are read after the indices that cover them. */
    smp_rmb();
    ep->sq_prod = user.sq_prod;
    ep->fq_prod = user.fq_prod;
    ep->cq_cons = user.cq_cons;
    ep->arm = user.cq_arm;
    for (unsigned i = 0; ep->tail_armed && core->modules.posted[i]; i++) {
        core->modules.posted[i](core, ep);
    }
    return true;
}

bool unetmm_ep_slot_completes(const UnetmmCore *core, const UnetmmEp *ep)
{
    for (unsigned i = 0; core->modules.slot_completion_waits[i]; i++) {
        if (core->modules.slot_completion_waits[i](ep)) {
            return true;
        }
    }
    return false;
}

static uint32_t ep_state(const UnetmmCore *core, const UnetmmEp *ep)
{
    if (ep->error) {
        return UNETMM_EP_ERROR;
    }
    /* The one place that there is may be kept for a send. */
    return UNETMM_EP_RUNNING |
           (!unetmm_ep_cq_room(ep) || unetmm_ep_completes(core, ep) ?
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
    /* The slots have been read before the process may reuse them. */
    smp_wmb();
    /* The driver first: the process may reuse a slot that it sees free. */
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
        /* A word may come again when the count has gone round. */
        ep->arm_done = 0;
    } else if (ep->arm != ep->arm_done) {
        ep->arm_done = ep->arm;
        unetmm_notify_want(core, ep, false);
    }
}

/* Only the completions taken still count of a stopped endpoint's words. */
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
    if (core->tables->ep->has_work(core, ep)) {
        unetmm_ready_push(core, ep);
    }
}

