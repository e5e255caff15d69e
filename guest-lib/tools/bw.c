/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm-bw: bandwidth and message rate between two processes.
 *
 * Frames of a run are numbered from 0.  The receiver grants credit as an
 * absolute limit on these numbers, "below this may be sent", never more than
 * it has buffers posted: so a lost, doubled or late credit does no harm.  Its
 * window starts small, grows while nothing is lost and is halved when
 * something is, for a buffer whose translation is still on its way takes no
 * message.  A sender that has waited too long for credit says how far it is;
 * messages that the receiver has not seen by then are lost.
 */
#include "onesided.h"
#include "results.h"
#include "seen.h"

#include <inttypes.h>
#include <stdlib.h>

#define STALL_NS        (5 * NS_PER_MS)
#define REPEAT_NS       (50 * NS_PER_MS)
#define FIRST_WINDOW    8
#define LEAST_WINDOW    2
#define CONTROL_BUFFERS 4       /* kept back for control messages */
#define BATCH           8       /* frames for one doorbell */
#define EVENTS_PER_LOOK 64      /* events between two looks at the clock */

static const char doc[] =
"Sends messages as fast as the receiver takes them and prints megabytes\n"
"(10^6) and messages per second as the receiver saw them, and the lost ones.\n"
"Start the listening side first; unetmm-info shows a card's MAC.\v"
"A message longer than a frame is split.  An operation but send has at most 4m;\n"
"the connecting side measures it, until the last one is complete, and with\n"
"--verify the time in which bytes are looked at does not count.\n"
"\n"
"Example: on the first host\n"
"    unetmm-bw --listen\n"
"and on the second, where the first has the MAC 52:54:00:00:00:01\n"
"    unetmm-bw 52:54:00:00:00:01 --size 1k,64k --count 5000";

static const struct argp_option own_options[] = {
    { "service", 'p', "N", 0, "number under which the two meet (2)", GROUP_SIDES },
    { "size", 's', "LIST", 0, "message sizes in bytes, 8 or more, as 64,4k (64k)",
      GROUP_MESSAGES },
    { "count", 'n', "N", 0, "messages that are measured, of each size (2000)",
      GROUP_MESSAGES },
    { "warmup", OPT_WARMUP, "N", 0, "messages before them that are not (200)",
      GROUP_MESSAGES },
    { "bidir", OPT_BIDIR, NULL, 0, "both sides send at the same time",
      GROUP_MESSAGES },
    { "op", OPT_OP, "NAME", 0, "how a message gets to the peer, see below (send)",
      GROUP_MESSAGES },
    OPTION_WORD("send", "messages into buffers that wait there", GROUP_OPS),
    OPTION_WORD("write", "into memory that the peer exports", GROUP_OPS),
    OPTION_WORD("read", "out of it, so the bytes come this way", GROUP_OPS),
    { "json", OPT_JSON, NULL, 0, "one JSON object for each size and direction",
      GROUP_OUTPUT },
    { 0 }
};

struct tx {
    uint64_t sent;              /* frames */
    uint64_t limit;             /* frames below this may be sent */
    uint64_t asked_ns;          /* when the receiver was last heard or asked */
    bool done;                  /* its report is here */
    struct control report;
};

struct rx {
    uint64_t credited;          /* seen.high when credit was given last */
    uint64_t received;          /* measured frames, each once */
    uint64_t bytes;             /* in measured frames behind the first */
    uint64_t first_ns, last_ns;
    uint32_t window;
    uint32_t since_loss;
    bool slow_start;
    uint32_t doubled;
    uint32_t bad;
    bool done;                  /* the sender has finished */
    struct seen seen;
};

struct bw {
    struct session *s;
    struct plan plan;
    bool server;
    bool running;
    bool started;               /* client: the server knows the plan */
    bool ended;                 /* server: the client is done */
    bool refused;               /* server: the client's plan is impossible */
    bool sends, receives;
    uint64_t heard_ns;
    struct tx tx;
    struct rx rx;
};

static uint64_t total_frames(const struct plan *plan)
{
    return (uint64_t)(plan->warmup + plan->count) * plan->nframes;
}

static uint64_t warm_frames(const struct plan *plan)
{
    return (uint64_t)plan->warmup * plan->nframes;
}

/* ---- Receiving --------------------------------------------------------- */

static void rx_start(struct bw *bw)
{
    memset(&bw->rx, 0, sizeof(bw->rx));
    bw->rx.window = FIRST_WINDOW;
    bw->rx.slow_start = true;
}

static void rx_credit(struct bw *bw)
{
    uint32_t most = bw->s->buffers - CONTROL_BUFFERS;
    struct rx *rx = &bw->rx;
    struct control credit = {
        .type = CONTROL_CREDIT,
        .run = (uint16_t)bw->plan.run,
        .q = { rx->seen.high + (rx->window < most ? rx->window : most) },
    };

    rx->credited = rx->seen.high;
    session_control(bw->s, &credit);
}

static void rx_lost(struct rx *rx)
{
    rx->window = rx->window / 2 > LEAST_WINDOW ? rx->window / 2 : LEAST_WINDOW;
    rx->since_loss = 0;
    rx->slow_start = false;
}

static void rx_good(struct bw *bw)
{
    struct rx *rx = &bw->rx;

    if (++rx->since_loss < rx->window || rx->window >= bw->s->buffers) {
        return;
    }
    rx->since_loss = 0;
    rx->window += rx->slow_start ? rx->window : 1;
}

/* True the first time that a frame is seen. */
static bool rx_is_new(struct bw *bw, uint64_t number)
{
    uint64_t high = bw->rx.seen.high;

    if (number > high) {
        rx_lost(&bw->rx);
    } else if (number == high) {
        rx_good(bw);
    }
    return seen_is_new(&bw->rx.seen, number);
}

static void rx_count(struct bw *bw, uint64_t number, uint32_t len)
{
    struct rx *rx = &bw->rx;

    if (number >= warm_frames(&bw->plan)) {
        rx->received++;
        if (!rx->first_ns) {
            rx->first_ns = now_ns();
        } else {
            rx->bytes += len;
        }
    }
    if (number + 1 == total_frames(&bw->plan)) {
        rx->last_ns = now_ns();
    }
}

static void rx_frame(struct bw *bw, struct event *event)
{
    uint64_t number;
    uint32_t seq, frame;

    if (bw->receives && !bw->rx.done &&
        plan_identify(&bw->plan, event, bw->plan.first, &seq, &frame)) {
        number = (uint64_t)(seq - bw->plan.first) * bw->plan.nframes + frame;
        if (rx_is_new(bw, number)) {
            rx_count(bw, number, event->len);
            /* The sender of the other direction is the one that answers. */
            bw->rx.bad += !plan_verify(&bw->plan, event, !bw->server, seq,
                                       frame);
        } else {
            bw->rx.doubled++;
        }
    }
    session_release(bw->s, event);
    if (bw->receives && !bw->rx.done &&
        2 * (bw->rx.seen.high - bw->rx.credited) >= bw->rx.window) {
        rx_credit(bw);
    }
}

static void rx_report(struct bw *bw)
{
    struct rx *rx = &bw->rx;
    struct control report = {
        .type = CONTROL_REPORT,
        .run = (uint16_t)bw->plan.run,
    };
    uint64_t measured = total_frames(&bw->plan) - warm_frames(&bw->plan);

    if (!rx->done) {
        rx->done = true;
        if (!rx->last_ns) {
            rx->last_ns = now_ns();
        }
    }
    report.w[0] = (uint32_t)(measured - rx->received);
    report.w[1] = rx->doubled;
    report.w[2] = rx->bad;
    report.w[3] = (uint32_t)rx->received;
    report.q[0] = rx->first_ns ? rx->last_ns - rx->first_ns : 0;
    report.q[1] = rx->bytes;
    session_control(bw->s, &report);
}

/* ---- Sending ----------------------------------------------------------- */

static void tx_start(struct bw *bw)
{
    memset(&bw->tx, 0, sizeof(bw->tx));
    bw->tx.asked_ns = now_ns();
}

static void tx_finish(struct bw *bw)
{
    const struct control finish = {
        .type = CONTROL_FINISH,
        .run = (uint16_t)bw->plan.run,
        .q = { bw->tx.sent },
    };

    bw->tx.asked_ns = now_ns();
    session_control(bw->s, &finish);
}

/* Sends a batch.  True if there may be more to send at once. */
static bool tx_progress(struct bw *bw)
{
    uint64_t total = total_frames(&bw->plan);
    struct tx *tx = &bw->tx;
    uint64_t end = tx->limit < total ? tx->limit : total;
    int i;

    if (!bw->sends || tx->sent >= end) {
        return false;
    }
    for (i = 0; i < BATCH && tx->sent < end; i++) {
        uint32_t seq = bw->plan.first +
            (uint32_t)(tx->sent / bw->plan.nframes);
        uint32_t frame = (uint32_t)(tx->sent % bw->plan.nframes);

        if (!session_prepare(bw->s, &bw->plan, bw->server, seq, frame) ||
            !session_send(bw->s, &bw->plan, seq, frame,
                          i + 1 < BATCH && tx->sent + 1 < end)) {
            return false;
        }
        tx->sent++;
    }
    if (tx->sent == total) {
        tx_finish(bw);
    }
    return tx->sent < end;
}

static void tx_timers(struct bw *bw, uint64_t now)
{
    const struct control stalled = {
        .type = CONTROL_STALLED,
        .run = (uint16_t)bw->plan.run,
        .q = { bw->tx.sent },
    };

    if (!bw->sends || bw->tx.done) {
        return;
    }
    if (bw->tx.sent == total_frames(&bw->plan)) {
        if (now - bw->tx.asked_ns >= REPEAT_NS) {
            tx_finish(bw);
        }
    } else if (bw->tx.sent >= bw->tx.limit &&
               now - bw->tx.asked_ns >= STALL_NS) {
        bw->tx.asked_ns = now;
        session_control(bw->s, &stalled);
    }
}

/* ---- Both -------------------------------------------------------------- */

static void begin(struct bw *bw, const struct plan *plan)
{
    bw->plan = *plan;
    bw->sends = !bw->server || plan->bidir;
    bw->receives = bw->server || plan->bidir;
    bw->running = true;
    bw->started = bw->server;
    rx_start(bw);
    tx_start(bw);
}

static void on_start(struct bw *bw, const struct control *control)
{
    struct plan plan = { 0 };
    bool again;

    if (!plan_from_control(&plan, control)) {
        bw->refused = true;
        return;
    }
    again = bw->running && plan.run == bw->plan.run;
    if (session_started(bw->s, &plan) && !again) {
        begin(bw, &plan);
        rx_credit(bw);
    }
}

static void on_started(struct bw *bw, const struct control *control)
{
    session_check_op(bw->s, control);
    if (control->w[0]) {
        fail("the peer's buffers hold frames of %u bytes only: use --frame %u",
             control->w[0], control->w[0]);
    }
    if (!bw->started) {
        bw->started = true;
        bw->tx.asked_ns = now_ns();
        if (bw->receives) {
            rx_credit(bw);
        }
    }
}

/* Messages of a run; those of another one are late. */
static void on_run_control(struct bw *bw, const struct control *control)
{
    switch (control->type) {
    case CONTROL_STARTED:
        on_started(bw, control);
        break;
    case CONTROL_CREDIT:
        if (control->q[0] > bw->tx.limit) {
            bw->tx.limit = control->q[0];
            bw->tx.asked_ns = now_ns();
        }
        break;
    case CONTROL_STALLED:
        if (bw->receives && !bw->rx.done) {
            if (control->q[0] > bw->rx.seen.high &&
                control->q[0] <= total_frames(&bw->plan)) {
                rx_lost(&bw->rx);
                seen_advance(&bw->rx.seen, control->q[0]);
            }
            rx_credit(bw);
        }
        break;
    case CONTROL_FINISH:
        if (bw->receives) {
            rx_report(bw);
        }
        break;
    case CONTROL_REPORT:
        bw->tx.report = *control;
        bw->tx.done = true;
        break;
    default:
        break;
    }
}

static void on_control(struct bw *bw, const struct control *control)
{
    const struct control ended = { .type = CONTROL_ENDED };

    if (bw->server && control->type == CONTROL_START) {
        on_start(bw, control);
    } else if (bw->server && control->type == CONTROL_END) {
        session_control(bw->s, &ended);
        bw->ended = true;
    } else if (bw->running && control->run == (uint16_t)bw->plan.run) {
        on_run_control(bw, control);
    }
}

static bool finished(const struct bw *bw)
{
    if (bw->server) {
        return bw->ended || bw->refused;
    }
    return bw->tx.done && (!bw->receives || bw->rx.done);
}

/* Repeats unanswered messages.  False: the peer is silent. */
static bool timers(struct bw *bw, bool heard)
{
    uint64_t now = now_ns();
    struct control start;

    if (heard) {
        bw->heard_ns = now;
    }
    if (bw->running && !bw->started) {
        if (now - bw->tx.asked_ns >= REPEAT_NS) {
            bw->tx.asked_ns = now;
            plan_to_control(&bw->plan, &start);
            session_control(bw->s, &start);
        }
    } else if (bw->running) {
        tx_timers(bw, now);
    }
    return now - bw->heard_ns < bw->s->opt->timeout_ns;
}

/* Serves the connection until the run (client) or the session is over. */
static bool run_loop(struct bw *bw)
{
    unsigned events = 0;
    bool heard = true;

    while (!finished(bw)) {
        bool busy = bw->running && bw->started && tx_progress(bw);
        struct event event;

        session_event(bw->s, &event, busy ? 0 : (int64_t)STALL_NS);
        if (event.type == EVENT_FRAME) {
            rx_frame(bw, &event);
        } else if (event.type == EVENT_CONTROL) {
            on_control(bw, &event.control);
        }
        if (event.type != EVENT_NONE) {
            heard = true;
            if (++events % EVENTS_PER_LOOK) {
                continue;
            }
        }
        if (!timers(bw, heard)) {
            return false;
        }
        heard = false;
    }
    return true;
}

/* ---- Results ----------------------------------------------------------- */

/* Of one direction, in all rounds of a size */
struct totals {
    uint64_t messages;
    uint64_t ns;
    uint64_t bytes;
    uint64_t lost;              /* frames, as the next two */
    uint64_t doubled;
    uint64_t bad;
};

static void add_report(struct totals *totals, const struct plan *plan,
                       const struct control *report)
{
    totals->messages += plan->count;
    totals->ns += report->q[0];
    totals->bytes += report->q[1];
    totals->lost += report->w[0];
    totals->doubled += report->w[1];
    totals->bad += report->w[2];
}

static void print_result(const struct bw *bw, const struct totals *t,
                         const char *direction)
{
    const struct plan *plan = &bw->plan;
    const struct options *opt = bw->s->opt;
    double seconds = (double)t->ns / 1e9;
    double rate = seconds > 0 ? (double)t->bytes / seconds : 0;
    double mega = rate / 1e6, messages = rate / plan->size;
    json_t *row;

    if (!opt->json) {
        printf("%9u %6u %8" PRIu64 " %-7s %10.1f %12.0f %8" PRIu64 " %8" PRIu64
               "\n", plan->size, plan->nframes, t->messages, direction, mega,
               messages, t->lost, t->doubled);
        fflush(stdout);
        return;
    }
    row = results_row(bw->s, plan, "bandwidth", t->messages, t->lost, t->bad);
    row_real(row, "median", mega, 2);
    row_add(row, "p99", json_null());
    row_text(row, "unit", "MB/s");
    row_real(row, "messages_per_s", messages, 0);
    row_text(row, "direction", direction);
    row_count(row, "doubled", t->doubled);
    row_print(row);
}

static void print_head(const struct session *s, const struct plan *plan)
{
    char mac[UNETMM_MAC_CHARS];

    printf("with %s, service %llu: frames of %u bytes, source %s, policy %s, "
           "%s, %u buffers, %s\n", unetmm_format_mac(s->peer.mac, mac),
           (unsigned long long)s->opt->service, plan->frame,
           source_name(s->opt->source), policy_name(s->opt->policy),
           mode_name(s->opt), s->buffers,
           plan->verify ? "every byte verified" : "not verified");
    if (plan->verify) {
        printf("pattern from --seed %llu\n", (unsigned long long)plan->seed);
    }
    if (plan->op) {
        printf("operation %s, as this side sees it\n", op_name(s->opt->op->number));
    } else {
        printf("longer messages are split into frames; lost and doubled count "
               "frames\n");
    }
    printf("%9s %6s %8s %-7s %10s %12s %8s %8s\n", "bytes", "frames", "n",
           "way", "MB/s", "messages/s", "lost", "doubled");
}

/* Our own counts of received messages, in the shape of a report */
static void own_report(const struct bw *bw, struct control *report)
{
    const struct rx *rx = &bw->rx;

    *report = (struct control) {
        .w = { (uint32_t)(total_frames(&bw->plan) - warm_frames(&bw->plan) -
                          rx->received),
               rx->doubled, rx->bad, (uint32_t)rx->received },
        .q = { rx->first_ns ? rx->last_ns - rx->first_ns : 0, rx->bytes },
    };
}

/* One round.  `ways`: the sent messages, and those of the other direction. */
static void measure(struct bw *bw, const struct plan *plan, struct totals ways[2])
{
    struct control start, own;

    begin(bw, plan);
    plan_to_control(plan, &start);
    session_control(bw->s, &start);
    if (!run_loop(bw)) {
        fail("the peer has stopped answering, after %llu of %llu frames",
             (unsigned long long)bw->tx.sent,
             (unsigned long long)total_frames(plan));
    }
    add_report(&ways[0], plan, &bw->tx.report);
    if (plan->bidir) {
        own_report(bw, &own);
        add_report(&ways[1], plan, &own);
    }
}

/* The same for operations that have a peer's memory to go to. */
static void measure_op(struct bw *bw, struct one_sided *o,
                       const struct plan *plan, struct totals *totals)
{
    struct op_bandwidth result;
    struct control report;

    bw->plan = *plan;
    one_sided_begin(o, plan);
    op_measure_bandwidth(o, &result);
    one_sided_end(o);
    report = (struct control) {
        .w = { 0, 0, result.bad }, .q = { result.ns, result.bytes },
    };
    add_report(totals, plan, &report);
}

/* The number and the first message of the next run */
struct progress {
    uint32_t run;
    uint32_t first;
};

static void measure_size(struct bw *bw, struct one_sided *o, uint64_t size,
                         struct progress *progress)
{
    const struct options *opt = bw->s->opt;
    uint64_t end = now_ns() + opt->duration_ns;
    struct totals ways[2] = { { 0 } };
    struct plan plan;

    do {
        plan_make(&plan, bw->s, size, progress->run, progress->first);
        if (progress->run == 1 && !progress->first && !opt->json) {
            print_head(bw->s, &plan);
        }
        if (plan.op) {
            measure_op(bw, o, &plan, ways);
        } else {
            measure(bw, &plan, ways);
        }
        plan_follow(&plan, &progress->run, &progress->first);
    } while (!ways[0].bad && !ways[1].bad && now_ns() < end);
    print_result(bw, &ways[0], !plan.op || o->op->one_way ? "send" : "receive");
    if (plan.bidir) {
        print_result(bw, &ways[1], "receive");
    }
    if (ways[0].bad || ways[1].bad) {
        fail("%" PRIu64 " frames arrived with wrong bytes",
             ways[0].bad + ways[1].bad);
    }
}

static int run_client(struct session *s)
{
    const struct control end = { .type = CONTROL_END };
    struct control ended;
    struct bw *bw = calloc(1, sizeof(*bw));
    struct progress progress = { .run = 1 };
    struct one_sided o;
    unsigned i;

    if (!bw) {
        fail("no memory");
    }
    bw->s = s;
    one_sided_init(&o, s);
    session_connect(s);
    for (i = 0; i < s->opt->nsizes; i++) {
        measure_size(bw, &o, s->opt->sizes[i], &progress);
    }
    /* Nothing is lost if the peer is gone before it has answered this. */
    session_request(s, &end, CONTROL_ENDED, &ended, NS_PER_S);
    free(bw);
    return EXIT_SUCCESS;
}

static bool serve(struct session *s)
{
    struct bw *bw = calloc(1, sizeof(*bw));
    char mac[UNETMM_MAC_CHARS];
    bool good;

    if (!bw) {
        fail("no memory");
    }
    bw->s = s;
    bw->server = true;
    if (!run_loop(bw)) {
        session_silent(s);
    }
    good = bw->ended;
    if (good && !s->opt->json) {
        printf("%s: done\n", unetmm_format_mac(s->peer.mac, mac));
        fflush(stdout);
    }
    free(bw);
    return good;
}

static int run_server(struct session *s)
{
    return session_serve(s, s->opt->op->rights ? op_serve : serve) ?
        EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct options opt = {
        .tool = "unetmm-bw",
        .is_bw = true,
        .service = 2,
        .source = UNETMM_SOURCE_TLB,
        .policy = UNETMM_POLICY_SKIP,
        .spin_ns = UNETMM_SPIN_DEFAULT_NS,
        .seed = 1,
        .timeout_ns = 10 * NS_PER_S,
        .count = 2000,
        .warmup = 200,
        .nsizes = 1,
        .sizes = { 65536 },
    };
    struct session session;
    unsigned i;
    int ret;

    parse_options(&opt, own_options, doc, argc, argv);
    for (i = 0; i < opt.nsizes; i++) {
        if (!opt.op->rights && opt.sizes[i] < HEADER_BYTES) {
            usage_error("a message has %d bytes or more", HEADER_BYTES);
        }
    }
    session_open(&session, &opt);
    ret = opt.listen ? run_server(&session) : run_client(&session);
    session_close(&session);
    return ret;
}
