/*
 * unetmm: hosts with cards in a simulated network: many senders, one receiver
 *
 * Each host but host 0 sends `requests` messages of `bytes` to host 0, `depth`
 * of them at a time.  Host 0 receives into places of its `pages` that are drawn by
 * lot, of which its kernel keeps `memory`: if a buffer's page is absent when its
 * message comes, the policy decides.  An operation is a message, from its post to
 * the completion of its send.
 *
 * With policies drop and backup the messages are datagrams, which may be lost.  Host 0's
 * program answers each one that has come, and an operation lasts until its answer.  An
 * answer has no number: the oldest message has it.  A sender that waits for `again`
 * sends as many messages as have no answer.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "scale.h"

#define CHANNEL 1               /* of a sender */

typedef struct Incast {
    int64_t sent, ended;
    Ps began[1024];
    uintptr_t timer;            /* the one that counts */
} Incast;

static unsigned incast_channels(const Config *c, unsigned number)
{
    return number ? CHANNEL : c->hosts - 1;
}

static uint64_t incast_pages(const Config *c, unsigned number)
{
    return number ? pages_of(c->bytes) : (uint64_t)c->pages;
}

static bool incast_receives(const Config *c, unsigned number)
{
    return !number;
}

/* Host 0 has room for an answer to each message, and for packets that wait. */
static void incast_tune(Host *h)
{
    const Config *c = h->config;
    int64_t answers = c->hosts * c->depth;

    host_tune(h);
    if (lossy(c)) {
        h->node->ep.sq_log2 = host_log2(h->number ? 2 * c->depth : answers);
        h->node->ep.cq_log2 = host_log2(c->buffers + (h->number ? 4 * c->depth :
                                                      answers + c->slots));
    }
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
    host_post_places(h);
}

/* ---- A sender --------------------------------------------------------------- */

static void wait(Host *h);

static void waited(Run *r, Node *n, void *arg)
{
    Host *h = host_of(n);
    Incast *in = h->work;

    if (in->timer != (uintptr_t)arg) {
        return;
    }
    for (int64_t i = in->ended; i < in->sent && host_room(h); i++) {
        h->again++;
        host_send(h, CHANNEL, 0, h->config->bytes);
    }
    wait(h);
}

/* The timer begins anew, if messages have no answer. */
static void wait(Host *h)
{
    Incast *in = h->work;

    in->timer++;
    if (lossy(h->config) && in->ended < in->sent) {
        run_at(&h->run, MAX(h->node->host_free, h->run.now) +
               h->config->again * PS_PER_US, waited, h->node,
               (void *)in->timer);
    }
}

static void send(Host *h)
{
    Incast *in = h->work;

    in->began[in->sent++ % 1024] = MAX(h->node->host_free, h->run.now);
    host_send(h, CHANNEL, 0, h->config->bytes);
}

/* A message has come, or its answer. */
static void ended(Host *h)
{
    Incast *in = h->work;

    if (in->ended == h->config->requests) {
        return;                 /* the answer to one that was sent again */
    }
    h->bytes += lossy(h->config) ? h->config->bytes : 0;
    host_took(h, in->began[in->ended++ % 1024]);
    if (in->sent < h->config->requests) {
        send(h);
    }
    h->done = in->ended == h->config->requests;
    wait(h);
}

/* ---- All -------------------------------------------------------------------- */

static void received(Host *h, const struct unetmm_cqe *cqe)
{
    const uint32_t answer = 0;

    if (h->number) {
        ended(h);
        return;
    }
    host_repost(h, cqe);
    if (!lossy(h->config)) {
        h->bytes += cqe->len;
    } else if (host_room(h)) {
        host_send_inline(h, cqe->channel, &answer, sizeof(answer));
    }
}

static void incast_completed(Node *n)
{
    Host *h = host_of(n);
    struct unetmm_cqe cqe;

    while (host_poll(h, &cqe)) {
        if (cqe.status != UNETMM_ST_OK) {
            continue;
        }
        if (cqe.opcode == UNETMM_CQE_RECEIVED) {
            received(h, &cqe);
        } else if (cqe.opcode == UNETMM_CQE_SENT && !lossy(h->config)) {
            ended(h);
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
    wait(h);
}

const Workload workload_incast = {
    .name = "incast",
    .text = "all hosts send to host 0, whose buffers are in memory that may be absent",
    .channels = incast_channels,
    .receives = incast_receives,
    .datagrams = true,
    .pages = incast_pages,
    .tune = incast_tune,
    .connect = incast_connect,
    .start = incast_start,
    .completed = incast_completed,
};
