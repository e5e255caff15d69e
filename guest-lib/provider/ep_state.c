/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The state of an EP, of which umfi_ep_set_state() is the only writer, under the domain's lock:
 *
 *   connector   IDLE -> CONNECTING -> CONNECTED -> [ENDING ->] ENDED
 *   acceptor    IDLE -> CONNECTING -> ACCEPTING -> CONNECTED -> [ENDING ->] ENDED
 *
 * A connector whose request was refused is IDLE again.  fi_close() ends an EP in each state.
 */
#include "provider.h"

#include <assert.h>

#define TO(state)   (1u << UMFI_##state)

/* The states that each state may be followed by */
static const unsigned followers[] = {
    [UMFI_IDLE] = TO(CONNECTING) | TO(ENDED),
    [UMFI_CONNECTING] = TO(IDLE) | TO(ACCEPTING) | TO(CONNECTED) | TO(ENDED),
    [UMFI_ACCEPTING] = TO(CONNECTED) | TO(ENDED),
    [UMFI_CONNECTED] = TO(ENDING) | TO(ENDED),
    [UMFI_ENDING] = TO(ENDED),
    [UMFI_ENDED] = TO(ENDED),
};

static unsigned awaits_event(const struct umfi_ep *ep)
{
    return ep->state != UMFI_IDLE && ep->state != UMFI_ENDED;
}

void umfi_ep_set_state(struct umfi_ep *ep, enum umfi_state state)
{
    unsigned awaited = awaits_event(ep);

    sys_assert_held(&ep->domain->lock);
    assert(followers[ep->state] >> state & 1);
    ep->state = state;
    if (awaited != awaits_event(ep)) {
        __atomic_add_fetch(&ep->eq->channels, awaits_event(ep) - awaited, __ATOMIC_RELEASE);
    }
}
