// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: /dev/unetmmN: open, close, ioctl, poll.
 *
 * The dispatcher is iommufd's: a table, sizes checked when it is compiled, the
 * argument copied in once and out once, neither under a lock.
 */
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/nospec.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "compat/compat.h"
#include "card/card.h"
#include "remote/remote.h"
#include "channel/channel.h"
#include "ep/ep.h"
#include "source/source.h"
#include "memory/memory.h"
#include "pager/pager.h"
#include "space/space.h"
#include "base/base.h"
#include "param/param.h"

/* An open file of the card without a descriptor yet; unetmm_file_free() is its end. */
struct unetmm_file *unetmm_file_new(struct unetmm_dev *dev)
{
	struct unetmm_file *file = kzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);
	int ret = -ENODEV;

	if (!file)
		return ERR_PTR(-ENOMEM);
	file->dev = dev;
	mutex_init(&file->lock);
	INIT_LIST_HEAD(&file->eps);
	file->exports = RB_ROOT;
	INIT_LIST_HEAD(&file->movable);
	init_waitqueue_head(&file->wait);
	down_read(&dev->rwsem);
	if (unetmm_running(dev)) {
		kref_get(&dev->ref);
		mutex_lock(&dev->files_lock);
		list_add_tail(&file->node, &dev->files);
		mutex_unlock(&dev->files_lock);
		ret = 0;
	}
	up_read(&dev->rwsem);
	if (!ret)
		return file;
	kfree(file);
	return ERR_PTR(ret);
}

static int unetmm_open(struct inode *inode, struct file *filp)
{
	struct unetmm_card *card = container_of(filp->private_data,
						struct unetmm_card, misc);
	struct unetmm_file *file = unetmm_file_new(&card->dev);

	if (IS_ERR(file))
		return PTR_ERR(file);
	/* No process maps anything by the descriptor before open() has returned. */
	WRITE_ONCE(file->filp, filp);
	filp->private_data = file;
	return 0;
}

/* Takes all that the file has off the card.  rwsem is held. */
void unetmm_file_shutdown(struct unetmm_file *file)
{
	struct unetmm_ep *ep, *next;

	lockdep_assert_held(&file->dev->rwsem);
	if (file->dead)
		return;
	mutex_lock(&file->lock);
	file->dead = true;
	list_for_each_entry_safe(ep, next, &file->eps, node)
		unetmm_ep_close(ep);
	unetmm_exports_close(file);
	if (file->space)
		unetmm_space_close(file->space);
	mutex_unlock(&file->lock);
	wake_up_all(&file->wait);
}

void unetmm_file_free(struct unetmm_file *file)
{
	struct unetmm_dev *dev = file->dev;

	down_read(&dev->rwsem);
	unetmm_file_shutdown(file);
	mutex_lock(&dev->files_lock);
	list_del(&file->node);
	mutex_unlock(&dev->files_lock);
	up_read(&dev->rwsem);
	if (file->space)
		unetmm_space_put(file->space);
	if (file->scratch)
		__free_page(file->scratch);
	kfree(file);
	unetmm_dev_put(dev);
}

static int unetmm_release(struct inode *inode, struct file *filp)
{
	unetmm_file_free(filp->private_data);
	return 0;
}

/*
 * Each close of a descriptor, before any file is released.  A process that
 * exits or executes another program has lost its memory by then.
 */
static int unetmm_flush(struct file *filp, fl_owner_t id)
{
	struct unetmm_file *file = filp->private_data;
	struct unetmm_aspace *space;

	/* Pairs with unetmm_op_space(). */
	space = smp_load_acquire(&file->space);
	if (space && space->owner == task_tgid(current) &&
	    space->mm != current->mm)
		unetmm_pager_orphan(space);
	return 0;
}

/*
 * Level-triggered.  EPOLLIN: an endpoint of the file has completions that were
 * not taken, or was stopped; EPOLLPRI: somebody waits to be accepted.  As with
 * the eventfd, a sleeper is woken only for armed completion queues.
 */
static __poll_t unetmm_ep_poll(const struct unetmm_ep *ep)
{
	__poll_t mask = 0;

	if (READ_ONCE(ep->index->card.cq_prod) !=
	    READ_ONCE(ep->index->user.cq_cons))
		mask |= EPOLLIN | EPOLLRDNORM;
	if (READ_ONCE(ep->failed))
		mask |= EPOLLIN | EPOLLERR;
	if (READ_ONCE(ep->nbacklog))
		mask |= EPOLLPRI;
	return mask;
}

static __poll_t unetmm_poll(struct file *filp, poll_table *wait)
{
	struct unetmm_file *file = filp->private_data;
	struct unetmm_dev *dev = file->dev;
	struct unetmm_ep *ep;
	__poll_t mask = 0;

	poll_wait(filp, &file->wait, wait);
	if (!unetmm_running(dev) || READ_ONCE(file->dead))
		return EPOLLHUP | EPOLLERR;
	/* Queue memory of a listed endpoint stays while map_lock is held. */
	mutex_lock(&dev->map_lock);
	list_for_each_entry(ep, &file->eps, node)
		mask |= unetmm_ep_poll(ep);
	mutex_unlock(&dev->map_lock);
	return mask;
}

static int unetmm_op_info(struct unetmm_file *file, void *arg)
{
	struct unetmm_dev *dev = file->dev;
	const struct unetmm_limits *hw = &dev->hw;
	struct unetmm_info *a = arg;
	u32 i;

	if (a->flags || a->rsvd0 || a->rsvd1)
		return -EOPNOTSUPP;
	a->flags = unetmm_link_up(dev) ? UNETMM_INFO_LINK : 0;
	memcpy(a->mac, hw->mac, ETH_ALEN);
	a->user_mtu = hw->user_mtu;
	a->version = hw->version;
	a->caps = hw->caps;
	a->sources = 0;
	for (i = 0; i < dev->nsources; i++)
		a->sources |= dev->sources[i] ? hw->sources & BIT(i) : 0;
	a->policies = hw->policies;
	a->endpoints = hw->endpoints;
	a->channels = hw->channels;
	a->max_ring_log2 = hw->max_log2;
	a->max_pretranslate = hw->pretranslate;
	a->tlb_sets = hw->tlb_sets;
	a->tlb_ways = hw->tlb_ways;
	a->tlb_victims = hw->tlb_victims;
	a->max_buffer_pages = hw->max_buf_pages;
	a->pin_limit_pages = unetmm_param(dev, UNETMM_P_pin_limit_pages);
	a->reliable = hw->reliable;
	a->max_message = hw->reliable ? UNETMM_MAX_MESSAGE : 0;
	a->regions = hw->regions;
	a->imports = hw->imports;
	a->flows = hw->flows;
	a->backup = hw->policies & BIT(UNETMM_POLICY_BACKUP) ?
		    min(hw->backup_bits,
			unetmm_param(dev, UNETMM_P_backup_buffers)) : 0;
	return 0;
}

union unetmm_arg {
	struct unetmm_info info;
	struct unetmm_space space;
	struct unetmm_endpoint endpoint;
	struct unetmm_destroy destroy;
	struct unetmm_listen listen;
	struct unetmm_connect connect;
	struct unetmm_probe probe;
	struct unetmm_peers peers;
	struct unetmm_region region;
	struct unetmm_counters counters;
	struct unetmm_post post;
	struct unetmm_utlb utlb;
	struct unetmm_prefetch prefetch;
	struct unetmm_export export;
	struct unetmm_export_key export_key;
	struct unetmm_redirect redirect;
	struct unetmm_redirect_id redirect_id;
	struct unetmm_import import;
	struct unetmm_window window;
	struct unetmm_event event;
	struct unetmm_event_wait event_wait;
	struct unetmm_event_arm event_arm;
	struct unetmm_flow flow;
};

/*
 * The right to make a call.  A file gets its space once and keeps it, so an answer "the
 * caller's own" stays true for the whole call: unetmm_execute() checks this for all
 * calls, and no call has a check of its own.  An endpoint is looked up in the file, and
 * FLOW and raw endpoints need a capability besides (ep/raw.c).
 */
enum unetmm_needs {
	UNETMM_NEEDS_OWNER,		/* the file has the caller's space */
	UNETMM_NEEDS_NO_OTHER,		/* the file has no space, or the caller's */
	UNETMM_NEEDS_NOTHING,		/* the descriptor */
};

#define UNETMM_OP_UNLOCKED	BIT(0)	/* takes rwsem itself */
#define UNETMM_OP_SILENT	BIT(1)	/* has nothing to write back */

struct unetmm_op {
	unsigned int ioctl;
	u32 size;
	u32 min_size;			/* the first published size */
	enum unetmm_needs needs;
	u32 flags;
	int (*execute)(struct unetmm_file *file, void *arg);
	/*
	 * Undoes a call whose result cannot be returned: ends the object of type `makes`
	 * that is named by the members at these offsets of the argument (0: none), or
	 * calls `undo`.
	 */
	u32 makes;
	u32 endpoint_at, id_at, count_at;
	void (*undo)(struct unetmm_file *file, const void *arg);
};

/* A row without its right does not compile: the arguments would not fit. */
#define IOCTL_OP(_ioctl, _fn, _struct, _last, _needs, _flags, ...)	\
	[_IOC_NR(_ioctl)] = {						\
		.ioctl = _ioctl,					\
		.size = sizeof(_struct) +				\
			BUILD_BUG_ON_ZERO(sizeof(union unetmm_arg) <	\
					  sizeof(_struct)),		\
		.min_size = offsetofend(_struct, _last),		\
		.needs = UNETMM_NEEDS_##_needs,				\
		.flags = _flags,					\
		.execute = _fn,						\
		__VA_ARGS__						\
	}

#define MAKES(_type, _struct, _id)					\
	.makes = UNETMM_OBJECT_##_type,					\
	.endpoint_at = offsetof(_struct, endpoint),			\
	.id_at = offsetof(_struct, _id)

static const struct unetmm_op unetmm_ops[] = {
	IOCTL_OP(UNETMM_IOC_INFO, unetmm_op_info, struct unetmm_info,
		 pin_limit_pages, NOTHING, 0),
	IOCTL_OP(UNETMM_IOC_SPACE, unetmm_op_space, struct unetmm_space,
		 log_map, NO_OTHER, UNETMM_OP_UNLOCKED),
	IOCTL_OP(UNETMM_IOC_ENDPOINT, unetmm_op_endpoint,
		 struct unetmm_endpoint, doorbell_map, OWNER, 0,
		 .makes = UNETMM_OBJECT_ENDPOINT,
		 .endpoint_at = offsetof(struct unetmm_endpoint, id)),
	IOCTL_OP(UNETMM_IOC_DESTROY, unetmm_op_destroy, struct unetmm_destroy, id,
		 OWNER, UNETMM_OP_UNLOCKED | UNETMM_OP_SILENT),
	IOCTL_OP(UNETMM_IOC_LISTEN, unetmm_op_listen, struct unetmm_listen,
		 flags, OWNER, UNETMM_OP_SILENT),
	IOCTL_OP(UNETMM_IOC_ACCEPT, unetmm_op_accept, struct unetmm_connect,
		 flags, OWNER, 0, .undo = unetmm_undo_accept),
	IOCTL_OP(UNETMM_IOC_CONNECT, unetmm_op_connect, struct unetmm_connect,
		 flags, OWNER, 0, MAKES(CHANNEL, struct unetmm_connect, channel)),
	IOCTL_OP(UNETMM_IOC_PROBE, unetmm_op_probe, struct unetmm_probe, rsvd1,
		 NO_OTHER, 0),
	IOCTL_OP(UNETMM_IOC_PEERS, unetmm_op_peers, struct unetmm_peers, rsvd1,
		 NO_OTHER, UNETMM_OP_UNLOCKED),
	IOCTL_OP(UNETMM_IOC_REGISTER, unetmm_op_register, struct unetmm_region,
		 length, OWNER, UNETMM_OP_UNLOCKED | UNETMM_OP_SILENT),
	IOCTL_OP(UNETMM_IOC_DEREGISTER, unetmm_op_deregister,
		 struct unetmm_region, length, OWNER,
		 UNETMM_OP_UNLOCKED | UNETMM_OP_SILENT),
	IOCTL_OP(UNETMM_IOC_COUNTERS, unetmm_op_counters,
		 struct unetmm_counters, values, NOTHING, UNETMM_OP_UNLOCKED),
	IOCTL_OP(UNETMM_IOC_POST, unetmm_op_post, struct unetmm_post, rsvd,
		 OWNER, UNETMM_OP_UNLOCKED | UNETMM_OP_SILENT),
	IOCTL_OP(UNETMM_IOC_UTLB_PIN, unetmm_op_utlb_pin, struct unetmm_utlb,
		 rsvd, OWNER, UNETMM_OP_UNLOCKED),
	IOCTL_OP(UNETMM_IOC_UTLB_UNPIN, unetmm_op_utlb_unpin,
		 struct unetmm_utlb, rsvd, OWNER, UNETMM_OP_UNLOCKED),
	IOCTL_OP(UNETMM_IOC_PREFETCH, unetmm_op_prefetch,
		 struct unetmm_prefetch, done, OWNER, UNETMM_OP_UNLOCKED),
	IOCTL_OP(UNETMM_IOC_EXPORT, unetmm_op_export, struct unetmm_export,
		 ncounters, OWNER, UNETMM_OP_UNLOCKED | UNETMM_OP_SILENT),
	IOCTL_OP(UNETMM_IOC_EXPORT_KEY, unetmm_op_export_key,
		 struct unetmm_export_key, base, OWNER, 0),
	IOCTL_OP(UNETMM_IOC_REDIRECT, unetmm_op_redirect,
		 struct unetmm_redirect, spans, OWNER, UNETMM_OP_UNLOCKED,
		 .undo = unetmm_undo_redirect),
	IOCTL_OP(UNETMM_IOC_REDIRECT_GO, unetmm_op_redirect_go,
		 struct unetmm_redirect_id, offset, OWNER,
		 UNETMM_OP_UNLOCKED | UNETMM_OP_SILENT),
	IOCTL_OP(UNETMM_IOC_IMPORT, unetmm_op_import, struct unetmm_import,
		 length, OWNER, 0, MAKES(IMPORT, struct unetmm_import, import)),
	IOCTL_OP(UNETMM_IOC_WINDOW, unetmm_op_window, struct unetmm_window,
		 map_bytes, OWNER, 0, MAKES(WINDOW, struct unetmm_window, id)),
	IOCTL_OP(UNETMM_IOC_EVENT, unetmm_op_event, struct unetmm_event, map,
		 OWNER, 0, .makes = UNETMM_OBJECT_EVENT,
		 .id_at = offsetof(struct unetmm_event, id),
		 .count_at = offsetof(struct unetmm_event, count)),
	IOCTL_OP(UNETMM_IOC_EVENT_WAIT, unetmm_op_event_wait,
		 struct unetmm_event_wait, now, OWNER, UNETMM_OP_UNLOCKED),
	IOCTL_OP(UNETMM_IOC_EVENT_ARM, unetmm_op_event_arm,
		 struct unetmm_event_arm, now, OWNER, 0),
	IOCTL_OP(UNETMM_IOC_FLOW, unetmm_op_flow, struct unetmm_flow, rsvd,
		 OWNER, 0, MAKES(FLOW, struct unetmm_flow, flow)),
};

static int unetmm_execute(struct unetmm_file *file, const struct unetmm_op *op,
			  void *arg)
{
	struct unetmm_aspace *space;
	int ret;

	/* Pairs with unetmm_op_space(). */
	space = smp_load_acquire(&file->space);
	if (op->needs != UNETMM_NEEDS_NOTHING && space &&
	    space->mm != current->mm)
		return -EPERM;
	if (READ_ONCE(file->dead))
		return -ENODEV;
	if (op->needs == UNETMM_NEEDS_OWNER && !space)
		return -EINVAL;
	if (op->flags & UNETMM_OP_UNLOCKED)
		return op->execute(file, arg);
	ret = unetmm_file_enter(file);
	return ret ? ret : unetmm_file_leave(file, op->execute(file, arg));
}

static u32 unetmm_arg_word(const void *arg, u32 at)
{
	return at ? *(const u32 *)(arg + at) : 0;
}

static void unetmm_undo(struct unetmm_file *file, const struct unetmm_op *op,
			const void *arg)
{
	const struct unetmm_destroy made = {
		.type = op->makes,
		.endpoint = unetmm_arg_word(arg, op->endpoint_at),
		.id = unetmm_arg_word(arg, op->id_at),
		.count = unetmm_arg_word(arg, op->count_at),
	};

	if (op->undo && op->flags & UNETMM_OP_UNLOCKED) {
		op->undo(file, arg);
		return;
	}
	down_read(&file->dev->rwsem);
	/* Else it went with the file, or will. */
	if (!file->dead && op->undo)
		op->undo(file, arg);
	else if (!file->dead && op->makes)
		unetmm_object_end(file, &made);
	up_read(&file->dev->rwsem);
}

static long unetmm_ioctl(struct file *filp, unsigned int cmd,
			 unsigned long uarg)
{
	void __user *user = (void __user *)uarg;
	const struct unetmm_op *op;
	union unetmm_arg arg;
	u32 size;
	int ret;

	if (_IOC_TYPE(cmd) != UNETMM_IOC_MAGIC ||
	    _IOC_NR(cmd) >= ARRAY_SIZE(unetmm_ops))
		return -ENOTTY;
	op = &unetmm_ops[array_index_nospec(_IOC_NR(cmd), ARRAY_SIZE(unetmm_ops))];
	if (op->ioctl != cmd)
		return -ENOTTY;
	if (get_user(size, (u32 __user *)user))
		return -EFAULT;
	if (size < op->min_size)
		return -EINVAL;
	if (size > PAGE_SIZE)
		return -E2BIG;
	ret = copy_struct_from_user(&arg, op->size, user, size);
	if (ret)
		return ret;
	ret = unetmm_execute(filp->private_data, op, &arg);
	if (ret)
		return ret == -ERESTARTSYS ? -EINTR : ret;
	if (op->flags & UNETMM_OP_SILENT)
		return 0;
	/* `size` is the caller's: it may have changed it since we read it. */
	if (copy_to_user(user + sizeof(u32), (char *)&arg + sizeof(u32),
			 min(size, op->size) - sizeof(u32))) {
		unetmm_undo(filp->private_data, op, &arg);
		return -EFAULT;
	}
	return 0;
}

const struct file_operations unetmm_fops = {
	.owner = THIS_MODULE,
	.open = unetmm_open,
	.flush = unetmm_flush,
	.release = unetmm_release,
	.unlocked_ioctl = unetmm_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = unetmm_mmap,
	.poll = unetmm_poll,
	.llseek = unetmm_no_llseek,
};
