/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The exports of a driver in tests.
 */
#include "fake_export.h"

#include <errno.h>

struct unetmm_export *fake_export_find(struct unetmm_export *exports,
                                       unsigned n, uint64_t id)
{
    unsigned i;

    for (i = 0; i < n; i++) {
        if (exports[i].length && exports[i].id == id) {
            return &exports[i];
        }
    }
    return NULL;
}

int fake_export_add(struct unetmm_export *exports, unsigned n,
                    const struct unetmm_export *export)
{
    unsigned i;

    for (i = 0; i < n && exports[i].length; i++) {
    }
    if (i == n) {
        errno = ENOSPC;
        return -1;
    }
    exports[i] = *export;
    return 0;
}

int fake_export_remove(struct unetmm_export *exports, unsigned n, uint64_t id)
{
    struct unetmm_export *export = fake_export_find(exports, n, id);

    if (!export) {
        errno = ENOENT;
        return -1;
    }
    export->length = 0;
    return 0;
}
