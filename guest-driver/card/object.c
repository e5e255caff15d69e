// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the objects of processes: their types, their owners, their end.
 *
 * An object belongs to an endpoint of the file, or to the file, and has its number among
 * its owner's objects of the type.  DESTROY ends an object; an ioctl that has made one and
 * cannot say so ends it the same way.  Objects that are left end with their owner.
 *
 * LOCKS.  dev->rwsem > file->lock > ctl.lock.  file->lock keeps the endpoint during the end
 * of its object.
 */
#include <linux/nospec.h>

#include "card/card.h"
#include "channel/channel.h"
#include "ep/ep.h"
#include "remote/remote.h"
#include "space/space.h"

/* The file's objects may be used: dev->rwsem is held, until unetmm_file_leave(). */
int unetmm_file_enter(struct unetmm_file *file)
{
	int ret = down_read_killable(&file->dev->rwsem);

	if (!ret && (!unetmm_running(file->dev) || file->dead)) {
		up_read(&file->dev->rwsem);
		ret = -ENODEV;
	}
	return ret;
}

int unetmm_file_leave(struct unetmm_file *file, int ret)
{
	/* A command without room or without an answer is the card's failure. */
	if (!unetmm_running(file->dev))
		ret = -ENODEV;
	up_read(&file->dev->rwsem);
	return ret;
}

struct unetmm_object_type {
	/* dev->rwsem is held; file->lock, too, if there is an endpoint. */
	int (*destroy)(struct unetmm_file *file, struct unetmm_ep *ep,
		       const struct unetmm_destroy *a);
	bool of_file;			/* it has no endpoint */
	bool counts;			/* several end in one call */
	bool unlocked;			/* takes dev->rwsem itself */
};

static const struct unetmm_object_type unetmm_object_types[] = {
	[UNETMM_OBJECT_ENDPOINT] = { unetmm_endpoint_destroy },
	[UNETMM_OBJECT_CHANNEL] = { unetmm_channel_destroy },
	[UNETMM_OBJECT_EXPORT] = { unetmm_export_destroy, .of_file = true, .unlocked = true },
	[UNETMM_OBJECT_IMPORT] = { unetmm_import_destroy },
	[UNETMM_OBJECT_WINDOW] = { unetmm_window_destroy },
	[UNETMM_OBJECT_EVENT] = { unetmm_event_destroy, .of_file = true, .counts = true },
	[UNETMM_OBJECT_FLOW] = { unetmm_flow_destroy },
};

/* A row without a function if there is no such type; also where a processor guesses. */
static const struct unetmm_object_type *unetmm_object_type(u32 type)
{
	if (type >= ARRAY_SIZE(unetmm_object_types))
		return &unetmm_object_types[0];
	return &unetmm_object_types[array_index_nospec(type,
						       ARRAY_SIZE(unetmm_object_types))];
}

int unetmm_object_end(struct unetmm_file *file, const struct unetmm_destroy *a)
{
	const struct unetmm_object_type *type = unetmm_object_type(a->type);
	struct unetmm_ep *ep;
	int ret = -ENOENT;

	if (type->of_file)
		return type->destroy(file, NULL, a);
	mutex_lock(&file->lock);
	ep = unetmm_ep_find_locked(file, a->endpoint);
	if (ep)
		ret = type->destroy(file, ep, a);
	mutex_unlock(&file->lock);
	return ret;
}

int unetmm_op_destroy(struct unetmm_file *file, void *arg)
{
	const struct unetmm_destroy *a = arg;
	const struct unetmm_object_type *type;
	int ret;

	type = unetmm_object_type(a->type);
	if (!type->destroy)
		return -EINVAL;
	if ((type->of_file && a->endpoint) || (!type->counts && a->count))
		return -EOPNOTSUPP;
	if (type->unlocked)
		return unetmm_object_end(file, a);
	ret = unetmm_file_enter(file);
	return ret ? ret : unetmm_file_leave(file, unetmm_object_end(file, a));
}
