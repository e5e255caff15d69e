/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory that peers may use.
 */
#include "remote.h"

/* ---- Export ------------------------------------------------------------ */

static int export_memory(struct unetmm_ctx *ctx, struct unetmm_export export)
{
    int ret = unetmm_ctx_check(ctx);

    if (ret) {
        return ret;
    }
    export.size = sizeof(export);
    if (ctx->utlb) {
        return unetmm_utlb_export(ctx, &export);
    }
    ret = sys_ioctl(ctx->fd, UNETMM_IOC_EXPORT, &export);
    return ret < 0 ? ret : 0;
}

int unetmm_export(struct unetmm_ctx *ctx, uint64_t id, void *addr,
                  size_t length, unsigned rights, unsigned flags,
                  uint64_t user_data)
{
    return export_memory(ctx, (struct unetmm_export) {
        .flags = flags, .id = id, .addr = (uintptr_t)addr, .length = length,
        .cookie = user_data, .rights = rights,
    });
}

int unetmm_unexport(struct unetmm_ctx *ctx, uint64_t id)
{
    int ret = unetmm_ctx_check(ctx);

    if (ret) {
        return ret;
    }
    return ctx->utlb ? unetmm_utlb_unexport(ctx, id) :
           unetmm_object_end(ctx, UNETMM_OBJECT_EXPORT, 0, id, 0);
}

int unetmm_export_key(struct unetmm_ctx *ctx, uint64_t id, uint64_t *key,
                      uint64_t *base)
{
    struct unetmm_export_key request = { .size = sizeof(request), .id = id };
    int ret = unetmm_ctx_check(ctx);

    if (ret) {
        return ret;
    }
    ret = sys_ioctl(ctx->fd, UNETMM_IOC_EXPORT_KEY, &request);
    if (ret < 0) {
        return ret;
    }
    *key = request.key;
    *base = request.base;
    return 0;
}

int unetmm_export_events(struct unetmm_ctx *ctx, uint64_t id, void *addr,
                         size_t length, unsigned rights, unsigned flags,
                         uint64_t user_data, const struct unetmm_event_counter *first,
                         unsigned n)
{
    if (!n || n > UNETMM_EVENT_COUNTERS || unetmm_event_private(first)->ctx != ctx) {
        return -EINVAL;
    }
    return export_memory(ctx, (struct unetmm_export) {
        .flags = flags, .id = id, .addr = (uintptr_t)addr, .length = length,
        .cookie = user_data, .rights = rights,
        .counter = (uint16_t)unetmm_event_private(first)->id, .ncounters = (uint16_t)n,
    });
}
