/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fake_caller.h"

#include "provider.h"

#include <stdlib.h>

bool fake_calls_wait;

static void end_call(struct umfi_call *call)
{
    const struct unetmm_channel_attr attr = umfi_channel_attr();
    int ret = call->has_mac ? 0 :
        umfi_resolve(&call->fabric->dev, call->to, call->mac);

    umfi_list_del(&call->node);
    if (!ret) {
        ret = unetmm_connect_ex(call->card_ep, call->mac, call->service,
                                call->first_ms * 1000000ll, &attr, NULL);
        ret = ret < 0 ? -umfi_call_error(ret) : ret;
    }
    call->called(call, ret);
    free(call);
}

void umfi_call_begin(struct umfi_call *call)
{
    umfi_list_add(&call->fabric->calls_running, &call->node);
    if (!fake_calls_wait) {
        end_call(call);
    }
}

unsigned fake_calls_end(struct umfi_fabric *fabric, unsigned n)
{
    unsigned left = 0;

    while (n-- && fabric->calls_running.next != &fabric->calls_running) {
        end_call(umfi_of(fabric->calls_running.next, struct umfi_call, node));
    }
    for (struct umfi_list *i = fabric->calls_running.next; i != &fabric->calls_running; i = i->next) {
        left++;
    }
    return left;
}

void umfi_calls_cancel(struct umfi_fabric *fabric, const struct unetmm_ep *card_ep)
{
    struct umfi_list *next;

    for (struct umfi_list *i = fabric->calls_running.next; i != &fabric->calls_running; i = next) {
        struct umfi_call *call = umfi_of(i, struct umfi_call, node);

        next = i->next;
        if (!card_ep || call->card_ep == card_ep) {
            umfi_list_del(&call->node);
            free(call);
        }
    }
}
