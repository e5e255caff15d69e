/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm_ib: QP1.
 */
#ifndef UNETMM_VERBS_GSI_H
#define UNETMM_VERBS_GSI_H

#include <rdma/ib_verbs.h>

int unetmm_ib_gsi_init(void);
void unetmm_ib_gsi_exit(void);
int unetmm_ib_gsi_create(struct ib_qp *ib, const struct ib_qp_init_attr *attr);
void unetmm_ib_gsi_destroy(struct ib_qp *ib);
int unetmm_ib_gsi_send(struct ib_qp *ib, const struct ib_send_wr *wr,
		       const struct ib_send_wr **bad);
int unetmm_ib_gsi_receive(struct ib_qp *ib, const struct ib_recv_wr *wr,
			  const struct ib_recv_wr **bad);

#endif /* UNETMM_VERBS_GSI_H */
