// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: listen, accept, connect, close and probe, as a process asks for them.
 */
#include <linux/etherdevice.h>
#include <linux/ktime.h>
#include <linux/random.h>
#include <linux/sched/signal.h>

#include "channel/channel.h"
#include "ep/ep.h"
#include "space/space.h"
#include "base/base.h"

#define UNETMM_MAX_BACKLOG	64

/* How long to wait for an answer before the question is repeated. */
static u64 unetmm_patience_ns(u32 attempt)
{
	static const u8 ms[] = { 5, 10, 20, 50, 100 };

	return ms[min_t(u32, attempt, ARRAY_SIZE(ms) - 1)] *
	       (u64)NSEC_PER_MSEC;
}

/* How much of the attempt's wait lies before the deadline; 0 if that has passed. */
u64 unetmm_time_left(u64 deadline_ns, u32 attempt)
{
	u64 now = ktime_get_ns();

	if (!deadline_ns || now >= deadline_ns)
		return 0;
	return min(deadline_ns - now, unetmm_patience_ns(attempt));
}

/* Sleeps for `ns`; UNETMM_INTERRUPTED if a signal comes first. */
int unetmm_pause(u64 ns)
{
	ktime_t left = ns_to_ktime(ns);

	set_current_state(TASK_INTERRUPTIBLE);
	schedule_hrtimeout(&left, HRTIMER_MODE_REL);
	return signal_pending(current) ? UNETMM_INTERRUPTED : 0;
}

u64 unetmm_nonce(void)
{
	u64 nonce;

	do {
		nonce = get_random_u64();
	} while (!nonce);
	return nonce;
}

/* Frames to our own address do not need the wire. */
static int unetmm_check_link(struct unetmm_dev *dev, const u8 *mac)
{
	if (!ether_addr_equal(mac, dev->hw.mac) && !unetmm_link_up(dev))
		return -ENETDOWN;
	return 0;
}

/* The attributes of a reliable channel in LISTEN and CONNECT. */
struct unetmm_chan_request {
	u32 timeout_us;
	u32 retries;
	u32 not_ready_retries;
	u32 not_ready_us;
	bool rewind;
};

#define UNETMM_CHAN_REQUEST(a, _rewind) (&(struct unetmm_chan_request) { \
	.timeout_us = (a)->timeout_us,					\
	.retries = (a)->retries,					\
	.not_ready_retries = (a)->not_ready_retries,			\
	.not_ready_us = (a)->not_ready_us,				\
	.rewind = (a)->flags & (_rewind),				\
})

/* Datagram channels take none of these attributes. */
static bool unetmm_chan_request_is_default(const struct unetmm_chan_request *request)
{
	return !request->timeout_us && !request->retries &&
	       !request->not_ready_retries && !request->not_ready_us && !request->rewind;
}

/* The card's values of a reliable channel; the members have 32 bits. */
static int unetmm_chan_params_set(const struct unetmm_ep *ep,
				  const struct unetmm_chan_request *request,
				  struct unetmm_chan_params *params)
{
	/* The peer waits there, and the backup ring is for where it does not. */
	if (ep->flags & UNETMM_EP_F_RAW || ep->backup_queue)
		return -EPROTOTYPE;
	if (!ep->dev->hw.reliable || ep->space->ops->lists)
		return -EOPNOTSUPP;
	if (request->timeout_us > UNETMM_REL_MAX_TIMEOUT_US ||
	    request->not_ready_us > UNETMM_REL_MAX_TIMEOUT_US ||
	    request->retries > U8_MAX || request->not_ready_retries > U8_MAX)
		return -EINVAL;
	params->type = UNETMM_CHANNEL_RELIABLE;
	params->timeout_us = request->timeout_us;
	params->retries = request->retries;
	params->not_ready_retries = request->not_ready_retries;
	params->not_ready_us = request->not_ready_us;
	params->rewind = request->rewind;
	return 0;
}

/* A message that waits for its memory keeps its turn, and datagrams have none. */
static int unetmm_datagram(const struct unetmm_ep *ep)
{
	return ep->policy->waits || ep->flags & UNETMM_EP_F_RAW ? -EPROTOTYPE : 0;
}

static int unetmm_ep_listen(struct unetmm_ep *ep, const struct unetmm_listen *a,
			    const struct unetmm_chan_params *params)
{
	u64 service = a->service;
	struct unetmm_ctl *ctl = ep->dev->ctl;
	struct unetmm_ep *other;

	lockdep_assert_held(&ctl->lock);
	if (ep->closed)
		return -ENOENT;
	hash_for_each_possible(ctl->services, other, service_node, service) {
		if (other->service == service && other != ep)
			return -EADDRINUSE;
	}
	if (!unetmm_announce(ep, service && a->flags & UNETMM_LISTEN_ANNOUNCE))
		return -EDQUOT;
	/* Another number than before replaces it; waiting ones may be accepted. */
	hash_del(&ep->service_node);
	ep->service = service;
	ep->takes = a->flags & (UNETMM_LISTEN_DATAGRAM | UNETMM_LISTEN_RELIABLE);
	if (!ep->takes)
		ep->takes = UNETMM_LISTEN_DATAGRAM;
	ep->params = *params;
	ep->params.tell = a->flags & UNETMM_LISTEN_TELL;
	ep->backlog = a->backlog;
	get_task_comm(ep->name, current);
	if (service)
		hash_add(ctl->services, &ep->service_node, service);
	return 0;
}

int unetmm_op_listen(struct unetmm_file *file, void *arg)
{
	const struct unetmm_listen *a = arg;
	const struct unetmm_chan_request *request =
		UNETMM_CHAN_REQUEST(a, UNETMM_LISTEN_REWIND);
	struct unetmm_chan_params params = { 0 };
	struct unetmm_ep *ep;
	int ret = 0;

	if (a->flags & ~(UNETMM_LISTEN_DATAGRAM | UNETMM_LISTEN_RELIABLE |
			 UNETMM_LISTEN_TELL | UNETMM_LISTEN_REWIND |
			 UNETMM_LISTEN_ANNOUNCE))
		return -EOPNOTSUPP;
	if (a->service && (!a->backlog || a->backlog > UNETMM_MAX_BACKLOG))
		return -EINVAL;
	ep = unetmm_ep_find(file, a->endpoint);
	if (!ep)
		return -ENOENT;
	if (a->flags & UNETMM_LISTEN_RELIABLE)
		ret = unetmm_chan_params_set(ep, request, &params);
	else if (!unetmm_chan_request_is_default(request))
		ret = -EINVAL;
	if (!ret && a->service &&
	    (a->flags & UNETMM_LISTEN_DATAGRAM ||
	     !(a->flags & UNETMM_LISTEN_RELIABLE)))
		ret = unetmm_datagram(ep);
	if (!ret) {
		mutex_lock(&file->dev->ctl->lock);
		ret = unetmm_ep_listen(ep, a, &params);
		mutex_unlock(&file->dev->ctl->lock);
	}
	unetmm_ep_put(ep);
	return ret;
}

static void unetmm_connect_result(struct unetmm_connect *a, struct unetmm_chan *chan)
{
	chan->given = true;
	ether_addr_copy(a->mac, chan->mac);
	a->channel = chan->number;
	a->mtu = chan->mtu;
	a->peer_endpoint = chan->peer_ep;
	a->peer_channel = chan->peer_channel;
	a->flags = 0;
	a->max_message = chan->mtu;
	if (chan->params.type == UNETMM_CHANNEL_RELIABLE) {
		a->flags = UNETMM_CONNECT_RELIABLE;
		a->max_message = UNETMM_MAX_MESSAGE;
	}
}

static bool unetmm_accept_one(struct unetmm_ep *ep, struct unetmm_connect *a)
{
	struct unetmm_ctl *ctl = ep->dev->ctl;
	struct unetmm_chan *chan;

	mutex_lock(&ctl->lock);
	chan = list_first_entry_or_null(&ep->accepts, struct unetmm_chan,
					accept_node);
	if (chan) {
		list_del_init(&chan->accept_node);
		ep->nbacklog--;
		unetmm_liveness_restart(chan);
		unetmm_connect_result(a, chan);
	}
	mutex_unlock(&ctl->lock);
	return chan;
}

static int unetmm_ep_accept(struct unetmm_ep *ep, struct unetmm_connect *a)
{
	struct unetmm_dev *dev = ep->dev;
	u64 now;
	int ret;

	for (;;) {
		if (unetmm_accept_one(ep, a))
			return 0;
		if (READ_ONCE(ep->closed))
			return -ENOENT;
		if (!unetmm_running(dev))
			return -ENODEV;
		if (!a->deadline_ns)
			return -EAGAIN;
		now = ktime_get_ns();
		if (now >= a->deadline_ns)
			return -ETIMEDOUT;
		ret = wait_event_interruptible_hrtimeout(ep->wait,
			READ_ONCE(ep->nbacklog) || READ_ONCE(ep->closed) ||
			!unetmm_running(dev),
			ns_to_ktime(min_t(u64, a->deadline_ns - now,
					  NSEC_PER_SEC)));
		if (ret && ret != -ETIME)
			return UNETMM_INTERRUPTED;
	}
}

int unetmm_op_accept(struct unetmm_file *file, void *arg)
{
	struct unetmm_connect *a = arg;
	struct unetmm_ep *ep;
	int ret;

	if (a->flags || a->rsvd0 || a->peer_channel)
		return -EOPNOTSUPP;
	if (a->service || !unetmm_chan_request_is_default(UNETMM_CHAN_REQUEST(a, 0)))
		return -EINVAL;
	ep = unetmm_ep_find(file, a->endpoint);
	if (!ep)
		return -ENOENT;
	ret = unetmm_ep_accept(ep, a);
	unetmm_ep_put(ep);
	return ret;
}

/* The accepting process never learnt of it: it is the next to be accepted again. */
static void unetmm_chan_unclaim(struct unetmm_ep *ep, u32 number)
{
	struct unetmm_chan *chan;

	lockdep_assert_held(&ep->dev->ctl->lock);
	list_for_each_entry(chan, &ep->chans, node) {
		if (chan->number != number || !chan->passive ||
		    !list_empty(&chan->accept_node))
			continue;
		unetmm_liveness_restart(chan);
		chan->given = false;
		list_add(&chan->accept_node, &ep->accepts);
		ep->nbacklog++;
		return;
	}
}

void unetmm_undo_accept(struct unetmm_file *file, const void *arg)
{
	const struct unetmm_connect *a = arg;
	struct unetmm_ep *ep = unetmm_ep_find(file, a->endpoint);

	if (!ep)
		return;
	mutex_lock(&file->dev->ctl->lock);
	unetmm_chan_unclaim(ep, a->channel);
	mutex_unlock(&file->dev->ctl->lock);
	unetmm_ep_put(ep);
}

static void unetmm_ask(struct unetmm_chan *chan, u64 service)
{
	struct unetmm_control msg = {
		.type = UNETMM_CTL_CONNECT,
		.src_channel = cpu_to_le16(chan->number),
		.service = cpu_to_le64(service),
		.nonce = cpu_to_le64(chan->nonce),
		.channel_type = chan->params.type,
		.psn = cpu_to_le32(chan->send_psn),
		.request = cpu_to_le32(chan->recv_credits),
	};
	struct unetmm_ep *ep = chan->ep;
	struct unetmm_dev *dev;

	if (!ep)
		return;
	dev = ep->dev;
	msg.src_ep = cpu_to_le16(ep->id);
	msg.mtu = cpu_to_le32(dev->hw.user_mtu);
	if (chan->params.type == UNETMM_CHANNEL_RELIABLE)
		msg.status = unetmm_features(dev);
	unetmm_mailbox_send(dev, chan->mac, &msg);
}

static bool unetmm_settled(const struct unetmm_ep *ep,
			   const struct unetmm_chan *chan)
{
	return READ_ONCE(chan->state) != UNETMM_CHAN_CONNECTING ||
	       !unetmm_running(ep->dev);
}

/* Asks until there is an answer, the deadline has passed or a signal came. */
static int unetmm_connect_wait(struct unetmm_ep *ep, struct unetmm_chan *chan,
			       const struct unetmm_connect *a)
{
	struct unetmm_dev *dev = ep->dev;
	u32 attempt;
	u64 left;
	int ret;

	for (attempt = 0; ; attempt++) {
		ret = unetmm_check_link(dev, chan->mac);
		if (ret)
			return ret;
		mutex_lock(&dev->ctl->lock);
		unetmm_ask(chan, a->service);
		mutex_unlock(&dev->ctl->lock);
		left = unetmm_time_left(a->deadline_ns, attempt);
		if (!left)
			return -ETIMEDOUT;
		ret = wait_event_interruptible_hrtimeout(ep->wait,
			unetmm_settled(ep, chan), ns_to_ktime(left));
		if (!ret)
			return 0;
		/* The caller ends the attempt: the call cannot begin again. */
		if (ret != -ETIME)
			return -EINTR;
		if (!unetmm_time_left(a->deadline_ns, attempt))
			return -ETIMEDOUT;
	}
}

/* Its result.  ctl.lock is held, so an answer comes before or after. */
static int unetmm_connect_finish(struct unetmm_chan *chan, int waited,
				 struct unetmm_connect *a)
{
	int ret = waited;

	if (!chan->ep)
		return -ENOENT;
	switch (chan->state) {
	case UNETMM_CHAN_OPEN:
		unetmm_connect_result(a, chan);
		return 0;
	case UNETMM_CHAN_FAILED:
		ret = chan->error;
		break;
	case UNETMM_CHAN_CLOSED:
		/*
		 * The peer accepted and disconnected before this thread ran.  The
		 * process never learns the number, and has no CLOSED of it.
		 */
		ret = -ECONNRESET;
		break;
	case UNETMM_CHAN_CONNECTING:
		if (!ret)
			ret = -ENODEV;
		if (ret == -ETIMEDOUT && !chan->answered)
			ret = -EHOSTUNREACH;
		break;
	}
	unetmm_chan_end(chan, true);
	return ret;
}

static int unetmm_ep_connect(struct unetmm_ep *ep, struct unetmm_connect *a,
			     const struct unetmm_chan_params *params)
{
	struct unetmm_ctl *ctl = ep->dev->ctl;
	struct unetmm_chan *chan = ERR_PTR(-ENOENT);
	int ret;

	mutex_lock(&ctl->lock);
	if (!ep->closed)
		chan = unetmm_chan_new(ep, a->mac, params);
	if (!IS_ERR(chan)) {
		chan->nonce = unetmm_nonce();
		kref_get(&chan->ref);
	}
	mutex_unlock(&ctl->lock);
	if (IS_ERR(chan))
		return PTR_ERR(chan) == -EDQUOT ? -ENOSPC : PTR_ERR(chan);

	ret = unetmm_connect_wait(ep, chan, a);
	mutex_lock(&ctl->lock);
	ret = unetmm_connect_finish(chan, ret, a);
	mutex_unlock(&ctl->lock);
	unetmm_chan_put(chan);
	return ret;
}

int unetmm_op_connect(struct unetmm_file *file, void *arg)
{
	struct unetmm_connect *a = arg;
	const struct unetmm_chan_request *request =
		UNETMM_CHAN_REQUEST(a, UNETMM_CONNECT_REWIND);
	struct unetmm_chan_params params = { 0 };
	struct unetmm_ep *ep;
	int ret;

	if (a->flags & ~(UNETMM_CONNECT_RELIABLE | UNETMM_CONNECT_TELL |
			 UNETMM_CONNECT_REWIND) || a->rsvd0 || a->peer_channel)
		return -EOPNOTSUPP;
	if (!a->service || !is_valid_ether_addr(a->mac))
		return -EINVAL;
	ret = unetmm_check_link(file->dev, a->mac);
	if (ret)
		return ret;
	ep = unetmm_ep_find(file, a->endpoint);
	if (!ep)
		return -ENOENT;
	if (a->flags & UNETMM_CONNECT_RELIABLE)
		ret = unetmm_chan_params_set(ep, request, &params);
	else if (!unetmm_chan_request_is_default(request))
		ret = -EINVAL;
	else
		ret = unetmm_datagram(ep);
	params.tell = a->flags & UNETMM_CONNECT_TELL;
	if (!ret)
		ret = unetmm_ep_connect(ep, a, &params);
	unetmm_ep_put(ep);
	return ret;
}

static int unetmm_channel_close(struct unetmm_ep *ep, u64 number)
{
	struct unetmm_chan *chan;

	lockdep_assert_held(&ep->dev->ctl->lock);
	list_for_each_entry(chan, &ep->chans, node) {
		/* Not one that connect or the backlog still holds. */
		if (chan->number != number || !list_empty(&chan->accept_node) ||
		    chan->state == UNETMM_CHAN_CONNECTING ||
		    chan->state == UNETMM_CHAN_FAILED)
			continue;
		unetmm_chan_end(chan, true);
		return 0;
	}
	return -ENOENT;
}

int unetmm_channel_destroy(struct unetmm_file *file, struct unetmm_ep *ep,
			   const struct unetmm_destroy *a)
{
	int ret;

	mutex_lock(&file->dev->ctl->lock);
	ret = unetmm_channel_close(ep, a->id);
	mutex_unlock(&file->dev->ctl->lock);
	return ret;
}

/*
 * A question that its user may not ask now is like one that got lost: it is repeated.
 * For the answering card has a limit, too, and live channels depend on its answers.  Returns
 * whether it was asked.
 */
static bool unetmm_probe_send(struct unetmm_dev *dev,
			      const struct unetmm_probe_wait *wait,
			      const struct unetmm_control *msg)
{
	struct unetmm_ctl *ctl = dev->ctl;
	bool may;

	mutex_lock(&ctl->lock);
	may = unetmm_may_now(&ctl->probes_sent,
			     unetmm_asker_key(ctl));
	if (may)
		unetmm_mailbox_send(dev, wait->mac, msg);
	else
		unetmm_count(dev, user_limited);
	mutex_unlock(&ctl->lock);
	return may;
}

static int unetmm_probe_repeat(struct unetmm_dev *dev,
			       struct unetmm_probe_wait *wait, u64 deadline_ns)
{
	struct unetmm_control msg = {
		.type = UNETMM_CTL_PROBE,
		.mtu = cpu_to_le32(dev->hw.user_mtu),
		.nonce = cpu_to_le64(wait->q.key),
	};
	bool asked = false;
	u32 attempt;
	u64 left;
	int ret;

	for (attempt = 0; ; attempt++) {
		ret = unetmm_check_link(dev, wait->mac);
		if (ret)
			return ret;
		asked |= unetmm_probe_send(dev, wait, &msg);
		left = unetmm_time_left(deadline_ns, attempt);
		if (!left)
			return asked ? -EHOSTUNREACH : -EAGAIN;
		ret = wait_event_interruptible_hrtimeout(wait->q.wait,
			READ_ONCE(wait->answered) || !unetmm_running(dev),
			ns_to_ktime(left));
		if (!ret)
			return unetmm_running(dev) ? 0 : -ENODEV;
		/* The answer may have come meanwhile: a repeated call would ask too late. */
		if (ret != -ETIME)
			return -EINTR;
	}
}

int unetmm_op_probe(struct unetmm_file *file, void *arg)
{
	struct unetmm_dev *dev = file->dev;
	struct unetmm_probe *a = arg;
	struct unetmm_probe_wait wait = { .answered = false };
	int ret;

	if (a->flags || a->rsvd0 || a->rsvd1)
		return -EOPNOTSUPP;
	if (!is_valid_ether_addr(a->mac))
		return -EINVAL;
	ether_addr_copy(wait.mac, a->mac);
	unetmm_question_add(dev->ctl, &dev->ctl->probes, &wait.q, U64_MAX);
	ret = unetmm_probe_repeat(dev, &wait, a->deadline_ns);
	unetmm_question_drop(dev->ctl, &dev->ctl->probes, &wait.q);
	if (wait.answered) {
		a->mtu = wait.mtu;
		ret = 0;
	}
	a->rsvd1 = 0;
	return ret;
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
	list_for_each_entry_safe(chan, next, &ep->resting, rest) {
		list_del(&chan->rest);
		unetmm_chan_put(chan);
	}
	mutex_unlock(&ctl->lock);
	wake_up_all(&ep->wait);
}
