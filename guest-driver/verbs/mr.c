// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm_ib: memory regions.
 *
 * Each region is paged on demand, whatever the process asks for: nothing is pinned.  One
 * without IB_ACCESS_ON_DEMAND is looked at when it is registered: all of it has to be
 * there, with the rights.  In a protection domain with a UD queue pair its pages are entered
 * into the card's table, too, so that a message finds them: the calling thread faults them in,
 * and waits as for an access.  A region of huge pages is as any other.  A region that peers
 * may use is a region of the card; the lkey is the driver's, which translates it when it
 * copies a request.
 */
#include <linux/slab.h>
#include <net/netlink.h>
#include <rdma/rdma_netlink.h>
#include <rdma/restrack.h>

#include "compat/compat.h"
#include "remote/remote.h"
#include "verbs/mr.h"

#define UNETMM_IB_MR_ACCESS \
	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
	 IB_ACCESS_REMOTE_ATOMIC | IB_ACCESS_MW_BIND | IB_ACCESS_ON_DEMAND | \
	 IB_ACCESS_HUGETLB | IB_ACCESS_OPTIONAL)
#define UNETMM_IB_MR_TRIES	16	/* to bring a page, if signals come */
#define UNETMM_IB_MR_MOST	BIT(24)	/* lkeys have 8 bits beside the index */

/* The address of the process behind a segment; false: no such memory, or no right. */
static bool unetmm_ib_mr_at(struct unetmm_ib *dev, const struct ib_pd *pd,
			    const struct ib_sge *sge, int access, u64 *addr)
{
	struct xarray *mrs = &dev->mrs;
	const struct unetmm_ib_mr *mr;
	bool found;

	xa_lock(mrs);
	mr = xa_load(mrs, sge->lkey >> 8);
	found = mr && mr->ib.lkey == sge->lkey && mr->ib.pd == pd &&
		(mr->access & access) == access && sge->addr >= mr->iova &&
		sge->length <= mr->length &&
		sge->addr - mr->iova <= mr->length - sge->length;
	if (found)
		*addr = mr->start + (sge->addr - mr->iova);
	xa_unlock(mrs);
	return found;
}

struct unetmm_ib_mr *unetmm_ib_mr_load(struct unetmm_ib *dev, const struct ib_pd *pd, u32 lkey)
{
	struct unetmm_ib_mr *mr;

	lockdep_assert_held(&unetmm_ib_pd_context(pd)->mw_lock);
	xa_lock(&dev->mrs);
	mr = xa_load(&dev->mrs, lkey >> 8);
	if (mr && (mr->ib.lkey != lkey || mr->ib.pd != pd || mr->closed ||
		   !(mr->access & IB_ACCESS_MW_BIND)))
		mr = NULL;
	xa_unlock(&dev->mrs);
	return mr;
}

/* Memory of a process, in a protection domain */
bool unetmm_ib_mr_find_for(struct unetmm_ib *dev, const struct ib_pd *pd, const struct rxe_sge *rxe,
			   int access, u64 *addr)
{
	const struct ib_sge sge = {
		.addr = rxe->addr, .length = rxe->length, .lkey = rxe->lkey,
	};

	return unetmm_ib_mr_at(dev, pd, &sge, access, addr);
}

bool unetmm_ib_mr_find(struct unetmm_ib_qp *qp, const struct rxe_sge *rxe, int access, u64 *addr)
{
	if (unetmm_ib_is_kernel(qp))
		return unetmm_ib_kernel_find(qp, rxe, access, addr);
	return unetmm_ib_mr_find_for(qp->dev, qp->ib.pd, rxe, access, addr);
}

/* Pages for the region, if it is there still. */
static void unetmm_ib_prefetched(struct unetmm_ib *dev, u32 lkey, const struct unetmm_prefetch *a)
{
	struct unetmm_ib_mr *mr;

	xa_lock(&dev->mrs);
	mr = xa_load(&dev->mrs, lkey >> 8);
	if (mr && mr->ib.lkey == lkey)
		mr->prefetched += ((a->addr + a->done - 1) >> PAGE_SHIFT) -
				  (a->addr >> PAGE_SHIFT) + 1;
	xa_unlock(&dev->mrs);
}

/*
 * All of it, or the first error: pages that came stay, and the rest is left in *addr and *length.
 * lkey 0: no region counts them.
 */
static int unetmm_ib_prefetch(struct unetmm_ib *dev, struct unetmm_file *file, u64 *addr,
			      u64 *length, u32 flags, u32 lkey)
{
	struct unetmm_prefetch a = { .size = sizeof(a), .flags = flags };
	int ret = 0;

	while (*length && !ret) {
		a.addr = *addr;
		a.length = *length;
		ret = dev->calls->page_in(file, &a);
		if (!ret)
			unetmm_ib_prefetched(dev, lkey, &a);
		*addr += ret ? 0 : a.done;
		*length -= ret ? 0 : a.done;
		if (*length && fatal_signal_pending(current))
			ret = -EINTR;
	}
	return ret;
}

/*
 * Without ON_DEMAND.  A page that cannot come is an error when it is used, and no reason to
 * leave out those behind it.  A signal that does not kill the process has the page tried again,
 * so often as without a signal.
 */
static int unetmm_ib_mr_enter(struct unetmm_ib *dev, struct unetmm_file *file, u64 start,
			      u64 length, int access)
{
	u32 flags = access & UNETMM_IB_MR_WRITES ? UNETMM_PREFETCH_WRITE : 0;
	u64 page, before;
	int ret, tries = 0;

	if (access & IB_ACCESS_ON_DEMAND)
		return 0;
	while (length) {
		before = start;
		ret = unetmm_ib_prefetch(dev, file, &start, &length, flags, 0);
		tries = start == before ? tries + 1 : 0;
		if (fatal_signal_pending(current))
			return -EINTR;
		/* The card has gone, or nothing more can come. */
		if (ret == -ENODEV || ret == -ENOMEM)
			break;
		page = ret && (ret != -EINTR || tries == UNETMM_IB_MR_TRIES) ?
		       min_t(u64, length, PAGE_SIZE - offset_in_page(start)) : 0;
		start += page;
		length -= page;
		/* The thread that changes memory may need our processor to end. */
		if (tries > 1)
			schedule_timeout_killable(1);
		cond_resched();
	}
	return 0;
}

/* The regions that the protection domain has already; of the calling process. */
int unetmm_ib_mr_enter_all(struct unetmm_ib *dev, const struct ib_pd *pd,
			   struct unetmm_file *file)
{
	unsigned long index = 0;
	struct unetmm_ib_mr *mr;
	int ret;

	if (!dev->calls->ours(file))
		return -EPERM;
	do {
		u64 start = 0, length = 0;
		int access = 0;

		xa_lock(&dev->mrs);
		mr = xa_find(&dev->mrs, &index, ULONG_MAX, XA_PRESENT);
		if (mr && mr->ib.pd == pd) {
			start = mr->start;
			length = mr->length;
			access = mr->access;
		}
		xa_unlock(&dev->mrs);
		ret = unetmm_ib_mr_enter(dev, file, start, length, access);
		index++;
		cond_resched();
	} while (mr && !ret);
	return ret;
}

/* All of it is memory of the process, which may use it so. */
static int unetmm_ib_mr_check(struct unetmm_ib *dev, u64 start, u64 length, int access)
{
	u8 rights = UNETMM_RIGHT_READ | (access & UNETMM_IB_MR_WRITES ? UNETMM_RIGHT_WRITE : 0);
	u64 last;

	if (check_add_overflow(start, length - 1, &last) || last >= TASK_SIZE_MAX)
		return -EINVAL;
	return access & IB_ACCESS_ON_DEMAND ? 0 : dev->calls->memory(start, last, rights);
}

/* The part that peers may use is a region of the card. */
static int unetmm_ib_mr_region(struct unetmm_ib *dev, struct unetmm_ib_mr *mr, bool whole)
{
	const struct unetmm_export a = {
		.id = mr->index,
		.flags = whole ? UNETMM_EXPORT_WHOLE : UNETMM_EXPORT_KEYED,
		.addr = mr->start,
		.length = whole ? 0 : mr->length,
		.rights = unetmm_ib_rights(mr->access),
	};
	int ret;

	mr->ib.rkey = mr->ib.lkey;
	if (!a.rights)
		return 0;
	ret = dev->calls->region_set(mr->file, &a, mr->iova, unetmm_ib_pd(mr->ib.pd)->number,
				     &mr->ib.rkey);
	mr->region = !ret;
	return ret == -EDQUOT ? -ENOMEM : ret;
}

/*
 * When this has ended no peer uses the region.  Requests that the card has taken go on: the
 * memory is the process's own.
 */
static void unetmm_ib_mr_drop(struct unetmm_ib *dev, struct unetmm_ib_mr *mr)
{
	/* The number stays taken until the card's region of this number has ended. */
	xa_store(&dev->mrs, mr->index, XA_ZERO_ENTRY, GFP_KERNEL);
	if (mr->region)
		dev->calls->region_clear(mr->file, mr->index);
	xa_erase(&dev->mrs, mr->index);
}

static int unetmm_ib_mr_add(struct unetmm_ib *dev, struct unetmm_ib_mr *mr, bool whole)
{
	int ret;

	/* A number that became free is taken last.  The entry is found when it is complete. */
	ret = xa_alloc_cyclic(&dev->mrs, &mr->index, NULL,
			      XA_LIMIT(1, UNETMM_IB_MR_MOST - 1), &dev->mr_next,
			      GFP_KERNEL_ACCOUNT);
	if (ret < 0)
		return ret == -EBUSY ? -ENOSPC : ret;
	mr->ib.lkey = mr->index << 8 | (get_random_u32() & 0xff);
	ret = unetmm_ib_mr_region(dev, mr, whole);
	if (!ret)
		ret = xa_err(xa_store(&dev->mrs, mr->index, mr, GFP_KERNEL_ACCOUNT));
	if (ret)
		unetmm_ib_mr_drop(dev, mr);
	return ret;
}

static struct ib_mr *unetmm_ib_mr_make(struct ib_pd *pd, u64 start, u64 length, u64 iova,
				       int access)
{
	struct unetmm_ib *dev = unetmm_ib_of(pd->device);
	struct unetmm_ib_context *context = unetmm_ib_context(pd->uobject->context);
	/* ib_core has refused this without ON_DEMAND. */
	bool whole = !start && length == U64_MAX && access & IB_ACCESS_ON_DEMAND;
	struct unetmm_ib_mr *mr;
	int ret;

	if (access & ~UNETMM_IB_MR_ACCESS)
		return ERR_PTR(-EOPNOTSUPP);
	if (!length)
		return ERR_PTR(-EINVAL);
	if (!dev->calls->ours(context->file))
		return ERR_PTR(-EPERM);
	ret = whole ? 0 : unetmm_ib_mr_check(dev, start, length, access);
	if (ret)
		return ERR_PTR(ret);
	if (!dev->calls->take(context->file))
		return ERR_PTR(-ENOMEM);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);
	if (!mr) {
		ret = -ENOMEM;
		goto give;
	}
	mr->file = context->file;
	mr->start = start;
	mr->iova = iova;
	mr->length = length;
	/* No window before all is well. */
	mr->access = access & ~IB_ACCESS_MW_BIND;
	/* ib_core sets it later, but requests may come as soon as it is found. */
	mr->ib.pd = pd;
	mr->ib.iova = iova;
	mr->ib.length = length;
	mr->watch.node.start = start >> PAGE_SHIFT;
	mr->watch.node.last = whole ? ULONG_MAX : (start + length - 1) >> PAGE_SHIFT;
	dev->calls->watch(mr->file, &mr->watch, true);
	ret = unetmm_ib_mr_add(dev, mr, whole);
	if (!ret && atomic_read(&unetmm_ib_pd(pd)->uds)) {
		ret = unetmm_ib_mr_enter(dev, mr->file, start, length, access);
		if (ret)
			unetmm_ib_mr_drop(dev, mr);
	}
	if (!ret) {
		xa_lock(&dev->mrs);
		mr->access = access;
		xa_unlock(&dev->mrs);
		return &mr->ib;
	}
	dev->calls->watch(mr->file, &mr->watch, false);
	kfree(mr);
give:
	dev->calls->give(context->file);
	return ERR_PTR(ret);
}

static UNETMM_REG_USER_MR(unetmm_ib_reg_user_mr)
{
	return unetmm_ib_mr_make(pd, start, length, iova, access);
}

/* May ib_core end the region soon?  No window is bound to it then. */
static bool unetmm_ib_mr_close(struct unetmm_ib_mr *mr, bool close)
{
	struct mutex *lock = &unetmm_ib_pd_context(mr->ib.pd)->mw_lock;
	bool free;

	mutex_lock(lock);
	free = !mr->windows;
	mr->closed = close && free;
	mutex_unlock(lock);
	return free;
}

/* Another region takes its place: keys change, and ib_core ends the old one. */
static struct ib_mr *unetmm_ib_rereg_user_mr(struct ib_mr *ib, int flags, u64 start, u64 length,
					     u64 iova, int access, struct ib_pd *pd,
					     struct ib_udata *udata)
{
	struct unetmm_ib_mr *mr = container_of(ib, struct unetmm_ib_mr, ib);
	struct ib_mr *other;

	if (!unetmm_ib_mr_close(mr, true))
		return ERR_PTR(-EBUSY);
	if (!(flags & IB_MR_REREG_TRANS)) {
		start = mr->start;
		length = mr->length;
		iova = mr->iova;
	}
	other = unetmm_ib_mr_make(pd, start, length, iova,
				  flags & IB_MR_REREG_ACCESS ? access : mr->access);
	if (IS_ERR(other))
		unetmm_ib_mr_close(mr, false);
	return other;
}

static int unetmm_ib_fill_stat_mr(struct sk_buff *msg, struct ib_mr *ib)
{
	const struct unetmm_ib_mr *mr = container_of(ib, struct unetmm_ib_mr, ib);
	const u64 *counts = mr->watch.counts;
	struct nlattr *table;

	if (!mr->file)
		return 0;
	table = nla_nest_start(msg, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
	if (!table)
		return -EMSGSIZE;
	if (rdma_nl_stat_hwcounter_entry(msg, "page_faults",
					 READ_ONCE(counts[UNETMM_WATCH_FAULTS])) ||
	    rdma_nl_stat_hwcounter_entry(msg, "page_invalidations",
					 READ_ONCE(counts[UNETMM_WATCH_INVALIDATIONS])) ||
	    rdma_nl_stat_hwcounter_entry(msg, "page_prefetch", READ_ONCE(mr->prefetched))) {
		nla_nest_cancel(msg, table);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, table);
	return 0;
}

static int unetmm_ib_dereg_mr(struct ib_mr *ib, struct ib_udata *udata)
{
	struct unetmm_ib_mr *mr = container_of(ib, struct unetmm_ib_mr, ib);
	struct unetmm_ib *dev = unetmm_ib_of(ib->device);
	struct mutex *lock;
	bool busy;

	if (mr->fast) {
		unetmm_ib_fast_free(dev, mr->fast);
		kfree(mr);
		return 0;
	}
	lock = &unetmm_ib_pd_context(ib->pd)->mw_lock;
	mutex_lock(lock);
	busy = mr->windows;
	if (!busy)
		unetmm_ib_mr_drop(dev, mr);
	mutex_unlock(lock);
	if (busy)
		return -EBUSY;
	if (mr->file) {
		dev->calls->watch(mr->file, &mr->watch, false);
		dev->calls->give(mr->file);
	}
	kfree(mr);
	return 0;
}

/*
 * The calling thread pages in, also without FLUSH.  Memory that the process does not have is an
 * error with FLUSH alone.
 */
static int unetmm_ib_advise_mr(struct ib_pd *pd, enum ib_uverbs_advise_mr_advice advice,
			       u32 flags, struct ib_sge *sges, u32 n,
			       struct uverbs_attr_bundle *attrs)
{
	bool write = advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	u32 how = write ? UNETMM_PREFETCH_WRITE :
		  advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT ?
		  UNETMM_PREFETCH_NO_FAULT : 0;
	struct unetmm_ib_context *context = unetmm_ib_context(pd->uobject->context);
	bool wait = flags & IB_UVERBS_ADVISE_MR_FLAG_FLUSH;
	struct unetmm_ib *dev = unetmm_ib_of(pd->device);
	u64 addr, length;
	int ret;
	u32 i;

	if (advice > IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT ||
	    flags & ~IB_UVERBS_ADVISE_MR_FLAG_FLUSH)
		return -EOPNOTSUPP;
	if (!dev->calls->ours(context->file))
		return -EPERM;
	for (i = 0; i < n; i++) {
		if (!unetmm_ib_mr_at(dev, pd, &sges[i], write ? IB_ACCESS_LOCAL_WRITE : 0, &addr))
			return -ENOENT;
		length = sges[i].length;
		ret = unetmm_ib_prefetch(dev, context->file, &addr, &length, how, sges[i].lkey);
		if (ret && (wait || fatal_signal_pending(current)))
			return ret;
	}
	return 0;
}

/* Of all memory, for peers: nobody is to have such a key.  For the kernel itself there is an lkey. */
static struct ib_mr *unetmm_ib_get_dma_mr(struct ib_pd *pd, int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

const struct ib_device_ops unetmm_ib_mr_ops = {
	.advise_mr = unetmm_ib_advise_mr,
	.get_dma_mr = unetmm_ib_get_dma_mr,
	.reg_user_mr = unetmm_ib_reg_user_mr,
	.rereg_user_mr = unetmm_ib_rereg_user_mr,
	.fill_stat_mr_entry = unetmm_ib_fill_stat_mr,
	.dereg_mr = unetmm_ib_dereg_mr,
};
