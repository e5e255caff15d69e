// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: PREFETCH: a process has pages entered into its table before the card asks
 * for them (sources shadow and odp).
 *
 * The calling thread faults them in, as by an access, and waits for I/O or a
 * userfaultfd without any lock of ours.  A call goes through a bounded part of the
 * range, and returns how far it came: a caller that wants more calls again.
 */
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "memory/memory.h"
#include "pager/pager.h"
#include "table/table.h"
#include "space/space.h"
#include "base/base.h"

#define UNETMM_PREFETCH_PAGES	4096UL		/* of one call */

struct unetmm_prefetcher {
	struct unetmm_aspace *space;
	struct unetmm_batch *batch;
	bool write;
	bool fault;
};

/*
 * Enters the resident ones of n pages in one leaf.  *have: how many the table has
 * then, from the first on.
 */
static int unetmm_prefetch_snapshot(const struct unetmm_prefetcher *p,
				    unsigned long vpn, u32 n, u32 *have)
{
	int ret;

	*have = 0;
	if (!unetmm_snapshot_get(p->space))
		return -ENODEV;
	p->batch->write = p->write;
	p->batch->asked = vpn + n - 1;
	ret = unetmm_snapshot_enter(p->space, p->batch, vpn, vpn + n - 1, vpn, true);
	*have = unetmm_table_run(p->space, vpn, n, p->write);
	unetmm_snapshot_put(p->space);
	return ret == -ESTALE ? -ENODEV : ret;
}

/*
 * With NO_FAULT: pages that cannot be entered are passed over, unless there is no
 * room.
 */
static int unetmm_prefetch_resident(const struct unetmm_prefetcher *p,
				    unsigned long vpn, u32 n)
{
	int ret = -EAGAIN, tries;
	u32 have;

	for (tries = 0; ret == -EAGAIN && tries < UNETMM_PIN_TRIES; tries++) {
		if (tries > 1)
			schedule_timeout_killable(1);
		if (signal_pending(current))
			return -EINTR;
		ret = unetmm_prefetch_snapshot(p, vpn, n, &have);
	}
	return ret && ret != -EOPNOTSUPP ? ret : n;
}

/* How many pages the table has now, from vpn on; or why not the first. */
static int unetmm_prefetch_some(const struct unetmm_prefetcher *p,
				unsigned long vpn, u32 n)
{
	u32 have = 0;
	int ret, tries;

	for (tries = 0; tries < UNETMM_PIN_TRIES; tries++) {
		ret = unetmm_prefetch_snapshot(p, vpn, n, &have);
		if (have == n || (tries && have))
			break;
		if (ret && ret != -EAGAIN && !have)
			return ret;
		ret = unetmm_page_in(p->space, (u64)(vpn + have) << PAGE_SHIFT,
				     n - have, p->write);
		if (!ret && signal_pending(current))
			ret = -EINTR;
		if (ret)
			return have ? have : ret;
		/* The thread that changes memory may need our processor to end. */
		if (tries)
			schedule_timeout_killable(1);
	}
	return have ? have : -EAGAIN;
}

/* Returns how many pages of [vpn, last] it has gone through, or -errno. */
static long unetmm_prefetch_run(const struct unetmm_prefetcher *p,
				unsigned long vpn, unsigned long last)
{
	unsigned long first = vpn, end;
	int ret;

	last = min(last, vpn + UNETMM_PREFETCH_PAGES - 1);
	while (vpn <= last) {
		end = min(last, vpn | (UNETMM_TABLE_ENTRIES - 1));
		ret = p->fault ? unetmm_prefetch_some(p, vpn, end - vpn + 1) :
		      unetmm_prefetch_resident(p, vpn, end - vpn + 1);
		if (ret < 0)
			return vpn > first ? vpn - first : ret;
		vpn += ret;
		if (fatal_signal_pending(current))
			break;
		cond_resched();
	}
	return vpn - first;
}

static int unetmm_prefetch_check(struct unetmm_file *file,
				 const struct unetmm_prefetch *a)
{
	u64 last;

	if (a->flags & ~(UNETMM_PREFETCH_WRITE | UNETMM_PREFETCH_NO_FAULT) ||
	    !file->space->ops->enter)
		return -EOPNOTSUPP;
	if (!a->length || check_add_overflow(a->addr, a->length - 1, &last) ||
	    last >= current->mm->task_size)
		return -EINVAL;
	return 0;
}

int unetmm_op_prefetch(struct unetmm_file *file, void *arg)
{
	struct unetmm_prefetch *a = arg;
	struct unetmm_prefetcher p;
	long ret;

	ret = unetmm_prefetch_check(file, a);
	if (ret)
		return ret;
	p.space = file->space;
	p.write = a->flags & UNETMM_PREFETCH_WRITE;
	p.fault = !(a->flags & UNETMM_PREFETCH_NO_FAULT);
	p.batch = kvmalloc(sizeof(*p.batch), GFP_KERNEL_ACCOUNT);
	if (!p.batch)
		return -ENOMEM;
	ret = unetmm_prefetch_run(&p, a->addr >> PAGE_SHIFT,
				  (a->addr + a->length - 1) >> PAGE_SHIFT);
	kvfree(p.batch);
	if (ret < 0)
		return ret == -EDQUOT ? -ENOMEM : ret;
	unetmm_count(file->dev, prefetches);
	unetmm_count_add(file->dev, prefetched_pages, ret);
	a->done = min_t(u64, a->length, ((u64)ret << PAGE_SHIFT) -
					offset_in_page(a->addr));
	return 0;
}
