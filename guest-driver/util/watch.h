/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: counts of the paging of parts of a space, which may overlap: of verbs' memory
 * regions.  The space's lock guards the tree and the counts.
 */
#ifndef UNETMM_WATCH_H
#define UNETMM_WATCH_H

#include <linux/interval_tree.h>

/* Pages that the driver entered for misses, and that Linux took back. */
enum unetmm_watched {
	UNETMM_WATCH_FAULTS,
	UNETMM_WATCH_INVALIDATIONS,
	UNETMM_NUM_WATCHED
};

struct unetmm_watch {
	struct interval_tree_node node;	/* page numbers */
	u64 counts[UNETMM_NUM_WATCHED];
};

void unetmm_watch_count(struct rb_root_cached *watches, enum unetmm_watched what,
			unsigned long vpn, unsigned long last);

#endif /* UNETMM_WATCH_H */
