/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: policy backup (NPF): the backup ring takes packets whose page is absent.
 */
#ifndef UNETMM_BACKUP_H
#define UNETMM_BACKUP_H

#include "ep/ep.h"

extern const struct unetmm_policy_ops unetmm_backup_policy;

/* A buffer of the backup ring. */
struct unetmm_backup_buffer {
	struct list_head node;		/* backup.free */
	void *mem;
	dma_addr_t dma;
};

struct unetmm_backup_ring {
	struct mutex lock;		/* the next */
	struct unetmm_ring ring;	/* its producer: pool_lock */
	u32 buf_bytes;
	u32 users;			/* endpoints */
	u32 reserved;			/* bits that these have */
	u64 first;			/* reports before are of an earlier one */
	u32 next;			/* buffer to be reported; pool_lock */
	struct unetmm_backup_queue **queues;	/* by endpoint */

	spinlock_t pool_lock;		/* the rest */
	struct unetmm_backup_buffer **posted;	/* by place; NULL: there is no ring */
	struct list_head free;
	u32 nfree;
};

/* backup/backup_ring.c */
void unetmm_backup_init(struct unetmm_dev *dev);
int unetmm_backup_get(struct unetmm_aspace *space, u32 want);
void unetmm_backup_put(struct unetmm_aspace *space, u32 bits);
void unetmm_backup_buffer_put(struct unetmm_dev *dev, struct unetmm_backup_buffer *buf);
struct unetmm_backup_buffer *unetmm_backup_buffer_get(struct unetmm_dev *dev,
						      struct unetmm_aspace *space);
struct unetmm_backup_buffer *unetmm_backup_buffer_take(struct unetmm_dev *dev, u32 number);
void unetmm_backup_show(struct seq_file *s, struct unetmm_dev *dev);

/* backup/backup_queue.c */
bool unetmm_backup_queue_add(struct unetmm_backup_queue *q, const struct unetmm_fault *rec,
			     u64 index, struct unetmm_backup_buffer *buf);
struct unetmm_aspace *unetmm_backup_queue_space(const struct unetmm_backup_queue *q);
void unetmm_backup_queue_tail(struct unetmm_backup_queue *q);

/* backup/backup_report.c */
void unetmm_backup_report(struct unetmm_dev *dev,
			  const struct unetmm_fault *rec, u64 index);

#endif /* UNETMM_BACKUP_H */
