// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm_ib: contexts of processes, protection domains.
 *
 * A context is an open file of the card without a descriptor, with an address space of
 * source odp.  A protection domain is a number that the card compares.
 */
#include <linux/slab.h>

#include "verbs/verbs.h"

static int unetmm_ib_alloc_ucontext(struct ib_ucontext *ib, struct ib_udata *udata)
{
	struct unetmm_ib_context *context = unetmm_ib_context(ib);
	struct unetmm_ib *dev = unetmm_ib_of(ib->device);
	struct unetmm_file *file = dev->calls->open(dev->dev);
	struct unetmm_verbs_context resp = {};
	int ret;

	if (IS_ERR(file))
		return PTR_ERR(file) == -EDQUOT ? -ENOMEM : PTR_ERR(file);
	context->file = file;
	xa_init(&context->mws);
	mutex_init(&context->mw_lock);
	if (!dev->own)
		return 0;
	resp.max_message = unetmm_ib_longest(dev, false);
	ret = ib_copy_to_udata(udata, &resp, sizeof(resp));
	if (ret)
		dev->calls->close(file);
	return ret;
}

static void unetmm_ib_dealloc_ucontext(struct ib_ucontext *ib)
{
	struct unetmm_ib_context *context = unetmm_ib_context(ib);

	xa_destroy(&context->mws);
	unetmm_ib_of(ib->device)->calls->close(context->file);
}

/*
 * The device goes: ib_core ends the objects.  Memory that the process has mapped is the
 * process's own from then on.
 */
static void unetmm_ib_disassociate_ucontext(struct ib_ucontext *ib)
{
}

/* NULL: the kernel's protection domain. */
static struct unetmm_file *unetmm_ib_pd_file(const struct ib_pd *pd)
{
	return pd->uobject ? unetmm_ib_context(pd->uobject->context)->file : NULL;
}

/* Counts a process's protection domain, or an object in one; a user has a limit. */
int unetmm_ib_take(const struct ib_pd *pd)
{
	struct unetmm_file *file = unetmm_ib_pd_file(pd);

	return !file || unetmm_ib_of(pd->device)->calls->take(file) ? 0 : -ENOMEM;
}

void unetmm_ib_give(const struct ib_pd *pd)
{
	struct unetmm_file *file = unetmm_ib_pd_file(pd);

	if (file)
		unetmm_ib_of(pd->device)->calls->give(file);
}

static int unetmm_ib_alloc_pd(struct ib_pd *ib, struct ib_udata *udata)
{
	atomic_t *next = &unetmm_ib_of(ib->device)->pd_next;
	int ret = unetmm_ib_take(ib);

	if (ret)
		return ret;
	/* After 2^31 of them a number may be used again, and 0 is none. */
	while (!unetmm_ib_pd(ib)->number)
		unetmm_ib_pd(ib)->number = atomic_inc_return(next) & ~UNETMM_PD_EP;
	return 0;
}

static int unetmm_ib_dealloc_pd(struct ib_pd *ib, struct ib_udata *udata)
{
	unetmm_ib_give(ib);
	return 0;
}

const struct ib_device_ops unetmm_ib_context_ops = {
	.alloc_ucontext = unetmm_ib_alloc_ucontext,
	.dealloc_ucontext = unetmm_ib_dealloc_ucontext,
	.disassociate_ucontext = unetmm_ib_disassociate_ucontext,
	.mmap = unetmm_ib_mmap,
	.mmap_free = unetmm_ib_mmap_free,
	.alloc_pd = unetmm_ib_alloc_pd,
	.dealloc_pd = unetmm_ib_dealloc_pd,
	INIT_RDMA_OBJ_SIZE(ib_pd, unetmm_ib_pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, unetmm_ib_context, ib),
};
