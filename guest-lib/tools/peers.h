/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm-info --peers: the endpoints that listen, here and on the wire of a card.
 */
#ifndef UNETMM_TOOLS_PEERS_H
#define UNETMM_TOOLS_PEERS_H

#include <jansson.h>

#include <libunetmm.h>

struct peers {
    unsigned n;
    struct unetmm_listener list[UNETMM_MAX_LISTENERS];
};

/* Those that answer in time, by card and endpoint.  0, or -errno. */
int peers_find(struct unetmm_ctx *ctx, struct peers *peers);

/* The table's first line, and a line for each. */
void peers_title(void);
void peers_print(const char *device, const struct peers *peers);

/* An array. */
json_t *peers_json(const struct peers *peers);

#endif /* UNETMM_TOOLS_PEERS_H */
