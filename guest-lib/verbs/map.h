/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The queues and the doorbell of an endpoint, in the process.
 */
#ifndef UMV_MAP_H
#define UMV_MAP_H

#include <linux/unetmm_verbs.h>

#include "../src/queue/queue.h"

struct umv_context;

/* Memory that the process and the card share */
struct umv_map {
    void *queues, *doorbell;
    struct unetmm_verbs_qp layout;
};

int umv_map(struct umv_map *map, const struct umv_context *context);
void umv_unmap(const struct umv_map *map);
/* The queues are empty: a new endpoint's, or after RESET. */
void umv_bind(const struct umv_map *map, struct unetmm_ep *ep, uint32_t id);

#endif /* UMV_MAP_H */
