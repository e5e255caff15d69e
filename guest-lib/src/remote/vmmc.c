/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Export and import, and operations that are waited for.
 *
 * Which memory of which peer an import is, only the drivers and the cards know.
 * The library keeps its length and its rights, so that most mistakes are found
 * before anything is posted.
 */
#include "../base/base.h"
#include "../base/sys.h"
#include "../utlb/utlb.h"

/* ---- Export ------------------------------------------------------------ */

int unetmm_export_ex(struct unetmm_ctx *ctx, struct unetmm_export *export)
{
    int ret = unetmm_ctx_check(ctx);

    if (ret) {
        return ret;
    }
    if (ctx->utlb) {
        return unetmm_utlb_export(ctx, export);
    }
    ret = sys_ioctl(ctx->fd, UNETMM_IOC_EXPORT, export);
    return ret < 0 ? ret : 0;
}

int unetmm_export(struct unetmm_ctx *ctx, uint64_t id, void *addr,
                  size_t length, unsigned rights, unsigned flags,
                  uint64_t user_data)
{
    struct unetmm_export export = {
        .size = sizeof(export),
        .flags = flags,
        .id = id,
        .addr = (uintptr_t)addr,
        .length = length,
        .cookie = user_data,
        .rights = rights,
    };

    return unetmm_export_ex(ctx, &export);
}

int unetmm_unexport(struct unetmm_ctx *ctx, uint64_t id)
{
    struct unetmm_export_id request = { .size = sizeof(request), .id = id };
    int ret = unetmm_ctx_check(ctx);

    if (ret) {
        return ret;
    }
    if (ctx->utlb) {
        return unetmm_utlb_unexport(ctx, &request);
    }
    ret = sys_ioctl(ctx->fd, UNETMM_IOC_UNEXPORT, &request);
    return ret < 0 ? ret : 0;
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

/* ---- Where an export lands --------------------------------------------- */

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
        /* It stays moved. */
        redirect_go(ctx, UNETMM_REDIRECT_GO, id, offset);
        return -EPROTO;
    }
    redirect_copy(&request, true, copied);
    ret = redirect_go(ctx, UNETMM_REDIRECT_END, id, offset);
    if (ret) {
        /* It stays moved, and its peers go on: both places have the data. */
        redirect_go(ctx, UNETMM_REDIRECT_GO, id, offset);
    }
    return ret;
}

/* ---- Import ------------------------------------------------------------ */

int unetmm_import(struct unetmm_ep *pub, int channel, uint64_t id,
                  unsigned rights, int64_t timeout_ns, uint64_t *length)
{
    struct unetmm_ep_private *ep = unetmm_ep_private(pub);
    struct unetmm_import_record *record;
    struct unetmm_import import;
    int ret;

    if (!pub->alive) {
        return -EOWNERDEAD;
    }
    import = (struct unetmm_import) {
        .size = sizeof(import),
        .endpoint = ep->id,
        .id = id,
        .deadline_ns = unetmm_deadline(timeout_ns),
        .channel = (uint32_t)channel,
        .rights = rights,
    };
    ret = sys_ioctl(ep->ctx->fd, UNETMM_IOC_IMPORT, &import);
    if (ret < 0) {
        return unetmm_timed(ret, timeout_ns);
    }
    if (import.import >= pub->nimports || !import.length ||
        (unsigned)channel >= pub->channels) {
        return -EPROTO;
    }
    record = &ep->imports[import.import];
    record->channel = (uint16_t)channel;
    record->rights = (uint8_t)import.rights;
    /* A reader that finds the import finds the rest of its record. */
    __atomic_store_n(&record->length, import.length, __ATOMIC_RELEASE);
    if (length) {
        *length = import.length;
    }
    return (int)import.import;
}

int unetmm_unimport(struct unetmm_ep *pub, int import)
{
    struct unetmm_ep_private *ep = unetmm_ep_private(pub);
    struct unetmm_import_id request;
    int ret;

    if (!pub->alive) {
        return -EOWNERDEAD;
    }
    if ((unsigned)import >= pub->nimports ||
        !__atomic_load_n(&ep->imports[import].length, __ATOMIC_RELAXED)) {
        return -ENOENT;
    }
    request = (struct unetmm_import_id) {
        .size = sizeof(request),
        .endpoint = ep->id,
        .import = (uint32_t)import,
    };
    __atomic_store_n(&ep->imports[import].length, 0, __ATOMIC_RELAXED);
    unetmm_utlb_unimport(ep, import);
    ret = sys_ioctl(ep->ctx->fd, UNETMM_IOC_UNIMPORT, &request);
    return ret < 0 ? ret : 0;
}

/* ---- Completions that were taken for somebody else --------------------- */

static bool stash_has_room(struct unetmm_stash *stash)
{
    size_t room = stash->room ? 2 * stash->room : 64;
    struct unetmm_completion *all;

    if (stash->first + stash->count < stash->room) {
        return true;
    }
    if (stash->first) {
        memmove(stash->all, stash->all + stash->first,
                stash->count * sizeof(*stash->all));
        stash->first = 0;
        return true;
    }
    all = sys_calloc(room, sizeof(*all));
    if (!all) {
        return false;
    }
    if (stash->count) {
        memcpy(all, stash->all, stash->count * sizeof(*all));
    }
    free(stash->all);
    stash->all = all;
    stash->room = room;
    return true;
}

int unetmm_unstash(struct unetmm_ep *pub, struct unetmm_completion *c,
                   unsigned n)
{
    struct unetmm_stash *stash = &unetmm_ep_private(pub)->stash;
    unsigned taken = n < stash->count ? n : (unsigned)stash->count;

    memcpy(c, stash->all + stash->first, taken * sizeof(*c));
    stash->first += taken;
    stash->count -= taken;
    if (!stash->count) {
        stash->first = 0;
        pub->stashed = 0;
    }
    return (int)taken;
}

/*
 * Takes completions until that of `user_data` comes; 1: it is in `c`.  Other
 * completions go behind the stashed ones, which are older.  user_data 0: any
 * completion.
 */
static int take_until(struct unetmm_ep_private *ep, uint64_t user_data,
                      struct unetmm_completion *c, uint64_t deadline)
{
    struct unetmm_stash *stash = &ep->stash;
    int ret;

    /* The awaited completion is not among the stashed ones. */
    ep->pub.stashed = 0;
    do {
        if (!stash_has_room(stash)) {
            ret = -ENOMEM;
            break;
        }
        ret = unetmm_wait(&ep->pub, c, 1, unetmm_time_until(deadline));
        if (ret <= 0) {
            ret = ret ? ret : -ETIMEDOUT;
            break;
        }
        if (user_data && c->type == UNETMM_CQE_SENT && c->user_data == user_data) {
            break;
        }
        stash->all[stash->first + stash->count++] = *c;
    } while (user_data);
    ep->pub.stashed = stash->count != 0;
    return ret;
}

/* ---- Operations that are waited for ------------------------------------ */

struct sync {
    int import;
    uint64_t offset;
    void *buf;
    size_t len;
    uint32_t imm;
    unsigned flags;
    bool read;
};

static int sync_post(struct unetmm_ep *ep, const struct sync *op,
                     uint64_t user_data)
{
    return op->read ?
        unetmm_read(ep, op->import, op->offset, op->buf, op->len, user_data,
                    op->flags) :
        unetmm_write(ep, op->import, op->offset, op->buf, op->len, op->imm,
                     user_data, op->flags);
}

static int sync_do(struct unetmm_ep *pub, const struct sync *op, bool wait,
                   int64_t timeout_ns)
{
    struct unetmm_ep_private *ep = unetmm_ep_private(pub);
    uint64_t user_data = UNETMM_SYNC_USER_DATA | ++ep->sync_number;
    uint64_t deadline = unetmm_time_of(timeout_ns);
    struct unetmm_completion c;
    int ret;

    while ((ret = sync_post(pub, op, user_data)) == -EAGAIN) {
        ret = take_until(ep, 0, &c, deadline);
        if (ret < 0) {
            return ret;
        }
    }
    if (ret || !wait) {
        return ret;
    }
    ret = take_until(ep, user_data, &c, deadline);
    return ret < 0 ? ret : unetmm_status_errno(c.status);
}

int unetmm_write_sync(struct unetmm_ep *ep, int import, uint64_t offset,
                      const void *buf, size_t len, uint32_t imm,
                      unsigned flags, int64_t timeout_ns)
{
    struct sync op = {
        .import = import, .offset = offset, .buf = (void *)(uintptr_t)buf,
        .len = len, .imm = imm, .flags = flags,
    };
    bool copied;

    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    if (flags & ~(UNETMM_NOTIFY | UNETMM_COUNT)) {
        return -EINVAL;
    }
    copied = len <= ep->inline_max;
    if (copied) {
        op.flags |= UNETMM_UNSIGNALED;
    }
    return sync_do(ep, &op, !copied, timeout_ns);
}

/* The fence is behind all that is on the channel, so its completion is the last. */
int unetmm_shutdown(struct unetmm_ep *pub, int channel, int64_t timeout_ns)
{
    struct unetmm_ep_private *ep = unetmm_ep_private(pub);
    uint64_t user_data, deadline = unetmm_time_of(timeout_ns);
    struct unetmm_completion c;
    int ret, closed;

    if (!pub->alive) {
        return -EOWNERDEAD;
    }
    if (!unetmm_mtu_(pub, channel)) {
        return -ENOENT;
    }
    if (ep->records[channel].type != UNETMM_RELIABLE) {
        return -EPROTOTYPE;
    }
    user_data = UNETMM_SYNC_USER_DATA | ++ep->sync_number;
    while ((ret = unetmm_fence(pub, channel, user_data, 0)) == -EAGAIN) {
        ret = take_until(ep, 0, &c, deadline);
        if (ret < 0) {
            return ret;
        }
    }
    if (!ret) {
        ret = take_until(ep, user_data, &c, deadline);
        if (ret == -ETIMEDOUT || ret == -EINTR || ret == -ENOMEM) {
            return ret;
        }
        ret = ret < 0 ? ret : unetmm_status_errno(c.status);
    }
    closed = unetmm_disconnect(pub, channel);
    return ret ? ret : closed;
}

int unetmm_read_sync(struct unetmm_ep *ep, int import, uint64_t offset,
                     void *buf, size_t len, int64_t timeout_ns)
{
    const struct sync op = {
        .import = import, .offset = offset, .buf = buf, .len = len,
        .read = true,
    };

    return ep->alive ? sync_do(ep, &op, true, timeout_ns) : -EOWNERDEAD;
}
