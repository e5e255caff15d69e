/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm_ib: memory regions of processes, and the structure that the kernel's have, too.
 */
#ifndef UNETMM_VERBS_MR_H
#define UNETMM_VERBS_MR_H

#include <rdma/uverbs_ioctl.h>

#include "verbs/verbs.h"

struct unetmm_ib_mr {
	struct ib_mr ib;
	struct unetmm_file *file;
	u64 start;			/* address of the process */
	u64 iova;			/* by which requests name it */
	u64 length;
	u32 index;			/* in mrs */
	struct unetmm_watch watch;
	u64 prefetched;			/* pages; mrs.xa_lock */
	int access;
	bool region;			/* the card has it, for peers */
	u32 windows;			/* that are bound; mw_lock */
	bool closed;			/* for windows: another region takes its place; mw_lock */
	struct unetmm_ib_fast *fast;	/* the kernel's own, verbs/fast.c; or NULL */
};

/* The context of a process's protection domain */
static inline struct unetmm_ib_context *unetmm_ib_pd_context(const struct ib_pd *pd)
{
	return unetmm_ib_context(pd->uobject->context);
}

/* verbs/mr.c */
extern const struct ib_device_ops unetmm_ib_mr_ops;
int unetmm_ib_mr_enter_all(struct unetmm_ib *dev, const struct ib_pd *pd,
			   struct unetmm_file *file);
bool unetmm_ib_mr_find(struct unetmm_ib_qp *qp, const struct rxe_sge *sge, int access, u64 *addr);
bool unetmm_ib_mr_find_for(struct unetmm_ib *dev, const struct ib_pd *pd, const struct rxe_sge *rxe,
			   int access, u64 *addr);
/* mw_lock: a region for windows; it stays until the lock is dropped. */
struct unetmm_ib_mr *unetmm_ib_mr_load(struct unetmm_ib *dev, const struct ib_pd *pd, u32 lkey);

/* verbs/mw.c */
extern const struct ib_device_ops unetmm_ib_mw_ops;
extern const struct uapi_definition unetmm_own_defs[];
u8 unetmm_ib_mw_bind(struct unetmm_ib_qp *qp, const struct unetmm_verbs_key *how);
u8 unetmm_ib_mw_invalidate(struct unetmm_ib_qp *qp, u32 rkey);
void unetmm_ib_mw_leave(struct unetmm_ib_qp *qp);

#endif /* UNETMM_VERBS_MR_H */
