/*
 * unetmm: papers' figures: a block server (NPF, Figure 8)
 *
 * Random reads of blocks through a cache of whole blocks that drops the one
 * that has been unused for longest.  A block that is cached costs its bytes at
 * the memory's rate, another costs them at the disk's.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "run.h"
#include "ktlb.h"

typedef struct Cache {
    uint32_t *next, *prev;      /* circular, from `blocks` on: oldest last */
    bool *cached;
    uint32_t used;
} Cache;

static void take_out(Cache *c, uint32_t b)
{
    c->next[c->prev[b]] = c->next[b];
    c->prev[c->next[b]] = c->prev[b];
}

static void put_first(Cache *c, uint32_t head, uint32_t b)
{
    c->prev[b] = head;
    c->next[b] = c->next[head];
    c->prev[c->next[b]] = b;
    c->next[head] = b;
}

/* Was it there?  It is now. */
static bool cache_use(Cache *c, uint32_t head, uint32_t room, uint32_t b)
{
    bool hit = c->cached[b];

    if (hit) {
        take_out(c, b);
    } else if (c->used == room) {
        uint32_t old = c->prev[head];

        take_out(c, old);
        c->cached[old] = false;
    } else {
        c->used++;
    }
    c->cached[b] = true;
    put_first(c, head, b);
    return hit;
}

/* blocks of `bytes`, `cached` of which fit; prints the time of `accesses`. */
void paper_store(Run *r)
{
    uint32_t n = r->c.blocks, room = MIN(r->c.cached, r->c.blocks);
    uint64_t random = 1, hits = 0;
    Cache c = { .next = g_new0(uint32_t, n + 1),
                .prev = g_new0(uint32_t, n + 1), .cached = g_new0(bool, n) };
    Ps time = 0;

    c.next[n] = c.prev[n] = n;
    must(room > 0);
    for (int64_t i = -r->c.accesses; i < r->c.accesses; i++) {
        bool hit = cache_use(&c, n, room, fake_random(&random) % n);

        if (i >= 0) {
            hits += hit;
            time += per_byte(hit ? r->c.memory_byte : r->c.disk_byte,
                             r->c.bytes);
        }
    }
    run_note(r, time);
    result("time", time);
    result("bits", r->c.accesses * r->c.bytes * 8);
    result("hits", hits);
    g_free(c.next);
    g_free(c.prev);
    g_free(c.cached);
}

/*
 * Which memory of the server's buffer is ever written: it has `blocks` chunks;
 * each of `sessions` has `depth` requests in flight, each of which takes the
 * chunk that came free last and writes `bytes` of it.  Prints the bytes.
 */
void paper_touch(Run *r)
{
    uint32_t flight = r->c.sessions * r->c.depth, free = r->c.blocks;
    g_autofree uint32_t *stack = g_new0(uint32_t, r->c.blocks);
    g_autofree uint32_t *busy = g_new0(uint32_t, flight + 1);
    g_autofree bool *touched = g_new0(bool, r->c.blocks);
    int64_t chunks = 0;

    must(flight && flight <= free);
    for (uint32_t i = 0; i < free; i++) {
        stack[i] = i;
    }
    for (uint32_t i = 0; i < 4 * flight; i++) {
        if (i >= flight) {
            stack[free++] = busy[i % flight];
        }
        busy[i % flight] = stack[--free];
        touched[busy[i % flight]] = true;
    }
    for (int64_t i = 0; i < r->c.blocks; i++) {
        chunks += touched[i];
    }
    run_note(r, chunks);
    result("touched", chunks * r->c.bytes);
}

/* processes, pages, accesses, shared: which pages the kernel's TLB pins. */
void paper_ktlb(Run *r)
{
    KtlbCounts counts;

    must(r->c.processes && r->c.pages);
    counts = ktlb_count(r->c.processes, r->c.pages, r->c.shared,
                        r->c.accesses, fake_random);
    run_note(r, counts.misses);
    result("pinned", counts.pinned);
    result("misses", counts.misses);
    result("evictions", counts.evictions);
}
