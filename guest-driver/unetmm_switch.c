// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the one thing that user-level DMA start needs of the scheduler.
 *
 * A start is a store and a load.  If the processor is taken away in between,
 * another thread of the same endpoint could finish what this one has begun.  So
 * the card is made to forget the store when a process that has proxy pages
 * loses a processor.  SHRIMP changed its kernel for that; here it is a probe at
 * the scheduler's tracepoint, which is there only while somebody has proxy
 * pages.
 *
 * `spaces` changes under `lock` and is walked under RCU by the probe, which
 * runs with preemption off.  An entry lives until a grace period after it has
 * left.
 */
#include <linux/module.h>
#include <linux/rculist.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/tracepoint.h>

#include "unetmm_drv.h"

struct unetmm_watched {
	struct list_head node;
	struct unetmm_aspace *space;	/* as long as the entry is listed */
	struct unetmm_dev *dev;
	struct mm_struct *mm;		/* compared, never used */
	u32 users;
};

static DEFINE_MUTEX(unetmm_switch_lock);
static LIST_HEAD(unetmm_switch_spaces);
static struct tracepoint *unetmm_switch_point;

static void unetmm_switched(void *data, bool preempt, struct task_struct *prev,
			    struct task_struct *next, unsigned int prev_state)
{
	struct unetmm_watched *w;

	if (!prev->mm)
		return;
	rcu_read_lock();
	list_for_each_entry_rcu(w, &unetmm_switch_spaces, node) {
		if (w->mm == prev->mm && unetmm_reachable(w->dev))
			unetmm_write(w->dev, UNETMM_REG_PROXY_ABORT, 1);
	}
	rcu_read_unlock();
}

static void unetmm_switch_find(struct tracepoint *tp, void *found)
{
	if (!strcmp(tp->name, "sched_switch"))
		*(struct tracepoint **)found = tp;
}

/* The first process with proxy pages. */
static int unetmm_switch_start(void)
{
	struct tracepoint *tp = NULL;
	int ret;

	lockdep_assert_held(&unetmm_switch_lock);
	for_each_kernel_tracepoint(unetmm_switch_find, &tp);
	if (!tp)
		return -EOPNOTSUPP;
	ret = tracepoint_probe_register(tp, unetmm_switched, NULL);
	if (!ret)
		unetmm_switch_point = tp;
	return ret;
}

/* The last one's end: the probe runs no more when this returns. */
static void unetmm_switch_stop(void)
{
	lockdep_assert_held(&unetmm_switch_lock);
	tracepoint_probe_unregister(unetmm_switch_point, unetmm_switched, NULL);
	tracepoint_synchronize_unregister();
	unetmm_switch_point = NULL;
}

static struct unetmm_watched *unetmm_watched(struct unetmm_aspace *space)
{
	struct unetmm_watched *w;

	lockdep_assert_held(&unetmm_switch_lock);
	list_for_each_entry(w, &unetmm_switch_spaces, node) {
		if (w->space == space)
			return w;
	}
	return NULL;
}

static int unetmm_watch(struct unetmm_aspace *space)
{
	struct unetmm_watched *w = unetmm_watched(space);
	int ret;

	if (w) {
		w->users++;
		return 0;
	}
	w = kzalloc(sizeof(*w), GFP_KERNEL_ACCOUNT);
	if (!w)
		return -ENOMEM;
	w->space = space;
	w->dev = space->dev;
	w->mm = space->mm;
	w->users = 1;
	if (list_empty(&unetmm_switch_spaces)) {
		ret = unetmm_switch_start();
		if (ret) {
			kfree(w);
			return ret;
		}
	}
	list_add_rcu(&w->node, &unetmm_switch_spaces);
	return 0;
}

/* One more proxy object of the space; unetmm_switch_forget() for each. */
int unetmm_switch_watch(struct unetmm_aspace *space)
{
	int ret;

	mutex_lock(&unetmm_switch_lock);
	ret = unetmm_watch(space);
	mutex_unlock(&unetmm_switch_lock);
	return ret;
}

void unetmm_switch_forget(struct unetmm_aspace *space)
{
	struct unetmm_watched *w;

	mutex_lock(&unetmm_switch_lock);
	w = unetmm_watched(space);
	if (w && !--w->users) {
		list_del_rcu(&w->node);
		/* The probe may be using w->dev: wait, the caller frees that. */
		synchronize_rcu();
		kfree(w);
		if (list_empty(&unetmm_switch_spaces))
			unetmm_switch_stop();
	}
	mutex_unlock(&unetmm_switch_lock);
}
