/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Common to a home and its members: an endpoint, and exported words whose writes wake it.
 */
#include "sync.h"

/* Wakes the waiting thread, which reads the words itself. */
static void on_count(struct unetmm_ep *ep, struct unetmm_event_counter *counter, uint64_t now,
                     void *arg)
{
    (void)ep;
    (void)counter;
    (void)now;
    (void)arg;
}

int unetmm_sync_side_open(struct sync_side *side, size_t bytes, unsigned rights)
{
    int ret = unetmm_alloc_unshared(bytes, &side->words);

    if (ret) {
        return ret;
    }
    side->bytes = bytes;
    ret = unetmm_ep_create(side->ctx, NULL, &side->ep);
    if (!ret) {
        ret = unetmm_event_create(side->ctx, 1, &side->told);
    }
    if (!ret) {
        ret = unetmm_event_set_handler(side->ep, side->told, 0, on_count, NULL);
    }
    if (!ret && !sys_random(&side->export)) {
        ret = -EIO;
    }
    if (!ret) {
        ret = unetmm_export_events(side->ctx, side->export, side->words, bytes, rights, 0, 0,
                                   side->told, 1);
        side->exported = !ret;
    }
    if (ret) {
        unetmm_sync_side_close(side);
    }
    return ret;
}

void unetmm_sync_side_close(struct sync_side *side)
{
    if (side->exported) {
        unetmm_unexport(side->ctx, side->export);
    }
    if (side->told) {
        unetmm_event_set_handler(side->ep, side->told, 0, NULL, NULL);
        unetmm_event_destroy(side->told);
    }
    if (side->ep) {
        unetmm_ep_destroy(side->ep);
    }
    sys_munmap(side->words, side->bytes);
}
