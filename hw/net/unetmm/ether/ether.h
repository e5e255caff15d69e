/*
 * unetmm: raw endpoints and other Ethernet frames than the card's own
 *
 * ether/eth.c         the headers of a frame
 * ether/flow.c        the endpoints that receive a frame
 * ether/raw.c         raw endpoints: frames out, frames in
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_ETHER_H
#define UNETMM_ETHER_H

#include "../recv/recv.h"

/* Which frames are a raw endpoint's; ether/flow.c. */
typedef struct UnetmmFlow {
    bool live;
    uint8_t kind, flags;
    uint16_t value;
    uint16_t ep;
    uint8_t mac[6];
} UnetmmFlow;

struct UnetmmFlows {
    UnetmmFlow *all;            /* params.flows of them */
    uint32_t end;               /* none is live from here on */
    uint64_t turn;              /* frames that were copied */
};

/*
 * A frame of one of its flows, UNETMM_ETH_HEADER bytes long at least.  *sums:
 * of this frame; looked at when the first endpoint wants to know.
 */
typedef enum UnetmmSums {
    UNETMM_SUMS_UNKNOWN,
    UNETMM_SUMS_RIGHT,
    UNETMM_SUMS_NOT,
} UnetmmSums;

#define UNETMM_ETH_TYPE_OFFSET  12
#define UNETMM_ETH_TYPE_VLAN    0x8100
#define UNETMM_ETH_TYPE_IP      0x0800
#define UNETMM_ETH_TYPE_IPV6    0x86dd
#define UNETMM_IP_TCP           6
#define UNETMM_IP_UDP           17

/* A frame as flows and offloads see it. */
typedef struct UnetmmEth {
    uint16_t type;              /* EtherType, of a tagged frame that inside */
    bool tagged;
    uint8_t proto;              /* IP_TCP, IP_UDP, its header there; else 0 */
    uint16_t port;              /* of it: destination */
    uint32_t padding;           /* bytes that follow its packet */
} UnetmmEth;

static inline bool unetmm_eth_group(const uint8_t *mac)
{
    return mac[0] & 1;
}

/* ether/eth.c */
/* `bytes` is UNETMM_ETH_HEADER at least. */
void unetmm_eth_parse(const uint8_t *frame, size_t bytes, UnetmmEth *eth);

/* ether/flow.c */
uint8_t unetmm_flow_set(UnetmmCore *core, uint16_t id,
                        const struct unetmm_cmd_flow *cmd);
uint8_t unetmm_flow_clear(UnetmmCore *core,
                          const struct unetmm_cmd_flow *cmd);
/* Does a frame for this address, none of a group's, stay on the card? */
bool unetmm_flow_local(const UnetmmCore *core, const uint8_t *mac);
/* May the endpoint send from this address? */
bool unetmm_flow_source(const UnetmmCore *core, const UnetmmEp *ep,
                        const uint8_t *mac);
/*
 * Delivers a frame of another EtherType to all endpoints with a flow for it;
 * `from`, an endpoint of this card or UNETMM_NO_EP, gets no copy of its own
 * frame to a group.
 */
void unetmm_flow_receive(UnetmmCore *core, const uint8_t *frame, size_t bytes,
                         uint16_t from);

/* ether/raw.c */
void unetmm_raw_receive(UnetmmCore *core, UnetmmEp *ep, const uint8_t *frame,
                        size_t bytes, UnetmmSums *sums);
void unetmm_raw_check(UnetmmStream *st, UnetmmCore *core);

#endif /* UNETMM_ETHER_H */
