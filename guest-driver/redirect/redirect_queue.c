// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: policy redirect: packets of the system buffer are copied to their
 * place, once its page is there.
 *
 * Each endpoint with the policy has a queue, which is one job of the pager
 * (pager/pager.h): it is copied in the order of the reports, so that later data for
 * a byte comes later, and an endpoint that waits for a page (a disk, a userfaultfd)
 * delays no other.
 *
 * A COPY is a store in the name of the process: it sets the dirty bit, breaks
 * copy-on-write, and goes to the memory that the process has at the address.  It never
 * faults: it runs under q->lock with page faults off, page by page.  The pager pages
 * in absent pages, and the copy goes on where it stopped, so each byte is copied
 * once.  A kernel thread has the rights of protection key 0 only, so a copy to memory
 * under another key fails.
 *
 * THE END of an export or an endpoint takes its packets out of the queue, under
 * q->lock, and answers their reports.  After that nothing is copied any more.  It does
 * not wait for a page: a worker that sleeps for one has only a copy of the address,
 * and the queue goes on without the worker (unetmm_job_disturb()).
 *
 * THE OWNER'S DEATH: the pager cancels the job, and from then on all of the queue
 * is gone.
 *
 * Locks: the queues of a space, and the queue of each endpoint number, are under
 * sysbuf->lock; all of a queue but its job and space under q->lock.
 */
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "redirect/redirect.h"
#include "ep/ep.h"
#include "memory/memory.h"
#include "pager/pager.h"
#include "space/space.h"
#include "util/histogram.h"
#include "base/base.h"

#define UNETMM_REDIRECT_QUEUE_TRIES	1000	/* to have one page long enough */
#define UNETMM_REDIRECT_QUEUE_QUICK	4	/* of these without a pause */

#define UNETMM_REDIRECT_QUEUE_TURN	64	/* pages of one turn */

/* The page that a packet waits for. */
struct unetmm_absent {
	u64 index;
	u64 addr;
	u32 tries;
};

struct unetmm_redirect_queue {
	struct unetmm_job job;
	struct unetmm_aspace *space;	/* a reference */
	struct list_head node;		/* space->redirect_queues; sysbuf->lock */
	u64 first;			/* reports before are another's */
	struct unetmm_absent absent;	/* serve's */
	bool rested;			/* serve's, too */

	struct mutex lock;		/* all below */
	struct list_head jobs;
	bool gone;			/* the process is; there is nowhere to copy */
	bool dead;			/* the endpoint is */
};

static void unetmm_redirect_queue_free(struct unetmm_redirect_queue *q)
{
	unetmm_space_put(q->space);
	kfree(q);
}

/* ---- Under q->lock ----------------------------------------------------------- */

static void unetmm_redirect_queue_finish(struct unetmm_redirect_queue *q,
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

static void unetmm_redirect_queue_stages(struct unetmm_redirect_queue *q,
					 const struct unetmm_sysjob *job)
{
	struct unetmm_hist *stages = q->space->dev->sysbuf->stages;

	if (!job->began_ns || !job->seen_ns)
		return;
	unetmm_hist_add(&stages[UNETMM_STAGE_WAIT],
			job->began_ns - job->seen_ns);
	if (job->paged)
		unetmm_hist_add(&stages[UNETMM_STAGE_PAGE], job->paging_ns);
	unetmm_hist_add(&stages[UNETMM_STAGE_COPY],
			unetmm_stage_since(job->began_ns) - job->paging_ns);
}

static void unetmm_redirect_queue_landed(struct unetmm_redirect_queue *q, struct unetmm_sysjob *job)
{
	struct unetmm_dev *dev = q->space->dev;
	u64 now = unetmm_stage_ns();

	unetmm_count(dev, sysbuf_copies);
	unetmm_count_add(dev, sysbuf_copied_bytes, job->copied);
	unetmm_redirect_queue_stages(q, job);
	unetmm_redirect_queue_finish(q, job, UNETMM_SLOT_LANDED);
	if (now)
		unetmm_hist_add(&dev->sysbuf->stages[UNETMM_STAGE_TELL],
				unetmm_stage_since(now));
}

static void unetmm_redirect_queue_cancel_all(struct unetmm_redirect_queue *q)
{
	struct unetmm_sysjob *job, *next;

	list_for_each_entry_safe(job, next, &q->jobs, node)
		unetmm_redirect_queue_finish(q, job, UNETMM_SLOT_GONE);
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

/* ---- The job ----------------------------------------------------------------- */

enum unetmm_step {
	UNETMM_STEP_IDLE,
	UNETMM_STEP_MORE,
	UNETMM_STEP_ABSENT,
};

static enum unetmm_step unetmm_redirect_queue_step(struct unetmm_redirect_queue *q,
						   struct unetmm_absent *absent)
{
	enum unetmm_step step = UNETMM_STEP_MORE;
	struct unetmm_sysjob *job;

	mutex_lock(&q->lock);
	if (q->gone || READ_ONCE(q->space->closing))
		unetmm_redirect_queue_cancel_all(q);
	job = list_first_entry_or_null(&q->jobs, struct unetmm_sysjob, node);
	if (!job) {
		step = UNETMM_STEP_IDLE;
		goto unlock;
	}
	if (!job->began_ns)
		job->began_ns = unetmm_stage_ns();
	if (unetmm_sysjob_copy(job)) {
		absent->index = job->index;
		absent->addr = job->spans[job->span].addr + job->done;
		absent->tries = ++job->tries;
		step = UNETMM_STEP_ABSENT;
	} else if (job->span == job->nspans) {
		unetmm_redirect_queue_landed(q, job);
	}
unlock:
	mutex_unlock(&q->lock);
	return step;
}

/* The packet may have been taken away meanwhile. */
static void unetmm_redirect_queue_paged(struct unetmm_redirect_queue *q,
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
		    job->tries >= UNETMM_REDIRECT_QUEUE_TRIES)
			unetmm_redirect_queue_finish(q, job, UNETMM_SLOT_FAILED);
	}
	mutex_unlock(&q->lock);
}

static enum unetmm_job_next unetmm_redirect_queue_page_in(struct unetmm_redirect_queue *q)
{
	/* The page came and went again.  Leave time to the threads that use it. */
	q->rested = q->absent.tries > UNETMM_REDIRECT_QUEUE_QUICK && !q->rested;
	if (q->rested)
		return UNETMM_JOB_DELAY;
	q->job.want = (struct unetmm_page_in) {
		.vaddr = q->absent.addr & PAGE_MASK,
		.npages = 1,
		.write = true,
	};
	return UNETMM_JOB_PAGE;
}

static enum unetmm_job_next unetmm_redirect_queue_serve(struct unetmm_job *job,
							struct unetmm_batch *batch)
{
	struct unetmm_redirect_queue *q = container_of(job, struct unetmm_redirect_queue, job);
	enum unetmm_step step;
	int i;

	if (job->paged)
		unetmm_redirect_queue_paged(q, &q->absent, job->err, job->slept_ns);
	for (i = 0; i < UNETMM_REDIRECT_QUEUE_TURN; i++) {
		step = unetmm_redirect_queue_step(q, &q->absent);
		if (step == UNETMM_STEP_IDLE)
			return UNETMM_JOB_DONE;
		if (step == UNETMM_STEP_ABSENT)
			return unetmm_redirect_queue_page_in(q);
	}
	return UNETMM_JOB_AGAIN;
}

/* The owner has gone, or executes another program. */
static void unetmm_redirect_queue_cancel(struct unetmm_job *job)
{
	struct unetmm_redirect_queue *q = container_of(job, struct unetmm_redirect_queue, job);

	mutex_lock(&q->lock);
	q->gone = true;
	unetmm_redirect_queue_cancel_all(q);
	mutex_unlock(&q->lock);
}

static const struct unetmm_job_ops unetmm_redirect_queue_ops = {
	.serve = unetmm_redirect_queue_serve,
	.cancel = unetmm_redirect_queue_cancel,
	.copies = true,
};

/* ---- sysbuf->lock ------------------------------------------------------------ */

bool unetmm_redirect_queue_add(struct unetmm_redirect_queue *q, u32 space,
			       struct unetmm_sysjob *job)
{
	bool taken;

	lockdep_assert_held(&q->space->dev->sysbuf->lock);
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
		unetmm_job_kick(&q->job);
	return taken;
}

/*
 * The region is no longer on the card: nothing of it is copied when this
 * returns, and nothing that is reported yet later on.
 */
void unetmm_redirect_queue_clear_region(struct unetmm_aspace *space, u32 region)
{
	struct unetmm_sysbuf *sb = space->dev->sysbuf;
	struct unetmm_sysjob *job, *next;
	struct unetmm_redirect_queue *q;
	bool any;

	mutex_lock(&sb->lock);
	if (sb->cleared)
		sb->cleared[region] = U64_MAX;
	list_for_each_entry(q, &space->redirect_queues, node) {
		any = false;
		mutex_lock(&q->lock);
		list_for_each_entry_safe(job, next, &q->jobs, node) {
			if (job->write && job->region == region) {
				unetmm_redirect_queue_finish(q, job, UNETMM_SLOT_GONE);
				any = true;
			}
		}
		mutex_unlock(&q->lock);
		if (any)
			unetmm_job_disturb(&q->job);
	}
	mutex_unlock(&sb->lock);
}

/* ---- Endpoints --------------------------------------------------------------- */

static struct unetmm_redirect_queue *unetmm_redirect_queue_new(struct unetmm_aspace *space)
{
	struct unetmm_redirect_queue *q = kzalloc(sizeof(*q), GFP_KERNEL_ACCOUNT);

	if (!q)
		return NULL;
	unetmm_job_init(&q->job, space, &unetmm_redirect_queue_ops);
	kref_get(&space->ref);
	q->space = space;
	mutex_init(&q->lock);
	INIT_LIST_HEAD(&q->jobs);
	return q;
}

/* For an endpoint that has its number, before the card knows of it. */
static int unetmm_redirect_queue_open(struct unetmm_ep *ep,
				      const struct unetmm_endpoint *a)
{
	struct unetmm_sysbuf *sb = ep->dev->sysbuf;
	struct unetmm_redirect_queue *q;
	int ret;

	q = unetmm_redirect_queue_new(ep->space);
	if (!q)
		return -ENOMEM;
	ret = unetmm_sysbuf_get_lock(ep->dev);
	if (!ret) {
		q->first = unetmm_reports_now(ep->dev);
		sb->queues[ep->id] = q;
		list_add(&q->node, &ep->space->redirect_queues);
		ep->redirect_queue = q;
		mutex_unlock(&sb->lock);
	} else {
		unetmm_redirect_queue_free(q);
	}
	return ret;
}

/*
 * The endpoint is no longer on the card, and still has its number.  The buffer stays
 * until nothing of the queue is served any more.
 */
static void unetmm_redirect_queue_close(struct unetmm_ep *ep)
{
	struct unetmm_sysbuf *sb = ep->dev->sysbuf;
	struct unetmm_redirect_queue *q = ep->redirect_queue;

	if (!q)
		return;
	mutex_lock(&sb->lock);
	sb->queues[ep->id] = NULL;
	list_del(&q->node);
	mutex_lock(&q->lock);
	q->dead = true;
	unetmm_redirect_queue_cancel_all(q);
	mutex_unlock(&q->lock);
	mutex_unlock(&sb->lock);
	unetmm_job_cancel(&q->job);
	mutex_lock(&sb->lock);
	unetmm_sysbuf_put(ep->dev);
	mutex_unlock(&sb->lock);
	ep->redirect_queue = NULL;
	unetmm_redirect_queue_free(q);
}

const struct unetmm_policy_ops unetmm_redirect_policy = {
	.open = unetmm_redirect_queue_open,
	.close = unetmm_redirect_queue_close,
};
