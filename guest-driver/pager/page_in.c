// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: page faults on behalf of a process: the check of an address, and the page-in of
 * the pages behind it, with the result that an access of the process would have.
 *
 * unetmm_page_in() may sleep without a limit (a userfaultfd, a FUSE daemon).  Its callers
 * are calls of the process itself, and workers of the pager.
 */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/userfaultfd_k.h>

#include "compat/compat.h"
#include "pager/pager.h"
#include "space/space.h"
#include "base/base.h"

/*
 * May the pages be used so, as far as the VMA tells?  Then it is returned, good
 * for as long as mmap_lock is held, with npages clipped to it, which also keeps
 * GUP from the gap below a stack, where it would complain.
 */
struct vm_area_struct *unetmm_usable_vma(struct mm_struct *mm, u64 vaddr,
					 bool write, u32 *npages)
{
	struct vm_area_struct *vma;

	lockdep_assert_held(&mm->mmap_lock);
	if (vaddr >= mm->task_size)
		return ERR_PTR(-EFAULT);
	vma = vma_lookup(mm, vaddr);
	if (!vma || !(vma->vm_flags & (write ? VM_WRITE : VM_READ)))
		return ERR_PTR(-EFAULT);
	if (vma->vm_flags & (VM_IO | VM_PFNMAP) ||
	    (userfaultfd_armed(vma) && unetmm_gup_faults_always(vma)))
		return ERR_PTR(-EOPNOTSUPP);
	*npages = min_t(u64, *npages, (vma->vm_end - vaddr) >> PAGE_SHIFT);
	return vma;
}

/*
 * GUP returns EFAULT for an address that the process itself may not access, and for
 * memory that Linux does not lend to a device (secretmem, files that track dirty
 * pages).  The caller has checked the mapping's rights, so the process may not access
 * an address only if the mapped file ends before it.
 */
int unetmm_why_refused(struct mm_struct *mm, u64 vaddr, int err)
{
	struct vm_area_struct *vma;
	u64 offset;

	lockdep_assert_held(&mm->mmap_lock);
	if (err == -ENOMEM || err == -EINTR || err == -EAGAIN)
		return err;
	vma = vma_lookup(mm, vaddr);
	if (!vma)
		return -EFAULT;
	if (vma->vm_file) {
		offset = vaddr - vma->vm_start +
			 ((u64)vma->vm_pgoff << PAGE_SHIFT);
		if (offset >= i_size_read(file_inode(vma->vm_file)))
			return -EFAULT;
	}
	return -EOPNOTSUPP;
}

/*
 * Does a page of the VMA have to be made writable before it is pinned?  A write to a
 * shared page of a private mapping puts a copy in its place, and a long-term pin would
 * keep the page that the process no longer uses.
 */
bool unetmm_pin_copies(const struct unetmm_aspace *space,
		       const struct vm_area_struct *vma)
{
	return space->ops->keeps &&
	       (vma->vm_flags & (VM_SHARED | VM_WRITE)) == VM_WRITE;
}

/*
 * One page fault, which may sleep, but never with mmap_lock held.  In contrast to
 * fixup_user_fault(), a signal that kills the caller ends its wait for mmap_lock after
 * the fault: then the result is -EINTR, and mmap_lock is not held.
 */
static int unetmm_page_fault(struct mm_struct *mm, u64 vaddr,
			     unsigned int flags)
{
	struct vm_area_struct *vma;
	bool refused = false;
	vm_fault_t ret;
	u32 one = 1;
	int err;

	flags |= FAULT_FLAG_ALLOW_RETRY | FAULT_FLAG_KILLABLE;
	for (;;) {
		vma = unetmm_usable_vma(mm, vaddr, flags & FAULT_FLAG_WRITE,
					&one);
		if (IS_ERR(vma))
			return PTR_ERR(vma);
		ret = handle_mm_fault(vma, vaddr, flags, NULL);
		if (!(ret & (VM_FAULT_RETRY | VM_FAULT_COMPLETED))) {
			err = vm_fault_to_errno(ret, 0);
			if (err)
				err = unetmm_why_refused(mm, vaddr, err);
			/* The file may have grown since: the second attempt tells. */
			if (err != -EOPNOTSUPP || refused)
				return err;
			refused = true;
			continue;
		}
		if (fatal_signal_pending(current) ||
		    mmap_read_lock_killable(mm))
			return -EINTR;
		if (ret & VM_FAULT_COMPLETED)
			return 0;
		flags |= FAULT_FLAG_TRIED;
	}
}

static int unetmm_page_in_how(struct unetmm_aspace *space, u64 vaddr,
			      u32 npages, bool write, bool as_is)
{
	struct mm_struct *mm = space->mm;
	unsigned int flags = FAULT_FLAG_REMOTE;
	struct vm_area_struct *vma;
	u32 i;
	int ret;

	unetmm_may_wait(space->dev);
	if (mmap_read_lock_killable(mm))
		return -EINTR;
	vma = unetmm_usable_vma(mm, vaddr, write, &npages);
	ret = PTR_ERR_OR_ZERO(vma);
	/* A page that is shared is not pinned for reading before it is copied. */
	write = write || (!ret && !as_is && unetmm_pin_copies(space, vma));
	/* From here on the lock may have been let go of, and the VMA be gone. */
	if (write)
		flags |= FAULT_FLAG_WRITE;
	else if (space->ops->pins && !as_is)
		flags |= FAULT_FLAG_UNSHARE;
	for (i = 0; !ret && i < npages; i++) {
		ret = unetmm_page_fault(mm, vaddr + (u64)i * PAGE_SIZE, flags);
		if (ret == -EINTR)
			return ret;
		if (ret && i) {
			ret = 0;
			break;
		}
	}
	mmap_read_unlock(mm);
	return ret;
}

/*
 * Makes pages resident as an access of the process would, sleeping for I/O or
 * userfaultfd without mmap_lock.  The pages may be gone again when it returns.
 * The result is that of the first page: 0; -EFAULT: an access of the process would
 * fail; -EOPNOTSUPP; -ENOMEM; -EINTR.  The caller holds mm_users, and no lock.
 */
int unetmm_page_in(struct unetmm_aspace *space, u64 vaddr, u32 npages,
		   bool write)
{
	return unetmm_page_in_how(space, vaddr, npages, write, false);
}

/* As unetmm_page_in(), but a shared page is not copied: the page that was there comes back. */
int unetmm_page_in_as_is(struct unetmm_aspace *space, u64 vaddr, u32 npages,
			 bool write)
{
	return unetmm_page_in_how(space, vaddr, npages, write, true);
}
