/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Source utlb: memory that is exported, and where parts of it have moved.
 *
 * A peer may come at any time, so the pages are pinned before the export is
 * there, and are in use, by which no policy takes them, until it has ended.  Pages
 * that the process itself unmaps leave the card's table, as it would with any
 * source.
 *
 * A part is listed before the driver hears of it, and an export that ends takes its
 * parts along: the thread that takes a record from the list releases its pages.  A part
 * may be listed while its export ends, so that thread looks for parts again afterwards;
 * it knows them by the export's record, for the number may be another export's by then.
 *
 * exported_lock protects the list, and nothing is called while it is held.  It is
 * the context's: one for all contexts could be held by a thread that a child has
 * not.
 */
#include "utlb.h"
#include "sys.h"

struct unetmm_utlb_exported {
    struct unetmm_utlb_exported *next;
    uint64_t id;
    uint64_t offset;            /* a part's */
    const struct unetmm_utlb_exported *part_of; /* NULL: the export itself */
    bool write;
    struct iovec memory;
};

static void remember(struct unetmm_ctx *ctx,
                     struct unetmm_utlb_exported *exported)
{
    pthread_mutex_lock(&ctx->exported_lock);
    exported->next = ctx->exported;
    ctx->exported = exported;
    pthread_mutex_unlock(&ctx->exported_lock);
}

/* Takes it from the list; NULL: somebody else has. */
static struct unetmm_utlb_exported *
take_at(struct unetmm_utlb_exported **link)
{
    struct unetmm_utlb_exported *found = *link;

    if (found) {
        *link = found->next;
        found->next = NULL;
    }
    return found;
}

static struct unetmm_utlb_exported *take_export(struct unetmm_ctx *ctx,
                                                uint64_t id)
{
    struct unetmm_utlb_exported **link = &ctx->exported, *found;

    pthread_mutex_lock(&ctx->exported_lock);
    while (*link && ((*link)->part_of || (*link)->id != id)) {
        link = &(*link)->next;
    }
    found = take_at(link);
    pthread_mutex_unlock(&ctx->exported_lock);
    return found;
}

static struct unetmm_utlb_exported *take_part(struct unetmm_ctx *ctx,
                                              uint64_t id, uint64_t offset)
{
    struct unetmm_utlb_exported **link = &ctx->exported, *found;

    pthread_mutex_lock(&ctx->exported_lock);
    while (*link && (!(*link)->part_of || (*link)->id != id ||
                     (*link)->offset != offset)) {
        link = &(*link)->next;
    }
    found = take_at(link);
    pthread_mutex_unlock(&ctx->exported_lock);
    return found;
}

/* All that an export has, one behind the other. */
static struct unetmm_utlb_exported *take_parts(struct unetmm_ctx *ctx,
                                               const struct unetmm_utlb_exported *of)
{
    struct unetmm_utlb_exported **link = &ctx->exported, *found, *all = NULL;

    pthread_mutex_lock(&ctx->exported_lock);
    while (*link) {
        if (!of || (*link)->part_of != of) {
            link = &(*link)->next;
            continue;
        }
        found = take_at(link);
        found->next = all;
        all = found;
    }
    pthread_mutex_unlock(&ctx->exported_lock);
    return all;
}

/* Is this one on the list still?  Then it is taken. */
static bool take_this(struct unetmm_ctx *ctx,
                      const struct unetmm_utlb_exported *one)
{
    struct unetmm_utlb_exported **link = &ctx->exported;
    bool found;

    pthread_mutex_lock(&ctx->exported_lock);
    while (*link && *link != one) {
        link = &(*link)->next;
    }
    found = take_at(link);
    pthread_mutex_unlock(&ctx->exported_lock);
    return found;
}

/* Its export and the rights of that; false: there is none. */
static bool find_export(struct unetmm_ctx *ctx, struct unetmm_utlb_exported *part)
{
    const struct unetmm_utlb_exported *one;

    pthread_mutex_lock(&ctx->exported_lock);
    for (one = ctx->exported; one && (one->part_of || one->id != part->id);
         one = one->next) {
    }
    part->part_of = one;
    part->write = one && one->write;
    pthread_mutex_unlock(&ctx->exported_lock);
    return one;
}

/* The error of unetmm_export() when the memory cannot be pinned. */
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
static int hold(struct unetmm_ctx *ctx, uint64_t addr, uint64_t length,
                struct unetmm_utlb_exported *one)
{
    int ret;

    if (!length || length - 1 > UINT64_MAX - addr) {
        return -EINVAL;
    }
    if (!unetmm_utlb_fits(ctx->utlb, length / UNETMM_PAGE_BYTES)) {
        return -ENOMEM;
    }
    one->memory.iov_base = (void *)(uintptr_t)addr;
    one->memory.iov_len = length;
    ret = unetmm_utlb_hold(ctx->utlb, &one->memory, 1, one->write);
    return pin_error(ret);
}

static void let_go(struct unetmm_ctx *ctx, struct unetmm_utlb_exported *one)
{
    unetmm_utlb_let_go(ctx->utlb, &one->memory, 1);
    free(one);
}

static void let_all_go(struct unetmm_ctx *ctx, struct unetmm_utlb_exported *all)
{
    while (all) {
        struct unetmm_utlb_exported *one = all;

        all = one->next;
        let_go(ctx, one);
    }
}

/* ---- Exports ----------------------------------------------------------- */

int unetmm_utlb_export(struct unetmm_ctx *ctx, struct unetmm_export *export)
{
    struct unetmm_utlb_exported *exported;
    int ret;

    /* It could not be pinned. */
    if (export->flags & UNETMM_EXPORT_WHOLE) {
        return -EOPNOTSUPP;
    }
    exported = sys_calloc(1, sizeof(*exported));
    if (!exported) {
        return -ENOMEM;
    }
    exported->id = export->id;
    exported->write = export->rights != UNETMM_RIGHT_READ;
    ret = hold(ctx, export->addr, export->length, exported);
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
    struct unetmm_utlb_exported *exported = take_export(ctx, request->id);
    struct unetmm_utlb_exported *parts = take_parts(ctx, exported);
    int ret = sys_ioctl(ctx->fd, UNETMM_IOC_UNEXPORT, request);

    if (exported && (!ret || ret == -ENOENT)) {
        let_all_go(ctx, parts);
        let_all_go(ctx, take_parts(ctx, exported));
        let_go(ctx, exported);
    } else if (exported) {
        /* It is exported still, for all we know. */
        remember(ctx, exported);
        while (parts) {
            struct unetmm_utlb_exported *part = parts;

            parts = part->next;
            remember(ctx, part);
        }
    }
    return ret;
}

/* ---- Parts that have moved --------------------------------------------- */

int unetmm_utlb_redirect(struct unetmm_ctx *ctx,
                         struct unetmm_redirect *request)
{
    struct unetmm_utlb_exported *part = sys_calloc(1, sizeof(*part));
    int ret;

    if (!part) {
        return -ENOMEM;
    }
    part->id = request->id;
    part->offset = request->offset;
    ret = find_export(ctx, part) ?
        hold(ctx, request->to, request->length, part) : -ENOENT;
    if (ret) {
        free(part);
        return ret;
    }
    remember(ctx, part);
    ret = sys_ioctl(ctx->fd, UNETMM_IOC_REDIRECT, request);
    if (ret < 0) {
        if (take_this(ctx, part)) {
            let_go(ctx, part);
        }
        return ret;
    }
    return 0;
}

int unetmm_utlb_redirect_end(struct unetmm_ctx *ctx,
                             struct unetmm_redirect_id *request)
{
    struct unetmm_utlb_exported *part = take_part(ctx, request->id,
                                                  request->offset);
    int ret = sys_ioctl(ctx->fd, UNETMM_IOC_REDIRECT_GO, request);

    if (part && ret < 0) {
        /* Not yet there, perhaps: the thread that makes it will see. */
        remember(ctx, part);
    } else if (part) {
        let_go(ctx, part);
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
