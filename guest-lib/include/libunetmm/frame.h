/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Raw endpoints (UNETMM_EP_RAW): Ethernet frames as they are, to and from any memory of the
 * process, received by flows.  Part of libunetmm.h.  unetmm_flow_add(3), unetmm_send_frame(3)
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

/* Has frames given to the endpoint, and returns the number of the flow. */
int unetmm_flow_add(struct unetmm_ep *ep, const struct unetmm_flow_attr *attr);

/* No more frames come by it.  -ENOENT: the endpoint does not have it. */
int unetmm_flow_remove(struct unetmm_ep *ep, int flow);

/* ---- Sending ----------------------------------------------------------- */

/* The longest frame that is given to the card to be cut (UNETMM_TX_SEGMENT). */
#define UNETMM_FRAME_MAX        65536u

/* Sends one frame gathered from `n` pieces as unetmm_sendv(); `offload`: UNETMM_TX_*. */
int unetmm_send_frame(struct unetmm_ep *ep,
                      const struct iovec *iov, unsigned n,
                      uint32_t offload, uint64_t user_data,
                      unsigned flags);

#ifdef __cplusplus
}
#endif

#endif /* LIBUNETMM_FRAME_H */
