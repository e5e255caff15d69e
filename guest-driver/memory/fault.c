// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the card's fault ring: misses and evictions, and reports of packets in
 * the system buffer or the backup ring, which are passed on.
 *
 * A miss has the three outcomes of the U-Net/MM paper: resident (or made so
 * without waiting) and given at once; refused, with the status that the
 * completion will carry; deferred, and paged in.  It is a job of the pager
 * (pager/pager.h), which says when it is served; this file sorts the records
 * and answers the card.
 */
#include <linux/slab.h>

#include "memory/memory.h"
#include "pager/pager.h"
#include "space/space.h"
#include "ring/ring.h"
#include "util/histogram.h"
#include "base/base.h"
#include "param/param.h"
#include "util/share.h"
#include "trace/trace.h"

#define UNETMM_TRIES		16	/* races with the notifier */
#define UNETMM_QUICK_TRIES	2	/* of one attempt */
#define UNETMM_TURN		256	/* records before others get a chance */

static void unetmm_reply_init(struct unetmm_cmd *cmd,
			      const struct unetmm_aspace *space,
			      const struct unetmm_miss *miss, u8 status)
{
	memset(cmd, 0, sizeof(*cmd));
	cmd->opcode = UNETMM_CMD_FAULT_REPLY;
	cmd->space = cpu_to_le16(space->id);
	cmd->reply.fault_id = cpu_to_le32(miss->fault_id);
	cmd->reply.vaddr = cpu_to_le64(miss->vaddr);
	cmd->reply.status = status;
}

/* An answer without pages. */
static void unetmm_reply(struct unetmm_aspace *space,
			 const struct unetmm_miss *miss, u8 status, u8 error)
{
	struct unetmm_cmd cmd;

	unetmm_reply_init(&cmd, space, miss, status);
	cmd.reply.error = error;
	trace_unetmm_reply(space->id, miss->fault_id, status, error, 0, 0, 0);
	/* ESTALE and ENOENT: the endpoint or the space closed meanwhile. */
	unetmm_cmd(space->dev, &cmd, NULL);
}

u8 unetmm_refusal(int err)
{
	switch (err) {
	case -EFAULT:
		return UNETMM_ST_PROTECTION;
	case -EOPNOTSUPP:
	case -EINVAL:
		return UNETMM_ST_UNSUPPORTED;
	default:
		return UNETMM_ST_LIMIT;
	}
}

static void unetmm_refuse(struct unetmm_aspace *space,
			  const struct unetmm_miss *miss, int err)
{
	if (err == -EAGAIN) {
		unetmm_reply(space, miss, UNETMM_REPLY_RETRY, 0);
		return;
	}
	unetmm_count(space->dev, faults_error);
	unetmm_reply(space, miss, UNETMM_REPLY_ERROR, unetmm_refusal(err));
}

/* Pins that the batch replaces leave the card before their pages go. */
static void unetmm_displace(struct unetmm_aspace *space,
			    const struct unetmm_batch *batch)
{
	unsigned long vpn = batch->vaddr >> PAGE_SHIFT;
	unsigned long last = vpn + batch->count - 1;
	struct unetmm_pin *pin = unetmm_pin_first(space, vpn);

	lockdep_assert_held(&space->lock);
	if (!pin || pin->vpn > last)
		return;
	unetmm_invalidate(space->dev, space->id, batch->vaddr,
			  (u64)last << PAGE_SHIFT | (PAGE_SIZE - 1));
	while (pin && pin->vpn <= last) {
		unetmm_pin_drop(space, pin);
		pin = unetmm_pin_first(space, vpn);
	}
	queue_work(unetmm_drop_wq, &space->drop_work);
}

/* Gives the batch to the card if nothing was invalidated since `seq`. */
static int unetmm_insert_locked(struct unetmm_aspace *space,
				struct unetmm_batch *batch, unsigned long seq,
				struct unetmm_cmd *cmd, u32 *taken)
{
	u64 last = batch->vaddr + (u64)batch->count * PAGE_SIZE - 1;
	u64 start;
	int ret;
	u32 i;

	lockdep_assert_held(&space->lock);
	*taken = 0;
	if (space->closing)
		return -ESTALE;
	if (unetmm_space_raced(space, seq, batch->vaddr, last))
		return -EAGAIN;
	unetmm_displace(space, batch);
	start = unetmm_stage_ns();
	ret = unetmm_cmd_spin(space->dev, cmd, taken);
	batch->resume_ns += unetmm_stage_since(start);
	if (ret)
		*taken = 0;
	*taken = min(*taken, batch->count);
	for (i = 0; i < *taken; i++) {
		batch->pins[i]->tag = le32_to_cpu(cmd->reply.tag);
		unetmm_pin_add(space, batch->pins[i]);
	}
	return ret;
}

/*
 * Sends RESOLVED with the batch's pages.  Pages that the card did not take are
 * unpinned; it asks again for those it still needs.
 */
static int unetmm_insert(struct unetmm_aspace *space,
			 const struct unetmm_miss *miss,
			 struct unetmm_batch *batch, unsigned long seq)
{
	struct unetmm_dev *dev = space->dev;
	u32 tag = atomic_inc_return(&dev->misses->next_tag);
	struct unetmm_cmd cmd;
	u32 i, taken;
	int ret;

	unetmm_reply_init(&cmd, space, miss, UNETMM_REPLY_RESOLVED);
	cmd.reply.npages = cpu_to_le16(batch->count);
	cmd.reply.list = cpu_to_le64(dev->rings->reply_list_dma);
	cmd.reply.tag = cpu_to_le32(tag);
	mutex_lock(&dev->rings->reply_lock);
	for (i = 0; i < batch->count; i++)
		dev->rings->reply_list[i] = cpu_to_le64(unetmm_pte(batch->pins[i]));
	spin_lock(&space->lock);
	ret = unetmm_insert_locked(space, batch, seq, &cmd, &taken);
	spin_unlock(&space->lock);
	mutex_unlock(&dev->rings->reply_lock);

	if (!ret)
		unetmm_count_add(dev, refused_inserts, batch->count - taken);
	trace_unetmm_reply(space->id, miss->fault_id, UNETMM_REPLY_RESOLVED, 0,
			   batch->count, taken, tag);
	unetmm_unpin_batch(space, batch, taken);
	return ret;
}

void unetmm_resolved(struct unetmm_aspace *space,
		     const struct unetmm_miss *miss,
		     struct unetmm_batch *batch)
{
	u64 start = unetmm_stage_ns();

	unetmm_reply(space, miss, UNETMM_REPLY_RESOLVED, 0);
	batch->resume_ns += unetmm_stage_since(start);
}

/* Pages are pinned, and given to the card. */
int unetmm_resolve_pins(struct unetmm_aspace *space,
			const struct unetmm_miss *miss,
			struct unetmm_batch *batch, int most)
{
	unsigned long seq;
	int tries, ret;

	for (tries = 0; tries < most; tries++) {
		seq = unetmm_space_seq(space);
		batch->zero = miss->zero;
		/* A send goes on page by page, a buffer or packet needs its pages at once. */
		batch->need = miss->write ? miss->npages : 1;
		ret = unetmm_pin_batch(space, batch, miss->vaddr, miss->npages,
				       miss->write);
		if (ret <= 0)
			return ret;
		ret = unetmm_insert(space, miss, batch, seq);
		if (ret != -EAGAIN)
			return 1;
		unetmm_count(space->dev, faults_retried);
	}
	return -EAGAIN;
}

static int unetmm_resolve(struct unetmm_aspace *space,
			  const struct unetmm_miss *miss,
			  struct unetmm_batch *batch, int most)
{
	/* A card that asks where its source never does is not to be believed. */
	return space->ops->resolve ?
	       space->ops->resolve(space, miss, batch, most) : -EOPNOTSUPP;
}

/* ---- A miss as a job ----------------------------------------------------------- */

static const struct unetmm_job_ops unetmm_miss_job_ops;

/*
 * PLACES
 *
 * A miss has a number on the card until it is over (UNETMM_FAULT_NUMBER), and there is a
 * place for each number.  So a report always finds a place, whatever other misses wait for,
 * and a user has as many places as the user's endpoints and channels have numbers.
 *
 *   free     the job is idle.
 *   taken    the job belongs to the pager, and `miss` to the job.
 *   taken, with `next_space`: the card has forgotten `miss` and reported `next`.  The job
 *            is active: its worker begins with `next` when the job ends.
 *
 * A report for a place that is taken means that the card has forgotten the miss before:
 * its job is dropped (unetmm_job_drop()), which waits for nothing.
 *
 * Reports ahead of a miss have no number.  They have UNETMM_HINTS places, of which a user
 * has a share, and are forgotten if there is none.
 *
 * misses->lock guards the places.  The pager's lock is taken within, and nothing else.
 */
#define UNETMM_HINTS		64

struct unetmm_miss_job {
	struct unetmm_job job;		/* node: misses->hints, of a free hint */
	struct unetmm_miss miss;
	struct unetmm_miss next;
	struct unetmm_aspace *next_space;	/* a reference; NULL: no next miss */
	bool taken;
	u32 page_ins;			/* that it has had */
	bool rests;			/* DELAY, and then to be paged in again */
	u64 began_ns;
	u64 page_ns;
};

static u32 unetmm_places(const struct unetmm_dev *dev)
{
	u64 most = (u64)dev->hw.endpoints * UNETMM_EP_MISSES +
		   (u64)dev->hw.reliable * UNETMM_REL_MISSES;

	return min_t(u64, most, UNETMM_FAULT_NUMBER + 1);
}

int unetmm_miss_table_init(struct unetmm_dev *dev)
{
	struct unetmm_miss_table *misses = dev->misses;
	u32 i;

	spin_lock_init(&misses->lock);
	INIT_LIST_HEAD(&misses->hints);
	misses->nhints = UNETMM_HINTS;
	misses->nplaces = unetmm_places(dev);
	misses->places = kvcalloc(misses->nplaces + UNETMM_HINTS,
				  sizeof(*misses->places), GFP_KERNEL);
	for (i = 0; misses->places && i < UNETMM_HINTS; i++)
		list_add_tail(&misses->places[misses->nplaces + i].job.node,
			      &misses->hints);
	return misses->places ? 0 : -ENOMEM;
}

/* All spaces are closed, and their jobs with them. */
void unetmm_miss_table_exit(struct unetmm_dev *dev)
{
	kvfree(dev->misses->places);
	dev->misses->places = NULL;
}

static void unetmm_hint_put(struct unetmm_miss_job *m)
{
	struct unetmm_aspace *space = m->job.space;
	struct unetmm_miss_table *misses = space->dev->misses;

	spin_lock(&misses->lock);
	list_add(&m->job.node, &misses->hints);
	misses->nhints++;
	unetmm_user_turns(space)->hints--;
	spin_unlock(&misses->lock);
	unetmm_space_put(space);
}

/*
 * The place is free: it is for the next miss, if there is one.  Returns a reference that the
 * caller puts when it has released the lock, or NULL.
 */
static struct unetmm_aspace *unetmm_miss_job_next(struct unetmm_miss_job *m)
{
	struct unetmm_aspace *space = m->next_space;

	m->taken = false;
	m->next_space = NULL;
	if (!space)
		return NULL;
	unetmm_job_init(&m->job, space, &unetmm_miss_job_ops);
	m->miss = m->next;
	m->page_ins = 0;
	m->rests = false;
	m->page_ns = 0;
	/* False: the space is closed, and the card has dropped the miss with it. */
	m->taken = unetmm_job_kick(&m->job);
	return m->taken ? NULL : space;
}

static void unetmm_space_put_if(struct unetmm_aspace *space)
{
	if (space)
		unetmm_space_put(space);
}

/* With its reference to the space. */
static void unetmm_miss_job_release(struct unetmm_miss_job *m)
{
	struct unetmm_aspace *space = m->job.space, *closed;
	struct unetmm_miss_table *misses = space->dev->misses;

	spin_lock(&misses->lock);
	closed = unetmm_miss_job_next(m);
	spin_unlock(&misses->lock);
	unetmm_space_put_if(closed);
	unetmm_space_put(space);
}

static enum unetmm_job_next unetmm_miss_job_end(struct unetmm_miss_job *m, int ret,
						struct unetmm_batch *batch)
{
	struct unetmm_aspace *space = m->job.space;

	if (ret > 0) {
		if (!m->page_ins)
			unetmm_count(space->dev, faults_resident);
		unetmm_stages_end(space->dev, batch);
	} else {
		unetmm_refuse(space, &m->miss, ret ?: -EAGAIN);
	}
	unetmm_miss_job_release(m);
	return UNETMM_JOB_DONE;
}

/* All pages may be more than there is memory for: then the first. */
static enum unetmm_job_next unetmm_miss_job_page_in(struct unetmm_miss_job *m)
{
	m->job.want = (struct unetmm_page_in) {
		.vaddr = m->miss.user,
		.npages = m->page_ins++ < 2 ? m->miss.npages : 1,
		.write = m->miss.write,
	};
	return UNETMM_JOB_PAGE;
}

/* While it is not answered, and its endpoint is open, the card has the buffer. */
static void unetmm_zero_serve(struct unetmm_aspace *space,
			      const struct unetmm_miss *miss)
{
	mutex_lock(&space->zero_lock);
	if (space->dev->up->ep_reported(space, miss->ep, miss->index))
		unetmm_zero_map(space, miss->user);
	mutex_unlock(&space->zero_lock);
}

/* The first attempt. */
static enum unetmm_job_next unetmm_miss_job_first_try(struct unetmm_miss_job *m,
						      struct unetmm_batch *batch)
{
	struct unetmm_aspace *space = m->job.space;
	struct unetmm_miss *miss = &m->miss;
	int ret;

	unetmm_stages_begin(space->dev, miss, batch);
	m->began_ns = batch->began_ns;
	if (space->ops->find && !space->ops->find(space, miss))
		return unetmm_miss_job_end(m, -EFAULT, batch);
	if (miss->zero)
		unetmm_zero_serve(space, miss);
	ret = unetmm_resolve(space, miss, batch, UNETMM_QUICK_TRIES);
	if (ret && ret != -EAGAIN)
		return unetmm_miss_job_end(m, ret, batch);
	unetmm_count(space->dev, faults_deferred);
	unetmm_reply(space, miss, UNETMM_REPLY_DEFERRED, 0);
	return unetmm_miss_job_page_in(m);
}

/* After a page-in. */
static enum unetmm_job_next unetmm_miss_job_retry(struct unetmm_miss_job *m,
						  struct unetmm_batch *batch)
{
	struct unetmm_job *job = &m->job;
	int ret;

	m->page_ns += job->slept_ns;
	batch->began_ns = m->began_ns;
	batch->page_ns = m->page_ns;
	batch->table_ns = 0;
	batch->resume_ns = 0;
	batch->zero = false;
	ret = unetmm_resolve(job->space, &m->miss, batch, UNETMM_QUICK_TRIES);
	if (!ret)
		ret = job->err;
	if ((ret && ret != -EAGAIN) || m->page_ins >= UNETMM_TRIES)
		return unetmm_miss_job_end(m, ret, batch);
	/* Gone again, or mmap_lock taken: the thread that did it must get on. */
	m->rests = true;
	return UNETMM_JOB_DELAY;
}

static enum unetmm_job_next unetmm_miss_job_serve(struct unetmm_job *job,
						  struct unetmm_batch *batch)
{
	struct unetmm_miss_job *m = container_of(job, struct unetmm_miss_job, job);
	const struct unetmm_source *ops = job->space->ops;

	if (m->miss.ahead) {
		/* Of a segment whose miss may come later, if still absent then. */
		if (ops->ahead)
			ops->ahead(job->space, &m->miss, batch);
		unetmm_hint_put(m);
		return UNETMM_JOB_DONE;
	}
	if (m->rests) {
		m->rests = false;
		return unetmm_miss_job_page_in(m);
	}
	return job->paged ? unetmm_miss_job_retry(m, batch) :
	       unetmm_miss_job_first_try(m, batch);
}

static void unetmm_miss_job_cancel(struct unetmm_job *job)
{
	struct unetmm_miss_job *m = container_of(job, struct unetmm_miss_job, job);

	if (m->miss.ahead) {
		unetmm_hint_put(m);
		return;
	}
	/* The card waits for no answer to a miss that it has forgotten. */
	if (!READ_ONCE(m->next_space))
		unetmm_refuse(job->space, &m->miss, -EFAULT);
	unetmm_miss_job_release(m);
}

static const struct unetmm_job_ops unetmm_miss_job_ops = {
	.serve = unetmm_miss_job_serve,
	.cancel = unetmm_miss_job_cancel,
	.once = true,
};

/* Takes over the reference to the space.  False: the card has no such miss. */
static bool unetmm_miss_job_add(struct unetmm_aspace *space,
				const struct unetmm_miss *miss)
{
	u32 number = miss->fault_id & UNETMM_FAULT_NUMBER;
	struct unetmm_miss_table *misses = space->dev->misses;
	struct unetmm_aspace *forgotten, *ended = NULL, *closed = NULL;
	struct unetmm_miss_job *m;

	if (number >= misses->nplaces)
		return false;
	m = &misses->places[number];
	spin_lock(&misses->lock);
	forgotten = m->next_space;
	m->next = *miss;
	WRITE_ONCE(m->next_space, space);
	if (m->taken && unetmm_job_drop(&m->job)) {
		ended = m->job.space;
		m->taken = false;
	}
	if (!m->taken)
		closed = unetmm_miss_job_next(m);
	spin_unlock(&misses->lock);
	unetmm_space_put_if(forgotten);
	unetmm_space_put_if(ended);
	unetmm_space_put_if(closed);
	return true;
}

/* Takes over the reference to the space.  False: the user's places are taken. */
static bool unetmm_hint_add(struct unetmm_aspace *space,
			    const struct unetmm_miss *miss)
{
	struct unetmm_miss_table *misses = space->dev->misses;
	struct unetmm_turns *turns = unetmm_user_turns(space);
	struct unetmm_miss_job *m = NULL;
	u32 others;

	spin_lock(&misses->lock);
	others = UNETMM_HINTS - misses->nhints - turns->hints;
	if (misses->nhints && (space->unlimited || turns->hints <
			       unetmm_share(UNETMM_HINTS, others))) {
		m = list_first_entry(&misses->hints, struct unetmm_miss_job,
				     job.node);
		list_del(&m->job.node);
		misses->nhints--;
		turns->hints++;
	}
	spin_unlock(&misses->lock);
	if (!m)
		return false;
	unetmm_job_init(&m->job, space, &unetmm_miss_job_ops);
	m->miss = *miss;
	if (!unetmm_job_kick(&m->job))
		unetmm_hint_put(m);
	return true;
}

/* ---- The ring ------------------------------------------------------------------ */

/* The card asks again for pages beyond. */
static u32 unetmm_miss_most(const struct unetmm_aspace *space)
{
	return space->ops->odp_batch ?
	       clamp_t(u32, unetmm_param(space->dev, UNETMM_P_odp_batch), 1,
		       UNETMM_MISS_MAX_PAGES) : UNETMM_REPLY_MAX_PAGES;
}

static struct unetmm_miss unetmm_miss_of(const struct unetmm_fault *rec,
					 u32 index)
{
	u64 vaddr = le64_to_cpu(rec->vaddr) & PAGE_MASK;

	return (struct unetmm_miss) {
		.fault_id = le32_to_cpu(rec->fault_id),
		.npages = le32_to_cpu(rec->npages),
		.vaddr = vaddr,
		.user = vaddr,
		.ep = le16_to_cpu(rec->ep),
		.index = index,
		.write = rec->flags & UNETMM_FAULT_F_WRITE,
		.zero = rec->flags & UNETMM_FAULT_F_ZERO,
	};
}

/* A hint: the miss behind it asks again for the missing pages. */
static void unetmm_ahead(struct unetmm_dev *dev, const struct unetmm_fault *rec)
{
	struct unetmm_miss miss = unetmm_miss_of(rec, 0);
	struct unetmm_aspace *space;

	unetmm_count(dev, faults_ahead);
	space = unetmm_space_lookup(dev, le16_to_cpu(rec->space));
	if (!space)
		return;
	miss.ahead = true;
	miss.npages = clamp_t(u32, miss.npages, 1, unetmm_miss_most(space));
	/* With no place left it is a miss later. */
	if (!unetmm_hint_add(space, &miss))
		unetmm_space_put(space);
}

static void unetmm_miss(struct unetmm_dev *dev, const struct unetmm_fault *rec,
			u32 index)
{
	struct unetmm_miss miss = unetmm_miss_of(rec, index);
	struct unetmm_aspace *space;

	trace_unetmm_miss(le16_to_cpu(rec->space), le16_to_cpu(rec->ep),
			  miss.fault_id, miss.vaddr, miss.npages, miss.write);
	unetmm_count(dev, faults);
	/* NULL: the space closed after the card wrote the record, and took the miss along. */
	space = unetmm_space_lookup(dev, le16_to_cpu(rec->space));
	if (!space)
		return;
	miss.npages = clamp_t(u32, miss.npages, 1, unetmm_miss_most(space));
	unetmm_stages_came(dev, rec, &miss);
	if (unetmm_miss_job_add(space, &miss))
		return;
	unetmm_count(dev, faults_bad);
	unetmm_space_put(space);
}

/*
 * The card has dropped an entry; DMA through it has ended.  Only entries without a table are
 * the card's to drop: a card that names a page of a table would have the page unpinned while
 * its entry is valid.
 */
static void unetmm_evict(struct unetmm_dev *dev, const struct unetmm_fault *rec)
{
	unsigned long vpn = le64_to_cpu(rec->vaddr) >> PAGE_SHIFT;
	bool dirty = rec->flags & UNETMM_FAULT_F_DIRTY;
	u32 tag = le32_to_cpu(rec->tag);
	struct unetmm_pin *pin = NULL;
	struct unetmm_aspace *space;

	space = unetmm_space_lookup(dev, le16_to_cpu(rec->space));
	if (space && space->ops->table) {
		unetmm_count(dev, faults_bad);
	} else if (space) {
		spin_lock(&space->lock);
		pin = unetmm_pin_first(space, vpn);
		if (pin && (pin->vpn != vpn || pin->tag != tag))
			pin = NULL;
		if (pin)
			unetmm_pin_take(space, pin);
		spin_unlock(&space->lock);
	}
	trace_unetmm_evict(le16_to_cpu(rec->space), le64_to_cpu(rec->vaddr),
			   tag, dirty, !pin);
	unetmm_count(dev, evictions);
	if (pin) {
		pin->dirty = dirty;
		unetmm_pin_free(space, pin);
	} else {
		unetmm_count(dev, stale_evictions);
	}
	if (space)
		unetmm_space_put(space);
}

/*
 * Copies records out.  Their places go back to the card when it has nothing more to say
 * (unetmm_fault_sort()), so that evictions, which answers bring about, do not interrupt;
 * and before that if they are many, for an answer may need a place for an eviction.
 */
static u32 unetmm_fault_fetch(struct unetmm_dev *dev)
{
	struct unetmm_ring *ring = &dev->rings->fault;
	const struct unetmm_fault *rec;
	u32 n = 0;

	dev->misses->first = ring->index;
	while (n < UNETMM_FETCH && (rec = unetmm_ring_peek(ring))) {
		dev->misses->recs[n++] = *rec;
		ring->index++;
	}
	atomic64_add(n, &dev->misses->total);
	if (unetmm_ring_held(ring) >= (n ? UNETMM_FETCH : 1))
		unetmm_ring_release(dev, ring);
	return n;
}

static void unetmm_fault_record(struct unetmm_dev *dev, u32 i, u64 number,
				u64 seen_ns)
{
	const struct unetmm_fault *rec = &dev->misses->recs[i];

	switch (rec->type) {
	case UNETMM_FAULT_MISS:
		unetmm_miss(dev, rec, dev->misses->first + i);
		break;
	case UNETMM_FAULT_AHEAD:
		unetmm_ahead(dev, rec);
		break;
	case UNETMM_FAULT_EVICT:
		unetmm_evict(dev, rec);
		break;
	case UNETMM_FAULT_SLOT:
		dev->up->slot_report(dev, rec, number, seen_ns);
		break;
	case UNETMM_FAULT_BACKUP:
		dev->up->backup_report(dev, rec, number);
		break;
	}
}

/* When the interrupt came; later records are seen now. */
static u64 unetmm_fault_seen(struct unetmm_dev *dev)
{
	u64 seen = xchg(&dev->misses->seen_ns, 0);

	return seen ?: unetmm_stage_ns();
}

/*
 * By one worker at a time.  True: there may be more.  While records are held
 * (unetmm_ring_held()), evictions do not interrupt: then a worker calls this again before
 * it is idle or sleeps.
 */
bool unetmm_fault_sort(struct unetmm_dev *dev)
{
	u32 i, n, total = 0;
	u64 first, seen;

	do {
		first = atomic64_read(&dev->misses->total);
		if (!unetmm_running(dev)) {
			unetmm_ring_forget(&dev->rings->fault);
			return false;
		}
		n = unetmm_fault_fetch(dev);
		if (!n)
			return false;
		if (n > 1 || total)
			unetmm_pager_more_records(dev);
		seen = unetmm_fault_seen(dev);
		unetmm_stages_clock(dev, seen);
		for (i = 0; i < n; i++)
			unetmm_fault_record(dev, i, first + i, seen);
		total += n;
	} while (n == UNETMM_FETCH && total < UNETMM_TURN);
	return n == UNETMM_FETCH;
}

u64 unetmm_reports_now(struct unetmm_dev *dev)
{
	u64 taken = atomic64_read(&dev->misses->total);
	u32 prod = unetmm_read(dev, UNETMM_REG_RING(UNETMM_RING_FAULT) +
			       UNETMM_RING_PROD);

	/* The ring is short: its end is not far ahead of the reports taken. */
	return taken + (u32)(prod - lower_32_bits(taken));
}
