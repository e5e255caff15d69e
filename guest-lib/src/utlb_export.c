/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Source utlb: memory that is exported.
 *
 * A peer may come at any time, so the pages are pinned before the export is
 * there, and are in use, by which no policy takes them, until it has ended.  What
 * the process itself unmaps leaves the card's table, as it would with any source.
 */
#include "utlb.h"
#include "sys.h"

struct unetmm_utlb_exported {
    struct unetmm_utlb_exported *next;
    uint64_t id;
    struct iovec memory;
};

/* All lists; nothing is called while it is held. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void remember(struct unetmm_ctx *ctx,
                     struct unetmm_utlb_exported *exported)
{
    pthread_mutex_lock(&lock);
    exported->next = ctx->exported;
    ctx->exported = exported;
    pthread_mutex_unlock(&lock);
}

/* NULL: there is none, or somebody else is ending it. */
static struct unetmm_utlb_exported *forget(struct unetmm_ctx *ctx, uint64_t id)
{
    struct unetmm_utlb_exported **link = &ctx->exported, *found;

    pthread_mutex_lock(&lock);
    while (*link && (*link)->id != id) {
        link = &(*link)->next;
    }
    found = *link;
    if (found) {
        *link = found->next;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* What unetmm_export() says when the memory cannot be pinned. */
static int pin_error(int ret)
{
    switch (ret) {
    case -EDQUOT:
        return -ENOMEM;
    case -EBUSY:                /* it changes all the time */
        return -EAGAIN;
    default:
        return ret;
    }
}

/* A range that the driver refuses anyway holds nothing. */
static int hold(struct unetmm_ctx *ctx, const struct unetmm_export *export,
                struct iovec *memory)
{
    uint64_t pages = export->length / UNETMM_PAGE_BYTES;
    int ret;

    if (!export->length || export->length - 1 > UINT64_MAX - export->addr) {
        return -EINVAL;
    }
    if (!unetmm_utlb_fits(ctx->utlb, pages)) {
        return -ENOMEM;
    }
    memory->iov_base = (void *)(uintptr_t)export->addr;
    memory->iov_len = export->length;
    ret = unetmm_utlb_hold(ctx->utlb, memory, 1,
                           export->rights != UNETMM_RIGHT_READ);
    return pin_error(ret);
}

int unetmm_utlb_export(struct unetmm_ctx *ctx, struct unetmm_export *export)
{
    struct unetmm_utlb_exported *exported = sys_calloc(1, sizeof(*exported));
    int ret;

    if (!exported) {
        return -ENOMEM;
    }
    exported->id = export->id;
    ret = hold(ctx, export, &exported->memory);
    if (!ret) {
        ret = sys_ioctl(ctx->fd, UNETMM_IOC_EXPORT, export);
        if (ret < 0) {
            unetmm_utlb_let_go(ctx->utlb, &exported->memory, 1);
        }
    }
    if (ret < 0) {
        free(exported);
        return ret;
    }
    remember(ctx, exported);
    return 0;
}

int unetmm_utlb_unexport(struct unetmm_ctx *ctx,
                         struct unetmm_export_id *request)
{
    struct unetmm_utlb_exported *exported = forget(ctx, request->id);
    int ret = sys_ioctl(ctx->fd, UNETMM_IOC_UNEXPORT, request);

    if (exported && ret < 0 && ret != -ENOENT) {
        /* It is exported still, for all we know. */
        remember(ctx, exported);
    } else if (exported) {
        unetmm_utlb_let_go(ctx->utlb, &exported->memory, 1);
        free(exported);
    }
    return ret < 0 ? ret : 0;
}

void unetmm_utlb_forget_exports(struct unetmm_ctx *ctx)
{
    while (ctx->exported) {
        struct unetmm_utlb_exported *exported = ctx->exported;

        ctx->exported = exported->next;
        free(exported);
    }
}
