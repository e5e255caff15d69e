/*
 * unetmm: the papers' experiments on ns-3's scheduler: tests/paper's engine
 *
 * ns-3 has one simulation at a time, so there is one run at a time, too.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "run.h"
#include "engine.h"
#include "scale.h"

typedef struct Event {
    Ps at;
    EventFn *fn;
    Node *node;
    void *arg;
} Event;

static struct {
    Run *run;
    Config *config;
    Node *node[2];
    bool one;                   /* run_one() */
    uint64_t left;              /* events that ns-3 has */
} engine;

static void event_at(Run *r, Ps at, EventFn *fn, Node *n, void *arg)
{
    Event *e = g_new(Event, 1);

    *e = (Event) { .at = MAX(at, r->now), .fn = fn, .node = n, .arg = arg };
    engine.left++;
    ns3_at(e->at, e);
}

static void frame_goes(Node *n, FakeFrame *f)
{
    engine.left++;
    ns3_frame(n->number, n->now, f->data, f->bytes);
    g_free(f);
}

/* The simulation ends where the experiment does, or behind each event. */
static void event_ended(void)
{
    engine.left--;
    if (engine.one || engine.run->stop) {
        ns3_stop();
    }
}

void engine_event(void *event)
{
    Event e = *(Event *)event;

    g_free(event);
    run_begin(engine.run, e.at, e.node);
    e.fn(engine.run, e.node, e.arg);
    event_ended();
}

void engine_arrives(unsigned card, int64_t now, const void *frame,
                    size_t bytes)
{
    FakeFrame *f = g_malloc(sizeof(*f) + bytes);

    f->bytes = bytes;
    memcpy(f->data, frame, bytes);
    run_begin(engine.run, now, engine.node[card]);
    node_arrives(engine.node[card], f);
    event_ended();
}

/* Two hosts and a link, with all of the experiment's costs. */
static Config *describe(const Costs *c)
{
    g_autofree char *text = g_strdup_printf(
        "nodes 2 0\nworkload ring\nlink 0 1 %" PRId64 " %" PRId64 " 0 0\n",
        c->wire_byte, c->delay);
    FILE *file = fmemopen(text, strlen(text), "r");
    char *why = NULL;
    Config *config;

    must(file);
    config = config_read(file, NULL, &why);
    fclose(file);
    must(config);
    config->costs = *c;
    return config;
}

void run_new(Run *r, const Costs *c)
{
    static const RunOps ops = { .at = event_at, .frame = frame_goes };

    must(!engine.run);
    run_init(r, &ops, c);
    engine.run = r;
    engine.config = describe(c);
    r->node = engine.node;
    ns3_new(engine.config);
}

void run_free(Run *r)
{
    for (unsigned i = 0; i < 2; i++) {
        if (engine.node[i]) {
            node_free(engine.node[i]);
            engine.node[i] = NULL;
        }
    }
    ns3_free();
    config_free(engine.config);
    engine.run = NULL;
    engine.left = 0;
}

void run_one(Run *r)
{
    engine.one = true;
    ns3_run();
    engine.one = false;
}

bool run_more(const Run *r)
{
    return engine.left;
}

void run_all(Run *r)
{
    if (!r->stop) {
        ns3_run();
    }
}
