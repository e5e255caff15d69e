// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm_ib: memory windows of processes.
 *
 * A window has a number of the card's regions for as long as it exists: bits 8 to 23 of its rkey.
 * While it is bound to memory, with rights, it is the card's region of that number.  The
 * driver changes keys by commands of the card: the engine does so at a request's turn, and
 * our provider asks for it when a request is posted.
 *
 * The memory is within a region of the process, which cannot end while a window is bound to it.
 * A window of type 2 belongs to a queue pair while it is bound, and only the peer of that uses it.
 */
#define UVERBS_MODULE_NAME	unetmm_ib

#include <linux/random.h>
#include <rdma/uverbs_ioctl.h>
#include <rdma/uverbs_named_ioctl.h>

#include "remote/remote.h"
#include "verbs/mr.h"

#define UNETMM_IB_MW_ACCESS \
	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
	 IB_ACCESS_REMOTE_ATOMIC | IB_ACCESS_MW_BIND | IB_ZERO_BASED | IB_ACCESS_OPTIONAL)

struct unetmm_ib_mw {
	struct ib_mw ib;		/* first */
	struct unetmm_file *file;
	struct rdma_cgroup *group;	/* that it is charged to */
	/* mw_lock */
	struct unetmm_ib_mr *mr;	/* NULL: not bound */
	bool region;			/* the card has it, for peers */
	struct list_head node;		/* of the queue pair's; empty, if it belongs to none */
};

static u32 unetmm_ib_mw_number(u32 rkey)
{
	return (rkey & UNETMM_RKEY_REGION) >> UNETMM_RKEY_SHIFT;
}

/* The consumer chooses the lowest 8 bits of a key. */
static struct unetmm_ib_mw *unetmm_ib_mw_of(struct unetmm_ib_qp *qp, u32 rkey)
{
	struct unetmm_ib_mw *mw;

	lockdep_assert_held(&qp->context->mw_lock);
	mw = xa_load(&qp->context->mws, unetmm_ib_mw_number(rkey));
	return mw && mw->ib.pd == qp->ib.pd && !((mw->ib.rkey ^ rkey) >> 8) ? mw : NULL;
}

/* When this has ended no peer uses the window. */
static void unetmm_ib_mw_unbind(struct unetmm_ib *dev, struct unetmm_ib_mw *mw)
{
	lockdep_assert_held(&unetmm_ib_pd_context(mw->ib.pd)->mw_lock);
	if (!mw->mr)
		return;
	if (mw->region)
		dev->calls->window_clear(mw->file, unetmm_ib_mw_number(mw->ib.rkey));
	mw->region = false;
	mw->mr->windows--;
	mw->mr = NULL;
	list_del_init(&mw->node);
}

/* The region that the request names, if a window of its queue pair may be so in there. */
static struct unetmm_ib_mr *unetmm_ib_mw_within(struct unetmm_ib_qp *qp,
						const struct unetmm_verbs_key *how)
{
	struct unetmm_ib_mr *mr = unetmm_ib_mr_load(qp->dev, qp->ib.pd, how->lkey);
	u64 offset, last;

	if (!mr ||
	    (how->access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC) &&
	     !(mr->access & IB_ACCESS_LOCAL_WRITE)))
		return NULL;
	offset = how->addr - mr->iova;
	if (how->addr < mr->iova || offset > mr->length || how->length > mr->length - offset)
		return NULL;
	/* A region of all memory ends where a process's does. */
	return check_add_overflow(mr->start + offset, how->length - 1, &last) ||
	       last >= TASK_SIZE_MAX ? NULL : mr;
}

static int unetmm_ib_mw_region(struct unetmm_ib_qp *qp, const struct unetmm_ib_mw *mw, u32 rkey,
			       const struct unetmm_ib_mr *mr, const struct unetmm_verbs_key *how)
{
	u32 pd = mw->ib.type == IB_MW_TYPE_2 ? UNETMM_PD_EP | qp->ep->id :
		 unetmm_ib_pd(mw->ib.pd)->number;
	const struct unetmm_cmd_region region = {
		.region = cpu_to_le32(unetmm_ib_mw_number(rkey)),
		.key = cpu_to_le32(rkey),
		.addr = cpu_to_le64(mr->start + (how->addr - mr->iova)),
		.length = cpu_to_le64(how->length),
		.rights = unetmm_ib_rights(how->access),
		.flags = UNETMM_REGION_F_KEYED | UNETMM_REGION_F_IOVA,
		.iova = cpu_to_le64(how->access & IB_ZERO_BASED ? 0 : how->addr),
		.pd = cpu_to_le32(pd),
	};

	return qp->dev->calls->window_set(mw->file, &region);
}

/* One of type 1 takes another place, and without bytes none; one of type 2 has none before. */
static bool unetmm_ib_mw_may(const struct unetmm_ib_mw *mw, const struct unetmm_verbs_key *how)
{
	if (how->access & ~UNETMM_IB_MW_ACCESS)
		return false;
	return mw->ib.type == IB_MW_TYPE_2 ? !mw->mr && how->length :
	       !(how->access & IB_ZERO_BASED);
}

static bool unetmm_ib_mw_rebind(struct unetmm_ib_qp *qp, const struct unetmm_verbs_key *how)
{
	struct unetmm_ib_mw *mw = unetmm_ib_mw_of(qp, how->rkey);
	struct unetmm_ib_mr *mr = NULL;
	u32 rkey;

	if (!mw || !unetmm_ib_mw_may(mw, how))
		return false;
	if (how->length) {
		mr = unetmm_ib_mw_within(qp, how);
		if (!mr)
			return false;
	}
	unetmm_ib_mw_unbind(qp->dev, mw);
	rkey = (mw->ib.rkey & ~0xffu) | (how->new_rkey & 0xff);
	mw->ib.rkey = rkey;
	if (!mr)
		return true;
	if (unetmm_ib_rights(how->access)) {
		if (unetmm_ib_mw_region(qp, mw, rkey, mr, how))
			return false;
		mw->region = true;
	}
	mw->mr = mr;
	mr->windows++;
	if (mw->ib.type == IB_MW_TYPE_2)
		list_add(&mw->node, &qp->windows);
	return true;
}

/* IB_WC_* */
u8 unetmm_ib_mw_bind(struct unetmm_ib_qp *qp, const struct unetmm_verbs_key *how)
{
	bool bound;

	mutex_lock(&qp->context->mw_lock);
	bound = unetmm_ib_mw_rebind(qp, how);
	mutex_unlock(&qp->context->mw_lock);
	return bound ? IB_WC_SUCCESS : IB_WC_MW_BIND_ERR;
}

/* IB_WC_*; a window of type 2 that is bound to the queue pair. */
u8 unetmm_ib_mw_invalidate(struct unetmm_ib_qp *qp, u32 rkey)
{
	u8 status = IB_WC_MW_BIND_ERR;
	struct unetmm_ib_mw *mw, *of_qp;

	mutex_lock(&qp->context->mw_lock);
	mw = unetmm_ib_mw_of(qp, rkey);
	list_for_each_entry(of_qp, &qp->windows, node) {
		if (of_qp == mw && mw->ib.rkey == rkey) {
			unetmm_ib_mw_unbind(qp->dev, mw);
			status = IB_WC_SUCCESS;
			break;
		}
	}
	mutex_unlock(&qp->context->mw_lock);
	return status;
}

/* The queue pair goes, or may have another peer soon.  One of the kernel has no windows. */
void unetmm_ib_mw_leave(struct unetmm_ib_qp *qp)
{
	struct unetmm_ib_mw *mw, *next;

	if (unetmm_ib_is_kernel(qp))
		return;
	mutex_lock(&qp->context->mw_lock);
	list_for_each_entry_safe(mw, next, &qp->windows, node)
		unetmm_ib_mw_unbind(qp->dev, mw);
	mutex_unlock(&qp->context->mw_lock);
}

/* ---- ib_core ------------------------------------------------------------------ */

static int unetmm_ib_alloc_mw(struct ib_mw *ib, struct ib_udata *udata)
{
	struct unetmm_ib_mw *mw = container_of(ib, struct unetmm_ib_mw, ib);
	struct unetmm_ib_context *context = unetmm_ib_pd_context(ib->pd);
	struct unetmm_ib *dev = unetmm_ib_of(ib->device);
	int ret;

	if (ib->type == IB_MW_TYPE_2 && !(dev->dev->hw.caps & UNETMM_CAP_BIND))
		return -EOPNOTSUPP;
	ret = unetmm_ib_take(ib->pd);
	if (ret)
		return ret;
	INIT_LIST_HEAD(&mw->node);
	mw->file = context->file;
	ret = dev->calls->window_take(mw->file, &mw->group);
	if (ret < 0) {
		ret = ret == -EDQUOT ? -ENOMEM : ret;
		goto give;
	}
	ib->rkey = (get_random_u32() & ~UNETMM_RKEY_REGION) | ret << UNETMM_RKEY_SHIFT;
	ret = xa_err(xa_store(&context->mws, ret, mw, GFP_KERNEL_ACCOUNT));
	if (!ret)
		return 0;
	dev->calls->window_give(mw->file, unetmm_ib_mw_number(ib->rkey), mw->group);
give:
	unetmm_ib_give(ib->pd);
	return ret;
}

static int unetmm_ib_dealloc_mw(struct ib_mw *ib)
{
	struct unetmm_ib_mw *mw = container_of(ib, struct unetmm_ib_mw, ib);
	struct unetmm_ib_context *context = unetmm_ib_pd_context(ib->pd);
	struct unetmm_ib *dev = unetmm_ib_of(ib->device);
	u32 number = unetmm_ib_mw_number(ib->rkey);

	mutex_lock(&context->mw_lock);
	unetmm_ib_mw_unbind(dev, mw);
	xa_erase(&context->mws, number);
	mutex_unlock(&context->mw_lock);
	dev->calls->window_give(mw->file, number, mw->group);
	unetmm_ib_give(ib->pd);
	return 0;
}

const struct ib_device_ops unetmm_ib_mw_ops = {
	.alloc_mw = unetmm_ib_alloc_mw,
	.dealloc_mw = unetmm_ib_dealloc_mw,
	INIT_RDMA_OBJ_SIZE(ib_mw, unetmm_ib_mw, ib),
};

/* ---- verbs=own: a call of the library ----------------------------------------- */

static int UVERBS_HANDLER(UNETMM_VERBS_METHOD_KEY)(struct uverbs_attr_bundle *attrs)
{
	struct ib_qp *ib = uverbs_attr_get_obj(attrs, UNETMM_VERBS_KEY_QP);
	struct unetmm_verbs_key how;
	int ret;

	ret = uverbs_copy_from(&how, attrs, UNETMM_VERBS_KEY_HOW);
	if (ret)
		return ret;
	if (ib->qp_type != IB_QPT_RC || how.opcode > UNETMM_VERBS_INVALIDATE || how.rsvd)
		return -EINVAL;
	ret = how.opcode == UNETMM_VERBS_BIND ? unetmm_ib_mw_bind(unetmm_ib_qp(ib), &how) :
	      unetmm_ib_mw_invalidate(unetmm_ib_qp(ib), how.rkey);
	return ret ? -EINVAL : 0;
}

DECLARE_UVERBS_NAMED_METHOD(UNETMM_VERBS_METHOD_KEY,
			    UVERBS_ATTR_IDR(UNETMM_VERBS_KEY_QP, UVERBS_OBJECT_QP,
					    UVERBS_ACCESS_READ, UA_MANDATORY),
			    UVERBS_ATTR_PTR_IN(UNETMM_VERBS_KEY_HOW,
					       UVERBS_ATTR_TYPE(struct unetmm_verbs_key),
					       UA_MANDATORY));

ADD_UVERBS_METHODS(unetmm_own_qp, UVERBS_OBJECT_QP, &UVERBS_METHOD(UNETMM_VERBS_METHOD_KEY));

const struct uapi_definition unetmm_own_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_QP, &unetmm_own_qp),
	{}
};
