// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: CLOSE messages, until the peer has answered.
 *
 * A CLOSE that is lost would leave the peer's half of the channel for ever: neither its
 * process nor its driver has a reason to ask.  So the driver that has ended a channel
 * keeps the channel's structure in a list, and repeats the CLOSE until a CLOSE_ACK comes
 * or UNETMM_CLOSE_TRIES messages have had no answer (`closes_given_up`).  The wait
 * doubles after each message, 10.2 s in all.  A message that the queue of the control
 * endpoint has no room for, and the time without a link, do not count.  A reset of the
 * card keeps the list: the card that starts again sends the CLOSEs of the channels that
 * the reset has ended.
 *
 * LIMITS.  All users together have UNETMM_CLOSES_MOST places, of which each has its
 * share (space/limits.c).  The peers whose addresses have the same hash have half of the
 * places together, so that a peer that does not answer leaves places to the others.  A
 * CLOSE without a place is sent once.
 *
 * NOT REPEATED is a CLOSE to a peer that was silent to eight PROBEs (channel/liveness.c), and
 * one that answers a CONNECT_ACK of a channel that nobody wants.  No process has closed
 * these channels, so nobody could be charged, and a hostile station could ask for both.
 *
 * The channels that have been sent the same number of messages wait equally long, so each
 * of the lists is in the order of time.  All under ctl.lock.
 */
#include <linux/etherdevice.h>
#include <linux/jiffies.h>

#include "channel/channel.h"
#include "ep/ep.h"
#include "space/space.h"
#include "base/base.h"

#define UNETMM_CLOSE_PATIENCE	msecs_to_jiffies(10)	/* after the first */
#define UNETMM_CLOSE_TURN	32	/* messages of one run */
#define UNETMM_CLOSE_PAUSE	msecs_to_jiffies(4)	/* without room for one */
#define UNETMM_CLOSE_LINK	msecs_to_jiffies(100)	/* without a link */

/* How long the answer to the last of `tries` messages is waited for. */
static unsigned long unetmm_close_patience(u32 tries)
{
	return tries ? UNETMM_CLOSE_PATIENCE << (tries - 1) :
		       UNETMM_CLOSE_PAUSE;
}

/* False: the card is slow to send. */
bool unetmm_tell_close(struct unetmm_dev *dev, const struct unetmm_chan *chan)
{
	struct unetmm_control msg = {
		.type = UNETMM_CTL_CLOSE,
		.src_ep = cpu_to_le16(chan->ep_id),
		.src_channel = cpu_to_le16(chan->number),
		.dst_ep = cpu_to_le16(chan->peer_ep),
		.dst_channel = cpu_to_le16(chan->peer_channel),
		.nonce = cpu_to_le64(chan->nonce),
	};

	return unetmm_mailbox_send(dev, chan->mac, &msg);
}

static u32 *unetmm_close_group(struct unetmm_ctl *ctl, const u8 *mac)
{
	return &ctl->closes_of[unetmm_mac_key(ctl, mac, 0) %
			       UNETMM_LIMIT_GROUPS];
}

static u32 unetmm_close_key(const struct unetmm_ctl *ctl, const u8 *mac,
			    u16 ep, u16 number)
{
	return unetmm_mac_key(ctl, mac, (u32)ep << 16 | number);
}

static void unetmm_close_wait(struct unetmm_ctl *ctl, struct unetmm_chan *chan)
{
	chan->close_at = jiffies + unetmm_close_patience(chan->closes);
	list_add_tail(&chan->node, &ctl->closes[chan->closes]);
}

/* How long it is until the next CLOSE is to be sent. */
static unsigned long unetmm_close_next(struct unetmm_ctl *ctl)
{
	unsigned long now = jiffies, next = unetmm_close_patience(UNETMM_CLOSE_TRIES);
	const struct unetmm_chan *chan;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(ctl->closes); i++) {
		chan = list_first_entry_or_null(&ctl->closes[i],
						struct unetmm_chan, node);
		if (chan)
			next = min(next, time_after(chan->close_at, now) ?
				   chan->close_at - now : 0);
	}
	return next;
}

/*
 * The channel has left its endpoint, whose space is `space`, and its CLOSE has been sent
 * or not.  True: the list has the caller's reference to the channel.
 */
bool unetmm_close_keep(struct unetmm_aspace *space, struct unetmm_chan *chan,
		       bool sent)
{
	struct unetmm_dev *dev = space->dev;
	struct unetmm_ctl *ctl = dev->ctl;
	u32 *group = unetmm_close_group(ctl, chan->mac);

	lockdep_assert_held(&ctl->lock);
	if (ctl->nclosing < UNETMM_CLOSES_MOST &&
	    *group < UNETMM_CLOSES_MOST / 2)
		chan->closer = unetmm_user_hold(space, UNETMM_USE_CLOSES);
	if (!chan->closer) {
		unetmm_count(dev, closes_given_up);
		return false;
	}
	ctl->nclosing++;
	unetmm_count(dev, closes_waiting);
	(*group)++;
	chan->closes = sent;
	hash_add(ctl->closing, &chan->hash,
		 unetmm_close_key(ctl, chan->mac, chan->ep_id, chan->number));
	unetmm_close_wait(ctl, chan);
	/* A card that has stopped has cancelled the work; its next start queues it. */
	if (unetmm_reachable(dev))
		mod_delayed_work(unetmm_wq, &ctl->close_work,
				 unetmm_close_next(ctl));
	return true;
}

static void unetmm_close_end(struct unetmm_dev *dev, struct unetmm_chan *chan)
{
	struct unetmm_ctl *ctl = dev->ctl;

	list_del(&chan->node);
	hash_del(&chan->hash);
	ctl->nclosing--;
	atomic64_dec(&dev->counters[UNETMM_D_closes_waiting]);
	(*unetmm_close_group(ctl, chan->mac))--;
	unetmm_user_release(dev, chan->closer, UNETMM_USE_CLOSES);
	unetmm_chan_put(chan);
}

void unetmm_got_close_ack(struct unetmm_dev *dev, const u8 *mac,
			  const struct unetmm_control *msg)
{
	u16 ep = le16_to_cpu(msg->dst_ep), number = le16_to_cpu(msg->dst_channel);
	struct unetmm_ctl *ctl = dev->ctl;
	struct unetmm_chan *chan;

	hash_for_each_possible(ctl->closing, chan, hash,
			       unetmm_close_key(ctl, mac, ep, number)) {
		if (chan->ep_id == ep && chan->number == number &&
		    chan->nonce == le64_to_cpu(msg->nonce) &&
		    ether_addr_equal(chan->mac, mac)) {
			unetmm_close_end(dev, chan);
			return;
		}
	}
}

/*
 * Sends the CLOSEs of one list whose time has come, *turn at most.  False: there is no
 * room for another message.
 */
static bool unetmm_close_again(struct unetmm_dev *dev, u32 tries, u32 *turn)
{
	struct list_head *list = &dev->ctl->closes[tries];
	struct unetmm_chan *chan, *next;

	list_for_each_entry_safe(chan, next, list, node) {
		if (time_before(jiffies, chan->close_at))
			return true;
		if (!*turn)
			return false;
		(*turn)--;
		if (tries == UNETMM_CLOSE_TRIES) {
			unetmm_count(dev, closes_given_up);
			unetmm_close_end(dev, chan);
			continue;
		}
		if (!unetmm_tell_close(dev, chan))
			return false;
		if (tries)
			unetmm_count(dev, closes_repeated);
		chan->closes++;
		list_del(&chan->node);
		unetmm_close_wait(dev->ctl, chan);
	}
	return true;
}

static void unetmm_close_work(struct work_struct *work)
{
	struct unetmm_ctl *ctl = container_of(to_delayed_work(work),
					      struct unetmm_ctl, close_work);
	struct unetmm_dev *dev = ctl->dev;
	u32 turn = UNETMM_CLOSE_TURN, i;
	bool room = true;

	mutex_lock(&ctl->lock);
	if (!ctl->ep || !unetmm_reachable(dev) || !ctl->nclosing)
		goto unlock;
	if (!unetmm_link_up(dev)) {
		queue_delayed_work(unetmm_wq, &ctl->close_work,
				   UNETMM_CLOSE_LINK);
		goto unlock;
	}
	/* The last list first: a channel gets one message in one run. */
	for (i = ARRAY_SIZE(ctl->closes); room && i--;)
		room = unetmm_close_again(dev, i, &turn);
	queue_delayed_work(unetmm_wq, &ctl->close_work,
			   room ? unetmm_close_next(ctl) : UNETMM_CLOSE_PAUSE);
unlock:
	mutex_unlock(&ctl->lock);
}

/* The card runs. */
void unetmm_close_start(struct unetmm_ctl *ctl)
{
	queue_delayed_work(unetmm_wq, &ctl->close_work, 0);
}

void unetmm_close_init(struct unetmm_ctl *ctl)
{
	u32 i;

	INIT_DELAYED_WORK(&ctl->close_work, unetmm_close_work);
	hash_init(ctl->closing);
	for (i = 0; i < ARRAY_SIZE(ctl->closes); i++)
		INIT_LIST_HEAD(&ctl->closes[i]);
}

/* The card has been removed. */
void unetmm_close_exit(struct unetmm_dev *dev)
{
	struct unetmm_ctl *ctl = dev->ctl;
	struct unetmm_chan *chan, *next;
	u32 i;

	mutex_lock(&ctl->lock);
	for (i = 0; i < ARRAY_SIZE(ctl->closes); i++) {
		list_for_each_entry_safe(chan, next, &ctl->closes[i], node)
			unetmm_close_end(dev, chan);
	}
	mutex_unlock(&ctl->lock);
}
