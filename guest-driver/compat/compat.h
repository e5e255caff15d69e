/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The differences between Linux 6.1, 6.12 and 7.3, and nothing else.  Where the version
 * is not one of these, the change came between them; docs/kernels.rst says which kernels
 * the driver has been built for.
 */
#ifndef UNETMM_COMPAT_H
#define UNETMM_COMPAT_H

#include <linux/eventfd.h>
#include <linux/hrtimer.h>
#include <linux/hugetlb.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/timer.h>
#include <linux/version.h>
#include <net/devlink.h>

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

/* 6.2 has the new name of del_timer_sync(), and 6.16 that of from_timer(). */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define timer_delete_sync(timer) del_timer_sync(timer)
#endif
#ifndef timer_container_of
#define timer_container_of(var, timer, member) from_timer(var, timer, member)
#endif

/* 6.3 has one function for one range, 7.x another name, and 6.4 a lock for each VMA. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
#define unetmm_zap_page(vma, addr) zap_page_range(vma, addr, PAGE_SIZE)
#elif defined(UNETMM_HAVE_ZAP_VMA)
#define unetmm_zap_page(vma, addr) zap_vma_range(vma, addr, PAGE_SIZE)
#else
#define unetmm_zap_page(vma, addr) \
	zap_page_range_single(vma, addr, PAGE_SIZE, NULL)
#endif
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
#define unetmm_vma_start_write(vma) do { } while (0)
#else
#define unetmm_vma_start_write(vma) vma_start_write(vma)
#endif

/*
 * 6.1 has mmap_write_trylock(), which does this; later kernels have none.  Since 6.13
 * mmap_write_lock() begins a sequence, too, which mmap_write_unlock() ends.
 */
static inline bool unetmm_mmap_write_trylock(struct mm_struct *mm)
{
	if (!down_write_trylock(&mm->mmap_lock))
		return false;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	mm_lock_seqcount_begin(mm);
#endif
	return true;
}

/* 6.6 has them. */
#ifndef VM_SHADOW_STACK
#define VM_SHADOW_STACK	VM_NONE
#endif

/* 6.5 took the vmas argument away. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
#define unetmm_pin_remote(mm, start, n, flags, pages) \
	pin_user_pages_remote(mm, start, n, flags, pages, NULL, NULL)
#define unetmm_get_remote(mm, start, n, flags, pages, locked) \
	get_user_pages_remote(mm, start, n, flags, pages, NULL, locked)
#else
#define unetmm_pin_remote(mm, start, n, flags, pages) \
	pin_user_pages_remote(mm, start, n, flags, pages, NULL)
#define unetmm_get_remote(mm, start, n, flags, pages, locked) \
	get_user_pages_remote(mm, start, n, flags, pages, locked)
#endif

/* Up to 6.5 GUP had a loop of its own for hugetlb, without FOLL_NOFAULT. */
static inline bool unetmm_gup_faults_always(struct vm_area_struct *vma)
{
	return LINUX_VERSION_CODE < KERNEL_VERSION(6, 6, 0) &&
	       is_vm_hugetlb_page(vma);
}

/* The kind of a page for which is_zone_device_page() holds.  6.15 has it in the folio. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 15, 0)
#define unetmm_device_kind(page) (compound_head(page)->pgmap->type)
#else
#define unetmm_device_kind(page) (page_pgmap(page)->type)
#endif

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

/* 6.2 puts the driver's name itself. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define unetmm_devlink_name(req, name) devlink_info_driver_name_put(req, name)
#else
#define unetmm_devlink_name(req, name) 0
#endif

/* 6.7: errors are kept in the message. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 0)
#define unetmm_fmsg(call) (call)
#else
#define unetmm_fmsg(call) ({ call; 0; })
#endif

/* 6.18: the periods are members of the operations. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 18, 0)
#define unetmm_reporter_create(devlink, ops, priv) \
	devlink_health_reporter_create(devlink, ops, 0, priv)
#else
#define unetmm_reporter_create(devlink, ops, priv) \
	devlink_health_reporter_create(devlink, ops, priv)
#endif

/* 6.19 has one argument more. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 19, 0)
#define UNETMM_DEVLINK_GET(name) \
	int name(struct devlink *devlink, u32 id, \
		 struct devlink_param_gset_ctx *ctx)
#else
#define UNETMM_DEVLINK_GET(name) \
	int name(struct devlink *devlink, u32 id, \
		 struct devlink_param_gset_ctx *ctx, \
		 struct netlink_ext_ack *extack)
#endif

/* 7.x: values are checked where they are. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
#define UNETMM_DEVLINK_VALUE(name) union devlink_param_value name
#define unetmm_devlink_u32(value) ((value).vu32)
#else
#define UNETMM_DEVLINK_VALUE(name) union devlink_param_value *name
#define unetmm_devlink_u32(value) ((value)->vu32)
#endif

/* 6.11 has one argument more. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
#define UNETMM_DEVLINK_SET(name) \
	int name(struct devlink *devlink, u32 id, \
		 struct devlink_param_gset_ctx *ctx)
#else
#define UNETMM_DEVLINK_SET(name) \
	int name(struct devlink *devlink, u32 id, \
		 struct devlink_param_gset_ctx *ctx, \
		 struct netlink_ext_ack *extack)
#endif

/* 6.11 gives the whole bundle, of which drivers of before want a part; nobody in the kernel. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
#define UNETMM_CREATE_CQ(name) \
	int name(struct ib_cq *ib, const struct ib_cq_init_attr *attr, struct ib_udata *udata)
#define UNETMM_CREATE_CQ_UDATA udata
#else
#define UNETMM_CREATE_CQ(name) \
	int name(struct ib_cq *ib, const struct ib_cq_init_attr *attr, \
		 struct uverbs_attr_bundle *attrs)
#define UNETMM_CREATE_CQ_UDATA (attrs ? &attrs->driver_udata : NULL)
#endif

/* 7.1 has another name for a process's queues. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 1, 0)
#define UNETMM_RESIZE_CQ(name) int name(struct ib_cq *ib, int cqe, struct ib_udata *udata)
#define UNETMM_RESIZE_CQ_OP resize_cq
#else
#define UNETMM_RESIZE_CQ(name) \
	int name(struct ib_cq *ib, unsigned int cqe, struct ib_udata *udata)
#define UNETMM_RESIZE_CQ_OP resize_user_cq
#endif

/* 6.13 has one call for both steps, and 6.15 took the first away. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#define unetmm_hrtimer_setup(timer, fn, clock, mode) do { \
	struct hrtimer *unetmm_t = (timer); \
	hrtimer_init(unetmm_t, clock, mode); \
	unetmm_t->function = (fn); \
} while (0)
#else
#define unetmm_hrtimer_setup(timer, fn, clock, mode) hrtimer_setup(timer, fn, clock, mode)
#endif

/* 7.x takes the sock, not the socket. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
#define unetmm_tunnel_setup(socket, tunnel) setup_udp_tunnel_sock(&init_net, socket, tunnel)
#define unetmm_tunnel_release(socket) udp_tunnel_sock_release(socket)
#else
#define unetmm_tunnel_setup(socket, tunnel) setup_udp_tunnel_sock(&init_net, (socket)->sk, tunnel)
#define unetmm_tunnel_release(socket) udp_tunnel_sock_release((socket)->sk)
#endif

/* 7.x has hints for direct memory access. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
#define UNETMM_REG_USER_MR(name) \
	struct ib_mr *name(struct ib_pd *pd, u64 start, u64 length, u64 iova, int access, \
			   struct ib_udata *udata)
#else
#define UNETMM_REG_USER_MR(name) \
	struct ib_mr *name(struct ib_pd *pd, u64 start, u64 length, u64 iova, int access, \
			   struct ib_dmah *dmah, struct ib_udata *udata)
#endif

#endif /* UNETMM_COMPAT_H */
