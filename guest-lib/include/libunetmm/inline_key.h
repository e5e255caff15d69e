/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Operations by key, inline.  Part of inline.h, which has the rules for inline
 * functions.
 */
#ifndef LIBUNETMM_INLINE_H
#include <libunetmm/inline.h>   /* includes this file in its turn */
#endif

#ifndef LIBUNETMM_INLINE_KEY_H
#define LIBUNETMM_INLINE_KEY_H

#ifdef __cplusplus
extern "C" {
#endif

/* This side knows the channel alone; whether the key is right, the peer knows. */
UNETMM_HELPER_ int unetmm_key_check_(const struct unetmm_ep *ep,
                                     int channel, uint64_t key,
                                     unsigned flags, unsigned allowed)
{
    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    if (flags & ~allowed || key >> 48) {
        return -EINVAL;
    }
    return unetmm_mtu_(ep, channel) ? 0 : -ENOENT;
}

UNETMM_HELPER_ unsigned unetmm_key_flags_(uint64_t key, unsigned flags)
{
    return flags | UNETMM_KEYED_ |
        (unsigned)(key >> 32) << UNETMM_REGION_SHIFT_;
}

UNETMM_FAST_ int unetmm_writev_key(struct unetmm_ep *ep, int channel,
                                   uint64_t key, uint64_t remote_addr,
                                   const struct iovec *iov, unsigned n,
                                   uint32_t imm, uint64_t user_data,
                                   unsigned flags)
{
    const struct unetmm_request_ request = {
        user_data, remote_addr, unetmm_key_flags_(key, flags), (uint32_t)key,
        imm, (uint16_t)channel, UNETMM_OP_WRITE,
    };
    int ret = unetmm_key_check_(ep, channel, key, flags, UNETMM_SEND_FLAGS |
                                UNETMM_NOTIFY | UNETMM_COUNT | UNETMM_IMM);

    if (ret) {
        return ret;
    }
    if (!unetmm_write_flags_ok_(flags, imm)) {
        return -EINVAL;
    }
    return unetmm_move_(ep, request, 0, iov, n);
}

UNETMM_FAST_ int unetmm_write_key(struct unetmm_ep *ep, int channel,
                                  uint64_t key, uint64_t remote_addr,
                                  const void *buf, size_t len, uint32_t imm,
                                  uint64_t user_data, unsigned flags)
{
    struct iovec iov;

    iov.iov_base = (void *)(uintptr_t)buf;
    iov.iov_len = len;
    return unetmm_writev_key(ep, channel, key, remote_addr, &iov, 1, imm,
                             user_data, flags);
}

UNETMM_FAST_ int unetmm_readv_key(struct unetmm_ep *ep, int channel,
                                  uint64_t key, uint64_t remote_addr,
                                  const struct iovec *iov, unsigned n,
                                  uint64_t user_data, unsigned flags)
{
    const struct unetmm_request_ request = {
        user_data, remote_addr, unetmm_key_flags_(key, flags), (uint32_t)key,
        0, (uint16_t)channel, UNETMM_OP_READ,
    };
    int ret = unetmm_key_check_(ep, channel, key, flags,
                                UNETMM_MORE | UNETMM_UNSIGNALED);

    return ret ? ret : unetmm_move_(ep, request, 0, iov, n);
}

UNETMM_FAST_ int unetmm_read_key(struct unetmm_ep *ep, int channel,
                                 uint64_t key, uint64_t remote_addr, void *buf,
                                 size_t len, uint64_t user_data, unsigned flags)
{
    struct iovec iov;

    iov.iov_base = buf;
    iov.iov_len = len;
    return unetmm_readv_key(ep, channel, key, remote_addr, &iov, 1, user_data,
                            flags);
}

UNETMM_HELPER_ int unetmm_key_atomic_(struct unetmm_ep *ep, uint64_t key,
                                      struct unetmm_request_ r,
                                      const uint64_t *operands, unsigned n)
{
    struct iovec iov;
    int ret = unetmm_key_check_(ep, r.channel, key, r.flags,
                                UNETMM_MORE | UNETMM_UNSIGNALED);

    if (ret) {
        return ret;
    }
    r.flags = unetmm_key_flags_(key, r.flags);
    iov.iov_base = (void *)(uintptr_t)operands;
    iov.iov_len = n * sizeof(*operands);
    return unetmm_queue_(ep, r, &iov, 1, iov.iov_len, 1);
}

UNETMM_FAST_ int unetmm_fetch_add_key(struct unetmm_ep *ep, int channel,
                                      uint64_t key, uint64_t remote_addr,
                                      uint64_t add, uint64_t user_data,
                                      unsigned flags)
{
    const struct unetmm_request_ request = {
        user_data, remote_addr, flags, (uint32_t)key, 0, (uint16_t)channel,
        UNETMM_OP_FETCH_ADD,
    };
    const uint64_t operands[1] = { unetmm_swap64(add) };

    return (unsigned)channel > UINT16_MAX ? -ENOENT :
        unetmm_key_atomic_(ep, key, request, operands, 1);
}

UNETMM_FAST_ int unetmm_cmp_swap_key(struct unetmm_ep *ep, int channel,
                                     uint64_t key, uint64_t remote_addr,
                                     uint64_t compare, uint64_t swap,
                                     uint64_t user_data, unsigned flags)
{
    const struct unetmm_request_ request = {
        user_data, remote_addr, flags, (uint32_t)key, 0, (uint16_t)channel,
        UNETMM_OP_CMP_SWAP,
    };
    const uint64_t operands[2] = { unetmm_swap64(compare),
                                   unetmm_swap64(swap) };

    return (unsigned)channel > UINT16_MAX ? -ENOENT :
        unetmm_key_atomic_(ep, key, request, operands, 2);
}

#ifdef __cplusplus
}
#endif

#endif /* LIBUNETMM_INLINE_KEY_H */
