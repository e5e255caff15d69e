/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Arrivals: channels that peers have opened to a data port, and that no ACCEPT has named
 * yet.
 *
 * A port may be shared, so each connected peer knows its service, and may open channels
 * that nobody has asked for.  One that sends on them takes buffers, for which other peers
 * then wait.  So a card has hardly more arrivals at a port than requests that it is to
 * answer, and an arrival has the time of a request to be named.
 *
 * A few more, because the acceptor of a request that was given up may connect, too, and
 * only the answer says which one of several is the wanted one.
 */
#include "provider.h"

#include <stdlib.h>

#define BATCH       64u     /* taken before the sweep: a backlog */
#define SPARE       4u      /* beside the requests of a card */
#define LEAST_MS    1000    /* of an arrival: the answer is on its way */

static bool add_arrival(struct umfi_port *port, const struct unetmm_peer *peer)
{
    struct unetmm_channel_info info = { .size = sizeof(info) };
    struct umfi_fabric *fabric = port->domain->fabric;
    struct umfi_arrival *arrival = calloc(1, sizeof(*arrival));
    bool known;

    if (!arrival) {
        return false;
    }
    arrival->peer = umfi_peer_get(fabric, port, umfi_card_id(peer->mac));
    if (!arrival->peer) {
        free(arrival);
        return false;
    }
    umfi_list_init(&arrival->node);
    arrival->peer->arrivals++;
    arrival->channel = peer->channel;
    arrival->endpoint = peer->endpoint;
    arrival->until_ms = umfi_now_ms() +
        (umfi_config.connect_ms > LEAST_MS ? umfi_config.connect_ms : LEAST_MS);
    /* Other threads use the card's endpoint under this lock. */
    umfi_lock(port->domain);
    known = !unetmm_channel_info(port->ep, peer->channel, &info);
    if (known) {
        arrival->peer_channel = info.peer_channel;
        /* The channel may have ended before the arrival was in the list. */
        arrival->closed = umfi_port_has_ended(port, arrival->channel);
        umfi_list_add(&port->arrivals, &arrival->node);
    }
    if (!known) {
        umfi_arrival_free(fabric, arrival);
    }
    umfi_unlock(port->domain);
    return known;
}

void umfi_arrivals_accept(struct umfi_port *port)
{
    struct unetmm_peer peer;

    sys_assert_held(&port->domain->fabric->lock);
    for (unsigned i = 0; i < BATCH && unetmm_accept(port->ep, &peer, 0) >= 0; i++) {
        if (!add_arrival(port, &peer)) {
            umfi_port_drop_channel(port, peer.channel);
        }
    }
}

struct umfi_arrival *umfi_arrival_find(struct umfi_port *port, const uint8_t mac[6],
                                       uint32_t endpoint, uint32_t channel)
{
    uint64_t id = umfi_card_id(mac);
    struct umfi_arrival *arrival;

    sys_assert_held(&port->domain->fabric->lock);
    sys_assert_held(&port->domain->lock);
    umfi_for_each(arrival, &port->arrivals, node) {
        if (!arrival->closed && arrival->peer->id == id && arrival->endpoint == endpoint &&
            arrival->peer_channel == channel) {
            return arrival;
        }
    }
    return NULL;
}

/* The oldest arrival is first: of a card with too many the first ones end. */
static bool has_place(const struct umfi_peer *peer)
{
    return peer->requests && peer->arrivals <= peer->requests + SPARE;
}

void umfi_arrivals_end_unwanted(struct umfi_port *port)
{
    struct umfi_arrival *arrival;

    sys_assert_held(&port->domain->fabric->lock);
    umfi_lock(port->domain);
    umfi_for_each(arrival, &port->arrivals, node) {
        if (!arrival->closed && umfi_now_ms() < arrival->until_ms && has_place(arrival->peer)) {
            continue;
        }
        UMFI_INFO(FI_LOG_EP_CTRL, "a channel that nobody has asked for ends\n");
        umfi_port_end_channel(port, arrival->channel);
        umfi_arrival_free(port->domain->fabric, arrival);
    }
    umfi_unlock(port->domain);
}
