/*
 * unetmm: the headers of Ethernet frames, as flows and offloads need them
 *
 * Frames come from the wire and from processes: no byte behind the end is
 * read, and a header that is not whole counts as neither TCP nor UDP.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "ether.h"

#define VLAN_BYTES      4
#define IP_BYTES        20      /* without options */
#define IPV6_BYTES      40
#define TCP_BYTES       20
#define UDP_BYTES       8
#define IP_FRAGMENT     0x3fff  /* more of them, or not the first */

static uint16_t be16(const uint8_t *at)
{
    return at[0] << 8 | at[1];
}

/*
 * `total` is the IP header's count of the bytes from `at` on, or 0: a packet
 * that is to be cut may be longer than that field can say.
 */
static void parse_ports(const uint8_t *at, size_t bytes, uint8_t proto,
                        uint32_t total, UnetmmEth *eth)
{
    size_t whole = total ? MIN(total, bytes) : bytes;

    if ((proto == UNETMM_IP_TCP && whole >= TCP_BYTES) ||
        (proto == UNETMM_IP_UDP && whole >= UDP_BYTES)) {
        eth->proto = proto;
        eth->padding = bytes - whole;
        eth->port = be16(at + 2);
    }
}

static void parse_ip(const uint8_t *at, size_t bytes, UnetmmEth *eth)
{
    size_t header, total;

    if (bytes < IP_BYTES || at[0] >> 4 != 4) {
        return;
    }
    header = (at[0] & 15) * 4;
    total = be16(at + 2);
    if (header >= IP_BYTES && header <= bytes &&
        !(be16(at + 6) & IP_FRAGMENT)) {
        parse_ports(at + header, bytes - header, at[9],
                    total > header ? total - header : 0, eth);
    }
}

/* With extension headers it is neither TCP nor UDP to us. */
static void parse_ipv6(const uint8_t *at, size_t bytes, UnetmmEth *eth)
{
    if (bytes >= IPV6_BYTES && at[0] >> 4 == 6) {
        parse_ports(at + IPV6_BYTES, bytes - IPV6_BYTES, at[6], be16(at + 4),
                    eth);
    }
}

void unetmm_eth_parse(const uint8_t *frame, size_t bytes, UnetmmEth *eth)
{
    size_t at = UNETMM_ETH_HEADER;

    *eth = (UnetmmEth) { .type = be16(frame + UNETMM_ETH_TYPE_OFFSET) };
    if (eth->type == UNETMM_ETH_TYPE_VLAN && bytes >= at + VLAN_BYTES) {
        eth->tagged = true;
        eth->type = be16(frame + at + 2);
        at += VLAN_BYTES;
    }
    if (eth->type == UNETMM_ETH_TYPE_IP) {
        parse_ip(frame + at, bytes - at, eth);
    } else if (eth->type == UNETMM_ETH_TYPE_IPV6) {
        parse_ipv6(frame + at, bytes - at, eth);
    }
}
