// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the effects of control messages on channels.
 *
 * All under ctl.lock.  A peer's use of memory and time is bounded: channels per
 * endpoint, backlog per listener, of which one card has a share, refusals per
 * second.  Channels without a peer are found and ended when there is no room for
 * others (channel/liveness.c).
 */
#include <linux/etherdevice.h>
#include <linux/random.h>

#include "channel/channel.h"
#include "redirect/redirect.h"
#include "ep/ep.h"
#include "base/base.h"

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
		ack.channel_type = chan->params.type;
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
		n += chan->state == UNETMM_CHAN_OPEN &&
		     ether_addr_equal(chan->mac, mac);
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
	struct unetmm_chan_params params = { .type = msg->channel_type };
	struct unetmm_chan *chan;
	int ret;

	if (unetmm_has_share(ep, mac))
		return unetmm_refuse(ep, true, UNETMM_WANT_PLACE);
	/* Ended channels take no place from new ones. */
	if (unetmm_chan_backlog(ep, false) >= ep->backlog)
		return unetmm_refuse(ep, false, UNETMM_WANT_PLACE);
	if (params.type == UNETMM_CHANNEL_RELIABLE)
		params = ep->params;
	params.tell = ep->params.tell;
	chan = unetmm_chan_new(ep, mac, &params);
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
	if (params.type == UNETMM_CHANNEL_RELIABLE)
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
	    msg->channel_type != chan->params.type ||
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
static void unetmm_control(struct unetmm_dev *dev, const u8 *mac,
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

/* With the card's structure. */
void unetmm_ctl_init(struct unetmm_dev *dev)
{
	struct unetmm_ctl *ctl = dev->ctl;

	ctl->dev = dev;
	ctl->got = unetmm_control;
	mutex_init(&ctl->lock);
	INIT_WORK(&ctl->work, unetmm_mailbox_work);
	INIT_DELAYED_WORK(&ctl->liveness, unetmm_liveness_work);
	unetmm_close_init(ctl);
	INIT_LIST_HEAD(&ctl->hunts);
	ctl->probes = RB_ROOT;
	ctl->asks = RB_ROOT;
	ctl->imports = RB_ROOT;
	hash_init(ctl->services);
	hash_init(ctl->chans);
	ratelimit_state_init(&ctl->refusals, HZ, 1000);
	ratelimit_set_flags(&ctl->refusals, RATELIMIT_MSG_ON_RELEASE);
	unetmm_rates_init(&ctl->probes_sent, UNETMM_USER_PROBES);
	unetmm_rates_init(&ctl->probe_acks, UNETMM_PEER_PROBES);
	unetmm_rates_init(&ctl->close_acks, UNETMM_PEER_CLOSES);
	unetmm_rates_init(&ctl->peers_sent, UNETMM_PEER_ASKS);
	unetmm_rates_init(&ctl->peer_answers, UNETMM_PEER_ASKS);
	ctl->seed = get_random_u32();
}
