// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the pager: workers, and the pool of a card.  jobs.c has the jobs and their turns.
 *
 * A WORKER looks, in this order, whether the card's ring has to be sorted, whether a
 * job that must page may be slept for, and whether a lane has a ready job.  One worker
 * does all that as long as nothing takes time, for to wake another costs more than a miss.
 * A worker that goes to sleep for a job wakes the next; and a worker whose serve function is
 * slow (memory is short, say), so that something has waited for a tick, is not counted as
 * busy until it returns: others are woken at once.  The pool grows when its last idle
 * worker is taken.
 */
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#include "pager/pager.h"
#include "pager/jobs.h"
#include "ring/ring.h"
#include "space/space.h"
#include "base/base.h"

#define UNETMM_OWNER_PAUSE	HZ

/* ---- A worker: with pager->lock, which it lets go of -------------------------- */

/* Restarts the worker's clock between jobs. */
static void unetmm_worker_here(struct unetmm_worker *w)
{
	lockdep_assert_held(&w->pager->lock);
	w->since = jiffies;
	if (w->slow) {
		w->slow = false;
		w->pager->nbusy++;
	}
}

static void unetmm_worker_sort(struct unetmm_worker *w)
	__must_hold(&w->pager->lock)
{
	struct unetmm_pager *p = w->pager;
	bool more;

	p->ring = false;
	p->sorting = true;
	p->sorter = current;
	unetmm_pager_more(p);
	if (unetmm_pager_waits(p))
		unetmm_pager_arm(p);
	spin_unlock_irq(&p->lock);
	more = p->dev->up->sort(p->dev);
	spin_lock_irq(&p->lock);
	unetmm_worker_here(w);
	p->sorting = false;
	p->sorter = NULL;
	if (more)
		p->ring = true;
	p->sorts++;
	unetmm_pager_quiet(p);
}

/*
 * Without the lock.  mmput() may be the last one, and call our notifier.
 *
 * A page fault may read memory by its address in the process: Linux so copies a page of
 * a private mapping that has no struct page for it, as one of fsdax.  In a thread without
 * memory of its own, that address would belong to the process that ran there before.
 */
static int unetmm_worker_page_in(struct unetmm_aspace *space,
				 const struct unetmm_page_in *want)
{
	struct unetmm_group group;
	int ret;

	if (!mmget_not_zero(space->mm))
		return -EFAULT;
	/* Page tables that a fault makes are charged to it. */
	unetmm_group_enter(space, &group);
	kthread_use_mm(space->mm);
	ret = want->how ? want->how(space, want) :
	      unetmm_page_in(space, want->vaddr, want->npages, want->write);
	kthread_unuse_mm(space->mm);
	unetmm_group_leave(&group);
	mmput(space->mm);
	return ret;
}

static void unetmm_worker_free(struct unetmm_worker *w)
{
	put_task_struct(w->task);
	kvfree(w->batch);
	kfree(w);
}

/* The pool was stopped while the worker slept: nobody waits for the worker. */
static void __noreturn unetmm_worker_stray(struct unetmm_worker *w,
					   struct unetmm_aspace *space)
{
	unetmm_worker_free(w);
	unetmm_space_put(space);
	/* The module stays until this thread is out of its text. */
	module_put_and_kthread_exit(0);
}

/* The page fault of the worker has returned. */
static void unetmm_worker_wakes(struct unetmm_worker *w, int err, u64 ns)
{
	struct unetmm_job *job = w->job;

	lockdep_assert_held(&w->pager->lock);
	w->asleep = false;
	w->since = jiffies;
	if (!w->stray) {
		w->pager->nasleep--;
		w->pager->nbusy++;
	}
	if (!job)
		return;
	w->job = NULL;
	job->worker = NULL;
	list_del_init(&job->node);
	job->paged = true;
	job->err = err;
	job->slept_ns = ns;
	unetmm_job_ready(w->pager, job, true);
}

/* One worker more sleeps for the space, or one less. */
static void unetmm_lane_sleep(struct unetmm_pager *p,
			      struct unetmm_aspace *space, bool sleeps)
{
	struct unetmm_lane *lane = space->lane;

	lockdep_assert_held(&p->lock);
	lane->stats.asleep += sleeps ? 1 : -1;
	unetmm_user_turns(space)->asleep += sleeps ? 1 : -1;
	if (!lane->stats.asleep) {
		list_del_init(&lane->asleep_node);
	} else if (list_empty(&lane->asleep_node)) {
		list_add_tail(&lane->asleep_node, &p->asleep);
		queue_delayed_work(unetmm_wq, &p->owner_work, UNETMM_OWNER_PAUSE);
	}
}

static void unetmm_worker_sleep(struct unetmm_worker *w, struct unetmm_job *job)
	__must_hold(&w->pager->lock)
{
	struct unetmm_aspace *space = job->space;
	struct unetmm_page_in want = job->want;
	struct unetmm_pager *p = w->pager;
	u64 start;
	int err;

	job->state = UNETMM_JOB_ASLEEP;
	job->worker = w;
	w->job = job;
	w->asleep = true;
	list_add(&job->node, &space->lane->asleep);
	unetmm_lane_sleep(p, space, true);
	p->nasleep++;
	unetmm_worker_here(w);
	/* The job's space is not closed, so somebody has its file open. */
	__module_get(THIS_MODULE);
	kref_get(&space->ref);
	unetmm_pager_more(p);
	p->nbusy--;
	if (unetmm_pager_waits(p))
		unetmm_pager_call(p);
	spin_unlock_irq(&p->lock);
	start = ktime_get_ns();
	err = unetmm_worker_page_in(space, &want);
	spin_lock_irq(&p->lock);
	unetmm_lane_sleep(p, space, false);
	unetmm_worker_wakes(w, err, ktime_get_ns() - start);
	/* A stray goes: its user may sleep for another job now. */
	if (w->stray && unetmm_pager_waits(p))
		unetmm_pager_call(p);
	spin_unlock_irq(&p->lock);
	/* The worker has no job: nobody sends a signal before the worker sleeps again. */
	flush_signals(current);
	if (w->stray)
		unetmm_worker_stray(w, space);
	unetmm_space_put(space);
	module_put(THIS_MODULE);
	spin_lock_irq(&p->lock);
}

/* Without the lock. */
static enum unetmm_job_next unetmm_worker_call(struct unetmm_worker *w,
					       struct unetmm_job *job,
					       bool gone)
{
	const struct unetmm_job_ops *ops = job->ops;
	struct mm_struct *mm = job->space->mm;
	enum unetmm_job_next next;

	if (gone || !mmget_not_zero(mm)) {
		ops->cancel(job);
		return UNETMM_JOB_DONE;
	}
	if (ops->copies)
		kthread_use_mm(mm);
	next = ops->serve(job, w->batch);
	if (ops->copies)
		kthread_unuse_mm(mm);
	/* A worker that serves others does not free a process's memory itself. */
	mmput_async(mm);
	return next;
}

/* serve has returned.  A job that was dropped meanwhile does not go on. */
static enum unetmm_job_next unetmm_worker_served(struct unetmm_pager *p,
						 struct unetmm_job *job,
						 enum unetmm_job_next next)
	__must_hold(&p->lock)
{
	if (next == UNETMM_JOB_DONE || !job->dropped)
		return next;
	spin_unlock_irq(&p->lock);
	job->ops->cancel(job);
	spin_lock_irq(&p->lock);
	return UNETMM_JOB_DONE;
}

static void unetmm_worker_serve(struct unetmm_worker *w, struct unetmm_job *job)
	__must_hold(&w->pager->lock)
{
	struct unetmm_aspace *space = job->space;
	struct unetmm_turns *turns = unetmm_user_turns(space);
	struct unetmm_lane *lane = space->lane;
	struct unetmm_pager *p = w->pager;
	bool gone = lane->orphan || lane->closed, once = job->ops->once;
	enum unetmm_job_next next;

	kref_get(&space->ref);
	p->nactive++;
	turns->active++;
	turns->most_active = max(turns->most_active, turns->active);
	unetmm_pager_more(p);
	if (unetmm_pager_waits(p))
		unetmm_pager_arm(p);
	spin_unlock_irq(&p->lock);
	next = unetmm_worker_call(w, job, gone);
	spin_lock_irq(&p->lock);
	next = unetmm_worker_served(p, job, next);
	p->nactive--;
	turns->active--;
	lane->active = false;
	if (next != UNETMM_JOB_DONE || !once)
		unetmm_job_served(p, job, next);
	unetmm_lane_queue(p, space);
	unetmm_pager_quiet(p);
	spin_unlock_irq(&p->lock);
	unetmm_space_put(space);
	cond_resched();
	spin_lock_irq(&p->lock);
	unetmm_worker_here(w);
}

/* False: there is nothing to do. */
static bool unetmm_worker_turn(struct unetmm_worker *w)
	__must_hold(&w->pager->lock)
{
	struct unetmm_pager *p = w->pager;
	/* Evictions do not interrupt while records are held; see memory/fault.c. */
	bool sort = !p->sorting &&
		    (p->ring || unetmm_ring_held(&p->dev->rings->fault));
	struct unetmm_job *job;

	lockdep_assert_held(&p->lock);
	/* Between two looks at the ring, a job that waits has a turn. */
	if (sort)
		unetmm_worker_sort(w);
	job = unetmm_must_page_next(p);
	if (job) {
		unetmm_worker_sleep(w, job);
		return true;
	}
	job = unetmm_ready_next(p);
	if (job)
		unetmm_worker_serve(w, job);
	return job || sort;
}

static int unetmm_worker_main(void *data)
{
	struct unetmm_worker *w = data;
	struct unetmm_pager *p = w->pager;

	/* Not by processes: one that comes while it is idle would spoil a job. */
	allow_kernel_signal(SIGKILL);
	/* The process waits for this thread. */
	set_user_nice(current, MIN_NICE);
	spin_lock_irq(&p->lock);
	while (!kthread_should_stop()) {
		if (unetmm_worker_turn(w))
			continue;
		unetmm_worker_here(w);
		list_add(&w->idle_node, &p->idle);
		p->nbusy--;
		set_current_state(TASK_IDLE);
		spin_unlock_irq(&p->lock);
		if (!kthread_should_stop())
			schedule();
		__set_current_state(TASK_RUNNING);
		spin_lock_irq(&p->lock);
		if (!list_empty(&w->idle_node)) {
			list_del_init(&w->idle_node);
			p->nbusy++;
		}
		unetmm_worker_here(w);
	}
	/* The pool is being stopped: nobody counts its workers any more. */
	spin_unlock_irq(&p->lock);
	return 0;
}

/* ---- The pool ----------------------------------------------------------------- */

static struct unetmm_worker *unetmm_worker_new(struct unetmm_pager *p)
{
	struct unetmm_worker *w = kzalloc(sizeof(*w), GFP_KERNEL);

	if (!w)
		return NULL;
	w->pager = p;
	w->since = jiffies;
	INIT_LIST_HEAD(&w->idle_node);
	w->batch = kvzalloc(sizeof(*w->batch), GFP_KERNEL);
	if (!w->batch)
		goto free;
	w->task = kthread_create(unetmm_worker_main, w, "unetmm%d-pager",
				 p->dev->number);
	if (IS_ERR(w->task))
		goto free;
	get_task_struct(w->task);
	return w;

free:
	kvfree(w->batch);
	kfree(w);
	return NULL;
}

static int unetmm_pager_grow(struct unetmm_pager *p)
{
	struct unetmm_worker *w = unetmm_worker_new(p);

	if (!w)
		return -ENOMEM;
	spin_lock_irq(&p->lock);
	list_add(&w->node, &p->workers);
	p->nworkers++;
	p->nbusy++;
	spin_unlock_irq(&p->lock);
	wake_up_process(w->task);
	return 0;
}

static void unetmm_grow_work(struct work_struct *work)
{
	struct unetmm_pager *p = container_of(to_delayed_work(work),
					      struct unetmm_pager, grow_work);
	bool idle;

	spin_lock_irq(&p->lock);
	idle = !unetmm_pager_wants(p) || p->nworkers >= unetmm_pager_most(p);
	spin_unlock_irq(&p->lock);
	/* Without memory for one more the others go on; all of them may be asleep. */
	if (!idle && unetmm_pager_grow(p))
		queue_delayed_work(unetmm_wq, &p->grow_work, HZ / 10);
}

/* Jobs do not wait for a worker that has been busy for more than a tick. */
static void unetmm_pager_watch(struct unetmm_pager *p)
{
	struct unetmm_worker *w;

	lockdep_assert_held(&p->lock);
	list_for_each_entry(w, &p->workers, node) {
		if (w->asleep || w->slow || !list_empty(&w->idle_node) ||
		    time_before_eq(jiffies, w->since + 1))
			continue;
		w->slow = true;
		p->nbusy--;
	}
}

/* Something has waited for a tick. */
static void unetmm_watch_work(struct work_struct *work)
{
	struct unetmm_pager *p = container_of(to_delayed_work(work),
					      struct unetmm_pager, watch_work);

	spin_lock_irq(&p->lock);
	unetmm_pager_watch(p);
	if (p->running && unetmm_pager_waits(p)) {
		unetmm_pager_call(p);
		unetmm_pager_arm(p);
	}
	spin_unlock_irq(&p->lock);
}

static void unetmm_later_work(struct work_struct *work)
{
	struct unetmm_pager *p = container_of(to_delayed_work(work),
					      struct unetmm_pager, later_work);
	struct unetmm_lane *lane, *next;
	struct unetmm_job *job;

	spin_lock_irq(&p->lock);
	list_for_each_entry_safe(lane, next, &p->later, later_node) {
		while ((job = list_first_entry_or_null(&lane->later,
						       struct unetmm_job,
						       node))) {
			unetmm_job_unlist(p, job);
			unetmm_job_ready(p, job, false);
		}
	}
	unetmm_pager_call(p);
	spin_unlock_irq(&p->lock);
}

/*
 * A sleeping worker holds its process's memory.  A process that has ended, or executes
 * another program, does not always say so: its descriptor may be closed, or stay open, and
 * Linux tells nobody of an execve().  So the pager looks, once a second while workers
 * sleep.  Returns a space without an owner, with a reference, or NULL.
 */
static struct unetmm_aspace *unetmm_pager_unowned(struct unetmm_pager *p,
						  bool *more)
{
	struct unetmm_aspace *found = NULL;
	struct unetmm_lane *lane;

	*more = false;
	spin_lock_irq(&p->lock);
	list_for_each_entry(lane, &p->asleep, asleep_node) {
		if (lane->orphan || lane->closed)
			continue;
		*more = true;
		if (unetmm_space_owned(lane->space))
			continue;
		found = lane->space;
		kref_get(&found->ref);
		break;
	}
	spin_unlock_irq(&p->lock);
	return found;
}

static void unetmm_owner_work(struct work_struct *work)
{
	struct unetmm_pager *p = container_of(to_delayed_work(work),
					      struct unetmm_pager, owner_work);
	struct unetmm_aspace *space;
	bool more;

	while ((space = unetmm_pager_unowned(p, &more))) {
		unetmm_pager_orphan(space);
		/* Not the last reference to the card, which has its pager. */
		unetmm_space_put(space);
	}
	spin_lock_irq(&p->lock);
	if (more && p->running)
		queue_delayed_work(unetmm_wq, &p->owner_work, UNETMM_OWNER_PAUSE);
	spin_unlock_irq(&p->lock);
}

int unetmm_pager_alloc(struct unetmm_dev *dev)
{
	struct unetmm_pager *p = kzalloc(sizeof(*p), GFP_KERNEL);

	if (!p)
		return -ENOMEM;
	p->dev = dev;
	spin_lock_init(&p->lock);
	INIT_LIST_HEAD(&p->workers);
	INIT_LIST_HEAD(&p->idle);
	INIT_LIST_HEAD(&p->turns);
	INIT_LIST_HEAD(&p->later);
	INIT_LIST_HEAD(&p->must_page);
	INIT_LIST_HEAD(&p->asleep);
	init_waitqueue_head(&p->quiet);
	INIT_DELAYED_WORK(&p->grow_work, unetmm_grow_work);
	INIT_DELAYED_WORK(&p->later_work, unetmm_later_work);
	INIT_DELAYED_WORK(&p->watch_work, unetmm_watch_work);
	INIT_DELAYED_WORK(&p->owner_work, unetmm_owner_work);
	dev->pager = p;
	return 0;
}

void unetmm_pager_free(struct unetmm_dev *dev)
{
	kfree(dev->pager);
}

int unetmm_pager_start(struct unetmm_dev *dev)
{
	struct unetmm_pager *p = dev->pager;
	int ret;

	spin_lock_irq(&p->lock);
	p->running = true;
	p->ring = false;
	p->nbusy = 0;
	spin_unlock_irq(&p->lock);
	ret = unetmm_pager_grow(p);
	return ret ?: unetmm_pager_grow(p);
}

/* Workers that sleep become strays; returns one of the others. */
static struct unetmm_worker *unetmm_pager_take(struct unetmm_pager *p)
{
	struct unetmm_worker *w, *next, *found = NULL;

	spin_lock_irq(&p->lock);
	list_for_each_entry_safe(w, next, &p->workers, node) {
		if (!w->asleep && found)
			continue;
		list_del_init(&w->node);
		p->nworkers--;
		if (w->asleep) {
			w->stray = true;
			p->nasleep--;
		} else {
			found = w;
		}
	}
	spin_unlock_irq(&p->lock);
	return found;
}

void unetmm_pager_stop(struct unetmm_dev *dev)
{
	struct unetmm_pager *p = dev->pager;
	struct unetmm_worker *w;

	spin_lock_irq(&p->lock);
	p->running = false;
	/* unetmm_pager_drain() waits no more. */
	p->sorts += 2;
	wake_up_all(&p->quiet);
	WARN_ON_ONCE(!list_empty(&p->turns) || !list_empty(&p->must_page) ||
		     !list_empty(&p->later));
	spin_unlock_irq(&p->lock);
	cancel_delayed_work_sync(&p->grow_work);
	cancel_delayed_work_sync(&p->later_work);
	cancel_delayed_work_sync(&p->watch_work);
	cancel_delayed_work_sync(&p->owner_work);
	while ((w = unetmm_pager_take(p))) {
		kthread_stop(w->task);
		unetmm_worker_free(w);
	}
	spin_lock_irq(&p->lock);
	p->nbusy = 0;
	spin_unlock_irq(&p->lock);
}

void unetmm_pager_ring(struct unetmm_dev *dev)
{
	struct unetmm_pager *p = dev->pager;
	unsigned long flags;

	spin_lock_irqsave(&p->lock, flags);
	p->ring = true;
	unetmm_pager_call(p);
	spin_unlock_irqrestore(&p->lock, flags);
}

void unetmm_pager_more_records(struct unetmm_dev *dev)
{
	struct unetmm_pager *p = dev->pager;

	spin_lock_irq(&p->lock);
	WARN_ON_ONCE(p->sorter != current);
	unetmm_pager_arm(p);
	spin_unlock_irq(&p->lock);
}

void unetmm_pager_drain(struct unetmm_dev *dev)
{
	struct unetmm_pager *p = dev->pager;
	u32 sorts;

	spin_lock_irq(&p->lock);
	p->ring = p->running;
	sorts = p->sorts + (p->running ? 1 + p->sorting : 0);
	unetmm_pager_call(p);
	spin_unlock_irq(&p->lock);
	wait_event(p->quiet, (s32)(READ_ONCE(p->sorts) - sorts) >= 0);
}

void unetmm_pager_hush(struct unetmm_dev *dev)
{
	struct unetmm_pager *p = dev->pager;

	wait_event(p->quiet, !READ_ONCE(p->sorting));
	spin_lock_irq(&p->lock);
	p->ring = false;
	spin_unlock_irq(&p->lock);
}
