/*
 * unetmm: saving and restoring flows
 *
 * What FLOW_SET checks is what must hold.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../card/state.h"

static void state_flow(UnetmmStream *st, UnetmmCore *core, uint32_t number)
{
    UnetmmFlow *flow = &core->flows[number];
    struct unetmm_cmd_flow cmd = {
        .flow = number, .kind = flow->kind, .flags = flow->flags,
        .value = flow->value,
    };
    uint16_t ep = flow->ep;
    bool live = flow->live;

    unetmm_stream_bool(st, &live, "whether a flow exists");
    if (!live) {
        return;
    }
    memcpy(cmd.mac, flow->mac, sizeof(cmd.mac));
    unetmm_stream_u8(st, &cmd.kind);
    unetmm_stream_u8(st, &cmd.flags);
    unetmm_stream_u16(st, &cmd.value);
    unetmm_stream_u16(st, &ep);
    unetmm_stream_bytes(st, cmd.mac, sizeof(cmd.mac));
    if (unetmm_stream_reads(st) && !st->wrong &&
        unetmm_flow_set(core, ep, &cmd) != UNETMM_CS_OK) {
        unetmm_stream_refuse(st, "flow %u could not have been set", number);
    }
}

void unetmm_state_flows(UnetmmStream *st, UnetmmCore *core)
{
    for (uint32_t i = 0; i < core->params.flows && !st->wrong; i++) {
        state_flow(st, core, i);
    }
}
