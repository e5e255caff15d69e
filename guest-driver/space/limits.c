// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: limits per user on the pools of a card (docs/limits.md has them all); the memory group
 * that is charged; and the limits on pinned pages, of a process, of a user and of the card.
 *
 * A USER is a uid on one card, there while it has a space (space->user) or a CLOSE to repeat.
 * All uids of a user namespace are one user: the namespace's maker could have 65536 of them.  Each
 * of root's namespaces is one user: these are containers.  A space's charges are counted with its
 * user, under dev->users_lock, and given back by the path that ends it; so a user with many
 * processes has no more than one with one.  Pinned pages are counted without a lock, and sleeping
 * workers by the pager, under its own.  A space whose maker has CAP_SYS_RESOURCE is counted, and
 * not limited.  util/share.h has the rule for a user's share.
 *
 * dev->users_lock is innermost.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include "space/space.h"
#include "base/base.h"
#include "param/param.h"
#include "util/share.h"

struct unetmm_user {
	struct list_head node;		/* dev->users */
	u64 key;
	u32 refs;			/* spaces and CLOSEs to repeat */
	u32 used[UNETMM_NUM_USES];
	atomic64_t pinned;		/* pages; without a lock */
	struct unetmm_turns turns;	/* the pager's; no lane once there is no space */
};

#define UNETMM_NO_PARAM		UNETMM_NUM_PARAMS

/* Numbers that an administrator sets in place of the rule. */
static const enum unetmm_param unetmm_user_limits[UNETMM_NUM_USES] = {
	[UNETMM_USE_BACKUP] = UNETMM_P_user_backup_buffers,
	[UNETMM_USE_SLOTS] = UNETMM_P_user_redirect_slots,
	[UNETMM_USE_SPACES] = UNETMM_P_user_spaces,
	[UNETMM_USE_ENDPOINTS] = UNETMM_P_user_endpoints,
	[UNETMM_USE_CHANNELS] = UNETMM_P_user_channels,
	[UNETMM_USE_EXPORTS] = UNETMM_P_user_exports,
	[UNETMM_USE_WINDOWS] = UNETMM_NO_PARAM,
	[UNETMM_USE_PROXIES] = UNETMM_NO_PARAM,
	[UNETMM_USE_FLOWS] = UNETMM_NO_PARAM,
	[UNETMM_USE_ANNOUNCED] = UNETMM_NO_PARAM,
	[UNETMM_USE_CLOSES] = UNETMM_NO_PARAM,
	[UNETMM_USE_VERBS] = UNETMM_P_user_verbs,
};

void unetmm_users_init(struct unetmm_dev *dev)
{
	spin_lock_init(&dev->users_lock);
	INIT_LIST_HEAD(&dev->users);
}

u64 unetmm_user_key(void)
{
	const struct user_namespace *ns = current_user_ns();
	kuid_t uid = current_uid();
	u32 container = 0;

	for (; ns != &init_user_ns; ns = ns->parent) {
		uid = ns->owner;
		container = ns->ns.inum;
	}
	if (!uid_eq(uid, GLOBAL_ROOT_UID))
		container = 0;
	return (u64)container << 32 | __kuid_val(uid);
}

static struct unetmm_user *unetmm_user_find(struct unetmm_dev *dev, u64 key)
{
	struct unetmm_user *user;

	lockdep_assert_held(&dev->users_lock);
	list_for_each_entry(user, &dev->users, node) {
		if (user->key == key)
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
	new->key = unetmm_user_key();
	INIT_LIST_HEAD(&new->turns.lanes);
	INIT_LIST_HEAD(&new->turns.node);
	spin_lock(&dev->users_lock);
	user = unetmm_user_find(dev, new->key);
	if (!user) {
		user = new;
		new = NULL;
		list_add(&user->node, &dev->users);
	}
	user->refs++;
	spin_unlock(&dev->users_lock);
	kfree(new);
	space->user = user;
	space->unlimited = capable(CAP_SYS_RESOURCE);
	return 0;
}

static void unetmm_user_unref(struct unetmm_dev *dev, struct unetmm_user *user)
{
	bool last;

	spin_lock(&dev->users_lock);
	last = !--user->refs;
	if (last)
		list_del(&user->node);
	spin_unlock(&dev->users_lock);
	if (last)
		kfree(user);
}

/* With the space's last reference. */
void unetmm_user_put(struct unetmm_aspace *space)
{
	if (space->user)
		unetmm_user_unref(space->dev, space->user);
}

/* All users together can have so many. */
static u32 unetmm_pool_size(const struct unetmm_dev *dev, enum unetmm_use use)
{
	const struct unetmm_limits *hw = &dev->hw;

	switch (use) {
	case UNETMM_USE_BACKUP:
		return unetmm_param(dev, UNETMM_P_backup_buffers);
	case UNETMM_USE_SLOTS:
		return min(unetmm_param(dev, UNETMM_P_redirect_slots),
			   hw->sysbuf_slots);
	case UNETMM_USE_SPACES:
		return hw->spaces - 1;
	case UNETMM_USE_ENDPOINTS:
		/* The driver's own, and the netdev's */
		return hw->endpoints - 1 - (hw->flows && hw->endpoints > 2);
	case UNETMM_USE_CHANNELS:
		return hw->reliable;
	case UNETMM_USE_EXPORTS:
		return hw->regions;
	case UNETMM_USE_WINDOWS:
		return hw->window_pages;
	case UNETMM_USE_PROXIES:
		return hw->proxy_pages;
	case UNETMM_USE_FLOWS:
		return hw->flows - min(hw->flows / 2, (u32)UNETMM_FLOWS_KEPT);
	case UNETMM_USE_ANNOUNCED:
		return UNETMM_ANNOUNCED_MOST;
	case UNETMM_USE_CLOSES:
		return UNETMM_CLOSES_MOST;
	case UNETMM_USE_VERBS:
		return UNETMM_VERBS_MOST;
	case UNETMM_NUM_USES:
		break;
	}
	return 0;
}

/* The card has no such objects, so that nobody else refuses one too many. */
static bool unetmm_pool_of_driver(enum unetmm_use use)
{
	return use == UNETMM_USE_ANNOUNCED || use == UNETMM_USE_CLOSES || use == UNETMM_USE_VERBS;
}

/* How many more the space's user may have.  U32_MAX: the card says that it has none. */
static u32 unetmm_user_more(const struct unetmm_aspace *space,
			    enum unetmm_use use)
{
	const struct unetmm_dev *dev = space->dev;
	u32 most = 0, mine = space->user->used[use], all = 0, size, left;
	bool ours = unetmm_pool_of_driver(use);
	const struct unetmm_user *user;

	lockdep_assert_held(&dev->users_lock);
	if (unetmm_user_limits[use] != UNETMM_NO_PARAM)
		most = unetmm_param(dev, unetmm_user_limits[use]);
	if (most && !ours)
		return most - min(mine, most);
	list_for_each_entry(user, &dev->users, node)
		all += user->used[use];
	size = unetmm_pool_size(dev, use);
	left = size - min(all, size);
	if (!left && !ours)
		return U32_MAX;
	return min(left, most ? most - min(mine, most) :
			 unetmm_share_more(size, mine, all - mine));
}

/* Takes up to n; returns how many, 0: the user has all that it may have. */
u32 unetmm_user_take(struct unetmm_aspace *space, enum unetmm_use use, u32 n)
{
	struct unetmm_dev *dev = space->dev;

	spin_lock(&dev->users_lock);
	if (!space->unlimited)
		n = min(n, unetmm_user_more(space, use));
	space->user->used[use] += n;
	spin_unlock(&dev->users_lock);
	if (!n)
		unetmm_count(dev, user_limited);
	return n;
}

bool unetmm_user_take_all(struct unetmm_aspace *space, enum unetmm_use use,
			  u32 n)
{
	u32 got = unetmm_user_take(space, use, n);

	if (got == n)
		return true;
	if (got) {
		unetmm_user_give(space, use, got);
		unetmm_count(space->dev, user_limited);
	}
	return false;
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

struct unetmm_user *unetmm_user_hold(struct unetmm_aspace *space,
				     enum unetmm_use use)
{
	struct unetmm_user *user = NULL;

	spin_lock(&space->dev->users_lock);
	if (space->unlimited || unetmm_user_more(space, use)) {
		user = space->user;
		user->used[use]++;
		user->refs++;
	}
	spin_unlock(&space->dev->users_lock);
	return user;
}

void unetmm_user_release(struct unetmm_dev *dev, struct unetmm_user *user,
			 enum unetmm_use use)
{
	spin_lock(&dev->users_lock);
	WARN_ON_ONCE(!user->used[use]);
	user->used[use]--;
	spin_unlock(&dev->users_lock);
	unetmm_user_unref(dev, user);
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

/* Without a lock: users that take pages at once may pass the rule by these pages. */
static unsigned long unetmm_user_most_pinned(const struct unetmm_aspace *space)
{
	const struct unetmm_dev *dev = space->dev;
	u32 all = unetmm_param(dev, UNETMM_P_pin_limit_pages);
	u32 most = unetmm_param(dev, UNETMM_P_user_pin_pages);
	u64 mine, others;

	if (space->unlimited)
		return ULONG_MAX;
	if (most)
		return most;
	mine = min_t(u64, atomic64_read(&space->user->pinned), U32_MAX);
	others = atomic64_read(&dev->pinned);
	others = min_t(u64, others - min(mine, others), U32_MAX);
	return mine + unetmm_share_more(all, mine, others);
}

/*
 * Charges up to npages to the card, the user and the process, where ib_umem charges
 * the process alone.  Returns the number of pages within all three limits.
 */
u32 unetmm_charge_some(struct unetmm_aspace *space, u32 npages)
{
	unsigned long most = unetmm_user_most_pinned(space);
	struct unetmm_dev *dev = space->dev;
	u32 card, user, process;

	card = unetmm_charge_one(&dev->pinned,
				 unetmm_param(dev, UNETMM_P_pin_limit_pages), npages);
	user = unetmm_charge_one(&space->user->pinned, most, card);
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
