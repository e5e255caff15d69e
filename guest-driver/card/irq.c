// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: interrupts.
 *
 * Four vectors.  Events and wake-ups are handled at once: they only pass
 * something on.  Misses take pages and locks that sleep: they are the pager's.  The
 * netdev's vector goes to its NAPI.
 */
#include <linux/eventfd.h>
#include <linux/interrupt.h>

#include "compat/compat.h"
#include "card/card.h"
#include "net/net.h"
#include "remote/remote.h"
#include "backup/backup.h"
#include "ep/ep.h"
#include "pager/pager.h"
#include "ring/ring.h"
#include "base/base.h"

static irqreturn_t unetmm_irq_event(int irq, void *data)
{
	struct unetmm_dev *dev = data;
	u32 events;

	if (!unetmm_reachable(dev))
		return IRQ_HANDLED;
	events = unetmm_read(dev, UNETMM_REG_EVENTS);
	if (!unetmm_reachable(dev))
		return IRQ_HANDLED;
	unetmm_write(dev, UNETMM_REG_EVENTS, events);
	if (events & UNETMM_EVENT_CMD)
		unetmm_cmdq_event(dev);
	if (events & UNETMM_EVENT_FAULT_FULL)
		unetmm_pager_ring(dev);
	if (events & UNETMM_EVENT_LINK) {
		dev_info(&dev->pdev->dev, "link is %s\n",
			 unetmm_link_up(dev) ? "up" : "down");
		unetmm_net_event(dev);
	}
	if (events & UNETMM_EVENT_FATAL)
		unetmm_fail(dev, "the card could not use a ring");
	return IRQ_HANDLED;
}

static irqreturn_t unetmm_irq_fault(int irq, void *data)
{
	struct unetmm_dev *dev = data;

	if (static_branch_unlikely(&unetmm_stages_key) &&
	    !READ_ONCE(dev->misses->seen_ns))
		WRITE_ONCE(dev->misses->seen_ns, ktime_get_ns());
	if (unetmm_reachable(dev))
		unetmm_pager_ring(dev);
	return IRQ_HANDLED;
}

static void unetmm_wake(struct unetmm_dev *dev, struct unetmm_ep *ep, u8 type, u32 data)
{
	lockdep_assert_held(&dev->ep_lock);
	if (!ep)
		return;
	if (type == UNETMM_NOTIFY_END)
		WRITE_ONCE(ep->end_status, data);
	if (!ep->file) {
		if (ep->woken)
			ep->woken(ep, type);
		else
			queue_work(unetmm_wq, &dev->ctl->work);
		return;
	}
	if (type == UNETMM_NOTIFY_TAIL) {
		if (ep->backup_queue)
			unetmm_backup_queue_tail(ep->backup_queue);
		return;
	}
	if (type == UNETMM_NOTIFY_EP_ERROR)
		WRITE_ONCE(ep->failed, true);
	if (ep->woken)
		ep->woken(ep, type);
	if (ep->eventfd)
		unetmm_eventfd_signal(ep->eventfd);
	wake_up_interruptible_poll(&ep->file->wait, EPOLLIN | EPOLLRDNORM);
	unetmm_count(dev, wakeups);
}

/* The ring bounds the work: entries that the card adds meanwhile interrupt again. */
void unetmm_notify_read(struct unetmm_dev *dev)
{
	const struct unetmm_notify *rec;
	unsigned long flags;
	u32 budget;

	spin_lock_irqsave(&dev->ep_lock, flags);
	if (unetmm_reachable(dev) && dev->rings->notify.mem) {
		budget = BIT(dev->rings->notify.log2);
		while (budget-- && (rec = unetmm_ring_peek(&dev->rings->notify))) {
			u32 data = le32_to_cpu(rec->data);
			u16 id = le16_to_cpu(rec->ep);
			u8 type = rec->type;

			dev->rings->notify.index++;
			if (type == UNETMM_NOTIFY_COUNTER)
				unetmm_ec_notified(dev, id, data);
			else if (id < dev->hw.endpoints)
				unetmm_wake(dev, dev->eps[id], type, data);
		}
		unetmm_ring_release(dev, &dev->rings->notify);
	}
	spin_unlock_irqrestore(&dev->ep_lock, flags);
}

static irqreturn_t unetmm_irq_notify(int irq, void *data)
{
	unetmm_notify_read(data);
	return IRQ_HANDLED;
}

static irqreturn_t unetmm_irq_net(int irq, void *data)
{
	unetmm_net_interrupt(data);
	return IRQ_HANDLED;
}

static const struct {
	irq_handler_t handler;
	const char *name;
} unetmm_vectors[UNETMM_NUM_VECTORS] = {
	[UNETMM_VEC_EVENT] = { unetmm_irq_event, "unetmm-event" },
	[UNETMM_VEC_FAULT] = { unetmm_irq_fault, "unetmm-fault" },
	[UNETMM_VEC_NOTIFY] = { unetmm_irq_notify, "unetmm-notify" },
	[UNETMM_VEC_NET] = { unetmm_irq_net, "unetmm-net" },
};

static void unetmm_irq_free(struct unetmm_dev *dev, int n)
{
	while (n-- > 0)
		free_irq(pci_irq_vector(dev->pdev, n), dev);
	pci_free_irq_vectors(dev->pdev);
}

int unetmm_irq_init(struct unetmm_dev *dev)
{
	int i, ret;

	ret = pci_alloc_irq_vectors(dev->pdev, UNETMM_NUM_VECTORS,
				    UNETMM_NUM_VECTORS, PCI_IRQ_MSIX);
	if (ret < 0)
		return ret;
	for (i = 0; i < UNETMM_NUM_VECTORS; i++) {
		ret = request_irq(pci_irq_vector(dev->pdev, i),
				  unetmm_vectors[i].handler, 0,
				  unetmm_vectors[i].name, dev);
		if (ret) {
			unetmm_irq_free(dev, i);
			return ret;
		}
	}
	return 0;
}

void unetmm_irq_exit(struct unetmm_dev *dev)
{
	unetmm_irq_free(dev, UNETMM_NUM_VECTORS);
}
