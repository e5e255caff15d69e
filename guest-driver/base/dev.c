// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the card's life cycle, for all rooms: its reference, its failure, the
 * work queues.
 */
#include <linux/moduleparam.h>
#include <linux/slab.h>

#include "base/base.h"

bool unetmm_hole;
module_param_named_unsafe(hole, unetmm_hole, bool, 0644);
MODULE_PARM_DESC(hole,
		 "sources that pin: ignore invalidations, as the papers did: the card keeps pages that the process gave away (for tests; taints the kernel)");

struct workqueue_struct *unetmm_wq;
/*
 * Gives pages back, which reclaim gets in no other way, and ends requests of the kernel, for which
 * reclaim may wait: so it needs neither memory for another thread (WQ_MEM_RECLAIM) nor a turn
 * behind work that pages in.
 */
struct workqueue_struct *unetmm_drop_wq;

static void unetmm_dev_free(struct kref *ref)
{
	struct unetmm_dev *dev = container_of(ref, struct unetmm_dev, ref);

	xa_destroy(&dev->spaces);
	dev->up->dev_unused(dev);
	kfree(dev);
}

void unetmm_dev_put(struct unetmm_dev *dev)
{
	kref_put(&dev->ref, unetmm_dev_free);
}

/*
 * A card that nobody can speak to does no DMA, see enum unetmm_state.  Callable from
 * anywhere; one that has left the bus reads as all ones.
 */
void unetmm_check_parted(struct unetmm_dev *dev)
{
	u16 command;

	pci_read_config_word(dev->pdev, PCI_COMMAND, &command);
	WARN_ONCE(command != U16_MAX && command & PCI_COMMAND_MASTER,
		  "%s: pages are taken from a card that has the bus\n",
		  dev->name);
}

/* tests/guest/driver/module.c has a probe at pci_clear_master() look at it. */
static_assert(!offsetof(struct unetmm_dev, state));

/*
 * The card does not keep the contract, or is gone.  It loses the bus, so that
 * pages may be taken from it whatever it does; calls fail from now on, and a
 * reset of the function starts anew.  Callable from anywhere.
 */
void unetmm_fail(struct unetmm_dev *dev, const char *why)
{
	if (!unetmm_reachable(dev))
		return;
	/* By each caller: the code behind this call may take pages. */
	pci_clear_master(dev->pdev);
	if (cmpxchg(&dev->state, UNETMM_RUNNING, UNETMM_FAILED) !=
	    UNETMM_RUNNING &&
	    cmpxchg(&dev->state, UNETMM_STARTING, UNETMM_FAILED) !=
	    UNETMM_STARTING)
		return;
	WRITE_ONCE(dev->why, why);
	dev_err(&dev->pdev->dev, "the card has failed and needs a reset: %s\n", why);
	queue_work(unetmm_drop_wq, &dev->fail_work);
}

/* After this no handler runs that still saw the card as reachable. */
void unetmm_irq_sync(struct unetmm_dev *dev)
{
	int i;

	for (i = 0; i < UNETMM_NUM_VECTORS; i++)
		synchronize_irq(pci_irq_vector(dev->pdev, i));
}

void unetmm_pinned_add(struct unetmm_dev *dev, u32 n)
{
	s64 now = atomic64_add_return(n, &dev->counters[UNETMM_D_pinned_now]);
	s64 max = atomic64_read(&dev->counters[UNETMM_D_pinned_max]);

	unetmm_count_add(dev, pins, n);
	while (now > max &&
	       !atomic64_try_cmpxchg(&dev->counters[UNETMM_D_pinned_max], &max,
				     now))
		cpu_relax();
}

void unetmm_pinned_sub(struct unetmm_dev *dev, u32 n)
{
	atomic64_sub(n, &dev->counters[UNETMM_D_pinned_now]);
	unetmm_count_add(dev, unpins, n);
}
