/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The source and destination of the server's frames: kv_netif.c, or a test's file in
 * its place.
 */
#ifndef UNETMM_TOOLS_KV_PORT_H
#define UNETMM_TOOLS_KV_PORT_H

#include <lwip/netif.h>
#include <lwip/pbuf.h>

#include "kv.h"

#define KV_FRAME        1514u   /* the longest, without its checksum */

/* `store`: memory to register beside the buffers, if the source needs that. */
void kv_port_open(const struct kv_options *opt, void *store, size_t bytes);
void kv_port_close(void);

/* netif_add() calls this; netif->state is not used. */
err_t kv_port_netif(struct netif *netif);

/* Gives lwIP the frames that come, up to the timeout.  0, or -errno. */
int kv_port_wait(int64_t timeout_ns);

/* The name of counter n, and its value; NULL: there are no more. */
const char *kv_port_counter(unsigned n, uint64_t *value);

#endif /* UNETMM_TOOLS_KV_PORT_H */
