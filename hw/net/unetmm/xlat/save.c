/*
 * unetmm: saving and restoring misses
 *
 * Every place for a miss is saved, used or not: generations go on.  Numbers
 * that follow from the states are not saved.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "xlat.h"

static const UnetmmField late_fields[] = {
    UNETMM_FIELD_IF(UnetmmMiss, late),
    UNETMM_FIELD_RANGE(UnetmmMiss, late_reply, 0, UNETMM_REPLY_ERROR),
    UNETMM_FIELD_RANGE(UnetmmMiss, late_status, 0, UNETMM_NUM_ST - 1),
    UNETMM_FIELD_TIME(UnetmmMiss, due_ns, UNETMM_MAX_LATE_NS),
};

/* x-fault-delay: the answer that has come and does not count yet. */
static void miss_save_late(UnetmmStream *st, UnetmmMiss *miss)
{
    if (UNETMM_STREAM_FIELDS(st, miss, late_fields) &&
        (miss->late_reply == UNETMM_REPLY_DEFERRED ||
         (miss->late_reply == UNETMM_REPLY_ERROR) !=
         (miss->late_status != UNETMM_ST_OK))) {
        unetmm_stream_refuse(st, "a late answer says nothing");
    }
}

/* For how long it has waited to be reported, whatever clock goes on. */
static void miss_save_found(UnetmmStream *st, UnetmmMiss *miss)
{
    uint64_t age = st->now - miss->found_ns;

    unetmm_stream_u64(st, &age, "age");
    if (unetmm_stream_reads(st)) {
        miss->found_ns = age < (uint64_t)st->now ? st->now - (int64_t)age : 0;
    }
}

static const UnetmmField miss_fields[] = {
    UNETMM_FIELD_RANGE(UnetmmMiss, state, 0, UNETMM_MISS_CHANGING),
    UNETMM_FIELD(UnetmmMiss, generation),
};

static const UnetmmField miss_rights[] = {
    UNETMM_BOOLS(UnetmmMiss, write, zero),
};

static const UnetmmField miss_pages[] = {
    UNETMM_FIELD(UnetmmMiss, vpn),
    UNETMM_FIELD_RANGE(UnetmmMiss, npages, 0, UNETMM_MISS_MAX_PAGES),
};

static void miss_save(UnetmmStream *st, UnetmmCore *core, uint32_t number)
{
    UnetmmMiss *miss = &core->miss->all[number];

    UNETMM_STREAM_FIELDS(st, miss, miss_fields);
    if (miss->state == UNETMM_MISS_NONE) {
        return;
    }
    /* Not counted: releasing a page would look for its space. */
    if (unetmm_stream_reads(st) &&
        (!miss->owner || !unetmm_user(miss->ep)->live)) {
        unetmm_stream_refuse(st, "miss %u is of no endpoint, or no channel",
                             number);
        miss->state = UNETMM_MISS_NONE;
        return;
    }
    UNETMM_STREAM_FIELDS(st, miss, miss_rights);
    if (miss->state == UNETMM_MISS_JOINED) {
        miss->leader = unetmm_stream_choice(st, miss->leader,
                                            unetmm_misses(core), "leader");
    }
    UNETMM_STREAM_FIELDS(st, miss, miss_pages);
    if (!miss->npages || miss->vpn > (UINT64_MAX >> UNETMM_PAGE_SHIFT) -
        (miss->npages - 1)) {
        unetmm_stream_refuse(st, "a miss has pages that there cannot be");
    }
    if (miss->state == UNETMM_MISS_WANTED) {
        miss_save_found(st, miss);
    }
    if (miss->state == UNETMM_MISS_ASKED ||
        miss->state == UNETMM_MISS_DEFERRED) {
        miss_save_late(st, miss);
    }
    if (unetmm_stream_takes(st)) {
        core->miss->asked += miss->state == UNETMM_MISS_ASKED;
        if (miss->state == UNETMM_MISS_JOINED) {
            unetmm_miss_follows(core, miss, true);
        }
        core->miss->refused += miss->state == UNETMM_MISS_REFUSED;
        core->miss->changing += miss->state == UNETMM_MISS_CHANGING;
        core->miss->late += miss->late;
    }
}

/* Misses in flight, in the order in which others look for one to join. */
static void flight_save(UnetmmStream *st, UnetmmCore *core)
{
    uint32_t n = unetmm_misses(core);
    g_autofree bool *seen = g_new0(bool, n);
    uint32_t used = unetmm_stream_choice(st, core->miss->in_flight_used, n + 1,
                                         "in_flight_used");

    for (uint32_t i = 0; i < used && !st->wrong; i++) {
        uint32_t number = unetmm_stream_member(st, core->miss->in_flight[i], n,
                                               "in_flight", i);
        UnetmmMissState state = core->miss->all[number].state;

        if (seen[number] || (state != UNETMM_MISS_ASKED &&
                             state != UNETMM_MISS_DEFERRED)) {
            unetmm_stream_refuse(st, "miss %u is not in flight", number);
        }
        seen[number] = true;
        if (unetmm_stream_reads(st)) {
            core->miss->in_flight[core->miss->in_flight_used++] = number;
        }
    }
}

void unetmm_misses_save(UnetmmStream *st, UnetmmCore *core)
{
    uint32_t n = unetmm_misses(core);

    unetmm_stream_each(st, core, "miss", n, miss_save);
    flight_save(st, core);
    /* Misses to be reported; some have been taken back since. */
    unetmm_list_save(st, &core->miss->wanted, n, &(UnetmmListNames) {
        "wanted_used", "wanted", "miss %u is to be reported twice",
    });
}

/* ---- Checks ------------------------------------------------------------- */

static bool joined_ok(const UnetmmCore *core, const UnetmmEp *ep,
                      const UnetmmMiss *miss)
{
    const UnetmmMiss *leader = &core->miss->all[miss->leader];

    return leader->state != UNETMM_MISS_NONE &&
           leader->state != UNETMM_MISS_JOINED && leader->owner &&
           unetmm_user(leader->ep)->live &&
           unetmm_user(leader->ep)->space == unetmm_user(ep)->space &&
           leader->write == miss->write && leader->zero == miss->zero;
}

/* The room that owns it checks its purpose. */
static void miss_check(UnetmmStream *st, const UnetmmCore *core,
                       uint32_t number)
{
    const UnetmmMiss *miss = &core->miss->all[number];
    const UnetmmEp *ep = miss->ep;
    bool asks;

    if (miss->state == UNETMM_MISS_NONE) {
        return;
    }
    if (!miss->owner || !unetmm_user(ep)->live) {
        unetmm_stream_refuse(st, "miss %u is of no endpoint, or no channel",
                             number);
        return;
    }
    /* Only a source that takes answers can be waiting for one. */
    asks = unetmm_space_of(core, ep)->source->driver_brings;
    if (miss->write != miss->owner->write ||
        (!asks && miss->state != UNETMM_MISS_REFUSED &&
         miss->state != UNETMM_MISS_CHANGING) ||
        (asks && miss->state == UNETMM_MISS_CHANGING) ||
        (miss->state == UNETMM_MISS_WANTED &&
         !core->miss->wanted.has[number]) ||
        (miss->state == UNETMM_MISS_JOINED && !joined_ok(core, ep, miss))) {
        unetmm_stream_refuse(st, "miss %u waits in vain", number);
    }
}

void unetmm_misses_check(UnetmmStream *st, UnetmmCore *core)
{
    uint32_t n = unetmm_misses(core);
    uint32_t flying = 0;

    for (uint32_t i = 0; i < n; i++) {
        UnetmmMissState state = core->miss->all[i].state;

        miss_check(st, core, i);
        flying += state == UNETMM_MISS_ASKED || state == UNETMM_MISS_DEFERRED;
    }
    /* Each of the list is in flight, and none twice: so all are in it. */
    if (flying != core->miss->in_flight_used ||
        core->miss->asked > core->params.max_faults) {
        unetmm_stream_refuse(st, "the misses in flight are not those asked");
    }
}
