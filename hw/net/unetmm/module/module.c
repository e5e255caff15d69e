/*
 * unetmm: modules: the parts of the card, each with a life of its own
 *
 * A module creates, resets and frees its own state, and takes part in the life
 * of endpoints and address spaces.  card/tables.c lists all modules.  Creation
 * goes through the table from first to last, reset and free from last to first:
 * a module may rely on those that stand before it.  Operations called often
 * are in short lists (UnetmmModules), which are made when the card is made.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "module.h"

static unsigned modules_count(const UnetmmModules *modules)
{
    unsigned n = 0;

    while (modules->table[n]) {
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
#define HOOK(modules, m, op) do { \
        unsigned n_ = 0; \
        while ((modules)->op[n_]) { \
            n_++; \
        } \
        if ((m)->op) { \
            (modules)->op[modules_place(n_)] = (m)->op; \
        } \
    } while (0)

static void modules_hook_deadline(UnetmmModules *modules, UnetmmCore *core,
                                  const UnetmmModule *m)
{
    unsigned n = 0;

    if (!m->deadline_of_pages || modules->pages_take_time) {
        HOOK(modules, m, deadline);
    }
    while (modules->deadline_at[n]) {
        n++;
    }
    if (m->deadline_at) {
        modules->deadline_at[modules_place(n)] = m->deadline_at(core);
    }
}

static void modules_hook(UnetmmModules *modules, UnetmmCore *core)
{
    const UnetmmModule *const *table = modules->table;
    unsigned n = modules_count(modules);

    for (unsigned i = 0; i < n; i++) {
        HOOK(modules, table[i], turn);
        HOOK(modules, table[i], slot_completion_waits);
        HOOK(modules, table[i], unfinished_messages);
        HOOK(modules, table[i], posted);
        HOOK(modules, table[i], pages_lost);
        HOOK(modules, table[i], deferred_work);
        HOOK(modules, table[i], flush);
        modules_hook_deadline(modules, core, table[i]);
        HOOK(modules, table[n - 1 - i], deadline_passed);
        HOOK(modules, table[n - 1 - i], engine_entered);
    }
}

/* Calls an operation of all modules that have it. */
#define FORWARD(modules, op, ...) do { \
        const UnetmmModule *const *m_; \
        for (m_ = (modules)->table; *m_; m_++) { \
            if ((*m_)->op) { \
                (*m_)->op(__VA_ARGS__); \
            } \
        } \
    } while (0)

#define BACKWARD(modules, op, ...) do { \
        for (unsigned i_ = modules_count(modules); i_-- > 0;) { \
            const UnetmmModule *m_ = (modules)->table[i_]; \
            if (m_->op) { \
                m_->op(__VA_ARGS__); \
            } \
        } \
    } while (0)

void unetmm_modules_create(UnetmmModules *modules, UnetmmCore *core,
                           const UnetmmModule *const *table,
                           bool pages_take_time)
{
    *modules = (UnetmmModules) {
        .table = table, .pages_take_time = pages_take_time,
    };
    FORWARD(modules, create, core);
    modules_hook(modules, core);
}

void unetmm_modules_reset(UnetmmModules *modules, UnetmmCore *core)
{
    BACKWARD(modules, reset, core);
}

void unetmm_modules_landing_over(UnetmmModules *modules, UnetmmCore *core)
{
    BACKWARD(modules, landing_over, core);
}

void unetmm_modules_free(UnetmmModules *modules, UnetmmCore *core)
{
    BACKWARD(modules, free, core);
}

void unetmm_modules_ep_begin(UnetmmModules *modules, UnetmmCore *core,
                             UnetmmEp *ep)
{
    FORWARD(modules, ep_begin, core, ep);
}

void unetmm_modules_ep_stop(UnetmmModules *modules, UnetmmCore *core,
                            UnetmmEp *ep)
{
    FORWARD(modules, ep_stop, core, ep);
}

void unetmm_modules_ep_close(UnetmmModules *modules, UnetmmCore *core,
                             UnetmmEp *ep)
{
    FORWARD(modules, ep_close, core, ep);
}

void unetmm_modules_ep_end(UnetmmModules *modules, UnetmmCore *core,
                           UnetmmEp *ep)
{
    FORWARD(modules, ep_end, core, ep);
}

void unetmm_modules_import_end(UnetmmModules *modules, UnetmmCore *core,
                               UnetmmEp *ep, uint16_t import)
{
    FORWARD(modules, import_end, core, ep, import);
}

void unetmm_modules_space_end(UnetmmModules *modules, UnetmmCore *core,
                              uint16_t space)
{
    FORWARD(modules, space_end, core, space);
}

void unetmm_modules_pages_lost(UnetmmModules *modules, UnetmmCore *core,
                               uint16_t space, uint64_t first, uint64_t last)
{
    for (unsigned i = 0; modules->pages_lost[i]; i++) {
        modules->pages_lost[i](core, space, first, last);
    }
}

uint32_t unetmm_modules_unfinished(const UnetmmModules *modules,
                                   const UnetmmCore *core, const UnetmmEp *ep,
                                   uint16_t channel)
{
    uint32_t n = 0;

    for (unsigned i = 0; modules->unfinished_messages[i]; i++) {
        n += modules->unfinished_messages[i](core, ep, channel);
    }
    return n;
}
