/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The exports of a driver in tests: a table of `n`, in which a length of 0 says
 * that there is none.  The lock of the table's owner covers it.
 */
#ifndef FAKE_EXPORT_H
#define FAKE_EXPORT_H

#include "queue/queue.h"

/* NULL: there is none of that number. */
struct unetmm_export *fake_export_find(struct unetmm_export *exports,
                                       unsigned n, uint64_t id);

/* As the calls EXPORT and DESTROY: 0, or -1 with errno. */
int fake_export_add(struct unetmm_export *exports, unsigned n,
                    const struct unetmm_export *export);
int fake_export_remove(struct unetmm_export *exports, unsigned n, uint64_t id);

#endif /* FAKE_EXPORT_H */
