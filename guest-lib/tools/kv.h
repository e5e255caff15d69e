/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm-kv: a key-value server whose TCP is lwIP's, in the process itself, over
 * a raw Ethernet endpoint.
 *
 *   kv.c           options
 *   kv_serve.c     TCP connections, by lwIP's callbacks
 *   kv_protocol.c  the dialogue on one: memcached's text protocol
 *   kv_store.c     keys and values in bounded memory
 *   kv_netif.c     Ethernet frames between lwIP and the endpoint
 *
 * There is one thread.  lwIP as Debian builds it would have a thread of its own;
 * without tcpip_init() it has none, and its timers are called by kv_serve.c.
 */
#ifndef UNETMM_TOOLS_KV_H
#define UNETMM_TOOLS_KV_H

#include "common.h"

#define KV_PORT         11211
#define KV_MAX_RING     32768u

enum kv_policy { KV_DROP, KV_BACKUP, KV_PINNED };

struct kv_options {
    const char *device;
    uint8_t mac[6];
    uint32_t address, mask, gateway;    /* network byte order */
    enum kv_policy policy;
    uint32_t ring;                      /* receive buffers, a page each */
    uint32_t backup;                    /* packets that may wait; 0: usual */
    uint64_t memory;                    /* of the store */
    uint32_t connections;
    uint32_t spin_ns;
    uint16_t port;
    bool json;
};

/* Until a signal; ends the program with a sentence if it can't go on. */
int kv_serve(const struct kv_options *opt);

#endif /* UNETMM_TOOLS_KV_H */
