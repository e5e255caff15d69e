/*
 * unetmm: modules: the parts of the card, each with a life of its own
 *
 * A module creates, resets and frees its own state, and is told of what happens
 * to endpoints and address spaces.  card/tables.c lists all modules.  Creation
 * goes through the table from first to last, reset and free from last to first:
 * a module may rely on those that stand before it.  What is called often is in
 * short lists (UnetmmHooks), which are made when the card is made.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../card/core.h"

static unsigned modules_count(const UnetmmCore *core)
{
    unsigned n = 0;

    while (core->tables->modules[n]) {
        n++;
    }
    return n;
}

static unsigned modules_place(unsigned n)
{
    assert(n < UNETMM_MAX_HOOKS - 1);
    return n;
}

/* Appends an operation, if the module has it, to the list of its name. */
#define HOOK(hooks, m, op) do { \
        unsigned n_ = 0; \
        while ((hooks)->op[n_]) { \
            n_++; \
        } \
        if ((m)->op) { \
            (hooks)->op[modules_place(n_)] = (m)->op; \
        } \
    } while (0)

static void modules_hook_deadline(UnetmmCore *core, const UnetmmModule *m)
{
    unsigned n = 0;

    if (!m->deadline_of_pages || core->params.dma_page_ns) {
        HOOK(&core->hooks, m, deadline);
    }
    while (core->hooks.deadline_at[n]) {
        n++;
    }
    if (m->deadline_at) {
        core->hooks.deadline_at[modules_place(n)] =
            (const int64_t *)((const char *)core + m->deadline_at);
    }
}

static void modules_hook(UnetmmCore *core)
{
    const UnetmmModule *const *table = core->tables->modules;
    unsigned n = modules_count(core);
    UnetmmHooks *hooks = &core->hooks;

    memset(hooks, 0, sizeof(*hooks));
    for (unsigned i = 0; i < n; i++) {
        HOOK(hooks, table[i], turn);
        HOOK(hooks, table[i], completes);
        HOOK(hooks, table[i], posted);
        HOOK(hooks, table[i], pages_lost);
        HOOK(hooks, table[i], idle);
        HOOK(hooks, table[i], flush);
        modules_hook_deadline(core, table[i]);
        HOOK(hooks, table[n - 1 - i], due);
        HOOK(hooks, table[n - 1 - i], late);
    }
}

void unetmm_modules_create(UnetmmCore *core)
{
    const UnetmmModule *const *m;

    modules_hook(core);
    for (m = core->tables->modules; *m; m++) {
        if ((*m)->create) {
            (*m)->create(core);
        }
    }
}

void unetmm_modules_reset(UnetmmCore *core)
{
    for (unsigned i = modules_count(core); i-- > 0;) {
        const UnetmmModule *m = core->tables->modules[i];

        if (m->reset) {
            m->reset(core);
        }
    }
}

void unetmm_modules_landed(UnetmmCore *core)
{
    for (unsigned i = modules_count(core); i-- > 0;) {
        const UnetmmModule *m = core->tables->modules[i];

        if (m->landed) {
            m->landed(core);
        }
    }
}

void unetmm_modules_free(UnetmmCore *core)
{
    for (unsigned i = modules_count(core); i-- > 0;) {
        const UnetmmModule *m = core->tables->modules[i];

        if (m->free) {
            m->free(core);
        }
    }
}

void unetmm_modules_ep_begin(UnetmmCore *core, UnetmmEp *ep)
{
    const UnetmmModule *const *m;

    for (m = core->tables->modules; *m; m++) {
        if ((*m)->ep_begin) {
            (*m)->ep_begin(core, ep);
        }
    }
}

void unetmm_modules_ep_stop(UnetmmCore *core, UnetmmEp *ep)
{
    const UnetmmModule *const *m;

    for (m = core->tables->modules; *m; m++) {
        if ((*m)->ep_stop) {
            (*m)->ep_stop(core, ep);
        }
    }
}

void unetmm_modules_ep_close(UnetmmCore *core, UnetmmEp *ep)
{
    const UnetmmModule *const *m;

    for (m = core->tables->modules; *m; m++) {
        if ((*m)->ep_close) {
            (*m)->ep_close(core, ep);
        }
    }
}

void unetmm_modules_ep_end(UnetmmCore *core, UnetmmEp *ep)
{
    const UnetmmModule *const *m;

    for (m = core->tables->modules; *m; m++) {
        if ((*m)->ep_end) {
            (*m)->ep_end(core, ep);
        }
    }
}

void unetmm_modules_space_end(UnetmmCore *core, uint16_t space)
{
    const UnetmmModule *const *m;

    for (m = core->tables->modules; *m; m++) {
        if ((*m)->space_end) {
            (*m)->space_end(core, space);
        }
    }
}

void unetmm_modules_pages_lost(UnetmmCore *core, uint16_t space,
                               uint64_t first, uint64_t last)
{
    for (unsigned i = 0; core->hooks.pages_lost[i]; i++) {
        core->hooks.pages_lost[i](core, space, first, last);
    }
}
