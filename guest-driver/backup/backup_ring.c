// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the backup ring of policy backup (NPF): its buffers, the number of packets
 * each endpoint may have there, and the card's reports.
 *
 * THE RING is there while an endpoint of the card has the policy: the first one
 * makes it, the last one takes it away.  Its buffers are the driver's: they have
 * this process's data now and that one's then, are never mapped by anybody, and only
 * bytes that the card reports as written are copied out of one.
 *
 * A BUFFER is the card's from when it is posted until it is reported; then its
 * endpoint's queue has it (backup/backup_queue.c), and a fresh one takes its place in the
 * ring at once.  So a process that leaves its packets waiting takes nothing from
 * others.  If no fresh one can be had, the packet is given up for it: its buffer
 * goes back to the ring, and its slot to the process, unfilled, in its turn.
 *
 * HOW MANY: an endpoint may have as many packets there as it has bits, to which
 * the card holds it, and bits are given out up to backup_buffers.  Those in the
 * ring come on top of that, a quarter of it at most.
 *
 * OLD REPORTS: as with the system buffer (redirect/system_buffer.c), reports are counted.
 * A queue knows the first one that can be its own, and the ring the first that
 * can be of the ring as it is now.
 *
 * LOCKS: b->lock has the ring, its users and queues[]; b->pool_lock the buffers
 * that nobody's queue has, and the ring's producer.  Before the former, none of a
 * queue's; the latter is innermost.
 */
#include <linux/dma-mapping.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "backup/backup.h"
#include "map/map.h"
#include "space/space.h"
#include "ring/ring.h"
#include "base/base.h"
#include "param/param.h"
#include "trace/trace.h"

#define UNETMM_BACKUP_BITS	256	/* of an endpoint that does not say */
#define UNETMM_BACKUP_LOG2	8	/* of the ring, at most */

void unetmm_backup_init(struct unetmm_dev *dev)
{
	mutex_init(&dev->backup->lock);
	spin_lock_init(&dev->backup->pool_lock);
	INIT_LIST_HEAD(&dev->backup->free);
}

/* ---- Buffers ---------------------------------------------------------------- */

static void unetmm_backup_buffer_free(struct unetmm_dev *dev,
				      struct unetmm_backup_buffer *buf)
{
	size_t bytes = dev->backup->buf_bytes;

	unetmm_unmap_kernel(dev, buf->dma, bytes);
	free_pages_exact(buf->mem, bytes);
	kfree(buf);
	atomic64_dec(&dev->counters[UNETMM_D_backup_buffers]);
}

/*
 * The fault work makes some for a process that is not its own: it does not wait for
 * memory.  Else a group above its memory.high, where each charge sleeps, would stop
 * everybody's misses.
 */
#define UNETMM_BACKUP_BUFFER_NOWAIT	(GFP_KERNEL_ACCOUNT & ~__GFP_DIRECT_RECLAIM)

static struct unetmm_backup_buffer *unetmm_backup_buffer_new(struct unetmm_dev *dev,
							     gfp_t gfp)
{
	size_t bytes = dev->backup->buf_bytes;
	struct unetmm_backup_buffer *buf;

	gfp |= __GFP_NOWARN | __GFP_ZERO;
	buf = kmalloc(sizeof(*buf), gfp);
	if (!buf)
		return NULL;
	buf->mem = alloc_pages_exact(bytes, gfp | __GFP_NORETRY);
	if (!buf->mem)
		goto free;
	if (unetmm_map_kernel(dev, buf->mem, bytes, &buf->dma))
		goto free_pages;
	unetmm_count(dev, backup_buffers);
	return buf;

free_pages:
	free_pages_exact(buf->mem, bytes);
free:
	kfree(buf);
	return NULL;
}

/* Gives it to the card, if there is a place for it. */
static bool unetmm_backup_buffer_post(struct unetmm_dev *dev,
				      struct unetmm_backup_buffer *buf)
{
	struct unetmm_backup_ring *b = dev->backup;
	u32 place = b->ring.index & (BIT(b->ring.log2) - 1);
	struct unetmm_backup *entry;

	lockdep_assert_held(&b->pool_lock);
	/* The place of a packet whose report has not been looked at. */
	if (!b->posted || b->posted[place])
		return false;
	dma_sync_single_for_device(&dev->pdev->dev, buf->dma, b->buf_bytes,
				   DMA_FROM_DEVICE);
	entry = unetmm_ring_slot(&b->ring);
	entry->addr = cpu_to_le64(buf->dma);
	entry->len = cpu_to_le32(b->buf_bytes);
	entry->rsvd = 0;
	b->posted[place] = buf;
	b->ring.index++;
	/* writel() orders the entry before the index. */
	if (unetmm_reachable(dev))
		unetmm_write(dev, b->ring.regs + UNETMM_RING_PROD,
			     b->ring.index);
	return true;
}

/* A queue is done with it.  Some are kept for the next packets. */
void unetmm_backup_buffer_put(struct unetmm_dev *dev, struct unetmm_backup_buffer *buf)
{
	struct unetmm_backup_ring *b = dev->backup;

	spin_lock(&b->pool_lock);
	if (unetmm_backup_buffer_post(dev, buf)) {
		buf = NULL;
	} else if (b->posted && b->nfree < BIT(b->ring.log2)) {
		list_add(&buf->node, &b->free);
		b->nfree++;
		buf = NULL;
	}
	spin_unlock(&b->pool_lock);
	if (buf)
		unetmm_backup_buffer_free(dev, buf);
}

/* A fresh one, for the one that the space has taken, whose group pays for it; or NULL. */
struct unetmm_backup_buffer *unetmm_backup_buffer_get(struct unetmm_dev *dev,
						      struct unetmm_aspace *space)
{
	struct unetmm_backup_ring *b = dev->backup;
	struct unetmm_backup_buffer *buf;
	struct unetmm_group group;

	spin_lock(&b->pool_lock);
	buf = list_first_entry_or_null(&b->free, struct unetmm_backup_buffer, node);
	if (buf) {
		list_del(&buf->node);
		b->nfree--;
	}
	spin_unlock(&b->pool_lock);
	if (buf)
		return buf;
	unetmm_group_enter(space, &group);
	buf = unetmm_backup_buffer_new(dev, UNETMM_BACKUP_BUFFER_NOWAIT);
	unetmm_group_leave(&group);
	return buf;
}

/*
 * The card uses up a buffer that it cannot write, without a report: the buffers before
 * the one that it reports are free again.
 */
static void unetmm_backup_buffer_skip(struct unetmm_backup_ring *b, u32 number)
{
	u32 mask = BIT(b->ring.log2) - 1;
	struct unetmm_backup_buffer *buf;

	lockdep_assert_held(&b->pool_lock);
	if (number - b->next > mask)
		return;
	for (; b->next != number; b->next++) {
		buf = b->posted[b->next & mask];
		b->posted[b->next & mask] = NULL;
		if (buf) {
			list_add(&buf->node, &b->free);
			b->nfree++;
		}
	}
	b->next++;
}

/* Takes the one that a report names out of the ring; NULL: there is none. */
struct unetmm_backup_buffer *unetmm_backup_buffer_take(struct unetmm_dev *dev, u32 number)
{
	struct unetmm_backup_ring *b = dev->backup;
	u32 size = BIT(b->ring.log2), place = number & (size - 1);
	struct unetmm_backup_buffer *buf = NULL;

	spin_lock(&b->pool_lock);
	/* The card has them in order, and has been given no others. */
	if (b->ring.index - number - 1 < size) {
		unetmm_backup_buffer_skip(b, number);
		buf = b->posted[place];
		b->posted[place] = NULL;
	}
	spin_unlock(&b->pool_lock);
	return buf;
}

/* ---- The ring; b->lock -------------------------------------------------------- */

static void unetmm_backup_unmake(struct unetmm_dev *dev)
{
	struct unetmm_backup_ring *b = dev->backup;
	struct unetmm_backup_buffer *buf, *next;
	struct unetmm_backup_buffer **posted;
	LIST_HEAD(free);
	u32 i;

	lockdep_assert_held(&b->lock);
	/* The card takes none any more; a report may still be in its ring. */
	if (unetmm_reachable(dev))
		unetmm_write(dev, b->ring.regs + UNETMM_RING_ENABLE, 0);
	spin_lock(&b->pool_lock);
	posted = b->posted;
	b->posted = NULL;
	list_splice_init(&b->free, &free);
	b->nfree = 0;
	spin_unlock(&b->pool_lock);
	for (i = 0; i < BIT(b->ring.log2); i++) {
		if (posted[i])
			unetmm_backup_buffer_free(dev, posted[i]);
	}
	kvfree(posted);
	list_for_each_entry_safe(buf, next, &free, node)
		unetmm_backup_buffer_free(dev, buf);
	unetmm_ring_exit(dev, &b->ring);
	kvfree(b->queues);
	b->queues = NULL;
}

/* As many buffers as there is memory for; one is enough to go on. */
static int unetmm_backup_fill(struct unetmm_dev *dev)
{
	struct unetmm_backup_ring *b = dev->backup;
	struct unetmm_backup_buffer *buf;
	u32 i;

	for (i = 0; i < BIT(b->ring.log2); i++) {
		buf = unetmm_backup_buffer_new(dev, GFP_KERNEL_ACCOUNT);
		if (!buf)
			return i ? 0 : -ENOMEM;
		unetmm_backup_buffer_put(dev, buf);
	}
	return 0;
}

static int unetmm_backup_make(struct unetmm_dev *dev)
{
	u32 log2 = ilog2(max(unetmm_param(dev, UNETMM_P_backup_buffers) / 4, 2u));
	struct unetmm_backup_ring *b = dev->backup;
	struct unetmm_backup_buffer **posted;
	int ret = -ENOMEM;

	lockdep_assert_held(&b->lock);
	log2 = min3(log2, (u32)UNETMM_BACKUP_LOG2, dev->hw.max_log2);
	b->buf_bytes = PAGE_ALIGN(max_t(u32, UNETMM_ETH_MAX,
					dev->hw.user_mtu));
	posted = kvcalloc(BIT(log2), sizeof(*posted), GFP_KERNEL_ACCOUNT);
	b->queues = kvcalloc(dev->hw.endpoints, sizeof(*b->queues),
			     GFP_KERNEL);
	if (!posted || !b->queues)
		goto free;
	ret = unetmm_ring_init(dev, &b->ring, UNETMM_RING_BACKUP,
			       sizeof(struct unetmm_backup), log2);
	if (ret)
		goto free;
	b->first = unetmm_reports_now(dev);
	spin_lock(&b->pool_lock);
	b->next = 0;
	b->posted = posted;
	spin_unlock(&b->pool_lock);
	ret = unetmm_backup_fill(dev);
	if (ret)
		unetmm_backup_unmake(dev);
	return ret;

free:
	kvfree(b->queues);
	b->queues = NULL;
	kvfree(posted);
	return ret;
}

/*
 * How many bits an endpoint gets that wants so many, 0: as usual.  Not more than
 * half of those that are left, a space not more than a quarter of all, and a user
 * not more than user_backup_buffers, so that others come to theirs.  Or -errno.
 */
int unetmm_backup_get(struct unetmm_aspace *space, u32 want)
{
	struct unetmm_dev *dev = space->dev;
	u32 most = max(unetmm_param(dev, UNETMM_P_backup_buffers), 1u);
	u32 share = max(most / 4, 1u);
	struct unetmm_backup_ring *b = dev->backup;
	u32 left, bits;
	int ret = 0;

	lockdep_assert_held(&b->lock);
	left = most - min(b->reserved, most);
	if (!left || space->backup_bits >= share)
		return -ENOSPC;
	bits = min3(want ?: UNETMM_BACKUP_BITS, dev->hw.backup_bits,
		    max(left / 2, 1u));
	bits = min(bits, share - space->backup_bits);
	bits = unetmm_user_take(space, UNETMM_USE_BACKUP, bits);
	if (!bits)
		return -EDQUOT;
	/* May sleep for long; until it has a user no report waits for b->lock. */
	if (!b->users)
		ret = unetmm_backup_make(dev);
	if (ret) {
		unetmm_user_give(space, UNETMM_USE_BACKUP, bits);
		return ret;
	}
	WRITE_ONCE(b->users, b->users + 1);
	b->reserved += bits;
	space->backup_bits += bits;
	return bits;
}

void unetmm_backup_put(struct unetmm_aspace *space, u32 bits)
{
	struct unetmm_dev *dev = space->dev;
	struct unetmm_backup_ring *b = dev->backup;

	lockdep_assert_held(&b->lock);
	b->reserved -= bits;
	space->backup_bits -= bits;
	unetmm_user_give(space, UNETMM_USE_BACKUP, bits);
	WRITE_ONCE(b->users, b->users - 1);
	if (!b->users)
		unetmm_backup_unmake(dev);
}

void unetmm_backup_show(struct seq_file *s, struct unetmm_dev *dev)
{
	struct unetmm_backup_ring *b = dev->backup;

	mutex_lock(&b->lock);
	seq_printf(s, "ring %lu\nbuffer_bytes %u\nfree %u\nreserved %u\nendpoints %u\n",
		   b->users ? BIT(b->ring.log2) : 0, b->buf_bytes,
		   READ_ONCE(b->nfree), b->reserved, b->users);
	mutex_unlock(&b->lock);
}
