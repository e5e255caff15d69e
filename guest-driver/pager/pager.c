// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the pager: jobs, lanes, workers.  pager.h is the contract.
 *
 * A LANE is a space's part of the pager: its jobs by state.  Lanes with ready jobs, none
 * of which is active, are in their user's TURNS, and users that have such lanes in
 * pager->turns: users are served in turn, and the lanes of each.  Lanes with jobs that
 * must page are in pager->must_page, and slept for in turn.
 *
 * A WORKER looks, in this order, whether the card's ring has to be sorted, whether a
 * job that must page may be slept for, and whether a lane has a ready job.  One worker
 * does all that as long as nothing takes time, for to wake another costs more than a miss.
 * A worker that goes to sleep for a job wakes the next; and a worker whose serve function is
 * slow (memory is short, say), so that something has waited for a tick, is not counted as
 * busy until it returns: others are woken at once.  The pool grows when its last idle
 * worker is taken.
 *
 * pager->lock: all of a pager, its lanes, workers and the jobs' own part.
 */
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#include "pager/pager.h"
#include "ring/ring.h"
#include "space/space.h"
#include "base/base.h"
#include "util/share.h"
#include "param/param.h"

#define UNETMM_LEAST_WORKERS	(2 * UNETMM_PAGER_SPARE)
#define UNETMM_MOST_WORKERS	1024
#define UNETMM_OWNER_PAUSE	HZ

struct unetmm_worker {
	struct list_head node;		/* pager->workers; not of a stray */
	struct list_head idle_node;	/* pager->idle, while it is idle */
	struct unetmm_pager *pager;
	struct task_struct *task;	/* a reference */
	struct unetmm_batch *batch;
	struct unetmm_job *job;		/* that it sleeps for, if that lives still */
	unsigned long since;		/* jiffies: woken, or began its job */
	bool asleep;
	bool slow;			/* does one thing for long: not counted as busy */
	bool stray;
};

struct unetmm_lane {
	struct unetmm_aspace *space;
	struct list_head ready;
	struct list_head later;
	struct list_head must_page;
	struct list_head asleep;
	struct list_head node;		/* its user's turns->lanes */
	struct list_head later_node;	/* pager->later */
	struct list_head must_page_node;	/* pager->must_page */
	struct list_head asleep_node;	/* pager->asleep, while workers sleep */
	bool active;			/* a job of it is */
	bool orphan;			/* there is no process to serve */
	bool closed;			/* there will be no jobs */
	struct unetmm_lane_stats stats;
};

struct unetmm_pager {
	struct unetmm_dev *dev;
	spinlock_t lock;		/* all below */
	struct list_head workers;
	struct list_head idle;		/* the last one first */
	struct list_head turns;		/* of users */
	struct list_head later;		/* lanes, as the next two */
	struct list_head must_page;
	struct list_head asleep;
	u32 nworkers;
	u32 nasleep;			/* of these */
	u32 nbusy;			/* of these, neither idle nor asleep */
	u32 nactive;			/* of these, in serve or cancel */
	u64 served;
	bool running;
	bool ring;			/* the card has written to its ring */
	bool sorting;			/* a worker looks there: */
	const struct task_struct *sorter;
	u32 sorts;			/* that have ended */
	wait_queue_head_t quiet;	/* a job is active no more, nor sorting */
	struct delayed_work grow_work;
	struct delayed_work later_work;
	struct delayed_work watch_work;
	struct delayed_work owner_work;
};

/* ---- pager->lock -------------------------------------------------------------- */

static void unetmm_pager_wake(struct unetmm_pager *p)
{
	struct unetmm_worker *w;

	lockdep_assert_held(&p->lock);
	w = list_first_entry_or_null(&p->idle, struct unetmm_worker, idle_node);
	if (w) {
		list_del_init(&w->idle_node);
		p->nbusy++;
		w->since = jiffies;
		wake_up_process(w->task);
	}
}

/* A pool that has been stopped has no timers: its memory may go at any moment. */
static void unetmm_pager_arm(struct unetmm_pager *p)
{
	lockdep_assert_held(&p->lock);
	if (p->running && !delayed_work_pending(&p->watch_work))
		queue_delayed_work(unetmm_wq, &p->watch_work, 1);
}

/*
 * There is a job: a busy worker comes to it, or is too slow.  The sorting worker calls
 * this for each record's job, and looks at the jobs next: then there is no need for a
 * timer, unless there are more records (unetmm_pager_more_records()).
 */
static void unetmm_pager_call(struct unetmm_pager *p)
{
	if (!p->running)
		return;
	if (!p->nbusy)
		unetmm_pager_wake(p);
	else if (p->sorter != current || !in_task())
		unetmm_pager_arm(p);
}

/* A job is active no more, or the ring has been looked at. */
static void unetmm_pager_quiet(struct unetmm_pager *p)
{
	lockdep_assert_held(&p->lock);
	if (wq_has_sleeper(&p->quiet))
		wake_up_all(&p->quiet);
}

static u32 unetmm_pager_most(const struct unetmm_pager *p)
{
	return clamp_t(u32, unetmm_param(p->dev, UNETMM_P_pager_workers),
		       UNETMM_LEAST_WORKERS, UNETMM_MOST_WORKERS);
}

/* The most workers that may sleep for one space. */
static u32 unetmm_page_ins(const struct unetmm_pager *p)
{
	return max(unetmm_param(p->dev, UNETMM_P_page_ins), 1U);
}

/* The most workers that may sleep for all spaces of the space's user. */
static u32 unetmm_user_share(const struct unetmm_pager *p,
			     const struct unetmm_aspace *space)
{
	u32 most = unetmm_pager_most(p) - UNETMM_PAGER_SPARE;
	u32 user = unetmm_user_turns(space)->asleep;

	lockdep_assert_held(&p->lock);
	if (space->unlimited)
		return U32_MAX;
	return clamp_t(u32, unetmm_user_most_asleep(space), 1,
		       unetmm_share(most, p->nasleep - min(user, p->nasleep)));
}

/* Do the limits allow one more worker to sleep for the space? */
static bool unetmm_sleep_allowed(const struct unetmm_pager *p,
				 const struct unetmm_aspace *space)
{
	u32 most = unetmm_pager_most(p) - UNETMM_PAGER_SPARE;

	return p->running && p->nasleep < most &&
	       space->lane->stats.asleep < unetmm_page_ins(p) &&
	       unetmm_user_turns(space)->asleep < unetmm_user_share(p, space);
}

/*
 * Has the space's lane more jobs that must page than workers may sleep for?  The workers
 * that may sleep for the first of these jobs need not do so yet.
 */
static bool unetmm_lane_over(const struct unetmm_pager *p,
			     const struct unetmm_aspace *space)
{
	const struct unetmm_lane_stats *stats = &space->lane->stats;

	return !unetmm_sleep_allowed(p, space) ||
	       stats->asleep + stats->must_page > unetmm_page_ins(p) ||
	       unetmm_user_turns(space)->asleep + stats->must_page >
	       unetmm_user_share(p, space);
}

/* The last one that is awake never sleeps, whether more can be made or not. */
static bool unetmm_may_sleep(const struct unetmm_pager *p,
			     const struct unetmm_aspace *space)
{
	return p->nasleep + 1 < p->nworkers && unetmm_sleep_allowed(p, space);
}

/* Is one more worker wanted? */
static bool unetmm_pager_wants(const struct unetmm_pager *p)
{
	lockdep_assert_held(&p->lock);
	return list_empty(&p->idle) ||
	       (!list_empty(&p->must_page) && p->nasleep + 1 >= p->nworkers);
}

/* A worker is taken, or a job is to be slept for: is there one for it? */
static void unetmm_pager_more(struct unetmm_pager *p)
{
	lockdep_assert_held(&p->lock);
	if (unetmm_pager_wants(p) && p->running &&
	    p->nworkers < unetmm_pager_most(p))
		queue_delayed_work(unetmm_wq, &p->grow_work, 0);
}

/* A job that must page and that may be slept for, of the space whose turn it is. */
static struct unetmm_job *unetmm_must_page_first(const struct unetmm_pager *p)
{
	struct unetmm_lane *lane;
	struct unetmm_job *job;

	if (p->nasleep + 1 >= p->nworkers)
		return NULL;
	list_for_each_entry(lane, &p->must_page, must_page_node) {
		job = list_first_entry(&lane->must_page, struct unetmm_job, node);
		if (unetmm_may_sleep(p, job->space))
			return job;
	}
	return NULL;
}

/* May one more worker serve the space's user? */
static bool unetmm_may_serve(const struct unetmm_pager *p,
			     const struct unetmm_aspace *space)
{
	u32 active = unetmm_user_turns(space)->active;

	if (space->unlimited || !active)
		return true;
	return active < unetmm_share(unetmm_pager_most(p),
				     p->nasleep + p->nactive - active);
}

/*
 * A ready job, of the user and the space whose turn it is.  Users that are passed over have
 * workers in serve, so these are few.
 */
static struct unetmm_job *unetmm_ready_first(const struct unetmm_pager *p)
{
	struct unetmm_turns *turns;
	struct unetmm_lane *lane;
	struct unetmm_job *job;

	list_for_each_entry(turns, &p->turns, node) {
		lane = list_first_entry(&turns->lanes, struct unetmm_lane, node);
		job = list_first_entry(&lane->ready, struct unetmm_job, node);
		if (unetmm_may_serve(p, job->space))
			return job;
	}
	return NULL;
}

static bool unetmm_pager_waits(const struct unetmm_pager *p)
{
	lockdep_assert_held(&p->lock);
	return unetmm_ready_first(p) || (p->ring && !p->sorting) ||
	       unetmm_must_page_first(p);
}

/* The lane has its turn if it has something ready and nothing active. */
static void unetmm_lane_queue(struct unetmm_pager *p,
			      const struct unetmm_aspace *space)
{
	struct unetmm_turns *turns = unetmm_user_turns(space);
	struct unetmm_lane *lane = space->lane;

	lockdep_assert_held(&p->lock);
	if (!list_empty(&lane->node) || list_empty(&lane->ready) ||
	    lane->active || lane->closed)
		return;
	list_add_tail(&lane->node, &turns->lanes);
	if (list_empty(&turns->node))
		list_add_tail(&turns->node, &p->turns);
}

static void unetmm_lane_unqueue(struct unetmm_pager *p,
				const struct unetmm_aspace *space)
{
	struct unetmm_turns *turns = unetmm_user_turns(space);

	lockdep_assert_held(&p->lock);
	list_del_init(&space->lane->node);
	if (list_empty(&turns->lanes))
		list_del_init(&turns->node);
}

/* A worker that says so looks next; others have one called. */
static void unetmm_job_ready(struct unetmm_pager *p, struct unetmm_job *job,
			     bool first)
{
	struct unetmm_lane *lane = job->space->lane;
	struct unetmm_lane_stats *stats = &lane->stats;

	lockdep_assert_held(&p->lock);
	job->state = UNETMM_JOB_READY;
	job->alone = !stats->ready;
	job->before = p->served;
	if (first)
		list_add(&job->node, &lane->ready);
	else
		list_add_tail(&job->node, &lane->ready);
	stats->ready++;
	stats->most_ready = max(stats->most_ready, stats->ready);
	unetmm_lane_queue(p, job->space);
}

/* The worker may be asleep for long; it has nothing to do with the job any more. */
static void unetmm_job_part(struct unetmm_job *job)
{
	struct unetmm_worker *w = job->worker;

	job->worker = NULL;
	w->job = NULL;
	send_sig(SIGKILL, w->task, 1);
}

/* Out of whatever list it is in: it is idle.  Not one that is active. */
static void unetmm_job_unlist(struct unetmm_pager *p, struct unetmm_job *job)
{
	struct unetmm_lane *lane = job->space->lane;

	lockdep_assert_held(&p->lock);
	switch (job->state) {
	case UNETMM_JOB_READY:
		lane->stats.ready--;
		break;
	case UNETMM_JOB_MUST_PAGE:
		lane->stats.must_page--;
		break;
	case UNETMM_JOB_ASLEEP:
		unetmm_job_part(job);
		break;
	default:
		break;
	}
	list_del_init(&job->node);
	job->state = UNETMM_JOB_IDLE;
	if (list_empty(&lane->ready))
		unetmm_lane_unqueue(p, job->space);
	if (list_empty(&lane->must_page))
		list_del_init(&lane->must_page_node);
	if (list_empty(&lane->later))
		list_del_init(&lane->later_node);
}

static void unetmm_job_delay(struct unetmm_pager *p, struct unetmm_job *job)
{
	struct unetmm_lane *lane = job->space->lane;

	job->state = UNETMM_JOB_DELAYED;
	list_add_tail(&job->node, &lane->later);
	if (list_empty(&lane->later_node))
		list_add_tail(&lane->later_node, &p->later);
	queue_delayed_work(unetmm_wq, &p->later_work, 1);
}

static void unetmm_job_must_page(struct unetmm_pager *p, struct unetmm_job *job)
{
	struct unetmm_lane *lane = job->space->lane;

	job->state = UNETMM_JOB_MUST_PAGE;
	list_add_tail(&job->node, &lane->must_page);
	lane->stats.must_page++;
	if (list_empty(&lane->must_page_node))
		list_add_tail(&lane->must_page_node, &p->must_page);
	if (unetmm_lane_over(p, job->space))
		unetmm_count(p->dev, faults_over);
	unetmm_pager_more(p);
}

static void unetmm_job_served(struct unetmm_pager *p, struct unetmm_job *job,
			      enum unetmm_job_next next)
{
	const struct unetmm_lane *lane = job->space->lane;

	lockdep_assert_held(&p->lock);
	job->paged = false;
	if (job->stopped || (next == UNETMM_JOB_DONE && !job->kicked)) {
		job->state = UNETMM_JOB_IDLE;
	} else if (next == UNETMM_JOB_PAGE && !job->kicked && !lane->orphan &&
		   !lane->closed) {
		unetmm_job_must_page(p, job);
	} else if (next == UNETMM_JOB_LATER) {
		unetmm_job_delay(p, job);
	} else {
		unetmm_job_ready(p, job, false);
	}
}

/* Its lane goes to the end of the line. */
static struct unetmm_job *unetmm_must_page_next(struct unetmm_pager *p)
{
	struct unetmm_job *job = unetmm_must_page_first(p);

	if (job) {
		list_move_tail(&job->space->lane->must_page_node, &p->must_page);
		unetmm_job_unlist(p, job);
	}
	return job;
}

/*
 * The job's user goes to the end of the line, its lane to the end of the user's
 * lanes.
 */
static struct unetmm_job *unetmm_ready_next(struct unetmm_pager *p)
{
	struct unetmm_job *job = unetmm_ready_first(p);
	struct unetmm_lane *lane;
	u64 passed;

	if (!job)
		return NULL;
	lane = job->space->lane;
	list_move_tail(&unetmm_user_turns(job->space)->node, &p->turns);
	unetmm_job_unlist(p, job);
	unetmm_lane_unqueue(p, job->space);
	lane->active = true;
	job->state = UNETMM_JOB_ACTIVE;
	job->kicked = false;
	passed = p->served++ - job->before;
	if (job->alone)
		lane->stats.most_passed = max(lane->stats.most_passed, passed);
	return job;
}

/* ---- A worker: with pager->lock, which it lets go of -------------------------- */

/* It has ended something, or begins. */
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

/* The pool has been stopped while it slept: nobody waits for it. */
static void __noreturn unetmm_worker_stray(struct unetmm_worker *w,
					   struct unetmm_aspace *space)
{
	unetmm_worker_free(w);
	unetmm_space_put(space);
	/* The module stays until this thread is out of its text. */
	module_put_and_kthread_exit(0);
}

/* Back from the page fault. */
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
	/* It has no job: nobody sends it a signal before it sleeps again. */
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
	/* Its pool is being stopped: nobody counts any more. */
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

/* ---- Spaces ------------------------------------------------------------------- */

int unetmm_lane_init(struct unetmm_aspace *space)
{
	struct unetmm_lane *lane = kzalloc(sizeof(*lane), GFP_KERNEL_ACCOUNT);

	if (!lane)
		return -ENOMEM;
	lane->space = space;
	INIT_LIST_HEAD(&lane->ready);
	INIT_LIST_HEAD(&lane->later);
	INIT_LIST_HEAD(&lane->must_page);
	INIT_LIST_HEAD(&lane->asleep);
	INIT_LIST_HEAD(&lane->node);
	INIT_LIST_HEAD(&lane->later_node);
	INIT_LIST_HEAD(&lane->must_page_node);
	INIT_LIST_HEAD(&lane->asleep_node);
	space->lane = lane;
	return 0;
}

void unetmm_lane_free(struct unetmm_aspace *space)
{
	kfree(space->lane);
}

/* Of the space; not one that is active. */
static struct unetmm_job *unetmm_job_of(struct unetmm_pager *p,
					const struct unetmm_aspace *space,
					bool ready)
{
	struct unetmm_lane *lane = space->lane;

	lockdep_assert_held(&p->lock);
	if (ready && !list_empty(&lane->ready))
		return list_first_entry(&lane->ready, struct unetmm_job, node);
	if (!list_empty(&lane->must_page))
		return list_first_entry(&lane->must_page, struct unetmm_job, node);
	if (!list_empty(&lane->asleep))
		return list_first_entry(&lane->asleep, struct unetmm_job, node);
	return list_first_entry_or_null(&lane->later, struct unetmm_job, node);
}

void unetmm_pager_orphan(struct unetmm_aspace *space)
{
	struct unetmm_pager *p = space->dev->pager;
	struct unetmm_job *job;

	/* One at a time: there may be thousands, and interrupts are off. */
	do {
		spin_lock_irq(&p->lock);
		space->lane->orphan = true;
		job = unetmm_job_of(p, space, false);
		if (job) {
			unetmm_job_unlist(p, job);
			unetmm_job_ready(p, job, false);
			unetmm_pager_call(p);
		}
		spin_unlock_irq(&p->lock);
	} while (job);
}

void unetmm_pager_close(struct unetmm_aspace *space)
{
	struct unetmm_pager *p = space->dev->pager;
	struct unetmm_lane *lane = space->lane;
	struct unetmm_job *job;

	spin_lock_irq(&p->lock);
	lane->closed = true;
	unetmm_lane_unqueue(p, space);
	list_del_init(&lane->must_page_node);
	spin_unlock_irq(&p->lock);
	/* The active job may end in a list; no other job becomes active. */
	wait_event(p->quiet, !READ_ONCE(lane->active));
	do {
		spin_lock_irq(&p->lock);
		job = unetmm_job_of(p, space, true);
		if (job)
			unetmm_job_unlist(p, job);
		spin_unlock_irq(&p->lock);
		if (job)
			job->ops->cancel(job);
	} while (job);
}

void unetmm_lane_stats(const struct unetmm_aspace *space,
		       struct unetmm_lane_stats *stats)
{
	struct unetmm_pager *p = space->dev->pager;

	spin_lock_irq(&p->lock);
	*stats = space->lane->stats;
	stats->most_active = unetmm_user_turns(space)->most_active;
	spin_unlock_irq(&p->lock);
}

/* ---- Jobs --------------------------------------------------------------------- */

void unetmm_job_init(struct unetmm_job *job, struct unetmm_aspace *space,
		     const struct unetmm_job_ops *ops)
{
	*job = (struct unetmm_job){ .ops = ops, .space = space };
	INIT_LIST_HEAD(&job->node);
}

bool unetmm_job_kick(struct unetmm_job *job)
{
	struct unetmm_pager *p = job->space->dev->pager;
	unsigned long flags;
	bool open;

	spin_lock_irqsave(&p->lock, flags);
	open = !job->space->lane->closed;
	job->kicked = true;
	if (open && job->state == UNETMM_JOB_IDLE) {
		unetmm_job_ready(p, job, false);
		unetmm_pager_call(p);
	}
	spin_unlock_irqrestore(&p->lock, flags);
	return open;
}

bool unetmm_job_drop(struct unetmm_job *job)
{
	struct unetmm_pager *p = job->space->dev->pager;
	bool listed;

	WARN_ON_ONCE(!job->ops->once);
	spin_lock_irq(&p->lock);
	listed = job->state != UNETMM_JOB_ACTIVE &&
		 job->state != UNETMM_JOB_IDLE;
	if (listed)
		unetmm_job_unlist(p, job);
	job->dropped = true;
	spin_unlock_irq(&p->lock);
	return listed;
}

void unetmm_job_disturb(struct unetmm_job *job)
{
	struct unetmm_pager *p = job->space->dev->pager;

	spin_lock_irq(&p->lock);
	job->kicked = true;
	if (job->state == UNETMM_JOB_MUST_PAGE ||
	    job->state == UNETMM_JOB_ASLEEP) {
		unetmm_job_unlist(p, job);
		unetmm_job_ready(p, job, false);
		unetmm_pager_call(p);
	}
	spin_unlock_irq(&p->lock);
}

void unetmm_job_cancel(struct unetmm_job *job)
{
	struct unetmm_pager *p = job->space->dev->pager;

	WARN_ON_ONCE(job->ops->once);
	spin_lock_irq(&p->lock);
	if (job->state == UNETMM_JOB_ACTIVE)
		job->stopped = true;
	else
		unetmm_job_unlist(p, job);
	spin_unlock_irq(&p->lock);
	wait_event(p->quiet, READ_ONCE(job->state) == UNETMM_JOB_IDLE);
	/* The worker is still inside the lock when it wakes us. */
	spin_lock_irq(&p->lock);
	job->stopped = false;
	spin_unlock_irq(&p->lock);
}
