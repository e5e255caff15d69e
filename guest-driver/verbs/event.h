/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm_ib: verbs=own: parts of objects, and events of completion queues, which processes have.
 */
#ifndef UNETMM_VERBS_EVENT_H
#define UNETMM_VERBS_EVENT_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>

struct unetmm_ep;
struct unetmm_ib_qp;

/* Places for mmap() */
struct unetmm_own_maps {
	struct rdma_user_mmap_entry *queues, *doorbell;
};

/* A queue pair at a completion queue */
struct unetmm_own_place {
	struct list_head node;		/* cq->places; cq->places_lock */
	struct unetmm_ib_qp *qp;
};

struct unetmm_own_events {
	struct unetmm_own_place send, receive;
	spinlock_t lock;		/* all below */
	bool on;			/* the endpoint's queues are there */
	u32 seen;			/* completions that were looked at, running freely */
};

/* verbs/cq.c */
bool unetmm_ib_cq_is_armed(const struct ib_cq *ib);
int unetmm_ib_req_notify_cq(struct ib_cq *ib, enum ib_cq_notify_flags how);

/* verbs/event.c */
void unetmm_own_events_init(struct unetmm_ib_qp *qp);
void unetmm_own_events_join(struct unetmm_ib_qp *qp);
void unetmm_own_events_leave(struct unetmm_ib_qp *qp);
void unetmm_own_events_stop(struct unetmm_ib_qp *qp);
void unetmm_own_events_start(struct unetmm_ib_qp *qp);
int unetmm_own_req_notify_cq(struct ib_cq *ib, enum ib_cq_notify_flags how);
void unetmm_own_woken(struct unetmm_ep *ep, u8 type);
void unetmm_own_wake(const struct unetmm_ib_qp *qp);

#endif /* UNETMM_VERBS_EVENT_H */
