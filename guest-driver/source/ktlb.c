// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: source ktlb (U-Net/MM, TLB in the driver): page lists of posted descriptors.
 *
 * A slot of a queue (unetmm_kslot) names pages of the process; for each page
 * there is a use (unetmm_kuse), and an entry in the table that the card reads:
 * the page's bus address if the use has a pin, nothing if it has none.  The
 * entries of a slot are consecutive; UNETMM_KLIST_* says where they are.
 *
 * All of it is under space->lock, but that a slot's array of uses is allocated
 * and freed outside by the thread that posts, one at a time (kq->lock).  Three steps take
 * an entry away, each in the same order: entry cleared, card told and waited for
 * (unetmm_invalidate), use and pin parted.  The notifier parts all uses of its
 * pins; a better translation those of the pin that it replaces; the end of a
 * slot its own.  Only a pin without uses is given up by the TLB.  So the card
 * can reach no page but through the entry of a use that has a pin, and a page
 * is not unpinned before its uses have ended.
 *
 * A use without a pin is filled when it is posted, if the page is resident;
 * else, or if it was taken away since, when the card asks for it.
 */
#include <linux/slab.h>

#include "source/source.h"
#include "memory/memory.h"
#include "pager/pager.h"
#include "table/table.h"
#include "space/space.h"
#include "ring/ring.h"
#include "base/base.h"
#include "util/ktlb_place.h"

#define UNETMM_TRIES	2	/* races with the notifier, before the caller waits */

static struct unetmm_pin *unetmm_klist_pin(struct unetmm_aspace *space,
					   unsigned long vpn)
{
	struct unetmm_pin *pin = unetmm_pin_first(space, vpn);

	return pin && pin->vpn == vpn ? pin : NULL;
}

static struct unetmm_kslot *unetmm_klist_slot(struct unetmm_aspace *space,
					      u64 entry)
{
	u32 ep = entry >> UNETMM_KLIST_EP_SHIFT, slot = entry & UNETMM_KLIST_INDEX;
	struct unetmm_kqueues *kq;
	struct unetmm_kring *ring;

	list_for_each_entry(kq, &space->kqueues, node) {
		if (kq->id != ep)
			continue;
		ring = entry & (UNETMM_KLIST_FREE | UNETMM_KLIST_LARGE) ?
		       &kq->fq : &kq->sq;
		slot >>= entry & UNETMM_KLIST_LARGE ? UNETMM_KLIST_LARGE_LOG2 :
						      UNETMM_KLIST_SMALL_LOG2;
		return slot >> ring->log2 ? NULL : &ring->slots[slot];
	}
	return NULL;
}

/* The page behind an entry; false: the card needs the entry no more. */
static bool unetmm_klist_find(struct unetmm_aspace *space, u64 entry,
			      struct unetmm_kplace *place)
{
	struct unetmm_kslot *slot;
	u64 page;
	u32 i;

	lockdep_assert_held(&space->lock);
	slot = unetmm_klist_slot(space, entry);
	if (!slot || !slot->live || entry - slot->entry >= slot->npages)
		return false;
	page = entry - slot->entry;
	place->write = slot->write;
	place->zero = slot->zero;
	place->use = slot->uses ? &slot->uses[page] : NULL;
	for (i = 0; i < slot->nranges; i++) {
		const struct unetmm_krange *r = &slot->ranges[i];

		if (page < r->npages) {
			place->vpn = r->vpn + page;
			place->left = r->npages - page;
			return true;
		}
		page -= r->npages;
	}
	return false;
}

/* The process's address behind a miss of the card. */
static bool unetmm_klist_user(struct unetmm_aspace *space, struct unetmm_miss *miss)
{
	struct unetmm_kplace place;
	bool found;

	spin_lock(&space->lock);
	found = unetmm_klist_find(space, miss->vaddr >> PAGE_SHIFT, &place);
	spin_unlock(&space->lock);
	if (!found)
		return false;
	miss->user = (u64)place.vpn << PAGE_SHIFT;
	miss->npages = min(miss->npages, place.left);
	miss->write = place.write;
	return true;
}

static void unetmm_klist_link(struct unetmm_aspace *space,
			      struct unetmm_kuse *use, struct unetmm_pin *pin)
{
	use->pin = pin;
	list_add(&use->node, &pin->uses);
	unetmm_ktlb_touch(&space->ktlb, &pin->entry);
	unetmm_ktlb_hold(&space->ktlb, &pin->entry);
	unetmm_table_set(space->table, use->entry, unetmm_pte(pin));
}

static void unetmm_klist_part(struct unetmm_aspace *space,
			      struct unetmm_kuse *use)
{
	unetmm_ktlb_release(&space->ktlb, &use->pin->entry);
	list_del(&use->node);
	use->pin = NULL;
}

/* A hit; not while the page is being invalidated. */
static bool unetmm_klist_hit(struct unetmm_aspace *space,
			     struct unetmm_kuse *use, unsigned long vpn,
			     bool write)
{
	unsigned long start = vpn << PAGE_SHIFT;
	struct unetmm_pin *pin = unetmm_klist_pin(space, vpn);

	if (!pin || (write && !pin->write) ||
	    unetmm_space_raced(space, space->inv_seq, start,
			       start | ~PAGE_MASK))
		return false;
	if (pin->entry.place == UNETMM_KTLB_VICTIM)
		unetmm_count(space->dev, ktlb_victim_hits);
	else
		unetmm_count(space->dev, ktlb_hits);
	unetmm_klist_link(space, use, pin);
	return true;
}

/*
 * Links a prefix of `npages` pages from `entry`, those that the TLB has; returns its length.
 * 0: the first is missing; place says which, and how many are with it.
 */
static int unetmm_klist_hits(struct unetmm_aspace *space, u64 entry, u32 npages,
			     struct unetmm_kplace *place)
{
	u32 n, limit;

	lockdep_assert_held(&space->lock);
	if (space->closing || !unetmm_klist_find(space, entry, place))
		return -ESTALE;
	if (!place->use)
		return -EDQUOT;
	limit = min3(npages, place->left, (u32)UNETMM_REPLY_MAX_PAGES);
	for (n = 0; n < limit; n++) {
		if (!place->use[n].pin &&
		    !unetmm_klist_hit(space, &place->use[n], place->vpn + n,
				      place->write))
			break;
	}
	if (n)
		return n;
	for (n = 1; n < limit; n++) {
		if (place->use[n].pin ||
		    unetmm_klist_pin(space, place->vpn + n))
			break;
	}
	place->left = n;
	return 0;
}

/* The notifier, or a better translation: the card shall not use the pin. */
static void unetmm_klist_hide(struct unetmm_aspace *space,
			      struct unetmm_pin *pin, void *arg)
{
	struct unetmm_kspan *span = arg;
	struct unetmm_kuse *use;

	lockdep_assert_held(&space->lock);
	list_for_each_entry(use, &pin->uses, node) {
		unetmm_table_set(space->table, use->entry, 0);
		span->first = min(span->first, use->entry);
		span->last = max(span->last, use->entry);
	}
}

/* Waits until the card has dropped the hidden entries, and their DMA has ended. */
static void unetmm_klist_invalidate(struct unetmm_aspace *space,
				    const struct unetmm_kspan *span)
{
	if (span->first <= span->last)
		unetmm_invalidate(space->dev, space->id,
				  span->first << PAGE_SHIFT,
				  span->last << PAGE_SHIFT | ~PAGE_MASK);
}

/* A pin leaves the tree: it was hidden before, or has no uses. */
static void unetmm_klist_forget(struct unetmm_aspace *space, struct unetmm_pin *pin)
{
	struct unetmm_kuse *use, *next;

	lockdep_assert_held(&space->lock);
	list_for_each_entry_safe(use, next, &pin->uses, node)
		unetmm_klist_part(space, use);
	unetmm_ktlb_remove(&space->ktlb, &pin->entry);
}

static void unetmm_klist_displace(struct unetmm_aspace *space,
				  struct unetmm_pin *pin)
{
	struct unetmm_kspan span = UNETMM_KSPAN_NONE;

	unetmm_klist_hide(space, pin, &span);
	unetmm_klist_invalidate(space, &span);
	unetmm_pin_drop(space, pin);
	queue_work(unetmm_drop_wq, &space->drop_work);
}

/* One page of a batch.  A pin that another thread entered meanwhile is used instead. */
static void unetmm_klist_enter(struct unetmm_aspace *space,
			       struct unetmm_kuse *use, struct unetmm_pin **new)
{
	struct unetmm_pin *pin = unetmm_klist_pin(space, (*new)->vpn);

	if (pin && (*new)->write && !pin->write) {
		unetmm_klist_displace(space, pin);
		pin = NULL;
	}
	if (!pin) {
		pin = *new;
		*new = NULL;
		unetmm_pin_add(space, pin);
		unetmm_ktlb_insert(&space->ktlb, &pin->entry);
		unetmm_count(space->dev, ktlb_misses);
	}
	if (!use->pin)
		unetmm_klist_link(space, use, pin);
}

static int unetmm_klist_insert_locked(struct unetmm_aspace *space,
				      struct unetmm_batch *batch, u64 entry,
				      unsigned long seq)
{
	u64 last = batch->vaddr + (u64)batch->count * PAGE_SIZE - 1;
	struct unetmm_kplace place;
	u32 i, n;

	lockdep_assert_held(&space->lock);
	if (space->closing)
		return -ESTALE;
	if (unetmm_space_raced(space, seq, batch->vaddr, last))
		return -EAGAIN;
	/* The slot may be another's by now. */
	if (!unetmm_klist_find(space, entry, &place) || !place.use ||
	    place.vpn != batch->vaddr >> PAGE_SHIFT ||
	    place.write != batch->write)
		return -ESTALE;
	n = min(batch->count, place.left);
	for (i = 0; i < n; i++)
		unetmm_klist_enter(space, &place.use[i], &batch->pins[i]);
	return n;
}

/* Pins for which the TLB has no room are evicted. */
static void unetmm_klist_trim(struct unetmm_aspace *space)
{
	struct unetmm_ktlb_entry *e;
	struct unetmm_pin *pin;

	lockdep_assert_held(&space->lock);
	while ((e = unetmm_ktlb_trim(&space->ktlb))) {
		pin = container_of(e, struct unetmm_pin, entry);
		unetmm_pin_take(space, pin);
		pin->dirty = pin->write;
		list_add_tail(&pin->drop, &space->drop_list);
		unetmm_count(space->dev, ktlb_evictions);
		queue_work(unetmm_drop_wq, &space->drop_work);
	}
}

static int unetmm_klist_insert(struct unetmm_aspace *space,
			       struct unetmm_batch *batch, u64 entry,
			       unsigned long seq)
{
	int ret;
	u32 i;

	spin_lock(&space->lock);
	ret = unetmm_klist_insert_locked(space, batch, entry, seq);
	unetmm_klist_trim(space);
	spin_unlock(&space->lock);
	for (i = 0; i < batch->count; i++) {
		if (batch->pins[i])
			unetmm_pin_free(space, batch->pins[i]);
	}
	batch->count = 0;
	return ret;
}

/*
 * Fills entries from `entry` on with pages that are resident, or can be made so
 * without waiting.  Returns how many are there now, of a prefix; 0: must be
 * paged in; -ESTALE: the card does not need them any more; -EAGAIN: raced;
 * another -errno: of unetmm_pin_batch().  The caller holds mm_users.
 */
int unetmm_klist_fill(struct unetmm_aspace *space, struct unetmm_batch *batch,
		      u64 entry, u32 npages)
{
	struct unetmm_kplace place;
	unsigned long seq;
	int tries, ret;

	for (tries = 0; tries < UNETMM_TRIES; tries++) {
		seq = unetmm_space_seq(space);
		spin_lock(&space->lock);
		ret = unetmm_klist_hits(space, entry, npages, &place);
		spin_unlock(&space->lock);
		if (ret)
			return ret;
		batch->zero = place.zero;
		batch->need = 0;
		ret = unetmm_pin_batch(space, batch,
				       (u64)place.vpn << PAGE_SHIFT,
				       place.left, place.write);
		if (ret <= 0)
			return ret;
		ret = unetmm_klist_insert(space, batch, entry, seq);
		if (ret != -EAGAIN)
			return ret;
		unetmm_count(space->dev, faults_retried);
	}
	return -EAGAIN;
}

/* Pages that no slot names make room for the table as well; each level may need a page. */
static int unetmm_klist_grow(struct unetmm_aspace *space, u64 start, u64 last)
{
	u32 tries = UNETMM_LEVELS;
	int ret;

	do {
		ret = unetmm_table_grow(space, start, last);
	} while (ret && tries-- && unetmm_pins_make_room(space));
	return ret;
}

/*
 * Makes a slot known, with its entries empty.  Without memory for them it is
 * known all the same: a miss of its pages is refused with UNETMM_ST_LIMIT.
 */
void unetmm_klist_install(struct unetmm_aspace *space, struct unetmm_kslot *slot,
			  const struct unetmm_kslot *new)
{
	struct unetmm_kuse *uses = NULL;
	u64 start = new->entry << PAGE_SHIFT;
	u32 i;

	if (!unetmm_klist_grow(space, start, start +
			       (u64)new->npages * PAGE_SIZE - 1))
		uses = kvcalloc(new->npages, sizeof(*uses), GFP_KERNEL_ACCOUNT);
	for (i = 0; uses && i < new->npages; i++)
		uses[i].entry = new->entry + i;
	spin_lock(&space->lock);
	*slot = *new;
	slot->uses = uses;
	slot->live = true;
	spin_unlock(&space->lock);
}

static void unetmm_klist_clear(struct unetmm_aspace *space,
			       struct unetmm_kslot *slot,
			       struct unetmm_kspan *span)
{
	u32 i;

	spin_lock(&space->lock);
	slot->live = false;
	for (i = 0; slot->uses && i < slot->npages; i++)
		unetmm_table_set(space->table, slot->entry + i, 0);
	spin_unlock(&space->lock);
	span->first = min(span->first, slot->entry);
	span->last = max(span->last, slot->entry + slot->npages - 1);
}

static void unetmm_klist_uninstall(struct unetmm_aspace *space,
				   struct unetmm_kslot *slot)
{
	struct unetmm_kuse *uses = slot->uses;
	u32 i;

	spin_lock(&space->lock);
	for (i = 0; uses && i < slot->npages; i++) {
		if (uses[i].pin)
			unetmm_klist_part(space, &uses[i]);
	}
	slot->uses = NULL;
	slot->npages = 0;
	unetmm_klist_trim(space);
	spin_unlock(&space->lock);
	kvfree(uses);
}

/*
 * The card has done with the slots up to `cons`.  It may have their entries in
 * its cache, which must not be found when the slots are used again.
 */
void unetmm_klist_done(struct unetmm_aspace *space, struct unetmm_kring *ring,
		       u32 cons)
{
	u32 mask = BIT(ring->log2) - 1;

	while (ring->done != cons) {
		/* Up to where the ring wraps, their entries follow another. */
		u32 end = ring->done + min(cons - ring->done,
					   mask + 1 - (ring->done & mask));
		struct unetmm_kspan span = UNETMM_KSPAN_NONE;
		u32 i;

		for (i = ring->done; i != end; i++) {
			if (ring->slots[i & mask].npages)
				unetmm_klist_clear(space, &ring->slots[i & mask],
						   &span);
		}
		unetmm_klist_invalidate(space, &span);
		for (i = ring->done; i != end; i++) {
			if (ring->slots[i & mask].npages)
				unetmm_klist_uninstall(space,
						       &ring->slots[i & mask]);
		}
		ring->done = end;
		cond_resched();
	}
}

/* ---- The source ---------------------------------------------------------- */

/* If the table has been withdrawn meanwhile, the card asks again. */
static int unetmm_klist_resolve(struct unetmm_aspace *space,
				const struct unetmm_miss *miss,
				struct unetmm_batch *batch, int most)
{
	int ret = unetmm_klist_fill(space, batch, miss->vaddr >> PAGE_SHIFT,
				    miss->npages);

	if (ret > 0)
		unetmm_resolved(space, miss, batch);
	return ret == -ESTALE ? 1 : ret;
}

/* At a limit.  A page that a slot names would be asked for again. */
static bool unetmm_klist_give(struct unetmm_aspace *space, struct unetmm_pin *pin)
{
	lockdep_assert_held(&space->lock);
	return list_empty(&pin->uses);
}

static unsigned long unetmm_klist_drop(struct unetmm_aspace *space,
				       unsigned long vpn, unsigned long last)
{
	struct unetmm_kspan span = UNETMM_KSPAN_NONE;

	if (!unetmm_pins_visit(space, vpn, last, unetmm_klist_hide, &span))
		return 0;
	unetmm_klist_invalidate(space, &span);
	return unetmm_pins_take(space, vpn, last);
}

/* The TLB of source ktlb: the card's shape, for this process alone. */
static int unetmm_klist_open(struct unetmm_aspace *space)
{
	const struct unetmm_limits *hw = &space->dev->hw;
	struct unetmm_ktlb_entry **slots;

	slots = kvcalloc(array_size(hw->tlb_sets, hw->tlb_ways),
			 sizeof(*slots), GFP_KERNEL_ACCOUNT);
	if (!slots)
		return -ENOMEM;
	unetmm_ktlb_init(&space->ktlb, slots, hw->tlb_sets, hw->tlb_ways,
			 hw->tlb_victims, space->id);
	return 0;
}

static void unetmm_klist_free(struct unetmm_aspace *space)
{
	kvfree(space->ktlb.slots);
}

const struct unetmm_source unetmm_ktlb_source = {
	.table = true,
	.pins = true,
	.lists = true,
	.open = unetmm_klist_open,
	.free = unetmm_klist_free,
	.drop = unetmm_klist_drop,
	.forget = unetmm_klist_forget,
	.give = unetmm_klist_give,
	.find = unetmm_klist_user,
	.resolve = unetmm_klist_resolve,
};
