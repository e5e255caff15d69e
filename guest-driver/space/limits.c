// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: limits per user on spaces, endpoints, reliable channels, exports, threads, slots
 * of the system buffer and places in the backup ring; the memory group that is charged for them; and the limits on
 * pinned pages, of a process, of a user and of the card.
 *
 * A USER is a uid on one card, there while it has a space (space->user).  A space's
 * charges are counted with its user, under dev->users_lock, and given back by the
 * path that ends it; so a user with many processes has no more than one
 * with one.  Pinned pages are counted without a lock, and sleeping workers by the pager,
 * under its own.  A space whose maker has CAP_SYS_RESOURCE is counted, and not limited.
 *
 * dev->users_lock is innermost.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "space/space.h"
#include "base/base.h"
#include "param/param.h"

struct unetmm_user {
	struct list_head node;		/* dev->users */
	kuid_t uid;
	u32 spaces;
	u32 used[UNETMM_NUM_USES];
	atomic64_t pinned;		/* pages; without a lock */
	struct unetmm_turns turns;	/* the pager's; no lane once there is no space */
};

/*
 * The defaults are half of a default card's at most, so that the other half is left for
 * other users.  The numbers of spaces, endpoints, reliable channels and exports are
 * properties of the card: 0 means half of them.
 */
static const enum unetmm_param unetmm_user_limits[UNETMM_NUM_USES] = {
	[UNETMM_USE_BACKUP] = UNETMM_P_user_backup_buffers,
	[UNETMM_USE_SLOTS] = UNETMM_P_user_redirect_slots,
	[UNETMM_USE_SPACES] = UNETMM_P_user_spaces,
	[UNETMM_USE_ENDPOINTS] = UNETMM_P_user_endpoints,
	[UNETMM_USE_CHANNELS] = UNETMM_P_user_channels,
	[UNETMM_USE_EXPORTS] = UNETMM_P_user_exports,
};

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
	INIT_LIST_HEAD(&new->turns.lanes);
	INIT_LIST_HEAD(&new->turns.node);
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
	u32 most = unetmm_param(dev, unetmm_user_limits[use]);

	switch (use) {
	case UNETMM_USE_SPACES:
		return most ?: max(dev->hw.spaces / 2, 1u);
	case UNETMM_USE_ENDPOINTS:
		return most ?: max(dev->hw.endpoints / 2, 1u);
	case UNETMM_USE_CHANNELS:
		return most ?: max(dev->hw.reliable / 2, 1u);
	case UNETMM_USE_EXPORTS:
		return most ?: max(dev->hw.regions / 2, 1u);
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

struct unetmm_turns *unetmm_user_turns(const struct unetmm_aspace *space)
{
	return &space->user->turns;
}

u32 unetmm_user_most_asleep(const struct unetmm_aspace *space)
{
	return unetmm_param(space->dev, UNETMM_P_user_threads);
}

/*
 * Between these, allocations with __GFP_ACCOUNT are charged to the memory group of
 * the space's owner, also those of other threads.
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

/*
 * May so many pages be charged to the memory group of mm's owner before the group, or one
 * above it, has to give pages back?  A hint: each processor may charge a batch meanwhile.
 * Not asked: memory with swap, which groups of version 1 can limit.
 */
bool unetmm_group_has_room(struct mm_struct *mm, unsigned long npages)
{
	bool room = true;
#ifdef CONFIG_MEMCG
	struct mem_cgroup *group = get_mem_cgroup_from_mm(mm), *memcg;
	unsigned long limit;

	npages += (unsigned long)MEMCG_CHARGE_BATCH * num_online_cpus();
	for (memcg = group; room && memcg; memcg = parent_mem_cgroup(memcg)) {
		limit = min(READ_ONCE(memcg->memory.max),
			    READ_ONCE(memcg->memory.high));
		room = page_counter_read(&memcg->memory) + npages <= limit;
	}
	mem_cgroup_put(group);
#endif
	return room;
}

/* ---- Pinned pages -------------------------------------------------------- */

/* Adds up to n to *used without passing limit; returns how many. */
static u32 unetmm_charge_one(atomic64_t *used, unsigned long limit, u32 n)
{
	u64 now = atomic64_add_return(n, used);
	u32 over;

	if (now <= limit)
		return n;
	over = min_t(u64, n, now - limit);
	atomic64_sub(over, used);
	return n - over;
}

static unsigned long unetmm_user_most_pinned(const struct unetmm_aspace *space)
{
	const struct unetmm_dev *dev = space->dev;

	if (space->unlimited)
		return ULONG_MAX;
	return unetmm_param(dev, UNETMM_P_user_pin_pages) ?:
	       DIV_ROUND_UP(unetmm_param(dev, UNETMM_P_pin_limit_pages), 2);
}

/*
 * Charges up to npages to the card, the user and the process, where ib_umem charges
 * the process alone.  Returns the number of pages within all three limits.
 */
u32 unetmm_charge_some(struct unetmm_aspace *space, u32 npages)
{
	struct unetmm_dev *dev = space->dev;
	u32 card, user, process;

	card = unetmm_charge_one(&dev->pinned,
				 unetmm_param(dev, UNETMM_P_pin_limit_pages), npages);
	user = unetmm_charge_one(&space->user->pinned,
				 unetmm_user_most_pinned(space), card);
	process = unetmm_charge_one(&space->mm->pinned_vm, space->pin_limit,
				    user);
	atomic64_sub(user - process, &space->user->pinned);
	atomic64_sub(card - process, &dev->pinned);
	return process;
}

void unetmm_uncharge(struct unetmm_aspace *space, u32 npages)
{
	atomic64_sub(npages, &space->mm->pinned_vm);
	atomic64_sub(npages, &space->user->pinned);
	atomic64_sub(npages, &space->dev->pinned);
}

bool unetmm_charge_all(struct unetmm_aspace *space, u32 npages)
{
	u32 got = unetmm_charge_some(space, npages);

	if (got == npages)
		return true;
	unetmm_uncharge(space, got);
	unetmm_count(space->dev, pin_limited);
	return false;
}
