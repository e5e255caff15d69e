/*
 * unetmm: hosts with cards in a simulated network: a kernel's memory
 *
 * A server's kernel keeps `memory` of the workload's `pages`.  A miss of an
 * absent page reads it from a disk, a serial unit of `page_in` a page, and the
 * page that came first goes.  Two that need the same page wait for one read.  A
 * page that is pinned, by the card's TLB or by a post (source.c), goes only if no
 * other page is left.  A page that the card is using at the moment, or that a
 * post has named, stays until the next time.
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

static uint64_t number_of(uint64_t vaddr)
{
    return (vaddr - SCALE_VA) / FAKE_PAGE;
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
    m->due = g_new0(Ps, m->pages);
    g_queue_init(&m->resident);
    g_queue_init(&m->jobs);
    g_queue_init(&m->unposted);
    node_map(h->node, SCALE_VA, m->pages);
    for (uint64_t i = 0; i < m->pages; i++) {
        if (i < m->limit) {
            g_queue_push_tail(&m->resident, GSIZE_TO_POINTER(i));
        } else {
            page_of(h, i)->absent = true;
        }
        if (i >= m->limit || h->source->before) {
            must(memory_take(h, i));
        }
    }
}

void memory_free(Host *h)
{
    while (h->memory.jobs.head) {
        g_free(g_queue_pop_head_link(&h->memory.jobs)->data);
    }
    g_queue_clear_full(&h->memory.unposted, g_free);
    g_queue_clear(&h->memory.resident);
    g_free(h->memory.due);
}

/* ---- Pages that go ---------------------------------------------------------- */

bool memory_take(Host *h, uint64_t number)
{
    bool gone;

    if (h->source->before) {
        source_unpin(h, number);
        fake_table_set(h->node->s, page_at(number), 0);
    }
    gone = fake_try_take(h->node->s, page_at(number), FAKE_PAGE);
    must(gone || !h->source->before);   /* no post has named it */
    return gone;
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
        if ((page->pins && !pinned) || !source_lets_go(h, number) ||
            !memory_take(h, number)) {
            continue;
        }
        g_queue_delete_link(&m->resident, at);
        page->absent = true;
        m->reclaims++;
        node_work(h->node, h->config->costs.unpin);
    }
}

void memory_reclaim(Host *h)
{
    const SourceModel *source = h->source;

    /* Other sources have pages in a table that pins none. */
    take(h, !source->tlb_pins && !source->before);
    take(h, true);
}

/* ---- Pages that come -------------------------------------------------------- */

void memory_came(Host *h, uint64_t number)
{
    FakeVpage *page = page_of(h, number);

    if (page->absent) {
        page->absent = false;
        h->memory.due[number] = 0;
        g_queue_push_tail(&h->memory.resident, GSIZE_TO_POINTER(number));
    }
}

Ps memory_read(Host *h, uint64_t number, Ps from)
{
    Memory *m = &h->memory;

    if (!m->due[number]) {
        m->page_ins++;
        m->disk_free = MAX(m->disk_free, from) + h->config->costs.page_in;
        m->due[number] = m->disk_free;
    }
    return m->due[number];
}

/* The page of a job: `due` is for pages of the workload, which alone are absent. */
static bool absent(Host *h, uint64_t vaddr)
{
    const FakeVpage *page = fake_vpage(h->node->s, vaddr);

    must(page);
    return page->absent;
}

/* The time at which the last of the job's pages is there. */
static Ps pages_there(Host *h, const Job *job, Ps from)
{
    Ps there = from;

    for (uint32_t i = 0; i < job->fault.npages; i++) {
        uint64_t vaddr = job->fault.vaddr + (uint64_t)i * FAKE_PAGE;

        if (absent(h, vaddr)) {
            there = MAX(there, memory_read(h, number_of(vaddr), from));
        }
    }
    return there;
}

static void bring(Host *h, const Job *job)
{
    for (uint32_t i = 0; i < job->fault.npages; i++) {
        uint64_t vaddr = job->fault.vaddr + (uint64_t)i * FAKE_PAGE;

        if (absent(h, vaddr)) {
            memory_came(h, number_of(vaddr));
        }
    }
}

static void arrived(Run *r, Node *n, void *arg)
{
    Host *h = host_of(n);
    Job *job = arg;
    Ps there = pages_there(h, job, r->now);

    if (there > r->now) {
        /* A page has gone since the disk read it. */
        run_at(r, there, arrived, n, job);
        return;
    }
    node_enter(n);
    bring(h, job);
    job->there(h, job);
    memory_reclaim(h);
    node_leave(n);
    h->memory.pinned_most = MAX(h->memory.pinned_most, source_pinned(h));
    g_queue_unlink(&h->memory.jobs, &job->in_jobs);
    g_free(job);
}

void memory_bring(Host *h, const Job *job, Ps from)
{
    Job *own = g_memdup2(job, sizeof(*job));

    own->in_jobs.data = own;
    g_queue_push_tail_link(&h->memory.jobs, &own->in_jobs);
    run_at(&h->run, pages_there(h, own, from), arrived, h->node, own);
}

/* ---- Misses ----------------------------------------------------------------- */

static void missed(Host *h, const Job *job)
{
    uint8_t status = fake_resolve(&h->node->d, &job->fault, job->fault.npages,
                                  NULL);

    must(status == UNETMM_CS_OK || status == UNETMM_CS_STALE ||
         status == UNETMM_CS_PARTIAL);
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

/* With policy skip the card may give the buffer back, and look at the next. */
static void defer(Host *h, const Job *job)
{
    Node *n = h->node;

    if (h->config->policy == UNETMM_POLICY_SKIP &&
        job->fault.flags & UNETMM_FAULT_F_WRITE &&
        pages_there(h, job, n->host_free) > n->host_free) {
        node_enter(n);
        fake_reply(&n->d, &job->fault, UNETMM_REPLY_DEFERRED, 0);
        node_leave(n);
        node_work(n, n->run->c.reply);
    }
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
        Job job = { .fault = g_array_index(waiting, struct unetmm_fault, i),
                    .there = missed };

        job.fault.npages = at_once(h, &job.fault);
        h->faults++;
        defer(h, &job);
        memory_bring(h, &job, node_work(n, c->fault + c->reply + c->fault_page *
                                        (job.fault.npages - 1)));
    }
    aside_service(h);
    g_array_set_size(waiting, 0);
    g_array_set_size(n->d.ahead, 0);
}
