// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: source ktlb: posting by system call.
 *
 * The process writes its descriptors into queues as with any source; the card
 * does not read them.  POST copies each once into queues that only the driver
 * and the card have, at the same index, with the addresses replaced by places in
 * the page lists (source/ktlb.c), translates resident pages, and rings.  A
 * malformed descriptor is copied as it is, for the card to refuse: it does so before it
 * looks at an address.
 *
 * LOCKS.  space->region_lock (posts of one process) >
 * dev->rwsem > file->lock > kq->lock (against the endpoint's end).  Work that needs
 * mmap_lock only tries to have it; if it cannot, POST starts anew where it is, having
 * waited for mmap_lock without rwsem.  The producer
 * indices that the card obeys, and those of its consumers that we obey, are in
 * memory that no process maps.
 */
#include <linux/io.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "unetmm_wire.h"
#include "ep/ep.h"
#include "source/source.h"
#include "memory/memory.h"
#include "map/map.h"
#include "space/space.h"
#include "base/base.h"

union unetmm_kslots {
	struct unetmm_sqe sqe;
	u8 raw[UNETMM_MAX_SLOTS][UNETMM_SLOT_BYTES];
};

static void *unetmm_kpost_at(void *ring, u32 log2, u32 index, u32 bytes)
{
	return ring + (size_t)(index & (BIT(log2) - 1)) * bytes;
}

/* Slots behind the first, as the card counts them; 0 for nonsense. */
static u32 unetmm_kpost_extra(const struct unetmm_sqe *sqe)
{
	bool is_inline = sqe->flags & UNETMM_SQE_F_INLINE;
	u32 places = sqe->nsegs +
		     (is_inline ? DIV_ROUND_UP(sqe->inline_len, sizeof(*sqe->seg)) : 0);

	if ((is_inline && sqe->inline_len > UNETMM_MAX_INLINE) ||
	    sqe->nsegs > UNETMM_MAX_SEGS || places > UNETMM_MAX_PLACES ||
	    places <= UNETMM_SQE_SEGS)
		return 0;
	return DIV_ROUND_UP(places - UNETMM_SQE_SEGS, UNETMM_SLOT_SEGS);
}

/* Segments lie one behind the other from the descriptor's on. */
static struct unetmm_seg *unetmm_kpost_segs(union unetmm_kslots *slots)
{
	return (void *)slots + offsetof(struct unetmm_sqe, seg);
}

/* Will the card look at the segments, rather than refuse the descriptor? */
static bool unetmm_kpost_segs_ok(union unetmm_kslots *slots)
{
	const struct unetmm_seg *seg = unetmm_kpost_segs(slots);
	u64 total = 0;
	u32 i;

	if (slots->sqe.flags & UNETMM_SQE_F_INLINE ||
	    slots->sqe.nsegs > UNETMM_MAX_SEGS)
		return false;
	for (i = 0; i < slots->sqe.nsegs; i++) {
		u32 len = le32_to_cpu(seg[i].len);

		if (seg[i].rsvd ||
		    (len && le64_to_cpu(seg[i].addr) > U64_MAX - (len - 1)))
			return false;
		total += len;
	}
	return total <= UNETMM_MAX_PAYLOAD;
}

/* Adds a buffer to a slot; returns the place that the card takes for its address. */
static __le64 unetmm_kpost_range(struct unetmm_kslot *slot, u64 addr, u32 len)
{
	u64 entry = slot->entry + slot->npages;
	struct unetmm_krange *range;

	if (len) {
		range = &slot->ranges[slot->nranges++];
		range->vpn = addr >> PAGE_SHIFT;
		range->npages = ((addr + len - 1) >> PAGE_SHIFT) -
				range->vpn + 1;
		slot->npages += range->npages;
	}
	return cpu_to_le64(entry << PAGE_SHIFT | (addr & ~PAGE_MASK));
}

/* The slot is known from here on; the card asks for pages that cannot be filled now. */
static void unetmm_kpost_fill(struct unetmm_ep *ep, struct unetmm_kring *ring,
			      u32 index, const struct unetmm_kslot *new)
{
	struct unetmm_kslot *slot = &ring->slots[index & (BIT(ring->log2) - 1)];
	u32 n = 0;
	int ret;

	if (!new->npages)
		return;
	unetmm_klist_install(ep->space, slot, new);
	while (n < new->npages) {
		ret = unetmm_klist_fill(ep->space, ep->kq->batch,
					new->entry + n, new->npages - n);
		if (ret <= 0)
			break;
		n += ret;
	}
}

static u64 unetmm_kpost_entry(const struct unetmm_ep *ep, u64 kind, u32 log2,
			      u32 ring_log2, u32 index)
{
	return (u64)ep->id << UNETMM_KLIST_EP_SHIFT | kind |
	       (u64)(index & (BIT(ring_log2) - 1)) << log2;
}

/* One descriptor of `left` slots at most; returns how many it takes. */
static u32 unetmm_kpost_send(struct unetmm_ep *ep, u32 index, u32 left)
{
	void *from = ep->block->cpu + ep->sq_offset;
	void *to = ep->kq->block->cpu + ep->kq->sq_offset;
	struct unetmm_seg *seg;
	union unetmm_kslots slots;
	u32 i, n, nsegs = 0;

	memcpy(slots.raw[0], unetmm_kpost_at(from, ep->sq_log2, index,
					     UNETMM_SLOT_BYTES),
	       UNETMM_SLOT_BYTES);
	/* The copy is used. */
	barrier();
	n = 1 + unetmm_kpost_extra(&slots.sqe);
	for (i = 1; i < min(n, left); i++)
		memcpy(slots.raw[i], unetmm_kpost_at(from, ep->sq_log2,
						     index + i,
						     UNETMM_SLOT_BYTES),
		       UNETMM_SLOT_BYTES);
	barrier();
	if (n <= left && unetmm_kpost_segs_ok(&slots))
		nsegs = slots.sqe.nsegs;
	n = min(n, left);
	seg = unetmm_kpost_segs(&slots);
	for (i = 0; i < n; i++) {
		struct unetmm_kslot slot = {
			.entry = unetmm_kpost_entry(ep, 0,
						    UNETMM_KLIST_SMALL_LOG2,
						    ep->sq_log2, index + i),
		};
		u32 j, here = min_t(u32, nsegs, i ? UNETMM_SLOT_SEGS :
						    UNETMM_SQE_SEGS);

		for (j = 0; j < here; j++, seg++)
			seg->addr = unetmm_kpost_range(&slot,
						       le64_to_cpu(seg->addr),
						       le32_to_cpu(seg->len));
		nsegs -= here;
		unetmm_kpost_fill(ep, &ep->kq->sq, index + i, &slot);
		memcpy(unetmm_kpost_at(to, ep->sq_log2, index + i,
				       UNETMM_SLOT_BYTES),
		       slots.raw[i], UNETMM_SLOT_BYTES);
	}
	return n;
}

/*
 * The contents of the page need not be kept, and nobody but us has the buffer:
 * pages that are not resident are given up at once.  -EINVAL: that may not be done to it.
 * -EAGAIN: mmap_lock is to be waited for.
 */
static int unetmm_kpost_zero(struct unetmm_ep *ep, u64 addr, u32 len)
{
	struct unetmm_aspace *space = ep->space;
	int ret;

	if (addr & ~PAGE_MASK || len != PAGE_SIZE)
		return -EINVAL;
	ret = unetmm_zero_check(space->mm, addr);
	if (!ret)
		unetmm_zero_map(space, addr);
	return ret;
}

/* Not 0: the buffer is not taken. */
static int unetmm_kpost_free(struct unetmm_ep *ep, u32 index)
{
	void *from = ep->block->cpu + ep->fq_offset;
	void *to = ep->kq->block->cpu + ep->kq->fq_offset;
	struct unetmm_kslot slot = { .write = true };
	struct unetmm_fqe fqe;
	u64 addr, npages;
	u32 len, flags;
	int ret;

	memcpy(&fqe, unetmm_kpost_at(from, ep->fq_log2, index, sizeof(fqe)),
	       sizeof(fqe));
	barrier();
	addr = le64_to_cpu(fqe.addr);
	len = le32_to_cpu(fqe.len);
	flags = le32_to_cpu(fqe.flags);
	npages = ((addr & ~PAGE_MASK) + len + PAGE_SIZE - 1) >> PAGE_SHIFT;
	if (flags == UNETMM_FQE_F_ZERO && !fqe.rsvd) {
		ret = unetmm_kpost_zero(ep, addr, len);
		if (ret)
			return ret;
		slot.zero = true;
	}
	if (!(flags & ~UNETMM_FQE_F_ALL) && flags != UNETMM_FQE_F_ALL &&
	    !fqe.rsvd && len && addr <= U64_MAX - (len - 1) &&
	    npages <= BIT(UNETMM_KLIST_LARGE_LOG2)) {
		if (npages <= BIT(UNETMM_KLIST_SMALL_LOG2))
			slot.entry = unetmm_kpost_entry(ep, UNETMM_KLIST_FREE,
							UNETMM_KLIST_SMALL_LOG2,
							ep->fq_log2, index);
		else
			slot.entry = unetmm_kpost_entry(ep, UNETMM_KLIST_LARGE,
							UNETMM_KLIST_LARGE_LOG2,
							ep->fq_log2, index);
		fqe.addr = unetmm_kpost_range(&slot, addr, len);
		unetmm_kpost_fill(ep, &ep->kq->fq, index, &slot);
	}
	memcpy(unetmm_kpost_at(to, ep->fq_log2, index, sizeof(fqe)), &fqe,
	       sizeof(fqe));
	return 0;
}

/*
 * Takes back the slots that the card has done with.  True: the process's producer is
 * within the ring; if not, it is passed on as it is, and the card stops the
 * endpoint as it would with any source.
 */
static bool unetmm_kpost_reap(struct unetmm_ep *ep, struct unetmm_kring *ring,
			      u32 prod, const __le32 *cons_at)
{
	u32 cons = le32_to_cpu(READ_ONCE(*cons_at));

	if (cons - ring->done <= ring->next - ring->done)
		unetmm_klist_done(ep->space, ring, cons);
	return prod - ring->done <= BIT(ring->log2) &&
	       ring->next - ring->done <= prod - ring->done;
}

static void unetmm_kpost_publish(__le32 *at, u32 prod)
{
	/* The entries before the index that covers them. */
	dma_wmb();
	WRITE_ONCE(*at, cpu_to_le32(prod));
}

static int unetmm_kpost_run(struct unetmm_ep *ep)
{
	struct unetmm_ep_index *posts = ep->kq->posts;
	u32 sq_prod = le32_to_cpu(READ_ONCE(ep->index->user.sq_prod));
	u32 fq_prod = le32_to_cpu(READ_ONCE(ep->index->user.fq_prod));
	struct unetmm_kring *sq = &ep->kq->sq, *fq = &ep->kq->fq;
	bool sq_ok, fq_ok;
	int ret = 0;

	/*
	 * The entries are read after the indices that cover them, and the card's own
	 * index, which is never behind the process's view of it.
	 */
	rmb();
	sq_ok = unetmm_kpost_reap(ep, sq, sq_prod, &posts->card.sq_cons);
	fq_ok = unetmm_kpost_reap(ep, fq, fq_prod, &posts->card.fq_cons);
	while (fq_ok && fq->next != fq_prod && !fatal_signal_pending(current)) {
		ret = unetmm_kpost_free(ep, fq->next);
		if (ret)
			break;
		fq->next++;
		cond_resched();
	}
	unetmm_kpost_publish(&posts->user.fq_prod, fq_ok ? fq->next : fq_prod);
	while (sq_ok && sq->next != sq_prod && !fatal_signal_pending(current)) {
		sq->next += unetmm_kpost_send(ep, sq->next, sq_prod - sq->next);
		cond_resched();
	}
	unetmm_kpost_publish(&posts->user.sq_prod, sq_ok ? sq->next : sq_prod);
	if (unetmm_reachable(ep->dev))
		writel(0, ep->kq->doorbell);
	unetmm_count(ep->dev, ktlb_posts);
	return fatal_signal_pending(current) ? -EINTR : ret;
}

static int unetmm_kpost_locked(struct unetmm_file *file, u32 id)
{
	struct unetmm_ep *ep = unetmm_ep_find(file, id);
	int ret = -ENOENT;

	if (!ep)
		return ret;
	mutex_lock(&ep->kq->lock);
	if (!ep->kq->closed)
		ret = unetmm_kpost_run(ep);
	mutex_unlock(&ep->kq->lock);
	unetmm_ep_put(ep);
	return ret;
}

/* -EAGAIN: mmap_lock is to be waited for. */
static int unetmm_kpost_try(struct unetmm_file *file, u32 id)
{
	struct unetmm_dev *dev = file->dev;
	int ret;

	ret = down_read_killable(&dev->rwsem);
	if (ret)
		return ret;
	ret = -ENODEV;
	if (unetmm_running(dev) && !file->dead)
		ret = unetmm_kpost_locked(file, id);
	up_read(&dev->rwsem);
	return ret;
}

static int unetmm_kpost_wait(struct unetmm_aspace *space)
{
	unetmm_may_wait(space->dev);
	if (mmap_read_lock_killable(space->mm))
		return -EINTR;
	mmap_read_unlock(space->mm);
	cond_resched();
	return 0;
}

int unetmm_op_post(struct unetmm_file *file, void *arg)
{
	const struct unetmm_post *a = arg;
	struct unetmm_aspace *space = file->space;
	int ret;

	if (a->flags || a->rsvd || !space->ops->lists)
		return -EOPNOTSUPP;
	ret = mutex_lock_killable(&space->region_lock);
	if (ret)
		return ret;
	do {
		ret = unetmm_kpost_try(file, a->endpoint);
	} while (ret == -EAGAIN && !(ret = unetmm_kpost_wait(space)));
	mutex_unlock(&space->region_lock);
	return ret;
}
