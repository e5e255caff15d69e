// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: flows: which Ethernet frames are a raw endpoint's.
 *
 * Their numbers on the card are the driver's to choose.  A number is in use
 * from before the card knows of it until after it has forgotten it.  The caller
 * sees to it that the card is not stopped meanwhile.
 */
#include <linux/bitmap.h>
#include <linux/etherdevice.h>

#include "ep/ep.h"
#include "space/space.h"
#include "ring/ring.h"
#include "base/base.h"

static int unetmm_flow_take(struct unetmm_dev *dev, bool own)
{
	u32 from = own ? 0 : min(dev->hw.flows / 2, (u32)UNETMM_FLOWS_KEPT);
	u32 number;

	mutex_lock(&dev->flows->lock);
	number = find_next_zero_bit(dev->flows->map, dev->hw.flows, from);
	if (number < dev->hw.flows)
		__set_bit(number, dev->flows->map);
	mutex_unlock(&dev->flows->lock);
	return number < dev->hw.flows ? number : -ENOSPC;
}

static void unetmm_flow_give(struct unetmm_dev *dev, u32 number)
{
	mutex_lock(&dev->flows->lock);
	__clear_bit(number, dev->flows->map);
	mutex_unlock(&dev->flows->lock);
}

int unetmm_flow_set(struct unetmm_ep *ep, u8 kind, u8 flags, u16 value,
		    const u8 *mac)
{
	struct unetmm_dev *dev = ep->dev;
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_FLOW_SET,
		.ep = cpu_to_le16(ep->id),
	};
	int number = unetmm_flow_take(dev, !ep->space);
	int ret;

	if (number < 0)
		return number;
	cmd.flow.flow = cpu_to_le32(number);
	cmd.flow.kind = kind;
	cmd.flow.flags = flags;
	cmd.flow.value = cpu_to_le16(value);
	if (mac)
		ether_addr_copy(cmd.flow.mac, mac);
	ret = unetmm_cmd(dev, &cmd, NULL);
	if (ret) {
		unetmm_flow_give(dev, number);
		return ret;
	}
	return number;
}

/* A card that is gone, or has been reset, has forgotten it already. */
void unetmm_flow_clear(struct unetmm_dev *dev, u32 number)
{
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_FLOW_CLEAR,
		.flow.flow = cpu_to_le32(number),
	};

	unetmm_cmd(dev, &cmd, NULL);
	unetmm_flow_give(dev, number);
}
