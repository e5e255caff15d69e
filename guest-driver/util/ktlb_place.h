/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: the TLB of source ktlb: which translations stay, and for how long.
 *
 * Of the card's shape: sets of ways, and a list of victims.  Callers find an entry
 * by an index of their own; this file only decides the entry's place.
 * An entry in use (named by a descriptor that the card has not done with) is
 * never given up, so the list of victims grows beyond its limit while that is
 * so, and is trimmed as soon as it is not.
 *
 * Knows nothing of the kernel, allocates nothing and takes no lock: the caller
 * has one.
 */
#ifndef UNETMM_KTLB_PLACE_H
#define UNETMM_KTLB_PLACE_H

#include <linux/types.h>

enum unetmm_ktlb_place {
	UNETMM_KTLB_NOWHERE,
	UNETMM_KTLB_SET,
	UNETMM_KTLB_VICTIM,
};

struct unetmm_ktlb_entry {
	struct unetmm_ktlb_entry *older;	/* idle victims */
	struct unetmm_ktlb_entry *newer;
	__u64 vpn;
	__u32 uses;
	__u32 slot;				/* in a set */
	enum unetmm_ktlb_place place;
};

struct unetmm_ktlb {
	struct unetmm_ktlb_entry **slots;	/* sets * ways of them */
	struct unetmm_ktlb_entry *oldest;	/* idle victims, a queue */
	struct unetmm_ktlb_entry *newest;
	__u32 sets;
	__u32 ways;
	__u32 limit;				/* of victims */
	__u32 victims;				/* busy ones included */
	__u32 turn;				/* way that is displaced next */
	__u64 salt;				/* spaces start at other sets */
};

void unetmm_ktlb_init(struct unetmm_ktlb *tlb, struct unetmm_ktlb_entry **slots,
		      __u32 sets, __u32 ways, __u32 limit, __u32 space);
/* A new entry, not in use; pushes another among the victims. */
void unetmm_ktlb_insert(struct unetmm_ktlb *tlb, struct unetmm_ktlb_entry *e);
/* Somebody needs the entry: a victim changes places with one of its set. */
void unetmm_ktlb_touch(struct unetmm_ktlb *tlb, struct unetmm_ktlb_entry *e);
void unetmm_ktlb_hold(struct unetmm_ktlb *tlb, struct unetmm_ktlb_entry *e);
void unetmm_ktlb_release(struct unetmm_ktlb *tlb, struct unetmm_ktlb_entry *e);
/* Out of the TLB, in use or not. */
void unetmm_ktlb_remove(struct unetmm_ktlb *tlb, struct unetmm_ktlb_entry *e);
/* The entry to give up now, removed already; NULL: none has to, or can be. */
struct unetmm_ktlb_entry *unetmm_ktlb_trim(struct unetmm_ktlb *tlb);

#endif /* UNETMM_KTLB_PLACE_H */
