/*
 * unetmm: hosts with cards in a simulated network: parts of it, for several
 * processes
 *
 * Each rank of MPI has an equal run of hosts, with the switches that these are
 * at.  A switch without hosts goes to a rank of its neighbours: to each in
 * turn, so that spines do not all go to one rank.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "scale.h"

#define NO_RANK     UINT_MAX

/* The far end, in turn, of those of the switch's links that have a rank. */
static unsigned rank_beside(const Config *c, const unsigned *ranks,
                            unsigned which)
{
    g_autofree unsigned *beside = g_new(unsigned, c->links->len);
    unsigned n = 0, node = c->hosts + which;

    for (unsigned i = 0; i < c->links->len; i++) {
        const Link *link = &g_array_index(c->links, Link, i);

        for (unsigned side = 0; side < 2; side++) {
            unsigned rank = ranks[link->end[!side]];

            if (link->end[side] == node && rank != NO_RANK) {
                /* All hosts of a switch are near each other: the first decides. */
                if (link->end[!side] < c->hosts) {
                    return rank;
                }
                beside[n++] = rank;
            }
        }
    }
    return n ? beside[which % n] : NO_RANK;
}

unsigned *config_ranks(const Config *c, unsigned n)
{
    unsigned nodes = c->hosts + c->switches;
    unsigned *ranks = g_new(unsigned, nodes);
    g_autofree unsigned *found = g_new(unsigned, nodes);
    bool more = true;

    for (unsigned i = 0; i < nodes; i++) {
        ranks[i] = i < c->hosts ? (uint64_t)i * n / c->hosts : NO_RANK;
    }
    /* A pass for each layer of switches: the ranks of one come from those of the one before. */
    while (more) {
        more = false;
        memcpy(found, ranks, nodes * sizeof(*ranks));
        for (unsigned i = c->hosts; i < nodes; i++) {
            if (ranks[i] == NO_RANK) {
                found[i] = rank_beside(c, ranks, i - c->hosts);
                more |= found[i] != NO_RANK;
            }
        }
        memcpy(ranks, found, nodes * sizeof(*ranks));
    }
    for (unsigned i = c->hosts; i < nodes; i++) {
        /* No host reaches the switch. */
        ranks[i] = ranks[i] == NO_RANK ? 0 : ranks[i];
    }
    return ranks;
}
