// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: PCI driver: probe and remove, start and stop, reset.
 *
 * probe = map, interrupts, start, appear; remove mirrors it.  A function reset and a
 * machine that sleeps consist of stop and start, too: a process that
 * had a file open then finds it dead (ENODEV) and opens it again.
 */
#include <linux/dma-mapping.h>
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "card/card.h"
#include "net/net.h"
#include "remote/remote.h"
#include "channel/channel.h"
#include "backup/backup.h"
#include "redirect/redirect.h"
#include "ep/ep.h"
#include "memory/memory.h"
#include "pager/pager.h"
#include "map/map.h"
#include "space/space.h"
#include "ring/ring.h"
#include "base/base.h"

#define CREATE_TRACE_POINTS
#include "trace/trace.h"

#define UNETMM_FAULT_LOG2	10
#define UNETMM_NOTIFY_LOG2	10

static DEFINE_IDA(unetmm_numbers);

/* Takes no lock whose holders allocate memory: reclaim may wait for these endpoints. */
static void unetmm_wake_kernel(struct unetmm_dev *dev)
{
	struct unetmm_ep *ep;
	u32 id;

	for (id = 0; id < dev->hw.endpoints; id++) {
		spin_lock_irq(&dev->ep_lock);
		ep = dev->eps ? dev->eps[id] : NULL;
		if (ep && !ep->file && ep->woken)
			unetmm_ep_gone(ep);
		spin_unlock_irq(&dev->ep_lock);
	}
}

static void unetmm_wake_all(struct unetmm_dev *dev)
{
	struct unetmm_file *file;
	struct unetmm_ep *ep;

	unetmm_wake_kernel(dev);
	mutex_lock(&dev->files_lock);
	mutex_lock(&dev->map_lock);
	list_for_each_entry(file, &dev->files, node) {
		list_for_each_entry(ep, &file->eps, node)
			unetmm_ep_gone(ep);
		wake_up_poll(&file->wait, EPOLLHUP | EPOLLERR);
	}
	mutex_unlock(&dev->map_lock);
	mutex_unlock(&dev->files_lock);
	unetmm_questions_wake(dev->ctl);
}

static void unetmm_fail_work(struct work_struct *work)
{
	struct unetmm_dev *dev = container_of(work, struct unetmm_dev,
					      fail_work);

	unetmm_wake_all(dev);
	unetmm_net_event(dev);
	unetmm_devlink_health(dev);
}

static int unetmm_start_memory(struct unetmm_dev *dev)
{
	struct unetmm_rings *rings = dev->rings;

	dev->eps = kvcalloc(dev->hw.endpoints, sizeof(*dev->eps), GFP_KERNEL);
	dev->remote->ecs = kvcalloc(dev->hw.spaces, sizeof(*dev->remote->ecs),
				    GFP_KERNEL);
	rings->reply_list = dma_alloc_coherent(&dev->pdev->dev,
					       UNETMM_REPLY_MAX_PAGES *
					       sizeof(*rings->reply_list),
					       &rings->reply_list_dma, GFP_KERNEL);
	dev->ctl->region_map = bitmap_zalloc(max(dev->hw.regions, 1u),
					    GFP_KERNEL);
	dev->flows->map = bitmap_zalloc(max(dev->hw.flows, 1u), GFP_KERNEL);
	if (dev->eps && dev->remote->ecs && rings->reply_list &&
	    dev->ctl->region_map && dev->flows->map && !unetmm_miss_table_init(dev) &&
	    !unetmm_pager_start(dev) && !unetmm_redirect_start(dev))
		return unetmm_windows_init(dev);
	return -ENOMEM;
}

static void unetmm_stop_memory(struct unetmm_dev *dev)
{
	struct unetmm_rings *rings = dev->rings;
	struct unetmm_ep **eps = dev->eps;

	unetmm_pager_stop(dev);
	unetmm_windows_exit(dev);
	unetmm_sysbuf_stop(dev);
	unetmm_redirect_stop(dev);
	if (rings->reply_list)
		dma_free_coherent(&dev->pdev->dev, UNETMM_REPLY_MAX_PAGES *
				  sizeof(*rings->reply_list), rings->reply_list,
				  rings->reply_list_dma);
	rings->reply_list = NULL;
	bitmap_free(dev->flows->map);
	dev->flows->map = NULL;
	bitmap_free(dev->ctl->region_map);
	dev->ctl->region_map = NULL;
	unetmm_miss_table_exit(dev);
	kvfree(dev->remote->ecs);
	dev->remote->ecs = NULL;
	spin_lock_irq(&dev->ep_lock);
	dev->eps = NULL;
	spin_unlock_irq(&dev->ep_lock);
	kvfree(eps);
}

static int unetmm_start_rings(struct unetmm_dev *dev)
{
	int ret;

	atomic64_set(&dev->misses->total, 0);
	ret = unetmm_cmdq_init(dev);
	if (ret)
		return ret;
	ret = unetmm_ring_init(dev, &dev->rings->fault, UNETMM_RING_FAULT,
			       sizeof(struct unetmm_fault),
			       min_t(u32, UNETMM_FAULT_LOG2, dev->hw.max_log2));
	if (ret)
		goto exit_cmdq;
	ret = unetmm_ring_init(dev, &dev->rings->notify, UNETMM_RING_NOTIFY,
			       sizeof(struct unetmm_notify),
			       min_t(u32, UNETMM_NOTIFY_LOG2,
				     dev->hw.max_log2));
	if (ret)
		goto exit_fault;
	return 0;

exit_fault:
	unetmm_ring_exit(dev, &dev->rings->fault);
exit_cmdq:
	unetmm_cmdq_exit(dev);
	return ret;
}

static void unetmm_stop_rings(struct unetmm_dev *dev)
{
	unetmm_ring_exit(dev, &dev->rings->notify);
	unetmm_ring_exit(dev, &dev->rings->fault);
	unetmm_cmdq_exit(dev);
}

static void unetmm_stop_card(struct unetmm_dev *dev)
{
	unetmm_reset_card(dev);
	unetmm_irq_sync(dev);
	unetmm_pager_hush(dev);
	cancel_work_sync(&dev->ctl->work);
	cancel_delayed_work_sync(&dev->ctl->liveness);
	cancel_delayed_work_sync(&dev->ctl->close_work);
	cancel_work_sync(&dev->fail_work);
}

static int unetmm_start(struct unetmm_dev *dev)
{
	int ret;

	ret = unetmm_reset_card(dev);
	if (ret)
		return ret;
	ret = unetmm_read_limits(dev);
	if (ret)
		return ret;
	pci_set_master(dev->pdev);
	ret = unetmm_start_memory(dev);
	if (ret)
		goto stop_memory;
	ret = unetmm_start_rings(dev);
	if (ret)
		goto stop_memory;
	WRITE_ONCE(dev->why, NULL);
	WRITE_ONCE(dev->state, UNETMM_STARTING);
	unetmm_params_apply(dev);
	unetmm_write(dev, UNETMM_REG_EVENT_MASK,
		     UNETMM_EVENT_ALL & ~UNETMM_EVENT_CMD);
	unetmm_write(dev, UNETMM_REG_CTRL, UNETMM_CTRL_ENABLE);
	ret = unetmm_mailbox_init(dev);
	if (ret)
		goto stop_card;
	unetmm_close_start(dev->ctl);
	/* The card may have failed meanwhile. */
	if (cmpxchg(&dev->state, UNETMM_STARTING, UNETMM_RUNNING) !=
	    UNETMM_STARTING) {
		ret = -EIO;
		goto stop_mailbox;
	}
	return 0;

stop_mailbox:
	WRITE_ONCE(dev->state, UNETMM_OFF);
	unetmm_stop_card(dev);
	unetmm_mailbox_exit(dev);
	unetmm_stop_rings(dev);
	goto stop_memory;
stop_card:
	WRITE_ONCE(dev->state, UNETMM_OFF);
	unetmm_stop_card(dev);
	unetmm_stop_rings(dev);
stop_memory:
	unetmm_stop_memory(dev);
	pci_clear_master(dev->pdev);
	return ret;
}

/*
 * Takes the card away from everybody.  After the reset it does no DMA, so its memory
 * may be freed in any order; it may also have left the bus already.
 */
static void unetmm_stop(struct unetmm_dev *dev)
{
	struct unetmm_file *file;

	if (READ_ONCE(dev->state) == UNETMM_OFF)
		return;
	/* A thread that finds it off takes pages from it without asking: no DMA before. */
	pci_clear_master(dev->pdev);
	WRITE_ONCE(dev->state, UNETMM_OFF);
	/* A thread that waits in a call leaves it, and with it rwsem. */
	unetmm_wake_all(dev);
	down_write(&dev->rwsem);
	unetmm_stop_card(dev);
	mutex_lock(&dev->files_lock);
	list_for_each_entry(file, &dev->files, node)
		unetmm_file_shutdown(file);
	mutex_unlock(&dev->files_lock);
	unetmm_mailbox_exit(dev);
	unetmm_blocks_bury(dev);
	unetmm_stop_rings(dev);
	unetmm_stop_memory(dev);
	up_write(&dev->rwsem);
}

static_assert(!offsetof(struct unetmm_card, dev));

static struct unetmm_dev *unetmm_card_alloc(void)
{
	struct unetmm_card *card = kzalloc(sizeof(*card), GFP_KERNEL);

	if (!card)
		return NULL;
	card->dev.rings = &card->rings;
	card->dev.misses = &card->misses;
	card->dev.flows = &card->flows;
	card->dev.sysbuf = &card->sysbuf;
	card->dev.backup = &card->backup;
	card->dev.ctl = &card->ctl;
	card->dev.remote = &card->remote;
	return &card->dev;
}

static void unetmm_dev_init(struct unetmm_dev *dev)
{
	kref_init(&dev->ref);
	init_rwsem(&dev->rwsem);
	mutex_init(&dev->files_lock);
	INIT_LIST_HEAD(&dev->files);
	mutex_init(&dev->map_lock);
	INIT_LIST_HEAD(&dev->blocks);
	spin_lock_init(&dev->reg_lock);
	spin_lock_init(&dev->ep_lock);
	unetmm_users_init(dev);
	mutex_init(&dev->rings->reply_lock);
	mutex_init(&dev->flows->lock);
	unetmm_sysbuf_init(dev);
	unetmm_backup_init(dev);
	INIT_WORK(&dev->fail_work, unetmm_fail_work);
	xa_init_flags(&dev->spaces, XA_FLAGS_ALLOC1);
	unetmm_ctl_init(dev);
}

static struct unetmm_dev *unetmm_dev_alloc(struct pci_dev *pdev)
{
	struct unetmm_dev *dev = unetmm_card_alloc();
	struct miscdevice *misc;
	int number = -ENOMEM;

	if (!dev)
		return ERR_PTR(-ENOMEM);
	if (unetmm_pager_alloc(dev))
		goto free_card;
	number = ida_alloc(&unetmm_numbers, GFP_KERNEL);
	if (number < 0)
		goto free_pager;
	unetmm_dev_init(dev);
	unetmm_tables_set(dev);
	dev->pdev = pdev;
	dev->number = number;
	snprintf(dev->name, sizeof(dev->name), UNETMM_NAME "%d", number);
	misc = &unetmm_card(dev)->misc;
	misc->minor = MISC_DYNAMIC_MINOR;
	misc->name = dev->name;
	misc->fops = &unetmm_fops;
	misc->parent = &pdev->dev;
	/* For everybody, as verbs devices are: space/limits.c has the limits. */
	misc->mode = 0666;
	return dev;

free_pager:
	unetmm_pager_free(dev);
free_card:
	kfree(unetmm_card(dev));
	return ERR_PTR(number);
}

static int unetmm_map(struct unetmm_dev *dev)
{
	struct pci_dev *pdev = dev->pdev;

	if (pci_resource_len(pdev, UNETMM_BAR_REGS) < UNETMM_REGS_BYTES)
		return -ENODEV;
	dev->doorbell_start = pci_resource_start(pdev, UNETMM_BAR_DOORBELL);
	dev->doorbell_bytes = pci_resource_len(pdev, UNETMM_BAR_DOORBELL);
	if (dev->doorbell_bytes < PAGE_SIZE)
		return -ENODEV;
	dev->proxy_start = pci_resource_start(pdev, UNETMM_BAR_PROXY);
	dev->window_start = pci_resource_start(pdev, UNETMM_BAR_WINDOWS);
	dev->regs = pci_iomap(pdev, UNETMM_BAR_REGS, UNETMM_REGS_BYTES);
	if (!dev->regs)
		return -ENOMEM;
	dev->doorbell = ioremap(dev->doorbell_start, PAGE_SIZE);
	if (!dev->doorbell) {
		pci_iounmap(pdev, dev->regs);
		return -ENOMEM;
	}
	return 0;
}

static void unetmm_unmap(struct unetmm_dev *dev)
{
	iounmap(dev->doorbell);
	pci_iounmap(dev->pdev, dev->regs);
}

/*
 * Source shadow: the card changes words of memory by AtomicOps.  The PCI Express
 * ports of virtual machines hardly ever announce that these get there (on the root
 * bus there is not even a port to say so), and yet they do: a refusal is a note,
 * once.
 */
static void unetmm_allow_atomics(struct unetmm_dev *dev)
{
	int ret;

	if (!(dev->hw.sources & BIT(UNETMM_SOURCE_SHADOW)))
		return;
	ret = pci_enable_atomic_ops_to_root(dev->pdev,
					    PCI_EXP_DEVCAP2_ATOMIC_COMP64);
	if (ret)
		dev_info(&dev->pdev->dev, "PCI does not report AtomicOps on the way to this card (%d): use source shadow in virtual machines only\n",
			 ret);
}

/* The card runs: netdev, debugfs, devlink, and last the file that processes open. */
static int unetmm_publish(struct unetmm_dev *dev)
{
	int ret = unetmm_net_init(dev);

	if (ret)
		return ret;
	unetmm_allow_atomics(dev);
	unetmm_debugfs_add(dev);
	ret = unetmm_devlink_add(dev);
	if (ret)
		goto exit_net;
	ret = misc_register(&unetmm_card(dev)->misc);
	if (!ret) {
		unetmm_auxiliary_add(dev);
		return 0;
	}
	unetmm_devlink_remove(dev);
exit_net:
	unetmm_debugfs_remove(dev);
	unetmm_net_exit(dev);
	return ret;
}

static void unetmm_conceal(struct unetmm_dev *dev)
{
	unetmm_auxiliary_remove(dev);
	misc_deregister(&unetmm_card(dev)->misc);
	unetmm_devlink_remove(dev);
	unetmm_debugfs_remove(dev);
	unetmm_net_exit(dev);
}

static int unetmm_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct unetmm_dev *dev;
	int ret;

	dev = unetmm_dev_alloc(pdev);
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	ret = pci_enable_device_mem(pdev);
	if (ret)
		goto put_dev;
	ret = pci_request_regions(pdev, UNETMM_NAME);
	if (ret)
		goto disable_device;
	ret = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (ret)
		goto release_regions;
	ret = unetmm_map(dev);
	if (ret)
		goto release_regions;
	ret = unetmm_irq_init(dev);
	if (ret)
		goto unmap;
	pci_set_drvdata(pdev, dev);
	ret = unetmm_container_register(dev);
	if (ret)
		goto exit_irq;
	ret = unetmm_start(dev);
	if (ret)
		goto unregister;
	ret = unetmm_publish(dev);
	if (ret)
		goto stop;
	dev_info(&pdev->dev, "/dev/%s: %pM, %u endpoints, TLB of %u sets, %u ways, %u victims, link %s\n",
		 dev->name, dev->hw.mac, dev->hw.endpoints, dev->hw.tlb_sets,
		 dev->hw.tlb_ways, dev->hw.tlb_victims,
		 unetmm_link_up(dev) ? "up" : "down");
	return 0;

stop:
	unetmm_stop(dev);
unregister:
	unetmm_container_unregister(dev);
exit_irq:
	unetmm_irq_exit(dev);
unmap:
	unetmm_unmap(dev);
release_regions:
	pci_release_regions(pdev);
disable_device:
	pci_disable_device(pdev);
put_dev:
	ida_free(&unetmm_numbers, dev->number);
	unetmm_dev_put(dev);
	return ret;
}

static void unetmm_remove(struct pci_dev *pdev)
{
	struct unetmm_dev *dev = pci_get_drvdata(pdev);

	/* A card that has left the bus is noticed here, and threads that wait for its queues wake. */
	unetmm_read(dev, UNETMM_REG_ID);
	unetmm_conceal(dev);
	unetmm_stop(dev);
	unetmm_close_exit(dev);
	unetmm_container_unregister(dev);
	unetmm_irq_exit(dev);
	unetmm_unmap(dev);
	pci_release_regions(pdev);
	pci_disable_device(pdev);
	/* Nobody uses the name any more, even if files are still open. */
	ida_free(&unetmm_numbers, dev->number);
	unetmm_dev_put(dev);
}

static void unetmm_reset_prepare(struct pci_dev *pdev)
{
	struct unetmm_dev *dev = pci_get_drvdata(pdev);

	unetmm_auxiliary_remove(dev);
	unetmm_net_suspend(dev);
	unetmm_stop(dev);
}

/* The next kernel must not find a card that still does DMA. */
static void unetmm_shutdown(struct pci_dev *pdev)
{
	unetmm_reset_prepare(pdev);
}

static void unetmm_restart(struct pci_dev *pdev)
{
	struct unetmm_dev *dev = pci_get_drvdata(pdev);
	int ret;

	down_write(&dev->rwsem);
	ret = unetmm_start(dev);
	up_write(&dev->rwsem);
	if (ret)
		dev_err(&pdev->dev, "cannot start the card after a reset: %d\n", ret);
	else
		unetmm_net_resume(dev);
	unetmm_devlink_health(dev);
}

/* The card may not have started, or may never have slept. */
static void unetmm_auxiliary_again(struct unetmm_dev *dev)
{
	if (unetmm_running(dev) && !unetmm_card(dev)->auxiliary)
		unetmm_auxiliary_add(dev);
}

static void unetmm_reset_done(struct pci_dev *pdev)
{
	unetmm_restart(pdev);
	unetmm_auxiliary_again(pci_get_drvdata(pdev));
}

/*
 * Sleep, of all kinds (suspend, hibernate), is a reset as well: the card loses its
 * state with its power, files that are open find it dead (ENODEV), and the netdev
 * goes on.  Processes are frozen in between, so none is in a call.
 */
static int __maybe_unused unetmm_suspend(struct device *device)
{
	unetmm_reset_prepare(to_pci_dev(device));
	return 0;
}

/* A card that does not start is reported; it must not keep the machine asleep. */
static int __maybe_unused unetmm_resume(struct device *device)
{
	unetmm_restart(to_pci_dev(device));
	return 0;
}

/* A device can be added when its parent has woken. */
static void __maybe_unused unetmm_complete(struct device *device)
{
	unetmm_auxiliary_again(pci_get_drvdata(to_pci_dev(device)));
}

static const struct dev_pm_ops unetmm_pm_ops = {
	SET_SYSTEM_SLEEP_PM_OPS(unetmm_suspend, unetmm_resume)
#ifdef CONFIG_PM_SLEEP
	.complete = unetmm_complete,
#endif
};

static const struct pci_error_handlers unetmm_err_handlers = {
	.reset_prepare = unetmm_reset_prepare,
	.reset_done = unetmm_reset_done,
};

static const struct pci_device_id unetmm_ids[] = {
	{ PCI_DEVICE(UNETMM_PCI_VENDOR_ID, UNETMM_PCI_DEVICE_ID) },
	{ }
};
MODULE_DEVICE_TABLE(pci, unetmm_ids);

static struct pci_driver unetmm_driver = {
	.name = UNETMM_NAME,
	.id_table = unetmm_ids,
	.probe = unetmm_probe,
	.remove = unetmm_remove,
	.shutdown = unetmm_shutdown,
	.err_handler = &unetmm_err_handlers,
	.driver.pm = &unetmm_pm_ops,
};

static int __init unetmm_init(void)
{
	int ret;

	ret = unetmm_pin_cache_init();
	if (ret)
		return ret;
	/* The process waits for the whole latency of a miss. */
	unetmm_wq = alloc_workqueue(UNETMM_NAME, WQ_UNBOUND | WQ_HIGHPRI, 0);
	ret = -ENOMEM;
	if (!unetmm_wq)
		goto exit_cache;
	unetmm_drop_wq = alloc_workqueue(UNETMM_NAME "-drop",
					 WQ_UNBOUND | WQ_HIGHPRI |
					 WQ_MEM_RECLAIM, 0);
	if (!unetmm_drop_wq)
		goto exit_wq;
	unetmm_debugfs_init();
	ret = pci_register_driver(&unetmm_driver);
	if (ret)
		goto exit_debugfs;
	return 0;

exit_debugfs:
	unetmm_debugfs_exit();
	destroy_workqueue(unetmm_drop_wq);
exit_wq:
	destroy_workqueue(unetmm_wq);
exit_cache:
	unetmm_pin_cache_exit();
	return ret;
}

static void __exit unetmm_exit(void)
{
	pci_unregister_driver(&unetmm_driver);
	unetmm_debugfs_exit();
	destroy_workqueue(unetmm_wq);
	destroy_workqueue(unetmm_drop_wq);
	unetmm_pin_cache_exit();
}

module_init(unetmm_init);
module_exit(unetmm_exit);
MODULE_DESCRIPTION("unetmm: user-level network card with a TLB");
MODULE_LICENSE("GPL");
