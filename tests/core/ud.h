/*
 * unetmm: messages of UD channels
 *
 * An endpoint's UD channel has number UD_CH.  A message is UD_HEAD bytes inline
 * or more, then the segments of the descriptor.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UD_H
#define UD_H

#include "fixture.h"

#define UD_CH       6
#define UD_MTU      4136
#define UD_HEAD     UNETMM_UD_HEAD

/* CHANNEL_SET of endpoint `ep`. */
struct unetmm_cmd ud_cmd(uint16_t ep, uint32_t qkey, uint32_t mtu);
/* Endpoint `ep` of a station, as OP_SEND_TO and CQE_RECEIVED have it. */
uint64_t ud_address(const uint8_t *mac, uint16_t ep);
/* Posts the descriptor with bytes of message n inline, then its segments. */
void ud_post(FakeEp *ep, struct unetmm_sqe sqe, uint32_t n,
             const struct unetmm_seg *segs);
/* From endpoint `src_ep` of the peer, message n; fake_seal() has to follow. */
FakeFrame *ud_frame(FakeEp *ep, uint16_t src_ep, uint32_t qkey, uint32_t len,
                    uint32_t n);

#endif /* UD_H */
