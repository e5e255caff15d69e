// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: pages of the card that a process maps: windows of automatic update,
 * and proxy pages of user-level DMA start.
 *
 * A page number belongs to one object from its creation to its end, so that a
 * store can never reach another's.  The end goes off the process, off the card,
 * off the books, in this order; a later store finds a page that nobody reads, as
 * behind a doorbell (card/mmap.c).  A window that the card drops, with the import
 * below, keeps its numbers until then.
 *
 * ep->windows changes under file->lock and map_lock; either is enough to look.
 * The bitmaps are under map_lock.
 */
#include <linux/slab.h>

#include "remote/remote.h"
#include "ep/ep.h"
#include "map/map.h"
#include "space/space.h"
#include "ring/ring.h"
#include "base/base.h"

struct unetmm_win {
	struct list_head node;		/* ep->windows */
	struct rdma_cgroup *group;
	u32 kind;			/* UNETMM_WINDOW_* */
	u32 page;			/* of the card's */
	u32 npages;
};

static bool unetmm_win_is_proxy(u32 kind)
{
	return kind != UNETMM_WINDOW_UPDATE;
}

int unetmm_windows_init(struct unetmm_dev *dev)
{
	dev->remote->window_map = bitmap_zalloc(dev->hw.window_pages ?: 1, GFP_KERNEL);
	dev->remote->proxy_map = bitmap_zalloc(dev->hw.proxy_pages ?: 1, GFP_KERNEL);
	return dev->remote->window_map && dev->remote->proxy_map ? 0 : -ENOMEM;
}

void unetmm_windows_exit(struct unetmm_dev *dev)
{
	bitmap_free(dev->remote->proxy_map);
	dev->remote->proxy_map = NULL;
	bitmap_free(dev->remote->window_map);
	dev->remote->window_map = NULL;
}

static unsigned long *unetmm_win_map(struct unetmm_dev *dev, u32 kind,
				     u32 *pages)
{
	*pages = unetmm_win_is_proxy(kind) ? dev->hw.proxy_pages :
					     dev->hw.window_pages;
	return unetmm_win_is_proxy(kind) ? dev->remote->proxy_map : dev->remote->window_map;
}

static enum unetmm_use unetmm_win_use(const struct unetmm_win *win)
{
	return unetmm_win_is_proxy(win->kind) ? UNETMM_USE_PROXIES :
						UNETMM_USE_WINDOWS;
}

/* Page numbers of the card; -ENOSPC; -EDQUOT: the user has all that it may have. */
static int unetmm_win_claim(struct unetmm_ep *ep, struct unetmm_win *win)
{
	struct unetmm_dev *dev = ep->dev;
	unsigned long start;
	unsigned long *map;
	u32 pages;
	int ret;

	map = unetmm_win_map(dev, win->kind, &pages);
	if (win->npages > pages)
		return -ENOSPC;
	ret = unetmm_object_take(ep->space, unetmm_win_use(win), win->npages,
				 &win->group);
	if (ret)
		return ret;
	ret = -ENOSPC;
	mutex_lock(&dev->map_lock);
	start = bitmap_find_next_zero_area(map, pages, 0, win->npages, 0);
	if (start < pages) {
		bitmap_set(map, start, win->npages);
		win->page = start;
		ret = 0;
	}
	mutex_unlock(&dev->map_lock);
	if (ret)
		unetmm_object_give(ep->space, unetmm_win_use(win), win->npages,
				   win->group);
	return ret;
}

static void unetmm_win_unclaim(struct unetmm_ep *ep, struct unetmm_win *win)
{
	struct unetmm_dev *dev = ep->dev;
	unsigned long *map;
	u32 pages;

	map = unetmm_win_map(dev, win->kind, &pages);
	mutex_lock(&dev->map_lock);
	bitmap_clear(map, win->page, win->npages);
	mutex_unlock(&dev->map_lock);
	unetmm_object_give(ep->space, unetmm_win_use(win), win->npages,
			   win->group);
}

static int unetmm_win_set(struct unetmm_ep *ep, const struct unetmm_win *win,
			  const struct unetmm_window *a)
{
	struct unetmm_cmd cmd = { .ep = cpu_to_le16(ep->id) };

	if (win->kind == UNETMM_WINDOW_UPDATE) {
		cmd.opcode = UNETMM_CMD_WINDOW_SET;
		cmd.window.page = cpu_to_le32(win->page);
		cmd.window.npages = cpu_to_le32(win->npages);
		cmd.window.offset = cpu_to_le64(a->at);
		cmd.window.import = cpu_to_le16(a->import);
		cmd.window.combine_ns = cpu_to_le32(a->combine_ns);
		cmd.window.combine_bytes = cpu_to_le16(a->combine_bytes);
	} else {
		cmd.opcode = UNETMM_CMD_PROXY_SET;
		cmd.proxy.page = cpu_to_le32(win->page);
		cmd.proxy.npages = cpu_to_le32(win->npages);
		cmd.proxy.at = cpu_to_le64(a->at);
		cmd.proxy.import = cpu_to_le16(a->import);
		cmd.proxy.kind = win->kind == UNETMM_WINDOW_TO ?
			UNETMM_PROXY_TO : UNETMM_PROXY_FROM;
	}
	return unetmm_cmd(ep->dev, &cmd, NULL);
}

static void unetmm_win_clear(struct unetmm_ep *ep, const struct unetmm_win *win)
{
	struct unetmm_cmd cmd = { .ep = cpu_to_le16(ep->id) };

	if (win->kind == UNETMM_WINDOW_UPDATE) {
		cmd.opcode = UNETMM_CMD_WINDOW_CLEAR;
		cmd.window.page = cpu_to_le32(win->page);
		cmd.window.npages = cpu_to_le32(win->npages);
	} else {
		cmd.opcode = UNETMM_CMD_PROXY_CLEAR;
		cmd.proxy.page = cpu_to_le32(win->page);
		cmd.proxy.npages = cpu_to_le32(win->npages);
	}
	unetmm_cmd(ep->dev, &cmd, NULL);
}

static void unetmm_win_list(struct unetmm_ep *ep, struct unetmm_win *win,
			    bool add)
{
	lockdep_assert_held(&ep->file->lock);
	mutex_lock(&ep->dev->map_lock);
	if (add)
		list_add_tail(&win->node, &ep->windows);
	else
		list_del(&win->node);
	mutex_unlock(&ep->dev->map_lock);
}

static u64 unetmm_win_offset(const struct unetmm_ep *ep,
			     const struct unetmm_win *win)
{
	return unetmm_map_window(ep->id, unetmm_win_is_proxy(win->kind),
				 win->page);
}

static void unetmm_win_end(struct unetmm_ep *ep, struct unetmm_win *win)
{
	unetmm_win_list(ep, win, false);
	/* A verbs context makes none. */
	unmap_mapping_range(ep->file->filp->f_mapping,
			    unetmm_win_offset(ep, win),
			    (u64)win->npages << PAGE_SHIFT, 1);
	unetmm_win_clear(ep, win);
	unetmm_win_unclaim(ep, win);
	if (unetmm_win_is_proxy(win->kind))
		unetmm_switch_forget(ep->space);
	kfree(win);
}

/* Before the endpoint is off the card: the numbers may be another's soon. */
void unetmm_windows_close(struct unetmm_ep *ep)
{
	struct unetmm_win *win, *next;

	list_for_each_entry_safe(win, next, &ep->windows, node)
		unetmm_win_end(ep, win);
}

static int unetmm_win_check(const struct unetmm_dev *dev,
			    const struct unetmm_window *a)
{
	if (a->flags || a->rsvd)
		return -EOPNOTSUPP;
	if (a->kind > UNETMM_WINDOW_FROM || !a->length ||
	    a->length > (u64)UINT_MAX << PAGE_SHIFT ||
	    !IS_ALIGNED(a->length, PAGE_SIZE) ||
	    (a->kind != UNETMM_WINDOW_UPDATE &&
	     (a->combine_ns || a->combine_bytes)) ||
	    (a->kind == UNETMM_WINDOW_FROM && a->import) ||
	    a->import > U16_MAX)
		return -EINVAL;
	if (!(dev->hw.caps & (unetmm_win_is_proxy(a->kind) ?
			      UNETMM_CAP_PROXIES : UNETMM_CAP_WINDOWS)))
		return -EOPNOTSUPP;
	return 0;
}

static int unetmm_win_create(struct unetmm_ep *ep, struct unetmm_window *a)
{
	struct unetmm_win *win = kzalloc(sizeof(*win), GFP_KERNEL_ACCOUNT);
	int ret;

	if (!win)
		return -ENOMEM;
	win->kind = a->kind;
	win->npages = a->length >> PAGE_SHIFT;
	ret = unetmm_win_claim(ep, win);
	if (ret)
		goto free;
	if (unetmm_win_is_proxy(win->kind)) {
		ret = unetmm_switch_watch(ep->space);
		if (ret)
			goto unclaim;
	}
	ret = unetmm_win_set(ep, win, a);
	if (ret)
		goto forget;
	unetmm_win_list(ep, win, true);
	a->id = win->page | (unetmm_win_is_proxy(win->kind) ?
			     UNETMM_WINDOW_ID_PROXY : 0);
	a->map = unetmm_win_offset(ep, win);
	a->map_bytes = a->length;
	return 0;

forget:
	if (unetmm_win_is_proxy(win->kind))
		unetmm_switch_forget(ep->space);
unclaim:
	unetmm_win_unclaim(ep, win);
free:
	kfree(win);
	return ret;
}

int unetmm_op_window(struct unetmm_file *file, void *arg)
{
	struct unetmm_window *a = arg;
	struct unetmm_ep *ep;
	int ret;

	ret = unetmm_win_check(file->dev, a);
	if (ret)
		return ret;
	mutex_lock(&file->lock);
	ep = unetmm_ep_find_locked(file, a->endpoint);
	ret = ep ? unetmm_win_create(ep, a) : -ENOENT;
	mutex_unlock(&file->lock);
	return ret;
}

int unetmm_window_destroy(struct unetmm_file *file, struct unetmm_ep *ep,
			  const struct unetmm_destroy *a)
{
	struct unetmm_win *win;

	list_for_each_entry(win, &ep->windows, node) {
		if (win->page == (a->id & ~(u64)UNETMM_WINDOW_ID_PROXY) &&
		    unetmm_win_is_proxy(win->kind) ==
		    !!(a->id & UNETMM_WINDOW_ID_PROXY)) {
			unetmm_win_end(ep, win);
			return 0;
		}
	}
	return -ENOENT;
}

/* Where the page is in a BAR; 0: not one of the endpoint's any more. */
phys_addr_t unetmm_window_phys(struct unetmm_ep *ep, bool proxy, u32 page)
{
	struct unetmm_dev *dev = ep->dev;
	struct unetmm_win *win;
	u64 first;

	lockdep_assert_held(&dev->map_lock);
	list_for_each_entry(win, &ep->windows, node) {
		if (unetmm_win_is_proxy(win->kind) != proxy ||
		    page < win->page || page - win->page >= win->npages)
			continue;
		first = proxy ? dev->proxy_start : dev->window_start;
		return first + ((u64)page << PAGE_SHIFT);
	}
	return 0;
}

/* May [page, page + npages) be mapped as one?  The pages must be of one object. */
bool unetmm_window_covers(struct unetmm_ep *ep, bool proxy, u32 page,
			  unsigned long npages)
{
	struct unetmm_win *win;

	lockdep_assert_held(&ep->dev->map_lock);
	list_for_each_entry(win, &ep->windows, node) {
		if (unetmm_win_is_proxy(win->kind) == proxy &&
		    page == win->page && npages == win->npages)
			return true;
	}
	return false;
}
