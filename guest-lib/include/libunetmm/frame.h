/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Raw endpoints: Ethernet frames as they are, to and from any memory of the
 * process.  Part of libunetmm.h.
 *
 * An endpoint created with UNETMM_EP_RAW (CAP_NET_RAW) has no channels.  It sends
 * frames with unetmm_send_frame(), and receives the frames of its flows: buffers are
 * posted with unetmm_post_recv(), completions taken with unetmm_poll() and its like.
 * A received frame begins with its destination address; UNETMM_CQE_F_CSUM_OK in
 * its completion's `flags` says that TCP's or UDP's checksum has been found right.
 *
 * With UNETMM_POLICY_DROP the card drops a frame if no buffer is posted, or if the
 * memory of the next buffer is absent.  With UNETMM_POLICY_BACKUP such a frame waits
 * in the driver's backup ring until the memory is there.  In both cases buffers are
 * filled and completed in the order of posting.
 *
 * The card looks for new buffers when a frame arrives.  Therefore unetmm_post_recv()
 * rings the doorbell only if the driver holds a packet for which it needs a buffer
 * (UNETMM_EP_FQ_AWAITED).  To find out, it reads a word of the endpoint.  With
 * UNETMM_MORE it does not read that word; the last post without the flag,
 * unetmm_poll(), unetmm_wait() or unetmm_arm() reads it.
 */
#ifndef LIBUNETMM_FRAME_H
#define LIBUNETMM_FRAME_H

#include <libunetmm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Flows ------------------------------------------------------------- */

/* The frames of a flow; unetmm_flow_add(3) has the order of flows that match one frame. */
struct unetmm_flow_attr {
    uint32_t size;              /* sizeof(struct unetmm_flow_attr) */
    uint32_t kind;              /* UNETMM_FLOW_* */
    uint32_t flags;             /* UNETMM_FLOW_F_*; MAC of a station only */
    uint16_t value;             /* EtherType, UDP or TCP port; else 0 */
    uint8_t mac[6];             /* destination; GROUP, ANY: 0 */
};

#define UNETMM_FLOW_ATTR_INIT \
    { sizeof(struct unetmm_flow_attr), 0, 0, 0, { 0, 0, 0, 0, 0, 0 } }

/*
 * Has frames given to the endpoint, and returns the flow's number.  MAC of an
 * address that is not the card's: also (UNETMM_FLOW_F_SOURCE) the right to send
 * with it.  -EADDRINUSE: the flow exists already.  -EPERM: without CAP_NET_ADMIN it
 * would take frames of others (the card's own address, an EtherType or port, GROUP,
 * ANY); or the EtherType is the card's own.  -EPROTOTYPE: not a raw endpoint.  -ENOSPC,
 * -EINVAL, -EOPNOTSUPP: the card has none.
 */
int unetmm_flow_add(struct unetmm_ep *ep, const struct unetmm_flow_attr *attr);

/* No more frames come by it.  -ENOENT: the endpoint does not have it. */
int unetmm_flow_remove(struct unetmm_ep *ep, int flow);

/* ---- Sending ----------------------------------------------------------- */

/* The longest frame that is given to the card to be cut (UNETMM_TX_SEGMENT). */
#define UNETMM_FRAME_MAX        65536u

/*
 * Sends one frame, without its checksum, gathered from `n` pieces of memory,
 * 1..UNETMM_MAX_SEGS, as unetmm_sendv() does.  `offload` is 0, or the card's work
 * before it sends: UNETMM_TX_CSUM, it makes the checksum of TCP or UDP; beside it
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
