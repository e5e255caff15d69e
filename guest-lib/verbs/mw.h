/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory windows, and requests for their keys.
 */
#ifndef UMV_MW_H
#define UMV_MW_H

#include "verbs.h"

/* The immediate of a received message is a key that has ended. */
#define UMV_INV     UMV_KEYED

/* Was the request of a completion for the key of a window? */
static inline bool umv_changes_key(enum ibv_wc_opcode opcode)
{
    return opcode == IBV_WC_BIND_MW || opcode == IBV_WC_LOCAL_INV;
}

/* key.c; qp->send_lock, but for umv_end_key() */
int umv_put_key(struct umv_qp *qp, const struct ibv_send_wr *wr);
/* The requests that are queued, and not yet posted */
void umv_change_keys(struct umv_qp *qp);
/* By the peer's message */
int umv_end_key(struct umv_qp *qp, uint32_t rkey);

/* mw.c */
int umv_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
struct ibv_mw *umv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int umv_dealloc_mw(struct ibv_mw *mw);

#endif /* UMV_MW_H */
