/*
 * unetmm: hosts with cards in a simulated network: sources of translations
 *
 * The card has its part of a source; this file has that of the driver and of the
 * library.  With `before` a post brings its pages: its process looks each up,
 * pins those that are not pinned, and sleeps while the disk reads an absent one.
 * So no page of a post is absent when the card comes to it.
 *
 *   utlb  the library knows which pages are pinned; for others it calls the
 *         driver, once a post.  A page stays pinned until its place is needed
 *   ktlb  each post is a system call; the pages are those of the driver's TLB
 *         (guest-driver/util/ktlb_place.c), of as many sets as the card's
 *
 * Pages that posts have named are pinned until the card is done with them, even if
 * they are more than the kernel's memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "scale.h"
#include "util/ktlb_place.h"

#define VICTIMS     16          /* of source ktlb: the driver's usual number */

static const SourceModel models[] = {
    { UNETMM_SOURCE_PINNED, .fixed = true },
    { UNETMM_SOURCE_TLB, .tlb_pins = true },
    { UNETMM_SOURCE_KTLB, .before = true, .traps = true },
    { UNETMM_SOURCE_UTLB, .before = true, .fixed = true },
    { UNETMM_SOURCE_SHADOW },
    { UNETMM_SOURCE_ODP },
};

const SourceModel *source_model(int64_t source)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(models); i++) {
        if (models[i].source == source) {
            return &models[i];
        }
    }
    return NULL;
}

void source_init(Host *h)
{
    Memory *m = &h->memory;
    uint64_t pages = h->config->workload->pages(h->config, h->number);

    m->uses = g_new0(uint32_t, pages);
    if (h->source->traps) {
        uint32_t sets = h->config->tlb_sets;

        m->places = g_new0(struct unetmm_ktlb_entry *, sets);
        m->entries = g_new0(struct unetmm_ktlb_entry, pages);
        m->ktlb = g_new0(struct unetmm_ktlb, 1);
        unetmm_ktlb_init(m->ktlb, m->places, sets, 1, VICTIMS, 0);
    }
}

void source_free(Host *h)
{
    g_free(h->memory.uses);
    g_free(h->memory.ktlb);
    g_free(h->memory.places);
    g_free(h->memory.entries);
}

/* ---- Pins of posts ------------------------------------------------------------ */

static FakeVpage *page_of(const Host *h, uint64_t number)
{
    return fake_vpage(h->node->s, SCALE_VA + number * FAKE_PAGE);
}

void source_unpin(Host *h, uint64_t number)
{
    FakeVpage *page = page_of(h, number);

    if (page->pins) {
        page->pins = 0;
        h->memory.pinned--;
        if (h->memory.ktlb) {
            unetmm_ktlb_remove(h->memory.ktlb, &h->memory.entries[number]);
        }
    }
}

/* The driver's TLB gives up the pages that it has no place for. */
static void trim(Host *h)
{
    Memory *m = &h->memory;
    struct unetmm_ktlb_entry *e;

    while (m->ktlb && (e = unetmm_ktlb_trim(m->ktlb))) {
        must(memory_take(h, e - m->entries));
        node_work(h->node, h->config->costs.unpin);
    }
}

/* Pins the page, which is there. */
static void pin(Host *h, uint64_t number)
{
    Memory *m = &h->memory;
    FakeVpage *page = page_of(h, number);

    page->pins = 1;
    m->pinned++;
    m->pinned_most = MAX(m->pinned_most, m->pinned);
    if (m->ktlb) {
        m->entries[number].vpn = number;
        unetmm_ktlb_insert(m->ktlb, &m->entries[number]);
    }
    fake_table_set(h->node->s, SCALE_VA + number * FAKE_PAGE, fake_pte(page));
}

/* The page is pinned, and the process has slept for it. */
static void make_pinned(Host *h, uint64_t number)
{
    Node *n = h->node;

    node_work(n, h->config->costs.fault_page);
    if (page_of(h, number)->absent) {
        n->host_free = MAX(n->host_free, memory_read(h, number, n->host_free));
        memory_came(h, number);
    }
    pin(h, number);
}

/* Calls fn for each page of the workload that the memory has. */
static void each_page(Host *h, uint64_t vaddr, uint64_t bytes,
                      void (*fn)(Host *h, uint64_t number))
{
    if (!h->source->before || vaddr - SCALE_VA >= h->memory.pages * FAKE_PAGE) {
        return;
    }
    for (uint64_t i = 0; i < pages_of(bytes); i++) {
        fn(h, (vaddr - SCALE_VA) / FAKE_PAGE + i);
    }
}

static void use(Host *h, uint64_t number)
{
    Memory *m = &h->memory;

    if (!page_of(h, number)->pins) {
        make_pinned(h, number);
    }
    m->uses[number]++;
    if (m->ktlb) {
        unetmm_ktlb_touch(m->ktlb, &m->entries[number]);
        unetmm_ktlb_hold(m->ktlb, &m->entries[number]);
    }
}

static void use_no_more(Host *h, uint64_t number)
{
    Memory *m = &h->memory;

    must(m->uses[number]);
    m->uses[number]--;
    if (m->ktlb) {
        unetmm_ktlb_release(m->ktlb, &m->entries[number]);
    }
}

void source_before(Host *h, uint64_t vaddr, uint64_t bytes)
{
    const SourceModel *source = h->source;
    uint64_t pinned = h->memory.pinned;

    if (!source->before) {
        return;
    }
    if (source->traps) {
        node_work(h->node, h->config->costs.trap);
    }
    each_page(h, vaddr, bytes, use);
    if (!source->traps && h->memory.pinned > pinned) {
        node_work(h->node, h->config->costs.trap);
    }
    node_enter(h->node);
    trim(h);
    memory_reclaim(h);
    node_leave(h->node);
}

void source_after(Host *h, uint64_t vaddr, uint64_t bytes)
{
    each_page(h, vaddr, bytes, use_no_more);
}

bool source_lets_go(const Host *h, uint64_t number)
{
    return !h->source->before || !h->memory.uses[number];
}

uint64_t source_pinned(const Host *h)
{
    const Node *n = h->node;

    return h->config->source == UNETMM_SOURCE_PINNED ?
           g_hash_table_size(n->s->pages) : h->source->tlb_pins ?
           n->h.core.source->tlb.used : h->memory.pinned;
}
