// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm_ib: verbs=own: events of completion queues.
 *
 * The completions are in the queue of each endpoint, and the two completion queues of a queue
 * pair share this queue and its word cq_arm, which the driver alone writes.  When the card
 * interrupts, the driver looks at the new completions: a completion queue that is armed has its
 * event for its own completions alone.  While one of the two is armed, the word is armed anew.
 *
 * IB_CQ_NEXT_COMP means completions that come later.  So a call that arms a completion queue looks
 * at those that are there already: the other queue of the queue pair may wait for one of them.
 *
 * The process can write all that the driver looks at.  A look is bounded, and a wrong event is the
 * process's own loss.  More than UNETMM_OWN_LOOK completions are not looked at: both queues have
 * their events, of which one may come in vain.
 *
 * LOCKS, the outer ones first
 *   cq->places_lock   the queue pairs of a completion queue.
 *   ep_lock           of the card: the interrupt.
 *   events->lock      the completions of an endpoint that the driver has looked at.
 *   cq->lock          see verbs/verbs.h.
 */
#include "verbs/own.h"

#define UNETMM_OWN_LOOK		64
#define UNETMM_OWN_TURNS	4

enum { UNETMM_OWN_SEND = 1, UNETMM_OWN_RECEIVE = 2, UNETMM_OWN_BOTH = 3 };

static u32 unetmm_own_queues_of(const struct unetmm_cqe *cqe)
{
	switch (READ_ONCE(cqe->opcode)) {
	case UNETMM_CQE_SENT:
		return UNETMM_OWN_SEND;
	case UNETMM_CQE_RECEIVED:
	case UNETMM_CQE_WRITTEN:
	case UNETMM_CQE_BUFFER:
		return UNETMM_OWN_RECEIVE;
	default:
		/* An end flushes the requests of both. */
		return UNETMM_OWN_BOTH;
	}
}

/* The queues that have completions since the last call. */
static u32 unetmm_own_look(struct unetmm_ib_qp *qp)
{
	const struct unetmm_lent_calls *calls = qp->dev->calls;
	u32 most = min_t(u32, UNETMM_OWN_LOOK, BIT(qp->ep->cq_log2) / 2);
	u32 prod = le32_to_cpu(READ_ONCE(qp->ep->index->card.cq_prod));
	struct unetmm_own_events *events = &qp->events;
	const struct unetmm_cqe *cqe;
	u32 n, queues = 0;

	lockdep_assert_held(&events->lock);
	/* The process may have taken the others, and the card may have used their places. */
	if (prod - events->seen > most && events->seen - prod > BIT(qp->ep->cq_log2)) {
		events->seen = prod;
		return UNETMM_OWN_BOTH;
	}
	for (n = 0; n < most; n++) {
		cqe = calls->ep_peek(qp->ep, events->seen);
		if (!cqe)
			return queues;
		queues |= unetmm_own_queues_of(cqe);
		events->seen++;
	}
	return UNETMM_OWN_BOTH;
}

static bool unetmm_own_is_armed(const struct unetmm_ib_qp *qp)
{
	return unetmm_ib_cq_is_armed(qp->ib.send_cq) || unetmm_ib_cq_is_armed(qp->ib.recv_cq);
}

/* `except`: this queue has just been armed, and its owner looks at it next. */
static void unetmm_own_tell_events(struct unetmm_ib_qp *qp, const struct ib_cq *except)
{
	struct unetmm_own_events *events = &qp->events;
	u32 queues, turns = 0;
	bool more = true;

	lockdep_assert_held(&events->lock);
	if (!events->on)
		return;
	while (more) {
		queues = turns++ < UNETMM_OWN_TURNS ? unetmm_own_look(qp) : UNETMM_OWN_BOTH;
		if (queues & UNETMM_OWN_SEND && qp->ib.send_cq != except)
			unetmm_ib_cq_wake(qp->ib.send_cq);
		if (queues & UNETMM_OWN_RECEIVE && qp->ib.recv_cq != except)
			unetmm_ib_cq_wake(qp->ib.recv_cq);
		more = unetmm_own_is_armed(qp) &&
		       qp->dev->calls->ep_arm(qp->ep, events->seen) &&
		       turns <= UNETMM_OWN_TURNS;
	}
}

/* There are completions, or requests that the process is to flush. */
void unetmm_own_wake(const struct unetmm_ib_qp *qp)
{
	unetmm_ib_cq_wake(qp->ib.send_cq);
	if (qp->ib.recv_cq != qp->ib.send_cq)
		unetmm_ib_cq_wake(qp->ib.recv_cq);
}

/* In interrupts, with ep_lock; or with map_lock, when the card has gone. */
void unetmm_own_woken(struct unetmm_ep *ep, u8 type)
{
	struct unetmm_ib_qp *qp = ep->owner;
	unsigned long flags;

	if (type == UNETMM_NOTIFY_END || type == UNETMM_NOTIFY_EP_ERROR) {
		unetmm_ib_kick(qp);
		unetmm_own_wake(qp);
		return;
	}
	spin_lock_irqsave(&qp->events.lock, flags);
	unetmm_own_tell_events(qp, NULL);
	spin_unlock_irqrestore(&qp->events.lock, flags);
}

int unetmm_own_req_notify_cq(struct ib_cq *ib, enum ib_cq_notify_flags how)
{
	/* A request of before has its event for completions that are there. */
	const struct ib_cq *except = unetmm_ib_cq_is_armed(ib) ? NULL : ib;
	int ret = unetmm_ib_req_notify_cq(ib, how);
	struct unetmm_ib_cq *cq = unetmm_ib_cq(ib);
	struct unetmm_own_place *place;

	/* The kernel's has no places, and comes in any context. */
	if (cq->ring)
		return ret;
	mutex_lock(&cq->places_lock);
	list_for_each_entry(place, &cq->places, node) {
		spin_lock_irq(&place->qp->events.lock);
		unetmm_own_tell_events(place->qp, except);
		spin_unlock_irq(&place->qp->events.lock);
		cond_resched();
	}
	mutex_unlock(&cq->places_lock);
	return ret;
}

/* ---- Queue pairs -------------------------------------------------------------- */

void unetmm_own_events_init(struct unetmm_ib_qp *qp)
{
	spin_lock_init(&qp->events.lock);
	INIT_LIST_HEAD(&qp->events.send.node);
	INIT_LIST_HEAD(&qp->events.receive.node);
}

/* The endpoint's queues are empty: a new one's, or after RESET. */
void unetmm_own_events_start(struct unetmm_ib_qp *qp)
{
	struct unetmm_own_events *events = &qp->events;

	spin_lock_irq(&events->lock);
	events->on = true;
	events->seen = 0;
	unetmm_own_tell_events(qp, NULL);
	spin_unlock_irq(&events->lock);
}

/* The queues are not to be looked at any more. */
void unetmm_own_events_stop(struct unetmm_ib_qp *qp)
{
	spin_lock_irq(&qp->events.lock);
	qp->events.on = false;
	spin_unlock_irq(&qp->events.lock);
}

static void unetmm_own_place_add(struct unetmm_own_place *place, struct unetmm_ib_qp *qp,
				 struct ib_cq *ib)
{
	struct unetmm_ib_cq *cq = unetmm_ib_cq(ib);

	place->qp = qp;
	mutex_lock(&cq->places_lock);
	list_add_tail(&place->node, &cq->places);
	mutex_unlock(&cq->places_lock);
}

static void unetmm_own_place_remove(struct unetmm_own_place *place, struct ib_cq *ib)
{
	struct unetmm_ib_cq *cq = unetmm_ib_cq(ib);

	mutex_lock(&cq->places_lock);
	list_del_init(&place->node);
	mutex_unlock(&cq->places_lock);
}

/* The queue pair has its endpoint. */
void unetmm_own_events_join(struct unetmm_ib_qp *qp)
{
	unetmm_own_place_add(&qp->events.send, qp, qp->ib.send_cq);
	if (qp->ib.recv_cq != qp->ib.send_cq)
		unetmm_own_place_add(&qp->events.receive, qp, qp->ib.recv_cq);
	unetmm_own_events_start(qp);
}

/* Also of one that has not joined. */
void unetmm_own_events_leave(struct unetmm_ib_qp *qp)
{
	unetmm_own_events_stop(qp);
	unetmm_own_place_remove(&qp->events.send, qp->ib.send_cq);
	unetmm_own_place_remove(&qp->events.receive, qp->ib.recv_cq);
}
