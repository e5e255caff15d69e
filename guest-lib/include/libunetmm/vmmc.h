/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory of a peer: export and import, and operations on an import.  Part of libunetmm.h. */
#ifndef LIBUNETMM_VMMC_H
#define LIBUNETMM_VMMC_H

#include <libunetmm.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Lets peers with a reliable channel use [addr, addr + length) by UNETMM_RIGHT_*; flags:
 * UNETMM_EXPORT_*.
 */
int unetmm_export(struct unetmm_ctx *ctx, uint64_t id, void *addr,
                  size_t length, unsigned rights, unsigned flags,
                  uint64_t user_data);

/* Ends an export: nothing is written or read through it any more.  unetmm_export(3) */
int unetmm_unexport(struct unetmm_ctx *ctx, uint64_t id);

/* ---- Where an export lands ---------------------------------------------- */

/* The result of unetmm_redirect() and unetmm_redirect_back(). */
struct unetmm_redirected {
    uint64_t copied;            /* bytes */
    unsigned pieces;            /* in so many pieces; 0: nothing had landed */
};

/*
 * Moves where a part of an export with UNETMM_EXPORT_REDIRECT lands, with the bytes that have
 * landed; `copied` (or NULL) gets the size of the copy.
 */
int unetmm_redirect(struct unetmm_ctx *ctx, uint64_t id, uint64_t offset,
                    void *to, size_t length, struct unetmm_redirected *copied);

/* Later data lands in the export's own memory.  unetmm_redirect(3) */
int unetmm_redirect_end(struct unetmm_ctx *ctx, uint64_t id, uint64_t offset);

/* The same, and copies the data behind the first `keep` bytes back. */
int unetmm_redirect_back(struct unetmm_ctx *ctx, uint64_t id, uint64_t offset,
                         size_t keep, struct unetmm_redirected *copied);

/* ---- Import ------------------------------------------------------------- */

/* Imports the export `id` of the peer at the other end of a channel: the import's number. */
int unetmm_import(struct unetmm_ep *ep, int channel, uint64_t id,
                  unsigned rights, int64_t timeout_ns, uint64_t *length);

/* Gives the number back; operations that have not begun fail.  unetmm_import(3) */
int unetmm_unimport(struct unetmm_ep *ep, int import);

/* ---- Operations -------------------------------------------------------- */

/* Flag of unetmm_write() and unetmm_writev(): a notification, with `imm` */
#define UNETMM_NOTIFY           0x10u
/* or: adds 1 to the peer's event counter, which is number `imm` of the export */
#define UNETMM_COUNT            0x20u
/* or: a completion of type UNETMM_CQE_WRITTEN with `imm`, which takes a free buffer */
#define UNETMM_IMM              0x80u

/*
 * Writes to `offset` in an import from `n` pieces, the card's until the completion
 * (UNETMM_CQE_SENT).  -EAGAIN: the queue is full.  unetmm_write(3) has all operations.
 */
int unetmm_writev(struct unetmm_ep *ep, int import,
                  uint64_t offset, const struct iovec *iov,
                  unsigned n, uint32_t imm, uint64_t user_data,
                  unsigned flags);

/* The same from one piece of memory. */
int unetmm_write(struct unetmm_ep *ep, int import,
                 uint64_t offset, const void *buf, size_t len,
                 uint32_t imm, uint64_t user_data, unsigned flags);

/* Reads from `offset` in an import into `n` pieces. */
int unetmm_readv(struct unetmm_ep *ep, int import,
                 uint64_t offset, const struct iovec *iov,
                 unsigned n, uint64_t user_data, unsigned flags);

int unetmm_read(struct unetmm_ep *ep, int import,
                uint64_t offset, void *buf, size_t len,
                uint64_t user_data, unsigned flags);

/* Adds to the 8 bytes at `offset`, a multiple of 8 at the peer, once. */
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

/* Of a completion of type UNETMM_CQE_NOTIFY: where in the export, and the writer's `imm` */
uint64_t unetmm_notify_offset(const struct unetmm_completion *c);

uint32_t unetmm_notify_imm(const struct unetmm_completion *c);

/* ---- As a function that returns when it is done ------------------------ */

/* User data from here up is the library's, in the calls below. */
#define UNETMM_SYNC_USER_DATA   0xffffffff00000000ull

/*
 * unetmm_write() whose source may be reused when it returns: 0, or unetmm_status_errno().
 * Completions that come meanwhile are kept.  unetmm_write(3)
 */
int unetmm_write_sync(struct unetmm_ep *ep, int import, uint64_t offset,
                      const void *buf, size_t len, uint32_t imm,
                      unsigned flags, int64_t timeout_ns);

/* unetmm_read() that returns when the bytes are there. */
int unetmm_read_sync(struct unetmm_ep *ep, int import, uint64_t offset,
                     void *buf, size_t len, int64_t timeout_ns);

/* ---- Notifications ----------------------------------------------------- */

/* Sets the handler of the notifications of exports with `user_data`; NULL: none. */
int unetmm_set_notify_handler(struct unetmm_ep *ep, uint64_t user_data,
                              unetmm_handler handler, void *arg);

#ifdef __cplusplus
}
#endif

#endif /* LIBUNETMM_VMMC_H */
