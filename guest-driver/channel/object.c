// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: channels: their numbers, their places on the card and in the limits, and
 * their end.  channel/close.c repeats the CLOSE message.
 *
 * All under ctl.lock.
 */
#include <linux/etherdevice.h>
#include <linux/ktime.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "channel/channel.h"
#include "redirect/redirect.h"
#include "ep/ep.h"
#include "ring/ring.h"
#include "base/base.h"
#include "trace/trace.h"

/*
 * Its user's share of the card's reliable channels and of the system buffer's slots.
 * -EDQUOT: the share is used up; -ENOSPC: the card has no slot left.
 */
static int unetmm_chan_reserve(struct unetmm_chan *chan)
{
	struct unetmm_ep *ep = chan->ep;
	int credits;

	if (chan->how.type != UNETMM_CHANNEL_RELIABLE)
		return 0;
	if (!unetmm_user_take(ep->space, UNETMM_USE_CHANNELS, 1))
		return -EDQUOT;
	credits = unetmm_sysbuf_reserve(ep);
	if (credits < 0) {
		unetmm_user_give(ep->space, UNETMM_USE_CHANNELS, 1);
		return credits;
	}
	chan->recv_credits = credits;
	chan->reserved = true;
	return 0;
}

/* The card has no such channel any more, or never had it. */
static void unetmm_chan_unreserve(struct unetmm_chan *chan)
{
	lockdep_assert_held(&chan->ep->dev->ctl->lock);
	unetmm_sysbuf_unreserve(chan->ep, chan->recv_credits);
	chan->recv_credits = 0;
	if (chan->reserved)
		unetmm_user_give(chan->ep->space, UNETMM_USE_CHANNELS, 1);
	chan->reserved = false;
}

/*
 * A number without a channel.  One that has become free is taken last: the endpoint's
 * process may have completions of that channel to read, and nothing tells it of the end
 * of a channel that it has not accepted.
 */
static u32 unetmm_chan_number(const struct unetmm_ep *ep)
{
	u32 all = ep->dev->hw.channels, number;

	number = find_next_zero_bit(ep->chan_map, all, ep->chan_next);
	if (number >= all)
		number = find_first_zero_bit(ep->chan_map, all);
	return number;
}

/*
 * A channel number of the endpoint, not open yet.  -ENOSPC: the endpoint has no number
 * left, or the card no slot; -EDQUOT: its user has all channels or slots that it may
 * have.
 */
struct unetmm_chan *unetmm_chan_new(struct unetmm_ep *ep, const u8 *mac,
				    const struct unetmm_chan_how *how)
{
	struct unetmm_dev *dev = ep->dev;
	struct unetmm_chan *chan;
	u32 number;
	int ret;

	lockdep_assert_held(&dev->ctl->lock);
	number = unetmm_chan_number(ep);
	if (number >= dev->hw.channels)
		return ERR_PTR(-ENOSPC);
	chan = kzalloc(sizeof(*chan), GFP_KERNEL_ACCOUNT);
	if (!chan)
		return ERR_PTR(-ENOMEM);
	chan->ep = ep;
	chan->how = *how;
	ret = unetmm_chan_reserve(chan);
	if (ret) {
		kfree(chan);
		return ERR_PTR(ret);
	}
	__set_bit(number, ep->chan_map);
	ep->chan_next = number + 1;
	kref_init(&chan->ref);
	INIT_LIST_HEAD(&chan->accept_node);
	INIT_HLIST_NODE(&chan->hash);
	chan->ep_id = ep->id;
	chan->number = number;
	chan->state = UNETMM_CHAN_CONNECTING;
	/* The remains of an earlier channel must not fit this one. */
	if (how->type == UNETMM_CHANNEL_RELIABLE)
		chan->send_psn = get_random_u32();
	ether_addr_copy(chan->mac, mac);
	list_add_tail(&chan->node, &ep->chans);
	return chan;
}

/* A peer chooses all of these, but does not know the seed: no list grows long. */
static u32 unetmm_chan_key(const struct unetmm_ctl *ctl, const u8 *mac, u16 ep,
			   u16 channel)
{
	return unetmm_mac_key(ctl, mac, (u32)ep << 16 | channel);
}

struct unetmm_chan *unetmm_chan_find(struct unetmm_ctl *ctl, const u8 *mac, u16 ep,
				     u16 channel)
{
	struct unetmm_chan *chan;

	hash_for_each_possible(ctl->chans, chan, hash,
			       unetmm_chan_key(ctl, mac, ep, channel)) {
		if (chan->peer_ep == ep && chan->peer_channel == channel &&
		    ether_addr_equal(chan->mac, mac))
			return chan;
	}
	return NULL;
}

/* The protocol features of this card. */
u8 unetmm_features(const struct unetmm_dev *dev)
{
	return (dev->hw.caps & UNETMM_CAP_KEYED ? UNETMM_FEATURE_KEYED : 0) |
	       (dev->hw.caps & UNETMM_CAP_IMMEDIATE ? UNETMM_FEATURE_IMM : 0) |
	       (dev->hw.caps & UNETMM_CAP_ACK_ALONG ? UNETMM_FEATURE_ACK : 0) |
	       (dev->hw.caps & UNETMM_CAP_ACK_WRITE ? UNETMM_FEATURE_ACK_WRITE : 0);
}

static u8 unetmm_chan_flags(const struct unetmm_chan *chan)
{
	return (chan->how.tell ? UNETMM_CHANNEL_F_TELL : 0) |
	       (chan->how.rewind ? UNETMM_CHANNEL_F_REWIND : 0) |
	       (chan->features & UNETMM_FEATURE_KEYED ? UNETMM_CHANNEL_F_KEYED : 0) |
	       (chan->features & UNETMM_FEATURE_IMM ? UNETMM_CHANNEL_F_IMM : 0) |
	       (chan->features & UNETMM_FEATURE_ACK ? UNETMM_CHANNEL_F_ACK : 0) |
	       (chan->features & UNETMM_FEATURE_ACK_WRITE ?
		UNETMM_CHANNEL_F_ACK_WRITE : 0);
}

/* Tells the card the peer's address; from then on frames pass. */
int unetmm_chan_open(struct unetmm_chan *chan, u16 peer_ep, u16 peer_channel, u32 mtu)
{
	struct unetmm_ep *ep = chan->ep;
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_CHANNEL_SET,
		.ep = cpu_to_le16(ep->id),
		.channel = {
			.channel = cpu_to_le16(chan->number),
			.peer_ep = cpu_to_le16(peer_ep),
			.peer_channel = cpu_to_le16(peer_channel),
			.type = chan->how.type,
			.retries = chan->how.retries,
			.mtu = cpu_to_le32(mtu),
			.not_ready_retries = chan->how.not_ready_retries,
			.flags = unetmm_chan_flags(chan),
			.not_ready_us = cpu_to_le32(chan->how.not_ready_us),
			.timeout_us = cpu_to_le32(chan->how.timeout_us),
			.send_psn = cpu_to_le32(chan->send_psn),
			.recv_psn = cpu_to_le32(chan->recv_psn),
			.send_credits = cpu_to_le32(chan->send_credits),
			.recv_credits = cpu_to_le32(chan->recv_credits),
		},
	};
	int ret;

	ether_addr_copy(cmd.channel.peer_mac, chan->mac);
	ret = unetmm_cmd(ep->dev, &cmd, NULL);
	if (ret)
		return ret;
	chan->peer_ep = peer_ep;
	chan->peer_channel = peer_channel;
	chan->mtu = mtu;
	WRITE_ONCE(chan->state, UNETMM_CHAN_OPEN);
	hash_add(ep->dev->ctl->chans, &chan->hash,
		 unetmm_chan_key(ep->dev->ctl, chan->mac, peer_ep,
				 peer_channel));
	trace_unetmm_channel(ep->id, chan->number, chan->mac, peer_ep,
			     peer_channel, mtu, true);
	return 0;
}

/* `peer`: it was the peer, and the process that has it may want to know. */
static void unetmm_chan_clear(struct unetmm_chan *chan, bool peer)
{
	struct unetmm_ep *ep = chan->ep;
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_CHANNEL_CLEAR,
		.ep = cpu_to_le16(ep->id),
		.channel = {
			.channel = cpu_to_le16(chan->number),
			.flags = peer ? UNETMM_CHANNEL_F_TELL : 0,
		},
	};

	if (chan->state != UNETMM_CHAN_OPEN)
		return;
	unetmm_cmd(ep->dev, &cmd, NULL);
	unetmm_chan_unreserve(chan);
	hash_del(&chan->hash);
	WRITE_ONCE(chan->state, UNETMM_CHAN_CLOSED);
	/* Ends waits for an import of it. */
	wake_up_all(&ep->wait);
	trace_unetmm_channel(ep->id, chan->number, chan->mac, chan->peer_ep,
			     chan->peer_channel, chan->mtu, false);
}

static void unetmm_chan_unaccept(struct unetmm_chan *chan)
{
	if (!list_empty(&chan->accept_node)) {
		list_del_init(&chan->accept_node);
		chan->ep->nbacklog--;
	}
}

/* The peer's half is gone; our number stays until the process gives it back. */
void unetmm_chan_hangup(struct unetmm_chan *chan)
{
	bool waits = !list_empty(&chan->accept_node);

	unetmm_chan_clear(chan, !waits);
	if (waits)
		unetmm_chan_end(chan, false);
}

/* Ends our half: the number is free again.  `tell`: the peer is to end its half. */
void unetmm_chan_end(struct unetmm_chan *chan, bool tell)
{
	struct unetmm_ep *ep = chan->ep;
	bool sent;

	lockdep_assert_held(&ep->dev->ctl->lock);
	tell &= chan->state != UNETMM_CHAN_CLOSED;
	sent = tell && unetmm_tell_close(ep->dev, chan);
	unetmm_chan_clear(chan, false);
	unetmm_chan_unreserve(chan);
	unetmm_chan_unaccept(chan);
	WRITE_ONCE(chan->state, UNETMM_CHAN_CLOSED);
	list_del(&chan->node);
	__clear_bit(chan->number, ep->chan_map);
	chan->ep = NULL;
	if (!tell || !unetmm_close_keep(ep->space, chan, sent))
		unetmm_chan_put(chan);
}

/* An endpoint that is neither closed nor ours; stays while ctl.lock is held. */
struct unetmm_ep *unetmm_chan_ep(struct unetmm_dev *dev, u16 id)
{
	struct unetmm_ep *ep = NULL;
	unsigned long flags;

	spin_lock_irqsave(&dev->ep_lock, flags);
	if (id < dev->hw.endpoints)
		ep = dev->eps[id];
	if (ep && (ep->closed || !ep->file))
		ep = NULL;
	spin_unlock_irqrestore(&dev->ep_lock, flags);
	return ep;
}

/* The open channel that both halves of a message name, or NULL. */
struct unetmm_chan *unetmm_chan_of_peer(struct unetmm_dev *dev, const u8 *mac,
					const struct unetmm_control *msg)
{
	struct unetmm_chan *chan;

	chan = unetmm_chan_find(dev->ctl, mac, le16_to_cpu(msg->src_ep),
				le16_to_cpu(msg->src_channel));
	if (!chan || chan->nonce != le64_to_cpu(msg->nonce) ||
	    chan->number != le16_to_cpu(msg->dst_channel) ||
	    chan->ep->id != le16_to_cpu(msg->dst_ep))
		return NULL;
	return chan;
}
