// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the one thing that user-level DMA start needs of the scheduler.
 *
 * A start is a store and a load.  If the processor is taken away in between,
 * another thread of the same endpoint could finish the start that this one has
 * begun.  So the card is made to forget the store when a process that has proxy
 * pages loses a processor.  SHRIMP changed its kernel for that; here it is a probe
 * at the scheduler's tracepoint, which is there only while somebody has proxy
 * pages.
 *
 * Every context switch of the machine runs the probe, so it looks the process up
 * in a hash, and there is one entry for a process and card, however many proxy
 * pages that process has.  A process without CAP_SYS_ADMIN has the probe set only
 * if the administrator allows it (unetmm_may_probe()).
 *
 * The hash changes under unetmm_switch_lock and is read under RCU by the probe,
 * which runs with preemption off.  An entry lives until a grace period after it
 * has left the hash; it holds mm_count, so that its mm is no other process's.
 */
#include <linux/hashtable.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/tracepoint.h>

#include "remote/remote.h"
#include "space/space.h"
#include "base/base.h"

#define UNETMM_SWITCH_BITS	8	/* of the hash of an mm */

struct unetmm_watched {
	struct hlist_node node;
	struct unetmm_dev *dev;		/* as long as the entry is in the hash */
	struct mm_struct *mm;		/* held by mm_count, and compared */
	u32 users;			/* proxy objects */
};

static DEFINE_MUTEX(unetmm_switch_lock);
static DEFINE_READ_MOSTLY_HASHTABLE(unetmm_switch_spaces, UNETMM_SWITCH_BITS);
static u32 unetmm_switch_count;		/* entries in the hash */
static struct tracepoint *unetmm_switch_point;

static void unetmm_switched(void *data, bool preempt, struct task_struct *prev,
			    struct task_struct *next, unsigned int prev_state)
{
	struct unetmm_watched *w;

	if (!prev->mm)
		return;
	rcu_read_lock();
	hash_for_each_possible_rcu(unetmm_switch_spaces, w, node,
				   (unsigned long)prev->mm) {
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
	hash_for_each_possible(unetmm_switch_spaces, w, node,
			       (unsigned long)space->mm) {
		if (w->mm == space->mm && w->dev == space->dev)
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
	if (!unetmm_switch_count) {
		ret = unetmm_switch_start();
		if (ret) {
			kfree(w);
			return ret;
		}
	}
	w->dev = space->dev;
	w->mm = space->mm;
	mmgrab(w->mm);
	w->users = 1;
	hash_add_rcu(unetmm_switch_spaces, &w->node, (unsigned long)w->mm);
	unetmm_switch_count++;
	return 0;
}

/*
 * One more proxy object of the space; unetmm_switch_forget() for each.  -EPERM: the
 * caller may not have the scheduler observed.
 */
int unetmm_switch_watch(struct unetmm_aspace *space)
{
	int ret;

	if (!unetmm_may_probe()) {
		dev_notice_ratelimited(&space->dev->pdev->dev,
				       "%s[%d]: user-level DMA start needs a probe on the scheduler: set the parameter user_probes of the module, or run the program with CAP_SYS_ADMIN\n",
				       current->comm, task_pid_nr(current));
		return -EPERM;
	}
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
		hash_del_rcu(&w->node);
		/* The probe may be using w->dev: wait, the caller frees that. */
		synchronize_rcu();
		mmdrop(w->mm);
		kfree(w);
		if (!--unetmm_switch_count)
			unetmm_switch_stop();
	}
	mutex_unlock(&unetmm_switch_lock);
}
