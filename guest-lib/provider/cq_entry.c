/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Entries of a completion queue, under the domain's lock.
 */
#include "provider.h"

#include <stdlib.h>
#include <sys/eventfd.h>

static bool grow_ring(struct umfi_cq *cq)
{
    uint32_t size = cq->mask + 1, count = cq->prod - cq->cons;
    struct umfi_entry *ring = size <= UINT32_MAX / 4 ?
        malloc(2 * (size_t)size * sizeof(*ring)) : NULL;

    if (!ring) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        ring[i] = cq->ring[(cq->cons + i) & cq->mask];
    }
    free(cq->ring);
    cq->ring = ring;
    cq->mask = 2 * size - 1;
    cq->cons = 0;
    cq->prod = count;
    return true;
}

void umfi_cq_wake_reader(struct umfi_cq *cq)
{
    if (cq->armed) {
        cq->armed = false;
        eventfd_write(cq->event_fd, 1);
    }
}

void umfi_cq_push_entry(struct umfi_cq *cq, const struct umfi_entry *entry)
{
    sys_assert_held(&cq->domain->lock);
    if (cq->prod - cq->cons > cq->mask && !grow_ring(cq)) {
        UMFI_WARN(FI_LOG_CQ, "no memory: a completion is lost\n");
        cq->overrun = true;
    } else {
        cq->ring[cq->prod++ & cq->mask] = *entry;
    }
    cq->only = NULL;
    umfi_cq_wake_reader(cq);
}
