// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: address spaces: binding to an mm, life on the card, end.
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
	space->watches = RB_ROOT_CACHED;
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
	/* Lookups find no space before the space is complete. */
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
	/* Unregistering calls release(), which drops every translation. */
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
