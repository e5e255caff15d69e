/*
 * unetmm: references to pages, replayed as messages between two cards
 *
 * Each reference is a message of `bytes` bytes: it leaves from the page, or (`receive`)
 * arrives in it.  The card with these pages has `source`, `policy` and the TLB that is asked
 * for (for a source with a table, a cache of its entries of that size); the other card has
 * pinned pages and never waits.  All pages are in memory, and the kernel has pinned
 * none when the run begins: of pinned all, the table of shadow has all.
 *
 * One message is under way at a time: the next one leaves `interval` after the last one
 * has been seen.  A message that has not arrived after `timeout` is sent again by the
 * process; on a reliable channel (policies redirect, rnr) the card does that.
 *
 * Prints the times from a message's post to the receiver's look, as percentiles.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../sim/references.h"
#include "run.h"

#define CHANNEL     3
#define BUFFERS     0x7f5500000000ull   /* of the card that never waits */
#define SHARED      32                  /* pages of the host, for all pages */
#define SLOTS       16
#define BACKUPS     64
#define MOST_AHEAD  16
#define MOST_EVENTS 1000                /* of a message */

const char *paper_references;

typedef struct Replay {
    GArray *pages;              /* uint64_t: the addresses, in turn */
    GHashTable *used;           /* of source utlb: pages that are pinned */
    Ps *took;
    uint32_t posted;            /* buffers, for the first time */
    uint32_t got, attempt;
    uint32_t resent, unfilled;
    uint32_t copying;           /* packets that the driver copies */
    Node *from, *to, *mine;
    Ps began;
} Replay;

static bool reliable(const Costs *c)
{
    return c->policy == UNETMM_POLICY_RNR || c->policy == UNETMM_POLICY_REDIRECT;
}

static uint64_t reference(const Replay *s, uint32_t k)
{
    return g_array_index(s->pages, uint64_t, k);
}

/* Source utlb: the library pins a page before its first use. */
static void pin(Node *n, uint64_t page)
{
    Replay *s = n->run->scene;
    const Costs *c = &n->run->c;

    if (c->source != UNETMM_SOURCE_UTLB ||
        !g_hash_table_add(s->used, g_memdup2(&page, sizeof(page)))) {
        return;
    }
    node_work(n, c->trap + c->fault);
    fake_table_set(n->s, page, fake_pte(fake_vpage(n->s, page)));
}

static void post(Node *n, uint32_t k)
{
    Replay *s = n->run->scene;
    uint64_t at = BUFFERS + k % SLOTS * FAKE_PAGE;

    if (n == s->mine) {
        at = reference(s, k);
        pin(n, at);
    }
    fake_post(&n->ep, at, FAKE_PAGE, k);
}

/* Buffers for the next messages. */
static void post_ahead(Replay *s)
{
    uint32_t end = MIN(s->pages->len, s->got + s->to->run->c.ring);

    while (s->posted < end) {
        post(s->to, s->posted++);
    }
    node_bell(s->to);
}

static void message(Run *r, Node *n, void *arg);

/* The timer of the process: no answer has come. */
static void again(Run *r, Node *n, void *arg)
{
    Replay *s = r->scene;

    if (s->attempt == (uintptr_t)arg && !r->stop) {
        s->resent++;
        message(r, n, NULL);
    }
}

static void message(Run *r, Node *n, void *arg)
{
    Replay *s = r->scene;
    uint64_t at = n == s->mine ? reference(s, s->got) : BUFFERS;

    if (arg) {
        s->began = r->now;
    }
    if (n == s->mine) {
        pin(n, at);
    }
    node_work(n, r->c.post);
    fake_send_at(&n->ep, CHANNEL + n->number, at, r->c.bytes, s->got);
    node_bell(n);
    s->attempt++;
    if (!reliable(&r->c)) {
        run_at(r, r->now + r->c.timeout, again, n, (void *)(uintptr_t)s->attempt);
    }
}

static void sender_completed(Node *n)
{
    struct unetmm_cqe cqe;

    while (fake_poll(&n->ep, &cqe)) {
        must(cqe.opcode == UNETMM_CQE_SENT && cqe.status == UNETMM_ST_OK);
    }
}

static void arrived(Node *n)
{
    Replay *s = n->run->scene;
    Run *r = n->run;
    Ps seen = node_work(n, r->c.poll);

    s->attempt++;
    s->took[s->got++] = seen - s->began;
    if (s->got == s->pages->len) {
        r->stop = true;
        return;
    }
    post_ahead(s);
    run_at(r, seen + r->c.interval, message, s->from, s);
}

static void receiver_completed(Node *n)
{
    Replay *s = n->run->scene;
    struct unetmm_cqe cqe;

    while (fake_poll(&n->ep, &cqe)) {
        if (cqe.opcode == UNETMM_CQE_BUFFER) {
            s->unfilled++;
            post(n, cqe.cookie);
            node_bell(n);
        } else {
            must(cqe.opcode == UNETMM_CQE_RECEIVED);
            /* A message that was sent again may arrive twice. */
            must(!n->run->stop);
            arrived(n);
        }
    }
}

/* The driver has brought the page, and copies into it. */
static void copied(Run *r, Node *n, void *arg)
{
    Replay *s = r->scene;
    bool backup = n->d.backups->len;
    uint64_t at;

    s->copying--;
    node_enter(n);
    if (backup) {
        at = fake_fqe(&n->ep, g_array_index(n->d.backups, struct unetmm_fault, 0).vaddr).addr;
    } else {
        at = fake_slot(&n->d, g_array_index(n->d.full, uint32_t, 0)).piece[0].addr;
    }
    if (r->c.source == UNETMM_SOURCE_ODP) {
        fake_make_present(n->s, at & ~(FAKE_PAGE - 1ull), FAKE_PAGE);
    }
    if (backup) {
        fake_backup_serve(&n->d, 0);
    } else {
        fake_slot_serve(&n->d, 0);
    }
    node_leave(n);
}

static void service(Node *n)
{
    const Costs *c = &n->run->c;
    Replay *s = n->run->scene;

    node_service(n);
    /* An answer to a miss takes records, too. */
    while (s->copying < n->d.backups->len + n->d.full->len) {
        run_at(n->run, node_work(n, c->fault + per_byte(c->copy_byte, c->bytes)), copied, n,
               NULL);
        s->copying++;
    }
}

static void tune(Run *r, UnetmmParams *p)
{
    p->user_mtu = FAKE_PAGE;
    p->tlb_ways = r->c.ways;
    p->tlb_sets = r->c.entries / r->c.ways;
    p->tlb_victims = r->c.victims;
    p->tlb_index = r->c.index;
    p->tlb_replace = r->c.replace;
    p->cache_entries = r->c.entries;
    p->cache_ways = r->c.ways;
    p->pretranslate = r->c.ring;
}

/* The references' pages, mapped to a few pages of the host. */
static void map_references(Node *n, const Replay *s)
{
    uint8_t source = n->run->c.source;
    bool table = source == UNETMM_SOURCE_PINNED || source == UNETMM_SOURCE_SHADOW;
    uint64_t dma[SHARED];

    for (unsigned i = 0; i < SHARED; i++) {
        dma[i] = fake_page(&n->h);
    }
    for (unsigned i = 0; i < s->pages->len; i++) {
        uint64_t at = reference(s, i);
        FakeVpage *page;

        if (fake_vpage(n->s, at)) {
            continue;
        }
        page = g_new0(FakeVpage, 1);
        page->vpn = at >> UNETMM_PAGE_SHIFT;
        page->rights = FAKE_RW;
        page->dma = dma[i % SHARED];
        g_hash_table_replace(n->s->pages, &page->vpn, page);
        if (table) {
            fake_table_set(n->s, at, fake_pte(page));
        }
    }
}

static void read_references(Replay *s, uint32_t most)
{
    uint64_t page;
    uint16_t space;

    must(paper_references);
    references_open(paper_references);
    while (references_next(&space, &page)) {
        page <<= UNETMM_PAGE_SHIFT;
        if (s->pages->len < most) {
            g_array_append_val(s->pages, page);
        }
    }
    must(s->pages->len);
}

static Node *replay_node(Run *r, Replay *s, unsigned number)
{
    struct unetmm_cmd_channel how = {
        .mtu = FAKE_PAGE, .not_ready_us = r->c.not_ready / PS_PER_US, .retries = 255,
        .timeout_us = r->c.timeout / PS_PER_US,
    };
    bool mine = number == (r->c.receive ? 1 : 0);
    uint32_t credits = r->c.policy == UNETMM_POLICY_REDIRECT ? SLOTS : 0;
    Node *n = node_new(r, number, mine ? tune : NULL,
                       mine ? r->c.source : UNETMM_SOURCE_PINNED);

    if (mine) {
        s->mine = n;
        map_references(n, s);
        n->ep.policy = r->c.policy;
        n->ep.backup = r->c.policy == UNETMM_POLICY_BACKUP ? SLOTS : 0;
        n->service = service;
    } else {
        node_map(n, BUFFERS, SLOTS);
    }
    n->ep.fq_log2 = n->ep.sq_log2 = 8;
    n->ep.cq_log2 = 10;
    n->d.hold_backups = n->d.hold_slots = true;
    how.recv_credits = mine ? credits : 0;
    how.send_credits = mine ? 0 : credits;
    if (how.recv_credits) {
        must(fake_sysbuf(&n->d, SLOTS, n->h.core.params.user_mtu) == UNETMM_CS_OK);
    }
    fake_ep_create(&n->ep);
    if (reliable(&r->c)) {
        must(fake_channel_rel(&n->ep, CHANNEL + number, node_mac(!number), 2 - number,
                              CHANNEL + !number, &how) == UNETMM_CS_OK);
    } else {
        must(fake_channel(&n->ep, CHANNEL + number, node_mac(!number), 2 - number,
                          CHANNEL + !number, FAKE_PAGE) == UNETMM_CS_OK);
    }
    if (mine && r->c.policy == UNETMM_POLICY_BACKUP) {
        fake_buffers(&n->d, BACKUPS, FAKE_PAGE);
    }
    return n;
}

static int by_time(const void *a, const void *b)
{
    Ps x = *(const Ps *)a, y = *(const Ps *)b;

    return (x > y) - (x < y);
}

static void print_times(const Replay *s)
{
    static const struct {
        const char *name;
        uint64_t permille;
    } parts[] = { { "p50", 500 }, { "p90", 900 }, { "p99", 990 }, { "p999", 999 },
                  { "most", 1000 } };
    uint64_t n = s->got;
    Ps sum = 0;

    qsort(s->took, n, sizeof(*s->took), by_time);
    for (uint64_t i = 0; i < n; i++) {
        sum += s->took[i];
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(parts); i++) {
        /* The least time that so many of the messages did not exceed */
        result(parts[i].name, s->took[(n * parts[i].permille + 999) / 1000 - 1]);
    }
    result("mean", sum / (Ps)n);
}

void paper_replay(Run *r)
{
    Replay s = {
        .pages = g_array_new(false, false, sizeof(uint64_t)),
        .used = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL),
    };

    uint64_t most;

    r->scene = &s;
    must(r->c.ring && r->c.ring <= MOST_AHEAD && r->c.bytes > UNETMM_CQE_INLINE &&
         r->c.bytes <= FAKE_PAGE);
    read_references(&s, r->c.rounds);
    s.took = g_new(Ps, s.pages->len);
    most = MOST_EVENTS * (s.pages->len + 10ull);
    s.from = replay_node(r, &s, 0);
    s.to = replay_node(r, &s, 1);
    s.from->completed = sender_completed;
    s.to->completed = receiver_completed;
    node_start(s.from, PS_PER_US * 10);
    node_start(s.to, PS_PER_US * 10);
    post_ahead(&s);
    run_at(r, PS_PER_US * 10 + r->c.interval, message, s.from, &s);
    while (!r->stop && run_more(r) && r->events < most) {
        run_one(r);
    }
    must(r->stop);
    result("messages", s.got);
    print_times(&s);
    result("time", r->now);
    result("misses", s.mine->steps[UNETMM_STEP_MISS]);
    result("reads", s.mine->steps[UNETMM_STEP_ENTRY]);
    result("resent", s.resent);
    result("unfilled", s.unfilled);
    result("refused", s.mine->h.core.counters[UNETMM_C_rel_nacks_sent]);
    g_free(s.took);
    g_hash_table_unref(s.used);
    g_array_unref(s.pages);
}
