/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Peers, by number: an index of the counts that limit a peer.
 *
 * Lifetime: a peer begins with its first user, and ends with the last.
 */
#include "provider.h"

#include <search.h>
#include <stdlib.h>

static int compare_peers(const void *one, const void *other)
{
    const struct umfi_peer *a = one, *b = other;

    return a->of == b->of ? (a->id > b->id) - (a->id < b->id) :
        ((uintptr_t)a->of > (uintptr_t)b->of) - ((uintptr_t)a->of < (uintptr_t)b->of);
}

uint64_t umfi_card_id(const uint8_t mac[6])
{
    uint64_t id = 1;    /* above all addresses */

    for (unsigned i = 0; i < 6; i++) {
        id = id << 8 | mac[i];
    }
    return id;
}

struct umfi_peer *umfi_peer_get(struct umfi_fabric *fabric, const void *of, uint64_t id)
{
    struct umfi_peer key = { .of = of, .id = id }, **at;

    sys_assert_held(&fabric->lock);
    at = tsearch(&key, &fabric->peers, compare_peers);
    if (at && *at == &key) {
        struct umfi_peer *peer = malloc(sizeof(*peer));

        if (!peer) {
            tdelete(&key, &fabric->peers, compare_peers);
            return NULL;
        }
        *peer = key;
        umfi_list_init(&peer->node);
        umfi_list_init(&peer->ready);
        umfi_list_init(&peer->waiting);
        *at = peer;
    }
    if (at) {
        (*at)->users++;
    }
    return at ? *at : NULL;
}

void umfi_peer_put(struct umfi_fabric *fabric, struct umfi_peer *peer)
{
    sys_assert_held(&fabric->lock);
    if (!--peer->users) {
        tdelete(peer, &fabric->peers, compare_peers);
        umfi_list_del(&peer->node);
        free(peer);
    }
}
