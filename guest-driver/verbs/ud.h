/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm_ib: address handles, and queue pairs of type UD.
 */
#ifndef UNETMM_VERBS_UD_H
#define UNETMM_VERBS_UD_H

#include "verbs/verbs.h"

/* Bytes of the network header in front of a UD message. */
#define UNETMM_IB_GRH		UNETMM_UD_HEAD

struct unetmm_ib_ah {
	struct ib_ah ib;
	struct rdma_ah_attr attr;
	u8 grh[UNETMM_IB_GRH];		/* a process's: in front of a message of no bytes */
};

static inline struct unetmm_ib_ah *unetmm_ib_ah(struct ib_ah *ib)
{
	return container_of(ib, struct unetmm_ib_ah, ib);
}

/* The UD queue pairs of a process, in all of its contexts */
struct unetmm_ud_process {
	struct list_head node;		/* dev->uds; dev->uds_lock */
	struct mm_struct *mm;		/* to compare; a queue pair's file holds the mm */
	u32 users;			/* queue pairs; dev->uds_lock */
	struct mutex lock;		/* the list */
	struct list_head qps;
};

/* verbs/ah.c */
extern const struct ib_device_ops unetmm_ib_ah_ops;
void unetmm_ib_grh(u8 *grh, const union ib_gid *from, const struct ib_global_route *to);
void unetmm_ib_grh_length(u8 *grh, u32 bytes);
void unetmm_ib_ah_address(struct unetmm_sqe *sqe, u8 *grh, const struct rxe_send_wr *wr, u32 bytes);

/* verbs/ud.c */
int unetmm_ib_mtu(const struct unetmm_ib *dev);
int unetmm_ud_check(const struct unetmm_ib *dev, const struct ib_qp_cap *cap);
int unetmm_ud_join(struct unetmm_ib_qp *qp);
void unetmm_ud_leave(struct unetmm_ib_qp *qp);
int unetmm_ud_open_channel(struct unetmm_ib_qp *qp);
void unetmm_ud_look(struct unetmm_ib_qp *qp);

#endif /* UNETMM_VERBS_UD_H */
