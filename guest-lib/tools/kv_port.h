/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the server's frames come from and go to: kv_netif.c, or what a test has in
 * its place.
 */
#ifndef UNETMM_TOOLS_KV_PORT_H
#define UNETMM_TOOLS_KV_PORT_H

#include <lwip/netif.h>
#include <lwip/pbuf.h>

#include "kv.h"

#define KV_FRAME        1514u   /* the longest, without its checksum */

/* `store` is what the card is told of beside its buffers, if it has to be told. */
void kv_port_open(const struct kv_options *opt, void *store, size_t bytes);
void kv_port_close(void);

/* What netif_add() calls; netif->state is not used. */
err_t kv_port_netif(struct netif *netif);

/* Gives lwIP what comes; waits for it up to the timeout.  0, or -errno. */
int kv_port_wait(int64_t timeout_ns);

/* Counter n: "name value", its length; 0: there are no more. */
size_t kv_port_counter(unsigned n, char *line, size_t size);

#endif /* UNETMM_TOOLS_KV_PORT_H */
