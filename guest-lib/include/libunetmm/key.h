/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Operations by key: on a peer's memory without an import, by the exporter's addresses.
 * Part of libunetmm.h.
 */
#ifndef LIBUNETMM_KEY_H
#define LIBUNETMM_KEY_H

#include <libunetmm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The key of an export with UNETMM_EXPORT_KEYED or _WHOLE, and the address of its first byte */
int unetmm_export_key(struct unetmm_ctx *ctx, uint64_t id, uint64_t *key,
                      uint64_t *base);

/*
 * unetmm_write() and the others with a key and an address of the peer.  A channel ends when
 * wrong keys were used on it UNETMM_BAD_KEYS times.  unetmm_export_key(3)
 */
int unetmm_write_key(struct unetmm_ep *ep, int channel, uint64_t key,
                     uint64_t remote_addr, const void *buf, size_t len,
                     uint32_t imm, uint64_t user_data, unsigned flags);

int unetmm_writev_key(struct unetmm_ep *ep, int channel, uint64_t key,
                      uint64_t remote_addr, const struct iovec *iov,
                      unsigned n, uint32_t imm, uint64_t user_data,
                      unsigned flags);

int unetmm_read_key(struct unetmm_ep *ep, int channel, uint64_t key,
                    uint64_t remote_addr, void *buf, size_t len,
                    uint64_t user_data, unsigned flags);

int unetmm_readv_key(struct unetmm_ep *ep, int channel, uint64_t key,
                     uint64_t remote_addr, const struct iovec *iov,
                     unsigned n, uint64_t user_data, unsigned flags);

int unetmm_fetch_add_key(struct unetmm_ep *ep, int channel, uint64_t key,
                         uint64_t remote_addr, uint64_t add,
                         uint64_t user_data, unsigned flags);

int unetmm_cmp_swap_key(struct unetmm_ep *ep, int channel, uint64_t key,
                        uint64_t remote_addr, uint64_t compare, uint64_t swap,
                        uint64_t user_data, unsigned flags);

#define UNETMM_BAD_KEYS         8u

#ifdef __cplusplus
}
#endif

#endif /* LIBUNETMM_KEY_H */
