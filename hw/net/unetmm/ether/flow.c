/*
 * unetmm: flows: which Ethernet frames are whose
 *
 * A frame for one station has one owner, that of its most special flow; one
 * for a group goes to all that joined it.  The driver decides which flows an
 * endpoint may claim; the card sees that no two claim the same.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../port/port.h"
#include "ether.h"

static const uint8_t broadcast[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
static const uint8_t none[6];

static void flow_create(UnetmmCore *core)
{
    core->flow = g_new0(UnetmmFlows, 1);
    core->flow->all = g_new0(UnetmmFlow, MAX(core->params.flows, 1));
}

static void flow_free(UnetmmCore *core)
{
    g_free(core->flow->all);
    g_clear_pointer(&core->flow, g_free);
}

static void flow_reset(UnetmmCore *core)
{
    memset(core->flow->all, 0, core->params.flows * sizeof(*core->flow->all));
    core->flow->end = 0;
}

static void flow_drop(UnetmmCore *core, UnetmmFlow *flow)
{
    flow->live = false;
    while (core->flow->end && !core->flow->all[core->flow->end - 1].live) {
        core->flow->end--;
    }
}

static void flow_ep_close(UnetmmCore *core, UnetmmEp *ep)
{
    for (uint32_t i = core->flow->end; ep->raw && i-- > 0;) {
        if (core->flow->all[i].live && core->flow->all[i].ep == ep->id) {
            flow_drop(core, &core->flow->all[i]);
        }
    }
}

/* Kinds of which more than one endpoint may have the same. */
static bool flow_shared(uint8_t kind, const uint8_t *mac)
{
    return kind == UNETMM_FLOW_GROUP || kind == UNETMM_FLOW_ANY ||
           (kind == UNETMM_FLOW_MAC && unetmm_eth_group(mac));
}

static bool flow_args_ok(const struct unetmm_cmd_flow *cmd)
{
    bool mac = cmd->kind == UNETMM_FLOW_MAC;
    bool station = mac && !unetmm_eth_group(cmd->mac);
    bool special = cmd->kind >= UNETMM_FLOW_ETHERTYPE &&
                   cmd->kind <= UNETMM_FLOW_TCP;

    if (cmd->kind < UNETMM_FLOW_MAC || cmd->kind > UNETMM_FLOW_ANY ||
        cmd->rsvd[0] || cmd->rsvd[1] ||
        cmd->flags & ~UNETMM_FLOW_F_ALL || (cmd->flags && !station)) {
        return false;
    }
    if (mac || special) {
        return memcmp(cmd->mac, none, sizeof(none)) &&
               (special || !cmd->value) &&
               (cmd->kind != UNETMM_FLOW_ETHERTYPE ||
                cmd->value != UNETMM_ETHERTYPE);
    }
    return !cmd->value && !memcmp(cmd->mac, none, sizeof(none));
}

static bool flow_equal(const UnetmmFlow *flow, uint16_t ep,
                       const struct unetmm_cmd_flow *cmd)
{
    return flow->live && flow->kind == cmd->kind &&
           flow->value == cmd->value &&
           !memcmp(flow->mac, cmd->mac, sizeof(flow->mac)) &&
           (flow->ep == ep || !flow_shared(cmd->kind, cmd->mac));
}

uint8_t unetmm_flow_set(UnetmmCore *core, uint16_t id,
                        const struct unetmm_cmd_flow *cmd)
{
    UnetmmEp *ep = unetmm_ep_live(core, id);
    UnetmmFlow *flow;

    if (!ep || ep->closing || cmd->flow >= core->params.flows) {
        return UNETMM_CS_BAD_ID;
    }
    if (!ep->raw || !flow_args_ok(cmd)) {
        return UNETMM_CS_BAD_ARG;
    }
    flow = &core->flow->all[cmd->flow];
    if (flow->live) {
        return UNETMM_CS_EXISTS;
    }
    for (uint32_t i = 0; i < core->flow->end; i++) {
        if (flow_equal(&core->flow->all[i], id, cmd)) {
            return UNETMM_CS_EXISTS;
        }
    }
    *flow = (UnetmmFlow) {
        .live = true, .kind = cmd->kind, .flags = cmd->flags,
        .value = cmd->value, .ep = id,
    };
    memcpy(flow->mac, cmd->mac, sizeof(flow->mac));
    core->flow->end = MAX(core->flow->end, cmd->flow + 1);
    return UNETMM_CS_OK;
}

uint8_t unetmm_flow_clear(UnetmmCore *core, const struct unetmm_cmd_flow *cmd)
{
    if (cmd->flow >= core->params.flows || !core->flow->all[cmd->flow].live) {
        return UNETMM_CS_BAD_ID;
    }
    flow_drop(core, &core->flow->all[cmd->flow]);
    return UNETMM_CS_OK;
}

bool unetmm_flow_local(const UnetmmCore *core, const uint8_t *mac)
{
    if (unetmm_port_local(core, mac)) {
        return true;
    }
    for (uint32_t i = 0; i < core->flow->end; i++) {
        const UnetmmFlow *flow = &core->flow->all[i];

        if (flow->live && flow->kind == UNETMM_FLOW_MAC &&
            !memcmp(flow->mac, mac, sizeof(flow->mac))) {
            return true;
        }
    }
    return false;
}

bool unetmm_flow_source(const UnetmmCore *core, const UnetmmEp *ep,
                        const uint8_t *mac)
{
    if (!ep->space) {
        return true;
    }
    for (uint32_t i = 0; i < core->flow->end; i++) {
        const UnetmmFlow *flow = &core->flow->all[i];

        if (flow->live && flow->ep == ep->id &&
            flow->flags & UNETMM_FLOW_F_SOURCE &&
            !memcmp(flow->mac, mac, sizeof(flow->mac))) {
            return true;
        }
    }
    return false;
}

/* How special the flow is that the frame fits, to its destination; 0: not. */
static unsigned flow_rank(const UnetmmFlow *flow, const uint8_t *frame,
                          const UnetmmEth *eth)
{
    if (!flow->live || memcmp(flow->mac, frame, sizeof(flow->mac))) {
        return 0;
    }
    switch (flow->kind) {
    case UNETMM_FLOW_UDP:
    case UNETMM_FLOW_TCP:
        return !eth->tagged && flow->value == eth->port &&
               eth->proto == (flow->kind == UNETMM_FLOW_UDP ?
                              UNETMM_IP_UDP : UNETMM_IP_TCP) ? 3 : 0;
    case UNETMM_FLOW_ETHERTYPE:
        return flow->value == (eth->tagged ? UNETMM_ETH_TYPE_VLAN :
                               eth->type) ? 2 : 0;
    case UNETMM_FLOW_MAC:
        return unetmm_eth_group(frame) ? 0 : 1;
    default:
        return 0;
    }
}

static const UnetmmFlow *flow_owner(const UnetmmCore *core,
                                    const uint8_t *frame, const UnetmmEth *eth)
{
    const UnetmmFlow *owner = NULL;
    unsigned best = 0;

    for (uint32_t i = 0; i < core->flow->end && best < 3; i++) {
        unsigned rank = flow_rank(&core->flow->all[i], frame, eth);

        if (rank > best) {
            best = rank;
            owner = &core->flow->all[i];
        }
    }
    return owner;
}

/* Of a frame that has no owner: does the flow want a copy? */
static bool flow_wants(const UnetmmFlow *flow, const uint8_t *frame)
{
    if (!flow->live) {
        return false;
    }
    if (!unetmm_eth_group(frame)) {
        return flow->kind == UNETMM_FLOW_ANY;
    }
    if (flow->kind == UNETMM_FLOW_ANY || (flow->kind == UNETMM_FLOW_MAC &&
        !memcmp(flow->mac, frame, sizeof(flow->mac)))) {
        return true;
    }
    return memcmp(frame, broadcast, sizeof(broadcast)) ?
           flow->kind == UNETMM_FLOW_GROUP :
           flow->flags & UNETMM_FLOW_F_BROADCAST;
}

/* To each endpoint once, however many of its flows want it. */
static uint32_t flow_copies(UnetmmCore *core, const uint8_t *frame,
                            size_t bytes, uint16_t from, UnetmmSums *sums)
{
    uint32_t copies = 0;

    core->flow->turn++;
    for (uint32_t i = 0; i < core->flow->end; i++) {
        UnetmmEp *ep = &core->eps[core->flow->all[i].ep];

        if (ep->id == from || !flow_wants(&core->flow->all[i], frame) ||
            ep->flow_turn == core->flow->turn) {
            continue;
        }
        ep->flow_turn = core->flow->turn;
        if (copies++) {
            core->counters[UNETMM_C_eth_copies]++;
            /* The first was charged when it came. */
            unetmm_charge(core, 0, MAX(bytes, UNETMM_LEAST_BYTES));
        }
        unetmm_raw_receive(core, ep, frame, bytes, sums);
    }
    return copies;
}

void unetmm_flow_receive(UnetmmCore *core, const uint8_t *frame, size_t bytes,
                         uint16_t from)
{
    UnetmmSums sums = UNETMM_SUMS_UNKNOWN;
    const UnetmmFlow *owner;
    UnetmmEth eth;

    unetmm_eth_parse(frame, bytes, &eth);
    owner = flow_owner(core, frame, &eth);
    if (owner) {
        unetmm_raw_receive(core, &core->eps[owner->ep], frame, bytes, &sums);
    } else if (!flow_copies(core, frame, bytes, from, &sums) &&
               from == UNETMM_NO_EP) {
        core->counters[UNETMM_C_drop_no_flow]++;
        trace_unetmm_drop(UINT32_MAX, UNETMM_C_drop_no_flow);
    }
}

/* ---- Saved state -------------------------------------------------------- */

static const UnetmmField flow_fields[] = {
    UNETMM_FIELD_IF(UnetmmFlow, live),
    UNETMM_FIELDS(UnetmmFlow, kind, flags, value, ep),
    UNETMM_FIELD_BYTES(UnetmmFlow, mac),
};

/* The saved flow is checked as by FLOW_SET. */
static void flow_save(UnetmmStream *st, UnetmmCore *core, uint32_t number)
{
    UnetmmFlow flow = core->flow->all[number];
    struct unetmm_cmd_flow cmd = { .flow = number };

    if (!UNETMM_STREAM_FIELDS(st, &flow, flow_fields) ||
        !unetmm_stream_reads(st)) {
        return;
    }
    cmd.kind = flow.kind;
    cmd.flags = flow.flags;
    cmd.value = flow.value;
    memcpy(cmd.mac, flow.mac, sizeof(cmd.mac));
    if (unetmm_flow_set(core, flow.ep, &cmd) != UNETMM_CS_OK) {
        unetmm_stream_refuse(st, "flow %u could not have been set", number);
    }
}

static void flows_save(UnetmmStream *st, UnetmmCore *core)
{
    unetmm_stream_each(st, core, "flow", core->params.flows, flow_save);
}

static uint64_t flows_save_limit(const UnetmmCore *core)
{
    return core->params.flows * 16ull;
}

const UnetmmModule unetmm_module_flow = {
    .name = "flow",
    .create = flow_create,
    .reset = flow_reset,
    .free = flow_free,
    .ep_close = flow_ep_close,
    .save = flows_save,
    .check = unetmm_raw_check,
    .save_limit = flows_save_limit,
};
