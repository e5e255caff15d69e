// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: registered memory, for source `pinned`.
 *
 * The pages are pinned for as long as they are registered and the process maps them:
 * pages that it unmaps or gives up leave the table, as they leave the card's TLB
 * with source `tlb`, and are not put back.  Linux's own moves of pages, and
 * fork(), take nothing (memory/lost_pins.c).
 */
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "memory/memory.h"
#include "pager/pager.h"
#include "table/table.h"
#include "space/space.h"
#include "ring/ring.h"
#include "base/base.h"

struct unetmm_registration {
	struct list_head node;		/* space->regions; region_lock */
	u64 addr;			/* as the process gave it */
	u64 length;
	u64 start;			/* whole pages */
	u64 last;
	bool write;
};

/* With the space's last reference: nobody else is there to lock against. */
void unetmm_regions_free(struct unetmm_aspace *space)
{
	struct unetmm_registration *reg, *next;

	list_for_each_entry_safe(reg, next, &space->regions, node) {
		list_del(&reg->node);
		kfree(reg);
	}
}

static bool unetmm_region_overlaps(struct unetmm_aspace *space,
				   const struct unetmm_registration *new)
{
	struct unetmm_registration *reg;

	list_for_each_entry(reg, &space->regions, node) {
		if (new->start <= reg->last && new->last >= reg->start)
			return true;
	}
	return false;
}

/*
 * Pins that the batch replaces go when the card has the new entries: there is no
 * moment in which it finds none.
 */
static void unetmm_region_displace(struct unetmm_aspace *space, u64 start,
				   u64 last)
{
	struct unetmm_pin *pin = unetmm_pin_first(space, start >> PAGE_SHIFT);

	lockdep_assert_held(&space->lock);
	if (!pin || pin->vpn > last >> PAGE_SHIFT)
		return;
	unetmm_invalidate(space->dev, space->id, start, last);
	while (pin && pin->vpn <= last >> PAGE_SHIFT) {
		unetmm_pin_drop(space, pin);
		pin = unetmm_pin_first(space, start >> PAGE_SHIFT);
	}
	queue_work(unetmm_drop_wq, &space->drop_work);
}

/* Enters the batch into tree and table, if nothing was invalidated. */
static int unetmm_region_insert(struct unetmm_aspace *space,
				struct unetmm_batch *batch, unsigned long seq)
{
	u64 last = batch->vaddr + (u64)batch->count * PAGE_SIZE - 1;
	int ret = 0;
	u32 i;

	spin_lock(&space->lock);
	if (space->closing)
		ret = -ENODEV;
	else if (unetmm_space_raced(space, seq, batch->vaddr, last))
		ret = -EAGAIN;
	for (i = 0; !ret && i < batch->count; i++)
		unetmm_table_set(space->table, batch->pins[i]->vpn,
				 unetmm_pte(batch->pins[i]));
	if (!ret)
		unetmm_region_displace(space, batch->vaddr, last);
	for (i = 0; !ret && i < batch->count; i++)
		unetmm_pin_add(space, batch->pins[i]);
	spin_unlock(&space->lock);
	return ret;
}

/*
 * Pins a prefix of the range: how many pages, or -EAGAIN: page in and try again, or
 * the error of unetmm_pin_batch().  Holds rwsem, so that no pin appears behind
 * unetmm_stop(); hence pages are not faulted in here.
 */
int unetmm_region_try(struct unetmm_file *file, struct unetmm_batch *batch,
		      u64 vaddr, u32 npages, bool write)
{
	struct unetmm_aspace *space = file->space;
	unsigned long seq;
	int ret;

	down_read(&file->dev->rwsem);
	ret = -ENODEV;
	if (file->dead)
		goto unlock;
	seq = unetmm_space_seq(space);
	batch->zero = false;
	batch->need = 0;
	ret = unetmm_pin_batch(space, batch, vaddr, npages, write);
	if (ret <= 0) {
		ret = ret ? ret : -EAGAIN;
		goto unlock;
	}
	ret = unetmm_region_insert(space, batch, seq);
	if (ret)
		unetmm_unpin_batch(space, batch, 0);
	else
		ret = batch->count;
unlock:
	up_read(&file->dev->rwsem);
	return ret;
}

static int unetmm_region_pin(struct unetmm_file *file,
			     struct unetmm_batch *batch,
			     const struct unetmm_registration *reg)
{
	u64 vaddr = reg->start;
	int tries = 0, ret, err;

	while (vaddr <= reg->last) {
		u32 npages = min_t(u64, UNETMM_REPLY_MAX_PAGES,
				   ((reg->last - vaddr) >> PAGE_SHIFT) + 1);

		err = unetmm_page_in(file->space, vaddr, npages, reg->write);
		if (fatal_signal_pending(current))
			return -EINTR;
		ret = unetmm_region_try(file, batch, vaddr, npages, reg->write);
		if (ret == -EAGAIN && err)
			return err;
		if (ret == -EAGAIN && ++tries < UNETMM_PIN_TRIES)
			continue;
		if (ret < 0)
			return ret;
		tries = 0;
		vaddr += (u64)ret * PAGE_SIZE;
	}
	return 0;
}

/* Takes the range from table, card and tree; as unetmm_pins_settle() says. */
static void unetmm_region_drop(struct unetmm_file *file,
			       const struct unetmm_registration *reg)
{
	down_read(&file->dev->rwsem);
	if (!file->dead) {
		unetmm_space_drop(file->space, reg->start, reg->last);
		unetmm_pins_settle(file->space);
	}
	up_read(&file->dev->rwsem);
}

int unetmm_region_grow(struct unetmm_file *file, u64 start, u64 last)
{
	int ret = -ENODEV;

	down_read(&file->dev->rwsem);
	if (!file->dead)
		ret = unetmm_table_grow(file->space, start, last);
	up_read(&file->dev->rwsem);
	return ret;
}

static int unetmm_region_add(struct unetmm_file *file,
			     struct unetmm_registration *reg)
{
	struct unetmm_aspace *space = file->space;
	struct unetmm_batch *batch;
	int ret;

	if (unetmm_region_overlaps(space, reg))
		return -EEXIST;
	batch = kvzalloc(sizeof(*batch), GFP_KERNEL_ACCOUNT);
	if (!batch)
		return -ENOMEM;
	ret = unetmm_region_grow(file, reg->start, reg->last);
	if (!ret) {
		ret = unetmm_region_pin(file, batch, reg);
		if (ret)
			unetmm_region_drop(file, reg);
	}
	kvfree(batch);
	if (!ret)
		list_add(&reg->node, &space->regions);
	return ret == -EDQUOT ? -ENOMEM : ret;
}

bool unetmm_region_covers(struct unetmm_aspace *space, u64 addr, u64 last,
			  bool write)
{
	struct unetmm_registration *reg;
	bool covers = false;

	mutex_lock(&space->region_lock);
	list_for_each_entry(reg, &space->regions, node)
		covers = covers || (reg->start <= addr && reg->last >= last &&
				    (reg->write || !write));
	mutex_unlock(&space->region_lock);
	return covers;
}

static int unetmm_region_check(struct unetmm_file *file,
			       const struct unetmm_region *a)
{
	u64 last;

	if (a->flags & ~UNETMM_REGION_WRITE || !file->space->ops->registers)
		return -EOPNOTSUPP;
	if (!a->length || check_add_overflow(a->addr, a->length - 1, &last) ||
	    last >= current->mm->task_size)
		return -EINVAL;
	return 0;
}

int unetmm_op_register(struct unetmm_file *file, void *arg)
{
	const struct unetmm_region *a = arg;
	struct unetmm_registration *reg;
	int ret;

	ret = unetmm_region_check(file, a);
	if (ret)
		return ret;
	reg = kzalloc(sizeof(*reg), GFP_KERNEL_ACCOUNT);
	if (!reg)
		return -ENOMEM;
	reg->addr = a->addr;
	reg->length = a->length;
	reg->start = a->addr & PAGE_MASK;
	reg->last = (a->addr + a->length - 1) | ~PAGE_MASK;
	reg->write = a->flags & UNETMM_REGION_WRITE;
	ret = mutex_lock_killable(&file->space->region_lock);
	if (!ret) {
		ret = unetmm_region_add(file, reg);
		mutex_unlock(&file->space->region_lock);
	}
	if (ret)
		kfree(reg);
	return ret;
}

int unetmm_op_deregister(struct unetmm_file *file, void *arg)
{
	const struct unetmm_region *a = arg;
	struct unetmm_registration *reg;
	int ret;

	ret = unetmm_region_check(file, a);
	if (ret)
		return ret;
	if (a->flags)
		return -EOPNOTSUPP;
	ret = mutex_lock_killable(&file->space->region_lock);
	if (ret)
		return ret;
	ret = -ENOENT;
	list_for_each_entry(reg, &file->space->regions, node) {
		if (reg->addr == a->addr && reg->length == a->length) {
			list_del(&reg->node);
			unetmm_region_drop(file, reg);
			kfree(reg);
			ret = 0;
			break;
		}
	}
	mutex_unlock(&file->space->region_lock);
	return ret;
}
