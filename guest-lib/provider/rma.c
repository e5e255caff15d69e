/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Writes to and reads from memory of a peer, by the key of a region and the peer's own
 * address.  An operation that is longer than a message of the card is several
 * descriptors, of which the last one completes it.
 */
#include "provider.h"

#define PART    UNETMM_MAX_MESSAGE

struct transfer {
    struct umfi_ep *ep;
    uint64_t key, address;
    uint32_t data;              /* with FI_REMOTE_CQ_DATA */
    unsigned flags;             /* UNETMM_* */
};

/* Where the next part of a scattered buffer begins. */
struct cursor {
    const struct iovec *iov;
    size_t n, offset;
};

/* Fills `part` with at most PART bytes; returns how many segments it has. */
static unsigned next_part(struct cursor *at, struct iovec part[UMFI_IOV], size_t *len)
{
    unsigned n = 0;

    *len = 0;
    while (at->n && *len < PART) {
        size_t left = at->iov->iov_len - at->offset;
        size_t now = left < PART - *len ? left : PART - *len;

        if (now) {
            part[n].iov_base = (char *)at->iov->iov_base + at->offset;
            part[n++].iov_len = now;
            *len += now;
            at->offset += now;
        }
        if (at->offset == at->iov->iov_len) {
            at->iov++;
            at->n--;
            at->offset = 0;
        }
    }
    return n;
}

/* Slots of the send queue, at most */
static uint64_t slots_for(size_t len)
{
    return len <= UMFI_INJECT ? UMFI_COPY_SLOTS : (uint64_t)((len - 1) / PART + 1) * UMFI_IOV_SLOTS;
}

static bool has_room(struct umfi_port *port, uint64_t slots)
{
    int pending = unetmm_send_pending(port->ep);

    /* An error, as in a forked child, is the post's to return. */
    return pending < 0 || (uint64_t)pending + slots <= port->slots;
}

SYS_INLINE int post_part(struct transfer *t, const struct iovec *iov, unsigned n,
                         struct umfi_op *op, bool last, bool reads)
{
    struct umfi_ep *ep = t->ep;
    bool data = last && op->flags & FI_REMOTE_CQ_DATA;

    return reads ?
        unetmm_readv_key(ep->port->ep, ep->channel, t->key, t->address, iov, n,
                         (uintptr_t)op, t->flags) :
        unetmm_writev_key(ep->port->ep, ep->channel, t->key, t->address, iov, n,
                          data ? t->data : 0, (uintptr_t)op,
                          t->flags | (data ? UNETMM_IMM : 0));
}

/* If not even the first part was posted the call fails, otherwise the operation. */
UMFI_RARE ssize_t post_parts(struct transfer *t, const struct iovec *iov, size_t n,
                             size_t len, struct umfi_op *op)
{
    struct cursor at = { iov, n, 0 };
    struct iovec part[UMFI_IOV];
    size_t bytes;
    int ret;

    op->parts = 0;
    do {
        unsigned count = next_part(&at, part, &bytes);

        ret = post_part(t, part, count, op, bytes == len, op->flags & FI_READ);
        if (ret) {
            break;
        }
        op->parts++;
        t->address += bytes;
        len -= bytes;
    } while (len);
    if (ret && !op->parts) {
        return umfi_error(ret);
    }
    umfi_send_begin(t->ep);
    if (ret) {
        UMFI_WARN(FI_LOG_EP_DATA, "a part of %zu bytes: error %d\n", len, ret);
        op->status = UNETMM_ST_BAD_DESC;
    }
    return 0;
}

/* Under the lock.  One piece that is not longer than a part is posted as it is. */
SYS_INLINE ssize_t post_op(struct transfer *t, const struct iovec *iov, size_t n,
                           size_t len, struct umfi_op *op, bool reads)
{
    int ret;

    if (n != 1 || len > PART) {
        return post_parts(t, iov, n, len, op);
    }
    ret = post_part(t, iov, 1, op, true, reads);
    if (ret) {
        return umfi_error(ret);
    }
    umfi_send_begin(t->ep);
    return 0;
}

/* libunetmm refuses a READ of no bytes: for the card it is a fence. */
static ssize_t empty_read(struct umfi_ep *ep, void *context, uint64_t flags)
{
    const struct umfi_entry entry = {
        .e = { .op_context = context, .flags = FI_RMA | FI_READ },
    };
    ssize_t ret = -FI_ENOTCONN;

    umfi_lock(ep->domain);
    if (ep->state == UMFI_CONNECTED) {
        ret = 0;
        if (flags & FI_COMPLETION) {
            umfi_cq_push_entry(ep->tx_cq, &entry);
        }
    }
    umfi_unlock(ep->domain);
    return ret;
}

/* SIZE_MAX: too many pieces, or a piece that is too long; so the sum does not wrap. */
UMFI_RARE size_t sum_of_pieces(const struct iovec *iov, size_t n)
{
    size_t len = n > UMFI_IOV ? SIZE_MAX : 0;

    for (size_t i = 0; i < n && len != SIZE_MAX; i++) {
        len = iov[i].iov_len > UMFI_MAX_RMA ? SIZE_MAX : len + iov[i].iov_len;
    }
    return len;
}

SYS_INLINE ssize_t any_op(struct transfer *t, const struct iovec *iov, size_t n,
                          void *context, uint64_t flags)
{
    struct umfi_ep *ep = t->ep;
    struct umfi_op *op;
    size_t len = n == 1 ? iov->iov_len : sum_of_pieces(iov, n);
    uint64_t slots;
    ssize_t ret = -FI_EAGAIN;

    if (len > UMFI_MAX_RMA || (flags & FI_INJECT && len > UMFI_INJECT)) {
        return -FI_EINVAL;
    }
    if (!len && flags & FI_READ) {
        return empty_read(ep, context, flags);
    }
    t->flags = umfi_card_flags(flags);
    slots = slots_for(len);
    umfi_lock(ep->domain);
    if (ep->state != UMFI_CONNECTED) {
        ret = -FI_ENOTCONN;
    } else if (slots > ep->port->slots) {
        /* The queue would never have that room. */
        ret = -FI_EMSGSIZE;
    } else if (has_room(ep->port, slots) &&
               (op = umfi_op_fill(&ep->port->tx, ep, NULL, len, context, FI_RMA |
                                  (flags & (FI_READ | FI_WRITE | FI_REMOTE_CQ_DATA |
                                            FI_COMPLETION)), NULL))) {
        /* An injected one is completed for the program; errors are logged. */
        if (flags & FI_INJECT && !context && !(flags & FI_COMPLETION)) {
            op->told = true;
        }
        ret = post_op(t, iov, n, len, op, flags & FI_READ);
        if (!ret && op->parts == 1 && !op->status && op->flags & FI_COMPLETION) {
            op->usual_owner = ep->tx_cq;
        }
    }
    umfi_unlock(ep->domain);
    return ret;
}

/* A function for each kind: the compiler leaves out the tests of the kind. */
UMFI_RARE ssize_t read_op(struct transfer *t, const struct iovec *iov, size_t n,
                          void *context, uint64_t flags)
{
    return any_op(t, iov, n, context, (flags & ~FI_WRITE) | FI_READ);
}

UMFI_RARE ssize_t write_op(struct transfer *t, const struct iovec *iov, size_t n,
                           void *context, uint64_t flags)
{
    return any_op(t, iov, n, context, (flags & ~FI_READ) | FI_WRITE);
}

static ssize_t rma_op(struct transfer *t, const struct iovec *iov, size_t n,
                      void *context, uint64_t flags)
{
    return flags & FI_READ ? read_op(t, iov, n, context, flags) :
        write_op(t, iov, n, context, flags);
}

/* Of one remote range; the flags are those of the endpoint. */
static ssize_t simple_op(struct fid_ep *fid, const struct iovec *iov, size_t n,
                         uint64_t address, uint64_t key, uint64_t data, void *context,
                         uint64_t flags)
{
    struct umfi_ep *ep = umfi_of(fid, struct umfi_ep, fid);
    struct transfer t = {
        .ep = ep, .key = key, .address = address, .data = (uint32_t)data,
    };

    return rma_op(&t, iov, n, context, flags | ep->tx_flags | ep->tx_completion);
}

static ssize_t message_op(struct fid_ep *fid, const struct fi_msg_rma *msg,
                          uint64_t flags)
{
    struct umfi_ep *ep = umfi_of(fid, struct umfi_ep, fid);
    struct transfer t = { .ep = ep, .data = (uint32_t)msg->data };

    if (msg->rma_iov_count != 1) {
        return -FI_EINVAL;
    }
    t.key = msg->rma_iov->key;
    t.address = msg->rma_iov->addr;
    return rma_op(&t, msg->msg_iov, msg->iov_count, msg->context,
                  flags | ep->tx_completion);
}

/* A copy, of whose completion the program hears only by the end of the channel. */
static ssize_t inject_write_op(struct fid_ep *fid, const void *buf, size_t len,
                               uint64_t address, uint64_t key, uint64_t data, uint64_t flags)
{
    const struct iovec iov = { (void *)(uintptr_t)buf, len };
    struct transfer t = {
        .ep = umfi_of(fid, struct umfi_ep, fid), .key = key, .address = address,
        .data = (uint32_t)data,
    };

    return rma_op(&t, &iov, 1, NULL, flags | FI_WRITE | FI_INJECT);
}

static ssize_t rma_read(struct fid_ep *fid, void *buf, size_t len, void *desc,
                        fi_addr_t from, uint64_t address, uint64_t key, void *context)
{
    const struct iovec iov = { buf, len };

    return simple_op(fid, &iov, 1, address, key, 0, context, FI_READ);
}

static ssize_t rma_readv(struct fid_ep *fid, const struct iovec *iov, void **desc,
                         size_t n, fi_addr_t from, uint64_t address, uint64_t key,
                         void *context)
{
    return simple_op(fid, iov, n, address, key, 0, context, FI_READ);
}

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg,
                           uint64_t flags)
{
    return message_op(fid, msg, flags | FI_READ);
}

static ssize_t rma_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
                         fi_addr_t to, uint64_t address, uint64_t key, void *context)
{
    const struct iovec iov = { (void *)(uintptr_t)buf, len };

    return simple_op(fid, &iov, 1, address, key, 0, context, FI_WRITE);
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **desc,
                          size_t n, fi_addr_t to, uint64_t address, uint64_t key,
                          void *context)
{
    return simple_op(fid, iov, n, address, key, 0, context, FI_WRITE);
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg,
                            uint64_t flags)
{
    return message_op(fid, msg, flags | FI_WRITE);
}

static ssize_t rma_inject(struct fid_ep *fid, const void *buf, size_t len,
                          fi_addr_t to, uint64_t address, uint64_t key)
{
    return inject_write_op(fid, buf, len, address, key, 0, 0);
}

static ssize_t rma_writedata(struct fid_ep *fid, const void *buf, size_t len,
                             void *desc, uint64_t data, fi_addr_t to, uint64_t address,
                             uint64_t key, void *context)
{
    const struct iovec iov = { (void *)(uintptr_t)buf, len };

    return simple_op(fid, &iov, 1, address, key, data, context,
                     FI_WRITE | FI_REMOTE_CQ_DATA);
}

static ssize_t rma_injectdata(struct fid_ep *fid, const void *buf, size_t len,
                              uint64_t data, fi_addr_t to, uint64_t address,
                              uint64_t key)
{
    return inject_write_op(fid, buf, len, address, key, data, FI_REMOTE_CQ_DATA);
}

struct fi_ops_rma umfi_rma_ops = {
    .size = sizeof(umfi_rma_ops),
    .read = rma_read,
    .readv = rma_readv,
    .readmsg = rma_readmsg,
    .write = rma_write,
    .writev = rma_writev,
    .writemsg = rma_writemsg,
    .inject = rma_inject,
    .writedata = rma_writedata,
    .injectdata = rma_injectdata,
};
