/*
 * unetmm: hosts with cards in a simulated network: a ring allreduce
 *
 * Each host sends a chunk of `bytes` to the next host, and the next chunk when
 * the one from the host before it has come, 2 * (hosts - 1) times: `requests`
 * rounds of it.  Host 0's buffers are in its `pages`, as those of the others
 * are.  An operation is a round.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "scale.h"

enum { NEXT = 1, BEFORE = 2 };  /* channels */

#define SLOTS   8               /* chunks of buffers, posted and sent */

typedef struct Ring {
    int64_t sent, got, posted;
    Ps began;
} Ring;

static unsigned ring_channels(const Config *c, unsigned number)
{
    return BEFORE;
}

static bool ring_receives(const Config *c, unsigned number)
{
    return true;
}

static uint64_t ring_pages(const Config *c, unsigned number)
{
    return c->pages;
}

static void ring_tune(Host *h)
{
    h->node->ep.sq_log2 = h->node->ep.fq_log2 = 4;
    h->node->ep.cq_log2 = 6;
}

static uint64_t slot_at(const Host *h, int64_t number)
{
    uint64_t each = pages_of(h->config->bytes);

    return number % MAX(1, h->config->pages / each) * each * FAKE_PAGE;
}

static void receive(Host *h)
{
    Ring *ring = h->work;

    host_post(h, SCALE_VA + slot_at(h, ring->posted++), h->config->bytes);
}

static void ring_connect(Host *h)
{
    unsigned hosts = h->config->hosts;

    h->work = g_new0(Ring, 1);
    host_connect(h, NEXT, (h->number + 1) % hosts, BEFORE);
    host_connect(h, BEFORE, (h->number + hosts - 1) % hosts, NEXT);
    for (unsigned i = 0; i < SLOTS; i++) {
        receive(h);
    }
}

static void send(Host *h)
{
    Ring *ring = h->work;

    host_send(h, NEXT, slot_at(h, ring->sent++), h->config->bytes);
}

static int64_t steps(const Host *h)
{
    return 2 * (h->config->hosts - 1);
}

static void got(Host *h)
{
    Ring *ring = h->work;

    ring->got++;
    if (ring->got % steps(h) == 0) {
        host_took(h, ring->began);
        ring->began = h->node->host_free;
    }
    h->done = ring->got == steps(h) * h->config->requests;
    if (!h->done && ring->sent < steps(h) * h->config->requests) {
        send(h);
    }
}

static void ring_completed(Node *n)
{
    Host *h = host_of(n);
    struct unetmm_cqe cqe;

    while (host_poll(h, &cqe)) {
        if (cqe.opcode == UNETMM_CQE_RECEIVED &&
            cqe.status == UNETMM_ST_OK) {
            h->bytes += cqe.len;
            if (!(cqe.flags & UNETMM_CQE_F_INLINE)) {
                receive(h);
                node_bell(n);
            }
            got(h);
        }
    }
}

static void ring_start(Host *h)
{
    ((Ring *)h->work)->began = h->run.now;
    send(h);
}

const Workload workload_ring = {
    .name = "ring",
    .text = "an allreduce of all hosts, each of which sends to the next one",
    .channels = ring_channels,
    .receives = ring_receives,
    .pages = ring_pages,
    .tune = ring_tune,
    .connect = ring_connect,
    .start = ring_start,
    .completed = ring_completed,
};
