// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm_ib: verbs=own, the interface of our own library (uapi/linux/unetmm_verbs.h).
 *
 * The process has the queues of its queue pairs, and the card checks all that is written
 * there: no line here reads them.
 *
 * LIFETIMES.  A mapping has a reference to the endpoint's structure, and so to the memory
 * of its queues.  The doorbell page of an endpoint that has ended can stay mapped: a write
 * there has the card look at the queues of the endpoint that has the number, and no more.
 */
#include <linux/slab.h>
#include <rdma/uverbs_ioctl.h>

#include "compat/compat.h"
#include "map/map.h"
#include "verbs/own.h"
#include "verbs/ud.h"

struct unetmm_own_map {
	struct rdma_user_mmap_entry entry;
	const struct unetmm_lent_calls *calls;
	struct unetmm_ep *ep;		/* a reference */
	unsigned long pfn;
	bool doorbell;
};

static void unetmm_own_mmap_free(struct rdma_user_mmap_entry *entry)
{
	struct unetmm_own_map *map = container_of(entry, struct unetmm_own_map, entry);

	map->calls->ep_put(map->ep);
	kfree(map);
}

static int unetmm_own_mmap(struct ib_ucontext *ib, struct vm_area_struct *vma)
{
	struct unetmm_ib *dev = unetmm_ib_of(ib->device);
	struct rdma_user_mmap_entry *entry;
	struct unetmm_own_map *map;
	int ret;

	if (!dev->calls->ours(unetmm_ib_context(ib)->file))
		return -EPERM;
	if (vma->vm_flags & VM_EXEC)
		return -EINVAL;
	entry = rdma_user_mmap_entry_get(ib, vma);
	if (!entry)
		return -EINVAL;
	map = container_of(entry, struct unetmm_own_map, entry);
	unetmm_vm_flags_mod(vma, VM_DONTCOPY, VM_MAYEXEC);
	ret = rdma_user_mmap_io(ib, vma, map->pfn, entry->npages << PAGE_SHIFT,
				map->doorbell ? pgprot_noncached(vma->vm_page_prot) :
						vma->vm_page_prot, entry);
	rdma_user_mmap_entry_put(entry);
	return ret;
}

static struct rdma_user_mmap_entry *unetmm_own_map(struct unetmm_ib_context *context,
						   struct unetmm_ep *ep, unsigned long pfn,
						   size_t bytes, bool doorbell)
{
	struct unetmm_own_map *map = kzalloc(sizeof(*map), GFP_KERNEL_ACCOUNT);

	if (!map)
		return NULL;
	map->calls = unetmm_ib_of(context->ib.device)->calls;
	map->ep = ep;
	map->pfn = pfn;
	map->doorbell = doorbell;
	if (rdma_user_mmap_entry_insert(&context->ib, &map->entry, bytes)) {
		kfree(map);
		return NULL;
	}
	kref_get(&ep->ref);
	return &map->entry;
}

/* The endpoint's queues and doorbell get places in the file. */
int unetmm_own_open(struct unetmm_own_maps *maps, struct unetmm_ib_context *context,
		    struct unetmm_ep *ep)
{
	const struct unetmm_dev *card = ep->dev;
	const struct unetmm_block *block = ep->block;
	phys_addr_t doorbell = card->doorbell_start + (u64)ep->id * card->hw.db_stride;

	/* Behind an IOMMU the memory can be in pieces: one mapping is of one piece. */
	if (block->pages.orig_nents != 1) {
		dev_warn_once(&card->pdev->dev,
			      "no queue pair: the IOMMU gives memory in pieces; verbs=rxe has no need of one piece\n");
		return -EOPNOTSUPP;
	}
	maps->queues = unetmm_own_map(context, ep, page_to_pfn(sg_page(block->pages.sgl)),
				      block->bytes, false);
	maps->doorbell = unetmm_own_map(context, ep, PHYS_PFN(doorbell), PAGE_SIZE, true);
	return maps->queues && maps->doorbell ? 0 : -ENOMEM;
}

void unetmm_own_close(const struct unetmm_own_maps *maps)
{
	rdma_user_mmap_entry_remove(maps->queues);
	rdma_user_mmap_entry_remove(maps->doorbell);
}

int unetmm_own_tell(const struct unetmm_own_maps *maps, const struct unetmm_ep *ep,
		    struct ib_udata *udata)
{
	struct unetmm_verbs_qp resp = {
		.queue_map = rdma_user_mmap_get_offset(maps->queues),
		.doorbell_map = rdma_user_mmap_get_offset(maps->doorbell),
		.queue_bytes = ep->block->bytes,
		.doorbell_bytes = PAGE_SIZE,
		.sq_offset = ep->sq_offset,
		.fq_offset = ep->fq_offset,
		.cq_offset = ep->cq_offset,
		.sq_log2 = ep->sq_log2,
		.fq_log2 = ep->fq_log2,
		.cq_log2 = ep->cq_log2,
	};

	return ib_copy_to_udata(udata, &resp, sizeof(resp));
}

u32 unetmm_own_log2(const struct unetmm_ib *dev, u32 entries)
{
	return clamp_t(u32, order_base_2(entries), 3, dev->dev->hw.max_log2);
}

/* Room for each request at its longest, as far as the card's queues go. */
void unetmm_own_sizes(const struct unetmm_ib_qp *qp, struct unetmm_endpoint *a)
{
	const struct ib_qp_cap *cap = &qp->cap;
	u32 head = unetmm_ib_is_ud(qp) ? UNETMM_IB_GRH : 0;
	u32 segs = ALIGN(head, sizeof(struct unetmm_seg)) +
		   cap->max_send_sge * sizeof(struct unetmm_seg);
	u32 bytes = max(head + cap->max_inline_data, segs);
	u32 more = bytes > UNETMM_SQE_INLINE ?
		   DIV_ROUND_UP(bytes - UNETMM_SQE_INLINE, UNETMM_SLOT_BYTES) : 0;

	a->sq_log2 = unetmm_own_log2(qp->dev, cap->max_send_wr * (1 + more));
	a->fq_log2 = unetmm_own_log2(qp->dev, cap->max_recv_wr * max(cap->max_recv_sge, 1u));
}

static u8 unetmm_own_end_status(const struct unetmm_ep *ep)
{
	return READ_ONCE(ep->failed) ||
	       le32_to_cpu(READ_ONCE(ep->index->card.state)) & UNETMM_EP_ERROR ?
	       UNETMM_ST_BAD_CHANNEL : READ_ONCE(ep->end_status);
}

/* The end of a queue pair that no completion of a send tells: the process may not poll. */
void unetmm_own_work(struct work_struct *work)
{
	struct unetmm_ib_qp *qp = container_of(work, struct unetmm_ib_qp, work);
	u8 status;

	mutex_lock(&qp->lock);
	/* A queue pair in RESET has nothing, and may be closing: it may have no endpoint. */
	status = qp->state == IB_QPS_RESET ? UNETMM_ST_OK : unetmm_own_end_status(qp->ep);
	if (status) {
		qp->end_status = status;
		unetmm_ib_error(qp);
		unetmm_ib_tell_end(qp);
		unetmm_own_wake(qp);
		unetmm_ib_tell_last(qp);
	}
	mutex_unlock(&qp->lock);
}

/* Our provider's have no memory.  The process has compared the number with its completions. */
static UNETMM_RESIZE_CQ(unetmm_own_resize_cq)
{
	if (!udata)
		return -EOPNOTSUPP;
	if (cqe < 1 || cqe > UNETMM_OWN_MAX_CQE)
		return -EINVAL;
	ib->cqe = cqe;
	return 0;
}

/* Set before the others: the first one of a kind counts. */
const struct ib_device_ops unetmm_own_ops = {
	.uverbs_abi_ver = UNETMM_VERBS_ABI,
	.mmap = unetmm_own_mmap,
	.mmap_free = unetmm_own_mmap_free,
	.req_notify_cq = unetmm_own_req_notify_cq,
	.UNETMM_RESIZE_CQ_OP = unetmm_own_resize_cq,
};
