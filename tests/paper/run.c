/*
 * unetmm: cards in virtual time: the heap of events
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "run.h"

#define FNV_START   0xcbf29ce484222325ull
#define FNV_PRIME   0x100000001b3ull

typedef struct Event {
    Ps at;
    uint64_t order;
    EventFn *fn;
    Node *node;
    void *arg;
} Event;

void run_init(Run *r, const Costs *c)
{
    *r = (Run) { .c = *c, .trace = FNV_START };
    r->heap = g_array_new(false, false, sizeof(Event));
}

void run_free(Run *r)
{
    for (unsigned i = 0; i < 2; i++) {
        if (r->node[i]) {
            node_free(r->node[i]);
        }
    }
    g_array_unref(r->heap);
}

void run_note(Run *r, uint64_t word)
{
    for (unsigned i = 0; i < 8; i++) {
        r->trace = (r->trace ^ (word >> 8 * i & 0xff)) * FNV_PRIME;
    }
}

static bool before(const Event *a, const Event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static Event *heap_at(Run *r, unsigned i)
{
    return &g_array_index(r->heap, Event, i);
}

static void heap_swap(Run *r, unsigned a, unsigned b)
{
    Event e = *heap_at(r, a);

    *heap_at(r, a) = *heap_at(r, b);
    *heap_at(r, b) = e;
}

void run_at(Run *r, Ps at, EventFn *fn, Node *n, void *arg)
{
    Event e = { .at = MAX(at, r->now), .order = r->order++, .fn = fn,
                .node = n, .arg = arg };
    unsigned i = r->heap->len;

    g_array_append_val(r->heap, e);
    while (i && before(heap_at(r, i), heap_at(r, (i - 1) / 2))) {
        heap_swap(r, i, (i - 1) / 2);
        i = (i - 1) / 2;
    }
}

static Event heap_pop(Run *r)
{
    Event first = *heap_at(r, 0);
    unsigned n = r->heap->len - 1, i = 0;

    heap_swap(r, 0, n);
    g_array_set_size(r->heap, n);
    for (;;) {
        unsigned child = 2 * i + 1;

        if (child + 1 < n && before(heap_at(r, child + 1),
                                    heap_at(r, child))) {
            child++;
        }
        if (child >= n || !before(heap_at(r, child), heap_at(r, i))) {
            return first;
        }
        heap_swap(r, i, child);
        i = child;
    }
}

void run_one(Run *r)
{
    Event e = heap_pop(r);

    must(e.at >= r->now);
    r->now = e.at;
    r->events++;
    run_note(r, e.at);
    run_note(r, e.node ? e.node->number : 2);
    e.fn(r, e.node, e.arg);
}

void run_all(Run *r)
{
    while (!r->stop && r->heap->len) {
        run_one(r);
    }
}
