// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the TLB of source ktlb; see util/ktlb_place.h.
 */
#ifdef __KERNEL__
#include <linux/stddef.h>
#else
#include <stddef.h>		/* tests/core/source/test_ktlb_place.c */
#endif

#include "util/ktlb_place.h"

/* The card's multiplier: neighbouring spaces do not share their sets. */
#define UNETMM_KTLB_STEP	0x9e3779b1u

void unetmm_ktlb_init(struct unetmm_ktlb *tlb, struct unetmm_ktlb_entry **slots,
		      __u32 sets, __u32 ways, __u32 limit, __u32 space)
{
	tlb->slots = slots;
	tlb->oldest = NULL;
	tlb->newest = NULL;
	tlb->sets = sets;
	tlb->ways = ways;
	tlb->limit = limit;
	tlb->victims = 0;
	tlb->turn = 0;
	tlb->salt = (__u64)space * UNETMM_KTLB_STEP;
}

/* Idle victims are a queue; those in use are in no list, only counted. */
static void unetmm_ktlb_enqueue(struct unetmm_ktlb *tlb,
				struct unetmm_ktlb_entry *e)
{
	e->older = tlb->newest;
	e->newer = NULL;
	if (tlb->newest)
		tlb->newest->newer = e;
	else
		tlb->oldest = e;
	tlb->newest = e;
}

static void unetmm_ktlb_dequeue(struct unetmm_ktlb *tlb,
				struct unetmm_ktlb_entry *e)
{
	if (e->older)
		e->older->newer = e->newer;
	else
		tlb->oldest = e->newer;
	if (e->newer)
		e->newer->older = e->older;
	else
		tlb->newest = e->older;
}

static void unetmm_ktlb_to_set(struct unetmm_ktlb *tlb,
			       struct unetmm_ktlb_entry *e, __u32 slot)
{
	tlb->slots[slot] = e;
	e->slot = slot;
	e->place = UNETMM_KTLB_SET;
}

static void unetmm_ktlb_to_victims(struct unetmm_ktlb *tlb,
				   struct unetmm_ktlb_entry *e)
{
	e->place = UNETMM_KTLB_VICTIM;
	tlb->victims++;
	if (!e->uses)
		unetmm_ktlb_enqueue(tlb, e);
}

/* A place in the entry's set, made free if there is none. */
static __u32 unetmm_ktlb_place_for(struct unetmm_ktlb *tlb,
				   const struct unetmm_ktlb_entry *e)
{
	/* sets is a power of two, as it is on the card. */
	__u32 first = ((e->vpn + tlb->salt) & (tlb->sets - 1)) * tlb->ways;
	__u32 way;

	for (way = 0; way < tlb->ways; way++) {
		if (!tlb->slots[first + way])
			return first + way;
	}
	way = tlb->turn++ % tlb->ways;
	unetmm_ktlb_to_victims(tlb, tlb->slots[first + way]);
	return first + way;
}

void unetmm_ktlb_insert(struct unetmm_ktlb *tlb, struct unetmm_ktlb_entry *e)
{
	e->uses = 0;
	unetmm_ktlb_to_set(tlb, e, unetmm_ktlb_place_for(tlb, e));
}

void unetmm_ktlb_touch(struct unetmm_ktlb *tlb, struct unetmm_ktlb_entry *e)
{
	if (e->place != UNETMM_KTLB_VICTIM)
		return;
	unetmm_ktlb_remove(tlb, e);
	unetmm_ktlb_to_set(tlb, e, unetmm_ktlb_place_for(tlb, e));
}

void unetmm_ktlb_hold(struct unetmm_ktlb *tlb, struct unetmm_ktlb_entry *e)
{
	if (!e->uses++ && e->place == UNETMM_KTLB_VICTIM)
		unetmm_ktlb_dequeue(tlb, e);
}

void unetmm_ktlb_release(struct unetmm_ktlb *tlb, struct unetmm_ktlb_entry *e)
{
	if (!--e->uses && e->place == UNETMM_KTLB_VICTIM)
		unetmm_ktlb_enqueue(tlb, e);
}

void unetmm_ktlb_remove(struct unetmm_ktlb *tlb, struct unetmm_ktlb_entry *e)
{
	if (e->place == UNETMM_KTLB_SET) {
		tlb->slots[e->slot] = NULL;
	} else if (e->place == UNETMM_KTLB_VICTIM) {
		if (!e->uses)
			unetmm_ktlb_dequeue(tlb, e);
		tlb->victims--;
	}
	e->place = UNETMM_KTLB_NOWHERE;
}

struct unetmm_ktlb_entry *unetmm_ktlb_trim(struct unetmm_ktlb *tlb)
{
	struct unetmm_ktlb_entry *e = tlb->oldest;

	if (tlb->victims <= tlb->limit || !e)
		return NULL;
	unetmm_ktlb_remove(tlb, e);
	return e;
}
