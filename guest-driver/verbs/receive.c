// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm_ib: receive requests as entries of a free queue.  The owner of the queue holds its lock.
 */
#include "verbs/build.h"
#include "verbs/mr.h"
#include "verbs/receive.h"

static struct unetmm_fqe *unetmm_ib_fqe(const struct unetmm_ib_buffers *fq, u32 index)
{
	struct unetmm_fqe *entries = fq->ep->block->cpu + fq->ep->fq_offset;

	return &entries[index & (BIT(fq->ep->fq_log2) - 1)];
}

static void unetmm_ib_put_fqe(const struct unetmm_ib_buffers *fq, u32 n, u64 addr, u32 len,
			      u64 cookie)
{
	*unetmm_ib_fqe(fq, fq->prod + n) = (struct unetmm_fqe) {
		.addr = cpu_to_le64(addr),
		.len = cpu_to_le32(len),
		.flags = cpu_to_le32(UNETMM_FQE_F_CHAIN),
		.cookie = cpu_to_le64(cookie),
	};
}

static bool unetmm_ib_buffer_at(const struct unetmm_ib_buffers *fq, const struct rxe_sge *sge,
				u64 *addr)
{
	return fq->qp ? unetmm_ib_mr_find(fq->qp, sge, IB_ACCESS_LOCAL_WRITE, addr) :
	       unetmm_ib_mr_find_for(fq->dev, fq->pd, sge, IB_ACCESS_LOCAL_WRITE, addr);
}

/*
 * The entries of a receive request.  Memory that is not the owner's to give fails when it is
 * used, as it is in verbs: nobody has anything in the hole.  A request without memory is a buffer
 * without memory: it waits for a message of 0 bytes, or a WRITE with an immediate.
 * Returns how many entries there are; unetmm_ib_fq_publish() shows them to the card.
 */
u32 unetmm_ib_put_receive(struct unetmm_ib_buffers *fq, const struct rxe_recv_wqe *w, u64 cookie)
{
	bool kernel = fq->qp && unetmm_ib_is_kernel(fq->qp);
	u64 hole = kernel ? UNETMM_IB_KERNEL_HOLE : UNETMM_IB_HOLE;
	u32 nsge = min_t(u32, w->dma.num_sge, fq->max_sge);
	u32 most = unetmm_ib_longest(fq->dev, kernel);
	u32 i, n = 0;
	u64 addr;

	for (i = 0; i < nsge; i++) {
		const struct rxe_sge *sge = &w->dma.sge[i];

		if (!sge->length)
			continue;
		if (!unetmm_ib_buffer_at(fq, sge, &addr))
			addr = hole;
		unetmm_ib_put_fqe(fq, n++, addr, min(sge->length, most), cookie);
		/* A longer message fails, rather than leave a gap in front of the next one. */
		if (sge->length > most)
			break;
	}
	if (!n)
		unetmm_ib_put_fqe(fq, n++, 0, 0, cookie);
	unetmm_ib_fqe(fq, fq->prod + n - 1)->flags = 0;
	fq->prod += n;
	return n;
}

u32 unetmm_ib_fq_room(const struct unetmm_ib_buffers *fq)
{
	u32 cons = le32_to_cpu(READ_ONCE(fq->ep->index->card.fq_cons));

	return BIT(fq->ep->fq_log2) - (fq->prod - cons);
}

/* The card sees the entries. */
void unetmm_ib_fq_publish(const struct unetmm_ib_buffers *fq)
{
	/* Pairs with the card: index, then entries. */
	dma_wmb();
	WRITE_ONCE(fq->ep->index->user.fq_prod, cpu_to_le32(fq->prod));
}
