// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: which channels have a peer.
 *
 * Any station on the wire can send a CONNECT in the name of a card that does not exist.
 * When a listener refuses a CONNECT for want of room, the driver sends a PROBE to the
 * peer of each doubtful channel: one that a peer has opened and not confirmed yet.  The
 * PROBE names both halves of the channel, and a driver that has not asked for the
 * channel is silent: a CONNECT may have been sent in the name of a card that exists.
 * The answer has the channel and a key in its nonce, and confirms the channel permanently.
 * A channel whose peer does not answer several PROBEs ends.  As long as there is room no
 * PROBE is sent.
 *
 * Only channels that occupy the scarce resource are probed: those in the backlog, if a
 * place in it is wanted; those of the endpoint, if a channel number is; those of its
 * user's endpoints, if the user has all reliable channels, or all slots of the system
 * buffer, that an administrator allows; those of all endpoints, if the card has no
 * channel or slot left, or the user's share depends on the others', the refusing
 * listener's first.
 *
 * A channel that no process has accepted has 0.4 s.  An accepted channel may be in use: the wait
 * doubles after each PROBE, 12.75 s in all, so that a peer that is busy for some seconds
 * keeps its channels.  While the link is down no PROBE is sent, and none of before
 * counts.
 *
 * All under ctl.lock.
 */
#include <linux/etherdevice.h>
#include <linux/ktime.h>

#include "channel/channel.h"
#include "ep/ep.h"
#include "space/space.h"
#include "base/base.h"

#define UNETMM_LIVENESS_PROBES	8
#define UNETMM_LIVENESS_PATIENCE	(50 * NSEC_PER_MSEC)	/* after the first */
#define UNETMM_LIVENESS_PAUSE_MS	10
#define UNETMM_LIVENESS_LINK_MS	100	/* without a link */
/*
 * Limits of one run: channels of refusing listeners, and of all, that are probed or
 * ended; listeners, and buckets of the hash, that are looked at.
 */
#define UNETMM_LIVENESS_TURN	16
#define UNETMM_LIVENESS_CARD_TURN	8
#define UNETMM_LIVENESS_LISTENERS	16
#define UNETMM_LIVENESS_BUCKETS	256

/* ---- One channel ------------------------------------------------------------- */

/* Another card has asked for it, and has not been heard of since. */
static bool unetmm_chan_doubtful(const struct unetmm_chan *chan)
{
	return chan->passive && !chan->confirmed &&
	       chan->state == UNETMM_CHAN_OPEN;
}

/* How long an answer to the last question is waited for. */
static u64 unetmm_chan_patience(const struct unetmm_chan *chan)
{
	if (!list_empty(&chan->accept_node))
		return UNETMM_LIVENESS_PATIENCE;
	return UNETMM_LIVENESS_PATIENCE << (chan->probes - 1);
}

/* A question that there is no room for is none: it is asked in the next run. */
static void unetmm_chan_probe(struct unetmm_chan *chan, u64 now)
{
	struct unetmm_ep *ep = chan->ep;
	struct unetmm_control msg = {
		.type = UNETMM_CTL_PROBE,
		.src_ep = cpu_to_le16(ep->id),
		.src_channel = cpu_to_le16(chan->number),
		.dst_ep = cpu_to_le16(chan->peer_ep),
		.dst_channel = cpu_to_le16(chan->peer_channel),
		.mtu = cpu_to_le32(ep->dev->hw.user_mtu),
		.nonce = cpu_to_le64((u64)chan->probe_key << 32 |
				     (u32)ep->id << 16 | chan->number),
	};

	if (!unetmm_mailbox_send(ep->dev, chan->mac, &msg))
		return;
	chan->probes++;
	chan->probed_ns = now;
	/* The endpoint's others come before it the next time. */
	list_move_tail(&chan->node, &ep->chans);
}

/* The answer to that, if it is one. */
void unetmm_chan_confirm(struct unetmm_dev *dev, const u8 *mac, u64 nonce)
{
	struct unetmm_ep *ep = unetmm_chan_ep(dev, nonce >> 16 & U16_MAX);
	struct unetmm_chan *chan;

	lockdep_assert_held(&dev->ctl->lock);
	if (!ep)
		return;
	list_for_each_entry(chan, &ep->chans, node) {
		if (chan->number == (nonce & U16_MAX) && chan->probes &&
		    chan->probe_key == nonce >> 32 &&
		    ether_addr_equal(chan->mac, mac)) {
			if (!chan->confirmed)
				unetmm_count(dev, confirmed);
			chan->confirmed = true;
			return;
		}
	}
}

/*
 * The peer gets the full number of probes again; called when the channel is accepted, or put
 * back into the backlog.
 */
void unetmm_liveness_restart(struct unetmm_chan *chan)
{
	chan->probes = min_t(u8, chan->probes, 1);
}

/*
 * A CLOSE tells the peer, which may be there although nothing was heard of it.  A channel
 * that nobody has accepted leaves no place taken: the caller may have been forged.
 */
static void unetmm_chan_end_silent(struct unetmm_chan *chan)
{
	unetmm_count(chan->ep->dev, ghosts);
	unetmm_tell_close(chan->ep->dev, chan);
	if (list_empty(&chan->accept_node))
		unetmm_chan_hangup(chan);
	else
		unetmm_chan_end(chan, false);
}

/* Asks or ends it if it is time.  True: it is doubtful, and to be looked at again. */
static bool unetmm_hunt_one(struct unetmm_chan *chan, u64 now, u32 *turn)
{
	if (!unetmm_chan_doubtful(chan))
		return false;
	if (!chan->ep->dev->ctl->hunt_link) {
		chan->probes = min_t(u8, chan->probes, 1);
		chan->probed_ns = now;
		return true;
	}
	if (!*turn || (chan->probes &&
		       now - chan->probed_ns < unetmm_chan_patience(chan)))
		return true;
	(*turn)--;
	if (chan->probes < UNETMM_LIVENESS_PROBES) {
		unetmm_chan_probe(chan, now);
		return true;
	}
	unetmm_chan_end_silent(chan);
	return false;
}

/* ---- All of them ------------------------------------------------------------- */

static bool unetmm_hunt_ep(struct unetmm_ep *ep, u64 now, u32 *turn)
{
	struct unetmm_chan *chan, *next;
	bool left = false;

	list_for_each_entry_safe(chan, next, &ep->chans, node) {
		if (ep->hunt_all || !list_empty(&chan->accept_node))
			left |= unetmm_hunt_one(chan, now, turn);
	}
	return left;
}

static void unetmm_hunt_listeners(struct unetmm_ctl *ctl, u64 now)
{
	u32 turn = UNETMM_LIVENESS_TURN, n = UNETMM_LIVENESS_LISTENERS;
	struct unetmm_ep *ep;
	LIST_HEAD(todo);

	list_splice_init(&ctl->hunts, &todo);
	while (turn && n-- && !list_empty(&todo)) {
		ep = list_first_entry(&todo, struct unetmm_ep, hunt_node);
		if (unetmm_hunt_ep(ep, now, &turn))
			list_move_tail(&ep->hunt_node, &ctl->hunts);
		else
			unetmm_liveness_forget(ep);
	}
	/* The others are the first of the next run. */
	list_splice(&todo, &ctl->hunts);
}

/* Goes on where the last run has ended, until it has been round without a doubt. */
static void unetmm_hunt_card(struct unetmm_ctl *ctl, u64 now)
{
	u32 turn = UNETMM_LIVENESS_CARD_TURN, n = UNETMM_LIVENESS_BUCKETS;
	struct unetmm_chan *chan;
	struct hlist_node *next;
	bool left;

	while (turn && n-- && ctl->hunt_left) {
		left = false;
		hlist_for_each_entry_safe(chan, next,
					  &ctl->chans[ctl->hunt_bucket], hash)
			left |= unetmm_hunt_one(chan, now, &turn);
		ctl->hunt_left = left ? HASH_SIZE(ctl->chans) :
				 ctl->hunt_left - 1;
		ctl->hunt_bucket = (ctl->hunt_bucket + 1) %
				   HASH_SIZE(ctl->chans);
	}
}

static void unetmm_liveness_add(struct unetmm_ep *ep, bool all)
{
	if (list_empty(&ep->hunt_node))
		list_add_tail(&ep->hunt_node, &ep->dev->ctl->hunts);
	ep->hunt_all |= all;
}

/* Endpoints of the same user that have channels, too. */
static void unetmm_liveness_add_user(const struct unetmm_ep *ep)
{
	struct unetmm_dev *dev = ep->dev;
	struct unetmm_ep *other;
	u32 id;

	for (id = 1; id < dev->hw.endpoints; id++) {
		other = unetmm_chan_ep(dev, id);
		if (other && !list_empty(&other->chans) &&
		    other->space->user == ep->space->user)
			unetmm_liveness_add(other, true);
	}
}

/* The listener has refused somebody for want of that. */
void unetmm_liveness_hunt(struct unetmm_ep *ep, enum unetmm_want want)
{
	struct unetmm_ctl *ctl = ep->dev->ctl;

	lockdep_assert_held(&ctl->lock);
	unetmm_liveness_add(ep, want != UNETMM_WANT_PLACE);
	if (want == UNETMM_WANT_USER)
		unetmm_liveness_add_user(ep);
	if (want == UNETMM_WANT_CARD)
		ctl->hunt_left = HASH_SIZE(ctl->chans);
	queue_delayed_work(unetmm_wq, &ctl->liveness, 0);
}

void unetmm_liveness_forget(struct unetmm_ep *ep)
{
	lockdep_assert_held(&ep->dev->ctl->lock);
	list_del_init(&ep->hunt_node);
	ep->hunt_all = false;
}

void unetmm_liveness_work(struct work_struct *work)
{
	struct unetmm_ctl *ctl = container_of(to_delayed_work(work),
					      struct unetmm_ctl, liveness);
	struct unetmm_dev *dev = ctl->dev;
	u64 now;

	mutex_lock(&ctl->lock);
	if (!ctl->ep || !unetmm_reachable(dev))
		goto unlock;
	/* Not before: another thread may have had the lock for long. */
	now = ktime_get_ns();
	ctl->hunt_link = unetmm_link_up(dev);
	unetmm_hunt_listeners(ctl, now);
	unetmm_hunt_card(ctl, now);
	if (!list_empty(&ctl->hunts) || ctl->hunt_left)
		queue_delayed_work(unetmm_wq, &ctl->liveness,
				   msecs_to_jiffies(ctl->hunt_link ?
						    UNETMM_LIVENESS_PAUSE_MS :
						    UNETMM_LIVENESS_LINK_MS));
unlock:
	mutex_unlock(&ctl->lock);
}
