/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The stash of an endpoint: completions that a blocking call has taken while it waited
 * for its own.  They are older than those in the queue, and the next polls take them first.
 */
#include "queue.h"

/* Completions of an endpoint that are kept for its polls, at most */
#define STASH_MOST  65536u

int unetmm_stash_check(const struct unetmm_ep_private *ep)
{
    return ep->stash.count < STASH_MOST ? 0 : -ENOBUFS;
}

static int stash_make_room(struct unetmm_ep_private *ep)
{
    struct unetmm_stash *stash = &ep->stash;
    size_t room = stash->room ? 2 * stash->room : 64;
    struct unetmm_completion *all;

    if (unetmm_stash_check(ep)) {
        return -ENOBUFS;
    }
    if (stash->first + stash->count < stash->room) {
        return 0;
    }
    if (stash->first) {
        memmove(stash->all, stash->all + stash->first,
                stash->count * sizeof(*stash->all));
        stash->first = 0;
        return 0;
    }
    all = sys_calloc(room, sizeof(*all));
    if (!all) {
        return -ENOMEM;
    }
    if (stash->count) {
        memcpy(all, stash->all, stash->count * sizeof(*all));
    }
    free(stash->all);
    stash->all = all;
    stash->room = room;
    return 0;
}

int unetmm_unstash(struct unetmm_ep *pub, struct unetmm_completion *c,
                   unsigned n)
{
    struct unetmm_stash *stash = &unetmm_ep_private(pub)->stash;
    unsigned taken = n < stash->count ? n : (unsigned)stash->count;

    memcpy(c, stash->all + stash->first, taken * sizeof(*c));
    stash->first += taken;
    stash->count -= taken;
    if (!stash->count) {
        stash->first = 0;
        pub->stashed = 0;
        unetmm_ep_set_direct(pub);
    }
    return (int)taken;
}

int unetmm_take_until(struct unetmm_ep_private *ep, uint64_t user_data,
                      struct unetmm_completion *c, uint64_t deadline)
{
    struct unetmm_stash *stash = &ep->stash;
    int ret;

    /* The awaited completion is not among the stashed ones. */
    ep->pub.stashed = 0;
    do {
        ret = stash_make_room(ep);
        if (ret) {
            break;
        }
        ret = unetmm_wait(&ep->pub, c, 1, unetmm_time_until(deadline));
        if (ret <= 0) {
            ret = ret ? ret : -ETIMEDOUT;
            break;
        }
        if (user_data && c->type == UNETMM_CQE_SENT && c->user_data == user_data) {
            break;
        }
        stash->all[stash->first + stash->count++] = *c;
    } while (user_data);
    ep->pub.stashed = stash->count != 0;
    unetmm_ep_set_direct(&ep->pub);
    return ret;
}
