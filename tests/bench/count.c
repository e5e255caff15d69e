/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Scaling: instructions that the in-process card executes for a message, with
 * more and more endpoints, with more and more open channels, and with more and
 * more memory in its TLB.
 *
 *   bench-count endpoints LIST   a message of 8 bytes, endpoints in turn
 *   bench-count wake-ups LIST    the same, to receivers that have armed
 *   bench-count channels LIST    the same on a reliable channel; both ends have
 *                                so many, and use one
 *   bench-count misses LIST      a message whose page another has just left
 *   bench-count memory LIST      a message of 1024 bytes, pages in turn, in a
 *                                TLB that holds so many MiB
 *   bench-count check            none may cost more than 3 % above the least;
 *                                with more channels, 10 %
 *
 * Counted are doorbells with all that they lead to, one instruction at a time,
 * so that the figures are exact; the driver's part of a miss is in them, and the
 * timer of reliable channels; queueing messages and taking completions is not.
 */
#include "fixture.h"
#include "steps.h"

#include <stdlib.h>
#include <unistd.h>

#define AT          0x7f1200000000ull
#define CHANNEL     1
#define MESSAGES    4           /* a step costs up to 0.1 ms */
#define DEPTH_LOG2  2           /* of all queues: memory for 1024 endpoints */
#define LONG        1024        /* bytes of a message that needs a buffer */

typedef enum What { ENDPOINTS, WAKE_UPS, CHANNELS, MISSES, MEMORY, WHATS } What;

static const struct {
    const char *name;
    const char *key;            /* in the row */
    const char *mode;
    uint32_t bytes;
    unsigned least, most;       /* for check */
    double tolerance;
} whats[WHATS] = {
    { "endpoints", "endpoints", "tlb, by endpoints", 8, 2, 512, 1.03 },
    { "wake-ups", "endpoints", "tlb, wake-ups", 8, 2, 512, 1.03 },
    { "channels", "channels", "tlb, by channels", 8, 1, 1024, 1.1 },
    { "misses", "endpoints", "tlb, misses", LONG, 2, 512, 1.03 },
    { "memory", "mib", "tlb, by memory", LONG, 1, 1024, 1.03 },
};

typedef struct Scene {
    What what;
    unsigned messages;          /* to be counted */
    FakeHost h;
    FakeDriver d;
    FakeSpace *space;
    FakeEp *ep;
    unsigned eps;
    unsigned channels;          /* reliable ones of each endpoint */
    uint64_t pages;             /* mapped from AT on */
} Scene;

/* So many pages, on a few of the host: counted code does not read them. */
static void map_pages(Scene *s)
{
    uint64_t dma[64];

    for (unsigned i = 0; i < G_N_ELEMENTS(dma); i++) {
        dma[i] = fake_page(&s->h);
    }
    for (uint64_t i = 0; i < s->pages; i++) {
        FakeVpage *page = g_new0(FakeVpage, 1);

        page->vpn = (AT >> UNETMM_PAGE_SHIFT) + i;
        page->rights = FAKE_RW;
        page->dma = dma[i % G_N_ELEMENTS(dma)];
        g_hash_table_replace(s->space->pages, &page->vpn, page);
    }
}

static void open_card(Scene *s)
{
    UnetmmParams p;

    fake_params(&p);
    p.endpoints = s->eps + 1;
    p.pretranslate = 1;
    p.channels = MAX(p.channels, s->channels);
    p.reliable = MAX(p.reliable, 2 * s->channels);
    p.tlb_sets = s->what == MEMORY ? s->pages : s->eps;
    p.tlb_victims = s->what == MISSES ? 0 : 16;
    fake_host_init(&s->h, &p);
    s->h.unchecked = true;
    fake_driver_init(&s->d, &s->h);
    s->d.ring[UNETMM_RING_NOTIFY].log2 = 10;
    fake_driver_start(&s->d);
    s->d.watch = false;
}

/* Of a pair; the one of the messages comes last. */
static void open_channels(Scene *s, FakeEp *tx, FakeEp *rx)
{
    const struct unetmm_cmd_channel how = { .mtu = LONG };
    const uint8_t *mac = s->h.core.params.mac;

    if (!s->channels) {
        fake_connect(tx, rx, CHANNEL, LONG);
    }
    for (int c = (int)s->channels - 1; c >= 0; c--) {
        if (fake_channel_rel(tx, c, mac, rx->id, c, &how) ||
            fake_channel_rel(rx, c, mac, tx->id, c, &how)) {
            fprintf(stderr, "bench-count: no channel %d\n", c);
            _exit(EXIT_FAILURE);
        }
    }
}

static void open_endpoints(Scene *s)
{
    s->ep = g_new0(FakeEp, s->eps);
    for (unsigned i = 0; i < s->eps; i++) {
        FakeEp *ep = &s->ep[i];

        fake_ep_init(ep, &s->d, i + 1, s->space);
        ep->sq_log2 = ep->fq_log2 = ep->cq_log2 = DEPTH_LOG2;
        fake_ep_create(ep);
    }
    /* Each sends to the next. */
    for (unsigned i = 0; i < s->eps; i += 2) {
        open_channels(s, &s->ep[i], &s->ep[i + 1]);
    }
}

static uint64_t page_at(const Scene *s, uint64_t n)
{
    return AT + n % s->pages * UNETMM_PAGE_BYTES;
}

/* Queues message i; the sender whose bell is to be rung. */
static FakeEp *queue_message(Scene *s, unsigned i)
{
    FakeEp *tx = &s->ep[2 * (uint64_t)i % s->eps], *rx = tx + 1;

    if (s->what == WAKE_UPS) {
        fake_user_word(rx, offsetof(struct unetmm_ep_user, cq_arm),
                       UNETMM_ARM | (rx->cq_cons & UNETMM_ARM_COUNT));
    }
    if (whats[s->what].bytes <= UNETMM_CQE_INLINE) {
        fake_send_inline(tx, s->channels ? 0 : CHANNEL, i, whats[s->what].bytes, i, 0);
        return tx;
    }
    fake_post(rx, page_at(s, 2ull * i + 1), LONG, i);
    fake_ring_bell(rx);
    fake_serve(&s->d);
    if (s->what == MISSES) {
        /* Its set is the same, so the page of the send goes. */
        fake_insert(s->space, page_at(s, 2ull * i + s->pages / 2), 1, NULL);
        fake_serve(&s->d);
    }
    fake_send_at(tx, CHANNEL, page_at(s, 2ull * i), LONG, i);
    return tx;
}

static void expect_message(Scene *s, FakeEp *tx)
{
    struct unetmm_notify notify;
    struct unetmm_cqe cqe;

    if (!fake_poll(tx, &cqe) || cqe.opcode != UNETMM_CQE_SENT ||
        cqe.status != UNETMM_ST_OK || !fake_poll(tx + 1, &cqe) ||
        cqe.opcode != UNETMM_CQE_RECEIVED ||
        fake_notification(&s->d, &notify) != (s->what == WAKE_UPS)) {
        fprintf(stderr, "bench-count: a message did not arrive\n");
        _exit(EXIT_FAILURE);
    }
}

static void ring(Scene *s, FakeEp *tx, bool misses)
{
    fake_ring_bell(tx);
    fake_run_later(&s->h);
    if (s->what == CHANNELS) {
        fake_advance(&s->h, UNETMM_REL_TIMEOUT_US * 1000);
    }
    if (misses) {
        fake_serve(&s->d);
    }
}

static void message(Scene *s, unsigned i, bool counted)
{
    FakeEp *tx = queue_message(s, i);

    if (counted) {
        steps_mark();
    }
    ring(s, tx, s->what == MISSES || !counted);
    if (counted) {
        steps_mark();
    }
    expect_message(s, tx);
}

/* In a child: once round, so that all is warm, and then MESSAGES counted. */
static void play(void *opaque)
{
    Scene *s = opaque;
    unsigned round = s->what == MEMORY ? s->pages / 2 : s->eps;

    open_card(s);
    s->space = fake_space(&s->d, 1, UNETMM_SOURCE_TLB, 0);
    map_pages(s);
    open_endpoints(s);
    for (unsigned i = 0; i < round; i++) {
        message(s, i, false);
    }
    steps_mark();
    steps_mark();
    for (unsigned i = 0; i < s->messages; i++) {
        /* Odd, so that all are met in turn. */
        message(s, round + i * 7919, true);
    }
}

/* Instructions of one message. */
static double measure(What what, unsigned n, unsigned messages)
{
    Scene s = { .what = what, .messages = messages };
    int64_t sum;

    s.eps = what == MEMORY || what == CHANNELS ? 2 : n;
    s.channels = what == CHANNELS ? n : 0;
    s.pages = what == MEMORY ? (uint64_t)n << (20 - UNETMM_PAGE_SHIFT) :
              2 * s.eps;
    sum = steps_count(play, &s);
    if (sum < 0) {
        fprintf(stderr, "bench-count: %s %u could not be counted\n",
                whats[what].name, n);
        exit(EXIT_FAILURE);
    }
    return (double)sum / messages;
}

static void show(What what, unsigned n)
{
    printf("{\"peer\":\"core in-process\",\"mode\":\"%s\","
           "\"metric\":\"instructions\",\"bytes\":%u,\"frame\":%u,"
           "\"median\":%.1f,\"p99\":null,\"n\":%u,"
           "\"unit\":\"instructions\",\"statistic\":\"mean\",\"%s\":%u}\n",
           whats[what].mode, whats[what].bytes, LONG, measure(what, n, MESSAGES),
           MESSAGES, whats[what].key, n);
    fflush(stdout);
}

/* TAP: the most endpoints, or memory, against the fewest. */
static int check_all(void)
{
    int bad = 0;

    printf("1..%d\n", WHATS);
    for (What w = 0; w < WHATS; w++) {
        double least = measure(w, whats[w].least, 1);
        double most = measure(w, whats[w].most, 1);
        bool good = most <= least * whats[w].tolerance;

        printf("%sok %d - %s: %.0f instructions with %u, %.0f with %u\n",
               good ? "" : "not ", w + 1, whats[w].name, least,
               whats[w].least, most, whats[w].most);
        bad += !good;
    }
    return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int usage(void)
{
    fprintf(stderr, "usage: bench-count endpoints|wake-ups|channels|misses|memory "
            "N,N,...\n       bench-count check\n");
    return 2;
}

int main(int argc, char **argv)
{
    What what = 0;
    char *word;

    if (argc == 2 && !strcmp(argv[1], "check")) {
        return check_all();
    }
    while (argc == 3 && what < WHATS && strcmp(argv[1], whats[what].name)) {
        what++;
    }
    if (argc != 3 || what == WHATS) {
        return usage();
    }
    for (word = strtok(argv[2], ","); word; word = strtok(NULL, ",")) {
        unsigned n = (unsigned)strtoul(word, NULL, 10);

        /* A power of two, so that all sets of the TLB are met alike. */
        if (n < whats[what].least || n > whats[what].most || n & (n - 1)) {
            fprintf(stderr, "bench-count: %s: a power of two, %u to %u\n",
                    whats[what].name, whats[what].least, whats[what].most);
            return 2;
        }
        show(what, n);
    }
    return 0;
}
