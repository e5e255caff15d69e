/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm_ib: verbs=own.
 */
#ifndef UNETMM_VERBS_OWN_H
#define UNETMM_VERBS_OWN_H

#include "verbs/verbs.h"

/* A completion queue of our provider has no memory of its own: this is only a number. */
#define UNETMM_OWN_MAX_CQE	4194303

/* A shared receive queue is an endpoint whose free queue others use. */
struct unetmm_ib_srq {
	struct ib_srq ib;
	struct mutex lock;		/* of modify */
	struct unetmm_ep *ep;
	struct unetmm_own_maps maps;	/* of verbs=own */
	struct unetmm_ib_shared *shared;	/* of verbs=rxe; or NULL */
	u32 max_wr, max_sge;
	u32 limit;			/* 0: no event is to come; ordered by the card's commands */
};

/* verbs/own.c */
extern const struct ib_device_ops unetmm_own_ops;
int unetmm_own_open(struct unetmm_own_maps *maps, struct unetmm_ib_context *context,
		    struct unetmm_ep *ep);
void unetmm_own_close(const struct unetmm_own_maps *maps);
int unetmm_own_tell(const struct unetmm_own_maps *maps, const struct unetmm_ep *ep,
		    struct ib_udata *udata);
u32 unetmm_own_log2(const struct unetmm_ib *dev, u32 entries);
void unetmm_own_sizes(const struct unetmm_ib_qp *qp, struct unetmm_endpoint *a);
void unetmm_own_work(struct work_struct *work);

/* verbs/srq.c */
extern const struct ib_device_ops unetmm_srq_ops;
u32 unetmm_srq_ep(const struct ib_srq *ib);
u32 unetmm_srq_requests(const struct ib_srq *ib);
struct unetmm_ib_shared *unetmm_srq_shared(const struct ib_srq *ib);

#endif /* UNETMM_VERBS_OWN_H */
