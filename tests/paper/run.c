/*
 * unetmm: cards in virtual time: the heap of events
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "run.h"

typedef struct Event {
    Ps at;
    uint64_t order;
    EventFn *fn;
    Node *node;
    void *arg;
} Event;

typedef struct Engine {
    GArray *heap;
    uint64_t order;
    Node *node[2];
} Engine;

static Engine *engine(const Run *r)
{
    return r->engine;
}

static bool before(const Event *a, const Event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static Event *heap_at(Run *r, unsigned i)
{
    return &g_array_index(engine(r)->heap, Event, i);
}

static void heap_swap(Run *r, unsigned a, unsigned b)
{
    Event e = *heap_at(r, a);

    *heap_at(r, a) = *heap_at(r, b);
    *heap_at(r, b) = e;
}

static void heap_add(Run *r, Ps at, EventFn *fn, Node *n, void *arg)
{
    Event e = { .at = MAX(at, r->now), .order = engine(r)->order++, .fn = fn,
                .node = n, .arg = arg };
    unsigned i = engine(r)->heap->len;

    g_array_append_val(engine(r)->heap, e);
    while (i && before(heap_at(r, i), heap_at(r, (i - 1) / 2))) {
        heap_swap(r, i, (i - 1) / 2);
        i = (i - 1) / 2;
    }
}

static Event heap_pop(Run *r)
{
    Event first = *heap_at(r, 0);
    unsigned n = engine(r)->heap->len - 1, i = 0;

    heap_swap(r, 0, n);
    g_array_set_size(engine(r)->heap, n);
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

    run_begin(r, e.at, e.node);
    e.fn(r, e.node, e.arg);
}

bool run_more(const Run *r)
{
    return engine(r)->heap->len;
}

void run_all(Run *r)
{
    while (!r->stop && run_more(r)) {
        run_one(r);
    }
}

/* ---- The wire ----------------------------------------------------------- */

static void frame_there(Run *r, Node *n, void *arg)
{
    node_arrives(n, arg);
}

static void wire_frame(Node *n, FakeFrame *f)
{
    Run *r = n->run;
    Ps time = node_wire_time(&r->c, node_message_bytes(f));

    n->wire_free = MAX(n->wire_free, n->now) + time;
    heap_add(r, n->wire_free + node_wire_behind(&r->c, time), frame_there,
             r->node[!n->number], f);
}

/* ---- Life --------------------------------------------------------------- */

void run_new(Run *r, const Costs *c)
{
    static const RunOps ops = { .at = heap_add, .frame = wire_frame };
    Engine *e = g_new0(Engine, 1);

    run_init(r, &ops, c);
    e->heap = g_array_new(false, false, sizeof(Event));
    r->engine = e;
    r->node = e->node;
}

void run_free(Run *r)
{
    for (unsigned i = 0; i < 2; i++) {
        if (r->node[i]) {
            node_free(r->node[i]);
        }
    }
    g_array_unref(engine(r)->heap);
    g_free(r->engine);
}
