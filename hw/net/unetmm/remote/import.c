/*
 * unetmm: imports: an endpoint's rights to a peer's memory
 *
 * A process names a small number; which region of which peer that is, and the
 * key to it, only the driver has ever said.  The peer checks all of it again.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../channel/channel.h"
#include "remote.h"

static UnetmmImport *import_at(UnetmmCore *core, uint16_t id, uint32_t number)
{
    UnetmmEp *ep = unetmm_ep_live(core, id);

    if (!ep || id == 0 || ep->closing || number >= core->params.imports) {
        return NULL;
    }
    return &ep->imports[number];
}

uint8_t unetmm_import_set(UnetmmCore *core, uint16_t id,
                          const struct unetmm_cmd_import *cmd)
{
    UnetmmImport *import = import_at(core, id, cmd->import);
    const UnetmmChannel *channel;

    if (!import || cmd->channel >= core->params.channels ||
        !core->eps[id].channels[cmd->channel].live) {
        return UNETMM_CS_BAD_ID;
    }
    if (import->live) {
        return UNETMM_CS_EXISTS;
    }
    channel = &core->eps[id].channels[cmd->channel];
    if (!channel->ops->post || !cmd->length || !cmd->rights ||
        cmd->rights & ~UNETMM_RIGHT_ALL) {
        return UNETMM_CS_BAD_ARG;
    }
    *import = (UnetmmImport) {
        .live = true, .rights = cmd->rights, .channel = cmd->channel,
        .region = cmd->region, .key = cmd->key, .length = cmd->length,
    };
    trace_unetmm_import(id, cmd->import, true, cmd->channel, cmd->region);
    return UNETMM_CS_OK;
}

/* Stores in its windows go on, as all descriptors taken before do. */
static void import_end(UnetmmCore *core, UnetmmEp *ep, uint32_t number)
{
    ep->imports[number].live = false;
    unetmm_modules_import_end(&core->modules, core, ep, number);
}

uint8_t unetmm_import_clear(UnetmmCore *core, uint16_t id, uint32_t number)
{
    UnetmmImport *import = import_at(core, id, number);

    if (!import || !import->live) {
        return UNETMM_CS_BAD_ID;
    }
    import_end(core, &core->eps[id], number);
    trace_unetmm_import(id, number, false, import->channel, import->region);
    return UNETMM_CS_OK;
}

void unetmm_import_drop(UnetmmCore *core, UnetmmEp *ep, uint16_t channel)
{
    for (uint32_t i = 0; i < core->params.imports; i++) {
        if (ep->imports[i].live && ep->imports[i].channel == channel) {
            import_end(core, ep, i);
        }
    }
}

const UnetmmImport *unetmm_import_at(const UnetmmCore *core,
                                     const UnetmmEp *ep, uint32_t number)
{
    return number < core->params.imports && ep->imports[number].live ?
           &ep->imports[number] : NULL;
}

UnetmmImport *unetmm_import_of(const UnetmmCore *core, UnetmmEp *ep,
                               uint32_t number, uint32_t region, uint32_t key)
{
    UnetmmImport *import = number < core->params.imports ?
                           &ep->imports[number] : NULL;

    return import && import->live && import->region == region &&
           import->key == key ? import : NULL;
}

bool unetmm_import_allows(const UnetmmCore *core, const UnetmmEp *ep,
                          const UnetmmDescriptor *d)
{
    static const uint8_t rights[] = {
        [UNETMM_OP_WRITE] = UNETMM_RIGHT_WRITE,
        [UNETMM_OP_READ] = UNETMM_RIGHT_READ,
        [UNETMM_OP_FETCH_ADD] = UNETMM_RIGHT_ATOMIC,
        [UNETMM_OP_CMP_SWAP] = UNETMM_RIGHT_ATOMIC,
    };
    const UnetmmImport *import;

    if (d->handle >= core->params.imports) {
        return false;
    }
    import = &ep->imports[d->handle];
    return import->live && import->channel == d->channel &&
           (import->rights & rights[d->opcode]) &&
           d->remote <= import->length &&
           d->len <= import->length - d->remote;
}

/* ---- Saved state -------------------------------------------------------- */

static const UnetmmField import_fields[] = {
    UNETMM_FIELDS(struct unetmm_cmd_import, region, key, channel, rights,
                  length),
};

/* The saved import is checked as by IMPORT_SET. */
static void import_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep,
                        uint32_t number)
{
    UnetmmImport *import = &ep->imports[number];
    struct unetmm_cmd_import cmd = {
        .import = number, .region = import->region, .key = import->key,
        .channel = import->channel, .rights = import->rights,
        .length = import->length,
    };
    bool live = import->live;

    unetmm_stream_bool(st, &live, "live");
    if (!live) {
        return;
    }
    UNETMM_STREAM_FIELDS(st, &cmd, import_fields);
    if (unetmm_stream_takes(st) &&
        unetmm_import_set(core, ep->id, &cmd) != UNETMM_CS_OK) {
        unetmm_stream_refuse(st, "import %u of endpoint %u could not have "
                             "been set", number, ep->id);
        return;
    }
    unetmm_stream_bool(st, &import->said, "said");
}

void unetmm_imports_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    for (uint32_t i = 0; i < core->params.imports && !st->wrong; i++) {
        unetmm_stream_enter(st, "import", i);
        import_save(st, core, ep, i);
        unetmm_stream_leave(st);
    }
}

static void import_ep_begin(UnetmmCore *core, UnetmmEp *ep)
{
    ep->imports = g_new0(UnetmmImport, MAX(core->params.imports, 1));
}

static void import_ep_end(UnetmmCore *core, UnetmmEp *ep)
{
    g_clear_pointer(&ep->imports, g_free);
}

static void import_reset(UnetmmCore *core)
{
    for (uint32_t i = 0; i < core->params.endpoints; i++) {
        import_ep_end(core, &core->eps[i]);
    }
}

const UnetmmModule unetmm_module_import = {
    .name = "import",
    .reset = import_reset,
    .ep_begin = import_ep_begin,
    .ep_end = import_ep_end,
};
