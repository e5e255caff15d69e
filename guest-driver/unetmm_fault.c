// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the card's fault ring: misses and evictions, and reports of what is in
 * the system buffer or the backup ring, which are passed on.
 *
 * A miss has the three outcomes of the U-Net/MM paper: resident (or made so
 * without waiting) and given at once; refused, with the status that the
 * completion will carry; deferred, and paged in by a thread of its own.
 * Deferred misses get a kthread each and not a work item, because only a thread
 * can be killed: a page-in may wait for userfaultfd, whose file the dying
 * process closes after ours.  An endpoint has a few threads at a time; what it
 * misses beyond that waits for one of them.  Which miss is looked at next is
 * decided in unetmm_turns.c.
 */
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#include "unetmm_drv.h"
#include "unetmm_trace.h"

#define UNETMM_TRIES		16	/* races with the notifier */
#define UNETMM_QUICK_TRIES	2	/* before a thread takes over, which waits */
#define UNETMM_TURN		256	/* records before others get a chance */

static unsigned int unetmm_page_ins = 16;
module_param_named(page_ins, unetmm_page_ins, uint, 0644);
MODULE_PARM_DESC(page_ins,
		 "misses of one endpoint that are paged in at a time; further ones wait");

struct unetmm_deferred {
	struct list_head node;		/* space->deferred, or _later */
	struct unetmm_aspace *space;
	struct task_struct *task;
	struct unetmm_miss miss;
	struct unetmm_batch batch;
};

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
				int slot, struct unetmm_cmd *cmd, u32 *taken)
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
	start = ktime_get_ns();
	ret = unetmm_cmd_spin(space->dev, slot, cmd, taken);
	batch->resume_ns += ktime_get_ns() - start;
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
 * Sends RESOLVED with the batch's pages.  What the card did not take is
 * unpinned; it asks again for what it still needs.
 */
static int unetmm_insert(struct unetmm_aspace *space,
			 const struct unetmm_miss *miss,
			 struct unetmm_batch *batch, unsigned long seq)
{
	struct unetmm_dev *dev = space->dev;
	u32 tag = atomic_inc_return(&dev->next_tag);
	struct unetmm_cmd cmd;
	u32 i, taken;
	int slot, ret;

	unetmm_reply_init(&cmd, space, miss, UNETMM_REPLY_RESOLVED);
	cmd.reply.npages = cpu_to_le16(batch->count);
	cmd.reply.list = cpu_to_le64(dev->reply_list_dma);
	cmd.reply.tag = cpu_to_le32(tag);
	mutex_lock(&dev->reply_lock);
	for (i = 0; i < batch->count; i++)
		dev->reply_list[i] = cpu_to_le64(unetmm_pte(batch->pins[i]));
	slot = unetmm_cmd_slot_get(dev);
	spin_lock(&space->lock);
	ret = unetmm_insert_locked(space, batch, seq, slot, &cmd, &taken);
	spin_unlock(&space->lock);
	unetmm_cmd_slot_put(dev, slot);
	mutex_unlock(&dev->reply_lock);

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
	u64 start = ktime_get_ns();

	unetmm_reply(space, miss, UNETMM_REPLY_RESOLVED, 0);
	batch->resume_ns += ktime_get_ns() - start;
}

/*
 * Source ktlb: if the table has been withdrawn meanwhile, the card asks again.
 */
int unetmm_resolve_list(struct unetmm_aspace *space,
			const struct unetmm_miss *miss,
			struct unetmm_batch *batch, int most)
{
	int ret = unetmm_klist_fill(space, batch, miss->vaddr >> PAGE_SHIFT,
				    miss->npages);

	if (ret > 0)
		unetmm_resolved(space, miss, batch);
	return ret == -ESTALE ? 1 : ret;
}

/* Source tlb: pages are pinned, and given to the card. */
int unetmm_resolve_pins(struct unetmm_aspace *space,
			const struct unetmm_miss *miss,
			struct unetmm_batch *batch, int most)
{
	unsigned long seq;
	int tries, ret;

	for (tries = 0; tries < most; tries++) {
		seq = unetmm_space_seq(space);
		batch->zero = miss->zero;
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

static void unetmm_deferred_serve(struct unetmm_deferred *d)
{
	struct unetmm_aspace *space = d->space;
	int tries, err, ret = -EFAULT;
	bool late;
	u64 start;

	/* Who ends page-ins from now on finds a thread that can be killed. */
	spin_lock(&space->lock);
	late = space->closing || space->orphan;
	spin_unlock(&space->lock);
	if (late || !mmget_not_zero(space->mm)) {
		unetmm_refuse(space, &d->miss, ret);
		return;
	}
	d->batch.began_ns = ktime_get_ns();
	for (tries = 0; tries < UNETMM_TRIES; tries++) {
		start = ktime_get_ns();
		/* All of it may be more than there is memory for: then the first. */
		err = unetmm_page_in(space, d->miss.user,
				     tries < 2 ? d->miss.npages : 1,
				     d->miss.write);
		d->batch.page_ns += ktime_get_ns() - start;
		ret = unetmm_resolve(space, &d->miss, &d->batch,
				     UNETMM_QUICK_TRIES);
		if (!ret)
			ret = err;
		if ((ret && ret != -EAGAIN) || fatal_signal_pending(current))
			break;
		/* Gone again, or mmap_lock taken: who did it must get on. */
		schedule_timeout_killable(1);
	}
	mmput(space->mm);
	if (ret > 0)
		unetmm_stages_end(space->dev, &d->batch);
	if (ret <= 0 && fatal_signal_pending(current))
		ret = -EFAULT;
	if (ret <= 0)
		unetmm_refuse(space, &d->miss, ret ? ret : -EAGAIN);
}

/* Of those that no thread has, the endpoint's first. */
static struct unetmm_deferred *unetmm_deferred_next(struct unetmm_aspace *space,
						    u32 ep)
{
	struct unetmm_deferred *d;

	lockdep_assert_held(&space->lock);
	list_for_each_entry(d, &space->deferred_later, node) {
		if (d->miss.ep == ep)
			return d;
	}
	return NULL;
}

/* Returns what the thread, whose endpoint has a thread less otherwise, does next. */
static struct unetmm_deferred *unetmm_deferred_done(struct unetmm_deferred *d)
{
	struct unetmm_aspace *space = d->space;
	struct unetmm_deferred *next;

	spin_lock(&space->lock);
	list_del(&d->node);
	next = unetmm_deferred_next(space, d->miss.ep);
	if (next) {
		next->task = current;
		list_move(&next->node, &space->deferred);
	}
	if (!--space->ndeferred)
		wake_up_all(&space->idle);
	spin_unlock(&space->lock);
	kfree(d);
	if (!next)
		unetmm_user_give(space, UNETMM_USE_THREADS, 1);
	unetmm_space_put(space);
	return next;
}

static int unetmm_deferred_thread(void *data)
{
	struct unetmm_deferred *d = data;

	allow_signal(SIGKILL);
	while (d) {
		unetmm_deferred_serve(d);
		d = unetmm_deferred_done(d);
	}
	/* The module stays until this thread is out of its text. */
	module_put_and_kthread_exit(0);
}

static void unetmm_deferred_signal(struct unetmm_aspace *space)
{
	struct unetmm_deferred *d;

	lockdep_assert_held(&space->lock);
	list_for_each_entry(d, &space->deferred, node)
		send_sig(SIGKILL, d->task, 1);
}

/*
 * The owner exits or executes another program, with the file open.  Page-ins
 * keep its memory, and that the file by its mappings: one that waits for a
 * userfaultfd of somebody else would keep all until he closes it.
 */
void unetmm_deferred_orphan(struct unetmm_aspace *space)
{
	spin_lock(&space->lock);
	space->orphan = true;
	unetmm_deferred_signal(space);
	spin_unlock(&space->lock);
}

/* Whoever closes a space does not wait for page-ins. */
void unetmm_deferred_kill(struct unetmm_aspace *space)
{
	spin_lock(&space->lock);
	unetmm_deferred_signal(space);
	spin_unlock(&space->lock);
	wait_event(space->idle, !READ_ONCE(space->ndeferred));
	/* The last one is still inside the lock when it wakes us. */
	spin_lock(&space->lock);
	spin_unlock(&space->lock);
}

/*
 * Is a thread to come that takes it?  Then it is left to that one: 1; so it is if
 * its user has all threads that it may have, but an endpoint has one at least.  -ESTALE: the
 * space is being closed, and nobody would wait for it.
 */
static int unetmm_deferred_later(struct unetmm_deferred *d)
{
	u32 most = max(READ_ONCE(unetmm_page_ins), 1U), n = 0;
	struct unetmm_aspace *space = d->space;
	struct unetmm_deferred *other;
	int ret = 0;

	spin_lock(&space->lock);
	list_for_each_entry(other, &space->deferred, node)
		n += other->miss.ep == d->miss.ep;
	if (space->closing) {
		ret = -ESTALE;
	} else if (n >= most ||
		   (n && !unetmm_user_take(space, UNETMM_USE_THREADS, 1))) {
		kref_get(&space->ref);
		list_add_tail(&d->node, &space->deferred_later);
		space->ndeferred++;
		ret = 1;
	} else if (!n) {
		unetmm_user_count(space, UNETMM_USE_THREADS);
	}
	spin_unlock(&space->lock);
	if (ret > 0)
		unetmm_count(space->dev, faults_over);
	return ret;
}

/* The thread starts once it is on the list, where unetmm_deferred_kill() looks. */
static int unetmm_deferred_start(struct unetmm_aspace *space,
				 const struct unetmm_miss *miss)
{
	struct unetmm_deferred *d = kzalloc(sizeof(*d), GFP_KERNEL);
	int ret;

	if (!d)
		return -ENOMEM;
	d->miss = *miss;
	d->space = space;
	ret = unetmm_deferred_later(d);
	if (ret > 0)
		return 0;
	if (ret)
		goto free;
	ret = -ENOMEM;
	d->task = kthread_create(unetmm_deferred_thread, d, "unetmm-pagein");
	if (IS_ERR(d->task))
		goto give;
	ret = -ESTALE;
	spin_lock(&space->lock);
	if (!space->closing) {
		__module_get(THIS_MODULE);
		kref_get(&space->ref);
		list_add(&d->node, &space->deferred);
		space->ndeferred++;
		wake_up_process(d->task);
		ret = 0;
	}
	spin_unlock(&space->lock);
	if (!ret)
		return 0;
	/* It has not begun. */
	kthread_stop(d->task);
give:
	unetmm_user_give(space, UNETMM_USE_THREADS, 1);
free:
	kfree(d);
	return ret;
}

static void unetmm_defer(struct unetmm_aspace *space,
			 const struct unetmm_miss *miss)
{
	int ret;

	unetmm_count(space->dev, faults_deferred);
	unetmm_reply(space, miss, UNETMM_REPLY_DEFERRED, 0);
	ret = unetmm_deferred_start(space, miss);
	if (ret)
		unetmm_refuse(space, miss, ret);
}

/* While it is not answered, and its endpoint is open, the card has the buffer. */
static void unetmm_zero_serve(struct unetmm_aspace *space,
			      const struct unetmm_miss *miss)
{
	mutex_lock(&space->zero_lock);
	if (unetmm_ep_reported(space, miss->ep, miss->index))
		unetmm_zero_map(space, miss->user);
	mutex_unlock(&space->zero_lock);
}

static void unetmm_serve(struct unetmm_aspace *space,
			 const struct unetmm_miss *miss)
{
	struct unetmm_dev *dev = space->dev;
	int ret = -EFAULT;

	if (mmget_not_zero(space->mm)) {
		if (miss->zero)
			unetmm_zero_serve(space, miss);
		ret = unetmm_resolve(space, miss, dev->fault_batch,
				     UNETMM_QUICK_TRIES);
		/* The last reference must not be given up in the fault work. */
		mmput_async(space->mm);
	}
	if (ret > 0) {
		unetmm_count(dev, faults_resident);
		unetmm_stages_end(dev, dev->fault_batch);
	} else if (!ret || ret == -EAGAIN) {
		unetmm_defer(space, miss);
	} else {
		unetmm_refuse(space, miss, ret);
	}
}

/* What is beyond is asked for again. */
static u32 unetmm_miss_most(const struct unetmm_aspace *space)
{
	return space->ops->miss_pages ?
	       clamp_t(u32, READ_ONCE(*space->ops->miss_pages), 1,
		       UNETMM_MISS_MAX_PAGES) : UNETMM_REPLY_MAX_PAGES;
}

/* Of a segment whose miss may come later, if it is still absent then. */
static void unetmm_ahead_serve(struct unetmm_aspace *space,
			       const struct unetmm_miss *miss)
{
	if (!space->ops->ahead || !mmget_not_zero(space->mm))
		return;
	space->ops->ahead(space, miss, space->dev->fault_batch);
	/* The last reference must not be given up in the fault work. */
	mmput_async(space->mm);
}

/* It ends the reference to the space. */
static void unetmm_miss_serve(struct unetmm_aspace *space,
			      struct unetmm_miss *miss)
{
	if (miss->ahead) {
		unetmm_ahead_serve(space, miss);
		unetmm_space_put(space);
		return;
	}
	unetmm_stages_begin(space->dev, miss, space->dev->fault_batch);
	if (space->source == UNETMM_SOURCE_KTLB &&
	    !unetmm_klist_user(space, miss))
		unetmm_refuse(space, miss, -EFAULT);
	else
		unetmm_serve(space, miss);
	unetmm_space_put(space);
}

/* Whose turn it is, if anybody waits. */
static bool unetmm_miss_next(struct unetmm_dev *dev)
{
	struct unetmm_miss miss;
	struct unetmm_aspace *space = unetmm_turn_take(dev, &miss);

	if (space)
		unetmm_miss_serve(space, &miss);
	return space;
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

/* A hint: the miss behind it asks again for what it still lacks. */
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
	if (!unetmm_turn_add(space, &miss))
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
	/* None: it closed after the card wrote this, and took the miss along. */
	space = unetmm_space_lookup(dev, le16_to_cpu(rec->space));
	if (!space)
		return;
	miss.npages = clamp_t(u32, miss.npages, 1, unetmm_miss_most(space));
	unetmm_stages_came(dev, rec, &miss);
	if (!unetmm_turn_add(space, &miss))
		unetmm_miss_serve(space, &miss);
}

/* The card has dropped an entry; DMA through it has ended. */
static void unetmm_evict(struct unetmm_dev *dev, const struct unetmm_fault *rec)
{
	unsigned long vpn = le64_to_cpu(rec->vaddr) >> PAGE_SHIFT;
	bool dirty = rec->flags & UNETMM_FAULT_F_DIRTY;
	u32 tag = le32_to_cpu(rec->tag);
	struct unetmm_pin *pin = NULL;
	struct unetmm_aspace *space;

	space = unetmm_space_lookup(dev, le16_to_cpu(rec->space));
	if (space) {
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
 * Copies records out and gives their places back before they are handled:
 * an answer may need a place for an eviction.
 */
static u32 unetmm_fault_fetch(struct unetmm_dev *dev)
{
	const struct unetmm_fault *rec;
	u32 n = 0;

	dev->fault_first = dev->fault.index;
	while (n < UNETMM_FETCH && (rec = unetmm_ring_peek(&dev->fault))) {
		dev->fault_recs[n++] = *rec;
		dev->fault.index++;
	}
	if (n) {
		atomic64_add(n, &dev->fault_total);
		unetmm_ring_release(dev, &dev->fault);
	}
	return n;
}

static void unetmm_fault_record(struct unetmm_dev *dev, u32 i, u64 number,
				u64 seen_ns)
{
	const struct unetmm_fault *rec = &dev->fault_recs[i];

	switch (rec->type) {
	case UNETMM_FAULT_MISS:
		unetmm_miss(dev, rec, dev->fault_first + i);
		break;
	case UNETMM_FAULT_AHEAD:
		unetmm_ahead(dev, rec);
		break;
	case UNETMM_FAULT_EVICT:
		unetmm_evict(dev, rec);
		break;
	case UNETMM_FAULT_SLOT:
		unetmm_sysbuf_report(dev, rec, number, seen_ns);
		break;
	case UNETMM_FAULT_BACKUP:
		unetmm_backup_report(dev, rec, number);
		break;
	}
}

/* When the interrupt came; what has come since is seen now. */
static u64 unetmm_fault_seen(struct unetmm_dev *dev)
{
	u64 seen = xchg(&dev->fault_seen_ns, 0);

	return seen ?: ktime_get_ns();
}

void unetmm_fault_work(struct work_struct *work)
{
	struct unetmm_dev *dev = container_of(work, struct unetmm_dev,
					      fault_work);
	u32 i, n, total = 0;
	u64 first, seen;

	for (;;) {
		first = atomic64_read(&dev->fault_total);
		if (!unetmm_running(dev))
			return;
		n = unetmm_fault_fetch(dev);
		seen = n ? unetmm_fault_seen(dev) : 0;
		if (n)
			unetmm_stages_clock(dev, seen);
		for (i = 0; i < n; i++)
			unetmm_fault_record(dev, i, first + i, seen);
		total += n;
		/* The ring first, so that all who wait have their turns. */
		if (n < UNETMM_FETCH && !unetmm_miss_next(dev) && !n)
			return;
		if (++total >= UNETMM_TURN) {
			queue_work(unetmm_wq, &dev->fault_work);
			return;
		}
	}
}
