/*
 * unetmm: saving and restoring regions and imports
 *
 * What REGION_SET, REGION_REDIRECT and IMPORT_SET check is checked by the same
 * functions when it is restored.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../card/state.h"

static void state_clearing(UnetmmStream *st, UnetmmCore *core,
                           UnetmmRegion *region)
{
    bool clearing = region->clearing;
    uint16_t tag = region->clear_tag;

    unetmm_stream_bool(st, &clearing, "whether a region is being cleared");
    if (!clearing) {
        return;
    }
    unetmm_stream_u16(st, &tag);
    if (unetmm_stream_reads(st) && !st->wrong) {
        region->clearing = true;
        region->clear_tag = tag;
        core->regions_clearing++;
        core->closing++;
    }
}

static void state_spans(UnetmmStream *st, UnetmmSpans *s, uint64_t first,
                        uint64_t last)
{
    s->n = unetmm_stream_choice(st, s->n, UNETMM_REDIRECT_LANDED + 1,
                                "what has landed in a region");
    for (uint32_t i = 0; i < s->n; i++) {
        unetmm_stream_u64(st, &s->at[i].first);
        unetmm_stream_u64(st, &s->at[i].last);
    }
    if (!st->wrong && !unetmm_spans_ok(s, first, last)) {
        unetmm_stream_refuse(st, "what has landed in a region cannot have");
    }
}

/* Can a part that is in this state wait for this command? */
static bool redirect_waits_ok(const UnetmmRedirect *r)
{
    switch (r->waits) {
    case 0:
        return true;
    case UNETMM_REDIRECT_BEGIN:
        return r->state == UNETMM_MOVED_BEGUN && !r->spans.n;
    case UNETMM_REDIRECT_BACK:
    case UNETMM_REDIRECT_END:
        return r->state == UNETMM_MOVED_GOING;
    default:
        return false;
    }
}

static void state_redirect(UnetmmStream *st, UnetmmCore *core,
                           UnetmmRegion *region, UnetmmRedirect *r)
{
    struct unetmm_cmd_redirect cmd = {
        .offset = r->first, .length = r->last - r->first + 1, .to = r->to,
        .list = r->list,
    };
    uint8_t state = r->state;
    UnetmmRedirect *made = r;

    unetmm_stream_u8(st, &state);
    unetmm_stream_u64(st, &cmd.offset);
    unetmm_stream_u64(st, &cmd.length);
    unetmm_stream_u64(st, &cmd.to);
    unetmm_stream_u64(st, &cmd.list);
    if (unetmm_stream_reads(st) &&
        (st->wrong || state > UNETMM_MOVED_BACK || !state ||
         unetmm_redirect_add(region, &cmd, &made) != UNETMM_CS_OK)) {
        unetmm_stream_refuse(st, "a part of a region could not have moved");
        return;
    }
    made->state = state;
    unetmm_stream_u8(st, &made->waits);
    unetmm_stream_u16(st, &made->tag);
    unetmm_stream_u64(st, &made->from);
    state_spans(st, &made->spans, made->first, made->last);
    if (!redirect_waits_ok(made) || made->from > made->last + 1 ||
        (made->from && made->from < made->first)) {
        unetmm_stream_refuse(st, "a part of a region waits for nothing");
    }
    if (st->wrong) {
        made->waits = 0;
    } else if (made->waits && unetmm_stream_reads(st)) {
        core->redirects_waiting++;
        core->closing++;
    }
}

static void state_moved(UnetmmStream *st, UnetmmCore *core,
                        UnetmmRegion *region)
{
    uint32_t n = 0;

    if (!region->moved || st->wrong) {
        return;
    }
    for (unsigned i = 0; i < UNETMM_REDIRECTS; i++) {
        n += region->moved->redirects[i].state != UNETMM_MOVED_NOT;
    }
    n = unetmm_stream_choice(st, n, UNETMM_REDIRECTS + 1,
                             "the parts of a region that have moved");
    for (unsigned i = 0; n && i < UNETMM_REDIRECTS && !st->wrong; i++) {
        UnetmmRedirect *r = &region->moved->redirects[i];

        if (unetmm_stream_reads(st) ? i < n : r->state != UNETMM_MOVED_NOT) {
            state_redirect(st, core, region, r);
        }
    }
    state_spans(st, &region->moved->landed, 0, region->length - 1);
}

static void state_region(UnetmmStream *st, UnetmmCore *core, uint32_t number)
{
    UnetmmRegion *region = &core->regions[number];
    struct unetmm_cmd_region cmd = {
        .region = number, .key = region->key, .addr = region->addr,
        .length = region->length, .cookie = region->cookie,
        .rights = region->rights, .flags = region->flags,
        .counter = region->counter, .ncounters = region->ncounters,
    };
    uint16_t space = region->space;

    unetmm_stream_u16(st, &space);
    unetmm_stream_u32(st, &cmd.key);
    unetmm_stream_u64(st, &cmd.addr);
    unetmm_stream_u64(st, &cmd.length);
    unetmm_stream_u64(st, &cmd.cookie);
    unetmm_stream_u8(st, &cmd.rights);
    unetmm_stream_u8(st, &cmd.flags);
    unetmm_stream_u16(st, &cmd.counter);
    unetmm_stream_u16(st, &cmd.ncounters);
    if (unetmm_stream_reads(st) && !st->wrong &&
        unetmm_region_set(core, space, &cmd) != UNETMM_CS_OK) {
        unetmm_stream_refuse(st, "region %u could not have been set", number);
    }
    state_moved(st, core, region);
    state_clearing(st, core, region);
}

void unetmm_state_regions(UnetmmStream *st, UnetmmCore *core)
{
    for (uint32_t i = 0; i < core->params.regions && !st->wrong; i++) {
        bool live = core->regions[i].live;

        unetmm_stream_bool(st, &live, "a region's state");
        if (live) {
            state_region(st, core, i);
        }
    }
}

void unetmm_state_imports(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    for (uint32_t i = 0; i < core->params.imports && !st->wrong; i++) {
        UnetmmImport *import = &ep->imports[i];
        struct unetmm_cmd_import cmd = {
            .import = i, .region = import->region, .key = import->key,
            .channel = import->channel, .rights = import->rights,
            .length = import->length,
        };
        bool live = import->live;

        unetmm_stream_bool(st, &live, "an import's state");
        if (!live) {
            continue;
        }
        unetmm_stream_u32(st, &cmd.region);
        unetmm_stream_u32(st, &cmd.key);
        unetmm_stream_u16(st, &cmd.channel);
        unetmm_stream_u8(st, &cmd.rights);
        unetmm_stream_u64(st, &cmd.length);
        if (unetmm_stream_reads(st) && !st->wrong &&
            unetmm_import_set(core, ep->id, &cmd) != UNETMM_CS_OK) {
            unetmm_stream_refuse(st, "import %u of endpoint %u could not have "
                                 "been set", i, ep->id);
            return;
        }
        unetmm_stream_bool(st, &import->said, "what was said of an import");
    }
}
