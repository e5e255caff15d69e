// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: address spaces: found by their number, and their references.  Their life is in
 * memory/space.c.
 */
#include <linux/pid.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>

#include "space/space.h"
#include "base/base.h"

static void unetmm_space_release(struct kref *ref)
{
	struct unetmm_aspace *space = container_of(ref, struct unetmm_aspace,
						  ref);

	space->dev->up->space_unused(space);
}

void unetmm_space_put(struct unetmm_aspace *space)
{
	kref_put(&space->ref, unetmm_space_release);
}

struct unetmm_aspace *unetmm_space_lookup(struct unetmm_dev *dev, u32 id)
{
	struct unetmm_aspace *space;

	xa_lock(&dev->spaces);
	space = xa_load(&dev->spaces, id);
	if (space)
		kref_get(&space->ref);
	xa_unlock(&dev->spaces);
	return space;
}

bool unetmm_space_owned(const struct unetmm_aspace *space)
{
	struct task_struct *leader, *thread;
	bool owned = false;

	rcu_read_lock();
	leader = pid_task(space->owner, PIDTYPE_TGID);
	if (leader) {
		for_each_thread(leader, thread) {
			/* Compared alone: the space keeps the structure. */
			owned = READ_ONCE(thread->mm) == space->mm;
			if (owned)
				break;
		}
	}
	rcu_read_unlock();
	return owned;
}
