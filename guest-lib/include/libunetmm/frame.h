/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Raw endpoints: Ethernet frames as they are, to and from any memory of the
 * process.  Part of libunetmm.h.
 *
 * An endpoint created with UNETMM_EP_RAW (CAP_NET_RAW) has no channels.  It sends
 * frames with unetmm_post_frame(), and receives what its flows say: buffers are
 * posted with unetmm_post(), completions taken with unetmm_poll() and its like.
 * A received frame begins with its destination address; UNETMM_CQE_F_CSUM_OK in
 * its completion's `flags` says that TCP's or UDP's checksum has been found right.
 *
 * What a frame finds absent (the memory of the buffer whose turn it is, or any
 * buffer) has it dropped with UNETMM_POLICY_DROP.  With UNETMM_POLICY_BACKUP it
 * waits in the driver's backup ring until the memory is there, and buffers are
 * filled, and completed, in the order of posting all the same.
 *
 * The card finds new buffers by itself when a frame comes, so unetmm_post() rings
 * the doorbell only if the driver waits for a buffer with a packet in its hands
 * (UNETMM_EP_FQ_AWAITED), for which it looks at a word of the endpoint's.  With
 * UNETMM_MORE it does not look: then the last post, unetmm_poll(), unetmm_wait() or
 * unetmm_arm() does.
 */
#ifndef LIBUNETMM_FRAME_H
#define LIBUNETMM_FRAME_H

#include <libunetmm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Flows ------------------------------------------------------------- */

/* Which frames are to come; unetmm_hw.h says who has one that many want. */
struct unetmm_flow_attr {
    uint32_t size;              /* sizeof(struct unetmm_flow_attr) */
    uint32_t kind;              /* UNETMM_FLOW_* */
    uint32_t flags;             /* UNETMM_FLOW_F_*; MAC of a station only */
    uint16_t value;             /* EtherType, UDP or TCP port; else 0 */
    uint8_t mac[6];             /* destination; GROUP, ANY: 0 */
};

#define UNETMM_FLOW_ATTR_INIT   { sizeof(struct unetmm_flow_attr) }

/*
 * Has frames given to the endpoint, and returns the flow's number.  MAC of an
 * address that is not the card's: also (UNETMM_FLOW_F_SOURCE) the right to send
 * with it.  -EADDRINUSE: it is somebody's.  -EPERM: it takes what is others' (the
 * card's own address, an EtherType or port, GROUP, ANY) without CAP_NET_ADMIN; or
 * the EtherType is the card's own.  -EPROTOTYPE: not a raw endpoint.  -ENOSPC,
 * -EINVAL, -EOPNOTSUPP: the card has none.
 */
int unetmm_flow_add(struct unetmm_ep *ep, const struct unetmm_flow_attr *attr);

/* No more frames come by it.  -ENOENT: the endpoint does not have it. */
int unetmm_flow_remove(struct unetmm_ep *ep, unsigned flow);

/* ---- Sending ----------------------------------------------------------- */

/* The longest frame that is given to the card to be cut (UNETMM_TX_SEGMENT). */
#define UNETMM_FRAME_MAX        65536u

/* Source utlb, private: as unetmm_utlb_send_(). */
int unetmm_utlb_frame_(struct unetmm_ep *ep, uint32_t offload,
                       const struct iovec *iov, unsigned n, uint64_t *cookie,
                       unsigned *flags);

/* As unetmm_pin_(). */
static inline __attribute__((always_inline))
int unetmm_pin_frame_(struct unetmm_ep *ep, uint32_t offload,
                      const struct iovec *iov, unsigned n, uint64_t *cookie,
                      unsigned *flags)
{
    struct iovec pieces[UNETMM_MAX_SEGS];
    uint64_t new_cookie = *cookie;
    unsigned new_flags = *flags;
    int ret;

    pieces[0].iov_len = 0;
    memcpy(pieces, iov, n * sizeof(*iov));
    ret = unetmm_utlb_frame_(ep, offload, pieces, n, &new_cookie, &new_flags);
    *cookie = new_cookie;
    *flags = new_flags;
    return ret;
}

/* May it be posted?  0, and its length; or -errno. */
static inline int unetmm_check_frame_(const struct unetmm_ep *ep,
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

/*
 * Sends one frame, without its checksum, gathered from `n` pieces of memory,
 * 1..UNETMM_MAX_SEGS, as unetmm_sendv() does.  `offload` is 0, or what the card
 * does first: UNETMM_TX_CSUM, it makes the checksum of TCP or UDP; beside it
 * UNETMM_TX_SEGMENT and the payload bytes of one in the low 16 bits, it cuts TCP
 * into several frames.  `flags`: UNETMM_MORE, _QUIET, _INLINE.
 *
 * The source address is one that a flow of the endpoint has with
 * UNETMM_FLOW_F_SOURCE, or the frame is not sent: its completion has
 * UNETMM_ST_PROTECTION.
 *
 * -EAGAIN: the queue is full.  -EMSGSIZE: longer than UNETMM_ETH_MAX or, cut,
 * UNETMM_FRAME_MAX, or than 224 bytes if it has to be copied.  -EINVAL: shorter
 * than a header, too many pieces, unknown flag or offload.  -EPROTOTYPE: not a raw
 * endpoint.  -EIO: it was stopped.
 */
static inline int unetmm_post_frame(struct unetmm_ep *ep,
                                    const struct iovec *iov, unsigned n,
                                    uint32_t offload, uint64_t cookie,
                                    unsigned flags)
{
    size_t limit = flags & UNETMM_INLINE ? UNETMM_MAX_INLINE : 0;
    struct unetmm_sqe *sqe;
    uint32_t slots;
    size_t len;
    int ret = unetmm_check_frame_(ep, iov, n, offload, flags, &len);

    if (ret) {
        return ret;
    }
    if (limit && len > limit) {
        return -EMSGSIZE;
    }
    if (!limit) {
        limit = ep->inline_max;
    }
    slots = 1 + (len <= limit ? unetmm_inline_slots_(len) :
                                unetmm_seg_slots_(n));
    if (!unetmm_sq_has_room_(ep, slots)) {
        return unetmm_full_(ep);
    }
    if (ep->utlb) {
        ret = unetmm_pin_frame_(ep, offload, iov, len <= limit ? 0 : n,
                                &cookie, &flags);

        if (ret) {
            return ret == -EAGAIN ? unetmm_full_(ep) : ret;
        }
    }
    unetmm_put_sqe_(ep, ep->sq_prod, 0, cookie, flags);
    sqe = (struct unetmm_sqe *)(void *)unetmm_slot_(ep, ep->sq_prod);
    sqe->opcode = UNETMM_OP_FRAME;
    sqe->imm = unetmm_swap32(offload);
    if (len <= limit) {
        sqe->flags |= UNETMM_SQE_F_INLINE;
        sqe->inline_len = (unetmm_u8)len;
        unetmm_put_inline_(ep, ep->sq_prod, iov, n);
    } else {
        sqe->nsegs = (unetmm_u8)n;
        unetmm_put_segs_(ep, ep->sq_prod, iov, n);
    }
    ep->sq_prod += slots;
    unetmm_write_index(&ep->index->user.sq_prod, ep->sq_prod);
    unetmm_ring_unless_more_(ep, flags & UNETMM_MORE);
    return 0;
}

#ifdef __cplusplus
}
#endif

#endif /* LIBUNETMM_FRAME_H */
