/*
 * unetmm: the queue of endpoints that have work; card/engine.c serves it
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "ep.h"

void unetmm_ready_push(UnetmmCore *core, UnetmmEp *ep)
{
    if (ep->live) {
        unetmm_list_add(&core->lists->ready, ep->id);
    }
}

UnetmmEp *unetmm_ready_pop(UnetmmCore *core)
{
    UnetmmList *ready = &core->lists->ready;
    UnetmmEp *ep;

    if (!ready->used) {
        return NULL;
    }
    ep = &core->eps[unetmm_list_first(ready)];
    unetmm_list_pop(ready);
    return ep;
}

static void ready_create(UnetmmCore *core)
{
    core->lists = g_new0(UnetmmEpLists, 1);
    unetmm_list_create(&core->lists->ready, core->params.endpoints);
    unetmm_list_create(&core->lists->tell, core->params.endpoints);
}

static void ready_reset(UnetmmCore *core)
{
    unetmm_list_clear(&core->lists->ready);
    unetmm_list_clear(&core->lists->tell);
}

static void ready_free(UnetmmCore *core)
{
    unetmm_list_free(&core->lists->ready);
    unetmm_list_free(&core->lists->tell);
    g_clear_pointer(&core->lists, g_free);
}

/* Whose turn it is: the order is state of its own. */
static void ready_save(UnetmmStream *st, UnetmmCore *core)
{
    unetmm_list_save(st, &core->lists->ready, core->params.endpoints,
                     &(UnetmmListNames) {
        "ready_used", "ready", "endpoint %u is to be served twice",
    });
}

const UnetmmModule unetmm_module_ready = {
    .name = "ready",
    .create = ready_create,
    .reset = ready_reset,
    .free = ready_free,
    .save = ready_save,
};
