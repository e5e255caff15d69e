/*
 * unetmm: regions: memory that peers may use without being asked
 *
 * A region is a range of an address space, not memory: each packet that uses
 * it is checked against the table, and its pages are looked up like any other.
 * So nothing has to be undone when a region goes.  Transfers through it at
 * that moment end first, page by page; REGION_CLEAR waits for that, and until
 * then nothing new begins.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../recv/recv.h"
#include "../ring/ring.h"
#include "remote.h"

/* Counters are named beforehand: a peer cannot make its own right to one. */
static bool region_counters_ok(const UnetmmSpace *space,
                               const struct unetmm_cmd_region *cmd)
{
    return !cmd->ncounters ||
           (space->counters && cmd->counter < UNETMM_EVENT_COUNTERS &&
            cmd->ncounters <= UNETMM_EVENT_COUNTERS - cmd->counter);
}

/* One for the process's own descriptors has no parts that may move. */
static bool region_local_ok(const struct unetmm_cmd_region *cmd)
{
    return cmd->flags & UNETMM_REGION_F_LKEY ?
           !(cmd->flags & UNETMM_REGION_F_REDIRECT) :
           cmd->rights && !(cmd->flags & UNETMM_REGION_F_LKEY_WRITE);
}

static bool region_args_ok(const struct unetmm_cmd_region *cmd)
{
    return cmd->length && cmd->addr <= UINT64_MAX - (cmd->length - 1) &&
           region_local_ok(cmd) && !(cmd->rights & ~UNETMM_RIGHT_ALL) &&
           !(cmd->flags & ~UNETMM_REGION_F_ALL) &&
           (cmd->flags & UNETMM_REGION_F_IOVA ?
            cmd->iova <= UINT64_MAX - (cmd->length - 1) : !cmd->iova);
}

uint8_t unetmm_region_set(UnetmmCore *core, uint16_t space,
                          const struct unetmm_cmd_region *cmd)
{
    UnetmmRegion *region;

    /* Space 0 is the driver's: no peer has business there. */
    if (cmd->region >= core->params.regions || !space ||
        space >= core->params.spaces || !core->spaces[space].live) {
        return UNETMM_CS_BAD_ID;
    }
    region = &core->remote->regions[cmd->region];
    if (region->live) {
        return UNETMM_CS_EXISTS;
    }
    if (!region_args_ok(cmd) ||
        !region_counters_ok(&core->spaces[space], cmd)) {
        return UNETMM_CS_BAD_ARG;
    }
    *region = (UnetmmRegion) {
        .live = true, .space = space, .key = cmd->key, .addr = cmd->addr,
        .length = cmd->length, .cookie = cmd->cookie, .rights = cmd->rights,
        .flags = cmd->flags, .counter = cmd->counter,
        .ncounters = cmd->ncounters, .pd = cmd->pd,
        .iova = cmd->flags & UNETMM_REGION_F_IOVA ? cmd->iova : cmd->addr,
        .moved = cmd->flags & UNETMM_REGION_F_REDIRECT ?
                 g_new0(UnetmmRegionMoves, 1) : NULL,
        .was_keyed = region->was_keyed, .last_space = region->last_space,
        .last_key = region->last_key, .last_pd = region->last_pd,
    };
    core->spaces[space].regions++;
    trace_unetmm_region_set(cmd->region, space, cmd->addr, cmd->length,
                            cmd->rights);
    return UNETMM_CS_OK;
}

static void region_end(UnetmmCore *core, uint32_t number)
{
    UnetmmRegion *region = &core->remote->regions[number];

    region->live = region->clearing = false;
    if (region->flags & UNETMM_REGION_F_KEYED) {
        region->was_keyed = true;
        region->last_space = region->space;
        region->last_key = region->key;
        region->last_pd = region->pd;
    }
    core->spaces[region->space].regions--;
    unetmm_moves_forget(core, region);
    trace_unetmm_region_clear(number);
}

static void region_reset(UnetmmCore *core)
{
    for (uint32_t i = 0; i < core->params.regions; i++) {
        g_free(core->remote->regions[i].moved);
    }
    memset(core->remote->regions, 0,
           core->params.regions * sizeof(*core->remote->regions));
    core->remote->clearing = core->remote->moves_waiting = 0;
}

/* Do `len` bytes from `at` on, one at least, meet these? */
static bool region_meets(uint64_t at, uint32_t len, uint64_t first,
                         uint64_t last)
{
    return at <= last && at + (len - 1) >= first;
}

bool unetmm_region_moving_in(const UnetmmCore *core, uint32_t number,
                             uint64_t first, uint64_t last)
{
    const UnetmmLanding *rx = core->landing;

    if (rx->active && rx->header.opcode == UNETMM_WIRE_WRITE &&
        rx->header.handle == number &&
        region_meets(rx->header.remote, rx->header.len, first, last)) {
        return true;
    }
    for (uint32_t i = 0; core->params.dma_page_ns &&
         i < core->params.endpoints; i++) {
        const UnetmmTransfer *tx = &core->eps[i].tx;

        if (core->eps[i].live && tx->moving && tx->answer &&
            tx->target.region == number &&
            region_meets(tx->target.offset, tx->target.len, first, last)) {
            return true;
        }
    }
    return false;
}

bool unetmm_region_moving(const UnetmmCore *core, uint32_t number)
{
    return unetmm_region_moving_in(core, number, 0, UINT64_MAX);
}

uint8_t unetmm_region_clear(UnetmmCore *core, uint32_t number, uint16_t tag,
                            bool *wait)
{
    UnetmmRegion *region;

    if (number >= core->params.regions || !core->remote->regions[number].live ||
        core->remote->regions[number].clearing) {
        return UNETMM_CS_BAD_ID;
    }
    region = &core->remote->regions[number];
    if (unetmm_region_moving(core, number)) {
        region->clearing = true;
        region->clear_tag = tag;
        unetmm_cmd_later(core);
        core->remote->clearing++;
        *wait = true;
        return UNETMM_CS_OK;
    }
    region_end(core, number);
    return UNETMM_CS_OK;
}

void unetmm_region_landed(UnetmmCore *core)
{
    for (uint32_t i = 0; i < core->params.regions &&
         (core->remote->clearing || core->remote->moves_waiting); i++) {
        UnetmmRegion *region = &core->remote->regions[i];

        unetmm_move_landed(core, i);
        if (region->clearing && !unetmm_region_moving(core, i)) {
            region_end(core, i);
            core->remote->clearing--;
            unetmm_cmd_done_late(core, region->clear_tag,
                                 UNETMM_CMD_REGION_CLEAR, UNETMM_CS_OK, 0);
        }
    }
}

/* The region, whatever its domain is; or NULL. */
static const UnetmmRegion *region_keyed(const UnetmmCore *core, uint16_t space,
                                        uint32_t number, uint32_t key)
{
    const UnetmmRegion *region;

    if (number >= core->params.regions) {
        return NULL;
    }
    region = &core->remote->regions[number];
    return region->live && !region->clearing && region->space == space &&
           region->key == key ? region : NULL;
}

const UnetmmRegion *unetmm_region_find(const UnetmmCore *core,
                                       const UnetmmEp *ep, uint32_t number,
                                       uint32_t key)
{
    const UnetmmRegion *region = region_keyed(core, ep->space, number, key);

    return region && unetmm_region_in_pd(region->pd, ep) ? region : NULL;
}

bool unetmm_region_local(const UnetmmCore *core, const UnetmmEp *ep,
                         uint64_t key, bool write, uint64_t *addr,
                         uint32_t len)
{
    uint8_t need = UNETMM_REGION_F_LKEY |
                   (write ? UNETMM_REGION_F_LKEY_WRITE : 0);
    const UnetmmRegion *region = key > UINT32_MAX ? NULL :
                                 unetmm_region_find(core, ep, key >> 8, key);
    uint64_t offset;

    if (!region || need & ~region->flags) {
        return false;
    }
    /* An address before the region wraps, and is beyond its end. */
    offset = *addr - region->iova;
    if (offset > region->length || len > region->length - offset) {
        return false;
    }
    *addr = region->addr + offset;
    return true;
}

bool unetmm_region_foreign(const UnetmmCore *core, const UnetmmEp *ep,
                           uint32_t number, uint32_t key)
{
    const UnetmmRegion *region = region_keyed(core, ep->space, number, key);

    return region && !unetmm_region_in_pd(region->pd, ep);
}

bool unetmm_region_revoked(const UnetmmCore *core, const UnetmmEp *ep,
                           uint32_t number, uint32_t key)
{
    const UnetmmRegion *region;

    if (number >= core->params.regions) {
        return false;
    }
    region = &core->remote->regions[number];
    if (region->live && region->clearing && region->space == ep->space &&
        region->key == key && region->flags & UNETMM_REGION_F_KEYED &&
        unetmm_region_in_pd(region->pd, ep)) {
        return true;
    }
    return region->was_keyed && region->last_space == ep->space &&
           region->last_key == key && unetmm_region_in_pd(region->last_pd, ep);
}

uint32_t unetmm_region_check(const UnetmmCore *core, const UnetmmEp *ep,
                             const UnetmmTarget *target, uint8_t right,
                             const UnetmmRegion **region)
{
    const UnetmmRegion *r = unetmm_region_find(core, ep, target->region,
                                               target->key);

    if (!r) {
        return UNETMM_WHY_REGION;
    }
    if (!(r->rights & right)) {
        return UNETMM_WHY_RIGHT;
    }
    if (target->offset > r->length ||
        target->len > r->length - target->offset) {
        return UNETMM_WHY_RANGE;
    }
    *region = r;
    return 0;
}

/* ---- Saved state -------------------------------------------------------- */

static void clearing_save(UnetmmStream *st, UnetmmCore *core,
                          UnetmmRegion *region)
{
    bool clearing = region->clearing;
    uint16_t tag = region->clear_tag;

    unetmm_stream_bool(st, &clearing, "clearing");
    if (!clearing) {
        return;
    }
    unetmm_stream_u16(st, &tag, "clear_tag");
    if (unetmm_stream_takes(st)) {
        region->clearing = true;
        region->clear_tag = tag;
        core->remote->clearing++;
        unetmm_cmd_later(core);
    }
}

static const UnetmmField target_fields[] = {
    UNETMM_FIELDS(UnetmmTarget, region, key, len, offset),
};

void unetmm_target_save(UnetmmStream *st, UnetmmTarget *target,
                        const char *name)
{
    unetmm_stream_enter(st, name, UNETMM_STREAM_ONE);
    UNETMM_STREAM_FIELDS(st, target, target_fields);
    unetmm_stream_leave(st);
}

static const UnetmmField region_fields[] = {
    UNETMM_FIELDS(struct unetmm_cmd_region, key, addr, length, cookie, rights,
                  flags, counter, ncounters, iova, pd),
};

/* The saved region is checked as by REGION_SET. */
static void region_save(UnetmmStream *st, UnetmmCore *core, uint32_t number)
{
    UnetmmRegion *region = &core->remote->regions[number];
    struct unetmm_cmd_region cmd = {
        .region = number, .key = region->key, .addr = region->addr,
        .length = region->length, .cookie = region->cookie,
        .rights = region->rights, .flags = region->flags,
        .counter = region->counter, .ncounters = region->ncounters,
        .iova = region->flags & UNETMM_REGION_F_IOVA ? region->iova : 0,
        .pd = region->pd,
    };
    uint16_t space = region->space;

    unetmm_stream_u16(st, &space, "space");
    UNETMM_STREAM_FIELDS(st, &cmd, region_fields);
    if (unetmm_stream_takes(st) &&
        unetmm_region_set(core, space, &cmd) != UNETMM_CS_OK) {
        unetmm_stream_refuse(st, "region %u could not have been set", number);
    }
    unetmm_moves_save(st, core, region);
    clearing_save(st, core, region);
}

static const UnetmmField region_last[] = {
    UNETMM_FIELD_IF(UnetmmRegion, was_keyed),
    UNETMM_FIELDS(UnetmmRegion, last_space, last_key, last_pd),
};

static void any_region_save(UnetmmStream *st, UnetmmCore *core, uint32_t i)
{
    UnetmmRegion *region = &core->remote->regions[i];
    bool live = region->live;

    if (UNETMM_STREAM_FIELDS(st, region, region_last) &&
        (!region->last_space || region->last_space >= core->params.spaces)) {
        unetmm_stream_refuse(st, "a cleared region was of no space");
    }
    unetmm_stream_bool(st, &live, "live");
    if (live) {
        region_save(st, core, i);
    }
}

static void regions_save(UnetmmStream *st, UnetmmCore *core)
{
    unetmm_stream_each(st, core, "region", core->params.regions,
                       any_region_save);
}

/* A region that is being cleared waits for a page, and that for its end. */
static void regions_check(UnetmmStream *st, UnetmmCore *core)
{
    for (uint32_t i = 0; i < core->params.regions; i++) {
        if ((core->remote->regions[i].clearing &&
             !unetmm_region_moving(core, i)) ||
            !unetmm_moves_ok(core, i)) {
            unetmm_stream_refuse(st, "region %u waits for a page that does "
                                 "not move", i);
        }
    }
}

static void region_create(UnetmmCore *core)
{
    core->remote = g_new0(UnetmmRemote, 1);
    core->remote->regions = g_new0(UnetmmRegion, MAX(core->params.regions, 1));
    unetmm_list_create(&core->remote->due, core->params.spaces);
}

static void region_free(UnetmmCore *core)
{
    g_free(core->remote->regions);
    unetmm_list_free(&core->remote->due);
    g_clear_pointer(&core->remote, g_free);
}

static uint64_t regions_save_limit(const UnetmmCore *core)
{
    const UnetmmParams *p = &core->params;

    return p->regions * 1024ull + (uint64_t)p->endpoints * p->imports * 32;
}

const UnetmmModule unetmm_module_region = {
    .name = "region",
    .create = region_create,
    .reset = region_reset,
    .free = region_free,
    .landing_over = unetmm_region_landed,
    .save = regions_save,
    .check = regions_check,
    .save_limit = regions_save_limit,
};
