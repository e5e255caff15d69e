/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm_ib: queues that a process shares with the driver.
 */
#ifndef UNETMM_VERBS_QUEUE_H
#define UNETMM_VERBS_QUEUE_H

#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_user_rxe.h>

struct unetmm_ib_context;

/* Memory behind a mapping; of a queue. */
struct unetmm_ib_mapped {
	struct rdma_user_mmap_entry entry;
	void *mem;
};

/* Entries that the process and the driver share, as librxe maps them. */
struct unetmm_ib_queue {
	struct unetmm_ib_mapped *mapped;
	struct rxe_queue_buf *buf;
	struct unetmm_ib_context *context;	/* that is charged */
	struct mminfo info;
	u32 mask;
	u32 log2;			/* bytes of an entry */
	u32 index;			/* the driver's: the next entry; masked */
};

/* verbs/queue.c */
extern struct workqueue_struct *unetmm_ib_wq, *unetmm_ib_kernel_wq;
int unetmm_ib_queue_make(struct unetmm_ib_queue *q, struct ib_ucontext *context, u32 entries,
			 u32 bytes);
int unetmm_ib_queue_make_kernel(struct unetmm_ib_queue *q, u32 entries, u32 bytes);
void *unetmm_ib_queue_room(struct unetmm_ib_queue *q);
void unetmm_ib_queue_post(struct unetmm_ib_queue *q);
void unetmm_ib_queue_free(struct unetmm_ib_queue *q);
u32 unetmm_ib_queue_posted(const struct unetmm_ib_queue *q);
bool unetmm_ib_queue_peek(struct unetmm_ib_queue *q, void *copy, u32 bytes);
void unetmm_ib_queue_next(struct unetmm_ib_queue *q);
bool unetmm_ib_queue_put(struct unetmm_ib_queue *q, const void *entry, u32 bytes);
bool unetmm_ib_queue_waits(struct unetmm_ib_queue *q);
void unetmm_ib_queue_discard(struct unetmm_ib_queue *q);
int unetmm_ib_mmap(struct ib_ucontext *context, struct vm_area_struct *vma);
void unetmm_ib_mmap_free(struct rdma_user_mmap_entry *entry);

#endif /* UNETMM_VERBS_QUEUE_H */
