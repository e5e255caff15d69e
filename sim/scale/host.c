/*
 * unetmm: hosts with cards in a simulated network: a host
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "scale.h"

#define POST    (10 * PS_PER_US)
#define BEGIN   (20 * PS_PER_US)
#define GROUP   16              /* ranges of times to each power of two */

/* ---- The engine's side --------------------------------------------------- */

/* `in_events` is of the host's list: the engine drops those that `until` cuts off. */
typedef struct Event {
    Ps at;
    EventFn *fn;
    Node *node;
    void *arg;
    GList in_events;
} Event;

static void host_at(Run *r, Ps at, EventFn *fn, Node *n, void *arg)
{
    Host *h = (Host *)r;
    Event *e = g_new(Event, 1);

    *e = (Event) { .at = MAX(at, r->now), .fn = fn, .node = n, .arg = arg,
                   .in_events.data = e };
    g_queue_push_tail_link(&h->events, &e->in_events);
    h->ops->at(h->port, e->at, e);
}

void host_event(Host *h, void *event)
{
    Event e = *(Event *)event;

    g_queue_unlink(&h->events, &((Event *)event)->in_events);
    g_free(event);
    run_begin(&h->run, e.at, e.node);
    e.fn(&h->run, e.node, e.arg);
}

static void host_sends(Node *n, FakeFrame *f)
{
    Host *h = host_of(n);

    h->frames_out++;
    h->bytes_out += f->bytes;
    h->ops->frame(h->port, n->now, f->data, f->bytes);
    g_free(f);
}

void host_frame(Host *h, int64_t now, const void *frame, size_t bytes)
{
    FakeFrame *f = g_malloc(sizeof(*f) + bytes);

    f->bytes = bytes;
    memcpy(f->data, frame, bytes);
    h->frames_in++;
    h->bytes_in += bytes;
    run_begin(&h->run, now, h->node);
    node_arrives(h->node, f);
}

/* ---- For workloads -------------------------------------------------------- */

void host_connect(Host *h, unsigned mine, unsigned other, unsigned theirs)
{
    struct unetmm_cmd_channel how = {
        .mtu = h->config->mtu, .timeout_us = h->config->timeout,
        .not_ready_us = h->config->not_ready,
        .flags = h->config->plain ? UNETMM_CHANNEL_F_PLAIN_RNR : 0,
        .send_credits = aside_credits(h->config, other),
        .recv_credits = aside_credits(h->config, h->number),
    };

    if (lossy(h->config)) {
        must(fake_channel(&h->node->ep, mine, node_mac(other), SCALE_EP, theirs,
                          h->config->mtu) == UNETMM_CS_OK);
        return;
    }
    must(fake_channel_rel(&h->node->ep, mine, node_mac(other), SCALE_EP, theirs,
                          &how) == UNETMM_CS_OK);
}

/* A descriptor that its process posts when its pages are there. */
typedef struct Late {
    bool receive;
    struct unetmm_sqe sqe;
    struct unetmm_fqe fqe;
    GList in_late;
} Late;

static void post_now(Host *h, const Late *p)
{
    if (p->receive) {
        fake_post_fqes(&h->node->ep, &p->fqe, 1);
        aside_posted(h);
    } else {
        fake_send_sqe(&h->node->ep, p->sqe);
    }
}

static void post_late(Run *r, Node *n, void *arg)
{
    Host *h = host_of(n);
    Late *p = arg;

    post_now(h, p);
    g_queue_unlink(&h->late, &p->in_late);
    g_free(p);
    node_bell(n);
}

/* Posts it now, or, if the process may have slept for its pages, in its turn. */
static void post_descriptor(Host *h, const Late *p)
{
    Late *late;

    if (!h->source->before || !h->node->timed) {
        post_now(h, p);
        return;
    }
    late = g_memdup2(p, sizeof(*p));
    late->in_late.data = late;
    g_queue_push_tail_link(&h->late, &late->in_late);
    run_at(&h->run, h->node->host_free, post_late, h->node, late);
}

void host_send(Host *h, unsigned channel, uint64_t offset, uint32_t bytes)
{
    uint64_t at = SCALE_VA + offset;
    const Late p = { .sqe = {
        .opcode = UNETMM_OP_SEND, .nsegs = 1, .channel = channel, .cookie = at,
        .seg = { { .addr = at, .len = bytes } },
    } };

    h->sent++;
    node_work(h->node, h->config->costs.post);
    source_before(h, at, h->config->bytes);
    post_descriptor(h, &p);
    node_bell(h->node);
}

void host_send_inline(Host *h, unsigned channel, const void *data,
                      uint32_t bytes)
{
    Late p = { .sqe = {
        .opcode = UNETMM_OP_SEND, .flags = UNETMM_SQE_F_INLINE,
        .inline_len = bytes, .channel = channel,
    } };

    must(bytes <= sizeof(p.sqe.data));
    h->sent++;
    memcpy(p.sqe.data, data, bytes);
    node_work(h->node, h->config->costs.post);
    source_before(h, 0, 0);
    post_descriptor(h, &p);
    node_bell(h->node);
}

uint8_t host_log2(uint64_t least)
{
    uint8_t log2 = 4;

    while (log2 < 14 && 1ull << log2 < least) {
        log2++;
    }
    return log2;
}

uint32_t host_room(const Host *h)
{
    const FakeEp *ep = &h->node->ep;

    return (1u << ep->sq_log2) - (uint32_t)(h->sent - h->sends_ended);
}

void host_post(Host *h, uint64_t vaddr, uint32_t bytes)
{
    const Late p = { .receive = true, .fqe = {
        .addr = vaddr, .len = bytes, .cookie = vaddr,
    } };

    source_before(h, vaddr, bytes);
    post_descriptor(h, &p);
}

void host_tune(Host *h)
{
    h->node->ep.sq_log2 = host_log2(h->config->depth + 1);
    h->node->ep.fq_log2 = host_log2(h->config->buffers + 1);
    h->node->ep.cq_log2 = host_log2(h->config->buffers + h->config->depth + 2);
}

uint64_t host_place(Host *h)
{
    const Config *c = h->config;
    uint64_t each = pages_of(c->bytes);
    uint32_t places = MAX(1, c->pages / each);

    return host_random(h, places) * each * FAKE_PAGE;
}

void host_post_place(Host *h)
{
    host_post(h, SCALE_VA + host_place(h), h->config->bytes);
}

void host_post_places(Host *h)
{
    for (int64_t i = 0; i < h->config->buffers; i++) {
        host_post_place(h);
    }
}

void host_repost(Host *h, const struct unetmm_cqe *cqe)
{
    if (!(cqe->flags & UNETMM_CQE_F_INLINE)) {
        host_post_place(h);
        node_bell(h->node);
    }
}

/* The pages of a buffer or a send; inline messages have none. */
static void done_with(Host *h, const struct unetmm_cqe *cqe)
{
    if (!(cqe->flags & UNETMM_CQE_F_INLINE)) {
        source_after(h, cqe->cookie, h->config->bytes);
    }
}

/* A buffer that policy skip has given back is posted again. */
static bool came_back(Host *h, const struct unetmm_cqe *cqe)
{
    if (cqe->opcode != UNETMM_CQE_BUFFER ||
        cqe->status != UNETMM_ST_SKIPPED) {
        return false;
    }
    host_post(h, cqe->cookie, h->config->bytes);
    node_bell(h->node);
    return true;
}

bool host_poll(Host *h, struct unetmm_cqe *cqe)
{
    do {
        if (!fake_poll(&h->node->ep, cqe)) {
            return false;
        }
        node_work(h->node, h->config->costs.poll);
        done_with(h, cqe);
    } while (came_back(h, cqe));
    h->sends_ended += cqe->opcode == UNETMM_CQE_SENT;
    h->failed += cqe->status != UNETMM_ST_OK;
    h->received += cqe->opcode == UNETMM_CQE_RECEIVED &&
                   cqe->status == UNETMM_ST_OK;
    return true;
}

/* The range of a time in ns: GROUP of them to each power of two. */
static unsigned range_of(uint64_t ns)
{
    unsigned top = 63 - __builtin_clzll(ns | 1);

    if (ns < GROUP) {
        return ns;
    }
    return MIN(TIMES - 1, (top - 3) * GROUP + (ns >> (top - 4)) % GROUP);
}

void host_took(Host *h, Ps began)
{
    Ps end = h->node->host_free;

    h->ended = MAX(h->ended, end);
    h->times[range_of(MAX(0, end - began) / PS_PER_NS)]++;
}

uint32_t host_random(Host *h, uint32_t below)
{
    return fake_random(&h->random) % below;
}

/* ---- Life ------------------------------------------------------------------ */

static void tune(Run *r, UnetmmParams *p)
{
    const Config *c = ((Host *)r)->config;
    unsigned channels = c->workload->channels(c, ((Host *)r)->number);

    p->endpoints = 2;
    p->spaces = 2;
    p->channels = channels + 1;
    p->reliable = channels + 1;
    p->tlb_sets = c->tlb_sets;
    p->user_mtu = c->mtu;
    p->congestion = c->congestion;
    p->congestion_window = c->window;
    p->congestion_trip_ns = c->trip;
    p->regions = 1;
    p->imports = 1;
    p->window_pages = 0;
    p->proxy_pages = 0;
    aside_params((Host *)r, p);
}

Host *host_new(const Config *c, unsigned number, const HostOps *ops,
               void *port)
{
    static const RunOps run_ops = { .at = host_at, .frame = host_sends };
    Host *h = g_new0(Host, 1);
    Node *n;

    run_init(&h->run, &run_ops, &c->costs);
    h->config = c;
    h->source = source_model(c->source);
    h->ops = ops;
    h->port = port;
    h->number = number;
    h->random = ((uint64_t)c->seed * 0x9e3779b97f4a7c15ull) ^
                ((uint64_t)number * 0xbf58476d1ce4e5b9ull);
    n = h->node = node_new(&h->run, number, tune, c->source);
    n->ep.id = SCALE_EP;
    c->workload->tune(h);
    source_init(h);
    memory_init(h);
    aside_init(h);
    fake_ep_create(&n->ep);
    c->workload->connect(h);
    n->completed = c->workload->completed;
    n->service = memory_service;
    return h;
}

void host_free(Host *h)
{
    while (h->events.head) {
        Event *e = g_queue_pop_head_link(&h->events)->data;

        node_forget(e->fn, e->arg);
        g_free(e);
    }
    while (h->late.head) {
        g_free(g_queue_pop_head_link(&h->late)->data);
    }
    memory_free(h);
    source_free(h);
    node_free(h->node);
    if (h->config->workload->free) {
        h->config->workload->free(h);
    }
    g_free(h->work);
    g_free(h);
}

static void begin(Run *r, Node *n, void *arg)
{
    Host *h = host_of(n);

    h->began = r->now;
    h->config->workload->start(h);
}

/* The card sees the buffers; a page of them that is absent is a miss. */
static void post(Run *r, Node *n, void *arg)
{
    node_bell(n);
}

void host_start(Host *h)
{
    node_start(h->node, POST);
    run_at(&h->run, POST, post, h->node, NULL);
    run_at(&h->run, BEGIN, begin, h->node, NULL);
}

static void print_times(const Host *h, FILE *to)
{
    const char *between = "";

    fprintf(to, ", \"times\": {");
    for (unsigned i = 0; i < TIMES; i++) {
        if (h->times[i]) {
            uint64_t ns = i < GROUP ? i :
                          (GROUP + i % GROUP) << (i / GROUP - 1);

            fprintf(to, "%s\"%" PRIu64 "\": %u", between, ns, h->times[i]);
            between = ", ";
        }
    }
    fprintf(to, "}");
}

void host_print(const Host *h, FILE *to)
{
    const uint64_t *counters = h->node->h.core.counters;
    const char *between = "";

    fprintf(to, "{\"host\": %u, \"done\": %s, \"sent\": %" PRIu64
            ", \"received\": %" PRIu64 ", \"failed\": %" PRIu64
            ", \"bytes\": %" PRIu64 ", \"frames_out\": %" PRIu64
            ", \"bytes_out\": %" PRIu64 ", \"frames_in\": %" PRIu64
            ", \"bytes_in\": %" PRIu64 ", \"began\": %" PRId64 ", \"ended\": %"
            PRId64 ", \"faults\": %" PRIu64 ", \"page_ins\": %" PRIu64
            ", \"reclaims\": %" PRIu64 ", \"pinned\": %" PRIu64
            ", \"aside\": %u, \"again\": %" PRIu64
            ", \"events\": %" PRIu64 ", \"trace\": \"%016" PRIx64 "\"",
            h->number, h->done ? "true" : "false", h->sent, h->received,
            h->failed, h->bytes, h->frames_out, h->bytes_out, h->frames_in,
            h->bytes_in, h->began, h->ended, h->faults,
            h->memory.page_ins, h->memory.reclaims,
            MAX(h->memory.pinned_most, source_pinned(h)),
            h->memory.aside_most, h->again,
            h->run.events, h->run.trace);
    print_times(h, to);
    fprintf(to, ", \"counters\": {");
#define COUNTER(name, ...) \
    if (counters[UNETMM_C_##name]) { \
        fprintf(to, "%s\"" #name "\": %" PRIu64, between, \
                counters[UNETMM_C_##name]); \
        between = ", "; \
    }
    UNETMM_COUNTERS(COUNTER)
#undef COUNTER
    fprintf(to, "}}\n");
}
