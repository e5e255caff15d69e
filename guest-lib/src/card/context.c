/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Contexts: an open card, and this process's address space on it.
 */
#include "card.h"
#include "../utlb/utlb.h"

/* Asks the driver for the card's identity and, unless observing, binds our memory. */
static int bind_space(struct unetmm_ctx *ctx)
{
    struct unetmm_space space = {
        .size = sizeof(space),
        .source = ctx->source,
    };
    int ret;

    ctx->info.size = sizeof(ctx->info);
    ret = sys_ioctl(ctx->fd, UNETMM_IOC_INFO, &ctx->info);
    if (ret < 0 || ctx->source == UNETMM_OBSERVE) {
        return ret;
    }
    ret = sys_ioctl(ctx->fd, UNETMM_IOC_SPACE, &space);
    if (ret < 0 || ctx->source != UNETMM_SOURCE_UTLB) {
        return ret;
    }
    return unetmm_utlb_open(ctx, &space);
}

int unetmm_open(const char *path, unsigned source, struct unetmm_ctx **result)
{
    struct unetmm_ctx *ctx;
    void *page;
    int ret;

    if (source != UNETMM_SOURCE_TLB && source != UNETMM_SOURCE_PINNED &&
        source != UNETMM_SOURCE_KTLB && source != UNETMM_SOURCE_UTLB &&
        source != UNETMM_SOURCE_SHADOW && source != UNETMM_SOURCE_ODP &&
        source != UNETMM_OBSERVE) {
        return -EINVAL;
    }
    ctx = sys_calloc(1, sizeof(*ctx));
    if (!ctx) {
        return -ENOMEM;
    }
    ctx->source = source;
    pthread_mutex_init(&ctx->counter_lock, NULL);
    ret = unetmm_alloc_wiped(sizeof(*ctx->alive), &page);
    if (ret) {
        goto free_ctx;
    }
    *(uint32_t *)page = 1;
    ctx->alive = page;
    ctx->fd = sys_open(path ? path : UNETMM_DEFAULT_DEVICE,
                       O_RDWR | O_CLOEXEC);
    if (ctx->fd < 0) {
        ret = ctx->fd;
        goto free_page;
    }
    ret = bind_space(ctx);
    if (ret < 0) {
        goto close_fd;
    }
    *result = ctx;
    return 0;

close_fd:
    sys_close(ctx->fd);
free_page:
    unetmm_free_wiped(page, sizeof(*ctx->alive));
free_ctx:
    pthread_mutex_destroy(&ctx->counter_lock);
    free(ctx);
    return ret;
}

int unetmm_close(struct unetmm_ctx *ctx)
{
    int ret = unetmm_ctx_check(ctx);

    if (!ret && (atomic_load(&ctx->endpoints) ||
                 atomic_load(&ctx->counters))) {
        return -EBUSY;
    }
    unetmm_events_unmap(ctx, ret);
    unetmm_utlb_close(ctx, ret);
    sys_close(ctx->fd);
    unetmm_free_wiped((void *)(uintptr_t)ctx->alive, sizeof(*ctx->alive));
    free(ctx);
    return ret;
}

int unetmm_ctx_fd(const struct unetmm_ctx *ctx)
{
    int ret = unetmm_ctx_check(ctx);

    return ret ? ret : ctx->fd;
}

int unetmm_info(struct unetmm_ctx *ctx, struct unetmm_info *info)
{
    int ret = unetmm_ctx_check(ctx);
    uint32_t size = info->size;

    if (ret) {
        return ret;
    }
    /* The driver writes all but `size`, and checks that for zeros. */
    memset(info, 0, size < sizeof(*info) ? size : sizeof(*info));
    info->size = size;
    ret = sys_ioctl(ctx->fd, UNETMM_IOC_INFO, info);
    return ret < 0 ? ret : 0;
}

int unetmm_probe(struct unetmm_ctx *ctx, const uint8_t mac[6],
                 int64_t timeout_ns, uint32_t *mtu)
{
    struct unetmm_probe probe = {
        .size = sizeof(probe),
        .deadline_ns = unetmm_deadline(timeout_ns),
    };
    int ret = unetmm_ctx_check(ctx);

    if (ret) {
        return ret;
    }
    memcpy(probe.mac, mac, sizeof(probe.mac));
    ret = sys_ioctl(ctx->fd, UNETMM_IOC_PROBE, &probe);
    if (ret < 0) {
        return ret;
    }
    if (mtu) {
        *mtu = probe.mtu;
    }
    return 0;
}

int unetmm_peers(struct unetmm_ctx *ctx, struct unetmm_peers *peers,
                 int64_t timeout_ns)
{
    int ret = unetmm_ctx_check(ctx);

    if (ret) {
        return ret;
    }
    peers->deadline_ns = unetmm_deadline(timeout_ns);
    ret = sys_ioctl(ctx->fd, UNETMM_IOC_PEERS, peers);
    return ret < 0 ? ret : (int)peers->count;
}
