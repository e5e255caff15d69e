// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the system buffer of policy redirect: its slots, each channel's share of
 * them, and the card's reports of filled slots.
 *
 * THE BUFFER exists while an endpoint of the card has the policy.  The first such
 * endpoint allocates it and gives it to the card.  After the last one the driver takes
 * it back as soon as no slot waits for an answer.  No process maps its memory: a slot
 * holds data of one process now and of another one later.  The driver copies only
 * the bytes that the card has reported.
 *
 * A SLOT belongs to the card until the card reports it (job->busy), and again from
 * the driver's answer on.  The driver answers each report once: by the queue of its
 * endpoint (redirect/redirect_queue.c), or at once if the endpoint or the region is gone, or if the
 * report is invalid.  The card never completes SYSBUF_DONE late.
 *
 * OLD REPORTS: numbers of endpoints and regions are used again, and a report may be
 * handled after its number has passed to another one.  So reports are counted, in 64
 * bits.  An endpoint's queue has the first count that can be its own, and
 * sysbuf->cleared[] the first one of a region's export, or none while it is not
 * exported.
 *
 * LOCKS: sysbuf->lock has the buffer, its users, queues[] and cleared[].  The
 * slots that channels have reserved are under ctl.lock, as channels are.
 */
#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "redirect/redirect.h"
#include "ep/ep.h"
#include "map/map.h"
#include "space/space.h"
#include "ring/ring.h"
#include "base/base.h"
#include "param/param.h"
#include "trace/trace.h"

void unetmm_sysbuf_init(struct unetmm_dev *dev)
{
	mutex_init(&dev->sysbuf->lock);
}

/* ---- The buffer ------------------------------------------------------------ */

static int unetmm_sysbuf_set(struct unetmm_dev *dev, dma_addr_t list, u32 slots,
			     u32 slot_bytes)
{
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_SYSBUF_SET,
		.sysbuf = {
			.list = cpu_to_le64(list),
			.slots = cpu_to_le32(slots),
			.slot_bytes = cpu_to_le32(slot_bytes),
		},
	};

	return unetmm_cmd(dev, &cmd, NULL);
}

/* Mapped for the card's writes; never by way of a copy. */
static int unetmm_slot_init(struct unetmm_dev *dev, struct unetmm_sysjob *job,
			    size_t bytes)
{
	int ret;

	/* The first user pays for it. */
	job->mem = alloc_pages_exact(bytes, GFP_KERNEL_ACCOUNT | __GFP_NOWARN |
				     __GFP_RETRY_MAYFAIL);
	if (!job->mem)
		return -ENOMEM;
	ret = unetmm_map_kernel(dev, job->mem, bytes, &job->dma);
	if (ret) {
		free_pages_exact(job->mem, bytes);
		job->mem = NULL;
	}
	return ret;
}

/* A buffer that the card does not have yet, or no longer. */
struct unetmm_sysmem {
	struct unetmm_sysjob *jobs;
	struct unetmm_redirect_queue **queues;
	u64 *cleared;
	__le64 *list;			/* for the command alone */
	dma_addr_t list_dma;
	u32 slots;			/* that the list has room for */
	u32 nslots;
	u32 slot_bytes;
};

static void unetmm_sysmem_free(struct unetmm_dev *dev, struct unetmm_sysmem *m)
{
	u32 i;

	for (i = 0; i < m->nslots; i++) {
		unetmm_unmap_kernel(dev, m->jobs[i].dma, m->slot_bytes);
		free_pages_exact(m->jobs[i].mem, m->slot_bytes);
	}
	if (m->list)
		dma_free_coherent(&dev->pdev->dev, m->slots * sizeof(*m->list),
				  m->list, m->list_dma);
	kvfree(m->jobs);
	kvfree(m->queues);
	kvfree(m->cleared);
	memset(m, 0, sizeof(*m));
}

static void unetmm_sysbuf_free(struct unetmm_dev *dev)
{
	struct unetmm_sysbuf *sb = dev->sysbuf;
	struct unetmm_sysmem m = {
		.jobs = sb->jobs,
		.queues = sb->queues,
		.cleared = sb->cleared,
		.nslots = sb->nslots,
		.slot_bytes = sb->slot_bytes,
	};

	sb->nslots = 0;
	sb->jobs = NULL;
	sb->queues = NULL;
	sb->cleared = NULL;
	unetmm_sysmem_free(dev, &m);
}

/*
 * As many slots as there is memory for; one is enough to go on.  Without
 * sysbuf->lock: the memory is charged to the caller, and a caller at its limit
 * reclaims here for as long as it takes, while other processes' reports go on.
 */
static int unetmm_sysmem_fill(struct unetmm_dev *dev, struct unetmm_sysmem *m)
{
	int ret = -ENOMEM;
	u32 i;

	m->slots = clamp(unetmm_param(dev, UNETMM_P_redirect_slots), 1u,
			 dev->hw.sysbuf_slots);
	m->slot_bytes = PAGE_ALIGN(UNETMM_SLOT_HEAD + dev->hw.user_mtu);
	m->jobs = kvcalloc(m->slots, sizeof(*m->jobs), GFP_KERNEL_ACCOUNT);
	m->queues = kvcalloc(dev->hw.endpoints, sizeof(*m->queues), GFP_KERNEL);
	m->cleared = kvcalloc(max(dev->hw.regions, 1u), sizeof(*m->cleared),
			      GFP_KERNEL);
	m->list = dma_alloc_coherent(&dev->pdev->dev,
				     m->slots * sizeof(*m->list), &m->list_dma,
				     GFP_KERNEL);
	if (!m->jobs || !m->queues || !m->cleared || !m->list)
		goto fail;
	for (i = 0; i < m->slots; i++) {
		ret = unetmm_slot_init(dev, &m->jobs[i], m->slot_bytes);
		if (ret)
			break;
		m->jobs[i].slot = i;
		m->list[i] = cpu_to_le64(m->jobs[i].dma);
		m->nslots++;
	}
	if (m->nslots)
		return 0;
fail:
	unetmm_sysmem_free(dev, m);
	return ret;
}

/* Gives the buffer to the card.  The caller frees @m, which keeps the list, or all. */
static int unetmm_sysbuf_give(struct unetmm_dev *dev, struct unetmm_sysmem *m)
{
	struct unetmm_sysbuf *sb = dev->sysbuf;
	int ret;

	lockdep_assert_held(&sb->lock);
	/* A report can come as soon as the card has the buffer: it waits for the lock. */
	ret = unetmm_sysbuf_set(dev, m->list_dma, m->nslots, m->slot_bytes);
	if (ret)
		return ret;
	sb->jobs = m->jobs;
	sb->queues = m->queues;
	sb->cleared = m->cleared;
	sb->nslots = m->nslots;
	sb->slot_bytes = m->slot_bytes;
	m->jobs = NULL;
	m->queues = NULL;
	m->cleared = NULL;
	m->nslots = 0;
	return 0;
}

/*
 * Takes it from the card if nobody uses it.  BUSY: reports are on their way, and
 * the answer to the last one comes back here.  A card that is given up does no DMA, and
 * unetmm_sysbuf_stop() is to come.
 */
void unetmm_sysbuf_reap(struct unetmm_dev *dev)
{
	struct unetmm_sysbuf *sb = dev->sysbuf;

	lockdep_assert_held(&sb->lock);
	if (!sb->users && sb->jobs && !unetmm_sysbuf_set(dev, 0, 0, sb->slot_bytes))
		unetmm_sysbuf_free(dev);
}

/*
 * For an endpoint, before the card knows of it.  Takes sysbuf->lock, and leaves it
 * to the caller to unlock if there is no error.  Another endpoint may make the
 * buffer meanwhile: then that one is used, and ours is freed.
 */
int unetmm_sysbuf_get_lock(struct unetmm_dev *dev)
{
	struct unetmm_sysbuf *sb = dev->sysbuf;
	struct unetmm_sysmem mem = {};
	int ret = 0;

	mutex_lock(&sb->lock);
	while (!ret && !sb->jobs) {
		if (mem.jobs) {
			ret = unetmm_sysbuf_give(dev, &mem);
			continue;
		}
		mutex_unlock(&sb->lock);
		ret = unetmm_sysmem_fill(dev, &mem);
		mutex_lock(&sb->lock);
	}
	if (!ret)
		sb->users++;
	unetmm_sysmem_free(dev, &mem);
	if (ret)
		mutex_unlock(&sb->lock);
	return ret;
}

void unetmm_sysbuf_put(struct unetmm_dev *dev)
{
	lockdep_assert_held(&dev->sysbuf->lock);
	dev->sysbuf->users--;
	unetmm_sysbuf_reap(dev);
}

/* The card has been reset, or is gone; the endpoints are closed. */
void unetmm_sysbuf_stop(struct unetmm_dev *dev)
{
	struct unetmm_sysbuf *sb = dev->sysbuf;

	mutex_lock(&sb->lock);
	WARN_ON_ONCE(sb->users);
	if (sb->jobs)
		unetmm_sysbuf_free(dev);
	mutex_unlock(&sb->lock);
}

/* ---- Credits; ctl.lock ------------------------------------------------------ */

/*
 * Slots for a new channel of the endpoint: as the parameter says, but not more
 * than a quarter of those that are left, so that many come to their turn.  0: there
 * is none left, for this user or at all, or the policy needs none.  The caller has
 * ctl.lock, and asserts it: this room does not know of channels.
 */
int unetmm_sysbuf_reserve(struct unetmm_ep *ep)
{
	struct unetmm_dev *dev = ep->dev;
	struct unetmm_sysbuf *sb = dev->sysbuf;
	u32 left, most, n;

	if (!ep->redirect_queue)
		return 0;
	/* It stays while the endpoint is open. */
	left = sb->nslots - min(sb->reserved, sb->nslots);
	if (!left) {
		unetmm_count(dev, sysbuf_no_credits);
		return -ENOSPC;
	}
	most = clamp(unetmm_param(dev, UNETMM_P_redirect_credits), 1u,
		     UNETMM_MOST_CREDITS);
	n = unetmm_user_take(ep->space, UNETMM_USE_SLOTS,
			     clamp(left / 4, 1u, most));
	sb->reserved += n;
	return n ? n : -EDQUOT;
}

void unetmm_sysbuf_unreserve(struct unetmm_ep *ep, u32 slots)
{
	if (!slots)
		return;
	ep->dev->sysbuf->reserved -= slots;
	unetmm_user_give(ep->space, UNETMM_USE_SLOTS, slots);
}

/* ---- Reports ---------------------------------------------------------------- */

/*
 * Before a region is on the card: reports so far were for an earlier one.  While
 * the ring is so full that the card may have slots of such a one still to report,
 * that cannot be said: -EAGAIN, when some have been taken.
 */
int unetmm_sysbuf_set_region(struct unetmm_dev *dev, u32 region)
{
	struct unetmm_sysbuf *sb = dev->sysbuf;
	u64 taken, now;
	int ret = 0;

	mutex_lock(&sb->lock);
	if (sb->cleared) {
		taken = atomic64_read(&dev->misses->total);
		now = unetmm_reports_now(dev);
		if (now - taken > BIT(dev->rings->fault.log2) / 2)
			ret = -EAGAIN;
		else
			sb->cleared[region] = now;
	}
	mutex_unlock(&sb->lock);
	return ret;
}

/* From here on the slot is the card's: it may report it at once. */
void unetmm_sysbuf_answer(struct unetmm_dev *dev, struct unetmm_sysjob *job,
			  u8 status)
{
	u32 slot = job->slot;
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_SYSBUF_DONE,
		.slot.slot = cpu_to_le32(slot),
		.slot.status = status,
	};

	dma_sync_single_for_device(&dev->pdev->dev, job->dma,
				   dev->sysbuf->slot_bytes, DMA_FROM_DEVICE);
	/* Pairs with unetmm_sysbuf_report(). */
	smp_store_release(&job->busy, false);
	trace_unetmm_sysbuf(slot, status);
	unetmm_cmd(dev, &cmd, NULL);
}
