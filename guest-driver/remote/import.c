// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: imports: an endpoint's rights to a peer's memory.
 *
 * The peer's driver is asked, over the channel's two drivers, which region an
 * export is; the card is told, and the process gets a small number.  Region and
 * key never reach a process.  The number stays the endpoint's until DESTROY, also
 * when the channel ends and the card forgets the import with it: descriptors on it
 * then fail, and never mean another one.
 */
#include <linux/bitmap.h>
#include <linux/etherdevice.h>
#include <linux/ktime.h>

#include "remote/remote.h"
#include "channel/channel.h"
#include "ep/ep.h"
#include "space/space.h"
#include "ring/ring.h"
#include "base/base.h"

/*
 * A question without a deadline is asked for so long: the machine asked may stand
 * still, and others may wait for the thread that asks.
 */
#define UNETMM_IMPORT_ONCE_NS	(3 * (u64)NSEC_PER_SEC)

/* Lives on the waiting thread's stack. */
struct unetmm_import_wait {
	struct unetmm_question q;
	struct unetmm_chan *chan;	/* a reference held */
	u64 export;
	u8 wanted;			/* rights; 0: all that there are */
	bool answered;
	u8 status;
	u8 rights;
	u32 region;
	u32 key;
	u64 length;
};

/* ---- Control messages; ctl.lock ------------------------------------------ */

static void unetmm_import_ask(struct unetmm_import_wait *wait)
{
	const struct unetmm_chan *chan = wait->chan;
	struct unetmm_control msg = {
		.type = UNETMM_CTL_IMPORT,
		.src_channel = cpu_to_le16(chan->number),
		.dst_ep = cpu_to_le16(chan->peer_ep),
		.dst_channel = cpu_to_le16(chan->peer_channel),
		.rights = wait->wanted,
		.service = cpu_to_le64(wait->export),
		.nonce = cpu_to_le64(chan->nonce),
		.request = cpu_to_le32(wait->q.key),
	};

	if (chan->state != UNETMM_CHAN_OPEN)
		return;
	msg.src_ep = cpu_to_le16(chan->ep->id);
	unetmm_mailbox_send(chan->ep->dev, chan->mac, &msg);
}

/* A question of the peer's driver about a channel that both know. */
void unetmm_got_import(struct unetmm_dev *dev, const u8 *mac,
		       const struct unetmm_control *msg)
{
	struct unetmm_control ack = {
		.type = UNETMM_CTL_IMPORT_ACK,
		.src_ep = msg->dst_ep,
		.src_channel = msg->dst_channel,
		.dst_ep = msg->src_ep,
		.dst_channel = msg->src_channel,
		.nonce = msg->nonce,
		.request = msg->request,
	};
	struct unetmm_chan *chan = unetmm_chan_of_peer(dev, mac, msg);

	if (!chan || chan->params.type != UNETMM_CHANNEL_RELIABLE ||
	    msg->rights & ~UNETMM_RIGHT_ALL || msg->channel_type || msg->mtu ||
	    msg->psn || msg->status) {
		unetmm_count(dev, control_bad);
		return;
	}
	unetmm_export_answer(chan, msg, &ack);
	unetmm_mailbox_send(dev, mac, &ack);
}

/* Nothing that it says is believed further than its own memory. */
static bool unetmm_import_sane(const struct unetmm_import_wait *wait,
			       const struct unetmm_control *msg)
{
	if (msg->status != UNETMM_CTL_ST_OK)
		return msg->status == UNETMM_CTL_ST_NO_EXPORT ||
		       msg->status == UNETMM_CTL_ST_RIGHTS;
	if (!msg->service || !msg->rights || msg->rights & ~UNETMM_RIGHT_ALL)
		return false;
	return !wait->wanted || msg->rights == wait->wanted;
}

void unetmm_got_import_ack(struct unetmm_dev *dev, const u8 *mac,
			   const struct unetmm_control *msg)
{
	struct unetmm_chan *chan = unetmm_chan_of_peer(dev, mac, msg);
	struct unetmm_import_wait *wait;
	struct unetmm_question *q;

	q = unetmm_question_find(&dev->ctl->imports, le32_to_cpu(msg->request));
	wait = q ? container_of(q, struct unetmm_import_wait, q) : NULL;
	/* A question that was asked again may be answered twice: the first answer counts. */
	if (!wait || wait->chan != chan || wait->answered)
		return;
	if (!unetmm_import_sane(wait, msg)) {
		unetmm_count(dev, control_bad);
		return;
	}
	wait->status = msg->status;
	wait->rights = msg->rights;
	wait->region = le32_to_cpu(msg->mtu);
	wait->key = le32_to_cpu(msg->psn);
	wait->length = le64_to_cpu(msg->service);
	WRITE_ONCE(wait->answered, true);
	wake_up_all(&chan->ep->wait);
}

/* ---- The process's side -------------------------------------------------- */

static struct unetmm_chan *unetmm_import_chan(struct unetmm_ep *ep, u32 number)
{
	struct unetmm_chan *chan;

	lockdep_assert_held(&ep->dev->ctl->lock);
	list_for_each_entry(chan, &ep->chans, node) {
		/* Not one that connect or the backlog still holds. */
		if (chan->number != number || !list_empty(&chan->accept_node))
			continue;
		if (chan->state == UNETMM_CHAN_CLOSED)
			return ERR_PTR(-ENOTCONN);
		if (chan->state != UNETMM_CHAN_OPEN)
			break;
		if (chan->params.type != UNETMM_CHANNEL_RELIABLE)
			return ERR_PTR(-EPROTOTYPE);
		return chan;
	}
	return ERR_PTR(-ENOENT);
}

/* Asks once; the answers to earlier questions do not count. */
static int unetmm_import_once(struct unetmm_ep *ep,
			      struct unetmm_import_wait *wait)
{
	int ret = 0;

	mutex_lock(&ep->dev->ctl->lock);
	if (!wait->chan->ep)
		ret = -ENOENT;
	else if (wait->chan->state != UNETMM_CHAN_OPEN)
		ret = -ENOTCONN;
	else if (wait->answered && wait->status == UNETMM_CTL_ST_NO_EXPORT)
		WRITE_ONCE(wait->answered, false);
	if (!ret)
		unetmm_import_ask(wait);
	mutex_unlock(&ep->dev->ctl->lock);
	return ret;
}

static bool unetmm_import_settled(const struct unetmm_ep *ep,
				  const struct unetmm_import_wait *wait)
{
	return READ_ONCE(wait->answered) || READ_ONCE(ep->closed) ||
	       READ_ONCE(wait->chan->state) != UNETMM_CHAN_OPEN ||
	       !unetmm_running(ep->dev);
}

/* Until there is an export, or a reason to think that there will be none. */
static int unetmm_import_wait(struct unetmm_ep *ep,
			      struct unetmm_import_wait *wait, u64 deadline_ns)
{
	u64 end = deadline_ns ? deadline_ns :
		  ktime_get_ns() + UNETMM_IMPORT_ONCE_NS;
	bool heard = false;
	u32 attempt;
	u64 left;
	int ret;

	for (attempt = 0; ; attempt++) {
		ret = unetmm_import_once(ep, wait);
		if (ret)
			return ret;
		/* The first question has its time: the call may begin again, late. */
		left = unetmm_time_left(attempt ? end : U64_MAX, attempt);
		if (!left)
			return heard ? -ETIMEDOUT : -EHOSTUNREACH;
		ret = wait_event_interruptible_hrtimeout(ep->wait,
			unetmm_import_settled(ep, wait), ns_to_ktime(left));
		if (ret && ret != -ETIME)
			return UNETMM_INTERRUPTED;
		if (!unetmm_running(ep->dev))
			return -ENODEV;
		if (!READ_ONCE(wait->answered))
			continue;
		heard = true;
		if (READ_ONCE(wait->status) != UNETMM_CTL_ST_NO_EXPORT)
			return 0;
		if (!deadline_ns)
			return -EAGAIN;
		/* Not before its time: it has just said no. */
		ret = unetmm_pause(left);
		if (ret)
			return ret;
	}
}

/* Tells the card.  The process gets the number, the length and the rights. */
static int unetmm_import_set(struct unetmm_ep *ep,
			     const struct unetmm_import_wait *wait,
			     struct unetmm_import *a)
{
	struct unetmm_dev *dev = ep->dev;
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_IMPORT_SET,
		.ep = cpu_to_le16(ep->id),
		.import = {
			.region = cpu_to_le32(wait->region),
			.key = cpu_to_le32(wait->key),
			.channel = cpu_to_le16(wait->chan->number),
			.rights = wait->rights,
			.length = cpu_to_le64(wait->length),
		},
	};
	u32 number;
	int ret;

	lockdep_assert_held(&dev->ctl->lock);
	if (!wait->chan->ep)
		return -ENOENT;
	if (wait->chan->state != UNETMM_CHAN_OPEN)
		return -ENOTCONN;
	if (wait->status == UNETMM_CTL_ST_RIGHTS)
		return -EACCES;
	number = find_first_zero_bit(ep->import_map, dev->hw.imports);
	if (number >= dev->hw.imports)
		return -ENOSPC;
	cmd.import.import = cpu_to_le32(number);
	ret = unetmm_cmd(dev, &cmd, NULL);
	if (ret)
		return ret;
	__set_bit(number, ep->import_map);
	a->import = number;
	a->length = wait->length;
	a->rights = wait->rights;
	unetmm_count(dev, imports);
	return 0;
}

static int unetmm_import(struct unetmm_ep *ep, struct unetmm_import *a)
{
	struct unetmm_ctl *ctl = ep->dev->ctl;
	struct unetmm_import_wait wait = {
		.export = a->id,
		.wanted = a->rights,
	};
	int ret;

	mutex_lock(&ctl->lock);
	wait.chan = unetmm_import_chan(ep, a->channel);
	if (!IS_ERR(wait.chan))
		kref_get(&wait.chan->ref);
	mutex_unlock(&ctl->lock);
	if (IS_ERR(wait.chan))
		return PTR_ERR(wait.chan);
	unetmm_question_add(ctl, &ctl->imports, &wait.q, U32_MAX);
	ret = unetmm_import_wait(ep, &wait, a->deadline_ns);
	unetmm_question_drop(ctl, &ctl->imports, &wait.q);
	mutex_lock(&ctl->lock);
	if (!ret)
		ret = unetmm_import_set(ep, &wait, a);
	mutex_unlock(&ctl->lock);
	unetmm_chan_put(wait.chan);
	return ret;
}

int unetmm_op_import(struct unetmm_file *file, void *arg)
{
	struct unetmm_import *a = arg;
	struct unetmm_ep *ep;
	int ret;

	if (a->rsvd)
		return -EOPNOTSUPP;
	if (a->rights & ~UNETMM_RIGHT_ALL)
		return -EINVAL;
	ep = unetmm_ep_find(file, a->endpoint);
	if (!ep)
		return -ENOENT;
	ret = file->dev->hw.imports ? unetmm_import(ep, a) : -EOPNOTSUPP;
	unetmm_ep_put(ep);
	return ret;
}

static int unetmm_unimport(struct unetmm_ep *ep, u64 number)
{
	struct unetmm_dev *dev = ep->dev;
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_IMPORT_CLEAR,
		.ep = cpu_to_le16(ep->id),
		.import.import = cpu_to_le32(number),
	};

	lockdep_assert_held(&dev->ctl->lock);
	if (ep->closed || number >= dev->hw.imports ||
	    !test_bit(number, ep->import_map))
		return -ENOENT;
	/* The card may have forgotten it with the channel. */
	unetmm_cmd(dev, &cmd, NULL);
	__clear_bit(number, ep->import_map);
	return 0;
}

int unetmm_import_destroy(struct unetmm_file *file, struct unetmm_ep *ep,
			  const struct unetmm_destroy *a)
{
	int ret;

	mutex_lock(&file->dev->ctl->lock);
	ret = unetmm_unimport(ep, a->id);
	mutex_unlock(&file->dev->ctl->lock);
	return ret;
}
