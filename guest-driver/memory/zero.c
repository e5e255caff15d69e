// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: zero-page receive: free buffers whose old contents need not be kept.
 *
 * A page that is not resident is not paged in for such a buffer: its contents are
 * given up, and the pin that follows finds no page and maps one of zeros, as the
 * U-Net/MM paper does.  A resident page is used as it is.  So bytes that a message
 * does not cover are zeros or old data of the same process, never of another.
 *
 * WHOSE PAGE.  Private, anonymous, writable, in small pages, neither mlock()ed
 * nor watched by userfaultfd: where the process could do the same to itself by
 * MADV_DONTNEED without anybody else noticing.
 *
 * WHEN.  Only while the buffer is the card's for certain, since its owner may
 * put new data there once it has it back: in POST before the card knows of it,
 * and in the pager before the card is answered.  (A miss that was deferred
 * does not ask for it again.)  A buffer becomes the process's without the
 * card at the end of its endpoint, which takes space->zero_lock, and the
 * endpoint's first_fault tells records of another one with the same number.
 *
 * NOT PRESENT MEANS NOT PINNED.  Linux does not unmap an anonymous page that is
 * pinned, neither for swap nor for migration, so giving up an
 * absent page parts no pin from the page tables.  Between the look and the zap
 * nobody may bring the page in: mmap_lock is held for writing, and the VMA's own
 * lock where there is one.  Where the lock cannot be had at once, the
 * page is paged in as any other.
 *
 * Our own notifier is called by the zap.  It finds no pin, and no lock of ours
 * that it takes is held; the sequence that it changes is read afterwards.
 */
#include <linux/mm.h>
#include <linux/userfaultfd_k.h>

#include "compat/compat.h"
#include "memory/memory.h"
#include "space/space.h"
#include "base/base.h"
#include "trace/trace.h"

/* As in Linux's own MADV_DONTNEED, and VMAs that this file never empties. */
#define UNETMM_ZERO_NEVER	(VM_SHARED | VM_IO | VM_PFNMAP | VM_MIXEDMAP | \
				 VM_HUGETLB | VM_LOCKED | VM_SHADOW_STACK)

/* The mapping around vaddr if its pages may be given up; or NULL. */
struct vm_area_struct *unetmm_zero_vma(struct mm_struct *mm, u64 vaddr)
{
	struct vm_area_struct *vma;

	lockdep_assert_held(&mm->mmap_lock);
	vma = vma_lookup(mm, vaddr);
	if (!vma || !vma_is_anonymous(vma) || !(vma->vm_flags & VM_WRITE) ||
	    vma->vm_flags & UNETMM_ZERO_NEVER || userfaultfd_armed(vma))
		return NULL;
	return vma;
}

/* 0, -EINVAL, or -EAGAIN: mmap_lock is not to be had now. */
int unetmm_zero_check(struct mm_struct *mm, u64 vaddr)
{
	int ret;

	if (!mmap_read_trylock(mm))
		return -EAGAIN;
	ret = unetmm_zero_vma(mm, vaddr) ? 0 : -EINVAL;
	mmap_read_unlock(mm);
	return ret;
}

#ifdef UNETMM_HAVE_ZAP
/* FOLL_FORCE: a page that is only hidden for NUMA's sake is there. */
static bool unetmm_zero_absent(struct mm_struct *mm, u64 vaddr)
{
	struct page *page;

	if (unetmm_get_remote(mm, vaddr, 1, FOLL_NOFAULT | FOLL_FORCE, &page,
			      NULL) != 1)
		return true;
	put_page(page);
	return false;
}

/* Without keeping page faults out: most pages are there. */
static bool unetmm_zero_wanted(struct mm_struct *mm, u64 vaddr)
{
	bool wanted;

	if (!mmap_read_trylock(mm))
		return false;
	wanted = unetmm_zero_vma(mm, vaddr) && unetmm_zero_absent(mm, vaddr);
	mmap_read_unlock(mm);
	return wanted;
}

/* The caller holds mm_users, and knows that the card has the buffer. */
void unetmm_zero_map(struct unetmm_aspace *space, u64 vaddr)
{
	struct mm_struct *mm = space->mm;
	struct vm_area_struct *vma;

	if (!unetmm_zero_wanted(mm, vaddr) || !unetmm_mmap_write_trylock(mm))
		return;
	vma = unetmm_zero_vma(mm, vaddr);
	if (vma) {
		unetmm_vma_start_write(vma);
		if (unetmm_zero_absent(mm, vaddr)) {
			unetmm_zap_page(vma, vaddr);
			unetmm_count(space->dev, zero_maps);
			trace_unetmm_zero(space->id, vaddr);
		}
	}
	mmap_write_unlock(mm);
}
#else
/* This kernel lends no function for it: the page is paged in. */
void unetmm_zero_map(struct unetmm_aspace *space, u64 vaddr)
{
}
#endif
