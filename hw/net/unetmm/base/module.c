/*
 * unetmm: modules: the parts of the card, each with a life of its own
 *
 * A module creates, resets and frees its own state, and is told of what happens
 * to endpoints and address spaces.  card/tables.c lists all modules.  Creation
 * goes through the table from first to last, reset and free from last to first:
 * a module may rely on those that stand before it.
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

void unetmm_modules_create(UnetmmCore *core)
{
    const UnetmmModule *const *m;

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

void unetmm_modules_free(UnetmmCore *core)
{
    for (unsigned i = modules_count(core); i-- > 0;) {
        const UnetmmModule *m = core->tables->modules[i];

        if (m->free) {
            m->free(core);
        }
    }
}
