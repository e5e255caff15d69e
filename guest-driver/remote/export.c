// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: exports: memory that a process lets its peers use.
 *
 * An export is a region on the card: a range of the process's addresses and a
 * key that only drivers know.  A peer's driver is told both if it has a reliable
 * channel to an endpoint of the process, and asks by the export's number.
 *
 * A file's exports, the numbers of regions and REGION_SET and _CLEAR
 * are under ctl.lock, so that a thread that finds an export finds its region on the
 * card.  An export ends with DESTROY or with its file; the pages behind it are
 * the address space's business as ever: with source tlb they come by misses, with
 * source pinned they are registered for as long as the export lasts, with source
 * utlb the process has pinned them before and keeps them (peers cannot use pages
 * that it unpins).  When REGION_CLEAR has completed, nothing moves through
 * the region any more, and packets for it in the system buffer are dropped a moment
 * later (policy redirect); only then are its pages unpinned.
 */
#include <linux/etherdevice.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "remote/remote.h"
#include "channel/channel.h"
#include "redirect/redirect.h"
#include "memory/memory.h"
#include "pager/pager.h"
#include "space/space.h"
#include "ring/ring.h"
#include "base/base.h"

#define UNETMM_EXPORT_TRIES	16	/* with a fault ring that is too full */
#define UNETMM_EXPORTS_AT_ONCE	64	/* end before others get ctl.lock */
#define UNETMM_EXPORT_FLAGS	(UNETMM_EXPORT_NOTIFY | UNETMM_EXPORT_REDIRECT | \
				 UNETMM_EXPORT_KEYED | UNETMM_EXPORT_WHOLE | \
				 UNETMM_EXPORT_REGISTERED)

/* ---- The card's side; ctl.lock ------------------------------------------- */

static struct unetmm_exported *unetmm_exported_of(struct rb_node *node)
{
	return rb_entry_safe(node, struct unetmm_exported, node);
}

static int unetmm_region_set(struct unetmm_file *file,
			     const struct unetmm_exported *export,
			     const struct unetmm_export *a)
{
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_REGION_SET,
		.space = cpu_to_le16(file->space->id),
		.region = {
			.region = cpu_to_le32(export->region),
			.key = cpu_to_le32(export->key),
			.addr = cpu_to_le64(export->addr),
			.length = cpu_to_le64(export->length),
			.cookie = cpu_to_le64(a->cookie),
			.rights = export->rights,
			.flags = (a->flags & UNETMM_EXPORT_NOTIFY ?
				  UNETMM_REGION_F_NOTIFY : 0) |
				 (a->flags & UNETMM_EXPORT_REDIRECT ?
				  UNETMM_REGION_F_REDIRECT : 0) |
				 (export->keyed ? UNETMM_REGION_F_KEYED : 0) |
				 (export->rkey ? UNETMM_REGION_F_IOVA : 0),
			.iova = cpu_to_le64(export->iova),
			.pd = cpu_to_le32(export->pd),
			.counter = cpu_to_le16(export->counter),
			.ncounters = cpu_to_le16(export->ncounters),
		},
	};

	return unetmm_cmd(file->dev, &cmd, NULL);
}

/*
 * Takes it off the card, and waits until nothing moves through it; it is in `ended` then,
 * for unetmm_exported_free().
 */
static void unetmm_exported_end(struct unetmm_file *file,
				struct unetmm_exported *export,
				struct list_head *ended)
{
	struct unetmm_dev *dev = file->dev;
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_REGION_CLEAR,
		.region.region = cpu_to_le32(export->region),
	};

	lockdep_assert_held(&dev->ctl->lock);
	rb_erase(&export->node, &file->exports);
	list_move_tail(&export->movable, ended);
	unetmm_cmd(dev, &cmd, NULL);
	unetmm_redirect_queue_clear_region(file->space, export->region);
	unetmm_ecs_take_back(file->space, export->counter, export->ncounters);
	__clear_bit(export->region, dev->ctl->region_map);
}

/*
 * Frees the exports in `ended`; `parts` gets their parts that had moved.  ctl.lock is not held, as
 * with unetmm_object_take(): the kernel allocates under the lock of its groups, so the owner of
 * that lock may wait for a disk of verbs, which waits for ctl.lock.
 */
static void unetmm_exported_free(struct unetmm_file *file, struct list_head *ended,
				 struct list_head *parts)
{
	struct unetmm_exported *export, *next;

	list_for_each_entry_safe(export, next, ended, movable) {
		unetmm_object_give(file->space, UNETMM_USE_EXPORTS, 1, export->group);
		list_splice_init(&export->parts, parts);
		kfree(export);
	}
	INIT_LIST_HEAD(ended);
}

/* With the file; its endpoints are closed, its space is not. */
void unetmm_exports_close(struct unetmm_file *file)
{
	struct rb_node *node;
	LIST_HEAD(ended);
	LIST_HEAD(parts);
	u32 n;

	do {
		mutex_lock(&file->dev->ctl->lock);
		for (n = 0; n < UNETMM_EXPORTS_AT_ONCE; n++) {
			node = rb_first(&file->exports);
			if (!node)
				break;
			unetmm_exported_end(file, unetmm_exported_of(node),
					    &ended);
		}
		mutex_unlock(&file->dev->ctl->lock);
		unetmm_exported_free(file, &ended, &parts);
	} while (node);
	unetmm_parts_close(&parts);
}

static int unetmm_exported_cmp_id(const void *id, const struct rb_node *node)
{
	const struct unetmm_exported *export =
		rb_entry(node, struct unetmm_exported, node);
	u64 wanted = *(const u64 *)id;

	return wanted < export->id ? -1 : wanted > export->id;
}

static int unetmm_exported_cmp(struct rb_node *new, const struct rb_node *node)
{
	return unetmm_exported_cmp_id(&unetmm_exported_of(new)->id, node);
}

struct unetmm_exported *unetmm_exported_find(struct unetmm_file *file, u64 id)
{
	lockdep_assert_held(&file->dev->ctl->lock);
	return unetmm_exported_of(rb_find(&id, &file->exports,
					  unetmm_exported_cmp_id));
}

static bool unetmm_exported_meets(const struct unetmm_exported *export,
				  u64 addr, u64 last)
{
	return !export->whole && addr <= export->last && last >= export->addr;
}

bool unetmm_exports_collide(struct unetmm_file *file, u64 addr, u64 last)
{
	struct rb_node *node;

	lockdep_assert_held(&file->dev->ctl->lock);
	for (node = rb_first(&file->exports); node; node = rb_next(node)) {
		if (unetmm_exported_meets(unetmm_exported_of(node), addr, last))
			return true;
	}
	return false;
}

/*
 * Its number may not be in use.  Exports may overlap: each is a region of its own on
 * the card, and pages belong to the space.  But a part that is redirected leaves its
 * place, where another export would go on writing.  (With source pinned, an export
 * is a registration, and registrations do not overlap, unless the process registers
 * its memory itself.)  An export of the whole space overlaps all others: its peers
 * write to addresses, wherever parts have moved.
 *
 * A process may have thousands: only one that can be redirected is compared with all.
 */
static bool unetmm_exported_collides(struct unetmm_file *file,
				     const struct unetmm_exported *new)
{
	struct unetmm_exported *export;

	if (unetmm_exported_find(file, new->id))
		return true;
	if (new->whole)
		return false;
	if (new->redirect && unetmm_exports_collide(file, new->addr, new->last))
		return true;
	list_for_each_entry(export, &file->movable, movable) {
		if (unetmm_exported_meets(export, new->addr, new->last))
			return true;
	}
	return unetmm_parts_collide(file, new->addr, new->last);
}

/*
 * A number without a region.  One that has become free is taken last: the card
 * knows the last key that it had, by which peers' operations may be on their way.
 */
u32 unetmm_region_number(struct unetmm_dev *dev)
{
	struct unetmm_ctl *ctl = dev->ctl;
	u32 number;

	lockdep_assert_held(&ctl->lock);
	number = find_next_zero_bit(ctl->region_map, dev->hw.regions,
				    ctl->region_next);
	if (number >= dev->hw.regions)
		number = find_first_zero_bit(ctl->region_map, dev->hw.regions);
	return number;
}

/* Tells the card, with all that the export needs. */
static int unetmm_exported_start(struct unetmm_file *file,
				 struct unetmm_exported *new,
				 const struct unetmm_export *a)
{
	int ret;

	/* A key that was given away before must not fit. */
	new->key = get_random_u32();
	if (new->rkey)
		new->key = (new->key & ~UNETMM_RKEY_REGION) | new->region << UNETMM_RKEY_SHIFT;
	ret = unetmm_ecs_give(file->space, new->counter, new->ncounters);
	if (ret)
		return ret;
	ret = unetmm_sysbuf_set_region(file->dev, new->region);
	if (!ret)
		ret = unetmm_region_set(file, new, a);
	if (ret)
		unetmm_ecs_take_back(file->space, new->counter, new->ncounters);
	return ret;
}

/* A region for it, if it has a place among the file's exports. */
static int unetmm_exported_place(struct unetmm_file *file, struct unetmm_exported *new)
{
	struct unetmm_dev *dev = file->dev;

	lockdep_assert_held(&dev->ctl->lock);
	if (unetmm_exported_collides(file, new))
		return -EEXIST;
	new->region = unetmm_region_number(dev);
	return new->region < dev->hw.regions ? 0 : -ENOSPC;
}

static int unetmm_exported_add(struct unetmm_file *file,
			       struct unetmm_exported *new,
			       const struct unetmm_export *a)
{
	struct unetmm_dev *dev = file->dev;
	struct unetmm_ctl *ctl = dev->ctl;
	int ret;

	ret = unetmm_exported_place(file, new);
	if (!ret)
		ret = unetmm_exported_start(file, new, a);
	if (ret)
		return ret;
	__set_bit(new->region, ctl->region_map);
	ctl->region_next = new->region + 1;
	rb_find_add(&new->node, &file->exports, unetmm_exported_cmp);
	if (new->redirect)
		list_add(&new->movable, &file->movable);
	unetmm_count(dev, exports);
	return 0;
}

/* ---- The process's side -------------------------------------------------- */

/* Only memory that is there, and that the process itself may use so. */
int unetmm_export_memory(u64 addr, u64 last, u8 rights)
{
	struct mm_struct *mm = current->mm;
	vm_flags_t needed = 0;
	struct vm_area_struct *vma;
	int ret = 0;

	if (rights & (UNETMM_RIGHT_READ | UNETMM_RIGHT_ATOMIC))
		needed |= VM_READ;
	if (rights & (UNETMM_RIGHT_WRITE | UNETMM_RIGHT_ATOMIC))
		needed |= VM_WRITE;
	/* The callers hold no lock of ours. */
	if (mmap_read_lock_killable(mm))
		return -EINTR;
	while (!ret && addr <= last) {
		vma = find_vma(mm, addr);
		if (!vma || vma->vm_start > addr ||
		    (vma->vm_flags & needed) != needed)
			ret = -EFAULT;
		else if (vma->vm_flags & (VM_IO | VM_PFNMAP))
			ret = -EOPNOTSUPP;
		else
			addr = vma->vm_end;
	}
	mmap_read_unlock(mm);
	return ret;
}

/* A number of more than 16 bits would not fit into a descriptor. */
static bool unetmm_export_keyed_ok(struct unetmm_file *file,
				   const struct unetmm_export *a)
{
	const struct unetmm_limits *hw = &file->dev->hw;

	if (!(a->flags & (UNETMM_EXPORT_KEYED | UNETMM_EXPORT_WHOLE)))
		return true;
	return hw->caps & UNETMM_CAP_KEYED && hw->regions <= U16_MAX + 1 &&
	       (!(a->flags & UNETMM_EXPORT_WHOLE) || file->space->ops->whole);
}

static int unetmm_export_check(struct unetmm_file *file,
			       const struct unetmm_export *a, u64 *last)
{
	bool whole = a->flags & UNETMM_EXPORT_WHOLE;
	const struct unetmm_aspace *space = file->space;

	if (a->flags & ~UNETMM_EXPORT_FLAGS || !file->dev->hw.regions ||
	    space->ops->lists)
		return -EOPNOTSUPP;
	if (!unetmm_export_keyed_ok(file, a))
		return -EOPNOTSUPP;
	if (a->flags & UNETMM_EXPORT_REGISTERED &&
	    (!space->ops->registers || a->flags & UNETMM_EXPORT_REDIRECT))
		return -EINVAL;
	if (!a->rights || a->rights & ~UNETMM_RIGHT_ALL)
		return -EINVAL;
	if (whole) {
		*last = current->mm->task_size - 1;
		return a->addr || a->length ||
		       a->flags & UNETMM_EXPORT_REDIRECT ? -EINVAL : 0;
	}
	if (!a->length || check_add_overflow(a->addr, a->length - 1, last) ||
	    *last >= current->mm->task_size)
		return -EINVAL;
	return 0;
}

/* Source pinned: its pages are pinned for as long as it is exported. */
static int unetmm_export_pin(struct unetmm_file *file,
			     const struct unetmm_exported *export)
{
	struct unetmm_region region = {
		.flags = export->rights != UNETMM_RIGHT_READ ?
			 UNETMM_REGION_WRITE : 0,
		.addr = export->addr,
		.length = export->length,
	};

	return export->pins ? unetmm_op_register(file, &region) : 0;
}

static void unetmm_export_unpin(struct unetmm_file *file, u64 addr, u64 length)
{
	struct unetmm_region region = {
		.addr = addr,
		.length = length,
	};

	/* A process that has deregistered it already has harmed only itself. */
	unetmm_op_deregister(file, &region);
}

/*
 * The place is looked for first: it is this error that an export has which the user's limit
 * would refuse as well.  The limit is taken without ctl.lock, see unetmm_exported_free().
 */
static int unetmm_export_limited(struct unetmm_file *file, struct unetmm_exported *export,
				 const struct unetmm_export *a)
{
	struct unetmm_ctl *ctl = file->dev->ctl;
	int ret;

	mutex_lock(&ctl->lock);
	ret = unetmm_exported_place(file, export);
	mutex_unlock(&ctl->lock);
	if (!ret)
		ret = unetmm_object_take(file->space, UNETMM_USE_EXPORTS, 1, &export->group);
	if (ret)
		return ret;
	mutex_lock(&ctl->lock);
	ret = unetmm_exported_add(file, export, a);
	mutex_unlock(&ctl->lock);
	if (ret)
		unetmm_object_give(file->space, UNETMM_USE_EXPORTS, 1, export->group);
	return ret;
}

static int unetmm_export_try(struct unetmm_file *file,
			     struct unetmm_exported *export,
			     const struct unetmm_export *a)
{
	struct unetmm_dev *dev = file->dev;
	int ret = -ENODEV;

	down_read(&dev->rwsem);
	if (unetmm_running(dev) && !file->dead)
		ret = unetmm_export_limited(file, export, a);
	up_read(&dev->rwsem);
	return ret;
}

static int unetmm_export_publish(struct unetmm_file *file,
				 struct unetmm_exported *export,
				 const struct unetmm_export *a)
{
	struct unetmm_dev *dev = file->dev;
	int tries, ret;

	for (tries = 0; ; tries++) {
		ret = unetmm_export_try(file, export, a);
		if (ret != -EAGAIN || tries == UNETMM_EXPORT_TRIES)
			return ret;
		/* Without a lock: the card's fault ring is to be emptied. */
		unetmm_pager_drain(dev);
	}
}

static struct unetmm_exported *unetmm_exported_new(struct unetmm_file *file,
						   const struct unetmm_export *a, u64 last)
{
	struct unetmm_exported *export = kzalloc(sizeof(*export), GFP_KERNEL_ACCOUNT);

	if (!export)
		return NULL;
	export->id = a->id;
	export->addr = a->addr;
	export->last = last;
	export->length = last - a->addr + 1;
	export->rights = a->rights;
	export->counter = a->counter;
	export->ncounters = a->ncounters;
	export->redirect = a->flags & UNETMM_EXPORT_REDIRECT;
	export->whole = a->flags & UNETMM_EXPORT_WHOLE;
	export->keyed = a->flags & UNETMM_EXPORT_KEYED || export->whole;
	INIT_LIST_HEAD(&export->movable);
	export->pins = file->space->ops->registers &&
		       !(a->flags & UNETMM_EXPORT_REGISTERED);
	INIT_LIST_HEAD(&export->parts);
	return export;
}

/* An export of the calling process; a failure frees it. */
static int unetmm_exported_make(struct unetmm_file *file, struct unetmm_exported *export,
				const struct unetmm_export *a)
{
	int ret = unetmm_export_pin(file, export);

	if (!ret) {
		ret = unetmm_export_publish(file, export, a);
		if (ret && export->pins)
			unetmm_export_unpin(file, a->addr, a->length);
	}
	if (ret)
		kfree(export);
	return ret;
}

/* Takes rwsem itself: pages are faulted in without it. */
int unetmm_op_export(struct unetmm_file *file, void *arg)
{
	const struct unetmm_export *a = arg;
	struct unetmm_exported *export;
	u64 last;
	int ret;

	ret = unetmm_export_check(file, a, &last);
	/* The card looks at each page of a whole space when a peer uses the page. */
	if (!ret && !(a->flags & UNETMM_EXPORT_WHOLE))
		ret = unetmm_export_memory(a->addr, last, a->rights);
	if (ret)
		return ret;
	export = unetmm_exported_new(file, a, last);
	return export ? unetmm_exported_make(file, export, a) : -ENOMEM;
}

/*
 * For verbs: the key names its region, and memory may come later: it is looked at when a
 * peer uses it.  Takes rwsem itself.
 */
int unetmm_export_rkey(struct unetmm_file *file, const struct unetmm_export *a, u64 iova, u32 pd,
		       u32 *rkey)
{
	struct unetmm_export_key key = { .id = a->id };
	struct unetmm_exported *export;
	u64 last;
	int ret;

	ret = unetmm_export_check(file, a, &last);
	if (ret)
		return ret;
	export = unetmm_exported_new(file, a, last);
	if (!export)
		return -ENOMEM;
	export->rkey = true;
	export->iova = iova;
	export->pd = pd;
	ret = unetmm_exported_make(file, export, a);
	if (ret)
		return ret;
	ret = unetmm_op_export_key(file, &key);
	if (ret)
		unetmm_export_destroy(file, NULL, &(struct unetmm_destroy){ .id = a->id });
	*rkey = key.key;
	return ret;
}

int unetmm_export_destroy(struct unetmm_file *file, struct unetmm_ep *ep,
			  const struct unetmm_destroy *a)
{
	struct unetmm_dev *dev = file->dev;
	struct unetmm_exported *export;
	u64 addr = 0, length = 0;
	bool pins = false;
	LIST_HEAD(ended);
	LIST_HEAD(parts);

	down_read(&dev->rwsem);
	if (!unetmm_running(dev) || file->dead) {
		up_read(&dev->rwsem);
		return -ENODEV;
	}
	mutex_lock(&dev->ctl->lock);
	export = unetmm_exported_find(file, a->id);
	if (export) {
		addr = export->addr;
		length = export->length;
		pins = export->pins;
		unetmm_exported_end(file, export, &ended);
	}
	mutex_unlock(&dev->ctl->lock);
	unetmm_exported_free(file, &ended, &parts);
	up_read(&dev->rwsem);
	if (!length)
		return -ENOENT;
	unetmm_parts_free(file, &parts);
	if (pins)
		unetmm_export_unpin(file, addr, length);
	return 0;
}

int unetmm_op_export_key(struct unetmm_file *file, void *arg)
{
	struct unetmm_export_key *a = arg;
	const struct unetmm_exported *export;
	int ret = -ENOENT;

	if (a->rsvd)
		return -EOPNOTSUPP;
	mutex_lock(&file->dev->ctl->lock);
	export = unetmm_exported_find(file, a->id);
	if (export && export->keyed) {
		a->key = (u64)export->region << 32 | export->key;
		a->base = export->addr;
		ret = 0;
	}
	mutex_unlock(&file->dev->ctl->lock);
	return ret;
}

/* ---- The peer's driver asks; ctl.lock ------------------------------------ */

/*
 * `chan` is the channel that the question came by, and was checked.  Fills the
 * answer; only a peer that gets it may use the region.  It has the key, so an export
 * whose key the process gives to peers itself is not told to those that ask.
 */
void unetmm_export_answer(struct unetmm_chan *chan,
			  const struct unetmm_control *msg,
			  struct unetmm_control *ack)
{
	struct unetmm_file *file = chan->ep->file;
	const struct unetmm_exported *export;

	lockdep_assert_held(&file->dev->ctl->lock);
	export = unetmm_exported_find(file, le64_to_cpu(msg->service));
	if (!export || export->keyed) {
		ack->status = UNETMM_CTL_ST_NO_EXPORT;
		return;
	}
	if (msg->rights & ~export->rights) {
		ack->status = UNETMM_CTL_ST_RIGHTS;
		return;
	}
	ack->rights = msg->rights ? msg->rights : export->rights;
	ack->mtu = cpu_to_le32(export->region);
	ack->psn = cpu_to_le32(export->key);
	ack->service = cpu_to_le64(export->length);
}
