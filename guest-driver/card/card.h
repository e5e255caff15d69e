/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: the module's entry points, and the file that processes open.
 */
#ifndef UNETMM_CARD_H
#define UNETMM_CARD_H

#include <linux/fs.h>

#include "remote/remote.h"

/* card/tables.c */
void unetmm_tables_set(struct unetmm_dev *dev);

/* card/irq.c */
int unetmm_irq_init(struct unetmm_dev *dev);
void unetmm_irq_exit(struct unetmm_dev *dev);

/* card/mmap.c */
int unetmm_mmap(struct file *filp, struct vm_area_struct *vma);

/* card/file.c */
extern const struct file_operations unetmm_fops;
void unetmm_file_shutdown(struct unetmm_file *file);

/* card/object.c */
int unetmm_file_enter(struct unetmm_file *file);
int unetmm_file_leave(struct unetmm_file *file, int ret);
int unetmm_op_destroy(struct unetmm_file *file, void *arg);
int unetmm_object_end(struct unetmm_file *file, const struct unetmm_destroy *a);

/* card/counters.c */
extern const char * const unetmm_driver_counter_names[];
int unetmm_op_counters(struct unetmm_file *file, void *arg);

/* card/devlink.c; without devlink in the kernel there is nothing of it */
#ifdef CONFIG_NET_DEVLINK
int unetmm_devlink_add(struct unetmm_dev *dev);
void unetmm_devlink_remove(struct unetmm_dev *dev);
/* The card was given up, or has been started again. */
void unetmm_devlink_health(struct unetmm_dev *dev);
#else
static inline int unetmm_devlink_add(struct unetmm_dev *dev)
{
	return 0;
}

static inline void unetmm_devlink_remove(struct unetmm_dev *dev)
{
}

static inline void unetmm_devlink_health(struct unetmm_dev *dev)
{
}
#endif

/* card/debugfs.c */
void unetmm_debugfs_init(void);
void unetmm_debugfs_exit(void);
void unetmm_debugfs_add(struct unetmm_dev *dev);
void unetmm_debugfs_remove(struct unetmm_dev *dev);

#endif /* UNETMM_CARD_H */
