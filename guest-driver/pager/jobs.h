/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: the pager's structures, for jobs.c and pager.c.  pager.h is the contract.
 *
 * pager->lock: all of a pager, its lanes, workers and the jobs' own part.
 */
#ifndef UNETMM_PAGER_JOBS_H
#define UNETMM_PAGER_JOBS_H

#include "pager/pager.h"

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

/* pager/jobs.c; the caller holds pager->lock. */

/* Has unetmm_watch_work() look in a tick whether a job still waits. */
void unetmm_pager_arm(struct unetmm_pager *p);
/* A job is there, or a record in the ring. */
void unetmm_pager_call(struct unetmm_pager *p);
/* No job of a lane is active any more, or the ring has been looked at. */
void unetmm_pager_quiet(struct unetmm_pager *p);
/* Is one more worker wanted?  _more() has it made, up to _most(). */
bool unetmm_pager_wants(const struct unetmm_pager *p);
void unetmm_pager_more(struct unetmm_pager *p);
u32 unetmm_pager_most(const struct unetmm_pager *p);
/* Is there work for an idle worker? */
bool unetmm_pager_waits(const struct unetmm_pager *p);
/* The lane has its turn if it has something ready and nothing active. */
void unetmm_lane_queue(struct unetmm_pager *p, const struct unetmm_aspace *space);
/* Does not call a worker: a worker that makes a job ready looks for jobs next. */
void unetmm_job_ready(struct unetmm_pager *p, struct unetmm_job *job, bool first);
/* Takes a job that is not active out of its list; the job is idle. */
void unetmm_job_unlist(struct unetmm_pager *p, struct unetmm_job *job);
/* The state of a job whose serve function has returned `next`. */
void unetmm_job_served(struct unetmm_pager *p, struct unetmm_job *job,
		       enum unetmm_job_next next);
/* The job to be slept for, and the job to be served, whose turn it is; or NULL. */
struct unetmm_job *unetmm_must_page_next(struct unetmm_pager *p);
struct unetmm_job *unetmm_ready_next(struct unetmm_pager *p);

#endif /* UNETMM_PAGER_JOBS_H */
