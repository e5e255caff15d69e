// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: what the driver has on behalf of a user: spaces, endpoints, threads, slots
 * of the system buffer, places in the backup ring; and whose memory group pays for it.
 *
 * A USER is a uid on one card, there while it has a space (space->user).  What is
 * taken for a space is counted with its user, under dev->users_lock, and given back
 * by the path that ends it; so a user with many processes has no more than one
 * with one.  A space whose maker has CAP_SYS_RESOURCE is counted, and not limited.
 *
 * dev->users_lock is innermost.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/memcontrol.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "unetmm_drv.h"

struct unetmm_user {
	struct list_head node;		/* dev->users */
	kuid_t uid;
	u32 spaces;
	u32 used[UNETMM_NUM_USES];
};

/*
 * Half of what a card has by default, so that another user comes to the other half.  Of
 * spaces and endpoints cards have as many as they say: 0 is half of these.
 */
static unsigned int unetmm_user_limits[UNETMM_NUM_USES] = {
	[UNETMM_USE_BACKUP] = 1024,
	[UNETMM_USE_SLOTS] = 128,
	[UNETMM_USE_THREADS] = 256,
	[UNETMM_USE_SPACES] = 0,
	[UNETMM_USE_ENDPOINTS] = 0,
};

module_param_named(user_backup_buffers,
		   unetmm_user_limits[UNETMM_USE_BACKUP], uint, 0644);
MODULE_PARM_DESC(user_backup_buffers,
		 "of backup_buffers: most that one user's endpoints may have");
module_param_named(user_redirect_slots,
		   unetmm_user_limits[UNETMM_USE_SLOTS], uint, 0644);
MODULE_PARM_DESC(user_redirect_slots,
		 "of redirect_slots: most that one user's channels may have");
module_param_named(user_threads,
		   unetmm_user_limits[UNETMM_USE_THREADS], uint, 0644);
MODULE_PARM_DESC(user_threads,
		 "threads of one user's endpoints; then each has one for misses at a time");
module_param_named(user_spaces,
		   unetmm_user_limits[UNETMM_USE_SPACES], uint, 0644);
MODULE_PARM_DESC(user_spaces,
		 "of a card's spaces: most that one user may have; 0: half of them");
module_param_named(user_endpoints,
		   unetmm_user_limits[UNETMM_USE_ENDPOINTS], uint, 0644);
MODULE_PARM_DESC(user_endpoints,
		 "of a card's endpoints: most that one user may have; 0: half of them");

void unetmm_users_init(struct unetmm_dev *dev)
{
	spin_lock_init(&dev->users_lock);
	INIT_LIST_HEAD(&dev->users);
}

static struct unetmm_user *unetmm_user_find(struct unetmm_dev *dev, kuid_t uid)
{
	struct unetmm_user *user;

	lockdep_assert_held(&dev->users_lock);
	list_for_each_entry(user, &dev->users, node) {
		if (uid_eq(user->uid, uid))
			return user;
	}
	return NULL;
}

/* The caller's, for a space that it makes. */
int unetmm_user_get(struct unetmm_aspace *space)
{
	struct unetmm_dev *dev = space->dev;
	struct unetmm_user *new, *user;

	new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT);
	if (!new)
		return -ENOMEM;
	new->uid = current_uid();
	spin_lock(&dev->users_lock);
	user = unetmm_user_find(dev, new->uid);
	if (!user) {
		user = new;
		new = NULL;
		list_add(&user->node, &dev->users);
	}
	user->spaces++;
	spin_unlock(&dev->users_lock);
	kfree(new);
	space->user = user;
	space->unlimited = capable(CAP_SYS_RESOURCE);
	return 0;
}

/* With the space's last reference. */
void unetmm_user_put(struct unetmm_aspace *space)
{
	struct unetmm_dev *dev = space->dev;
	struct unetmm_user *user = space->user;
	bool last;

	if (!user)
		return;
	spin_lock(&dev->users_lock);
	last = !--user->spaces;
	if (last)
		list_del(&user->node);
	spin_unlock(&dev->users_lock);
	if (last)
		kfree(user);
}

static u32 unetmm_user_most(const struct unetmm_dev *dev, enum unetmm_use use)
{
	u32 most = READ_ONCE(unetmm_user_limits[use]);

	switch (use) {
	case UNETMM_USE_SPACES:
		return most ?: max(dev->hw.spaces / 2, 1u);
	case UNETMM_USE_ENDPOINTS:
		return most ?: max(dev->hw.endpoints / 2, 1u);
	default:
		return most;
	}
}

/* Takes up to n; returns how many, 0: the user has all that it may have. */
u32 unetmm_user_take(struct unetmm_aspace *space, enum unetmm_use use, u32 n)
{
	struct unetmm_dev *dev = space->dev;
	u32 most = unetmm_user_most(dev, use);
	u32 *used = &space->user->used[use];

	spin_lock(&dev->users_lock);
	if (!space->unlimited)
		n = min(n, most - min(*used, most));
	*used += n;
	spin_unlock(&dev->users_lock);
	if (!n)
		unetmm_count(dev, user_limited);
	return n;
}

void unetmm_user_give(struct unetmm_aspace *space, enum unetmm_use use, u32 n)
{
	struct unetmm_dev *dev = space->dev;
	u32 *used = &space->user->used[use];

	spin_lock(&dev->users_lock);
	WARN_ON_ONCE(*used < n);
	*used -= n;
	spin_unlock(&dev->users_lock);
}

/* A thread that its endpoint must have, whatever the limit says. */
void unetmm_user_count(struct unetmm_aspace *space, enum unetmm_use use)
{
	spin_lock(&space->dev->users_lock);
	space->user->used[use]++;
	spin_unlock(&space->dev->users_lock);
}

/*
 * Between these, allocations with __GFP_ACCOUNT are charged to the memory group of
 * the space's owner, whoever makes them.
 */
void unetmm_group_enter(struct unetmm_aspace *space, struct unetmm_group *group)
{
	group->memcg = get_mem_cgroup_from_mm(space->mm);
	group->before = set_active_memcg(group->memcg);
}

void unetmm_group_leave(struct unetmm_group *group)
{
	set_active_memcg(group->before);
	mem_cgroup_put(group->memcg);
}
