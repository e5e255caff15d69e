// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: channels, and the effects of control messages on them.
 *
 * All under ctl.lock.  A peer's use of memory and time is bounded: channels per
 * endpoint, backlog per listener, of which one card has a share, refusals per
 * second.  Channels without a peer are found and ended when there is no room for
 * others (channel/liveness.c); channel/close.c repeats the message of a channel's end.
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

static void unetmm_chan_free(struct kref *ref)
{
	kfree(container_of(ref, struct unetmm_chan, ref));
}

void unetmm_chan_put(struct unetmm_chan *chan)
{
	kref_put(&chan->ref, unetmm_chan_free);
}

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

static struct unetmm_chan *unetmm_chan_find(struct unetmm_ctl *ctl,
					    const u8 *mac, u16 ep, u16 channel)
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

/* Those of our card. */
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
static int unetmm_chan_open(struct unetmm_chan *chan, u16 peer_ep,
			    u16 peer_channel, u32 mtu)
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

/* The accepting process never learnt of it: it is the next to be accepted again. */
void unetmm_chan_unclaim(struct unetmm_ep *ep, u32 number)
{
	struct unetmm_chan *chan;

	lockdep_assert_held(&ep->dev->ctl->lock);
	list_for_each_entry(chan, &ep->chans, node) {
		if (chan->number != number || !chan->passive ||
		    !list_empty(&chan->accept_node))
			continue;
		if (chan->state == UNETMM_CHAN_OPEN) {
			unetmm_liveness_accepted(chan);
			list_add(&chan->accept_node, &ep->accepts);
			ep->nbacklog++;
		} else {
			unetmm_chan_end(chan, false);
		}
		return;
	}
}

void unetmm_chan_close_all(struct unetmm_ep *ep)
{
	struct unetmm_ctl *ctl = ep->dev->ctl;
	struct unetmm_chan *chan, *next;

	mutex_lock(&ctl->lock);
	WRITE_ONCE(ep->closed, true);
	hash_del(&ep->service_node);
	unetmm_announce(ep, false);
	unetmm_liveness_forget(ep);
	list_for_each_entry_safe(chan, next, &ep->chans, node)
		unetmm_chan_end(chan, true);
	mutex_unlock(&ctl->lock);
	wake_up_all(&ep->wait);
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

/*
 * A process that ends loses its memory before its files are closed: messages
 * to it fail from then on, so it is no longer one to connect to.
 */
static struct unetmm_ep *unetmm_listener(struct unetmm_ctl *ctl, u64 service)
{
	struct unetmm_ep *ep;

	hash_for_each_possible(ctl->services, ep, service_node, service) {
		if (ep->service == service)
			return READ_ONCE(ep->space->closing) ? NULL : ep;
	}
	return NULL;
}

static void unetmm_answer_connect(struct unetmm_dev *dev, const u8 *mac,
				  const struct unetmm_control *msg, u8 status,
				  const struct unetmm_chan *chan)
{
	struct unetmm_control ack = {
		.type = UNETMM_CTL_CONNECT_ACK,
		.status = status,
		.dst_ep = msg->src_ep,
		.dst_channel = msg->src_channel,
		.service = msg->service,
		.nonce = msg->nonce,
	};

	if (chan) {
		ack.src_ep = cpu_to_le16(chan->ep->id);
		ack.src_channel = cpu_to_le16(chan->number);
		ack.channel_type = chan->how.type;
		ack.mtu = cpu_to_le32(chan->mtu);
		ack.psn = cpu_to_le32(chan->send_psn);
		ack.request = cpu_to_le32(chan->recv_credits);
		ack.rights = chan->features;
	} else if (!__ratelimit(&dev->ctl->refusals)) {
		return;
	}
	unetmm_mailbox_send(dev, mac, &ack);
}

static bool unetmm_takes(const struct unetmm_ep *ep, u8 type)
{
	switch (type) {
	case UNETMM_CHANNEL_DATAGRAM:
		return ep->takes & UNETMM_LISTEN_DATAGRAM;
	case UNETMM_CHANNEL_RELIABLE:
		return ep->takes & UNETMM_LISTEN_RELIABLE;
	default:
		return false;
	}
}

/* ---- Questions and answers -------------------------------------------------- */

/*
 * One card has half of a backlog, so that another one's question finds a place.  A
 * caller on our own card is known, and has all of it.
 */
static bool unetmm_has_share(const struct unetmm_ep *ep, const u8 *mac)
{
	u32 share = DIV_ROUND_UP(ep->backlog, 2), n = 0;
	const struct unetmm_chan *chan;

	if (ether_addr_equal(mac, ep->dev->hw.mac))
		return false;
	list_for_each_entry(chan, &ep->accepts, accept_node)
		n += ether_addr_equal(chan->mac, mac);
	return n >= share;
}

/* NULL: there is no room.  Channels without a peer may have it: they are looked for. */
static struct unetmm_chan *unetmm_refuse(struct unetmm_ep *ep, bool share,
					 enum unetmm_want want)
{
	if (share)
		unetmm_count(ep->dev, refused_share);
	else
		unetmm_count(ep->dev, refused_full);
	unetmm_liveness_hunt(ep, want);
	return NULL;
}

/* Of a channel that could not be made.  No channel has memory that is wanted. */
static enum unetmm_want unetmm_chan_wants(const struct unetmm_ep *ep, int err)
{
	const struct unetmm_dev *dev = ep->dev;

	switch (err) {
	case -EDQUOT:
		/* By the rule, the share depends on the channels of all users. */
		return unetmm_param(dev, UNETMM_P_user_channels) ||
		       unetmm_param(dev, UNETMM_P_user_redirect_slots) ?
		       UNETMM_WANT_USER : UNETMM_WANT_CARD;
	case -ENOSPC:
		return bitmap_full(ep->chan_map, ep->dev->hw.channels) ?
		       UNETMM_WANT_NUMBER : UNETMM_WANT_CARD;
	default:
		return UNETMM_WANT_PLACE;
	}
}

static struct unetmm_chan *unetmm_accept_new(struct unetmm_ep *ep,
					     const u8 *mac,
					     const struct unetmm_control *msg,
					     u32 mtu)
{
	struct unetmm_chan_how how = { .type = msg->channel_type };
	struct unetmm_chan *chan;
	int ret;

	if (unetmm_has_share(ep, mac))
		return unetmm_refuse(ep, true, UNETMM_WANT_PLACE);
	if (ep->nbacklog >= ep->backlog)
		return unetmm_refuse(ep, false, UNETMM_WANT_PLACE);
	if (how.type == UNETMM_CHANNEL_RELIABLE)
		how = ep->how;
	how.tell = ep->how.tell;
	chan = unetmm_chan_new(ep, mac, &how);
	if (IS_ERR(chan))
		return unetmm_refuse(ep, false,
				     unetmm_chan_wants(ep, PTR_ERR(chan)));
	chan->passive = true;
	chan->confirmed = ether_addr_equal(mac, ep->dev->hw.mac);
	chan->probe_key = get_random_u32();
	chan->nonce = le64_to_cpu(msg->nonce);
	chan->recv_psn = le32_to_cpu(msg->psn);
	chan->send_credits = le32_to_cpu(msg->request);
	/* Features that we do not know are of no use to us. */
	if (how.type == UNETMM_CHANNEL_RELIABLE)
		chan->features = msg->status & unetmm_features(ep->dev);
	ret = unetmm_chan_open(chan, le16_to_cpu(msg->src_ep),
			       le16_to_cpu(msg->src_channel), mtu);
	if (ret) {
		unetmm_chan_end(chan, false);
		return unetmm_refuse(ep, false, UNETMM_WANT_CARD);
	}
	list_add_tail(&chan->accept_node, &ep->accepts);
	ep->nbacklog++;
	unetmm_count(ep->dev, accepts);
	wake_up_all(&ep->wait);
	wake_up_interruptible_poll(&ep->file->wait, EPOLLPRI);
	return chan;
}

/*
 * The members that a question and its answer share; the others are not checked here.
 * `features` is where the message has them.
 */
static bool unetmm_connect_sane(const struct unetmm_control *msg, u8 features)
{
	return le32_to_cpu(msg->request) <= UNETMM_MOST_CREDITS &&
	       (msg->channel_type == UNETMM_CHANNEL_RELIABLE ||
		(!msg->psn && !msg->request && !features));
}

static void unetmm_got_connect(struct unetmm_dev *dev, const u8 *mac,
			       const struct unetmm_control *msg)
{
	struct unetmm_ctl *ctl = dev->ctl;
	u32 mtu = min(le32_to_cpu(msg->mtu), dev->hw.user_mtu);
	struct unetmm_chan *chan;
	struct unetmm_ep *ep;

	if (mtu < UNETMM_MIN_MTU || !msg->service || msg->rights ||
	    !unetmm_connect_sane(msg, msg->status)) {
		unetmm_count(dev, control_bad);
		return;
	}
	chan = unetmm_chan_find(ctl, mac, le16_to_cpu(msg->src_ep),
				le16_to_cpu(msg->src_channel));
	if (chan && chan->nonce == le64_to_cpu(msg->nonce)) {
		/* Asked again: our answer was lost. */
		if (chan->passive)
			unetmm_answer_connect(dev, mac, msg, UNETMM_CTL_ST_OK,
					      chan);
		return;
	}
	/* Another nonce: the peer has started anew. */
	if (chan)
		unetmm_chan_hangup(chan);
	ep = unetmm_listener(ctl, le64_to_cpu(msg->service));
	if (!ep) {
		unetmm_answer_connect(dev, mac, msg, UNETMM_CTL_ST_NO_SERVICE,
				      NULL);
		return;
	}
	if (!unetmm_takes(ep, msg->channel_type)) {
		unetmm_answer_connect(dev, mac, msg, UNETMM_CTL_ST_TYPE, NULL);
		return;
	}
	chan = unetmm_accept_new(ep, mac, msg, mtu);
	unetmm_answer_connect(dev, mac, msg, chan ? UNETMM_CTL_ST_OK :
			      UNETMM_CTL_ST_FULL, chan);
}

static struct unetmm_chan *unetmm_chan_asked(struct unetmm_dev *dev,
					     const u8 *mac,
					     const struct unetmm_control *msg)
{
	struct unetmm_ep *ep = unetmm_chan_ep(dev, le16_to_cpu(msg->dst_ep));
	struct unetmm_chan *chan;

	if (!ep)
		return NULL;
	list_for_each_entry(chan, &ep->chans, node) {
		if (chan->number == le16_to_cpu(msg->dst_channel) &&
		    chan->nonce == le64_to_cpu(msg->nonce) && !chan->passive &&
		    ether_addr_equal(chan->mac, mac))
			return chan;
	}
	return NULL;
}

/* We do not want the channel that the peer has set up: it may forget it. */
static void unetmm_disown(struct unetmm_dev *dev, const u8 *mac,
			  const struct unetmm_control *msg)
{
	struct unetmm_control close = {
		.type = UNETMM_CTL_CLOSE,
		.src_ep = msg->dst_ep,
		.src_channel = msg->dst_channel,
		.dst_ep = msg->src_ep,
		.dst_channel = msg->src_channel,
		.nonce = msg->nonce,
	};

	if (__ratelimit(&dev->ctl->refusals))
		unetmm_mailbox_send(dev, mac, &close);
}

static void unetmm_chan_failed(struct unetmm_chan *chan, int error)
{
	chan->error = error;
	WRITE_ONCE(chan->state, UNETMM_CHAN_FAILED);
	wake_up_all(&chan->ep->wait);
}

/* Nobody yet, or no room: that may change.  The type does not. */
static void unetmm_got_refusal(struct unetmm_chan *chan, u8 status)
{
	if (!chan || chan->state != UNETMM_CHAN_CONNECTING)
		return;
	chan->answered = true;
	if (status == UNETMM_CTL_ST_TYPE)
		unetmm_chan_failed(chan, -EPROTOTYPE);
}

/*
 * The card is told here and not in the process that waits, so that the peer's
 * first message finds the channel open if at all possible.
 */
static void unetmm_got_connect_ack(struct unetmm_dev *dev, const u8 *mac,
				   const struct unetmm_control *msg)
{
	struct unetmm_chan *chan = unetmm_chan_asked(dev, mac, msg);
	u32 mtu = le32_to_cpu(msg->mtu);
	int ret;

	if (msg->status != UNETMM_CTL_ST_OK) {
		unetmm_got_refusal(chan, msg->status);
		return;
	}
	if (!chan || chan->state == UNETMM_CHAN_CLOSED) {
		unetmm_disown(dev, mac, msg);
		return;
	}
	if (chan->state != UNETMM_CHAN_CONNECTING)
		return;
	chan->answered = true;
	if (mtu < UNETMM_MIN_MTU || mtu > dev->hw.user_mtu ||
	    msg->channel_type != chan->how.type ||
	    msg->rights & ~unetmm_features(dev) ||
	    !unetmm_connect_sane(msg, msg->rights)) {
		unetmm_count(dev, control_bad);
		return;
	}
	chan->recv_psn = le32_to_cpu(msg->psn);
	chan->send_credits = le32_to_cpu(msg->request);
	chan->features = msg->rights;
	ret = unetmm_chan_open(chan, le16_to_cpu(msg->src_ep),
			       le16_to_cpu(msg->src_channel), mtu);
	if (ret) {
		unetmm_chan_failed(chan, ret == -ENOSPC ? ret : -EIO);
		return;
	}
	unetmm_count(dev, connects);
	wake_up_all(&chan->ep->wait);
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

static void unetmm_got_close(struct unetmm_dev *dev, const u8 *mac,
			     const struct unetmm_control *msg)
{
	struct unetmm_control ack = {
		.type = UNETMM_CTL_CLOSE_ACK,
		.src_ep = msg->dst_ep,
		.src_channel = msg->dst_channel,
		.dst_ep = msg->src_ep,
		.dst_channel = msg->src_channel,
		.nonce = msg->nonce,
	};
	struct unetmm_chan *chan;

	chan = unetmm_chan_find(dev->ctl, mac, le16_to_cpu(msg->src_ep),
				le16_to_cpu(msg->src_channel));
	if (chan && chan->nonce == le64_to_cpu(msg->nonce))
		unetmm_chan_hangup(chan);
	/* Also if there was no such channel: the last answer may be lost. */
	if (unetmm_may_now(&dev->ctl->close_acks, unetmm_mac_key(dev->ctl, mac, 0)))
		unetmm_mailbox_send(dev, mac, &ack);
}

/*
 * Has a process here asked for the channel that a PROBE names?  While the answer to its
 * CONNECT is on the way the other half is not known.
 */
static bool unetmm_chan_ours(struct unetmm_dev *dev, const u8 *mac,
			     const struct unetmm_control *msg)
{
	struct unetmm_ep *ep = unetmm_chan_ep(dev, le16_to_cpu(msg->dst_ep));
	const struct unetmm_chan *chan;

	if (!ep)
		return false;
	list_for_each_entry(chan, &ep->chans, node) {
		if (chan->number == le16_to_cpu(msg->dst_channel))
			return !chan->passive &&
			       ether_addr_equal(chan->mac, mac) &&
			       (chan->state == UNETMM_CHAN_CONNECTING ||
				(chan->state == UNETMM_CHAN_OPEN &&
				 chan->peer_ep == le16_to_cpu(msg->src_ep) &&
				 chan->peer_channel ==
				 le16_to_cpu(msg->src_channel)));
	}
	return false;
}

static void unetmm_got_probe(struct unetmm_dev *dev, const u8 *mac,
			     const struct unetmm_control *msg)
{
	struct unetmm_control ack = {
		.type = UNETMM_CTL_PROBE_ACK,
		.mtu = cpu_to_le32(min(le32_to_cpu(msg->mtu),
				       dev->hw.user_mtu)),
		.nonce = msg->nonce,
	};

	/* Endpoint 0, which has no channels, asks whether there is a driver. */
	if (msg->src_ep && !unetmm_chan_ours(dev, mac, msg))
		return;
	/* A channel may depend on it: refusals do not use that up, nor others. */
	if (unetmm_may_now(&dev->ctl->probe_acks, unetmm_mac_key(dev->ctl, mac, 0)))
		unetmm_mailbox_send(dev, mac, &ack);
}

static void unetmm_got_probe_ack(struct unetmm_dev *dev, const u8 *mac,
				 const struct unetmm_control *msg)
{
	struct unetmm_question *q;
	struct unetmm_probe_wait *wait;

	q = unetmm_question_find(&dev->ctl->probes, le64_to_cpu(msg->nonce));
	wait = q ? container_of(q, struct unetmm_probe_wait, q) : NULL;
	if (wait && ether_addr_equal(wait->mac, mac)) {
		wait->mtu = min(le32_to_cpu(msg->mtu), dev->hw.user_mtu);
		WRITE_ONCE(wait->answered, true);
		wake_up_all(&q->wait);
	}
	unetmm_chan_confirm(dev, mac, le64_to_cpu(msg->nonce));
}

/* A control message from the wire, or from ourselves. */
void unetmm_control(struct unetmm_dev *dev, const u8 *mac,
		    const struct unetmm_control_named *named)
{
	const struct unetmm_control *msg = &named->head;

	lockdep_assert_held(&dev->ctl->lock);
	switch (msg->type) {
	case UNETMM_CTL_PROBE:
		unetmm_got_probe(dev, mac, msg);
		break;
	case UNETMM_CTL_PROBE_ACK:
		unetmm_got_probe_ack(dev, mac, msg);
		break;
	case UNETMM_CTL_CONNECT:
		unetmm_got_connect(dev, mac, msg);
		break;
	case UNETMM_CTL_CONNECT_ACK:
		unetmm_got_connect_ack(dev, mac, msg);
		break;
	case UNETMM_CTL_CLOSE:
		unetmm_got_close(dev, mac, msg);
		break;
	case UNETMM_CTL_CLOSE_ACK:
		unetmm_got_close_ack(dev, mac, msg);
		break;
	case UNETMM_CTL_IMPORT:
		dev->up->got_import(dev, mac, msg);
		break;
	case UNETMM_CTL_IMPORT_ACK:
		dev->up->got_import_ack(dev, mac, msg);
		break;
	case UNETMM_CTL_PEERS:
		unetmm_got_peers(dev, mac, msg);
		break;
	case UNETMM_CTL_PEER:
		unetmm_got_peer(dev, mac, named);
		break;
	default:
		unetmm_count(dev, control_bad);
		break;
	}
}
