/*
 * unetmm: hosts with cards in a simulated network: many senders, one receiver
 *
 * Each host but host 0 sends `requests` messages of `bytes` to host 0, `depth`
 * of them at a time.  Host 0 receives into places of its `pages` that are drawn by
 * lot, of which its kernel keeps `memory`: if a buffer's page is absent when its
 * message comes, the card answers that it is not ready.  An operation is a message, from
 * its post to the completion of its send.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "scale.h"

#define CHANNEL 1               /* of a sender */

typedef struct Incast {
    int64_t sent, ended;
    Ps began[1024];
} Incast;

static unsigned incast_channels(const Config *c, unsigned number)
{
    return number ? CHANNEL : c->hosts - 1;
}

static uint64_t incast_pages(const Config *c, unsigned number)
{
    return number ? pages_of(c->bytes) : (uint64_t)c->pages;
}

static void incast_connect(Host *h)
{
    const Config *c = h->config;

    h->work = g_new0(Incast, 1);
    if (h->number) {
        host_connect(h, CHANNEL, 0, h->number);
        return;
    }
    for (unsigned i = 1; i < c->hosts; i++) {
        host_connect(h, i, i, CHANNEL);
    }
    for (int64_t i = 0; i < c->buffers; i++) {
        host_post_place(h);
    }
}

static void send(Host *h)
{
    Incast *in = h->work;

    in->began[in->sent++ % 1024] = MAX(h->node->host_free, h->run.now);
    host_send(h, CHANNEL, 0, h->config->bytes, 0);
}

static void incast_completed(Node *n)
{
    Host *h = host_of(n);
    Incast *in = h->work;
    struct unetmm_cqe cqe;

    while (host_poll(h, &cqe)) {
        if (cqe.opcode == UNETMM_CQE_RECEIVED &&
            cqe.status == UNETMM_ST_OK) {
            h->bytes += cqe.len;
            if (!(cqe.flags & UNETMM_CQE_F_INLINE)) {
                host_post_place(h);
                node_bell(n);
            }
        } else if (cqe.opcode == UNETMM_CQE_SENT &&
                   cqe.status == UNETMM_ST_OK) {
            host_took(h, in->began[in->ended++ % 1024]);
            if (in->sent < h->config->requests) {
                send(h);
            }
            h->done = in->ended == h->config->requests;
        }
    }
}

static void incast_start(Host *h)
{
    const Config *c = h->config;

    h->done = !h->number;
    for (int64_t i = 0; !h->done && i < MIN(c->depth, c->requests); i++) {
        send(h);
    }
}

const Workload workload_incast = {
    .name = "incast",
    .text = "all hosts send to host 0, whose buffers are in memory that may be absent",
    .channels = incast_channels,
    .pages = incast_pages,
    .tune = host_tune,
    .connect = incast_connect,
    .start = incast_start,
    .completed = incast_completed,
};
