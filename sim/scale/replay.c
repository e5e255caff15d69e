/*
 * unetmm: hosts with cards in a simulated network: sends of a trace
 *
 * A trace is text, a line for each send, in the order of their times:
 *
 *   MICROSECONDS HOST PEER BYTES     "12.5 3 0 4096"; behind a # is a comment
 *
 * Hosts are numbered from 0 on, without a gap.  With more hosts than the trace has
 * each group of as many as it has plays it alone.  A send that finds `depth` sends of its
 * host under way waits for them; an operation lasts from the time in the trace to
 * the completion.  Each host sends from, and receives into, places of its `pages`
 * that are drawn by lot.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "scale.h"

#define MOST_SENDS  (1u << 22)
#define MOST_US     1000000000ull
#define MOST_BYTES  (1u << 20)

typedef struct Send {
    Ps at;
    uint32_t bytes;
    uint16_t host, peer;
} Send;

struct Trace {
    GArray *sends;              /* Send, by host, then by time */
    uint32_t *first;            /* of each host, and the end of the last */
    unsigned hosts;
};

typedef struct Replay {
    uint32_t due, sent, ended;  /* the next one of the trace's sends */
} Replay;

/* ---- Reading ------------------------------------------------------------------ */

/* A number below `most`, to the next space or the end. */
static bool number(const char **text, uint64_t most, uint64_t *out)
{
    uint64_t value = 0;
    const char *at = *text;

    while (g_ascii_isdigit(*at) && value <= most) {
        value = value * 10 + (*at++ - '0');
    }
    *out = value;
    if (at == *text || value > most) {
        return false;
    }
    *text = at;
    return true;
}

/* Microseconds with up to six digits behind a point. */
static bool time_of(const char **text, Ps *out)
{
    uint64_t us, part = 0;
    unsigned digits = 0;

    if (!number(text, MOST_US, &us)) {
        return false;
    }
    if (**text == '.') {
        for (++*text; g_ascii_isdigit(**text) && digits < 6; ++*text) {
            part = part * 10 + (**text - '0');
            digits++;
        }
        if (!digits) {
            return false;
        }
    }
    for (; digits < 6; digits++) {
        part *= 10;
    }
    *out = us * PS_PER_US + part;
    return true;
}

static bool space(const char **text)
{
    const char *at = *text;

    *text += strspn(at, " \t");
    return *text != at;
}

static bool read_send(const char *text, Send *s)
{
    uint64_t host, peer, bytes;

    if (!time_of(&text, &s->at) || !space(&text) ||
        !number(&text, SCALE_HOSTS - 1, &host) || !space(&text) ||
        !number(&text, SCALE_HOSTS - 1, &peer) || !space(&text) ||
        !number(&text, MOST_BYTES, &bytes)) {
        return false;
    }
    space(&text);
    s->host = host;
    s->peer = peer;
    s->bytes = bytes;
    return !*text && bytes && host != peer;
}

static char *read_line(Trace *t, char *line, Ps *last)
{
    Send s;

    line[strcspn(line, "#\r")] = 0;
    g_strstrip(line);
    if (!*line) {
        return NULL;
    }
    if (!read_send(line, &s)) {
        return g_strdup_printf("use MICROSECONDS HOST PEER BYTES, of two hosts below %u "
                               "and 1 to %u bytes", SCALE_HOSTS, MOST_BYTES);
    }
    if (s.at < *last) {
        return g_strdup("the time is before that of the line above");
    }
    if (t->sends->len == MOST_SENDS) {
        return g_strdup_printf("there are more than %u sends", MOST_SENDS);
    }
    *last = s.at;
    t->hosts = MAX(t->hosts, MAX(s.host, s.peer) + 1u);
    g_array_append_val(t->sends, s);
    return NULL;
}

static int by_host(const void *a, const void *b)
{
    const Send *one = a, *other = b;

    return one->host != other->host ? one->host - other->host :
           (one->at > other->at) - (one->at < other->at);
}

static void sort(Trace *t)
{
    t->first = g_new0(uint32_t, t->hosts + 1);
    /* GLib's sort keeps the order of those that are equal. */
    g_qsort_with_data(t->sends->data, t->sends->len, sizeof(Send),
                      (GCompareDataFunc)(void *)by_host, NULL);
    for (uint32_t i = 0; i < t->sends->len; i++) {
        t->first[g_array_index(t->sends, Send, i).host + 1] = i + 1;
    }
    for (unsigned i = 1; i <= t->hosts; i++) {
        t->first[i] = MAX(t->first[i], t->first[i - 1]);
    }
}

/* A line to its end.  False: it is longer, or has a zero byte. */
static bool get_line(FILE *from, char *line, size_t bytes)
{
    size_t n = 0;
    int c;

    while ((c = getc(from)) != EOF && c != '\n') {
        if (!c || n == bytes - 1) {
            return false;
        }
        line[n++] = c;
    }
    line[n] = 0;
    return true;
}

char *trace_read(Trace **out, FILE *from)
{
    Trace *t = g_new0(Trace, 1);
    char line[256], *why = NULL;
    unsigned lines = 0;
    Ps last = 0;

    t->sends = g_array_new(false, false, sizeof(Send));
    while (!why && !feof(from) && !ferror(from)) {
        lines++;
        why = get_line(from, line, sizeof(line)) ? read_line(t, line, &last) :
              g_strdup("it is too long, or has a zero byte");
        if (why) {
            g_autofree char *reason = why;

            why = g_strdup_printf("line %u: %s", lines, reason);
        }
    }
    if (!why && !t->sends->len) {
        why = g_strdup("there is no send");
    }
    if (why) {
        trace_free(t);
        return why;
    }
    sort(t);
    *out = t;
    return NULL;
}

void trace_free(Trace *t)
{
    if (t) {
        g_array_unref(t->sends);
        g_free(t->first);
        g_free(t);
    }
}

const char *trace_refuses(const Config *c)
{
    const Trace *t = c->trace;

    if (c->workload != &workload_replay) {
        return t ? "a trace is for workload replay" : NULL;
    }
    if (!t) {
        return "workload replay needs a trace";
    }
    if (c->hosts % t->hosts) {
        return "the hosts have to be those of the trace, or groups of so many";
    }
    for (uint32_t i = 0; i < t->sends->len; i++) {
        if (g_array_index(t->sends, Send, i).bytes > c->bytes) {
            return "a send of the trace has more bytes than parameter bytes";
        }
    }
    return NULL;
}

/* ---- A host ----------------------------------------------------------------------- */

static unsigned group(const Config *c)
{
    return c->trace->hosts;
}

static uint32_t first_of(const Host *h)
{
    return h->config->trace->first[h->number % group(h->config)];
}

static uint32_t end_of(const Host *h)
{
    return h->config->trace->first[h->number % group(h->config) + 1];
}

static const Send *send_at(const Host *h, uint32_t at)
{
    return &g_array_index(h->config->trace->sends, Send, at);
}

/* Channel k of a host leads to the host k places behind it in its group. */
static unsigned replay_channels(const Config *c, unsigned number)
{
    return group(c) - 1;
}

static bool replay_receives(const Config *c, unsigned number)
{
    return true;
}

static uint64_t replay_pages(const Config *c, unsigned number)
{
    return c->pages;
}

static void replay_connect(Host *h)
{
    unsigned hosts = group(h->config), own = h->number % hosts;

    h->work = g_new0(Replay, 1);
    for (unsigned k = 1; k < hosts; k++) {
        host_connect(h, k, h->number - own + (own + k) % hosts, hosts - k);
    }
    host_post_places(h);
}

/* Posts those whose time has come, as far as there is room. */
static void send_due(Host *h)
{
    const Config *c = h->config;
    Replay *r = h->work;

    while (r->sent < r->due && r->sent - r->ended < c->depth) {
        const Send *s = send_at(h, r->sent);
        unsigned hosts = group(c);

        r->sent++;
        host_send(h, (s->peer + hosts - s->host) % hosts, host_place(h),
                  s->bytes);
    }
}

static void due(Run *run, Node *n, void *arg);

/* The next send's time: an event for each, one after the other. */
static void wait(Host *h)
{
    Replay *r = h->work;

    if (r->due < end_of(h)) {
        run_at(&h->run, h->began + send_at(h, r->due)->at, due, h->node, NULL);
    }
}

static void due(Run *run, Node *n, void *arg)
{
    Host *h = host_of(n);

    ((Replay *)h->work)->due++;
    send_due(h);
    wait(h);
}

/*
 * Sends of several channels may overtake each other: a completion counts for
 * the oldest send.
 */
static void replay_completed(Node *n)
{
    Host *h = host_of(n);
    Replay *r = h->work;
    struct unetmm_cqe cqe;

    while (host_poll(h, &cqe)) {
        if (cqe.status != UNETMM_ST_OK) {
            continue;
        }
        if (cqe.opcode == UNETMM_CQE_RECEIVED) {
            h->bytes += cqe.len;
            host_repost(h, &cqe);
        } else if (cqe.opcode == UNETMM_CQE_SENT) {
            host_took(h, h->began + send_at(h, r->ended)->at);
            r->ended++;
            h->done = r->ended == end_of(h);
            send_due(h);
        }
    }
}

static void replay_start(Host *h)
{
    Replay *r = h->work;

    r->due = r->sent = r->ended = first_of(h);
    h->done = r->ended == end_of(h);
    wait(h);
}

const Workload workload_replay = {
    .name = "replay",
    .text = "hosts send as the file of --trace says",
    .channels = replay_channels,
    .receives = replay_receives,
    .pages = replay_pages,
    .tune = host_tune,
    .connect = replay_connect,
    .start = replay_start,
    .completed = replay_completed,
};
