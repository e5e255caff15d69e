// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the pager: jobs, lanes, and whose turn it is.  pager.c has the workers.
 *
 * A LANE is a space's part of the pager: its jobs by state.  Lanes with ready jobs, none
 * of which is active, are in their user's TURNS, and users that have such lanes in
 * pager->turns: users are served in turn, and the lanes of each.  Lanes with jobs that
 * must page are in pager->must_page, and slept for in turn.
 */
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "pager/pager.h"
#include "pager/jobs.h"
#include "space/space.h"
#include "base/base.h"
#include "util/share.h"
#include "param/param.h"

#define UNETMM_LEAST_WORKERS	(2 * UNETMM_PAGER_SPARE)
#define UNETMM_MOST_WORKERS	1024

/* ---- Turns: with pager->lock -------------------------------------------------- */

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
void unetmm_pager_arm(struct unetmm_pager *p)
{
	lockdep_assert_held(&p->lock);
	if (p->running && !delayed_work_pending(&p->watch_work))
		queue_delayed_work(unetmm_wq, &p->watch_work, 1);
}

/*
 * A busy worker comes to the job, or is too slow.  The sorting worker calls
 * this for each record's job, and looks at the jobs next: then there is no need for a
 * timer, unless there are more records (unetmm_pager_more_records()).
 */
void unetmm_pager_call(struct unetmm_pager *p)
{
	if (!p->running)
		return;
	if (!p->nbusy)
		unetmm_pager_wake(p);
	else if (p->sorter != current || !in_task())
		unetmm_pager_arm(p);
}

void unetmm_pager_quiet(struct unetmm_pager *p)
{
	lockdep_assert_held(&p->lock);
	if (wq_has_sleeper(&p->quiet))
		wake_up_all(&p->quiet);
}

u32 unetmm_pager_most(const struct unetmm_pager *p)
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

/* The last worker that is awake never sleeps, whether more can be made or not. */
static bool unetmm_may_sleep(const struct unetmm_pager *p,
			     const struct unetmm_aspace *space)
{
	return p->nasleep + 1 < p->nworkers && unetmm_sleep_allowed(p, space);
}

bool unetmm_pager_wants(const struct unetmm_pager *p)
{
	lockdep_assert_held(&p->lock);
	return list_empty(&p->idle) ||
	       (!list_empty(&p->must_page) && p->nasleep + 1 >= p->nworkers);
}

/* A worker is taken, or a job is to be slept for: is there one for it? */
void unetmm_pager_more(struct unetmm_pager *p)
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

bool unetmm_pager_waits(const struct unetmm_pager *p)
{
	lockdep_assert_held(&p->lock);
	return unetmm_ready_first(p) || (p->ring && !p->sorting) ||
	       unetmm_must_page_first(p);
}

void unetmm_lane_queue(struct unetmm_pager *p,
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

void unetmm_job_ready(struct unetmm_pager *p, struct unetmm_job *job,
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

/* The worker may sleep for long, and has nothing to do with the job any more. */
static void unetmm_job_part(struct unetmm_job *job)
{
	struct unetmm_worker *w = job->worker;

	job->worker = NULL;
	w->job = NULL;
	send_sig(SIGKILL, w->task, 1);
}

void unetmm_job_unlist(struct unetmm_pager *p, struct unetmm_job *job)
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

void unetmm_job_served(struct unetmm_pager *p, struct unetmm_job *job,
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
	} else if (next == UNETMM_JOB_DELAY) {
		unetmm_job_delay(p, job);
	} else {
		unetmm_job_ready(p, job, false);
	}
}

/* The job's lane goes to the end of the line. */
struct unetmm_job *unetmm_must_page_next(struct unetmm_pager *p)
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
struct unetmm_job *unetmm_ready_next(struct unetmm_pager *p)
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

/* A job of the space that is not active, or NULL. */
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

	/* One job at a time: there may be thousands, and interrupts are off. */
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
