/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Parts of an export that land elsewhere.
 */
#include "remote.h"

/*
 * Do the spans of the answer lie in the part that was asked for?  How long that is the
 * process knows of a move that begins; of one that ends, the driver alone.
 */
static bool redirect_answers(const struct unetmm_redirect *r,
                             const struct unetmm_redirect *asked)
{
    bool begins = asked->what == UNETMM_REDIRECT_BEGIN;
    uint64_t end = r->from > r->to ? r->from : r->to;
    uint64_t length = begins ? asked->length : UINT64_MAX - end;
    unsigned i;

    /* Both places are in memory, and do not go around its end. */
    if (r->offset != asked->offset || r->count > UNETMM_REDIRECT_SPANS ||
        (begins && r->to != asked->to) || length > UINT64_MAX - end) {
        return false;
    }
    for (i = 0; i < r->count; i++) {
        uint64_t at = r->spans[i].offset - r->offset;

        if (r->spans[i].offset < r->offset || at > length ||
            r->spans[i].length > length - at) {
            return false;
        }
    }
    return true;
}

/*
 * Between the two places of a part.  Its peers wait; their data is there, since the
 * driver's answer came after it.
 */
static void redirect_copy(const struct unetmm_redirect *r, bool back,
                          struct unetmm_redirected *copied)
{
    struct unetmm_redirected done = { 0 };
    unsigned i;

    for (i = 0; i < r->count; i++) {
        uint64_t at = r->spans[i].offset - r->offset;
        uint8_t *own = (uint8_t *)(uintptr_t)r->from + at;
        uint8_t *to = (uint8_t *)(uintptr_t)r->to + at;

        memcpy(back ? own : to, back ? to : own, r->spans[i].length);
        done.copied += r->spans[i].length;
        done.pieces++;
    }
    if (copied) {
        *copied = done;
    }
}

static int redirect_go(struct unetmm_ctx *ctx, unsigned what, uint64_t id,
                       uint64_t offset)
{
    struct unetmm_redirect_id request = {
        .size = sizeof(request), .what = what, .id = id, .offset = offset,
    };
    int ret;

    if (ctx->utlb && what == UNETMM_REDIRECT_END) {
        return unetmm_utlb_redirect_end(ctx, &request);
    }
    ret = sys_ioctl(ctx->fd, UNETMM_IOC_REDIRECT_GO, &request);
    return ret < 0 ? ret : 0;
}

int unetmm_redirect(struct unetmm_ctx *ctx, uint64_t id, uint64_t offset,
                    void *to, size_t length, struct unetmm_redirected *copied)
{
    const struct unetmm_redirect asked = {
        .size = sizeof(asked),
        .what = UNETMM_REDIRECT_BEGIN,
        .id = id,
        .offset = offset,
        .length = length,
        .to = (uintptr_t)to,
    };
    struct unetmm_redirect request = asked;
    int ret = unetmm_ctx_check(ctx);

    if (ret) {
        return ret;
    }
    ret = ctx->utlb ? unetmm_utlb_redirect(ctx, &request) :
        sys_ioctl(ctx->fd, UNETMM_IOC_REDIRECT, &request);
    if (ret < 0) {
        return ret;
    }
    if (redirect_answers(&request, &asked)) {
        redirect_copy(&request, false, copied);
        ret = request.count ? redirect_go(ctx, UNETMM_REDIRECT_GO, id, offset) : 0;
    } else {
        ret = -EPROTO;
    }
    if (ret) {
        /* It has never moved: nothing of its peers is in the new place. */
        redirect_go(ctx, UNETMM_REDIRECT_END, id, offset);
    }
    return ret;
}

int unetmm_redirect_end(struct unetmm_ctx *ctx, uint64_t id, uint64_t offset)
{
    int ret = unetmm_ctx_check(ctx);

    return ret ? ret : redirect_go(ctx, UNETMM_REDIRECT_END, id, offset);
}

int unetmm_redirect_back(struct unetmm_ctx *ctx, uint64_t id, uint64_t offset,
                         size_t keep, struct unetmm_redirected *copied)
{
    const struct unetmm_redirect asked = {
        .size = sizeof(asked),
        .what = UNETMM_REDIRECT_BACK,
        .id = id,
        .offset = offset,
        .length = keep,
    };
    struct unetmm_redirect request = asked;
    int ret = unetmm_ctx_check(ctx);

    if (ret) {
        return ret;
    }
    ret = sys_ioctl(ctx->fd, UNETMM_IOC_REDIRECT, &request);
    if (ret < 0) {
        return ret;
    }
    if (!redirect_answers(&request, &asked)) {
        /* The part stays moved. */
        redirect_go(ctx, UNETMM_REDIRECT_GO, id, offset);
        return -EPROTO;
    }
    redirect_copy(&request, true, copied);
    ret = redirect_go(ctx, UNETMM_REDIRECT_END, id, offset);
    if (ret) {
        /* The part stays moved, and its peers go on: both places have the data. */
        redirect_go(ctx, UNETMM_REDIRECT_GO, id, offset);
    }
    return ret;
}
