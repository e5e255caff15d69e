// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the name service: which endpoints listen, here and on the wire.
 *
 * A driver asks all cards, or one (CTL_PEERS); each driver answers with a message for
 * each endpoint that listens and may be announced (CTL_PEER).  All under ctl.lock.
 *
 * AN ANSWER IS WISHED FOR.  Without LISTEN_ANNOUNCE an endpoint is not named: any
 * station on the wire may ask, and the answer gives a process's name and service.
 *
 * A HOSTILE STATION makes each card send at most UNETMM_PEER_ANSWERS messages for one
 * that it sends, and at most UNETMM_PEER_ASKS times in a second for one address.  A hostile answer
 * takes one of the places that the asking process has provided, if it knows the nonce
 * (all stations hear a broadcast).  Its text is made printable.
 */
#include <linux/ctype.h>
#include <linux/etherdevice.h>
#include <linux/ktime.h>
#include <linux/slab.h>

#include "channel/channel.h"
#include "ep/ep.h"
#include "space/space.h"
#include "base/base.h"

#define UNETMM_PEER_ANSWERS	32	/* to one question */
#define UNETMM_PEER_QUESTIONS	3	/* of one call, since messages get lost */
#define UNETMM_PEER_PAUSE_MS	40	/* before the second; twice that before the third */

struct unetmm_peers_wait {
	struct unetmm_question q;
	u64 service;			/* 0: each */
	u8 mac[ETH_ALEN];
	bool all;			/* all cards, not `mac` */
	u32 room;
	u32 count;			/* of `found` */
	struct unetmm_listener *found;
};

static_assert(sizeof_field(struct unetmm_listener, name) ==
	      sizeof_field(struct unetmm_control_named, name));
static_assert(sizeof_field(struct unetmm_ep, name) ==
	      sizeof_field(struct unetmm_control_named, name));
static_assert(UNETMM_PEER_DATAGRAM == UNETMM_LISTEN_DATAGRAM);
static_assert(UNETMM_PEER_RELIABLE == UNETMM_LISTEN_RELIABLE);
static_assert(UNETMM_PEER_ANSWERS * UNETMM_PEER_QUESTIONS ==
	      UNETMM_ANNOUNCED_MOST);

/* ---- Answering ----------------------------------------------------------------- */

/*
 * False: the user has as many announced endpoints as it may have.  All of them together
 * are no more than the answers to the questions of one call can name.
 */
bool unetmm_announce(struct unetmm_ep *ep, bool announce)
{
	lockdep_assert_held(&ep->dev->ctl->lock);
	if (announce && !ep->announced &&
	    !unetmm_user_take(ep->space, UNETMM_USE_ANNOUNCED, 1))
		return false;
	if (ep->announced && !announce)
		unetmm_user_give(ep->space, UNETMM_USE_ANNOUNCED, 1);
	ep->announced = announce;
	return true;
}

static bool unetmm_announced(const struct unetmm_ep *ep, u64 service)
{
	return ep->announced && ep->service &&
	       (!service || ep->service == service) &&
	       !READ_ONCE(ep->space->closing);
}

static bool unetmm_answer_peer(struct unetmm_dev *dev, const u8 *mac,
			       const struct unetmm_control *ask,
			       const struct unetmm_ep *ep)
{
	struct unetmm_control_named answer = {
		.head = {
			.type = UNETMM_CTL_PEER,
			.src_ep = cpu_to_le16(ep->id),
			.rights = ep->takes,
			.mtu = cpu_to_le32(dev->hw.user_mtu),
			.service = cpu_to_le64(ep->service),
			.nonce = ask->nonce,
		},
	};

	memcpy(answer.name, ep->name, sizeof(answer.name));
	return unetmm_mailbox_send_named(dev, mac, &answer);
}

static bool unetmm_ask_sane(const struct unetmm_control *msg)
{
	const struct unetmm_control only = {
		.type = UNETMM_CTL_PEERS,
		.service = msg->service,
		.nonce = msg->nonce,
	};

	return !memcmp(msg, &only, sizeof(only)) && msg->nonce;
}

/* The call that asks; a new one has its answers from the first endpoint on. */
static struct unetmm_asker *unetmm_asker(struct unetmm_ctl *ctl, const u8 *mac,
					 u64 nonce)
{
	struct unetmm_asker *asker;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(ctl->askers); i++) {
		asker = &ctl->askers[i];
		if (asker->nonce == nonce && ether_addr_equal(asker->mac, mac))
			return asker;
	}
	asker = &ctl->askers[ctl->asker_next];
	ctl->asker_next = (ctl->asker_next + 1) % ARRAY_SIZE(ctl->askers);
	asker->nonce = nonce;
	ether_addr_copy(asker->mac, mac);
	asker->next = 0;
	return asker;
}

void unetmm_got_peers(struct unetmm_dev *dev, const u8 *mac,
		      const struct unetmm_control *msg)
{
	struct unetmm_ctl *ctl = dev->ctl;
	struct unetmm_asker *asker;
	const struct unetmm_ep *ep;
	u32 i, n = 0, first;

	if (!unetmm_ask_sane(msg)) {
		unetmm_count(dev, control_bad);
		return;
	}
	if (!unetmm_may_now(&ctl->peer_answers, unetmm_mac_key(ctl, mac, 0))) {
		unetmm_count(dev, peers_limited);
		return;
	}
	asker = unetmm_asker(ctl, mac, le64_to_cpu(msg->nonce));
	first = asker->next % dev->hw.endpoints;
	for (i = 0; i < dev->hw.endpoints && n < UNETMM_PEER_ANSWERS; i++) {
		ep = unetmm_chan_ep(dev, (first + i) % dev->hw.endpoints);
		if (!ep || !unetmm_announced(ep, le64_to_cpu(msg->service)))
			continue;
		if (!unetmm_answer_peer(dev, mac, msg, ep))
			break;
		unetmm_count(dev, peers_answered);
		n++;
	}
	asker->next = first + i;
}

/* ---- Asking -------------------------------------------------------------------- */

static bool unetmm_peer_sane(const struct unetmm_control *msg)
{
	return !msg->status && !msg->src_channel && !msg->dst_ep &&
	       !msg->dst_channel && !msg->channel_type && !msg->psn &&
	       !msg->request && msg->src_ep && msg->service && msg->rights &&
	       !(msg->rights & ~(UNETMM_PEER_DATAGRAM | UNETMM_PEER_RELIABLE)) &&
	       le32_to_cpu(msg->mtu) >= UNETMM_MIN_MTU;
}

static struct unetmm_peers_wait *
unetmm_peers_asked(struct unetmm_ctl *ctl, const u8 *mac,
		   const struct unetmm_control *msg)
{
	struct unetmm_peers_wait *wait;
	struct unetmm_question *q;

	q = unetmm_question_find(&ctl->asks, le64_to_cpu(msg->nonce));
	if (!q)
		return NULL;
	wait = container_of(q, struct unetmm_peers_wait, q);
	return (wait->all || ether_addr_equal(wait->mac, mac)) &&
	       (!wait->service || wait->service == le64_to_cpu(msg->service)) ?
	       wait : NULL;
}

/* Its place; that of the same endpoint, if it has answered before; NULL: none is left. */
static struct unetmm_listener *unetmm_peers_place(struct unetmm_peers_wait *wait,
						  const u8 *mac, u16 ep)
{
	u32 i;

	for (i = 0; i < wait->count; i++) {
		if (wait->found[i].endpoint == ep &&
		    ether_addr_equal(wait->found[i].mac, mac))
			return &wait->found[i];
	}
	if (wait->count == wait->room)
		return NULL;
	WRITE_ONCE(wait->count, wait->count + 1);
	return &wait->found[i];
}

void unetmm_got_peer(struct unetmm_dev *dev, const u8 *mac,
		     const struct unetmm_control_named *msg)
{
	const struct unetmm_control *head = &msg->head;
	struct unetmm_listener *to = NULL;
	struct unetmm_peers_wait *wait;
	u32 i;

	if (!unetmm_peer_sane(head)) {
		unetmm_count(dev, control_bad);
		return;
	}
	wait = unetmm_peers_asked(dev->ctl, mac, head);
	if (wait)
		to = unetmm_peers_place(wait, mac, le16_to_cpu(head->src_ep));
	if (!to) {
		unetmm_count(dev, peers_dropped);
		return;
	}
	to->service = le64_to_cpu(head->service);
	ether_addr_copy(to->mac, mac);
	to->endpoint = le16_to_cpu(head->src_ep);
	to->mtu = min(le32_to_cpu(head->mtu), dev->hw.user_mtu);
	to->types = head->rights;
	for (i = 0; i < sizeof(to->name) - 1 && msg->name[i]; i++)
		to->name[i] = isascii(msg->name[i]) && isprint(msg->name[i]) ?
			      msg->name[i] : '?';
	memset(to->name + i, 0, sizeof(to->name) - i);
	wake_up_all(&wait->q.wait);
}

/* Returns whether the user may ask now.  Frames to our own address need no wire. */
static bool unetmm_peers_send(struct unetmm_dev *dev,
			      const struct unetmm_peers_wait *wait)
{
	const struct unetmm_control msg = {
		.type = UNETMM_CTL_PEERS,
		.service = cpu_to_le64(wait->service),
		.nonce = cpu_to_le64(wait->q.key),
	};
	struct unetmm_ctl *ctl = dev->ctl;
	u8 to[ETH_ALEN];
	bool may;

	ether_addr_copy(to, wait->mac);
	mutex_lock(&ctl->lock);
	may = unetmm_may_now(&ctl->peers_sent,
			     unetmm_asker_key(ctl));
	if (!may)
		unetmm_count(dev, user_limited);
	if (may && wait->all) {
		unetmm_mailbox_send(dev, dev->hw.mac, &msg);
		eth_broadcast_addr(to);
	}
	if (may)
		unetmm_mailbox_send(dev, to, &msg);
	mutex_unlock(&ctl->lock);
	return may;
}

static bool unetmm_peers_done(struct unetmm_dev *dev,
			      const struct unetmm_peers_wait *wait)
{
	return READ_ONCE(wait->count) == wait->room || !unetmm_running(dev);
}

/* Until the deadline, since nobody knows how many will answer. */
static int unetmm_peers_collect(struct unetmm_dev *dev,
				struct unetmm_peers_wait *wait, u64 deadline_ns)
{
	bool asked = false;
	u64 now, left, end;
	u32 n;
	int ret;

	for (n = 0; ; n++) {
		left = NSEC_PER_SEC;
		if (n < UNETMM_PEER_QUESTIONS) {
			asked |= unetmm_peers_send(dev, wait);
			left = (u64)UNETMM_PEER_PAUSE_MS * NSEC_PER_MSEC << n;
		}
		now = ktime_get_ns();
		/* The answers to the first question have time: the call may begin again, late. */
		end = n || !asked ? deadline_ns : max(deadline_ns, now + left);
		if (now >= end)
			return asked ? 0 : -EAGAIN;
		ret = wait_event_interruptible_hrtimeout(wait->q.wait,
			unetmm_peers_done(dev, wait),
			ns_to_ktime(min(left, end - now)));
		if (!ret)
			return 0;
		if (ret != -ETIME)
			return UNETMM_INTERRUPTED;
	}
}

static int unetmm_peers(struct unetmm_dev *dev, struct unetmm_peers_wait *wait,
			u64 deadline_ns)
{
	int ret;

	lockdep_assert_held(&dev->rwsem);
	if (!wait->all && !ether_addr_equal(wait->mac, dev->hw.mac) &&
	    !unetmm_link_up(dev))
		return -ENETDOWN;
	unetmm_question_add(dev->ctl, &dev->ctl->asks, &wait->q, U64_MAX);
	ret = unetmm_peers_collect(dev, wait, deadline_ns);
	unetmm_question_drop(dev->ctl, &dev->ctl->asks, &wait->q);
	return ret;
}

int unetmm_op_peers(struct unetmm_file *file, void *arg)
{
	struct unetmm_dev *dev = file->dev;
	struct unetmm_peers *a = arg;
	struct unetmm_peers_wait wait = {
		.service = a->service,
		.all = is_zero_ether_addr(a->mac),
		.room = a->count,
	};
	int ret;

	if (a->flags || a->rsvd0 || a->rsvd1)
		return -EOPNOTSUPP;
	if (!a->count || a->count > UNETMM_MAX_LISTENERS ||
	    (!wait.all && !is_valid_ether_addr(a->mac)))
		return -EINVAL;
	ether_addr_copy(wait.mac, a->mac);
	wait.found = kcalloc(wait.room, sizeof(*wait.found), GFP_KERNEL_ACCOUNT);
	if (!wait.found)
		return -ENOMEM;
	ret = down_read_killable(&dev->rwsem);
	if (ret)
		goto free;
	ret = -ENODEV;
	if (unetmm_running(dev) && !file->dead)
		ret = unetmm_peers(dev, &wait, a->deadline_ns);
	if (!unetmm_running(dev))
		ret = -ENODEV;
	up_read(&dev->rwsem);
	a->count = wait.count;
	if (!ret && copy_to_user(u64_to_user_ptr(a->listeners), wait.found,
				 wait.count * sizeof(*wait.found)))
		ret = -EFAULT;
free:
	kfree(wait.found);
	return ret;
}
