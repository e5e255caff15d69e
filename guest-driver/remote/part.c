// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the moved parts of exports: their places, and the pins behind them with source
 * pinned.  remote/move.c moves them.
 */
#include <linux/slab.h>

#include "remote/remote.h"
#include "memory/memory.h"
#include "space/space.h"
#include "base/base.h"

bool unetmm_parts_collide(struct unetmm_file *file, u64 addr, u64 last)
{
	struct unetmm_exported *export;
	struct unetmm_part *part;

	lockdep_assert_held(&file->dev->ctl->lock);
	list_for_each_entry(export, &file->movable, movable) {
		list_for_each_entry(part, &export->parts, node) {
			if (addr <= part->to + part->length - 1 &&
			    last >= part->to)
				return true;
		}
	}
	return false;
}

int unetmm_part_pin(struct unetmm_file *file, struct unetmm_part *part, bool write)
{
	struct unetmm_aspace *space = file->space;
	struct unetmm_region region = {
		.flags = write ? UNETMM_REGION_WRITE : 0,
		.addr = part->to,
		.length = part->length,
	};
	int ret;

	if (!space->ops->registers)
		return 0;
	ret = unetmm_op_register(file, &region);
	part->pinned = !ret;
	/* Registered already is as good. */
	if (ret == -EEXIST &&
	    unetmm_region_covers(space, part->to,
				 part->to + part->length - 1, write))
		ret = 0;
	return ret;
}

/* Without locks: nothing is written there any more. */
void unetmm_parts_free(struct unetmm_file *file, struct list_head *parts)
{
	struct unetmm_part *part, *next;

	list_for_each_entry_safe(part, next, parts, node) {
		struct unetmm_region region = {
			.addr = part->to,
			.length = part->length,
		};

		list_del(&part->node);
		/*
		 * A process that has deregistered it already has harmed only itself.
		 */
		if (part->pinned)
			unetmm_op_deregister(file, &region);
		kfree(part);
	}
}

/* With the file, and before its space, which has the pins. */
void unetmm_parts_close(struct list_head *parts)
{
	struct unetmm_part *part, *next;

	list_for_each_entry_safe(part, next, parts, node) {
		list_del(&part->node);
		kfree(part);
	}
}
