// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: pinned pages that Linux took away, and the process has still.
 *
 * A huge page becomes small ones whenever somebody changes a part of it, be it a
 * thread's stack that ends beside what is pinned; and small ones become a huge
 * page.  The notifier hears of it that the huge page's whole place is cleared,
 * as if the process had given it up.  Sources that are asked for absent pages
 * need not care.  Sources `pinned` and `utlb` are never asked: so what was pinned
 * there is looked for when the change is over, and is pinned again if it is
 * still there.
 *
 * A PIN IS LOST between these two.  It stays in the tree, without its page (or
 * with one that drop_work is about to unpin), and its entry in the table is
 * PTE_CHANGING, by which who needs the page waits; the card looks again when the
 * page is invalidated once more:
 *
 *   pinned > lost    unetmm_again_lose(): entry, INV, page to drop_work
 *   lost   > pinned  unetmm_again_insert(), or whoever pins the page himself
 *                    before that (unetmm_region_insert()): entry, INV, another
 *                    pin in its place
 *   lost   > gone    unetmm_again_give_up(), or whoever unpins or unmaps it
 *                    before that (unetmm_drop_pins()): entry, INV, no pin
 *
 * Each is one step under space->lock, but for what hides entries (inv_count is up
 * then, and nothing is inserted).  So no entry is left PTE_CHANGING without a pin
 * that is lost, and none of these without the work that ends it.
 *
 * Only what is mapped is taken (FOLL_NOFAULT): the work must not wait for what the
 * process has given up, nor give it memory in its place.
 */
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "unetmm_drv.h"

struct unetmm_run {
	unsigned long vpn;
	u32 npages;
	bool write;
};

static struct unetmm_pin *unetmm_again_after(struct unetmm_pin *pin,
					     unsigned long last)
{
	pin = rb_entry_safe(rb_next(&pin->node), struct unetmm_pin, node);
	return pin && pin->vpn <= last ? pin : NULL;
}

static struct unetmm_pin *unetmm_again_from(struct unetmm_aspace *space,
					    unsigned long vpn,
					    unsigned long last)
{
	struct unetmm_pin *pin = unetmm_pin_first(space, vpn);

	return pin && pin->vpn <= last ? pin : NULL;
}

static void unetmm_pin_lose(struct unetmm_aspace *space, struct unetmm_pin *pin)
{
	/* As in unetmm_pin_drop(). */
	if (pin->write) {
		set_page_dirty(pin->page);
		unetmm_count(space->dev, pages_dirtied);
	}
	pin->lost = true;
	list_add_tail(&pin->drop, &space->drop_list);
}

/*
 * From the notifier, in the place of a drop, and by its rules; at most a huge
 * page, so that the lock need not be given up in between.
 */
void unetmm_again_lose(struct unetmm_aspace *space, unsigned long vpn,
		       unsigned long last)
{
	struct unetmm_pin *pin;
	bool any = false;

	spin_lock(&space->lock);
	for (pin = unetmm_again_from(space, vpn, last); pin;
	     pin = unetmm_again_after(pin, last)) {
		any = true;
		unetmm_table_set(space->table, pin->vpn, UNETMM_PTE_CHANGING);
	}
	if (any) {
		unetmm_invalidate(space->dev, space->id,
				  (u64)vpn << PAGE_SHIFT,
				  (u64)last << PAGE_SHIFT | ~PAGE_MASK);
		queue_work(unetmm_wq, &space->drop_work);
	}
	for (pin = unetmm_again_from(space, vpn, last); pin;
	     pin = unetmm_again_after(pin, last)) {
		if (!pin->lost)
			unetmm_pin_lose(space, pin);
	}
	spin_unlock(&space->lock);
}

/* A pin that is lost has left the tree.  What is left of it is drop_work's. */
void unetmm_again_forget(struct unetmm_aspace *space, struct unetmm_pin *pin)
{
	lockdep_assert_held(&space->lock);
	pin->lost = false;
	list_del_init(&pin->again);
	if (list_empty(&pin->drop))
		list_add_tail(&pin->drop, &space->drop_list);
}

/* ---- The work ------------------------------------------------------------ */

/* The next to be looked for.  While memory is changing there are none. */
static bool unetmm_again_next(struct unetmm_aspace *space,
			      struct unetmm_run *run)
{
	struct unetmm_pin *pin;

	spin_lock(&space->lock);
	pin = list_first_entry_or_null(&space->again, struct unetmm_pin, again);
	if (!pin || space->inv_count || space->closing) {
		spin_unlock(&space->lock);
		return false;
	}
	*run = (struct unetmm_run){ .vpn = pin->vpn, .npages = 1,
				    .write = pin->write };
	list_for_each_entry_continue(pin, &space->again, again) {
		if (run->npages == UNETMM_REPLY_MAX_PAGES ||
		    pin->vpn != run->vpn + run->npages ||
		    pin->write != run->write)
			break;
		run->npages++;
	}
	spin_unlock(&space->lock);
	return true;
}

/* Pins that are lost no more, or otherwise, leave theirs in the batch. */
static int unetmm_again_insert(struct unetmm_aspace *space,
			       struct unetmm_batch *batch, unsigned long seq)
{
	u64 last = batch->vaddr + (u64)batch->count * PAGE_SIZE - 1;
	u32 i, left = 0, count = batch->count;
	struct unetmm_pin *pin;
	int ret = 0;

	spin_lock(&space->lock);
	if (space->closing)
		ret = -ENODEV;
	else if (unetmm_space_raced(space, seq, batch->vaddr, last))
		ret = -EAGAIN;
	for (i = 0; !ret && i < count; i++) {
		struct unetmm_pin *new = batch->pins[i];

		pin = unetmm_again_from(space, new->vpn, new->vpn);
		if (!pin || !pin->lost || pin->write != new->write) {
			batch->pins[left++] = new;
			continue;
		}
		unetmm_table_set(space->table, new->vpn, unetmm_pte(new));
		unetmm_pin_drop(space, pin);
		unetmm_pin_add(space, new);
		unetmm_count(space->dev, repins);
	}
	if (!ret) {
		batch->count = left;
		unetmm_invalidate(space->dev, space->id, batch->vaddr, last);
		queue_work(unetmm_wq, &space->drop_work);
	}
	spin_unlock(&space->lock);
	unetmm_unpin_batch(space, batch, 0);
	return ret ? ret : count;
}

/* The process has them no more, or they may not be pinned any more. */
static void unetmm_again_give_up(struct unetmm_aspace *space,
				 const struct unetmm_run *run, u32 npages)
{
	unsigned long last = run->vpn + npages - 1, lost = 0;
	u64 start = (u64)run->vpn << PAGE_SHIFT;
	u64 end = (u64)last << PAGE_SHIFT | ~PAGE_MASK;
	struct unetmm_pin *pin, *next;

	spin_lock(&space->lock);
	for (pin = unetmm_again_from(space, run->vpn, last); pin; pin = next) {
		next = unetmm_again_after(pin, last);
		/* With a page: it has been pinned, and lost, once more. */
		if (!pin->lost || pin->page)
			continue;
		unetmm_table_set(space->table, pin->vpn, 0);
		unetmm_pin_drop(space, pin);
		lost++;
	}
	if (lost) {
		unetmm_invalidate(space->dev, space->id, start, end);
		queue_work(unetmm_wq, &space->drop_work);
	}
	spin_unlock(&space->lock);
	if (lost && space->utlb_log)
		unetmm_utlb_lost(space, start, end, lost);
}

/* How many of the run have been dealt with: a prefix; or -errno, of the first. */
static int unetmm_again_try(struct unetmm_aspace *space,
			    struct unetmm_batch *batch,
			    const struct unetmm_run *run)
{
	unsigned long seq = unetmm_space_seq(space);
	int ret;

	batch->zero = false;
	ret = unetmm_pin_present(space, batch, (u64)run->vpn << PAGE_SHIFT,
				 run->npages, run->write);
	return ret > 0 ? unetmm_again_insert(space, batch, seq) : ret;
}

/*
 * Any invalidation in between spoils a try, also one of other pages; the fewer pages
 * the shorter it takes.  False: who is changing memory will have the work done
 * again.
 */
static bool unetmm_again_run(struct unetmm_aspace *space,
			     struct unetmm_batch *batch, struct unetmm_run *run)
{
	struct unetmm_run now;
	int tries, ret;

	for (tries = 0; tries < UNETMM_PIN_TRIES; tries++) {
		run->npages = tries ? DIV_ROUND_UP(run->npages, 4) :
			      run->npages;
		ret = unetmm_again_try(space, batch, run);
		if (ret > 0)
			return true;
		if (ret != -EAGAIN) {
			unetmm_again_give_up(space, run, 1);
			return true;
		}
		if (tries)
			schedule_timeout_uninterruptible(1);
		if (!unetmm_again_next(space, &now))
			return false;
	}
	unetmm_again_give_up(space, run, run->npages);
	return true;
}

void unetmm_again_work(struct work_struct *work)
{
	struct unetmm_aspace *space = container_of(work, struct unetmm_aspace,
						  again_work);
	struct unetmm_batch *batch;
	struct unetmm_run run;

	/* Without its memory all is dropped, what is lost as well. */
	if (!mmget_not_zero(space->mm))
		return;
	batch = kvmalloc(sizeof(*batch), GFP_KERNEL);
	while (unetmm_again_next(space, &run)) {
		if (!batch)
			unetmm_again_give_up(space, &run, run.npages);
		else if (!unetmm_again_run(space, batch, &run))
			break;
		cond_resched();
	}
	kvfree(batch);
	/* The last reference must not be given up here: it calls our notifier. */
	mmput_async(space->mm);
}
