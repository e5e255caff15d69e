/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Mappings of an endpoint's queues and doorbell.
 */
#include "verbs.h"

#include <errno.h>
#include <sys/mman.h>

static void *map_part(const struct umv_context *context, uint64_t offset, uint32_t bytes,
                      int prot)
{
    void *memory = mmap(NULL, bytes, prot, MAP_SHARED, context->vctx.context.cmd_fd,
                        (off_t)offset);

    return memory == MAP_FAILED ? NULL : memory;
}

int umv_map(struct umv_map *map, const struct umv_context *context)
{
    const struct unetmm_verbs_qp *l = &map->layout;

    map->queues = map_part(context, l->queue_map, l->queue_bytes, PROT_READ | PROT_WRITE);
    map->doorbell = map_part(context, l->doorbell_map, l->doorbell_bytes, PROT_WRITE);
    return map->queues && map->doorbell ? 0 : ENOMEM;
}

void umv_unmap(const struct umv_map *map)
{
    if (map->doorbell) {
        munmap(map->doorbell, map->layout.doorbell_bytes);
    }
    if (map->queues) {
        munmap(map->queues, map->layout.queue_bytes);
    }
}

void umv_bind(const struct umv_map *map, struct unetmm_ep *ep, uint32_t id)
{
    const struct unetmm_verbs_qp *l = &map->layout;
    const struct unetmm_endpoint layout = {
        .id = id,
        .sq_log2 = l->sq_log2, .fq_log2 = l->fq_log2, .cq_log2 = l->cq_log2,
        .sq_offset = l->sq_offset, .fq_offset = l->fq_offset, .cq_offset = l->cq_offset,
        .index_offset = l->index_offset,
    };

    unetmm_ep_bind(unetmm_ep_private(ep), &layout, map->queues, map->doorbell);
    ep->sq_prod = ep->sq_cons = 0;
    ep->fq_prod = ep->fq_cons = 0;
    ep->cq_cons = ep->blocked_rung = 0;
}
