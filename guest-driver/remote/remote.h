/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: memory of peers: exports, imports, windows, event counters.
 */
#ifndef UNETMM_REMOTE_H
#define UNETMM_REMOTE_H

#include "channel/channel.h"
#include "map/map.h"

/* The parts of a card that the room owns; the pointers are NULL while the card does not run. */
struct unetmm_remote {
	unsigned long *window_map;	/* pages in use; dev->map_lock */
	unsigned long *proxy_map;
	struct unetmm_landed *landed_list;	/* ctl.lock */
	dma_addr_t landed_list_dma;
	struct unetmm_ecs **ecs;	/* by space; dev->ep_lock */
};

/*
 * A key of verbs is all that a peer knows: bits 8 to 23 are the region's number, the
 * others are random.
 */
#define UNETMM_RKEY_SHIFT	8
#define UNETMM_RKEY_REGION	0x00ffff00u

/* remote/export.c */
struct unetmm_exported {
	struct rb_node node;		/* file->exports; ctl.lock */
	struct list_head movable;	/* file->movable, if `redirect`; ctl.lock; or has ended */
	struct list_head parts;		/* that have moved; ctl.lock */
	struct rdma_cgroup *group;	/* that has it; set once */
	u64 id;
	u64 addr;
	u64 last;
	u64 length;
	u32 region;
	u32 key;
	u16 counter;			/* event counters that it gives */
	u16 ncounters;
	u8 rights;
	bool redirect;			/* its parts may move */
	bool keyed;			/* peers can use its key */
	bool whole;			/* it is all of the space */
	bool rkey;			/* its key has the region's number, see above */
	u64 iova;			/* with rkey: its peers' name for addr ... */
	u32 pd;				/* ... and its protection domain */
	bool pins;			/* it has registered its memory */
};

/* ctl.lock; is any of it in an export that is not the whole space? */
bool unetmm_exports_collide(struct unetmm_file *file, u64 addr, u64 last);
/* ctl.lock; NULL: the file has no such export. */
struct unetmm_exported *unetmm_exported_find(struct unetmm_file *file, u64 id);
int unetmm_export_memory(u64 addr, u64 last, u8 rights);
int unetmm_op_export(struct unetmm_file *file, void *arg);
/* A free number of the card's regions, or one that is too large; ctl.lock. */
u32 unetmm_region_number(struct unetmm_dev *dev);
int unetmm_export_rkey(struct unetmm_file *file, const struct unetmm_export *a, u64 iova, u32 pd,
		       u32 *rkey);
int unetmm_export_destroy(struct unetmm_file *file, struct unetmm_ep *ep,
			  const struct unetmm_destroy *a);
int unetmm_op_export_key(struct unetmm_file *file, void *arg);
void unetmm_exports_close(struct unetmm_file *file);
void unetmm_export_answer(struct unetmm_chan *chan,
			  const struct unetmm_control *msg,
			  struct unetmm_control *ack);

/* remote/part.c */
/* A part that has moved; export->parts, ctl.lock. */
struct unetmm_part {
	struct list_head node;
	u64 offset;
	u64 length;
	u64 to;
	bool pinned;			/* by us */
};

/* ctl.lock: is any of it the place of a part? */
bool unetmm_parts_collide(struct unetmm_file *file, u64 addr, u64 last);
void unetmm_parts_free(struct unetmm_file *file, struct list_head *parts);
void unetmm_parts_close(struct list_head *parts);
int unetmm_part_pin(struct unetmm_file *file, struct unetmm_part *part, bool write);

/* remote/move.c */
int unetmm_redirect_start(struct unetmm_dev *dev);
void unetmm_redirect_stop(struct unetmm_dev *dev);
int unetmm_op_redirect(struct unetmm_file *file, void *arg);
int unetmm_op_redirect_go(struct unetmm_file *file, void *arg);
void unetmm_undo_redirect(struct unetmm_file *file, const void *arg);

/* remote/import.c */
int unetmm_op_import(struct unetmm_file *file, void *arg);
int unetmm_import_destroy(struct unetmm_file *file, struct unetmm_ep *ep,
			  const struct unetmm_destroy *a);
void unetmm_got_import(struct unetmm_dev *dev, const u8 *mac,
		       const struct unetmm_control *msg);
void unetmm_got_import_ack(struct unetmm_dev *dev, const u8 *mac,
			   const struct unetmm_control *msg);

/* remote/window.c */
int unetmm_windows_init(struct unetmm_dev *dev);
void unetmm_windows_exit(struct unetmm_dev *dev);
void unetmm_windows_close(struct unetmm_ep *ep);
phys_addr_t unetmm_window_phys(struct unetmm_ep *ep, bool proxy, u32 page);
bool unetmm_window_covers(struct unetmm_ep *ep, bool proxy, u32 page,
			  unsigned long npages);
int unetmm_op_window(struct unetmm_file *file, void *arg);
int unetmm_window_destroy(struct unetmm_file *file, struct unetmm_ep *ep,
			  const struct unetmm_destroy *a);

/* remote/switch.c */
int unetmm_switch_watch(struct unetmm_aspace *space);
void unetmm_switch_forget(struct unetmm_aspace *space);

/* remote/eventcount.c */
void unetmm_ec_notified(struct unetmm_dev *dev, u32 space, u32 id);
void unetmm_ecs_close(struct unetmm_aspace *space);
void unetmm_ecs_free(struct unetmm_aspace *space);
struct unetmm_block *unetmm_ecs_block(struct unetmm_aspace *space);
int unetmm_ecs_give(struct unetmm_aspace *space, u32 first, u32 n);
void unetmm_ecs_take_back(struct unetmm_aspace *space, u32 first, u32 n);
int unetmm_op_event(struct unetmm_file *file, void *arg);
int unetmm_event_destroy(struct unetmm_file *file, struct unetmm_ep *ep,
			 const struct unetmm_destroy *a);
int unetmm_op_event_wait(struct unetmm_file *file, void *arg);
int unetmm_op_event_arm(struct unetmm_file *file, void *arg);

#endif /* UNETMM_REMOTE_H */
