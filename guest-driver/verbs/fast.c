// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm_ib: memory regions of the kernel, whose pages and keys change by requests (REG_MR,
 * LOCAL_INV, and a peer's SEND_WITH_INV).
 *
 * A region has a number of the card's regions and a place in the kernel's space for as long as
 * it exists.  REG_MR enters the pages there and sets the card's region, with the key of the
 * request.  The end of the key clears the card's region, takes the pages out of the table and
 * has the card forget them: when it completes, neither a peer nor a request reaches them.
 */
#include <linux/slab.h>

#include "remote/remote.h"
#include "verbs/mr.h"

#define UNETMM_IB_FAST_BASE	BIT_ULL(52)
#define UNETMM_IB_FAST_BYTES	((u64)UNETMM_IB_FAST_PAGES << PAGE_SHIFT)
#define UNETMM_IB_FAST_ACCESS \
	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
	 IB_ACCESS_REMOTE_ATOMIC | IB_ACCESS_OPTIONAL)

static_assert(UNETMM_IB_FAST_PAGES == UNETMM_TABLE_ENTRIES);

struct unetmm_ib_fast {
	const struct ib_pd *pd;
	u32 number;			/* of the card's region; bits 8 to 23 of the keys */
	u32 most;			/* pages */
	u32 npages;			/* the consumer's, from ib_map_mr_sg() to REG_MR */
	__le64 *leaf;			/* entries of its place */
	/* the lock of its number */
	bool valid;
	bool remote;			/* the card has the region; as `key`, if not valid */
	u32 key;			/* since REG_MR; the last one, if not valid */
	u64 iova;
	u64 length;
	int access;
	u64 pages[];
};

static u64 unetmm_ib_fast_place(const struct unetmm_ib_fast *fast)
{
	return UNETMM_IB_FAST_BASE + fast->number * UNETMM_IB_FAST_BYTES;
}

static u32 unetmm_ib_fast_number(u32 key)
{
	return (key & UNETMM_RKEY_REGION) >> UNETMM_RKEY_SHIFT;
}

/* The lock of regions with that number; the holder gives commands to the card. */
static struct mutex *unetmm_ib_fast_lock(struct unetmm_ib *dev, u32 number)
{
	return &dev->kernel.mr_locks[number % UNETMM_IB_MR_LOCKS];
}

static struct unetmm_ib_fast *unetmm_ib_fast_of(struct unetmm_ib *dev, u32 key)
{
	u32 number = unetmm_ib_fast_number(key);

	lockdep_assert_held(unetmm_ib_fast_lock(dev, number));
	return xa_load(&dev->kernel.mrs, number);
}

/* Within a region whose key is valid; `access`: LOCAL_WRITE or 0. */
static bool unetmm_ib_fast_find(struct unetmm_ib_qp *qp, const struct rxe_sge *sge, int access,
				u64 *addr)
{
	const struct unetmm_ib_fast *fast = unetmm_ib_fast_of(qp->dev, sge->lkey);
	u64 offset;

	if (!fast || !fast->valid || fast->key != sge->lkey || fast->pd != qp->ib.pd ||
	    (fast->access & access) != access)
		return false;
	offset = sge->addr - fast->iova;
	if (sge->addr < fast->iova || offset > fast->length ||
	    sge->length > fast->length - offset)
		return false;
	*addr = unetmm_ib_fast_place(fast) + offset_in_page(fast->iova) + offset;
	return true;
}

/* The address in the kernel's space of a segment that is not empty; false: it has none. */
bool unetmm_ib_kernel_find(struct unetmm_ib_qp *qp, const struct rxe_sge *sge, int access,
			   u64 *addr)
{
	struct mutex *lock;
	bool found;

	if (sge->lkey == UNETMM_IB_LOCAL_LKEY) {
		*addr = sge->addr;
		return unetmm_ib_kernel_local(qp->dev, sge->addr, sge->length);
	}
	lock = unetmm_ib_fast_lock(qp->dev, unetmm_ib_fast_number(sge->lkey));
	mutex_lock(lock);
	found = unetmm_ib_fast_find(qp, sge, access, addr);
	mutex_unlock(lock);
	return found;
}

/* ---- REG_MR ------------------------------------------------------------------- */

static int unetmm_ib_fast_region(struct unetmm_ib *dev, const struct unetmm_ib_fast *fast)
{
	const struct unetmm_cmd_region how = {
		.region = cpu_to_le32(fast->number),
		.key = cpu_to_le32(fast->key),
		.addr = cpu_to_le64(unetmm_ib_fast_place(fast) + offset_in_page(fast->iova)),
		.length = cpu_to_le64(fast->length),
		.rights = unetmm_ib_rights(fast->access),
		.flags = UNETMM_REGION_F_KEYED | UNETMM_REGION_F_IOVA,
		.iova = cpu_to_le64(fast->iova),
		.pd = cpu_to_le32(unetmm_ib_pd((struct ib_pd *)fast->pd)->number),
	};

	return dev->calls->kernel->region_set(dev->dev, dev->kernel.space, &how);
}

static void unetmm_ib_fast_enter(struct unetmm_ib_fast *fast)
{
	u64 bits = UNETMM_PTE_VALID | UNETMM_PTE_READ;
	u32 i;

	if (fast->access & UNETMM_IB_MR_WRITES)
		bits |= UNETMM_PTE_WRITE;
	/* The card has none of these entries since the last key ended. */
	for (i = 0; i < fast->npages; i++)
		WRITE_ONCE(fast->leaf[i], cpu_to_le64(fast->pages[i] | bits));
	dma_wmb();
}

static void unetmm_ib_fast_end(struct unetmm_ib *dev, struct unetmm_ib_fast *fast)
{
	u64 place = unetmm_ib_fast_place(fast);
	u32 i;

	lockdep_assert_held(unetmm_ib_fast_lock(dev, fast->number));
	if (!fast->valid)
		return;
	fast->valid = false;
	if (fast->remote)
		dev->calls->kernel->region_clear(dev->dev, fast->number);
	for (i = 0; i < fast->most; i++)
		WRITE_ONCE(fast->leaf[i], 0);
	dma_wmb();
	dev->calls->kernel->invalidate(dev->dev, dev->kernel.space, place,
				       place + UNETMM_IB_FAST_BYTES - 1);
}

/* The request fits the region as ib_map_mr_sg() has left it. */
static bool unetmm_ib_fast_fits(const struct unetmm_ib_fast *fast, const struct rxe_send_wr *wr)
{
	u64 bytes = (u64)fast->npages << PAGE_SHIFT;
	u64 first = offset_in_page(wr->wr.mw.addr);

	return unetmm_ib_fast_number(wr->wr.mw.rkey) == fast->number &&
	       !(wr->wr.mw.access & ~UNETMM_IB_FAST_ACCESS) && wr->wr.mw.length &&
	       first < bytes && wr->wr.mw.length <= bytes - first &&
	       wr->wr.mw.addr <= U64_MAX - (wr->wr.mw.length - 1);
}

static u8 unetmm_ib_fast_begin(struct unetmm_ib_qp *qp, struct unetmm_ib_fast *fast,
			       const struct rxe_send_wr *wr)
{
	if (!fast || fast->valid || fast->pd != qp->ib.pd || !unetmm_ib_fast_fits(fast, wr))
		return IB_WC_MW_BIND_ERR;
	fast->key = wr->wr.mw.rkey;
	fast->iova = wr->wr.mw.addr;
	fast->length = wr->wr.mw.length;
	fast->access = wr->wr.mw.access;
	fast->remote = unetmm_ib_rights(fast->access);
	fast->valid = true;
	unetmm_ib_fast_enter(fast);
	if (!fast->remote || !unetmm_ib_fast_region(qp->dev, fast))
		return IB_WC_SUCCESS;
	fast->remote = false;
	unetmm_ib_fast_end(qp->dev, fast);
	return IB_WC_MW_BIND_ERR;
}

u8 unetmm_ib_fast_register(struct unetmm_ib_qp *qp, const struct rxe_send_wr *wr)
{
	struct mutex *lock = unetmm_ib_fast_lock(qp->dev, unetmm_ib_fast_number(wr->wr.mw.mr_lkey));
	u8 status;

	mutex_lock(lock);
	status = unetmm_ib_fast_begin(qp, unetmm_ib_fast_of(qp->dev, wr->wr.mw.mr_lkey), wr);
	mutex_unlock(lock);
	return status;
}

/*
 * A key that has ended already may end again: the peer and the consumer may both ask.  `peer`: it
 * asks, and ends keys of regions that peers may use.
 */
u8 unetmm_ib_fast_invalidate(struct unetmm_ib_qp *qp, u32 rkey, bool peer)
{
	struct unetmm_ib *dev = qp->dev;
	struct mutex *lock = unetmm_ib_fast_lock(dev, unetmm_ib_fast_number(rkey));
	u8 status = IB_WC_LOC_QP_OP_ERR;
	struct unetmm_ib_fast *fast;

	mutex_lock(lock);
	fast = unetmm_ib_fast_of(dev, rkey);
	if (fast && fast->key == rkey && fast->pd == qp->ib.pd && (fast->remote || !peer)) {
		unetmm_ib_fast_end(dev, fast);
		status = IB_WC_SUCCESS;
	}
	mutex_unlock(lock);
	return status;
}

/* ---- ib_core ------------------------------------------------------------------ */

static int unetmm_ib_fast_place_make(struct unetmm_ib *dev, struct unetmm_ib_fast *fast)
{
	unsigned int flags = unetmm_ib_kernel_lock(&dev->kernel);

	fast->leaf = unetmm_ib_kernel_leaf(dev, unetmm_ib_fast_place(fast));
	unetmm_ib_kernel_unlock(&dev->kernel, flags);
	if (!fast->leaf)
		return -ENOMEM;
	return xa_err(xa_store(&dev->kernel.mrs, fast->number, fast, GFP_KERNEL));
}

static struct unetmm_ib_fast *unetmm_ib_fast_new(struct unetmm_ib *dev, const struct ib_pd *pd,
						 u32 most)
{
	struct unetmm_ib_fast *fast = kvzalloc(struct_size(fast, pages, most), GFP_KERNEL);
	int ret;

	if (!fast)
		return ERR_PTR(-ENOMEM);
	ret = dev->calls->kernel->region_take(dev->dev);
	if (ret < 0)
		goto free;
	fast->pd = pd;
	fast->number = ret;
	fast->most = most;
	fast->key = (get_random_u32() & ~UNETMM_RKEY_REGION) |
		    fast->number << UNETMM_RKEY_SHIFT;
	ret = unetmm_ib_fast_place_make(dev, fast);
	if (!ret)
		return fast;
	dev->calls->kernel->region_give(dev->dev, fast->number);
free:
	kvfree(fast);
	return ERR_PTR(ret);
}

/* No request of the region's is under way, or else it finds nothing in the region's place. */
void unetmm_ib_fast_free(struct unetmm_ib *dev, struct unetmm_ib_fast *fast)
{
	struct mutex *lock = unetmm_ib_fast_lock(dev, fast->number);

	mutex_lock(lock);
	unetmm_ib_fast_end(dev, fast);
	xa_erase(&dev->kernel.mrs, fast->number);
	mutex_unlock(lock);
	dev->calls->kernel->region_give(dev->dev, fast->number);
	kvfree(fast);
}

static struct ib_mr *unetmm_ib_alloc_mr(struct ib_pd *pd, enum ib_mr_type type, u32 most)
{
	struct unetmm_ib *dev = unetmm_ib_of(pd->device);
	struct unetmm_ib_mr *mr;
	int ret;

	if (type != IB_MR_TYPE_MEM_REG)
		return ERR_PTR(-EOPNOTSUPP);
	if (!most || most > UNETMM_IB_FAST_PAGES)
		return ERR_PTR(-EINVAL);
	ret = unetmm_ib_kernel_get(dev);
	if (ret)
		return ERR_PTR(ret);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->fast = unetmm_ib_fast_new(dev, pd, most);
	if (IS_ERR(mr->fast)) {
		ret = PTR_ERR(mr->fast);
		kfree(mr);
		return ERR_PTR(ret);
	}
	mr->ib.lkey = mr->fast->key;
	mr->ib.rkey = mr->fast->key;
	return &mr->ib;
}

static int unetmm_ib_set_page(struct ib_mr *ib, u64 addr)
{
	struct unetmm_ib_fast *fast = container_of(ib, struct unetmm_ib_mr, ib)->fast;

	if (fast->npages == fast->most)
		return -ENOMEM;
	fast->pages[fast->npages++] = addr & PAGE_MASK;
	return 0;
}

/* In any context: the consumer has no request for the region under way. */
static int unetmm_ib_map_mr_sg(struct ib_mr *ib, struct scatterlist *sg, int n,
			       unsigned int *offset)
{
	struct unetmm_ib_fast *fast = container_of(ib, struct unetmm_ib_mr, ib)->fast;

	if (!fast || ib->page_size != PAGE_SIZE)
		return -EINVAL;
	fast->npages = 0;
	return ib_sg_to_pages(ib, sg, n, offset, unetmm_ib_set_page);
}

const struct ib_device_ops unetmm_ib_fast_ops = {
	.alloc_mr = unetmm_ib_alloc_mr,
	.map_mr_sg = unetmm_ib_map_mr_sg,
};
