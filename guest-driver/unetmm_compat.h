/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What differs between Linux 6.1 and 6.12, and nothing else.
 */
#ifndef UNETMM_COMPAT_H
#define UNETMM_COMPAT_H

#include <linux/eventfd.h>
#include <linux/hugetlb.h>
#include <linux/mm.h>
#include <linux/version.h>

/* 6.3 made vm_flags read-only but for these helpers. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void unetmm_vm_flags_mod(struct vm_area_struct *vma,
				       vm_flags_t set, vm_flags_t clear)
{
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
}
#else
static inline void unetmm_vm_flags_mod(struct vm_area_struct *vma,
				       vm_flags_t set, vm_flags_t clear)
{
	vm_flags_mod(vma, set, clear);
}
#endif

/* 6.5 took the vmas argument away. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
#define unetmm_pin_remote(mm, start, n, flags, pages) \
	pin_user_pages_remote(mm, start, n, flags, pages, NULL, NULL)
#else
#define unetmm_pin_remote(mm, start, n, flags, pages) \
	pin_user_pages_remote(mm, start, n, flags, pages, NULL)
#endif

/* Up to 6.5 GUP had a loop of its own for hugetlb, without FOLL_NOFAULT. */
static inline bool unetmm_gup_faults_always(struct vm_area_struct *vma)
{
	return LINUX_VERSION_CODE < KERNEL_VERSION(6, 6, 0) &&
	       is_vm_hugetlb_page(vma);
}

/* 6.8 took the count away. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 8, 0)
#define unetmm_eventfd_signal(ctx) eventfd_signal(ctx, 1)
#else
#define unetmm_eventfd_signal(ctx) eventfd_signal(ctx)
#endif

/* 6.12 took it away: NULL means the same. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#define unetmm_no_llseek no_llseek
#else
#define unetmm_no_llseek NULL
#endif

#endif /* UNETMM_COMPAT_H */
