/*
 * unetmm: hosts with cards in a simulated network: requests for values
 *
 * Hosts 0 to servers - 1 have `pages` of values each, of which their kernels
 * keep `memory`.  Each other host is a client of one server, in turn, and has
 * `depth` requests on their way.  The server sends a value straight from where it
 * lies: an absent page is the card's miss.  `writes` percent of the requests send
 * a value to the server, which receives it into a place of its pages that is drawn
 * by lot and answers; so large values and many writes are a store of blocks.  A value that a server cannot send
 * at once, as its send queue is full, waits in the program.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "scale.h"

#define CHANNEL 1               /* of a client */

typedef struct Request {
    uint32_t value;             /* its number */
    uint32_t spare[3];
} Request;

typedef struct Wanted {
    uint32_t value;
    uint16_t channel;
    bool stored;                /* the answer to a value that has come */
} Wanted;

typedef struct Kv {
    GQueue *wanted;             /* a server's: of Wanted, that have no room */
    int64_t asked, got;         /* a client's */
    Ps began[1024];             /* by the number of the request */
} Kv;

static bool serves(const Config *c, unsigned number)
{
    return number < c->servers;
}

static unsigned server_of(const Config *c, unsigned client)
{
    return (client - c->servers) % c->servers;
}

/* Clients of a server have its channels 1, 2, ... in turn. */
static unsigned channel_of(const Config *c, unsigned client)
{
    return (client - c->servers) / c->servers + 1;
}

static unsigned kv_channels(const Config *c, unsigned number)
{
    return serves(c, number) ? (c->hosts - c->servers - number - 1) / c->servers + 1 : CHANNEL;
}

static uint64_t kv_pages(const Config *c, unsigned number)
{
    if (!serves(c, number)) {
        return c->writes ? pages_of(c->bytes) : 0;
    }
    return c->pages;
}

static bool kv_receives(const Config *c, unsigned number)
{
    return serves(c, number) && c->writes;
}

static void kv_tune(Host *h)
{
    const Config *c = h->config;
    unsigned most = kv_channels(c, h->number) * c->depth;

    h->node->ep.sq_log2 = host_log2(most + 1);
    h->node->ep.cq_log2 = host_log2(2 * most + c->buffers);
    h->node->ep.fq_log2 = host_log2(c->buffers + c->depth);
}

static uint64_t pool_bytes(const Config *c)
{
    return pages_of(c->bytes) * FAKE_PAGE;
}

/* A server receives values into its pages, a client into memory that is always there. */
static void post(Host *h, int64_t i)
{
    if (serves(h->config, h->number) && h->config->writes) {
        host_post_place(h);
    } else {
        host_post(h, SCALE_POOL + i * pool_bytes(h->config), h->config->bytes);
    }
}

static void kv_connect(Host *h)
{
    const Config *c = h->config;
    uint64_t bytes = pool_bytes(c);

    h->work = g_new0(Kv, 1);
    node_map(h->node, SCALE_POOL, (c->buffers + c->depth) * bytes / FAKE_PAGE);
    for (int64_t i = 0; i < c->buffers; i++) {
        post(h, i);
    }
    if (!serves(c, h->number)) {
        host_connect(h, CHANNEL, server_of(c, h->number),
                     channel_of(c, h->number));
        return;
    }
    ((Kv *)h->work)->wanted = g_queue_new();
    for (unsigned i = c->servers; i < c->hosts; i++) {
        if (server_of(c, i) == h->number) {
            host_connect(h, channel_of(c, i), i, CHANNEL);
        }
    }
}

/* ---- A client -------------------------------------------------------------- */

/* Some of the values are asked for more often than the others. */
static uint32_t choose(Host *h)
{
    const Config *c = h->config;
    uint32_t values = MAX(1, c->pages * FAKE_PAGE / pool_bytes(c));
    uint32_t hot = MAX(1, values * c->hot / 100);

    if (host_random(h, 100) < (uint32_t)c->hot_share) {
        return host_random(h, hot);
    }
    return hot < values ? hot + host_random(h, values - hot) : host_random(h, values);
}

static void ask(Host *h)
{
    Kv *kv = h->work;
    Request request = { .value = choose(h) };

    kv->began[kv->asked++ % 1024] = MAX(h->node->host_free, h->run.now);
    if (h->config->writes &&
        host_random(h, 100) < (uint32_t)h->config->writes) {
        host_send(h, CHANNEL, 0, h->config->bytes);
    } else {
        host_send_inline(h, CHANNEL, &request, sizeof(request));
    }
}

/* Values come in the order of their requests, as the channel is reliable. */
static void client_got(Host *h)
{
    Kv *kv = h->work;

    host_took(h, kv->began[kv->got++ % 1024]);
    if (kv->asked < h->config->requests) {
        ask(h);
    }
    h->done = kv->got == h->config->requests;
}

/* ---- A server ---------------------------------------------------------------- */

static void give(Host *h, const Wanted *w)
{
    const Request answer = { .value = w->value };

    if (w->stored) {
        host_send_inline(h, w->channel, &answer, sizeof(answer));
        return;
    }
    host_send(h, w->channel, w->value * pool_bytes(h->config), h->config->bytes);
}

static void server_asked(Host *h, const struct unetmm_cqe *cqe)
{
    const Config *c = h->config;
    Request request;
    Wanted w;

    w = (Wanted) { .channel = cqe->channel,
                   .stored = !(cqe->flags & UNETMM_CQE_F_INLINE) };
    if (w.stored) {
        h->bytes += cqe->len;
        post(h, 0);
        node_bell(h->node);
    } else {
        must(cqe->len == sizeof(request));
        memcpy(&request, cqe->data, sizeof(request));
        w.value = request.value;
    }
    node_work(h->node, c->service);
    if (host_room(h)) {
        give(h, &w);
    } else {
        g_queue_push_tail(((Kv *)h->work)->wanted, g_memdup2(&w, sizeof(w)));
    }
}

static void server_sent(Host *h)
{
    Wanted *w = g_queue_pop_head(((Kv *)h->work)->wanted);

    if (w) {
        give(h, w);
        g_free(w);
    }
}

/* ---- Both ---------------------------------------------------------------------- */

static void kv_completed(Node *n)
{
    Host *h = host_of(n);
    bool server = serves(h->config, h->number);
    struct unetmm_cqe cqe;

    while (host_poll(h, &cqe)) {
        if (cqe.opcode == UNETMM_CQE_SENT && server) {
            server_sent(h);
        } else if (cqe.opcode == UNETMM_CQE_RECEIVED &&
                   cqe.status == UNETMM_ST_OK) {
            if (server) {
                server_asked(h, &cqe);
                continue;
            }
            if (!(cqe.flags & UNETMM_CQE_F_INLINE)) {
                h->bytes += cqe.len;
                post(h, 0);
                node_bell(n);
            }
            client_got(h);
        }
    }
}

static void kv_free(Host *h)
{
    Kv *kv = h->work;

    if (kv && kv->wanted) {
        g_queue_free_full(kv->wanted, g_free);
    }
}

static void kv_start(Host *h)
{
    const Config *c = h->config;

    h->done = serves(c, h->number);
    for (int64_t i = 0; !h->done && i < MIN(c->depth, c->requests); i++) {
        ask(h);
    }
}

const Workload workload_kv = {
    .name = "kv",
    .text = "clients ask servers for values, of which a server's memory has some",
    .channels = kv_channels,
    .receives = kv_receives,
    .pages = kv_pages,
    .tune = kv_tune,
    .connect = kv_connect,
    .start = kv_start,
    .completed = kv_completed,
    .free = kv_free,
};
