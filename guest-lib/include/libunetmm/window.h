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
    uint32_t combine_ns;        /* the card waits so long for more; or 0 */
};

#define UNETMM_WINDOW_ATTR_INIT \
    { sizeof(struct unetmm_window_attr), UNETMM_MAX_INLINE, 5000 }

/*
 * Maps `bytes` bytes, whole pages: stores there are writes to the import from `offset` on.
 * `attr` NULL stands for UNETMM_WINDOW_ATTR_INIT.
 */
int unetmm_window_open(struct unetmm_ep *ep, int import, uint64_t offset,
                       size_t bytes, const struct unetmm_window_attr *attr,
                       void **window);

/* Unmaps a mapping of this header.  unetmm_window_open(3) */
int unetmm_window_close(struct unetmm_ep *ep, void *window);

/* Copies into a window, by stores that it understands. */
void unetmm_window_copy(void *window, const void *from, size_t bytes);

/* Posts a mark whose completion says that the peer has all that was stored or posted before. */
int unetmm_fence(struct unetmm_ep *ep, int channel,
                 uint64_t user_data, unsigned flags);

/* ---- Proxy pages: user-level DMA start --------------------------------- */

/* Pages that stand for the import from `offset` on, and for the process's own memory. */
int unetmm_udma_to(struct unetmm_ep *ep, int import, uint64_t offset,
                   size_t bytes, void **to);
int unetmm_udma_from(struct unetmm_ep *ep, void *memory, size_t bytes,
                     void **from);

/*
 * Writes from the memory behind `from` to that behind `to`, within a page of each side.
 * unetmm_udma_to(3)
 */
int unetmm_udma_start(void *to, const void *from, uint32_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* LIBUNETMM_WINDOW_H */
