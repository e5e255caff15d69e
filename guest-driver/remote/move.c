// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: parts of exports that are somewhere else (transfer redirection).
 *
 * The card records the landed ranges and holds a part while it is copied; the
 * process copies, since both places are its own.  Here are the checks of the new
 * place, which are those of an export, and the pages behind it, which are pinned,
 * with source pinned, for as long as the part is there.
 *
 * A part belongs to its export and goes with it.  If the process never learns the
 * ranges to copy, the redirection is undone: the card still has its record.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "remote/remote.h"
#include "memory/memory.h"
#include "space/space.h"
#include "ring/ring.h"
#include "util/share.h"
#include "base/base.h"

int unetmm_redirect_start(struct unetmm_dev *dev)
{
	dev->remote->landed_list = dma_alloc_coherent(&dev->pdev->dev,
					      UNETMM_REDIRECT_LANDED *
					      sizeof(*dev->remote->landed_list),
					      &dev->remote->landed_list_dma,
					      GFP_KERNEL);
	return dev->remote->landed_list ? 0 : -ENOMEM;
}

void unetmm_redirect_stop(struct unetmm_dev *dev)
{
	if (dev->remote->landed_list)
		dma_free_coherent(&dev->pdev->dev, UNETMM_REDIRECT_LANDED *
				  sizeof(*dev->remote->landed_list), dev->remote->landed_list,
				  dev->remote->landed_list_dma);
	dev->remote->landed_list = NULL;
}

/* ---- ctl.lock ------------------------------------------------------------ */

static struct unetmm_part *unetmm_part_find(struct unetmm_exported *export,
					    u64 offset)
{
	struct unetmm_part *part;

	list_for_each_entry(part, &export->parts, node) {
		if (part->offset == offset)
			return part;
	}
	return NULL;
}

static int unetmm_redirect_cmd(struct unetmm_dev *dev,
			       const struct unetmm_exported *export, u8 what,
			       const struct unetmm_redirect *a, u32 *count)
{
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_REGION_REDIRECT,
		.redirect = {
			.region = cpu_to_le32(export->region),
			.what = what,
			.offset = cpu_to_le64(a->offset),
			.length = cpu_to_le64(a->length),
			.to = cpu_to_le64(a->to),
			.list = cpu_to_le64(dev->remote->landed_list_dma),
		},
	};

	lockdep_assert_held(&dev->ctl->lock);
	return unetmm_cmd(dev, &cmd, count);
}

/*
 * The ranges that the process has to copy, and their two places.  -EIO: the card names
 * ranges outside of the part, and a process would copy over other data.
 */
static int unetmm_redirect_tell(struct unetmm_dev *dev,
				const struct unetmm_exported *export,
				const struct unetmm_part *part,
				struct unetmm_redirect *a, u32 count)
{
	u32 i;

	BUILD_BUG_ON(UNETMM_REDIRECT_SPANS != UNETMM_REDIRECT_LANDED);
	if (count > UNETMM_REDIRECT_SPANS)
		return -EIO;
	a->count = count;
	a->from = export->addr + a->offset;
	a->to = part->to;
	for (i = 0; i < count; i++) {
		const struct unetmm_landed *landed = &dev->remote->landed_list[i];
		u64 offset = le64_to_cpu(READ_ONCE(landed->offset));
		u64 length = le64_to_cpu(READ_ONCE(landed->length));

		if (!unetmm_within(offset, length, part->offset, part->length))
			return -EIO;
		a->spans[i].offset = offset;
		a->spans[i].length = length;
	}
	return 0;
}

/* ---- The process's side -------------------------------------------------- */

/*
 * Calls something under ctl.lock with the export, which may have changed since it
 * was looked at.
 */
static int unetmm_with_export(struct unetmm_file *file, u64 id,
			      int (*act)(struct unetmm_file *file,
					 struct unetmm_exported *export,
					 void *opaque), void *opaque)
{
	struct unetmm_dev *dev = file->dev;
	struct unetmm_exported *export;
	int ret = -ENODEV;

	down_read(&dev->rwsem);
	if (unetmm_running(dev) && !file->dead) {
		mutex_lock(&dev->ctl->lock);
		export = unetmm_exported_find(file, id);
		ret = export ? act(file, export, opaque) : -ENOENT;
		mutex_unlock(&dev->ctl->lock);
	}
	up_read(&dev->rwsem);
	return ret;
}

struct unetmm_begin {
	struct unetmm_redirect *a;
	struct unetmm_part *part;
	u8 rights;
};

static int unetmm_begin_look(struct unetmm_file *file,
			     struct unetmm_exported *export, void *opaque)
{
	struct unetmm_begin *begin = opaque;
	const struct unetmm_redirect *a = begin->a;

	if (!export->redirect)
		return -EOPNOTSUPP;
	if (a->offset >= export->length ||
	    a->length > export->length - a->offset)
		return -EINVAL;
	begin->rights = export->rights;
	return 0;
}

static int unetmm_begin_act(struct unetmm_file *file,
			    struct unetmm_exported *export, void *opaque)
{
	struct unetmm_begin *begin = opaque;
	struct unetmm_part *part = begin->part;
	u64 last = part->to + part->length - 1;
	u8 rights = begin->rights;
	u32 count = 0;
	int ret;

	ret = unetmm_begin_look(file, export, begin);
	if (ret)
		return ret;
	/* Another export by now, for which the memory was not looked at. */
	if (begin->rights != rights)
		return -ENOENT;
	if (unetmm_exports_collide(file, part->to, last) ||
	    unetmm_parts_collide(file, part->to, last))
		return -EEXIST;
	ret = unetmm_redirect_cmd(file->dev, export, UNETMM_REDIRECT_BEGIN,
				  begin->a, &count);
	if (ret)
		return ret;
	ret = unetmm_redirect_tell(file->dev, export, part, begin->a, count);
	if (ret) {
		unetmm_redirect_cmd(file->dev, export, UNETMM_REDIRECT_END,
				    begin->a, NULL);
		return ret;
	}
	list_add(&part->node, &export->parts);
	unetmm_count(file->dev, redirects);
	return 0;
}

static int unetmm_begin_check(struct unetmm_file *file,
			      const struct unetmm_redirect *a, u64 *last)
{
	if (file->space->ops->lists)
		return -EOPNOTSUPP;
	if (!a->length || check_add_overflow(a->to, a->length - 1, last) ||
	    *last >= current->mm->task_size)
		return -EINVAL;
	return 0;
}

static int unetmm_redirect_begin(struct unetmm_file *file,
				 struct unetmm_redirect *a)
{
	struct unetmm_begin begin = { .a = a };
	LIST_HEAD(parts);
	u64 last;
	int ret;

	ret = unetmm_begin_check(file, a, &last);
	if (!ret)
		ret = unetmm_with_export(file, a->id, unetmm_begin_look,
					 &begin);
	if (!ret)
		ret = unetmm_export_memory(a->to, last, begin.rights);
	if (ret)
		return ret;
	begin.part = kzalloc(sizeof(*begin.part), GFP_KERNEL_ACCOUNT);
	if (!begin.part)
		return -ENOMEM;
	begin.part->offset = a->offset;
	begin.part->length = a->length;
	begin.part->to = a->to;
	ret = unetmm_part_pin(file, begin.part,
			      begin.rights != UNETMM_RIGHT_READ);
	if (!ret)
		ret = unetmm_with_export(file, a->id, unetmm_begin_act,
					 &begin);
	if (ret) {
		list_add(&begin.part->node, &parts);
		unetmm_parts_free(file, &parts);
	}
	return ret;
}

static int unetmm_back_act(struct unetmm_file *file,
			   struct unetmm_exported *export, void *opaque)
{
	struct unetmm_redirect *a = opaque;
	struct unetmm_part *part = unetmm_part_find(export, a->offset);
	u32 count = 0;
	int ret;

	if (!part)
		return -ENOENT;
	if (a->length > part->length)
		return -EINVAL;
	ret = unetmm_redirect_cmd(file->dev, export, UNETMM_REDIRECT_BACK, a,
				  &count);
	if (ret)
		return ret;
	ret = unetmm_redirect_tell(file->dev, export, part, a, count);
	if (ret)
		/* The part stays moved, as if its end had not been asked for. */
		unetmm_redirect_cmd(file->dev, export, UNETMM_REDIRECT_GO, a,
				    NULL);
	return ret;
}

/* Takes rwsem itself: pages are faulted in without it. */
int unetmm_op_redirect(struct unetmm_file *file, void *arg)
{
	struct unetmm_redirect *a = arg;

	if (a->rsvd || a->count || a->from)
		return -EOPNOTSUPP;
	if (a->what == UNETMM_REDIRECT_BEGIN)
		return unetmm_redirect_begin(file, a);
	if (a->what == UNETMM_REDIRECT_BACK)
		return a->to ? -EINVAL :
			unetmm_with_export(file, a->id, unetmm_back_act, a);
	return -EINVAL;
}

struct unetmm_go {
	const struct unetmm_redirect_id *a;
	struct list_head ended;
};

static int unetmm_go_act(struct unetmm_file *file,
			 struct unetmm_exported *export, void *opaque)
{
	struct unetmm_go *go = opaque;
	const struct unetmm_redirect a = { .offset = go->a->offset };
	struct unetmm_part *part = unetmm_part_find(export, a.offset);
	int ret;

	if (!part)
		return -ENOENT;
	ret = unetmm_redirect_cmd(file->dev, export, go->a->what, &a, NULL);
	if (!ret && go->a->what == UNETMM_REDIRECT_END)
		list_move(&part->node, &go->ended);
	return ret;
}

int unetmm_op_redirect_go(struct unetmm_file *file, void *arg)
{
	struct unetmm_go go = { .a = arg };
	int ret;

	INIT_LIST_HEAD(&go.ended);
	if (go.a->what != UNETMM_REDIRECT_GO &&
	    go.a->what != UNETMM_REDIRECT_END)
		return -EINVAL;
	ret = unetmm_with_export(file, go.a->id, unetmm_go_act, &go);
	unetmm_parts_free(file, &go.ended);
	return ret;
}

/* The list of ranges never arrived: the part stays as it was before. */
void unetmm_undo_redirect(struct unetmm_file *file, const void *arg)
{
	const struct unetmm_redirect *a = arg;
	struct unetmm_redirect_id id = {
		.what = a->what == UNETMM_REDIRECT_BEGIN ?
			UNETMM_REDIRECT_END : UNETMM_REDIRECT_GO,
		.id = a->id,
		.offset = a->offset,
	};

	unetmm_op_redirect_go(file, &id);
}
