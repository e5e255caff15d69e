/*
 * unetmm: windows: automatic update (SHRIMP)
 *
 * A page of the windows' BAR belongs to one import.  The host has stored the
 * processor's value before it tells us, so that a load gives it back; here
 * it becomes part of a WRITE behind all that the channel was given before.
 * Nobody can be made to wait for a store.  So a store that the channel cannot
 * take now is queued, in the order of the stores, and when there is no place
 * for it the channel fails: memory that has some of the stores but not those
 * before them would be worse than none.
 *
 * Each channel has a place of its own, for the first packet that waits: so no
 * other process can make a store fail that the channel would take at once.
 * The packets behind the first have places that all endpoints share
 * (`window-queue`): an endpoint may have half of those that others leave.
 *
 * Lifetimes: a window is its endpoint's, an update its channel's.  Clearing a
 * window, or the import below it, lets earlier stores go on; the end of
 * a channel drops it, counted.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "store.h"

static void window_create(UnetmmCore *core)
{
    core->store = g_new0(UnetmmStore, 1);
    core->store->windows = g_new0(UnetmmWindow,
                                  MAX(core->params.window_pages, 1));
    core->store->waiting = g_new0(UnetmmStores *,
                                  MAX(core->params.reliable, 1));
    core->store->due_ns = INT64_MAX;
}

static void window_free(UnetmmCore *core)
{
    g_free(core->store->windows);
    g_free(core->store->waiting);
    g_clear_pointer(&core->store, g_free);
}

static void window_reset(UnetmmCore *core)
{
    memset(core->store->windows, 0,
           core->params.window_pages * sizeof(*core->store->windows));
    core->store->due_ns = INT64_MAX;
}

/* ---- Commands ----------------------------------------------------------- */

static bool window_pages_ok(const UnetmmCore *core, uint32_t page, uint32_t n)
{
    return n && page < core->params.window_pages &&
           n <= core->params.window_pages - page;
}

static bool window_cmd_ok(const struct unetmm_cmd_window *cmd)
{
    bool combines = cmd->combine_bytes;

    return cmd->combine_bytes <= UNETMM_MAX_INLINE &&
           cmd->combine_ns <= UNETMM_MAX_COMBINE_NS &&
           combines == !!cmd->combine_ns &&
           unetmm_all_zero(cmd->rsvd, sizeof(cmd->rsvd));
}

/* Does the import have these bytes, and may they be written? */
static bool window_fits(const UnetmmImport *import,
                        const struct unetmm_cmd_window *cmd)
{
    uint64_t bytes = (uint64_t)cmd->npages * UNETMM_PAGE_BYTES;

    return (import->rights & UNETMM_RIGHT_WRITE) &&
           bytes <= import->length && cmd->offset <= import->length - bytes;
}

static bool window_of(const UnetmmWindow *w, const UnetmmEp *ep,
                      uint16_t import)
{
    return w->live && w->ep == ep->id && w->import == import;
}

static bool window_has(const UnetmmCore *core, const UnetmmEp *ep,
                       uint16_t import)
{
    for (uint32_t i = 0; i < core->params.window_pages; i++) {
        if (window_of(&core->store->windows[i], ep, import)) {
            return true;
        }
    }
    return false;
}

uint8_t unetmm_window_check(UnetmmCore *core, uint16_t id,
                            const struct unetmm_cmd_window *cmd)
{
    UnetmmEp *ep = unetmm_ep_live(core, id);
    const UnetmmImport *import = ep && !ep->closing ?
                                 unetmm_import_at(core, ep, cmd->import) :
                                 NULL;

    if (!import) {
        return UNETMM_CS_BAD_ID;
    }
    if (!window_pages_ok(core, cmd->page, cmd->npages) ||
        !window_cmd_ok(cmd) || !window_fits(import, cmd)) {
        return UNETMM_CS_BAD_ARG;
    }
    return UNETMM_CS_OK;
}

static bool window_taken(const UnetmmCore *core, uint16_t id,
                         const struct unetmm_cmd_window *cmd)
{
    for (uint32_t i = 0; i < cmd->npages; i++) {
        if (core->store->windows[cmd->page + i].live) {
            return true;
        }
    }
    return window_has(core, &core->eps[id], cmd->import);
}

uint8_t unetmm_window_set(UnetmmCore *core, uint16_t id,
                          const struct unetmm_cmd_window *cmd)
{
    uint8_t status = unetmm_window_check(core, id, cmd);

    if (status != UNETMM_CS_OK) {
        return status;
    }
    if (window_taken(core, id, cmd)) {
        return UNETMM_CS_EXISTS;
    }
    /* The next process must not read the bytes of the previous one. */
    core->ops->clear_windows(core->host, cmd->page, cmd->npages);
    for (uint32_t i = 0; i < cmd->npages; i++) {
        core->store->windows[cmd->page + i] = (UnetmmWindow) {
            .live = true, .ep = id, .import = cmd->import,
            .offset = cmd->offset + (uint64_t)i * UNETMM_PAGE_BYTES,
            .combine_bytes = cmd->combine_bytes,
            .combine_ns = cmd->combine_ns,
        };
    }
    trace_unetmm_window(id, cmd->import, cmd->page, cmd->npages);
    return UNETMM_CS_OK;
}

uint8_t unetmm_window_clear(UnetmmCore *core,
                            const struct unetmm_cmd_window *cmd)
{
    if (!window_pages_ok(core, cmd->page, cmd->npages)) {
        return UNETMM_CS_BAD_ARG;
    }
    memset(&core->store->windows[cmd->page], 0,
           cmd->npages * sizeof(UnetmmWindow));
    trace_unetmm_window_clear(cmd->page, cmd->npages);
    return UNETMM_CS_OK;
}

void unetmm_window_drop_import(UnetmmCore *core, UnetmmEp *ep, uint16_t import)
{
    for (uint32_t i = 0; i < core->params.window_pages; i++) {
        if (window_of(&core->store->windows[i], ep, import)) {
            memset(&core->store->windows[i], 0, sizeof(UnetmmWindow));
        }
    }
}

static void window_ep_close(UnetmmCore *core, UnetmmEp *ep)
{
    for (uint32_t i = 0; i < core->params.window_pages; i++) {
        UnetmmWindow *window = &core->store->windows[i];

        if (window->live && window->ep == ep->id) {
            memset(window, 0, sizeof(*window));
        }
    }
}

/* ---- Stores that the channel has not taken ------------------------------ */

static void window_close(UnetmmStores *s)
{
    s->open = false;
    s->due_ns = INT64_MAX;
}

static void window_count(UnetmmCore *core, UnetmmEp *ep, bool shared, int n)
{
    core->store->updates += n;
    if (shared) {
        core->store->shared += n;
        ep->updates_shared += n;
    }
}

/* The first packet waits in the channel's own place, the others do not. */
static void window_push(UnetmmCore *core, UnetmmEp *ep, UnetmmStores *s,
                        UnetmmUpdate *u)
{
    window_count(core, ep, s->first, 1);
    if (s->last) {
        s->last->next = u;
    } else {
        s->first = u;
    }
    s->last = u;
}

/* The next packet moves to the channel's own place, if there is one. */
static void window_pop(UnetmmCore *core, UnetmmEp *ep, UnetmmStores *s)
{
    UnetmmUpdate *u = s->first;

    s->first = u->next;
    if (!s->first) {
        s->last = NULL;
    }
    window_count(core, ep, s->first, -1);
    g_free(u);
}

/* Hands over complete stores, as far as the channel takes them. */
static void window_hand_over(UnetmmCore *core, UnetmmEp *ep, UnetmmStores *s)
{
    while (s->first && !(s->open && s->first == s->last) &&
           ep->rel_ops->update(core, ep, s->rel, s->first)) {
        window_pop(core, ep, s);
    }
}

bool unetmm_window_flush(UnetmmCore *core, UnetmmEp *ep, UnetmmStores *s)
{
    window_close(s);
    window_hand_over(core, ep, s);
    return !s->first;
}

void unetmm_window_go_on(UnetmmCore *core, UnetmmEp *ep, UnetmmStores *s)
{
    window_hand_over(core, ep, s);
}

void unetmm_window_forget(UnetmmCore *core, UnetmmEp *ep, UnetmmStores *s)
{
    while (s->first) {
        unetmm_count(core, ep, UNETMM_C_drop_window, 1);
        window_pop(core, ep, s);
    }
    window_close(s);
}

/* ---- Stores ------------------------------------------------------------- */

/* A place for bytes that do not belong to the last update; NULL: no room. */
static UnetmmUpdate *window_new(UnetmmCore *core, UnetmmStores *s,
                                const UnetmmWindow *w, uint64_t remote)
{
    UnetmmEp *ep = &core->eps[w->ep];
    const UnetmmImport *import = unetmm_import_at(core, ep, w->import);
    UnetmmUpdate *u;

    if (s->first && !unetmm_half_left(core->params.window_queue,
                                      core->store->shared,
                                      ep->updates_shared)) {
        return NULL;
    }
    u = g_new(UnetmmUpdate, 1);
    u->next = NULL;
    u->import = w->import;
    u->region = import->region;
    u->key = import->key;
    u->remote = remote;
    u->len = 0;
    window_push(core, ep, s, u);
    if (w->combine_bytes) {
        s->open = true;
        s->due_ns = core->ops->now_ns(core->host) + w->combine_ns;
        core->store->due_ns = MIN(core->store->due_ns, s->due_ns);
    }
    return u;
}

/*
 * The last update, if these bytes go behind it and it has room for them.  As in
 * SHRIMP none goes on in the next page of the window: `at` is where in its page
 * the store begins.
 */
static UnetmmUpdate *window_tail(const UnetmmStores *s, const UnetmmWindow *w,
                                 uint32_t at, uint64_t remote, unsigned bytes)
{
    UnetmmUpdate *u = s->open ? s->last : NULL;

    return u && at && u->import == w->import && u->remote + u->len == remote &&
           (uint32_t)u->len + bytes <= w->combine_bytes ? u : NULL;
}

/* Where a page's stores wait for their channel; NULL: they go nowhere. */
static UnetmmStores *window_stores(UnetmmCore *core, const UnetmmWindow *w)
{
    UnetmmEp *ep = &core->eps[w->ep];
    const UnetmmImport *import = unetmm_import_at(core, ep, w->import);
    const UnetmmChannel *channel;

    if (!import || ep->error) {
        return NULL;
    }
    channel = &ep->channels[import->channel];
    return channel->ops->stores(channel);
}

/* Bytes of one page. */
static void window_store(UnetmmCore *core, const UnetmmWindow *w,
                         uint32_t at, const uint8_t *data, unsigned bytes)
{
    UnetmmStores *s = w->live ? window_stores(core, w) : NULL;
    UnetmmEp *ep = s ? &core->eps[w->ep] : NULL;
    uint64_t remote = w->offset + at;
    UnetmmUpdate *u;

    if (!s) {
        core->counters[UNETMM_C_drop_window]++;
        return;
    }
    unetmm_count(core, ep, UNETMM_C_window_stores, 1);
    u = window_tail(s, w, at, remote, bytes);
    if (!u) {
        unetmm_window_flush(core, ep, s);
        u = window_new(core, s, w, remote);
    }
    if (!u) {
        unetmm_count(core, ep, UNETMM_C_drop_window, 1);
        ep->rel_ops->overrun(core, ep, s->rel);
        return;
    }
    memcpy(u->data + u->len, data, bytes);
    u->len += bytes;
    if (u->len >= w->combine_bytes) {
        window_close(s);
    }
    window_hand_over(core, ep, s);
}

void unetmm_window_store(UnetmmCore *core, uint32_t offset,
                         const uint8_t *data, unsigned bytes)
{
    trace_unetmm_store(offset, bytes);
    while (bytes) {
        uint32_t at = offset % UNETMM_PAGE_BYTES;
        uint32_t page = offset / UNETMM_PAGE_BYTES;
        unsigned n = MIN(bytes, UNETMM_PAGE_BYTES - at);

        if (page >= core->params.window_pages) {
            core->counters[UNETMM_C_drop_window]++;
            break;
        }
        window_store(core, &core->store->windows[page], at, data, n);
        offset += n;
        data += n;
        bytes -= n;
    }
}

/* ---- Time --------------------------------------------------------------- */

static void window_due(UnetmmCore *core, int64_t now)
{
    if (core->store->due_ns > now) {
        return;
    }
    core->store->due_ns = INT64_MAX;
    for (uint32_t i = 0; core->store->updates && i < core->params.reliable;
         i++) {
        UnetmmStores *s = core->store->waiting[i];

        if (s && s->open && s->due_ns <= now) {
            unetmm_window_flush(core, &core->eps[s->ep], s);
        }
        if (s && s->open) {
            core->store->due_ns = MIN(core->store->due_ns, s->due_ns);
        }
    }
}

/* ---- Saved state -------------------------------------------------------- */

static const UnetmmField window_fields[] = {
    UNETMM_FIELD_IF(UnetmmWindow, live),
    UNETMM_FIELD_BELOW(UnetmmWindow, ep, "ep", endpoints, 0),
    UNETMM_FIELDS(UnetmmWindow, import, combine_bytes, combine_ns, offset),
};

/*
 * The bytes of the windows' BAR are a RAM block of the host and migrate with
 * the guest's RAM.  The saved window is checked as by WINDOW_SET.
 */
static void window_save(UnetmmStream *st, UnetmmCore *core, uint32_t i)
{
    UnetmmWindow *w = &core->store->windows[i];
    struct unetmm_cmd_window cmd = { .npages = 1 };

    if (!UNETMM_STREAM_FIELDS(st, w, window_fields)) {
        return;
    }
    cmd.import = w->import;
    cmd.combine_bytes = w->combine_bytes;
    cmd.combine_ns = w->combine_ns;
    cmd.offset = w->offset;
    if (unetmm_window_check(core, w->ep, &cmd) != UNETMM_CS_OK) {
        unetmm_stream_refuse(st, "a window could not have been set");
    }
}

static void windows_save(UnetmmStream *st, UnetmmCore *core)
{
    unetmm_stream_each(st, core, "window", core->params.window_pages,
                       window_save);
}

static const UnetmmField update_fields[] = {
    UNETMM_FIELDS(UnetmmUpdate, region, key, remote, import, len),
};

static void update_save(UnetmmStream *st, UnetmmUpdate *u)
{
    UNETMM_STREAM_FIELDS(st, u, update_fields);
    if (!u->len || u->len > UNETMM_MAX_INLINE) {
        unetmm_stream_refuse(st, "a packet of stores has no store, or too "
                             "many");
        u->len = 0;
    }
    unetmm_stream_bytes(st, u->data, u->len, "data");
}

/* As many as there were, one after the other. */
static void updates_load(UnetmmStream *st, UnetmmCore *core, UnetmmStores *s,
                         uint32_t n)
{
    for (uint32_t i = 0; i < n && !st->wrong; i++) {
        UnetmmUpdate *u = g_new0(UnetmmUpdate, 1);

        window_push(core, &core->eps[s->ep], s, u);
        unetmm_stream_enter(st, "update", i);
        update_save(st, u);
        unetmm_stream_leave(st);
    }
}

/* Places for packets: those that are shared, and one of each channel. */
static uint32_t window_places(const UnetmmCore *core)
{
    return core->params.window_queue + core->params.reliable;
}

/* How many an endpoint may have is no matter here: it gets none beyond that. */
void unetmm_stores_save(UnetmmStream *st, UnetmmCore *core, UnetmmStores *s)
{
    uint32_t n = 0;

    unetmm_stream_enter(st, "stores", UNETMM_STREAM_ONE);
    for (UnetmmUpdate *u = s->first; u; u = u->next) {
        n++;
    }
    n = unetmm_stream_choice(st, n, window_places(core) -
                             core->store->updates + 1 +
                             (unetmm_stream_reads(st) ? 0 : n), "updates");
    if (unetmm_stream_reads(st)) {
        s->due_ns = INT64_MAX;
        updates_load(st, core, s, n);
    } else {
        uint32_t i = 0;

        for (UnetmmUpdate *u = s->first; u; u = u->next) {
            unetmm_stream_enter(st, "update", i++);
            update_save(st, u);
            unetmm_stream_leave(st);
        }
    }
    unetmm_stream_bool(st, &s->open, "open");
    if (s->open) {
        unetmm_stream_time(st, &s->due_ns, UNETMM_MAX_COMBINE_NS, "due_ns");
    }
    unetmm_stream_leave(st);
    if (s->open && !s->last) {
        unetmm_stream_refuse(st, "stores follow a store that is missing");
    }
    if (unetmm_stream_reads(st)) {
        core->store->due_ns = MIN(core->store->due_ns, s->due_ns);
    }
}

static uint64_t windows_save_limit(const UnetmmCore *core)
{
    return core->params.window_pages * 32ull +
           window_places(core) * (UNETMM_MAX_INLINE + 32ull);
}

static const int64_t *window_deadline(const UnetmmCore *core)
{
    return &core->store->due_ns;
}

const UnetmmModule unetmm_module_window = {
    .name = "window",
    .create = window_create,
    .reset = window_reset,
    .free = window_free,
    .ep_close = window_ep_close,
    .import_end = unetmm_window_drop_import,
    .deadline_at = window_deadline,
    .deadline_passed = window_due,
    .save = windows_save,
    .save_limit = windows_save_limit,
};
