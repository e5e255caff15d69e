// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: /sys/kernel/debug/unetmm/unetmmN/: for developers, without promise.
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "card/card.h"
#include "backup/backup.h"
#include "redirect/redirect.h"
#include "ep/ep.h"
#include "source/source.h"
#include "memory/memory.h"
#include "pager/pager.h"
#include "table/table.h"
#include "space/space.h"
#include "ring/ring.h"
#include "util/histogram.h"
#include "base/base.h"

static struct dentry *unetmm_debugfs_root;

static int counters_show(struct seq_file *s, void *unused)
{
	struct unetmm_dev *dev = s->private;
	int i;

	unetmm_fill_counters(dev);
	for (i = 0; i < UNETMM_NUM_DRIVER_COUNTERS; i++)
		seq_printf(s, "%-20s %lld\n", unetmm_driver_counter_names[i],
			   atomic64_read(&dev->counters[i]));
	seq_printf(s, "%-20s %lld\n", "charged",
		   atomic64_read(&dev->pinned));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(counters);

static void unetmm_show_space(struct seq_file *s, struct unetmm_aspace *space)
{
	struct unetmm_lane_stats stats;
	struct unetmm_pin *pin;
	struct rb_node *node;

	unetmm_lane_stats(space, &stats);
	spin_lock(&space->lock);
	seq_printf(s, "space %u source %u endpoints %u pins %lu limit %lu deferred %u asleep %u invalidations %lu now, %lu ended waiting %u most %u passed %llu user's workers %u%s\n",
		   space->id, space->source, space->endpoints, space->npins,
		   space->pin_limit, stats.must_page + stats.asleep, stats.asleep,
		   space->inv_count, space->inv_seq, stats.ready,
		   stats.most_ready, stats.most_passed, stats.most_active,
		   space->closing ? " closing" : "");
	for (node = rb_first(&space->pins); node; node = rb_next(node)) {
		pin = rb_entry(node, struct unetmm_pin, node);
		seq_printf(s, "  %#lx pfn %#lx tag %#x %s%s\n",
			   pin->vpn << PAGE_SHIFT,
			   pin->page ? page_to_pfn(pin->page) : 0,
			   pin->tag, pin->write ? "rw" : "r",
			   pin->lost ? " lost" : "");
		if (seq_has_overflowed(s))
			break;
	}
	spin_unlock(&space->lock);
}

static int spaces_show(struct seq_file *s, void *unused)
{
	struct unetmm_dev *dev = s->private;
	struct unetmm_aspace *space;
	u32 id;

	for (id = 1; id < dev->hw.spaces; id++) {
		space = unetmm_space_lookup(dev, id);
		if (!space)
			continue;
		unetmm_show_space(s, space);
		unetmm_space_put(space);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(spaces);

static int endpoints_show(struct seq_file *s, void *unused)
{
	struct unetmm_dev *dev = s->private;
	struct unetmm_ep *ep;
	unsigned long flags;
	u32 id;

	down_read(&dev->rwsem);
	for (id = 0; dev->eps && id < dev->hw.endpoints; id++) {
		spin_lock_irqsave(&dev->ep_lock, flags);
		ep = dev->eps[id];
		if (ep)
			seq_printf(s, "endpoint %u space %u sq %u fq %u cq %u service %#llx backlog %u/%u%s\n",
				   id, ep->space ? ep->space->id : ep->kernel_space,
				   1u << ep->sq_log2, 1u << ep->fq_log2,
				   1u << ep->cq_log2, ep->service,
				   ep->nbacklog, ep->backlog,
				   ep->failed ? " failed" : "");
		spin_unlock_irqrestore(&dev->ep_lock, flags);
	}
	up_read(&dev->rwsem);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(endpoints);

static void unetmm_show_ring(struct seq_file *s, struct unetmm_dev *dev,
			     const char *name, const struct unetmm_ring *ring)
{
	seq_printf(s, "%-8s entries %u ours %u card's producer %u consumer %u\n",
		   name, 1u << ring->log2, ring->index,
		   unetmm_read(dev, ring->regs + UNETMM_RING_PROD),
		   unetmm_read(dev, ring->regs + UNETMM_RING_CONS));
}

static int rings_show(struct seq_file *s, void *unused)
{
	struct unetmm_dev *dev = s->private;

	down_read(&dev->rwsem);
	if (unetmm_running(dev)) {
		unetmm_show_ring(s, dev, "command", &dev->rings->cmdq.cmd);
		unetmm_show_ring(s, dev, "done", &dev->rings->cmdq.done);
		unetmm_show_ring(s, dev, "fault", &dev->rings->fault);
		unetmm_show_ring(s, dev, "notify", &dev->rings->notify);
	} else {
		seq_puts(s, "not running\n");
	}
	up_read(&dev->rwsem);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(rings);

static int shadow_waits_show(struct seq_file *s, void *unused)
{
	struct unetmm_dev *dev = s->private;
	s64 n;
	int i;

	for (i = 0; i < UNETMM_SHADOW_BUCKETS; i++) {
		n = atomic64_read(&dev->shadow_waits[i]);
		if (n)
			seq_printf(s, "%10llu ns and more: %lld\n", 1ULL << i,
				   n);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(shadow_waits);

/* Slots, and how long the stages of a redirected packet took. */
static int sysbuf_show(struct seq_file *s, void *unused)
{
	static const char * const names[] = {
		[UNETMM_STAGE_WAIT] = "wait",
		[UNETMM_STAGE_PAGE] = "page",
		[UNETMM_STAGE_COPY] = "copy",
		[UNETMM_STAGE_TELL] = "tell",
	};
	struct unetmm_dev *dev = s->private;
	struct unetmm_sysbuf *sb = dev->sysbuf;
	u32 i, busy = 0;

	mutex_lock(&dev->ctl->lock);
	mutex_lock(&sb->lock);
	for (i = 0; i < sb->nslots; i++)
		busy += READ_ONCE(sb->jobs[i].busy);
	seq_printf(s, "slots %u\nslot_bytes %u\nreserved %u\npending %u\nendpoints %u\n",
		   sb->nslots, sb->nslots ? sb->slot_bytes : 0, sb->reserved,
		   busy, sb->users);
	mutex_unlock(&sb->lock);
	mutex_unlock(&dev->ctl->lock);
	for (i = 0; i < UNETMM_NUM_STAGES; i++)
		unetmm_hist_show(s, names[i], &sb->stages[i]);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(sysbuf);

static int backup_show(struct seq_file *s, void *unused)
{
	unetmm_backup_show(s, s->private);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(backup);

/* How long the stages of a miss took that was served. */
static int faults_show(struct seq_file *s, void *unused)
{
	static const char * const names[] = {
		[UNETMM_FSTAGE_CARD] = "card",
		[UNETMM_FSTAGE_IRQ] = "interrupt",
		[UNETMM_FSTAGE_WAIT] = "wait",
		[UNETMM_FSTAGE_PAGE] = "page",
		[UNETMM_FSTAGE_FIND] = "find",
		[UNETMM_FSTAGE_TABLE] = "table",
		[UNETMM_FSTAGE_RESUME] = "resume",
	};
	struct unetmm_dev *dev = s->private;
	int i;

	for (i = 0; i < UNETMM_NUM_FSTAGES; i++)
		unetmm_hist_show(s, names[i], &dev->misses->stages[i]);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(faults);

static int invalidations_show(struct seq_file *s, void *unused)
{
	static const char * const names[] = {
		[UNETMM_ISTAGE_TABLE] = "table",
		[UNETMM_ISTAGE_CARD] = "card",
		[UNETMM_ISTAGE_FREE] = "free",
	};
	struct unetmm_dev *dev = s->private;
	int i;

	for (i = 0; i < UNETMM_NUM_ISTAGES; i++)
		unetmm_hist_show(s, names[i], &dev->misses->invs[i]);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(invalidations);

#define UNETMM_SHADOW_SPACE	48	/* its number's place in an offset */

/*
 * Tables of sources shadow and odp, to be read like /proc/PID/pagemap: 64 bits, as the
 * card sees them, for each page, at space << 48 | page number * 8.
 */
static ssize_t shadow_read(struct file *filp, char __user *buf, size_t bytes,
			   loff_t *pos)
{
	struct unetmm_dev *dev = file_inode(filp)->i_private;
	u32 id = *pos >> UNETMM_SHADOW_SPACE;
	unsigned long vpn = (*pos & (BIT_ULL(UNETMM_SHADOW_SPACE) - 1)) / 8;
	u32 npages = min_t(size_t, bytes, PAGE_SIZE) / sizeof(u64);
	struct unetmm_aspace *space;
	ssize_t ret = -ENOENT;
	u64 *words;

	if (*pos % sizeof(u64) || !npages)
		return -EINVAL;
	words = kcalloc(npages, sizeof(*words), GFP_KERNEL);
	if (!words)
		return -ENOMEM;
	space = unetmm_space_lookup(dev, id);
	if (space) {
		unetmm_table_words(space, vpn, npages, words);
		unetmm_space_put(space);
		ret = npages * sizeof(*words);
		if (copy_to_user(buf, words, ret))
			ret = -EFAULT;
		else
			*pos += ret;
	}
	kfree(words);
	return ret;
}

static const struct file_operations shadow_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = shadow_read,
	.llseek = default_llseek,
};

void unetmm_debugfs_init(void)
{
	unetmm_debugfs_root = debugfs_create_dir(UNETMM_NAME, NULL);
}

void unetmm_debugfs_exit(void)
{
	debugfs_remove_recursive(unetmm_debugfs_root);
}

void unetmm_debugfs_add(struct unetmm_dev *dev)
{
	struct dentry *dir = debugfs_create_dir(dev->name, unetmm_debugfs_root);

	unetmm_card(dev)->debugfs = dir;
	debugfs_create_file("counters", 0400, dir, dev, &counters_fops);
	debugfs_create_file("spaces", 0400, dir, dev, &spaces_fops);
	debugfs_create_file("endpoints", 0400, dir, dev, &endpoints_fops);
	debugfs_create_file("rings", 0400, dir, dev, &rings_fops);
	debugfs_create_file("shadow", 0400, dir, dev, &shadow_fops);
	debugfs_create_file("shadow_waits", 0400, dir, dev, &shadow_waits_fops);
	debugfs_create_file("faults", 0400, dir, dev, &faults_fops);
	debugfs_create_file("invalidations", 0400, dir, dev, &invalidations_fops);
	debugfs_create_file("sysbuf", 0400, dir, dev, &sysbuf_fops);
	debugfs_create_file("backup", 0400, dir, dev, &backup_fops);
}

/* Waits for readers; none comes after. */
void unetmm_debugfs_remove(struct unetmm_dev *dev)
{
	debugfs_remove_recursive(unetmm_card(dev)->debugfs);
}
