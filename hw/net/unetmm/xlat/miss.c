/*
 * unetmm: misses and evictions, by way of the fault ring
 *
 * Each endpoint has one UnetmmMiss for its send and one for each head, and each
 * reliable channel one for each other kind of fault, so that none can use up
 * another's; a further miss while one of its kind is under way is not reported.
 * A miss belongs to an owner (UnetmmMissOwner): the owner gets the driver's
 * reply, and lists the pages that its transfer will need next.
 * A miss is NONE, then
 *
 *   WANTED    in a FIFO of all endpoints, until the ring has room and fewer
 *             than max_faults are ASKED;
 *   ASKED     reported; the driver's reply names its id and comes at once,
 *             DEFERRED if nothing else can be said yet;
 *   JOINED    not reported: a report in flight covers the same pages;
 *   DEFERRED  the driver pages in; another reply follows;
 *   REFUSED   the reply found no room (all held, or the ring was full): it is
 *             WANTED again as soon as something is released;
 *   CHANGING  the driver is changing the page's table entry: the card looks at
 *             the entry again after the next INV of the space.  Only with
 *             sources whose driver brings no pages.
 *
 * When an endpoint or a channel ends, its modules call unetmm_miss_cancel():
 * the miss is NONE at once and its id is stale, so that the driver's late reply
 * gets CS_STALE and inserts nothing.  Nobody waits for the driver.
 *
 * With x-fault-delay a reply may come late: its pages are in the TLB and the
 * driver has its completion, but the miss keeps its state until due_ns, and
 * all that wait for it or join it go on waiting.
 *
 * An entry that falls out of the TLB needs a place in the fault ring first:
 * without one the insert that would push it out is refused.  A quarter of the
 * ring is kept free of misses for that.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../abi/unetmm_le.h"
#include "../ring/ring.h"
#include "xlat.h"

void unetmm_miss_own(UnetmmMiss *miss, const UnetmmMissOwner *owner,
                     UnetmmEp *ep, void *of)
{
    miss->owner = owner;
    miss->ep = ep;
    miss->of = of;
}

static uint32_t miss_number(const UnetmmCore *core, const UnetmmMiss *miss)
{
    return miss - core->miss->all;
}

static uint32_t miss_id(const UnetmmCore *core, const UnetmmMiss *miss)
{
    return (uint32_t)miss->generation << 16 | miss_number(core, miss);
}

static void fault_ring_full(UnetmmCore *core)
{
    if (!(core->ring->events & UNETMM_EVENT_FAULT_FULL)) {
        core->counters[UNETMM_C_faults_waited]++;
        unetmm_event(core, UNETMM_EVENT_FAULT_FULL);
    }
}

static void miss_enqueue(UnetmmCore *core, UnetmmMiss *miss)
{
    miss->state = UNETMM_MISS_WANTED;
    miss->found_ns = core->ops->now_ns(core->host);
    unetmm_list_add(&core->miss->wanted, miss_number(core, miss));
}

static void miss_leave_flight(UnetmmCore *core, const UnetmmMiss *miss)
{
    UnetmmMisses *misses = core->miss;
    uint32_t number = miss_number(core, miss);

    for (uint32_t i = 0; i < misses->in_flight_used; i++) {
        if (misses->in_flight[i] == number) {
            misses->in_flight[i] = misses->in_flight[--misses->in_flight_used];
            return;
        }
    }
}

void unetmm_miss_follows(UnetmmCore *core, const UnetmmMiss *miss, bool joins)
{
    uint32_t number = miss_number(core, miss);

    core->miss->joined += joins ? 1 : -1;
    core->miss->all[miss->leader].followers += joins ? 1 : -1;
    core->miss->joined_bits[number / 64] ^= 1ull << number % 64;
}

/* Takes a miss out of whatever it is in. */
static void miss_clear(UnetmmCore *core, UnetmmMiss *miss)
{
    switch (miss->state) {
    case UNETMM_MISS_ASKED:
        core->miss->asked--;
        miss_leave_flight(core, miss);
        break;
    case UNETMM_MISS_DEFERRED:
        miss_leave_flight(core, miss);
        break;
    case UNETMM_MISS_JOINED:
        unetmm_miss_follows(core, miss, false);
        break;
    case UNETMM_MISS_REFUSED:
        core->miss->refused--;
        break;
    case UNETMM_MISS_CHANGING:
        core->miss->changing--;
        break;
    default:
        break;
    }
    core->miss->late -= miss->late;
    miss->late = false;
    miss->state = UNETMM_MISS_NONE;
}

static void miss_refuse(UnetmmCore *core, UnetmmMiss *miss)
{
    miss_clear(core, miss);
    miss->state = UNETMM_MISS_REFUSED;
    core->miss->refused++;
}

/*
 * The driver has nothing to add: the entry is changing, or the cache was full
 * of held entries.  The two states wait apart: a hold that another transfer
 * releases says nothing about an entry.  If the driver has finished with the
 * entry between the two looks, its INV is still to come, and ends either wait.
 */
static void miss_wait(UnetmmCore *core, UnetmmMiss *miss)
{
    const UnetmmSourceOps *source = unetmm_space_of(core, miss->ep)->source;

    if (!source->changing || !source->changing(core, miss->ep, miss->vpn)) {
        miss_refuse(core, miss);
        return;
    }
    miss_clear(core, miss);
    miss->state = UNETMM_MISS_CHANGING;
    core->miss->changing++;
    unetmm_count(core, miss->ep, UNETMM_C_changing_waits, 1);
}

/* A report in flight, of the same kind, that covers the pages; or NULL. */
static UnetmmMiss *miss_find_leader(UnetmmCore *core, const UnetmmMiss *miss)
{
    for (uint32_t i = 0; i < core->miss->in_flight_used; i++) {
        UnetmmMiss *other = &core->miss->all[core->miss->in_flight[i]];

        if (unetmm_user(other->ep)->space == unetmm_user(miss->ep)->space &&
            other->write == miss->write && other->zero == miss->zero &&
            miss->vpn >= other->vpn &&
            (other->state == UNETMM_MISS_ASKED || miss->vpn == other->vpn) &&
            miss->vpn - other->vpn < other->npages &&
            miss->npages <= other->npages - (miss->vpn - other->vpn)) {
            return other;
        }
    }
    return NULL;
}

/* Passes a reply on to the owner of this miss. */
static void miss_tell(UnetmmCore *core, UnetmmMiss *miss, uint8_t reply,
                      uint8_t status)
{
    if (reply == UNETMM_REPLY_DEFERRED) {
        /* The buffer may go back before it: no page of it is lost. */
        miss->zero = false;
    }
    miss->owner->reply(core, miss, reply, status);
}

typedef void MissJoined(UnetmmCore *core, UnetmmMiss *miss, uint8_t reply,
                        uint8_t status);

static void miss_for_joined(UnetmmCore *core, uint32_t leader, MissJoined *fn,
                            uint8_t reply, uint8_t status)
{
    const UnetmmMisses *misses = core->miss;
    uint32_t n = unetmm_misses(core), i = 0;

    while (misses->all[leader].followers &&
           (i = unetmm_next_bit(misses->joined_bits, i, n)) < n) {
        UnetmmMiss *miss = &misses->all[i++];

        if (miss->leader == leader) {
            fn(core, miss, reply, status);
        }
    }
}

static void miss_finish(UnetmmCore *core, UnetmmMiss *miss, uint8_t reply,
                        uint8_t status)
{
    miss_clear(core, miss);
    miss_tell(core, miss, reply, status);
}

/* The miss is to be reported on its own. */
static void miss_requeue(UnetmmCore *core, UnetmmMiss *miss)
{
    miss_clear(core, miss);
    miss_enqueue(core, miss);
}

/* MissJoined: the leader has no reply for the miss. */
static void miss_requeue_joined(UnetmmCore *core, UnetmmMiss *miss,
                                uint8_t reply, uint8_t status)
{
    miss_requeue(core, miss);
}

/* Joins a report in flight; false: there is none that covers this miss. */
static bool miss_join(UnetmmCore *core, UnetmmMiss *miss)
{
    UnetmmMiss *leader = miss_find_leader(core, miss);

    if (!leader) {
        return false;
    }
    /* After a RETRY it may have followers: no chains, they join again. */
    miss_for_joined(core, miss_number(core, miss), miss_requeue_joined, 0, 0);
    miss->state = UNETMM_MISS_JOINED;
    miss->leader = miss_number(core, leader);
    unetmm_miss_follows(core, miss, true);
    core->counters[UNETMM_C_faults_joined]++;
    if (leader->state == UNETMM_MISS_DEFERRED) {
        miss_tell(core, miss, UNETMM_REPLY_DEFERRED, 0);
    }
    return true;
}

void unetmm_miss_want(UnetmmCore *core, UnetmmMiss *miss, uint64_t vpn,
                      uint32_t npages, bool zero)
{
    miss_clear(core, miss);
    miss->generation++;
    miss->vpn = vpn;
    miss->npages = npages;
    miss->write = miss->owner->write;
    miss->zero = zero;
    if (!unetmm_space_of(core, miss->ep)->source->driver_brings) {
        miss_wait(core, miss);
        return;
    }
    if (!miss_join(core, miss)) {
        miss_enqueue(core, miss);
    }
}

void unetmm_miss_cancel(UnetmmCore *core, UnetmmMiss *miss)
{
    miss_clear(core, miss);
    miss->generation++;
    /* Whatever state it was in: after a RETRY it waits with its followers. */
    miss_for_joined(core, miss_number(core, miss), miss_requeue_joined, 0, 0);
}

/*
 * Something was released or the ring has room: ask again for the misses
 * without one.
 */
void unetmm_miss_room(UnetmmCore *core)
{
    uint32_t n = unetmm_misses(core);

    for (uint32_t i = 0; core->miss->refused && i < n; i++) {
        UnetmmMiss *miss = &core->miss->all[i];

        if (miss->state != UNETMM_MISS_REFUSED) {
            continue;
        }
        miss_clear(core, miss);
        if (unetmm_space_of(core, miss->ep)->source->driver_brings) {
            miss_enqueue(core, miss);
        } else {
            miss_tell(core, miss, UNETMM_REPLY_RESOLVED, 0);
        }
    }
}

/*
 * Misses that waited for room may go on; not those that wait for held entries:
 * two such misses would be asked again at each other's records, as fast as the
 * driver can read, for as long as the entries are held.
 */
void unetmm_miss_ring_moved(UnetmmCore *core)
{
    if (core->miss->evict_waits) {
        core->miss->evict_waits = false;
        unetmm_miss_room(core);
    }
}

void unetmm_miss_changed(UnetmmCore *core, uint16_t space)
{
    uint32_t n = unetmm_misses(core);

    for (uint32_t i = 0; core->miss->changing && i < n; i++) {
        UnetmmMiss *miss = &core->miss->all[i];

        if (miss->state == UNETMM_MISS_CHANGING &&
            unetmm_user(miss->ep)->space == space) {
            miss_finish(core, miss, UNETMM_REPLY_RESOLVED, 0);
        }
    }
}

/* Some of the ring is kept for evictions. */
static bool fault_room_for(const UnetmmCore *core, uint32_t n)
{
    const UnetmmRing *ring = &core->ring->all[UNETMM_RING_FAULT];

    /* Only an enabled ring has a depth that was checked. */
    return ring->enabled &&
           unetmm_ring_room(ring) >= (1u << ring->log2) / 4 + n;
}

/* The pages that the transfer is going to need behind the missing ones. */
static uint32_t miss_ahead(UnetmmCore *core, const UnetmmMiss *miss,
                           UnetmmAhead *ahead)
{
    return unetmm_space_of(core, miss->ep)->source->asks_ahead &&
           miss->owner->ahead ? miss->owner->ahead(core, miss, ahead) : 0;
}

/*
 * Reports the pages ahead, if there is room for all of them; f is the report of
 * the miss.
 */
static bool miss_report_ahead(UnetmmCore *core, UnetmmMiss *miss,
                              struct unetmm_fault f)
{
    UnetmmAhead ahead[UNETMM_MAX_SEGS];
    uint32_t n = miss_ahead(core, miss, ahead);

    if (!fault_room_for(core, 1 + n)) {
        return true;
    }
    f.type = UNETMM_FAULT_AHEAD;
    f.found_ns = 0;
    for (uint32_t i = 0; i < n; i++) {
        f.vaddr = ahead[i].vpn << UNETMM_PAGE_SHIFT;
        f.npages = ahead[i].npages;
        if (!unetmm_ring_post_fault(core, f)) {
            return false;
        }
    }
    unetmm_count(core, miss->ep, UNETMM_C_faults_ahead, n);
    return true;
}

static bool miss_report(UnetmmCore *core, UnetmmMiss *miss)
{
    UnetmmEp *ep = miss->ep;
    struct unetmm_fault f = {
        .type = UNETMM_FAULT_MISS,
        .flags = (miss->write ? UNETMM_FAULT_F_WRITE : 0) |
                 (miss->owner->head ? UNETMM_FAULT_F_HEAD : 0) |
                 (miss->zero ? UNETMM_FAULT_F_ZERO : 0),
        .space = unetmm_user(ep)->space,
        .ep = unetmm_user(ep)->id,
        .fault_id = miss_id(core, miss),
        .npages = miss->npages,
        .vaddr = miss->vpn << UNETMM_PAGE_SHIFT,
        .found_ns = miss->found_ns,
    };

    if (!miss_report_ahead(core, miss, f) ||
        !unetmm_ring_post_fault(core, f)) {
        return false;
    }
    miss->state = UNETMM_MISS_ASKED;
    core->miss->asked++;
    core->miss->in_flight[core->miss->in_flight_used++] =
        miss_number(core, miss);
    unetmm_count(core, ep, miss->write ? UNETMM_C_faults_head :
                 UNETMM_C_faults_send, 1);
    trace_unetmm_miss(f.ep, f.fault_id, f.vaddr, f.npages, f.flags);
    return true;
}

bool unetmm_fault_spare(const UnetmmCore *core)
{
    return fault_room_for(core, 1);
}

bool unetmm_fault_room(UnetmmCore *core)
{
    if (fault_room_for(core, 1)) {
        return true;
    }
    fault_ring_full(core);
    return false;
}

/* Reports waiting misses, as far as the ring and the limit allow. */
static void miss_flush(UnetmmCore *core)
{
    UnetmmMisses *misses = core->miss;

    while (misses->wanted.used && misses->asked < core->params.max_faults) {
        UnetmmMiss *miss = &misses->all[unetmm_list_first(&misses->wanted)];

        /* The first of those that missed in one run reports, the rest join. */
        if (miss->state == UNETMM_MISS_WANTED &&
            !miss_join(core, miss)) {
            if (!unetmm_fault_room(core) || !miss_report(core, miss)) {
                return;
            }
        }
        unetmm_list_pop(&misses->wanted);
    }
}

/* UnetmmTlbEvict: an entry leaves the TLB.  False: the ring has no room. */
bool unetmm_miss_report_eviction(void *opaque, const UnetmmTlbEntry *entry)
{
    UnetmmCore *core = opaque;
    struct unetmm_fault f = {
        .type = UNETMM_FAULT_EVICT,
        .flags = entry->dirty ? UNETMM_FAULT_F_DIRTY : 0,
        .space = entry->space,
        .vaddr = entry->vpn << UNETMM_PAGE_SHIFT,
        .pte = entry->pte,
        .tag = entry->tag,
    };

    if (!unetmm_ring_post_fault(core, f)) {
        fault_ring_full(core);
        core->miss->evict_waits = true;
        return false;
    }
    unetmm_spend(core, UNETMM_STEP_EVICT, 1);
    core->counters[UNETMM_C_tlb_evictions]++;
    trace_unetmm_tlb_evict(f.space, f.vaddr, f.tag, entry->dirty);
    if (entry->head) {
        unetmm_modules_pages_lost(&core->modules, core, entry->space,
                                  entry->vpn, entry->vpn);
    }
    return true;
}

/* The miss that a reply names, or NULL if nobody waits for it. */
static UnetmmMiss *reply_miss(UnetmmCore *core, uint16_t space, uint32_t id)
{
    uint32_t number = id & UNETMM_FAULT_NUMBER;
    UnetmmMiss *miss;

    if (number >= unetmm_misses(core)) {
        return NULL;
    }
    miss = &core->miss->all[number];
    if (miss->generation != id >> 16 || miss->late ||
        (miss->state != UNETMM_MISS_ASKED &&
         miss->state != UNETMM_MISS_DEFERRED) ||
        unetmm_user(miss->ep)->space != space) {
        return NULL;
    }
    return miss;
}

/* Inserts the first `most` of the list, up to one that finds no room. */
static uint8_t reply_insert(UnetmmCore *core, uint16_t space,
                            const struct unetmm_cmd_reply *reply,
                            uint32_t most, uint32_t *taken)
{
    const UnetmmSourceOps *source = core->spaces[space].source;
    uint64_t list[UNETMM_REPLY_MAX_PAGES];
    uint64_t vpn = reply->vaddr >> UNETMM_PAGE_SHIFT;
    uint8_t status = UNETMM_CS_OK;

    if (reply->npages &&
        !unetmm_dma_read(core, NULL, reply->list, list,
                         reply->npages * sizeof(list[0]))) {
        return UNETMM_CS_DMA;
    }
    unetmm_tlb_new_batch(source->tlb(core));
    for (*taken = 0; *taken < reply->npages; (*taken)++) {
        if (*taken == most) {
            status = UNETMM_CS_PARTIAL;
            break;
        }
        unetmm_le_u64(&list[*taken]);
        if (!(list[*taken] & UNETMM_PTE_VALID)) {
            status = UNETMM_CS_BAD_ARG;
            break;
        }
        if (source->insert(core, space, vpn + *taken, list[*taken],
                           reply->tag) == UNETMM_TLB_REFUSED) {
            status = UNETMM_CS_PARTIAL;
            break;
        }
    }
    unetmm_tlb_new_batch(source->tlb(core));
    unetmm_spend(core, UNETMM_STEP_INSERT, *taken);
    return status;
}

/*
 * DEFERRED and ERROR speak of the first page of the report: they hold for those
 * who joined it with that page; the others ask for themselves.
 */
static bool miss_same_page(const UnetmmCore *core, const UnetmmMiss *miss)
{
    return core->miss->all[miss->leader].vpn == miss->vpn;
}

static void miss_fail_joined(UnetmmCore *core, UnetmmMiss *miss, uint8_t reply,
                             uint8_t status)
{
    if (miss_same_page(core, miss)) {
        miss_finish(core, miss, reply, status);
    } else {
        miss_requeue(core, miss);
    }
}

static void miss_defer_joined(UnetmmCore *core, UnetmmMiss *miss,
                              uint8_t reply, uint8_t status)
{
    if (miss_same_page(core, miss)) {
        miss_tell(core, miss, reply, status);
    } else {
        miss_requeue(core, miss);
    }
}

/* RESOLVED or ERROR, for the miss and for those who joined it. */
static void miss_settle(UnetmmCore *core, UnetmmMiss *miss, uint8_t reply,
                        uint8_t status)
{
    uint16_t generation = miss->generation;

    miss_for_joined(core, miss_number(core, miss),
                    reply == UNETMM_REPLY_ERROR ? miss_fail_joined :
                    miss_finish, reply, status);
    /* A joined miss may have ended a channel, and this miss with it. */
    if (miss->generation == generation) {
        miss_finish(core, miss, reply, status);
    }
}

/* Settles the miss, unless x-fault-delay has the reply come late. */
static void miss_reply(UnetmmCore *core, UnetmmMiss *miss, uint8_t reply,
                       uint8_t status)
{
    if (!unetmm_chance(core, core->knobs.fault_delay)) {
        miss_settle(core, miss, reply, status);
        return;
    }
    miss->late = true;
    miss->late_reply = reply;
    miss->late_status = status;
    miss->due_ns = core->ops->now_ns(core->host) +
                   unetmm_some_time(core, core->knobs.fault_delay_ns);
    core->miss->late++;
    core->counters[UNETMM_C_inj_fault_late]++;
}

/* When the next late reply counts; INT64_MAX: there is none. */
static int64_t miss_deadline(const UnetmmCore *core)
{
    uint32_t n;
    int64_t when = INT64_MAX;

    if (!core->miss->late) {
        return INT64_MAX;
    }
    n = unetmm_misses(core);
    for (uint32_t i = 0; core->miss->late && i < n; i++) {
        if (core->miss->all[i].late) {
            when = MIN(when, core->miss->all[i].due_ns);
        }
    }
    return when;
}

/* Late replies whose time has come. */
static void miss_late(UnetmmCore *core)
{
    uint32_t n;

    if (!core->miss->late) {
        return;
    }
    n = unetmm_misses(core);
    for (uint32_t i = 0; core->miss->late && i < n; i++) {
        UnetmmMiss *miss = &core->miss->all[i];

        if (miss->late && miss->due_ns <= core->ops->now_ns(core->host)) {
            miss_settle(core, miss, miss->late_reply, miss->late_status);
        }
    }
}

/*
 * x-fault-fail: the card takes none of the pages and reports that to the
 * driver; the owner gets the same reply as if the driver had failed.
 */
static uint8_t reply_failed(UnetmmCore *core, UnetmmMiss *miss,
                            const struct unetmm_cmd_reply *reply)
{
    core->counters[UNETMM_C_inj_fault_fail]++;
    miss_reply(core, miss, UNETMM_REPLY_ERROR, UNETMM_ST_LIMIT);
    return reply->npages ? UNETMM_CS_PARTIAL : UNETMM_CS_OK;
}

/* x-fault-refuse: how many of the pages are taken; all if nothing happens. */
static uint32_t reply_most(UnetmmCore *core, const UnetmmMiss *miss,
                           const struct unetmm_cmd_reply *reply)
{
    if (!miss || !unetmm_chance(core, core->knobs.fault_refuse)) {
        return UINT32_MAX;
    }
    core->counters[UNETMM_C_inj_fault_refuse]++;
    return reply->npages ? unetmm_random(core) % reply->npages : 0;
}

static uint8_t reply_resolved(UnetmmCore *core, uint16_t space,
                              UnetmmMiss *miss,
                              const struct unetmm_cmd_reply *reply,
                              uint32_t *taken)
{
    uint32_t most = reply_most(core, miss, reply);
    uint8_t status = UNETMM_CS_OK;
    bool found = most;          /* may the waiting go on? */

    if (core->spaces[space].source->only_copy_is_the_tlb) {
        status = reply_insert(core, space, reply, most, taken);
        found = *taken;
    }
    /* An eviction on the way may have put the miss into another state. */
    if (!miss || (miss->state != UNETMM_MISS_ASKED &&
                  miss->state != UNETMM_MISS_DEFERRED)) {
        return status;
    }
    if (found) {
        miss_reply(core, miss, UNETMM_REPLY_RESOLVED, 0);
        return status;
    }
    miss_for_joined(core, miss_number(core, miss), miss_finish,
                    UNETMM_REPLY_RESOLVED, 0);
    if (status == UNETMM_CS_PARTIAL && most) {
        miss_refuse(core, miss);
    } else {
        miss_requeue(core, miss);
    }
    return status;
}

static void reply_deferred(UnetmmCore *core, UnetmmMiss *miss)
{
    if (miss->state == UNETMM_MISS_ASKED) {
        core->miss->asked--;
        miss->state = UNETMM_MISS_DEFERRED;
    }
    miss_tell(core, miss, UNETMM_REPLY_DEFERRED, 0);
    miss_for_joined(core, miss_number(core, miss), miss_defer_joined,
                    UNETMM_REPLY_DEFERRED, 0);
}

uint8_t unetmm_fault_reply(UnetmmCore *core, uint16_t space,
                           const struct unetmm_cmd_reply *reply,
                           uint32_t *taken)
{
    UnetmmMiss *miss = NULL;

    *taken = 0;
    if (space >= core->params.spaces || !core->spaces[space].live) {
        return UNETMM_CS_BAD_ID;
    }
    if (!core->spaces[space].source->driver_brings ||
        reply->status > UNETMM_REPLY_RETRY ||
        reply->npages > (core->spaces[space].source->only_copy_is_the_tlb ?
                         UNETMM_REPLY_MAX_PAGES : 0) ||
        reply->vaddr % UNETMM_PAGE_BYTES ||
        (reply->npages && reply->vaddr > UINT64_MAX -
         ((uint64_t)reply->npages * UNETMM_PAGE_BYTES - 1)) ||
        (reply->status == UNETMM_REPLY_ERROR &&
         (reply->error == UNETMM_ST_OK || reply->error >= UNETMM_NUM_ST))) {
        return UNETMM_CS_BAD_ARG;
    }
    if (reply->fault_id != UNETMM_FAULT_NONE) {
        miss = reply_miss(core, space, reply->fault_id);
        if (!miss) {
            return UNETMM_CS_STALE;
        }
    }
    trace_unetmm_reply(reply->fault_id, reply->status, reply->vaddr,
                       reply->npages);
    if (reply->status == UNETMM_REPLY_RESOLVED && miss &&
        unetmm_chance(core, core->knobs.fault_fail)) {
        return reply_failed(core, miss, reply);
    }
    if (reply->status == UNETMM_REPLY_RESOLVED) {
        return reply_resolved(core, space, miss, reply, taken);
    }
    if (!miss) {
        return UNETMM_CS_BAD_ARG;
    }
    if (reply->status == UNETMM_REPLY_RETRY) {
        miss_requeue(core, miss);
    } else if (reply->status == UNETMM_REPLY_DEFERRED) {
        reply_deferred(core, miss);
    } else {
        miss_reply(core, miss, reply->status, reply->error);
    }
    return UNETMM_CS_OK;
}

static void miss_create(UnetmmCore *core)
{
    core->miss = g_new0(UnetmmMisses, 1);
    core->miss->all = g_new0(UnetmmMiss, unetmm_misses(core));
    unetmm_list_create(&core->miss->wanted, unetmm_misses(core));
    core->miss->in_flight = g_new0(uint16_t, unetmm_misses(core));
    core->miss->joined_bits = g_new0(uint64_t, unetmm_misses(core) / 64 + 1);
}

static void miss_reset(UnetmmCore *core)
{
    /* Generations go on, so that late replies of the old driver are stale. */
    for (uint32_t i = 0; i < unetmm_misses(core); i++) {
        core->miss->all[i].state = UNETMM_MISS_NONE;
        core->miss->all[i].late = false;
        core->miss->all[i].followers = 0;
        core->miss->all[i].generation++;
    }
    memset(core->miss->joined_bits, 0,
           (unetmm_misses(core) / 64 + 1) * sizeof(uint64_t));
    unetmm_list_clear(&core->miss->wanted);
    core->miss->in_flight_used = core->miss->asked = 0;
    core->miss->joined = core->miss->refused = 0;
    core->miss->changing = 0;
    core->miss->late = 0;
    core->miss->evict_waits = false;
}

static void miss_free(UnetmmCore *core)
{
    g_free(core->miss->all);
    unetmm_list_free(&core->miss->wanted);
    g_free(core->miss->in_flight);
    g_free(core->miss->joined_bits);
    g_clear_pointer(&core->miss, g_free);
}

static uint64_t misses_save_limit(const UnetmmCore *core)
{
    return unetmm_misses(core) * 64ull;
}

const UnetmmModule unetmm_module_miss = {
    .name = "miss",
    .create = miss_create,
    .reset = miss_reset,
    .free = miss_free,
    .flush = miss_flush,
    .deadline = miss_deadline,
    .engine_entered = miss_late,
    .save = unetmm_misses_save,
    .check = unetmm_misses_check,
    .save_limit = misses_save_limit,
};
