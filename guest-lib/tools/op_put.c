/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Deliberate update: a descriptor and a doorbell.
 */
#include "onesided.h"

bool op_put(struct one_sided *o, uint32_t seq, bool more)
{
    uint32_t place = one_sided_place(o, seq);
    bool copied = o->plan.size <= UNETMM_MAX_INLINE;
    /* A bandwidth run counts completions; in a latency run the answer tells. */
    bool quiet = copied && !o->s->opt->is_bw;
    bool notify = o->plan.notify && !o->s->opt->is_bw;
    unsigned flags = (more ? UNETMM_MORE : 0) | (quiet ? UNETMM_UNSIGNALED : 0) |
                     (notify ? UNETMM_NOTIFY : 0);
    size_t at = one_sided_at(o, seq);
    int ret = unetmm_write(o->s->ep, (unsigned)o->import, at, o->local + at,
                           o->plan.size, notify ? seq : 0, OP_COOKIE | place,
                           flags);

    if (ret == -EAGAIN) {
        return false;
    }
    if (ret) {
        fail_call(ret, UNETMM_CALL_ONE_SIDED, "cannot write");
    }
    o->outstanding[place] += !quiet;
    return true;
}
