/*
 * unetmm: saving and restoring regions and imports
 *
 * What REGION_SET and IMPORT_SET check is checked by the same functions when it
 * is restored.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "unetmm_host.h"
#include "unetmm_state.h"

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

static void state_region(UnetmmStream *st, UnetmmCore *core, uint32_t number)
{
    UnetmmRegion *region = &core->regions[number];
    struct unetmm_cmd_region cmd = {
        .region = number, .key = region->key, .addr = region->addr,
        .length = region->length, .cookie = region->cookie,
        .rights = region->rights, .flags = region->flags,
    };
    uint16_t space = region->space;

    unetmm_stream_u16(st, &space);
    unetmm_stream_u32(st, &cmd.key);
    unetmm_stream_u64(st, &cmd.addr);
    unetmm_stream_u64(st, &cmd.length);
    unetmm_stream_u64(st, &cmd.cookie);
    unetmm_stream_u8(st, &cmd.rights);
    unetmm_stream_u8(st, &cmd.flags);
    if (unetmm_stream_reads(st) && !st->wrong &&
        unetmm_region_set(core, space, &cmd) != UNETMM_CS_OK) {
        unetmm_stream_refuse(st, "region %u could not have been set", number);
    }
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
