/*
 * unetmm: hosts with cards in a simulated network: all hosts send to all others
 *
 * Each host sends `requests` messages of `bytes` to each other host, in rounds:
 * in round k to the host k places behind it, `depth` messages at a time.  Each
 * receives into places of its `pages` that are drawn by lot, of which its kernel
 * keeps `memory`.  An operation is a message, from its post to the completion of
 * its send.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "scale.h"

typedef struct AllToAll {
    int64_t sent, ended;
    Ps began[1024];
} AllToAll;

/* Channel k of a host leads to the host k places behind it. */
static unsigned all_channels(const Config *c, unsigned number)
{
    return c->hosts - 1;
}

static bool all_receives(const Config *c, unsigned number)
{
    return true;
}

static uint64_t all_pages(const Config *c, unsigned number)
{
    return c->pages;
}

static void all_connect(Host *h)
{
    unsigned hosts = h->config->hosts;

    h->work = g_new0(AllToAll, 1);
    for (unsigned k = 1; k < hosts; k++) {
        host_connect(h, k, (h->number + k) % hosts, hosts - k);
    }
    host_post_places(h);
}

static int64_t messages(const Config *c)
{
    return c->requests * (c->hosts - 1);
}

static void send(Host *h)
{
    const Config *c = h->config;
    AllToAll *all = h->work;

    all->began[all->sent % 1024] = MAX(h->node->host_free, h->run.now);
    host_send(h, 1 + all->sent / c->requests, 0, c->bytes);
    all->sent++;
}

static void all_completed(Node *n)
{
    Host *h = host_of(n);
    AllToAll *all = h->work;
    struct unetmm_cqe cqe;

    while (host_poll(h, &cqe)) {
        if (cqe.status != UNETMM_ST_OK) {
            continue;
        }
        if (cqe.opcode == UNETMM_CQE_RECEIVED) {
            h->bytes += cqe.len;
            host_repost(h, &cqe);
        } else if (cqe.opcode == UNETMM_CQE_SENT) {
            host_took(h, all->began[all->ended++ % 1024]);
            if (all->sent < messages(h->config)) {
                send(h);
            }
            h->done = all->ended == messages(h->config);
        }
    }
}

static void all_start(Host *h)
{
    for (int64_t i = 0; i < MIN(h->config->depth, messages(h->config)); i++) {
        send(h);
    }
}

const Workload workload_alltoall = {
    .name = "alltoall",
    .text = "each host sends to each other one, into memory that may be absent",
    .channels = all_channels,
    .receives = all_receives,
    .pages = all_pages,
    .tune = host_tune,
    .connect = all_connect,
    .start = all_start,
    .completed = all_completed,
};
