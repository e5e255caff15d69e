// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: channels: their numbers, their places on the card and in the limits, and
 * their end.  channel/close.c repeats the CLOSE message.
 *
 * A completion names its channel by its number.  So a number rests when its channel has
 * ended: until the card has written all completions of the channel (its CLOSED, and
 * those of sends that fail), and the endpoint's process has taken them.  The process
 * says by its index how many it has taken: one that lies takes the completions of one of
 * its channels for another's, or has no number left.  A channel with `tell` has one
 * CLOSED, however it ends: a process that has closed it waits for that, and knows from
 * then on that the number is another's.
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
 * -EDQUOT: the share is used up (CONNECT: -ENOSPC); -ENOSPC: the card has no slot left.
 */
static int unetmm_chan_reserve(struct unetmm_chan *chan)
{
	struct unetmm_ep *ep = chan->ep;
	int credits;

	if (chan->params.type != UNETMM_CHANNEL_RELIABLE)
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

/* ---- Numbers ---------------------------------------------------------------- */

/*
 * Clears it on the card: how many completions of its number wait for room.  `tell`: a
 * process that wanted its CLOSED, and has not got it, gets it.
 */
static u32 unetmm_chan_off(const struct unetmm_ep *ep, u32 number, bool tell)
{
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_CHANNEL_CLEAR,
		.ep = cpu_to_le16(ep->id),
		.channel = {
			.channel = cpu_to_le16(number),
			.flags = tell ? UNETMM_CHANNEL_F_TELL : 0,
		},
	};
	u32 owed = 0;

	return unetmm_cmd(ep->dev, &cmd, &owed) ? 0 : owed;
}

static u32 unetmm_cq_prod(const struct unetmm_ep *ep)
{
	return le32_to_cpu(READ_ONCE(ep->index->card.cq_prod));
}

/*
 * Has the reader of a queue, which has `left` entries to read, passed the place `end`?  A
 * number may rest for longer than the writer's index takes to go round.
 */
static bool unetmm_passed(u32 prod, u32 left, u32 end)
{
	return prod - end >= left;
}

/* Has the card written all completions of the ended channel? */
static bool unetmm_chan_written(const struct unetmm_ep *ep, struct unetmm_chan *chan)
{
	u32 cons = le32_to_cpu(READ_ONCE(ep->index->card.sq_cons));
	u32 prod = le32_to_cpu(READ_ONCE(ep->index->user.sq_prod));

	if (chan->written)
		return true;
	/* Descriptors that were posted before the end fail one by one. */
	if (!unetmm_passed(prod, prod - cons, chan->sq_end))
		return false;
	if (chan->owes && unetmm_chan_off(ep, chan->number, true))
		return false;
	chan->cq_end = unetmm_cq_prod(ep);
	chan->written = true;
	return true;
}

/* Has the process taken them? */
static bool unetmm_chan_rested(const struct unetmm_ep *ep, struct unetmm_chan *chan)
{
	u32 cons, prod;

	if (!unetmm_chan_written(ep, chan))
		return false;
	/* Now, and in this order: cq_end, which may be new, is not behind prod. */
	cons = le32_to_cpu(READ_ONCE(ep->index->user.cq_cons));
	prod = unetmm_cq_prod(ep);
	return chan->cq_end == chan->cq_begin ||
	       unetmm_passed(prod, prod - cons, chan->cq_end);
}

/* The channel has ended.  Its number is free at once, or rests if it was open. */
static void unetmm_chan_rest(struct unetmm_ep *ep, struct unetmm_chan *chan, bool was)
{
	chan->sq_end = le32_to_cpu(READ_ONCE(ep->index->user.sq_prod));
	if (!was || ep->closed || unetmm_chan_rested(ep, chan)) {
		__clear_bit(chan->number, ep->chan_map);
		return;
	}
	kref_get(&chan->ref);
	list_add_tail(&chan->rest, &ep->resting);
}

/*
 * A number without a channel.  Numbers that rest become free in the order of the ends: the
 * later ones wait for the same completions.
 */
static u32 unetmm_chan_number(struct unetmm_ep *ep)
{
	struct unetmm_chan *chan, *next;

	lockdep_assert_held(&ep->dev->ctl->lock);
	list_for_each_entry_safe(chan, next, &ep->resting, rest) {
		if (!unetmm_chan_rested(ep, chan))
			break;
		list_del(&chan->rest);
		__clear_bit(chan->number, ep->chan_map);
		unetmm_chan_put(chan);
	}
	return find_first_zero_bit(ep->chan_map, ep->dev->hw.channels);
}

/* ---- Channels --------------------------------------------------------------- */

/*
 * A channel number of the endpoint, not open yet.  -ENOSPC: the endpoint has no number
 * left, or the card no slot; -EDQUOT: its user has all channels or slots that it may
 * have.
 */
struct unetmm_chan *unetmm_chan_new(struct unetmm_ep *ep, const u8 *mac,
				    const struct unetmm_chan_params *params)
{
	struct unetmm_dev *dev = ep->dev;
	struct unetmm_chan *chan;
	u32 number;
	int ret;

	lockdep_assert_held(&dev->ctl->lock);
	number = unetmm_chan_number(ep);
	if (number >= dev->hw.channels)
		return ERR_PTR(-ENOSPC);
	/* A disk of verbs, whose queue pairs are made anew, may wait for the lock. */
	chan = kzalloc(sizeof(*chan), GFP_NOIO | __GFP_ACCOUNT);
	if (!chan)
		return ERR_PTR(-ENOMEM);
	chan->ep = ep;
	chan->params = *params;
	ret = unetmm_chan_reserve(chan);
	if (ret) {
		kfree(chan);
		return ERR_PTR(ret);
	}
	__set_bit(number, ep->chan_map);
	kref_init(&chan->ref);
	INIT_LIST_HEAD(&chan->accept_node);
	INIT_HLIST_NODE(&chan->hash);
	chan->ep_id = ep->id;
	chan->number = number;
	chan->state = UNETMM_CHAN_CONNECTING;
	/* The remains of an earlier channel must not fit this one. */
	if (params->type == UNETMM_CHANNEL_RELIABLE)
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

	lockdep_assert_held(&ctl->lock);
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
	return (chan->params.tell ? UNETMM_CHANNEL_F_TELL : 0) |
	       (chan->params.rewind ? UNETMM_CHANNEL_F_REWIND : 0) |
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
			.type = chan->params.type,
			.retries = chan->params.retries,
			.mtu = cpu_to_le32(mtu),
			.not_ready_retries = chan->params.not_ready_retries,
			.flags = unetmm_chan_flags(chan),
			.not_ready_us = cpu_to_le32(chan->params.not_ready_us),
			.timeout_us = cpu_to_le32(chan->params.timeout_us),
			.send_psn = cpu_to_le32(chan->send_psn),
			.recv_psn = cpu_to_le32(chan->recv_psn),
			.send_credits = cpu_to_le32(chan->send_credits),
			.recv_credits = cpu_to_le32(chan->recv_credits),
		},
	};
	int ret;

	lockdep_assert_held(&ep->dev->ctl->lock);
	ether_addr_copy(cmd.channel.peer_mac, chan->mac);
	chan->cq_begin = unetmm_cq_prod(ep);
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

/* `tell`: the process is to learn of it, if it wanted that. */
static void unetmm_chan_clear(struct unetmm_chan *chan, bool tell)
{
	struct unetmm_ep *ep = chan->ep;

	lockdep_assert_held(&ep->dev->ctl->lock);
	chan->owes = unetmm_chan_off(ep, chan->number, tell);
	if (chan->state != UNETMM_CHAN_OPEN)
		return;
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

/* Channels in the backlog: those that have ended, or the others. */
u32 unetmm_chan_backlog(const struct unetmm_ep *ep, bool ended)
{
	const struct unetmm_chan *chan;
	u32 n = 0;

	lockdep_assert_held(&ep->dev->ctl->lock);
	list_for_each_entry(chan, &ep->accepts, accept_node)
		n += (chan->state == UNETMM_CHAN_CLOSED) == ended;
	return n;
}

/* May the process, which is told of ends, have seen a completion of the channel? */
static bool unetmm_chan_seen(const struct unetmm_chan *chan)
{
	return chan->params.tell && unetmm_cq_prod(chan->ep) != chan->cq_begin;
}

/*
 * The peer's half is gone; our number stays until the process gives it back.  A channel
 * that nobody has accepted ends; but if the process may have seen a completion of it, it
 * can still accept the channel: so it knows whose completion it was.  As many of these
 * as the backlog has places stay, beside the others.
 */
void unetmm_chan_hangup(struct unetmm_chan *chan)
{
	if (list_empty(&chan->accept_node))
		unetmm_chan_clear(chan, chan->given);
	else if (unetmm_chan_seen(chan) &&
		 unetmm_chan_backlog(chan->ep, true) < chan->ep->backlog)
		unetmm_chan_clear(chan, true);
	else
		unetmm_chan_end(chan, false);
}

/* Ends our half: the number rests.  `tell`: the peer is to end its half. */
void unetmm_chan_end(struct unetmm_chan *chan, bool tell)
{
	bool open = chan->state == UNETMM_CHAN_OPEN || chan->state == UNETMM_CHAN_CLOSED;
	struct unetmm_ep *ep = chan->ep;
	bool sent;

	lockdep_assert_held(&ep->dev->ctl->lock);
	tell &= chan->state != UNETMM_CHAN_CLOSED;
	sent = tell && unetmm_tell_close(ep->dev, chan);
	if (open)
		unetmm_chan_clear(chan, chan->given);
	unetmm_chan_unreserve(chan);
	unetmm_chan_unaccept(chan);
	WRITE_ONCE(chan->state, UNETMM_CHAN_CLOSED);
	list_del(&chan->node);
	unetmm_chan_rest(ep, chan, open);
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
