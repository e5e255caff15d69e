/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm-pingpong: latency between two processes, half of a round trip.
 *
 * One message is on its way at a time.  Its time is a sample, however late the answer
 * is: the slowest ones matter most.  A datagram may be lost.  The connecting side
 * therefore asks the listening one, when the answer is late, whether the message has
 * come; the word of that goes behind the answer.  If there is none by then, the
 * message or the answer is lost: the connecting side counts that, takes no sample, and
 * sends the message again.  The listening side answers a message that it has answered
 * before with the same answer.
 */
#include "onesided.h"
#include "results.h"
#include "samples.h"

#include <stdlib.h>

#define ASK_NS          (50 * NS_PER_MS)

static const char doc[] =
"Measures how long a message takes from one process to another: the smallest\n"
"time, percentiles and the largest, in microseconds one way (half of a round\n"
"trip).  Start the listening side first; unetmm-info shows a card's MAC.\v"
"A message longer than a frame is split; all frames of it are sent before the\n"
"answer comes.  Sizes up to 224 bytes are copied into the queue, larger ones\n"
"go straight from memory.  The operations but send use a reliable channel, and\n"
"one of them is never split.\n"
"\n"
"Example: on the first host\n"
"    unetmm-pingpong --listen --verify\n"
"and on the second, where the first has the MAC 52:54:00:00:00:01\n"
"    unetmm-pingpong 52:54:00:00:00:01 --size 8,1k,64k --verify\n"
"or, on both with --op au, the cost of 8 bytes that are just stored.";

static const struct argp_option own_options[] = {
    { "service", 'p', "N", 0, "number under which the two meet (1)", GROUP_SIDES },
    { "size", 's', "LIST", 0, "message sizes in bytes, as 8,1k,64k (8)",
      GROUP_MESSAGES },
    { "count", 'n', "N", 0, "messages that are measured, of each size (1000)",
      GROUP_MESSAGES },
    { "warmup", OPT_WARMUP, "N", 0, "messages before them that are not (100)",
      GROUP_MESSAGES },
    { "op", OPT_OP, "NAME", 0, "how a message gets to the peer, see below (send)",
      GROUP_MESSAGES },
    OPTION_WORD("send", "a message into a buffer that waits there", GROUP_OPS),
    OPTION_WORD("write", "deliberate update: into memory that the peer exports, where "
                "it looks; with --block it is notified", GROUP_OPS),
    OPTION_WORD("au", "automatic update: by stores into a window", GROUP_OPS),
    OPTION_WORD("udma", "by a store and a load of proxy pages", GROUP_OPS),
    OPTION_WORD("read, atomic", "READ, FETCH_ADD: round trips, and nobody needs to do "
                "anything there", GROUP_OPS),
    { "combine", OPT_COMBINE, "N", 0, "with au, stores go together in packets of up "
      "to N bytes, 1 to 224, that wait 5 us for more (0: each at once)",
      GROUP_MESSAGES },
    { "histogram", OPT_HISTOGRAM, NULL, 0, "the distribution of the times, too",
      GROUP_OUTPUT },
    { "samples", OPT_SAMPLES, "FILE", 0,
      "write each time to this file, as it was measured", GROUP_OUTPUT },
    { "json", OPT_JSON, NULL, 0, "one JSON object for each size", GROUP_OUTPUT },
    { 0 }
};

/* A message that is being put together from its frames */
struct assembly {
    uint8_t *have;              /* by frame */
    uint32_t count;
    uint32_t nframes;
};

static void assembly_start(struct assembly *a, uint32_t nframes)
{
    if (a->nframes < nframes) {
        free(a->have);
        a->have = malloc(nframes);
        if (!a->have) {
            fail("no memory");
        }
    }
    a->nframes = nframes;
    a->count = 0;
    memset(a->have, 0, nframes);
}

/* True if this frame completes the message. */
static bool assembly_add(struct assembly *a, uint32_t frame)
{
    if (a->have[frame]) {
        return false;
    }
    a->have[frame] = 1;
    return ++a->count == a->nframes;
}

/* A frame that comes while a send has to wait is a late one. */
static void prepare_message(struct session *s, const struct plan *plan,
                            bool reply, uint32_t seq)
{
    uint64_t since = 0;
    struct event event;
    uint32_t frame;

    for (frame = 0; frame < plan->nframes; frame++) {
        while (!session_prepare(s, plan, reply, seq, frame)) {
            if (!session_room(s, &event, &since)) {
                return;
            }
        }
    }
}

static void send_message(struct session *s, const struct plan *plan,
                         uint32_t seq)
{
    uint64_t since = 0;
    struct event event;
    uint32_t frame;

    for (frame = 0; frame < plan->nframes; frame++) {
        while (!session_send(s, plan, seq, frame,
                             frame + 1 < plan->nframes)) {
            if (!session_room(s, &event, &since)) {
                return;
            }
        }
    }
}

/* ---- The connecting side ----------------------------------------------- */

struct result {
    uint64_t *samples;          /* of round trips, ns */
    size_t nsamples;
    uint64_t lost;              /* messages that were sent again */
    uint64_t resent;            /* how often, in all */
    uint64_t bad;
};

/* The times of one message */
struct turn {
    uint32_t seq;
    uint64_t sent_ns;
    uint64_t done_ns;           /* 0: the answer is not complete */
    uint32_t resent;            /* how often it was sent again */
};

static void on_answer(struct session *s, const struct plan *plan,
                      struct event *event, struct assembly *a,
                      struct turn *turn, struct result *result)
{
    uint32_t seq, frame;

    if (plan_identify(plan, event, turn->seq, &seq, &frame) &&
        seq == turn->seq && !a->have[frame]) {
        if (assembly_add(a, frame)) {
            turn->done_ns = now_ns();
        }
        result->bad += !plan_verify(plan, event, true, seq, frame);
    }
    session_release(s, event);
}

/* Has this message come, and with it all of an answer?  Asked behind it. */
static void ask(struct session *s, const struct plan *plan, const struct turn *turn)
{
    const struct control asked = {
        .type = CONTROL_ASKED, .run = (uint16_t)plan->run, .w = { turn->resent },
        .q = { turn->seq },
    };

    session_control(s, &asked);
}

/* The word about the last time that it was sent; not about an earlier one. */
static bool is_told(const struct event *event, const struct plan *plan,
                    const struct turn *turn)
{
    const struct control *told = &event->control;

    return event->type == EVENT_CONTROL && told->type == CONTROL_TOLD &&
        told->run == (uint16_t)plan->run && told->q[0] == turn->seq &&
        told->w[0] == turn->resent;
}

/* All that was on its way before the peer's word is here, or is lost. */
static void send_again(struct session *s, const struct plan *plan, struct turn *turn,
                       struct result *result)
{
    result->lost += !turn->resent;
    result->resent++;
    turn->resent++;
    send_message(s, plan, turn->seq);
}

static void exchange(struct session *s, const struct plan *plan,
                     struct turn *turn, struct assembly *a,
                     struct result *result)
{
    uint64_t asked, now;

    assembly_start(a, plan->nframes);
    prepare_message(s, plan, false, turn->seq);
    asked = turn->sent_ns = now_ns();
    send_message(s, plan, turn->seq);
    while (!turn->done_ns) {
        struct event event;

        session_event(s, &event, (int64_t)ASK_NS);
        if (event.type == EVENT_FRAME) {
            on_answer(s, plan, &event, a, turn, result);
            continue;
        }
        now = now_ns();
        if (now - turn->sent_ns > s->opt->timeout_ns) {
            fail("the peer has stopped answering, after %zu messages of "
                 "%u bytes", result->nsamples, plan->size);
        } else if (is_told(&event, plan, turn)) {
            send_again(s, plan, turn, result);
            asked = now;
        } else if (!s->opt->reliable && now - asked >= ASK_NS) {
            ask(s, plan, turn);
            asked = now;
        }
    }
}

static void start_run(struct session *s, const struct plan *plan)
{
    struct control start, started;

    plan_to_control(plan, &start);
    if (!session_request(s, &start, CONTROL_STARTED, &started,
                         s->opt->timeout_ns)) {
        fail("the peer accepted but does not answer");
    }
    session_check_op(s, &started);
    if (started.w[0]) {
        fail("the peer's buffers hold frames of %u bytes only: use --frame %u",
             started.w[0], started.w[0]);
    }
    if (plan->nframes > started.w[1] - 4 || plan->nframes > s->buffers - 4) {
        fail("a message of %u bytes has %u frames, more than the buffers on "
             "one side can take: use --buffers %u on both", plan->size,
             plan->nframes, plan->nframes + 4);
    }
}

/* Room for the samples of one round more. */
static void reserve(struct result *result, const struct plan *plan)
{
    size_t room = result->nsamples + plan->count;
    uint64_t *samples = reallocarray(result->samples, room, sizeof(*samples));

    if (!samples) {
        fail("no memory for %zu samples: use a smaller --count or --duration",
             room);
    }
    result->samples = samples;
}

static void run(struct session *s, const struct plan *plan,
                struct result *result)
{
    const uint64_t lost = result->lost, resent = result->resent;
    struct assembly a = { 0 };
    uint32_t i;

    for (i = 0; i < plan->warmup + plan->count; i++) {
        struct turn turn = { .seq = plan->first + i };

        if (i == plan->warmup) {
            result->lost = lost;
            result->resent = resent;
        }
        exchange(s, plan, &turn, &a, result);
        if (i >= plan->warmup && !turn.resent) {
            result->samples[result->nsamples++] = turn.done_ns - turn.sent_ns;
        }
    }
    free(a.have);
}

/* The same for operations that have a peer's memory to go to. */
static void run_op(struct one_sided *o, const struct plan *plan,
                   struct result *result)
{
    one_sided_begin(o, plan);
    result->bad += op_measure_latency(o, result->samples + result->nsamples);
    result->nsamples += plan->count;
    one_sided_settle(o);
    one_sided_end(o);
}

/* Nanoseconds of a sample for a microsecond that is printed. */
static double divisor(const struct session *s)
{
    return s->opt->op->one_way ? 2000.0 : 1000.0;
}

static double figure_us(const struct session *s, const struct result *result,
                        double share)
{
    return (double)percentile(result->samples, result->nsamples, share) /
        divisor(s);
}

static const char *way_name(const struct session *s)
{
    return s->opt->op->one_way ? "one way" : "round trip";
}

static void print_json(const struct session *s, const struct plan *plan,
                       const struct result *r)
{
    static const struct {
        const char *name;
        double share;
    } figures[] = {
        { "median", 0.5 }, { "p99", 0.99 }, { "min", 0 }, { "p90", 0.9 },
        { "p999", 0.999 }, { "max", 1 },
    };
    json_t *row = results_row(s, plan, "latency", r->nsamples, r->lost, r->bad);
    size_t i;

    for (i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        row_real(row, figures[i].name, figure_us(s, r, figures[i].share), 3);
    }
    row_text(row, "unit", "us");
    row_text(row, "way", way_name(s));
    row_count(row, "resent", r->resent);
    row_count(row, "skipped", s->skipped);
    row_count(row, "combine", plan->combine);
    if (s->opt->histogram) {
        row_add(row, "histogram", histogram_json(r->samples, r->nsamples,
                                                 divisor(s)));
    }
    row_print(row);
}

static void print_head(const struct session *s, const struct plan *plan)
{
    char mac[UNETMM_MAC_CHARS];

    printf("to %s, service %llu: frames of %u bytes, source %s, policy %s, "
           "%s, %u buffers, %s\n",
           unetmm_format_mac(s->peer.mac, mac),
           (unsigned long long)s->opt->service, plan->frame,
           source_name(s->opt->source), policy_name(s->opt->policy),
           mode_name(s->opt), s->buffers,
           plan->verify ? "every byte verified" : "not verified");
    if (plan->verify) {
        printf("pattern from --seed %llu\n", (unsigned long long)plan->seed);
    }
    printf("%s: %s\n", op_name(s->opt->op->number), s->opt->op->one_way ?
           "one way, half of a round trip" : "the whole round trip");
    printf("%9s %6s %8s %9s %9s %9s %9s %9s %9s %6s\n", "bytes", "frames",
           "n", "min", "median", "p90", "p99", "p99.9", "max us", "lost");
}

static void print_row(const struct session *s, const struct plan *plan,
                      const struct result *r)
{
    printf("%9u %6u %8zu %9.2f %9.2f %9.2f %9.2f %9.2f %9.2f %6llu\n",
           plan->size, plan->nframes, r->nsamples, figure_us(s, r, 0),
           figure_us(s, r, 0.5), figure_us(s, r, 0.9), figure_us(s, r, 0.99),
           figure_us(s, r, 0.999), figure_us(s, r, 1),
           (unsigned long long)r->lost);
    if (plan->nframes > 1) {
        printf("%9s (each message split into %u frames)\n", "",
               plan->nframes);
    }
    if (s->opt->histogram) {
        histogram_print(r->samples, r->nsamples, divisor(s));
    }
}

/* Where a run stands among those before it */
struct progress {
    uint32_t run;
    uint32_t first;             /* number of its first message */
    bool headed;                /* the head of the table is printed */
};

static void round_of(struct one_sided *o, uint64_t size, struct plan *plan,
                     struct progress *progress, struct result *result)
{
    struct session *s = o->s;

    plan_make(plan, s, size, progress->run, progress->first);
    if (!progress->headed && !s->opt->json) {
        print_head(s, plan);
    }
    progress->headed = true;
    reserve(result, plan);
    if (plan->op) {
        run_op(o, plan, result);
    } else {
        start_run(s, plan);
        run(s, plan, result);
    }
    plan_follow(plan, &progress->run, &progress->first);
}

static void measure(struct one_sided *o, uint64_t size,
                    struct progress *progress, FILE *samples)
{
    struct result result = { 0 };
    struct session *s = o->s;
    uint64_t end = now_ns() + s->opt->duration_ns;
    struct plan made, *plan = &made;

    do {
        round_of(o, size, plan, progress, &result);
    } while (!result.bad && now_ns() < end);
    if (result.bad) {
        fail("%llu frames of %u byte messages arrived with wrong bytes",
             (unsigned long long)result.bad, plan->size);
    }
    if (!result.nsamples) {
        fail("every message of %u bytes was lost at least once", plan->size);
    }
    if (samples) {
        samples_write(samples, plan->size, result.samples, result.nsamples,
                      divisor(s));
    }
    sort_samples(result.samples, result.nsamples);
    if (s->opt->json) {
        print_json(s, plan, &result);
    } else {
        print_row(s, plan, &result);
    }
    fflush(stdout);
    free(result.samples);
}

static int run_client(struct session *s)
{
    const struct control end = { .type = CONTROL_END };
    struct control ended = { 0 };
    FILE *samples = s->opt->samples ? samples_open(s->opt->samples) : NULL;
    struct progress progress = { .run = 1 };
    struct one_sided o;
    unsigned i;

    one_sided_init(&o, s);
    session_connect(s);
    for (i = 0; i < s->opt->nsizes; i++) {
        measure(&o, s->opt->sizes[i], &progress, samples);
    }
    if (samples) {
        samples_close(samples, s->opt->samples);
    }
    /* Nothing is lost if the peer is gone before it has answered this. */
    session_request(s, &end, CONTROL_ENDED, &ended, NS_PER_S);
    if (ended.w[0]) {
        fail("%u frames arrived at the peer with wrong bytes", ended.w[0]);
    }
    return EXIT_SUCCESS;
}

/* ---- The listening side ------------------------------------------------ */

struct server {
    struct session *s;
    struct plan plan;
    struct assembly assembly;
    bool running;
    uint32_t next;              /* the message that is awaited */
    uint64_t answered;
    uint64_t repeated;
    uint32_t bad;
    bool refused;               /* the peer's plan is impossible */
};

static void answer_message(struct server *server)
{
    const struct plan *plan = &server->plan;

    send_message(server->s, plan, server->next);
    server->answered++;
    server->next++;
    assembly_start(&server->assembly, plan->nframes);
}

static void serve_frame(struct server *server, struct event *event)
{
    const struct plan *plan = &server->plan;
    uint32_t seq, frame;
    bool complete = false;

    if (server->running &&
        plan_identify(plan, event, server->next, &seq, &frame)) {
        if (seq == server->next && !server->assembly.have[frame]) {
            complete = assembly_add(&server->assembly, frame);
        } else if (seq + 1 == server->next && frame + 1 == plan->nframes) {
            /* Our answer was lost; its bytes are still in their place. */
            send_message(server->s, plan, seq);
            server->repeated++;
        }
        if (complete) {
            answer_message(server);
        }
        /* After the answer: the peer's clock is running. */
        server->bad += !plan_verify(plan, event, false, seq, frame);
    }
    session_release(server->s, event);
    if (complete && server->next - plan->first < plan->warmup + plan->count) {
        prepare_message(server->s, plan, true, server->next);
    }
}

static void serve_start(struct server *server, const struct control *control)
{
    struct plan plan = { 0 };
    bool again;

    server->refused = !plan_from_control(&plan, control);
    if (server->refused) {
        return;
    }
    again = server->running && plan.run == server->plan.run;
    if (!session_started(server->s, &plan) || again ||
        plan.nframes > server->s->buffers) {
        return;
    }
    server->plan = plan;
    server->next = plan.first;
    server->running = true;
    assembly_start(&server->assembly, plan.nframes);
    prepare_message(server->s, &plan, true, plan.first);
}

/* The answer, if there was one, goes before this. */
static void tell(struct server *server, const struct control *asked)
{
    struct control told = *asked;

    told.type = CONTROL_TOLD;
    if (server->running && asked->run == (uint16_t)server->plan.run) {
        session_control(server->s, &told);
    }
}

/* False: the peer is done, or refused. */
static bool serve_event(struct server *server, struct event *event)
{
    if (event->type == EVENT_FRAME) {
        serve_frame(server, event);
    } else if (event->type == EVENT_CONTROL) {
        struct control ended = { .type = CONTROL_ENDED,
                                 .w = { server->bad } };

        switch (event->control.type) {
        case CONTROL_START:
            serve_start(server, &event->control);
            return !server->refused;
        case CONTROL_ASKED:
            tell(server, &event->control);
            break;
        case CONTROL_END:
            session_control(server->s, &ended);
            return false;
        default:
            break;
        }
    }
    return true;
}

static bool serve(struct session *s)
{
    struct server server = { .s = s };
    uint64_t heard = now_ns();
    char mac[UNETMM_MAC_CHARS];
    struct event event;
    bool ended = false;

    while (!ended && !s->gone && now_ns() - heard < s->opt->timeout_ns) {
        session_event(s, &event, (int64_t)NS_PER_S);
        if (event.type != EVENT_NONE) {
            heard = now_ns();
        }
        ended = !serve_event(&server, &event);
    }
    if (!s->opt->json) {
        printf("%s: %llu messages answered, %llu answered again, %u frames "
               "with wrong bytes\n", unetmm_format_mac(s->peer.mac, mac),
               (unsigned long long)server.answered,
               (unsigned long long)server.repeated, server.bad);
        fflush(stdout);
    }
    if (server.bad) {
        complain("%u frames arrived with wrong bytes", server.bad);
    } else if (!ended) {
        session_silent(s);
    }
    free(server.assembly.have);
    return ended && !server.refused && !server.bad;
}

static int run_server(struct session *s)
{
    return session_serve(s, s->opt->op->rights ? op_serve : serve) ?
        EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct options opt = {
        .tool = "unetmm-pingpong",
        .service = 1,
        .source = UNETMM_SOURCE_TLB,
        .policy = UNETMM_POLICY_SKIP,
        .spin_ns = UNETMM_SPIN_DEFAULT_NS,
        .seed = 1,
        .timeout_ns = 10 * NS_PER_S,
        .count = 1000,
        .warmup = 100,
        .nsizes = 1,
        .sizes = { 8 },
    };
    struct session session;
    int ret;

    parse_options(&opt, own_options, doc, argc, argv);
    session_open(&session, &opt);
    ret = opt.listen ? run_server(&session) : run_client(&session);
    session_close(&session);
    return ret;
}
