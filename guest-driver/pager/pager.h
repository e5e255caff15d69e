/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: the pager: all work for which memory of a process may have to be paged in.
 *
 * A JOB is served by a worker, a kthread of the card's pool.  Misses of the card,
 * copies out of the system buffer and out of the backup ring, the snapshots of
 * source shadow, and looks for lost pins are jobs.  Two functions make a job:
 *
 *   serve   one attempt, with the pages that are resident.  It never waits for memory
 *           of the process, for mmap_lock, or for the lock of a page (but see LIMITS).
 *           If a page is absent it fills job->want and returns UNETMM_JOB_PAGE: then the
 *           pager pages in, and calls serve again.
 *   cancel  the process has gone, or its space is being closed: the job ends without
 *           memory of the process.
 *
 * LIFE OF A JOB
 *
 *   idle     not with the pager.  unetmm_job_kick() makes it ready.
 *   ready    in the queue of its space.
 *   active   serve or cancel runs.  At most one job of a space is active, so serve
 *            functions of one space exclude each other.
 *   delayed  serve returned UNETMM_JOB_DELAY: ready again after one tick.
 *   must_page  it has to be paged in, and waits until its space may sleep.
 *   asleep   a worker sleeps in unetmm_page_in() for it.
 *
 *   idle > ready > active > idle          UNETMM_JOB_DONE, or cancel has run
 *                  active > ready         UNETMM_JOB_AGAIN, or kicked meanwhile
 *                  active > delayed > ready               UNETMM_JOB_DELAY
 *                  active > [must_page >] asleep > ready  UNETMM_JOB_PAGE
 *
 * A SLEEPING WORKER DOES NOT BELONG TO ITS JOB.  It has its own copy of the addresses
 * that it pages in, and references to the space, the process's memory and the module.
 * The end of a job takes the job from the worker, under the pager's lock, sends the
 * worker SIGKILL, and goes on at once; the worker finds that it has no job when its page
 * fault returns.  While workers sleep the pager looks once a second whether the space's
 * owner has this memory still (unetmm_space_owned()); if not, the space is orphaned.
 * Most faults end with the signal.  Some cannot be interrupted (a FUSE daemon has read
 * the request, or tmpfs waits for swap): that worker stays asleep, its space keeps one of
 * its sleepers, and nobody waits for it.  If the pool is stopped meanwhile, the worker is a
 * STRAY: it ends when its memory comes, and the module cannot be unloaded before.
 *
 * FAIRNESS AND LIMITS
 *
 *   - Users (space/limits.c) are served in turn, one job each, and of one user its spaces.
 *   - Of the workers that are not asleep, a user has at most half of those that others
 *     leave, and always one, however long its serve functions take.
 *   - UNETMM_PAGER_SPARE workers of the pool never sleep for a process: misses that
 *     need no page-in are served whatever others do.
 *   - A space has at most `page_ins` sleepers (module's parameter, 16), and a user at most
 *     `user_threads`, and half of the rest.  Spaces that wait for a sleeper have turns.
 *   - Workers are created when none is idle, up to `pager_workers` (128).  The last
 *     worker that is awake never sleeps, whether another can be created or not.
 *   - serve may wait for memory to be allocated, and for nothing else: pages that may
 *     need a file system, swap, a page's lock, or a charge to a memory group without
 *     room (unetmm_group_has_room()) are paged in.
 *
 * LOCKS
 *
 *   The pager's lock (jobs.h) is a leaf, and taken with interrupts off: kicks and
 *   unetmm_pager_ring() come from interrupts, probes and the notifier.  serve and
 *   cancel are called without it.  unetmm_job_cancel(), unetmm_pager_close(),
 *   unetmm_pager_hush() and unetmm_pager_stop() wait for active jobs: their callers hold
 *   no lock that serve or cancel take: not q->lock of a queue of redirect/ or backup/,
 *   zero_lock of a space, reply_lock, sysbuf.lock, backup.lock.  rwsem and file->lock may be held.
 */
#ifndef UNETMM_PAGER_H
#define UNETMM_PAGER_H

#include <linux/mm.h>

#include "space/space.h"

#define UNETMM_PAGER_SPARE	4

struct unetmm_job;
struct unetmm_lane;
struct unetmm_worker;

/* Pages on their way to the card; each worker has one. */
struct unetmm_batch {
	u64 vaddr;
	u32 count;
	bool write;
	bool zero;		/* only of memory that unetmm_zero_vma() allows */
	bool mapped;		/* only pages that the process has mapped already */
	u32 need;		/* pages that are pinned together, or none; 0: any */
	bool huge;		/* a snapshot: in a larger page */
	unsigned long asked;	/* source odp: the last page asked for */
	u32 target;		/* a snapshot: the page that is wanted, */
	int target_err;		/* and why it is not entered */
	u64 began_ns;		/* of a miss, on our clock; and of that ... */
	u64 page_ns;		/* ... waiting for pages, */
	u64 table_ns;		/* entering them, */
	u64 resume_ns;		/* telling the card */
	union {
		struct page *pages[UNETMM_REPLY_MAX_PAGES];
		unsigned long pfns[UNETMM_REPLY_MAX_PAGES]; /* a snapshot's */
	};
	union {
		struct unetmm_pin *pins[UNETMM_REPLY_MAX_PAGES];
		dma_addr_t dma[UNETMM_REPLY_MAX_PAGES];	/* a snapshot's */
	};
};

enum unetmm_job_next {
	UNETMM_JOB_DONE,	/* idle; a job with ops->once is no more */
	UNETMM_JOB_AGAIN,	/* more to do, after the others' turns */
	UNETMM_JOB_DELAY,	/* the same, in one tick: memory is changing */
	UNETMM_JOB_PAGE,	/* job->want is absent */
};

struct unetmm_job_ops {
	/*
	 * The caller holds mm_users and a reference to the space.  `batch` is the
	 * worker's, with anything in it.
	 */
	enum unetmm_job_next (*serve)(struct unetmm_job *job,
				      struct unetmm_batch *batch);
	/* From a worker, or at the end of the space. */
	void (*cancel)(struct unetmm_job *job);
	/* serve copies to the process: the worker uses its memory meanwhile. */
	bool copies;
	/* The pager does not touch the job after DONE or cancel: they may free it. */
	bool once;
};

/* Pages to be made resident, as an access of the process would. */
struct unetmm_page_in {
	u64 vaddr;
	u32 npages;
	bool write;
	/* In place of unetmm_page_in(), by a worker; as that; or NULL. */
	int (*how)(struct unetmm_aspace *space,
		   const struct unetmm_page_in *want);
};

enum unetmm_job_state {
	UNETMM_JOB_IDLE,
	UNETMM_JOB_READY,
	UNETMM_JOB_ACTIVE,
	UNETMM_JOB_DELAYED,
	UNETMM_JOB_MUST_PAGE,
	UNETMM_JOB_ASLEEP,
};

struct unetmm_job {
	const struct unetmm_job_ops *ops;
	struct unetmm_aspace *space;	/* the owner of the job has a reference */

	/* serve's, while it is active */
	struct unetmm_page_in want;
	bool paged;			/* a page-in has ended since serve ran ... */
	int err;			/* ... with that, for the first page, ... */
	u64 slept_ns;			/* ... and took so long */

	/* the pager's */
	struct list_head node;
	enum unetmm_job_state state;
	bool kicked;			/* while it was active */
	bool stopped;			/* unetmm_job_cancel() waits for it */
	bool dropped;			/* while it was active */
	bool alone;			/* nothing else of its space was ready */
	u64 before;			/* jobs that had been served then */
	struct unetmm_worker *worker;	/* that sleeps for it */
};

/* ---- Jobs ------------------------------------------------------------------ */

/* Once, before all else; the job is idle. */
void unetmm_job_init(struct unetmm_job *job, struct unetmm_aspace *space,
		     const struct unetmm_job_ops *ops);
/*
 * There is something to do: serve is called after this, if it is not being called
 * already, then once more.  False: the space is closed, and nothing is called.  From
 * anywhere, with any lock but those below the pager's.
 */
bool unetmm_job_kick(struct unetmm_job *job);
/*
 * When this returns the job is idle until it is kicked again.  Waits for serve, and never
 * for memory.  Not of jobs with ops->once.
 */
void unetmm_job_cancel(struct unetmm_job *job);
/*
 * Of a job with ops->once: its result is wanted no more.  True: the job is idle and the
 * caller's.  False: it is active, or about to be cancelled, and ends by DONE or cancel
 * whatever serve returns.  Waits for nothing.
 */
bool unetmm_job_drop(struct unetmm_job *job);
/* The page that the job waits for may be needed no more: serve is called to look. */
void unetmm_job_disturb(struct unetmm_job *job);

/* ---- Spaces ---------------------------------------------------------------- */

int unetmm_lane_init(struct unetmm_aspace *space);
void unetmm_lane_free(struct unetmm_aspace *space);
/* The owner has left its memory: workers cancel all jobs from now on.  Waits for nothing. */
void unetmm_pager_orphan(struct unetmm_aspace *space);
/* Cancels all jobs of the space, for ever.  Waits for serve, and never for memory. */
void unetmm_pager_close(struct unetmm_aspace *space);

/* The values that debugfs shows of a space. */
struct unetmm_lane_stats {
	u32 ready;
	u32 most_ready;			/* at one time */
	u32 must_page;
	u32 asleep;			/* workers, with and without a job */
	u64 most_passed;		/* others' jobs served before its only one */
	u32 most_active;		/* of its user: workers in serve at one time */
};

void unetmm_lane_stats(const struct unetmm_aspace *space,
		       struct unetmm_lane_stats *stats);

/* ---- The pool of a card ---------------------------------------------------- */

/* With the card's structure: alloc and free. */
int unetmm_pager_alloc(struct unetmm_dev *dev);
void unetmm_pager_free(struct unetmm_dev *dev);
/* The card is about to run: there are workers.  Sleeps. */
int unetmm_pager_start(struct unetmm_dev *dev);
/* All spaces are closed: there are no workers, but for strays. */
void unetmm_pager_stop(struct unetmm_dev *dev);
/* There are records in the fault ring: a worker sorts them.  From the interrupt. */
void unetmm_pager_ring(struct unetmm_dev *dev);
/*
 * The worker that sorts is about to handle several records: if one of them takes long,
 * others serve the jobs of those before it.
 */
void unetmm_pager_more_records(struct unetmm_dev *dev);
/*
 * When this returns, a worker has sorted the records that are in the ring now; one
 * sort has a budget, and may leave some.
 */
void unetmm_pager_drain(struct unetmm_dev *dev);
/* The card does not run any more: no worker looks at the ring when this returns. */
void unetmm_pager_hush(struct unetmm_dev *dev);

/* ---- pager/page_in.c: page faults ------------------------------------------- */

struct vm_area_struct *unetmm_usable_vma(struct mm_struct *mm, u64 vaddr,
					 bool write, u32 *npages);
int unetmm_why_refused(struct mm_struct *mm, u64 vaddr, int err);
bool unetmm_pin_copies(const struct unetmm_aspace *space,
		       const struct vm_area_struct *vma);
int unetmm_page_in(struct unetmm_aspace *space, u64 vaddr, u32 npages,
		   bool write);
int unetmm_page_in_as_is(struct unetmm_aspace *space, u64 vaddr, u32 npages,
			 bool write);

#endif /* UNETMM_PAGER_H */
