// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: policy backup: the card's reports of packets in the backup ring.
 */
#include <linux/dma-mapping.h>

#include "backup/backup.h"
#include "ep/ep.h"
#include "base/base.h"
#include "trace/trace.h"

static void unetmm_backup_packet_reported(struct unetmm_dev *dev,
					  const struct unetmm_fault *rec, u64 index)
{
	struct unetmm_backup_ring *b = dev->backup;
	u32 len = le32_to_cpu(rec->npages);
	u16 ep = le16_to_cpu(rec->ep);
	struct unetmm_backup_buffer *buf, *fresh;

	lockdep_assert_held(&b->lock);
	buf = unetmm_backup_buffer_take(dev, le32_to_cpu(rec->fault_id));
	if (!buf || ep >= dev->hw.endpoints || len > b->buf_bytes) {
		unetmm_count(dev, backup_bad);
		goto put;
	}
	if (!b->queues[ep]) {
		unetmm_count(dev, backup_cancelled);
		goto put;
	}
	fresh = unetmm_backup_buffer_get(dev, unetmm_backup_queue_space(b->queues[ep]));
	if (fresh) {
		unetmm_backup_buffer_put(dev, fresh);
		dma_sync_single_for_cpu(&dev->pdev->dev, buf->dma,
					b->buf_bytes, DMA_FROM_DEVICE);
		if (unetmm_backup_queue_add(b->queues[ep], rec, index, buf))
			buf = NULL;
	} else {
		unetmm_count(dev, backup_no_memory);
		unetmm_backup_queue_add(b->queues[ep], rec, index, NULL);
	}
put:
	if (buf)
		unetmm_backup_buffer_put(dev, buf);
}

/* From the fault ring; `index` counts its records. */
void unetmm_backup_report(struct unetmm_dev *dev,
			  const struct unetmm_fault *rec, u64 index)
{
	struct unetmm_backup_ring *b = dev->backup;

	trace_unetmm_backup(le16_to_cpu(rec->ep), le32_to_cpu(rec->fault_id),
			    le64_to_cpu(rec->vaddr), le32_to_cpu(rec->tag),
			    le32_to_cpu(rec->npages));
	/*
	 * Of a ring that is gone: the maker of the next one has b->lock, and may sleep
	 * for its memory.  That one's reports come after its user is counted.
	 */
	if (!READ_ONCE(b->users)) {
		unetmm_count(dev, backup_cancelled);
		return;
	}
	mutex_lock(&b->lock);
	if (b->users && index >= b->first)
		unetmm_backup_packet_reported(dev, rec, index);
	else
		unetmm_count(dev, backup_cancelled);
	mutex_unlock(&b->lock);
}
