/*
 * unetmm: receiving: counts of frames that were placed or dropped
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../ep/ep.h"
#include "recv.h"

void unetmm_recv_drop(UnetmmCore *core, UnetmmEp *ep, enum unetmm_counter drop)
{
    unetmm_count(core, ep, drop, 1);
    trace_unetmm_drop(ep ? ep->id : UINT32_MAX, drop);
}

void unetmm_recv_done(UnetmmCore *core, UnetmmEp *ep, uint32_t len)
{
    unetmm_count(core, ep, UNETMM_C_rx_frames, 1);
    unetmm_count(core, ep, UNETMM_C_rx_bytes, len);
    trace_unetmm_receive(ep->id, len);
}
