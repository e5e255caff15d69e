/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory of a peer: export and import, and what can be done with an import.
 * Part of libunetmm.h, which includes it.
 *
 * A process exports memory that it has, under a number of its own.  A peer with
 * a reliable channel to one of its endpoints imports it there, and from then on
 * writes, reads and changes it without the exporter's doing anything.
 */
#ifndef LIBUNETMM_VMMC_H
#define LIBUNETMM_VMMC_H

#include <libunetmm.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Lets peers use [addr, addr + length), of any alignment and mapped already:
 * those with a reliable channel to an endpoint of this context.  `rights` are
 * UNETMM_RIGHT_WRITE, _READ, _ATOMIC.  With UNETMM_EXPORT_NOTIFY in `flags`, a
 * write that asks for it has a completion of type UNETMM_CQE_NOTIFY here, with
 * `cookie`, on the endpoint that the peer's channel leads to; with
 * UNETMM_EXPORT_REDIRECT, unetmm_redirect() can be used.
 *
 * -EEXIST: the id is in use, or part of the memory is exported (source pinned: or
 * registered).  -ENOSPC: too many.  -EFAULT: not mapped, or not with such rights.
 * -ENOMEM: so much may not be pinned.  -EOPNOTSUPP: the card, the source or this
 * kind of memory cannot be exported.  -EAGAIN: it changes all the time, or (source
 * utlb) what messages on their way use has to be let go first.
 */
int unetmm_export(struct unetmm_ctx *ctx, uint64_t id, void *addr,
                  size_t length, unsigned rights, unsigned flags,
                  uint64_t cookie);

/*
 * Ends an export.  When it returns nothing is written or read through it any
 * more; what is under way fails at the peer, with UNETMM_ST_REVOKED.
 */
int unetmm_unexport(struct unetmm_ctx *ctx, uint64_t id);

/* ---- Where an export lands ---------------------------------------------- */

/* What unetmm_redirect() and unetmm_redirect_back() did. */
struct unetmm_redirected {
    uint64_t copied;            /* bytes */
    unsigned pieces;            /* in so many pieces; 0: nothing had landed */
};

/*
 * Moves where [offset, offset + length) of an export with UNETMM_EXPORT_REDIRECT
 * lands: to `to`, any memory of the process, of any alignment.  What had landed in
 * the export's own memory (since it was last moved from there) is in `to` when it
 * returns, and what comes later goes there directly; peers read and change it
 * there, too.  `what` (may be NULL) says what was copied: all that had landed, and
 * possibly some bytes round it, whose contents in `to` are those of the export's
 * memory then.  While it copies, peers wait.
 *
 * A word that peers change atomically must be in one piece, and at a multiple of
 * 8, in the new place, too.
 *
 * -ENOENT: no such export.  -EINVAL: not a part of it.  -EEXIST: some of the part
 * has moved already; or some of `to` is exported, or another part's place (source
 * pinned: or registered in part).  -ENOSPC: UNETMM_REDIRECTS parts of the export
 * have moved.  -EFAULT: `to` is not mapped, or not with the export's rights.
 * -ENOMEM: so much may not be pinned.  -EOPNOTSUPP: exported without the flag; this
 * source, or this kind of memory, can't.
 */
int unetmm_redirect(struct unetmm_ctx *ctx, uint64_t id, uint64_t offset,
                    void *to, size_t length, struct unetmm_redirected *what);

/*
 * Ends what began at `offset`.  When it returns nothing lands in its memory any
 * more, which has what has landed until then; what comes later lands in the
 * export's own.  -ENOENT: there is none.
 */
int unetmm_redirect_end(struct unetmm_ctx *ctx, uint64_t id, uint64_t offset);

/*
 * The same for one who cannot know what has landed until then: what has, but for
 * the first `keep` bytes of the part, is copied to the export's own memory, where
 * it is as if it had never been elsewhere.  -ENOENT: there is none.  -EINVAL: keep
 * is more than its length.
 */
int unetmm_redirect_back(struct unetmm_ctx *ctx, uint64_t id, uint64_t offset,
                         size_t keep, struct unetmm_redirected *what);

/* ---- Import ------------------------------------------------------------- */

/*
 * Imports what the peer at the other end of a reliable channel has exported as
 * `id`, waiting until it has (timeout 0: as long as the peer's driver takes to
 * answer).  `rights` are those needed; 0: any.  Returns the import's number in the
 * endpoint; `length` (may be NULL) is how many bytes it has.
 *
 * -EAGAIN: there is no such export (timeout 0).  -ETIMEDOUT: nor by then.
 * -EHOSTUNREACH: no answer.  -EACCES: not exported for that.  -EPROTOTYPE: not a
 * reliable channel.  -ENOTCONN: the channel has ended.  -ENOENT: no such channel.
 * -ENOSPC: imports are used up.  -EOPNOTSUPP: the card can't.
 */
int unetmm_import(struct unetmm_ep *ep, unsigned channel, uint64_t id,
                  unsigned rights, int64_t timeout_ns, uint64_t *length);

/* Gives the number back.  Operations that have not begun fail. */
int unetmm_unimport(struct unetmm_ep *ep, unsigned import);

/* ---- Operations -------------------------------------------------------- */

/* Flag of unetmm_write() and unetmm_writev(): a notification, with `imm` */
#define UNETMM_NOTIFY           0x10u
/* or: adds 1 to the peer's event counter, which is number `imm` of the export */
#define UNETMM_COUNT            0x20u

struct unetmm_op_ {
    unsigned import;
    uint64_t offset;
    uint64_t cookie;
    unsigned flags;
    uint32_t imm;
    uint8_t opcode;
    uint8_t right;
};

/* Source utlb, private: as unetmm_utlb_send_(). */
int unetmm_utlb_op_(struct unetmm_ep *ep, const struct unetmm_op_ *op,
                    const struct iovec *iov, unsigned n, uint64_t *cookie,
                    unsigned *flags);

/* What can be known to be wrong here is; the card and the peer look again. */
static inline int unetmm_op_check_(const struct unetmm_ep *ep,
                                   const struct unetmm_op_ *op, size_t len)
{
    const struct unetmm_import_record *record;
    uint64_t length;

    if (op->import >= ep->nimports) {
        return -ENOENT;
    }
    record = &ep->imports[op->import];
    length = __atomic_load_n(&record->length, __ATOMIC_ACQUIRE);
    if (!length) {
        return -ENOENT;
    }
    if (!(record->rights & op->right)) {
        return -EACCES;
    }
    if (op->offset > length || len > length - op->offset) {
        return -ERANGE;
    }
    return 0;
}

static inline int unetmm_op_post_(struct unetmm_ep *ep,
                                  const struct unetmm_op_ *op,
                                  const struct iovec *iov, unsigned n,
                                  size_t len, int is_inline)
{
    uint32_t slots = 1 + (is_inline ? unetmm_inline_slots_(len) :
                                      unetmm_seg_slots_(n));
    uint64_t cookie = op->cookie;
    unsigned flags = op->flags;
    struct unetmm_sqe *sqe;

    if (!unetmm_sq_has_room_(ep, slots)) {
        return unetmm_full_(ep);
    }
    if (ep->utlb) {
        /* Copies, so that otherwise all of this can stay in registers */
        struct iovec pieces[UNETMM_MAX_SEGS];
        const struct unetmm_op_ copy = *op;
        unsigned pinned = is_inline ? 0 : n, new_flags = flags;
        uint64_t new_cookie = cookie;
        int ret;

        pieces[0].iov_len = 0;
        memcpy(pieces, iov, pinned * sizeof(*iov));
        ret = unetmm_utlb_op_(ep, &copy, pieces, pinned, &new_cookie,
                              &new_flags);
        if (ret) {
            return ret == -EAGAIN ? unetmm_full_(ep) : ret;
        }
        cookie = new_cookie;
        flags = new_flags;
    }
    unetmm_put_sqe_(ep, ep->sq_prod, ep->imports[op->import].channel, cookie,
                    flags);
    sqe = (struct unetmm_sqe *)(void *)unetmm_slot_(ep, ep->sq_prod);
    sqe->opcode = op->opcode;
    sqe->handle = unetmm_swap32(op->import);
    sqe->remote = unetmm_swap64(op->offset);
    if (op->flags & UNETMM_NOTIFY) {
        sqe->flags |= UNETMM_SQE_F_NOTIFY;
        sqe->imm = unetmm_swap32(op->imm);
    } else if (op->flags & UNETMM_COUNT) {
        sqe->flags |= UNETMM_SQE_F_COUNT;
        sqe->imm = unetmm_swap32(op->imm);
    }
    if (is_inline) {
        sqe->flags |= UNETMM_SQE_F_INLINE;
        sqe->inline_len = (unetmm_u8)len;
        unetmm_put_inline_(ep, ep->sq_prod, iov, n);
    } else {
        sqe->nsegs = (unetmm_u8)n;
        unetmm_put_segs_(ep, ep->sq_prod, iov, n);
    }
    ep->sq_prod += slots;
    unetmm_write_index(&ep->index->user.sq_prod, ep->sq_prod);
    unetmm_ring_unless_more_(ep, op->flags & UNETMM_MORE);
    return 0;
}

/* WRITE and READ: `can_inline` says which. */
static inline int unetmm_op_move_(struct unetmm_ep *ep,
                                  const struct unetmm_op_ *op,
                                  const struct iovec *iov, unsigned n,
                                  int can_inline)
{
    size_t limit = op->flags & UNETMM_INLINE ? UNETMM_MAX_INLINE :
        UNETMM_MAX_MESSAGE;
    size_t len;
    int ret;

    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    if (n > UNETMM_MAX_SEGS) {
        return -EINVAL;
    }
    len = unetmm_iov_length_(iov, n, limit);
    if (len > limit) {
        return -EMSGSIZE;
    }
    if (!len && !can_inline) {
        return -EINVAL;
    }
    ret = unetmm_op_check_(ep, op, len);
    if (ret) {
        return ret;
    }
    return unetmm_op_post_(ep, op, iov, n, len, can_inline &&
                           (op->flags & UNETMM_INLINE ||
                            len <= ep->inline_max));
}

/* `imm` goes with a notification or with a count, not with both or neither. */
static inline int unetmm_write_flags_ok_(unsigned flags, uint32_t imm)
{
    const unsigned both = UNETMM_NOTIFY | UNETMM_COUNT;

    return !(flags & ~(UNETMM_SEND_FLAGS | both)) && (flags & both) != both &&
        (!imm || flags & both);
}

/*
 * Writes, to `offset` in an import, what is gathered from `n` pieces of memory.
 * The completion (type UNETMM_CQE_SENT) says that it is in the peer's memory; until
 * then the pieces stay as they are, unless all are short and copied, as with
 * unetmm_send().  Flags: UNETMM_MORE, _QUIET, _INLINE as there, and one of
 * UNETMM_NOTIFY and UNETMM_COUNT.
 *
 * Bytes of several writes are there in whichever order, and notifications and counts
 * after all that was written on the channel before.
 *
 * -EAGAIN: the queue is full.  -ENOENT: no such import.  -EACCES: not imported
 * for that.  -ERANGE: beyond its end.  -EMSGSIZE: over 4 MiB, or 224 bytes with
 * UNETMM_INLINE.  -EINVAL: too many pieces, unknown flag.  -EIO: the endpoint was
 * stopped.
 */
static inline int unetmm_writev(struct unetmm_ep *ep, unsigned import,
                                uint64_t offset, const struct iovec *iov,
                                unsigned n, uint32_t imm, uint64_t cookie,
                                unsigned flags)
{
    const struct unetmm_op_ op = { import, offset, cookie, flags, imm,
                                   UNETMM_OP_WRITE, UNETMM_RIGHT_WRITE };

    if (ep->alive && !unetmm_write_flags_ok_(flags, imm)) {
        return -EINVAL;
    }
    return unetmm_op_move_(ep, &op, iov, n, 1);
}

/* The same from one piece of memory. */
static inline int unetmm_write(struct unetmm_ep *ep, unsigned import,
                               uint64_t offset, const void *buf, size_t len,
                               uint32_t imm, uint64_t cookie, unsigned flags)
{
    struct iovec iov;

    iov.iov_base = (void *)(uintptr_t)buf;
    iov.iov_len = len;
    return unetmm_writev(ep, import, offset, &iov, 1, imm, cookie, flags);
}

/*
 * Reads from `offset` in an import into `n` pieces of memory, which are the
 * card's until the completion: one byte at least.  Flags: UNETMM_MORE, _QUIET.
 */
static inline int unetmm_readv(struct unetmm_ep *ep, unsigned import,
                               uint64_t offset, const struct iovec *iov,
                               unsigned n, uint64_t cookie, unsigned flags)
{
    const struct unetmm_op_ op = { import, offset, cookie, flags, 0,
                                   UNETMM_OP_READ, UNETMM_RIGHT_READ };

    if (ep->alive && flags & ~(UNETMM_MORE | UNETMM_QUIET)) {
        return -EINVAL;
    }
    return unetmm_op_move_(ep, &op, iov, n, 0);
}

static inline int unetmm_read(struct unetmm_ep *ep, unsigned import,
                              uint64_t offset, void *buf, size_t len,
                              uint64_t cookie, unsigned flags)
{
    struct iovec iov;

    iov.iov_base = buf;
    iov.iov_len = len;
    return unetmm_readv(ep, import, offset, &iov, 1, cookie, flags);
}

/* Atomics: their operands, inline. */
static inline int unetmm_atomic_(struct unetmm_ep *ep,
                                 const struct unetmm_op_ *op,
                                 const uint64_t *operands, unsigned n)
{
    struct iovec iov;
    int ret;

    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    if (op->flags & ~(UNETMM_MORE | UNETMM_QUIET)) {
        return -EINVAL;
    }
    ret = unetmm_op_check_(ep, op, sizeof(*operands));
    if (ret) {
        return ret;
    }
    iov.iov_base = (void *)(uintptr_t)operands;
    iov.iov_len = n * sizeof(*operands);
    return unetmm_op_post_(ep, op, &iov, 1, iov.iov_len, 1);
}

/*
 * Adds to the 8 bytes at `offset`, which the peer has at a multiple of 8, as one
 * operation that happens exactly once.  They are little-endian.  What was there
 * before is unetmm_old_value() of the completion.  Flags: UNETMM_MORE, _QUIET.
 */
static inline int unetmm_fetch_add(struct unetmm_ep *ep, unsigned import,
                                   uint64_t offset, uint64_t add,
                                   uint64_t cookie, unsigned flags)
{
    const struct unetmm_op_ op = { import, offset, cookie, flags, 0,
                                   UNETMM_OP_FETCH_ADD, UNETMM_RIGHT_ATOMIC };
    const uint64_t operands[1] = { unetmm_swap64(add) };

    return unetmm_atomic_(ep, &op, operands, 1);
}

/* The same, storing `swap` if `compare` was there. */
static inline int unetmm_cmp_swap(struct unetmm_ep *ep, unsigned import,
                                  uint64_t offset, uint64_t compare,
                                  uint64_t swap, uint64_t cookie,
                                  unsigned flags)
{
    const struct unetmm_op_ op = { import, offset, cookie, flags, 0,
                                   UNETMM_OP_CMP_SWAP, UNETMM_RIGHT_ATOMIC };
    const uint64_t operands[2] = { unetmm_swap64(compare),
                                   unetmm_swap64(swap) };

    return unetmm_atomic_(ep, &op, operands, 2);
}

/* Of the completion of an atomic: what was there before. */
static inline uint64_t unetmm_old_value(const struct unetmm_completion *c)
{
    uint64_t old;

    memcpy(&old, c->data, sizeof(old));
    return unetmm_swap64(old);
}

/*
 * Of a completion of type UNETMM_CQE_NOTIFY, with the export's cookie: where in the
 * export c->len bytes were written, and what the writer gave as `imm`.
 */
static inline uint64_t unetmm_notify_offset(const struct unetmm_completion *c)
{
    struct unetmm_cqe_notify notify;

    memcpy(&notify, c->data, sizeof(notify));
    return unetmm_swap64(notify.offset);
}

static inline uint32_t unetmm_notify_imm(const struct unetmm_completion *c)
{
    struct unetmm_cqe_notify notify;

    memcpy(&notify, c->data, sizeof(notify));
    return unetmm_swap32(notify.imm);
}

/* ---- As a function that returns when it is done ------------------------ */

/* Cookies from here up are the library's, in the calls below. */
#define UNETMM_SYNC_COOKIE      0xffffffff00000000ull

/*
 * unetmm_write() whose source may be reused when it returns.  What is short enough
 * is copied, and 0 says that it is on its way; if it then fails, there is a
 * completion with a cookie of the library.  Otherwise its completion is waited
 * for, and its status returned: UNETMM_ST_OK (0) or another UNETMM_ST_*.
 *
 * Other completions that come meanwhile are kept, for unetmm_poll() and all others
 * that take some, in their order.  -ETIMEDOUT, -EINTR, -ENOMEM: not waited for any
 * longer; the source is in use until the endpoint is destroyed.  Others as
 * unetmm_write(), but a queue that is full is waited for, too.
 */
int unetmm_write_sync(struct unetmm_ep *ep, unsigned import, uint64_t offset,
                      const void *buf, size_t len, uint32_t imm,
                      unsigned flags, int64_t timeout_ns);

/* unetmm_read() that returns its status when the bytes are there. */
int unetmm_read_sync(struct unetmm_ep *ep, unsigned import, uint64_t offset,
                     void *buf, size_t len, int64_t timeout_ns);

/* ---- Notifications ----------------------------------------------------- */

/*
 * Sets the handler of the notifications of the exports with `cookie`, on this
 * endpoint; it goes before the channel's and the endpoint's.  NULL for none.  All
 * that is said at unetmm_set_handler() and unetmm_handlers_block() holds for it.
 * -ENOMEM.
 */
int unetmm_set_notify_handler(struct unetmm_ep *ep, uint64_t cookie,
                              unetmm_handler handler, void *arg);

#ifdef __cplusplus
}
#endif

#endif /* LIBUNETMM_VMMC_H */
