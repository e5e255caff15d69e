/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory of a peer: export and import, and operations on an import.
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
 * `user_data`, on the endpoint that the peer's channel leads to; with
 * UNETMM_EXPORT_REDIRECT, unetmm_redirect() can be used.
 *
 * Exports may overlap, but not with source pinned, and not one that has
 * UNETMM_EXPORT_REDIRECT with any other.
 *
 * -EEXIST: the id is in use, or part of the memory is in an export that this one
 * may not overlap (source pinned: or registered).  -ENOSPC: too many.  -EFAULT: not mapped, or not with such rights.
 * -ENOMEM: so much may not be pinned.  -EOPNOTSUPP: the card, the source or this
 * kind of memory cannot be exported.  -EAGAIN: its mapping changes all the time, or
 * (source utlb) messages in progress must first release pages that they use.
 */
int unetmm_export(struct unetmm_ctx *ctx, uint64_t id, void *addr,
                  size_t length, unsigned rights, unsigned flags,
                  uint64_t user_data);

/*
 * Ends an export.  When it returns nothing is written or read through it any
 * more; operations in progress fail at the peer with UNETMM_ST_REVOKED.
 */
int unetmm_unexport(struct unetmm_ctx *ctx, uint64_t id);

/* ---- Where an export lands ---------------------------------------------- */

/* The result of unetmm_redirect() and unetmm_redirect_back(). */
struct unetmm_redirected {
    uint64_t copied;            /* bytes */
    unsigned pieces;            /* in so many pieces; 0: nothing had landed */
};

/*
 * Moves where [offset, offset + length) of an export with UNETMM_EXPORT_REDIRECT
 * lands: to `to`, any memory of the process, of any alignment.  The call copies to
 * `to` the data that has landed in the export's own memory since it was last moved
 * from there.  Later data is written to `to` directly; peers' reads and atomics use
 * `to`, too.  `copied` (may be NULL) gets the size of the copy: all data that had
 * landed, and possibly some bytes around it, which then have in `to` the contents of
 * the export's memory.  Peers wait during the copy.
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
                    void *to, size_t length, struct unetmm_redirected *copied);

/*
 * Ends the redirection that began at `offset`.  When it returns nothing lands in the
 * redirection's memory any more, which keeps the data that landed there.  Later data
 * lands in the export's own memory.  -ENOENT: there is no such redirection.
 */
int unetmm_redirect_end(struct unetmm_ctx *ctx, uint64_t id, uint64_t offset);

/*
 * The same for a caller that cannot know how much data has landed.  Landed data,
 * except in the first `keep` bytes of the part, is copied to the export's own memory,
 * as if it had never been redirected.  -ENOENT: there is no such redirection.
 * -EINVAL: `keep` is more than its length.
 */
int unetmm_redirect_back(struct unetmm_ctx *ctx, uint64_t id, uint64_t offset,
                         size_t keep, struct unetmm_redirected *copied);

/* ---- Import ------------------------------------------------------------- */

/*
 * Imports the export `id` of the peer at the other end of a reliable channel, and
 * waits until the peer has made it (timeout 0: as long as the peer's driver takes to
 * answer).  `rights` are those needed; 0: any.  Returns the import's number in the
 * endpoint; `length` (may be NULL) is how many bytes it has.
 *
 * -ETIMEDOUT: there is no such export.
 * -EHOSTUNREACH: no answer.  -EACCES: not exported for that.  -EPROTOTYPE: not a
 * reliable channel.  -ENOTCONN: the channel has ended.  -ENOENT: no such channel.
 * -ENOSPC: imports are used up.  -EOPNOTSUPP: the card can't.
 */
int unetmm_import(struct unetmm_ep *ep, int channel, uint64_t id,
                  unsigned rights, int64_t timeout_ns, uint64_t *length);

/* Gives the number back.  Operations that have not begun fail. */
int unetmm_unimport(struct unetmm_ep *ep, int import);

/* ---- Operations -------------------------------------------------------- */

/* Flag of unetmm_write() and unetmm_writev(): a notification, with `imm` */
#define UNETMM_NOTIFY           0x10u
/* or: adds 1 to the peer's event counter, which is number `imm` of the export */
#define UNETMM_COUNT            0x20u
/*
 * Flag of the same calls: when the write has been placed, the peer has a completion of type
 * UNETMM_CQE_WRITTEN with `imm`, the length and UNETMM_CQE_F_IMM, on the endpoint that
 * the channel leads to, in order with the messages of the channel.  It takes the next
 * free buffer there, whose user_data it has, and returns it unfilled.  While there is no
 * buffer the write waits as a message does.
 */
#define UNETMM_IMM              0x80u

/*
 * Writes, to `offset` in an import, data gathered from `n` pieces of memory.
 * The completion (type UNETMM_CQE_SENT) says that it is in the peer's memory; until
 * then the pieces stay as they are, unless all are short and copied, as with
 * unetmm_send().  Flags: UNETMM_MORE, _UNSIGNALED, _INLINE as there, and one of
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
int unetmm_writev(struct unetmm_ep *ep, int import,
                  uint64_t offset, const struct iovec *iov,
                  unsigned n, uint32_t imm, uint64_t user_data,
                  unsigned flags);

/* The same from one piece of memory. */
int unetmm_write(struct unetmm_ep *ep, int import,
                 uint64_t offset, const void *buf, size_t len,
                 uint32_t imm, uint64_t user_data, unsigned flags);

/*
 * Reads from `offset` in an import into `n` pieces of memory, which are the
 * card's until the completion: one byte at least.  Flags: UNETMM_MORE, _UNSIGNALED.
 */
int unetmm_readv(struct unetmm_ep *ep, int import,
                 uint64_t offset, const struct iovec *iov,
                 unsigned n, uint64_t user_data, unsigned flags);

int unetmm_read(struct unetmm_ep *ep, int import,
                uint64_t offset, void *buf, size_t len,
                uint64_t user_data, unsigned flags);

/*
 * Adds to the 8 bytes at `offset`, which the peer has at a multiple of 8, as one
 * operation that happens exactly once.  They are little-endian.  unetmm_old_value()
 * of the completion is the value before.  Flags: UNETMM_MORE, _UNSIGNALED.
 */
int unetmm_fetch_add(struct unetmm_ep *ep, int import,
                     uint64_t offset, uint64_t add,
                     uint64_t user_data, unsigned flags);

/* The same, storing `swap` if `compare` was there. */
int unetmm_cmp_swap(struct unetmm_ep *ep, int import,
                    uint64_t offset, uint64_t compare,
                    uint64_t swap, uint64_t user_data,
                    unsigned flags);

/* Of the completion of an atomic: the value before the operation. */
uint64_t unetmm_old_value(const struct unetmm_completion *c);

/*
 * Of a completion of type UNETMM_CQE_NOTIFY, with the export's user_data: where in the
 * export c->len bytes were written, and the writer's `imm`.
 */
uint64_t unetmm_notify_offset(const struct unetmm_completion *c);

uint32_t unetmm_notify_imm(const struct unetmm_completion *c);

/* ---- As a function that returns when it is done ------------------------ */

/* User data from here up is the library's, in the calls below. */
#define UNETMM_SYNC_USER_DATA   0xffffffff00000000ull

/*
 * unetmm_write() whose source may be reused when it returns.  Short data is copied
 * and sent later, and the call returns 0; if the write then fails, there is a
 * completion with a user_data of the library.  Otherwise its completion is waited
 * for, and 0 returned, or its status as unetmm_status_errno() gives it.
 *
 * Other completions that come meanwhile are kept, for unetmm_poll() and all others
 * that take some, in their order.  -ETIMEDOUT, -EINTR, -ENOMEM: not waited for any
 * longer; the source is in use until the endpoint is destroyed.  Others as
 * unetmm_write(), but a queue that is full is waited for, too.
 */
int unetmm_write_sync(struct unetmm_ep *ep, int import, uint64_t offset,
                      const void *buf, size_t len, uint32_t imm,
                      unsigned flags, int64_t timeout_ns);

/* unetmm_read() that returns when the bytes are there: results as above. */
int unetmm_read_sync(struct unetmm_ep *ep, int import, uint64_t offset,
                     void *buf, size_t len, int64_t timeout_ns);

/* ---- Notifications ----------------------------------------------------- */

/*
 * Sets the handler of the notifications of the exports with `user_data`, on this
 * endpoint; it goes before the channel's and the endpoint's.  NULL for none.  All
 * that is said at unetmm_set_handler() and unetmm_handlers_block() holds for it.
 * -ENOMEM.
 */
int unetmm_set_notify_handler(struct unetmm_ep *ep, uint64_t user_data,
                              unetmm_handler handler, void *arg);

#ifdef __cplusplus
}
#endif

#endif /* LIBUNETMM_VMMC_H */
