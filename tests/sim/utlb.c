/*
 * unetmm: translation by the user's library beside translation by interrupt, on
 * the references of the simulation's programs (UTLB, ASPLOS 1998)
 *
 * By the library: a process has up to `quota` pages pinned, and a policy of the
 * library (guest-lib/src/utlb/policy.c) chooses the page that is unpinned for
 * another; the card finds each translation in its entry cache, or fetches it, with
 * its neighbours, from the process's table.  By
 * interrupt: the card's TLB has all translations; a miss is an interrupt and a
 * page pinned, an entry that leaves it is a page unpinned.
 *
 * Both have the card's own tlb/tlb.c, `entries` in sets of `ways`, the least
 * recently used one of a set replaced.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdio.h>
#include "utlb.h"

#define MAX_FETCH   32

/* A process of one computer. */
typedef struct Owner {
    GHashTable *pinned;         /* page: its number + 1, of the policy */
    uint64_t *pages;            /* by number */
    uint32_t *unused;           /* numbers */
    uint32_t nunused;
    void *state;
    uint32_t last;              /* told last: the library tells each use once */
} Owner;

typedef struct Model {
    const UtlbConfig *config;
    UnetmmTlb cache[SIM_MAX_NODES];
    bool made[SIM_MAX_NODES];
    GHashTable *owners;         /* computer and space: Owner */
    UtlbCount count;
} Model;

struct UtlbRun {
    Model *models;
    unsigned n;
};

/* ---- By interrupt ------------------------------------------------------- */

static bool left(void *opaque, const UnetmmTlbEntry *entry)
{
    UtlbCount *count = opaque;

    count->unpins++;
    return true;
}

static uint64_t entry_of(uint64_t vpn)
{
    return vpn << UNETMM_PAGE_SHIFT | UNETMM_PTE_VALID | UNETMM_PTE_READ |
           UNETMM_PTE_WRITE;
}

static UnetmmTlb *cache_of(Model *m, unsigned computer)
{
    UnetmmTlb *cache = &m->cache[computer];
    const UtlbConfig *c = m->config;

    if (!m->made[computer]) {
        m->made[computer] = true;
        unetmm_tlb_init(cache, c->entries / c->ways, c->ways, 0);
        cache->replace = UNETMM_TLB_REPLACE_LRU;
        if (!c->policy) {
            cache->evict = left;
            cache->opaque = &m->count;
        }
    }
    return cache;
}

static void by_interrupt(Model *m, UnetmmTlb *cache, uint16_t space,
                         uint64_t vpn)
{
    uint32_t id;

    if (unetmm_tlb_lookup(cache, space, vpn, true, &id) != UNETMM_TLB_MISS) {
        return;
    }
    m->count.misses++;
    m->count.pins++;
    unetmm_tlb_new_batch(cache);
    SIM_CHECK(unetmm_tlb_insert(cache, space, vpn, entry_of(vpn), 0) ==
              UNETMM_TLB_INSERTED);
}

/* ---- By the library ----------------------------------------------------- */

static void owner_free(void *pointer)
{
    Owner *o = pointer;

    g_hash_table_unref(o->pinned);
    g_free(o->pages);
    g_free(o->unused);
    free(o->state);
    g_free(o);
}

static Owner *owner_of(Model *m, unsigned computer, uint16_t space)
{
    void *key = GUINT_TO_POINTER(computer << 16 | space);
    Owner *o = g_hash_table_lookup(m->owners, key);

    if (!o) {
        uint32_t quota = m->config->quota;

        o = g_new0(Owner, 1);
        o->pinned = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free,
                                          NULL);
        o->pages = g_new(uint64_t, quota);
        o->unused = g_new(uint32_t, quota);
        while (o->nunused < quota) {
            o->unused[o->nunused] = quota - 1 - o->nunused;
            o->nunused++;
        }
        o->state = m->config->policy->create(quota);
        SIM_CHECK(o->state);
        o->last = UINT32_MAX;
        g_hash_table_insert(m->owners, key, o);
    }
    return o;
}

/* No page is in use between two references: the first one offered goes. */
static int take(void *arg, uint32_t page)
{
    return 1;
}

static void unpin_one(Model *m, Owner *o, UnetmmTlb *cache, uint16_t space)
{
    const struct unetmm_utlb_policy *policy = m->config->policy;
    uint32_t page = policy->choose(o->state, take, NULL);
    uint64_t vpn;

    SIM_CHECK(page < m->config->quota);
    vpn = o->pages[page];
    policy->unpinned(o->state, page);
    SIM_CHECK(g_hash_table_remove(o->pinned, &vpn));
    unetmm_tlb_invalidate(cache, space, vpn, vpn);
    o->unused[o->nunused++] = page;
    m->count.unpins++;
    m->count.calls++;
}

static void pin_one(Model *m, Owner *o, uint64_t vpn)
{
    uint32_t page = o->unused[--o->nunused];

    o->pages[page] = vpn;
    g_hash_table_insert(o->pinned, g_memdup2(&vpn, sizeof(vpn)),
                        GUINT_TO_POINTER(page + 1));
    m->config->policy->pinned(o->state, page);
    m->count.pins++;
}

/* Another page goes for the one that is needed, and for no further one. */
static void need_pinned(Model *m, Owner *o, UnetmmTlb *cache, uint16_t space,
                        uint64_t vpn, uint64_t end)
{
    const struct unetmm_utlb_policy *policy = m->config->policy;
    uint32_t page = GPOINTER_TO_UINT(g_hash_table_lookup(o->pinned, &vpn));

    if (page) {
        if (policy->used && page - 1 != o->last) {
            policy->used(o->state, page - 1);
            o->last = page - 1;
        }
        return;
    }
    if (!o->nunused) {
        unpin_one(m, o, cache, space);
    }
    m->count.calls++;
    pin_one(m, o, vpn);
    for (uint32_t i = 1; i < m->config->prepin && o->nunused; i++) {
        if (++vpn >= end || g_hash_table_contains(o->pinned, &vpn)) {
            break;
        }
        pin_one(m, o, vpn);
    }
}

/* As source/utlb.c keeps the neighbours that one read of the table brought. */
static void fetch(Model *m, const Owner *o, UnetmmTlb *cache, uint16_t space,
                  uint64_t vpn)
{
    uint64_t first = vpn & ~(m->config->fetch - 1ull);

    m->count.misses++;
    unetmm_tlb_new_batch(cache);
    SIM_CHECK(unetmm_tlb_insert(cache, space, vpn, entry_of(vpn), 0) ==
              UNETMM_TLB_INSERTED);
    for (uint64_t near = first; near < first + m->config->fetch; near++) {
        if (near != vpn && g_hash_table_contains(o->pinned, &near) &&
            !unetmm_tlb_has(cache, space, near)) {
            unetmm_tlb_insert(cache, space, near, entry_of(near), 0);
        }
    }
}

static void by_library(Model *m, UnetmmTlb *cache, unsigned computer,
                       uint16_t space, uint64_t vpn, uint64_t end)
{
    Owner *o = owner_of(m, computer, space);
    uint32_t id;

    need_pinned(m, o, cache, space, vpn, end);
    if (unetmm_tlb_lookup(cache, space, vpn, true, &id) == UNETMM_TLB_MISS) {
        fetch(m, o, cache, space, vpn);
    }
}

/* ---- A run of one program ----------------------------------------------- */

UtlbRun *utlb_new(const UtlbConfig *configs, unsigned n)
{
    UtlbRun *run = g_new0(UtlbRun, 1);

    run->models = g_new0(Model, n);
    run->n = n;
    for (unsigned i = 0; i < n; i++) {
        SIM_CHECK(configs[i].fetch <= MAX_FETCH);
        run->models[i].config = &configs[i];
        run->models[i].owners = g_hash_table_new_full(g_direct_hash,
                                                      g_direct_equal, NULL,
                                                      owner_free);
    }
    return run;
}

void utlb_ref(UtlbRun *run, unsigned computer, uint16_t space, uint64_t vpn,
              uint64_t end)
{
    for (unsigned i = 0; i < run->n; i++) {
        Model *m = &run->models[i];
        UnetmmTlb *cache = cache_of(m, computer);

        m->count.refs++;
        if (m->config->policy) {
            by_library(m, cache, computer, space, vpn, end);
        } else {
            by_interrupt(m, cache, space, vpn);
        }
    }
}

const UtlbCount *utlb_count(const UtlbRun *run, unsigned i)
{
    return &run->models[i].count;
}

void utlb_free(UtlbRun *run)
{
    for (unsigned i = 0; i < run->n; i++) {
        for (unsigned k = 0; k < SIM_MAX_NODES; k++) {
            if (run->models[i].made[k]) {
                unetmm_tlb_free(&run->models[i].cache[k]);
            }
        }
        g_hash_table_unref(run->models[i].owners);
    }
    g_free(run->models);
    g_free(run);
}
