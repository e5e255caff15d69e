/*
 * unetmm: cards in virtual time: a card, its host and its wire
 *
 * Mechanisms of the papers that neither the card's interface nor Linux has are
 * here, each switched on by a cost (docs/papers.md says why they are not there):
 *
 *   busy_wait       the card stands still until a miss is answered
 *   evict_report    an evicted page needs a handshake of its own; 0: the record
 *                   of the miss names it
 *   clear           the firmware takes so long to clear the bit of a fault in
 *                   progress; with clear_first before the hardware resumes
 *   others          runnable processes delay the thread that pages in; 0: it is
 *                   at the head of the run queue
 *   tlb_limit       node_limit(): the kernel allows so many valid entries
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "node.h"

#define SHARED_PAGES    32      /* of the host, for all that is mapped */

#define FNV_START       0xcbf29ce484222325ull
#define FNV_PRIME       0x100000001b3ull

/* ---- Runs --------------------------------------------------------------- */

void run_init(Run *r, const RunOps *ops, const Costs *c)
{
    *r = (Run) { .ops = ops, .c = *c, .trace = FNV_START };
}

void run_note(Run *r, uint64_t word)
{
    for (unsigned i = 0; i < 8; i++) {
        r->trace = (r->trace ^ (word >> 8 * i & 0xff)) * FNV_PRIME;
    }
}

void run_begin(Run *r, Ps at, const Node *n)
{
    must(at >= r->now);
    r->now = at;
    r->events++;
    run_note(r, at);
    run_note(r, n ? n->number : 2);
}

/* ---- The card's own time ------------------------------------------------ */

/* The end of the firmware's work on the bit of a fault. */
static Ps firmware_clears(Node *n, Ps from)
{
    n->firmware_free = MAX(n->firmware_free, from) + n->run->c.clear;
    return n->firmware_free;
}

/* A miss is not reported while the firmware clears the bit of an earlier one. */
static Ps report_cost(const Node *n, uint32_t type)
{
    if (type == UNETMM_FAULT_MISS) {
        return MAX(0, n->firmware_free - n->now);
    }
    return type == UNETMM_FAULT_EVICT ? n->run->c.evict_report : 0;
}

static void node_spend(void *host, UnetmmStep step, uint32_t v)
{
    Node *n = host;
    Ps cost = unetmm_step_cost(&n->run->c.card, &n->head, step, v);

    n->steps[step]++;
    if (n->timed) {
        if (step == UNETMM_STEP_REPORT) {
            cost += report_cost(n, v);
        }
        n->now += cost;
        run_note(n->run, (uint64_t)step << 56 ^ n->now);
        if (step == UNETMM_STEP_COMMAND && v == UNETMM_CMD_FAULT_REPLY &&
            !n->run->c.clear_first) {
            firmware_clears(n, n->now);
        }
    }
}

static int64_t node_now_ns(void *host)
{
    return ((Node *)host)->now / PS_PER_NS;
}

/* ---- Entering the card -------------------------------------------------- */

void node_enter(Node *n)
{
    n->now = MAX(n->run->now, n->card_free);
}

static void card_run(Run *r, Node *n, void *arg)
{
    node_enter(n);
    fake_run_later(&n->h);
    node_leave(n);
}

void node_leave(Node *n)
{
    n->card_free = n->now;
    if (n->h.later) {
        run_at(n->run, n->now, card_run, n, NULL);
    }
}

static void card_timer(Run *r, Node *n, void *arg)
{
    if (n->timer_number != (uintptr_t)arg) {
        return;
    }
    node_enter(n);
    n->h.timer = INT64_MAX;
    unetmm_core_timer(&n->h.core);
    node_leave(n);
}

static void node_timer_at(void *host, int64_t when_ns)
{
    Node *n = host;

    n->h.timer = when_ns;
    n->timer_number++;
    if (when_ns != INT64_MAX) {
        /* The core compares with its clock, which is in whole ns. */
        run_at(n->run, when_ns * PS_PER_NS, card_timer, n,
               (void *)(uintptr_t)n->timer_number);
    }
}

/* ---- The wire ----------------------------------------------------------- */

Ps node_wire_time(const Costs *c, uint64_t bytes)
{
    if (c->cell_bytes) {
        uint64_t cells = (bytes + c->cell_trailer + c->cell_payload - 1) /
                         c->cell_payload;

        return per_byte(c->wire_byte, cells * c->cell_bytes);
    }
    return per_byte(c->wire_byte,
                    MAX(bytes + c->frame_header, (uint64_t)c->frame_least) +
                    c->frame_extra);
}

Ps node_wire_behind(const Costs *c, Ps time)
{
    Ps one = c->cell_bytes ? per_byte(c->wire_byte, c->cell_bytes) : time;

    return c->delay - per_byte(c->wire_byte, c->frame_gap) +
           (c->switch_stores ? c->switch_delay + one : 0);
}

/*
 * Cells are taken one by one, the last one when it is there.  A message that
 * goes into the completion is copied, too, which is no step of its own.
 */
static Ps arrival_cost(const Costs *c, uint64_t bytes)
{
    Ps cost = c->card.arrive;

    if (c->cell_bytes && bytes + c->cell_trailer > (uint64_t)c->cell_payload) {
        cost += c->multi_cell + c->cell_work *
                ((bytes + c->cell_trailer + c->cell_payload - 1) /
                 c->cell_payload);
    }
    if (bytes <= UNETMM_CQE_INLINE) {
        cost += per_byte(c->card.place_byte, bytes);
    }
    return cost;
}

uint64_t node_message_bytes(const FakeFrame *f)
{
    return f->bytes - sizeof(struct unetmm_frame);
}

static void card_arrives(Run *r, Node *n, void *arg)
{
    node_arrives(n, arg);
}

void node_arrives(Node *n, FakeFrame *f)
{
    Run *r = n->run;

    if (n->takes && n->takes(n, f)) {
        return;
    }
    node_enter(n);
    if (n->timed) {
        n->now += arrival_cost(&r->c, node_message_bytes(f));
    }
    if (fake_receive(&n->h, f)) {
        g_free(f);
    } else {
        run_at(r, MAX(n->now, r->now + PS_PER_NS), card_arrives, n, f);
    }
    node_leave(n);
}

void node_forget(EventFn *fn, void *arg)
{
    if (fn == card_arrives) {
        g_free(arg);
    }
}

static UnetmmSent node_send(void *host, const uint8_t *frame, size_t bytes)
{
    Node *n = host;
    FakeFrame *f = g_malloc(sizeof(*f) + bytes);

    f->bytes = bytes;
    memcpy(f->data, frame, bytes);
    n->run->ops->frame(n, f);
    return UNETMM_SENT_DONE;
}

/* ---- The host ----------------------------------------------------------- */

Ps node_work(Node *n, Ps cost)
{
    n->host_free = MAX(n->host_free, n->run->now) + cost;
    return n->host_free;
}

/* The entry that came first and is not in use goes. */
static bool evict_oldest(UnetmmTlb *tlb)
{
    uint32_t oldest = UNETMM_TLB_NONE;

    for (uint32_t i = 0; i < unetmm_tlb_capacity(tlb); i++) {
        const UnetmmTlbEntry *e = &tlb->entries[i];

        if (e->valid && !e->busy && (oldest == UNETMM_TLB_NONE ||
                                     e->stamp < tlb->entries[oldest].stamp)) {
            oldest = i;
        }
    }
    return oldest != UNETMM_TLB_NONE && unetmm_tlb_evict_one(tlb, oldest);
}

/* Room for so many entries, by the kernel's limit. */
static void make_room(Node *n, uint32_t entries)
{
    UnetmmTlb *tlb = &n->h.core.source->tlb;
    bool more = n->tlb_limit;

    while (more && tlb->used + entries > n->tlb_limit) {
        more = evict_oldest(tlb);
    }
}

void node_limit(Node *n, uint32_t entries)
{
    n->tlb_limit = entries;
    n->entries_most = 0;
    node_enter(n);
    make_room(n, 0);
    node_leave(n);
}

static void host_served(Run *r, Node *n, void *arg)
{
    uint32_t pages = 0;

    for (unsigned i = 0; i < n->d.waiting->len; i++) {
        pages += g_array_index(n->d.waiting, struct unetmm_fault, i).npages;
    }
    node_enter(n);
    make_room(n, pages);
    n->d.hold_back = false;
    fake_paged_in(&n->d);
    n->d.hold_back = true;
    make_room(n, 0);            /* fake_paged_in() has served later misses */
    n->entries_most = MAX(n->entries_most, n->h.core.source->tlb.used);
    node_leave(n);
}

/* Takes the records, and answers them all when the work for them is done. */
void node_service(Node *n)
{
    const Costs *c = &n->run->c;
    unsigned evictions = n->d.evictions, had = n->d.waiting->len;
    Ps cost = c->interrupt, answer;

    node_enter(n);
    fake_serve(&n->d);
    node_leave(n);
    cost += (n->d.evictions - evictions) * c->unpin;
    for (unsigned i = had; i < n->d.waiting->len; i++) {
        const struct unetmm_fault *f = &g_array_index(n->d.waiting,
                                                      struct unetmm_fault, i);

        cost += c->fault + c->fault_page * (f->npages - 1) + c->page_in +
                c->others + c->page_update * (f->npages - 1) + c->reply;
    }
    if (n->d.waiting->len == had) {
        node_work(n, cost);
        return;
    }
    answer = node_work(n, cost);
    if (c->clear_first) {
        answer = firmware_clears(n, answer);
    }
    run_at(n->run, answer, host_served, n, NULL);
    if (c->busy_wait) {
        n->card_free = n->host_free;
    }
}

static void host_interrupted(Run *r, Node *n, void *arg)
{
    if (n->service) {
        n->service(n);
    } else {
        node_service(n);
    }
}

static void node_interrupt(void *host, unsigned vector)
{
    Node *n = host;

    n->h.interrupts[vector]++;
    if (n->timed && vector == UNETMM_VEC_FAULT) {
        run_at(n->run, n->now, host_interrupted, n, NULL);
    }
}

static void process_looks(Run *r, Node *n, void *arg)
{
    if (n->completed) {
        n->completed(n);
    }
}

/* A word is written: if it is a completion's last, the process sees it now. */
static void node_stored(FakeHost *host, uint64_t addr)
{
    Node *n = (Node *)host;
    FakeEp *ep = &n->ep;

    n->driver_stored(host, addr);
    if (n->timed && addr >= ep->cq &&
        addr < ep->cq + ((uint64_t)sizeof(struct unetmm_cqe) <<
                         ep->cq_log2)) {
        run_at(n->run, n->now, process_looks, n, NULL);
    }
}

static void host_bell(Run *r, Node *n, void *arg)
{
    node_enter(n);
    fake_ring_bell(&n->ep);
    node_leave(n);
}

void node_bell(Node *n)
{
    run_at(n->run, n->host_free, host_bell, n, NULL);
}

/* ---- Life --------------------------------------------------------------- */

const uint8_t *node_mac(unsigned number)
{
    static uint8_t macs[NODE_MOST][6];
    uint8_t *mac = macs[number];

    must(number < NODE_MOST - 1);
    memcpy(mac, (const uint8_t[]) { 0x52, 0x54, 0x00, 0x4d,
                                    0x4d + (number + 1) / 256, number + 1 }, 6);
    return mac;
}

Node *node_new(Run *r, unsigned number, NodeTune *tune, uint8_t source)
{
    Node *n = g_new0(Node, 1);
    UnetmmParams p;

    fake_params(&p);
    memcpy(p.mac, node_mac(number), 6);
    p.tlb_sets = 1024;
    p.cache_entries = 8192;
    p.budget_bytes = 1 << 26;
    if (tune) {
        tune(r, &p);
    }
    fake_host_init(&n->h, &p);
    n->run = r;
    n->number = number;
    n->ops = *n->h.core.ops;
    n->ops.spend = node_spend;
    n->ops.now_ns = node_now_ns;
    n->ops.timer_at = node_timer_at;
    n->ops.send = node_send;
    n->ops.interrupt = node_interrupt;
    n->h.core.ops = &n->ops;
    n->h.unchecked = true;
    n->now = PS_PER_US;
    fake_driver_init(&n->d, &n->h);
    n->d.ring[UNETMM_RING_FAULT].log2 = 12;
    n->d.ring[UNETMM_RING_BACKUP].log2 = 12;
    fake_driver_start(&n->d);
    n->driver_stored = n->h.on_store;
    n->h.on_store = node_stored;
    n->s = fake_space(&n->d, 1, source,
                      source == UNETMM_SOURCE_TLB ? 0 : 4);
    fake_ep_init(&n->ep, &n->d, 1 + number, n->s);
    n->ep.cq_log2 = 6;
    if (r->node) {
        r->node[number] = n;
    }
    return n;
}

void node_free(Node *n)
{
    fake_driver_free(&n->d);
    fake_host_free(&n->h);
    g_free(n);
}

void node_map(Node *n, uint64_t vaddr, uint64_t npages)
{
    uint64_t dma[SHARED_PAGES];

    for (unsigned i = 0; i < SHARED_PAGES; i++) {
        dma[i] = fake_page(&n->h);
    }
    for (uint64_t i = 0; i < npages; i++) {
        FakeVpage *page = g_new0(FakeVpage, 1);

        page->vpn = (vaddr >> UNETMM_PAGE_SHIFT) + i;
        page->rights = FAKE_RW;
        page->dma = dma[i % SHARED_PAGES];
        g_hash_table_replace(n->s->pages, &page->vpn, page);
        if (n->s->levels) {
            fake_table_set(n->s, page->vpn << UNETMM_PAGE_SHIFT,
                           fake_pte(page));
        }
    }
}

void node_start(Node *n, Ps at)
{
    n->timed = true;
    n->card_free = n->host_free = n->wire_free = at;
    n->d.hold_back = true;
}
