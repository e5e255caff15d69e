/*
 * unetmm: papers' figures: a server whose receive ring is cold (NPF, Figure 4)
 *
 * A client has `connections` to a server and asks for one thing at a time on
 * each.  No buffer of the server's ring is present: the packet that comes to one
 * is lost and starts a page fault, and those until its end are lost, too.  All
 * else is up to TCP's timers: Linux's at the client (RFC 6298), lwIP's at the
 * server.  The wire to the client loses nothing.
 *
 * Neither the card's core nor lwIP's code has a part in this: Debian's liblwip
 * has timers on the real clock, in threads of its own.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "run.h"

#define SYN_TRIES       6           /* tcp_syn_retries */
#define DATA_TRIES      15          /* tcp_retries2 */
#define SYNACK_TRIES    6           /* TCP_SYNMAXRTX */
#define RTO_MOST        (120 * PS_PER_S)
#define THINK           (5 * PS_PER_US)
#define LONGEST         (400 * PS_PER_S)

typedef enum Kind { SYN, ACK, REQUEST } Kind;

typedef enum ServerState { NONE, RECEIVED, OPEN, GONE } ServerState;

typedef struct Connection {
    bool open;                  /* the client's side */
    unsigned tries;             /* of the packet that waits for its answer */
    Ps rto, usual;              /* its timer; that of the next */
    int64_t seq;                /* requests, from 1 on */
    uintptr_t timer;            /* the one that counts */
    ServerState server;
    unsigned synacks;
    Ps received;
} Connection;

typedef struct Cold {
    Connection *all;
    Ps *present;                /* of each slot; 0: never asked for */
    uint64_t head, lost;
    int64_t opened, done;
    Ps busy, first, ended;
    bool failed;
} Cold;

typedef struct Packet {
    Connection *c;
    Kind kind;
    uintptr_t number;           /* of a request, or of a timer */
} Packet;

static Packet *packet_new(Connection *c, Kind kind, uintptr_t number)
{
    Packet *p = g_new(Packet, 1);

    *p = (Packet) { .c = c, .kind = kind, .number = number };
    return p;
}

static void give_up(Run *r)
{
    Cold *cold = r->scene;

    cold->failed = true;
    r->stop = true;
}

/* ---- The ring ----------------------------------------------------------- */

static bool ring_takes(Run *r)
{
    Cold *cold = r->scene;
    Ps *present = &cold->present[cold->head % r->c.ring];

    if (!*present) {
        *present = r->now + r->c.fault;
    }
    if (r->now < *present) {
        cold->lost++;
        return false;
    }
    cold->head++;
    return true;
}

/* ---- The client --------------------------------------------------------- */

static void arrives(Run *r, Node *n, void *arg);

static void transmit(Run *r, Connection *c, Kind kind)
{
    run_at(r, r->now + r->c.delay, arrives, NULL,
           packet_new(c, kind, c->seq));
}

static void timer_over(Run *r, Node *n, void *arg);

/* Sends the SYN or the request that is not answered, and starts its timer. */
static void try_once(Run *r, Connection *c)
{
    transmit(r, c, c->open ? REQUEST : SYN);
    c->timer++;
    run_at(r, r->now + c->rto, timer_over, NULL,
           packet_new(c, SYN, c->timer));
    c->rto = MIN(2 * c->rto, RTO_MOST);
}

static void timer_over(Run *r, Node *n, void *arg)
{
    g_autofree Packet *p = arg;

    if (p->number != p->c->timer) {
        return;
    }
    if (++p->c->tries > (p->c->open ? DATA_TRIES : SYN_TRIES)) {
        give_up(r);
        return;
    }
    try_once(r, p->c);
}

static void connect_one(Run *r, Connection *c)
{
    c->rto = r->c.rto_first;
    try_once(r, c);
}

static void ask(Run *r, Node *n, void *arg)
{
    Connection *c = arg;

    c->seq++;
    c->tries = 0;
    c->rto = c->usual;
    try_once(r, c);
}

/* Where one waits for the other, requests begin when all are open. */
static void opened(Run *r, Connection *c)
{
    Cold *cold = r->scene;

    cold->opened++;
    if (!r->c.sequential) {
        ask(r, NULL, c);
    } else if (cold->opened < r->c.connections) {
        connect_one(r, &cold->all[cold->opened]);
    } else {
        for (int64_t i = 0; i < r->c.connections; i++) {
            ask(r, NULL, &cold->all[i]);
        }
    }
}

static void synack_arrives(Run *r, Node *n, void *arg)
{
    Connection *c = arg;

    transmit(r, c, ACK);
    if (!c->open) {
        c->open = true;
        c->timer++;
        /* A SYN that was sent twice does not say the time there and back. */
        c->usual = c->tries && !r->c.stamps ? r->c.rto_again : r->c.rto_least;
        opened(r, c);
    }
}

static void response_arrives(Run *r, Node *n, void *arg)
{
    g_autofree Packet *p = arg;
    Cold *cold = r->scene;
    Connection *c = p->c;

    if ((int64_t)p->number != c->seq) {
        return;
    }
    c->timer++;
    /*
     * Karn: without time stamps a longer timer stays until a request is answered
     * that went once.
     */
    c->usual = c->tries && !r->c.stamps ? c->rto / 2 : r->c.rto_least;
    cold->first = cold->first ?: r->now;
    if (++cold->done == r->c.accesses) {
        cold->ended = r->now;
        r->stop = true;
        return;
    }
    run_at(r, r->now + THINK, ask, NULL, c);
}

/* ---- The server --------------------------------------------------------- */

static void synack_again(Run *r, Node *n, void *arg)
{
    Connection *c = arg;

    if (c->server != RECEIVED) {
        return;
    }
    if (r->now - c->received > r->c.syn_wait || c->synacks == SYNACK_TRIES) {
        c->server = GONE;
        return;
    }
    run_at(r, r->now + r->c.delay, synack_arrives, NULL, c);
    run_at(r, r->now + (r->c.rto_server << ++c->synacks), synack_again, NULL,
           c);
}

static void syn_received(Run *r, Connection *c)
{
    if (c->server == NONE || c->server == GONE) {
        c->server = RECEIVED;
        c->received = r->now;
        c->synacks = 0;
        run_at(r, r->now + r->c.rto_server, synack_again, NULL, c);
    }
    run_at(r, r->now + r->c.delay, synack_arrives, NULL, c);
}

static void arrives(Run *r, Node *n, void *arg)
{
    g_autofree Packet *p = arg;
    Cold *cold = r->scene;
    Connection *c = p->c;

    if (!ring_takes(r)) {
        return;
    }
    if (p->kind == SYN) {
        syn_received(r, c);
        return;
    }
    if (c->server == GONE) {
        give_up(r);                /* a reset */
        return;
    }
    c->server = OPEN;
    if (p->kind == REQUEST) {
        cold->busy = MAX(cold->busy, r->now) + r->c.service;
        run_at(r, cold->busy + r->c.delay, response_arrives, NULL,
               packet_new(c, REQUEST, p->number));
    }
}

/* ---- The experiment ----------------------------------------------------- */

static void too_long(Run *r, Node *n, void *arg)
{
    give_up(r);
}

/*
 * Prints the times of the first answer and of `accesses` answers; 0 if the client
 * gave up.  `sequential`: each connection is made when the one before is open;
 * `stamps`: TCP's time stamps are on.
 */
void paper_cold(Run *r)
{
    Cold cold = { 0 };

    must(r->c.connections && r->c.ring && r->c.accesses);
    r->scene = &cold;
    cold.all = g_new0(Connection, r->c.connections);
    cold.present = g_new0(Ps, r->c.ring);
    run_at(r, LONGEST, too_long, NULL, NULL);
    for (int64_t i = 0; i < (r->c.sequential ? 1 : r->c.connections); i++) {
        connect_one(r, &cold.all[i]);
    }
    run_all(r);
    result("time", cold.failed ? 0 : cold.ended);
    result("first", cold.first);
    result("lost", cold.lost);
    g_free(cold.present);
    g_free(cold.all);
}
