// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: keys of peers and users in hash tables, and limits of events a second for each
 * group of keys.
 */
#include <linux/etherdevice.h>
#include <linux/jhash.h>
#include <linux/random.h>

#include "channel/channel.h"
#include "space/space.h"

u32 unetmm_mac_key(const struct unetmm_ctl *ctl, const u8 *mac, u32 more)
{
	u64 addr = ether_addr_to_u64(mac);

	return jhash_3words(lower_32_bits(addr), upper_32_bits(addr), more,
			    ctl->seed);
}

u32 unetmm_asker_key(const struct unetmm_ctl *ctl)
{
	u64 key = unetmm_user_key();

	return jhash_2words(lower_32_bits(key), upper_32_bits(key), ctl->seed);
}

/* `burst` events a second for each group of askers: one group leaves others theirs. */
void unetmm_rates_init(struct unetmm_rates *rates, u32 burst)
{
	rates->burst = burst;
	rates->begin = jiffies - HZ;
}

/* Each second has groups of its own: nobody shares one with the same asker for long. */
bool unetmm_may_now(struct unetmm_rates *rates, u32 key)
{
	u32 i;

	if (!time_in_range(jiffies, rates->begin, rates->begin + HZ - 1)) {
		rates->begin = jiffies;
		rates->salt = get_random_u32();
		for (i = 0; i < ARRAY_SIZE(rates->left); i++)
			rates->left[i] = rates->burst;
	}
	i = jhash_1word(key, rates->salt) % ARRAY_SIZE(rates->left);
	if (!rates->left[i])
		return false;
	rates->left[i]--;
	return true;
}
