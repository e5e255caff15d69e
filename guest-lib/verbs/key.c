/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Requests for keys of memory windows.  The driver changes a key by a call, when the request is
 * posted: the requests behind it are not the card's before.  The request itself is a fence of the
 * card, which completes in its turn; one that the driver refuses becomes a descriptor that the
 * card refuses.
 */
#include "mw.h"
#include "send.h"

#include <errno.h>
#include <infiniband/cmd_ioctl.h>
#include <rdma/ib_user_ioctl_cmds.h>

#define KEY_BITS    0xffu       /* of an rkey: the program's */

/*
 * The memory of a descriptor that the card does not read: the change, until the post is made.  The
 * immediate has the key: a window's next one, or the one that ends.
 */
struct change {
    uint64_t addr, length;
    struct ibv_mw *mw;
    uint32_t lkey, access;
};
static_assert(sizeof(struct change) <= UNETMM_SQE_INLINE, "a change does not fit into a slot");

static int change_key(struct umv_qp *qp, const struct unetmm_verbs_key *how)
{
    DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_QP, UNETMM_VERBS_METHOD_KEY, 2);

    fill_attr_in_obj(cmd, UNETMM_VERBS_KEY_QP, qp->vqp.qp.handle);
    fill_attr_in_ptr(cmd, UNETMM_VERBS_KEY_HOW, how);
    return execute_ioctl(qp->vqp.qp.context, cmd);
}

int umv_end_key(struct umv_qp *qp, uint32_t rkey)
{
    const struct unetmm_verbs_key how = { .rkey = rkey, .opcode = UNETMM_VERBS_INVALIDATE };

    return change_key(qp, &how);
}

/* The window has the key from the post on: a session that is aborted leaves the key before. */
static int bind_window(struct umv_qp *qp, const struct change *c, uint32_t key)
{
    const struct unetmm_verbs_key how = {
        .addr = c->addr, .length = c->length, .rkey = c->mw->rkey, .new_rkey = key,
        .lkey = c->lkey, .access = c->access, .opcode = UNETMM_VERBS_BIND,
    };

    c->mw->rkey = (c->mw->rkey & ~KEY_BITS) | (key & KEY_BITS);
    return change_key(qp, &how);
}

void umv_change_keys(struct umv_qp *qp)
{
    uint32_t i = qp->sent_next;

    while (qp->keys) {
        const struct umv_what *what = &qp->sent[i & qp->ep->sq_mask].what;
        struct unetmm_sqe *sqe = umv_sqe(qp->ep, i);

        if (umv_changes_key(what->opcode)) {
            struct change c;
            int ret;

            memcpy(&c, sqe->data, sizeof(c));
            ret = c.mw ? bind_window(qp, &c, sqe->imm) : umv_end_key(qp, sqe->imm);
            /* A fence has no immediate. */
            sqe->imm = unetmm_swap32(ret != 0);
            qp->keys--;
        }
        i += what->slots;
    }
}

int umv_put_key(struct umv_qp *qp, const struct ibv_send_wr *wr)
{
    const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;
    uint32_t key = wr->invalidate_rkey;
    struct change c = {};

    if (!umv_has_room(qp, 1)) {
        return ENOMEM;
    }
    if (wr->opcode == IBV_WR_BIND_MW) {
        key = wr->bind_mw.rkey;
        c = (struct change) {
            .addr = info->addr, .length = info->length, .mw = wr->bind_mw.mw,
            .lkey = info->mr ? info->mr->lkey : 0, .access = info->mw_access_flags,
        };
    }
    umv_put_head(qp, qp->ep, wr, qp->ep->sq_prod, 0, 0);
    umv_sqe(qp->ep, qp->ep->sq_prod)->imm = key;
    memcpy(umv_sqe(qp->ep, qp->ep->sq_prod)->data, &c, sizeof(c));
    qp->keys++;
    return umv_queued(qp, wr, 1);
}
