// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: counts of the paging of parts of a space.
 */
#include "util/watch.h"

/* A process may have any number of parts with the same page: so many are counted. */
#define UNETMM_WATCHES_MOST	64

void unetmm_watch_count(struct rb_root_cached *watches, enum unetmm_watched what,
			unsigned long vpn, unsigned long last)
{
	struct interval_tree_node *node = interval_tree_iter_first(watches, vpn, last);
	int most = UNETMM_WATCHES_MOST;

	for (; node && most--; node = interval_tree_iter_next(node, vpn, last))
		container_of(node, struct unetmm_watch, node)->counts[what] +=
			min(last, node->last) - max(vpn, node->start) + 1;
}
