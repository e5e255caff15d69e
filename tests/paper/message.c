/*
 * unetmm: papers' figures: messages between two nodes, and page faults
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "run.h"

#define CHANNEL     3
#define VA          0x7f5500000000ull
/* In other sets of the TLB than the memory that is sent. */
#define BUFFERS     (VA + 0x10000000ull + FAKE_PAGE)
#define SLOTS       8
#define SLOT_BYTES  FAKE_PAGE
#define STRIDE      16          /* pages from one that is sent to the next */

typedef struct Messages {
    uint32_t sent, done, got;
    uint32_t warm, rounds;      /* of these the first do not count */
    Ps began, ended;
    uint32_t posted[2];
    bool first_misses;          /* node 1 sends from one page */
} Messages;

static Messages *messages(Node *n)
{
    return n->run->scene;
}

static uint64_t buffer_at(uint32_t k)
{
    return BUFFERS + (uint64_t)(k % SLOTS) * SLOT_BYTES;
}

static void post(Node *n)
{
    uint32_t k = messages(n)->posted[n->number]++;

    fake_post(&n->ep, buffer_at(k), SLOT_BYTES, k);
}

/* With `pages` each message is from the next page, else all from the first. */
static void send(Node *n, uint32_t k)
{
    const Costs *c = &n->run->c;
    bool one = !c->pages || (n->number && messages(n)->first_misses);
    uint64_t page = one ? 0 : k % c->pages * STRIDE;

    node_work(n, c->post);
    fake_send_at(&n->ep, CHANNEL + n->number, VA + page * FAKE_PAGE,
                 c->bytes, k);
}

static void tune(Run *r, UnetmmParams *p)
{
    p->user_mtu = 2048;
    if (r->c.tlb_sets) {
        p->tlb_sets = r->c.tlb_sets;
    }
}

static void two_nodes(Run *r, Messages *m)
{
    r->scene = m;
    m->warm = MAX(r->c.warm, 2 * SLOTS);
    m->rounds = m->warm + r->c.rounds;
    for (unsigned i = 0; i < 2; i++) {
        Node *n = node_new(r, i, tune, r->c.source);

        node_map(n, VA, MAX(1, r->c.pages * STRIDE));
        node_map(n, BUFFERS, SLOTS * SLOT_BYTES / FAKE_PAGE);
        fake_ep_create(&n->ep);
        must(fake_channel(&n->ep, CHANNEL + i, node_mac(!i), 2 - i,
                            CHANNEL + !i, 2048) == UNETMM_CS_OK);
        for (unsigned k = 0; k < SLOTS; k++) {
            post(n);
        }
        fake_ring_bell(&n->ep);
        fake_serve(&n->d);
        node_start(n, PS_PER_US * 10);
    }
}

/* A short message is in its completion, and its buffer is still posted. */
static void received(Node *n, const struct unetmm_cqe *cqe)
{
    node_work(n, n->run->c.poll);
    if (!(cqe->flags & UNETMM_CQE_F_INLINE)) {
        post(n);
    }
}

/* ---- There and back ----------------------------------------------------- */

/* The process is called for each completion; the first call takes them all. */
static void pingpong_completed(Node *n)
{
    Messages *m = messages(n);
    struct unetmm_cqe cqe;

    while (fake_poll(&n->ep, &cqe)) {
        if (cqe.opcode != UNETMM_CQE_RECEIVED) {
            continue;
        }
        received(n, &cqe);
        if (n->number) {
            send(n, m->sent - 1);
        } else if (m->sent < m->rounds) {
            if (m->sent == m->warm) {
                m->began = n->host_free;
            }
            send(n, m->sent++);
        } else {
            m->ended = n->host_free;
            n->run->stop = true;
        }
        node_bell(n);
    }
}

/* bytes, rounds, warm, source, pages: prints the time of one round. */
void paper_pingpong(Run *r)
{
    Messages m = { .sent = 1 };

    two_nodes(r, &m);
    r->node[0]->completed = r->node[1]->completed = pingpong_completed;
    send(r->node[0], 0);
    node_bell(r->node[0]);
    run_all(r);
    must(r->stop);
    result("round", (m.ended - m.began) / r->c.rounds);
}

/*
 * As paper_pingpong; then node 0's kernel allows `tlb_limit` valid entries, and
 * the same again.
 */
void paper_limit(Run *r)
{
    Messages m = { .sent = 1 };
    Node *n;

    two_nodes(r, &m);
    n = r->node[0];
    n->completed = r->node[1]->completed = pingpong_completed;
    send(n, 0);
    node_bell(n);
    run_all(r);
    must(r->stop);
    result("round", (m.ended - m.began) / r->c.rounds);
    result("entries", n->entries_most);
    node_limit(n, r->c.tlb_limit);
    r->stop = false;
    m.rounds += r->c.rounds;
    m.began = n->host_free;
    send(n, m.sent++);
    node_bell(n);
    run_all(r);
    must(r->stop);
    result("round, limited", (m.ended - m.began) / r->c.rounds);
    result("entries, limited", n->entries_most);
}

/* ---- One way, as fast as it goes ---------------------------------------- */

static void stream_send(Node *n)
{
    Messages *m = messages(n);
    bool some = false;

    while (m->sent < m->rounds && m->sent - m->done < SLOTS) {
        send(n, m->sent++);
        some = true;
    }
    if (some) {
        node_bell(n);
    }
}

static void stream_completed(Node *n)
{
    Messages *m = messages(n);
    struct unetmm_cqe cqe;

    while (fake_poll(&n->ep, &cqe)) {
        if (cqe.opcode == UNETMM_CQE_SENT) {
            m->done++;
        } else if (cqe.opcode == UNETMM_CQE_RECEIVED) {
            received(n, &cqe);
            if (++m->got == m->warm) {
                m->began = n->run->now;
            } else if (m->got == m->rounds) {
                m->ended = n->run->now;
                n->run->stop = true;
            }
        }
    }
    if (!n->number) {
        stream_send(n);
    } else {
        node_bell(n);
    }
}

/* bytes, rounds, warm, source: prints the time of one message. */
void paper_stream(Run *r)
{
    Messages m = { .sent = 0 };

    two_nodes(r, &m);
    r->node[0]->completed = r->node[1]->completed = stream_completed;
    stream_send(r->node[0]);
    run_all(r);
    must(r->stop);
    result("message", (m.ended - m.began) / r->c.rounds);
}

/* ---- Messages to a node whose sends miss -------------------------------- */

typedef struct Beside {
    Messages m;                 /* first: the scene */
    uint32_t sent;              /* by node 0 */
    uint64_t random;
    Ps waited;
} Beside;

/* Node 0 has a send in hand at any time. */
static void beside_completed(Node *n)
{
    Beside *b = n->run->scene;
    struct unetmm_cqe cqe;

    must(fake_poll(&n->ep, &cqe));
    if (cqe.opcode == UNETMM_CQE_SENT) {
        send(n, b->sent++);
        node_bell(n);
        return;
    }
    received(n, &cqe);
    b->waited += n->run->now - b->m.began;
}

/*
 * Node 1 sends one message each `interval`, or up to twice that: two nodes in
 * step would meet at the same moment of a miss each time.
 */
static void beside_next(Run *r, Node *n, void *arg)
{
    Beside *b = r->scene;

    if (b->m.sent == b->m.rounds) {
        r->stop = true;
        return;
    }
    b->m.began = r->now;
    send(n, b->m.sent++);
    node_bell(n);
    run_at(r, r->now + r->c.interval + r->c.interval / 1000 *
           (fake_random(&b->random) % 1000), beside_next, n, NULL);
}

/* Node 1 does nothing with the messages of node 0, which are all short. */
static void beside_taken(Node *n)
{
    struct unetmm_cqe cqe;

    while (fake_poll(&n->ep, &cqe)) {
        must(cqe.status == UNETMM_ST_OK);
    }
}

/*
 * Each send of node 0 misses, and node 1 sends to it now and then: prints the
 * time of one of these messages.  `busy_wait` makes it longer.
 */
void paper_wait(Run *r)
{
    Beside b = { .m.first_misses = true, .random = 1 };

    two_nodes(r, &b.m);
    r->node[0]->completed = beside_completed;
    r->node[1]->completed = beside_taken;
    send(r->node[0], b.sent++);
    node_bell(r->node[0]);
    beside_next(r, r->node[1], NULL);
    run_all(r);
    must(r->stop);
    result("message", b.waited / b.m.rounds);
    result("lost", b.m.rounds -
           r->node[0]->h.core.counters[UNETMM_C_rx_frames]);
}

/* ---- A page fault ------------------------------------------------------- */

/* One page at a time: the cost of a driver that does not batch. */
static void answer_one(Run *r, Node *n, void *arg)
{
    struct unetmm_fault f = g_array_index(n->d.waiting, struct unetmm_fault,
                                          0);

    g_array_remove_index(n->d.waiting, 0);
    node_enter(n);
    must(fake_resolve(&n->d, &f, 1, NULL) == UNETMM_CS_OK);
    node_leave(n);
}

static void service_one(Node *n)
{
    const Costs *c = &n->run->c;

    node_enter(n);
    fake_serve(&n->d);
    node_leave(n);
    if (n->d.waiting->len) {
        run_at(n->run, node_work(n, c->interrupt + c->fault + c->reply),
               answer_one, n, NULL);
    }
}

static void fault_sent(Run *r, Node *n, void *arg)
{
    r->stop = true;
}

static bool fault_takes(Node *n, FakeFrame *f)
{
    g_free(f);
    if (!n->run->stop) {
        run_at(n->run, n->run->now, fault_sent, n, NULL);
    }
    return true;
}

/* A reliable channel whose packets `takes` sees, and pages that are absent. */
static Node *fault_nodes(Run *r, uint64_t pages,
                         bool (*takes)(Node *n, FakeFrame *f))
{
    struct unetmm_cmd_channel how = { .mtu = 65536, .timeout_us = 1000000 };
    Node *n = node_new(r, 0, NULL, UNETMM_SOURCE_ODP);
    Node *to = node_new(r, 1, NULL, UNETMM_SOURCE_PINNED);

    to->takes = takes;
    node_map(n, VA, pages);
    fake_ep_create(&n->ep);
    must(fake_channel_rel(&n->ep, CHANNEL, node_mac(1), 2, CHANNEL, &how) ==
         UNETMM_CS_OK);
    fake_take_away(n->s, VA, pages * FAKE_PAGE);
    node_start(n, PS_PER_US);
    return n;
}

/*
 * A message of `pages` pages that are all absent, from a reliable channel:
 * prints the time from its doorbell to its first packet's end, less that of the
 * wire.  `single`: the driver brings one page at a time, and the card has to
 * get to the message's last packet.
 */
void paper_fault(Run *r)
{
    bool single = r->c.single;
    Node *n = fault_nodes(r, r->c.pages, single ? NULL : fault_takes);
    const uint64_t *gathered = &n->steps[UNETMM_STEP_GATHER];
    Ps began;

    if (single) {
        n->service = service_one;
    }
    fake_send_at(&n->ep, CHANNEL, VA, r->c.pages * FAKE_PAGE, 1);
    began = n->card_free;
    node_bell(n);
    while (!r->stop && run_more(r) &&
           !(single && *gathered >= (uint64_t)r->c.pages)) {
        run_one(r);
    }
    result("fault", (single ? n->now : r->now) - began);
    result("reports", n->steps[UNETMM_STEP_REPORT]);
}

/* The packets of two messages. */
static bool resume_takes(Node *n, FakeFrame *f)
{
    Messages *m = messages(n);

    g_free(f);
    if (!m->got++) {
        m->began = n->run->now;
    } else {
        m->ended = n->run->now;
        n->run->stop = true;
    }
    return true;
}

/*
 * Two messages of a page each, both absent: prints the time from the doorbell to
 * the first one's packet, and from there to the other's.
 */
void paper_resume(Run *r)
{
    Messages m = { .sent = 0 };
    Node *n = fault_nodes(r, 2, resume_takes);
    Ps began = n->card_free;

    r->scene = &m;
    for (unsigned i = 0; i < 2; i++) {
        fake_send_at(&n->ep, CHANNEL, VA + i * FAKE_PAGE, FAKE_PAGE, i);
    }
    node_bell(n);
    run_all(r);
    must(r->stop);
    result("fault", m.began - began);
    result("second", m.ended - m.began);
}
