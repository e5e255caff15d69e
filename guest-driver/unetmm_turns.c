// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: whose miss is served next.
 *
 * Misses are taken from the card's ring as soon as they are there, and wait here, in
 * a queue for each space; the spaces take turns, one miss each.  So who has many
 * misses, because a peer writes into memory of his that vanishes again and again,
 * waits for himself: between another one's miss and its turn each space has one.
 *
 * There are as many places as the card may have misses reported, and some for what
 * it says ahead of misses, which is forgotten if there is none.  A card that reports
 * more misses has the rest served as they come.
 *
 * All of this is the fault work's; what debugfs reads of it are hints.
 */
#include <linux/slab.h>

#include "unetmm_drv.h"

#define UNETMM_MOST_TURNS	1024
#define UNETMM_AHEAD_TURNS	64

struct unetmm_turn {
	struct list_head node;		/* space->turns, or free */
	struct unetmm_aspace *space;	/* a reference */
	struct unetmm_miss miss;
	bool alone;			/* nothing of its space was waiting */
	u64 before;			/* misses that had been served */
};

static u32 unetmm_turns_most(const struct unetmm_dev *dev)
{
	return clamp_t(u32, dev->hw.max_faults, 1, UNETMM_MOST_TURNS);
}

int unetmm_turns_init(struct unetmm_dev *dev)
{
	struct unetmm_turns *turns = &dev->turns;
	u32 i, n = unetmm_turns_most(dev) + UNETMM_AHEAD_TURNS;

	INIT_LIST_HEAD(&turns->free);
	INIT_LIST_HEAD(&turns->spaces);
	turns->served = 0;
	turns->nfree = n;
	turns->pool = kvcalloc(n, sizeof(*turns->pool), GFP_KERNEL);
	for (i = 0; turns->pool && i < n; i++)
		list_add_tail(&turns->pool[i].node, &turns->free);
	return turns->pool ? 0 : -ENOMEM;
}

/* The space goes to the end of the line if it has more. */
static void unetmm_turn_end(struct unetmm_turns *turns, struct unetmm_turn *t)
{
	struct unetmm_aspace *space = t->space;

	list_move(&t->node, &turns->free);
	turns->nfree++;
	t->space = NULL;
	WRITE_ONCE(space->nturns, space->nturns - 1);
	if (space->nturns)
		list_move_tail(&space->turn_node, &turns->spaces);
	else
		list_del_init(&space->turn_node);
}

static struct unetmm_turn *unetmm_turn_next(struct unetmm_turns *turns)
{
	struct unetmm_aspace *space =
		list_first_entry_or_null(&turns->spaces, struct unetmm_aspace,
					 turn_node);

	return space ? list_first_entry(&space->turns, struct unetmm_turn,
					node) : NULL;
}

/* The card is gone, and the fault work with it. */
void unetmm_turns_exit(struct unetmm_dev *dev)
{
	struct unetmm_aspace *space;
	struct unetmm_turn *t;

	while (dev->turns.pool && (t = unetmm_turn_next(&dev->turns))) {
		space = t->space;
		unetmm_turn_end(&dev->turns, t);
		unetmm_space_put(space);
	}
	kvfree(dev->turns.pool);
	dev->turns.pool = NULL;
}

/* Takes over the reference to the space.  False: there is no place left. */
bool unetmm_turn_add(struct unetmm_aspace *space, const struct unetmm_miss *miss)
{
	struct unetmm_turns *turns = &space->dev->turns;
	struct unetmm_turn *t = list_first_entry_or_null(&turns->free,
							 struct unetmm_turn,
							 node);

	if (!t || (miss->ahead &&
		   turns->nfree <= unetmm_turns_most(space->dev)))
		return false;
	turns->nfree--;
	t->space = space;
	t->miss = *miss;
	t->alone = !space->nturns;
	t->before = turns->served;
	list_move_tail(&t->node, &space->turns);
	WRITE_ONCE(space->nturns, space->nturns + 1);
	if (t->alone)
		list_add_tail(&space->turn_node, &turns->spaces);
	if (space->nturns > space->most_turns)
		WRITE_ONCE(space->most_turns, space->nturns);
	return true;
}

/* The one whose turn it is; its reference to the space is the caller's. */
struct unetmm_aspace *unetmm_turn_take(struct unetmm_dev *dev,
				       struct unetmm_miss *miss)
{
	struct unetmm_turns *turns = &dev->turns;
	struct unetmm_turn *t = unetmm_turn_next(turns);
	struct unetmm_aspace *space;
	u64 passed;

	if (!t)
		return NULL;
	space = t->space;
	*miss = t->miss;
	passed = turns->served++ - t->before;
	if (t->alone && passed > space->most_passed)
		WRITE_ONCE(space->most_passed, passed);
	unetmm_turn_end(turns, t);
	return space;
}
