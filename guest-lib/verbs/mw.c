/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory windows: objects of the driver, and ibv_bind_mw().
 */
#include "mw.h"

#include <errno.h>
#include <stdlib.h>

/* ibv_bind_mw(3): libibverbs has compared the protection domains. */
int umv_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
    struct ibv_send_wr wr = {
        .wr_id = bind->wr_id, .opcode = IBV_WR_BIND_MW, .send_flags = bind->send_flags,
        .bind_mw = {
            .mw = mw, .rkey = ibv_inc_rkey(mw->rkey), .bind_info = bind->bind_info,
        },
    }, *bad;

    if (bind->bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED ||
        (!bind->bind_info.mr && (bind->bind_info.addr || bind->bind_info.length))) {
        return EINVAL;
    }
    return umv_post_send(ibqp, &wr, &bad);
}

struct ibv_mw *umv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
    struct ib_uverbs_alloc_mw_resp resp;
    struct ibv_alloc_mw cmd;
    struct ibv_mw *mw = calloc(1, sizeof(*mw));
    int ret;

    if (!mw) {
        return NULL;
    }
    ret = ibv_cmd_alloc_mw(pd, type, mw, &cmd, sizeof(cmd), &resp, sizeof(resp));
    if (ret) {
        free(mw);
        errno = ret;
        return NULL;
    }
    return mw;
}

int umv_dealloc_mw(struct ibv_mw *mw)
{
    int ret = ibv_cmd_dealloc_mw(mw);

    if (!ret) {
        free(mw);
    }
    return ret;
}
