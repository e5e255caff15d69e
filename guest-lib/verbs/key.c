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

/* The memory of a descriptor that the card does not read: the change, until the post is made */
struct change {
    uint64_t addr, length;
    uint32_t rkey, new_rkey, lkey, access;
};
static_assert(sizeof(struct change) <= UNETMM_SQE_INLINE, "a change does not fit into a slot");

static int change_key(struct umv_qp *qp, enum ibv_wc_opcode opcode, const struct change *c)
{
    const struct unetmm_verbs_key how = {
        .addr = c->addr, .length = c->length, .rkey = c->rkey, .new_rkey = c->new_rkey,
        .lkey = c->lkey, .access = c->access,
        .opcode = opcode == IBV_WC_BIND_MW ? UNETMM_VERBS_BIND : UNETMM_VERBS_INVALIDATE,
    };
    DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_QP, UNETMM_VERBS_METHOD_KEY, 2);

    fill_attr_in_obj(cmd, UNETMM_VERBS_KEY_QP, qp->vqp.qp.handle);
    fill_attr_in_ptr(cmd, UNETMM_VERBS_KEY_HOW, &how);
    return execute_ioctl(qp->vqp.qp.context, cmd);
}

int umv_end_key(struct umv_qp *qp, uint32_t rkey)
{
    return change_key(qp, IBV_WC_LOCAL_INV, &(struct change) { .rkey = rkey });
}

void umv_change_keys(struct umv_qp *qp)
{
    uint32_t i = qp->sent_next;

    while (qp->keys) {
        const struct umv_what *what = &qp->sent[i & qp->ep->sq_mask].what;
        struct unetmm_sqe *sqe = umv_sqe(qp->ep, i);

        if (umv_changes_key(what->opcode)) {
            struct change c;

            memcpy(&c, sqe->data, sizeof(c));
            /* A fence has no immediate. */
            sqe->imm = unetmm_swap32(change_key(qp, what->opcode, &c) != 0);
            qp->keys--;
        }
        i += what->slots;
    }
}

int umv_put_key(struct umv_qp *qp, const struct ibv_send_wr *wr)
{
    const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;
    struct ibv_mw *mw = wr->bind_mw.mw;
    struct change c = { .rkey = wr->invalidate_rkey };

    if (!umv_has_room(qp, 1)) {
        return ENOMEM;
    }
    if (wr->opcode == IBV_WR_BIND_MW) {
        c = (struct change) {
            .addr = info->addr, .length = info->length, .rkey = mw->rkey,
            .new_rkey = wr->bind_mw.rkey, .lkey = info->mr ? info->mr->lkey : 0,
            .access = info->mw_access_flags,
        };
        mw->rkey = (mw->rkey & ~KEY_BITS) | (wr->bind_mw.rkey & KEY_BITS);
    }
    umv_put_head(qp, qp->ep, wr, qp->ep->sq_prod, 0, 0);
    memcpy(umv_sqe(qp->ep, qp->ep->sq_prod)->data, &c, sizeof(c));
    qp->keys++;
    return umv_queued(qp, wr, 1);
}
