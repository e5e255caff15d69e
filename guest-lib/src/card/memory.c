/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Registered memory, for the source in which the card uses nothing else; and memory
 * that is to be ready for the card, where nothing is registered.
 */
#include "card.h"

static int region_call(struct unetmm_ctx *ctx, unsigned long request,
                       void *addr, size_t length, unsigned flags)
{
    struct unetmm_region region = {
        .size = sizeof(region),
        .flags = flags,
        .addr = (uintptr_t)addr,
        .length = length,
    };
    int ret = unetmm_ctx_check(ctx);

    if (ret) {
        return ret;
    }
    ret = sys_ioctl(ctx->fd, request, &region);
    return ret < 0 ? ret : 0;
}

int unetmm_register(struct unetmm_ctx *ctx, void *addr, size_t length,
                    unsigned flags)
{
    return region_call(ctx, UNETMM_IOC_REGISTER, addr, length, flags);
}

int unetmm_deregister(struct unetmm_ctx *ctx, void *addr, size_t length)
{
    return region_call(ctx, UNETMM_IOC_DEREGISTER, addr, length, 0);
}

/* One call does a bounded piece of work; a signal ends it. */
ssize_t unetmm_prefetch(struct unetmm_ctx *ctx, const void *addr, size_t length,
                        unsigned flags)
{
    size_t done = 0;
    int ret = unetmm_ctx_check(ctx);

    while (!ret && (done < length || !length)) {
        struct unetmm_prefetch prefetch = {
            .size = sizeof(prefetch),
            .flags = flags,
            .addr = (uintptr_t)addr + done,
            .length = length - done,
        };

        ret = sys_ioctl(ctx->fd, UNETMM_IOC_PREFETCH, &prefetch);
        if (ret < 0) {
            break;
        }
        if (!prefetch.done || prefetch.done > length - done) {
            ret = -EPROTO;
            break;
        }
        ret = 0;
        done += (size_t)prefetch.done;
    }
    return done ? (ssize_t)done : ret;
}
