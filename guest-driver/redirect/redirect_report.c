// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: policy redirect: the card's reports of filled slots.  The head of a slot is
 * copied and checked before its queue gets it.
 */
#include <linux/dma-mapping.h>

#include "redirect/redirect.h"
#include "ep/ep.h"
#include "base/base.h"

static bool unetmm_span_fits(struct unetmm_sysspan *span, u32 len, u64 task_size)
{
	u64 last;

	return span->len && span->from <= len && span->len <= len - span->from &&
	       !check_add_overflow(span->addr, span->len - 1, &last) &&
	       last < task_size;
}

/* Copies the head once, and checks the copy. */
static bool unetmm_slot_head(struct unetmm_dev *dev, struct unetmm_sysjob *job,
			     const struct unetmm_fault *rec)
{
	struct unetmm_slot head;
	u32 len, i;

	memcpy(&head, job->mem, sizeof(head));
	len = le32_to_cpu(head.len);
	if (head.space != rec->space || head.ep != rec->ep ||
	    len > dev->sysbuf->slot_bytes - UNETMM_SLOT_HEAD ||
	    !head.npieces || head.npieces > UNETMM_SLOT_PIECES ||
	    (head.opcode != UNETMM_OP_SEND && head.opcode != UNETMM_OP_WRITE))
		return false;
	job->write = head.opcode == UNETMM_OP_WRITE;
	job->region = le32_to_cpu(head.region);
	if (job->write && job->region >= dev->hw.regions)
		return false;
	job->nspans = head.npieces;
	job->span = 0;
	job->done = 0;
	job->copied = 0;
	for (i = 0; i < job->nspans; i++) {
		job->spans[i].addr = le64_to_cpu(head.piece[i].addr);
		job->spans[i].len = le32_to_cpu(head.piece[i].len);
		job->spans[i].from = le32_to_cpu(head.piece[i].from);
		if (!unetmm_span_fits(&job->spans[i], len, TASK_SIZE_MAX))
			return false;
	}
	return true;
}

/* The answer to give at once, or -1: a queue has taken it. */
static int unetmm_sysbuf_pass(struct unetmm_dev *dev, struct unetmm_sysjob *job,
			      const struct unetmm_fault *rec)
{
	struct unetmm_sysbuf *sb = dev->sysbuf;
	u16 ep = le16_to_cpu(rec->ep);
	struct unetmm_redirect_queue *q;

	if (!unetmm_slot_head(dev, job, rec) || ep >= dev->hw.endpoints) {
		unetmm_count(dev, sysbuf_bad);
		return UNETMM_SLOT_FAILED;
	}
	q = sb->queues[ep];
	if (q && (!job->write || job->index >= sb->cleared[job->region]) &&
	    unetmm_redirect_queue_add(q, le16_to_cpu(rec->space), job))
		return -1;
	unetmm_count(dev, sysbuf_cancelled);
	return UNETMM_SLOT_GONE;
}

/* From the fault ring; `index` counts its records. */
void unetmm_sysbuf_report(struct unetmm_dev *dev,
			  const struct unetmm_fault *rec, u64 index,
			  u64 seen_ns)
{
	struct unetmm_sysbuf *sb = dev->sysbuf;
	u32 slot = le32_to_cpu(rec->fault_id);
	struct unetmm_sysjob *job;
	int status;

	mutex_lock(&sb->lock);
	/* Pairs with unetmm_sysbuf_answer(). */
	if (slot >= sb->nslots || smp_load_acquire(&sb->jobs[slot].busy)) {
		unetmm_count(dev, sysbuf_bad);
		mutex_unlock(&sb->lock);
		return;
	}
	job = &sb->jobs[slot];
	job->busy = true;
	job->index = index;
	job->seen_ns = seen_ns;
	dma_sync_single_for_cpu(&dev->pdev->dev, job->dma, sb->slot_bytes,
				DMA_FROM_DEVICE);
	status = unetmm_sysbuf_pass(dev, job, rec);
	if (status >= 0) {
		unetmm_sysbuf_answer(dev, job, status);
		unetmm_sysbuf_reap(dev);
	}
	mutex_unlock(&sb->lock);
}
