/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Raw endpoints: Ethernet frames as they are, to and from any memory of the
 * process.  Part of libunetmm.h.
 *
 * An endpoint created with UNETMM_EP_RAW (CAP_NET_RAW) has no channels.  It sends
 * frames with unetmm_send_frame(), and receives what its flows say: buffers are
 * posted with unetmm_post_recv(), completions taken with unetmm_poll() and its like.
 * A received frame begins with its destination address; UNETMM_CQE_F_CSUM_OK in
 * its completion's `flags` says that TCP's or UDP's checksum has been found right.
 *
 * What a frame finds absent (the memory of the buffer whose turn it is, or any
 * buffer) has it dropped with UNETMM_POLICY_DROP.  With UNETMM_POLICY_BACKUP it
 * waits in the driver's backup ring until the memory is there, and buffers are
 * filled, and completed, in the order of posting all the same.
 *
 * The card finds new buffers by itself when a frame comes, so unetmm_post_recv() rings
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

/*
 * Sends one frame, without its checksum, gathered from `n` pieces of memory,
 * 1..UNETMM_MAX_SEGS, as unetmm_sendv() does.  `offload` is 0, or what the card
 * does first: UNETMM_TX_CSUM, it makes the checksum of TCP or UDP; beside it
 * UNETMM_TX_SEGMENT and the payload bytes of one in the low 16 bits, it cuts TCP
 * into several frames.  `flags`: UNETMM_MORE, _UNSIGNALED, _INLINE.
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
int unetmm_send_frame(struct unetmm_ep *ep,
                      const struct iovec *iov, unsigned n,
                      uint32_t offload, uint64_t user_data,
                      unsigned flags);

#ifdef __cplusplus
}
#endif

#endif /* LIBUNETMM_FRAME_H */
