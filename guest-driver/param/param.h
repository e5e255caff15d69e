/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: numbers that an administrator sets, for all cards or for one.
 *
 * A module parameter is the value of each card that has none of its own; devlink
 * gives a card one (card/devlink.c), which it keeps until its driver lets go of it.
 * Both may change at any time: a user of the number reads it once.
 */
#ifndef UNETMM_PARAM_H
#define UNETMM_PARAM_H

#include <linux/bitops.h>
#include <linux/sizes.h>
#include <linux/types.h>

/* Name, default, least and most that devlink takes, description. */
#define UNETMM_PARAMS(X) \
	X(pin_limit_pages, SZ_1G >> PAGE_SHIFT, 0, U32_MAX, \
	  "most pages that one card's users may have pinned") \
	X(utlb_quota_pages, 65536, 0, U32_MAX, \
	  "most pages that one address space of source utlb may have pinned") \
	X(redirect_slots, 256, 1, U32_MAX, \
	  "packets of policy redirect that one card can have for absent pages") \
	X(redirect_credits, 32, 1, 64, \
	  "of these: most that one channel gets for itself, 1 to 64") \
	X(backup_buffers, 2048, 1, U32_MAX, \
	  "packets of policy backup that one card can have for absent pages") \
	X(backup_prefetch, 0, 0, 16, \
	  "further posted buffers that are made present with a packet of policy backup, up to 16 (sources shadow and odp)") \
	X(page_ins, 16, 1, U32_MAX, \
	  "jobs of one space that are paged in for at a time; further ones wait") \
	X(pager_workers, 128, 8, 1024, \
	  "most threads of a card that serve misses and copies, 8 to 1024") \
	X(odp_batch, 1025, 1, 1025, \
	  "pages of one miss that are served at once (source odp); 1: page by page") \
	X(odp_prefetch, 16, 0, 1025, \
	  "pages behind those of a miss that are entered too if resident (source odp)") \
	X(user_backup_buffers, 0, 0, U32_MAX, \
	  "of backup_buffers: most that one user's endpoints may have; 0: half of those that others leave") \
	X(user_redirect_slots, 0, 0, U32_MAX, \
	  "of redirect_slots: most that one user's channels may have; 0: half of those that others leave") \
	X(user_threads, 256, 1, U32_MAX, \
	  "threads of a card that page in for one user at a time; never more than half of all") \
	X(user_spaces, 0, 0, U32_MAX, \
	  "of a card's spaces: most that one user may have; 0: half of those that others leave") \
	X(user_endpoints, 0, 0, U32_MAX, \
	  "of a card's endpoints: most that one user may have; 0: half of those that others leave") \
	X(user_channels, 0, 0, U32_MAX, \
	  "of a card's reliable channels: most that one user may have; 0: half of those that others leave") \
	X(user_exports, 0, 0, U32_MAX, \
	  "of a card's regions: most exports that one user may have; 0: half of those that others leave") \
	X(user_verbs, 0, 0, U32_MAX, \
	  "small objects of verbs: most that one user may have; 0: half of those that others leave") \
	X(user_pin_pages, 0, 0, U32_MAX, \
	  "of pin_limit_pages: most that one user's processes may have pinned; 0: half of those that others leave") \
	X(notify_moderate_ns, 0, 0, U32_MAX, \
	  "least time between two interrupts for wake-ups; of all cards: as the card starts") \
	X(fault_moderate_ns, 0, 0, 100 * NSEC_PER_MSEC, \
	  "least time between two interrupts for misses; of all cards: as the card starts")

#define UNETMM_PARAM_ENUM_(name, value, least, most, help) UNETMM_P_##name,
enum unetmm_param {
	UNETMM_PARAMS(UNETMM_PARAM_ENUM_)
	UNETMM_NUM_PARAMS
};

/* Those of one card: dev->params. */
struct unetmm_params {
	DECLARE_BITMAP(own, UNETMM_NUM_PARAMS);
	u32 value[UNETMM_NUM_PARAMS];	/* if `own` has the bit */
};

/* The card's own value, or that of the module's parameter. */
u32 unetmm_params_get(const struct unetmm_params *params,
		      enum unetmm_param which);

#endif /* UNETMM_PARAM_H */
