/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Messages: FI_MSG of endpoints and of shared receive contexts. */
#include "provider.h"

/* ---- Sending --------------------------------------------------------------- */

SYS_INLINE size_t length_of(const struct iovec *iov, size_t n)
{
    size_t len = 0;

    for (size_t i = 0; i < n; i++) {
        len += iov[i].iov_len;
    }
    return len;
}

/* A message, with `data` if there is FI_REMOTE_CQ_DATA. */
SYS_INLINE ssize_t post_message(struct umfi_ep *ep, const struct iovec *iov, size_t n,
                                uint64_t data, uint64_t flags, uint64_t user_data,
                                unsigned card_flags)
{
    int ret = flags & FI_REMOTE_CQ_DATA ?
        unetmm_sendv_imm(ep->port->ep, ep->channel, iov, (unsigned)n, (uint32_t)data,
                         user_data, card_flags) :
        unetmm_sendv(ep->port->ep, ep->channel, iov, (unsigned)n, user_data,
                     card_flags);

    return umfi_error(ret);
}

/* With the lock, which it drops.  FI_COMPLETION: there is to be an entry for success. */
SYS_INLINE ssize_t send_locked(struct umfi_ep *ep, const struct iovec *iov, size_t n,
                               uint64_t data, void *context, uint64_t flags)
{
    ssize_t ret = -FI_ENOTCONN;
    struct umfi_op *op;

    if (ep->state == UMFI_CONNECTED) {
        op = umfi_op_fill(&ep->port->tx, ep, NULL, length_of(iov, n), context,
                          FI_MSG | FI_SEND | (flags & FI_COMPLETION),
                          flags & FI_COMPLETION ? ep->tx_cq : NULL);
        ret = op ? post_message(ep, iov, n, data, flags, (uintptr_t)op, umfi_card_flags(flags)) :
            -FI_EAGAIN;
        if (!ret) {
            umfi_send_begin(ep);
        }
    }
    umfi_unlock(ep->domain);
    return ret;
}

SYS_INLINE ssize_t send_op(struct umfi_ep *ep, const struct iovec *iov, size_t n,
                           uint64_t data, void *context, uint64_t flags)
{
    if (n > UMFI_IOV) {
        return -FI_EINVAL;
    }
    umfi_lock(ep->domain);
    return send_locked(ep, iov, n, data, context, flags);
}

/* A copy, of which nobody is told but by the end of the channel. */
static ssize_t inject_op(struct umfi_ep *ep, const void *buf, size_t len,
                         uint64_t data, uint64_t flags)
{
    const struct iovec iov = { (void *)(uintptr_t)buf, len };
    ssize_t ret = -FI_ENOTCONN;

    umfi_lock(ep->domain);
    if (ep->state == UMFI_CONNECTED) {
        ret = post_message(ep, &iov, 1, data, flags, 0, UNETMM_INLINE | UNETMM_UNSIGNALED);
        ep->injected = ep->injected || !ret;
    }
    umfi_unlock(ep->domain);
    return ret;
}

/* The flags of a call that has none of its own. */
static uint64_t default_flags(const struct umfi_ep *ep)
{
    return ep->tx_flags | ep->tx_completion;
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc,
                         size_t n, fi_addr_t to, void *context)
{
    struct umfi_ep *ep = umfi_of(fid, struct umfi_ep, fid);

    return send_op(ep, iov, n, 0, context, default_flags(ep));
}

/*
 * With flags of the endpoint, or another thread has the lock.  A function of its own, so that
 * msg_send() saves few registers.
 */
UMFI_RARE ssize_t send_behind(struct umfi_ep *ep, const void *buf, size_t len,
                              void *context)
{
    const struct iovec iov = { (void *)(uintptr_t)buf, len };

    return send_op(ep, &iov, 1, 0, context, default_flags(ep));
}

static ssize_t msg_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                        fi_addr_t to, void *context)
{
    struct umfi_ep *ep = umfi_of(fid, struct umfi_ep, fid);
    const struct iovec iov = { (void *)(uintptr_t)buf, len };

    if (__builtin_expect(ep->tx_flags || !sys_lock_try(&ep->domain->lock), 0)) {
        return send_behind(ep, buf, len, context);
    }
    /* No other flags: the compiler leaves out the tests for them. */
    return send_locked(ep, &iov, 1, 0, context, ep->tx_completion & FI_COMPLETION);
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    struct umfi_ep *ep = umfi_of(fid, struct umfi_ep, fid);

    return send_op(ep, msg->msg_iov, msg->iov_count, msg->data, msg->context,
                   flags | ep->tx_completion);
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t to)
{
    return inject_op(umfi_of(fid, struct umfi_ep, fid), buf, len, 0, 0);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buf, size_t len,
                            void *desc, uint64_t data, fi_addr_t to, void *context)
{
    struct umfi_ep *ep = umfi_of(fid, struct umfi_ep, fid);
    const struct iovec iov = { (void *)(uintptr_t)buf, len };

    return send_op(ep, &iov, 1, data, context, default_flags(ep) | FI_REMOTE_CQ_DATA);
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buf, size_t len,
                              uint64_t data, fi_addr_t to)
{
    return inject_op(umfi_of(fid, struct umfi_ep, fid), buf, len, data,
                     FI_REMOTE_CQ_DATA);
}

/* ---- Receiving ------------------------------------------------------------- */

/*
 * The bytes of a buffer that the card is given.  The card refuses a buffer with more pages
 * than its longest message has.  Hence UMFI_MAX_MESSAGE, for which each buffer has room.
 */
static size_t posted_length(const void *buf, size_t len)
{
    size_t most = UNETMM_MAX_MESSAGE - (uintptr_t)buf % UNETMM_PAGE_BYTES;

    return len < most ? len : most;
}

/* The card takes no empty buffer; receive_completed() compares lengths. */
SYS_INLINE ssize_t post_buffer(struct umfi_port *port, void *buf, size_t len,
                               struct umfi_op *op, unsigned card_flags)
{
    return len ? unetmm_post_recv(port->ep, buf, posted_length(buf, len),
                                  (uintptr_t)op, card_flags) :
        unetmm_post_recv(port->ep, &port->scratch, 1, (uintptr_t)op, card_flags);
}

int umfi_repost_buffer(struct umfi_port *port, struct umfi_op *op)
{
    return post_buffer(port, op->buf, op->len, op, 0);
}

/*
 * With the lock, which it drops.  `ep` NULL: of an SRX, whose EP is the one that the message
 * comes to.  A buffer at NULL is empty, whatever its length: libfabric's callers post it for
 * messages without data.
 */
SYS_INLINE ssize_t recv_locked(struct umfi_port *port, struct umfi_ep *ep, void *buf,
                               size_t len, void *context, uint64_t flags)
{
    /* Nothing would end it but the end of the port. */
    ssize_t ret = ep && ep->state >= UMFI_ENDING ? -FI_ENOTCONN : -FI_EAGAIN;
    size_t room = buf ? len : 0;
    struct umfi_op *op;

    op = ret == -FI_EAGAIN ? umfi_op_fill(&port->rx, ep, buf, room, context,
                                          FI_MSG | FI_RECV | (flags & FI_COMPLETION),
                                          flags & FI_COMPLETION ? port : NULL) : NULL;
    if (op) {
        ret = post_buffer(port, buf, room, op, flags & FI_MORE ? UNETMM_MORE : 0);
        if (!ret) {
            umfi_op_begin(&port->rx);
        }
    } else if (port->failed) {
        ret = -FI_ENOTCONN;
    }
    umfi_unlock(port->domain);
    return ret;
}

/* With the lock, which it drops: another thread may close the EP, and its port, before that. */
SYS_INLINE ssize_t ep_recv_locked(struct umfi_ep *ep, void *buf, size_t len, void *context,
                                  uint64_t flags)
{
    if (!ep->port || ep->srx) {
        umfi_unlock(ep->domain);
        return -FI_EOPBADSTATE;
    }
    return recv_locked(ep->port, ep, buf, len, context, flags);
}

SYS_INLINE ssize_t ep_recv_op(struct umfi_ep *ep, const struct iovec *iov, size_t n,
                              void *context, uint64_t flags)
{
    if (n > 1) {
        return -FI_EINVAL;
    }
    umfi_lock(ep->domain);
    return ep_recv_locked(ep, n ? iov->iov_base : NULL, n ? iov->iov_len : 0, context,
                          flags | ep->rx_completion);
}

/* As send_behind(). */
UMFI_RARE ssize_t recv_behind(struct umfi_ep *ep, void *buf, size_t len, void *context)
{
    const struct iovec iov = { buf, len };

    return ep_recv_op(ep, &iov, 1, context, ep->rx_flags);
}

static ssize_t msg_recv(struct fid_ep *fid, void *buf, size_t len, void *desc,
                        fi_addr_t from, void *context)
{
    struct umfi_ep *ep = umfi_of(fid, struct umfi_ep, fid);

    if (__builtin_expect(ep->rx_flags || !sys_lock_try(&ep->domain->lock), 0)) {
        return recv_behind(ep, buf, len, context);
    }
    return ep_recv_locked(ep, buf, len, context, ep->rx_completion & FI_COMPLETION);
}

static ssize_t msg_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc,
                         size_t n, fi_addr_t from, void *context)
{
    struct umfi_ep *ep = umfi_of(fid, struct umfi_ep, fid);

    return ep_recv_op(ep, iov, n, context, ep->rx_flags);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    return ep_recv_op(umfi_of(fid, struct umfi_ep, fid), msg->msg_iov,
                      msg->iov_count, msg->context, flags);
}

struct fi_ops_msg umfi_msg_ops = {
    .size = sizeof(umfi_msg_ops),
    .recv = msg_recv,
    .recvv = msg_recvv,
    .recvmsg = msg_recvmsg,
    .send = msg_send,
    .sendv = msg_sendv,
    .sendmsg = msg_sendmsg,
    .inject = msg_inject,
    .senddata = msg_senddata,
    .injectdata = msg_injectdata,
};

/* ---- Shared receive contexts ----------------------------------------------- */

UMFI_RARE ssize_t srx_recv_behind(struct umfi_port *port, void *buf, size_t len,
                                  void *context)
{
    umfi_lock(port->domain);
    return recv_locked(port, NULL, buf, len, context, FI_COMPLETION);
}

static ssize_t srx_recv(struct fid_ep *fid, void *buf, size_t len, void *desc,
                        fi_addr_t from, void *context)
{
    struct umfi_port *port = umfi_of(fid, struct umfi_srx, fid)->port;

    if (__builtin_expect(!sys_lock_try(&port->domain->lock), 0)) {
        return srx_recv_behind(port, buf, len, context);
    }
    return recv_locked(port, NULL, buf, len, context, FI_COMPLETION);
}

SYS_INLINE ssize_t srx_recv_op(struct fid_ep *fid, const struct iovec *iov, size_t n,
                               void *context, uint64_t flags)
{
    struct umfi_port *port = umfi_of(fid, struct umfi_srx, fid)->port;

    if (n > 1) {
        return -FI_EINVAL;
    }
    umfi_lock(port->domain);
    return recv_locked(port, NULL, n ? iov->iov_base : NULL, n ? iov->iov_len : 0, context,
                       flags | FI_COMPLETION);
}

static ssize_t srx_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc,
                         size_t n, fi_addr_t from, void *context)
{
    return srx_recv_op(fid, iov, n, context, 0);
}

static ssize_t srx_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    return srx_recv_op(fid, msg->msg_iov, msg->iov_count, msg->context, flags);
}

struct fi_ops_msg umfi_srx_msg_ops = {
    .size = sizeof(umfi_srx_msg_ops),
    .recv = srx_recv,
    .recvv = srx_recvv,
    .recvmsg = srx_recvmsg,
    .send = umfi_no_send,
    .sendv = umfi_no_sendv,
    .sendmsg = umfi_no_sendmsg,
    .inject = umfi_no_inject,
    .senddata = umfi_no_senddata,
    .injectdata = umfi_no_injectdata,
};
