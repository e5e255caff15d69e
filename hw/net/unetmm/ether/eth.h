/*
 * unetmm: Ethernet beside the card's own protocol, between the files that do it
 *
 * ether/eth.c         what is in a frame
 * ether/flow.c        whose it is
 * ether/raw.c         raw endpoints: frames out, frames in
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_ETH_H
#define UNETMM_ETH_H

#include "../card/core.h"

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

/* `bytes` is UNETMM_ETH_HEADER at least. */
void unetmm_eth_parse(const uint8_t *frame, size_t bytes, UnetmmEth *eth);

static inline bool unetmm_eth_group(const uint8_t *mac)
{
    return mac[0] & 1;
}

/* Does a frame for this address, none of a group's, stay on the card? */
bool unetmm_flow_local(const UnetmmCore *core, const uint8_t *mac);
/* May the endpoint send from this address? */
bool unetmm_flow_source(const UnetmmCore *core, const UnetmmEp *ep,
                        const uint8_t *mac);
/*
 * Delivers a frame of another EtherType to all whose flow it is; `from`, an
 * endpoint of this card or UNETMM_NO_EP, gets no copy of what it sent to a
 * group.
 */
void unetmm_flow_receive(UnetmmCore *core, const uint8_t *frame, size_t bytes,
                         uint16_t from);

#endif /* UNETMM_ETH_H */
