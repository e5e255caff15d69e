/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Raw frames, inline.  Part of inline.h, which has the
 * rules for inline functions.
 */
#ifndef LIBUNETMM_INLINE_FRAME_H
#define LIBUNETMM_INLINE_FRAME_H

#include <libunetmm/inline.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Checks a frame.  Returns 0 and its length, or -errno. */
UNETMM_HELPER_ int unetmm_check_frame_(const struct unetmm_ep *ep,
                                       const struct iovec *iov, unsigned n,
                                       uint32_t offload, unsigned flags,
                                       size_t *len)
{
    size_t most = offload & UNETMM_TX_SEGMENT ? UNETMM_FRAME_MAX :
                                                UNETMM_ETH_MAX;

    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    if (!ep->raw) {
        return -EPROTOTYPE;
    }
    if (n > UNETMM_MAX_SEGS || flags & ~UNETMM_SEND_FLAGS ||
        offload & ~UNETMM_TX_ALL) {
        return -EINVAL;
    }
    *len = unetmm_iov_length_(iov, n, most);
    if (*len > most) {
        return -EMSGSIZE;
    }
    return *len < UNETMM_ETH_HEADER ? -EINVAL : 0;
}

UNETMM_FAST_ int unetmm_send_frame(struct unetmm_ep *ep,
                                   const struct iovec *iov, unsigned n,
                                   uint32_t offload, uint64_t user_data,
                                   unsigned flags)
{
    const struct unetmm_request_ request = {
        user_data, 0, flags, 0, offload, 0, UNETMM_OP_FRAME,
    };
    size_t limit, len;
    int ret = unetmm_check_frame_(ep, iov, n, offload, flags, &len);

    if (ret) {
        return ret;
    }
    limit = unetmm_inline_limit_(ep, flags);
    if (flags & UNETMM_INLINE && len > limit) {
        return -EMSGSIZE;
    }
    return unetmm_queue_(ep, request, iov, n, len, len <= limit);
}

#ifdef __cplusplus
}
#endif

#endif /* LIBUNETMM_INLINE_FRAME_H */
