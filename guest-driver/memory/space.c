// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: address spaces: binding to an mm, and its notifier.
 *
 * Why this is safe against a concurrent insert is told in docs/driver.rst.
 */
#include <linux/capability.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "memory/memory.h"
#include "pager/pager.h"
#include "table/table.h"
#include "space/space.h"
#include "ring/ring.h"
#include "base/base.h"

/* Pins handled while space->lock is held once. */
#define UNETMM_CHUNK	256

/* With the last reference. */
void unetmm_space_free(struct unetmm_aspace *space)
{
	unetmm_regions_free(space);
	if (space->ops->free)
		space->ops->free(space);
	mmdrop(space->mm);
	put_pid(space->owner);
	unetmm_user_put(space);
	unetmm_dev_put(space->dev);
	unetmm_lost_free(space);
	unetmm_lane_free(space);
	kfree(space);
}

/* To be read before pages are pinned, for unetmm_space_raced(). */
unsigned long unetmm_space_seq(struct unetmm_aspace *space)
{
	unsigned long seq;

	spin_lock(&space->lock);
	seq = space->inv_seq;
	spin_unlock(&space->lock);
	/* The page tables are read after the sequence, as KVM does it. */
	smp_rmb();
	return seq;
}

/* Is [start, last] being invalidated, or may be? */
bool unetmm_space_changing(struct unetmm_aspace *space, unsigned long start,
			   unsigned long last)
{
	lockdep_assert_held(&space->lock);
	return space->inv_count && start <= space->inv_last &&
	       last >= space->inv_start;
}

/* Has [start, last] been, or is it being, invalidated since seq was read? */
bool unetmm_space_raced(struct unetmm_aspace *space, unsigned long seq,
			unsigned long start, unsigned long last)
{
	return unetmm_space_changing(space, start, last) ||
	       space->inv_seq != seq;
}

static void unetmm_inv_begin(struct unetmm_aspace *space, unsigned long start,
			     unsigned long last)
{
	spin_lock(&space->lock);
	if (!space->inv_count++) {
		space->inv_start = start;
		space->inv_last = last;
	} else {
		space->inv_start = min(space->inv_start, start);
		space->inv_last = max(space->inv_last, last);
	}
	spin_unlock(&space->lock);
}

static void unetmm_inv_end(struct unetmm_aspace *space)
{
	spin_lock(&space->lock);
	space->inv_seq++;
	space->inv_count--;
	unetmm_lost_kick(space);
	spin_unlock(&space->lock);
}

/*
 * Visits the pins of [vpn, last_vpn] in portions.  Nothing is added meanwhile, since
 * inv_count is up, and no entry is changed whose pin is going.
 */
unsigned long unetmm_pins_visit(struct unetmm_aspace *space, unsigned long vpn,
				unsigned long last_vpn,
				void (*step)(struct unetmm_aspace *space,
					     struct unetmm_pin *pin, void *arg),
				void *arg)
{
	unsigned long visited = 0;
	struct unetmm_pin *pin;
	int i;

	do {
		spin_lock(&space->lock);
		for (i = 0; i < UNETMM_CHUNK; i++) {
			pin = unetmm_pin_first(space, vpn);
			if (!pin || pin->vpn > last_vpn) {
				spin_unlock(&space->lock);
				return visited;
			}
			visited++;
			pin->going = true;
			vpn = pin->vpn;
			step(space, pin, arg);
			if (vpn == last_vpn)
				break;
			vpn++;
		}
		spin_unlock(&space->lock);
	} while (i == UNETMM_CHUNK);
	return visited;
}

static void unetmm_pin_leaves(struct unetmm_aspace *space,
			      struct unetmm_pin *pin, void *arg)
{
	unetmm_pin_drop(space, pin);
}

unsigned long unetmm_pins_take(struct unetmm_aspace *space, unsigned long vpn,
			       unsigned long last_vpn)
{
	unsigned long taken = unetmm_pins_visit(space, vpn, last_vpn,
						unetmm_pin_leaves, NULL);

	if (taken)
		queue_work(unetmm_drop_wq, &space->drop_work);
	return taken;
}

static void unetmm_pin_hide(struct unetmm_aspace *space,
			    struct unetmm_pin *pin, void *arg)
{
	unetmm_table_set(space->table, pin->vpn, 0);
}

/* Is there any?  Without a table there is nothing to be hidden. */
static bool unetmm_pins_hide(struct unetmm_aspace *space, unsigned long vpn,
			     unsigned long last_vpn)
{
	struct unetmm_pin *pin;
	bool any;

	if (space->table)
		return unetmm_pins_visit(space, vpn, last_vpn, unetmm_pin_hide,
					 NULL);
	spin_lock(&space->lock);
	pin = unetmm_pin_first(space, vpn);
	any = pin && pin->vpn <= last_vpn;
	spin_unlock(&space->lock);
	return any;
}

static void unetmm_drop_entries(struct unetmm_aspace *space, unsigned long vpn,
				unsigned long last_vpn)
{
	unetmm_invalidate(space->dev, space->id, (u64)vpn << PAGE_SHIFT,
			  (u64)last_vpn << PAGE_SHIFT | ~PAGE_MASK);
}

unsigned long unetmm_drop_pins(struct unetmm_aspace *space, unsigned long vpn,
			       unsigned long last_vpn)
{
	if (!unetmm_pins_hide(space, vpn, last_vpn))
		return 0;
	unetmm_drop_entries(space, vpn, last_vpn);
	return unetmm_pins_take(space, vpn, last_vpn);
}

/*
 * Between inv_begin and inv_end.  Neither sleeps nor allocates.  Returns how
 * many pages have gone.
 */
static unsigned long unetmm_inv_drop(struct unetmm_aspace *space,
				     unsigned long start, unsigned long last)
{
	/* Pairs with unetmm_space_create(): before that there is nothing. */
	if (!smp_load_acquire(&space->live))
		return 0;
	return space->ops->drop(space, start >> PAGE_SHIFT, last >> PAGE_SHIFT);
}

/* Drops the pages of [start, last] that the card may reach, without an event of Linux. */
unsigned long unetmm_space_drop(struct unetmm_aspace *space,
				unsigned long start, unsigned long last)
{
	unsigned long dropped;

	unetmm_inv_begin(space, start, last);
	dropped = unetmm_inv_drop(space, start, last);
	unetmm_inv_end(space);
	return dropped;
}

/* Sources whose pins stay; see memory/lost_pins.c.  Returns how many have not. */
static unsigned long unetmm_range_keep(struct unetmm_aspace *space,
				       const struct mmu_notifier_range *range)
{
	unsigned long vpn = range->start >> PAGE_SHIFT;
	unsigned long last = (range->end - 1) >> PAGE_SHIFT;

	switch (range->event) {
	case MMU_NOTIFY_PROTECTION_PAGE:
	case MMU_NOTIFY_SOFT_DIRTY:
		return 0;
	case MMU_NOTIFY_PROTECTION_VMA:
		return unetmm_lost_protect(space, vpn, last);
	case MMU_NOTIFY_UNMAP:
		return unetmm_inv_drop(space, range->start, range->end - 1);
	default:
		unetmm_lost_mark(space, vpn, last);
		return 0;
	}
}

/*
 * Is just one huge page's place cleared?  Then the memory is still there, mostly,
 * when the invalidation is over: it becomes small pages, or they become it.
 */
static bool unetmm_range_is_huge(const struct mmu_notifier_range *range)
{
	return range->event == MMU_NOTIFY_CLEAR &&
	       range->end - range->start == PMD_SIZE;
}

static int unetmm_range_start(struct mmu_notifier *mn,
			      const struct mmu_notifier_range *range)
{
	struct unetmm_aspace *space = container_of(mn, struct unetmm_aspace,
						  notifier);
	unsigned long dropped;

	unetmm_inv_begin(space, range->start, range->end - 1);
	/* Pairs with unetmm_space_create(). */
	if (!smp_load_acquire(&space->live))
		return 0;
	/*
	 * As in the papers: the card keeps pages that the process gave away.  Only
	 * pinned ones: another page could belong to another process by now.
	 */
	if (space->ops->pins && READ_ONCE(unetmm_hole))
		return 0;
	if (space->ops->keeps)
		dropped = unetmm_range_keep(space, range);
	else
		dropped = unetmm_inv_drop(space, range->start, range->end - 1);
	unetmm_space_lost(space, range->start, range->end - 1, dropped);
	return 0;
}

/* Is it still there? */
static bool unetmm_range_stays(const struct mmu_notifier_range *range)
{
	return unetmm_range_is_huge(range) ||
	       range->event == MMU_NOTIFY_PROTECTION_VMA ||
	       range->event == MMU_NOTIFY_PROTECTION_PAGE ||
	       range->event == MMU_NOTIFY_SOFT_DIRTY;
}

static void unetmm_range_end(struct mmu_notifier *mn,
			     const struct mmu_notifier_range *range)
{
	struct unetmm_aspace *space = container_of(mn, struct unetmm_aspace,
						  notifier);

	unetmm_inv_end(space);
	/* Pairs with unetmm_space_create(). */
	if (smp_load_acquire(&space->live) && space->ops->rights_changed &&
	    unetmm_range_stays(range))
		space->ops->rights_changed(space, range->start >> PAGE_SHIFT,
					   (range->end - 1) >> PAGE_SHIFT);
}

static void unetmm_mm_release(struct mmu_notifier *mn, struct mm_struct *mm)
{
	struct unetmm_aspace *space = container_of(mn, struct unetmm_aspace,
						  notifier);

	spin_lock(&space->lock);
	WRITE_ONCE(space->closing, true);
	spin_unlock(&space->lock);
	unetmm_space_drop(space, 0, ULONG_MAX);
}

static const struct mmu_notifier_ops unetmm_notifier_ops = {
	.release = unetmm_mm_release,
	.invalidate_range_start = unetmm_range_start,
	.invalidate_range_end = unetmm_range_end,
};

/* False: there is nothing left. */
static bool unetmm_drop_one(struct unetmm_aspace *space)
{
	struct unetmm_pin *pin;

	spin_lock(&space->lock);
	pin = list_first_entry_or_null(&space->drop_list, struct unetmm_pin,
				       drop);
	if (pin)
		list_del_init(&pin->drop);
	spin_unlock(&space->lock);
	if (pin)
		unetmm_pin_free(space, pin);
	return pin;
}

static void unetmm_drop_work(struct work_struct *work)
{
	struct unetmm_aspace *space = container_of(work, struct unetmm_aspace,
						  drop_work);

	while (unetmm_drop_one(space))
		cond_resched();
}

static struct unetmm_aspace *unetmm_space_alloc(struct unetmm_dev *dev,
					       u32 source)
{
	struct unetmm_aspace *space = kzalloc(sizeof(*space),
					     GFP_KERNEL_ACCOUNT);

	if (!space)
		return NULL;
	if (unetmm_lane_init(space)) {
		kfree(space);
		return NULL;
	}
	if (unetmm_lost_init(space)) {
		unetmm_lane_free(space);
		kfree(space);
		return NULL;
	}
	kref_init(&space->ref);
	spin_lock_init(&space->lock);
	mutex_init(&space->region_lock);
	mutex_init(&space->zero_lock);
	INIT_LIST_HEAD(&space->regions);
	INIT_LIST_HEAD(&space->aged);
	INIT_LIST_HEAD(&space->drop_list);
	INIT_LIST_HEAD(&space->dirty_list);
	INIT_LIST_HEAD(&space->lost_pins);
	INIT_LIST_HEAD(&space->kqueues);
	INIT_LIST_HEAD(&space->redirect_queues);
	INIT_WORK(&space->drop_work, unetmm_drop_work);
	INIT_DELAYED_WORK(&space->dirty_work, unetmm_dirty_work);
	init_waitqueue_head(&space->idle);
	space->pins = RB_ROOT;
	space->notifier.ops = &unetmm_notifier_ops;
	space->source = source;
	space->ops = dev->sources[source];
	/* Misses are served by threads of ours: the limit is taken now. */
	space->pin_limit = capable(CAP_IPC_LOCK) ? ULONG_MAX :
			   rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	mmgrab(current->mm);
	space->mm = current->mm;
	space->owner = get_pid(task_tgid(current));
	kref_get(&dev->ref);
	space->dev = dev;
	return space;
}

int unetmm_space_command(struct unetmm_dev *dev, u32 id, u32 source,
			 u32 levels, dma_addr_t table)
{
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_SPACE_CREATE,
		.space = cpu_to_le16(id),
		.space_create = {
			.source = source,
			.levels = levels,
			.table = cpu_to_le64(table),
		},
	};

	return unetmm_cmd(dev, &cmd, NULL);
}

static void unetmm_space_destroy(struct unetmm_aspace *space)
{
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_SPACE_DESTROY,
		.space = cpu_to_le16(space->id),
	};

	unetmm_cmd(space->dev, &cmd, NULL);
}

/*
 * The notifier comes first, since mmap_lock is not to be had under rwsem; as long as the
 * space is not live it finds nothing to do, but is counted.
 */
static int unetmm_space_watch(struct unetmm_aspace *space)
{
	struct mm_struct *mm = space->mm;
	int ret;

	unetmm_may_wait(space->dev);
	if (mmap_write_lock_killable(mm))
		return -EINTR;
	ret = __mmu_notifier_register(&space->notifier, mm);
	mmap_write_unlock(mm);
	return ret;
}

static int unetmm_space_create(struct unetmm_aspace *space)
{
	struct unetmm_dev *dev = space->dev;
	u32 levels = 0;
	dma_addr_t root = 0;
	int ret;

	if (space->ops->table) {
		ret = unetmm_table_init(space);
		if (ret)
			return ret;
		levels = UNETMM_LEVELS;
		root = unetmm_table_root(space->table);
	}
	/* Nobody finds it by its number before all is there. */
	ret = xa_alloc(&dev->spaces, &space->id, NULL,
		       XA_LIMIT(1, dev->hw.spaces - 1), GFP_KERNEL);
	if (ret) {
		ret = ret == -EBUSY ? -ENOSPC : ret;
		goto free_table;
	}
	if (space->ops->open)
		ret = space->ops->open(space);
	if (ret)
		goto erase_id;
	ret = unetmm_space_command(dev, space->id, space->source, levels, root);
	if (ret)
		goto erase_id;
	/* Pairs with the notifier. */
	smp_store_release(&space->live, true);
	ret = xa_err(xa_store(&dev->spaces, space->id, space, GFP_KERNEL));
	if (ret)
		goto destroy;
	if (space->ops->start)
		space->ops->start(space);
	return 0;

destroy:
	unetmm_space_drop(space, 0, ULONG_MAX);
	WRITE_ONCE(space->live, false);
	unetmm_space_destroy(space);
erase_id:
	xa_erase(&dev->spaces, space->id);
free_table:
	unetmm_table_free(space);
	return ret;
}

/*
 * The place among the spaces of its user is free when the space is closed and has no
 * pins left: else a user could have the pins of any number of processes that are gone.
 */
void unetmm_space_unplace(struct unetmm_aspace *space)
{
	lockdep_assert_held(&space->lock);
	if (!space->placed || !space->closed || space->dirty_waits)
		return;
	space->placed = false;
	unetmm_user_give(space, UNETMM_USE_SPACES, 1);
}

/*
 * Takes the space off the card and undoes its pins.  Its endpoints are
 * closed.  Holders of a reference find it closing and empty.
 */
void unetmm_space_close(struct unetmm_aspace *space)
{
	spin_lock(&space->lock);
	WRITE_ONCE(space->closing, true);
	spin_unlock(&space->lock);
	unetmm_pager_close(space);
	unetmm_lost_close(space);
	/* It drops all, too, while the notifier can still be called. */
	mmu_notifier_unregister(&space->notifier, space->mm);
	if (space->ops->stop)
		space->ops->stop(space);
	unetmm_space_drop(space, 0, ULONG_MAX);
	flush_work(&space->drop_work);
	/* Pages that are locked still have their pins left; see memory/pin.c. */
	unetmm_pins_settle(space);
	unetmm_space_destroy(space);
	space->dev->up->space_closed(space);
	xa_erase(&space->dev->spaces, space->id);
	unetmm_container_give(space->dev, UNETMM_USE_SPACES, space->group);
	spin_lock(&space->lock);
	space->closed = true;
	unetmm_space_unplace(space);
	spin_unlock(&space->lock);
	unetmm_table_free(space);
}

/* One of those that its user may have.  unetmm_space_unplace() gives it back. */
static int unetmm_space_take(struct unetmm_aspace *space)
{
	int ret;

	ret = unetmm_object_take(space, UNETMM_USE_SPACES, 1, &space->group);
	if (ret)
		return ret;
	ret = unetmm_space_create(space);
	if (ret)
		unetmm_object_give(space, UNETMM_USE_SPACES, 1, space->group);
	else
		space->placed = true;
	return ret;
}

/* The space becomes the file's, if the file has none. */
static int unetmm_space_bind(struct unetmm_file *file,
			     struct unetmm_aspace *space)
{
	int ret;

	lockdep_assert_held(&file->dev->rwsem);
	if (!unetmm_running(file->dev) || file->dead)
		return -ENODEV;
	mutex_lock(&file->lock);
	ret = file->space ? -EBUSY : unetmm_space_take(space);
	if (!ret)
		/* Pairs with the readers that compare its mm without file->lock. */
		smp_store_release(&file->space, space);
	mutex_unlock(&file->lock);
	/* Without an answer to a command the card has failed. */
	return ret && !unetmm_running(file->dev) ? -ENODEV : ret;
}

/* Takes rwsem itself: mmap_lock is waited for without it. */
int unetmm_op_space(struct unetmm_file *file, void *arg)
{
	struct unetmm_dev *dev = file->dev;
	struct unetmm_space *a = arg;
	struct unetmm_aspace *space;
	int ret;

	if (a->flags)
		return -EOPNOTSUPP;
	/* Source direct, which has no entry, is the driver's own. */
	if (a->source >= dev->nsources || !dev->sources[a->source])
		return -EINVAL;
	if (!(dev->hw.sources & BIT(a->source)))
		return -EOPNOTSUPP;
	if (READ_ONCE(file->space))
		return -EBUSY;
	space = unetmm_space_alloc(dev, a->source);
	if (!space)
		return -ENOMEM;
	ret = unetmm_user_get(space);
	if (!ret)
		ret = unetmm_space_watch(space);
	if (ret)
		goto put;
	ret = down_read_killable(&dev->rwsem);
	if (ret)
		goto unregister;
	ret = unetmm_space_bind(file, space);
	if (!ret) {
		a->id = space->id;
		a->quota_pages = 0;
		a->log_bytes = 0;
		a->log_map = 0;
		if (space->ops->answer)
			space->ops->answer(space, a);
	}
	up_read(&dev->rwsem);
	if (!ret)
		return 0;
unregister:
	mmu_notifier_unregister(&space->notifier, space->mm);
put:
	unetmm_space_put(space);
	return ret;
}
