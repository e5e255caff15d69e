/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Operations that the caller waits for.
 */
#include "remote.h"

struct waited_op {
    int import;
    uint64_t offset;
    void *buf;
    size_t len;
    uint32_t imm;
    unsigned flags;
    bool read;
};

static int post_op(struct unetmm_ep *ep, const struct waited_op *op,
                     uint64_t user_data)
{
    return op->read ?
        unetmm_read(ep, op->import, op->offset, op->buf, op->len, user_data,
                    op->flags) :
        unetmm_write(ep, op->import, op->offset, op->buf, op->len, op->imm,
                     user_data, op->flags);
}

static int do_op(struct unetmm_ep *pub, const struct waited_op *op, bool wait,
                   int64_t timeout_ns)
{
    struct unetmm_ep_private *ep = unetmm_ep_private(pub);
    uint64_t user_data = UNETMM_SYNC_USER_DATA | ++ep->sync_number;
    uint64_t deadline = unetmm_time_of(timeout_ns);
    struct unetmm_completion c;
    int ret = wait ? unetmm_stash_check(ep) : 0;

    if (ret) {
        return ret;
    }
    while ((ret = post_op(pub, op, user_data)) == -EAGAIN) {
        ret = unetmm_take_until(ep, 0, &c, deadline);
        if (ret < 0) {
            return ret;
        }
    }
    if (ret || !wait) {
        return ret;
    }
    ret = unetmm_take_until(ep, user_data, &c, deadline);
    return ret < 0 ? ret : unetmm_status_errno(c.status);
}

int unetmm_write_sync(struct unetmm_ep *ep, int import, uint64_t offset,
                      const void *buf, size_t len, uint32_t imm,
                      unsigned flags, int64_t timeout_ns)
{
    struct waited_op op = {
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
    return do_op(ep, &op, !copied, timeout_ns);
}

int unetmm_read_sync(struct unetmm_ep *ep, int import, uint64_t offset,
                     void *buf, size_t len, int64_t timeout_ns)
{
    const struct waited_op op = {
        .import = import, .offset = offset, .buf = buf, .len = len,
        .read = true,
    };

    return ep->alive ? do_op(ep, &op, true, timeout_ns) : -EOWNERDEAD;
}
