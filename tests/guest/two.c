/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two guests and the wire between them: a peer that is killed, a link that goes
 * down, a wire that loses, doubles, reorders, damages and delays.
 */
#include "ask.h"
#include "guard.h"
#include "link.h"

#include <string.h>

/* ---- The peer ------------------------------------------------------------------------ */

static void probe(void)
{
    struct unetmm_ctx *ctx = open_card();
    uint32_t mtu = 0;

    CHECK_RET(unetmm_probe(ctx, run.peer, 20 * NS_PER_S, &mtu), 0);
    CHECK(mtu >= 256 && mtu <= 65536);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* Several endpoints talk to the same peer at the same time. */
static void several(void)
{
    struct unetmm_ctx *ctx = open_card();
    struct link links[6];
    uint8_t *area = pages(64);
    struct chance chance;
    unsigned i;

    chance_init(&chance, 0);
    for (i = 0; i < 6; i++) {
        link_open(&links[i], ctx, NULL);
    }
    for (i = 0; i < rounds(120); i++) {
        struct link *l = &links[i % 6];

        exchange_pattern(l, area + chance_below(&chance, 28 * 4096),
                         area + 32 * PAGE + chance_below(&chance, 28 * 4096),
                         1 + chance_below(&chance, l->tx->mtu),
                         chance_u64(&chance));
    }
    for (i = 0; i < 6; i++) {
        link_close(&links[i]);
    }
    CHECK_RET(unetmm_close(ctx), 0);
}

/* kill -9 while messages are under way; its successor is reached anew. */
static void peer_killed(void)
{
    struct unetmm_completion c;
    struct link link;
    unsigned i, k;
    uint8_t *at = pages(4);
    uint64_t value;

    for (i = 0; i < rounds(5); i++) {
        link_open(&link, NULL, NULL);
        exchange_pattern(&link, at, at + 2 * PAGE, 2 * PAGE, i);
        for (k = 0; k < 8; k++) {
            post(link.rx, at + 2 * PAGE, PAGE, k);
            send_pieces(link.tx, &(struct iovec) { at, 2 * PAGE }, 1, k, 0);
            if (k == 4) {
                peer_try(link.tx, PEER_DIE, &value, now_ns() + 1);
            }
        }
        for (k = 0; k < 8; k++) {
            take(link.tx, UNETMM_CQE_SENT, &c);
        }
        peer_try(link.tx, PEER_DIE, &value, now_ns() + NS_PER_MS);
        EVENTUALLY(send_status(link.tx, "x", 1) == UNETMM_ST_BAD_CHANNEL);
        link_close(&link);
    }
    link_open(&link, NULL, NULL);
    exchange_pattern(&link, at, at + 2 * PAGE, 2 * PAGE, i);
    link_close(&link);
}

/* ---- The link --------------------------------------------------------------------------- */

static bool link_is_up(void)
{
    struct unetmm_info info;

    card_info(&info);
    return info.flags & UNETMM_INFO_LINK;
}

static void link_down(void)
{
    uint8_t *at = pages(4);
    struct link link;
    unsigned i;

    link_open(&link, NULL, NULL);
    for (i = 0; i < 3; i++) {
        exchange_pattern(&link, at, at + 2 * PAGE, 2 * PAGE, i);
        ask_host("link off");
        EVENTUALLY(!link_is_up());
        CHECK_EQ(send_status(link.tx, "x", 1), UNETMM_ST_LINK_DOWN);
        CHECK_EQ(send_status(link.tx, at, 2 * PAGE), UNETMM_ST_LINK_DOWN);
        CHECK(ep_counter(link.tx, UNETMM_C_drop_link) >= 2);
        CHECK_RET(unetmm_connect(link.tx->ep, run.peer, SERVICE_ECHO,
                                 NS_PER_S, NULL), -ENETDOWN);
        CHECK_RET(unetmm_probe(link.ctx, run.peer, NS_PER_S, NULL),
                  -ENETDOWN);
        ask_host("link on");
        EVENTUALLY(link_is_up());
        EVENTUALLY(send_status(link.tx, "x", 1) == UNETMM_ST_OK);
        peer_ask(link.tx, PEER_PING);
        while (take_now(link.rx, UNETMM_CQE_RECEIVED,
                        &(struct unetmm_completion) { 0 })) {
        }
    }
    link_close(&link);
}

/* ---- A bad wire ---------------------------------------------------------------------------- */

#define KNOBS 5

struct books {
    uint64_t out, in, lost, doubled, reordered, corrupted, delayed;
};

static uint64_t frames_out(struct link *link, struct books *books)
{
    uint64_t v[UNETMM_NUM_COUNTERS];

    CHECK(unetmm_counters(link->ctx, UNETMM_SCOPE_CARD, 0, v,
                          UNETMM_NUM_COUNTERS) > 0);
    books->lost = v[UNETMM_C_inj_loss];
    books->doubled = v[UNETMM_C_inj_dup];
    books->reordered = v[UNETMM_C_inj_reorder];
    books->corrupted = v[UNETMM_C_inj_corrupt];
    books->delayed = v[UNETMM_C_inj_delay];
    books->out = frames_to_wire(v);
    return books->out;
}

/* The books of both cards at a moment when nothing is under way. */
static void settle(struct link *link, struct books *books)
{
    uint64_t end = deadline_in(10);
    uint64_t before;

    do {
        CHECK(now_ns() < end);
        before = frames_out(link, books);
        books->in = peer_ask(link->tx, PEER_FRAMES_IN);
    } while (frames_out(link, books) != before + 1);
}

static void send_numbered(struct link *link, struct chance *chance,
                          uint8_t *at, uint64_t number)
{
    size_t len = sizeof(number) + 64 + chance_below(chance, 3000);
    struct unetmm_completion c;

    pattern_fill(at, len, pattern_key(SINK_SEED, number), 0);
    memcpy(at, &number, sizeof(number));
    send_pieces(link->tx, &(struct iovec) { at, len }, 1, number, 0);
    take(link->tx, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.status, UNETMM_ST_OK);
}

/*
 * What was sent was received, or is counted among what was lost.  `rates` are
 * of loss, doubling, reordering, damage and delay, per million.
 */
static void bad_wire(const unsigned rates[KNOBS])
{
    static const char *const knobs[KNOBS] = { "x-loss", "x-dup", "x-reorder",
                                              "x-corrupt", "x-delay" };
    struct books before, after;
    struct chance chance;
    uint8_t *at = pages(2);
    struct link link;
    uint64_t n = rounds(800), i, good;

    chance_init(&chance, 0);
    link_open(&link, NULL, NULL);
    ask_host("set x-seed %llu", (unsigned long long)(run.seed & INT64_MAX));
    peer_ask(link.tx, PEER_SINK);
    settle(&link, &before);
    for (i = 0; i < KNOBS; i++) {
        ask_host("set %s %u", knobs[i], rates[i]);
    }
    for (i = 0; i < n; i++) {
        send_numbered(&link, &chance, at, i);
    }
    for (i = 0; i < KNOBS; i++) {
        ask_host("set %s 0", knobs[i]);
    }
    /* A frame that was held back or is late goes after a millisecond. */
    idle_ns(5 * NS_PER_MS * run.slow);
    peer_ask(link.tx, PEER_PING);
    settle(&link, &after);
    good = peer_ask(link.tx, PEER_COUNT);
    note("%llu sent, %llu arrived; %llu lost, %llu doubled, %llu reordered, "
         "%llu damaged, %llu late", (unsigned long long)n, (unsigned long long)good,
         (unsigned long long)(after.lost - before.lost),
         (unsigned long long)(after.doubled - before.doubled),
         (unsigned long long)(after.reordered - before.reordered),
         (unsigned long long)(after.corrupted - before.corrupted),
         (unsigned long long)(after.delayed - before.delayed));
    CHECK_EQ(after.in - before.in, after.out - before.out);
    CHECK_EQ(peer_ask(link.tx, PEER_BAD), 0);
    CHECK(good + after.lost - before.lost + after.corrupted -
          before.corrupted <= n + after.doubled - before.doubled +
          after.corrupted - before.corrupted);
    for (i = 0; i < KNOBS; i++) {
        uint64_t count = i == 0 ? after.lost - before.lost :
            i == 1 ? after.doubled - before.doubled :
            i == 2 ? after.reordered - before.reordered :
            i == 3 ? after.corrupted - before.corrupted :
            after.delayed - before.delayed;

        CHECK_EQ(count > 0, rates[i] > 0);
    }
    peer_ask(link.tx, PEER_ECHO);
    link_close(&link);
}

static void good_wire(void)
{
    bad_wire((unsigned[KNOBS]) { 0 });
}

static void loss(void)
{
    bad_wire((unsigned[KNOBS]) { 100000 });
}

static void doubling(void)
{
    bad_wire((unsigned[KNOBS]) { 0, 100000 });
}

static void reordering(void)
{
    bad_wire((unsigned[KNOBS]) { 0, 0, 100000 });
}

static void damage(void)
{
    bad_wire((unsigned[KNOBS]) { 0, 0, 0, 100000 });
}

static void delay(void)
{
    bad_wire((unsigned[KNOBS]) { 0, 0, 0, 0, 100000 });
}

static void everything(void)
{
    bad_wire((unsigned[KNOBS]) { 50000, 50000, 50000, 50000, 50000 });
}

/* Channels are set up over a wire that loses half of what it is given. */
static void connect_over_loss(void)
{
    struct link link;
    unsigned i;

    ask_host("set x-seed %llu", (unsigned long long)(run.seed & INT64_MAX));
    ask_host("set x-loss 500000");
    ask_host("set x-dup 300000");
    for (i = 0; i < 5; i++) {
        link_open(&link, NULL, NULL);
        link_close(&link);
    }
    ask_host("set x-loss 0");
    ask_host("set x-dup 0");
    link_open(&link, NULL, NULL);
    exchange_pattern(&link, pages(1), pages(1), PAGE, 1);
    link_close(&link);
}

static const struct test tests[] = {
    { "probe", probe, TEST_ONLY_REMOTE, 0 },
    { "several", several, TEST_ONLY_REMOTE, 0 },
    { "peer-killed", peer_killed, TEST_ONLY_REMOTE, 60 },
    { "link-down", link_down, TEST_ONLY_REMOTE, 60 },
    { "good-wire", good_wire, TEST_ONLY_REMOTE, 60 },
    { "loss", loss, TEST_ONLY_REMOTE, 60 },
    { "doubling", doubling, TEST_ONLY_REMOTE, 60 },
    { "reordering", reordering, TEST_ONLY_REMOTE, 60 },
    { "damage", damage, TEST_ONLY_REMOTE, 60 },
    { "delay", delay, TEST_ONLY_REMOTE, 60 },
    { "everything", everything, TEST_ONLY_REMOTE, 60 },
    { "connect-over-loss", connect_over_loss, TEST_ONLY_REMOTE, 60 },
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, "two", tests,
                     sizeof(tests) / sizeof(tests[0]));
}
