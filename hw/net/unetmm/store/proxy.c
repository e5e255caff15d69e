/*
 * unetmm: proxy pages: user-level DMA start (SHRIMP)
 *
 * A store to a page that stands for an import names the destination and says
 * how much; a load from a page that stands for the process's memory names the
 * source and starts the transfer.  Which pages a process has is its driver's
 * decision, so nothing is left to be checked but the length.
 *
 * The card remembers one store, the last.  A pair that something came between
 * has no effect: another's store takes its place, a load takes it away
 * whosever it is, and the driver makes the card forget it when its process
 * loses the processor (PROXY_ABORT).  The process does both again.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "store.h"

static void proxy_create(UnetmmCore *core)
{
    core->store->proxies = g_new0(UnetmmProxy,
                                  MAX(core->params.proxy_pages, 1));
}

static void proxy_free(UnetmmCore *core)
{
    g_clear_pointer(&core->store->proxies, g_free);
}

static void proxy_reset(UnetmmCore *core)
{
    memset(core->store->proxies, 0,
           core->params.proxy_pages * sizeof(*core->store->proxies));
    core->store->start.live = false;
}

/* ---- Commands ----------------------------------------------------------- */

static bool proxy_pages_ok(const UnetmmCore *core,
                           const struct unetmm_cmd_proxy *cmd)
{
    return cmd->npages && cmd->page < core->params.proxy_pages &&
           cmd->npages <= core->params.proxy_pages - cmd->page;
}

static bool proxy_cmd_ok(const struct unetmm_cmd_proxy *cmd)
{
    uint64_t bytes = (uint64_t)cmd->npages * UNETMM_PAGE_BYTES;

    return unetmm_all_zero(cmd->rsvd, sizeof(cmd->rsvd)) &&
           cmd->at % UNETMM_PAGE_BYTES == 0 && cmd->at <= UINT64_MAX - bytes &&
           (cmd->kind == UNETMM_PROXY_TO ||
            (cmd->kind == UNETMM_PROXY_FROM && !cmd->import));
}

/* The last page may reach beyond the import's end: each start is checked. */
static bool proxy_fits(const UnetmmImport *import,
                       const struct unetmm_cmd_proxy *cmd)
{
    uint64_t last = cmd->at + (cmd->npages - 1ull) * UNETMM_PAGE_BYTES;

    return (import->rights & UNETMM_RIGHT_WRITE) && last < import->length;
}

uint8_t unetmm_proxy_check(UnetmmCore *core, uint16_t id,
                           const struct unetmm_cmd_proxy *cmd)
{
    UnetmmEp *ep = unetmm_ep_live(core, id);
    const UnetmmImport *import;

    if (!ep || id == 0 || ep->closing) {
        return UNETMM_CS_BAD_ID;
    }
    if (!proxy_pages_ok(core, cmd) || !proxy_cmd_ok(cmd)) {
        return UNETMM_CS_BAD_ARG;
    }
    if (cmd->kind == UNETMM_PROXY_FROM) {
        return UNETMM_CS_OK;
    }
    import = unetmm_import_at(core, ep, cmd->import);
    if (!import) {
        return UNETMM_CS_BAD_ID;
    }
    return proxy_fits(import, cmd) ? UNETMM_CS_OK : UNETMM_CS_BAD_ARG;
}

uint8_t unetmm_proxy_set(UnetmmCore *core, uint16_t id,
                         const struct unetmm_cmd_proxy *cmd)
{
    uint8_t status = unetmm_proxy_check(core, id, cmd);

    if (status != UNETMM_CS_OK) {
        return status;
    }
    for (uint32_t i = 0; i < cmd->npages; i++) {
        if (core->store->proxies[cmd->page + i].kind) {
            return UNETMM_CS_EXISTS;
        }
    }
    for (uint32_t i = 0; i < cmd->npages; i++) {
        core->store->proxies[cmd->page + i] = (UnetmmProxy) {
            .kind = cmd->kind, .ep = id, .import = cmd->import,
            .at = cmd->at + (uint64_t)i * UNETMM_PAGE_BYTES,
        };
    }
    trace_unetmm_proxy(id, cmd->kind, cmd->page, cmd->npages, cmd->at);
    return UNETMM_CS_OK;
}

uint8_t unetmm_proxy_clear(UnetmmCore *core,
                           const struct unetmm_cmd_proxy *cmd)
{
    if (!proxy_pages_ok(core, cmd)) {
        return UNETMM_CS_BAD_ARG;
    }
    memset(&core->store->proxies[cmd->page], 0,
           cmd->npages * sizeof(UnetmmProxy));
    core->store->start.live = false;
    trace_unetmm_proxy_clear(cmd->page, cmd->npages);
    return UNETMM_CS_OK;
}

static void proxy_import_end(UnetmmCore *core, UnetmmEp *ep, uint16_t import)
{
    for (uint32_t i = 0; i < core->params.proxy_pages; i++) {
        UnetmmProxy *p = &core->store->proxies[i];

        if (p->kind == UNETMM_PROXY_TO && p->ep == ep->id &&
            p->import == import) {
            memset(p, 0, sizeof(*p));
        }
    }
    core->store->start.live = false;
}

static void proxy_ep_close(UnetmmCore *core, UnetmmEp *ep)
{
    for (uint32_t i = 0; i < core->params.proxy_pages; i++) {
        UnetmmProxy *proxy = &core->store->proxies[i];

        if (proxy->kind && proxy->ep == ep->id) {
            memset(proxy, 0, sizeof(*proxy));
        }
    }
    core->store->start.live = false;
}

/* ---- Starting ----------------------------------------------------------- */

static const UnetmmProxy *proxy_at(const UnetmmCore *core, uint64_t offset,
                                   uint8_t kind)
{
    uint64_t page = offset / UNETMM_PAGE_BYTES;

    return page < core->params.proxy_pages &&
           core->store->proxies[page].kind == kind ?
           &core->store->proxies[page] : NULL;
}

void unetmm_proxy_store(UnetmmCore *core, uint64_t offset, uint64_t value)
{
    const UnetmmProxy *to = proxy_at(core, offset, UNETMM_PROXY_TO);

    if (!to) {
        core->store->start.live = false;
        core->counters[UNETMM_C_err_doorbell]++;
        UNETMM_GUEST_ERR(doorbell, "store to proxy page %u, which is of no "
                         "import", (uint32_t)(offset / UNETMM_PAGE_BYTES));
        return;
    }
    core->store->start = (UnetmmStart) {
        .live = true, .ep = to->ep, .import = to->import, .len = value,
        .offset = to->at + offset % UNETMM_PAGE_BYTES,
    };
}

/* As SHRIMP's, a transfer crosses a page neither here nor there. */
static bool start_len_ok(const UnetmmStart *start, uint64_t from)
{
    uint64_t here = UNETMM_PAGE_BYTES - from % UNETMM_PAGE_BYTES;
    uint64_t there = UNETMM_PAGE_BYTES - start->offset % UNETMM_PAGE_BYTES;

    return start->len && start->len <= here && start->len <= there;
}

/* Gives the start to its import's channel, if the import allows it. */
static UnetmmPosted proxy_post(UnetmmCore *core, UnetmmEp *ep,
                               const UnetmmStart *start, uint64_t addr)
{
    const UnetmmImport *import = unetmm_import_at(core, ep, start->import);
    UnetmmChannel *channel;

    if (!import || ep->error || !(import->rights & UNETMM_RIGHT_WRITE) ||
        start->offset > import->length ||
        start->len > import->length - start->offset) {
        return UNETMM_POST_FAILED;
    }
    channel = &ep->channels[import->channel];
    return channel->ops->start(core, ep, channel, start, addr);
}

static uint32_t proxy_start(UnetmmCore *core, const UnetmmStart *start,
                            const UnetmmProxy *from, uint64_t addr)
{
    UnetmmEp *ep;

    if (!from || !start->live || start->ep != from->ep) {
        core->counters[UNETMM_C_proxy_splits]++;
        return UNETMM_START_SPLIT;
    }
    ep = &core->eps[from->ep];
    if (!start_len_ok(start, addr)) {
        unetmm_count(core, ep, UNETMM_C_proxy_refusals, 1);
        return UNETMM_START_REFUSED;
    }
    switch (proxy_post(core, ep, start, addr)) {
    case UNETMM_POSTED:
        unetmm_count(core, ep, UNETMM_C_proxy_starts, 1);
        unetmm_ready_push(core, ep);
        return UNETMM_START_DONE;
    case UNETMM_POST_FULL:
        unetmm_count(core, ep, UNETMM_C_proxy_refusals, 1);
        return UNETMM_START_BUSY;
    case UNETMM_POST_FAILED:
        break;
    }
    unetmm_count(core, ep, UNETMM_C_proxy_refusals, 1);
    return UNETMM_START_REFUSED;
}

uint32_t unetmm_proxy_load(UnetmmCore *core, uint64_t offset)
{
    const UnetmmProxy *from = proxy_at(core, offset, UNETMM_PROXY_FROM);
    UnetmmStart start = core->store->start;
    uint32_t result;

    core->store->start.live = false;
    result = proxy_start(core, &start, from,
                         from ? from->at + offset % UNETMM_PAGE_BYTES : 0);
    trace_unetmm_proxy_load(offset, result);
    return result;
}

/* ---- Saved state -------------------------------------------------------- */

static const UnetmmField proxy_fields[] = {
    UNETMM_FIELD_IF_RANGE(UnetmmProxy, kind, 0, UNETMM_PROXY_FROM),
    UNETMM_FIELD_BELOW(UnetmmProxy, ep, "ep", endpoints, 0),
    UNETMM_FIELDS(UnetmmProxy, import, at),
};

/* The saved proxy page is checked as by PROXY_SET. */
static void proxy_save(UnetmmStream *st, UnetmmCore *core, uint32_t i)
{
    UnetmmProxy *p = &core->store->proxies[i];
    struct unetmm_cmd_proxy cmd = { .npages = 1 };

    if (!UNETMM_STREAM_FIELDS(st, p, proxy_fields)) {
        return;
    }
    cmd.kind = p->kind;
    cmd.import = p->import;
    cmd.at = p->at;
    if (unetmm_proxy_check(core, p->ep, &cmd) != UNETMM_CS_OK) {
        unetmm_stream_refuse(st, "a proxy page could not have been set");
    }
}

/* Half of a start is not saved: the process starts again. */
static void proxies_save(UnetmmStream *st, UnetmmCore *core)
{
    unetmm_stream_each(st, core, "proxy", core->params.proxy_pages,
                       proxy_save);
}

static uint64_t proxies_save_limit(const UnetmmCore *core)
{
    return core->params.proxy_pages * 16ull;
}

void unetmm_proxy_abort(UnetmmCore *core)
{
    core->store->start.live = false;
}

const UnetmmModule unetmm_module_proxy = {
    .name = "proxy",
    .create = proxy_create,
    .reset = proxy_reset,
    .free = proxy_free,
    .ep_close = proxy_ep_close,
    .import_end = proxy_import_end,
    .save = proxies_save,
    .save_limit = proxies_save_limit,
};
