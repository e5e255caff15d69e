// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: ranges of pins are taken from the card: their entries in the table are hidden,
 * the card drops their translations, and a work unpins the pages.
 */
#include "memory/memory.h"
#include "table/table.h"
#include "space/space.h"
#include "ring/ring.h"
#include "base/base.h"

/* Pins handled while space->lock is held once. */
#define UNETMM_CHUNK	256

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

void unetmm_drop_work(struct work_struct *work)
{
	struct unetmm_aspace *space = container_of(work, struct unetmm_aspace,
						  drop_work);

	while (unetmm_drop_one(space))
		cond_resched();
}
