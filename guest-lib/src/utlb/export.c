/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Source utlb: memory that is exported, and where parts of it have moved.
 *
 * A peer may come at any time, so the pages are pinned before the export is
 * there, and are in use, by which no policy takes them, until it has ended.  Pages
 * that the process itself unmaps leave the card's table, as it would with any
 * source.
 *
 * exported_lock protects the list and is held during the driver's calls, so that the
 * list agrees with the driver: a part always belongs to the export that is listed with
 * its number.  Pages are pinned before the lock is taken and let go after it is given
 * back, for that may take long, and policies are the program's.  An export may have
 * ended, and its number may be another one's, while the pages of a part are pinned:
 * `serial` tells the two apart.  The lock is the context's: one for all contexts could
 * be held by a thread that a child has not.
 */
#include "utlb.h"

struct unetmm_utlb_exported {
    struct unetmm_utlb_exported *next;
    uint64_t id;
    uint64_t offset;            /* a part's */
    const struct unetmm_utlb_exported *part_of; /* NULL: the export itself */
    uint64_t serial;            /* an export's; no two are equal */
    bool write;
    struct iovec memory;
};

/*
 * The place in the list of an export, or of its part at `offset`; *link is NULL: there is none.
 * exported_lock is held.
 */
static struct unetmm_utlb_exported **find(struct unetmm_ctx *ctx, uint64_t id, bool part,
                                          uint64_t offset)
{
    struct unetmm_utlb_exported **link = &ctx->exported;

    while (*link && (!!(*link)->part_of != part || (*link)->id != id ||
                     (*link)->offset != offset)) {
        link = &(*link)->next;
    }
    return link;
}

static void add_exported(struct unetmm_utlb_exported **list, struct unetmm_utlb_exported *one)
{
    one->next = *list;
    *list = one;
}

static struct unetmm_utlb_exported *unlink_exported(struct unetmm_utlb_exported **link)
{
    struct unetmm_utlb_exported *one = *link;

    *link = one->next;
    return one;
}

/* Moves an export and all its parts to a list of their own. */
static struct unetmm_utlb_exported *take_all(struct unetmm_ctx *ctx,
                                             struct unetmm_utlb_exported *export)
{
    struct unetmm_utlb_exported **link = &ctx->exported, *all = NULL;

    while (*link) {
        if (*link == export || (*link)->part_of == export) {
            add_exported(&all, unlink_exported(link));
        } else {
            link = &(*link)->next;
        }
    }
    return all;
}

/* The error of unetmm_export() when the memory cannot be pinned. */
static int pin_error(int ret)
{
    switch (ret) {
    case -EDQUOT:
        return -ENOMEM;
    case -EBUSY:                /* the memory changes all the time */
        return -EAGAIN;
    default:
        return ret;
    }
}

/* A range that the driver refuses anyway holds nothing. */
static int hold_exported(struct unetmm_ctx *ctx, uint64_t addr, uint64_t length,
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

static void release_exported(struct unetmm_ctx *ctx, struct unetmm_utlb_exported *one)
{
    unetmm_utlb_let_go(ctx->utlb, &one->memory, 1);
    free(one);
}

static void let_all_go(struct unetmm_ctx *ctx, struct unetmm_utlb_exported *all)
{
    while (all) {
        struct unetmm_utlb_exported *one = all;

        all = one->next;
        release_exported(ctx, one);
    }
}

/* ---- Exports ----------------------------------------------------------- */

int unetmm_utlb_export(struct unetmm_ctx *ctx, struct unetmm_export *export)
{
    static atomic_ullong serials;
    struct unetmm_utlb_exported *exported;
    int ret;

    /* A whole address space cannot be pinned. */
    if (export->flags & UNETMM_EXPORT_WHOLE) {
        return -EOPNOTSUPP;
    }
    exported = sys_calloc(1, sizeof(*exported));
    if (!exported) {
        return -ENOMEM;
    }
    exported->id = export->id;
    exported->serial = atomic_fetch_add(&serials, 1);
    exported->write = export->rights != UNETMM_RIGHT_READ;
    ret = hold_exported(ctx, export->addr, export->length, exported);
    if (ret) {
        free(exported);
        return ret;
    }
    pthread_mutex_lock(&ctx->exported_lock);
    ret = sys_ioctl(ctx->fd, UNETMM_IOC_EXPORT, export);
    if (ret >= 0) {
        add_exported(&ctx->exported, exported);
    }
    pthread_mutex_unlock(&ctx->exported_lock);
    if (ret < 0) {
        release_exported(ctx, exported);
        return ret;
    }
    return 0;
}

int unetmm_utlb_unexport(struct unetmm_ctx *ctx, uint64_t id)
{
    struct unetmm_utlb_exported *export, *ended = NULL;
    int ret;

    pthread_mutex_lock(&ctx->exported_lock);
    export = *find(ctx, id, false, 0);
    ret = unetmm_object_end(ctx, UNETMM_OBJECT_EXPORT, 0, id, 0);
    /* After another error the memory is exported still, as far as is known. */
    if (export && (!ret || ret == -ENOENT)) {
        ended = take_all(ctx, export);
    }
    pthread_mutex_unlock(&ctx->exported_lock);
    let_all_go(ctx, ended);
    return ret;
}

/* ---- Parts that have moved --------------------------------------------- */

/* The export that `id` names now: its serial and rights.  0 or -ENOENT. */
static int look_up(struct unetmm_ctx *ctx, uint64_t id, uint64_t *serial, bool *write)
{
    const struct unetmm_utlb_exported *export;

    pthread_mutex_lock(&ctx->exported_lock);
    export = *find(ctx, id, false, 0);
    if (export) {
        *serial = export->serial;
        *write = export->write;
    }
    pthread_mutex_unlock(&ctx->exported_lock);
    return export ? 0 : -ENOENT;
}

/* The driver moves the part, if its export is still that one. */
static int move_part(struct unetmm_ctx *ctx, struct unetmm_redirect *request,
                     struct unetmm_utlb_exported *part, uint64_t serial)
{
    int ret = -ENOENT;

    pthread_mutex_lock(&ctx->exported_lock);
    part->part_of = *find(ctx, part->id, false, 0);
    if (part->part_of && part->part_of->serial == serial) {
        ret = sys_ioctl(ctx->fd, UNETMM_IOC_REDIRECT, request);
    }
    if (ret >= 0) {
        add_exported(&ctx->exported, part);
    }
    pthread_mutex_unlock(&ctx->exported_lock);
    return ret < 0 ? ret : 0;
}

int unetmm_utlb_redirect(struct unetmm_ctx *ctx,
                         struct unetmm_redirect *request)
{
    struct unetmm_utlb_exported *part = sys_calloc(1, sizeof(*part));
    uint64_t serial;
    int ret;

    if (!part) {
        return -ENOMEM;
    }
    part->id = request->id;
    part->offset = request->offset;
    ret = look_up(ctx, part->id, &serial, &part->write);
    ret = ret ? ret : hold_exported(ctx, request->to, request->length, part);
    if (ret) {
        free(part);
        return ret;
    }
    ret = move_part(ctx, request, part, serial);
    if (ret) {
        release_exported(ctx, part);
    }
    return ret;
}

int unetmm_utlb_redirect_end(struct unetmm_ctx *ctx,
                             struct unetmm_redirect_id *request)
{
    struct unetmm_utlb_exported **link, *part = NULL;
    int ret;

    pthread_mutex_lock(&ctx->exported_lock);
    ret = sys_ioctl(ctx->fd, UNETMM_IOC_REDIRECT_GO, request);
    link = find(ctx, request->id, true, request->offset);
    if (ret >= 0 && *link) {
        part = unlink_exported(link);
    }
    pthread_mutex_unlock(&ctx->exported_lock);
    if (part) {
        release_exported(ctx, part);
    }
    return ret < 0 ? ret : 0;
}

void unetmm_utlb_forget_exports(struct unetmm_ctx *ctx)
{
    while (ctx->exported) {
        free(unlink_exported(&ctx->exported));
    }
}
