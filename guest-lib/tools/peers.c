/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm-info --peers: the endpoints that listen, here and on the wire of a card.
 */
#include "peers.h"
#include "common.h"
#include "row.h"

#include <inttypes.h>
#include <netinet/ether.h>
#include <stdlib.h>
#include <string.h>

/* The driver asks three times within 120 ms; a busy card's answer needs some, too. */
#define FIND_NS         ((int64_t)(300 * NS_PER_MS))

/* ether_ntohost() takes no length; a line of /etc/ethers is not longer. */
#define HOST_CHARS      1024

static int compare_peers(const void *one, const void *two)
{
    const struct unetmm_listener *a = one, *b = two;
    int order = memcmp(a->mac, b->mac, sizeof(a->mac));

    return order ? order : (a->endpoint > b->endpoint) -
        (a->endpoint < b->endpoint);
}

int peers_find(struct unetmm_ctx *ctx, struct peers *peers)
{
    struct unetmm_peers ask = {
        .size = sizeof(ask),
        .listeners = (uintptr_t)peers->list,
        .count = UNETMM_MAX_LISTENERS,
    };
    int found = unetmm_peers(ctx, &ask, FIND_NS);

    peers->n = found < 0 ? 0 : (unsigned)found;
    qsort(peers->list, peers->n, sizeof(peers->list[0]), compare_peers);
    return found < 0 ? found : 0;
}

/* The card's name of /etc/ethers, or "". */
static const char *host_of(const struct unetmm_listener *peer,
                           char host[HOST_CHARS])
{
    struct ether_addr address;

    memcpy(&address, peer->mac, sizeof(address));
    return ether_ntohost(host, &address) ? "" : host;
}

void peers_title(void)
{
    printf("%-14s %-17s %-12s %8s %20s  %-17s  %s\n", "device", "card", "name",
           "endpoint", "service", "channels", "program");
}

void peers_print(const char *device, const struct peers *peers)
{
    static const char *const channels[] = {
        "", "datagram", "reliable", "datagram reliable"
    };
    char mac[UNETMM_MAC_CHARS], host[HOST_CHARS];
    const struct unetmm_listener *peer;

    for (peer = peers->list; peer < peers->list + peers->n; peer++) {
        const char *name = host_of(peer, host);

        printf("%-14s %-17s %-12s %8u %20" PRIu64 "  %-17s  %s\n", device,
               unetmm_format_mac(peer->mac, mac), name[0] ? name : "-",
               peer->endpoint, (uint64_t)peer->service,
               channels[peer->types & (UNETMM_DATAGRAM | UNETMM_RELIABLE)],
               (const char *)peer->name);
    }
}

static json_t *peer_json(const struct unetmm_listener *peer)
{
    char mac[UNETMM_MAC_CHARS], host[HOST_CHARS];
    json_t *row = row_new(), *channels = row_list();

    row_text(row, "mac", unetmm_format_mac(peer->mac, mac));
    row_text(row, "name", host_of(peer, host));
    row_count(row, "endpoint", peer->endpoint);
    row_count(row, "service", peer->service);
    row_count(row, "mtu", peer->mtu);
    if (peer->types & UNETMM_DATAGRAM) {
        row_append(channels, text_value("datagram"));
    }
    if (peer->types & UNETMM_RELIABLE) {
        row_append(channels, text_value("reliable"));
    }
    row_add(row, "channels", channels);
    row_text(row, "program", (const char *)peer->name);
    return row;
}

json_t *peers_json(const struct peers *peers)
{
    json_t *list = row_list();
    unsigned i;

    for (i = 0; i < peers->n; i++) {
        row_append(list, peer_json(&peers->list[i]));
    }
    return list;
}
