/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Completions that a wait for another one has taken.
 */
#include "queue.h"

/* ---- Completions that were taken for somebody else --------------------- */

static bool stash_has_room(struct unetmm_stash *stash)
{
    size_t room = stash->room ? 2 * stash->room : 64;
    struct unetmm_completion *all;

    if (stash->first + stash->count < stash->room) {
        return true;
    }
    if (stash->first) {
        memmove(stash->all, stash->all + stash->first,
                stash->count * sizeof(*stash->all));
        stash->first = 0;
        return true;
    }
    all = sys_calloc(room, sizeof(*all));
    if (!all) {
        return false;
    }
    if (stash->count) {
        memcpy(all, stash->all, stash->count * sizeof(*all));
    }
    free(stash->all);
    stash->all = all;
    stash->room = room;
    return true;
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

/*
 * Takes completions until that of `user_data` comes; 1: it is in `c`.  Other
 * completions go behind the stashed ones, which are older.  user_data 0: any
 * completion.
 */
int unetmm_take_until(struct unetmm_ep_private *ep, uint64_t user_data,
                      struct unetmm_completion *c, uint64_t deadline)
{
    struct unetmm_stash *stash = &ep->stash;
    int ret;

    /* The awaited completion is not among the stashed ones. */
    ep->pub.stashed = 0;
    do {
        if (!stash_has_room(stash)) {
            ret = -ENOMEM;
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
