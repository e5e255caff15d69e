/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Two ways to write to an import without a descriptor: automatic update, and
 * user-level DMA start.  Part of libunetmm.h.
 */
#ifndef LIBUNETMM_WINDOW_H
#define LIBUNETMM_WINDOW_H

#include <libunetmm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Windows: automatic update ----------------------------------------- */

struct unetmm_window_attr {
    uint32_t size;              /* sizeof(struct unetmm_window_attr) */
    uint32_t combine_bytes;     /* of one packet, 0..224; 0: do not combine */
    uint32_t combine_ns;        /* it waits so long for more; 0 with 0 bytes */
};

#define UNETMM_WINDOW_ATTR_INIT \
    { sizeof(struct unetmm_window_attr), UNETMM_MAX_INLINE, 5000 }

/*
 * Maps `bytes` bytes, whole pages, that stand for those of the import from
 * `offset` on (SHRIMP's automatic update): the card writes each store of 1 to 8
 * bytes to the peer's memory, in the order of the stores and behind all that was
 * posted on the import's channel before.  The peer may see a store before an earlier one
 * whose packet was lost, or whose page was absent.  Loads return this side's own stores.
 * `attr` NULL stands for UNETMM_WINDOW_ATTR_INIT.
 */
int unetmm_window_open(struct unetmm_ep *ep, int import, uint64_t offset,
                       size_t bytes, const struct unetmm_window_attr *attr,
                       void **window);

/*
 * Unmaps a mapping of unetmm_window_open(), _udma_to() or _udma_from().  A
 * thread that still stores there has a fault; all that it stored before goes.
 */
int unetmm_window_close(struct unetmm_ep *ep, void *window);

/* Copies into a window, by stores that it understands. */
void unetmm_window_copy(void *window, const void *from, size_t bytes);

/*
 * Posts a mark behind all that was stored in windows of the channel, started or
 * posted on it.  Its completion (UNETMM_CQE_SENT) says that the peer has all of it.
 * Flags: UNETMM_MORE, _UNSIGNALED.  -EAGAIN: the queue is full.  -ENOENT: no such
 * channel.
 */
int unetmm_fence(struct unetmm_ep *ep, int channel,
                 uint64_t user_data, unsigned flags);

/* ---- Proxy pages: user-level DMA start --------------------------------- */

/*
 * Pages that stand for the import from `offset` on, and for the process's own
 * memory (SHRIMP's proxy spaces); both begin at a page.  -EOPNOTSUPP: source utlb,
 * which does not pin memory for transfers that a store and a load start.
 */
int unetmm_udma_to(struct unetmm_ep *ep, int import, uint64_t offset,
                   size_t bytes, void **to);
int unetmm_udma_from(struct unetmm_ep *ep, void *memory, size_t bytes,
                     void **from);

/*
 * Writes from the memory that `from` stands for to the import's memory that `to`
 * stands for, by one store and one load; neither side may cross a page.  A pair with
 * another access between is repeated.  -EAGAIN: the channel has as many messages as
 * it can, or other accesses split all pairs.  -EINVAL: length, or the channel has
 * failed.
 */
int unetmm_udma_start(void *to, const void *from, uint32_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* LIBUNETMM_WINDOW_H */
