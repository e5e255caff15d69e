/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Address handles, and messages of queue pairs of type UD.
 */
#ifndef UMV_UD_H
#define UMV_UD_H

#include "verbs.h"

struct umv_ah {
    struct ibv_ah ah;
    struct unetmm_verbs_ah own;
};

/* ud.c; the second with qp->send_lock */
struct ibv_ah *umv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int umv_destroy_ah(struct ibv_ah *ah);
int umv_put_to(struct umv_qp *qp, const struct ibv_send_wr *wr);
void umv_address(struct umv_qp *qp, const struct ibv_send_wr *wr, uint32_t number);

#endif /* UMV_UD_H */
