/*
 * unetmm: saving and restoring windows, what was stored in them, proxy pages
 *
 * The windows' memory is the host's to save.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../card/state.h"

static void state_window(UnetmmStream *st, UnetmmCore *core, UnetmmWindow *w)
{
    struct unetmm_cmd_window cmd = { .npages = 1 };

    unetmm_stream_bool(st, &w->live, "a window's state");
    if (!w->live) {
        return;
    }
    w->ep = unetmm_stream_choice(st, w->ep, core->params.endpoints,
                                 "a window's endpoint");
    unetmm_stream_u16(st, &w->import);
    unetmm_stream_u16(st, &w->combine_bytes);
    unetmm_stream_u32(st, &w->combine_ns);
    unetmm_stream_u64(st, &w->offset);
    cmd.import = w->import;
    cmd.combine_bytes = w->combine_bytes;
    cmd.combine_ns = w->combine_ns;
    cmd.offset = w->offset;
    /* What WINDOW_SET checks is what must hold. */
    if (!st->wrong && unetmm_window_check(core, w->ep, &cmd) != UNETMM_CS_OK) {
        unetmm_stream_refuse(st, "a window could not have been set");
    }
}

void unetmm_state_windows(UnetmmStream *st, UnetmmCore *core)
{
    for (uint32_t i = 0; i < core->params.window_pages && !st->wrong; i++) {
        state_window(st, core, &core->windows[i]);
    }
}

static void state_proxy(UnetmmStream *st, UnetmmCore *core, UnetmmProxy *p)
{
    struct unetmm_cmd_proxy cmd = { .npages = 1 };

    p->kind = unetmm_stream_choice(st, p->kind, UNETMM_PROXY_FROM + 1,
                                   "the kind of a proxy page");
    if (!p->kind) {
        return;
    }
    p->ep = unetmm_stream_choice(st, p->ep, core->params.endpoints,
                                 "a proxy page's endpoint");
    unetmm_stream_u16(st, &p->import);
    unetmm_stream_u64(st, &p->at);
    cmd.kind = p->kind;
    cmd.import = p->import;
    cmd.at = p->at;
    if (!st->wrong && unetmm_proxy_check(core, p->ep, &cmd) != UNETMM_CS_OK) {
        unetmm_stream_refuse(st, "a proxy page could not have been set");
    }
}

/* Half a start is not among it: the process does both again. */
void unetmm_state_proxies(UnetmmStream *st, UnetmmCore *core)
{
    for (uint32_t i = 0; i < core->params.proxy_pages && !st->wrong; i++) {
        state_proxy(st, core, &core->proxies[i]);
    }
}

static void state_update(UnetmmStream *st, UnetmmUpdate *u)
{
    unetmm_stream_u32(st, &u->region);
    unetmm_stream_u32(st, &u->key);
    unetmm_stream_u64(st, &u->remote);
    unetmm_stream_u16(st, &u->import);
    unetmm_stream_u16(st, &u->len);
    if (!u->len || u->len > UNETMM_MAX_INLINE) {
        unetmm_stream_refuse(st, "a packet of stores has no store, or too "
                             "many");
        u->len = 0;
    }
    unetmm_stream_bytes(st, u->data, u->len);
}

/* As many as there were, one after the other. */
static void load_updates(UnetmmStream *st, UnetmmCore *core, UnetmmStores *s,
                         uint32_t n)
{
    for (uint32_t i = 0; i < n && !st->wrong; i++) {
        UnetmmUpdate *u = g_new0(UnetmmUpdate, 1);

        core->updates++;
        if (s->last) {
            s->last->next = u;
        } else {
            s->first = u;
        }
        s->last = u;
        state_update(st, u);
    }
}

void unetmm_state_stores(UnetmmStream *st, UnetmmCore *core, UnetmmStores *s)
{
    uint32_t n = 0;

    for (UnetmmUpdate *u = s->first; u; u = u->next) {
        n++;
    }
    n = unetmm_stream_choice(st, n,
                             core->params.window_queue - core->updates + 1 +
                             (unetmm_stream_reads(st) ? 0 : n),
                             "the packets of stores");
    if (unetmm_stream_reads(st)) {
        s->due_ns = INT64_MAX;
        load_updates(st, core, s, n);
    } else {
        for (UnetmmUpdate *u = s->first; u; u = u->next) {
            state_update(st, u);
        }
    }
    unetmm_stream_bool(st, &s->open, "whether stores may follow");
    if (s->open) {
        unetmm_stream_time(st, &s->due_ns, core->ops->now_ns(core->host),
                           UNETMM_MAX_COMBINE_NS, "the end of a combination");
    }
    if (s->open && !s->last) {
        unetmm_stream_refuse(st, "stores follow what was not stored");
    }
    if (unetmm_stream_reads(st)) {
        core->window_due_ns = MIN(core->window_due_ns, s->due_ns);
    }
}
