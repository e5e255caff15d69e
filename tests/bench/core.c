/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The cost of a message on the card itself: host time in the in-process core,
 * for sources tlb and pinned; then a SEND and a WRITE (with and without its
 * notification) on a reliable channel.
 *
 * Pairs of endpoints stand on one core, one for each mode.  Rounds of all
 * alternate, so that whatever else the machine does meets all alike, and
 * each one's smallest round counts: noise only adds.  Timed is the doorbell
 * with all that it leads to (descriptors, translations, copies, completions);
 * queueing the messages and taking the completions is not.
 */
#include "fixture.h"

#include <stdlib.h>
#include <time.h>

#define BATCH       8           /* messages a round; half of a queue */
#define WARMUP      16          /* rounds */
#define AT          0x7f1200000000ull
#define CHANNEL     1
#define LEVELS      4
#define BUFFER      (16u << 10)
#define MODES       7

typedef struct Side {
    const char *mode;
    uint8_t op;
    uint8_t flags;
    bool reliable;
    FakeSpace *sender, *receiver;
    FakeEp tx, rx;
    int64_t best;               /* of a round, ns */
} Side;

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* A reliable channel, and all of the receiver's memory behind import 0. */
static void side_export(Side *s, FakeDriver *d, unsigned first)
{
    const struct unetmm_cmd_channel how = { .mtu = BUFFER };
    const uint8_t *mac = d->host->core.params.mac;
    uint64_t bytes = (uint64_t)BATCH * BUFFER;

    fake_channel_rel(&s->tx, CHANNEL, mac, first + 1, CHANNEL, &how);
    fake_channel_rel(&s->rx, CHANNEL, mac, first, CHANNEL, &how);
    fake_region(s->receiver, first, first, AT, bytes, UNETMM_RIGHT_ALL,
                UNETMM_REGION_F_NOTIFY);
    fake_import(&s->tx, 0, CHANNEL, first, first, bytes, UNETMM_RIGHT_ALL);
}

static void side_open(Side *s, FakeDriver *d, unsigned first, uint8_t source)
{
    uint8_t levels = source == UNETMM_SOURCE_TLB ? 0 : LEVELS;
    uint64_t bytes = (uint64_t)BATCH * BUFFER;

    s->sender = fake_space(d, first, source, levels);
    s->receiver = fake_space(d, first + 1, source, levels);
    fake_map(s->sender, AT, bytes, FAKE_RW);
    fake_map(s->receiver, AT, bytes, FAKE_RW);
    fake_ep_open(&s->tx, d, first, s->sender);
    fake_ep_open(&s->rx, d, first + 1, s->receiver);
    if (s->reliable) {
        side_export(s, d, first);
    } else {
        fake_connect(&s->tx, &s->rx, CHANNEL, BUFFER);
    }
    s->best = INT64_MAX;
}

static void send_one(Side *s, uint32_t len, unsigned i)
{
    struct unetmm_sqe sqe = {
        .opcode = s->op, .flags = s->flags, .nsegs = 1, .channel = CHANNEL,
        .cookie = i,
        .seg = { { .addr = AT + i * BUFFER, .len = len } },
    };

    if (s->op == UNETMM_OP_WRITE) {
        sqe.remote = i * BUFFER;
    }
    fake_send_sqe(&s->tx, sqe);
}

/* Everything that a warm TLB or cache does not need to ask for. */
static void settle(FakeDriver *d)
{
    do {
        fake_serve(d);
    } while (fake_run_later(d->host));
}

static void round_of(Side *s, FakeDriver *d, uint32_t len)
{
    struct unetmm_cqe cqe;
    uint8_t arrives = s->op == UNETMM_OP_SEND ? UNETMM_CQE_RECEIVED :
                      UNETMM_CQE_NOTIFY;
    unsigned quiet = s->op == UNETMM_OP_WRITE && !s->flags ? BATCH : 0;
    unsigned received = quiet, sent = 0;
    int64_t start;

    for (unsigned i = 0; i < BATCH; i++) {
        if (s->op == UNETMM_OP_SEND) {
            fake_post(&s->rx, AT + i * BUFFER, BUFFER, i);
        }
    }
    fake_ring_bell(&s->rx);
    settle(d);
    for (unsigned i = 0; i < BATCH; i++) {
        send_one(s, len, i);
    }
    start = now_ns();
    fake_ring_bell(&s->tx);
    fake_run_later(d->host);
    start = now_ns() - start;
    settle(d);
    while (fake_poll(&s->rx, &cqe)) {
        received += cqe.opcode == arrives && cqe.len == len;
    }
    while (fake_poll(&s->tx, &cqe)) {
        sent += cqe.opcode == UNETMM_CQE_SENT && cqe.status == UNETMM_ST_OK;
    }
    if (received != BATCH || sent != BATCH) {
        fprintf(stderr, "bench-core: %u of %u messages sent, %u received\n",
                sent, BATCH, received);
        exit(EXIT_FAILURE);
    }
    s->best = MIN(s->best, start);
}

static const struct {
    Side side;
    uint8_t source;
} modes[MODES] = {
    { { .mode = "tlb", .op = UNETMM_OP_SEND }, UNETMM_SOURCE_TLB },
    { { .mode = "pinned", .op = UNETMM_OP_SEND }, UNETMM_SOURCE_PINNED },
    { { .mode = "reliable send", .op = UNETMM_OP_SEND, .reliable = true },
      UNETMM_SOURCE_PINNED },
    { { .mode = "reliable write", .op = UNETMM_OP_WRITE, .reliable = true },
      UNETMM_SOURCE_PINNED },
    { { .mode = "reliable write, notifying", .op = UNETMM_OP_WRITE,
        .flags = UNETMM_SQE_F_NOTIFY, .reliable = true },
      UNETMM_SOURCE_PINNED },
    { { .mode = "shadow", .op = UNETMM_OP_SEND }, UNETMM_SOURCE_SHADOW },
    { { .mode = "odp", .op = UNETMM_OP_SEND }, UNETMM_SOURCE_ODP },
};

static void measure(uint32_t len, unsigned rounds)
{
    FakeHost h = { 0 };
    FakeDriver d = { 0 };
    Side side[MODES];
    unsigned misses = 0;
    UnetmmParams p;

    fake_params(&p);
    p.endpoints = p.spaces = 2 + 2 * MODES;
    p.tlb_sets = 1024;
    p.cache_entries = 1024;
    p.pretranslate = BATCH;
    p.user_mtu = UNETMM_MAX_PAYLOAD;
    fake_host_init(&h, &p);
    h.unchecked = true;
    fake_driver_init(&d, &h);
    fake_driver_start(&d);
    for (unsigned i = 0; i < MODES; i++) {
        side[i] = modes[i].side;
        side_open(&side[i], &d, 1 + 2 * i, modes[i].source);
    }
    for (unsigned i = 0; i < WARMUP + rounds; i++) {
        for (unsigned j = 0; j < MODES; j++) {
            round_of(&side[(i + j) % MODES], &d, len);
            if (i + 1 == WARMUP) {
                /* A round that waits for a miss does its work elsewhere. */
                side[(i + j) % MODES].best = INT64_MAX;
                misses = d.misses;
            }
        }
    }
    if (d.misses != misses) {
        fprintf(stderr, "bench-core: %u misses in a warm TLB\n",
                d.misses - misses);
        exit(EXIT_FAILURE);
    }
    for (unsigned i = 0; i < MODES; i++) {
        printf("{\"peer\":\"core in-process\",\"mode\":\"%s\","
               "\"metric\":\"cost\",\"bytes\":%u,\"frame\":%u,"
               "\"median\":%.1f,\"p99\":null,\"n\":%u,\"unit\":\"ns\","
               "\"statistic\":\"minimum of rounds\"}\n", side[i].mode, len,
               BUFFER, (double)side[i].best / BATCH, rounds * BATCH);
    }
    fake_driver_free(&d);
    fake_host_free(&h);
}

int main(int argc, char **argv)
{
    unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 2000;

    if (argc > 2 || !rounds) {
        fprintf(stderr, "usage: bench-core [ROUNDS]\n"
                "Prints the cost of a message on the in-process card, in host "
                "nanoseconds, for sources tlb\nand pinned, and on reliable "
                "channels, as one JSON object a line.\n");
        return argc > 1 && !strcmp(argv[1], "--help") ? 0 : 2;
    }
    measure(64, rounds);
    measure(4096, rounds);
    measure(BUFFER, rounds);
    return 0;
}
