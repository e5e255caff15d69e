// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm_ib: queues that a process shares with the driver, laid out as librxe has them.
 *
 * The process can write all of the memory, at any time: the head of the buffer with its
 * sizes is for the process alone, and an index of the process's is masked.
 */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "compat/compat.h"
#include "verbs/verbs.h"

/* The engines' turns, for queues of processes and for those of the kernel */
struct workqueue_struct *unetmm_ib_wq, *unetmm_ib_kernel_wq;

static bool unetmm_ib_queue_charge(const struct unetmm_ib_queue *q)
{
	const struct unetmm_ib *dev = unetmm_ib_of(q->context->ib.device);

	return dev->calls->charge(q->context->file, q->info.size >> PAGE_SHIFT);
}

static void unetmm_ib_queue_uncharge(const struct unetmm_ib_queue *q)
{
	const struct unetmm_ib *dev = unetmm_ib_of(q->context->ib.device);

	dev->calls->uncharge(q->context->file, q->info.size >> PAGE_SHIFT);
}

static int unetmm_ib_queue_alloc(struct unetmm_ib_queue *q, struct ib_ucontext *context)
{
	int ret = -ENOMEM;

	q->mapped = kzalloc(sizeof(*q->mapped), GFP_KERNEL_ACCOUNT);
	if (!q->mapped)
		return ret;
	q->mapped->mem = __vmalloc(q->info.size, GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (q->mapped->mem)
		ret = rdma_user_mmap_entry_insert(context, &q->mapped->entry, q->info.size);
	if (ret) {
		vfree(q->mapped->mem);
		kfree(q->mapped);
	}
	return ret;
}

/* One entry more than were asked for: a queue that is full has an empty one. */
static void unetmm_ib_queue_sizes(struct unetmm_ib_queue *q, u32 entries, u32 bytes)
{
	bytes = roundup_pow_of_two(max_t(u32, bytes, SMP_CACHE_BYTES));
	entries = roundup_pow_of_two(entries + 1);
	q->mask = entries - 1;
	q->log2 = ilog2(bytes);
	q->info.size = PAGE_ALIGN(sizeof(*q->buf) + entries * bytes);
}

int unetmm_ib_queue_make(struct unetmm_ib_queue *q, struct ib_ucontext *context, u32 entries,
			 u32 bytes)
{
	int ret;

	q->context = unetmm_ib_context(context);
	unetmm_ib_queue_sizes(q, entries, bytes);
	if (!unetmm_ib_queue_charge(q))
		return -ENOMEM;
	ret = unetmm_ib_queue_alloc(q, context);
	if (ret) {
		unetmm_ib_queue_uncharge(q);
		return ret;
	}
	q->buf = q->mapped->mem;
	q->buf->log2_elem_size = q->log2;
	q->buf->index_mask = q->mask;
	q->info.offset = rdma_user_mmap_get_offset(&q->mapped->entry);
	return 0;
}

/* For the kernel's own entries: nobody maps the memory. */
int unetmm_ib_queue_make_kernel(struct unetmm_ib_queue *q, u32 entries, u32 bytes)
{
	unetmm_ib_queue_sizes(q, entries, bytes);
	q->buf = vzalloc(q->info.size);
	return q->buf ? 0 : -ENOMEM;
}

void unetmm_ib_queue_free(struct unetmm_ib_queue *q)
{
	if (!q->buf)
		return;
	if (!q->mapped) {
		vfree(q->buf);
		q->buf = NULL;
		return;
	}
	unetmm_ib_queue_uncharge(q);
	q->buf = NULL;
	rdma_user_mmap_entry_remove(&q->mapped->entry);
}

/* With the last reference; pages that are mapped have references, and stay charged. */
void unetmm_ib_mmap_free(struct rdma_user_mmap_entry *entry)
{
	struct unetmm_ib_mapped *mapped = container_of(entry, struct unetmm_ib_mapped, entry);

	vfree(mapped->mem);
	kfree(mapped);
}

int unetmm_ib_mmap(struct ib_ucontext *context, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *entry = rdma_user_mmap_entry_get(context, vma);
	struct unetmm_ib_mapped *mapped;
	unsigned long at;
	int ret = 0;

	if (!entry)
		return -EINVAL;
	mapped = container_of(entry, struct unetmm_ib_mapped, entry);
	unetmm_vm_flags_mod(vma, VM_DONTEXPAND | VM_DONTDUMP, 0);
	/* ib_core has compared the lengths. */
	for (at = vma->vm_start; !ret && at < vma->vm_end; at += PAGE_SIZE)
		ret = vm_insert_page(vma, at,
				     vmalloc_to_page(mapped->mem + (at - vma->vm_start)));
	rdma_user_mmap_entry_put(entry);
	return ret;
}

static void *unetmm_ib_queue_at(const struct unetmm_ib_queue *q, u32 index)
{
	return q->buf->data + ((size_t)index << q->log2);
}

/* Has the process put in entries that the driver has not taken? */
bool unetmm_ib_queue_waits(struct unetmm_ib_queue *q)
{
	/* Pairs with librxe's release: the entry is written before. */
	return q->buf && (smp_load_acquire(&q->buf->producer_index) & q->mask) !=
			 READ_ONCE(q->index);
}

/* The place behind the entries that the process has put in. */
u32 unetmm_ib_queue_posted(const struct unetmm_ib_queue *q)
{
	/* As unetmm_ib_queue_waits(). */
	return smp_load_acquire(&q->buf->producer_index) & q->mask;
}

/* A copy of the next entry, for the driver to look at. */
bool unetmm_ib_queue_peek(struct unetmm_ib_queue *q, void *copy, u32 bytes)
{
	if (!unetmm_ib_queue_waits(q))
		return false;
	memcpy(copy, unetmm_ib_queue_at(q, q->index), min_t(u32, bytes, BIT(q->log2)));
	/* All that the driver looks at is the copy. */
	barrier();
	return true;
}

void unetmm_ib_queue_next(struct unetmm_ib_queue *q)
{
	WRITE_ONCE(q->index, (q->index + 1) & q->mask);
	/* Pairs with librxe's look for room. */
	smp_store_release(&q->buf->consumer_index, q->index);
}

/* All that the process has put in so far. */
void unetmm_ib_queue_discard(struct unetmm_ib_queue *q)
{
	if (!q->buf)
		return;
	WRITE_ONCE(q->index, READ_ONCE(q->buf->producer_index) & q->mask);
	/* As unetmm_ib_queue_next(). */
	smp_store_release(&q->buf->consumer_index, q->index);
}

/* An entry for the process; false: no room. */
bool unetmm_ib_queue_put(struct unetmm_ib_queue *q, const void *entry, u32 bytes)
{
	u32 next = (q->index + 1) & q->mask;

	if (next == (READ_ONCE(q->buf->consumer_index) & q->mask))
		return false;
	memcpy(unetmm_ib_queue_at(q, q->index), entry, bytes);
	q->index = next;
	/* Pairs with librxe's acquire: it reads the entry behind. */
	smp_store_release(&q->buf->producer_index, next);
	return true;
}

/* The place of the next entry that the kernel posts, or NULL. */
void *unetmm_ib_queue_room(struct unetmm_ib_queue *q)
{
	u32 index = q->buf->producer_index;

	/* Pairs with unetmm_ib_queue_next(): the engine has read the place. */
	if (((index + 1) & q->mask) == smp_load_acquire(&q->buf->consumer_index))
		return NULL;
	return unetmm_ib_queue_at(q, index);
}

/* The entry there is written. */
void unetmm_ib_queue_post(struct unetmm_ib_queue *q)
{
	/* Pairs with unetmm_ib_queue_waits(). */
	smp_store_release(&q->buf->producer_index, (q->buf->producer_index + 1) & q->mask);
}
