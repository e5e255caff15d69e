/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared by the programs `net` and `netpeer`, in two guests.
 */
#ifndef TEST_NET_H
#define TEST_NET_H

#include <stddef.h>
#include <stdint.h>

#define NET_OWN         "10.9.0.1"
#define NET_PEER        "10.9.0.2"
#define NET_PEER_MAC    "52:54:00:6d:00:02"
#define NET_NOBODY      "10.9.0.99"
#define NET_NOBODY_MAC  "52:54:00:6d:77:99"
#define NET_VLAN        "7"
#define NET_VLAN_OWN    "10.9.7.1"
#define NET_VLAN_PEER   "10.9.7.2"
#define NET_SERVICE     "8"     /* 802.1ad */
#define NET_SERVICE_OWN "10.9.8.1"
#define NET_SERVICE_PEER "10.9.8.2"
#define NET_ECHO_PORT   7       /* TCP and UDP: echo */
#define NET_ASK_PORT    9       /* UDP: a struct net_request */
#define NET_SOCKPERF_PORT "7000"        /* TCP and UDP */
#define NET_MTU         9000
#define NET_ETHERTYPE   0x88b6  /* IEEE local experimental 2 */

/*
 * The peer sends so many frames to the address, each of which begins with the number
 * of the request, and then answers with the request.
 */
struct net_request {
    uint32_t number;
    uint8_t mac[6];
    uint16_t count;
    uint16_t bytes;             /* behind the header, 4 at least */
    uint16_t rsvd;
};

/* The interface of a driver, "unetmm", in this guest; "" if there is none. */
const char *net_device(const char *driver);
/* Runs a command of the shell; its status. */
int net_shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif /* TEST_NET_H */
