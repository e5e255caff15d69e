/*
 * unetmm: hosts with cards in a simulated network: a kernel's memory
 *
 * A server's kernel keeps `memory` of the workload's `pages`.  A miss of an
 * absent page reads it from a disk, a serial unit of `page_in` a page, and the
 * page that came first goes.  A page that the card's TLB has is pinned: the
 * driver takes its entry back if no other page is left.  A page that the card is
 * using at the moment stays until the next time.
 * With source `pinned` all pages are resident, whatever `memory` says.  A miss
 * gets a quarter of the memory at most; the card asks for the rest again.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "scale.h"

static uint64_t page_at(uint64_t number)
{
    return SCALE_VA + number * FAKE_PAGE;
}

static FakeVpage *page_of(const Host *h, uint64_t number)
{
    return fake_vpage(h->node->s, page_at(number));
}

void memory_init(Host *h)
{
    const Config *c = h->config;
    Memory *m = &h->memory;

    m->pages = c->workload->pages(c, h->number);
    m->limit = c->source == UNETMM_SOURCE_PINNED ? m->pages :
               MIN(m->pages, (uint64_t)c->memory);
    g_queue_init(&m->resident);
    node_map(h->node, SCALE_VA, m->pages);
    for (uint64_t i = 0; i < m->pages; i++) {
        if (i < m->limit) {
            g_queue_push_tail(&m->resident, GSIZE_TO_POINTER(i));
            continue;
        }
        fake_take_away(h->node->s, page_at(i), FAKE_PAGE);
        page_of(h, i)->absent = true;
    }
}

void memory_free(Host *h)
{
    g_queue_clear(&h->memory.resident);
}

/* Takes pages away, the oldest first, until no more are there than may be. */
static void take(Host *h, bool pinned)
{
    Memory *m = &h->memory;
    GList *next;

    for (GList *at = m->resident.head;
         at && g_queue_get_length(&m->resident) > m->limit; at = next) {
        uint64_t number = GPOINTER_TO_SIZE(at->data);
        FakeVpage *page = page_of(h, number);

        next = at->next;
        if ((page->pins && !pinned) ||
            !fake_try_take(h->node->s, page_at(number), FAKE_PAGE)) {
            continue;
        }
        g_queue_delete_link(&m->resident, at);
        page->absent = true;
        m->reclaims++;
        node_work(h->node, h->config->costs.unpin);
    }
}

static void reclaim(Host *h)
{
    /* Only the TLB's pages are pinned; other sources have them in a table. */
    take(h, h->config->source != UNETMM_SOURCE_TLB);
    take(h, true);
}

/* Pages of a fault that a disk has to bring; they are the workload's. */
static uint32_t absent_pages(Host *h, const struct unetmm_fault *f)
{
    uint32_t absent = 0;

    for (uint32_t i = 0; i < f->npages; i++) {
        const FakeVpage *page = fake_vpage(h->node->s, f->vaddr +
                                           (uint64_t)i * FAKE_PAGE);

        must(page);
        absent += page->absent;
    }
    return absent;
}

static void bring(Host *h, const struct unetmm_fault *f)
{
    for (uint32_t i = 0; i < f->npages; i++) {
        uint64_t vaddr = f->vaddr + (uint64_t)i * FAKE_PAGE;
        FakeVpage *page = fake_vpage(h->node->s, vaddr);

        if (page->absent) {
            page->absent = false;
            g_queue_push_tail(&h->memory.resident, GSIZE_TO_POINTER(
                              (vaddr - SCALE_VA) / FAKE_PAGE));
        }
    }
}

typedef struct Served {
    struct unetmm_fault fault;
    uint32_t read;              /* pages that the disk has read for it */
} Served;

static void served(Run *r, Node *n, void *arg);

/* Answers at `there`, or when the disk has read the pages that are absent. */
static void serve(Host *h, Served *s, Ps there)
{
    uint32_t absent = absent_pages(h, &s->fault);

    if (absent > s->read) {
        h->memory.page_ins += absent - s->read;
        there = h->memory.disk_free = MAX(h->memory.disk_free, there) +
                (absent - s->read) * h->config->costs.page_in;
        s->read = absent;
    }
    run_at(&h->run, there, served, h->node, s);
}

/* The pages of a fault are there: the card is told. */
static void served(Run *r, Node *n, void *arg)
{
    Host *h = host_of(n);
    Served *s = arg;
    const UnetmmTlb *tlb = &n->h.core.source->tlb;
    uint8_t status;

    if (absent_pages(h, &s->fault) > s->read) {
        serve(h, s, r->now);    /* a page has gone since the disk read it */
        return;
    }
    node_enter(n);
    bring(h, &s->fault);
    status = fake_resolve(&n->d, &s->fault, s->fault.npages, NULL);
    must(status == UNETMM_CS_OK || status == UNETMM_CS_STALE ||
         status == UNETMM_CS_PARTIAL);
    reclaim(h);
    node_leave(n);
    h->memory.pinned_most = MAX(h->memory.pinned_most, tlb->used);
    g_free(s);
}

/*
 * Pages that the driver brings for a miss: of the workload no more than a
 * quarter of the memory, or the last ones would push out the first ones.
 */
static uint32_t at_once(const Host *h, const struct unetmm_fault *f)
{
    bool own = f->vaddr - SCALE_VA < h->memory.pages * FAKE_PAGE;

    return own ? MIN(f->npages, MAX(1, h->memory.limit / 4)) : f->npages;
}

void memory_service(Node *n)
{
    Host *h = host_of(n);
    const Costs *c = &n->run->c;
    unsigned evictions = n->d.evictions;
    GArray *waiting = n->d.waiting;

    node_enter(n);
    fake_serve(&n->d);
    node_leave(n);
    node_work(n, c->interrupt + (n->d.evictions - evictions) * c->unpin);
    for (unsigned i = 0; i < waiting->len; i++) {
        Served *s = g_new0(Served, 1);

        s->fault = g_array_index(waiting, struct unetmm_fault, i);
        s->fault.npages = at_once(h, &s->fault);
        h->faults++;
        serve(h, s, node_work(n, c->fault + c->reply + c->fault_page *
                              (s->fault.npages - 1)));
    }
    g_array_set_size(waiting, 0);
    g_array_set_size(n->d.ahead, 0);
}
