/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Operations that bring data back: READ and FETCH_ADD.  The peer's process does
 * nothing.
 */
#include "onesided.h"

static bool posted(struct one_sided *o, uint32_t seq, int ret)
{
    if (ret == -EAGAIN) {
        return false;
    }
    if (ret) {
        fail_call(ret, UNETMM_CALL_ONE_SIDED, "cannot post an operation");
    }
    o->outstanding[one_sided_place(o, seq)]++;
    return true;
}

bool op_get(struct one_sided *o, uint32_t seq, bool more)
{
    size_t at = one_sided_at(o, seq);

    return posted(o, seq, unetmm_read(o->s->ep, (unsigned)o->import, at,
                                      o->local + at, o->plan.size,
                                      OP_COOKIE | one_sided_place(o, seq),
                                      more ? UNETMM_MORE : 0));
}

/* The peer's bytes stay; ours are wiped, so that the next ones are seen to come. */
bool op_got(struct one_sided *o, uint32_t seq)
{
    uint32_t place = one_sided_place(o, seq);
    bool right = one_sided_right(o, o->local, place, true);

    if (o->plan.verify) {
        memset(o->local + one_sided_at(o, seq), 0, o->plan.size);
    }
    return right;
}

bool op_add(struct one_sided *o, uint32_t seq, bool more)
{
    return posted(o, seq, unetmm_fetch_add(o->s->ep, (unsigned)o->import,
                                           one_sided_at(o, 0), 1,
                                           OP_COOKIE | one_sided_place(o, seq),
                                           more ? UNETMM_MORE : 0));
}

/* Each once: the old value is the number of earlier ones. */
bool op_added(struct one_sided *o, uint32_t seq)
{
    return o->old == seq - o->plan.first;
}
