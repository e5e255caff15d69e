/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Without a descriptor: automatic update, and user-level DMA start.
 *
 * Both are without completions.  A place in local memory is used again when the peer has
 * answered, so its data has arrived.
 */
#include "onesided.h"

/* Long enough for the rest of a message under emulation */
#define COMBINE_NS      5000u

int op_window_open(struct one_sided *o)
{
    const struct unetmm_window_attr attr = {
        .size = sizeof(attr),
        .combine_bytes = o->plan.combine,
        .combine_ns = o->plan.combine ? COMBINE_NS : 0,
    };

    return unetmm_window_open(o->s->ep, (unsigned)o->import, 0,
                              o->places * o->stride, &attr, &o->window);
}

bool op_store(struct one_sided *o, uint32_t seq, bool more)
{
    size_t at = one_sided_at(o, seq);

    (void)more;
    unetmm_window_copy((uint8_t *)o->window + at, o->local + at, o->plan.size);
    return true;
}

int op_proxy_open(struct one_sided *o)
{
    size_t bytes = o->places * o->stride;
    int ret = unetmm_udma_to(o->s->ep, (unsigned)o->import, 0, bytes,
                             &o->window);

    return ret ? ret : unetmm_udma_from(o->s->ep, o->local, bytes, &o->proxy);
}

bool op_dma_start(struct one_sided *o, uint32_t seq, bool more)
{
    size_t at = one_sided_at(o, seq);
    int ret = unetmm_udma_start((uint8_t *)o->window + at, (uint8_t *)o->proxy + at,
                                o->plan.size);

    (void)more;
    if (ret && ret != -EAGAIN) {
        fail("cannot start a transfer: the channel has failed, or the card has "
             "stopped the endpoint");
    }
    return !ret;
}
