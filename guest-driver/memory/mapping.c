// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: a process's mappings: may their pages be lent to the card, and do faults in
 * them wait?
 */
#include <linux/hugetlb.h>
#include <linux/magic.h>
#include <linux/sched/signal.h>
#include <linux/userfaultfd_k.h>

#include "memory/memory.h"
#include "pager/pager.h"
#include "space/space.h"
#include "base/base.h"

/* Not lent to a device: the kernel itself has no mapping of it. */
bool unetmm_secret(const struct vm_area_struct *vma)
{
	return vma->vm_file &&
	       file_inode(vma->vm_file)->i_sb->s_magic == SECRETMEM_MAGIC;
}

/*
 * With `wait`, which PREFETCH gives, the call waits here.
 * How long mmap_lock is taken is the process's business (a file system of
 * its own may answer its mmap() when it likes): so it is tried again and again,
 * and no more once the space is closing, or a signal kills the caller.
 */
bool unetmm_mmap_lock(struct unetmm_aspace *space, bool wait)
{
	if (wait)
		unetmm_may_wait(space->dev);
	while (!mmap_read_trylock(space->mm)) {
		if (!wait || READ_ONCE(space->closing) || fatal_signal_pending(current))
			return false;
		schedule_timeout_killable(1);
	}
	return true;
}

/* Its pages are nowhere but in memory, or in swap: there is no file system to wait for. */
bool unetmm_in_memory(struct vm_area_struct *vma)
{
	return vma_is_anonymous(vma) || is_vm_hugetlb_page(vma) ||
	       (vma->vm_file &&
		file_inode(vma->vm_file)->i_sb->s_magic == TMPFS_MAGIC);
}

/*
 * Is there something that is not a page, at an address whose page GUP has not found?  It
 * may be in swap, or on its way to another place.  Interrupts are off, as for GUP's fast
 * path: no page table goes meanwhile.
 */
static bool unetmm_not_a_page(struct mm_struct *mm, unsigned long addr)
{
	pgd_t *pgd = pgd_offset(mm, addr);
	p4d_t *p4d;
	pud_t *pud;
	pmd_t *pmd, entry;
	pte_t pte;

	if (pgd_none(*pgd) || pgd_bad(*pgd))
		return false;
	p4d = p4d_offset(pgd, addr);
	if (p4d_none(*p4d) || p4d_bad(*p4d))
		return false;
	pud = pud_offset(p4d, addr);
	if (pud_none(*pud) || pud_bad(*pud))
		return false;
	pmd = pmd_offset(pud, addr);
	entry = READ_ONCE(*pmd);
	if (pmd_none(entry))
		return false;
	if (pmd_bad(entry))
		return !pmd_present(entry);
	pte = READ_ONCE(*pte_offset_kernel(&entry, addr));
	return !pte_none(pte) && !pte_present(pte);
}

/* Are the pages charged without a wait?  One fault may bring a whole large page. */
static bool unetmm_charged_at_once(struct mm_struct *mm,
				   const struct vm_area_struct *vma, u32 npages)
{
	if (vma->vm_flags & VM_HUGEPAGE)
		npages = max_t(u32, npages, 1U << (PMD_SHIFT - PAGE_SHIFT));
	return unetmm_group_has_room(mm, npages);
}

/*
 * Of the pages from vaddr on, those whose faults wait for nothing but memory to be
 * allocated.  Not told by FOLL_NOWAIT:
 *
 *   - a file system may be a process's: filemap_fault() reads ahead all the same, with
 *     mmap_lock held;
 *   - tmpfs waits for a page's lock, for swap, and for a hole that is being made;
 *   - a read from swap waits if the device has no place left in its queue, or if the
 *     read is synchronous (of one page alone, up to 6.1; of zram, with a disk behind it);
 *   - a memory group without room writes its own pages out, and waits for that;
 *   - hugetlb waits for a mutex that a fault of another process may hold.
 *
 * A hint: a page may be swapped out in this moment, or the group be full.
 */
u32 unetmm_faults_at_once(struct mm_struct *mm, struct vm_area_struct *vma,
			  u64 vaddr, u32 npages)
{
	u32 n = 0;

	lockdep_assert_held(&mm->mmap_lock);
	if (userfaultfd_armed(vma) || !unetmm_charged_at_once(mm, vma, npages))
		return 0;
	if (!vma_is_anonymous(vma))
		return 0;
	local_irq_disable();
	while (n < npages && !unetmm_not_a_page(mm, vaddr + (u64)n * PAGE_SIZE))
		n++;
	local_irq_enable();
	return n;
}
