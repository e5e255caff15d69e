// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: policy redirect: what is in the system buffer is copied to where it
 * belongs, once a page is there.
 *
 * Each endpoint with the policy has a queue and a thread.  The queue is copied in
 * the order of the reports, so that later data for a byte comes later; a thread
 * that waits for a page (a disk, a userfaultfd) delays no other endpoint.  It is
 * a thread and no work item since it has to be killed: see unetmm_fault.c.
 *
 * A COPY is a store of the process's: it sets the dirty bit, breaks
 * copy-on-write, and goes to whatever the process has at the address.  It never
 * faults: it is done under q->lock with page faults off, page by page.  What is
 * absent is paged in without a lock, and the copy goes on where it stopped; so
 * each byte is copied once.  A thread of ours has the rights of protection key 0
 * only: memory under another one cannot be had.
 *
 * WHO ENDS SOMETHING (an export, an endpoint) takes its packets out of the queue,
 * under q->lock, and answers for them.  When that returns nothing is copied any
 * more, and it has not waited for a page: the thread, which may, has only a copy
 * of the address.  It is sent SIGKILL, of which nothing is left but that a wait
 * for a page ends; then it looks at the queue again.  A thread whose queue is
 * dead touches the card no more, and goes by itself.
 *
 * THE OWNER'S DEATH: as with misses, a page-in keeps the process's memory, that
 * its file, so unetmm_flush() ends it.  From then on all of the queue is gone.
 *
 * Locks: queues of a space, and who has which endpoint's number, are under
 * sysbuf->lock; all of a queue but its task and space under q->lock.
 */
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "unetmm_drv.h"

#define UNETMM_SYSQ_TRIES	1000	/* to have one page long enough */
#define UNETMM_SYSQ_QUICK	4	/* of these without a pause */

struct unetmm_sysq {
	struct kref ref;		/* the endpoint, the thread */
	struct unetmm_aspace *space;	/* a reference */
	struct task_struct *task;	/* likewise */
	struct list_head node;		/* space->sysqs; sysbuf->lock */
	u64 first;			/* reports before are another's */

	struct mutex lock;		/* all below */
	struct list_head jobs;
	bool gone;			/* the process is; there is nowhere to copy */
	bool dead;			/* the endpoint is */
	wait_queue_head_t wait;
};

static void unetmm_sysq_free(struct kref *ref)
{
	struct unetmm_sysq *q = container_of(ref, struct unetmm_sysq, ref);

	put_task_struct(q->task);
	unetmm_space_put(q->space);
	kfree(q);
}

static void unetmm_sysq_put(struct unetmm_sysq *q)
{
	kref_put(&q->ref, unetmm_sysq_free);
}

/* ---- Under q->lock ----------------------------------------------------------- */

static void unetmm_sysq_finish(struct unetmm_sysq *q,
			       struct unetmm_sysjob *job, u8 status)
{
	struct unetmm_dev *dev = q->space->dev;

	lockdep_assert_held(&q->lock);
	if (status == UNETMM_SLOT_FAILED)
		unetmm_count(dev, sysbuf_unmapped);
	else if (status == UNETMM_SLOT_GONE)
		unetmm_count(dev, sysbuf_cancelled);
	list_del(&job->node);
	unetmm_sysbuf_answer(dev, job, status);
}

static void unetmm_sysq_landed(struct unetmm_sysq *q, struct unetmm_sysjob *job)
{
	struct unetmm_dev *dev = q->space->dev;
	struct unetmm_hist *stages = dev->sysbuf.stages;
	u64 now = ktime_get_ns();

	unetmm_count(dev, sysbuf_copies);
	unetmm_count_add(dev, sysbuf_copied_bytes, job->copied);
	unetmm_hist_add(&stages[UNETMM_STAGE_WAIT],
			job->began_ns - job->seen_ns);
	if (job->paged)
		unetmm_hist_add(&stages[UNETMM_STAGE_PAGE], job->paging_ns);
	unetmm_hist_add(&stages[UNETMM_STAGE_COPY],
			now - job->began_ns - job->paging_ns);
	unetmm_sysq_finish(q, job, UNETMM_SLOT_LANDED);
	unetmm_hist_add(&stages[UNETMM_STAGE_TELL], ktime_get_ns() - now);
}

static void unetmm_sysq_cancel_all(struct unetmm_sysq *q)
{
	struct unetmm_sysjob *job, *next;

	list_for_each_entry_safe(job, next, &q->jobs, node)
		unetmm_sysq_finish(q, job, UNETMM_SLOT_GONE);
}

/*
 * Copies up to the next page boundary, as far as the page is there.  Returns how
 * much is left of that; the caller uses the process's memory.
 */
static unsigned long unetmm_sysjob_copy(struct unetmm_sysjob *job)
{
	const struct unetmm_sysspan *span = &job->spans[job->span];
	u64 addr = span->addr + job->done;
	unsigned long n = min_t(unsigned long, span->len - job->done,
				PAGE_SIZE - offset_in_page(addr));
	unsigned long left;

	pagefault_disable();
	/* The range has been checked when it was reported. */
	left = __copy_to_user_inatomic(u64_to_user_ptr(addr), job->mem +
				       UNETMM_SLOT_HEAD + span->from +
				       job->done, n);
	pagefault_enable();
	if (left < n)
		job->tries = 0;
	job->done += n - left;
	job->copied += n - left;
	if (job->done == span->len) {
		job->span++;
		job->done = 0;
	}
	return left;
}

/* ---- The thread -------------------------------------------------------------- */

/* What has to be paged in, for which packet. */
struct unetmm_absent {
	u64 index;
	u64 addr;
	u32 tries;
};

enum unetmm_step {
	UNETMM_STEP_IDLE,
	UNETMM_STEP_MORE,
	UNETMM_STEP_ABSENT,
};

static enum unetmm_step unetmm_sysq_step(struct unetmm_sysq *q,
					 struct unetmm_absent *absent)
{
	enum unetmm_step step = UNETMM_STEP_MORE;
	struct unetmm_sysjob *job;

	mutex_lock(&q->lock);
	if (q->gone || READ_ONCE(q->space->closing))
		unetmm_sysq_cancel_all(q);
	job = list_first_entry_or_null(&q->jobs, struct unetmm_sysjob, node);
	if (!job) {
		step = UNETMM_STEP_IDLE;
		goto unlock;
	}
	if (!job->began_ns)
		job->began_ns = ktime_get_ns();
	if (unetmm_sysjob_copy(job)) {
		absent->index = job->index;
		absent->addr = job->spans[job->span].addr + job->done;
		absent->tries = ++job->tries;
		step = UNETMM_STEP_ABSENT;
	} else if (job->span == job->nspans) {
		unetmm_sysq_landed(q, job);
	}
unlock:
	mutex_unlock(&q->lock);
	return step;
}

/* The packet may have been taken away meanwhile. */
static void unetmm_sysq_paged(struct unetmm_sysq *q,
			      const struct unetmm_absent *absent, int err,
			      u64 ns)
{
	struct unetmm_sysjob *job;

	unetmm_count(q->space->dev, sysbuf_page_ins);
	mutex_lock(&q->lock);
	job = list_first_entry_or_null(&q->jobs, struct unetmm_sysjob, node);
	if (job && job->index == absent->index) {
		job->paged = true;
		job->paging_ns += ns;
		/* A signal or a shortage: to be tried again. */
		if ((err && err != -EINTR && err != -ENOMEM) ||
		    job->tries >= UNETMM_SYSQ_TRIES)
			unetmm_sysq_finish(q, job, UNETMM_SLOT_FAILED);
	}
	mutex_unlock(&q->lock);
}

static void unetmm_sysq_page_in(struct unetmm_sysq *q,
				const struct unetmm_absent *absent)
{
	u64 start = ktime_get_ns();
	int err;

	/* It was there, and has gone again: who needs the page so must get on. */
	if (absent->tries > UNETMM_SYSQ_QUICK)
		schedule_timeout_killable(1);
	err = unetmm_page_in(q->space, absent->addr & PAGE_MASK, 1, true);
	unetmm_sysq_paged(q, absent, err, ktime_get_ns() - start);
}

static void unetmm_sysq_serve(struct unetmm_sysq *q)
{
	struct mm_struct *mm = q->space->mm;
	struct unetmm_absent absent;
	enum unetmm_step step;

	if (!mmget_not_zero(mm)) {
		mutex_lock(&q->lock);
		q->gone = true;
		unetmm_sysq_cancel_all(q);
		mutex_unlock(&q->lock);
		return;
	}
	kthread_use_mm(mm);
	do {
		/* Sent before the queue became what it is now. */
		flush_signals(current);
		step = unetmm_sysq_step(q, &absent);
		if (step == UNETMM_STEP_ABSENT)
			unetmm_sysq_page_in(q, &absent);
		cond_resched();
	} while (step != UNETMM_STEP_IDLE);
	kthread_unuse_mm(mm);
	/* Its end may call our notifier: no lock is held. */
	mmput(mm);
}

static int unetmm_sysq_thread(void *data)
{
	struct unetmm_sysq *q = data;

	allow_signal(SIGKILL);
	/* As the workers that serve misses. */
	set_user_nice(current, MIN_NICE);
	for (;;) {
		wait_event_idle(q->wait, !list_empty_careful(&q->jobs) ||
				READ_ONCE(q->dead));
		if (READ_ONCE(q->dead))
			break;
		unetmm_sysq_serve(q);
	}
	unetmm_sysq_put(q);
	/* The module stays until this thread is out of its text. */
	module_put_and_kthread_exit(0);
}

/* It may wait for a page that nobody wants any more. */
static void unetmm_sysq_disturb(struct unetmm_sysq *q)
{
	send_sig(SIGKILL, q->task, 1);
	wake_up(&q->wait);
}

/* ---- sysbuf->lock ------------------------------------------------------------ */

bool unetmm_sysq_add(struct unetmm_sysq *q, u32 space,
		     struct unetmm_sysjob *job)
{
	bool taken;

	lockdep_assert_held(&q->space->dev->sysbuf.lock);
	if (job->index < q->first || space != q->space->id)
		return false;
	mutex_lock(&q->lock);
	taken = !q->gone && !q->dead;
	if (taken) {
		job->tries = 0;
		job->began_ns = 0;
		job->paging_ns = 0;
		job->paged = false;
		list_add_tail(&job->node, &q->jobs);
	}
	mutex_unlock(&q->lock);
	if (taken)
		wake_up(&q->wait);
	return taken;
}

/*
 * The region is no longer on the card: nothing of it is copied when this
 * returns, and nothing that is reported yet later on.
 */
void unetmm_sysq_clear_region(struct unetmm_aspace *space, u32 region)
{
	struct unetmm_sysbuf *sb = &space->dev->sysbuf;
	struct unetmm_sysjob *job, *next;
	struct unetmm_sysq *q;
	bool any;

	mutex_lock(&sb->lock);
	if (sb->cleared)
		sb->cleared[region] = U64_MAX;
	list_for_each_entry(q, &space->sysqs, node) {
		any = false;
		mutex_lock(&q->lock);
		list_for_each_entry_safe(job, next, &q->jobs, node) {
			if (job->write && job->region == region) {
				unetmm_sysq_finish(q, job, UNETMM_SLOT_GONE);
				any = true;
			}
		}
		mutex_unlock(&q->lock);
		if (any)
			unetmm_sysq_disturb(q);
	}
	mutex_unlock(&sb->lock);
}

/*
 * The owner exits or executes another program.  The threads answer: who calls
 * this does not hold what keeps the card from being taken away.
 */
void unetmm_sysq_orphan(struct unetmm_aspace *space)
{
	struct unetmm_sysbuf *sb = &space->dev->sysbuf;
	struct unetmm_sysq *q;

	mutex_lock(&sb->lock);
	list_for_each_entry(q, &space->sysqs, node) {
		mutex_lock(&q->lock);
		q->gone = true;
		mutex_unlock(&q->lock);
		unetmm_sysq_disturb(q);
	}
	mutex_unlock(&sb->lock);
}

/* ---- Endpoints --------------------------------------------------------------- */

static struct unetmm_sysq *unetmm_sysq_new(struct unetmm_aspace *space)
{
	struct unetmm_sysq *q = kzalloc(sizeof(*q), GFP_KERNEL_ACCOUNT);
	struct task_struct *task;

	if (!q)
		return ERR_PTR(-ENOMEM);
	task = kthread_create(unetmm_sysq_thread, q, "unetmm-sysbuf");
	if (IS_ERR(task)) {
		kfree(q);
		return ERR_CAST(task);
	}
	kref_init(&q->ref);
	kref_get(&space->ref);
	q->space = space;
	get_task_struct(task);
	q->task = task;
	mutex_init(&q->lock);
	INIT_LIST_HEAD(&q->jobs);
	init_waitqueue_head(&q->wait);
	/* The thread's. */
	kref_get(&q->ref);
	__module_get(THIS_MODULE);
	wake_up_process(task);
	return q;
}

/* For an endpoint that has its number, before the card knows of it. */
int unetmm_sysq_open(struct unetmm_ep *ep)
{
	struct unetmm_sysbuf *sb = &ep->dev->sysbuf;
	struct unetmm_sysq *q;
	int ret;

	if (!unetmm_user_take(ep->space, UNETMM_USE_THREADS, 1))
		return -EDQUOT;
	q = unetmm_sysq_new(ep->space);
	if (IS_ERR(q)) {
		unetmm_user_give(ep->space, UNETMM_USE_THREADS, 1);
		return PTR_ERR(q);
	}
	mutex_lock(&sb->lock);
	ret = unetmm_sysbuf_get(ep->dev);
	if (!ret) {
		q->first = unetmm_sysbuf_now(ep->dev);
		sb->queues[ep->id] = q;
		list_add(&q->node, &ep->space->sysqs);
		ep->sysq = q;
	}
	mutex_unlock(&sb->lock);
	if (ret) {
		mutex_lock(&q->lock);
		WRITE_ONCE(q->dead, true);
		mutex_unlock(&q->lock);
		wake_up(&q->wait);
		unetmm_sysq_put(q);
		unetmm_user_give(ep->space, UNETMM_USE_THREADS, 1);
	}
	return ret;
}

/* The endpoint is no longer on the card, and still has its number. */
void unetmm_sysq_close(struct unetmm_ep *ep)
{
	struct unetmm_sysbuf *sb = &ep->dev->sysbuf;
	struct unetmm_sysq *q = ep->sysq;

	mutex_lock(&sb->lock);
	sb->queues[ep->id] = NULL;
	list_del(&q->node);
	mutex_lock(&q->lock);
	WRITE_ONCE(q->dead, true);
	unetmm_sysq_cancel_all(q);
	mutex_unlock(&q->lock);
	unetmm_sysq_disturb(q);
	unetmm_sysbuf_put(ep->dev);
	mutex_unlock(&sb->lock);
	ep->sysq = NULL;
	unetmm_sysq_put(q);
	unetmm_user_give(ep->space, UNETMM_USE_THREADS, 1);
}
