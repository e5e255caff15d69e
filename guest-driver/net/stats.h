/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: statistics of one direction of the netdev.
 */
#ifndef UNETMM_NET_STATS_H
#define UNETMM_NET_STATS_H

#include <linux/u64_stats_sync.h>

struct unetmm_net_stats {
	struct u64_stats_sync sync;
	u64_stats_t packets;
	u64_stats_t bytes;
	u64_stats_t multicast;
	u64_stats_t dropped;
	u64_stats_t errors;
};

static inline void unetmm_net_add(struct unetmm_net_stats *stats, u32 packets,
				  u32 bytes)
{
	u64_stats_update_begin(&stats->sync);
	u64_stats_add(&stats->packets, packets);
	u64_stats_add(&stats->bytes, bytes);
	u64_stats_update_end(&stats->sync);
}

#define unetmm_net_stat(stats, what) do {			\
	struct unetmm_net_stats *stats_ = (stats);		\
								\
	u64_stats_update_begin(&stats_->sync);			\
	u64_stats_inc(&stats_->what);				\
	u64_stats_update_end(&stats_->sync);			\
} while (0)

#endif /* UNETMM_NET_STATS_H */
