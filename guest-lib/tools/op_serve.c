/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The listening side of one-sided operations, for latency and bandwidth.
 *
 * Where the peer only reads or changes our memory, or writes as fast as it can,
 * all that is left to do is to stay.
 */
#include "onesided.h"
#include "op_wait.h"

struct op_server {
    struct one_sided o;
    struct op_wait wait;
    uint32_t next;              /* the message that is awaited */
    uint32_t answered;
    uint32_t bad;
    uint64_t heard_ns;
    bool ended;
    bool refused;               /* the peer's plan is impossible */
    struct control checked;     /* the last answer to CONTROL_CHECK */
};

/* Does the peer wait for an answer to each message? */
static bool answers(const struct op_server *server)
{
    const struct one_sided *o = &server->o;

    return o->running && o->op->one_way && !o->s->opt->is_bw &&
        server->next - o->plan.first < o->plan.warmup + o->plan.count;
}

static void prepare(struct op_server *server)
{
    struct one_sided *o = &server->o;

    if (answers(server)) {
        one_sided_await_place(o, server->next);
        one_sided_fill(o, o->local, server->next, true);
    }
    op_wait_start(&server->wait);
}

static void answer(struct op_server *server)
{
    struct one_sided *o = &server->o;

    one_sided_start(o, server->next);
    /* After the answer: the peer's clock is running. */
    server->bad += !op_wait_right(o, server->next, false);
    server->answered++;
    server->next++;
    server->heard_ns = now_ns();
    prepare(server);
}

static void start(struct op_server *server, const struct control *control)
{
    struct one_sided *o = &server->o;
    uint32_t run = o->running ? o->plan.run : 0;

    server->refused = !one_sided_answer(o, control);
    if (o->running && o->plan.run != run) {
        server->next = o->plan.first;
        prepare(server);
    }
}

/*
 * The messages from q[0] on, q[1] of them, are in their places.  A request that comes
 * again gets the same answer: other messages may be in these places by then.
 */
static void check(struct op_server *server, const struct control *control)
{
    struct control checked = {
        .type = CONTROL_CHECKED, .run = control->run,
        .q = { control->q[0] },
    };
    uint32_t i;

    if (server->checked.type == CONTROL_CHECKED &&
        server->checked.run == control->run &&
        server->checked.q[0] == control->q[0]) {
        session_control(server->o.s, &server->checked);
        return;
    }
    for (i = 0; server->o.running && i < control->q[1] &&
         i < server->o.places; i++) {
        checked.w[0] += !one_sided_right(&server->o, server->o.own,
                                         (uint32_t)control->q[0] + i, false);
    }
    server->answered += i;
    server->bad += checked.w[0];
    server->checked = checked;
    session_control(server->o.s, &checked);
}

static void on_control(struct op_server *server, const struct control *control)
{
    const struct control ended = { .type = CONTROL_ENDED,
                                   .w = { server->bad } };

    switch (control->type) {
    case CONTROL_START:
        start(server, control);
        break;
    case CONTROL_CHECK:
        check(server, control);
        break;
    case CONTROL_END:
        session_control(server->o.s, &ended);
        server->ended = true;
        break;
    default:
        break;
    }
}

static void serve_event(struct op_server *server, struct event *event)
{
    switch (event->type) {
    case EVENT_CONTROL:
        on_control(server, &event->control);
        break;
    case EVENT_FRAME:
        session_release(server->o.s, event);
        break;
    case EVENT_NONE:
        return;
    default:
        break;
    }
    server->heard_ns = now_ns();
}

static void serve_once(struct op_server *server)
{
    struct session *s = server->o.s;
    struct event event;

    if (!answers(server)) {
        session_event(s, &event, (int64_t)NS_PER_S);
        if (event.type == EVENT_DONE) {
            one_sided_done(&server->o, &event);
        }
        serve_event(server, &event);
    } else if (op_wait(&server->o, &server->wait, server->next, &event)) {
        answer(server);
    } else {
        serve_event(server, &event);
    }
}

bool op_serve(struct session *s)
{
    struct op_server server = { .heard_ns = now_ns() };
    char mac[UNETMM_MAC_CHARS];

    one_sided_init(&server.o, s);
    while (!server.ended && !server.refused && !s->gone &&
           now_ns() - server.heard_ns < s->opt->timeout_ns) {
        serve_once(&server);
    }
    if (!s->opt->json) {
        printf("%s: %u messages answered or checked, %u with wrong bytes\n",
               unetmm_format_mac(s->peer.mac, mac), server.answered,
               server.bad);
        fflush(stdout);
    }
    if (server.bad) {
        complain("%u messages arrived with wrong bytes", server.bad);
    } else if (!server.ended && !server.refused) {
        session_silent(s);
    }
    if (s->gone) {
        /* The card must be done with the memory, and is when there is no channel. */
        s->gone = false;
        unetmm_disconnect(s->ep, s->peer.channel);
        one_sided_settle(&server.o);
    }
    one_sided_end(&server.o);
    return server.ended && !server.bad;
}
